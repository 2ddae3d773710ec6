/* The CUDA backend: one card, one stream in which everything happens in order. */
#ifndef CUDA_H
#define CUDA_H

/* Before the headers of ours, which are C: these differ in C++. */
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cuda_runtime.h>

/* The shared texts as this compiler takes them. */
#define KERNEL_FN static __device__ __forceinline__
#define KERNEL_GLOBAL
#define KERNEL_ADD(pointer, value) atomicAdd(pointer, value)

extern "C" {
#include "backend/backend.h"
#include "backend/module/pack.h"
}

enum { SUM_BLOCKS = 1024, SUM_THREADS = 256, STAGES = 2, SCRATCHES = 5 };

/* Waves of a stored matrix that a block has at hand beside its slab. */
enum { CUDA_WAVES = 256 };

/* Memory that kernels keep for themselves from one call to the next. */
typedef struct {
	float *data;
	int64_t count;
} CudaScratch;

/* Textures over scratch, and what they were made of: they last till others are wanted. */
enum { MOST_TEXTURES = 128 };

typedef struct {
	cudaTextureObject_t of[MOST_TEXTURES];
	int count;
	const void *data;
	int64_t columns, views;
	int slices; /* of a texel */
} CudaTextures;

/* What a back projection does with the volume while the request is an update (BackStep) and not a sum:
 * x += a W sum, between low and high. */
typedef struct {
	float a, low, high;
	float *volume;       /* its first voxel */
	const float *voxels; /* W of each voxel; NULL: ones */
	const float *
		factors; /* a W of each pixel of a slice, where slices share it; NULL: they do not */
	bool average;    /* the kernel is to divide by the sum of the weights itself, */
	const float *rays; /* of rays that count so much; NULL: all the same */
	float least;       /* of the largest weight of a ray: voxels with less stay as they are */
} CudaStep;

/* What a forward projection does with its sums while the request is a comparison. */
typedef struct {
	const float *projections; /* their first pixel */
	Compare of;
} CudaCompare;

/* Projections of several backends on one card, one after the other. */
typedef struct {
	pthread_mutex_t lock;
	cudaEvent_t last;
} CudaQueue;

typedef struct {
	int number, processors;
	cudaStream_t stream;
	cudaStream_t behind; /* for projections; NULL: the same. See cuda_enter */
	cudaStream_t ahead;  /* for what is sent and filtered meanwhile; NULL as well */
	cudaEvent_t entered; /* before the last projection */
	cudaEvent_t taken;   /* the views of the last projection: they are not needed any more */
	bool has_taken;      /* while it is asked for: it has said when */
	cudaEvent_t arrived; /* what went ahead */
	CudaQueue queue, *queued;          /* its own, and the one it waits in */
	double *partial;                   /* sums of blocks, on the card */
	double *total, *total_there;       /* their sum, in memory that both see */
	float *stage[STAGES];              /* pinned, between callers' arrays and the card */
	cudaEvent_t staged[STAGES];        /* when the card is done with it */
	CudaScratch scratch[SCRATCHES];    /* see cuda_scratch */
	int64_t scratch_most, filter_most; /* floats that kernels, and a filter, may keep */
	int64_t turned_most;        /* the same for turned slices, which go by their number */
	CudaTextures textures;      /* see tuned/texture.h */
	const CudaStep *step;       /* of the update that is under way; NULL: none is */
	const CudaCompare *compare; /* the same of a comparison */
	pthread_mutex_t lock;       /* of scratch, stages, sums and plans */
	BackendCounts counts;
} CudaDevice;

static inline CudaDevice *device_of(const tomos_backend *backend)
{
	return (CudaDevice *)backend->own;
}

/* A failed call as a status and a sentence. */
tomos_status cuda_failed(cudaError_t error, const char *doing);

#define CUDA_TRY(call, doing) \
	do { \
		cudaError_t cuda_try = (call); \
		if (cuda_try != cudaSuccess) \
			return cuda_failed(cuda_try, doing); \
	} while (0)

/* After a launch: what can be known of it without waiting. */
#define CUDA_LAUNCHED(doing) CUDA_TRY(cudaGetLastError(), doing)

/* Makes the card current in this thread. */
tomos_status cuda_use(const tomos_backend *backend);

/* Between these, the stream is one for projections, where several backends share a card. They do not
 * share it while they project: all would end at the same time and then wait for transfers. And what is
 * short goes first: transfers wait for it. Both are to be called, whatever comes between. */
tomos_status cuda_enter(const tomos_backend *backend);
tomos_status cuda_leave(const tomos_backend *backend);
/* For kernels that look at copies of the views: what is in the stream by now makes the last of these. */
tomos_status cuda_taken(const tomos_backend *backend);
/* What comes between goes into the stream for that, after the projection has taken its views or not. */
tomos_status cuda_ahead_begin(const tomos_backend *backend, bool taken);
tomos_status cuda_ahead_end(const tomos_backend *backend);

