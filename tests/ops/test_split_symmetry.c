/* Splits of views with half-turn or quarter-turn symmetry: the pieces, and that their sum is the
 * whole. */
#include "backend/split/split.h"
#include "ops/cases.h"

typedef struct {
	const char *what, *geometry;
	int64_t n[3], views, rows, columns;
	double arc, shift; /* shift: of the grid, in voxels */
	int64_t in;        /* floats that are sent at a time; 0: eight views */
	int64_t sets;      /* of a piece's views */
} Setup;

static const Setup setups[] = {
	{"a full circle", "cone", {24, 24, 20}, 20, 24, 30, 360, 0, 0, 4},
	{"a full circle clockwise", "cone", {24, 24, 20}, 28, 24, 30, -360, 0, 0, 4},
	{"fans", "fan", {24, 24, 20}, 12, 24, 30, 360, 0, 0, 1},
	{"no number of quarters", "cone", {24, 24, 20}, 18, 24, 30, 360, 0, 0, 2},
	{"no square", "cone", {20, 24, 20}, 20, 24, 30, 360, 0, 0, 2},
	{"an odd number of views", "cone", {24, 24, 20}, 15, 24, 30, 360, 0, 0, 1},
	{"part of a circle", "cone", {24, 24, 20}, 20, 24, 30, 240, 0, 0, 1},
	{"a grid off the axis", "cone", {24, 24, 20}, 20, 24, 30, 360, 0.25, 0, 1},
	{"parallel rays", "parallel", {24, 24, 20}, 20, 24, 30, 360, 0, 0, 1},
	{"no memory for four views", "cone", {24, 24, 20}, 20, 24, 30, 360, 0, 100, 1},
	{"one slice, whole or in parts", "cone", {24, 24, 1}, 20, 24, 30, 360, 0, 0, 4},
};
enum { SETUPS = sizeof setups / sizeof setups[0] };

static Case setup_case(const Setup *s)
{
	Case c = {.state = 5};
	const double radians = 3.14159265358979323846 / 180, axis = 400, detector = 540;
	tomos_scan_options o = tomos_scan_defaults();
	o.geometry = s->geometry;
	o.rows = s->rows, o.columns = s->columns, o.views = s->views;
	o.pixel = 1.3;
	o.start = 0.3;
	o.arc = s->arc * radians;
	if (strcmp(s->geometry, "parallel") != 0) {
		o.source_axis = &axis, o.source_axis_count = 1;
		o.source_detector = &detector, o.source_detector_count = 1;
	}
	case_place(&c, &o, s->n);
	c.grid.first[0] += s->shift;
	return c;
}

static int64_t sent_of(const Setup *s)
{
	return s->in > 0 ? s->in : 8 * s->rows * s->columns;
}

/* ---- pieces --------------------------------------------------------------------------------- */

/* Every step of an item brings rows of views that were not there yet; all of its slab's items, all
 * views. */
static void mark_item(const Schedule *s, const Item *item, const Setup *setup, char *seen)
{
	for (int64_t i = item->first; i < item->first + item->steps; i++) {
		const Step *step = &s->steps[i];
		bool whole = step->box.high[1] - step->box.low[1] == setup->n[1];
		assert_int_equal(step->sets, whole ? setup->sets : 1);
		assert_int_equal(step->count % step->sets, 0);
		for (int64_t k = 0; k < step->count; k++) {
			int64_t view = step_view(step, k);
			assert_in_range(view, 0, setup->views - 1);
			for (int64_t row = step->window.low[1]; row < step->window.high[1]; row++)
				assert_int_equal(seen[view * setup->rows + row]++, 0);
		}
	}
}

static void check_slab(const Schedule *s, const Box *slab, const Setup *setup)
{
	char *seen = calloc((size_t)(setup->views * setup->rows), 1);
	for (int64_t i = 0; i < s->item_count; i++)
		if (memcmp(&s->items[i].piece.box, slab, sizeof *slab) == 0)
			mark_item(s, &s->items[i], setup, seen);
	for (int64_t view = 0; view < setup->views; view++)
		assert_non_null(memchr(seen + view * setup->rows, 1, (size_t)setup->rows));
	free(seen);
}

