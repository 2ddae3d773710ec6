/* The number of rays that meet a voxel, by which CAV and DROP divide, depends neither on rounding
 * in the geometry nor on how the matrix is stored. */
#include "op/op.h"
#include "ops/cases.h"

enum { N = 12, ROWS = 4, VIEWS = 8 };

/* Views at 22.5 degrees each, on whose rays many voxels' centres and corners lie but for
 * rounding. */
static tomos_geometry *scan_make(int rows, double pixel)
{
	double angles[VIEWS];
	tomos_geometry *scan;
	for (int i = 0; i < VIEWS; i++)
		angles[i] = 3.14159265358979323846 * i / VIEWS;
	OK(tomos_geometry_parallel(&scan, rows, N, pixel, angles, VIEWS));
	return scan;
}

/* The same views, with other last bits. */
static tomos_geometry *scan_disturbed(const tomos_geometry *scan, int rows)
{
	tomos_geometry *other;
	tomos_view views[VIEWS];
	memcpy(views, tomos_geometry_list(scan), sizeof views);
	for (int i = 0; i < VIEWS; i++)
		for (int a = 0; a < 3; a++) {
			views[i].det[a] += 3e-15 * (i % 3 - 1);
			views[i].u[a] *= 1 + 1e-15 * (a - 1);
			views[i].v[a] *= 1 - 1e-15 * (i % 2);
		}
	OK(tomos_geometry_views(&other, rows, N, views, VIEWS));
	return other;
}

static tomos_op *projector_make(tomos_backend *backend, const tomos_geometry *scan,
	const tomos_grid *grid, const char *model)
{
	tomos_projector_options o = tomos_projector_defaults();
	tomos_op *op;
	o.forward = model;
	OK(tomos_op_projector(&op, backend, grid, scan, &o));
	return op;
}

static void check_same(const tomos_op *a, const tomos_op *b, const char *what)
{
	int64_t voxels = a->domain.count;
	float *ones, *x, *y, *counts[2];
	OK(vector_new(&ones, &a->range, "ones"));
	OK(vector_new(&x, &a->domain, "counts"));
	OK(vector_new(&y, &b->domain, "counts"));
	OK(vector_fill(&a->range, 1, ones));
	OK(op_power_adjoint(a, 0, ones, x));
	OK(op_power_adjoint(b, 0, ones, y));
	for (int i = 0; i < 2; i++) {
		const int64_t *n = a->domain.shape;
		counts[i] = malloc((size_t)voxels * sizeof(float));
		tomos_array array = tomos_array_of(counts[i], n[0], n[1], n[2]);
		OK(a->domain.backend->type->memory->download(a->domain.backend, i ? y : x, &array));
	}
	for (int64_t i = 0; i < voxels; i++)
		if (counts[0][i] != counts[1][i])
			fail_msg("%s: voxel %lld is met by %g rays, or by %g", what, (long long)i,
				(double)counts[0][i], (double)counts[1][i]);
	assert_true(counts[0][voxels / 2] >= VIEWS);
	free(counts[0]);
	free(counts[1]);
	vector_free(ones, &a->range);
	vector_free(x, &a->domain);
	vector_free(y, &b->domain);
}

static void last_bits(void **state)
{
	(void)state;
	tomos_backend *backend;
	OK(tomos_backend_open(&backend, test_backend()));
	for (int k = 0; k < 2 * CASE_MODELS; k++) {
		int rows = k % 2 ? ROWS : 1;
		tomos_geometry *scan = scan_make(rows, 0.1), *other = scan_disturbed(scan, rows);
		tomos_grid grid;
		OK(tomos_grid_centred(&grid, N, N, rows, 0.1));
		tomos_op *a = projector_make(backend, scan, &grid, case_models[k / 2]);
		tomos_op *b = projector_make(backend, other, &grid, case_models[k / 2]);
		check_same(a, b, case_models[k / 2]);
		tomos_op_free(a);
		tomos_op_free(b);
		tomos_geometry_free(scan);
		tomos_geometry_free(other);
	}
	tomos_backend_close(backend);
}

static void storage(void **state)
{
	(void)state;
	static const char *const models[] = {"joseph", "line", "voxel", "footprint"};
	tomos_geometry *scan = scan_make(1, 0.1);
	tomos_backend *backend;
	tomos_grid grid;
	OK(tomos_backend_open(&backend, test_backend()));
	OK(tomos_grid_centred(&grid, N, N, 1, 0.1));
	for (int k = 0; k < 8; k++) {
		tomos_matrix_options o = tomos_matrix_defaults();
		tomos_projector_options p = tomos_projector_defaults();
		tomos_op *op = projector_make(backend, scan, &grid, models[k / 2]), *stored;
		p.forward = models[k / 2];
		o.storage = k % 2 ? "scsr" : "csr";
		OK(tomos_op_matrix(&stored, backend, &grid, scan, &p, &o));
		check_same(op, stored, o.storage);
		tomos_op_free(stored);
		tomos_op_free(op);
	}
	tomos_geometry_free(scan);
	tomos_backend_close(backend);
}

#define TESTS(T) T(last_bits), T(storage)
TEST_MAIN(TESTS, NULL, NULL)
