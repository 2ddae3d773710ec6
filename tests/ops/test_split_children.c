/* Children of a split: their memory, failures and cancellation, pinned arrays, rejections. */
#include "ops/split_cases.h"

/* ---- children that are watched, or fail ------------------------------------------------------ */

enum { BLOCKS = 64 };
static struct {
	pthread_mutex_t lock;
	int64_t live, most, sent;
	const float *block[BLOCKS];
	int64_t size[BLOCKS];
	int calls, fails_at, cancels_at;
} watched = {.lock = PTHREAD_MUTEX_INITIALIZER};

static tomos_status watched_alloc(tomos_backend *b, float **data, int64_t count, const char *what)
{
	tomos_status status = cpu_backend.memory->alloc(b, data, count, what);
	if (status != TOMOS_OK)
		return status;
	pthread_mutex_lock(&watched.lock);
	int i = 0;
	while (i < BLOCKS - 1 && watched.block[i])
		i++;
	watched.block[i] = *data;
	watched.size[i] = count * (int64_t)sizeof(float);
	watched.live += watched.size[i];
	watched.most = watched.live > watched.most ? watched.live : watched.most;
	pthread_mutex_unlock(&watched.lock);
	return status;
}

static void watched_release(tomos_backend *b, float *data)
{
	pthread_mutex_lock(&watched.lock);
	for (int i = 0; i < BLOCKS; i++)
		if (watched.block[i] == data) {
			watched.live -= watched.size[i];
			watched.block[i] = NULL;
		}
	pthread_mutex_unlock(&watched.lock);
	cpu_backend.memory->release(b, data);
}

static tomos_status watched_upload(tomos_backend *b, float *data, const tomos_array *host)
{
	pthread_mutex_lock(&watched.lock);
	watched.sent += host->shape[0] * host->shape[1] * host->shape[2];
	pthread_mutex_unlock(&watched.lock);
	return cpu_backend.memory->upload(b, data, host);
}

static tomos_cancel cancelled;

static tomos_status watched_project(tomos_backend *b, const ProjectRequest *what)
{
	pthread_mutex_lock(&watched.lock);
	int call = ++watched.calls;
	pthread_mutex_unlock(&watched.lock);
	if (call == watched.cancels_at)
		tomos_cancel_raise(&cancelled);
	if (call == watched.fails_at)
		return (fail)(TOMOS_NO_DEVICE, "device %d is lost", 7);
	return cpu_backend.projector->apply(b, what);
}

static tomos_status watched_free_bytes(tomos_backend *b, int64_t *bytes)
{
	(void)b;
	*bytes = 1 << 20;
	return TOMOS_OK;
}

static tomos_status watched_open(tomos_backend *b, const char *argument)
{
	if (*argument == 'x')
		return (fail)(TOMOS_NO_DEVICE, "there is no device '%s'", argument);
	return cpu_backend.open(b, "");
}

static const BackendType *watched_type(void)
{
	static BackendCopy copy;
	backend_copy(&copy, &cpu_backend);
	copy.type.name = "watched";
	copy.type.open = watched_open;
	copy.memory.alloc = watched_alloc;
	copy.memory.release = watched_release;
	copy.memory.upload = watched_upload;
	copy.memory.free_bytes = watched_free_bytes;
	copy.projector.apply = watched_project;
	return &copy.type;
}

/* No more memory than allowed, and what stays on a device is not sent again. */
static void memory_is_kept(void **state)
{
	(void)state;
	const BackendType *type = watched_type();
	for (int number = 0; number < 2 * CASE_KINDS; number += step()) {
		Problem p = problem_make(number);
		Case *c = &p.scene;
		int64_t memory = memory_for(c, &p.o, 1 + number % 5);
		tomos_backend *b;
		OK(split_open_list(&b, type, "0,1", &(SplitOptions){memory, SHARE_AUTO}));
		watched.most = 0;
		case_forward(b, &c->grid, c->scan, &p.o, p.x, p.got_y);
		case_adjoint(b, &c->grid, c->scan, &p.o, p.y, p.got_x);
		assert_true(watched.most > 0 && watched.most <= 2 * memory);
		tomos_backend_close(b);
		assert_int_equal(watched.live, 0);
		OK(split_open_list(&b, type, "0,0", &(SplitOptions){1 << 24, SHARE_VIEWS}));
		watched.sent = 0;
		case_forward(b, &c->grid, c->scan, &p.o, p.x, p.got_y);
		assert_true(watched.sent <= 2 * STREAMS * c->voxels);
		tomos_backend_close(b);
		problem_free(&p);
	}
}

