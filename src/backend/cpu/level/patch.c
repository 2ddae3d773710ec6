/* Voxel-driven projection with bilinear interpolation, for any rays: tilted detectors, sources
 * anywhere (tile.h). A cell is the square between four pixel centres. At (f, g) from its middle, in
 * columns and rows, a view is a + f b + g (c + f d), where a, b, c and d depend on the four pixels.
 * The window has these coefficients of each cell next to each other, so that a voxel reads its cell
 * with one load (back), or adds 1, f, g and f g times its value with one store (forward). In a
 * single slice with one detector row, cells are between two pixels, a + f b (back), or several
 * voxels of a line add to four pixels with one store (forward).
 */
#include "backend/cpu/level/density.h"
#include "backend/cpu/level/patch.h"

bool LEVEL(patch_applies)(const ProjectRequest *what)
{
	return !what->plan->model.clamp && !what->plan->model.nearest;
}

/* Pixels of a voxel, beyond those from which on narrower vectors are faster forward where wide ones
 * are processed in halves. */
static double cells_beyond(const ProjectRequest *what, const Density *d, bool circle)
{
	(void)what, (void)circle;
	return d->rows * d->columns - 0.8;
}

static bool patch_slower(const ProjectRequest *what)
{
	if (LANES > 8 && what->direction == FORWARD && cpu_halves_vectors() &&
		slower_in_sum(what, false, cells_beyond))
		return true;
	return lanes_idle(what);
}

/* The coefficients of LANES cells between two rows of pixels. */
static void fill_cells(const float *low, const float *high, float *cells)
{
	vf mean[2], rise[2], coefficients[4];
	quad each[LANES];
	for (int i = 0; i < 2; i++) {
		vf below = vf_load(low + i), above = vf_load(high + i);
		mean[i] = 0.5F * (below + above);
		rise[i] = above - below;
	}
	coefficients[0] = 0.5F * (mean[0] + mean[1]);
	coefficients[1] = mean[1] - mean[0];
	coefficients[2] = 0.5F * (rise[0] + rise[1]);
	coefficients[3] = rise[1] - rise[0];
	quads_of(coefficients, each);
	memcpy(cells, each, sizeof each);
}

static void load_window(const TileView *t, const Cells *cells)
{
	int64_t wide = cells->size[0];
	float lines[2][MOST_WIDE + 1 + LANES], *to = t->window;
	memset(lines, 0, sizeof lines);
	load_line(t, cells->low[1], cells->low[0], wide + 1, lines[0]);
	for (int64_t r = 0; r < cells->size[1]; r++, to += 4 * wide) {
		float *low = lines[r & 1], *high = lines[(r + 1) & 1];
		load_line(t, cells->low[1] + r + 1, cells->low[0], wide + 1, high);
		for (int64_t c = 0; c < wide; c += LANES)
			fill_cells(low + c, high + c, to + 4 * c);
	}
}

/* The transpose of fill_cells, in place: what cells add to their lower left, lower right, upper
 * left and upper right pixels. */
static void cells_pixels(PatchLines lines, int64_t wide)
{
	for (int64_t c = LANES; c < LANES + wide; c += LANES) {
		vf sum = 0.5F * vf_load(lines[0] + c), rise = vf_load(lines[2] + c);
		vf across = 0.5F * vf_load(lines[1] + c), both = vf_load(lines[3] + c);
		vf low = 0.5F * (sum - rise), low_across = across - both;
		vf high = 0.5F * (sum + rise), high_across = across + both;
		vf_store(lines[0] + c, low - low_across);
		vf_store(lines[1] + c, low + low_across);
		vf_store(lines[2] + c, high - high_across);
		vf_store(lines[3] + c, high + high_across);
	}
}

/* Adds the cells of a window to the pixels of the view. */
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
		if (r < cells->size[1]) {
			split_patches(t->window + 4 * r * wide, wide, upper);
			cells_pixels(upper, wide);
		} else {
			memset(upper, 0, sizeof lines[0]);
		}
		int64_t row = cells->low[1] + r;
		if (row < 0 || row >= model->rows)
			continue;
		float *to_pixels = image_row(t, row) + first;
		for (int64_t c = from; c <= to; c++)
			to_pixels[c] += (upper[0][LANES + c] + upper[1][LANES + c - 1]) +
					(lower[2][LANES + c] + lower[3][LANES + c - 1]);
	}
}

SEPARATE void back_strip(const Hits *hits, const float *cells, int64_t count, float *sums)
{
	for (int64_t i = 0; i < count; i++) {
		vf k[4], right = hits->right[i];
		vf_load_fours_by(cells, (const int32_t *)&hits->cell[i], 2, k);
		vf value = k[0] + right * k[1] + hits->up[i] * (k[2] + right * k[3]);
		vf_store(sums + i * TILE, vf_load(sums + i * TILE) + hits->weight[i] * value);
	}
}

SEPARATE void forward_strip(const Hits *hits, float *cells, int64_t count, const float *values)
{
	for (int64_t i = 0; i < count; i++) {
		vf k[4];
		k[0] = hits->weight[i] * vf_load(values + i * TILE);
		k[1] = k[0] * hits->right[i];
		k[2] = k[0] * hits->up[i];
		k[3] = k[1] * hits->up[i];
		vf_add_fours_by(cells, (const int32_t *)&hits->cell[i], 2, k);
	}
}

static void back_strip_planar(const Hits *hits, const float *cells, int64_t count, float *sums)
{
	for (int64_t i = 0; i < count; i++) {
		vf rise, mean = vf_load_twos(cells, &hits->cell[i], &rise);
		vf value = hits->weight[i] * (mean + hits->right[i] * rise);
		vf_store(sums + i * TILE, vf_load(sums + i * TILE) + value);
	}
}

