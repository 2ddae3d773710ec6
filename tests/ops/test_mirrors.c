/* Sets of views that mirror images of the grid map onto each other: the maps that are found, the
 * weights of images, which each voxel in each view is once, and projections beside the reference
 * kernels. */
#include "backend/device/mirror.h" /* first: cmocka makes a macro of fail() */
#include "kernel/footprint.h"
#include "ops/opened.h"

enum { IN_ORDER, TWICE, MIXED };

typedef struct {
	const char *what;
	int64_t n[3], views, columns, rows;
	double arc;          /* in degrees; 0: at random */
	double about[2];     /* rotation of all views about x, and then y, in degrees */
	double roll;         /* of the detector */
	double start;        /* of the circle, in degrees */
	double source;       /* distance from the axis; 0: laminography, parallel rays */
	double pixel, shift; /* shift: of the grid along x, y and z, in voxels */
	int order;           /* of views; TWICE: the first one is also the last one */
	int flips[MIRROR_IMAGES], halved; /* what is wanted; no flips: nothing */
} Setup;

static const Setup setups[] = {
	{"axis tilted about x", {24, 24, 20}, 12, 30, 28, 360, {1, 0}, 0, 0, 70, 1.5, 0, IN_ORDER,
		{0, 1, 6, 7}, 3},
	{"axis tilted about y", {24, 20, 18}, 12, 30, 28, 360, {0, 2}, 0, 0, 70, 1.5, 0, IN_ORDER,
		{0, 5, 2, 7}, 3},
	{"axis tilted, odd sizes", {23, 21, 19}, 8, 31, 29, 360, {8, 0}, 0, 0, 70, 1.5, 0, IN_ORDER,
		{0, 1, 6, 7}, 3},
	{"axis tilted, odd number of views", {24, 24, 20}, 9, 30, 28, 360, {1, 0}, 0, 0, 70, 1.5, 0,
		IN_ORDER, {0, 1}, 1},
	{"axis tilted, a view twice", {24, 24, 20}, 12, 30, 28, 360, {1, 0}, 0, 0, 70, 1.5, 0,
		TWICE, {0, 1}, 1},
	{"axis tilted, views in any order", {24, 24, 20}, 12, 30, 28, 360, {1, 0}, 0, 0, 70, 1.5, 0,
		MIXED, {0, 1, 6, 7}, 3},
	{"axis tilted, large voxels", {24, 24, 20}, 8, 60, 56, 360, {5, 0}, 0, 0, 70, 0.4, 0,
		IN_ORDER, {0, 1, 6, 7}, 3},
	{"axis tilted about both", {24, 24, 20}, 12, 30, 28, 360, {1, 1}, 0, 0, 70, 1.5, 0,
		IN_ORDER, {0, 7}, 1},
	{"axis tilted, grid off it", {24, 24, 20}, 12, 30, 28, 360, {1, 0}, 0, 0, 70, 1.5, 0.2,
		IN_ORDER, {0}, 0},
	{"any angles", {24, 20, 18}, 7, 30, 28, 0, {0, 0}, 0, 0, 70, 1.5, 0, IN_ORDER, {0, 4}, 4},
	{"any angles, odd sizes", {23, 21, 19}, 5, 31, 29, 0, {0, 0}, 0, 0, 70, 1.5, 0, IN_ORDER,
		{0, 4}, 4},
	{"any angles, large voxels", {24, 24, 20}, 5, 60, 56, 0, {0, 0}, 0, 0, 70, 0.4, 0, IN_ORDER,
		{0, 4}, 4},
	{"any angles, a view twice", {24, 24, 20}, 5, 30, 28, 0, {0, 0}, 0, 0, 70, 1.5, 0, TWICE,
		{0, 4}, 4},
	{"any angles, rolled", {24, 24, 20}, 5, 30, 28, 0, {0, 0}, 3, 0, 70, 1.5, 0, IN_ORDER, {0},
		0},
	{"half a circle, rolled", {24, 24, 21}, 9, 30, 28, 160, {0, 0}, 3, 0, 70, 1.5, 0, IN_ORDER,
		{0}, 0},
	{"odd number of views, rolled", {23, 24, 21}, 9, 30, 28, 360, {0, 0}, 3, 0, 70, 1.5, 0,
		IN_ORDER, {0, 5}, 1},
	{"odd number of views, rolled, from 90 degrees", {24, 23, 21}, 9, 30, 28, 360, {0, 0}, 3,
		90, 70, 1.5, 0, IN_ORDER, {0, 6}, 2},
	{"any angles, one slice", {24, 20, 1}, 5, 30, 28, 0, {0, 0}, 0, 0, 70, 1.5, 0, IN_ORDER,
		{0, 4}, 4},
	{"axis tilted, one slice", {24, 20, 1}, 12, 30, 28, 360, {1, 0}, 0, 0, 70, 1.5, 0, IN_ORDER,
		{0, 1, 6, 7}, 3},
	{"laminography", {24, 20, 12}, 12, 30, 28, 360, {0, 0}, 0, 0, 0, 1, 0, IN_ORDER,
		{0, 1, 2, 3}, 3},
	{"axis tilted, more views than in a pass", {12, 12, 10}, 104, 16, 14, 360, {1, 0}, 0, 0, 70,
		1.5, 0, IN_ORDER, {0, 1, 6, 7}, 3},
	{"axis tilted about x, more than a block", {70, 68, 40}, 8, 80, 60, 360, {1, 0}, 0, 0, 190,
		1.5, 0, IN_ORDER, {0, 1, 6, 7}, 3},
	{"any angles, more than a block", {70, 68, 41}, 6, 80, 60, 0, {0, 0}, 0, 0, 190, 1.5, 0,
		IN_ORDER, {0, 4}, 4},
};
enum { SETUPS = sizeof setups / sizeof setups[0] };

