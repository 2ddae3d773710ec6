/* ProjectRequest and back projecting needs no more than volume + projections + 64 MiB, measured as
 * the largest resident size of a process that does nothing else. */
#include "ops/cases.h"
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MIB = 1 << 20, LIMIT_MIB = 64, SKIPPED = 77 };

/* The first two are what all models are asked; the others fill the optimised kernels' scratch. */
typedef struct {
	const char *geometry;
	int64_t nx, nz, rows, columns, views;
	const char *models; /* NULL: all */
} Setting;

static const Setting settings[] = {{"parallel", 160, 160, 160, 160, 2, NULL},
	{"cone", 160, 160, 160, 160, 2, NULL}, {"parallel", 160, 160, 160, 160, 40, "joseph"},
	{"cone", 48, 48, 1024, 1024, 9, "voxel"}, {"parallel", 1536, 1, 1, 4096, 900, "joseph"},
	{"lebedev", 640, 40, 64, 64, 7, "joseph"}};

static tomos_geometry *scan_of(const Setting *s)
{
	tomos_geometry *scan;
	double source_axis = 4 * (double)s->nx, source_detector = 6 * (double)s->nx;
	tomos_scan_options o = tomos_scan_defaults();
	o.geometry = s->geometry;
	o.rows = s->rows;
	o.columns = s->columns;
	o.views = s->views;
	if (strcmp(s->geometry, "cone") == 0) {
		o.source_axis = &source_axis, o.source_axis_count = 1;
		o.source_detector = &source_detector, o.source_detector_count = 1;
	}
	OK(tomos_geometry_make(&scan, &o));
	return scan;
}

static float *touched(int64_t count)
{
	float *data = malloc((size_t)count * sizeof *data);
	for (int64_t i = 0; data && i < count; i++)
		data[i] = 1;
	return data;
}

/* Bytes beyond the two arrays, of one direction in a process of its own. */
static int64_t measure(const Setting *s, const char *model, int back)
{
	struct rusage usage;
	tomos_backend *backend;
	tomos_grid grid;
	tomos_projector_options o = tomos_projector_defaults();
	o.forward = model;
	tomos_geometry *scan = scan_of(s);
	OK(tomos_backend_open(&backend, "cpu"));
	OK(tomos_grid_centred(&grid, s->nx, s->nx, s->nz, 1));
	int64_t voxels = s->nx * s->nx * s->nz, pixels = s->views * s->rows * s->columns;
	float *x = touched(voxels), *y = touched(pixels);
	if (back)
		case_adjoint(backend, &grid, scan, &o, y, x);
	else
		case_forward(backend, &grid, scan, &o, x, y);
	getrusage(RUSAGE_SELF, &usage);
	free(x), free(y);
	tomos_geometry_free(scan);
	tomos_backend_close(backend);
	return (int64_t)usage.ru_maxrss * 1024 - (voxels + pixels) * (int64_t)sizeof(float);
}

static int64_t measure_apart(const Setting *s, const char *model, int back)
{
	int ends[2], status;
	int64_t bytes = -1;
	assert_int_equal(pipe(ends), 0);
	fflush(stdout);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		bytes = measure(s, model, back);
		_exit(write(ends[1], &bytes, sizeof bytes) != sizeof bytes);
	}
	close(ends[1]);
	assert_int_equal(read(ends[0], &bytes, sizeof bytes), sizeof bytes);
	close(ends[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	return bytes;
}

static int asked(const Setting *s, const char *model)
{
	size_t length = strlen(model);
	for (const char *at = s->models; at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL)
		if (strncmp(at, model, length) == 0 && (!at[length] || at[length] == '|'))
			return 1;
	return s->models == NULL;
}

static void no_more_than_the_arrays(void **state)
{
	(void)state;
	printf("MiB beyond volume and projections, limit %d\n", LIMIT_MIB);
	for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
		const Setting *s = &settings[i];
		int64_t voxels = s->nx * s->nx * s->nz, pixels = s->views * s->rows * s->columns;
		printf("%s: volume %lld MiB, projections %lld MiB (%lld x %lld x %lld)\n",
			s->geometry, (long long)(voxels * 4 / MIB), (long long)(pixels * 4 / MIB),
			(long long)s->views, (long long)s->rows, (long long)s->columns);
		for (int m = 0; m < CASE_MODELS; m++) {
			if (!asked(s, case_models[m]))
				continue;
			int64_t forward = measure_apart(s, case_models[m], 0);
			int64_t back = measure_apart(s, case_models[m], 1);
			printf("  %-10s  forward %5.1f  back %5.1f\n", case_models[m],
				(double)forward / MIB, (double)back / MIB);
			assert_in_range(forward, 1, LIMIT_MIB * MIB);
			assert_in_range(back, 1, LIMIT_MIB * MIB);
		}
	}
}

int main(void)
{
	if (CASE_SLOW) {
		printf("a sanitizer's own memory cannot be told from the library's: skipped\n");
		return SKIPPED;
	}
	const struct CMUnitTest tests[] = {cmocka_unit_test(no_more_than_the_arrays)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
