/* Volumes whose shadow is a small part of the detector: against the reference kernel, all views and
 * some of them, added and overwritten. */
#include "backend/device/hat.h" /* first: cmocka makes a macro of fail() */
#include "backend/device/window_plan.h"
#include "ops/stacks.h"

typedef struct {
	const char *name, *geometry;
	int64_t n[3], rows, columns, views;
	double source, arc, roll, slant, tilt, pitch;
	double centre[3]; /* of the grid */
} Small;

static const Small smalls[] = {
	{"one slice, full circle", "cone", {33, 33, 1}, 61, 57, 16, 150, 0, 0, 0, 0, 0, {0}},
	{"off the axis, full circle", "cone", {13, 13, 9}, 71, 90, 16, 150, 0, 0, 0, 0, 0,
		{9, -7, 5}},
	{"off the axis, short arc", "cone", {21, 15, 7}, 64, 90, 17, 150, 3.6, 0, 0, 0, 0,
		{9, -7, 8}},
	{"rolled, slanted", "cone", {19, 15, 11}, 80, 71, 13, 120, 4, 0.1, 0.2, 0, 0, {0, 4, 0}},
	{"slices of a helix", "helix", {31, 29, 5}, 40, 47, 29, 130, 12, 0, 0, 0, 30, {0}},
	{"laminography", "laminography", {29, 27, 5}, 90, 61, 14, 0, 0, 0, 0, 0.7, 0, {0}},
	{"partly seen", "cone", {17, 17, 5}, 61, 50, 15, 150, 4, 0, 0, 0, 0, {3, 3, 20}},
};
enum { SMALLS = sizeof smalls / sizeof smalls[0] };

static Case small_case(const Small *s, int number)
{
	Case c = {.state = (uint64_t)number + 31};
	const double far = 1.5 * s->source;
	tomos_scan_options o = tomos_scan_defaults();
	o.geometry = s->geometry;
	if (s->source > 0) {
		o.source_axis = &s->source, o.source_axis_count = 1;
		o.source_detector = &far, o.source_detector_count = 1;
	}
	o.rows = s->rows, o.columns = s->columns, o.views = s->views;
	o.pixel = 1.2;
	o.start = 0.1;
	o.arc = s->arc;
	o.roll = s->roll, o.slant = s->slant;
	o.tilt = s->tilt, o.pitch = s->pitch;
	case_place(&c, &o, s->n);
	for (int a = 0; a < 3; a++)
		c.grid.first[a] += s->centre[a];
	snprintf(c.name, sizeof c.name, "%s", s->name);
	return c;
}

static void compare(const Case *c, Kind kind, const float *got, const float *exact, int64_t count)
{
	const double difference = case_difference(got, exact, count);
	if (!(difference <= 5e-6))
		fail_msg("%s, kernel %d, direction %d: differs by %g", c->name, kind.kernel,
			(int)kind.direction, difference);
}

/* All views, or those from `first` on. */
static void check_views(const Small *s, const Case *c, Kind kind, int64_t first)
{
	const Box box = {.high = {s->n[0], s->n[1], s->n[2]}};
	const int64_t count = s->views - first;
	Case random = *c;
	const bool forward = kind.direction == FORWARD;
	float *from = case_data(&random, forward ? c->voxels : c->pixels);
	float *got = project(c, kind, &box, first, count, from);
	kind.plain = true;
	float *exact = project(c, kind, &box, first, count, from);
	compare(c, kind, got, exact, forward ? count * s->rows * s->columns : c->voxels);
	free(from), free(got), free(exact);
}

/* A projection through the operator, which overwrites what is in the result. */
static float *overwrite(const Small *s, const Case *c, Kind kind, float *from)
{
	static const char *const names[] = {[KERNEL_joseph] = "joseph",
		[KERNEL_voxel] = "voxel",
		[KERNEL_footprint] = "footprint"};
	const bool forward = kind.direction == FORWARD;
	const int64_t count = forward ? c->pixels : c->voxels;
	float *to = malloc((size_t)count * sizeof *to);
	for (int64_t i = 0; i < count; i++)
		to[i] = 7;
	tomos_array x = tomos_array_of(forward ? from : to, s->n[2], s->n[1], s->n[0]);
	tomos_array y = tomos_array_of(forward ? to : from, s->views, s->rows, s->columns);
	tomos_projector_options o = tomos_projector_defaults();
	tomos_op *op;
	o.forward = names[kind.kernel];
	o.plain = kind.plain;
	OK(tomos_op_projector(&op, backend, &c->grid, c->scan, &o));
	OK(forward ? tomos_op_forward(op, &x, &y) : tomos_op_adjoint(op, &y, &x));
	tomos_op_free(op);
	return to;
}

static void check_overwritten(const Small *s, const Case *c, Kind kind)
{
	Case random = *c;
	const bool forward = kind.direction == FORWARD;
	float *from = case_data(&random, forward ? c->voxels : c->pixels);
	float *got = overwrite(s, c, kind, from);
	kind.plain = true;
	float *exact = overwrite(s, c, kind, from);
	compare(c, kind, got, exact, forward ? c->pixels : c->voxels);
	free(from), free(got), free(exact);
}

/* Without a window the other tests would compare kernels for whole detectors only. */
static void windows_are_found(void **state)
{
	(void)state;
	for (int i = 0; i < SMALLS; i++) {
		Case c = small_case(&smalls[i], i);
		Plan whole, *part;
		int *corners;
		OK(plan_make(&whole, &c.grid, c.scan, &(KernelModel){.weight = WEIGHT_RAY}));
		OK(window_plan(&part, &whole, &corners));
		if (!part)
			fail_msg("%s: no window", c.name);
		assert_true(2 * part->model.rows * part->model.columns <=
			    smalls[i].rows * smalls[i].columns);
		slices_plan_free(part);
		mem_free(corners);
		plan_free(&whole);
		tomos_geometry_free(c.scan);
	}
}

static void small_volumes_agree(void **state)
{
	(void)state;
	static const int kernels[] = {KERNEL_voxel, KERNEL_joseph, KERNEL_footprint};
	for (int i = 0; i < SMALLS; i += CASE_RACES ? 3 : 1) {
		const Small *s = &smalls[i];
		Case c = small_case(s, i);
		for (int k = 0; k < 6; k++) {
			const Kind kind = {
				kernels[k % 3], k / 3 ? FORWARD : ADJOINT, DATA_FLOAT, false};
			check_views(s, &c, kind, 0);
			check_views(s, &c, kind, 5);
			check_overwritten(s, &c, kind);
		}
		tomos_geometry_free(c.scan);
	}
}

#define TESTS(T) T(windows_are_found), T(small_volumes_agree)
TEST_MAIN(TESTS, open_backend, close_backend)