/* ---- scans ----------------------------------------------------------------------------------- */

static Case setup_case(const Setup *s)
{
	Case c = {.state = 11};
	const double radians = 3.14159265358979323846 / 180, detector = 1.5 * s->source;
	tomos_scan_options o = tomos_scan_defaults();
	o.geometry = s->source > 0 ? "cone" : "laminography";
	o.rows = s->rows, o.columns = s->columns, o.views = s->views;
	o.pixel = s->pixel;
	o.arc = (s->arc > 0 ? s->arc : 360) * radians;
	o.tilt = s->source > 0 ? 0 : 30 * radians;
	o.roll = s->roll * radians;
	if (s->source > 0) {
		o.source_axis = &s->source, o.source_axis_count = 1;
		o.source_detector = &detector, o.source_detector_count = 1;
	}
	case_place(&c, &o, s->n);
	tomos_view *views = malloc((size_t)(s->views + 1) * sizeof *views);
	memcpy(views, tomos_geometry_list(c.scan), (size_t)s->views * sizeof *views);
	for (int64_t i = 0; i < s->views; i++) {
		case_rotate_view(&views[i], 2, s->arc > 0 ? s->start : case_between(&c, 0, 360));
		case_rotate_view(&views[i], 0, s->about[0]);
		case_rotate_view(&views[i], 1, s->about[1]);
	}
	for (int64_t i = 1; i < s->views && s->order == MIXED; i++) {
		const tomos_view view = views[i];
		const int64_t j = (int64_t)case_between(&c, 0, (double)i);
		views[i] = views[j], views[j] = view;
	}
	views[s->views] = views[0];
	tomos_geometry_free(c.scan);
	OK(tomos_geometry_views(
		&c.scan, s->rows, s->columns, views, s->views + (s->order == TWICE)));
	for (int a = 0; a < 3; a++)
		c.grid.first[a] += s->shift;
	case_count(&c);
	snprintf(c.name, sizeof c.name, "%s", s->what);
	free(views);
	return c;
}

static ProjectRequest whole_request(const Plan *plan)
{
	ProjectRequest what = {.plan = plan, .count = plan->scan->count};
	memcpy(what.box.high, plan->grid.n, sizeof what.box.high);
	return what;
}

/* ---- maps ------------------------------------------------------------------------------------ */

static void maps_are_found(void **state)
{
	(void)state;
	int wrong = 0;
	for (int i = 0; i < SETUPS; i++) {
		const Setup *s = &setups[i];
		Case c = setup_case(s);
		Plan plan;
		OK(plan_make(&plan, &c.grid, c.scan, &(KernelModel){.weight = WEIGHT_RAY}));
		ProjectRequest what = whole_request(&plan);
		const Mirrors found = mirrors_find(&what, MIRROR_IMAGES);
		const int count = s->flips[2] ? 4 : s->flips[1] ? 2 : 0;
		if (found.count != count || found.halved != s->halved ||
			memcmp(found.flips, s->flips, sizeof found.flips) != 0) {
			print_error("%s: %d maps (%d, %d, %d)\n", s->what, found.count,
				found.flips[1], found.flips[2], found.flips[3]);
			wrong++;
		}
		what.box.high[2]--;
		assert_int_equal(mirrors_find(&what, MIRROR_IMAGES).count, 0);
		plan_free(&plan);
		tomos_geometry_free(c.scan);
	}
	assert_int_equal(wrong, 0);
}

