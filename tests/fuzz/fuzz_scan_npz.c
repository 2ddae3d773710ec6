/* Any bytes as a scan in an npz file, stored and deflated. */
#include "fuzz_scan.h"
#include "io/npz_help.h"

static void put_seeds(const char *directory)
{
	static const double zeros[8];
	unsigned char bytes[4096];
	for (int packed = 0; packed < 2; packed++) {
		const NpzArray arrays[] = {{"data.npy", "<u2", "(2, 3, 4)", zeros, 48, packed},
			{"flats.npy", ">u2", "(3, 4)", zeros, 24, packed},
			{"theta.npy", "<f8", "(2,)", zeros, 16, packed}};
		size_t length = npz_make(bytes, arrays, COUNT(arrays));
		put_bytes(directory, packed ? "seed-packed.npz" : "seed.npz", bytes, length);
	}
}

const Target target = {&format_npz, NPZ_START, read_scan, put_seeds};