/* Scratch number `which`, of at least `count` floats; it lasts till the next call that wants more. The
 * stream keeps users of the same scratch apart. Kernels do as much at a time as scratch_most allows. */
tomos_status cuda_scratch(
	tomos_backend *backend, int which, int64_t count, float **data, const char *what);
/* Whether a block can have so many bytes of shared memory on the current card. */
bool cuda_has_shared(int bytes);
/* Lets blocks of a kernel have as much of it as they may: for kernels that take now more, now less, which other threads
 * may be about to start too. */
tomos_status cuda_take_shared(const void *kernel);

/* A tuned kernel does a whole request, or says that it does not apply. What it finds out about the views
 * in doing so goes into the notes, which are there again when it runs. */
typedef struct {
	double space[12];
} CudaNotes;

/* Whether a kernel that applies can do an update; with factors: where slices share what sums are divided by
 * and its notes begin with HatSlices. */
typedef enum { STEPS_NOT, STEPS, STEPS_WITH_FACTORS } CudaSteps;

typedef struct {
	const char *name;
	int kernel;
	Direction direction;
	bool (*applies)(const Projecting *what, CudaNotes *notes);
	tomos_status (*run)(tomos_backend *backend, const Projecting *what, const CudaNotes *notes);
	bool by_choice; /* tried only where it is named, as by TOMOS_KERNEL */
	bool coarse; /* its weights are not those of float arithmetic: nobody but a person names it */
	CudaSteps (*steps)(const tomos_backend *backend, const Projecting *what,
		const CudaNotes *notes, const BackStep *step); /* NULL: never */
	/* Whether it writes all of a result that is made anew, instead of adding to zeros, and compares
	 * where it goes forward; NULL: never. */
	bool (*fills)(const Projecting *what, const CudaNotes *notes);
} CudaTuned;

/* The notes as a struct of the kernel's own. */
template <typename T> static inline T *notes_of(CudaNotes *notes)
{
	static_assert(sizeof(T) <= sizeof(CudaNotes));
	return (T *)notes->space;
}

template <typename T> static inline const T *notes_of(const CudaNotes *notes)
{
	return (const T *)notes->space;
}

/* A request that was met before, and what was chosen for it; NULL: the shared text. */
typedef struct {
	bool used;
	int kernel;
	Direction direction;
	Box box;
	int64_t first, count;
	const CudaTuned *tuned;
	CudaNotes notes;
} CudaChoice;

/* What a plan keeps on the card: what kernels make of its views, each in a slot of its own. */
enum {
	KEPT_JOSEPH_HATS,
	KEPT_VOXEL_HATS,
	KEPT_LANES,
	KEPT_LATTICE,
	KEPT_OBLIQUE,
	KEPT_SLOTS,
	CHOICES = 4
};

typedef struct {
	KernelView *views;
	void *slots[KEPT_SLOTS];
	CudaChoice choices[CHOICES];
	int next; /* of the choices, to be given up for a new one */
} CudaPlan;

/* The views of a plan on the card. */
tomos_status cuda_plan(tomos_backend *backend, const Plan *plan, const CudaPlan **kept);
/* What a slot holds: for each view of the plan `size` bytes, which `make` fills in at the first call. */
tomos_status cuda_kept(tomos_backend *backend, const Plan *plan, int slot, size_t size,
	void (*make)(const Plan *plan, int64_t view, const void *user, void *place),
	const void *user, const void **there);

tomos_status cuda_choose(tomos_backend *backend, const Projecting *what, const CudaChoice **choice);

void cuda_driver(char *text, size_t room); /* its version, "" where nobody says */
tomos_status cuda_machine(tomos_backend *backend, tomos_machine *machine);
int cuda_choices(tomos_backend *backend, const Projecting *what, KernelChoice *list);
bool cuda_knows(const tomos_backend *backend, const char *kernel);
tomos_status cuda_project(tomos_backend *backend, const Projecting *what);
tomos_status cuda_power(tomos_backend *backend, const Projecting *what, int power);
tomos_status cuda_back_step(
	tomos_backend *backend, const Projecting *what, const BackStep *step, bool *done);
tomos_status cuda_compare(
	tomos_backend *backend, const Projecting *what, const Compare *compare, bool *done);
/* Whether the kernel that was chosen fills the result. */
bool cuda_fills(const CudaChoice *choice, const Projecting *what);
tomos_status cuda_csr(tomos_backend *backend, const KernelCsr *m, Direction direction, int power,
	const float *in, float *out);
tomos_status cuda_scsr(tomos_backend *backend, const KernelScsr *m, Direction direction, int power,
	const float *in, float *out);
tomos_status cuda_list(
	tomos_backend *backend, const Plan *plan, int kernel, const KernelBatch *batch);
tomos_status cuda_csr_list(tomos_backend *backend, const KernelCsr *m, const KernelBatch *batch);
tomos_status cuda_scsr_list(tomos_backend *backend, const KernelScsr *m, const KernelBatch *batch);
tomos_status cuda_weigh(
	tomos_backend *backend, const KernelBatch *batch, const float *rays, const float *voxels);