enum { MOST_PIXELS = 4096 };

typedef struct {
	int64_t index[MOST_PIXELS], count;
	float weight[MOST_PIXELS];
} Pixels;

static void pixels_of(const Plan *plan, int view, const int64_t at[3], Pixels *pixels)
{
	KernelMeet meet = {.index = pixels->index, .weight = pixels->weight};
	footprint_voxel(&plan->whole, &plan->model, &plan->views[view], at, MEET_LIST, &meet);
	assert_in_range(meet.count, 0, MOST_PIXELS);
	pixels->count = meet.count;
}

/* The weight of a pixel, given by its place in the view that `seen` is a mirror image of. */
static double weight_at(const Plan *plan, const Pixels *pixels, int seen, int64_t place)
{
	const int64_t columns = plan->model.columns, rows = plan->model.rows;
	const int64_t r = place / columns, c = place % columns,
		      row = seen & REVERSED_ROWS ? rows - 1 - r : r,
		      column = seen & REVERSED_COLUMNS ? columns - 1 - c : c;
	for (int64_t i = 0; i < pixels->count; i++)
		if (pixels->index[i] == row * columns + column)
			return pixels->weight[i];
	return 0;
}

/* Largest difference between the weights of a voxel in a view and those of its images. */
static double image_difference(const Plan *plan, const Mirrors *mirrors, const MirrorView *view,
	const int64_t at[3], unsigned char *visits)
{
	static Pixels pixels, image;
	double most = 0;
	pixels_of(plan, view->view[0], at, &pixels);
	for (int i = 0; i < mirrors->count; i++) {
		int64_t to[3];
		bool twice = false;
		for (int a = 0; a < 3; a++) {
			const bool flip = mirrors->flips[i] >> a & 1;
			to[a] = flip ? plan->grid.n[a] - 1 - at[a] : at[a];
			twice = twice || (flip && mirrors->halved >> a & 1 && to[a] == at[a]);
		}
		if (twice)
			continue;
		const int seen = view->view[i], number = seen & MIRROR_BITS;
		pixels_of(plan, number, to, &image);
		for (int64_t k = 0; k < pixels.count; k++)
			most = fmax(most, fabs(pixels.weight[k] -
						  weight_at(plan, &image, seen, pixels.index[k])));
		visits[((number * plan->grid.n[2] + to[2]) * plan->grid.n[1] + to[1]) *
				plan->grid.n[0] +
			to[0]]++;
	}
	return most;
}

static void check_images(const Plan *plan, const char *name, int most)
{
	const ProjectRequest what = whole_request(plan);
	const Mirrors found = mirrors_find(&what, most), *mirrors = &found;
	MirrorView *views = malloc((size_t)what.count * sizeof *views);
	const int64_t *n = plan->grid.n, all = n[0] * n[1] * n[2] * what.count;
	unsigned char *visits = calloc((size_t)all, 1);
	int64_t half[3], at[3];
	for (int a = 0; a < 3; a++)
		half[a] = mirrors->halved >> a & 1 ? (n[a] + 1) / 2 : n[a];
	mirror_views(plan, mirrors, views);
	for (int64_t v = 0; v < what.count; v++) {
		double differ = 0;
		for (at[2] = 0; at[2] < half[2]; at[2]++)
			for (at[1] = 0; at[1] < half[1]; at[1]++)
				for (at[0] = 0; at[0] < half[0]; at[0]++)
					differ = fmax(differ, image_difference(plan, mirrors,
								      &views[v], at, visits));
		if (!(differ < 1e-5))
			fail_msg("%s: weights of images differ by %g", name, differ);
	}
	for (int64_t i = 0; i < all; i++)
		if (visits[i] != 1)
			fail_msg("%s: a voxel is visited %d times in a view", name, visits[i]);
	free(visits), free(views);
}

static void images_have_the_same_weights(void **state)
{
	(void)state;
	for (int i = 0; i < SETUPS; i++) {
		if (setups[i].flips[1] == 0 || setups[i].n[0] > 40)
			continue;
		Case c = setup_case(&setups[i]);
		Plan plan;
		OK(plan_make(&plan, &c.grid, c.scan, &(KernelModel){.weight = WEIGHT_RAY}));
		check_images(&plan, c.name, 4);
		if (setups[i].flips[2] && !CASE_SLOW)
			check_images(&plan, c.name, 2);
		plan_free(&plan);
		tomos_geometry_free(c.scan);
	}
}

