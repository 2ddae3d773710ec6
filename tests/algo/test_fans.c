/* Stacks of fans, each detector row in a slice of its own: against single slices one by one, for
 * every projector, and the reference kernel, filtered back projection of full and short scans,
 * offset and swivelled detectors; and what is rejected. */
#include "backend/backend.h" /* first: cmocka makes a macro of fail() */
#include "ops/opened.h"

typedef struct {
	const char *name;
	int64_t n[3], rows, columns, views;
	double pixel, arc, swivel, off_axis;
	int64_t shift; /* rows by which slice 0 lies above row 0 */
} Stack;

static const Stack stacks[] = {
	{"two slices", {17, 23, 2}, 2, 29, 6, 1.4, 6.28318530718, 0, 0.2, 0},
	{"odd", {41, 37, 33}, 33, 53, 37, 1.5, 6.28318530718, 0, -0.3, 0},
	{"short scan", {32, 32, 16}, 16, 64, 40, 1.2, 4.4, 0, 0, 0},
	{"odd, few views", {41, 37, 33}, 33, 53, 23, 1.5, 6.28318530718, 0, -0.3, 0},
	{"near, large pixels", {70, 45, 17}, 17, 131, 33, 1.2, 6.28318530718, 0.1, 0.3, 0},
	{"swivelled", {24, 24, 9}, 9, 48, 24, 1.4, 6.28318530718, 0.2, 0.1, 0},
	{"offset", {33, 32, 11}, 11, 35, 24, 1.5, 6.28318530718, 0, 9, 0},
	{"fewer slices than rows", {21, 20, 10}, 17, 35, 11, 1.5, 6.28318530718, 0, 0, 4},
	{"more columns than are kept", {40, 36, 5}, 5, 90, 10, 0.8, 6.28318530718, 0, 0, 0},
	{"fine columns", {20, 21, 8}, 8, 101, 9, 0.4, 6.28318530718, 0, 0, 0},
};
enum { STACKS = sizeof stacks / sizeof stacks[0], MOST_VIEWS = 64 };

/* The axis moves a little in each view, but where that would not be filtered as it is. */
static tomos_geometry *make_scan(const Stack *s, int64_t rows, double axis_row)
{
	double near = 90, far = 130, axis[MOST_VIEWS];
	tomos_geometry *scan;
	tomos_scan_options o = tomos_scan_defaults();
	for (int64_t i = 0; i < s->views; i++)
		axis[i] = 0.5 * (double)(s->columns - 1) + s->off_axis +
			  (s->off_axis > 1 ? 0 : 0.1 * (double)(i % 3));
	o.geometry = "fan";
	o.rows = rows, o.columns = s->columns;
	o.views = s->views;
	o.pixel = s->pixel, o.pixel_height = 1;
	o.arc = s->arc;
	o.swivel = s->swivel;
	o.source_axis = &near, o.source_axis_count = 1;
	o.source_detector = &far, o.source_detector_count = 1;
	o.axis = axis, o.axis_count = s->views;
	o.axis_row = &axis_row, o.axis_row_count = 1;
	OK(tomos_geometry_make(&scan, &o));
	return scan;
}

/* A stack, and one of its slices. */
typedef struct {
	const Stack *s;
	tomos_geometry *scan, *slice_scan;
	tomos_grid grid, slice_grid;
	int64_t per_slice, pixels;  /* of one slice */
	float *x, *y, *Ax, *Ay;     /* volumes [z][y][x], projections [view][row][column] */
	float *x1, *y1, *Ax1, *Ay1; /* of one slice */
} Pair;

static Pair pair_make(const Stack *s)
{
	Pair p = {.s = s};
	Case c = {.state = (uint64_t)s->columns};
	p.scan = make_scan(s, s->rows, 0.5 * (double)(s->n[2] - 1) + (double)s->shift);
	p.slice_scan = make_scan(s, 1, 0);
	OK(tomos_grid_centred(&p.grid, s->n[0], s->n[1], s->n[2], 1));
	OK(tomos_grid_centred(&p.slice_grid, s->n[0], s->n[1], 1, 1));
	p.per_slice = s->n[0] * s->n[1];
	p.pixels = s->views * s->columns;
	p.x = case_data(&c, p.per_slice * s->n[2]), p.y = case_data(&c, p.pixels * s->rows);
	p.Ax = case_data(&c, p.pixels * s->rows), p.Ay = case_data(&c, p.per_slice * s->n[2]);
	p.x1 = case_data(&c, p.per_slice), p.y1 = case_data(&c, p.pixels);
	p.Ax1 = case_data(&c, p.pixels), p.Ay1 = case_data(&c, p.per_slice);
	return p;
}

