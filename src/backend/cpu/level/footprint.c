/* Projection with separable footprints (kernel/footprint.h), both directions, any geometry: the
 * trapezoids of LANES voxels at once (tile.h).
 *
 * The window is a copy of the pixels (back), or has four sums for each pixel (forward): those of
 * the four columns from it on, of voxels whose footprints begin there. Voxels that begin at
 * different pixels then add to different places, so that an addition need not wait for another one
 * whose sums overlap.
 */
#include "backend/cpu/level/feet.h"

static bool footprint_applies(const ProjectRequest *what)
{
	(void)what;
	return true;
}

static bool footprint_slower(const ProjectRequest *what)
{
	return lanes_idle(what);
}

/* Sums over four columns from `first` on, of all rows: the rows of each voxel are added before its
 * pixels are distributed to vectors. */
INLINE void sum_rows(const float *pixels, const vi *cell, const vf *along, int64_t width,
	const int rows, vf sums[4])
{
	quad each[LANES];
#pragma GCC unroll 16
	for (int l = 0; l < LANES; l++) {
		const float *from = pixels + ((const int32_t *)cell)[l];
		quad sum = quad_load(from);
		if (rows > 1)
			sum *= ((const float *)&along[0])[l];
		for (int r = 1; r < rows; r++)
			sum += ((const float *)&along[r])[l] * quad_load(from + r * width);
		each[l] = sum;
	}
	quads_split(each, sums);
}

INLINE void back_strip(const TileView *t, const TileStrip *s, const Spots *spots, const Feet *f,
	int64_t width, const int columns, const int rows)
{
	for (int64_t i = 0; i < s->count; i++) {
		float *to = s->voxels + i * TILE;
		vf value = {0};
		for (int c = 0; c < columns; c += 4) {
			vf sums[4];
			sum_rows(
				t->window + c, &f->cell[i], f->along + i * rows, width, rows, sums);
			for (int j = 0; j < 4 && c + j < columns; j++)
				value += f->across[i * columns + c + j] * sums[j];
		}
		vf_store(to, vf_load(to) + spots->weight[i] * value);
	}
}

/* Lane number k in an order in which neighbours, which often add to the same place, are apart. */
INLINE int apart(const int k)
{
	return k % (LANES / 4) * 4 + k / (LANES / 4);
}

/* Adds four columns of all rows, one voxel after the other. */
INLINE void add_rows(float *patches, const vi *cell, const vf shares[4], const vf *along,
	int64_t width, const int rows)
{
	quad each[LANES];
	quads_of(shares, each);
#pragma GCC unroll 16
	for (int k = 0; k < LANES; k++) {
		const int l = apart(k);
		float *to = patches + 2 * (int64_t)((const int32_t *)cell)[l];
		for (int r = 0; r < rows; r++, to += 4 * width) {
			quad sum = quad_load(to);
			sum += rows > 1 ? each[l] * ((const float *)&along[r])[l] : each[l];
			memcpy(to, &sum, sizeof sum);
		}
	}
}

INLINE void forward_strip(const TileView *t, const TileStrip *s, const Spots *spots, const Feet *f,
	int64_t width, const int columns, const int rows)
{
	for (int64_t i = 0; i < s->count; i++) {
		vf value = spots->weight[i] * vf_load(s->voxels + i * TILE);
		for (int c = 0; c < columns; c += 4) {
			vf shares[4] = {{0}};
			for (int j = 0; j < 4 && c + j < columns; j++)
				shares[j] = value * f->across[i * columns + c + j];
			add_rows(t->window + 4 * c, &f->cell[i], shares, f->along + i * rows, width,
				rows);
		}
	}
}

/* ---- windows --------------------------------------------------------------------------------- */

static int64_t window_width(const Cells *cells)
{
	return cells->size[0] + parts(cells->pixels[0], 4) * 4;
}

static int64_t window_height(const Cells *cells)
{
	return cells->size[1] + cells->pixels[1] - 1;
}

static void give_window(const TileView *t, const Cells *cells)
{
	const KernelModel *model = &t->what->plan->model;
	int64_t width = window_width(cells), first = cells->low[0];
	int64_t from = max64(0, -first), to = min64(width, model->columns - first);
	PatchLines lines;
	for (int64_t r = 0; r < window_height(cells); r++) {
		int64_t row = cells->low[1] + r;
		if (row < 0 || row >= model->rows)
			continue;
		float *pixels = image_row(t, row) + first;
		split_patches(t->window + 4 * r * width, width, lines);
		for (int64_t c = from; c < to; c++)
			pixels[c] += (lines[0][LANES + c] + lines[1][LANES + c - 1]) +
				     (lines[2][LANES + c - 2] + lines[3][LANES + c - 3]);
	}
}

/* ---- a whole request ------------------------------------------------------------------------- */

INLINE void strip_by(
	const TileView *t, const Cells *cells, TileStrip *s, const int columns, const int rows)
{
	Spots spots;
	Feet feet;
	Edges edges[2];
	feet_edges(t, cells, s, edges);
	for (int64_t left = s->count; left > 0; left -= BATCH) {
		s->count = min64(BATCH, left);
		spots_fill(t, cells, s, &spots);
		feet_of(t, cells, s, &spots, edges, columns, rows, &feet);
		if (t->what->direction == FORWARD)
			forward_strip(t, s, &spots, &feet, window_width(cells), columns, rows);
		else
			back_strip(t, s, &spots, &feet, window_width(cells), columns, rows);
		s->x0 += BATCH;
		s->voxels += BATCH * TILE;
	}
}

SEPARATE void strip_any(const TileView *t, const Cells *cells, TileStrip *s)
{
	strip_by(t, cells, s, cells->pixels[0], cells->pixels[1]);
}

static void project_strip(const TileView *t, const Cells *cells, TileStrip *s)
{
	const int columns = cells->pixels[0], rows = cells->pixels[1];
	if (columns <= 3 && rows == 3)
		strip_by(t, cells, s, 3, 3);
	else if (columns <= 4 && rows == 3)
		strip_by(t, cells, s, 4, 3);
	else if (columns <= 4 && rows == 4)
		strip_by(t, cells, s, 4, 4);
	else if (columns <= 4 && rows == 1)
		strip_by(t, cells, s, 4, 1);
	else
		strip_any(t, cells, s);
}

static void project_block(const TileView *t, const Box *block, const Cells *cells)
{
	bool forward = t->what->direction == FORWARD;
	int64_t width = window_width(cells), height = window_height(cells);
	if (forward)
		memset(t->window, 0, (size_t)(4 * (width * height + LANES)) * sizeof(float));
	for (int64_t r = 0; !forward && r < height; r++)
		load_line(t, cells->low[1] + r, cells->low[0], width, t->window + r * width);
	if (t->what->plan->model.planar)
		project_strips(t, block, cells, width, 1, project_strip);
	else
		project_strips(t, block, cells, width, 0, project_strip);
	if (forward)
		give_window(t, cells);
}

static tomos_status footprint_project(const ProjectRequest *what)
{
	return LEVEL(tiles_project)(what, project_block);
}

const CpuKernel LEVEL(cpu_footprint_any) = {
	.applies = footprint_applies,
	.run = {footprint_project, footprint_project},
	.slower = footprint_slower,
	.by_width = true,
};
