/* Projection with separable footprints (kernel/footprint.h), both directions, any geometry: the
 * trapezoids of LANES voxels at once (tile.h).
 *
 * The window is a copy of the pixels (back), or has four sums for each pixel (forward): those of
 * the four columns from it on, of voxels whose footprints begin there. Voxels that begin at
 * different pixels then add to different places, so that an addition need not wait for another one
 * whose sums overlap.
 */
#include "backend/cpu/level/tile.h"

bool LEVEL(footprint_applies)(const ProjectRequest *what)
{
	(void)what;
	return true;
}

enum { BATCH = 128 / LANES }; /* voxels of a line at a time: their shares stay in the L1 cache */

/* ---- footprints of a strip ------------------------------------------------------------------- */

/* Widths of the projected edges of voxels at x from the middle of a strip: edge[a] + x step[a],
 * times the square of depth in the middle / depth. (The coordinate is a quotient of functions that
 * are linear in the position.) The step along the strip itself is 0. */
typedef struct {
	vf edge[3], step[3];
} Edges;

/* f, at, along: the function of the voxel index, its value in the middle and per voxel; whole: the
 * number that it is relative to. */
static Edges edges_of(
	const Look *look, const Strip *s, const double f[4], vf at, vf along, vf whole, bool depth)
{
	Edges e;
	for (int a = 0; a < 3; a++) {
		vf bend = (float)(depth ? look->depth[a] : 0) * s->nearer;
		vf own = (float)f[a] * (depth ? s->nearer : vf_all(1)) - whole * bend;
		e.edge[a] = (depth ? own + own * s->lean : own) - at * bend;
		e.step[a] = depth && a > 0 ? own * s->bend - along * bend : vf_all(0);
	}
	return e;
}

/* Positions of the voxels of a strip, and the factors of the widths of their edges. */
typedef struct {
	vf column[BATCH], row[BATCH], weight[BATCH], scale[BATCH], row_scale[BATCH];
} Spots;

INLINE void spots_of(const TileView *t, const Cells *cells, const TileStrip *strip, Spots *spots,
	const PlaceKind kind)
{
	const Strip s = strip->strip;
	vf x = vf_all(strip->x0);
	for (int64_t i = 0; i < strip->count; i++, x += 1) {
		Places p = strip_places(&s, &t->look, cells, x, kind);
		spots->column[i] = p.column;
		spots->row[i] = p.row;
		spots->weight[i] = p.weight;
		vf near = p.nearer * p.nearer;
		spots->scale[i] = near * near;
		spots->row_scale[i] = t->look.fans ? vf_all(1) : spots->scale[i];
	}
}

static void spots_fill(const TileView *t, const Cells *cells, const TileStrip *s, Spots *spots)
{
	const PlaceKind kind = place_kind(&t->look, cells);
	if (kind == PLACES_SMOOTH)
		spots_of(t, cells, s, spots, PLACES_SMOOTH);
	else if (kind == PLACES_NEAR)
		spots_of(t, cells, s, spots, PLACES_NEAR);
	else
		spots_of(t, cells, s, spots, kind);
}

/* The footprints of a strip: for voxel i of each line, its first column and row, relative to the
 * strip, its cell, and the shares of columns and rows. Each is computed in loops of its own: the
 * operations for one voxel depend on each other, and a processor overlaps more iterations of short
 * loops. */
typedef struct {
	vf column[BATCH], row[BATCH];
	vi cell[BATCH];
	vf across[BATCH][MOST_PIXELS], along[BATCH][MOST_PIXELS];
} Feet;

/* One coordinate. */
INLINE void shares_of(const vf *at, const vf *scale, const Edges *edges, const TileStrip *s,
	const int pixels, vf *first, vf (*shares)[MOST_PIXELS])
{
	const Edges e = *edges;
	Trapezoid t[BATCH];
	vf x = vf_all(s->x0);
	for (int64_t i = 0; i < s->count; i++, x += 1) {
		const vf widths[3] = {
			e.edge[0], e.edge[1] + x * e.step[1], e.edge[2] + x * e.step[2]};
		t[i] = trapezoid_of(widths, scale[i]);
	}
	for (int64_t i = 0; i < s->count; i++) {
		first[i] = vf_floor(at[i] + 0.5F - t[i].reach);
		trapezoid_shares(&t[i], first[i] - at[i], pixels, shares[i]);
	}
}

/* Voxels with no pixel on the detector are assigned to cells beside it. */
INLINE void cells_of(const Strip *strip, int64_t count, bool clipped, const int rows, Feet *f)
{
	const Strip s = *strip;
	for (int64_t i = 0; clipped && i < count; i++) {
		f->column[i] = vf_min(vf_max(f->column[i], s.left), s.right);
		if (rows > 1)
			f->row[i] = vf_min(vf_max(f->row[i], s.below), s.above);
	}
	for (int64_t i = 0; i < count; i++) {
		vf cell = f->column[i] * s.unit + s.first;
		f->cell[i] = vf_truncate(rows > 1 ? cell + f->row[i] * s.width : cell);
	}
}

INLINE void feet_of(const TileView *t, const Cells *cells, const TileStrip *s, const Spots *spots,
	const int columns, const int rows, Feet *f)
{
	const Strip *m = &s->strip;
	vf c = (float)cells->least[0] - m->left, r = (float)cells->least[1] - m->below;
	Edges u = edges_of(&t->look, m, t->look.column, m->column, m->column_step, c, true);
	shares_of(spots->column, spots->scale, &u, s, columns, f->column, f->across);
	if (rows > 1) {
		Edges v = edges_of(&t->look, m, t->look.row, m->row, m->row_step, r, !t->look.fans);
		shares_of(spots->row, spots->row_scale, &v, s, rows, f->row, f->along);
	}
	cells_of(m, s->count, cells->clipped, rows, f);
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
			sum_rows(t->window + c, &f->cell[i], f->along[i], width, rows, sums);
			for (int j = 0; j < 4 && c + j < columns; j++)
				value += f->across[i][c + j] * sums[j];
		}
		vf_store(to, vf_load(to) + spots->weight[i] * value);
	}
}

/* Adds four columns of all rows, one voxel after the other. */
INLINE void add_rows(float *patches, const vi *cell, const vf shares[4], const vf *along,
	int64_t width, const int rows)
{
	quad each[LANES];
	quads_of(shares, each);
#pragma GCC unroll 16
	for (int l = 0; l < LANES; l++) {
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
				shares[j] = value * f->across[i][c + j];
			add_rows(t->window + 4 * c, &f->cell[i], shares, f->along[i], width, rows);
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

INLINE void strip_by(const TileView *t, const Cells *cells, const TileStrip *s, const int columns,
	const int rows)
{
	Spots spots;
	Feet feet;
	spots_fill(t, cells, s, &spots);
	feet_of(t, cells, s, &spots, columns, rows, &feet);
	if (t->what->direction == FORWARD)
		forward_strip(t, s, &spots, &feet, window_width(cells), columns, rows);
	else
		back_strip(t, s, &spots, &feet, window_width(cells), columns, rows);
}

static void project_strip(const TileView *t, const Cells *cells, const TileStrip *s)
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
		strip_by(t, cells, s, columns, rows);
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
		project_strips(t, block, cells, width, 1, BATCH, project_strip);
	else
		project_strips(t, block, cells, width, 0, BATCH, project_strip);
	if (forward)
		give_window(t, cells);
}

tomos_status LEVEL(footprint_project)(const ProjectRequest *what)
{
	return LEVEL(tiles_project)(what, project_block);
}
