/* Voxel-driven projection with bilinear interpolation, for any rays: tilted detectors, sources
 * anywhere (tile.h). The 2 x 2 pixels of a patch are next to each other in the window, so that a
 * voxel reads (back) or adds to (forward) its four pixels at once. Window, back: [row][column] of
 * pairs of pixels, one above the other, so that a patch is two pairs; forward: [row][column] of
 * patches, which overlap in pixels. In a single slice with one detector row, patches are two
 * neighbouring pixels of that row.
 */
#include "backend/cpu/level/tile.h"

bool LEVEL(patch_applies)(const ProjectRequest *what)
{
	return !what->plan->model.clamp && !what->plan->model.nearest;
}

/* Where the voxels of a strip project to: the place of the cell in the window, the weights of its
 * right and upper pixels, and the weight of the view. */
typedef struct {
	vi cell[SPAN];
	vf right[SPAN], up[SPAN], weight[SPAN];
} Hits;

/* `clipped`: some voxels are beside the detector. `planar`: all are in its only row. */
INLINE void strip_hits(const Strip s, int64_t count, float x0, Hits *hits, const Weighing weighing,
	const int fans, const int square, const int clipped, const int planar)
{
	vf x = vf_all(x0), bend = x0 * s.bend, near2 = s.near2, near2_step = s.near2_step;
	for (int64_t i = 0; i < count; i++) {
		Places p = strip_places(&s, x, bend, near2, weighing, fans, square);
		if (clipped) {
			p.column = vf_min(vf_max(p.column, s.left), s.right);
			p.row = vf_min(vf_max(p.row, s.below), s.above);
		}
		vf c = vf_floor(p.column), r = vf_floor(p.row);
		vf place = c * s.unit + s.first;
		hits->cell[i] = vf_truncate(planar ? place : r * s.width + place);
		hits->right[i] = p.column - c;
		if (!planar)
			hits->up[i] = p.row - r;
		hits->weight[i] = p.weight;
		x += 1;
		bend += s.bend;
		near2 += near2_step;
		near2_step += s.near2_bend;
	}
}

/* The first `count` voxels of a span whose voxel 0 is at x0 from its middle. Separate from the
 * loops that use the hits, since a processor overlaps more iterations of two short loops than of
 * one long loop. */
static void strip_hit(
	const Look *look, const Strip *s, bool clipped, int64_t count, float x0, Hits *hits)
{
	Weighing weighing = look->weighing;
	if (weighing == WEIGH_PARALLEL)
		strip_hits(*s, count, x0, hits, WEIGH_PARALLEL, 0, 0, 1, 0);
	else if (look->square)
		strip_hits(*s, count, x0, hits, weighing, look->fans, 1, 1, 0);
	else if (weighing == WEIGH_SAME)
		strip_hits(*s, count, x0, hits, WEIGH_SAME, 0, 0, 1, 0);
	else if (weighing == WEIGH_DEPTH)
		strip_hits(*s, count, x0, hits, WEIGH_DEPTH, 0, 0, 1, 0);
	else if (clipped)
		strip_hits(*s, count, x0, hits, WEIGH_DISTANCE, 0, 0, 1, 0);
	else
		strip_hits(*s, count, x0, hits, WEIGH_DISTANCE, 0, 0, 0, 0);
}

static void load_window(const TileView *t, const Cells *cells)
{
	int64_t wide = cells->size[0] + 1;
	float lines[2][MOST_WIDE + 1], *pairs = t->window;
	load_line(t, cells->low[1], cells->low[0], wide, lines[0]);
	for (int64_t r = 0; r < cells->size[1]; r++, pairs += 2 * wide) {
		float *low = lines[r & 1], *high = lines[(r + 1) & 1];
		load_line(t, cells->low[1] + r + 1, cells->low[0], wide, high);
		for (int64_t c = 0; c < wide; c++) {
			pairs[2 * c] = low[c];
			pairs[2 * c + 1] = high[c];
		}
	}
}

/* Adds the patches of a window to the pixels of the view. */
static void give_window(const TileView *t, const Cells *cells)
{
	const KernelModel *model = &t->what->plan->model;
	PatchLines lines[2];
	int64_t wide = cells->size[0], first = cells->low[0];
	int64_t from = max64(0, -first), to = min64(wide, model->columns - 1 - first);
	memset(lines, 0, sizeof lines);
	for (int64_t r = 0; r <= cells->size[1]; r++) {
		float(*upper)[MOST_WIDE + 3 * LANES] = lines[r & 1];
		float(*lower)[MOST_WIDE + 3 * LANES] = lines[(r + 1) & 1];
		if (r < cells->size[1])
			split_patches(t->window + 4 * r * wide, wide, upper);
		else
			memset(upper, 0, sizeof lines[0]);
		int64_t row = cells->low[1] + r;
		if (row < 0 || row >= model->rows)
			continue;
		float *to_pixels = image_row(t, row) + first;
		for (int64_t c = from; c <= to; c++)
			to_pixels[c] += (upper[0][LANES + c] + upper[2][LANES + c - 1]) +
					(lower[1][LANES + c] + lower[3][LANES + c - 1]);
	}
}

