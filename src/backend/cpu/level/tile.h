/* Voxel-driven projection and its transpose for any rays: what its kernels have in common.
 *
 * The volume is divided into tiles. In each view, the pixels that a tile projects to are copied to
 * a window, from which its voxels take their pixels (back), or to which they add (forward). Tiles
 * whose window would be too large are split. Forward, a task has a few views and all tiles; back,
 * it has a tile and all views.
 */
#ifndef TOMOS_BACKEND_CPU_LEVEL_TILE_H
#define TOMOS_BACKEND_CPU_LEVEL_TILE_H

#include "backend/cpu/level/strip.h"

typedef float TileVoxels[TILE][TILE][TILE]; /* [z][x][y], or [z][y][x] */

/* A tile in one view. The window has the layout that the kernel gives it. */
typedef struct {
	const ProjectRequest *what;
	Look look;
	int64_t view; /* of the request */
	Box tile;
	TileVoxels *voxels; /* [swapped] */
	float *window;      /* 4 (MOST_CELLS + LANES) floats */
} TileView;

/* Projects a block of a tile, whose patches are `cells`. */
typedef void (*TileKernel)(const TileView *t, const Box *block, const Cells *cells);

tomos_status LEVEL(tiles_project)(const ProjectRequest *what, TileKernel kernel);

/* A strip, the first of its voxels at x0 from its middle, and its voxels, TILE floats from one to
 * the next. */
typedef struct {
	Strip strip;
	int64_t count;
	float x0, *voxels;
} TileStrip;

typedef void (*StripKernel)(const TileView *t, const Cells *cells, const TileStrip *s);

/* LANES lines of a block from (y, z) on, `batch` voxels of each at a time, in a window with rows of
 * `width` cells. Places in the window are counted in cells (back) or half cells (forward: a cell
 * has four floats, and processors multiply indices by up to two floats). */
INLINE void project_lines(const TileView *t, const Box *block, const Cells *cells, int64_t width,
	int64_t y, int64_t z, const int batch, const StripKernel kernel)
{
	const int64_t *origin = t->tile.low;
	float(*voxels)[TILE] = t->voxels[t->look.swapped][z - origin[2]];
	const float unit = t->what->direction == FORWARD ? 2 : 1;
	const float first = -0.5F * (float)cells->span;
	TileStrip s;
	Lines lines;
	lines_fill(&t->look, 0.5 * (double)(block->low[0] + block->high[0]), y, z, &lines);
	for (int64_t x = block->low[0]; x < block->high[0]; x += cells->span) {
		const int64_t count = min64(cells->span, block->high[0] - x);
		strip_fill(
			&t->look, cells, &lines, width, unit, (double)x - first, first, &s.strip);
		s.x0 = first;
		for (int64_t i = 0; i < count; i += batch, s.x0 += (float)batch) {
			s.count = min64(batch, count - i);
			s.voxels = &voxels[x + i - origin[0]][y - origin[1]];
			kernel(t, cells, &s);
			strip_advance(&s.strip, (float)batch);
		}
	}
}

/* All lines of a block. */
INLINE void project_strips(const TileView *t, const Box *block, const Cells *cells, int64_t width,
	const int batch, const StripKernel kernel)
{
	for (int64_t z = block->low[2]; z < block->high[2]; z++)
		for (int64_t y = block->low[1]; y < block->high[1]; y += LANES)
			project_lines(t, block, cells, width, y, z, batch, kernel);
}

static inline float *image_row(const TileView *t, int64_t row)
{
	const KernelModel *model = &t->what->plan->model;
	return t->what->projections + (t->view * model->rows + row) * model->columns;
}

/* Pixels of a row of the detector from column `first` on, zero beside the detector. */
static inline void load_line(
	const TileView *t, int64_t row, int64_t first, int64_t count, float *line)
{
	const KernelModel *model = &t->what->plan->model;
	int64_t from = max64(first, 0), to = min64(first + count, model->columns);
	bool none = row < 0 || row >= model->rows || from >= to;
	if (none || to - from < count)
		memset(line, 0, (size_t)count * sizeof *line);
	if (!none)
		memcpy(line + from - first, image_row(t, row) + from,
			(size_t)(to - from) * sizeof *line);
}

/* Four rows of pixels of patches that have four pixels each. Elements before the first and after
 * the last one are zero. */
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