/* Steps of an item have as many views as the others, or one of each run fewer. */
static void check_sizes(const Schedule *s, const Setup *setup)
{
	for (int64_t i = 0; i < s->item_count; i++) {
		const Item *item = &s->items[i];
		int64_t least = setup->views, most = 0;
		for (int64_t k = item->first; k < item->first + item->steps; k++) {
			int64_t count = s->steps[k].count / s->steps[k].sets;
			least = min64(least, count);
			most = max64(most, count);
		}
		assert_true(setup->in > 0 || item->steps == 0 || most - least <= 1);
	}
}

static void pieces_come_in_turns(void **state)
{
	(void)state;
	for (int i = 0; i < 2 * 3 * SETUPS; i++) {
		const Setup *setup = &setups[i / 6];
		Case c = setup_case(setup);
		Plan plan;
		Schedule *s;
		int64_t in = sent_of(setup);
		bool filtered = i % 2;
		Split split = {.memory = 1 << 20,
			.capacity = 2 * in + c.voxels / 3,
			.in = {in, in},
			.in_rows = 2 * in,
			.share = (SplitShare)(i / 2 % 3)};
		OK(plan_make(&plan, &c.grid, c.scan, &(KernelModel){.weight = WEIGHT_DEPTH}));
		ProjectRequest what = {.plan = &plan,
			.kernel = KERNEL_voxel,
			.direction = ADJOINT,
			.count = setup->views};
		memcpy(what.box.high, plan.grid.n, sizeof what.box.high);
		OK(schedule_make(&s, &split, &what, filtered));
		assert_true(s->item_count > 2);
		for (int64_t k = 0; k < s->item_count; k++)
			check_slab(s, &s->items[k].piece.box, setup);
		check_sizes(s, setup);
		schedule_free(s);
		plan_free(&plan);
		tomos_geometry_free(c.scan);
	}
}

/* Only where a kernel gains: the others keep neighbours together. */
static void others_keep_neighbours(void **state)
{
	(void)state;
	Case c = setup_case(&setups[0]);
	Plan plan;
	Schedule *s;
	Split split = {.memory = 1 << 20, .capacity = 1 << 14, .in = {1 << 12, 1 << 12}};
	OK(plan_make(&plan, &c.grid, c.scan, &(KernelModel){.weight = WEIGHT_RAY}));
	for (int kernel = 0; kernel < KERNEL_COUNT; kernel++) {
		ProjectRequest what = {.plan = &plan,
			.kernel = kernel,
			.direction = ADJOINT,
			.count = plan.scan->count};
		memcpy(what.box.high, plan.grid.n, sizeof what.box.high);
		OK(schedule_make(&s, &split, &what, false));
		assert_int_equal(s->steps[0].sets, kernel == KERNEL_voxel ? 4 : 1);
		schedule_free(s);
	}
	plan_free(&plan);
	tomos_geometry_free(c.scan);
}

/* ---- what they come to ---------------------------------------------------------------------- */

static tomos_backend *open_split(const Setup *setup, SplitShare share, bool filtered)
{
	static const char *const none[1] = {""};
	tomos_backend *alone, *b;
	char name[16];
	snprintf(name, sizeof name, "%.*s", (int)strcspn(test_backend(), ":"), test_backend());
	OK(tomos_backend_open(&alone, name));
	const BackendType *type = alone->type;
	int64_t each = type->memory->limit_scratch ? 8 : 4,
		floats = (1 + filtered) * sent_of(setup) + 1;
	int64_t memory = STREAMS * each * floats * (int64_t)sizeof(float);
	OK(split_open(&b, type, none, 1, &(SplitOptions){memory, share}));
	tomos_backend_close(alone);
	return b;
}

/* The GPU kernels that use the symmetry were chosen. */
static void check_kernel(const tomos_backend *b, const Setup *setup)
{
	const char *ran = split_of(b)->lanes[0].child->last_kernel;
	if (strncmp(test_backend(), "cuda", 4) != 0 || setup->sets == 1 || setup->n[2] == 1)
		return;
	if (!ran ||
		strcmp(ran, setup->sets == 4 ? "voxel_back_circle_4" : "voxel_back_circle_2") != 0)
		fail_msg("%s: kernel %s", setup->what, ran ? ran : "of the reference kernel");
}

