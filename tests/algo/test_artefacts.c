/* Artefacts of laboratory scans: cupping by beam hardening and scatter, Hounsfield units, and
 * metal, on scans with a polychromatic beam in closed form. */
#include "algo/spectrum.h"

#define PIXEL 1.2 /* at the axis */

typedef struct {
	tomos_backend *backend;
	tomos_geometry *scan;
	tomos_grid grid;
	tomos_array data, image;
	int64_t n;
} Lab;

static double arc_of(const char *kind)
{
	return strcmp(kind, "short") == 0 ? 220 * M_PI / 180 : 0;
}

/* kind: parallel, fan, cone, or short for a short fan-beam scan. */
static Lab lab_make(const char *kind)
{
	static const double near = 500, far = 750;
	Lab l = {.n = case_slow() ? 140 : 160};
	bool parallel = strcmp(kind, "parallel") == 0, cone = strcmp(kind, "cone") == 0;
	tomos_scan_options o = tomos_scan_defaults();
	double pixel = PIXEL * 200 / (double)l.n;
	o.geometry = parallel || cone ? kind : "fan";
	o.columns = l.n, o.views = 2 * l.n, o.rows = cone ? 5 : 1;
	o.pixel = pixel * (parallel ? 1 : far / near);
	o.arc = arc_of(kind);
	if (!parallel) {
		o.source_axis = &near, o.source_axis_count = 1;
		o.source_detector = &far, o.source_detector_count = 1;
	}
	OK(tomos_backend_open(&l.backend, test_backend()));
	OK(tomos_geometry_make(&l.scan, &o));
	OK(tomos_grid_centred(&l.grid, l.n, l.n, 1, pixel));
	l.data = tomos_array_of(
		malloc((size_t)(o.views * o.rows * l.n) * sizeof(float)), o.views, o.rows, l.n);
	l.image = tomos_array_of(malloc((size_t)(l.n * l.n) * sizeof(float)), 1, l.n, l.n);
	return l;
}

static void lab_free(Lab *l)
{
	free(l->data.data), free(l->image.data);
	tomos_geometry_free(l->scan);
	tomos_backend_close(l->backend);
}

static void lab_reconstruct(Lab *l, const char *metal)
{
	tomos_analytic_options how = tomos_analytic_defaults();
	how.filter = "hann";
	how.metal = metal;
	OK(tomos_fbp(l->backend, &l->grid, l->scan, &l->data, &l->image, &how, NULL));
}

/* Distance from the middle of a body, 1 at its edge. */
static double place_in(const Lab *l, const Body *b, int64_t i)
{
	double x = l->grid.first[0] + (double)(i % l->n) * l->grid.step[0];
	double y = l->grid.first[1] + (double)(i / l->n) * l->grid.step[1];
	return hypot((x - b->x) / b->a, (y - b->y) / b->b);
}

/* Mean between two such distances. */
static double ring_mean(const Lab *l, const Body *b, double low, double high)
{
	double sum = 0, count = 0;
	for (int64_t i = 0; i < l->n * l->n; i++) {
		double r = place_in(l, b, i);
		if (r >= low && r < high)
			sum += (double)l->image.data[i], count++;
	}
	return sum / count;
}

static double cupping(const Lab *l, const Body *b)
{
	double rim = ring_mean(l, b, 0.87, 0.95);
	return (rim - ring_mean(l, b, 0, 0.25)) / rim;
}

/* ---- beam hardening -------------------------------------------------------------------------- */

static void harden(Lab *l, const double *list, int64_t count)
{
	tomos_prep_options prep = tomos_prep_defaults();
	prep.hardening = list, prep.hardening_count = count;
	OK(tomos_prep_hardening(&l->data, &prep, NULL));
}

