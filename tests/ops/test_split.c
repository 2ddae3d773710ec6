/* Work in pieces is the same work: several children, tiny memories, both ways to share it out. */
#include "backend/split/split.h"
#include "ops/cases.h"

enum { MOST = 3, FEWER = CASE_RACES ? 19 : 7 };

static const BackendType *children = &cpu_backend; /* or those of the backend that tests run on */

/* One child several times over. */
static tomos_backend *split_of_children(int devices, int64_t memory, SplitShare share)
{
	static const char *const none[MOST] = {"", "", ""};
	tomos_backend *backend;
	OK(split_open(&backend, children, none, devices, &(SplitOptions){memory, share}));
	return backend;
}

/* From one case to the next. */
static int step(void)
{
	return case_slow() ? FEWER : 1;
}

/* Where there are many cases: devices take long to open. */
static int stride(void)
{
	return test_repeats() ? step() : FEWER;
}

/* How far pieces may be from the whole, done by the cpu. */
static double rounding(void)
{
	return test_repeats() ? 1e-6 : 1e-5;
}

/* Memory in which a lane can be sent that many floats. */
static int64_t memory_of(int64_t floats)
{
	return STREAMS * (children->memory->limit_scratch ? 8 : 4) * (int64_t)sizeof(float) *
	       (floats + 1);
}

/* What a lane must hold at the least, as bytes of memory, times `more`. */
static int64_t memory_for(const Case *c, const tomos_projector_options *o, double more)
{
	int64_t rows = tomos_geometry_rows(c->scan), columns = tomos_geometry_columns(c->scan);
	int whole = strcmp(o->boundary, "clamp") == 0 && choice_in("voxel footprint", o->forward);
	int64_t pixels = whole ? rows * columns : columns;
	int64_t least = pixels > c->grid.n[0] ? pixels : c->grid.n[0];
	return (int64_t)(more * (double)memory_of(least));
}

typedef struct {
	Case scene;
	float *x, *y, *forward, *back, *got_y, *got_x;
	tomos_projector_options o;
} Problem;

static Problem problem_make(int number)
{
	Problem p = {.scene = case_make(number), .o = tomos_projector_defaults()};
	tomos_backend *plain;
	Case *c = &p.scene;
	int round = number / CASE_KINDS;
	p.o.forward = case_models[round % CASE_MODELS];
	p.o.plain = number % 2;
	p.o.boundary = number % 3 == 2 ? "clamp" : "expand";
	p.o.voxel_interpolation = number % 4 == 3 ? "nearest" : "linear";
	case_fit(&p.o);
	p.x = case_data(c, c->voxels);
	p.y = case_data(c, c->pixels);
	p.forward = calloc((size_t)c->pixels, sizeof *p.forward);
	p.back = calloc((size_t)c->voxels, sizeof *p.back);
	p.got_y = calloc((size_t)c->pixels, sizeof *p.got_y);
	p.got_x = calloc((size_t)c->voxels, sizeof *p.got_x);
	OK(tomos_backend_open(&plain, "cpu"));
	case_forward(plain, &c->grid, c->scan, &p.o, p.x, p.forward);
	case_adjoint(plain, &c->grid, c->scan, &p.o, p.y, p.back);
	tomos_backend_close(plain);
	return p;
}

static void problem_free(Problem *p)
{
	float *all[] = {p->x, p->y, p->forward, p->back, p->got_y, p->got_x};
	for (int i = 0; i < 6; i++)
		free(all[i]);
	tomos_geometry_free(p->scene.scan);
}

static void problem_check(Problem *p, int devices, double more, SplitShare share)
{
	Case *c = &p->scene;
	tomos_backend *b = split_of_children(devices, memory_for(c, &p->o, more), share);
	/* Not numbers: what was there does not count, also where nothing is met. */
	memset(p->got_y, 0xff, (size_t)c->pixels * sizeof(float));
	memset(p->got_x, 0xff, (size_t)c->voxels * sizeof(float));
	case_forward(b, &c->grid, c->scan, &p->o, p->x, p->got_y);
	case_adjoint(b, &c->grid, c->scan, &p->o, p->y, p->got_x);
	tomos_backend_close(b);
	double forward = case_difference(p->got_y, p->forward, c->pixels);
	double back = case_difference(p->got_x, p->back, c->voxels);
	if (!(forward <= rounding() && back <= rounding()))
		fail_msg("%s, %s, %s%s, %d devices, memory %g, share %d: %g forward, %g back",
			c->name, p->o.forward, p->o.boundary, p->o.plain ? ", plain" : "", devices,
			more, share, forward, back);
}

