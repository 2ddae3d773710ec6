/* Back projection of stacks of slices (stack.h), voxel-driven, of footprints and adjoint of Joseph.
 * The samples of a pass of views are copied to [view][column][slice]; pixels are then summed tile
 * by tile, over a few views at a time. */
#include "backend/cpu/level/four.h"
#include "backend/cpu/level/stack_fan.h"

/* Pixels along each side of a tile. The samples of a few views for a tile fit into the L2 cache. */
enum { TILE = 32 };

typedef struct {
	Stack s;
	int64_t first, count; /* views of this pass */
	int64_t stride;
	float *samples;
	Laying *layings;
	Fours *fours;   /* instead of layings, where rows of four pixels are used (four.h) */
	int64_t *order; /* order of the views for these; NULL: that of the request */
} Pass;

/* A tile: pixels [low, low + n) along p and q; sums: [y][x][slice]. */
typedef struct {
	int64_t low[2], n[2], row; /* floats from row to row */
	float sums[TILE * TILE * GROUP];
} Tile;

/* Copies one view, weighted and zero padded, to the samples of the pass. */
static void pass_fill(void *user, int64_t view)
{
	const Pass *pass = user;
	const Stack *s = &pass->s;
	int64_t columns = s->what->plan->model.columns, pad = s->taps * s->wide;
	int64_t place = pass->first + view, from = pass->order ? pass->order[place] : place;
	float *to = pass->samples + view * pass->stride;
	vf height = vf_all(pass->fours ? pass->fours[view].weight
			   : s->fans   ? 1
				       : pass->layings[view].weight);
	bool flip = pass->fours && pass->fours[view].flip;
	bool lengths = s->fans && s->what->kernel == KERNEL_joseph;
	memset(to, 0, (size_t)pad * sizeof *to);
	memset(to + pad + columns * s->wide, 0, (size_t)pad * sizeof *to);
	for (int64_t v = 0; v < s->wide; v += LANES) {
		Rows rows = rows_of_view(s, v, from, 0);
		for (int64_t c = 0; c < columns; c += LANES) {
			int64_t at = flip ? columns - 1 - c : c;
			rows_transpose(&rows, columns - c,
				lengths ? fan_lengths(s, &pass->layings[view].fan, c) : height,
				to + pad + at * s->wide + v, flip ? -s->wide : s->wide);
			for (int i = 0; i < LANES; i++)
				if (rows.row[i])
					rows.row[i] += LANES;
		}
	}
}

/* ---- LANES pixels of a row at a time --------------------------------------------------------- */

/* Entries of LANES pixels from (x, y) of the box on, in a view with fans. */
INLINE void entries_fan(
	Entries *e, int term, const Stack *s, const Fan *fan, int64_t x, double y, const int taps)
{
	double low[2] = {(double)s->what->box.low[0], (double)s->what->box.low[1]};
	if (s->what->kernel == KERNEL_voxel)
		fan_entries_voxel(e, term, s, fan, (double)x + low[0], y + low[1]);
	else if (s->footprint)
		fan_entries_footprint(e, term, s, fan, (double)x + low[0], y + low[1], taps);
	else
		fan_entries_joseph(e, term, s, fan, (double)x + low[0], y + low[1], taps);
}

/* Adds views [first, first + count) of the pass to LANES pixels from (x, y) on; sums:
 * [pixel][slice]. */
INLINE void take(const Pass *pass, int64_t first, int count, int64_t x, double y, const int taps,
	const bool linear, const bool footprint, float *sums)
{
	Entries e;
	int32_t columns = (int32_t)pass->s.what->plan->model.columns;
	for (int i = 0; i < count; i++) {
		const Laying *l = &pass->layings[first + i];
		if (pass->s.fans)
			entries_fan(&e, i, &pass->s, &l->fan, x, y, taps);
		else
			entries_set(&e, i, l, laying_start(l, x, y), columns, taps, linear,
				footprint, (int32_t)pass->s.wide);
	}
	gather(&e, pass->samples + first * pass->stride, pass->stride, count, pass->s.wide, taps,
		linear, sums);
}

static void take_some(const Pass *pass, int64_t first, int count, int64_t x, double y, float *sums)
{
	if (pass->s.linear)
		take(pass, first, count, x, y, 2, true, false, sums);
	else if (pass->s.footprint && pass->s.taps == 3)
		take(pass, first, count, x, y, 3, false, true, sums);
	else if (pass->s.footprint)
		take(pass, first, count, x, y, pass->s.taps, false, true, sums);
	else if (pass->s.taps == 2)
		take(pass, first, count, x, y, 2, false, false, sums);
	else
		take(pass, first, count, x, y, pass->s.taps, false, false, sums);
}

