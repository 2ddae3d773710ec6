/* CUDA backend: one GPU. Work is queued in one stream, and in two more for projections and work
 * ahead where these are enabled (CudaDevice). */
#ifndef TOMOS_BACKEND_CUDA_CUDA_H
#define TOMOS_BACKEND_CUDA_CUDA_H

/* System headers come first, outside extern "C": they differ between C and C++. */
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cuda_runtime.h>

/* Definitions for the reference kernels (kernel/portable.h). */
#define KERNEL_FN static __device__ __forceinline__
#define KERNEL_GLOBAL
#define KERNEL_ADD(pointer, value) atomicAdd(pointer, value)

extern "C" {
#include "backend/backend.h"
#include "backend/device/pack.h"
}

enum { SUM_BLOCKS = 1024, SUM_THREADS = 256, STAGES = 2, SMALL_BYTES = 1 << 16 };

/* Waves of a stored matrix (scsr.cu) whose table a block keeps in shared memory, after its slab. */
enum { CUDA_WAVES = 256 };

/* Scratch buffers in device memory, kept from one call to the next and enlarged when needed. */
enum {
	SCRATCH_REORDERED, /* volume or views in the order that the kernel reads, or partial sums */
	SCRATCH_ROWS,      /* detector rows of slices, or paths of rays */
	SCRATCH_LISTS,     /* order of the views, largest weight, texels */
	SCRATCH_FACTORS,   /* factors of each pixel of a slice (find_factors), or rows of slices */
	SCRATCH_WINDOWS,   /* parts of the views (crop.cu) */
	SCRATCHES
};

typedef struct {
	float *data;
	int64_t count;
} CudaScratch;

/* Texture objects over scratch memory, and the address and shape they were created for; kept
 * until another shape is needed. */
enum { MOST_TEXTURES = 128 };

typedef struct {
	cudaTextureObject_t of[MOST_TEXTURES];
	int count;
	const void *data;
	int64_t columns, views;
	int slices; /* slices per texel */
} CudaTextures;

/* Fused update of the voxels (FusedUpdate): x += a W sum, then clamped to low .. high. */
typedef struct {
	float a, low, high;
	float *volume;       /* first voxel of the box */
	const float *voxels; /* W of each voxel; NULL: ones */
	const float
		*factors;  /* a W of each pixel of a slice, if all slices have the same; or NULL */
	bool average;      /* the kernel divides by the sum of the weights */
	const float *rays; /* weights of the rays; NULL: ones */
	float least;       /* least sum of weights for a change, relative to the largest ray
	                    * weight */
} CudaUpdate;

/* Fused residual of a forward projection (FusedResidual). */
typedef struct {
	const float *projections; /* first pixel of the request */
	FusedResidual of;
} CudaResidual;

/* What is done with the sums of a projection. */
typedef enum {
	EPILOGUE_ACCUMULATE, /* added to the output */
	EPILOGUE_OVERWRITE,  /* overwrites the output */
	EPILOGUE_UPDATE,     /* back projection: the voxels are updated */
	EPILOGUE_RESIDUAL    /* forward projection: compared with data */
} EpilogueKind;

typedef struct {
	EpilogueKind kind;
	CudaUpdate update;     /* of EPILOGUE_UPDATE */
	CudaResidual residual; /* of EPILOGUE_RESIDUAL */
} CudaEpilogue;

/* Makes the projections of several backends on one GPU run one after the other. last: recorded
 * after the last projection. */
typedef struct {
	pthread_mutex_t lock;
	cudaEvent_t last;
} CudaQueue;

/* Copies that overlap kernels, in a stream of their own; events before and after the copy of each
 * slot. */
typedef struct {
	pthread_mutex_t lock; /* keeps the two events of a copy next to it in the stream */
	cudaStream_t stream;  /* NULL: no copy yet */
	cudaEvent_t begun[COPY_SLOTS], ended[COPY_SLOTS];
} CudaCopies;

typedef struct {
	int number, sms;
	cudaStream_t stream;
	cudaStream_t behind; /* for projections, low priority; NULL: use `stream`. See cuda_enter */
	cudaStream_t ahead;  /* for uploads and filters that overlap a projection; NULL: none */
	cudaEvent_t entered; /* recorded in `stream` before the last projection */
	cudaEvent_t taken;   /* the last projection no longer reads its views */
	bool has_taken;      /* the kernel recorded `taken` itself */
	cudaEvent_t arrived; /* the upload or filter in `ahead` is complete */
	CudaQueue queue, *queued;          /* its own, and the one it uses (of the first backend
	                                    * on the GPU) */
	double *partial;                   /* sums of blocks, on the GPU */
	double *total, *total_device;      /* their sum, at the begin of SMALL_BYTES of mapped host
	                                    * memory; see cuda_read_small */
	float *stage[STAGES];              /* pinned staging buffers */
	cudaEvent_t staged[STAGES];        /* recorded after the GPU's last access to each buffer */
	CudaCopies copies[2];              /* of each CopyDirection */
	CudaScratch scratch[SCRATCHES];    /* see cuda_scratch */
	int64_t scratch_most, filter_most; /* limits of scratch memory: projection kernels,
	                                    * filters; in floats */
	int64_t slices_most;               /* the same for transposed slices */
	CudaTextures textures;             /* see literature/slices_back_texture.h */
	pthread_mutex_t lock;              /* protects scratch, staging buffers, sums and plans */
	BackendCounts counts;
} CudaDevice;

