/* Splits of several children with little memory, and problems projected by them and in one
 * piece. */
#ifndef TOMOS_TESTS_OPS_SPLIT_CASES_H
#define TOMOS_TESTS_OPS_SPLIT_CASES_H

#include "backend/split/split.h" /* first: cmocka makes a macro of fail() */
#include "ops/cases.h"

enum { MOST = 3, FEWER = CASE_RACES ? 19 : 7 };

static const BackendType *children = &cpu_backend; /* or the backend of the tests */

/* Opens the same child several times. */
static inline tomos_backend *split_of_children(int devices, int64_t memory, SplitShare share)
{
	static const char *const none[MOST] = {"", "", ""};
	tomos_backend *backend;
	OK(split_open(&backend, children, none, devices, &(SplitOptions){memory, share}));
	return backend;
}

/* From one case to the next. */
static inline int step(void)
{
	return case_slow() ? FEWER : 1;
}

/* For tests with many cases: opening a device takes long. */
static inline int stride(void)
{
	return test_repeats() ? step() : FEWER;
}

/* Tolerance of a split against the cpu backend in one piece. */
static inline double rounding(void)
{
	return test_repeats() ? 1e-6 : 1e-5;
}

/* Memory with which a lane can upload that many floats. */
static inline int64_t memory_of(int64_t floats)
{
	return STREAMS * (children->memory->limit_scratch ? 8 : 4) * (int64_t)sizeof(float) *
	       (floats + 1);
}

/* The least memory of a lane in bytes, times `more`. */
static inline int64_t memory_for(const Case *c, const tomos_projector_options *o, double more)
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

static inline Problem problem_make(int number)
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

static inline void problem_free(Problem *p)
{
	float *all[] = {p->x, p->y, p->forward, p->back, p->got_y, p->got_x};
	for (int i = 0; i < 6; i++)
		free(all[i]);
	tomos_geometry_free(p->scene.scan);
}

#endif