/* A projector on children that record their calls, and the expected result. */
typedef struct {
	Problem p;
	tomos_backend *backend;
	tomos_op *op;
	tomos_array x, y;
} Watched;

static Watched watched_make(const char *devices, SplitShare share)
{
	Watched w = {.p = problem_make(2)};
	Case *c = &w.p.scene;
	OK(split_open_list(&w.backend, watched_type(), devices,
		&(SplitOptions){memory_for(c, &w.p.o, 2), share}));
	OK(tomos_op_projector(&w.op, w.backend, &c->grid, c->scan, &w.p.o));
	w.x = case_volume(c, w.p.x);
	w.y = case_projections(c, w.p.got_y);
	return w;
}

/* After all failures it works. */
static void watched_end(Watched *w)
{
	watched.fails_at = watched.cancels_at = 0;
	OK(tomos_op_forward(w->op, &w->x, &w->y));
	assert_true(case_difference(w->p.got_y, w->p.forward, w->p.scene.pixels) < 1e-6);
	tomos_op_free(w->op);
	tomos_backend_close(w->backend);
	problem_free(&w->p);
}

static void a_lost_device(void **state)
{
	(void)state;
	for (int share = SHARE_VIEWS; share <= SHARE_VOXELS; share++) {
		Watched w = watched_make("0,1,1", (SplitShare)share);
		size_t bytes = (size_t)w.p.scene.voxels * sizeof(float);
		float *before = malloc(bytes);
		memcpy(before, w.p.x, bytes);
		for (int at = 1; at < 12; at += 3) {
			watched.calls = 0, watched.fails_at = at;
			REJECTED(tomos_op_forward(w.op, &w.x, &w.y), TOMOS_NO_DEVICE,
				"device 7 is lost");
			assert_memory_equal(before, w.p.x, bytes);
		}
		watched_end(&w);
		free(before);
	}
}

/* Lanes that wait for each other all end when the caller cancels, and work again after that. */
static void cancelling(void **state)
{
	(void)state;
	Watched w = watched_make("0,1", SHARE_VOXELS);
	tomos_cancel_on(&cancelled);
	for (int at = 1; at < 10; at += 2) {
		watched.calls = 0, watched.cancels_at = at;
		REJECTED(tomos_op_forward(w.op, &w.x, &w.y), TOMOS_CANCELLED, "was cancelled");
		tomos_cancel_clear(&cancelled);
	}
	watched_end(&w);
	tomos_cancel_on(NULL);
}

static void describes_itself(void **state)
{
	(void)state;
	const BackendType *type = watched_type();
	tomos_backend *b;
	OK(split_open_list(&b, type, "0,1", &(SplitOptions){(int64_t)3 << 29, SHARE_AUTO}));
	assert_non_null(
		strstr(tomos_backend_describe(b), "2 devices, pieces in 1.5 GiB each: cpu ("));
	tomos_backend_close(b);
	/* Without a limit, the free memory is shared among all children on the same device. */
	OK(split_open_list(&b, type, "0,1,0", &(SplitOptions){0, SHARE_AUTO}));
	assert_in_range(split_of(b)->memory, 471000, (1 << 20) / 10 * 9 / 2);
	tomos_backend_close(b);
}

/* ---- pinned arrays --------------------------------------------------------------------------- */

static struct {
	int live, pinned, sent; /* sent: uploads of pinned arrays */
	bool rejects;
	const float *data[BLOCKS];
	int64_t count[BLOCKS];
} pins;

static tomos_status pinned_pin(tomos_backend *b, float *data, int64_t count)
{
	(void)b;
	if (pins.rejects)
		return (fail)(TOMOS_NO_DEVICE, "this array cannot be pinned");
	assert_true(pins.live < BLOCKS);
	pins.data[pins.live] = data;
	pins.count[pins.live++] = count;
	pins.pinned++;
	return TOMOS_OK;
}

static void pinned_unpin(tomos_backend *b, float *data)
{
	int i = 0;
	(void)b;
	while (i < pins.live && pins.data[i] != data)
		i++;
	assert_true(i < pins.live);
	pins.data[i] = pins.data[--pins.live];
	pins.count[i] = pins.count[pins.live];
}

static tomos_status pinned_upload(tomos_backend *b, float *data, const tomos_array *host)
{
	for (int i = 0; i < pins.live; i++)
		if (host->data >= pins.data[i] && host->data < pins.data[i] + pins.count[i])
			__atomic_add_fetch(&pins.sent, 1, __ATOMIC_RELAXED);
	return cpu_backend.memory->upload(b, data, host);
}