/* Every geometry with every projector, boundaries and tuned kernels in turn. */
static void as_one(void **state)
{
	(void)state;
	static const double more[] = {1, 3, 20, 1000};
	for (int number = 0; number < CASE_KINDS * CASE_MODELS; number += stride()) {
		Problem p = problem_make(number);
		for (int m = 0; m < 4; m++)
			problem_check(&p, 1 + (number + m) % MOST, more[m],
				(SplitShare)((number + m) % 3));
		problem_free(&p);
	}
}

/* The pieces follow from the memory alone, so the bits are the same for any number of devices. */
static void same_bits(void **state)
{
	(void)state;
	for (int number = 0; number < 2 * CASE_KINDS; number += step()) {
		Problem p = problem_make(number);
		const Case *c = &p.scene;
		for (int share = SHARE_AUTO; share <= SHARE_VOXELS; share++) {
			problem_check(&p, 1, 4, (SplitShare)share);
			memcpy(p.forward, p.got_y, (size_t)c->pixels * sizeof(float));
			memcpy(p.back, p.got_x, (size_t)c->voxels * sizeof(float));
			for (int devices = 2; devices <= MOST; devices++) {
				problem_check(&p, devices, 4, (SplitShare)share);
				assert_memory_equal(p.got_y, p.forward, c->pixels * sizeof(float));
				assert_memory_equal(p.got_x, p.back, c->voxels * sizeof(float));
			}
		}
		problem_free(&p);
	}
}

/* Projections of some views and some voxels, onto what is there; powers of the entries. */
static void parts_and_powers(void **state)
{
	(void)state;
	tomos_backend *plain;
	OK(tomos_backend_open(&plain, "cpu"));
	for (int number = 0; number < CASE_KINDS * CASE_MODELS; number += stride()) {
		Case c = case_make(number);
		Plan plan;
		KernelModel model = {.weight = WEIGHT_RAY};
		tomos_projector_options o = tomos_projector_defaults();
		OK(plan_make(&plan, &c.grid, c.scan, &model));
		float *x = case_data(&c, c.voxels), *y = case_data(&c, c.pixels);
		float *x2 = malloc((size_t)c.voxels * sizeof *x2);
		float *y2 = malloc((size_t)c.pixels * sizeof *y2);
		memcpy(x2, x, (size_t)c.voxels * sizeof *x);
		memcpy(y2, y, (size_t)c.pixels * sizeof *y);
		tomos_backend *b =
			split_of_children(2, memory_for(&c, &o, 2), (SplitShare)(number % 3));
		ProjectRequest what = {.plan = &plan,
			.kernel = number / CASE_KINDS,
			.direction = number % 2 ? ADJOINT : FORWARD,
			.first = plan.scan->count / 3,
			.volume = x,
			.projections = y};
		what.count = plan.scan->count - what.first;
		memcpy(what.box.high, plan.grid.n, sizeof what.box.high);
		for (int a = 0; a < 3; a++)
			what.box.low[a] = plan.grid.n[a] / 3;
		for (int power = -2; power <= 2; power += 2) {
			what.volume = x, what.projections = y;
			OK(power < 0 ? plain->type->projector->apply(plain, &what)
				     : plain->type->projector->apply_power(plain, &what, power));
			what.volume = x2, what.projections = y2;
			OK(power < 0 ? b->type->projector->apply(b, &what)
				     : b->type->projector->apply_power(b, &what, power));
			assert_true(case_difference(x2, x, c.voxels) < rounding());
			assert_true(case_difference(y2, y, c.pixels) < rounding());
		}
		free(x), free(y), free(x2), free(y2);
		plan_free(&plan);
		tomos_backend_close(b);
		tomos_geometry_free(c.scan);
	}
	tomos_backend_close(plain);
}

