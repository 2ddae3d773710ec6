/* Voxel-driven projection and its transpose for any rays: tilted detectors, sources anywhere.
 *
 * The volume is divided into tiles. In each view, the pixels that a tile projects to are copied to
 * a window in which the 2 x 2 pixels of a patch are next to each other, so that a voxel reads
 * (back) or adds to (forward) its four pixels at once. Tiles whose window would be too large are
 * split. Forward, a task has a few views and all tiles; back, it has a tile and all views.
 */
#include "backend/cpu/level/patch.h"

typedef float TileVoxels[TILE][TILE][TILE]; /* [z][x][y], or [z][y][x] */

/* A tile in one view. Window, back: [row][column] of pairs of pixels, one above the other, so that
 * a patch is two pairs; forward: [row][column] of patches, which overlap in pixels. */
typedef struct {
	const ProjectRequest *what;
	Look look;
	int64_t view; /* of the request */
	Box tile;
	TileVoxels *voxels; /* [swapped] */
	float *window;
} TileView;

bool LEVEL(patch_applies)(const ProjectRequest *what)
{
	return !what->plan->model.clamp && !what->plan->model.nearest;
}

static float *image_row(const TileView *t, int64_t row)
{
	const KernelModel *model = &t->what->plan->model;
	return t->what->projections + (t->view * model->rows + row) * model->columns;
}

/* Pixels of a row of the detector from column `first` on, zero beside the detector. */
static void load_line(const TileView *t, int64_t row, int64_t first, int64_t count, float *line)
{
	const KernelModel *model = &t->what->plan->model;
	int64_t from = max64(first, 0), to = min64(first + count, model->columns);
	memset(line, 0, (size_t)count * sizeof *line);
	if (row >= 0 && row < model->rows && from < to)
		memcpy(line + from - first, image_row(t, row) + from,
			(size_t)(to - from) * sizeof *line);
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

/* Rows of the pixels of patches: lower left, upper left, lower right, upper right. Elements -1 and
 * `wide` are zero. */
typedef float PatchLines[4][MOST_WIDE + 2 * LANES];

static void split_patches(const float *patches, int64_t wide, PatchLines lines)
{
	vi lane = vf_truncate(vf_lane());
	for (int64_t c = 0; c < wide; c += LANES) {
		vf pixels[4];
		vf_load_fours_by(patches + 4 * c, &lane, 4, pixels);
		for (int i = 0; i < 4; i++)
			vf_store(lines[i] + LANES + c,
				vf_where(lane < (int32_t)(wide - c), pixels[i]));
	}
	for (int i = 0; i < 4; i++)
		lines[i][LANES - 1] = lines[i][LANES + wide] = 0;
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
		float(*upper)[MOST_WIDE + 2 * LANES] = lines[r & 1];
		float(*lower)[MOST_WIDE + 2 * LANES] = lines[(r + 1) & 1];
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
		vf_load_fours_by(pairs, &hits->cell[i], 2, pixels);
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
		vf_add_fours_by(patches, &hits->cell[i], 4, pixels);
	}
}

/* LANES lines of a block from (y, z) on. */
static void project_lines(
	const TileView *t, const Box *block, const Cells *cells, int64_t y, int64_t z)
{
	bool forward = t->what->direction == FORWARD;
	int64_t width = cells->size[0] + (forward ? 0 : 1);
	const int64_t *origin = t->tile.low;
	float(*voxels)[TILE] = t->voxels[t->look.swapped][z - origin[2]];
	Lines lines;
	lines_fill(&t->look, 0.5 * (double)(block->low[0] + block->high[0]), y, z, &lines);
	for (int64_t x = block->low[0]; x < block->high[0]; x += cells->span) {
		int64_t count = min64(cells->span, block->high[0] - x);
		float x0 = -0.5F * (float)cells->span;
		float *at = &voxels[x - origin[0]][y - origin[1]];
		Strip strip;
		Hits hits;
		strip_fill(&t->look, cells, &lines, width, (double)x - x0, x0, &strip);
		strip_project(&t->look, &strip, cells->clipped, count, x0, &hits);
		if (forward)
			forward_strip(&hits, t->window, count, at);
		else
			back_strip(&hits, t->window, count, at);
	}
}

