/* Interface every device backend implements: memory, projection, vector operations, stored
 * matrices, filters. */
#ifndef TOMOS_BACKEND_BACKEND_H
#define TOMOS_BACKEND_BACKEND_H

#include "backend/filter.h"
#include "backend/fourier.h"
#include "backend/prepare.h"
#include "geom/rays.h"
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

/* Data that a backend caches with a plan between calls: the views in device memory, for example. */
typedef struct {
	tomos_backend *owner;
	void *data;
	void (*release)(tomos_backend *owner, void *data);
} PlanCache;

/* Precision in which projections are stored during back projection: values of the option `data`,
 * and DATA_SPLIT, a sum of two half-precision numbers with nearly the precision of a float. */
typedef enum { DATA_FLOAT, DATA_HALF, DATA_SPLIT } PlanData;

/* Grid and scan in the form that kernels read, for both directions. */
typedef struct {
	tomos_grid grid;
	tomos_geometry *scan; /* owned copy */
	KernelGrid whole;
	KernelModel model;
	KernelView *views;
	RayClass rays;
	PlanCache *cache; /* owned; filled by backends, also of a constant plan */
	bool plain;       /* reference kernels only */
	PlanData data;
	int every; /* its columns are every n-th column of a detector (slices_plan); 0: all */
} Plan;

tomos_status plan_make(
	Plan *plan, const tomos_grid *grid, const tomos_geometry *scan, const KernelModel *model);
/* The plan of a subset of the views, in the given order. */
tomos_status plan_part(Plan *part, const Plan *whole, const int64_t *views, int64_t count);
/* Likewise, with the pixels of each view limited to the window. */
tomos_status plan_crop(
	Plan *part, const Plan *whole, const int64_t *views, int64_t count, const Window *window);
void plan_free(Plan *plan);
/* For in-slice rays: the least distance in columns at which two rays of a view share no voxel. */
int64_t plan_disjoint_columns(const Plan *plan, int64_t view);

typedef enum { FORWARD, ADJOINT } Direction;

/* Projection of the voxels of `box` and the views first .. first + count - 1. The result overwrites
 * the output or is accumulated into it. */
typedef struct {
	const Plan *plan;
	int kernel;
	Direction direction;
	Box box;
	int64_t first, count;
	float *volume, *projections; /* of the box, of the views */
	bool overwrite;
} ProjectRequest;

/* The grid of the plan, limited to the box of a request. */
static inline KernelGrid request_grid(const ProjectRequest *what)
{
	KernelGrid grid = what->plan->whole;
	for (int a = 0; a < 3; a++) {
		grid.low[a] = what->box.low[a];
		grid.high[a] = what->box.high[a];
	}
	return grid;
}

/* Whether a request is for all views and whole slices. */
static inline bool request_is_whole(const ProjectRequest *what)
{
	const Plan *plan = what->plan;
	bool whole = what->first == 0 && what->count == plan->scan->count;
	for (int a = 0; a < 2; a++)
		whole = whole && what->box.low[a] == 0 && what->box.high[a] == plan->grid.n[a];
	return whole;
}

/* `quarter` of RayClass (4 parts of a circle) or `half` (2 parts), where all views and whole slices
 * are requested; else 0. */
static inline int request_rotation(const ProjectRequest *what, int parts)
{
	const RayClass *rays = &what->plan->rays;
	return !request_is_whole(what) ? 0 : parts == 4 ? rays->quarter : rays->half;
}

/* Update of the voxels by a back projection: x += a W A'y, or for an average x += a A'y / A'rays,
 * then clamped to low .. high. Voxels whose A'rays is below `least` times the largest weight of a
 * ray keep their value. */
typedef struct {
	float a, low, high;
	const float *voxels; /* W; NULL: ones */
	bool average;
	const float *rays; /* of the views; NULL: ones */
	float least;
} FusedUpdate;

/* Residual of a forward projection, r = data - A x, and y = weights r. */
typedef struct {
	const float *data, *weights;
	float *weighted; /* y; r goes to the projections of the request */
} FusedResidual;

typedef struct BackendType BackendType;

/* Counters of a device, read by the test that an iteration neither allocates nor transfers. */
typedef struct {
	int64_t allocations, transfers, waits;
	int64_t bytes; /* of all those allocations */
} BackendCounts;

