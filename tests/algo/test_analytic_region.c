/* Filtered back projection gives a point the same value whatever else is reconstructed with it: any
 * grid, any slab, any number of threads; and what coarser interpolation costs. */
#include "algo/analytic.h" /* first: cmocka makes a macro of fail() */
#include "algo/scene.h"

enum { N = CASE_SLOW ? 24 : 40, LARGE = 160 };

typedef struct {
	tomos_backend *backend;
	tomos_geometry *scan;
	tomos_array data;
	tomos_grid grid;
} Sample;

static const char *const kinds[] = {"slice", "stack", "fan", "cone", "rotated cone"};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

/* A scan of the Shepp-Logan head that fills the field. */
static Sample sample_make(const char *kind, int64_t n, int64_t views)
{
	Sample s;
	int cone = strstr(kind, "cone") != NULL, fan = strcmp(kind, "fan") == 0;
	Distances d;
	tomos_scan_options o = scene_scan(cone ? "cone" : fan ? "fan" : "parallel", n, 1, &d);
	o.views = views;
	o.rows = cone || strcmp(kind, "stack") == 0 ? n : 1;
	double axis = 0.5 * (double)n + 1.3;
	o.axis = &axis, o.axis_count = 1;
	if (strcmp(kind, "rotated cone") == 0)
		o.roll = 0.03, o.slant = -0.05, o.swivel = 0.04;
	OK(tomos_backend_open(&s.backend, test_backend()));
	OK(tomos_geometry_make(&s.scan, &o));
	tomos_phantom_options p = tomos_phantom_defaults();
	p.radius = 0.46 * (double)n / (cone || fan ? 1.5 : 1);
	tomos_phantom *phantom;
	OK(tomos_phantom_named(
		&phantom, o.rows > 1 ? "shepp-logan-modified" : "shepp-logan-2d-modified", &p));
	float *data = malloc((size_t)(views * o.rows * n) * sizeof *data);
	s.data = tomos_array_of(data, views, o.rows, n);
	OK(tomos_phantom_project(phantom, s.scan, 1, &s.data));
	tomos_phantom_free(phantom);
	OK(tomos_grid_centred(&s.grid, n, n, o.rows, 2.2 * p.radius / (double)n));
	return s;
}

static void sample_free(Sample *s)
{
	free(s->data.data);
	tomos_geometry_free(s->scan);
	tomos_backend_close(s->backend);
}

static float *sample_image(const Sample *s, const tomos_grid *grid, const tomos_analytic_options *o)
{
	float *x = malloc((size_t)(grid->n[0] * grid->n[1] * grid->n[2]) * sizeof *x);
	tomos_array image = tomos_array_of(x, grid->n[2], grid->n[1], grid->n[0]);
	OK(tomos_fbp(s->backend, grid, s->scan, &s->data, &image, o, NULL));
	return x;
}

/* ---- grids ----------------------------------------------------------------------------------- */

/* Voxels first, first + every, ... of the whole grid, `every` < 0: backwards. */
typedef struct {
	const char *name;
	int64_t first[3], every[3], n[3];
} Part;

static tomos_grid part_grid(const tomos_grid *whole, const Part *part)
{
	tomos_grid grid;
	for (int a = 0; a < 3; a++) {
		int flat = whole->n[a] == 1;
		grid.n[a] = flat ? 1 : part->n[a];
		grid.step[a] = whole->step[a] * (flat ? 1 : (double)part->every[a]);
		grid.first[a] =
			whole->first[a] + (flat ? 0 : (double)part->first[a]) * whole->step[a];
	}
	return grid;
}

