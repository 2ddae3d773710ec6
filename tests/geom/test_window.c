/* The pixels a box can reach: never too few, by brute force, and not many more. */
#include "geom/check.h"

static tomos_geometry *random_scan(void)
{
	tomos_view views[4];
	tomos_geometry *scan;
	for (;;) {
		for (int i = 0; i < 4; i++) {
			double *n = (double *)&views[i], near = uniform(0, 1) < 0.2 ? 5 : 40;
			int point = uniform(0, 1) < 0.6 ? uniform(0, 1) < 0.4 ? 2 : 1 : 0;
			for (int k = 0; k < VIEW_NUMBERS; k++)
				n[k] = k < 3 ? uniform(-1, 1) * (point ? near : 1)
					     : uniform(-1, 1) * (k < 7 ? 20 : 1);
			views[i].src[3] = point;
		}
		int64_t rows = (int64_t)uniform(1, 40), columns = (int64_t)uniform(1, 60);
		if (tomos_geometry_views(&scan, rows, columns, views, 4) == TOMOS_OK)
			return scan;
	}
}

static void random_box(tomos_grid *grid, Box *box)
{
	for (int i = 0; i < 3; i++) {
		grid->n[i] = (int64_t)uniform(1, 20);
		grid->step[i] = uniform(0.2, 1) * (uniform(0, 1) < 0.5 ? -1 : 1);
		grid->first[i] = uniform(-10, 10);
		box->low[i] = (int64_t)uniform(0, (double)grid->n[i]);
		box->high[i] =
			box->low[i] + 1 + (int64_t)uniform(0, (double)(grid->n[i] - box->low[i]));
	}
}

static bool has(const Window *w, int axis, double pixel)
{
	return (double)w->low[axis] <= pixel && pixel < (double)w->high[axis];
}

/* All pixels that linear interpolation at the projection of the point would touch are inside. */
static void check_point(
	const tomos_geometry *scan, int64_t view, const Window *w, const double p[3])
{
	double pixel[2], size[2] = {(double)scan->columns, (double)scan->rows};
	double beyond = project_point(scan, view, p, &pixel[0], &pixel[1]);
	if (scan->views[view].src[3] != 0 && !(beyond > -1e5 && beyond < 1))
		return; /* too near to the source's own plane for the check to have digits */
	double first[2] = {floor(pixel[0]), floor(pixel[1])};
	for (int k = 0; k < 4; k++) {
		double c = first[0] + (k & 1), r = first[1] + (k >> 1);
		if (c >= 0 && c < size[0] && r >= 0 && r < size[1])
			assert_true(has(w, 0, c) && has(w, 1, r));
	}
}

static void sample_box(const tomos_grid *grid, const Box *box, double margin, double p[3])
{
	for (int i = 0; i < 3; i++) {
		double low = (double)box->low[i] - 0.5 - margin;
		double high = (double)box->high[i] - 0.5 + margin;
		double at = uniform(0, 3); /* faces and corners are the places to look at */
		double index = at < 1 ? low : at < 2 ? high : uniform(low, high);
		p[i] = grid->first[i] + index * grid->step[i];
	}
}

static void test_brute_force(void **state)
{
	(void)state;
	for (int trial = 0; trial < 1500; trial++) {
		tomos_grid grid;
		Box box;
		double margin = trial % 3 ? uniform(0, 2) : 0, p[3];
		tomos_geometry *scan = random_scan();
		random_box(&grid, &box);
		for (int view = 0; view < 4; view++) {
			Window w = geom_window(scan, view, &grid, &box, margin);
			assert_true(0 <= w.low[0] && w.low[0] <= w.high[0]);
			assert_true(0 <= w.low[1] && w.low[1] <= w.high[1]);
			assert_true(w.high[0] <= scan->columns && w.high[1] <= scan->rows);
			for (int k = 0; k < 30; k++) {
				sample_box(&grid, &box, margin, p);
				check_point(scan, view, &w, p);
			}
		}
		tomos_geometry_free(scan);
	}
}

static Window of_scan(const tomos_geometry *scan, int64_t view, Box box, double margin)
{
	tomos_grid grid;
	assert_int_equal(tomos_grid_centred(&grid, 10, 10, 10, 1), TOMOS_OK);
	return geom_window(scan, view, &grid, &box, margin);
}

static void assert_window(Window w, int64_t c0, int64_t c1, int64_t r0, int64_t r1)
{
	assert_int_equal(w.low[0], c0);
	assert_int_equal(w.high[0], c1);
	assert_int_equal(w.low[1], r0);
	assert_int_equal(w.high[1], r1);
}

