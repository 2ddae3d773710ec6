/* The projector by Fourier transforms against sums over all voxels, its adjoint, filtered back
 * projection with it, and what it rejects. */
#include "backend/backend.h" /* first: cmocka makes a macro of fail() */
#include "base/fft.h"
#include "ops/opened.h"

/* A random scan and grid, with projections computed from the definition in backend/fourier.h. */
typedef struct {
	tomos_geometry *scan;
	tomos_grid grid;
	int64_t rays, voxels;
	float *x, *y, *z, *back;
	double *exact, scale; /* exact: of the projections; scale: their size, for any detector */
} RandomScan;

static unsigned seed;

static double uniform(double low, double high)
{
	seed = seed * 1664525U + 1013904223U;
	return low + (high - low) * (seed >> 8) / 16777216.0;
}

static int64_t integer(int64_t low, int64_t high)
{
	return low + (int64_t)uniform(0, (double)(high - low + 1));
}

static void scan_choose(RandomScan *c, int64_t slices)
{
	enum { MOST = 12 };
	double angles[MOST], axes[MOST], pixel = uniform(0.3, 3);
	int64_t count = integer(1, MOST), columns = integer(2, 40);
	bool each = uniform(0, 1) < 0.3;
	for (int64_t i = 0; i < count; i++) {
		angles[i] = uniform(-4, 7);
		axes[i] = 0.5 * (double)(columns - 1) + uniform(-9, 9);
	}
	tomos_scan_options o = tomos_scan_defaults();
	o.geometry = "parallel";
	o.angles = angles, o.angles_count = count;
	o.axis = axes, o.axis_count = each ? count : 1;
	bool high = uniform(0, 1) < 0.4; /* slices are not as high as rows */
	o.rows = high ? integer(1, 6) : slices;
	o.columns = columns;
	o.pixel = pixel;
	OK(tomos_geometry_make(&c->scan, &o));
	for (int a = 0; a < 3; a++) {
		c->grid.n[a] = a < 2 ? integer(1, 30) : slices;
		c->grid.step[a] = pixel * (a < 2 || high ? uniform(0.3, 3) : 1);
		c->grid.first[a] = -0.5 * (double)(c->grid.n[a] - 1) * c->grid.step[a];
	}
	c->grid.first[2] += high ? uniform(-1, 1) * pixel : 0;
}

static double sinc(double x)
{
	return fabs(x) < 1e-9 ? 1 : sin(M_PI * x) / (M_PI * x);
}

/* The response of all frequencies on the detector, at t columns from a voxel. */
static double response_at(const FourierView *view, int64_t period, double t)
{
	double sum = 1;
	for (int64_t m = 1; m < period / 2; m++) {
		double frequency = (double)m / (double)period;
		double taper = frequency > 0.4 ? cos(5 * M_PI * (frequency - 0.4)) : 1;
		sum += 2 * cos(2 * M_PI * frequency * t) * taper * taper *
		       sinc(frequency * view->column[0]) * sinc(frequency * view->column[1]);
	}
	return view->weight * sum / (double)period;
}

/* The weight of a slice in a row, as of `joseph`: rows are interpolated between slices. */
static double row_weight(const RandomScan *c, int64_t row, int64_t z)
{
	double pixel = c->scan->views[0].v[2], ratio = c->grid.step[2] / pixel;
	double at = (c->grid.first[2] + (double)z * c->grid.step[2]) / pixel +
		    0.5 * (double)(c->scan->rows - 1);
	return fmax(0, 1 - fabs((double)row - at) / ratio);
}

static void scan_view(RandomScan *c, const FourierSpec *spec, int64_t period, int64_t v)
{
	const FourierView *view = &spec->views[v];
	for (int64_t i = 0; i < spec->n[0] * spec->n[1]; i++) {
		double at = view->column[2] + view->column[0] * (double)(i % spec->n[0]) +
			    view->column[1] * (double)(i / spec->n[0]);
		for (int64_t column = 0; column < spec->columns; column++) {
			double weight = response_at(view, period, (double)column - at);
			for (int64_t k = 0; k < spec->n[2] * spec->rows; k++) {
				int64_t z = k / spec->rows, row = k % spec->rows;
				c->exact[(v * spec->rows + row) * spec->columns + column] +=
					weight * row_weight(c, row, z) *
					c->x[z * spec->n[0] * spec->n[1] + i];
			}
		}
	}
}

