/* Where arrays live and work is done: one private table of functions per kind of device. */
#ifndef BACKEND_H
#define BACKEND_H

#include "backend/filter.h"
#include "geom/geom.h"
#include "kernel/portable.h"

/* The rows of kernels.def. */
typedef enum { FAMILY_RAY, FAMILY_VOXEL } KernelFamily;

typedef struct {
	const char *name;
	KernelFamily family;
	const char *weights;
} KernelRow;

#define KERNEL(id, name, family, weights, help) KERNEL_##id,
enum {
#include "kernel/kernels.def"
	KERNEL_COUNT
};
#undef KERNEL
extern const KernelRow kernel_rows[KERNEL_COUNT];

/* A scan seen from a grid, ready for the kernels; the same for forward and adjoint. */
typedef struct {
	tomos_grid grid;
	tomos_geometry *scan; /* a copy of its own */
	KernelGrid whole;
	KernelModel model;
	KernelView *views;
	bool plain; /* no tuned kernels */
} Plan;

tomos_status plan_make(
	Plan *plan, const tomos_grid *grid, const tomos_geometry *scan, const KernelModel *choices);
void plan_free(Plan *plan);

typedef enum { FORWARD, ADJOINT } Direction;

/* Projections of `count` views from `first` on, and the voxels of `box`: the result is added to. */
typedef struct {
	const Plan *plan;
	int kernel;
	Direction direction;
	Box box;
	int64_t first, count;
	float *volume, *projections; /* of the box, of the views */
} Projecting;

typedef struct BackendType BackendType;

struct tomos_backend {
	const BackendType *type;
	char description[128];
	void *own;
};

struct BackendType {
	const char *name;
	tomos_status (*open)(tomos_backend *backend, const char *argument);
	void (*close)(tomos_backend *backend);
	tomos_status (*alloc)(tomos_backend *backend, float **data, int64_t count, const char *what);
	void (*release)(tomos_backend *backend, float *data);
	tomos_status (*put)(tomos_backend *backend, float *data, const tomos_array *host);
	tomos_status (*get)(tomos_backend *backend, const float *data, const tomos_array *host);
	/* The array itself, where the backend can work on it in place, else NULL. */
	float *(*in_place)(tomos_backend *backend, const tomos_array *array);
	tomos_status (*project)(tomos_backend *backend, const Projecting *what);
	tomos_status (*filter_open)(tomos_backend *backend, Filter **filter, const FilterSpec *spec);
	void (*filter_close)(tomos_backend *backend, Filter *filter);
	tomos_status (*filter)(tomos_backend *backend, const Filter *filter, int64_t count,
		const FilterView *views, const float *in, float *out);
	tomos_status (*sync)(tomos_backend *backend);
	/* Vector verbs on n elements. */
	tomos_status (*fill)(tomos_backend *b, int64_t n, float value, float *x);
	tomos_status (*axpy)(tomos_backend *b, int64_t n, float a, const float *x, float *y); /* y += a x */
	tomos_status (*xpay)(tomos_backend *b, int64_t n, const float *x, float a, float *y); /* y = x + a y */
	tomos_status (*mul)(tomos_backend *b, int64_t n, const float *w, float *y);           /* y *= w */
	tomos_status (*mul_axpy)(
		tomos_backend *b, int64_t n, float a, const float *w, const float *x, float *y); /* y += a w x */
	tomos_status (*invert)(tomos_backend *b, int64_t n, float least, float *x); /* 1/x, or 0 if |x| <= least */
	tomos_status (*clamp)(tomos_backend *b, int64_t n, float low, float high, float *x);
	tomos_status (*dot)(tomos_backend *b, int64_t n, const float *x, const float *y, double *result);
};

extern const BackendType cpu_backend;

#endif