static void pair_free(Pair *p)
{
	float *all[] = {p->x, p->y, p->Ax, p->Ay, p->x1, p->y1, p->Ax1, p->Ay1};
	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
		free(all[i]);
	tomos_geometry_free(p->scan);
	tomos_geometry_free(p->slice_scan);
}

/* The row of each view that sees slice z, from one layout into the other. */
static void take_row(const Pair *p, const float *stack, int64_t z, float *one)
{
	for (int64_t i = 0; i < p->s->views; i++)
		memcpy(one + i * p->s->columns,
			stack + (i * p->s->rows + z + p->s->shift) * p->s->columns,
			(size_t)p->s->columns * sizeof *one);
}

static void check_pair(Pair *p, const char *model)
{
	tomos_projector_options o = tomos_projector_defaults();
	o.forward = model;
	case_forward(backend, &p->grid, p->scan, &o, p->x, p->Ax);
	case_adjoint(backend, &p->grid, p->scan, &o, p->y, p->Ay);
	for (int64_t z = 0; z < p->s->n[2]; z += z + 1) {
		const float *x = p->x + z * p->per_slice, *Ay = p->Ay + z * p->per_slice;
		take_row(p, p->y, z, p->y1);
		case_forward(backend, &p->slice_grid, p->slice_scan, &o, x, p->Ax1);
		case_adjoint(backend, &p->slice_grid, p->slice_scan, &o, p->y1, p->Ay1);
		take_row(p, p->Ax, z, p->y1);
		double there = case_difference(p->y1, p->Ax1, p->pixels);
		double back = case_difference(Ay, p->Ay1, p->per_slice);
		/* Positions of devices are floats. */
		double limit = test_repeats() ? 1e-6 : 3e-6;
		if (!(there <= limit && back <= limit))
			fail_msg("%s, %s, slice %lld: forward differs by %g, back by %g from a "
				 "single one",
				p->s->name, model, (long long)z, there, back);
	}
}

static void same_as_single_slices(void **state)
{
	(void)state;
	for (int i = 0; i < STACKS; i++) {
		Pair p = pair_make(&stacks[i]);
		for (int m = 0; m < CASE_MODELS; m++)
			check_pair(&p, case_models[m]);
		pair_free(&p);
	}
}

/* On OpenCL devices, slices share what they can, but where columns are too fine for floats. */
static void same_as_the_shared_text(void **state)
{
	(void)state;
	for (int i = 0; i < STACKS; i++) {
		Pair p = pair_make(&stacks[i]);
		const int64_t voxels = p.per_slice * p.s->n[2];
		float *plain = case_data(&(Case){.state = 1}, voxels);
		tomos_projector_options o = tomos_projector_defaults();
		o.forward = "voxel";
		case_adjoint(backend, &p.grid, p.scan, &o, p.y, p.Ay);
		bool tuned = backend->last_kernel != NULL;
		o.plain = 1;
		case_adjoint(backend, &p.grid, p.scan, &o, p.y, plain);
		double difference = case_difference(p.Ay, plain, voxels);
		if (!(difference <= 2e-6))
			fail_msg("%s: differs by %g", p.s->name, difference);
		if (strncmp(test_backend(), "opencl", 6) == 0)
			assert_true(tuned == (i < STACKS - 1));
		free(plain);
		pair_free(&p);
	}
}

static void filtered(void **state)
{
	(void)state;
	for (int i = 0; i < STACKS; i++) {
		Pair p = pair_make(&stacks[i]);
		const int64_t *n = p.s->n;
		tomos_array y = tomos_array_of(p.y, p.s->views, p.s->rows, p.s->columns);
		tomos_array x = tomos_array_of(p.x, n[2], n[1], n[0]);
		OK(tomos_fbp(backend, &p.grid, p.scan, &y, &x, NULL, NULL));
		for (int64_t z = 0; z < n[2]; z += z + 1) {
			take_row(&p, p.y, z, p.y1);
			tomos_array y1 = tomos_array_of(p.y1, p.s->views, 1, p.s->columns);
			tomos_array x1 = tomos_array_of(p.x1, 1, n[1], n[0]);
			OK(tomos_fbp(backend, &p.slice_grid, p.slice_scan, &y1, &x1, NULL, NULL));
			double d = case_difference(p.x + z * p.per_slice, p.x1, p.per_slice);
			if (!(d <= (test_repeats() ? 2e-6 : 1e-5)))
				fail_msg("%s, slice %lld: filtered back projection differs by %g",
					p.s->name, (long long)z, d);
		}
		pair_free(&p);
	}
}