/* An optimised kernel that can execute a request. */
typedef struct {
	const char *name;
	bool automatic; /* may run without being asked for by name or by tuning */
	bool coarse;    /* below the accuracy of floats */
} KernelCandidate;

enum { MAX_CANDIDATES = 48 };

/* Results of kernel tuning; see tune.h. */
typedef struct {
	const char *forced; /* the kernel being measured; NULL: none */
	tomos_tuned *rows;
	int64_t count;
} Tuning;

struct tomos_backend {
	const BackendType *type;
	char description[128];
	char model[96], driver[96]; /* of the device; tuning results are stored under these names */
	int device;                 /* number that arrays in its memory have; 0: host memory */
	int64_t group_memory;       /* bytes of shared memory of a thread block; 0: not known */
	const char *last_kernel;    /* the optimised kernel of the last projection; NULL: none */
	const char *kernel_of[2];   /* the same by Direction, of operators */
	Tuning tuning;
	void *own;
};

/* Notes the kernel of a projection; several threads may use a backend. */
static inline void backend_ran(tomos_backend *backend, Direction direction, const char *kernel)
{
	__atomic_store_n(&backend->last_kernel, kernel, __ATOMIC_RELAXED);
	__atomic_store_n(&backend->kernel_of[direction], kernel, __ATOMIC_RELAXED);
}

/* Copies between pinned host memory and the device that overlap kernels and each other. */
typedef enum { COPY_UPLOAD, COPY_DOWNLOAD } CopyDirection;
enum { COPY_SLOTS = 64 }; /* copies of a direction that may be under way */

/* How a file stores numbers (element_encode of src/io): unsigned integers of 1 or 2 bytes, rounded
 * (value - offset) / scale; or floats, 4 bytes. */
typedef struct {
	int bytes;
	double scale, offset;
	double low, high; /* values outside are counted */
} Encoding;

/* A NULL in these tables: the backend lacks the operation, or it would not be faster than the
 * operations that replace it. The functions that every backend has are first; BACKEND_MEMORY(cpu)
 * and so on below set them to functions named cpu_alloc and so on. */

typedef struct {
	tomos_status (*alloc)(
		tomos_backend *backend, float **data, int64_t count, const char *what);
	void (*release)(tomos_backend *backend, float *data);
	tomos_status (*upload)(tomos_backend *backend, float *data, const tomos_array *host);
	tomos_status (*download)(
		tomos_backend *backend, const float *data, const tomos_array *host);
	/* The pointer to the array's data if the backend can compute on them without a copy, else
	 * NULL. */
	float *(*direct_pointer)(tomos_backend *backend, const tomos_array *array);
	tomos_status (*sync)(tomos_backend *backend);
	/* Upload that overlaps the projection still running. The target must not have been used
	 * since the last `apply_overlapped` of the filter, or by any projection. */
	tomos_status (*upload_overlapped)(
		tomos_backend *backend, float *data, const tomos_array *host);
	/* Page-locks a host array that is transferred repeatedly, until it is unpinned. */
	tomos_status (*pin)(tomos_backend *backend, float *data, int64_t count);
	void (*unpin)(tomos_backend *backend, float *data);
	/* Queues a copy after those of the same direction and returns. Nothing else orders it: the
	 * kernels that fill or read the device memory must be complete, or begin after copy_end,
	 * which waits for the copy in `slot` and adds its duration. Several threads may copy, with
	 * different slots. */
	tomos_status (*copy_begin)(tomos_backend *backend, CopyDirection direction, int slot,
		void *device, void *host, int64_t bytes);
	tomos_status (*copy_end)(
		tomos_backend *backend, CopyDirection direction, int slot, double *seconds);
	/* For several backends on one device: limits the scratch memory (in floats) of the kernels
	 * of this one and of filters opened later, and frees what exceeds the limit. `first` is the
	 * first backend on the device (NULL: this one); their projections do not run at the same
	 * time. */
	void (*limit_scratch)(tomos_backend *backend, int64_t floats, tomos_backend *first);
	/* Free memory of the device. */
	tomos_status (*free_bytes)(tomos_backend *backend, int64_t *bytes);
	/* Since the backend was opened. */
	BackendCounts (*counts)(const tomos_backend *backend);
} BackendMemory;

