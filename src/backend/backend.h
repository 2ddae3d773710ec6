/* Where arrays live and work is done: one private table of functions per kind of device. */
#ifndef TOMOS_BACKEND_BACKEND_H
#define TOMOS_BACKEND_BACKEND_H

#include "backend/filter.h"
#include "geom/geom.h"
#include "kernel/portable.h"
#include "kernel/stored.h"

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

/* What a backend keeps with a plan from one call to the next: the views on a card, say. */
typedef struct {
	tomos_backend *owner;
	void *data;
	void (*release)(tomos_backend *owner, void *data);
} PlanKeep;

/* How projections are kept while they are back projected, by backends that have a choice: rows of the
 * option `data`, and sums of two halves, which are as good as floats. */
typedef enum { DATA_FLOAT, DATA_HALF, DATA_SPLIT } PlanData;

/* A scan seen from a grid, ready for the kernels; the same for forward and adjoint. */
typedef struct {
	tomos_grid grid;
	tomos_geometry *scan; /* a copy of its own */
	KernelGrid whole;
	KernelModel model;
	KernelView *views;
	PlanKeep *keep; /* of the plan's own, changed by backends */
	bool plain;     /* no tuned kernels */
	PlanData data;
} Plan;

tomos_status plan_make(
	Plan *plan, const tomos_grid *grid, const tomos_geometry *scan, const KernelModel *choices);
/* The same for some of the views, in that order. */
tomos_status plan_part(Plan *part, const Plan *whole, const int64_t *views, int64_t count);
/* The same, and of their pixels those of the window. */
tomos_status plan_crop(
	Plan *part, const Plan *whole, const int64_t *views, int64_t count, const Window *window);
void plan_free(Plan *plan);
/* Where all rays are in one slice: rays of a view so many columns apart meet no voxel in common. */
int64_t plan_apart(const Plan *plan, int64_t view);

/* Whether a view has fans that lie in the slices, and every slice falls on a detector row of its own. */
static inline bool plan_fans_lie(const Plan *plan, const KernelView *k)
{
	const double tiny = 1e-6, nz = (double)plan->grid.n[2];
	double across = fabs(k->u[2]) + fabs(k->column[2]) * nz + fabs(k->depth[2]) * nz +
			fabs(k->row[0]) * (double)plan->grid.n[0] +
			fabs(k->row[1]) * (double)plan->grid.n[1];
	double shift = k->row[3] - rint(k->row[3]), drift = (fabs(k->row[2]) - 1) * nz;
	return KERNEL_FANS(k) && across < tiny && fabs(shift) < tiny && fabs(drift) < tiny;
}

typedef enum { FORWARD, ADJOINT } Direction;

/* Projections of `count` views from `first` on, and the voxels of `box`: the result is added to what is
 * there, or, made anew, put in its place. */
typedef struct {
	const Plan *plan;
	int kernel;
	Direction direction;
	Box box;
	int64_t first, count;
	float *volume, *projections; /* of the box, of the views */
	bool anew;
} Projecting;

/* An update of the voxels by a back projection: x += a W A'y, or where it is an average a A'y / A'rays,
 * then kept between low and high. Voxels with less than `least` of the largest weight of a ray stay. */
typedef struct {
	float a, low, high;
	const float *voxels; /* W; NULL: ones */
	bool average;
	const float *rays; /* of the views; NULL: ones */
	float least;
} BackStep;

/* What is left of data after a forward projection, r = data - A x, and y = weights r. */
typedef struct {
	const float *data, *weights;
	float *weighted; /* y; r goes where the projections would */
} Compare;

typedef struct BackendType BackendType;

/* What happened on a device, for the test that counts: an iteration must not allocate or transfer. */
typedef struct {
	int64_t allocations, transfers, waits;
	int64_t bytes; /* of all those allocations */
} BackendCounts;

/* A kernel that can do a request. */
typedef struct {
	const char *name;
	bool by_itself; /* taken by itself, unless another is preferred or comes before it */
	bool coarse;    /* not with the accuracy of floats */
} KernelChoice;

enum { MOST_CHOICES = 48 };

/* What measuring found; see tune.h. */
typedef struct {
	const char *forced; /* while a kernel is measured: this one; NULL: none */
	tomos_tuned *rows;
	int64_t count;
} Tuning;

struct tomos_backend {
	const BackendType *type;
	char description[128];
	char model[96], driver[96]; /* of the device, as results of measuring belong to */
	int device;                 /* of arrays in its memory: 0 for the host's */
	int64_t near;    /* bytes that threads of a group have at hand; 0: none to count on */
	const char *ran; /* the tuned kernel of the last projection; NULL: none */
	Tuning tuning;
	void *own;
};