static void project_block(const TileView *t, const Box *block, const Cells *cells)
{
	bool forward = t->what->direction == FORWARD;
	int64_t patches = cells->size[0] * cells->size[1];
	if (forward)
		memset(t->window, 0, (size_t)(4 * (patches + LANES)) * sizeof(float));
	else
		load_window(t, cells);
	for (int64_t z = block->low[2]; z < block->high[2]; z++)
		for (int64_t y = block->low[1]; y < block->high[1]; y += LANES)
			project_lines(t, block, cells, y, z);
	if (forward)
		give_window(t, cells);
}

/* Exchanges x and y. */
static void box_swap(Box *box)
{
	const Box old = *box;
	for (int a = 0; a < 2; a++) {
		box->low[a] = old.low[1 - a];
		box->high[a] = old.high[1 - a];
	}
}

/* Blocks near the source, or with a huge projection. */
static void project_plainly(const TileView *t, Box block)
{
	const ProjectRequest *what = t->what;
	if (t->look.swapped)
		box_swap(&block);
	KernelGrid grid = what->plan->whole;
	memcpy(grid.low, what->box.low, sizeof grid.low);
	memcpy(grid.high, what->box.high, sizeof grid.high);
	LEVEL(reference_kernels)
	[KERNEL_voxel][what->direction](what->plan, &grid, what->first + t->view, NULL, &block,
		what->volume, image_row(t, 0));
}

/* Halves a block along its longest axis; false if it is one vector. */
static bool block_halve(Box *block, Box *half)
{
	int64_t size[3];
	for (int a = 0; a < 3; a++)
		size[a] = block->high[a] - block->low[a];
	int axis = size[2] > size[0] ? 2 : 0;
	if (size[1] > LANES && size[1] >= size[axis])
		axis = 1;
	int64_t unit = axis == 1 ? LANES : 1, units = parts(size[axis], unit);
	*half = *block;
	half->low[axis] = block->high[axis] = block->low[axis] + units / 2 * unit;
	return units > 1;
}

/* Whether pixels change more along x than along y: then x is better in the SIMD lanes, since lanes
 * that add to the same pixels wait for each other. */
static bool steeper_along_x(const KernelView *k, const Box *tile)
{
	double at[3], steps[2];
	for (int a = 0; a < 3; a++)
		at[a] = 0.5 * (double)(tile->low[a] + tile->high[a]);
	double depth = linear(k->depth, at), column = linear(k->column, at) / depth;
	double row = KERNEL_FANS(k) ? 0 : linear(k->row, at) / depth;
	for (int a = 0; a < 2; a++)
		steps[a] = fabs(k->column[a] - column * k->depth[a]) +
			   fabs(k->row[a] - row * k->depth[a]);
	return steps[0] > steps[1];
}

static void project_tile(TileView *t, const Box *tile, int64_t view)
{
	const Plan *plan = t->what->plan;
	Box left[16] = {*tile};
	t->view = view;
	bool swapped = t->what->direction == FORWARD &&
		       steeper_along_x(&plan->views[t->what->first + view], tile);
	t->look = look_at(plan, t->what->first + view, swapped);
	t->tile = *tile;
	if (swapped) {
		box_swap(&t->tile);
		left[0] = t->tile;
	}
	for (int count = 1; count > 0;) {
		Box block = left[--count], half;
		Cells cells;
		BlockFit fit = block_cells(&t->look, &block, &cells);
		Box whole = block;
		if (fit == BLOCK_FITS) {
			project_block(t, &block, &cells);
		} else if (fit == BLOCK_SPLIT && block_halve(&block, &half)) {
			left[count++] = half;
			left[count++] = block;
		} else if (fit == BLOCK_SPLIT) {
			project_plainly(t, whole);
		}
	}
}

typedef struct {
	const ProjectRequest *what;
	int64_t together; /* views of a task */
} Work;

static int64_t tile_count(const Box *box)
{
	int64_t count = 1;
	for (int a = 0; a < 3; a++)
		count *= parts(box->high[a] - box->low[a], TILE);
	return count;
}

static Box tile_box(const Box *box, int64_t index)
{
	Box tile;
	for (int a = 0; a < 3; a++) {
		int64_t n = parts(box->high[a] - box->low[a], TILE);
		tile.low[a] = box->low[a] + index % n * TILE;
		tile.high[a] = min64(tile.low[a] + TILE, box->high[a]);
		index /= n;
	}
	return tile;
}

