/* Stacks of slices of all sizes, and parts of their back projections. */
#ifndef TOMOS_TESTS_OPS_STACKS_H
#define TOMOS_TESTS_OPS_STACKS_H

#include "backend/backend.h" /* first: cmocka makes a macro of fail() */
#include "ops/opened.h"

typedef struct {
	int64_t n[3], columns, views;
	double pixel, axis; /* axis: from the middle */
} Size;

/* Few slices and many, not a multiple of anything, views past the last stage, detectors that see a
 * part or nothing of the grid, columns narrower than pixels and wider. */
static const Size sizes[] = {
	{{33, 18, 16}, 37, 9, 1, 0.3}, {{16, 16, 64}, 24, 16, 1, 0},
	{{61, 47, 37}, 83, 23, 1, -3.7}, {{20, 70, 65}, 41, 12, 1.3, 5},
	{{50, 49, 130}, 91, 25, 0.97, 0.5}, {{43, 39, 100}, 70, 21, 1, 0.4},
	{{48, 5, 17}, 7, 31, 1.1, 20}, {{23, 29, 19}, 1, 10, 1, 0}, {{30, 30, 20}, 33, 14, 1, 500},
	{{35, 34, 21}, 90, 13, 0.5, 0}, /* too steep for half precision: float is used */
};
enum { SIZES = sizeof sizes / sizeof sizes[0], STEEP = SIZES - 1, UNSEEN = SIZES - 2 };

static inline Case size_case(const Size *size, int number)
{
	Case c = {.state = (uint64_t)number + 3};
	double axis = 0.5 * (double)(size->columns - 1) + size->axis;
	tomos_scan_options o = tomos_scan_defaults();
	o.rows = size->n[2];
	o.columns = size->columns;
	o.views = size->views;
	o.pixel = size->pixel;
	o.pixel_height = 1;
	o.start = 0.1 * number;
	o.arc = number % 2 ? 6.1 : 0;
	o.axis = &axis, o.axis_count = 1;
	case_place(&c, &o, size->n);
	snprintf(c.name, sizeof c.name, "size %d", number);
	return c;
}

/* What is projected: a kernel in a direction, with data of that kind; plain: by the reference
 * kernels. */
typedef struct {
	int kernel;
	Direction direction;
	PlanData data;
	bool plain;
} Kind;

/* A part of a projection, from the host and back to it; `from` is all of the views, or the box. */
static inline float *project(
	const Case *c, Kind kind, const Box *box, int64_t first, int64_t count, const float *from)
{
	Plan plan;
	int64_t n[3], pixels = c->pixels / tomos_geometry_count(c->scan);
	bool forward = kind.direction == FORWARD;
	float *there[2], *result;
	for (int a = 0; a < 3; a++)
		n[a] = box->high[a] - box->low[a];
	int64_t voxels = n[0] * n[1] * n[2];
	OK(plan_make(&plan, &c->grid, c->scan, &(KernelModel){.weight = WEIGHT_RAY}));
	plan.data = kind.data;
	plan.plain = kind.plain;
	result = calloc((size_t)(forward ? count * pixels : voxels), sizeof *result);
	tomos_array x = tomos_array_of(forward ? (float *)from : result, n[2], n[1], n[0]);
	tomos_array y =
		tomos_array_of(forward ? result : (float *)from + first * pixels, 1, count, pixels);
	OK(backend->type->memory->alloc(backend, &there[0], voxels, "a volume"));
	OK(backend->type->memory->alloc(backend, &there[1], count * pixels, "views"));
	OK(backend->type->memory->upload(backend, there[0], &x));
	OK(backend->type->memory->upload(backend, there[1], &y));
	ProjectRequest what = {
		&plan, kind.kernel, kind.direction, *box, first, count, there[0], there[1], false};
	OK(backend->type->projector->apply(backend, &what));
	OK(backend->type->memory->download(backend, there[forward], forward ? &y : &x));
	backend->type->memory->release(backend, there[0]);
	backend->type->memory->release(backend, there[1]);
	plan_free(&plan);
	return result;
}

static inline float *back_project(const Case *c, int kernel, PlanData data, bool plain,
	const Box *box, int64_t first, int64_t count, const float *y)
{
	return project(c, (Kind){kernel, ADJOINT, data, plain}, box, first, count, y);
}

/* Limits the number of slices that kernels keep from now on; negative: no limit. */
static inline void limit_slices(const Case *c, int64_t slices)
{
	int64_t floats = (c->voxels + c->pixels) / c->grid.n[2];
	if (backend->type->memory->limit_scratch)
		backend->type->memory->limit_scratch(
			backend, slices < 0 ? INT64_MAX : floats * slices * 6 / 5 + 6, NULL);
}

#endif