static inline CudaDevice *device_of(const tomos_backend *backend)
{
	return (CudaDevice *)backend->own;
}

/* Status and message of a failed CUDA call; doing: what failed, for the message. */
tomos_status cuda_failed(cudaError_t error, const char *doing);

#define CUDA_TRY(call, doing) TRY_CODE(cudaError_t, cudaSuccess, call, cuda_failed, doing)

/* Reports errors of a kernel launch that are known without synchronisation. */
#define CUDA_LAUNCHED(doing) CUDA_TRY(cudaGetLastError(), doing)

/* Makes the backend's GPU the current one of this thread. */
tomos_status cuda_use(const tomos_backend *backend);

/* Between these calls `stream` is the one for projections, if several backends use one GPU.
 * Their projections run one after the other: concurrently, all would end at the same time and then
 * wait for transfers. Other kernels are short and have a higher priority, since transfers wait for
 * them. cuda_leave must be called after a failure as well. */
tomos_status cuda_enter(const tomos_backend *backend);
tomos_status cuda_leave(const tomos_backend *backend);
/* For kernels that read a reordered copy of the views: records that this copy is complete and
 * the views may be overwritten. */
tomos_status cuda_taken(const tomos_backend *backend);
/* Between these calls `stream` is the one for work that overlaps a projection. taken: waits
 * until the projection no longer reads its views. */
tomos_status cuda_ahead_begin(const tomos_backend *backend, bool taken);
tomos_status cuda_ahead_end(const tomos_backend *backend);

/* Scratch buffer `which` of at least `count` floats, valid until a call that needs more. Users of
 * the same buffer are ordered by the stream. Kernels process as much at once as scratch_most
 * allows. */
tomos_status cuda_scratch(
	tomos_backend *backend, int which, int64_t count, float **data, const char *what);
/* Compute capability of the current GPU times ten, or TOMOS_CUDA (such as 80) if that is less. */
int cuda_level(void);
/* Largest shared memory of a block on the current GPU, in bytes; whether it has so much. */
int cuda_most_shared(void);
bool cuda_has_shared(int bytes);
/* Allows a kernel the largest dynamic shared memory. For kernels whose size varies: another
 * thread may launch the same kernel with another size. */
tomos_status cuda_take_shared(const void *kernel);

/* What a kernel's `applies` computed for the request; passed to `run`. */
typedef struct {
	double space[12];
} CudaNotes;

/* Whether a kernel can fuse an update. FUSES_WITH_FACTORS: the divisors are the same in all
 * slices and are computed before (find_factors); the kernel's notes begin with HatSlices.
 * FUSES_NEXT: the kernel is a special case of a later row of optimised.def, which fuses the
 * update. */
typedef enum { FUSES_NOT, FUSES, FUSES_WITH_FACTORS, FUSES_NEXT } CudaFusion;

/* An optimised kernel; its name, projectors, direction and place in the order are in
 * optimised.def. */
typedef struct {
	bool (*applies)(const ProjectRequest *what, CudaNotes *notes);
	tomos_status (*run)(tomos_backend *backend, const ProjectRequest *what,
		const CudaNotes *notes, const CudaEpilogue *epilogue);
	CudaFusion (*fuses)(const tomos_backend *backend, const ProjectRequest *what,
		const CudaNotes *notes, const FusedUpdate *update); /* NULL: never */
	/* Whether it writes every element of the result, so that the output need not be cleared
	 * before overwriting and, forward, a residual can be fused; NULL: never. */
	bool (*overwrites)(const ProjectRequest *what, const CudaNotes *notes);
} CudaKernel;

/* The notes as the kernel's own struct T. */
template <typename T> static inline T *notes_of(CudaNotes *notes)
{
	static_assert(sizeof(T) <= sizeof(CudaNotes));
	return (T *)notes->space;
}

template <typename T> static inline const T *notes_of(const CudaNotes *notes)
{
	return (const T *)notes->space;
}

typedef struct CudaRow CudaRow; /* row of optimised.def */

/* A request that was dispatched before, and the kernel chosen for it; NULL: the reference
 * kernel. */
typedef struct {
	bool used;
	int kernel;
	Direction direction;
	Box box;
	int64_t first, count;
	const CudaRow *row;
	CudaNotes notes;
} CudaChoice;

/* Device data of a plan: its views, and one slot for each form of them that kernels precompute. */
enum {
	KEPT_JOSEPH_HATS,
	KEPT_VOXEL_HATS,
	KEPT_LANES,
	KEPT_OBLIQUE,
	KEPT_QUANTA,
	KEPT_SLOTS,
	CHOICES = 4
};

