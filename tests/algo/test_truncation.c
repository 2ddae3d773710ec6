/* Objects wider than the detector: rows continued by the ellipse that fits them. */
#include "algo/scene.h"

/* A cylinder, `wide` times as wide as the detector sees at the axis, and its slice as far as that
 * is in all views. */
typedef struct {
	const char *geometry;
	double wide, flat; /* flat: the second axis relative to the first */
	double off;        /* of the centre, relative to what the detector sees */
	double arc;        /* degrees; 0: the default */
	double noise;      /* standard deviation relative to the largest value */
	double slant;      /* of the detector, in degrees */
} Wide;

typedef struct {
	double mean, rim,
		rough; /* relative errors: of all, near the edge; deviation from the mean */
} Errors;

/* Relative errors of a slice, of voxels inside the body and the field of view. */
static Errors measure(const Scene *s, double reach)
{
	Errors e = {0};
	int64_t n = s->grid.n[0], inside = 0, near = 0;
	const tomos_ellipsoid *b = &s->body;
	double squares = 0;
	for (int64_t i = 0; i < n * n; i++) {
		double x = s->grid.first[0] + (double)(i % n) * s->grid.step[0];
		double y = s->grid.first[1] + (double)(i / n) * s->grid.step[1];
		double p = (x - b->centre[0]) / b->axes[0], q = (y - b->centre[1]) / b->axes[1];
		double error = (double)s->image.data[i] / b->value - 1, r = hypot(x, y) / reach;
		if (p * p + q * q > 0.9 || r > 0.94)
			continue;
		e.mean += error, squares += error * error, inside++;
		if (r > 0.86)
			e.rim += error, near++;
	}
	e.mean /= (double)inside, e.rim /= (double)(near ? near : 1);
	e.rough = sqrt(squares / (double)inside - e.mean * e.mean);
	return e;
}

static Errors reconstruct(const Wide *w, const char *padding)
{
	int64_t n = case_slow() ? 64 : 128;
	Distances d;
	tomos_scan_options o = scene_scan(w->geometry, n, 1, &d);
	o.rows = o.rows > 1 ? 9 : 1;
	o.arc = w->arc * M_PI / 180;
	o.slant = o.swivel = w->slant * M_PI / 180;
	Scene s = scene_make(&o);
	double reach = scene_reach(&o), radius = w->wide * reach;
	s.body = (tomos_ellipsoid){.centre = {w->off * reach, -0.5 * w->off * reach, 0},
		.axes = {radius, w->flat * radius, INFINITY},
		.value = 0.02};
	tomos_phantom *phantom;
	OK(tomos_phantom_ellipsoids(&phantom, &s.body, 1));
	OK(tomos_phantom_project(phantom, s.scan, 1, &s.data));
	if (w->noise > 0)
		OK(tomos_noise_gaussian(&s.data, w->noise, 7));
	OK(tomos_grid_centred(&s.grid, n, n, 1, 2 * reach / (double)n));
	tomos_analytic_options how = tomos_analytic_defaults();
	how.padding = padding;
	how.filter = "hann";
	OK(tomos_fbp(s.backend, &s.grid, s.scan, &s.data, &s.image, &how, NULL));
	Errors e = measure(&s, reach);
	tomos_phantom_free(phantom);
	scene_free(&s);
	return e;
}

/* Without continued rows the rim is tens of per cent too high. */
static void wide_objects(void **state)
{
	static const Wide cases[] = {{"parallel", 1.5, 1, 0, 0, 0, 0}, {"fan", 1.5, 1, 0, 0, 0, 0},
		{"cone", 1.5, 1, 0, 0, 0, 0}, {"parallel", 3, 1, 0, 0, 0, 0},
		{"parallel", 1.8, 0.55, 0, 0, 0, 0}, {"parallel", 1.3, 1, 0.4, 0, 0.01, 0},
		{"fan", 1.4, 0.8, 0.2, 0, 0.01, 0}, {"fan", 1.5, 1, 0, 240, 0, 0},
		{"cone", 1.3, 1, 0.2, 230, 0, 0}, {"cone", 1.5, 1, 0, 0, 0, 3}};
	(void)state;
	for (int i = 0; i < (int)(sizeof cases / sizeof cases[0]); i++) {
		const Wide *w = &cases[i];
		Errors zero = reconstruct(w, "zero"), e = reconstruct(w, "ellipse");
		print_message(
			"%s %g x %g: mean %+.2f %% (%+.0f %% without), rim %+.2f %% (%+.0f %%), "
			"deviation %.2f %%\n",
			w->geometry, w->wide, w->flat, 100 * e.mean, 100 * zero.mean, 100 * e.rim,
			100 * zero.rim, 100 * e.rough);
		assert_true(zero.mean > 0.05 && zero.rim > 0.2);
		assert_true(fabs(e.mean) < 0.01 && fabs(e.rim) < 0.02);
		assert_true(e.rough < 0.03 + 6 * w->noise);
	}
}

/* An object inside the detector is reconstructed as without the option. */
static void objects_inside(void **state)
{
	static const Wide inside = {"fan", 0.7, 0.6, 0.2, 0, 0, 0};
	(void)state;
	Errors zero = reconstruct(&inside, "zero"), e = reconstruct(&inside, "ellipse");
	assert_true(fabs(zero.mean - e.mean) < 1e-6 && fabs(zero.rough - e.rough) < 1e-6);
}

#define TESTS(T) T(wide_objects), T(objects_inside)
TEST_MAIN(TESTS, NULL, NULL)
