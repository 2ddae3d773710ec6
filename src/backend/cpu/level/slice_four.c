/* Voxel-driven back projection of in-slice parallel rays, one slice at a time, in rows of four
 * pixels (four.h), with LANES rows in the SIMD lanes.
 *
 * The order of additions is that of stack_back.c, so that a slice gets the same bits in either
 * kernel.
 */
#include "backend/cpu/level/four.h"
#include "backend/cpu/level/stretch.h"

enum { TILE = 32, SCRATCH_FLOATS = 4 << 20 };

typedef struct {
	const ProjectRequest *what;
	Frame f;
	int64_t slice, first, count; /* views of this pass */
	int64_t stride;
	float *samples; /* detector rows of the views, padded with zeros and weighted */
	Fours *fours;
	int64_t *order;
} Pass;

/* A tile: pixels [low, low + n) along p and q. sums: [q][p] (axis 1), or [p][q] where the rows of
 * four pixels are along p (axis 0). */
typedef struct {
	int64_t low[2], n[2];
	int axis;
	_Alignas(64) float sums[TILE][TILE];
} Tile;

static void pass_fill(void *user, int64_t i)
{
	const Pass *pass = user;
	const Plan *plan = pass->what->plan;
	const Fours *l = &pass->fours[i];
	int64_t view = pass->order[pass->first + i], columns = plan->model.columns, row;
	float *to = pass->samples + i * pass->stride;
	memset(to, 0, (size_t)pass->stride * sizeof *to);
	if (!row_of_slice(plan, &pass->f, &plan->views[pass->what->first + view],
		    pass->what->box.low[pass->f.w] + pass->slice, &row))
		return;
	const float *from = pass->what->projections + (view * plan->model.rows + row) * columns;
	for (int64_t c = 0; c < columns; c++)
		to[PAD + (l->flip ? columns - 1 - c : c)] = l->weight * from[c];
}

/* Adds views [first, first + views) to LANES rows of four pixels, neighbours across the rows;
 * `other`, `row`: indices of the first pixel across and along them. */
INLINE void take(const Pass *pass, int64_t first, int64_t views, int64_t other, int64_t row,
	const int kind, float (*sums)[TILE])
{
	FourSums sum = {0};
	const float *samples = pass->samples + first * pass->stride + PAD;
	int64_t columns = pass->what->plan->model.columns;
	for (const Fours *l = pass->fours + first; l < pass->fours + first + views; l++) {
		vf weight[FOUR_WEIGHTS], sample[FOUR_COLUMNS], bend[FOUR_BENDS];
		int64_t start = fours_start(l, other, row);
		vi at = fours_weigh(l, start, kind, weight);
		const float *window = samples + limit(start >> FRACTION_BITS, -PAD, columns);
		for (int c = 0; c < four_columns(kind); c++)
			sample[c] = vf_pick(window, at + c);
		four_line(&sum, sample, weight[0], vf_all(l->pitch), kind, bend);
		for (int k = 1, n = 1; k < FOUR; k++)
			for (int i = 0; i < four_bends(kind, k); i++)
				sum.bend[k - 1] += weight[n++] * bend[i];
		samples += pass->stride;
	}
	for (int k = 0; k < FOUR; k++)
		vf_store(sums[k], vf_load(sums[k]) + four_pixel(&sum, k));
}

INLINE void tile_take_kind(
	const Pass *pass, Tile *tile, int64_t first, int64_t views, const int kind)
{
	int b = tile->axis, a = 1 - b;
	for (int64_t j = 0; j < tile->n[b]; j += FOUR)
		for (int64_t i = 0; i < tile->n[a]; i += LANES)
			take(pass, first, views, tile->low[a] + i, tile->low[b] + j, kind,
				(float(*)[TILE])(tile->sums[j] + i));
}

static void tile_take(const Pass *pass, Tile *tile, int64_t first, int64_t views)
{
	FOUR_BY_KIND(pass->fours[first].kind, tile_take_kind, pass, tile, first, views);
}

/* Changes the layout of the sums to that of `axis`, in squares of LANES x LANES. */
static void tile_transpose(Tile *tile, int axis)
{
	if (tile->axis == axis)
		return;
	tile->axis = axis;
	for (int i = 0; i < TILE; i += LANES)
		for (int j = 0; j <= i; j += LANES) {
			vf one[LANES], two[LANES];
			for (int k = 0; k < LANES; k++) {
				one[k] = vf_load(tile->sums[i + k] + j);
				two[k] = vf_load(tile->sums[j + k] + i);
			}
			vf_transpose(one);
			vf_transpose(two);
			for (int k = 0; k < LANES; k++) {
				vf_store(tile->sums[j + k] + i, one[k]);
				vf_store(tile->sums[i + k] + j, two[k]);
			}
		}
}

/* Address in the volume of row y of the tile. */
static float *tile_row(const Pass *pass, const Tile *tile, int64_t y)
{
	const Frame *f = &pass->f;
	return pass->what->volume + pass->slice * f->per_slice + tile->low[0] * f->stride[0] +
	       (tile->low[1] + y) * f->stride[1];
}

static void tile_back(void *user, int64_t index)
{
	const Pass *pass = user;
	int64_t across = parts(pass->f.n[0], TILE), at[2] = {index % across, index / across};
	int64_t step = pass->f.stride[0];
	Tile tile = {.axis = 1};
	for (int a = 0; a < 2; a++) {
		tile.low[a] = at[a] * TILE;
		tile.n[a] = min64(TILE, pass->f.n[a] - tile.low[a]);
	}
	for (int64_t y = 0; y < tile.n[1]; y++)
		for (int64_t x = 0; x < tile.n[0]; x++)
			tile.sums[y][x] = tile_row(pass, &tile, y)[x * step];
	for (int64_t v = 0, views; v < pass->count; v += views) {
		views = fours_alike(pass->fours, v, pass->count);
		tile_transpose(&tile, pass->fours[v].axis);
		tile_take(pass, &tile, v, views);
	}
	tile_transpose(&tile, 1);
	for (int64_t y = 0; y < tile.n[1]; y++)
		for (int64_t x = 0; x < tile.n[0]; x++)
			tile_row(pass, &tile, y)[x * step] = tile.sums[y][x];
}

static void pass_run(Pass *pass, int64_t most)
{
	int64_t tiles = parts(pass->f.n[0], TILE) * parts(pass->f.n[1], TILE);
	for (pass->first = 0; pass->first < pass->what->count; pass->first += pass->count) {
		pass->count = LEVEL(fours_next)(
			pass->what, &pass->f, pass->order, pass->first, most, pass->fours);
		parallel_for(pass->count, pass_fill, pass);
		parallel_for(tiles, tile_back, pass);
	}
}

tomos_status LEVEL(slice_fours)(const ProjectRequest *what, const Frame *f)
{
	Pass pass = {.what = what, .f = *f, .stride = what->plan->model.columns + 2 * PAD + LANES};
	int64_t most = min64(what->count, max64(SCRATCH_FLOATS / pass.stride, FOUR_VIEWS));
	tomos_status status =
		mem_alloc(&pass.samples, most * pass.stride, sizeof(float), "rows of the views");
	if (status == TOMOS_OK)
		status = mem_alloc(&pass.fours, most, sizeof *pass.fours, "the views");
	if (status == TOMOS_OK)
		status = LEVEL(fours_order)(what, f, &pass.order);
	for (; status == TOMOS_OK && pass.slice < f->slices; pass.slice++)
		pass_run(&pass, most);
	mem_free(pass.samples);
	mem_free(pass.fours);
	mem_free(pass.order);
	return status;
}
