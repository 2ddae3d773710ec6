/* The OpenCL backend's own ways: how devices are named and rejected, its addresses, its
 * failures. */
#include "backend/backend.h" /* first: cmocka makes a macro of fail() */
#include "ops/cases.h"
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SKIPPED = 77 };

static tomos_status open_only(void)
{
	tomos_backend *backend;
	TRY(tomos_backend_open(&backend, "opencl"));
	tomos_backend_close(backend);
	return TOMOS_OK;
}

/* The second of two devices; then one that does not exist. */
static tomos_status open_third(void)
{
	tomos_backend *backend;
	TRY(tomos_backend_open(&backend, "opencl:1"));
	tomos_backend_close(backend);
	return tomos_backend_open(&backend, "opencl:2");
}

static tomos_status use(tomos_status (*task)(tomos_backend *backend))
{
	tomos_backend *backend;
	TRY(tomos_backend_open(&backend, "opencl"));
	tomos_status status = task(backend);
	tomos_backend_close(backend);
	return status;
}

static tomos_status fill_one(tomos_backend *backend)
{
	float *x;
	TRY(backend->type->memory->alloc(backend, &x, 1, "a vector"));
	tomos_status status = backend->type->vector->fill(backend, 1, 1, x);
	backend->type->memory->release(backend, x);
	return status;
}

static tomos_status build_programs(void)
{
	return use(fill_one);
}

static tomos_status take_much(tomos_backend *backend)
{
	float *x;
	return backend->type->memory->alloc(backend, &x, (int64_t)1 << 40, "a giant");
}

static tomos_status take_too_much(void)
{
	return use(take_much);
}

/* Allocates blocks until memory is exhausted, and frees them. */
static tomos_status take_pieces(tomos_backend *backend)
{
	enum { MOST = 64 };
	float *pieces[MOST];
	int count = 0;
	tomos_status status = TOMOS_OK;
	while (count < MOST && status == TOMOS_OK) {
		status = backend->type->memory->alloc(backend, &pieces[count], 3 << 24, "a piece");
		count += status == TOMOS_OK;
	}
	while (count > 0)
		backend->type->memory->release(backend, pieces[--count]);
	return status;
}

static tomos_status take_all(void)
{
	return use(take_pieces);
}

/* PoCL reads its settings when it starts, so each case runs in its own process. */
static const struct {
	const char *variable, *value;
	tomos_status (*task)(void);
	tomos_status status;
	const char *words;
} settings[] = {
	{"OCL_ICD_VENDORS", "/nowhere/", open_only, TOMOS_NO_DEVICE,
		"no driver is installed for it"},
	{"POCL_DEVICES", "", open_only, TOMOS_NO_DEVICE,
		"the OpenCL drivers of this machine have no device"},
	{"POCL_DEVICES", "basic basic", open_third, TOMOS_NO_DEVICE,
		"there is no OpenCL device 2: the drivers have 2, counted from 0"},
	{"POCL_MAX_WORK_GROUP_SIZE", "64", open_only, TOMOS_UNSUPPORTED,
		"takes 64 items per group, 128 are needed"},
	{"POCL_EXTRA_BUILD_FLAGS", "-Dkernel=nonsense", build_programs, TOMOS_NO_DEVICE,
		"the OpenCL device's compiler rejects the vector kernels: "},
	{"POCL_EXTRA_BUILD_FLAGS", "-Dkernel=nonsense", build_programs, TOMOS_NO_DEVICE,
		"unknown type name 'nonsense'"},
	{"POCL_MEMORY_LIMIT", "1", take_too_much, TOMOS_NO_MEMORY,
		"no memory on the OpenCL device for a giant: 4096.00 GiB wanted, it gives at "
		"most "},
	{"POCL_MEMORY_LIMIT", "1", take_all, TOMOS_NO_MEMORY,
		"no memory on the OpenCL device for a piece: 0.19 GiB wanted, 0.06 of 1.00 GiB are "
		"free"},
};

/* Ends a child process: 0 if it met what it should. */
static int check_setting(int i)
{
	setenv(settings[i].variable, settings[i].value, 1);
	int64_t live = mem_live();
	tomos_status status = settings[i].task();
	if (status == settings[i].status && strstr(tomos_message(), settings[i].words) &&
		mem_live() == live)
		return 0;
	fprintf(stderr, "%s=%s: %s, '%s'\n", settings[i].variable, settings[i].value,
		tomos_status_name(status), tomos_message());
	return 1;
}