static void objects_become_uniform(void **state)
{
	static const char *const kinds[] = {"parallel", "fan", "short", "cone"};
	static const Body bodies[] = {{0, 0, 100, 100, WATER, WATER}, {8, -6, 95, 60, WATER, WATER},
		{0, 0, 40, 40, ALUMINIUM, ALUMINIUM}, {-5, 4, 100, 90, PLASTIC, PLASTIC}};
	(void)state;
	spectrum_soft = true;
	for (int i = 0; i < 16; i++) {
		const Body *b = &bodies[i % 4];
		Lab l = lab_make(kinds[i / 4]);
		double list[4], quality[2];
		spectrum_project(b, 1, l.scan, &l.data);
		if (i % 3 == 1)
			OK(tomos_noise_gaussian(&l.data, 0.01, 5));
		lab_reconstruct(&l, "none");
		double before = cupping(&l, b);
		OK(tomos_hardening_find(list, 4, quality, l.backend, l.scan, &l.data));
		harden(&l, list, 4);
		lab_reconstruct(&l, "none");
		double after = cupping(&l, b);
		print_message("%s, body %d: cupping %.1f %%, then %.2f %%\n", kinds[i / 4], i % 4,
			100 * before, 100 * after);
		assert_true(before > (i % 4 == 0 ? 0.14 : 0.05) && fabs(after) < 0.015);
		assert_true(quality[1] < quality[0]);
		lab_free(&l);
	}
	spectrum_soft = false;
}

/* A second material inside does not bend the first. */
static void inserts_stay(void **state)
{
	static const Body bodies[] = {{0, 0, 100, 100, WATER, WATER}, {40, 0, 10, 10, BONE, WATER},
		{-30, 30, 8, 8, BONE, WATER}, {0, -50, 6, 6, ALUMINIUM, WATER}};
	Lab l = lab_make("fan");
	double list[4];
	(void)state;
	spectrum_project(bodies, 4, l.scan, &l.data);
	OK(tomos_hardening_find(list, 4, NULL, NULL, l.scan, &l.data));
	harden(&l, list, 4);
	lab_reconstruct(&l, "none");
	print_message("with inserts: cupping %.2f %%\n", 100 * cupping(&l, &bodies[0]));
	assert_true(fabs(cupping(&l, &bodies[0])) < 0.03);
	assert_true(ring_mean(&l, &bodies[1], 0, 0.5) > 1.5 * ring_mean(&l, &bodies[0], 0, 0.2));
	lab_free(&l);
}

/* The line integral behind that thickness of a material. */
static double behind(Material material, double thickness)
{
	double sum = 0, all = 0;
	for (int i = 0; i < ENERGIES; i++) {
		double energy, weight = spectrum_weight(i, &energy);
		sum += weight * exp(-thickness * attenuation_at(material, energy));
		all += weight;
	}
	return -log(sum / all);
}

static void wedges_make_proportional(void **state)
{
	static const double steps[] = {10, 25, 50, 100, 150, 200};
	double pairs[12], list[3];
	Body body = {5, 0, 95, 80, WATER, WATER};
	Lab l = lab_make("fan");
	(void)state;
	for (int i = 0; i < 6; i++)
		pairs[2 * i] = steps[i], pairs[2 * i + 1] = behind(WATER, steps[i]);
	OK(tomos_hardening_wedge(list, 3, pairs, 12));
	assert_true(list[0] == 1);
	for (int i = 0; i < 6; i++) {
		double p = pairs[2 * i + 1], f = p * (list[0] + p * (list[1] + p * list[2]));
		assert_true(fabs(f / steps[i] / (list[0] * behind(WATER, 0.1) / 0.1) - 1) < 0.03);
	}
	tomos_prep_options prep = tomos_prep_defaults();
	prep.wedge = pairs, prep.wedge_count = 12;
	spectrum_project(&body, 1, l.scan, &l.data);
	OK(tomos_prep_hardening(&l.data, &prep, NULL));
	lab_reconstruct(&l, "none");
	print_message("wedge: cupping %.2f %%\n", 100 * cupping(&l, &body));
	assert_true(fabs(cupping(&l, &body)) < 0.015);
	lab_free(&l);
}