/* Columns of voxels from the geometry itself: the axis, and the direction of the columns. */
static void scan_exact(RandomScan *c)
{
	FourierView views[16];
	FourierSpec spec = {.rows = c->scan->rows,
		.columns = c->scan->columns,
		.count = c->scan->count,
		.views = views};
	memcpy(spec.n, c->grid.n, sizeof spec.n);
	for (int64_t v = 0; v < spec.count; v++) {
		const tomos_view *g = &c->scan->views[v];
		double pixel2 = g->u[0] * g->u[0] + g->u[1] * g->u[1];
		views[v].column[2] = 0.5 * (double)(spec.columns - 1);
		for (int a = 0; a < 2; a++) {
			views[v].column[a] = g->u[a] * c->grid.step[a] / pixel2;
			views[v].column[2] += (c->grid.first[a] - g->det[a]) * g->u[a] / pixel2;
		}
		views[v].weight = c->grid.step[0] * c->grid.step[1] / sqrt(pixel2);
	}
	int64_t period = fft_length(fourier_period(&spec));
	double squares = 0, largest = 0;
	for (int64_t i = 0; i < c->voxels; i++)
		squares += (double)c->x[i] * c->x[i];
	for (int64_t v = 0; v < spec.count; v++) {
		scan_view(c, &spec, period, v);
		largest = fmax(largest, response_at(&views[v], period, 0));
	}
	/* What an error of each weight, relative to the largest, amounts to in a pixel. */
	c->scale = largest * sqrt(squares / (double)c->grid.n[2]);
}

static void scan_arrays(RandomScan *c)
{
	c->voxels = c->grid.n[0] * c->grid.n[1] * c->grid.n[2];
	c->rays = c->scan->count * c->scan->rows * c->scan->columns;
	c->x = malloc((size_t)c->voxels * sizeof *c->x);
	c->back = malloc((size_t)c->voxels * sizeof *c->x);
	c->y = malloc((size_t)c->rays * sizeof *c->y);
	c->z = malloc((size_t)c->rays * sizeof *c->y);
	c->exact = calloc((size_t)c->rays, sizeof *c->exact);
	for (int64_t i = 0; i < c->voxels; i++)
		c->x[i] = (float)uniform(-1, 1);
	for (int64_t i = 0; i < c->rays; i++)
		c->z[i] = (float)uniform(-1, 1);
}

static void scan_make(RandomScan *c, unsigned number)
{
	static const int64_t slices[] = {1, 2, 3, 5, 9};
	seed = 977 * number + 5;
	*c = (RandomScan){.rays = 1};
	scan_choose(c, slices[number % 5]);
	scan_arrays(c);
}

static void scan_free(RandomScan *c)
{
	tomos_geometry_free(c->scan);
	free(c->x);
	free(c->back);
	free(c->y);
	free(c->z);
	free(c->exact);
}

static tomos_array volume_of(const RandomScan *c, float *data)
{
	return tomos_array_of(data, c->grid.n[2], c->grid.n[1], c->grid.n[0]);
}

static tomos_array views_of(const RandomScan *c, float *data)
{
	return tomos_array_of(data, c->scan->count, c->scan->rows, c->scan->columns);
}

static tomos_op *scan_projector(const RandomScan *c, double accuracy)
{
	tomos_projector_options o = tomos_projector_defaults();
	tomos_op *op;
	o.forward = "fourier";
	o.accuracy = accuracy;
	OK(tomos_op_projector(&op, backend, &c->grid, c->scan, &o));
	return op;
}

static void scan_apply(RandomScan *c, const tomos_op *op)
{
	tomos_array x = volume_of(c, c->x), y = views_of(c, c->y), z = views_of(c, c->z),
		    back = volume_of(c, c->back);
	OK(tomos_op_forward(op, &x, &y));
	OK(tomos_op_adjoint(op, &z, &back));
}

/* Root of the mean square of the errors of pixels, relative to what the accuracy permits. */
static double error_of(const RandomScan *c)
{
	double sum = 0;
	for (int64_t i = 0; i < c->rays; i++)
		sum += (c->y[i] - c->exact[i]) * (c->y[i] - c->exact[i]);
	return sqrt(sum / (double)c->rays) / c->scale;
}