static void check_sum(const Setup *setup, tomos_backend *plain, SplitShare share)
{
	const double rounding = test_repeats() ? 1e-6 : 1e-5;
	Case c = setup_case(setup);
	tomos_projector_options o = tomos_projector_defaults();
	o.forward = "voxel";
	float *y = case_data(&c, c.pixels);
	float *wanted = calloc((size_t)c.voxels, sizeof *wanted);
	float *got = calloc((size_t)c.voxels, sizeof *got);
	tomos_array data = case_projections(&c, y), one = case_volume(&c, wanted),
		    two = case_volume(&c, got);
	for (int filtered = 0; filtered < 2; filtered++) {
		tomos_backend *b = open_split(setup, share, filtered);
		if (filtered) {
			OK(tomos_fbp(plain, &c.grid, c.scan, &data, &one, NULL, NULL));
			OK(tomos_fbp(b, &c.grid, c.scan, &data, &two, NULL, NULL));
		} else {
			case_adjoint(plain, &c.grid, c.scan, &o, y, wanted);
			case_adjoint(b, &c.grid, c.scan, &o, y, got);
		}
		double difference = case_difference(got, wanted, c.voxels);
		if (!(difference <= rounding))
			fail_msg("%s, share %d, filtered %d: differs by %g", setup->what, share,
				filtered, difference);
		check_kernel(b, setup);
		tomos_backend_close(b);
	}
	free(y), free(wanted), free(got);
	tomos_geometry_free(c.scan);
}

static void sums_are_the_whole(void **state)
{
	(void)state;
	tomos_backend *plain;
	OK(tomos_backend_open(&plain, "cpu"));
	for (int i = 0; i < SETUPS; i++)
		check_sum(&setups[i], plain, i % 3 == 1 ? SHARE_VIEWS : SHARE_VOXELS);
	tomos_backend_close(plain);
}

/* ---- a device that is watched --------------------------------------------------------------- */

enum { LANES = STREAMS };
static struct {
	pthread_mutex_t lock;
	int64_t memory,
		allowed; /* floats on the device, and of these for what a lane's kernels keep */
	int64_t live, size[LANES];
	const float *block[LANES];
	const tomos_backend *child[LANES]; /* and the views of its last projection: */
	const float *from[LANES], *to[LANES];
	int uploads, filters, limits;
} watched = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* With the lock held: the place of a block, or of a child; of NULL: a free one. */
static int place_of(const void *const *list, const void *what)
{
	int i = 0;
	while (i < LANES - 1 && list[i] != what)
		i++;
	assert_ptr_equal(list[i], what);
	return i;
}

static tomos_status watched_alloc(tomos_backend *b, float **data, int64_t count, const char *what)
{
	OK(cpu_backend.memory->alloc(b, data, count, what));
	pthread_mutex_lock(&watched.lock);
	int i = place_of((const void *const *)watched.block, NULL);
	watched.block[i] = *data;
	watched.size[i] = count;
	watched.live += count;
	pthread_mutex_unlock(&watched.lock);
	return TOMOS_OK;
}

static void watched_release(tomos_backend *b, float *data)
{
	pthread_mutex_lock(&watched.lock);
	int i = place_of((const void *const *)watched.block, data);
	watched.block[i] = NULL;
	watched.live -= watched.size[i];
	pthread_mutex_unlock(&watched.lock);
	cpu_backend.memory->release(b, data);
}

static void watched_limit(tomos_backend *b, int64_t floats, tomos_backend *first)
{
	(void)b;
	(void)first;
	watched.allowed = floats;
	watched.limits++;
}

static int lane_of(const tomos_backend *b)
{
	return !watched.child[0] || watched.child[0] == b ? 0 : 1;
}

