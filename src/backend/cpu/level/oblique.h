/* Parallel rays in any direction, for oblique.c: blocks of shifted planes, and the 3 x 3 shifted
 * voxels that a ray uses. */
#ifndef TOMOS_BACKEND_CPU_LEVEL_OBLIQUE_H
#define TOMOS_BACKEND_CPU_LEVEL_OBLIQUE_H

#include <math.h>
#include "backend/cpu/cpu.h"
#include "backend/cpu/level/transpose.h"
#include "kernel/joseph.h"

enum {
	TAPS = 3, /* voxels along each axis that a ray can use in the shifted planes of a block */
	HALO = TAPS - 1,         /* rows and columns before the first voxel */
	MORE = LANES + HALO + 1, /* rows or columns that shifting adds to a plane */
};

/* Positions are fixed-point numbers with 40 fractional bits. So a ray has exactly the same position
 * in every piece, and its weights agree at the borders. */
#define ONE ((int64_t)1 << 40)
/* Largest position, in voxels, for which they do not overflow. */
#define FARTHEST 0x1p20

/* Shifting takes some time for each voxel, and ray.c more for each ray: it is faster with few rays
 * for each voxel of a shifted plane. Few slices leave most of the shifted voxels empty. */
enum { FEWEST_SLICES = 16 };
#define FEWEST_RAYS 0.45
#define FEWEST_RAYS_BACK 0.25
/* Slices by which rays rise for each voxel: ray.c is faster with flatter ones, forward, where it is
 * the faster one of narrow vectors in any case, and back with vectors of 4 floats. Back, steeper
 * ones shift the planes of a wide vector far apart: narrower vectors are faster. */
#define FLAT_RISE 0.9
#define STEEP_RISE 0.1

/* A part of the box, planes [plane, plane + planes) and rows [row, row + rows) of each; it is
 * processed for all views with the same dominant axis before the next part. */
typedef struct {
	int64_t plane, planes, row, rows;
	float *staged; /* transposed copy for planes across x, see take_stage; else NULL */
} Part;

/* A view. Ray (column, row) crosses plane k of the part at voxel base + column u + row v + k slope,
 * for the two axes in the plane. axes: the dominant axis, the axis of the columns and that of the
 * rows of a plane; `n` and `stride` are in that order. */
typedef struct {
	const ProjectRequest *what;
	const KernelView *view;
	float *image, *volume, *staged;
	int axes[3];
	int64_t n[3], stride[3], low; /* low: index of the first plane in the grid */
	double base[2], u[2], v[2], slope[2];
	int64_t inner[2][2]; /* boundary clamp: positions inside in all lanes */
	float step;
	int64_t pitch, width;  /* floats per row before and after shifting, whole vectors */
	int64_t strip, strips; /* adjoint: rows of a piece; pieces per block */
} Oblique;

/* A piece: some rows of a block of LANES shifted planes, [row][column][lane]. Its first row is
 * `from`, its first column low - HALO. */
typedef struct {
	vf part[2]; /* per lane: fractional displacement; `shift`: the integer part */
	int64_t shift[2][LANES];
	int64_t least[2], most[2]; /* of `shift`, over the lanes */
	int64_t plane, planes;     /* first plane, number of planes */
	int64_t low, high;         /* range of shifted columns with a voxel in any lane */
	int64_t from, to; /* rays whose first voxel is in rows [from, to) belong to the piece */
	float *samples;
} Piece;

static inline int64_t blocks_of(const Oblique *o)
{
	return parts(o->n[0], LANES);
}

/* Planes of a block and their shifts. Lanes beyond the last plane have its shift and no voxels. */
static inline Piece piece_of(const Oblique *o, int64_t block)
{
	Piece p = {.plane = block * LANES};
	p.planes = min64(LANES, o->n[0] - p.plane);
	for (int i = 0; i < 2; i++) {
		for (int64_t l = 0; l < LANES; l++) {
			double drift = (double)(p.plane + min64(l, p.planes - 1)) * o->slope[i];
			double whole = floor(drift);
			p.shift[i][l] = (int64_t)whole;
			p.part[i][l] = (float)(drift - whole);
		}
		p.least[i] = min64(p.shift[i][0], p.shift[i][LANES - 1]);
		p.most[i] = max64(p.shift[i][0], p.shift[i][LANES - 1]);
	}
	p.low = -p.most[0];
	p.high = o->n[1] - 1 - p.least[0];
	return p;
}