/* Row (y, z) of a tile in the volume. */
static float *tile_row(const ProjectRequest *what, const Box *tile, int64_t y, int64_t z)
{
	const Box *box = &what->box;
	int64_t nx = box->high[0] - box->low[0], ny = box->high[1] - box->low[1];
	return what->volume +
	       ((tile->low[2] + z - box->low[2]) * ny + tile->low[1] + y - box->low[1]) * nx +
	       tile->low[0] - box->low[0];
}

/* The first `count` elements of a vector, and zeros. */
static inline vf load_some(const float *p, int64_t count)
{
	if (count == LANES)
		return vf_load(p);
	vf v = {0};
	for (int64_t i = 0; i < count; i++)
		v[i] = p[i];
	return v;
}

/* Transposes rows of a tile: to[x][y] = from[y][x]. */
static void transpose_tile(const float *from, int64_t from_stride, float *to, int64_t to_stride,
	int64_t ny, int64_t nx)
{
	for (int64_t y = 0; y < ny; y += LANES)
		for (int64_t x = 0; x < nx; x += LANES) {
			int64_t high = min64(LANES, ny - y), wide = min64(LANES, nx - x);
			vf square[LANES] = {{0}};
			for (int64_t i = 0; i < high; i++)
				square[i] = load_some(from + (y + i) * from_stride + x, wide);
			vf_transpose(square);
			for (int64_t i = 0; i < wide; i++)
				vf_store(to + (x + i) * to_stride + y, square[i]);
		}
}

static void back_tile(void *user, int64_t index)
{
	const ProjectRequest *what = ((const Work *)user)->what;
	Box tile = tile_box(&what->box, index);
	int64_t wide = tile.high[0] - tile.low[0], deep = tile.high[1] - tile.low[1];
	TileVoxels sums;
	float pairs[4 * MOST_CELLS];
	TileView t = {.what = what, .voxels = &sums, .window = pairs};
	memset(sums, 0, sizeof sums);
	for (int64_t view = 0; view < what->count && !cancel_seen(); view++)
		project_tile(&t, &tile, view);
	for (int64_t z = 0; z < tile.high[2] - tile.low[2]; z++) {
		float rows[TILE][TILE];
		transpose_tile(sums[z][0], TILE, rows[0], TILE, TILE, TILE);
		for (int64_t y = 0; y < deep; y++) {
			float *row = tile_row(what, &tile, y, z);
			for (int64_t x = 0; x < wide; x++)
				row[x] += rows[y][x];
		}
	}
}

tomos_status LEVEL(patch_back)(const ProjectRequest *what)
{
	Work work = {what, what->count};
	parallel_for(tile_count(&what->box), back_tile, &work);
	return TOMOS_OK;
}

/* Copies a tile of the volume to [z][x][y] and [z][y][x]. */
static void take_tile(const ProjectRequest *what, const Box *tile, TileVoxels values[2])
{
	int64_t wide = tile->high[0] - tile->low[0], deep = tile->high[1] - tile->low[1];
	for (int64_t z = 0; z < tile->high[2] - tile->low[2]; z++) {
		for (int64_t y = 0; y < deep; y++) {
			float *to = values[1][z][y];
			memcpy(to, tile_row(what, tile, y, z), (size_t)wide * sizeof *to);
			memset(to + wide, 0, (size_t)(TILE - wide) * sizeof *to);
		}
		transpose_tile(values[1][z][0], TILE, values[0][z][0], TILE, deep, TILE);
	}
}

static void forward_views(void *user, int64_t index)
{
	const Work *work = user;
	const ProjectRequest *what = work->what;
	int64_t first = index * work->together;
	int64_t end = min64(first + work->together, what->count);
	TileVoxels values[2];
	float patches[4 * (MOST_CELLS + LANES)];
	TileView t = {.what = what, .voxels = values, .window = patches};
	for (int64_t i = 0; i < tile_count(&what->box) && !cancel_seen(); i++) {
		Box tile = tile_box(&what->box, i);
		take_tile(what, &tile, values);
		for (int64_t view = first; view < end; view++)
			project_tile(&t, &tile, view);
	}
}

tomos_status LEVEL(patch_forward)(const ProjectRequest *what)
{
	/* Up to 8 views per copy of a tile, fewer if threads had less than four parts. */
	Work work = {what, limit(what->count / (4 * tomos_threads()), 1, 8)};
	parallel_for(parts(what->count, work.together), forward_views, &work);
	return TOMOS_OK;
}