INLINE void project_strip(const TileView *t, const Cells *cells, TileStrip *s)
{
	Hits hits;
	strip_hit(t, cells, s, &hits);
	if (t->what->direction == FORWARD)
		forward_strip(&hits, t->window, s->count, s->voxels);
	else
		back_strip(&hits, t->window, s->count, s->voxels);
}

INLINE void back_planar(const TileView *t, const Cells *cells, TileStrip *s)
{
	Hits hits;
	const PlaceKind kind = place_kind(&t->look, cells);
	if (kind == PLACES_SMOOTH && !cells->clipped)
		strip_hits(&t->look, cells, s, &hits, PLACES_SMOOTH, 0, 1);
	else
		strip_hits(&t->look, cells, s, &hits, kind, 1, 1);
	back_strip_planar(&hits, t->window, s->count, s->voxels);
}

/* Detector columns of the voxels of a strip, and what they add to the view. */
typedef struct {
	vf column[SPAN], value[SPAN];
} Line;

INLINE void line_of(const TileView *t, const Cells *cells, const TileStrip *s, const PlaceKind kind,
	const int clipped, Line *line)
{
	vf x = vf_all(s->x0);
	for (int64_t i = 0; i < s->count; i++, x += 1) {
		Places p = strip_places(&s->strip, &t->look, cells, x, kind);
		if (clipped)
			p.column = vf_min(vf_max(p.column, s->strip.left), s->strip.right);
		line->column[i] = p.column;
		line->value[i] = p.weight * vf_load(s->voxels + i * TILE);
	}
}

/* Neighbours of a line add to the same four pixels together, with columns q < 3 from the first of
 * these. Sums of min(q, 1), min(q, 2) and q have the shares of all four. */
static void spread_line(
	const Line *line, const Strip *s, int64_t near, int64_t count, float *window)
{
	for (int64_t i = 0; i < count; i += near) {
		const int64_t end = min64(i + near, count);
		vf place = vf_min(line->column[i], line->column[end - 1]) + s->first;
		vf origin = place - s->first - 0.5F, sum[4] = {{0}}, pixels[4];
		vi cell = (vi)((vu)place + (vu)place);
		for (int64_t j = i; j < end; j++) {
			vf q = line->column[j] - origin, v = line->value[j];
			sum[0] += v;
			sum[1] += v * vf_min(q, vf_all(1));
			sum[2] += v * vf_min(q, vf_all(2));
			sum[3] += v * q;
		}
		pixels[0] = sum[0] - sum[1];
		pixels[1] = 2 * sum[1] - sum[2];
		pixels[2] = 2 * sum[2] - sum[1] - sum[3];
		pixels[3] = sum[3] - sum[2];
		vf_add_fours_by(window, (const int32_t *)&cell, 2, pixels);
	}
}

INLINE void forward_planar(const TileView *t, const Cells *cells, TileStrip *s)
{
	Line line;
	const PlaceKind kind = place_kind(&t->look, cells);
	if (kind == PLACES_SMOOTH && !cells->clipped)
		line_of(t, cells, s, PLACES_SMOOTH, 0, &line);
	else
		line_of(t, cells, s, kind, 1, &line);
	spread_line(&line, &s->strip, cells->near, s->count, t->window);
}

/* The only row of pixels as cells. */
static void load_planar(const TileView *t, const Cells *cells)
{
	float line[MOST_WIDE + 1];
	load_line(t, 0, cells->low[0], cells->size[0] + 1, line);
	for (int64_t c = 0; c < cells->size[0]; c++) {
		t->window[2 * c] = 0.5F * (line[c] + line[c + 1]);
		t->window[2 * c + 1] = line[c + 1] - line[c];
	}
}

/* Adds the window to the only row: four pixels from each column on. */
static void give_planar(const TileView *t, const Cells *cells)
{
	enum { AFTER = 3 };
	const int64_t first = cells->low[0], wide = cells->size[0];
	const int64_t end = min64(wide + AFTER, t->what->plan->model.columns - first);
	float *pixels = image_row(t, 0) + first;
	PatchLines lines;
	split_patches(t->window, wide, lines);
	for (int64_t c = max64(0, -first); c < end; c++)
		for (int k = 0; k <= AFTER; k++)
			pixels[c] += lines[k][LANES + c - k];
}

static void project_planar(const TileView *t, const Box *block, const Cells *cells)
{
	if (t->what->direction == FORWARD) {
		memset(t->window, 0, (size_t)(4 * (cells->size[0] + LANES)) * sizeof(float));
		project_strips(t, block, cells, 0, 1, forward_planar);
		give_planar(t, cells);
	} else {
		load_planar(t, cells);
		project_strips(t, block, cells, 0, 1, back_planar);
	}
}

static void project_block(const TileView *t, const Box *block, const Cells *cells)
{
	bool forward = t->what->direction == FORWARD;
	int64_t many = cells->size[0] * cells->size[1];
	if (t->what->plan->model.planar) {
		project_planar(t, block, cells);
		return;
	}
	if (forward)
		memset(t->window, 0, (size_t)(4 * (many + LANES)) * sizeof(float));
	else
		load_window(t, cells);
	project_strips(t, block, cells, cells->size[0], 0, project_strip);
	if (forward)
		give_window(t, cells);
}

static tomos_status patch_project(const ProjectRequest *what)
{
	return LEVEL(tiles_project)(what, project_block);
}

const CpuKernel LEVEL(cpu_patch) = {
	.applies = LEVEL(patch_applies),
	.run = {patch_project, patch_project},
	.slower = patch_slower,
	.by_width = true,
};
