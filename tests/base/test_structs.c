/* Structs of programs compiled against an older or a newer header: tests every struct of tomos.h
 * that begins with `bytes`. The list is taken from tomos.h by the build: a new struct needs a call_
 * function here. */
#include "base_test.h"

enum { MORE = 64, MARK = 0x5a };

/* What a call of the library does with the struct. */
typedef enum {
	READ,    /* it is an argument */
	WRITTEN, /* it is a result */
	UPDATED  /* both */
} Use;

typedef struct {
	tomos_backend *backend;
	tomos_geometry *scan;
	tomos_grid grid;
	tomos_op *op, *matrix;
	float volume[64], data[64];
	char folder[32], file[64], checkpoint[64];
} Scene;

static Scene scene;

static tomos_array image(void)
{
	return tomos_array_of(scene.volume, 1, 4, 4);
}

static tomos_array projections(void)
{
	return tomos_array_of(scene.data, 6, 1, 4);
}

/* One call per struct, whose result does not depend on the last member. */
static Use call_difference(void *given, tomos_status *status)
{
	tomos_array a = image();
	*status = tomos_compare(&a, &a, given);
	return WRITTEN;
}

static Use call_file_info(void *given, tomos_status *status)
{
	tomos_file *file;
	*status = tomos_file_open(&file, scene.file, NULL);
	if (*status == TOMOS_OK)
		*status = tomos_file_describe(file, given);
	tomos_file_close(file);
	return WRITTEN;
}

static Use call_scan_info(void *given, tomos_status *status)
{
	tomos_scan *scan;
	*status = tomos_scan_open(&scan, scene.file, NULL);
	if (*status == TOMOS_OK)
		*status = tomos_scan_describe(scan, given);
	tomos_scan_close(scan);
	return WRITTEN;
}

static Use call_fields(void *given, tomos_status *status)
{
	static float light[4] = {1, 1, 1, 1};
	static tomos_array flats;
	tomos_array counts = projections();
	flats = tomos_array_of(light, 1, 1, 4);
	((tomos_fields *)given)->flats = &flats;
	*status = tomos_prep_normalize(&counts, given, NULL, NULL);
	return READ;
}

static Use call_prep_report(void *given, tomos_status *status)
{
	tomos_array data = projections();
	*status = tomos_prep_log(&data, NULL, given);
	return UPDATED;
}

static Use call_reach(void *given, tomos_status *status)
{
	*status = tomos_prep_reach(NULL, given);
	return WRITTEN;
}

static Use call_machine(void *given, tomos_status *status)
{
	*status = tomos_backend_machine(scene.backend, given);
	return WRITTEN;
}

static int copy_in(void *user, const tomos_array *in, const tomos_array *out)
{
	(void)user;
	memcpy(out->data, in->data, sizeof scene.data);
	return 0;
}

static Use call_custom(void *given, tomos_status *status)
{
	const int64_t shape[3] = {1, 8, 8};
	tomos_custom *custom = given;
	tomos_op *op;
	custom->forward = custom->adjoint = copy_in;
	*status = tomos_op_custom(&op, scene.backend, shape, shape, custom);
	tomos_op_free(op);
	return READ;
}

static Use call_matrix(void *given, tomos_status *status)
{
	*status = tomos_matrix_arrays(scene.matrix, given);
	return WRITTEN;
}

static Use call_matrix_info(void *given, tomos_status *status)
{
	*status = tomos_matrix_describe(scene.file, given);
	return WRITTEN;
}

static Use call_history(void *given, tomos_status *status)
{
	tomos_array b = projections(), x = image();
	tomos_algebraic_options o = tomos_algebraic_defaults();
	o.iterations = 1;
	o.history = given;
	*status = tomos_sirt(scene.op, &b, &x, &o, NULL);
	return UPDATED;
}

static Use call_checkpoint_info(void *given, tomos_status *status)
{
	*status = tomos_checkpoint_describe(scene.checkpoint, given);
	return WRITTEN;
}

