/* What operators and backends reject, in which words; what they say of themselves; arrays with
 * strides of any kind. */
#include "op/op.h" /* first: cmocka makes a macro of fail() */
#include "ops/cases.h"

enum { NX = 7, NY = 6, NZ = 5, ROWS = 4, COLUMNS = 9, VIEWS = 3 };

typedef struct {
	tomos_backend *backend;
	tomos_grid grid;
	tomos_geometry *scan;
} Room;

static Room fixture;

static int set_up(void **state)
{
	(void)state;
	double angles[VIEWS] = {0.1, 1.2, 2.5};
	return tomos_backend_open(&fixture.backend, "cpu") != TOMOS_OK ||
	       tomos_grid_centred(&fixture.grid, NX, NY, NZ, 1) != TOMOS_OK ||
	       tomos_geometry_cone(&fixture.scan, ROWS, COLUMNS, 1.2, 30, 40, angles, VIEWS) !=
		       TOMOS_OK;
}

static int tear_down(void **state)
{
	(void)state;
	tomos_backend_close(fixture.backend);
	tomos_geometry_free(fixture.scan);
	return 0;
}

static tomos_op *make(const char *forward, const char *back)
{
	tomos_projector_options o = tomos_projector_defaults();
	o.forward = forward;
	o.back = back;
	tomos_op *op;
	OK(tomos_op_projector(&op, fixture.backend, &fixture.grid, fixture.scan, &o));
	return op;
}

/* ---- making ---------------------------------------------------------------------------------- */

static void reject_options(const tomos_projector_options *o, const char *words)
{
	tomos_op *op = (tomos_op *)&fixture;
	int64_t before = mem_live();
	REJECTED(tomos_op_projector(&op, fixture.backend, &fixture.grid, fixture.scan, o),
		TOMOS_BAD_VALUE, words);
	assert_null(op);
	assert_int_equal(mem_live(), before);
}

static void unknown_choices(void **state)
{
	(void)state;
	tomos_projector_options o = tomos_projector_defaults();
	o.forward = "josef";
	reject_options(&o, "forward projector 'josef' is not known; did you mean 'joseph'?");
	reject_options(&o, "(known: joseph|line|line-march|voxel|footprint|fourier)");
	o.forward = NULL;
	reject_options(&o, "forward projector '(none)' is not known");
	o = tomos_projector_defaults();
	o.back = "foot-print";
	reject_options(&o, "back projector 'foot-print' is not known; did you mean 'footprint'?");
	o = tomos_projector_defaults();
	o.boundary = "expands";
	reject_options(&o, "boundary 'expands' is not known; did you mean 'expand'?");
	o = tomos_projector_defaults();
	o.voxel_interpolation = "cubic";
	reject_options(&o, "voxel_interpolation 'cubic' is not known");
	reject_options(&o, "(known: linear|nearest)");
}

static void options_of_a_wrong_size(void **state)
{
	(void)state;
	tomos_projector_options o = tomos_projector_defaults();
	o.bytes = 0;
	reject_options(&o, "the member bytes of a tomos_projector_options is 0: it must be "
			   "sizeof(tomos_projector_options)");
	o.bytes = 1 << 20;
	reject_options(&o, "the member bytes of a tomos_projector_options is 1048576");
	o = tomos_projector_defaults();
	o.forward = "line";
	o.plain = 1;
	o.bytes = offsetof(tomos_projector_options, back); /* an older caller's struct */
	tomos_op *op;
	OK(tomos_op_projector(&op, fixture.backend, &fixture.grid, fixture.scan, &o));
	assert_string_equal(tomos_op_describe(op), "line forward, line back: a matched pair");
	tomos_op_free(op);
}

static void missing_parts(void **state)
{
	(void)state;
	const char *words = "a projector needs a backend, a grid and a geometry";
	tomos_op *op = (tomos_op *)&fixture;
	REJECTED(tomos_op_projector(&op, NULL, &fixture.grid, fixture.scan, NULL), TOMOS_BAD_VALUE,
		words);
	REJECTED(tomos_op_projector(&op, fixture.backend, NULL, fixture.scan, NULL),
		TOMOS_BAD_VALUE, words);
	REJECTED(tomos_op_projector(&op, fixture.backend, &fixture.grid, NULL, NULL),
		TOMOS_BAD_VALUE, words);
	assert_null(op);
	tomos_op_free(NULL);
	tomos_backend_close(NULL);
}