typedef struct {
	tomos_status (*apply)(tomos_backend *backend, const ProjectRequest *what);
	/* Projection with the matrix entries raised to a power (0: every nonzero entry becomes
	 * 1). */
	tomos_status (*apply_power)(tomos_backend *backend, const ProjectRequest *what, int power);
	/* Derivatives of Joseph's forward projection with respect to the poses of the views
	 * (kernel/pose.h): `projections` is [view][POSE_NUMBERS][row][column], and overwritten. */
	tomos_status (*pose)(tomos_backend *backend, const ProjectRequest *what);
	/* Fused epilogues: forward projection and residual, back projection and update. *done
	 * false: not supported for this request, and nothing was computed. */
	tomos_status (*forward_residual)(tomos_backend *backend, const ProjectRequest *what,
		const FusedResidual *residual, bool *done);
	tomos_status (*back_update)(tomos_backend *backend, const ProjectRequest *what,
		const FusedUpdate *update, bool *done);
	/* One matrix row of a ray-driven kernel; rays are numbered [view][row][column]; index NULL:
	 * count only. */
	tomos_status (*row)(tomos_backend *backend, const Plan *plan, int kernel, int64_t ray,
		int64_t *index, float *weight, int64_t *count);
	/* Rows listed in device memory, on backends without `row`. */
	tomos_status (*list_rows)(
		tomos_backend *b, const Plan *plan, int kernel, const KernelBatch *batch);
	/* The optimised kernels that can execute a request, in order of priority, at most
	 * MAX_CANDIDATES. A backend with candidates asks tune_wanted which to run. */
	int (*candidates)(
		tomos_backend *backend, const ProjectRequest *what, KernelCandidate *list);
	bool (*has_kernel)(const tomos_backend *backend, const char *kernel);
	/* Floats of scratch memory with which a team (base/team.h) computes a request; 0: it
	 * cannot. */
	int64_t (*team_floats)(tomos_backend *backend, const ProjectRequest *what);
} BackendProjector;

enum { VECTORS_LISTED = 4 };

/* Vector operations on n elements. */
typedef struct {
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
	tomos_status (*affine)(
		tomos_backend *b, int64_t n, float scale, float add, float *y); /* y = a y + b */
	tomos_status (*sqrt)(tomos_backend *b, int64_t n, float *y);
	tomos_status (*indicator)(tomos_backend *b, int64_t n, float *y); /* 1 where y is not 0 */
	tomos_status (*ratio)(tomos_backend *b, int64_t n, const float *x, float least, float *y);
	tomos_status (*soft_threshold)(tomos_backend *b, int64_t n, float a, float *y);
	tomos_status (*axpy_clamp)(tomos_backend *b, int64_t n, float a, const float *w,
		const float *x, float low, float high, float *y);
	tomos_status (*distance)(
		tomos_backend *b, int64_t n, const float *x, const float *y, double *result);
	/* Vector fields of `parts` components of n elements: the norm of each vector limited to
	 * `longest`, or the vector divided by its norm. */
	tomos_status (*clip_norm)(tomos_backend *b, int64_t n, int parts, float longest, float *y);
	tomos_status (*normalise)(tomos_backend *b, int64_t n, int parts, float least, float *y);
	tomos_status (*max_abs)(tomos_backend *b, int64_t n, const float *x, double *result);
	/* Forward differences of x [z][y][x] along x and y (2 parts), or x, y and z (3); the
	 * adjoint. */
	tomos_status (*gradient)(
		tomos_backend *b, const int64_t shape[3], int parts, const float *x, float *field);
	tomos_status (*gradient_adjoint)(
		tomos_backend *b, const int64_t shape[3], int parts, const float *field, float *x);
	/* r = x - r and y = w r. */
	tomos_status (*residual)(
		tomos_backend *b, int64_t n, const float *x, const float *w, float *r, float *y);
	/* For i < n, with k = index[i]. gather: the sum of w[i] x[k]. scatter: y[k] += a w[i],
	 * clamped to [low, high]. */
	tomos_status (*gather)(tomos_backend *b, int64_t n, const int64_t *index, const float *w,
		const float *x, double *result);
	tomos_status (*scatter)(tomos_backend *b, int64_t n, const int64_t *index, const float *w,
		float a, float low, float high, float *y);
	/* Numbers as a file stores them; floats are only counted. counts: values that are not
	 * finite, and those outside low .. high. */
	tomos_status (*encode)(tomos_backend *b, int64_t n, const float *x, const Encoding *how,
		void *stored, int64_t counts[2]);
	/* Up to VECTORS_LISTED vectors at once: their inner products with x, and
	 * y = sum of a[i] x[i], or y += if `add`. */
	tomos_status (*dots)(tomos_backend *b, int64_t n, int count, const float *const *list,
		const float *x, double *results);
	tomos_status (*combine)(tomos_backend *b, int64_t n, int count, const float *a,
		const float *const *list, bool add, float *y);
} BackendVector;