static Use call_axis(void *given, tomos_status *status)
{
	enum { VIEWS = 30, COLUMNS = 32 };
	float data[VIEWS * COLUMNS];
	double angles[VIEWS];
	tomos_axis_options o = tomos_axis_defaults();
	o.axis_method = "pairs";
	for (int i = 0; i < VIEWS; i++) {
		angles[i] = i * 3.14159265 / (VIEWS - 1);
		for (int c = 0; c < COLUMNS; c++)
			data[i * COLUMNS + c] = (float)(c > 10 && c < 22) * (float)(30 - c);
	}
	tomos_array array = tomos_array_of(data, VIEWS, 1, COLUMNS);
	*status = tomos_axis_find(given, scene.backend, &array, angles, &o, NULL);
	return WRITTEN;
}

static Use call_pose(void *given, tomos_status *status)
{
	enum { VIEWS = 40, COLUMNS = 32 };
	float data[VIEWS * COLUMNS];
	double angles[VIEWS];
	tomos_geometry *scan;
	for (int i = 0; i < VIEWS; i++) {
		angles[i] = i * 2 * 3.14159265 / VIEWS;
		for (int c = 0; c < COLUMNS; c++)
			data[i * COLUMNS + c] =
				(float)(c > 8 && c < 23) * (float)((c - 8) * (23 - c));
	}
	tomos_array array = tomos_array_of(data, VIEWS, 1, COLUMNS);
	*status = tomos_geometry_fan(&scan, COLUMNS, 1, 60, 100, angles, VIEWS);
	if (*status == TOMOS_OK)
		*status = tomos_pose_find(given, NULL, scene.backend, &array, scan, NULL, NULL);
	tomos_geometry_free(scan);
	return WRITTEN;
}

static tomos_job job_of_scene(tomos_run_report *report)
{
	static tomos_run_options run;
	run = tomos_run_defaults();
	run.dry_run = 1;
	return (tomos_job){.bytes = sizeof(tomos_job),
		.scan = scene.file,
		.output = "none.h5",
		.backend = "cpu",
		.run = &run,
		.report = report};
}

static Use call_run_report(void *given, tomos_status *status)
{
	const tomos_job job = job_of_scene(given);
	*status = tomos_run(&job, NULL);
	return UPDATED;
}

static Use call_run_look(void *given, tomos_status *status) /* test_run_look.c looks at it */
{
	*status = TOMOS_OK;
	(void)given;
	return WRITTEN;
}

static Use call_job(void *given, tomos_status *status)
{
	const tomos_job job = job_of_scene(NULL);
	memcpy((char *)given + sizeof(size_t), (const char *)&job + sizeof(size_t),
		offsetof(tomos_job, report) - sizeof(size_t));
	*status = tomos_run(given, NULL);
	return READ;
}

static Use call_tuned(void *given, tomos_status *status)
{
	const tomos_machine machine = {.bytes = sizeof machine, .rates = {1, 1, 1, 1, 1, 1}};
	tomos_tuned *row = given;
	strcpy(row->kernel, "stack");
	row->size = row->slices = row->views = row->columns = 1;
	*status = tomos_tuned_bound(row, &machine, NULL) > 0 ? TOMOS_OK : TOMOS_BAD_VALUE;
	return READ;
}

static tomos_work work_of_scene(void)
{
	return (tomos_work){.bytes = sizeof(tomos_work), .grid = &scene.grid, .scan = scene.scan};
}

static tomos_rates rates_of_scene(void)
{
	tomos_rates rates = tomos_rates_defaults();
	rates.back = rates.filter = 1;
	return rates;
}

static Use call_rates(void *given, tomos_status *status)
{
	const tomos_rates rates = rates_of_scene();
	const tomos_work work = work_of_scene();
	tomos_cost cost = {.bytes = sizeof cost};
	memcpy((char *)given + sizeof(size_t), (const char *)&rates + sizeof(size_t),
		offsetof(tomos_rates, rays) - sizeof(size_t));
	*status = tomos_cost_expect(&cost, &work, given, 1);
	return READ;
}

static Use call_work(void *given, tomos_status *status)
{
	const tomos_rates rates = rates_of_scene();
	tomos_cost cost = {.bytes = sizeof cost};
	((tomos_work *)given)->grid = &scene.grid;
	((tomos_work *)given)->scan = scene.scan;
	*status = tomos_cost_expect(&cost, given, &rates, 1);
	return READ;
}