/* Updates of voxels by pieces as they come, between bounds, are the update by the whole. */
static void pieces_update(void **state)
{
	(void)state;
	int updates = 0;
	for (int number = 1; number < CASE_KINDS * CASE_MODELS; number += stride() + 4) {
		Problem p = problem_make(number);
		Case *c = &p.scene;
		Plan plan;
		bool done;
		OK(plan_make(&plan, &c->grid, c->scan, &(KernelModel){.weight = WEIGHT_RAY}));
		float *w = case_data(c, c->voxels);
		tomos_backend *b = split_of_children(2, memory_for(c, &p.o, 3), SHARE_VOXELS);
		ProjectRequest what = {.plan = &plan,
			.kernel = number / CASE_KINDS,
			.direction = ADJOINT,
			.count = plan.scan->count,
			.volume = p.got_x,
			.projections = p.y,
			.overwrite = true};
		memcpy(what.box.high, plan.grid.n, sizeof what.box.high);
		OK(b->type->projector->apply(b, &what));
		for (int64_t i = 0; i < c->voxels; i++)
			p.back[i] = fminf(fmaxf(p.x[i] + 0.1f * w[i] * p.got_x[i], 0.1f), 0.7f);
		FusedUpdate step = {.a = 0.1f, .low = 0.1f, .high = 0.7f, .voxels = w};
		what.volume = p.x;
		/* The cpu's own is at home in its levels alone. */
		assert_true(b->type->projector->back_update != cpu_backend.projector->back_update);
		OK(b->type->projector->back_update(b, &what, &step, &done));
		assert_true(done);
		assert_true(case_difference(p.x, p.back, c->voxels) < rounding());
		step.average = true;
		OK(b->type->projector->back_update(b, &what, &step, &done));
		assert_false(done);
		plan_free(&plan); /* before the backend, which has kept something with it */
		tomos_backend_close(b);
		free(w);
		problem_free(&p);
		updates++;
	}
	assert_true(updates > 2);
}

static void algorithms(void **state)
{
	(void)state;
	tomos_backend *plain;
	OK(tomos_backend_open(&plain, "cpu"));
	for (int round = 0; round < 12; round += case_slow() ? 7 : 1) {
		tomos_scan_options so = tomos_scan_defaults();
		const double axis = 60, detector = 90;
		so.geometry = round % 3 == 0 ? "parallel" : "cone";
		so.rows = 7, so.columns = 20, so.views = 12, so.pixel = 1.4;
		if (round % 3) {
			so.source_axis = &axis, so.source_axis_count = 1;
			so.source_detector = &detector, so.source_detector_count = 1;
		}
		so.roll = round % 3 == 2 ? 0.1 : 0; /* so that views are aligned first */
		Case c = case_make(0);
		tomos_geometry_free(c.scan);
		OK(tomos_geometry_make(&c.scan, &so));
		OK(tomos_grid_for(&c.grid, c.scan, NULL));
		c.voxels = c.grid.n[0] * c.grid.n[1] * c.grid.n[2];
		c.pixels = so.rows * so.columns * so.views;
		float *data = case_data(&c, c.pixels);
		float *wanted = calloc((size_t)c.voxels, sizeof *wanted);
		float *got = calloc((size_t)c.voxels, sizeof *got);
		tomos_array y = case_projections(&c, data), one = case_volume(&c, wanted),
			    two = case_volume(&c, got);
		/* Aligning needs whole views; a single row at a time, or several. */
		int64_t memory = memory_of(round % 3 == 2 ? 7 * 20 : 39 + round / 3 * 120);
		tomos_backend *b = split_of_children(1 + round % MOST, memory, SHARE_AUTO);
		tomos_analytic_options ao = tomos_analytic_defaults();
		ao.filter_taps = round >= 9 ? 5 : 0;
		OK((round % 3 ? tomos_fdk : tomos_fbp)(
			plain, &c.grid, c.scan, &y, &one, &ao, NULL));
		OK((round % 3 ? tomos_fdk : tomos_fbp)(b, &c.grid, c.scan, &y, &two, &ao, NULL));
		assert_true(case_difference(got, wanted, c.voxels) < rounding());
		tomos_op *A, *B;
		tomos_algebraic_options o = tomos_algebraic_defaults();
		o.iterations = 4;
		OK(tomos_op_projector(&A, plain, &c.grid, c.scan, NULL));
		OK(tomos_op_projector(&B, b, &c.grid, c.scan, NULL));
		static const char *const methods[] = {"sirt", "sart", "cgls", "art"};
		memset(wanted, 0, (size_t)c.voxels * sizeof *wanted);
		memset(got, 0, (size_t)c.voxels * sizeof *got);
		OK(tomos_reconstruct(A, methods[round / 3], &y, &one, &o, NULL));
		OK(tomos_reconstruct(B, methods[round / 3], &y, &two, &o, NULL));
		assert_true(case_difference(got, wanted, c.voxels) < 10 * rounding());
		tomos_op_free(A);
		tomos_op_free(B);
		tomos_backend_close(b);
		free(data), free(wanted), free(got);
		tomos_geometry_free(c.scan);
	}
	tomos_backend_close(plain);
}