static void tile_take(const Pass *pass, Tile *tile, int64_t first, int count)
{
	for (int64_t x = 0; x < tile->n[0]; x += LANES)
		for (int64_t y = 0; y < tile->n[1]; y++)
			take_some(pass, first, count, tile->low[0] + x, (double)(tile->low[1] + y),
				tile->sums + y * tile->row + x * pass->s.wide);
}

/* ---- four pixels at a time ------------------------------------------------------------------- */

/* For LANES rows of four pixels in one view: the offset in floats of the first sample, and the
 * weights (see fours_weigh). */
typedef struct {
	_Alignas(64) int32_t offset[LANES];
	float weight[FOUR_WEIGHTS][LANES];
} FourEntries;

INLINE void fours_set(
	FourEntries *e, const Stack *s, const Fours *l, int64_t other, int64_t row, const int kind)
{
	vf weight[FOUR_WEIGHTS];
	int64_t start = fours_start(l, other, row);
	vi at = fours_weigh(l, start, kind, weight) + (int32_t)(start >> FRACTION_BITS);
	int32_t n = (int32_t)s->what->plan->model.columns;
	vi offset = (vi_limit(at, -FOUR_COLUMNS, n) + FOUR_COLUMNS) * (int32_t)s->wide;
	memcpy(e->offset, &offset, sizeof offset);
	for (int w = 0; w < four_weights(kind); w++)
		vf_store(e->weight[w], weight[w]);
}

/* Adds `views` views to the row of four pixels in one lane of the entries, for `vectors` vectors of
 * slices. `apart`: floats from one pixel of the row to the next in `sums`. */
INLINE void four_gather(const FourEntries *e, const Fours *l, int lane, const float *samples,
	int64_t stride, int views, int64_t wide, const int kind, const int vectors, float *sums,
	int64_t apart)
{
	FourSums sum[2] = {0};
	for (int t = 0; t < views; t++, samples += stride) {
		const float *at = samples + e[t].offset[lane];
		vf sample[FOUR_COLUMNS], bend[2][FOUR_BENDS];
		for (int v = 0; v < vectors; v++) {
			for (int c = 0; c < four_columns(kind); c++)
				sample[c] = vf_keep(vf_load(at + c * wide + v * LANES));
			four_line(&sum[v], sample, vf_all(e[t].weight[0][lane]), vf_all(l[t].pitch),
				kind, bend[v]);
		}
		for (int k = 1, n = 1; k < FOUR; k++)
			for (int i = 0; i < four_bends(kind, k); i++, n++) {
				vf weight = vf_all(e[t].weight[n][lane]);
				for (int v = 0; v < vectors; v++)
					sum[v].bend[k - 1] += weight * bend[v][i];
			}
	}
	for (int k = 0; k < FOUR; k++)
		for (int v = 0; v < vectors; v++) {
			float *to = sums + k * apart + v * LANES;
			vf_store(to, vf_load(to) + four_pixel(&sum[v], k));
		}
}

/* Adds `views` views from `first` on to `count` rows of four pixels, neighbours across the row.
 * `other` and `row` are the indices of the first pixel across and along the rows; in `sums` the
 * rows are `next` floats apart, the pixels of a row `apart`. */
INLINE void take_fours(const Pass *pass, int64_t first, int views, int64_t other, int64_t row,
	int64_t count, const int kind, float *sums, int64_t next, int64_t apart)
{
	FourEntries e[FOUR_VIEWS];
	const Fours *l = pass->fours + first;
	const float *samples = pass->samples + first * pass->stride;
	int64_t stride = pass->stride, wide = pass->s.wide;
	for (int i = 0; i < views; i++)
		fours_set(&e[i], &pass->s, &l[i], other, row, kind);
	for (int r = 0; r < count; r++, sums += next)
		if (wide == GROUP)
			for (int v = 0; v < GROUP; v += 2 * LANES)
				four_gather(e, l, r, samples + v, stride, views, GROUP, kind, 2,
					sums + v, apart);
		else
			for (int v = 0; v < wide; v += LANES)
				four_gather(e, l, r, samples + v, stride, views, wide, kind, 1,
					sums + v, apart);
}

INLINE void tile_take_kind(const Pass *pass, Tile *tile, int64_t first, int views, const int kind)
{
	int b = pass->fours[first].axis, a = 1 - b;
	int64_t step[2] = {pass->s.wide, tile->row};
	for (int64_t i = 0; i < tile->n[a]; i += LANES)
		for (int64_t j = 0; j < tile->n[b]; j += FOUR)
			take_fours(pass, first, views, tile->low[a] + i, tile->low[b] + j,
				min64(LANES, tile->n[a] - i), kind,
				tile->sums + i * step[a] + j * step[b], step[a], step[b]);
}