/* Arguments of the rows of kernel/vector.def; r: of `residual`. */
typedef struct {
	int64_t n;
	float a, b, c;
	const float *w, *x;
	float *y, *r;
} VectorArgs;

/* Stored matrices in device memory, and Kaczmarz's method on rows listed there. */
typedef struct {
	/* out = A in or A' in, with the entries to the power 0, 1 or 2. */
	tomos_status (*csr_apply)(tomos_backend *b, const KernelCsr *m, Direction direction,
		int power, const float *in, float *out);
	tomos_status (*scsr_apply)(tomos_backend *b, const KernelScsr *m, Direction direction,
		int power, const float *in, float *out);
	tomos_status (*csr_list_rows)(
		tomos_backend *b, const KernelCsr *m, const KernelBatch *batch);
	tomos_status (*scsr_list_rows)(
		tomos_backend *b, const KernelScsr *m, const KernelBatch *batch);
	/* Multiplies the listed entries by weights of their rays and voxels; NULL: by 1. */
	tomos_status (*weight_rows)(
		tomos_backend *b, const KernelBatch *batch, const float *rays, const float *voxels);
	/* Kaczmarz's method over the listed rows, one after the other. */
	tomos_status (*kaczmarz_rows)(
		tomos_backend *b, const KernelBatch *batch, const KernelKaczmarz *what);
	/* Computes the Kaczmarz steps of all rays of a view from their products with the volume;
	 * see KernelKaczmarzView. */
	tomos_status (*kaczmarz_view)(tomos_backend *b, const KernelKaczmarzView *what);
} BackendMatrix;

typedef struct {
	tomos_status (*open)(tomos_backend *backend, Filter **filter, const FilterSpec *spec);
	void (*close)(tomos_backend *backend, Filter *filter);
	/* `count` views of `rows` rows. */
	tomos_status (*apply)(tomos_backend *backend, const Filter *filter, int64_t count,
		int64_t rows, const FilterView *views, const float *in, float *out);
	/* Filters the data sent by `upload_overlapped`, and overwrites the input of the last
	 * projection; waits for that projection only before it writes. NULL if `upload_overlapped`
	 * is. */
	tomos_status (*apply_overlapped)(tomos_backend *backend, const Filter *filter,
		int64_t count, int64_t rows, const FilterView *views, const float *in, float *out);
	/* Filters and back projects in one pass over the views, which must not be resampled. `what`
	 * has no projections; `views` and `in` begin at its first view. */
	tomos_status (*back_project)(tomos_backend *backend, const Filter *filter,
		const FilterView *views, const float *in, const ProjectRequest *what);
} BackendFilter;

/* Preparation of projections in device memory; queued like projections. */
typedef struct {
	/* TOMOS_UNSUPPORTED: the device lacks a step. The lists of the spec are copied. */
	tomos_status (*open)(tomos_backend *backend, PrepWork **work, const PrepSpec *spec);
	void (*close)(tomos_backend *backend, PrepWork *work);
	/* Scratch memory for slabs of up to `rows` rows of the scan, in floats. */
	int64_t (*floats)(tomos_backend *backend, const PrepWork *work, int64_t rows);
	tomos_status (*run)(tomos_backend *backend, PrepWork *work, const PrepSlab *slab);
	/* Waits for the slabs and adds to the report what was changed since the last call. */
	tomos_status (*report)(tomos_backend *backend, PrepWork *work, tomos_prep_report *report);
} BackendPrepare;