static void bad_grids(void **state)
{
	(void)state;
	tomos_op *op = (tomos_op *)&fixture;
	tomos_grid grid = fixture.grid;
	grid.n[1] = 0;
	REJECTED(tomos_op_projector(&op, fixture.backend, &grid, fixture.scan, NULL),
		TOMOS_BAD_VALUE, "y");
	assert_null(op);
	grid = fixture.grid;
	grid.step[2] = 0;
	REJECTED(tomos_op_projector(&op, fixture.backend, &grid, fixture.scan, NULL),
		TOMOS_BAD_VALUE, "the grid's step along z is 0");
	grid = fixture.grid;
	grid.n[0] = grid.n[1] = grid.n[2] = INT64_C(1) << 21;
	tomos_status status = tomos_op_projector(&op, fixture.backend, &grid, fixture.scan, NULL);
	assert_int_equal(status, TOMOS_BAD_VALUE);
	assert_true(strlen(tomos_message()) > 10);
}

static void backends(void **state)
{
	(void)state;
	tomos_backend *backend = (tomos_backend *)&fixture;
	REJECTED(tomos_backend_open(&backend, "cqu"), TOMOS_BAD_VALUE,
		"backend 'cqu' is not known; did you mean 'cpu'?");
	assert_null(backend);
	REJECTED(tomos_backend_open(&backend, ""), TOMOS_BAD_VALUE, "backend '' is not known");
	REJECTED(tomos_backend_open(&backend, "cpu:1"), TOMOS_BAD_VALUE,
		"the cpu backend takes no number, not '1'");
	REJECTED(tomos_backend_open(&backend, "auto:1"), TOMOS_BAD_VALUE, "'auto:1' is not known");
	setenv("TOMOS_CPU", "mmx", 1);
	REJECTED(tomos_backend_open(&backend, "cpu"), TOMOS_BAD_VALUE,
		"TOMOS_CPU is 'mmx', which this processor or build does not have "
		"(known: base, avx2, avx512, neon)");
	assert_null(backend);
	setenv("TOMOS_MODULES", "nowhere", 1); /* no GPU for `auto` to take */
	REJECTED(tomos_backend_open(&backend, "auto"), TOMOS_BAD_VALUE, "TOMOS_CPU is 'mmx'");
	setenv("TOMOS_CPU", "base", 1);
	OK(tomos_backend_open(&backend, "auto"));
	assert_non_null(strstr(tomos_backend_describe(backend), "cpu (base, "));
	tomos_backend_close(backend);
	setenv("TOMOS_CPU", "", 1);
	OK(tomos_backend_open(&backend, NULL));
	tomos_backend_close(backend);
	unsetenv("TOMOS_CPU");
	assert_string_equal(tomos_backend_names(), "auto|cuda|cpu|opencl");
	REJECTED(tomos_backend_open(&backend, "opencl"), TOMOS_NO_DEVICE,
		"the opencl backend cannot be opened: nowhere/libtomos_opencl.so");
	OK(tomos_backend_open(&backend, "auto"));
	tomos_backend_close(backend);
	unsetenv("TOMOS_MODULES");
}

/* ---- applying -------------------------------------------------------------------------------- */

static void missing_arrays(void **state)
{
	(void)state;
	float x[NZ * NY * NX] = {0}, y[VIEWS * ROWS * COLUMNS] = {0};
	tomos_array volume = tomos_array_of(x, NZ, NY, NX), none = volume;
	tomos_array data = tomos_array_of(y, VIEWS, ROWS, COLUMNS);
	tomos_op *op = make("joseph", "");
	none.data = NULL;
	REJECTED(tomos_op_forward(NULL, &volume, &data), TOMOS_BAD_VALUE,
		"forward: the operator is missing");
	REJECTED(tomos_op_adjoint(NULL, &data, &volume), TOMOS_BAD_VALUE,
		"adjoint: the operator is missing");
	REJECTED(tomos_op_forward(op, NULL, &data), TOMOS_BAD_VALUE,
		"there is no array for the volume");
	REJECTED(tomos_op_forward(op, &none, &data), TOMOS_BAD_VALUE,
		"there is no array for the volume");
	REJECTED(tomos_op_forward(op, &volume, NULL), TOMOS_BAD_VALUE,
		"there is no array for the projections");
	REJECTED(tomos_op_adjoint(op, NULL, &volume), TOMOS_BAD_VALUE,
		"there is no array for the projections");
	REJECTED(tomos_op_adjoint(op, &data, &none), TOMOS_BAD_VALUE,
		"there is no array for the volume");
	tomos_op_free(op);
}

