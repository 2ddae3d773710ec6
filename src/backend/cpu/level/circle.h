/* Full circles with views in sets 90 degrees apart, and a square grid centred on the rotation axis.
 *
 * Rotating a voxel and a view by the same angle changes neither positions nor weights. So kernels
 * visit a quarter of the volume only, in all views. A voxel stands for four: itself and its images
 * rotated by 90, 180 and 270 degrees, which are a quad. A pixel of a view stands for four as well:
 * itself and the same pixel in the views rotated likewise. One position and one weight serve all
 * four, and a row of two quads is a vector of eight floats.
 */
#ifndef TOMOS_BACKEND_CPU_LEVEL_CIRCLE_H
#define TOMOS_BACKEND_CPU_LEVEL_CIRCLE_H

#include "backend/cpu/cpu.h"
#include "backend/cpu/level/quads.h"

enum { IMAGES = 4 };

/* Two quads side by side, and anywhere in memory. */
typedef float Eight __attribute__((vector_size(32)));
typedef float EightAt __attribute__((vector_size(32), aligned(4), may_alias));
#define EIGHT_AT(p) (*(EightAt *)(p))
#define EIGHT_FROM(p) (*(const EightAt *)(p))

static inline quad eight_half(const Eight *e, const int h)
{
#if defined TOMOS_LEVEL_avx512 || defined TOMOS_LEVEL_avx2
	return (quad)(h ? _mm256_extractf128_ps((__m256)*e, 1)
			: _mm256_castps256_ps128((__m256)*e));
#else
	return quad_load((const float *)e + 4 * h);
#endif
}

typedef struct {
	int64_t n;     /* voxels along x and along y */
	int64_t views; /* of a quarter of the circle */
	int direction; /* `quarter` of RayClass */
	Box box;       /* a quarter of the requested volume */
} Circle;

/* Whether a request is one for kernels of circles: all views, and whole slices. */
static inline bool circle_of(const ProjectRequest *what, Circle *circle)
{
	const Plan *plan = what->plan;
	const int64_t n = plan->grid.n[0], half = (n + 1) / 2;
	*circle = (Circle){.n = n,
		.views = what->count / IMAGES,
		.direction = request_rotation(what, IMAGES),
		.box = {{0, 0, what->box.low[2]}, {half, half, what->box.high[2]}}};
	return plan->rays.source == TOMOS_POINT && circle->direction != 0 && !plan->model.planar;
}

/* The same for voxel-driven kernels. Forward, a task has whole sets of views, as all views of a set
 * add to the same pixels: with fewer sets than LEAST_SETS, some threads would have nothing to do.
 */
enum { LEAST_SETS = 16 };
bool LEVEL(tiles_circle_apply)(const ProjectRequest *what);
/* Whether patch_circle.c applies and enough sets of views repay copying the volume. */
bool LEVEL(patch_circle_is_fast)(const ProjectRequest *what);

/* The view that sees image k of the volume as `view` sees the volume. */
static inline int64_t circle_view(const Circle *circle, int64_t view, int k)
{
	return (view + k * circle->direction * circle->views) % (IMAGES * circle->views);
}

/* Image k of the voxels of a request: voxel (x, y, z) of the box is at voxels + x step[0] + ... */
typedef struct {
	float *voxels;
	int64_t step[3];
} CircleImage;

static inline CircleImage circle_image(const ProjectRequest *what, const Circle *circle, int k)
{
	const int64_t n = circle->n, along[IMAGES] = {1, n, -1, -n};
	const int64_t first[IMAGES] = {0, n - 1, n * n - 1, n * (n - 1)};
	return (CircleImage){what->volume + first[k] - what->box.low[2] * n * n,
		{along[k], along[(k + 1) % IMAGES], n * n}};
}

/* Copies the quads of a box to `quads` or adds them to the volume; voxels are stride[] floats
 * apart. In an odd grid, voxels of the middle row are images of others, whose quads are 0, and the
 * one at the centre has one image. */
void LEVEL(circle_take)(const ProjectRequest *what, const Circle *circle, const Box *box,
	float *quads, const int64_t stride[3]);
void LEVEL(circle_give)(const ProjectRequest *what, const Circle *circle, const Box *box,
	const float *quads, const int64_t stride[3]);

#endif
