/* Which rows of a scan the slices of a volume are, where each slice needs one row alone. */
#include "geom/orbit.h"
#include "io/io_help.h"
#include "run/run_parts.h"

enum { ROWS = 9 };

static tomos_geometry *stack(const char *kind, double pixel)
{
	static const double distances[2] = {40, 60};
	static const int64_t size[3] = {5, ROWS, 12};
	tomos_scan_options o = orbit_options(kind, size, distances);
	tomos_geometry *scan;
	o.pixel = pixel;
	assert_ok(tomos_geometry_make(&scan, &o));
	return scan;
}

/* `count` slices from row `first` on, `shift` rows off their places. */
static bool is_stacked(
	const tomos_geometry *scan, int64_t first, int64_t count, double shift, int64_t *found)
{
	tomos_grid grid;
	assert_ok(tomos_grid_for(&grid, scan, NULL));
	grid.first[2] += ((double)first + shift) * grid.step[2];
	grid.n[2] = count;
	*found = -1;
	return run_stacked(scan, &grid, found);
}

/* Of pixel sizes that floats round up or down, slices are found to lie on their detector rows. */
static void rows_are_found(void **state)
{
	(void)state;
	for (int i = 1; i <= 40; i++)
		for (int fan = 0; fan < 2; fan++) {
			tomos_geometry *scan = stack(fan ? "fan" : "parallel", 0.1 * i / 7);
			int64_t found;
			for (int64_t first = 0; first < ROWS; first++) {
				assert_true(is_stacked(scan, first, ROWS - first, 0, &found));
				assert_int_equal(found, first);
			}
			assert_true(is_stacked(scan, 2, 3, 1e-8, &found));
			assert_true(is_stacked(scan, 2, 3, -1e-8, &found));
			assert_int_equal(found, 2);
			tomos_geometry_free(scan);
		}
}

static void others_are_not_stacks(void **state)
{
	(void)state;
	tomos_geometry *scan = stack("parallel", 0.3), *cone = stack("cone", 0.3);
	int64_t found;
	assert_false(is_stacked(scan, 2, 3, 0.01, &found));
	assert_false(is_stacked(scan, -1, 3, 0, &found));
	assert_false(is_stacked(scan, 7, 3, 0, &found));
	assert_false(is_stacked(cone, 0, ROWS, 0, &found));
	tomos_geometry_free(scan);
	tomos_geometry_free(cone);
}

#define TESTS(T) T(rows_are_found), T(others_are_not_stacks)
TEST_MAIN(TESTS, NULL, NULL)
