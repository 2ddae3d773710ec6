/* A fake device with three kernels of known speed, and tuning files in a folder of their own. */
#ifndef TOMOS_TESTS_OPS_TUNE_FAKE_H
#define TOMOS_TESTS_OPS_TUNE_FAKE_H

#include "backend/split/split.h" /* first: cmocka makes a macro of fail() */
#include "backend/tune.h"
#include "ops/cases.h"
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char folder[] = "/tmp/tomos-tune-XXXXXX";

/* ---- a device of our own -------------------------------------------------------------------- */

/* Three kernels for voxels going back, of known speed; nothing for the other projections. */
static const struct {
	const char *name;
	long microseconds;
	bool coarse;
} fake_kernels[] = {{"slow", 20000, false}, {"quick", 8000, false}, {"rough", 0, true}};

static inline int fake_candidates(
	tomos_backend *backend, const ProjectRequest *what, KernelCandidate *list)
{
	(void)backend;
	if (what->kernel != KERNEL_voxel || what->direction != ADJOINT)
		return 0;
	for (int i = 0; i < COUNT(fake_kernels); i++)
		list[i] = (KernelCandidate){fake_kernels[i].name, i == 0, fake_kernels[i].coarse};
	return COUNT(fake_kernels);
}

static inline bool fake_has_kernel(const tomos_backend *backend, const char *kernel)
{
	(void)backend;
	return strcmp(kernel, "gone") != 0;
}

static char last_run[32];

static inline tomos_status fake_project(tomos_backend *backend, const ProjectRequest *what)
{
	const char *wanted = tune_wanted(backend, what);
	const char *name = wanted ? wanted : fake_kernels[0].name;
	snprintf(last_run, sizeof last_run, "%s", name);
	for (int i = 0; i < COUNT(fake_kernels); i++)
		if (strcmp(fake_kernels[i].name, name) == 0)
			nanosleep(&(struct timespec){0, 1000 * fake_kernels[i].microseconds}, NULL);
	return TOMOS_OK;
}

static const char *fake_model = "a device\nof two lines", *fake_driver = "1.2";

static inline tomos_status fake_open(tomos_backend *backend, const char *argument)
{
	(void)argument;
	snprintf(backend->model, sizeof backend->model, "%s", fake_model);
	snprintf(backend->driver, sizeof backend->driver, "%s", fake_driver);
	snprintf(backend->description, sizeof backend->description, "fake");
	return TOMOS_OK;
}

static BackendCopy fake;

static inline tomos_backend *fake_backend(void)
{
	tomos_backend *backend;
	backend_copy(&fake, &cpu_backend);
	fake.type.name = "fake";
	fake.type.open = fake_open;
	fake.projector.apply = fake_project;
	fake.projector.candidates = fake_candidates;
	fake.projector.has_kernel = fake_has_kernel;
	OK(backend_open_type(&backend, &fake.type, ""));
	return backend;
}

typedef struct {
	tomos_grid grid;
	tomos_geometry *scan;
} Problem;

static inline Problem problem(int64_t n, int64_t slices, int64_t views)
{
	Problem p;
	double *angles = calloc((size_t)views, sizeof *angles);
	for (int64_t i = 0; i < views; i++)
		angles[i] = 3.14159 * (double)i / (double)views;
	OK(tomos_grid_centred(&p.grid, n, n, slices, 1));
	OK(tomos_geometry_parallel(&p.scan, slices, n, 1, angles, views));
	free(angles);
	return p;
}

static inline void tune_fake(
	tomos_backend *backend, int allow_coarse, tomos_tuned **rows, int64_t *count)
{
	Problem p = problem(8, 4, 6);
	tomos_tune_options o = tomos_tune_defaults();
	o.seconds = 0.6;
	o.allow_coarse = allow_coarse;
	OK(tomos_tune(rows, count, backend, &p.grid, p.scan, &o, NULL));
	tomos_geometry_free(p.scan);
}

static inline int begin(void **state)
{
	(void)state;
	unsetenv("TOMOS_TUNE");
	unsetenv("TOMOS_KERNEL");
	return mkdtemp(folder) && setenv("XDG_CACHE_HOME", folder, 1) == 0 ? 0 : -1;
}

static inline int end(void **state)
{
	(void)state;
	file_discard(folder);
	return 0;
}

static inline const char *ran(tomos_backend *backend, int64_t n, int64_t slices, int64_t views)
{
	Problem p = problem(n, slices, views);
	tomos_projector_options o = tomos_projector_defaults();
	tomos_op *op;
	float *x = calloc((size_t)(n * n * slices), sizeof *x);
	float *y = calloc((size_t)(n * slices * views), sizeof *y);
	tomos_array ax = tomos_array_of(x, slices, n, n), ay = tomos_array_of(y, views, slices, n);
	o.forward = "voxel";
	OK(tomos_op_projector(&op, backend, &p.grid, p.scan, &o));
	OK(tomos_op_adjoint(op, &ay, &ax));
	tomos_op_free(op);
	tomos_geometry_free(p.scan);
	free(x);
	free(y);
	return last_run;
}

#endif
