/* Any bytes as the checkpoint of an iteration: described, and continued. */
#include "fuzz_file.h"
#include "tomos.h"

static tomos_op *op;

static void make_operator(void)
{
	const double angles[3] = {0, 1, 2};
	static tomos_backend *backend;
	static tomos_geometry *scan;
	tomos_grid grid;
	require(tomos_set_threads(1) == TOMOS_OK);
	require(tomos_backend_open(&backend, "cpu") == TOMOS_OK);
	require(tomos_grid_centred(&grid, 3, 3, 1, 1) == TOMOS_OK);
	require(tomos_geometry_parallel(&scan, 1, 3, 1, angles, 3) == TOMOS_OK);
	require(tomos_op_projector(&op, backend, &grid, scan, NULL) == TOMOS_OK);
}

/* `resume` without a file begins with the first iteration. */
static tomos_status iterate(const char *path, int64_t iterations)
{
	float data[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, result[9] = {0};
	tomos_array b = tomos_array_of(data, 3, 1, 3), x = tomos_array_of(result, 1, 3, 3);
	tomos_algebraic_options o = tomos_algebraic_defaults();
	o.iterations = iterations;
	o.checkpoint = path;
	o.resume = 1;
	return tomos_cgls(op, &b, &x, &o, NULL);
}

static void read_checkpoint(const char *path, const uint8_t *bytes, size_t size)
{
	static tomos_checkpoint_info info = {.bytes = sizeof info};
	if (!op)
		make_operator();
	int64_t live = mem_live();
	(void)bytes;
	(void)size;
	(void)tomos_checkpoint_describe(path, &info);
	if (iterate(path, 2) != TOMOS_OK)
		require(*tomos_message());
	require(mem_live() == live);
}

static void put_seeds(const char *directory)
{
	if (!op)
		make_operator();
	(void)remove(seed_path(directory, "seed"));
	require(iterate(seed_path(directory, "seed"), 2) == TOMOS_OK);
	put_text(directory, "seed-older", "tomos checkpoint 1\nmethod cgls\n");
}

const Target target = {NULL, NULL, 0, read_checkpoint, put_seeds};