static tomos_status watched_project(tomos_backend *b, const ProjectRequest *what)
{
	const KernelModel *model = &what->plan->model;
	pthread_mutex_lock(&watched.lock);
	watched.child[lane_of(b)] = b;
	watched.from[lane_of(b)] = what->projections;
	watched.to[lane_of(b)] = what->projections + what->count * model->rows * model->columns;
	assert_true(watched.live + LANES * watched.allowed <= watched.memory);
	pthread_mutex_unlock(&watched.lock);
	return cpu_backend.projector->apply(b, what);
}

/* What is sent ahead must not be where the views are that may still be read. */
static tomos_status watched_upload_overlapped(
	tomos_backend *b, float *data, const tomos_array *host)
{
	const int64_t count = host->shape[0] * host->shape[1] * host->shape[2];
	pthread_mutex_lock(&watched.lock);
	watched.uploads++;
	if (watched.child[lane_of(b)] == b)
		assert_true(
			data >= watched.to[lane_of(b)] || data + count <= watched.from[lane_of(b)]);
	pthread_mutex_unlock(&watched.lock);
	return cpu_backend.memory->upload(b, data, host);
}

static tomos_status watched_filter_overlapped(tomos_backend *b, const Filter *filter, int64_t count,
	int64_t rows, const FilterView *views, const float *in, float *out)
{
	pthread_mutex_lock(&watched.lock);
	watched.filters++;
	pthread_mutex_unlock(&watched.lock);
	return cpu_backend.filter->apply(b, filter, count, rows, views, in, out);
}

/* Views that are filtered on the way go ahead, and get memory of kernels, which get it back. */
static void views_go_ahead(void **state)
{
	(void)state;
	static const char *const none[1] = {""};
	Case c = setup_case(&setups[0]);
	BackendCopy copy;
	tomos_backend *plain, *b;
	tomos_projector_options o = tomos_projector_defaults();
	float *y = case_data(&c, c.pixels);
	float *wanted = calloc((size_t)c.voxels, sizeof *wanted);
	float *got = calloc((size_t)c.voxels, sizeof *got);
	tomos_array data = case_projections(&c, y), one = case_volume(&c, wanted),
		    two = case_volume(&c, got);
	backend_copy(&copy, &cpu_backend);
	copy.memory.alloc = watched_alloc;
	copy.memory.release = watched_release;
	copy.memory.limit_scratch = watched_limit;
	copy.memory.upload_overlapped = watched_upload_overlapped;
	copy.projector.apply = watched_project;
	copy.filter.apply_overlapped = watched_filter_overlapped;
	watched.memory = LANES * 16 * 8 * 30 * 24;
	OK(split_open(&b, &copy.type, none, 1,
		&(SplitOptions){watched.memory * (int64_t)sizeof(float), SHARE_VOXELS}));
	const int64_t own = watched.allowed;
	OK(tomos_backend_open(&plain, "cpu"));
	OK(tomos_fbp(plain, &c.grid, c.scan, &data, &one, NULL, NULL));
	for (int round = 0; round < 2; round++) {
		watched.uploads = watched.filters = 0;
		OK(tomos_fbp(b, &c.grid, c.scan, &data, &two, NULL, NULL));
		assert_true(case_difference(got, wanted, c.voxels) < 1e-6);
		assert_true(watched.filters > 1 && watched.uploads == 4 * watched.filters);
		assert_true(watched.limits > LANES);
		assert_int_equal(watched.allowed, own);
		case_adjoint(b, &c.grid, c.scan, &o, y, got);
	}
	tomos_backend_close(plain);
	tomos_backend_close(b);
	assert_int_equal(watched.live, 0);
	free(y), free(wanted), free(got);
	tomos_geometry_free(c.scan);
}

int main(void)
{
	tomos_backend *backend;
	const struct CMUnitTest tests[] = {cmocka_unit_test(pieces_come_in_turns),
		cmocka_unit_test(others_keep_neighbours), cmocka_unit_test(sums_are_the_whole),
		cmocka_unit_test(views_go_ahead)};
	if (tomos_backend_open(&backend, test_backend()) != TOMOS_OK) {
		print_message("%s\n", tomos_message());
		return 1;
	}
	tomos_backend_close(backend);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
