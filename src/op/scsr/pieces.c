/* Stored rays in the form that devices use: pieces in bundles, slab by slab (kernel/stored.h). */
#include "op/scsr/scsr.h"

enum { PIECES_PER_TASK = 256 };

static const char what[] = "the pieces of rays";

/* Origin of a piece: the long (0) or short (1) row of pair p of a group. */
typedef struct {
	int32_t group;
	int16_t p, which;
} Source;

typedef struct {
	const ScsrRows *rows;
	const KernelSlabs *of;
	ScsrPieces *pieces;
	Source *sources;
	uint16_t *index;
	float *weight;
	int32_t *column;
} Listing;

/* ---- the list of pieces ---------------------------------------------------------------------- */

/* Column at which pair p of a group changes to its short row. */
static int64_t turn_of(const ScsrRows *r, const Group *group, int p)
{
	int64_t t = group->one;
	while (t < group->two && !(r->masks[group->masks + t - group->one] >> p & 1))
		t++;
	return t;
}

/* Columns [from, to) of the group's matrix that the piece occupies, without padding. */
static void span_of(const ScsrRows *r, const Source *source, int64_t *from, int64_t *to)
{
	const Group *group = &r->group[source->group];
	int64_t turn = turn_of(r, group, source->p);
	*from = source->which ? turn : 0;
	*to = source->which ? group->width : turn;
	while (*to > *from + 1 && r->weight[group->at + (*to - 1) * group->pairs + source->p] == 0)
		--*to;
}

static void add_piece(const Listing *l, int64_t group, int p, int which)
{
	ScsrPieces *pieces = l->pieces;
	Source *source = &l->sources[pieces->count];
	int32_t column = l->rows->column[2 * (l->rows->group[group].pair + p) + which];
	int64_t from, to;
	if (column < 0)
		return;
	*source = (Source){(int32_t)group, (int16_t)p, (int16_t)which};
	span_of(l->rows, source, &from, &to);
	int64_t bundles = (to - from + STORED_BUNDLE - 1) / STORED_BUNDLE;
	pieces->list[pieces->count++] = (KernelPiece){pieces->bundles, (int)bundles, column};
	pieces->bundles += bundles;
}

/* Adds the pieces of groups [low, high) as one wave, in descending length: first the long rows,
 * then the short ones in reverse order. */
static void add_wave(const Listing *l, int64_t low, int64_t high)
{
	const Group *group = l->rows->group;
	l->pieces->first_piece[l->pieces->waves++] = l->pieces->count;
	for (int64_t g = low; g < high; g++)
		for (int p = 0; p < group[g].pairs; p++)
			add_piece(l, g, p, 0);
	for (int64_t g = high - 1; g >= low; g--)
		for (int p = group[g].pairs - 1; p >= 0; p--)
			add_piece(l, g, p, 1);
}

static void add_cell(const Listing *l, int64_t cell)
{
	const ScsrRows *r = l->rows;
	int64_t low = r->first_group[cell], end = r->first_group[cell + 1];
	l->pieces->first_wave[cell] = l->pieces->waves;
	while (low < end) {
		int64_t high = low + 1;
		while (high < end && !r->group[high].opens)
			high++;
		add_wave(l, low, high);
		low = high;
	}
}

static int64_t count_waves(const ScsrRows *r)
{
	int64_t count = 0;
	for (int64_t i = 0; i < r->groups; i++)
		count += r->group[i].opens;
	return count;
}

static tomos_status list_pieces(Listing *l)
{
	const ScsrRows *r = l->rows;
	ScsrPieces *pieces = l->pieces;
	int64_t cells = r->slabs * r->orbits, waves = count_waves(r);
	TRY(mem_alloc(&l->sources, 2 * r->pairs, sizeof *l->sources, what));
	TRY(mem_alloc(&pieces->list, 2 * r->pairs + 1, sizeof *pieces->list, what));
	TRY(mem_alloc(&pieces->first_piece, waves + 1, sizeof *pieces->first_piece, what));
	TRY(mem_alloc(&pieces->first_wave, cells + 1, sizeof *pieces->first_wave, what));
	for (int64_t cell = 0; cell < cells; cell++)
		add_cell(l, cell);
	pieces->list[pieces->count] = (KernelPiece){.bundle = pieces->bundles};
	pieces->first_piece[waves] = pieces->count;
	pieces->first_wave[cells] = waves;
	return TOMOS_OK;
}

/* ---- entries of pieces ----------------------------------------------------------------------- */