static void back_strip(const Hits *hits, const float *pairs, int64_t count, float *sums)
{
	for (int64_t i = 0; i < count; i++) {
		vf pixels[4], right = hits->right[i];
		vf_load_fours_by(pairs, (const int32_t *)&hits->cell[i], 2, pixels);
		vf low = pixels[0] + right * (pixels[2] - pixels[0]);
		vf high = pixels[1] + right * (pixels[3] - pixels[1]);
		vf value = hits->weight[i] * (low + hits->up[i] * (high - low));
		vf_store(sums + i * TILE, vf_load(sums + i * TILE) + value);
	}
}

static void forward_strip(const Hits *hits, float *patches, int64_t count, const float *values)
{
	for (int64_t i = 0; i < count; i++) {
		vf value = hits->weight[i] * vf_load(values + i * TILE);
		vf right = value * hits->right[i], left = value - right;
		vf pixels[4];
		pixels[1] = left * hits->up[i];
		pixels[3] = right * hits->up[i];
		pixels[0] = left - pixels[1];
		pixels[2] = right - pixels[3];
		vf_add_fours_by(patches, (const int32_t *)&hits->cell[i], 2, pixels);
	}
}

static void back_strip_planar(const Hits *hits, const float *line, int64_t count, float *sums)
{
	for (int64_t i = 0; i < count; i++) {
		vf right, left = vf_load_twos(line, &hits->cell[i], &right);
		vf value = hits->weight[i] * (left + hits->right[i] * (right - left));
		vf_store(sums + i * TILE, vf_load(sums + i * TILE) + value);
	}
}

static void forward_strip_planar(const Hits *hits, float *pairs, int64_t count, const float *values)
{
	for (int64_t i = 0; i < count; i++) {
		vf value = hits->weight[i] * vf_load(values + i * TILE);
		vf right = value * hits->right[i];
		vf_add_twos(pairs, (const int32_t *)&hits->cell[i], value - right, right);
	}
}

INLINE void project_strip(const TileView *t, const Cells *cells, const TileStrip *s)
{
	Hits hits;
	strip_hit(&t->look, &s->strip, cells->clipped, s->count, s->x0, &hits);
	if (t->what->direction == FORWARD)
		forward_strip(&hits, t->window, s->count, s->voxels);
	else
		back_strip(&hits, t->window, s->count, s->voxels);
}

INLINE void project_strip_planar(const TileView *t, const Cells *cells, const TileStrip *s)
{
	Hits hits;
	if (t->look.weighing == WEIGH_DISTANCE && !cells->clipped)
		strip_hits(s->strip, s->count, s->x0, &hits, WEIGH_DISTANCE, 0, 1, 0, 1);
	else
		strip_hits(s->strip, s->count, s->x0, &hits, t->look.weighing, 0, 1, 1, 1);
	if (t->what->direction == FORWARD)
		forward_strip_planar(&hits, t->window, s->count, s->voxels);
	else
		back_strip_planar(&hits, t->window, s->count, s->voxels);
}

/* Adds the pairs of a window to the pixels of the only row. */
static void give_line(const TileView *t, const Cells *cells)
{
	int64_t first = cells->low[0], wide = cells->size[0];
	int64_t columns = t->what->plan->model.columns;
	float *pixels = image_row(t, 0);
	for (int64_t c = max64(0, -first); c < min64(wide, columns - first); c++)
		pixels[first + c] += t->window[2 * c];
	for (int64_t c = max64(0, -first - 1); c < min64(wide, columns - first - 1); c++)
		pixels[first + c + 1] += t->window[2 * c + 1];
}

static void project_planar(const TileView *t, const Box *block, const Cells *cells)
{
	bool forward = t->what->direction == FORWARD;
	int64_t wide = cells->size[0];
	if (forward)
		memset(t->window, 0, (size_t)(2 * (wide + LANES)) * sizeof(float));
	else
		load_line(t, 0, cells->low[0], wide + 1, t->window);
	project_strips(t, block, cells, 0, SPAN, project_strip_planar);
	if (forward)
		give_line(t, cells);
}

static void project_block(const TileView *t, const Box *block, const Cells *cells)
{
	bool forward = t->what->direction == FORWARD;
	int64_t patches = cells->size[0] * cells->size[1];
	if (t->what->plan->model.planar) {
		project_planar(t, block, cells);
		return;
	}
	if (forward)
		memset(t->window, 0, (size_t)(4 * (patches + LANES)) * sizeof(float));
	else
		load_window(t, cells);
	project_strips(t, block, cells, cells->size[0] + (forward ? 0 : 1), SPAN, project_strip);
	if (forward)
		give_window(t, cells);
}

tomos_status LEVEL(patch_project)(const ProjectRequest *what)
{
	return LEVEL(tiles_project)(what, project_block);
}