static void wrong_wedges(void **state)
{
	double list[3];
	(void)state;
	REJECTED(tomos_hardening_wedge(list, 3, (double[]){1, 0.5, 2}, 3), TOMOS_BAD_VALUE,
		"wedge has 3 values");
	REJECTED(tomos_hardening_wedge(list, 3, (double[]){1, 0.5, 2, -1}, 4), TOMOS_BAD_VALUE,
		"the line integral of step 1 is -1");
	REJECTED(tomos_hardening_wedge(list, 3, (double[]){2, 0.5, 1, 0.75, 4, 0.25}, 6),
		TOMOS_BAD_VALUE,
		"wedge: the line integrals do not grow with the thickness: 0.75 behind 1, 0.25 "
		"behind 4");
	REJECTED(tomos_hardening_wedge(list, 3, (double[]){2, 0.5, 2, 0.75}, 4), TOMOS_BAD_VALUE,
		"wedge: all 2 steps have the thickness 2; it takes two thicknesses or more");
	REJECTED(tomos_hardening_wedge(list, 4, (double[]){1, 0.5, 2, 1}, 4), TOMOS_BAD_VALUE,
		"4 coefficients of a polynomial: 1 to 3");
}

/* ---- scatter and Hounsfield units ------------------------------------------------------------ */

static void scatter_is_found(void **state)
{
	static const tomos_ellipsoid body = {
		.centre = {5, 0, 0}, .axes = {95, 80, INFINITY}, .value = 0.0206};
	(void)state;
	for (int i = 0; i < 2; i++) {
		Lab l = lab_make(i ? "cone" : "parallel");
		tomos_phantom *phantom;
		double scatter, share = i ? 0.01 : 0.008;
		int64_t values = l.data.shape[0] * l.data.shape[1] * l.n;
		OK(tomos_phantom_ellipsoids(&phantom, &body, 1));
		OK(tomos_phantom_project(phantom, l.scan, 1, &l.data));
		for (int64_t k = 0; k < values; k++)
			l.data.data[k] =
				(float)-log((1 - share) * exp(-(double)l.data.data[k]) + share);
		OK(tomos_scatter_find(&scatter, NULL, l.backend, l.scan, &l.data));
		print_message("scatter %g, found %.5f\n", share, scatter);
		assert_true(fabs(scatter / share - 1) < 0.1);
		tomos_phantom_free(phantom);
		lab_free(&l);
	}
}

static void scatter_is_subtracted(void **state)
{
	float t[2] = {0.5F, 0.19F};
	const tomos_array data = tomos_array_of(t, 1, 1, 2);
	tomos_prep_options prep = tomos_prep_defaults();
	(void)state;
	prep.scatter = 0.1;
	OK(tomos_prep_scatter(&data, &prep, NULL));
	assert_true(fabsf(t[0] - 0.4F / 0.9F) < 1e-6F && fabsf(t[1] - 0.1F) < 1e-6F);
	prep.scatter = NAN;
	REJECTED(tomos_prep_scatter(&data, &prep, NULL), TOMOS_BAD_VALUE,
		"scatter auto is found from a whole scan");
	prep.scatter = 0.95;
	REJECTED(tomos_prep_scatter(&data, &prep, NULL), TOMOS_BAD_VALUE, "scatter 0.95");
}

/* Water of one scan gives the units of another. */
static void water_is_zero(void **state)
{
	static const Body known = {0, 0, 90, 90, WATER, WATER}, body = {6, 4, 95, 70, WATER, WATER};
	static const double steps[] = {20, 60, 120, 200};
	double pairs[8], water = 0;
	(void)state;
	for (int i = 0; i < 4; i++)
		pairs[2 * i] = steps[i], pairs[2 * i + 1] = behind(WATER, steps[i]);
	tomos_prep_options prep = tomos_prep_defaults();
	prep.wedge = pairs, prep.wedge_count = 8;
	for (int i = 0; i < 2; i++) {
		const Body *b = i ? &body : &known;
		Lab l = lab_make(i ? "cone" : "fan");
		spectrum_project(b, 1, l.scan, &l.data);
		OK(tomos_prep_hardening(&l.data, &prep, NULL));
		lab_reconstruct(&l, "none");
		if (i == 0) {
			water = ring_mean(&l, b, 0, 0.8);
		} else {
			OK(tomos_hounsfield(&l.image, water, 0));
			double inside = ring_mean(&l, b, 0, 0.9), air = ring_mean(&l, b, 1.08, 1.2);
			print_message("water %.1f HU, air %.1f HU\n", inside, air);
			assert_true(fabs(inside) < 5 && fabs(air + 1000) < 10);
		}
		lab_free(&l);
	}
	float one = 0;
	const tomos_array volume = tomos_array_of(&one, 1, 1, 1);
	REJECTED(tomos_hounsfield(&volume, 0.01, 0.02), TOMOS_BAD_VALUE,
		"the attenuation of water must be larger than that of air");
}