static void wrong_shapes(void **state)
{
	(void)state;
	float x[NZ * NY * NX] = {0}, y[VIEWS * ROWS * COLUMNS] = {0};
	tomos_array volume = tomos_array_of(x, NZ, NY, NX), rotated = tomos_array_of(x, NX, NY, NZ);
	tomos_array data = tomos_array_of(y, VIEWS, ROWS, COLUMNS);
	tomos_array few = tomos_array_of(y, VIEWS - 1, ROWS, COLUMNS);
	int64_t before = mem_live();
	tomos_op *op = make("voxel", "");
	REJECTED(tomos_op_forward(op, &rotated, &data), TOMOS_BAD_VALUE,
		"the shape of the volume is 7 x 6 x 5, expected 5 x 6 x 7");
	REJECTED(tomos_op_forward(op, &volume, &few), TOMOS_BAD_VALUE,
		"the shape of the projections is 2 x 4 x 9, expected 3 x 4 x 9");
	REJECTED(tomos_op_adjoint(op, &few, &volume), TOMOS_BAD_VALUE,
		"the shape of the projections is 2 x 4 x 9, expected 3 x 4 x 9");
	REJECTED(tomos_op_adjoint(op, &data, &rotated), TOMOS_BAD_VALUE,
		"the shape of the volume is 7 x 6 x 5, expected 5 x 6 x 7");
	tomos_op_free(op);
	assert_int_equal(mem_live(), before);
}

static void other_devices(void **state)
{
	(void)state;
	float x[NZ * NY * NX] = {0}, y[VIEWS * ROWS * COLUMNS] = {0};
	tomos_array volume = tomos_array_of(x, NZ, NY, NX);
	tomos_array data = tomos_array_of(y, VIEWS, ROWS, COLUMNS);
	tomos_op *op = make("line", "");
	volume.device = 2;
	REJECTED(tomos_op_forward(op, &volume, &data), TOMOS_UNSUPPORTED,
		"the array for the volume lies on device 2, not in the host's memory");
	REJECTED(tomos_op_adjoint(op, &data, &volume), TOMOS_UNSUPPORTED,
		"the array for the volume lies on device 2, not in the host's memory");
	volume.device = 0;
	data.device = 1;
	REJECTED(tomos_op_forward(op, &volume, &data), TOMOS_UNSUPPORTED,
		"the array for the projections lies on device 1, not in the host's memory");
	tomos_op_free(op);
}

/* Elements that are one and the same can be read from, not written to. */
static void shared_elements(void **state)
{
	(void)state;
	float x[NZ * NY * NX] = {0}, y[VIEWS * ROWS * COLUMNS] = {0};
	tomos_array volume = tomos_array_of(x, NZ, NY, NX), one = volume;
	tomos_array data = tomos_array_of(y, VIEWS, ROWS, COLUMNS), flat = data;
	tomos_op *op = make("joseph", "");
	int64_t before = mem_live();
	one.stride[0] = one.stride[1] = one.stride[2] = 0;
	flat.stride[1] = 0;
	x[0] = 2;
	assert_int_equal(tomos_op_forward(op, &one, &data), TOMOS_OK);
	REJECTED(tomos_op_forward(op, &volume, &flat), TOMOS_BAD_VALUE,
		"the array for the projections: stride 1 is 0, so its 4 elements are one and the "
		"same");
	REJECTED(tomos_op_adjoint(op, &data, &one), TOMOS_BAD_VALUE,
		"the array for the volume: stride 0 is 0, so its 5 elements are one and the same");
	assert_int_equal(mem_live(), before);
	tomos_op_free(op);
}

static void one_memory_for_both(void **state)
{
	(void)state;
	float both[2 * NX * NY * NZ + VIEWS * ROWS * COLUMNS] = {0};
	tomos_array volume = tomos_array_of(both, NZ, NY, NX);
	tomos_array data = tomos_array_of(both, VIEWS, ROWS, COLUMNS);
	tomos_op *op = make("joseph", "");
	int64_t before = mem_live();
	REJECTED(tomos_op_forward(op, &volume, &data), TOMOS_BAD_VALUE,
		"the volume and the projections are the same memory");
	volume.stride[2] = 2;
	volume.stride[1] = 2 * NX;
	volume.stride[0] = 2 * NX * NY;
	REJECTED(tomos_op_adjoint(op, &data, &volume), TOMOS_BAD_VALUE,
		"the projections and the volume are the same memory");
	assert_int_equal(mem_live(), before);
	tomos_op_free(op);
}

/* A device whose transfers fail must not keep what was taken for them. */
static tomos_status broken_upload(tomos_backend *backend, float *data, const tomos_array *host)
{
	(void)backend, (void)data, (void)host;
	return TOMOS_NO_DEVICE;
}