/* The projector by Fourier transforms; an object is used by one thread at a time. */
typedef struct {
	tomos_status (*open)(tomos_backend *backend, Fourier **fourier, const FourierSpec *spec);
	void (*close)(tomos_backend *backend, Fourier *fourier);
	/* Overwrites the result: projections, or the volume. */
	tomos_status (*apply)(tomos_backend *backend, Fourier *fourier, Direction direction,
		float *volume, float *projections);
	/* The normal operator A'A as a convolution, of scans for which it is one; closed likewise.
	 */
	tomos_status (*open_normal)(
		tomos_backend *backend, Fourier **normal, const FourierSpec *spec);
	tomos_status (*apply_normal)(
		tomos_backend *backend, Fourier *normal, const float *volume, float *result);
	bool aliases; /* whether it has those of FourierSpec */
} BackendFourier;

struct BackendType {
	const char *name;
	int64_t chunk; /* floats of projections to be filtered and projected at once */
	tomos_status (*open)(tomos_backend *backend, const char *argument);
	void (*close)(tomos_backend *backend);
	const BackendMemory *memory;
	const BackendProjector *projector;
	const BackendVector *vector;
	const BackendFilter *filter;
	const BackendMatrix *matrix;   /* all of it; NULL: stored matrices stay in host memory */
	const BackendPrepare *prepare; /* all of it; NULL: preparation in host memory */
	const BackendFourier *fourier; /* all of it; NULL: no such projector */
	/* Number of processors, clock and rates; NULL: not known. */
	tomos_status (*machine)(tomos_backend *backend, tomos_machine *machine);
};

#define BACKEND_MEMORY(p) \
	.alloc = p##_alloc, .release = p##_release, .upload = p##_upload, \
	.download = p##_download, .direct_pointer = p##_direct_pointer, .sync = p##_sync

#define BACKEND_VECTOR(p) \
	.fill = p##_fill, .axpy = p##_axpy, .xpay = p##_xpay, .mul = p##_mul, \
	.mul_axpy = p##_mul_axpy, .invert = p##_invert, .clamp = p##_clamp, .dot = p##_dot, \
	.copy = p##_copy, .scale = p##_scale, .affine = p##_affine, .sqrt = p##_sqrt, \
	.indicator = p##_indicator, .ratio = p##_ratio, .soft_threshold = p##_soft_threshold, \
	.axpy_clamp = p##_axpy_clamp, .distance = p##_distance, .clip_norm = p##_clip_norm, \
	.normalise = p##_normalise, .max_abs = p##_max_abs, .gradient = p##_gradient, \
	.gradient_adjoint = p##_gradient_adjoint

#define BACKEND_MATRIX(p) \
	.csr_apply = p##_csr_apply, .scsr_apply = p##_scsr_apply, \
	.csr_list_rows = p##_csr_list_rows, .scsr_list_rows = p##_scsr_list_rows, \
	.weight_rows = p##_weight_rows, .kaczmarz_rows = p##_kaczmarz_rows, \
	.kaczmarz_view = p##_kaczmarz_view

#define BACKEND_PARTS(p, floats) \
	.name = #p, .chunk = (floats), .open = p##_open, .close = p##_close, \
	.memory = &p##_memory, .projector = &p##_projector, .vector = &p##_vector, \
	.filter = &p##_filter

/* A type with its own copies of the tables, in which single functions can be replaced. */
typedef struct {
	BackendType type;
	BackendMemory memory;
	BackendProjector projector;
	BackendVector vector;
	BackendFilter filter;
} BackendCopy;

void backend_copy(BackendCopy *copy, const BackendType *from);

/* The kernel that tuning found to be the fastest for such a request; NULL: not tuned. */
const char *tune_wanted(const tomos_backend *backend, const ProjectRequest *what);

extern const BackendType cpu_backend;

/* Opens one device and loads its tuning results. */
tomos_status backend_open_type(
	tomos_backend **backend, const BackendType *type, const char *argument);

/* Returns failed(code, about) unless a call of another library gives `success`. */
#define TRY_CODE(type, success, call, failed, about) \
	do { \
		type try_code = (call); \
		if (try_code != (success)) \
			return failed(try_code, about); \
	} while (0)

/* For `apply` and `apply_power`: zeros the output of a request that overwrites. */
static inline tomos_status project_begin(tomos_backend *backend, const ProjectRequest *what)
{
	const KernelModel *model = &what->plan->model;
	int64_t count = what->count * model->rows * model->columns;
	if (!what->overwrite)
		return TOMOS_OK;
	if (what->direction == FORWARD)
		return backend->type->vector->fill(backend, count, 0, what->projections);
	return backend->type->vector->fill(backend, box_count(&what->box), 0, what->volume);
}

#endif