static inline int64_t position(double p)
{
	return (int64_t)floor(p * 0x1p40);
}

static inline int64_t floor_div(int64_t n, int64_t d)
{
	return n / d - (n % d < 0);
}

/* Restricts the columns [range[0], range[1]) to those with low <= start + column step < high;
 * `start` and `step` are fixed-point, low and high whole voxels. */
static inline void narrow(int64_t start, int64_t step, int64_t low, int64_t high, int64_t range[2])
{
	low *= ONE, high *= ONE;
	if (step == 0) {
		if (start < low || start >= high)
			range[1] = range[0];
		return;
	}
	int64_t first =
		step > 0 ? -floor_div(start - low, step) : floor_div(start - high, -step) + 1;
	int64_t end = step > 0 ? -floor_div(start - high, step) : floor_div(start - low, -step) + 1;
	range[0] = max64(range[0], first);
	range[1] = min64(range[1], end);
}

/* The rays of one detector row that cross a piece: columns `range`; fixed-point position of column
 * 0 and step per column, along both axes. */
typedef struct {
	int64_t range[2], start[2], step[2];
} Run;

static inline Run run_of(const Oblique *o, const Piece *p, int64_t row, int64_t first, int64_t end)
{
	Run run = {.range = {first, end}};
	for (int i = 0; i < 2; i++) {
		run.start[i] = position(o->base[i] + (double)row * o->v[i]);
		run.step[i] = position(o->u[i]);
	}
	narrow(run.start[0], run.step[0], p->low - HALO, p->high + 1, run.range);
	narrow(run.start[1], run.step[1], p->from, p->to, run.range);
	return run;
}

/* A ray in a piece: its first shifted voxel, and the weights of three voxels along each axis. */
typedef struct {
	int64_t whole[2];
	vf weight[2][TAPS];
} Hit;

static inline Hit hit_of(const Piece *p, const Run *run, int64_t column)
{
	Hit hit;
	for (int i = 0; i < 2; i++) {
		int64_t at = run->start[i] + column * run->step[i];
		float part = (float)(at & (ONE - 1)) * 0x1p-40F;
		vf beyond = p->part[i] + (part - 1);
		hit.whole[i] = at >> 40;
		hit.weight[i][0] = vf_positive(-beyond);
		hit.weight[i][2] = vf_positive(beyond);
		hit.weight[i][1] = 1 - vf_abs(beyond);
	}
	return hit;
}

static inline float *samples_at(const Oblique *o, const Piece *p, const Hit *hit)
{
	return p->samples +
	       ((hit->whole[1] - p->from) * o->width + hit->whole[0] - p->low + HALO) * LANES;
}

/* Boundary clamp: 1 in the lanes in whose plane the ray is between the outermost voxel centres,
 * else 0. */
static inline vf inside(const Oblique *o, const Piece *p, int64_t row, int64_t column)
{
	const KernelGrid *grid = &o->what->plan->whole;
	KernelRay ray = kernel_ray(grid, o->view, row, column);
	KernelWalk walk = kernel_walk(grid, &ray, 1, 0);
	vf keep = {0};
	for (int64_t l = 0; l < LANES; l++) {
		double k = (double)(o->low + p->plane + l);
		keep[l] = !joseph_beyond(grid, walk.b, walk.base[0] + k * walk.slope[0]) &&
			  !joseph_beyond(grid, walk.c, walk.base[1] + k * walk.slope[1]);
	}
	return keep;
}

/* Whether the ray is certainly between the outermost voxel centres in every lane. */
static inline bool all_inside(const Oblique *o, const Piece *p, const Hit *hit)
{
	for (int i = 0; i < 2; i++)
		if (hit->whole[i] + p->least[i] < o->inner[i][0] ||
			hit->whole[i] + p->most[i] > o->inner[i][1])
			return false;
	return true;
}

#endif