static tomos_status broken_download(
	tomos_backend *backend, const float *data, const tomos_array *host)
{
	(void)backend, (void)data, (void)host;
	return TOMOS_NO_DEVICE;
}

static float *no_direct_pointer(tomos_backend *backend, const tomos_array *array)
{
	(void)backend, (void)array;
	return NULL;
}

static void broken_transfers(void **state)
{
	(void)state;
	float x[NZ * NY * NX] = {0}, y[VIEWS * ROWS * COLUMNS] = {0};
	tomos_array volume = tomos_array_of(x, NZ, NY, NX);
	tomos_array data = tomos_array_of(y, VIEWS, ROWS, COLUMNS);
	for (int upload = 0; upload < 2; upload++) {
		BackendCopy copy;
		tomos_backend broken = *fixture.backend;
		tomos_op *op;
		backend_copy(&copy, fixture.backend->type);
		copy.memory.direct_pointer = no_direct_pointer;
		if (upload)
			copy.memory.upload = broken_upload;
		else
			copy.memory.download = broken_download;
		broken.type = &copy.type;
		OK(tomos_op_projector(&op, &broken, &fixture.grid, fixture.scan, NULL));
		int64_t before = mem_live();
		assert_int_equal(tomos_op_forward(op, &volume, &data), TOMOS_NO_DEVICE);
		assert_int_equal(mem_live(), before);
		assert_int_equal(tomos_op_adjoint(op, &data, &volume), TOMOS_NO_DEVICE);
		assert_int_equal(mem_live(), before);
		tomos_op_free(op);
	}
}

/* ---- what operators say of themselves -------------------------------------------------------- */

static void descriptions(void **state)
{
	(void)state;
	static const struct {
		const char *forward, *back, *text;
		int matched;
	} pairs[] = {{"joseph", "", "joseph forward, joseph back: a matched pair", 1},
		{"joseph", NULL, "joseph forward, joseph back: a matched pair", 1},
		{"joseph", "voxel", "joseph forward, voxel back: not matched", 0},
		{"line", "line-march", "line forward, line-march back: a matched pair", 1},
		{"line-march", "line", "line-march forward, line back: a matched pair", 1},
		{"line", "joseph", "line forward, joseph back: not matched", 0},
		{"footprint", "footprint", "footprint forward, footprint back: a matched pair", 1},
		{"footprint", "voxel", "footprint forward, voxel back: not matched", 0}};
	for (int i = 0; i < (int)(sizeof pairs / sizeof pairs[0]); i++) {
		int64_t shape[3];
		tomos_op *op = make(pairs[i].forward, pairs[i].back);
		assert_string_equal(tomos_op_describe(op), pairs[i].text);
		assert_int_equal(tomos_op_matched(op), pairs[i].matched);
		tomos_op_domain(op, shape);
		assert_true(shape[0] == NZ && shape[1] == NY && shape[2] == NX);
		tomos_op_range(op, shape);
		assert_true(shape[0] == VIEWS && shape[1] == ROWS && shape[2] == COLUMNS);
		tomos_op_free(op);
	}
}

/* A mixed pair is each model's own forward and adjoint. */
static void mixed_pairs(void **state)
{
	(void)state;
	Case c = {.state = 12};
	float *x = case_data(&c, NZ * NY * NX), *y = case_data(&c, VIEWS * ROWS * COLUMNS);
	float *f[2] = {
		case_data(&c, VIEWS * ROWS * COLUMNS), case_data(&c, VIEWS * ROWS * COLUMNS)};
	float *g[2] = {case_data(&c, NZ * NY * NX), case_data(&c, NZ * NY * NX)};
	tomos_projector_options mixed = tomos_projector_defaults(), pure = mixed;
	mixed.forward = "line";
	mixed.back = "footprint";
	case_forward(fixture.backend, &fixture.grid, fixture.scan, &mixed, x, f[0]);
	case_adjoint(fixture.backend, &fixture.grid, fixture.scan, &mixed, y, g[0]);
	pure.forward = "line";
	case_forward(fixture.backend, &fixture.grid, fixture.scan, &pure, x, f[1]);
	pure.forward = "footprint";
	case_adjoint(fixture.backend, &fixture.grid, fixture.scan, &pure, y, g[1]);
	assert_memory_equal(f[0], f[1], VIEWS * ROWS * COLUMNS * sizeof(float));
	assert_memory_equal(g[0], g[1], NZ * NY * NX * sizeof(float));
	free(x), free(y), free(f[0]), free(f[1]), free(g[0]), free(g[1]);
}

/* ---- strides --------------------------------------------------------------------------------- */