static Use call_cost(void *given, tomos_status *status)
{
	const tomos_rates rates = rates_of_scene();
	const tomos_work work = work_of_scene();
	*status = tomos_cost_expect(given, &work, &rates, 1);
	return WRITTEN;
}

static Use call_option(void *given, tomos_status *status)
{
	tomos_option *row = given;
	char text[64];
	row->name = row->fallback = row->values = row->help = "";
	row->needs = "stop";
	tomos_option_needs(row, 0, text, sizeof text);
	*status = strcmp(text, "stop") == 0 ? TOMOS_OK : TOMOS_BAD_VALUE;
	return READ;
}

/* Rows of the library's own, which no call takes. */
static Use call_kernel(void *given, tomos_status *status)
{
	int count;
	const tomos_kernel *rows = tomos_kernels(&count);
	*status = rows->bytes == sizeof *rows ? TOMOS_OK : TOMOS_BAD_VALUE;
	(void)given;
	return WRITTEN;
}

typedef struct {
	const char *name;
	size_t bytes;
	Use (*call)(void *given, tomos_status *status);
} Row;

#define STRUCT(name) {#name, sizeof(tomos_##name), call_##name},
static const Row rows[] = {
#include "structs.inc"
};

/* A struct of `bytes` in memory that is marked beyond it. */
static char *given_new(size_t bytes, size_t memory)
{
	char *given = malloc(memory);
	memset(given, 0, bytes);
	memset(given + bytes, MARK, memory - bytes);
	memcpy(given, &bytes, sizeof bytes);
	return given;
}

static void check_marks(const Row *row, const char *given, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++)
		if (given[i] != MARK)
			fail_msg("tomos_%s: byte %zu beyond the struct is written", row->name, i);
}

/* Structs that the library makes itself are not exchanged. */
static bool is_exchanged(const Row *row)
{
	return strcmp(row->name, "kernel") != 0 && strcmp(row->name, "run_look") != 0;
}

static void try_size(const Row *row, size_t bytes)
{
	tomos_status status;
	char *given = given_new(bytes, row->bytes + MORE);
	size_t kept;
	row->call(given, &status);
	if (status != TOMOS_OK)
		fail_msg("tomos_%s of %zu bytes: %s", row->name, bytes, tomos_message());
	memcpy(&kept, given, sizeof kept);
	assert_int_equal(kept, bytes);
	check_marks(row, given, bytes, row->bytes + MORE);
	free(given);
}

static void any_size(void **state)
{
	(void)state;
	for (int i = 0; i < COUNT(rows); i++) {
		try_size(&rows[i], rows[i].bytes);
		if (strcmp(rows[i].name, "option") != 0) /* its last member is the result */
			try_size(&rows[i], rows[i].bytes - 8);
		try_size(&rows[i], rows[i].bytes + 8);
	}
}

/* A member that this library does not know and that is set. */
static void unknown_members(void **state)
{
	(void)state;
	for (int i = 0; i < COUNT(rows); i++) {
		tomos_status status;
		char *given = given_new(rows[i].bytes + 8, rows[i].bytes + MORE);
		given[rows[i].bytes + 3] = 7;
		Use use = rows[i].call(given, &status);
		if (is_exchanged(&rows[i]) && use == WRITTEN &&
			(status != TOMOS_OK || given[rows[i].bytes + 3] != 0))
			fail_msg("tomos_%s: an unknown member of a result is not 0", rows[i].name);
		if (use != WRITTEN &&
			(status == TOMOS_OK || !strstr(tomos_message(), "needs a newer library") ||
				!strstr(tomos_message(), rows[i].name)))
			fail_msg("tomos_%s: an unknown member is accepted", rows[i].name);
		free(given);
	}
}

static void no_size(void **state)
{
	(void)state;
	static const size_t wrong[] = {0, 7, 65537, SIZE_MAX};
	for (int i = 0; i < COUNT(rows); i++)
		for (int w = 0; w < COUNT(wrong) && is_exchanged(&rows[i]); w++) {
			tomos_status status;
			char *given = given_new(rows[i].bytes, rows[i].bytes + MORE);
			memcpy(given, &wrong[w], sizeof wrong[w]);
			rows[i].call(given, &status);
			if (status != TOMOS_BAD_VALUE ||
				!strstr(tomos_message(), "the member bytes of a tomos_"))
				fail_msg("tomos_%s of %zu bytes is accepted", rows[i].name,
					wrong[w]);
			free(given);
		}
}

