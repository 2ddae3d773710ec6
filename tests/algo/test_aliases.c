/* Filtered back projection by Fourier transforms with aliases: the values of linear interpolation,
 * and when --by auto takes it. */
#include "algo/analytic.h" /* first: cmocka makes a macro of fail() */
#include "backend/cpu/fourier.h"
#include "ops/opened.h"

static unsigned seed = 7;

static double uniform(double low, double high)
{
	seed = seed * 1664525U + 1013904223U;
	return low + (high - low) * (seed >> 8) / 16777216.0;
}

enum { VIEWS = 40, MOST_COLUMNS = 64, MOST_SLICES = 11, N = 40 };

static float p[VIEWS * MOST_SLICES * MOST_COLUMNS], direct[MOST_SLICES * N * N],
	other[MOST_SLICES * N * N];

/* A scan of white noise: uneven angles, any axis, voxels of another size than pixels. */
static tomos_geometry *random_scan(int64_t columns, int64_t rows, tomos_grid *grid)
{
	double angles[VIEWS], axis = 0.5 * (double)(columns - 1) + uniform(-4, 4);
	tomos_scan_options o = tomos_scan_defaults();
	tomos_geometry *scan;
	for (int i = 0; i < VIEWS; i++)
		angles[i] = M_PI / VIEWS * (i + uniform(0, 0.7));
	o.geometry = "parallel";
	o.angles = angles, o.angles_count = VIEWS;
	o.axis = &axis, o.axis_count = 1;
	o.columns = columns, o.rows = rows;
	OK(tomos_geometry_make(&scan, &o));
	OK(tomos_grid_centred(grid, N, N - 3, rows, 1));
	for (int a = 0; a < 2; a++) {
		grid->first[a] *= 0.8;
		grid->step[a] *= 0.8;
	}
	for (int64_t i = 0; i < VIEWS * rows * columns; i++)
		p[i] = (float)uniform(-1, 1);
	return scan;
}

static tomos_status reconstruct(const tomos_geometry *scan, const tomos_grid *grid, const char *by,
	int64_t aliases, float *x)
{
	tomos_analytic_options o = tomos_analytic_defaults();
	const tomos_array data = tomos_array_of(p, VIEWS, scan->rows, scan->columns);
	const tomos_array volume = tomos_array_of(x, grid->n[2], grid->n[1], grid->n[0]);
	o.by = by;
	o.aliases = aliases;
	return tomos_fbp(backend, grid, scan, &data, &volume, &o, NULL);
}

/* Of a volume with `aliases` from that of direct back projection, relative to its norm. */
static double difference(const tomos_geometry *scan, const tomos_grid *grid, int64_t aliases)
{
	double apart = 0, square = 0;
	OK(reconstruct(scan, grid, "fourier", aliases, other));
	for (int64_t i = 0; i < grid->n[0] * grid->n[1] * grid->n[2]; i++) {
		apart += ((double)other[i] - direct[i]) * ((double)other[i] - direct[i]);
		square += (double)direct[i] * direct[i];
	}
	return sqrt(apart / square);
}

/* Noise is interpolated worst. What is missing falls with the number of bands to the power
 * of 3/2. */
static void values_of_interpolation(void **state)
{
	static const int64_t rows[] = {1, 2, MOST_SLICES};
	tomos_grid grid;
	(void)state;
	for (int64_t columns = 47; columns <= 50; columns++)
		for (int r = 0; r < 3; r++) {
			tomos_geometry *scan = random_scan(columns, rows[r], &grid);
			OK(reconstruct(scan, &grid, "direct", 0, direct));
			assert_true(difference(scan, &grid, 0) > 0.1);
			assert_in_range(1e6 * difference(scan, &grid, 4), 8000, 13000);
			assert_true(difference(scan, &grid, 40) < 1e-3);
			tomos_geometry_free(scan);
		}
}

static tomos_status read_disc(void *user, int64_t row, float *data)
{
	const tomos_geometry *scan = user;
	(void)row;
	for (int64_t i = 0; i < scan->count * scan->columns; i++) {
		double t = (double)(i % scan->columns) - 0.5 * (double)(scan->columns - 1);
		data[i] = (float)sqrt(fmax(300. * 300 - t * t, 0)); /* a disc */
	}
	return TOMOS_OK;
}

