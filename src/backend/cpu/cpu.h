/* The CPU backend: the kernels compiled once per instruction set, one of them chosen at run time. */
#ifndef TOMOS_BACKEND_CPU_CPU_H
#define TOMOS_BACKEND_CPU_CPU_H

#include "backend/backend.h"

/* Up to so many views at a time, what is not done for a view itself counts: copies of the volume do not
 * pay, nor weights that are kept. */
enum { FEW_VIEWS = 4 };

/* How many parts of `size` cover n. */
static inline int64_t parts(int64_t n, int64_t size)
{
	return (n + size - 1) / size;
}

/* One kernel in one direction over one view. A ray-driven one walks the pixels of `window`, a
 * voxel-driven one the voxels of `part`; `volume` holds the box of `grid`, `image` the view. */
typedef void (*SharedKernel)(const Plan *plan, const KernelGrid *grid, int64_t view,
	const Window *window, const Box *part, float *volume, float *image);

/* A tuned kernel does a whole request, or says that it does not apply. */
typedef struct {
	const char *name;
	int kernel;
	Direction direction;
	bool (*applies)(const ProjectRequest *what);
	tomos_status (*run)(const ProjectRequest *what);
	tomos_status (*step)(const ProjectRequest *what, const FusedUpdate *step); /* or NULL */
} TunedKernel;

typedef struct {
	const char *name;
	const SharedKernel (*shared)[2]; /* [kernel][direction] */
	const TunedKernel *tuned;
	int tuned_count;
	int lanes; /* floats in a vector */
} CpuLevel;

#ifdef TOMOS_LEVEL
#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#define LEVEL(name) JOIN(name, TOMOS_LEVEL)
extern const SharedKernel LEVEL(shared_kernels)[KERNEL_COUNT][2];
bool LEVEL(stack_applies)(const ProjectRequest *what);
tomos_status LEVEL(stack_forward)(const ProjectRequest *what);
tomos_status LEVEL(stack_back)(const ProjectRequest *what);
bool LEVEL(slice_applies)(const ProjectRequest *what);
tomos_status LEVEL(slice_forward)(const ProjectRequest *what);
tomos_status LEVEL(slice_back)(const ProjectRequest *what);
tomos_status LEVEL(slice_step)(const ProjectRequest *what, const FusedUpdate *step);
bool LEVEL(fan_applies)(const ProjectRequest *what);
tomos_status LEVEL(fan_back)(const ProjectRequest *what);
bool LEVEL(upright_applies)(const ProjectRequest *what);
tomos_status LEVEL(upright_forward)(const ProjectRequest *what);
bool LEVEL(column_applies)(const ProjectRequest *what);
tomos_status LEVEL(column_back)(const ProjectRequest *what);
bool LEVEL(voxel_free_applies)(const ProjectRequest *what);
tomos_status LEVEL(voxel_free_back)(const ProjectRequest *what);
bool LEVEL(oblique_applies)(const ProjectRequest *what);
tomos_status LEVEL(oblique_forward)(const ProjectRequest *what);
tomos_status LEVEL(oblique_back)(const ProjectRequest *what);
#endif

extern const CpuLevel cpu_level_base, cpu_level_avx2, cpu_level_avx512, cpu_level_neon;

extern const BackendProjector cpu_projector;
extern const BackendVector cpu_vector;
extern const BackendFilter cpu_filter;
tomos_status cpu_level_choose(const CpuLevel **level);
tomos_status cpu_machine(tomos_backend *backend, tomos_machine *machine);
void cpu_model(const CpuLevel *level, char *model, size_t room);
/* By the tuned kernel of that name, if there is one (NULL: no wish) and it applies, or the first that does. */
tomos_status cpu_project(const CpuLevel *level, const ProjectRequest *what, const char *wanted);
tomos_status cpu_row(tomos_backend *backend, const Plan *plan, int kernel, int64_t ray,
	int64_t *index, float *weight, int64_t *count);
tomos_status cpu_power(tomos_backend *backend, const ProjectRequest *what, int power);

#endif
