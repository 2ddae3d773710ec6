/* Tiles of the volume and their blocks, in every view (tile.h). */
#include <stdatomic.h>
#include "backend/cpu/level/tile.h"

/* Exchanges x and y. */
static void box_swap(Box *box)
{
	const Box old = *box;
	for (int a = 0; a < 2; a++) {
		box->low[a] = old.low[1 - a];
		box->high[a] = old.high[1 - a];
	}
}

static void project_reference(const TileView *t, const Box *block, int64_t view)
{
	const ProjectRequest *what = t->what;
	const KernelGrid grid = request_grid(what);
	LEVEL(reference_kernels)
	[what->kernel][what->direction](what->plan, &grid, what->first + view, NULL, block,
		what->volume, view_row(t, view, 0));
}

/* The images of the voxels of a block that are their own. */
static void project_images(const TileView *t, const Box *block)
{
	Box image = *block, centre = *block;
	const int64_t n = t->circle->n;
	image.high[1] = min64(block->high[1], n / 2);
	for (int k = 0; k < IMAGES && image.low[1] < image.high[1]; k++) {
		project_reference(t, &image, circle_view(t->circle, t->view, k));
		const Box old = image;
		image.low[0] = n - old.high[1], image.high[0] = n - old.low[1];
		image.low[1] = old.low[0], image.high[1] = old.high[0];
	}
	for (int a = 0; a < 2; a++)
		centre.low[a] = n / 2;
	if (centre.low[0] < centre.high[0] && centre.low[1] < centre.high[1])
		project_reference(t, &centre, t->view);
}

/* Blocks near the source, or with a huge projection. */
static void project_plainly(const TileView *t, Box block)
{
	if (t->look.swapped)
		box_swap(&block);
	if (t->circle)
		project_images(t, &block);
	else
		project_reference(t, &block, t->view);
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

static void project_tile(TileView *t, TileKernel kernel, const Box *tile, int64_t view)
{
	const Plan *plan = t->what->plan;
	Box left[16] = {*tile};
	t->view = view;
	t->steeper = t->what->direction == FORWARD &&
		     steeper_along_x(&plan->views[t->what->first + view], tile);
	bool swapped = t->steeper && !t->circle;
	t->look =
		look_at(plan, t->what->first + view, swapped, t->what->kernel == KERNEL_footprint);
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
			kernel(t, &block, &cells);
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
	TileKernel kernel;
	int64_t together; /* views of a task */
} Work;

static const int64_t cube[3] = {TILE, TILE, TILE};

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
	const Work *work = user;
	const ProjectRequest *what = work->what;
	Box tile = box_tile(&what->box, cube, index);
	int64_t wide = tile.high[0] - tile.low[0], deep = tile.high[1] - tile.low[1];
	TileVoxels sums;
	float window[4 * (MOST_CELLS + LANES)];
	TileView t = {.what = what, .voxels = sums[0][0], .window = window};
	memset(sums, 0, sizeof sums);
	for (int64_t view = 0; view < what->count && !cancel_seen(); view++)
		project_tile(&t, work->kernel, &tile, view);
	for (int64_t z = 0; z < tile.high[2] - tile.low[2]; z++) {
		float rows[TILE][TILE];
		transpose_tile(sums[z][0], TILE, rows[0], TILE, TILE, TILE);
		for (int64_t y = 0; y < deep; y++) {
			float *row =
				request_voxel(what, tile.low[0], tile.low[1] + y, tile.low[2] + z);
			for (int64_t x = 0; x < wide; x++)
				row[x] += rows[y][x];
		}
	}
}

