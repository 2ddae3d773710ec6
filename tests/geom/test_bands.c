/* Detector rows of ranks: every row of a view is owned once, and a slab reaches what it casts. */
#include "base/base_test.h"
#include "geom/bands.h"

enum { SLICES = 23, MOST = 8 };

static tomos_geometry *make(const char *kind)
{
	static const double source_axis = 60, source_detector = 90, tilt = 0.5, pitch = 14;
	tomos_scan_options o = tomos_scan_defaults();
	tomos_geometry *scan;
	o.geometry = kind;
	o.rows = 31;
	o.columns = 20;
	o.views = 17;
	if (strcmp(kind, "parallel") != 0 && strcmp(kind, "laminography") != 0) {
		o.source_axis = &source_axis, o.source_axis_count = 1;
		o.source_detector = &source_detector, o.source_detector_count = 1;
	}
	if (strcmp(kind, "laminography") == 0)
		o.tilt = tilt;
	if (strcmp(kind, "helix") == 0)
		o.pitch = pitch, o.arc = 18;
	assert_ok(tomos_geometry_make(&scan, &o));
	return scan;
}

static tomos_grid cube(int64_t across)
{
	tomos_grid grid;
	assert_ok(tomos_grid_centred(&grid, across, across, SLICES, 1));
	return grid;
}

static void divide(int64_t *slices, int ranks)
{
	for (int i = 0; i <= ranks; i++)
		slices[i] = SLICES * i / ranks;
}

static void check_view(const Bands *b, int64_t view)
{
	int owners[64] = {0};
	for (int rank = 0; rank < b->slabs; rank++) {
		RowBand own = bands_own(b, rank, view);
		assert_true(own.low >= 0 && own.low <= own.high && own.high <= b->scan->rows);
		for (int64_t row = own.low; row < own.high; row++)
			owners[row]++;
	}
	for (int64_t row = 0; row < b->scan->rows; row++)
		assert_int_equal(owners[row], 1);
}

static void rows_have_one_owner(void **state)
{
	static const char *const kinds[] = {"parallel", "cone", "laminography", "helix"};
	(void)state;
	for (int kind = 0; kind < 4; kind++)
		for (int down = 0; down < 2; down++)
			for (int ranks = 1; ranks <= MOST; ranks++) {
				tomos_geometry *scan = make(kinds[kind]);
				tomos_grid grid = cube(24);
				int64_t slices[MOST + 1];
				divide(slices, ranks);
				for (int64_t i = 0; i < scan->count; i++)
					for (int k = 0; k < 3 && down; k++)
						scan->views[i].v[k] *= -1;
				const Bands bands = {scan, &grid, slices, ranks, 1, NULL, 0};
				for (int64_t i = 0; i < scan->count; i++)
					check_view(&bands, i);
				tomos_geometry_free(scan);
			}
}

/* Rows within slices: what a rank owns is its slices, and little else is reached. */
static void parallel_bands_are_slices(void **state)
{
	tomos_geometry *scan = make("parallel");
	tomos_grid grid = cube(20);
	int64_t slices[4];
	(void)state;
	divide(slices, 3);
	const Bands bands = {scan, &grid, slices, 3, 1, NULL, 0};
	RowBand own = bands_own(&bands, 1, 0), reach = bands_reach(&bands, 1, 0);
	assert_int_equal(own.high - own.low, slices[2] - slices[1]);
	assert_int_equal(own.low, slices[1] + 4);
	assert_true(reach.low <= own.low && reach.high >= own.high);
	assert_true(reach.high - reach.low <= own.high - own.low + 6);
	tomos_geometry_free(scan);
}

#define TESTS(T) T(rows_have_one_owner), T(parallel_bands_are_slices)
TEST_MAIN(TESTS, NULL, NULL)