static int is_there(int i)
{
	(void)i;
	if (open_only() == TOMOS_OK)
		return 0;
	fprintf(stderr, "%s\n", tomos_message());
	return SKIPPED;
}

static int is_pocl(int i)
{
	(void)i;
	tomos_backend *backend;
	if (tomos_backend_open(&backend, "opencl") != TOMOS_OK)
		return 0;
	bool is = strstr(tomos_backend_describe(backend), "(pthread-") != NULL;
	tomos_backend_close(backend);
	return is;
}

static int in_child(int (*task)(int i), int i)
{
	int status = -1;
	fflush(NULL);
	pid_t child = fork();
	if (child == 0)
		_exit(task(i));
	assert_true(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void drivers(void **state)
{
	(void)state;
	if (!in_child(is_pocl, 0)) {
		print_message("the device is not one that PoCL's settings can change\n");
		skip();
	}
	for (int i = 0; i < COUNT(settings); i++)
		assert_int_equal(in_child(check_setting, i), 0);
}

static void numbers(void **state)
{
	(void)state;
	tomos_backend *backend;
	OK(tomos_backend_open(&backend, "opencl:0"));
	assert_true(strncmp(tomos_backend_describe(backend), "opencl:0 (", 10) == 0);
	tomos_backend_close(backend);
	REJECTED(tomos_backend_open(&backend, "opencl:gpu"), TOMOS_BAD_VALUE,
		"opencl:gpu: a device is named by its number, as opencl:0");
	REJECTED(tomos_backend_open(&backend, "opencl:-1"), TOMOS_BAD_VALUE, "named by its number");
	REJECTED(tomos_backend_open(&backend, "opencl:1234567890"), TOMOS_BAD_VALUE,
		"named by its number");
	REJECTED(tomos_backend_open(&backend, "opencl:99999"), TOMOS_NO_DEVICE,
		"there is no OpenCL device 99999: the drivers have ");
	assert_null(backend);
}

/* More vectors than there is room for at first, released in another order than taken: every address
 * stands for its own memory, and one that stands for none is rejected. */
static void addresses(void **state)
{
	(void)state;
	enum { COUNT_OF = 150, SIZE = 11 };
	tomos_backend *backend;
	float *vectors[COUNT_OF], host[SIZE];
	const tomos_array array = tomos_array_of(host, 1, 1, SIZE);
	OK(tomos_backend_open(&backend, "opencl"));
	const BackendType *type = backend->type;
	int64_t live = mem_live();
	for (int i = 0; i < COUNT_OF; i++) {
		OK(type->memory->alloc(backend, &vectors[i], SIZE, "a vector"));
		OK(type->vector->fill(backend, SIZE, (float)i, vectors[i]));
		OK(type->vector->fill(backend, 1, -1, vectors[i] + SIZE - 1));
	}
	for (int i = 0; i < COUNT_OF; i += 2)
		type->memory->release(backend, vectors[i]);
	for (int i = 1; i < COUNT_OF; i += 2) {
		OK(type->memory->download(backend, vectors[i], &array));
		for (int k = 0; k < SIZE; k++)
			assert_true(host[k] == (k == SIZE - 1 ? -1 : (float)i));
	}
	REJECTED(type->vector->fill(backend, 1, 0, host), TOMOS_BAD_VALUE,
		"a vector is not on the OpenCL device");
	for (int i = 1; i < COUNT_OF; i += 2)
		type->memory->release(backend, vectors[i]);
	type->memory->release(backend, NULL);
	assert_int_equal(mem_live(), live);
	tomos_backend_close(backend);
}

enum { COLUMNS = 16, VIEWS = 12, PIXELS = VIEWS * COLUMNS };

static tomos_geometry *small_scan(void)
{
	tomos_scan_options o = tomos_scan_defaults();
	tomos_geometry *scan;
	o.columns = COLUMNS, o.views = VIEWS;
	OK(tomos_geometry_make(&scan, &o));
	return scan;
}

static tomos_status project_and_back(const tomos_geometry *scan, float *x, float *y)
{
	tomos_backend *backend;
	tomos_op *op;
	tomos_grid grid;
	tomos_array image = tomos_array_of(x, 1, COLUMNS, COLUMNS);
	tomos_array data = tomos_array_of(y, VIEWS, 1, COLUMNS);
	TRY(tomos_grid_centred(&grid, COLUMNS, COLUMNS, 1, 1));
	TRY(tomos_backend_open(&backend, "opencl"));
	tomos_status status = tomos_op_projector(&op, backend, &grid, scan, NULL);
	if (status == TOMOS_OK)
		status = tomos_op_forward(op, &image, &data);
	if (status == TOMOS_OK)
		status = tomos_fbp(backend, &grid, scan, &data, &image, NULL, NULL);
	tomos_op_free(op);
	tomos_backend_close(backend);
	return status;
}

/* Every allocation of the host fails in turn, from opening to the end of a reconstruction. */
static void host_memory(void **state)
{
	(void)state;
	tomos_geometry *scan = small_scan();
	float x[COLUMNS * COLUMNS] = {0}, y[PIXELS];
	x[COLUMNS / 2 * COLUMNS + COLUMNS / 2] = 1;
	int64_t live = mem_live(), nth = 0;
	tomos_status status;
	do {
		mem_fail_nth(++nth);
		status = project_and_back(scan, x, y);
		mem_fail_nth(0);
		if (status != TOMOS_OK && status != TOMOS_NO_MEMORY)
			fail_msg("allocation %lld: %s", (long long)nth, tomos_message());
		assert_int_equal(mem_live(), live);
	} while (status != TOMOS_OK);
	assert_true(nth > 15);
	tomos_geometry_free(scan);
}

static int seen(void *user, const char *stage, int64_t done, int64_t total, double value)
{
	(void)stage, (void)total, (void)value;
	*(int64_t *)user = done;
	return 0;
}

/* A volume on the device can be its own iterate, and no other array there can. */
static void iterates(tomos_op *op, tomos_array *there, tomos_array *data, tomos_array *host)
{
	int64_t steps = 0;
	tomos_array apart = *there;
	tomos_history history = {.bytes = sizeof history, .iterate = there};
	tomos_algebraic_options o = tomos_algebraic_defaults();
	tomos_progress progress = {seen, &steps};
	o.iterations = 2, o.history = &history;
	OK(tomos_sirt(op, data, there, &o, &progress));
	assert_int_equal(steps, 2);
	history.iterate = host;
	OK(tomos_sirt(op, data, there, &o, &progress));
	history.iterate = &apart;
	apart.data = data->data;
	REJECTED(tomos_sirt(op, data, there, &o, &progress), TOMOS_UNSUPPORTED,
		"is on device 1001, where it must be the volume's own");
}

/* Arrays on the device are used where they are, by the backend that made them alone. */
static void arrays(void **state)
{
	(void)state;
	Case c = case_make(2);
	tomos_backend *backend, *other;
	tomos_op *op, *wrong;
	tomos_array there[2], x = case_volume(&c, case_data(&c, c.voxels));
	tomos_array y = case_projections(&c, case_data(&c, c.pixels));
	float *wanted = case_data(&c, c.pixels);
	OK(tomos_backend_open(&backend, "opencl"));
	OK(tomos_backend_open(&other, "opencl"));
	case_forward(backend, &c.grid, c.scan, NULL, x.data, wanted);
	OK(tomos_op_projector(&op, backend, &c.grid, c.scan, NULL));
	OK(tomos_op_projector(&wrong, other, &c.grid, c.scan, NULL));
	OK(tomos_array_create(&there[0], backend, x.shape[0], x.shape[1], x.shape[2]));
	OK(tomos_array_create(&there[1], backend, y.shape[0], y.shape[1], y.shape[2]));
	OK(tomos_array_copy(backend, &x, &there[0]));
	BackendCounts before = backend->type->memory->counts(backend);
	OK(tomos_op_forward(op, &there[0], &there[1]));
	BackendCounts after = backend->type->memory->counts(backend);
	assert_int_equal(after.transfers - before.transfers, 1); /* the views */
	OK(tomos_array_copy(backend, &there[1], &y));
	assert_memory_equal(y.data, wanted, (size_t)c.pixels * sizeof *wanted);
	REJECTED(tomos_op_forward(wrong, &there[0], &there[1]), TOMOS_NO_DEVICE,
		"cannot be reached on device 1001");
	iterates(op, &there[0], &there[1], &x);
	tomos_array_destroy(&there[0], backend);
	tomos_array_destroy(&there[1], backend);
	tomos_op_free(op), tomos_op_free(wrong);
	tomos_backend_close(backend), tomos_backend_close(other);
	tomos_geometry_free(c.scan);
	free(x.data), free(y.data), free(wanted);
}

static tomos_backend *open_with(const char *name, int64_t memory)
{
	tomos_device_options o = tomos_device_defaults();
	tomos_backend *backend;
	o.memory = memory;
	OK(tomos_backend_open_with(&backend, name, &o));
	return backend;
}

/* Two names of one device, or one with little memory, give what it gives alone. */
static void pieces(void **state)
{
	(void)state;
	tomos_backend *alone = open_with("opencl", 0);
	tomos_backend *others[] = {open_with("opencl:0,0", 0), open_with("opencl", 20000)};
	for (int i = 0; i < 2 * CASE_KINDS; i++) {
		Case c = case_make(i);
		float *x = case_data(&c, c.voxels), *y = case_data(&c, c.pixels);
		float *f[3], *g[3];
		for (int k = 0; k < 3; k++) {
			f[k] = case_data(&c, c.pixels), g[k] = case_data(&c, c.voxels);
			tomos_backend *backend = k == 0 ? alone : others[k - 1];
			case_forward(backend, &c.grid, c.scan, NULL, x, f[k]);
			case_adjoint(backend, &c.grid, c.scan, NULL, y, g[k]);
			if (!(case_difference(f[k], f[0], c.pixels) < 1e-6) ||
				!(case_difference(g[k], g[0], c.voxels) < 1e-6))
				fail_msg("%s: pieces %d differ", c.name, k);
		}
		for (int k = 0; k < 3; k++)
			free(f[k]), free(g[k]);
		free(x), free(y);
		tomos_geometry_free(c.scan);
	}
	tomos_backend_close(alone);
	tomos_backend_close(others[0]);
	tomos_backend_close(others[1]);
}

typedef struct {
	const tomos_op *op;
	tomos_array image, data;
	tomos_status status;
} Caller;

static void *call(void *user)
{
	Caller *caller = user;
	caller->status = TOMOS_OK;
	for (int i = 0; i < 20 && caller->status == TOMOS_OK; i++)
		caller->status = tomos_op_forward(caller->op, &caller->image, &caller->data);
	return NULL;
}

/* Threads that use the same operator each get their own result; ray sums are the same every
 * time. */
static void callers(void **state)
{
	(void)state;
	enum { THREADS = 4 };
	tomos_geometry *scan = small_scan();
	tomos_backend *backend;
	tomos_op *op;
	tomos_grid grid;
	pthread_t threads[THREADS];
	Caller list[THREADS];
	Case c = {.state = 4};
	float *x = case_data(&c, THREADS * COLUMNS * COLUMNS), y[THREADS][PIXELS], wanted[PIXELS];
	OK(tomos_grid_centred(&grid, COLUMNS, COLUMNS, 1, 1));
	OK(tomos_backend_open(&backend, "opencl"));
	OK(tomos_op_projector(&op, backend, &grid, scan, NULL));
	for (int i = 0; i < THREADS; i++) {
		float *image = x + (ptrdiff_t)i * COLUMNS * COLUMNS;
		list[i] = (Caller){.op = op,
			.image = tomos_array_of(image, 1, COLUMNS, COLUMNS),
			.data = tomos_array_of(y[i], VIEWS, 1, COLUMNS)};
		assert_int_equal(pthread_create(&threads[i], NULL, call, &list[i]), 0);
	}
	for (int i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(threads[i], NULL), 0);
		OK(list[i].status);
	}
	for (int i = 0; i < THREADS; i++) {
		tomos_array alone = tomos_array_of(wanted, VIEWS, 1, COLUMNS);
		OK(tomos_op_forward(op, &list[i].image, &alone));
		assert_memory_equal(y[i], wanted, sizeof wanted);
	}
	free(x);
	tomos_op_free(op);
	tomos_geometry_free(scan);
	tomos_backend_close(backend);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(drivers), cmocka_unit_test(numbers),
		cmocka_unit_test(addresses), cmocka_unit_test(host_memory),
		cmocka_unit_test(callers), cmocka_unit_test(pieces), cmocka_unit_test(arrays)};
	if (strcmp(test_backend(), "opencl") != 0) {
		printf("TOMOS_TEST_BACKEND does not name opencl\n");
		return SKIPPED;
	}
	int there = in_child(is_there, 0);
	return there == 0 ? cmocka_run_group_tests(tests, NULL, NULL) : there;
}