/* ---- metal ----------------------------------------------------------------------------------- */

typedef struct {
	const char *kind;
	Body bodies[5];
	int count; /* the first is the object, the last `rods` are metal */
	int rods;
} Rods;

/* Root mean square difference within 30 mm of the rods, and outside them. */
static double error_around(const Lab *l, const Rods *c, const float *truth)
{
	double squares = 0, count = 0;
	for (int64_t i = 0; i < l->n * l->n; i++) {
		bool near = false, in = false;
		for (int k = c->count - c->rods; k < c->count; k++) {
			Body wide = c->bodies[k], touched = wide;
			wide.a = wide.b = 30;
			touched.a += 4, touched.b += 4;
			near = near || place_in(l, &wide, i) < 1;
			in = in || place_in(l, &touched, i) < 1;
		}
		if (near && !in && place_in(l, &c->bodies[0], i) < 0.95) {
			double d = (double)l->image.data[i] - (double)truth[i];
			squares += d * d, count++;
		}
	}
	return sqrt(squares / count);
}

static void metal_leaves_less(void **state)
{
	static const Rods cases[] = {
		{"parallel",
			{{0, 0, 90, 70, WATER, WATER}, {0, 35, 9, 9, BONE, WATER},
				{5, -40, 7, 10, BONE, WATER}, {-35, 5, 5, 5, STEEL, WATER},
				{30, -10, 5, 5, STEEL, WATER}},
			5, 2},
		{"fan",
			{{5, 0, 85, 85, WATER, WATER}, {-30, 0, 4, 4, STEEL, WATER},
				{30, 0, 4, 4, STEEL, WATER}},
			3, 2},
		{"short",
			{{0, 0, 80, 80, WATER, WATER}, {-30, -20, 10, 10, BONE, WATER},
				{20, 20, 8, 6, STEEL, WATER}},
			3, 1},
		{"cone",
			{{0, 0, 90, 70, WATER, WATER}, {0, 35, 9, 9, BONE, WATER},
				{-35, 5, 5, 5, STEEL, WATER}, {30, -10, 5, 5, STEEL, WATER}},
			4, 2}};
	(void)state;
	for (int i = 0; i < 8; i++) {
		const Rods *c = &cases[i % 4];
		Lab l = lab_make(c->kind);
		spectrum_soft = i >= 4;
		size_t bytes = (size_t)(l.n * l.n) * sizeof(float);
		float *truth = malloc(bytes);
		spectrum_project(c->bodies, c->count - c->rods, l.scan, &l.data);
		lab_reconstruct(&l, "none");
		memcpy(truth, l.image.data, bytes);
		spectrum_project(c->bodies, c->count, l.scan, &l.data);
		OK(tomos_noise_poisson(&l.data, 2e5, 9));
		lab_reconstruct(&l, "none");
		double plain = error_around(&l, c, truth);
		lab_reconstruct(&l, "nmar");
		double less = error_around(&l, c, truth);
		const Body *rod = &c->bodies[c->count - 1];
		print_message("%s: error around metal %.5f, then %.5f\n", c->kind, plain, less);
		assert_true(less < plain / 3);
		/* The metal itself stays. */
		assert_true(ring_mean(&l, rod, 0, 0.6) > 5 * ring_mean(&l, &c->bodies[0], 0, 0.1));
		free(truth);
		lab_free(&l);
	}
	spectrum_soft = false;
}