/* The largest difference at voxels that both grids have, relative to the largest value. */
static double part_difference(const tomos_grid *whole, const float *all, const Part *part,
	const tomos_grid *grid, const float *some)
{
	double worst = 0, largest = 0;
	for (int64_t i = 0; i < grid->n[0] * grid->n[1] * grid->n[2]; i++) {
		int64_t at[3] = {
			i % grid->n[0], i / grid->n[0] % grid->n[1], i / grid->n[0] / grid->n[1]};
		int inside = 1;
		for (int a = 0; a < 3; a++) {
			at[a] = whole->n[a] == 1 ? 0 : part->first[a] + at[a] * part->every[a];
			inside = inside && at[a] >= 0 && at[a] < whole->n[a];
		}
		if (!inside)
			continue;
		double there = all[(at[2] * whole->n[1] + at[1]) * whole->n[0] + at[0]];
		worst = fmax(worst, fabs(some[i] - there));
	}
	for (int64_t i = 0; i < whole->n[0] * whole->n[1] * whole->n[2]; i++)
		largest = fmax(largest, fabs(all[i]));
	return worst / largest;
}

static const Part parts[] = {
	{"a box inside", {5, 3, 4}, {1, 1, 1}, {11, 14, 7}},
	{"one voxel", {N / 3, N / 2, 9}, {1, 1, 1}, {1, 1, 1}},
	{"every second voxel", {0, 1, 0}, {2, 2, 2}, {N / 2, N / 2, N / 2}},
	{"every third, fifth, second", {1, 0, 1}, {3, 5, 2}, {N / 3, N / 5, N / 2}},
	{"seen from the other side", {N - 1, N - 2, N - 1}, {-1, -1, -1}, {N - 1, N - 2, N - 1}},
	{"beyond the edges", {-9, N / 2, -3}, {1, 1, 1}, {N, N, 9}},
	{"one slice", {0, 0, N / 2 + 1}, {1, 1, 1}, {N, N, 1}},
};

static void points_do_not_depend_on_the_grid(void **state)
{
	(void)state;
	for (int k = 0; k < KINDS; k++) {
		Sample s = sample_make(kinds[k], N, 2 * N);
		float *all = sample_image(&s, &s.grid, NULL);
		double worst = 0;
		for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
			tomos_grid grid = part_grid(&s.grid, &parts[i]);
			float *some = sample_image(&s, &grid, NULL);
			double difference = part_difference(&s.grid, all, &parts[i], &grid, some);
			if (!(difference < 1e-5))
				fail_msg("%s, %s: differs by %g", kinds[k], parts[i].name,
					difference);
			worst = fmax(worst, difference);
			free(some);
		}
		printf("  %-12s differs by %.1e of the largest value at most\n", kinds[k], worst);
		free(all);
		sample_free(&s);
	}
}

/* The volume in slabs of every thickness, one call each. */
static void slabs_give_the_same(void **state)
{
	(void)state;
	for (int k = 0; k < KINDS; k++) {
		Sample s = sample_make(kinds[k], N, N);
		float *all = sample_image(&s, &s.grid, NULL);
		for (int64_t thick = 1; thick < s.grid.n[2]; thick = 2 * thick + 3) {
			for (int64_t z = 0; z < s.grid.n[2]; z += thick) {
				Part part = {"slab", {0, 0, z}, {1, 1, 1}, {N, N, thick}};
				tomos_grid grid = part_grid(&s.grid, &part);
				float *some = sample_image(&s, &grid, NULL);
				assert_true(
					part_difference(&s.grid, all, &part, &grid, some) < 1e-5);
				free(some);
			}
		}
		free(all);
		sample_free(&s);
	}
}

/* ---- threads --------------------------------------------------------------------------------- */

static void threads_give_the_same_bits(void **state)
{
	(void)state;
	static const int threads[] = {1, 2, 7};
	tomos_analytic_options choices[4];
	for (int i = 0; i < 4; i++)
		choices[i] = tomos_analytic_defaults();
	choices[1].padding = "smooth", choices[1].filter = "hann";
	choices[2].filter_taps = 9;
	choices[3].interpolation = "oversampled", choices[3].padding = "edge";
	for (int k = 0; k < KINDS; k++) {
		Sample s = sample_make(kinds[k], N, N + 1);
		int64_t voxels = s.grid.n[0] * s.grid.n[1] * s.grid.n[2];
		for (int i = 0; i < 4; i++) {
			float *images[3];
			for (int t = 0; t < 3; t++) {
				OK(tomos_set_threads(threads[t]));
				images[t] = sample_image(&s, &s.grid, &choices[i]);
			}
			for (int t = 1; t < 3; t++)
				if (memcmp(images[0], images[t], (size_t)voxels * sizeof(float)) !=
					0)
					fail_msg("%s, choice %d: %d threads differ from one",
						kinds[k], i, threads[t]);
			for (int t = 0; t < 3; t++)
				free(images[t]);
		}
		sample_free(&s);
	}
	OK(tomos_set_threads(0));
}

