/* Ranks that share the only slab and project together: the bits of one process. The ranks are
 * threads. */
#include "op/ranked_parts.h" /* first: cmocka makes a macro of fail() */
#include "base/base_test.h"
#include "geom/orbit.h"
#include "ops/rank_threads.h"
#include <unistd.h>

/* So many slices that the kernels of teams are the fastest. */
enum { ACROSS = 20, SLICES = 80, COLUMNS = 30, ROWS = 88, VIEWS = 12, RANKS = 3 };
enum { VOXELS = SLICES * ACROSS * ACROSS, IMAGE = ROWS * COLUMNS, RAYS = VIEWS * IMAGE };

typedef struct {
	const char *forward, *back;
	bool plain;
	const char *kernel; /* NULL: the fastest */
} Case;

/* Results of one process. */
typedef struct {
	tomos_geometry *scan;
	tomos_grid grid;
	tomos_projector_options options;
	const char *kernel;
	float x[VOXELS], y[RAYS], back[VOXELS], sums[RAYS], power[RAYS], ones[VOXELS];
} Expected;

static tomos_geometry *make_scan(void)
{
	static const double distances[2] = {60, 90};
	static const int64_t size[3] = {VIEWS, ROWS, COLUMNS};
	tomos_scan_options o = orbit_options("cone", size, distances);
	tomos_geometry *scan;
	assert_ok(tomos_geometry_make(&scan, &o));
	return scan;
}

static void project_alone(Expected *e)
{
	tomos_backend *backend;
	tomos_op *op;
	for (int i = 0; i < VOXELS; i++) {
		e->x[i] = (float)(i * 7919L % 1000) / 1000;
		e->ones[i] = 1;
	}
	assert_ok(tomos_backend_open(&backend, "cpu"));
	backend->tuning.forced = e->kernel;
	assert_ok(tomos_op_projector(&op, backend, &e->grid, e->scan, &e->options));
	assert_ok(op_forward(op, e->x, e->y));
	assert_true(!e->kernel || strcmp(backend->last_kernel, e->kernel) == 0);
	assert_ok(op_adjoint(op, e->y, e->back));
	assert_true(!e->kernel || strcmp(backend->last_kernel, e->kernel) == 0);
	assert_ok(op_row_sums(op, e->ones, e->sums));
	assert_ok(op_power(op, 2, e->x, e->power));
	tomos_op_free(op);
	tomos_backend_close(backend);
}

static bool is_same(const float *a, const float *b, int64_t count)
{
	return memcmp(a, b, (size_t)count * sizeof *a) == 0;
}

/* `first`: its first slice and view. */
static tomos_status compare(const Expected *e, const tomos_op *op, const int64_t first[2])
{
	int64_t slices = first[0] * ACROSS * ACROSS, views = first[1] * IMAGE;
	float *y, *x;
	TRY(mem_zeroed(&y, op->range.count, sizeof *y, "projections"));
	TRY(mem_zeroed(&x, op->domain.count, sizeof *x, "a volume"));
	bool same = true;
	for (int turn = 0; turn < 3; turn++) { /* shared memory is used again */
		TRY(op_forward(op, e->x + slices, y));
		same = same && is_same(y, e->y + views, op->range.count);
		TRY(op_adjoint(op, e->y + views, x));
		same = same && is_same(x, e->back + slices, op->domain.count);
		TRY(op_row_sums(op, e->ones + slices, y));
		same = same && is_same(y, e->sums + views, op->range.count);
		TRY(op_power(op, 2, e->x + slices, y));
		same = same && is_same(y, e->power + views, op->range.count);
	}
	mem_free(y);
	mem_free(x);
	return same ? TOMOS_OK : TOMOS_BAD_VALUE;
}

static tomos_status try_rank(tomos_comm *comm, void *user)
{
	Expected *e = user;
	const int64_t slices[RANKS + 1] = {0, 11, 27, SLICES};
	int64_t first = VIEWS * comm->rank / RANKS;
	tomos_backend *own, *ranked;
	tomos_geometry *scan;
	tomos_op *op;
	TRY(tomos_geometry_views(&scan, ROWS, COLUMNS, e->scan->views + first, VIEWS / RANKS));
	const Bands bands = {scan, &e->grid, slices, 1, RANKS, e->scan, first};
	TRY(tomos_backend_open(&own, "cpu"));
	own->tuning.forced = e->kernel;
	TRY(ranked_open(&ranked, own, comm));
	TRY(op_ranked(&op, ranked, &bands, &e->options));
	double before = comm->sent;
	tomos_status status = compare(e, op, (int64_t[2]){slices[comm->rank], first});
	if (status == TOMOS_OK && comm->sent != before)
		status = TOMOS_BAD_VALUE;
	tomos_op_free(op);
	ranked_close(ranked);
	tomos_backend_close(own);
	tomos_geometry_free(scan);
	return status;
}

static void projections_have_the_bits_of_one_process(void **state)
{
	static const Case cases[] = {{"joseph", "joseph", false, NULL},
		{"joseph", "voxel", false, NULL}, {"joseph", "joseph", true, NULL},
		{"joseph", "joseph", false, "upright"}, {"joseph", "joseph", false, "ray"},
		{"joseph", "joseph", false, "ray_circle"}};
	static Expected e;
	(void)state;
	alarm(120); /* ranks might wait for ever */
	for (int i = 0; i < COUNT(cases); i++) {
		e = (Expected){.scan = make_scan(), .options = tomos_projector_defaults()};
		e.options.forward = cases[i].forward;
		e.options.back = cases[i].back;
		e.options.plain = cases[i].plain;
		assert_ok(tomos_grid_centred(&e.grid, ACROSS, ACROSS, SLICES, 1));
		if (strcmp(cases[i].back, "voxel") == 0)
			e.grid.step[1] *= 0.9; /* patch_circle, which teams lack, needs squares */
		e.kernel = cases[i].kernel;
		project_alone(&e);
		(void)ranks_run(RANKS, try_rank, &e, TOMOS_OK);
		tomos_geometry_free(e.scan);
	}
	alarm(0);
}

#define TESTS(T) T(projections_have_the_bits_of_one_process)
TEST_MAIN(TESTS, NULL, NULL)