enum { TRANSPOSED, STEPPED, BACKWARDS, WIDE_ROWS, LAYOUTS };
#define UNTOUCHED (-77.0F)

/* An array of this shape in one of the layouts, within `room_for` floats of UNTOUCHED. */
static tomos_array strided(int layout, const int64_t n[3], float *memory, int64_t room_for)
{
	tomos_array a = {.data = memory, .shape = {n[0], n[1], n[2]}};
	for (int64_t i = 0; i < room_for; i++)
		memory[i] = UNTOUCHED;
	switch (layout) {
	case TRANSPOSED:
		a.stride[0] = 1, a.stride[1] = n[0], a.stride[2] = n[0] * n[1];
		break;
	case STEPPED:
		a.stride[2] = 2, a.stride[1] = 2 * n[2] + 1, a.stride[0] = a.stride[1] * n[1] * 2;
		break;
	case BACKWARDS:
		a.stride[2] = -1, a.stride[1] = -n[2], a.stride[0] = -n[1] * n[2];
		a.data = memory + n[0] * n[1] * n[2] - 1;
		break;
	default:
		a.stride[2] = 1, a.stride[1] = n[2] + 3, a.stride[0] = -a.stride[1] * n[1];
		a.data = memory - a.stride[0] * (n[0] - 1);
	}
	return a;
}

static float *element(const tomos_array *a, int64_t i)
{
	int64_t k = i % a->shape[2], j = i / a->shape[2] % a->shape[1],
		z = i / a->shape[2] / a->shape[1];
	return a->data + z * a->stride[0] + j * a->stride[1] + k * a->stride[2];
}

/* The result in a strided array is `wanted`, and nothing around it has changed. */
static void check_result(const tomos_array *a, const float *wanted, float *memory, int64_t room_for)
{
	int64_t count = a->shape[0] * a->shape[1] * a->shape[2];
	for (int64_t i = 0; i < count; i++) {
		assert_memory_equal(element(a, i), &wanted[i], sizeof(float));
		*element(a, i) = UNTOUCHED;
	}
	for (int64_t i = 0; i < room_for; i++)
		assert_true(memory[i] == UNTOUCHED);
}

static void check_strides(const char *model, int in, int out, Direction direction)
{
	Case c = {.state = 21};
	int64_t n[3] = {NZ, NY, NX}, m[3] = {VIEWS, ROWS, COLUMNS};
	const int64_t *from = direction == FORWARD ? n : m, *to = direction == FORWARD ? m : n;
	int64_t from_count = from[0] * from[1] * from[2], to_count = to[0] * to[1] * to[2];
	float *x = case_data(&c, from_count), *wanted = case_data(&c, to_count);
	float *in_memory = malloc((size_t)(6 * from_count) * sizeof(float));
	float *out_memory = malloc((size_t)(6 * to_count) * sizeof(float));
	tomos_array source = strided(in, from, in_memory, 6 * from_count);
	tomos_array target = strided(out, to, out_memory, 6 * to_count);
	tomos_array plain_in = tomos_array_of(x, from[0], from[1], from[2]);
	tomos_array plain_out = tomos_array_of(wanted, to[0], to[1], to[2]);
	for (int64_t i = 0; i < from_count; i++)
		*element(&source, i) = x[i];
	int64_t before = mem_live();
	tomos_op *op = make(model, "");
	tomos_status (*verb)(const tomos_op *, const tomos_array *, const tomos_array *) =
		direction == FORWARD ? tomos_op_forward : tomos_op_adjoint;
	OK(verb(op, &plain_in, &plain_out));
	OK(verb(op, &source, &target));
	tomos_op_free(op);
	assert_int_equal(mem_live(), before);
	check_result(&target, wanted, out_memory, 6 * to_count);
	check_result(&source, x, in_memory, 6 * from_count);
	free(x), free(wanted), free(in_memory), free(out_memory);
}

static void strides(void **state)
{
	(void)state;
	for (int in = 0; in < LAYOUTS; in++)
		for (int out = 0; out < LAYOUTS; out++)
			for (int m = 0; m < CASE_MODELS; m++) {
				check_strides(case_models[m], in, out, FORWARD);
				check_strides(case_models[m], in, out, ADJOINT);
			}
}

#define TESTS(T) \
	T(unknown_choices), T(options_of_a_wrong_size), T(missing_parts), T(bad_grids), \
		T(backends), T(missing_arrays), T(wrong_shapes), T(other_devices), \
		T(shared_elements), T(one_memory_for_both), T(broken_transfers), T(descriptions), \
		T(mixed_pairs), T(strides)
TEST_MAIN(TESTS, set_up, tear_down)