/* Trials and the aliases take longer than direct back projection of few slices. */
static void automatic(void **state)
{
	enum { SIDE = 1024, ROWS = 2000 };
	tomos_analytic_options o = tomos_analytic_defaults();
	tomos_scan_options s = tomos_scan_defaults();
	tomos_geometry *scan;
	tomos_grid grid;
	ByChoice choice;
	(void)state;
	if (case_slow())
		return;
	o.filter = "hann";
	s.views = 600, s.rows = ROWS, s.columns = SIDE;
	OK(tomos_geometry_make(&scan, &s));
	OK(tomos_grid_centred(&grid, SIDE, SIDE, ROWS, 1));
	OK(fbp_choose_by(&choice, backend, &grid, scan, &o, read_disc, scan));
	assert_true(choice.fourier && choice.aliases > 0);
	assert_non_null(strstr(choice.why, "with aliases of"));
	grid.n[2] = 4;
	OK(fbp_choose_by(&choice, backend, &grid, scan, &o, read_disc, scan));
	assert_false(choice.fourier);
	tomos_geometry_free(scan);
}

/* Bytes of the lists of points, for voxels of the given number of columns. */
static double bytes_of_lists(double columns, int aliases, double *estimate)
{
	const KernelModel model = {.weight = WEIGHT_NONE};
	tomos_grid grid;
	tomos_geometry *scan = random_scan(MOST_COLUMNS, 1, &grid);
	Fourier *f;
	Plan plan;
	double bytes = 0;
	for (int a = 0; a < 2; a++)
		grid.step[a] *= columns / 0.8, grid.first[a] *= columns / 0.8;
	OK(plan_make(&plan, &grid, scan, &model));
	OK(fourier_of_plan(&f, backend, &plan, RESPONSE_LINEAR, 1e-5, aliases));
	for (int a = 0; a < 2; a++) {
		const FourierAxis *axis = &f->beyond->axis[a];
		bytes += (double)axis->tiles * VIEWS * 2 * axis->periods * sizeof *axis->ranges;
	}
	*estimate = fourier_alias_bytes(scan, &grid, aliases);
	backend->type->fourier->close(backend, f);
	plan_free(&plan);
	tomos_geometry_free(scan);
	return bytes;
}

/* The wider voxels are, the more periods of the grid the points of a band extend over. */
static void memory(void **state)
{
	(void)state;
	for (double columns = 0.5; columns <= 8; columns *= 2)
		for (int aliases = 1; aliases <= 16; aliases *= 4) {
			double estimate, bytes = bytes_of_lists(columns, aliases, &estimate);
			assert_in_range((int64_t)estimate, (int64_t)bytes, (int64_t)(4 * bytes));
		}
}

static void rejected(void **state)
{
	tomos_analytic_options o = tomos_analytic_defaults();
	tomos_grid grid;
	tomos_geometry *scan = random_scan(48, 1, &grid);
	const tomos_array data = tomos_array_of(p, VIEWS, 1, 48);
	const tomos_array volume = tomos_array_of(direct, 1, grid.n[1], grid.n[0]);
	(void)state;
	REJECTED(reconstruct(scan, &grid, "direct", 3, direct), TOMOS_BAD_VALUE, "aliases");
	REJECTED(reconstruct(scan, &grid, "auto", 3, direct), TOMOS_BAD_VALUE, "aliases");
	REJECTED(reconstruct(scan, &grid, "fourier", 65, direct), TOMOS_BAD_VALUE, "64");
	o.by = "fourier";
	o.aliases = 3;
	REJECTED(tomos_fbp_transpose(backend, &grid, scan, &volume, &data, &o, NULL),
		TOMOS_UNSUPPORTED, "aliases of the interpolation");
	tomos_geometry_free(scan);
}

#define TESTS(T) T(values_of_interpolation), T(automatic), T(memory), T(rejected)
TEST_MAIN(TESTS, open_backend, close_backend)