/* Voxels 3 and 4 of 10 cover 2.5 to 4.5 on a detector of the same pixels: pixels 2 to 5. */
static void test_tight(void **state)
{
	(void)state;
	const double angle = 0;
	tomos_geometry *scan;
	assert_int_equal(tomos_geometry_parallel(&scan, 10, 10, 1, &angle, 1), TOMOS_OK);
	assert_window(of_scan(scan, 0, (Box){{3, 0, 6}, {5, 10, 7}}, 0), 2, 6, 5, 8);
	assert_window(of_scan(scan, 0, (Box){{3, 0, 6}, {5, 10, 7}}, 1), 1, 7, 4, 9);
	assert_window(of_scan(scan, 0, (Box){{0, 0, 0}, {10, 10, 10}}, 0), 0, 10, 0, 10);
	assert_window(of_scan(scan, 0, (Box){{3, 4, 6}, {3, 5, 7}}, 0), 0, 0, 0, 0);
	tomos_geometry_free(scan);
}

static void test_misses(void **state)
{
	(void)state;
	const tomos_view far[2] = {{{0, -1, 0, 0}, {1e6, 0, 0}, {1, 0, 0}, {0, 0, 1}},
		{{0, -1, 0, 0}, {-1e25, 0, 0}, {1e-3, 0, 0}, {0, 0, 1}}};
	tomos_geometry *scan;
	assert_int_equal(tomos_geometry_views(&scan, 10, 10, far, 2), TOMOS_OK);
	for (int i = 0; i < 2; i++) {
		Window w = of_scan(scan, i, (Box){{0, 0, 0}, {10, 10, 10}}, 0);
		assert_int_equal(w.low[0], w.high[0]);
		assert_int_equal(w.high[1], 10);
	}
	tomos_geometry_free(scan);
}

static void test_near_source(void **state)
{
	(void)state;
	const tomos_view views[4] = {
		/* inside the box, at its face, beyond it, and well before it */
		{{0, 0, 0, 1}, {0, -50, 0}, {1, 0, 0}, {0, 0, 1}},
		{{0, 5, 0, 1}, {0, -50, 0}, {1, 0, 0}, {0, 0, 1}},
		{{0, -9, 0, 1}, {0, -50, 0}, {1, 0, 0}, {0, 0, 1}},
		{{0, 50, 0, 1}, {0, -50, 0}, {1, 0, 0}, {0, 0, 1}}};
	tomos_geometry *scan;
	assert_int_equal(tomos_geometry_views(&scan, 60, 80, views, 4), TOMOS_OK);
	for (int i = 0; i < 3; i++)
		assert_window(of_scan(scan, i, (Box){{0, 0, 0}, {10, 10, 10}}, 0), 0, 80, 0, 60);
	/* The near face is 10 wide, 45 from the source: 22.2 pixels around the middle. */
	assert_window(of_scan(scan, 3, (Box){{0, 0, 0}, {10, 10, 10}}, 0), 28, 52, 18, 42);
	tomos_geometry_free(scan);
}

/* The window is the projection's bounding rectangle and at most two pixels more on each side. */
static void test_not_wasteful(void **state)
{
	(void)state;
	const double angles[] = {0.3, 1, 2, 4};
	tomos_geometry *scan;
	assert_int_equal(tomos_geometry_cone(&scan, 100, 100, 1, 60, 120, angles, 4), TOMOS_OK);
	tomos_grid grid;
	assert_int_equal(tomos_grid_centred(&grid, 20, 20, 20, 1), TOMOS_OK);
	for (int trial = 0; trial < 200; trial++) {
		Box box;
		for (int i = 0; i < 3; i++) {
			box.low[i] = (int64_t)uniform(0, 20);
			box.high[i] =
				box.low[i] + 1 + (int64_t)uniform(0, 19.0 - (double)box.low[i]);
		}
		double low[2] = {1e9, 1e9}, high[2] = {-1e9, -1e9}, pixel[2];
		for (int k = 0; k < 8; k++) {
			double p[3];
			for (int i = 0; i < 3; i++)
				p[i] = grid.first[i] +
				       grid.step[i] *
					       ((double)(k >> i & 1 ? box.high[i] : box.low[i]) -
						       0.5);
			project_point(scan, trial % 4, p, &pixel[0], &pixel[1]);
			for (int i = 0; i < 2; i++) {
				low[i] = fmin(low[i], pixel[i]);
				high[i] = fmax(high[i], pixel[i]);
			}
		}
		Window w = geom_window(scan, trial % 4, &grid, &box, 0);
		for (int i = 0; i < 2; i++) {
			assert_true((double)w.low[i] > low[i] - 1.1);
			assert_true((double)w.high[i] - 1 < high[i] + 1.1);
		}
	}
	tomos_geometry_free(scan);
}

#define TESTS(T) \
	T(test_brute_force), T(test_tight), T(test_misses), T(test_near_source), \
		T(test_not_wasteful)
TEST_MAIN(TESTS, NULL, NULL)