/* A new member must not fall into padding, which older programs leave undefined, and structs inside
 * others keep their size. */
static void no_padding(void **state)
{
	(void)state;
#define ENDS_WITH(name, member) \
	assert_int_equal(sizeof(tomos_##name), \
		offsetof(tomos_##name, member) + sizeof(((tomos_##name *)0)->member))
	ENDS_WITH(tuned, source);
	ENDS_WITH(file_info, value_unit);
	ENDS_WITH(job, look);
	ENDS_WITH(run_report, shared_bytes);
	ENDS_WITH(checkpoint_info, settings);
	assert_int_equal(sizeof(tomos_prep_report), 48);
	assert_int_equal(sizeof(tomos_difference), 40);
#define OPTIONS_END(group, ROWS) assert_int_equal(sizeof(tomos_##group##_options) % 8, 0);
	TOMOS_OPTION_GROUPS(OPTIONS_END)
}

static void versions(void **state)
{
	(void)state;
	assert_int_equal(tomos_version_number(), TOMOS_VERSION_NUMBER);
	assert_int_equal(tomos_version_check(TOMOS_VERSION_NUMBER), TOMOS_OK);
	assert_int_equal(tomos_version_check(TOMOS_VERSION_NUMBER + 1), TOMOS_UNSUPPORTED);
	assert_int_equal(tomos_version_check(100), TOMOS_UNSUPPORTED);
	assert_non_null(
		strstr(tomos_message(), "compiled against tomos 0.1.0, and the library is"));
	char text[16];
	int n = TOMOS_VERSION_NUMBER;
	snprintf(text, sizeof text, "%d.%d.%d", n / 10000, n / 100 % 100, n % 100);
	assert_string_equal(text, tomos_version());
}

#define OK(expression) assert_int_equal(expression, TOMOS_OK)

static int open_scene(void **state)
{
	(void)state;
	const double angles[6] = {0, 0.5, 1, 1.5, 2, 2.5};
	const int64_t shape[3] = {6, 1, 4};
	tomos_file *file;
	tomos_array b = projections(), x = image();
	tomos_algebraic_options o = tomos_algebraic_defaults();
	for (int i = 0; i < 64; i++)
		scene.volume[i] = scene.data[i] = 1 + 0.1F * (float)(i % 5);
	strcpy(scene.folder, "/tmp/tomos-structs-XXXXXX");
	assert_non_null(mkdtemp(scene.folder));
	snprintf(scene.file, sizeof scene.file, "%s/scan.h5", scene.folder);
	snprintf(scene.checkpoint, sizeof scene.checkpoint, "%s/state", scene.folder);
	OK(tomos_backend_open(&scene.backend, "cpu"));
	OK(tomos_geometry_parallel(&scene.scan, 1, 4, 1, angles, 6));
	OK(tomos_grid_for(&scene.grid, scene.scan, NULL));
	OK(tomos_op_projector(&scene.op, scene.backend, &scene.grid, scene.scan, NULL));
	OK(tomos_op_matrix(&scene.matrix, scene.backend, &scene.grid, scene.scan, NULL, NULL));
	OK(tomos_file_create(&file, scene.file, TOMOS_PROJECTIONS, shape, NULL));
	OK(tomos_file_set_geometry(file, scene.scan));
	OK(tomos_file_write(file, 0, 6, scene.data));
	OK(tomos_file_commit(file));
	tomos_file_close(file);
	o.iterations = 1;
	o.checkpoint = scene.checkpoint;
	OK(tomos_sirt(scene.op, &b, &x, &o, NULL));
	return 0;
}

static int close_scene(void **state)
{
	(void)state;
	tomos_op_free(scene.op);
	tomos_op_free(scene.matrix);
	tomos_geometry_free(scene.scan);
	tomos_backend_close(scene.backend);
	file_discard(scene.folder);
	return 0;
}

#define TESTS(T) T(any_size), T(unknown_members), T(no_size), T(no_padding), T(versions)
TEST_MAIN(TESTS, open_scene, close_scene)