static double adjoint_error(const RandomScan *c)
{
	double yz = 0, xb = 0, yy = 0, zz = 0;
	for (int64_t i = 0; i < c->rays; i++) {
		yz += (double)c->y[i] * c->z[i];
		yy += (double)c->y[i] * c->y[i];
		zz += (double)c->z[i] * c->z[i];
	}
	for (int64_t i = 0; i < c->voxels; i++)
		xb += (double)c->x[i] * c->back[i];
	double size = sqrt(yy * zz); /* 0 if no slice meets a row */
	return fabs(yz - xb) / (size > 0 ? size : 1);
}

static void sums(void **state)
{
	static const double accuracies[] = {1e-2, 1e-3, 1e-4, 1e-5, 1e-6};
	(void)state;
	for (unsigned i = 0; i < (case_slow() ? 10 : 200); i++) {
		RandomScan c;
		scan_make(&c, i);
		scan_exact(&c);
		double accuracy = accuracies[i / 5 % 5];
		tomos_op *op = scan_projector(&c, accuracy);
		scan_apply(&c, op);
		double error = error_of(&c), adjoint = adjoint_error(&c);
		if (!(error <= accuracy) || !(adjoint <= 1e-6))
			fail_msg("case %u: error %.2g for %.2g, adjoint %.2g", i, error, accuracy,
				adjoint);
		tomos_op_free(op);
		scan_free(&c);
	}
}

/* Thousands of views add to the same cells: sums of positive values, whose errors do not cancel. */
static void many_views(void **state)
{
	enum { N = 32, VIEWS = 4000, COLUMNS = 64 };
	static float x[N][N], y[VIEWS][COLUMNS], back[N][N];
	tomos_scan_options o = tomos_scan_defaults();
	tomos_geometry *scan;
	tomos_grid grid;
	(void)state;
	o.geometry = "parallel";
	o.views = VIEWS, o.columns = COLUMNS;
	OK(tomos_geometry_make(&scan, &o));
	OK(tomos_grid_centred(&grid, N, N, 1, 1));
	RandomScan c = {.scan = scan, .grid = grid};
	tomos_op *op = scan_projector(&c, 1e-5);
	for (int i = 0; i < N * N; i++)
		x[i / N][i % N] = 1;
	tomos_array volume = tomos_array_of(&x[0][0], 1, N, N);
	tomos_array views = tomos_array_of(&y[0][0], VIEWS, 1, COLUMNS);
	tomos_array result = tomos_array_of(&back[0][0], 1, N, N);
	OK(tomos_op_forward(op, &volume, &views));
	OK(tomos_op_adjoint(op, &views, &result));
	double squares = 0, sum = 0;
	for (int i = 0; i < VIEWS * COLUMNS; i++)
		squares += pow(y[i / COLUMNS][i % COLUMNS], 2);
	for (int i = 0; i < N * N; i++)
		sum += back[i / N][i % N];
	if (fabs(sum / squares - 1) > 1e-6)
		fail_msg("the adjoint differs by %.2g", sum / squares - 1);
	tomos_op_free(op);
	tomos_geometry_free(scan);
}

/* The bits do not depend on the number of threads. */
static void threads(void **state)
{
	const int before = tomos_threads();
	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		RandomScan c;
		scan_make(&c, 100 + i);
		float *first = malloc((size_t)(c.rays + c.voxels) * sizeof *first);
		for (int count = 1; count <= 3; count += 2) {
			tomos_set_threads(count);
			tomos_op *op = scan_projector(&c, 1e-5);
			scan_apply(&c, op);
			tomos_op_free(op);
			if (count == 1) {
				memcpy(first, c.y, (size_t)c.rays * sizeof *first);
				memcpy(first + c.rays, c.back, (size_t)c.voxels * sizeof *first);
			}
		}
		assert_memory_equal(first, c.y, (size_t)c.rays * sizeof *first);
		assert_memory_equal(first + c.rays, c.back, (size_t)c.voxels * sizeof *first);
		free(first);
		scan_free(&c);
	}
	tomos_set_threads(before);
}

/* A disc that fills most of the slices: values and means of both ways of back projection. `height`:
 * of a slice, in rows, whose discs have different radii. */
