/* CPU backend: all kernels are compiled once per instruction set; one set is chosen at run time. */
#ifndef TOMOS_BACKEND_CPU_CPU_H
#define TOMOS_BACKEND_CPU_CPU_H

#include "backend/backend.h"
#include "backend/cpu/level/fft.h"
#include "backend/cpu/level/spread.h"

/* Up to this number of views, costs that do not depend on the number of views dominate: copying the
 * volume or storing weights is slower than computing the weights again. */
enum { FEW_VIEWS = 4 };

/* Number of parts of `size` elements that cover n elements. */
static inline int64_t parts(int64_t n, int64_t size)
{
	return (n + size - 1) / size;
}

/* Number of tiles of a size that cover a box, and one of them; neighbours along x come first. */
static inline int64_t box_tiles(const Box *box, const int64_t size[3])
{
	int64_t count = 1;
	for (int a = 0; a < 3; a++)
		count *= parts(box->high[a] - box->low[a], size[a]);
	return count;
}

static inline Box box_tile(const Box *box, const int64_t size[3], int64_t index)
{
	Box tile;
	for (int a = 0; a < 3; a++) {
		const int64_t count = parts(box->high[a] - box->low[a], size[a]);
		tile.low[a] = box->low[a] + index % count * size[a];
		tile.high[a] = min64(tile.low[a] + size[a], box->high[a]);
		index /= count;
	}
	return tile;
}

static inline float *request_voxel(const ProjectRequest *what, int64_t x, int64_t y, int64_t z)
{
	const Box *box = &what->box;
	const int64_t nx = box->high[0] - box->low[0], ny = box->high[1] - box->low[1];
	return what->volume + ((z - box->low[2]) * ny + y - box->low[1]) * nx + x - box->low[0];
}

/* Reference kernel: projects one view in one direction. Ray-driven kernels loop over the pixels of
 * `window`, voxel-driven ones over the voxels of `part`. `volume` holds the voxels of the box of
 * `grid`, `image` all pixels of the view. */
typedef void (*ReferenceKernel)(const Plan *plan, const KernelGrid *grid, int64_t view,
	const Window *window, const Box *part, float *volume, float *image);

/* An optimised kernel of one instruction set. It computes a whole request if `applies` returns true
 * for it. */
typedef struct {
	bool (*applies)(const ProjectRequest *what);
	tomos_status (*run[2])(const ProjectRequest *what); /* forward, back */
	tomos_status (*step)(const ProjectRequest *what, const FusedUpdate *step); /* or NULL */
	bool overwrites; /* back: stores its sums in a request that overwrites; false: adds them to
			    zeros that were stored before */
	/* Floats of its scratch memory, if all that its loops store for each other is there, and no
	 * loop depends on the number of threads; NULL: not so. */
	int64_t (*team_floats[2])(const ProjectRequest *what);
	/* Than a kernel further down the list or, with `by_width`, than with narrower vectors;
	 * NULL: never. */
	bool (*slower)(const ProjectRequest *what);
	bool by_width;
} CpuKernel;

/* The same with its row of optimised.def. */
typedef struct {
	const char *name;
	unsigned projectors, direction;
	const CpuKernel *code;
} CpuRow;

typedef struct CpuLevel {
	const char *name;
	const ReferenceKernel (*reference)[2]; /* [kernel][direction] */
	const CpuRow *optimised;
	int optimised_count;
	int lanes; /* floats in a vector */
	/* Derivatives with respect to poses of a row of one view, pixels [6][row][column]; those of
	 * a whole request where `ray_applies`. */
	void (*pose_row)(const ProjectRequest *what, int64_t view, int64_t row);
	bool (*ray_applies)(const ProjectRequest *what);
	tomos_status (*ray_pose)(const ProjectRequest *what);
	const FftKernels *fft;
	const SpreadKernels *spread;
	/* Half as many floats in a vector: for requests that its kernels do faster, or alone. NULL:
	 * none. */
	const struct CpuLevel *narrower;
} CpuLevel;

#ifdef TOMOS_LEVEL
#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#define LEVEL(name) JOIN(name, TOMOS_LEVEL)
extern const ReferenceKernel LEVEL(reference_kernels)[KERNEL_COUNT][2];
extern const FftKernels LEVEL(fft_kernels);
extern const SpreadKernels LEVEL(spread_kernels);
void LEVEL(pose_row)(const ProjectRequest *what, int64_t view, int64_t row);
bool LEVEL(ray_applies)(const ProjectRequest *what);
tomos_status LEVEL(ray_pose)(const ProjectRequest *what);

#define OPTIMISED_CUDA(...)
#define OPTIMISED_OPENCL(...)
#define OPTIMISED_CPU(id, ...) extern const CpuKernel LEVEL(cpu_##id);
#define OPTIMISED(backend, id, ...) OPTIMISED_##backend(id, __VA_ARGS__)
#include "backend/optimised.def"
#undef OPTIMISED_CPU
#undef OPTIMISED
#endif

/* Transforms of any length by FFTW, in builds with TOMOS_FFT=fftw. */
tomos_status fftw_use(FftKernels *kernels, FftPasses *f, int lanes);
void fftw_forget(FftPasses *f);

extern const CpuLevel cpu_level_base, cpu_level_avx2, cpu_level_avx512, cpu_level_neon;

extern const BackendProjector cpu_projector;
extern const BackendVector cpu_vector;
extern const BackendFilter cpu_filter;
extern const BackendFourier cpu_fourier;
tomos_status cpu_level_choose(const CpuLevel **level);
/* Whether vectors of 512 bits take twice the time of 256 bits: AMD's Zen 4. */
bool cpu_halves_vectors(void);
tomos_status cpu_machine(tomos_backend *backend, tomos_machine *machine);
void cpu_model(const CpuLevel *level, char *model, size_t size);
/* The first optimised kernel that applies and is not slower than others, or else the first that
 * applies; only the one of that name, if not NULL. NULL: there is none. */
const CpuRow *cpu_find(const CpuLevel *level, const ProjectRequest *what, const char *name);
tomos_status cpu_row(tomos_backend *backend, const Plan *plan, int kernel, int64_t ray,
	int64_t *index, float *weight, int64_t *count);
tomos_status cpu_pose(tomos_backend *backend, const ProjectRequest *what);
tomos_status cpu_power(tomos_backend *backend, const ProjectRequest *what, int power);

#endif
