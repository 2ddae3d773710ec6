/* Bundles: every view is in one of them, beside others of nearly its direction. */
#include "backend/device/bundle.h" /* first: cmocka makes a macro of fail() */
#include "ops/cases.h"

enum { MOST = 3000 };

static const HatSlices slices = {.a = 0, .b = 1};

typedef struct {
	KernelView views[MOST];
	Plan plan;
	ProjectRequest what;
} Request;

/* `count` views of a scan over `arc` degrees, in leaps of `leap` views, after two that are not
 * asked for. */
static Request *request_of(int count, double arc, int leap)
{
	Request *r = calloc(1, sizeof *r);
	for (int i = 0; i < count; i++) {
		double angle = arc * M_PI / 180 * (double)((int64_t)i * leap % count) / count;
		r->views[i + 2].column[0] = 0.9 * cos(angle);
		r->views[i + 2].column[1] = -0.9 * sin(angle);
	}
	r->plan.views = r->views;
	r->what = (ProjectRequest){.plan = &r->plan, .first = 2, .count = count};
	return r;
}

/* How far rays of a view move away from the bundle's direction, for a pixel along it. */
static double deviation(const Request *r, const Bundle *b, int view)
{
	const double *column = r->views[2 + view].column;
	double across = column[b->along_b ? 0 : 1], along = column[b->along_b ? 1 : 0];
	assert_true(fabs(across) >= fabs(along) - 1e-9);
	return fabs(along / across + ldexp((double)b->slope, -BUNDLE_SHIFT));
}

static void check_bundle(const Request *r, const Bundles *bundles, const Bundle *b, int *seen)
{
	int64_t views = 0;
	assert_true(llabs(b->slope) <= 1 << BUNDLE_SHIFT);
	for (int64_t i = 0; i < b->count * BUNDLE_VIEWS; i++) {
		int view = bundles->order[b->first * BUNDLE_VIEWS + i];
		if (view < 0)
			continue;
		views++;
		seen[view]++;
		assert_true(deviation(r, b, view) <= tan(M_PI / 16) * 2 + 1e-5);
	}
	assert_true(views > (b->count - 1) * BUNDLE_VIEWS);
}

static void every_view_is_in_one(void **state)
{
	(void)state;
	static const struct {
		int count, leap, most;
		double arc;
	} scans[] = {{1, 1, 1, 180}, {7, 3, 8, 180}, {66, 1, 8, 180}, {720, 7, 12, 360},
		{1024, 1, 16, 180}, {2048, 1235, 32, 180}, {2990, 1, 11, 60}};
	for (size_t k = 0; k < sizeof scans / sizeof scans[0]; k++) {
		Request *r = request_of(scans[k].count, scans[k].arc, scans[k].leap);
		Bundles bundles;
		int *seen = calloc(MOST, sizeof *seen);
		OK(bundles_make(&bundles, &r->what, &slices));
		assert_true(bundles.count >= 1 && bundles.count <= scans[k].most + 2);
		for (int64_t i = 0, first = 0; i < bundles.count; i++) {
			assert_int_equal(bundles.list[i].first, first);
			first += bundles.list[i].count;
			assert_true(first * BUNDLE_VIEWS <= bundles.places);
			check_bundle(r, &bundles, &bundles.list[i], seen);
		}
		for (int i = 0; i < scans[k].count; i++)
			assert_int_equal(seen[i], 1);
		bundles_free(&bundles);
		free(seen), free(r);
	}
}

static void allocations_may_fail(void **state)
{
	(void)state;
	Request *r = request_of(100, 180, 1);
	int64_t live = mem_live();
	tomos_status status = TOMOS_NO_MEMORY;
	for (int nth = 1; status != TOMOS_OK; nth++) {
		Bundles bundles;
		mem_fail_nth(nth);
		status = bundles_make(&bundles, &r->what, &slices);
		mem_fail_nth(0);
		bundles_free(&bundles);
		assert_true(status == TOMOS_OK || status == TOMOS_NO_MEMORY);
		assert_int_equal(mem_live(), live);
		assert_true(nth < 10);
	}
	free(r);
}

#define TESTS(T) T(every_view_is_in_one), T(allocations_may_fail)
TEST_MAIN(TESTS, NULL, NULL)