/* Copies a tile of the volume to [z][x][y] and [z][y][x]. */
static void take_tile(const ProjectRequest *what, const Box *tile, TileVoxels values[2])
{
	int64_t wide = tile->high[0] - tile->low[0], deep = tile->high[1] - tile->low[1];
	for (int64_t z = 0; z < tile->high[2] - tile->low[2]; z++) {
		for (int64_t y = 0; y < deep; y++) {
			float *to = values[1][z][y];
			memcpy(to,
				request_voxel(
					what, tile->low[0], tile->low[1] + y, tile->low[2] + z),
				(size_t)wide * sizeof *to);
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
	float window[4 * (MOST_CELLS + LANES)];
	TileView t = {.what = what, .voxels = values[0][0][0], .window = window};
	for (int64_t i = 0; i < box_tiles(&what->box, cube) && !cancel_seen(); i++) {
		Box tile = box_tile(&what->box, cube, i);
		take_tile(what, &tile, values);
		for (int64_t view = first; view < end; view++)
			project_tile(&t, work->kernel, &tile, view);
	}
}

tomos_status LEVEL(tiles_project)(const ProjectRequest *what, TileKernel kernel)
{
	/* Forward: up to 8 views for each copy of a tile; fewer if a thread would have fewer than
	 * four groups of views. */
	Work work = {what, kernel, limit(what->count / (4 * tomos_threads()), 1, 8)};
	if (what->direction == FORWARD)
		parallel_for(parts(what->count, work.together), forward_views, &work);
	else
		parallel_for(box_tiles(&what->box, cube), back_tile, &work);
	return TOMOS_OK;
}

/* ---- circles --------------------------------------------------------------------------------- */

enum { SLICES = TILE / 2 }; /* of a tile */

/* What a thread has: the quads of a tile, and a window. */
typedef struct {
	float voxels[SLICES * TILE * TILE * IMAGES], window[IMAGES * 4 * (MOST_CELLS + LANES)];
} CircleRoom;

typedef struct {
	const ProjectRequest *what;
	TileKernel kernel;
	Circle circle;
	CircleRoom *rooms; /* one for each thread */
	int64_t together;  /* sets of views of a task, forward */
	int64_t tasks;
	_Atomic int64_t next;
} CircleWork;

static const int64_t circle_tile[3] = {TILE, TILE, SLICES};
static const int64_t quad_stride[3] = {TILE * IMAGES, IMAGES, TILE *TILE *IMAGES};

static void circle_back(const CircleWork *work, int64_t index, TileView *t)
{
	const ProjectRequest *what = work->what;
	const Box tile = box_tile(&work->circle.box, circle_tile, index);
	memset(t->voxels, 0, sizeof work->rooms->voxels);
	for (int64_t view = 0; view < what->count && !cancel_seen(); view++)
		project_tile(t, work->kernel, &tile, view);
	LEVEL(circle_give)(what, &work->circle, &tile, t->voxels, quad_stride);
}

/* Some sets of views. */
static void circle_forward(const CircleWork *work, int64_t index, TileView *t)
{
	const Box *box = &work->circle.box;
	const int64_t views = work->circle.views, first = index * work->together;
	for (int64_t i = 0; i < box_tiles(box, circle_tile) && !cancel_seen(); i++) {
		const Box tile = box_tile(box, circle_tile, i);
		memset(t->voxels, 0, sizeof work->rooms->voxels);
		LEVEL(circle_take)(work->what, &work->circle, &tile, t->voxels, quad_stride);
		for (int64_t set = first; set < min64(first + work->together, views); set++)
			for (int k = 0; k < IMAGES; k++)
				project_tile(t, work->kernel, &tile, set + k * views);
	}
}

static void circle_some(void *user, int64_t slot)
{
	CircleWork *work = user;
	CircleRoom *room = &work->rooms[slot];
	TileView t = {.what = work->what,
		.circle = &work->circle,
		.voxels = room->voxels,
		.window = room->window};
	for (int64_t i; (i = atomic_fetch_add(&work->next, 1)) < work->tasks;)
		if (work->what->direction == FORWARD)
			circle_forward(work, i, &t);
		else
			circle_back(work, i, &t);
}

bool LEVEL(tiles_circle_apply)(const ProjectRequest *what)
{
	Circle circle;
	return circle_of(what, &circle) &&
	       (what->direction == ADJOINT || circle.views >= LEAST_SETS);
}

tomos_status LEVEL(tiles_circle)(const ProjectRequest *what, TileKernel kernel)
{
	CircleWork work = {.what = what, .kernel = kernel};
	circle_of(what, &work.circle);
	work.together = limit(work.circle.views / (4 * tomos_threads()), 1, 4);
	work.tasks = what->direction == FORWARD ? parts(work.circle.views, work.together)
						: box_tiles(&work.circle.box, circle_tile);
	int64_t threads = min64(tomos_threads(), work.tasks);
	TRY(mem_alloc(&work.rooms, threads, sizeof *work.rooms, "tiles of the volume"));
	parallel_for(threads, circle_some, &work);
	mem_free(work.rooms);
	return TOMOS_OK;
}