typedef struct {
	KernelView *views;
	void *slots[KEPT_SLOTS];
	CudaChoice choices[CHOICES];
	int next;           /* choice to be replaced next */
	Plan *slices[2][2]; /* of slices_resampled.cu: Joseph's or voxel-driven, by Direction */
} CudaPlan;

/* Device data of a plan; uploads the views at the first call. */
tomos_status cuda_plan(tomos_backend *backend, const Plan *plan, const CudaPlan **kept);
/* Contents of a slot: `size` bytes per view, which `make` computes on the host at the first
 * call. */
tomos_status cuda_kept(tomos_backend *backend, const Plan *plan, int slot, size_t size,
	void (*make)(const Plan *plan, int64_t view, const void *user, void *place),
	const void *user, const void **device);

extern const BackendProjector cuda_projector;
extern const BackendVector cuda_vector;
extern const BackendFilter cuda_filter;
tomos_status cuda_sync(tomos_backend *backend);
tomos_status cuda_upload(tomos_backend *backend, float *data, const tomos_array *host);
tomos_status cuda_upload_overlapped(tomos_backend *backend, float *data, const tomos_array *host);
tomos_status cuda_download(tomos_backend *backend, const float *data, const tomos_array *host);
tomos_status cuda_copy_begin(tomos_backend *backend, CopyDirection direction, int slot,
	void *device, void *host, int64_t bytes);
tomos_status cuda_copy_end(
	tomos_backend *backend, CopyDirection direction, int slot, double *seconds);
void cuda_copies_free(CudaDevice *d);
float *cuda_direct_pointer(tomos_backend *backend, const tomos_array *array);
/* Reads up to SMALL_BYTES, a multiple of 4, by a kernel that writes to mapped memory: a copy would
 * wait for large downloads of other threads, which share the GPU's copy engine. Waits for the
 * stream; the caller holds the lock. */
tomos_status cuda_read_small(
	CudaDevice *d, const void *device, size_t bytes, void *host, const char *what);
tomos_status cuda_pin(tomos_backend *backend, float *data, int64_t count);
void cuda_unpin(tomos_backend *backend, float *data);
void cuda_driver(char *text, size_t size); /* version of the driver, or "" */
tomos_status cuda_machine(tomos_backend *backend, tomos_machine *machine);
tomos_status cuda_reference(tomos_backend *backend, const ProjectRequest *what);
tomos_status cuda_pose(tomos_backend *backend, const ProjectRequest *what);
tomos_status cuda_power(tomos_backend *backend, const ProjectRequest *what, int power);
tomos_status cuda_csr_apply(tomos_backend *backend, const KernelCsr *m, Direction direction,
	int power, const float *in, float *out);
tomos_status cuda_scsr_apply(tomos_backend *backend, const KernelScsr *m, Direction direction,
	int power, const float *in, float *out);
tomos_status cuda_list_rows(
	tomos_backend *backend, const Plan *plan, int kernel, const KernelBatch *batch);
tomos_status cuda_csr_list_rows(
	tomos_backend *backend, const KernelCsr *m, const KernelBatch *batch);
tomos_status cuda_scsr_list_rows(
	tomos_backend *backend, const KernelScsr *m, const KernelBatch *batch);
tomos_status cuda_weight_rows(
	tomos_backend *backend, const KernelBatch *batch, const float *rays, const float *voxels);
tomos_status cuda_kaczmarz_rows(
	tomos_backend *backend, const KernelBatch *batch, const KernelKaczmarz *visits);
tomos_status cuda_kaczmarz_view(tomos_backend *backend, const KernelKaczmarzView *what);

/* Value of voxel x after an update by factor times sum, within its bounds. */
static __device__ __forceinline__ float cuda_updated(
	const CudaUpdate &step, float x, float factor, float sum)
{
	return fminf(fmaxf(fmaf(factor, sum, x), step.low), step.high);
}

/* Factor of an update that divides by `under`, the sum of the weights; 0 if that is too small. */
static __device__ __forceinline__ float cuda_average(float a, float under, float least)
{
	return under > least ? a / under : 0;
}

/* a b + c clamped to 0 .. 1, in one instruction. */
static __device__ __forceinline__ float fma_saturate(float a, float b, float c)
{
	float result;
	asm("fma.rn.sat.f32 %0, %1, %2, %3;" : "=f"(result) : "f"(a), "f"(b), "f"(c));
	return result;
}

/* The square root to about 1 ulp; 0 of denormal numbers. */
static __device__ __forceinline__ float root_nearly(float x)
{
	float result;
	asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
	return result;
}

/* 1 / x to about 1 ulp. */
static __device__ __forceinline__ float inverse_nearly(float x)
{
	float result;
	asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
	return result;
}

/* Whether the request is within the launch limits of the optimised kernels, which launch one
 * block per part of a box or detector. Reference kernels loop and have no limits. */
static inline bool cuda_fits_launch(const ProjectRequest *what)
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