/* ---- children that are watched, or fail --------------------------------------------------------- */

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
		return (fail)(TOMOS_NO_DEVICE, "card %d is lost", 7);
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
		return (fail)(TOMOS_NO_DEVICE, "there is no card '%s'", argument);
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

/* A projector on watched children, and what it should come to. */
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

/* After all that went wrong it works. */
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
				"card 7 is lost");
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
	/* Without a limit, what is free is shared by the names of one device. */
	OK(split_open_list(&b, type, "0,1,0", &(SplitOptions){0, SHARE_AUTO}));
	assert_in_range(split_of(b)->memory, 471000, (1 << 20) / 10 * 9 / 2);
	tomos_backend_close(b);
}

/* ---- arrays that stay in place ------------------------------------------------------------------ */

static struct {
	int live, holds, sent; /* sent: arrays that were being held */
	bool rejects;
	const float *data[BLOCKS];
	int64_t count[BLOCKS];
} held;

static tomos_status pinned_pin(tomos_backend *b, float *data, int64_t count)
{
	(void)b;
	if (held.rejects)
		return (fail)(TOMOS_NO_DEVICE, "this array cannot be held");
	assert_true(held.live < BLOCKS);
	held.data[held.live] = data;
	held.count[held.live++] = count;
	held.holds++;
	return TOMOS_OK;
}

static void pinned_unpin(tomos_backend *b, float *data)
{
	int i = 0;
	(void)b;
	while (i < held.live && held.data[i] != data)
		i++;
	assert_true(i < held.live);
	held.data[i] = held.data[--held.live];
	held.count[i] = held.count[held.live];
}

static tomos_status pinned_upload(tomos_backend *b, float *data, const tomos_array *host)
{
	for (int i = 0; i < held.live; i++)
		if (host->data >= held.data[i] && host->data < held.data[i] + held.count[i])
			__atomic_add_fetch(&held.sent, 1, __ATOMIC_RELAXED);
	return cpu_backend.memory->upload(b, data, host);
}

/* All that is held counts, sums of lanes as well, and there is a limit to it. */
static void check_held(Split *split, float *data)
{
	int64_t floats = 0;
	for (int i = 0; i < held.live; i++)
		floats += held.count[i];
	assert_true(split->held_floats == floats);
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
	check_held(split_of(b), data);
done:
	tomos_op_free(op);
	tomos_geometry_free(scan);
	tomos_backend_close(b);
	return status;
}

/* What goes to devices twice is held there and then, for as long as it is used; updates are made there. */
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
	for (held.rejects = true;; held.rejects = false) {
		held.holds = held.sent = 0;
		OK(pinned_sirt(&copy.type, 2, &x2));
		assert_true(case_difference(got, wanted, VOXELS) < 1e-6);
		assert_int_equal(held.live, 0);
		assert_int_equal(held.sent > 0, !held.rejects);
		if (!held.rejects)
			break;
		assert_int_equal(held.holds, 0);
	}
	assert_true(held.holds >= 2); /* the volume and the weights of its voxels */
	int64_t live = mem_live(), nth = 1;
	tomos_status status = TOMOS_NO_MEMORY;
	for (; status != TOMOS_OK && nth < 100000; nth += case_slow() ? 1 + nth / 2 : 7) {
		mem_fail_nth(nth);
		status = pinned_sirt(&copy.type, 1, &x2);
		mem_fail_nth(0);
		assert_int_equal(mem_live(), live);
		assert_int_equal(held.live, 0);
	}
	OK(status);
	free(wanted), free(got);
}

/* ---- the model ---------------------------------------------------------------------------------- */

static Schedule *schedule_of(const Plan *plan, Direction direction, SplitShare share)
{
	Split split = {
		.memory = 1 << 26, .room = 4 << 21, .in = {1 << 21, 1 << 21}, .share = share};
	ProjectRequest what = {.plan = plan,
		.kernel = KERNEL_joseph,
		.direction = direction,
		.count = plan->scan->count};
	Schedule *made;
	memcpy(what.box.high, plan->grid.n, sizeof what.box.high);
	OK(schedule_make(&made, &split, &what, false));
	return made;
}

static int adds(const Schedule *s)
{
	int count = 0;
	for (int64_t i = 0; i < s->item_count; i++)
		count += s->items[i].after >= 0 && s->items[i].steps > 0;
	return count;
}

/* Many views of few voxels from all sides: back, adding up small volumes is cheaper than sending all
 * views again; few views of many voxels: the other way round. */