static void tile_take_fours(const Pass *pass, Tile *tile, int64_t first, int views)
{
	FOUR_BY_KIND(pass->fours[first].kind, tile_take_kind, pass, tile, first, views);
}

/* ---- tiles ----------------------------------------------------------------------------------- */

static void tile_load(const Stack *s, int64_t index, Tile *tile)
{
	int64_t across = parts(s->f.n[0], TILE), at[2] = {index % across, index / across};
	for (int a = 0; a < 2; a++) {
		tile->low[a] = at[a] * TILE;
		tile->n[a] = min64(TILE, s->f.n[a] - tile->low[a]);
	}
	tile->row = TILE * s->wide;
	if (tile->n[0] < TILE || tile->n[1] < TILE)
		memset(tile->sums, 0, sizeof tile->sums);
	for (int64_t y = 0; y < tile->n[1]; y++)
		for (int64_t x = 0; x < tile->n[0]; x += LANES)
			for (int64_t v = 0; v < s->wide; v += LANES) {
				Rows rows =
					rows_of_volume(s, v, tile->low[0] + x, tile->low[1] + y);
				rows_transpose(&rows, tile->n[0] - x, vf_all(1),
					tile->sums + y * tile->row + x * s->wide + v, s->wide);
			}
}

static void tile_store(const Stack *s, const Tile *tile)
{
	for (int64_t y = 0; y < tile->n[1]; y++)
		for (int64_t x = 0; x < tile->n[0]; x += LANES)
			for (int64_t v = 0; v < s->wide; v += LANES) {
				Rows rows =
					rows_of_volume(s, v, tile->low[0] + x, tile->low[1] + y);
				rows_transpose_back(&rows, tile->n[0] - x, false, vf_all(1),
					tile->sums + y * tile->row + x * s->wide + v, s->wide);
			}
}

static void tile_back(void *user, int64_t index)
{
	const Pass *pass = user;
	Tile tile;
	tile_load(&pass->s, index, &tile);
	for (int64_t v = 0, some; v < pass->count; v += some) {
		some = pass->fours ? fours_alike(pass->fours, v, pass->count)
				   : min64(TERMS, pass->count - v);
		(pass->fours ? tile_take_fours : tile_take)(pass, &tile, v, (int)some);
	}
	tile_store(&pass->s, &tile);
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* Sets up the next views, at most `most`. */
static void pass_lay(Pass *pass, int64_t most)
{
	const Stack *s = &pass->s;
	if (pass->fours) {
		pass->count = LEVEL(fours_next)(
			s->what, &s->f, pass->order, pass->first, most, pass->fours);
		return;
	}
	pass->count = min64(most, s->what->count - pass->first);
	for (int64_t i = 0; i < pass->count; i++)
		pass->layings[i] = LEVEL(stack_laying)(s, pass->first + i);
}

static void pass_run(Pass *pass, int64_t most)
{
	const Frame *f = &pass->s.f;
	for (pass->first = 0; pass->first < pass->s.what->count; pass->first += pass->count) {
		pass_lay(pass, most);
		parallel_for(pass->count, pass_fill, pass);
		parallel_for(parts(f->n[0], TILE) * parts(f->n[1], TILE), tile_back, pass);
	}
}

/* Allocates buffers for passes of up to `most` views. */
static tomos_status pass_make(Pass *pass, bool fours, int64_t most, int64_t floats)
{
	TRY(mem_alloc(&pass->samples, most * floats, sizeof(float), "columns of the views"));
	if (!fours)
		return mem_alloc(&pass->layings, most, sizeof *pass->layings, "the views");
	TRY(mem_alloc(&pass->fours, most, sizeof *pass->fours, "the views"));
	return LEVEL(fours_order)(pass->s.what, &pass->s.f, &pass->order);
}

tomos_status LEVEL(stack_back)(const ProjectRequest *what)
{
	Pass pass = {0};
	if (!LEVEL(stack_find)(what, &pass.s))
		return fail(TOMOS_UNSUPPORTED, "the rays are not in slices");
	bool fours = !pass.s.fans && LEVEL(fours_apply)(what, &pass.s.f);
	if (fours)
		pass.s.taps = FOUR_COLUMNS;
	pass.s.wide = GROUP;
	int64_t columns = what->plan->model.columns, floats = stack_stride(&pass.s, columns);
	int64_t most = min64(what->count, max64(SCRATCH_FLOATS / floats, FOUR_VIEWS));
	tomos_status status = pass_make(&pass, fours, most, floats);
	while (status == TOMOS_OK && LEVEL(stack_next)(&pass.s)) {
		pass.stride = stack_stride(&pass.s, columns);
		pass_run(&pass, most);
	}
	mem_free(pass.samples);
	mem_free(pass.layings);
	mem_free(pass.fours);
	mem_free(pass.order);
	return status;
}
