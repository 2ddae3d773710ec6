/* Any bytes as a list of angles, and fitted to fewer views. */
#include "fuzz_scan.h"

static void read_angles(const char *path, const uint8_t *bytes, size_t size)
{
	double *angles, *fitted = NULL;
	int64_t count, live = mem_live();
	(void)bytes;
	(void)size;
	tomos_status status = angles_read(&angles, &count, path);
	require((status == TOMOS_OK) == (angles != NULL) && (angles || *tomos_message()));
	if (angles)
		(void)angles_fit(&fitted, angles, count, max64(1, count - 2), "a list");
	mem_free(fitted);
	mem_free(angles);
	require(mem_live() == live);
}

static void put_seeds(const char *directory)
{
	put_text(directory, "seed", "# degrees\n0, 36\n72;108\t-144e0 nan\n");
	put_text(directory, "seed-standing", "0\n0\n1\n2\n3\n3\n");
}

const Target target = {NULL, NULL, 0, read_angles, put_seeds};
