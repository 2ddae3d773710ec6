/* Back projection of many slices at a time, voxel-driven and as the adjoint of Joseph's method: the
 * views' samples lie [view][column][slice], and each row of pixels takes from some views at a time. */
#include "backend/cpu/level/stack_fan.h"

/* A tile's pixels share the samples of a few views while these are in the first cache. */
enum { TILE_ROWS = 16, TILE_WIDTH = 32 };

typedef struct {
	Stack s;
	int64_t first, count; /* views of this pass */
	int64_t stride;
	float *samples;
	Laying *layings;
} Pass;

static void pass_fill(void *user, int64_t view)
{
	const Pass *pass = user;
	const Stack *s = &pass->s;
	int64_t columns = s->what->plan->model.columns, pad = s->taps * s->wide;
	float *to = pass->samples + view * pass->stride;
	const Laying *l = &pass->layings[view];
	bool lengths = s->fans && s->what->kernel == KERNEL_joseph;
	memset(to, 0, (size_t)pad * sizeof *to);
	memset(to + pad + columns * s->wide, 0, (size_t)pad * sizeof *to);
	for (int64_t v = 0; v < s->wide; v += LANES) {
		Rows rows = rows_of_view(s, v, pass->first + view, 0);
		for (int64_t c = 0; c < columns; c += LANES) {
			vf weight = lengths   ? fan_lengths(s, &l->fan, c)
				    : s->fans ? vf_all(1)
					      : vf_all(l->weight);
			rows_turn(&rows, columns - c, weight, to + pad + c * s->wide + v, s->wide);
			for (int i = 0; i < LANES; i++)
				rows.row[i] += rows.row[i] ? LANES : 0;
		}
	}
}

INLINE void entries_fan(
	Entries *e, int term, const Stack *s, const Fan *fan, int64_t x, double y, const int taps)
{
	double low[2] = {(double)s->what->box.low[0], (double)s->what->box.low[1]};
	if (s->what->kernel == KERNEL_voxel)
		fan_entries_voxel(e, term, s, fan, (double)x + low[0], y + low[1]);
	else
		fan_entries_joseph(e, term, s, fan, (double)x + low[0], y + low[1], taps);
}

/* What views [first, first + count) give to LANES pixels of a row. */
INLINE void take(const Pass *pass, int64_t first, int count, int64_t x, double y, const int taps,
	const bool linear, float *sums)
{
	Entries e;
	int32_t columns = (int32_t)pass->s.what->plan->model.columns;
	for (int i = 0; i < count; i++) {
		const Laying *l = &pass->layings[first + i];
		if (pass->s.fans)
			entries_fan(&e, i, &pass->s, &l->fan, x, y, taps);
		else
			entries_set(&e, i, l, laying_start(l, x, y), columns, taps, linear,
				(int32_t)pass->s.wide);
	}
	gather(&e, pass->samples + first * pass->stride, pass->stride, count, pass->s.wide, taps,
		linear, sums);
}

static void take_some(const Pass *pass, int64_t first, int count, int64_t x, double y, float *sums)
{
	if (pass->s.linear)
		take(pass, first, count, x, y, 2, true, sums);
	else if (pass->s.taps == 2)
		take(pass, first, count, x, y, 2, false, sums);
	else
		take(pass, first, count, x, y, pass->s.taps, false, sums);
}

/* LANES pixels of the volume from (x, y) on as sums, and back. */
static void pixels_load(const Stack *s, int64_t x, int64_t y, float *sums)
{
	for (int64_t v = 0; v < s->wide; v += LANES) {
		Rows rows = rows_of_volume(s, v, x, y);
		rows_turn(&rows, s->f.n[0] - x, vf_all(1), sums + v, s->wide);
	}
}

static void pixels_store(const Stack *s, int64_t x, int64_t y, const float *sums)
{
	for (int64_t v = 0; v < s->wide; v += LANES) {
		Rows rows = rows_of_volume(s, v, x, y);
		rows_turn_back(&rows, s->f.n[0] - x, false, vf_all(1), sums + v, s->wide);
	}
}

static void tile_back(void *user, int64_t index)
{
	const Pass *pass = user;
	const Stack *s = &pass->s;
	int64_t tiles = parts(s->f.n[0], TILE_WIDTH);
	int64_t x = index % tiles * TILE_WIDTH, y = index / tiles * TILE_ROWS;
	int64_t right = min64(x + TILE_WIDTH, s->f.n[0]), rows = min64(TILE_ROWS, s->f.n[1] - y);
	float sums[TILE_WIDTH / LANES][TILE_ROWS][LANES * GROUP];
	for (int64_t i = x; i < right; i += LANES)
		for (int64_t r = 0; r < rows; r++)
			pixels_load(s, i, y + r, sums[(i - x) / LANES][r]);
	for (int64_t v = 0; v < pass->count; v += TERMS)
		for (int64_t i = x; i < right; i += LANES)
			for (int64_t r = 0; r < rows; r++)
				take_some(pass, v, (int)min64(TERMS, pass->count - v), i,
					(double)(y + r), sums[(i - x) / LANES][r]);
	for (int64_t i = x; i < right; i += LANES)
		for (int64_t r = 0; r < rows; r++)
			pixels_store(s, i, y + r, sums[(i - x) / LANES][r]);
}

static void pass_run(Pass *pass, int64_t most)
{
	const Frame *f = &pass->s.f;
	int64_t count = pass->s.what->count;
	for (pass->first = 0; pass->first < count; pass->first += pass->count) {
		pass->count = min64(most, count - pass->first);
		for (int64_t i = 0; i < pass->count; i++)
			pass->layings[i] = LEVEL(stack_laying)(&pass->s, pass->first + i);
		parallel_for(pass->count, pass_fill, pass);
		parallel_for(
			parts(f->n[0], TILE_WIDTH) * parts(f->n[1], TILE_ROWS), tile_back, pass);
	}
}

tomos_status LEVEL(stack_back)(const Projecting *what)
{
	Pass pass = {0};
	if (!LEVEL(stack_find)(what, &pass.s))
		return fail(TOMOS_UNSUPPORTED, "the views do not stay in slices");
	pass.s.wide = GROUP;
	int64_t columns = what->plan->model.columns, room = stack_stride(&pass.s, columns);
	int64_t most = limit(SCRATCH_FLOATS / room, 1, what->count);
	TRY(mem_alloc(&pass.samples, most * room, sizeof(float), "columns of the views"));
	tomos_status status = mem_alloc(&pass.layings, most, sizeof *pass.layings, "the views");
	while (status == TOMOS_OK && LEVEL(stack_next)(&pass.s)) {
		pass.stride = stack_stride(&pass.s, columns);
		pass_run(&pass, most);
	}
	mem_free(pass.samples);
	mem_free(pass.layings);
	return status;
}
