/* Voxel-driven projection and its transpose for any rays: what its kernels have in common.
 *
 * The volume is divided into tiles. In each view, the pixels that a tile projects to are copied to
 * a window, from which its voxels take their pixels (back), or to which they add (forward). Tiles
 * whose window would be too large are split. Forward, a task has a few views and all tiles; back,
 * it has a tile and all views.
 */
#ifndef TOMOS_BACKEND_CPU_LEVEL_TILE_H
#define TOMOS_BACKEND_CPU_LEVEL_TILE_H

#include "backend/cpu/level/circle.h"
#include "backend/cpu/level/strip.h"

/* Loops in functions of their own: their registers then do not depend on what is around them. */
#define SEPARATE static __attribute__((noinline))

typedef float TileVoxels[TILE][TILE][TILE]; /* [z][x][y], or [z][y][x] */

/* A tile in one view. The window has the layout that the kernel gives it. On circles, a voxel is a
 * quad (circle.h). */
typedef struct {
	const ProjectRequest *what;
	const Circle *circle; /* or NULL */
	Look look;
	int64_t view; /* of the request */
	Box tile;
	float *voxels; /* TileVoxels[swapped], or quads */
	bool steeper;  /* pixels change more along x than along y */
	float *window; /* 4 (MOST_CELLS + LANES) floats for each image */
} TileView;

/* Projects a block of a tile, whose patches are `cells`. */
typedef void (*TileKernel)(const TileView *t, const Box *block, const Cells *cells);

tomos_status LEVEL(tiles_project)(const ProjectRequest *what, TileKernel kernel);
/* The same on circles. */
tomos_status LEVEL(tiles_circle)(const ProjectRequest *what, TileKernel kernel);

/* A strip and its voxels, which are TILE floats or quads apart; x0: offset of the first voxel from
 * the middle of the strip. */
typedef struct {
	Strip strip;
	int64_t count;
	float x0, *voxels;
} TileStrip;

/* Projects a strip; it may change what is in it. */
typedef void (*StripKernel)(const TileView *t, const Cells *cells, TileStrip *s);

/* The strips from voxel `at` of a block on, each at a distance of `pace` from the one before, with
 * their middles at x. All are set up before they are used, since each takes a chain of operations.
 * Places of footprints in a window with rows of `width` cells are counted in cells (back) or half
 * cells (forward: a cell has four floats, and processors multiply indices by up to two floats). */
INLINE int64_t row_strips(const TileView *t, const Box *block, const Cells *cells, int64_t width,
	const int64_t at[3], const int64_t pace[3], double x, TileStrip s[LANES])
{
	const float unit = t->look.footprints && t->what->direction == FORWARD ? 2 : 1;
	const int axis = pace[1] ? 1 : 2;
	const int64_t count = min64(LANES, parts(block->high[axis] - at[axis], pace[axis]));
	StripRow row;
	if (cells->mild)
		row_fill(&t->look, cells, x, at[1], at[2], pace, &row);
	for (int64_t i = 0; i < count; i++) {
		const double first[3] = {
			x, (double)(at[1] + i * pace[1]), (double)(at[2] + i * pace[2])};
		if (cells->mild)
			row_strip(&t->look, cells, &row, i, width, unit, &s[i].strip);
		else
			strip_fill(&t->look, cells, width, unit, first, &s[i].strip);
	}
	return count;
}

INLINE void project_row(const TileView *t, const Box *block, const Cells *cells, int64_t width,
	const int64_t at[3], const int64_t pace[3], const StripKernel kernel)
{
	const int64_t *origin = t->tile.low;
	const int64_t count = min64(cells->span, block->high[0] - at[0]);
	/* Of the voxels there are: columns and rows far from those of the middle are less exact. */
	const double middle = (double)at[0] + 0.5 * (double)(count - 1);
	TileStrip s[LANES];
	const int64_t many = row_strips(t, block, cells, width, at, pace, middle, s);
	for (int64_t i = 0; i < many; i++) {
		const int64_t y = at[1] + i * pace[1] - origin[1],
			      z = at[2] + i * pace[2] - origin[2];
		const int64_t per = t->circle ? IMAGES : 1;
		const int64_t line = (t->look.swapped * TILE + z) * TILE + at[0] - origin[0];
		s[i].x0 = -0.5F * (float)(count - 1);
		s[i].count = count;
		s[i].voxels = t->voxels + per * (line * TILE + y);
		kernel(t, cells, &s[i]);
	}
}