static void model_chooses(void **state)
{
	(void)state;
	for (int many = 0; many < 2; many++) {
		tomos_scan_options so = tomos_scan_defaults();
		tomos_grid grid;
		tomos_geometry *scan;
		Plan plan;
		KernelModel model = {.weight = WEIGHT_RAY};
		so.geometry = "lebedev";
		so.rows = so.columns = many ? 96 : 16;
		so.views = many ? 601 : 7;
		so.pixel = many ? 0.3 : 10;
		OK(tomos_geometry_make(&scan, &so));
		OK(tomos_grid_centred(&grid, many ? 16 : 128, many ? 16 : 128, many ? 16 : 128, 1));
		OK(plan_make(&plan, &grid, scan, &model));
		for (int direction = FORWARD; direction <= ADJOINT; direction++) {
			Schedule *s[3];
			for (int share = SHARE_AUTO; share <= SHARE_VOXELS; share++)
				s[share] =
					schedule_of(&plan, (Direction)direction, (SplitShare)share);
			int partial = direction == ADJOINT ? many : !many;
			assert_int_equal(adds(s[SHARE_AUTO]) > 0, partial);
			assert_true(adds(s[direction == ADJOINT ? SHARE_VIEWS : SHARE_VOXELS]) > 0);
			assert_int_equal(
				adds(s[direction == ADJOINT ? SHARE_VOXELS : SHARE_VIEWS]), 0);
			for (int share = SHARE_VIEWS; share <= SHARE_VOXELS; share++)
				assert_true(s[SHARE_AUTO]->cost <= s[share]->cost);
			for (int share = SHARE_AUTO; share <= SHARE_VOXELS; share++)
				schedule_free(s[share]);
		}
		plan_free(&plan);
		tomos_geometry_free(scan);
	}
}

/* A cone beam in slabs: a slab needs its rows, so that little is sent twice. */
static void slabs_need_their_rows(void **state)
{
	(void)state;
	tomos_scan_options so = tomos_scan_defaults();
	tomos_grid grid;
	tomos_geometry *scan;
	Plan plan;
	KernelModel model = {.weight = WEIGHT_RAY};
	const double axis = 1000, detector = 1500;
	so.geometry = "cone";
	so.rows = so.columns = 256, so.views = 90;
	so.source_axis = &axis, so.source_axis_count = 1;
	so.source_detector = &detector, so.source_detector_count = 1;
	OK(tomos_geometry_make(&scan, &so));
	OK(tomos_grid_for(&grid, scan, NULL));
	OK(plan_make(&plan, &grid, scan, &model));
	int64_t once = 256 * 256 * 256 + 90 * 256 * 256;
	for (int direction = FORWARD; direction <= ADJOINT; direction++) {
		Schedule *s = schedule_of(&plan, (Direction)direction, SHARE_AUTO);
		assert_in_range(s->cost, once, 2 * once);
		schedule_free(s);
	}
	plan_free(&plan);
	tomos_geometry_free(scan);
}

/* ---- rejections ------------------------------------------------------------------------------------ */

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
		"there is no card 'x'");
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
	FilterView view = {.mapped = true};
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

/* Children of another kind do the work that any can do. */
static int on_devices(void)
{
	tomos_backend *backend;
	char name[16]; /* without devices, which the tests choose */
	snprintf(name, sizeof name, "%.*s", (int)strcspn(test_backend(), ":"), test_backend());
	const struct CMUnitTest tests[] = {cmocka_unit_test(as_one),
		cmocka_unit_test(parts_and_powers), cmocka_unit_test(pieces_update),
		cmocka_unit_test(algorithms)};
	if (tomos_backend_open(&backend, name) != TOMOS_OK) {
		print_message("%s\n", tomos_message());
		return 1;
	}
	children = backend->type;
	tomos_backend_close(backend);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void)
{
	if (!test_repeats())
		return on_devices();
	const struct CMUnitTest tests[] = {cmocka_unit_test(as_one), cmocka_unit_test(same_bits),
		cmocka_unit_test(parts_and_powers), cmocka_unit_test(pieces_update),
		cmocka_unit_test(algorithms), cmocka_unit_test(memory_is_kept),
		cmocka_unit_test(a_lost_device), cmocka_unit_test(cancelling),
		cmocka_unit_test(describes_itself), cmocka_unit_test(arrays_in_place),
		cmocka_unit_test(model_chooses), cmocka_unit_test(slabs_need_their_rows),
		cmocka_unit_test(rejections), cmocka_unit_test(allocations)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