/* Two cylinders of other heights: each slice has its own truth, and the values are absolute. */
static void values(void **state)
{
	(void)state;
	enum { N = 64, SLICES = 10, VIEWS = 128 };
	const tomos_ellipsoid list[] = {
		{{4, -3, 0}, {20, 14, INFINITY}, {0}, 0.02}, {{-6, 2, 2.5}, {5, 6, 2}, {0}, 0.03}};
	double near = 192, far = 288;
	tomos_scan_options o = tomos_scan_defaults();
	tomos_geometry *scan;
	tomos_phantom *phantom;
	tomos_grid grid;
	o.geometry = "fan", o.rows = SLICES, o.columns = 96, o.views = VIEWS, o.pixel = 1.2;
	o.source_axis = &near, o.source_axis_count = 1;
	o.source_detector = &far, o.source_detector_count = 1;
	OK(tomos_geometry_make(&scan, &o));
	OK(tomos_grid_for(&grid, scan, NULL));
	OK(tomos_phantom_ellipsoids(&phantom, list, 2));
	float *y = malloc(sizeof *y * VIEWS * SLICES * 96),
	      *x = malloc(sizeof *x * SLICES * 96 * 96);
	tomos_array data = tomos_array_of(y, VIEWS, SLICES, 96);
	tomos_array image = tomos_array_of(x, SLICES, 96, 96);
	OK(tomos_phantom_project(phantom, scan, 2, &data));
	OK(tomos_fbp(backend, &grid, scan, &data, &image, NULL, NULL));
	for (int64_t z = 0; z < SLICES; z++) {
		double height = grid.first[2] + (double)z * grid.step[2], sum[2] = {0};
		int64_t count[2] = {0};
		for (int64_t i = 0; i < 96 * 96; i++) {
			double px = grid.first[0] + (double)(i % 96) * grid.step[0];
			double py = grid.first[1] + (double)(i / 96) * grid.step[1];
			int inner = hypot(px + 6, py - 2) < 1.5, outer = hypot(px - 12, py + 4) < 4;
			if (inner || outer)
				sum[outer] += x[z * 96 * 96 + i], count[outer]++;
		}
		double truth = fabs(height - 2.5) < 1.6   ? 0.05
			       : fabs(height - 2.5) > 2.1 ? 0.02
							  : 0;
		double mean = sum[0] / (double)count[0];
		if (truth > 0 && !(fabs(mean - truth) < 0.02 * truth))
			fail_msg("slice %lld: %g where %g is", (long long)z, mean, truth);
		assert_true(fabs(sum[1] / (double)count[1] - 0.02) < 0.0002);
	}
	free(y), free(x);
	tomos_phantom_free(phantom);
	tomos_geometry_free(scan);
}

/* FBP of the stack with one number of view 1 changed is rejected. */
static void reject(const char *words, int which, double value)
{
	Pair p = pair_make(&stacks[0]);
	((double *)&p.scan->views[1])[which] = value;
	tomos_array y = tomos_array_of(p.y, p.s->views, p.s->rows, p.s->columns);
	tomos_array x = tomos_array_of(p.x, p.s->n[2], p.s->n[1], p.s->n[0]);
	REJECTED(tomos_fbp(backend, &p.grid, p.scan, &y, &x, NULL, NULL), TOMOS_UNSUPPORTED, words);
	pair_free(&p);
}

static void rejections(void **state)
{
	(void)state;
	enum { SRC_Z = 2, KIND = 3, U_Z = 9, V_X = 10 };
	static const char words[] =
		"view 1 has fans that do not lie in slices across z: filtered back projection "
		"needs that";
	reject(words, SRC_Z, 0.5);
	reject(words, U_Z, 0.1);
	reject(words, V_X, 0.1);
	reject("view 1 mixes point sources with a fan for each row", KIND, 1);
}

#define TESTS(T) \
	T(same_as_single_slices), T(same_as_the_shared_text), T(filtered), T(values), T(rejections)
TEST_MAIN(TESTS, open_backend, close_backend)