/* Moves the detectors of all views by up to `most` along each axis. */
static void jitter(Case *c, double most)
{
	const int64_t rows = tomos_geometry_rows(c->scan),
		      columns = tomos_geometry_columns(c->scan),
		      count = tomos_geometry_count(c->scan);
	tomos_view *views = malloc((size_t)count * sizeof *views);
	memcpy(views, tomos_geometry_list(c->scan), (size_t)count * sizeof *views);
	for (int64_t i = 0; i < count; i++)
		for (int a = 0; a < 3; a++)
			views[i].det[a] += case_between(c, -most, most);
	tomos_geometry_free(c->scan);
	OK(tomos_geometry_views(&c->scan, rows, columns, views, count));
	free(views);
}

/* Whether each map takes every view to a view, and no two of them to the same. */
static bool are_permutations(const Mirrors *mirrors, const MirrorView *views, int64_t count)
{
	bool valid = true;
	for (int i = 0; i < mirrors->count; i++) {
		unsigned char *seen = calloc((size_t)count, 1);
		for (int64_t v = 0; v < count && valid; v++)
			valid = views[v].view[i] >= 0 && !seen[views[v].view[i] & MIRROR_BITS]++;
		free(seen);
	}
	return valid;
}

/* Where two maps are just within the tolerance, the third one, which is both, may be beyond it. */
static void views_near_the_tolerance_have_all_images(void **state)
{
	(void)state;
	int four = 0;
	for (int seed = 0; seed < 200; seed++) {
		Case c = setup_case(&setups[0]);
		c.state = (uint64_t)seed;
		jitter(&c, 5e-7);
		Plan plan;
		OK(plan_make(&plan, &c.grid, c.scan, &(KernelModel){.weight = WEIGHT_RAY}));
		const ProjectRequest what = whole_request(&plan);
		const Mirrors found = mirrors_find(&what, MIRROR_IMAGES);
		MirrorView *views = malloc((size_t)what.count * sizeof *views);
		mirror_views(&plan, &found, views);
		if (!are_permutations(&found, views, what.count))
			fail_msg("seed %d: a view has no image", seed);
		four += found.count == 4;
		free(views);
		plan_free(&plan);
		tomos_geometry_free(c.scan);
	}
	assert_in_range(four, 1, 199); /* the tolerance is within what was tried */
}

/* ---- projections ----------------------------------------------------------------------------- */

/* On a GPU, four or two views at once. */
static void check_projections(Case *c, const char *projector)
{
	float *x = case_data(c, c->voxels), *y = case_data(c, c->pixels), *Ax[2], *Ay[2];
	tomos_projector_options o = tomos_projector_defaults();
	o.forward = projector;
	for (o.plain = 0; o.plain < 2; o.plain++) {
		Ax[o.plain] = calloc((size_t)c->pixels, sizeof(float));
		Ay[o.plain] = calloc((size_t)c->voxels, sizeof(float));
		case_forward(backend, &c->grid, c->scan, &o, x, Ax[o.plain]);
		case_adjoint(backend, &c->grid, c->scan, &o, y, Ay[o.plain]);
	}
	const double forward = case_largest_difference(Ax[0], Ax[1], c->pixels),
		     back = case_largest_difference(Ay[0], Ay[1], c->voxels);
	if (!(forward < 1e-5 && back < 1e-5))
		fail_msg("%s, %s: forward differs by %g, back by %g", c->name, projector, forward,
			back);
	free(x), free(y), free(Ax[0]), free(Ax[1]), free(Ay[0]), free(Ay[1]);
}

static void check_setups(void)
{
	for (int i = 0; i < SETUPS; i++) {
		Case c = setup_case(&setups[i]);
		check_projections(&c, "footprint");
		check_projections(&c, "voxel");
		tomos_geometry_free(c.scan);
	}
}

static void projections_agree_with_the_reference(void **state)
{
	(void)state;
	check_setups();
}

/* Some of the views at a time. */
static void little_memory(void **state)
{
	(void)state;
	tomos_backend *all = backend;
	OK(tomos_backend_open(&backend, test_backend()));
	if (backend->type->memory->limit_scratch) {
		backend->type->memory->limit_scratch(backend, 20000, NULL);
		check_setups();
	}
	tomos_backend_close(backend);
	backend = all;
}

#define TESTS(T) \
	T(maps_are_found), T(images_have_the_same_weights), \
		T(views_near_the_tolerance_have_all_images), \
		T(projections_agree_with_the_reference), T(little_memory)
TEST_MAIN(TESTS, open_backend, close_backend)