/* All strips of a block. `flat`: the block is one slice, so that strips beside each other are set
 * up together, instead of those above each other. */
INLINE void project_strips(const TileView *t, const Box *block, const Cells *cells, int64_t width,
	const int flat, const StripKernel kernel)
{
	const int64_t pace[3] = {0, flat ? LANES : 0, flat ? 0 : 1};
	const int64_t lines = flat ? LANES * LANES : LANES;
	int64_t at[3];
	for (at[2] = block->low[2]; at[2] < block->high[2]; at[2] += LANES)
		for (at[1] = block->low[1]; at[1] < block->high[1]; at[1] += lines)
			for (at[0] = block->low[0]; at[0] < block->high[0]; at[0] += cells->span)
				project_row(t, block, cells, width, at, pace, kernel);
}

/* Whether vectors of half the width would save a fifth of the lanes, which have no voxel. Lanes are
 * voxels along y, and forward, in about half of the views, along x. */
static inline bool lanes_idle(const ProjectRequest *what)
{
	int64_t wide = 0, narrow = 0;
	for (int a = what->direction == FORWARD ? 0 : 1; a < 2; a++) {
		wide += parts(what->plan->grid.n[a], LANES) * LANES;
		narrow += parts(what->plan->grid.n[a], LANES / 2) * (LANES / 2);
	}
	return LANES > 8 && 5 * narrow < 4 * wide;
}

static inline float *view_row(const TileView *t, int64_t view, int64_t row)
{
	const KernelModel *model = &t->what->plan->model;
	return t->what->projections + (view * model->rows + row) * model->columns;
}

static inline float *image_row(const TileView *t, int64_t row)
{
	return view_row(t, t->view, row);
}

/* Pixels of a row of a view from column `first` on, zero beside the detector. */
static inline void load_view_line(
	const TileView *t, int64_t view, int64_t row, int64_t first, int64_t count, float *line)
{
	const KernelModel *model = &t->what->plan->model;
	int64_t from = max64(first, 0), to = min64(first + count, model->columns);
	bool none = row < 0 || row >= model->rows || from >= to;
	if (none || to - from < count)
		memset(line, 0, (size_t)count * sizeof *line);
	if (!none)
		memcpy(line + from - first, view_row(t, view, row) + from,
			(size_t)(to - from) * sizeof *line);
}

static inline void load_line(
	const TileView *t, int64_t row, int64_t first, int64_t count, float *line)
{
	load_view_line(t, t->view, row, first, count, line);
}

/* The pixels of patches of four: row i has pixel i of every patch. Elements before the first patch
 * and after the last one are zero. */
typedef float PatchLines[4][MOST_WIDE + 3 * LANES];

static inline void split_patches(const float *patches, int64_t wide, PatchLines lines)
{
	vi lane = vf_truncate(vf_lane());
	int64_t c = 0;
	for (int i = 0; i < 4; i++)
		vf_store(lines[i], vf_all(0));
	for (; c < wide; c += LANES) {
		vf pixels[4];
		vf_load_fours_by(patches + 4 * c, (const int32_t *)&lane, 4, pixels);
		for (int i = 0; i < 4; i++)
			vf_store(lines[i] + LANES + c,
				vf_where(lane < (int32_t)(wide - c), pixels[i]));
	}
	for (int i = 0; i < 4; i++)
		vf_store(lines[i] + LANES + c, vf_all(0));
}

#endif