tomos_status cuda_visit(
	tomos_backend *backend, const KernelBatch *batch, const KernelVisits *visits);
tomos_status cuda_settle(tomos_backend *backend, const KernelSettling *what);
tomos_status cuda_filter_open(tomos_backend *backend, Filter **filter, const FilterSpec *spec);
void cuda_filter_close(tomos_backend *backend, Filter *filter);
tomos_status cuda_filter(tomos_backend *backend, const Filter *filter, int64_t count, int64_t rows,
	const FilterView *views, const float *in, float *out);
tomos_status cuda_filter_ahead(tomos_backend *backend, const Filter *filter, int64_t count,
	int64_t rows, const FilterView *views, const float *in, float *out);

/* The vector verbs of BackendType. */
tomos_status cuda_fill(tomos_backend *b, int64_t n, float value, float *x);
tomos_status cuda_axpy(tomos_backend *b, int64_t n, float a, const float *x, float *y);
tomos_status cuda_xpay(tomos_backend *b, int64_t n, const float *x, float a, float *y);
tomos_status cuda_mul(tomos_backend *b, int64_t n, const float *w, float *y);
tomos_status cuda_mul_axpy(
	tomos_backend *b, int64_t n, float a, const float *w, const float *x, float *y);
tomos_status cuda_invert(tomos_backend *b, int64_t n, float least, float *x);
tomos_status cuda_clamp(tomos_backend *b, int64_t n, float low, float high, float *x);
tomos_status cuda_dot(tomos_backend *b, int64_t n, const float *x, const float *y, double *result);
tomos_status cuda_copy(tomos_backend *b, int64_t n, const float *x, float *y);
tomos_status cuda_scale(tomos_backend *b, int64_t n, float a, float *y);
tomos_status cuda_root(tomos_backend *b, int64_t n, float *y);
tomos_status cuda_inside(tomos_backend *b, int64_t n, float *y);
tomos_status cuda_ratio(tomos_backend *b, int64_t n, const float *x, float least, float *y);
tomos_status cuda_soft(tomos_backend *b, int64_t n, float a, float *y);
tomos_status cuda_step(tomos_backend *b, int64_t n, float a, const float *w, const float *x,
	float low, float high, float *y);
tomos_status cuda_residual(
	tomos_backend *b, int64_t n, const float *x, const float *w, float *r, float *y);
tomos_status cuda_distance(
	tomos_backend *b, int64_t n, const float *x, const float *y, double *result);
tomos_status cuda_largest(tomos_backend *b, int64_t n, const float *x, double *result);
tomos_status cuda_shorten(tomos_backend *b, int64_t n, int parts, float longest, float *y);
tomos_status cuda_unit(tomos_backend *b, int64_t n, int parts, float least, float *y);
tomos_status cuda_gradient(tomos_backend *b, const int64_t shape[3], const float *x, float *field);
tomos_status cuda_gradient_adjoint(
	tomos_backend *b, const int64_t shape[3], const float *field, float *x);

/* A voxel after an update: the sum that it takes from, and what that is multiplied by. */
static __device__ __forceinline__ float cuda_stepped(
	const CudaStep &step, float x, float factor, float sum)
{
	return fminf(fmaxf(fmaf(factor, sum, x), step.low), step.high);
}

/* The factor where sums are divided by `under`. */
static __device__ __forceinline__ float cuda_average(float a, float under, float least)
{
	return under > least ? a / under : 0;
}

/* a b + c between 0 and 1, in one instruction. */
static __device__ __forceinline__ float fma_saturate(float a, float b, float c)
{
	float result;
	asm("fma.rn.sat.f32 %0, %1, %2, %3;" : "=f"(result) : "f"(a), "f"(b), "f"(c));
	return result;
}

/* The root to a unit or two in the last place. */
static __device__ __forceinline__ float root_nearly(float x)
{
	float result;
	asm("sqrt.approx.f32 %0, %1;" : "=f"(result) : "f"(x));
	return result;
}

/* The same of 1 / x. */
static __device__ __forceinline__ float inverse_nearly(float x)
{
	float result;
	asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
	return result;
}

/* Tuned kernels have one block for each part of a box or a detector; larger ones, which launches cannot
 * hold, are left to the shared texts. */
static inline bool cuda_fits_launch(const Projecting *what)
{
	const Plan *plan = what->plan;
	const int64_t most = 65000;
	return plan->grid.n[0] <= most && plan->grid.n[1] <= most && plan->grid.n[2] <= most &&
	       plan->model.rows <= most && plan->model.columns <= 8 * most;
}

static inline unsigned cuda_blocks(int64_t n, int64_t size, int64_t most)
{
	int64_t blocks = (n + size - 1) / size;
	return (unsigned)(blocks < most ? blocks : most);
}

#endif