/* Padding repeats the last pixel with weight 0. */
static void fill_piece(const Listing *l, int64_t piece)
{
	const ScsrRows *r = l->rows;
	const KernelPiece *to = &l->pieces->list[piece];
	const Source *source = &l->sources[piece];
	const Group *group = &r->group[source->group];
	int64_t from, end;
	span_of(r, source, &from, &end);
	for (int64_t e = 0; e < to->bundles * STORED_BUNDLE; e++) {
		int64_t at = group->at + min64(from + e, end - 1) * group->pairs + source->p;
		int64_t x = r->index[at] % r->nx, y = r->index[at] / r->nx;
		int64_t place = (to->bundle + e / STORED_BUNDLE) * STORED_BUNDLE +
				stored_place((int)(e % STORED_BUNDLE));
		l->index[place] = (uint16_t)slab_pixel(
			l->of, (int)(x % r->slab_width), (int)(y % r->slab_size));
		l->weight[place] = from + e < end ? r->weight[at] : 0;
	}
	for (int64_t i = 0; i < to->bundles; i++)
		l->column[to->bundle + i] = to->column;
}

static void fill_task(void *user, int64_t task)
{
	const Listing *l = user;
	int64_t end = min64((task + 1) * PIECES_PER_TASK, l->pieces->count);
	for (int64_t i = task * PIECES_PER_TASK; i < end; i++)
		fill_piece(l, i);
}

static tomos_status send_bundles(Listing *l, KernelScsr *device, tomos_backend *backend)
{
	int64_t bundles = l->pieces->bundles, count = bundles * STORED_BUNDLE;
	TRY(mem_alloc(&l->index, count, sizeof *l->index, what));
	TRY(mem_alloc(&l->weight, count, sizeof *l->weight, what));
	TRY(mem_alloc(&l->column, bundles, sizeof *l->column, what));
	TRY(parallel_try((l->pieces->count + PIECES_PER_TASK - 1) / PIECES_PER_TASK, fill_task, l,
		"the matrix"));
	TRY(device_send(backend, &device->index, l->index, bundles,
		STORED_BUNDLE * sizeof *l->index, what));
	TRY(device_send(backend, &device->weight, l->weight, count, sizeof *l->weight, what));
	TRY(device_send(backend, &device->column, l->column, bundles, sizeof *l->column, what));
	return device_send(backend, &device->pieces, l->pieces->list, l->pieces->count,
		sizeof *l->pieces->list, what);
}

/* ---- the pieces of each row ------------------------------------------------------------------ */

/* The stored row of a piece; cell: slab * orbits + orbit. */
static int64_t row_of(const Symmetries *s, int64_t cell, const KernelPiece *piece)
{
	return s->orbits[cell % s->orbit_count].first + piece->column;
}

/* Lists the pieces of each row. While places are filled in, row i begins at first[i + 1];
 * afterwards at first[i]. */
static void fill_places(const ScsrRows *r, const Symmetries *s, int64_t *first, KernelPlace *places)
{
	const ScsrPieces *pieces = &r->pieces;
	for (int64_t pass = 0; pass < 2; pass++) {
		for (int64_t cell = 0; cell < r->slabs * r->orbits; cell++)
			for (int64_t i = pieces->first_piece[pieces->first_wave[cell]];
				i < pieces->first_piece[pieces->first_wave[cell + 1]]; i++) {
				int64_t *at = &first[row_of(s, cell, &pieces->list[i]) + 1];
				if (pass == 1)
					places[*at] =
						(KernelPlace){(int)i, (int)(cell / r->orbits)};
				++*at;
			}
		for (int64_t row = 0, sum = 0; pass == 0 && row < r->rows; row++) {
			int64_t count = first[row + 1];
			first[row + 1] = sum;
			sum += count;
		}
	}
}

static tomos_status send_places(
	const ScsrRows *r, const Symmetries *s, KernelScsr *device, tomos_backend *backend)
{
	int64_t *first = NULL;
	KernelPlace *places = NULL;
	tomos_status status;
	TRY_OR_DONE(mem_zeroed(&first, r->rows + 1, sizeof *first, what));
	TRY_OR_DONE(mem_alloc(&places, r->pieces.count, sizeof *places, what));
	fill_places(r, s, first, places);
	TRY_OR_DONE(device_send(
		backend, &device->places, places, r->pieces.count, sizeof *places, what));
	TRY_OR_DONE(device_send(
		backend, &device->first_place, first, r->rows + 1, sizeof *first, what));
done:
	mem_free(first);
	mem_free(places);
	return status;
}

tomos_status scsr_send_pieces(ScsrRows *rows, const Symmetries *s, tomos_backend *backend)
{
	KernelScsr *device = &rows->device;
	Listing l = {.rows = rows, .of = &device->of, .pieces = &rows->pieces};
	tomos_status status;
	TRY_OR_DONE(list_pieces(&l));
	TRY_OR_DONE(send_bundles(&l, device, backend));
	TRY_OR_DONE(send_places(rows, s, device, backend));
done:
	mem_free(l.sources);
	mem_free(l.index);
	mem_free(l.weight);
	mem_free(l.column);
	return status;
}
