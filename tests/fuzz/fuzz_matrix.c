/* Any bytes as a matrix: Matrix Market, npz of SciPy, HDF5. */
#include "fuzz_hdf5.h"
#include "io/matrix_file.h"

static void read_matrix(const char *path, const uint8_t *bytes, size_t size)
{
	tomos_matrix matrix = {.bytes = sizeof matrix};
	int64_t live = mem_live();
	(void)bytes;
	(void)size;
	if (matrix_read(path, &matrix) != TOMOS_OK)
		require(*tomos_message() && !matrix.values);
	matrix_release(&matrix);
	require(mem_live() == live);
}

static void put_seeds(const char *directory)
{
	static const char *const names[] = {"seed.mtx", "seed.npz", "seed.h5"};
	static const int32_t pointers[3] = {0, 2, 3}, indices[3] = {0, 2, 1};
	static const float values[3] = {1, 2, 3};
	const tomos_matrix matrix = {sizeof matrix, 2, 3, 3, 4, 4, pointers, indices, values};
	tomos_file_options options = tomos_file_defaults();
	options.overwrite = 1;
	for (int i = 0; i < COUNT(names); i++)
		require(matrix_write(seed_path(directory, names[i]), &matrix, &options) ==
			TOMOS_OK);
	put_text(directory, "seed-symmetric.mtx",
		"%%MatrixMarket matrix coordinate real symmetric\n2 2 2\n1 1 1.5\n2 1 -1\n");
}

const Target target = {NULL, NULL, 0, read_matrix, put_seeds};