struct BackendType {
	const char *name;
	int64_t chunk; /* floats of projections that are best filtered and projected at a time */
	tomos_status (*open)(tomos_backend *backend, const char *argument);
	void (*close)(tomos_backend *backend);
	tomos_status (*alloc)(
		tomos_backend *backend, float **data, int64_t count, const char *what);
	void (*release)(tomos_backend *backend, float *data);
	tomos_status (*put)(tomos_backend *backend, float *data, const tomos_array *host);
	/* The same to memory that nothing has used since the last `filter_ahead`, or no projection at all: it
	 * goes there while the last projection is still under way. NULL: nothing is gained. */
	tomos_status (*put_ahead)(tomos_backend *backend, float *data, const tomos_array *host);
	tomos_status (*get)(tomos_backend *backend, const float *data, const tomos_array *host);
	/* The array itself, where the backend can work on it in place, else NULL. */
	float *(*in_place)(tomos_backend *backend, const tomos_array *array);
	/* An array in the host's memory that will be used again and again, until it is let go: transfers
	 * are quicker then. NULL: nothing is gained. */
	tomos_status (*hold)(tomos_backend *backend, float *data, int64_t count);
	void (*let_go)(tomos_backend *backend, float *data);
	tomos_status (*project)(tomos_backend *backend, const Projecting *what);
	tomos_status (*filter_open)(
		tomos_backend *backend, Filter **filter, const FilterSpec *spec);
	void (*filter_close)(tomos_backend *backend, Filter *filter);
	/* `count` views of `rows` rows. */
	tomos_status (*filter)(tomos_backend *backend, const Filter *filter, int64_t count,
		int64_t rows, const FilterView *views, const float *in, float *out);
	/* The same, of what was put ahead, to where the last projection took its views from: while it is still
	 * under way. NULL: nothing is gained, of `put_ahead` either. */
	tomos_status (*filter_ahead)(tomos_backend *backend, const Filter *filter, int64_t count,
		int64_t rows, const FilterView *views, const float *in, float *out);
	/* Filters and back projects views that are not mapped, where that is better than one after the
	 * other: `what` has no projections, but `views` and `in` from its first view on. NULL: it is not. */
	tomos_status (*filter_back)(tomos_backend *backend, const Filter *filter,
		const FilterView *views, const float *in, const Projecting *what);
	tomos_status (*sync)(tomos_backend *backend);
	/* For one of several backends on a device: the floats that kernels, and filters opened from now
	 * on, may keep for themselves, all together, and the first of these backends (NULL: itself), with
	 * which it takes turns in projecting. What they keep beyond that is given back. NULL: they keep
	 * next to nothing. */
	void (*limit)(tomos_backend *backend, int64_t floats, tomos_backend *first);
	/* Bytes that are free where its arrays live; NULL where nobody can tell. */
	tomos_status (*room)(tomos_backend *backend, int64_t *bytes);
	/* The matrix behind `project`, entry by entry: a row of a ray-driven kernel (ray counted
	 * [view][row][column]; index NULL: count only), and `project` with powers of the entries (0: 1
	 * where there is one). NULL where the backend cannot. */
	tomos_status (*row)(tomos_backend *backend, const Plan *plan, int kernel, int64_t ray,
		int64_t *index, float *weight, int64_t *count);
	tomos_status (*power)(tomos_backend *backend, const Projecting *what, int power);
	/* Back projects and updates the voxels in one pass, where that is quicker than one after the
	 * other; else *done is false and nothing happened. NULL: never. */
	tomos_status (*back_step)(
		tomos_backend *backend, const Projecting *what, const BackStep *step, bool *done);
	/* Forward projects, made anew, and compares in one pass over the projections, likewise. */
	tomos_status (*compare)(
		tomos_backend *backend, const Projecting *what, const Compare *compare, bool *done);
	/* Vector verbs on n elements. */
	tomos_status (*fill)(tomos_backend *b, int64_t n, float value, float *x);
	tomos_status (*axpy)(
		tomos_backend *b, int64_t n, float a, const float *x, float *y); /* y += a x */
	tomos_status (*xpay)(
		tomos_backend *b, int64_t n, const float *x, float a, float *y); /* y = x + a y */
	tomos_status (*mul)(tomos_backend *b, int64_t n, const float *w, float *y); /* y *= w */
	tomos_status (*mul_axpy)(tomos_backend *b, int64_t n, float a, const float *w,
		const float *x, float *y); /* y += a w x */
	tomos_status (*invert)(
		tomos_backend *b, int64_t n, float least, float *x); /* 1/x, or 0 if |x| <= least */
	tomos_status (*clamp)(tomos_backend *b, int64_t n, float low, float high, float *x);
	tomos_status (*dot)(
		tomos_backend *b, int64_t n, const float *x, const float *y, double *result);
	tomos_status (*copy)(tomos_backend *b, int64_t n, const float *x, float *y);
	tomos_status (*scale)(tomos_backend *b, int64_t n, float a, float *y);
	tomos_status (*root)(tomos_backend *b, int64_t n, float *y);
	tomos_status (*inside)(tomos_backend *b, int64_t n, float *y); /* 1 where y is not 0 */
	tomos_status (*ratio)(tomos_backend *b, int64_t n, const float *x, float least, float *y);
	tomos_status (*soft)(tomos_backend *b, int64_t n, float a, float *y);
	tomos_status (*step)(tomos_backend *b, int64_t n, float a, const float *w, const float *x,
		float low, float high, float *y);
	/* r = x - r, what is left of x, and y = w r. NULL: by other verbs, which are quick enough. */
	tomos_status (*residual)(
		tomos_backend *b, int64_t n, const float *x, const float *w, float *r, float *y);
	tomos_status (*distance)(
		tomos_backend *b, int64_t n, const float *x, const float *y, double *result);
	/* Fields of `parts` components, each of n elements: cut to, or divided by, their length. */
	tomos_status (*shorten)(tomos_backend *b, int64_t n, int parts, float longest, float *y);
	tomos_status (*unit)(tomos_backend *b, int64_t n, int parts, float least, float *y);
	tomos_status (*largest)(tomos_backend *b, int64_t n, const float *x, double *result);
	/* Sum of w x and y += a w, between low and high, where an index list says. */
	tomos_status (*gather)(tomos_backend *b, int64_t n, const int64_t *index, const float *w,
		const float *x, double *result);
	tomos_status (*scatter)(tomos_backend *b, int64_t n, const int64_t *index, const float *w,
		float a, float low, float high, float *y);
	/* Forward differences of x [z][y][x] along x, y and, with several slices, z; the adjoint. */
	tomos_status (*gradient)(
		tomos_backend *b, const int64_t shape[3], const float *x, float *field);
	tomos_status (*gradient_adjoint)(
		tomos_backend *b, const int64_t shape[3], const float *field, float *x);
	/* out = A in or A' in with a stored matrix whose arrays lie on the backend, its entries to the power
	 * 0, 1 or 2. NULL where matrices stay in the host's memory. */
	tomos_status (*csr)(tomos_backend *b, const KernelCsr *m, Direction direction, int power,
		const float *in, float *out);
	tomos_status (*scsr)(tomos_backend *b, const KernelScsr *m, Direction direction, int power,
		const float *in, float *out);
	/* Rows of a ray-driven kernel or a stored matrix, listed on the backend: NULL where `row` gives
	 * them. Then they are weighed (NULL: by 1), and used one after the other. */
	tomos_status (*list)(
		tomos_backend *b, const Plan *plan, int kernel, const KernelBatch *batch);
	tomos_status (*csr_list)(tomos_backend *b, const KernelCsr *m, const KernelBatch *batch);
	tomos_status (*scsr_list)(tomos_backend *b, const KernelScsr *m, const KernelBatch *batch);
	tomos_status (*weigh)(
		tomos_backend *b, const KernelBatch *batch, const float *rays, const float *voxels);
	tomos_status (*visit)(
		tomos_backend *b, const KernelBatch *batch, const KernelVisits *visits);
	/* The steps of the rays of a view, one after the other, from products that were taken before the first:
	 * see KernelSettling. NULL where rays are used one by one. */
	tomos_status (*settle)(tomos_backend *b, const KernelSettling *what);
	/* Since the backend was opened; NULL where nothing is counted. */
	BackendCounts (*counts)(const tomos_backend *backend);
	/* Processors, clock and rates; NULL where nobody can tell. */
	tomos_status (*machine)(tomos_backend *backend, tomos_machine *machine);
	/* The tuned kernels that can do a request, in the order in which they are tried, at most
	 * MOST_CHOICES; NULL where there is nothing to choose. A backend with choices asks tune_wanted. */
	int (*choices)(tomos_backend *backend, const Projecting *what, KernelChoice *list);
	/* Whether there is a tuned kernel of that name; NULL as above. */
	bool (*knows)(const tomos_backend *backend, const char *kernel);
};

/* The kernel that measuring found to be the fastest for such a request; NULL: nobody knows. */
const char *tune_wanted(const tomos_backend *backend, const Projecting *what);

extern const BackendType cpu_backend;

/* One device, with what is known of the speed of its kernels. */
tomos_status backend_open_type(
	tomos_backend **backend, const BackendType *type, const char *argument);

/* For `project` and `power`: zeros where the result is made anew. */
static inline tomos_status project_begin(tomos_backend *backend, const Projecting *what)
{
	const KernelModel *model = &what->plan->model;
	int64_t count = what->count * model->rows * model->columns;
	if (!what->anew)
		return TOMOS_OK;
	if (what->direction == FORWARD)
		return backend->type->fill(backend, count, 0, what->projections);
	return backend->type->fill(backend, box_count(&what->box), 0, what->volume);
}

#endif