/* All pinned memory counts, that of sums of lanes as well, and it is limited. */
static void check_pinned(Split *split, float *data)
{
	int64_t floats = 0;
	for (int i = 0; i < pins.live; i++)
		floats += pins.count[i];
	assert_true(split->pinned_floats == floats);
	assert_false(child_pin(split, split->lanes[0].child, data, INT64_MAX));
}

/* A slice just large enough, seen by a few views. */
static tomos_status pinned_sirt(const BackendType *type, int iterations, tomos_array *x)
{
	enum { N = 1024, VIEWS = 3 };
	static const char *const none[2] = {"", ""};
	static const double angles[VIEWS] = {0.1, 1.2, 2.3};
	tomos_algebraic_options o = tomos_algebraic_defaults();
	tomos_backend *b = NULL;
	tomos_geometry *scan = NULL;
	tomos_op *op = NULL;
	tomos_grid grid;
	float data[VIEWS * N];
	tomos_array y = tomos_array_of(data, VIEWS, 1, N);
	tomos_status status;
	for (int i = 0; i < VIEWS * N; i++)
		data[i] = (float)(i * 7919 % 1009);
	memset(x->data, 0, (size_t)N * N * sizeof(float));
	o.iterations = iterations;
	o.minimum = 0;
	TRY_OR_DONE(split_open(&b, type, none, 2, &(SplitOptions){1 << 20, SHARE_VOXELS}));
	TRY_OR_DONE(tomos_geometry_parallel(&scan, 1, N, 1, angles, VIEWS));
	TRY_OR_DONE(tomos_grid_centred(&grid, N, N, 1, 1));
	TRY_OR_DONE(tomos_op_projector(&op, b, &grid, scan, NULL));
	TRY_OR_DONE(tomos_reconstruct(op, "sirt", &y, x, &o, NULL));
	check_pinned(split_of(b), data);
done:
	tomos_op_free(op);
	tomos_geometry_free(scan);
	tomos_backend_close(b);
	return status;
}

/* Arrays that are uploaded twice are pinned while they are used; updates are then computed on the
 * devices. */
static void arrays_in_place(void **state)
{
	(void)state;
	enum { VOXELS = 1 << 20 };
	BackendCopy copy;
	float *wanted = malloc(VOXELS * sizeof *wanted), *got = malloc(VOXELS * sizeof *got);
	tomos_array x = tomos_array_of(wanted, 1, 1024, 1024),
		    x2 = tomos_array_of(got, 1, 1024, 1024);
	OK(pinned_sirt(&cpu_backend, 2, &x));
	backend_copy(&copy, &cpu_backend);
	copy.memory.pin = pinned_pin, copy.memory.unpin = pinned_unpin;
	copy.memory.upload = pinned_upload;
	for (pins.rejects = true;; pins.rejects = false) {
		pins.pinned = pins.sent = 0;
		OK(pinned_sirt(&copy.type, 2, &x2));
		assert_true(case_difference(got, wanted, VOXELS) < 1e-6);
		assert_int_equal(pins.live, 0);
		assert_int_equal(pins.sent > 0, !pins.rejects);
		if (!pins.rejects)
			break;
		assert_int_equal(pins.pinned, 0);
	}
	assert_true(pins.pinned >= 2); /* the volume and the weights of its voxels */
	int64_t live = mem_live(), nth = 1;
	tomos_status status = TOMOS_NO_MEMORY;
	for (; status != TOMOS_OK && nth < 100000; nth += case_slow() ? 1 + nth / 2 : 7) {
		mem_fail_nth(nth);
		status = pinned_sirt(&copy.type, 1, &x2);
		mem_fail_nth(0);
		assert_int_equal(mem_live(), live);
		assert_int_equal(pins.live, 0);
	}
	OK(status);
	free(wanted), free(got);
}

/* ---- rejections ------------------------------------------------------------------------------ */