/* The polynomial is that of the object, however many rays pass through metal. */
static void metal_is_no_cupping(void **state)
{
	static const Body bodies[] = {{0, 0, 90, 70, WATER, WATER}, {-35, 5, 9, 9, STEEL, WATER},
		{30, -10, 9, 9, STEEL, WATER}};
	Lab l = lab_make("fan");
	double list[4];
	(void)state;
	for (int soft = 0; soft < 2; soft++) {
		spectrum_soft = soft;
		spectrum_project(bodies, 3, l.scan, &l.data);
		OK(tomos_noise_poisson(&l.data, 2e5, 9));
		OK(tomos_hardening_find(list, 4, NULL, l.backend, l.scan, &l.data));
		harden(&l, list, 4);
		lab_reconstruct(&l, "nmar");
		print_message("with metal: cupping %.2f %%\n", 100 * cupping(&l, &bodies[0]));
		assert_true(fabs(cupping(&l, &bodies[0])) < 0.01);
	}
	spectrum_soft = false;
	lab_free(&l);
}

/* A head in a dense skull, which all rays pass through: nothing is replaced. The polynomial would
 * make it less uniform, and is not taken. */
static void shell_is_no_metal(void **state)
{
	enum { COLUMNS = 128, VIEWS = 150 };
	double angles[VIEWS], list[4], quality[2];
	tomos_geometry *scan;
	tomos_phantom *head;
	tomos_array data =
		tomos_array_of(malloc(VIEWS * COLUMNS * sizeof(float)), VIEWS, 1, COLUMNS);
	(void)state;
	for (int i = 0; i < VIEWS; i++)
		angles[i] = 2 * M_PI * i / VIEWS;
	OK(tomos_geometry_cone(&scan, 1, COLUMNS, 0.027, 5, 8, angles, VIEWS));
	OK(tomos_phantom_named(&head, "shepp-logan-modified", NULL));
	OK(tomos_phantom_project(head, scan, 1, &data));
	OK(tomos_hardening_find(list, 4, quality, NULL, scan, &data));
	assert_true(quality[1] <= quality[0]);
	free(data.data);
	tomos_phantom_free(head);
	tomos_geometry_free(scan);
}

/* Balls of several materials, in a beam that does not harden: nothing is corrected. */
static void mixtures_stay(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 4; seed++) {
		Lab l = lab_make("parallel");
		tomos_phantom_options o = tomos_phantom_defaults();
		tomos_phantom *balls;
		double list[4], quality[2];
		o.count = 15, o.radius = 100, o.value = 0.01, o.seed = (int64_t)seed;
		OK(tomos_phantom_named(&balls, "random", &o));
		OK(tomos_phantom_project(balls, l.scan, 1, &l.data));
		OK(tomos_hardening_find(list, 4, quality, l.backend, l.scan, &l.data));
		assert_true(list[0] == 1 && list[1] == 0 && list[2] == 0 && list[3] == 0);
		assert_true(quality[0] > 0.05 && quality[1] == quality[0]);
		tomos_phantom_free(balls);
		lab_free(&l);
	}
}

/* Without metal, and with a threshold above all values, nothing changes. */
static void nothing_without_metal(void **state)
{
	static const Body body = {0, 0, 90, 70, WATER, WATER};
	Lab l = lab_make("parallel");
	(void)state;
	spectrum_project(&body, 1, l.scan, &l.data);
	lab_reconstruct(&l, "none");
	double before = ring_mean(&l, &body, 0, 0.9);
	lab_reconstruct(&l, "nmar");
	assert_true(before == ring_mean(&l, &body, 0, 0.9));
	tomos_analytic_options how = tomos_analytic_defaults();
	how.metal = "nmar", how.metal_threshold = -1;
	REJECTED(tomos_fbp(l.backend, &l.grid, l.scan, &l.data, &l.image, &how, NULL),
		TOMOS_BAD_VALUE, "metal_threshold -1");
	how.metal_threshold = 0;
	REJECTED(tomos_fbp_transpose(l.backend, &l.grid, l.scan, &l.image, &l.data, &how, NULL),
		TOMOS_UNSUPPORTED, "not available with the reduction of metal artefacts");
	lab_free(&l);
}

#define TESTS(T) \
	T(objects_become_uniform), T(inserts_stay), T(wedges_make_proportional), T(wrong_wedges), \
		T(scatter_is_found), T(scatter_is_subtracted), T(water_is_zero), \
		T(metal_leaves_less), T(metal_is_no_cupping), T(shell_is_no_metal), \
		T(mixtures_stay), T(nothing_without_metal)
TEST_MAIN(TESTS, NULL, NULL)
