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

/* Reference kernel: projects one view in one direction. Ray-driven kernels loop over the pixels of
 * `window`, voxel-driven ones over the voxels of `part`. `volume` holds the voxels of the box of
 * `grid`, `image` all pixels of the view. */
typedef void (*ReferenceKernel)(const Plan *plan, const KernelGrid *grid, int64_t view,
	const Window *window, const Box *part, float *volume, float *image);

/* An optimised kernel. It computes a whole request if `applies` returns true for it. */
typedef struct {
	const char *name;
	int kernel;
	Direction direction;
	bool (*applies)(const ProjectRequest *what);
	tomos_status (*run)(const ProjectRequest *what);
	tomos_status (*step)(const ProjectRequest *what, const FusedUpdate *step); /* or NULL */
} OptimisedKernel;

typedef struct {
	const char *name;
	const ReferenceKernel (*reference)[2]; /* [kernel][direction] */
	const OptimisedKernel *optimised;
	int optimised_count;
	int lanes; /* floats in a vector */
	/* Derivatives with respect to poses of a row of one view, pixels [6][row][column]; those of
	 * a whole request where `ray_applies`. */
	void (*pose_row)(const ProjectRequest *what, int64_t view, int64_t row);
	bool (*ray_applies)(const ProjectRequest *what);
	tomos_status (*ray_pose)(const ProjectRequest *what);
	const FftKernels *fft;
	const SpreadKernels *spread;
} CpuLevel;

#ifdef TOMOS_LEVEL
#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#define LEVEL(name) JOIN(name, TOMOS_LEVEL)
/* The same of the instruction set with half the vector width, where there is one: faster for
 * kernels with a load or store per lane. */
#ifdef TOMOS_NARROW
#define NARROW(name) JOIN(name, TOMOS_NARROW)
tomos_status NARROW(ray_forward)(const ProjectRequest *what);
tomos_status NARROW(ray_back)(const ProjectRequest *what);
#else
#define NARROW LEVEL
#endif
extern const ReferenceKernel LEVEL(reference_kernels)[KERNEL_COUNT][2];
extern const FftKernels LEVEL(fft_kernels);
extern const SpreadKernels LEVEL(spread_kernels);
bool LEVEL(stack_applies)(const ProjectRequest *what);
tomos_status LEVEL(stack_forward)(const ProjectRequest *what);
tomos_status LEVEL(stack_back)(const ProjectRequest *what);
bool LEVEL(heights_applies)(const ProjectRequest *what);
tomos_status LEVEL(heights_project)(const ProjectRequest *what);
bool LEVEL(slice_applies)(const ProjectRequest *what);
tomos_status LEVEL(slice_forward)(const ProjectRequest *what);
tomos_status LEVEL(slice_back)(const ProjectRequest *what);
tomos_status LEVEL(slice_step)(const ProjectRequest *what, const FusedUpdate *step);
bool LEVEL(upright_applies)(const ProjectRequest *what);
tomos_status LEVEL(upright_forward)(const ProjectRequest *what);
tomos_status LEVEL(upright_back)(const ProjectRequest *what);
bool LEVEL(column_applies)(const ProjectRequest *what);
tomos_status LEVEL(column_back)(const ProjectRequest *what);
bool LEVEL(column_forward_applies)(const ProjectRequest *what);
tomos_status LEVEL(column_forward)(const ProjectRequest *what);
bool LEVEL(patch_applies)(const ProjectRequest *what);
tomos_status LEVEL(patch_project)(const ProjectRequest *what);
bool LEVEL(patch_circle_applies)(const ProjectRequest *what);
tomos_status LEVEL(patch_circle_project)(const ProjectRequest *what);
bool LEVEL(oblique_applies)(const ProjectRequest *what);
tomos_status LEVEL(oblique_forward)(const ProjectRequest *what);
tomos_status LEVEL(oblique_back)(const ProjectRequest *what);
bool LEVEL(ray_applies)(const ProjectRequest *what);
tomos_status LEVEL(ray_forward)(const ProjectRequest *what);
tomos_status LEVEL(ray_back)(const ProjectRequest *what);
tomos_status LEVEL(ray_pose)(const ProjectRequest *what);
void LEVEL(pose_row)(const ProjectRequest *what, int64_t view, int64_t row);
bool LEVEL(ray_circle_applies)(const ProjectRequest *what);
tomos_status LEVEL(ray_circle_forward)(const ProjectRequest *what);
tomos_status LEVEL(ray_circle_back)(const ProjectRequest *what);
bool LEVEL(footprint_upright_applies)(const ProjectRequest *what);
tomos_status LEVEL(footprint_upright_project)(const ProjectRequest *what);
bool LEVEL(footprint_circle_applies)(const ProjectRequest *what);
tomos_status LEVEL(footprint_circle_project)(const ProjectRequest *what);
bool LEVEL(footprint_applies)(const ProjectRequest *what);
tomos_status LEVEL(footprint_project)(const ProjectRequest *what);
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
tomos_status cpu_machine(tomos_backend *backend, tomos_machine *machine);
void cpu_model(const CpuLevel *level, char *model, size_t size);
/* Executes a request with the optimised kernel of that name if it applies (NULL: with any), else
 * with the first one that applies, else with the reference kernel. */
tomos_status cpu_project(const CpuLevel *level, const ProjectRequest *what, const char *wanted);
tomos_status cpu_row(tomos_backend *backend, const Plan *plan, int kernel, int64_t ray,
	int64_t *index, float *weight, int64_t *count);
tomos_status cpu_pose(tomos_backend *backend, const ProjectRequest *what);
tomos_status cpu_power(tomos_backend *backend, const ProjectRequest *what, int power);

#endif
