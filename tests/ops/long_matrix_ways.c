/* The three ways of Pedersen and Lindhøj (2018) to compute a matrix of line lengths, timed side by
 * side: every pixel with every ray; marching along each ray; all columns of pixels on their own. */
#include "op/matrix.h" /* first: cmocka makes a macro of fail() */
#include "ops/cases.h"

#define PI 3.14159265358979323846
enum { VIEWS = 8 };

/* Result of one method: the number of entries of each row, and their sum. */
typedef struct {
	int64_t *counts;
	double *sums;
} Found;

typedef struct {
	const Lister *lister;
	Found *found;
} Pairs;

static void put(void *user, int64_t row, int64_t count, const int64_t *index, const float *weight)
{
	Found *found = user;
	(void)index;
	found->counts[row] = count;
	found->sums[row] = 0;
	for (int64_t i = 0; i < count; i++)
		found->sums[row] += weight[i];
}

/* Length of start + t d (d of unit length) in the pixel around (x, y). */
static double chord(const double start[2], const double d[2], double x, double y)
{
	double enter = -1e300, leave = 1e300;
	const double at[2] = {x, y};
	for (int a = 0; a < 2; a++) {
		if (d[a] == 0) {
			if (start[a] < at[a] - 0.5 || start[a] >= at[a] + 0.5)
				return 0;
			continue;
		}
		double one = (at[a] - 0.5 - start[a]) / d[a], two = (at[a] + 0.5 - start[a]) / d[a];
		double near = one < two ? one : two, far = one < two ? two : one;
		enter = enter > near ? enter : near;
		leave = leave < far ? leave : far;
	}
	return leave > enter ? leave - enter : 0;
}

static void pairs_of_view(void *user, int64_t view)
{
	const Pairs *p = user;
	const Plan *plan = &p->lister->plan;
	const KernelView *k = &plan->views[view];
	double length = hypot(k->src[0], k->src[1]),
	       d[2] = {k->src[0] / length, k->src[1] / length};
	for (int a = 0; a < 2; a++)
		d[a] = fabs(d[a]) < 1e-12 ? 0 : d[a];
	for (int64_t c = 0; c < plan->model.columns; c++) {
		int64_t row = view * plan->model.columns + c;
		double start[2] = {
			k->first[0] + (double)c * k->u[0], k->first[1] + (double)c * k->u[1]};
		p->found->counts[row] = 0;
		p->found->sums[row] = 0;
		for (int64_t y = 0; y < plan->grid.n[1]; y++)
			for (int64_t x = 0; x < plan->grid.n[0]; x++) {
				double part = chord(start, d, (double)x, (double)y);
				p->found->counts[row] += part > 0;
				p->found->sums[row] += part;
			}
	}
}

static double list_time(Lister *lister, Found *found)
{
	Part *parts;
	int64_t count;
	OK(lister_parts(lister, &parts, &count));
	OK(lister_count(lister, parts, count, found->counts));
	double begin = now();
	OK(lister_fill(lister, parts, count, put, found));
	double seconds = now() - begin;
	mem_free(parts);
	return seconds;
}

static void check_same(const Found *a, const Found *b, int64_t rows, int64_t n)
{
	for (int64_t r = 0; r < rows; r++)
		if (fabs(a->sums[r] - b->sums[r]) > 1e-5 * (double)n)
			fail_msg("row %d: %g and %g", (int)r, a->sums[r], b->sums[r]);
}

static void time_size(int64_t n)
{
	double angles[VIEWS], seconds[3];
	tomos_grid grid;
	tomos_geometry *scan;
	KernelModel model = {.weight = WEIGHT_RAY};
	Lister lister;
	Found found[3];
	int64_t rows = VIEWS * n, entries = 0;
	for (int i = 0; i < VIEWS; i++)
		angles[i] = PI / VIEWS * (i + 0.3);
	OK(tomos_grid_centred(&grid, n, n, 1, 1));
	OK(tomos_geometry_parallel(&scan, 1, n, 1, angles, VIEWS));
	for (int way = 0; way < 3; way++) {
		found[way] = (Found){malloc((size_t)rows * 8), malloc((size_t)rows * 8)};
		OK(lister_open(
			&lister, &grid, scan, way == 1 ? KERNEL_line_march : KERNEL_line, &model));
		double begin = now();
		if (way == 0)
			parallel_for(VIEWS, pairs_of_view, &(Pairs){&lister, &found[0]});
		seconds[way] = way ? list_time(&lister, &found[way]) : now() - begin;
		lister_close(&lister);
	}
	check_same(&found[0], &found[1], rows, n);
	check_same(&found[0], &found[2], rows, n);
	for (int64_t r = 0; r < rows; r++)
		entries += found[2].counts[r];
	printf("  %4d %9lld %14.1f %10.2f %10.2f\n", (int)n, (long long)entries, 1e3 * seconds[0],
		1e3 * seconds[1], 1e3 * seconds[2]);
	if (n >= 256)
		assert_true(seconds[0] > 10 * fmax(seconds[1], seconds[2]));
	for (int way = 0; way < 3; way++)
		free(found[way].counts), free(found[way].sums);
	tomos_geometry_free(scan);
}

static void table(void **state)
{
	(void)state;
	printf("  line lengths of %d views x n rays on n x n pixels, %d threads, milliseconds\n",
		VIEWS, tomos_threads());
	printf("  %4s %9s %14s %10s %10s\n", "n", "entries", "pixels x rays", "marching",
		"columns");
	for (int64_t n = 64; n <= 512; n *= 2)
		time_size(n);
}

#define TESTS(T) T(table)
TEST_MAIN(TESTS, NULL, NULL)