/* ---- interpolation and taps ------------------------------------------------------------------ */

static float *sample_truth(const Sample *s)
{
	int64_t n = s->grid.n[0];
	tomos_phantom_options p = tomos_phantom_defaults();
	p.radius = (double)n * fabs(s->grid.step[0]) / 2.2;
	tomos_phantom *phantom;
	OK(tomos_phantom_named(&phantom, "shepp-logan-2d-modified", &p));
	float *x = malloc((size_t)(n * n) * sizeof *x);
	tomos_array image = tomos_array_of(x, 1, n, n);
	OK(tomos_phantom_volume(phantom, &s->grid, 4, &image));
	tomos_phantom_free(phantom);
	return x;
}

/* How far a coarser interpolation is from linear; both, and linear, beside the truth. The numbers
 * of doc/methods.md. */
static double interpolation_cost(
	const Sample *s, const float *linear, const float *truth, const char *name)
{
	int64_t n = s->grid.n[0];
	tomos_analytic_options o = tomos_analytic_defaults();
	o.interpolation = name;
	float *image = sample_image(s, &s->grid, &o);
	double difference = case_difference(image, linear, n * n);
	double error = case_difference(image, truth, n * n),
	       best = case_difference(linear, truth, n * n);
	printf("  %-12s %.4f from linear; from the truth %.4f, linear %.4f\n", name, difference,
		error, best);
	assert_true(error < 1.05 * hypot(best, difference));
	free(image);
	return difference;
}

/* Errors come from edges, so they fall with the root of the size; four samples per column make a
 * quarter of them. */
static void coarse_interpolation(void **state)
{
	(void)state;
	static const char *const of[] = {"slice", "fan"};
	for (int k = 0; k < 2; k++)
		for (int64_t n = LARGE / 2; n <= LARGE; n *= 2) {
			printf("%s, %lld columns:\n", of[k], (long long)n);
			Sample s = sample_make(of[k], n, 3 * n / 2);
			float *linear = sample_image(&s, &s.grid, NULL), *truth = sample_truth(&s);
			double fine = interpolation_cost(&s, linear, truth, "oversampled");
			double coarse = interpolation_cost(&s, linear, truth, "nearest");
			assert_true(fine < 0.6 / sqrt((double)n));
			assert_true(coarse > 3 * fine && coarse < 5 * fine);
			free(linear), free(truth);
			sample_free(&s);
		}
}

/* As many taps as a row has are the whole kernel. */
static void all_taps_are_the_whole_filter(void **state)
{
	(void)state;
	for (int k = 0; k < KINDS; k++) {
		Sample s = sample_make(kinds[k], N, N);
		int64_t voxels = s.grid.n[0] * s.grid.n[1] * s.grid.n[2];
		tomos_analytic_options o = tomos_analytic_defaults();
		o.filter = "shepp-logan";
		float *fast = sample_image(&s, &s.grid, &o);
		o.filter_taps = 2 * N;
		float *direct = sample_image(&s, &s.grid, &o);
		assert_true(case_difference(direct, fast, voxels) < 3e-6);
		o.filter_taps = 3;
		float *few = sample_image(&s, &s.grid, &o);
		assert_true(case_difference(few, fast, voxels) > 1e-2);
		free(fast), free(direct), free(few);
		sample_free(&s);
	}
}

#define TESTS(T) \
	T(points_do_not_depend_on_the_grid), T(slabs_give_the_same), \
		T(threads_give_the_same_bits), T(coarse_interpolation), \
		T(all_taps_are_the_whole_filter)
TEST_MAIN(TESTS, NULL, NULL)