static void both_ways(double height)
{
	enum { N = 96, VIEWS = 150, SLICES = 3 };
	static float p[VIEWS][SLICES][N], direct[SLICES][N][N], fourier[SLICES][N][N];
	tomos_scan_options o = tomos_scan_defaults();
	tomos_geometry *scan;
	tomos_grid grid;
	o.geometry = "parallel";
	o.views = VIEWS, o.columns = N, o.rows = SLICES;
	OK(tomos_geometry_make(&scan, &o));
	OK(tomos_grid_centred(&grid, N, N, SLICES, 1));
	grid.first[2] *= height;
	grid.step[2] *= height;
	for (int v = 0; v < VIEWS; v++)
		for (int z = 0; z < SLICES; z++)
			for (int c = 0; c < N; c++) {
				double s = c - 0.5 * (N - 1), r = 35 - 5 * z;
				p[v][z][c] =
					s * s < r * r ? (float)(0.02 * sqrt(r * r - s * s)) : 0;
			}
	tomos_array data = tomos_array_of(&p[0][0][0], VIEWS, SLICES, N);
	tomos_array one = tomos_array_of(&direct[0][0][0], SLICES, N, N);
	tomos_array two = tomos_array_of(&fourier[0][0][0], SLICES, N, N);
	tomos_analytic_options a = tomos_analytic_defaults();
	a.filter = "hann";
	OK(tomos_fbp(backend, &grid, scan, &data, &one, &a, NULL));
	a.by = "fourier";
	OK(tomos_fbp(backend, &grid, scan, &data, &two, &a, NULL));
	for (int z = 0; z < SLICES; z++) {
		double mean = 0, worst = 0;
		for (int y = 0; y < 21; y++)
			for (int x = 0; x < 21; x++) {
				double f = fourier[z][38 + y][38 + x];
				mean += f / 441;
				worst = fmax(worst, fabs(f - direct[z][38 + y][38 + x]));
			}
		if (fabs(mean - 0.01) > 1e-5 || worst > 3e-6)
			fail_msg("slice %d: mean %.7f, difference %.2g", z, mean, worst);
	}
	tomos_geometry_free(scan);
}

static void filtered(void **state)
{
	(void)state;
	both_ways(1);
	both_ways(0.6);
}

/* A device with little memory processes slabs of slices: the same values, and no more memory than
 * that. */
static void in_pieces(void **state)
{
	enum { SLICES = 37, MEMORY = 12 << 20 };
	tomos_device_options o = tomos_device_defaults();
	tomos_backend *whole = backend, *pieces;
	const BackendMemory *memory = whole->type->memory;
	int64_t before = 0, after = 0;
	RandomScan c;
	(void)state;
	if (whole->device == 0 || !memory->free_bytes)
		return;
	seed = 3;
	c = (RandomScan){.rays = 1};
	do {
		tomos_geometry_free(c.scan);
		scan_choose(&c, SLICES);
	} while (c.scan->rows != SLICES);
	scan_arrays(&c);
	tomos_op *op = scan_projector(&c, 1e-5);
	scan_apply(&c, op);
	tomos_op_free(op);
	float *y = c.y, *back = c.back;
	c.y = malloc((size_t)c.rays * sizeof *c.y);
	c.back = malloc((size_t)c.voxels * sizeof *c.back);
	OK(memory->free_bytes(whole, &before));
	o.memory = MEMORY;
	OK(tomos_backend_open_with(&pieces, whole->type->name, &o));
	backend = pieces;
	op = scan_projector(&c, 1e-5);
	scan_apply(&c, op);
	backend = whole;
	OK(memory->free_bytes(whole, &after));
	assert_true(before - after <= MEMORY);
	for (int64_t i = 0; i < c.rays; i++)
		assert_true(fabsf(c.y[i] - y[i]) <= 1e-5F * (1 + fabsf(y[i])));
	for (int64_t i = 0; i < c.voxels; i++)
		assert_true(fabsf(c.back[i] - back[i]) <= 1e-5F * (1 + fabsf(back[i])));
	tomos_op_free(op);
	tomos_backend_close(pieces);
	free(y);
	free(back);
	scan_free(&c);
}

enum { ELLIPSE_SIDE = 128, ELLIPSE_COLUMNS = 192, ELLIPSE_VIEWS = 90 };