static void rejections(void **state)
{
	(void)state;
	const BackendType *type = watched_type();
	tomos_backend *b;
	Problem p = problem_make(0);
	Case *c = &p.scene;
	tomos_device_options o = tomos_device_defaults();
	REJECTED(split_open_list(&b, type, "0,,1", &(SplitOptions){0}), TOMOS_BAD_VALUE,
		"watched:0,,1: devices are named by numbers, as watched:0,1");
	REJECTED(split_open_list(&b, type, "0,x", &(SplitOptions){0}), TOMOS_NO_DEVICE,
		"there is no device 'x'");
	REJECTED(split_open(&b, type, NULL, 0, &(SplitOptions){0}), TOMOS_BAD_VALUE,
		"0 devices: work is shared by 1 to 64");
	o.memory = -5;
	REJECTED(tomos_backend_open_with(&b, "cuda", &o), TOMOS_BAD_VALUE,
		"a memory of -5 bytes: it must not be negative");
	o.memory = 4096;
	REJECTED(tomos_backend_open_with(&b, "cpu", &o), TOMOS_BAD_VALUE,
		"a memory of 4096 bytes is for devices with memory of their own; the cpu");
	o.memory = 0, o.share = "voxels";
	REJECTED(tomos_backend_open_with(&b, "cpu", &o), TOMOS_BAD_VALUE,
		"'cpu' alone, without a limit to its memory, has nothing to share");
	o.share = "pixels";
	REJECTED(tomos_backend_open_with(&b, "cpu", &o), TOMOS_BAD_VALUE, "share 'pixels'");
	REJECTED(tomos_backend_open(&b, "cpu:0,1"), TOMOS_BAD_VALUE,
		"the cpu backend takes no number, not '0,1'");
	tomos_array x = case_volume(c, p.x), y = case_projections(c, p.y);
	tomos_op *op;
	b = split_of_children(1, 64, SHARE_AUTO);
	OK(tomos_op_projector(&op, b, &c->grid, c->scan, NULL));
	REJECTED(tomos_op_forward(op, &x, &y), TOMOS_BAD_VALUE,
		"a memory of 64 bytes is too small for pieces of ");
	tomos_op_free(op);
	Filter *filter;
	FilterSpec spec = {.columns = 30, .seen = 30, .taps = 30, .oversample = 1};
	REJECTED(b->type->filter->open(b, &filter, &spec), TOMOS_BAD_VALUE,
		"a memory of 64 bytes is too small to filter rows of 30 columns");
	tomos_backend_close(b);
	b = split_of_children(1, 32 * 31, SHARE_AUTO);
	FilterView view = {.of = {.mapped = true}};
	OK(b->type->filter->open(b, &filter, &spec));
	REJECTED(b->type->filter->apply(b, filter, 1, 4, &view, p.x, p.y), TOMOS_BAD_VALUE,
		"a memory of 992 bytes is too small to align views of 4 x 30");
	b->type->filter->close(b, filter);
	tomos_backend_close(b);
	problem_free(&p);
}

static tomos_status everything(Case *c, float *x, float *y)
{
	static const char *const none[2] = {"", ""};
	tomos_backend *b;
	tomos_op *op = NULL;
	tomos_array volume = case_volume(c, x), data = case_projections(c, y);
	tomos_status status =
		split_open(&b, &cpu_backend, none, 2, &(SplitOptions){32 * 100, SHARE_VOXELS});
	if (status != TOMOS_OK)
		return status;
	status = tomos_op_projector(&op, b, &c->grid, c->scan, NULL);
	if (status == TOMOS_OK)
		status = tomos_op_forward(op, &volume, &data);
	if (status == TOMOS_OK)
		status = tomos_op_adjoint(op, &data, &volume);
	if (status == TOMOS_OK)
		status = tomos_fbp(b, &c->grid, c->scan, &data, &volume, NULL, NULL);
	tomos_op_free(op);
	tomos_backend_close(b);
	return status;
}

static void allocations(void **state)
{
	(void)state;
	Case c = case_make(CASE_KINDS + 6);
	float *x = case_data(&c, c.voxels), *y = case_data(&c, c.pixels);
	OK(everything(&c, x, y));
	int64_t live = mem_live(), nth = 0;
	tomos_status status = TOMOS_NO_MEMORY;
	while (status != TOMOS_OK && nth < 100000) {
		mem_fail_nth(nth += step());
		status = everything(&c, x, y);
		mem_fail_nth(0);
		assert_int_equal(mem_live(), live);
		if (status != TOMOS_OK)
			REJECTED(status, TOMOS_NO_MEMORY, "no memory for ");
	}
	assert_true(nth > 50);
	OK(status);
	free(x), free(y);
	tomos_geometry_free(c.scan);
}

#define TESTS(T) \
	T(memory_is_kept), T(a_lost_device), T(cancelling), T(describes_itself), \
		T(arrays_in_place), T(rejections), T(allocations)
TEST_MAIN(TESTS, NULL, NULL)