/* Of the projections of a volume from means over pixels in closed form, relative to these. */
static double ellipse_error(const char *model, const tomos_geometry *scan, const tomos_grid *grid,
	const tomos_array *x, const float *exact)
{
	static float y[ELLIPSE_VIEWS * ELLIPSE_COLUMNS];
	const tomos_array projected = tomos_array_of(y, ELLIPSE_VIEWS, 1, ELLIPSE_COLUMNS);
	tomos_projector_options o = tomos_projector_defaults();
	tomos_op *op;
	double square = 0, norm = 0;
	o.forward = model;
	OK(tomos_op_projector(&op, backend, grid, scan, &o));
	OK(tomos_op_forward(op, x, &projected));
	tomos_op_free(op);
	for (int64_t i = 0; i < ELLIPSE_VIEWS * ELLIPSE_COLUMNS; i++) {
		square += ((double)y[i] - exact[i]) * ((double)y[i] - exact[i]);
		norm += (double)exact[i] * exact[i];
	}
	return sqrt(square / norm);
}

static void ellipses(void **state)
{
	static float x[ELLIPSE_SIDE * ELLIPSE_SIDE], y[ELLIPSE_VIEWS * ELLIPSE_COLUMNS];
	static const tomos_ellipsoid list[] = {{.axes = {54, 42, HUGE_VAL}, .value = 1},
		{.centre = {13, 6, 0}, .axes = {13, 26, HUGE_VAL}, .value = -0.5}};
	const tomos_array volume = tomos_array_of(x, 1, ELLIPSE_SIDE, ELLIPSE_SIDE);
	const tomos_array exact = tomos_array_of(y, ELLIPSE_VIEWS, 1, ELLIPSE_COLUMNS);
	tomos_scan_options o = tomos_scan_defaults();
	tomos_geometry *scan;
	tomos_phantom *phantom;
	tomos_grid grid;
	(void)state;
	o.views = ELLIPSE_VIEWS, o.columns = ELLIPSE_COLUMNS, o.rows = 1;
	OK(tomos_geometry_make(&scan, &o));
	OK(tomos_grid_centred(&grid, ELLIPSE_SIDE, ELLIPSE_SIDE, 1, 1));
	OK(tomos_phantom_ellipsoids(&phantom, list, 2));
	OK(tomos_phantom_volume(phantom, &grid, 8, &volume));
	OK(tomos_phantom_project(phantom, scan, 8, &exact));
	double fourier = ellipse_error("fourier", scan, &grid, &volume, y);
	double joseph = ellipse_error("joseph", scan, &grid, &volume, y);
	if (!(fourier <= joseph && fourier < 4e-3))
		fail_msg("error %.4g, of joseph %.4g", fourier, joseph);
	tomos_phantom_free(phantom);
	tomos_geometry_free(scan);
}

static void rejected(void **state)
{
	RandomScan c;
	tomos_projector_options o = tomos_projector_defaults();
	tomos_op *op = NULL;
	(void)state;
	scan_make(&c, 7);
	o.forward = "fourier";
	o.accuracy = 1e-8;
	REJECTED(tomos_op_projector(&op, backend, &c.grid, c.scan, &o), TOMOS_BAD_VALUE,
		"from 1e-06 to 0.01, not 1e-08");
	o.accuracy = 1e-5;
	for (int64_t i = 0; i < c.scan->count; i++)
		c.scan->views[i].src[2] = 0.1;
	c.grid.n[2] = 4;
	REJECTED(tomos_op_projector(&op, backend, &c.grid, c.scan, &o), TOMOS_UNSUPPORTED,
		"do not stay in planes of constant z");
	o.back = "joseph";
	REJECTED(tomos_op_projector(&op, backend, &c.grid, c.scan, &o), TOMOS_UNSUPPORTED,
		"a pair of its own");
	scan_free(&c);
	static const double near = 60, far = 90;
	tomos_scan_options s = tomos_scan_defaults();
	tomos_geometry *cone;
	s.geometry = "cone";
	s.views = 4, s.columns = 8, s.rows = 8;
	s.source_axis = &near, s.source_axis_count = 1;
	s.source_detector = &far, s.source_detector_count = 1;
	OK(tomos_geometry_make(&cone, &s));
	tomos_grid grid;
	OK(tomos_grid_centred(&grid, 8, 8, 8, 1));
	o.back = "";
	REJECTED(tomos_op_projector(&op, backend, &grid, cone, &o), TOMOS_UNSUPPORTED,
		"not parallel");
	tomos_geometry_free(cone);
}

#define TESTS(T) \
	T(sums), T(many_views), T(threads), T(filtered), T(in_pieces), T(ellipses), T(rejected)
TEST_MAIN(TESTS, open_backend, close_backend)
