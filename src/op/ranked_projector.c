/* The projector of a scan whose volume is distributed over ranks in slabs.
 *
 * Forward: a rank projects its slab to the band of rows that this reaches, sends the rows that
 * others own to them, and adds what it receives, always in the same order. Adjoint: the rows go the
 * other way, and each rank back projects its band.
 */
#include <stdio.h>
#include <string.h>
#include "op/ranked_parts.h"

/* Rows of a view that this rank and another have in common; numbered within what each stores. */
typedef struct {
	int rank;
	int64_t view;
	int64_t band, own; /* first row in the band of this rank, or among the rows it owns */
	int64_t count;
} Stretch;

typedef struct {
	Stretch *list; /* in the order of the ranks */
	int64_t count, capacity;
	int64_t rows; /* of all */
	float *host;  /* for these rows */
} Stretches;

typedef struct {
	Plan plan; /* the whole grid; views limited to the band */
	int forward, back;
	Box box;
	int64_t rows;      /* of the band in each view */
	float *band;       /* in the memory of the backend */
	float *scratch;    /* likewise, if that is not the host's: for the longest stretch */
	Stretches reached; /* rows of the band, with their owners; of this rank among them */
	Stretches owned;   /* rows that this rank owns and others reach */
} RankedProjector;

/* ---- rows ----------------------------------------------------------------------------------- */

int64_t ranked_rows(const Bands *b, int rank, RowBand *all)
{
	int64_t most = 0;
	*all = (RowBand){b->scan->rows, 0};
	for (int64_t i = 0; i < b->scan->count; i++) {
		const RowBand own = bands_own(b, rank, i);
		most = max64(most, own.high - own.low);
		if (own.low < own.high)
			*all = (RowBand){min64(all->low, own.low), max64(all->high, own.high)};
	}
	if (all->low >= all->high)
		*all = (RowBand){0, 1};
	return max64(most, 1);
}

void ranked_pack(const Bands *b, int rank, RowBand all, float *rows)
{
	RowBand whole;
	int64_t most = ranked_rows(b, rank, &whole), columns = b->scan->columns;
	for (int64_t i = 0; i < b->scan->count; i++) {
		const RowBand own = bands_own(b, rank, i);
		int64_t count = own.high - own.low;
		float *to = rows + i * most * columns;
		const float *from = rows + (i * (all.high - all.low) + own.low - all.low) * columns;
		if (count > 0)
			memmove(to, from, (size_t)(count * columns) * sizeof *to);
		memset(to + count * columns, 0, (size_t)((most - count) * columns) * sizeof *to);
	}
}

/* First row of the band in each view, and its rows: the same ones in all views, unless these are
 * many more than the largest view needs, as with a helix. */
static int64_t find_band(const Bands *b, int rank, int64_t *first)
{
	int64_t most = 1, low = b->scan->rows, high = 0, rows;
	for (int64_t i = 0; i < b->scan->count; i++) {
		const RowBand reach = bands_reach(b, rank, i);
		first[i] = reach.low;
		most = max64(most, reach.high - reach.low);
		if (reach.low < reach.high)
			low = min64(low, reach.low), high = max64(high, reach.high);
	}
	low = low < high ? low : 0;
	rows = max64(1, high - low);
	bool same = 3 * rows <= 4 * most;
	for (int64_t i = 0; i < b->scan->count; i++)
		first[i] = same ? low : min64(first[i], b->scan->rows - most);
	return same ? rows : most;
}

/* ---- construction --------------------------------------------------------------------------- */

static tomos_status add_stretch(Stretches *s, const Stretch *one)
{
	if (one->count == 0)
		return TOMOS_OK;
	TRY(mem_grow(&s->list, s->count, &s->capacity, sizeof *s->list, "rows of other ranks"));
	s->list[s->count++] = *one;
	s->rows += one->count;
	return TOMOS_OK;
}

/* What this rank and rank `other` exchange in a view. */
static tomos_status add_view(
	RankedProjector *p, const Bands *b, int rank, int other, int64_t view, int64_t first)
{
	const RowBand own = bands_own(b, rank, view);
	const RowBand out = band_meet(bands_reach(b, rank, view), bands_own(b, other, view));
	const RowBand in = band_meet(bands_reach(b, other, view), own);
	const Stretch reached = {
		other, view, out.low - first, out.low - own.low, out.high - out.low};
	const Stretch owned = {other, view, in.low - first, in.low - own.low, in.high - in.low};
	TRY(add_stretch(&p->reached, &reached));
	return other == rank ? TOMOS_OK : add_stretch(&p->owned, &owned);
}

static tomos_status find_stretches(
	RankedProjector *p, const Bands *b, int rank, const int64_t *first)
{
	for (int other = 0; other < b->ranks; other++)
		for (int64_t i = 0; i < b->scan->count; i++)
			TRY(add_view(p, b, rank, other, i, first[i]));
	return TOMOS_OK;
}

static tomos_status crop_scan(
	const Bands *b, const int64_t *first, int64_t rows, tomos_geometry **scan)
{
	const tomos_geometry *g = b->scan;
	TRY(tomos_geometry_views(scan, g->rows, g->columns, g->views, g->count));
	(*scan)->rows = rows;
	for (int64_t i = 0; i < g->count; i++)
		view_slide(
			&(*scan)->views[i], 0, (double)first[i] + 0.5 * (double)(rows - g->rows));
	return TOMOS_OK;
}

static tomos_status make_buffers(RankedProjector *p, const tomos_op *op)
{
	const Ranked *r = ranked_of(op->domain.backend);
	const BackendMemory *memory = r->inner->type->memory;
	int64_t columns = op->range.shape[2], longest = 0;
	for (int64_t i = 0; i < p->owned.count; i++)
		longest = max64(longest, p->owned.list[i].count);
	TRY(mem_alloc(&p->reached.host, max64(1, p->reached.rows * columns), sizeof(float),
		"rows for other ranks"));
	TRY(mem_alloc(&p->owned.host, max64(1, p->owned.rows * columns), sizeof(float),
		"rows of other ranks"));
	if (r->inner->device != 0 && longest > 0)
		TRY(memory->alloc(
			r->inner, &p->scratch, longest * columns, "rows of another rank"));
	return memory->alloc(
		r->inner, &p->band, op->range.shape[0] * p->rows * columns, "a band of rows");
}

/* ---- moving rows ---------------------------------------------------------------------------- */

/* Between host memory and the vector that has the rows: the band, or what this rank owns. */
static tomos_status move_rows(
	const tomos_op *op, const Stretches *s, float *vector, bool band, bool down)
{
	const RankedProjector *p = op->own;
	const Ranked *r = ranked_of(op->domain.backend);
	int64_t columns = op->range.shape[2], rows = band ? p->rows : op->range.shape[1];
	float *host = s->host;
	for (int64_t i = 0; i < s->count; i++) {
		const Stretch *one = &s->list[i];
		float *at = vector + (one->view * rows + (band ? one->band : one->own)) * columns;
		TRY(ranked_copy(r, at, host, one->count * columns, down));
		host += one->count * columns;
	}
	return TOMOS_OK;
}

/* One message for each rank with which rows are exchanged. */
static int64_t list_messages(const tomos_op *op, const Stretches *s, bool send, CommMessage *list)
{
	const Ranked *r = ranked_of(op->domain.backend);
	int64_t columns = op->range.shape[2], count = 0, before = 0;
	for (int64_t i = 0; i < s->count; i++) {
		const Stretch *one = &s->list[i];
		int64_t bytes = one->count * columns * (int64_t)sizeof(float);
		bool next = i > 0 && s->list[i - 1].rank == one->rank && count > 0;
		if (one->rank != r->comm->rank && next)
			list[count - 1].bytes += bytes;
		else if (one->rank != r->comm->rank)
			list[count++] =
				(CommMessage){one->rank, send, s->host + before * columns, bytes};
		before += one->count;
	}
	return count;
}

/* Rows of the band to their owners (forward), or rows of this rank to those that need them. */
static tomos_status exchange_rows(const tomos_op *op, bool forward)
{
	const RankedProjector *p = op->own;
	const Ranked *r = ranked_of(op->domain.backend);
	CommMessage *list;
	TRY(mem_alloc(&list, 2 * (int64_t)r->comm->size, sizeof *list, "messages"));
	int64_t count = list_messages(op, &p->reached, forward, list);
	count += list_messages(op, &p->owned, !forward, list + count);
	tomos_status status = ranked_exchange(ranked_change(op->domain.backend), list, count);
	mem_free(list);
	return status;
}

/* y += the rows of one stretch, in the memory of the backend. */
static tomos_status add_rows(const tomos_op *op, const Stretch *one, float *from, float *y)
{
	const Ranked *r = ranked_of(op->domain.backend);
	const RankedProjector *p = op->own;
	int64_t columns = op->range.shape[2], count = one->count * columns;
	float *to = y + (one->view * op->range.shape[1] + one->own) * columns;
	if (one->rank == r->comm->rank) {
		from = p->band + (one->view * p->rows + one->band) * columns;
	} else if (p->scratch) {
		TRY(ranked_copy(r, p->scratch, from, count, false));
		from = p->scratch;
	}
	return r->inner->type->vector->axpy(r->inner, count, 1, from, to);
}

/* First those of this rank, then the others in the order of the ranks. */
static tomos_status add_all(const tomos_op *op, float *y)
{
	const RankedProjector *p = op->own;
	const Ranked *r = ranked_of(op->domain.backend);
	float *from = p->owned.host;
	for (int64_t i = 0; i < p->reached.count; i++)
		if (p->reached.list[i].rank == r->comm->rank)
			TRY(add_rows(op, &p->reached.list[i], NULL, y));
	for (int64_t i = 0; i < p->owned.count; i++) {
		TRY(add_rows(op, &p->owned.list[i], from, y));
		from += p->owned.list[i].count * op->range.shape[2];
	}
	return TOMOS_OK;
}

/* ---- projection ----------------------------------------------------------------------------- */

static tomos_status project_slab(const tomos_op *op, Direction direction, int power, float *volume)
{
	const RankedProjector *p = op->own;
	const Ranked *r = ranked_of(op->domain.backend);
	const BackendProjector *projector = r->inner->type->projector;
	const ProjectRequest what = {.plan = &p->plan,
		.kernel = direction == FORWARD ? p->forward : p->back,
		.direction = direction,
		.box = p->box,
		.count = p->plan.scan->count,
		.volume = volume,
		.projections = p->band,
		.overwrite = true};
	if (power == 1)
		return projector->apply(r->inner, &what);
	if (!projector->apply_power)
		return fail(TOMOS_UNSUPPORTED, "the %s backend cannot measure rows and columns",
			r->inner->type->name);
	return projector->apply_power(r->inner, &what, power);
}

static tomos_status ranked_power(const tomos_op *op, int power, const float *x, float *y)
{
	const RankedProjector *p = op->own;
	TRY(project_slab(op, FORWARD, power, (float *)(uintptr_t)x));
	TRY(vector_sync(&op->range));
	TRY(move_rows(op, &p->reached, p->band, true, true));
	TRY(exchange_rows(op, true));
	TRY(vector_fill(&op->range, 0, y));
	return add_all(op, y);
}

/* The rows that this rank owns and reaches go through host memory like the others. */
static tomos_status keep_own(const tomos_op *op, const float *y)
{
	const RankedProjector *p = op->own;
	const Ranked *r = ranked_of(op->domain.backend);
	int64_t columns = op->range.shape[2];
	float *host = p->reached.host;
	for (int64_t i = 0; i < p->reached.count; i++) {
		const Stretch *one = &p->reached.list[i];
		const float *at = y + (one->view * op->range.shape[1] + one->own) * columns;
		if (one->rank == r->comm->rank)
			TRY(ranked_copy(
				r, (float *)(uintptr_t)at, host, one->count * columns, true));
		host += one->count * columns;
	}
	return TOMOS_OK;
}

static tomos_status ranked_power_adjoint(const tomos_op *op, int power, const float *y, float *x)
{
	const RankedProjector *p = op->own;
	const Ranked *r = ranked_of(op->domain.backend);
	int64_t band = op->range.shape[0] * p->rows * op->range.shape[2];
	TRY(vector_sync(&op->range));
	TRY(move_rows(op, &p->owned, (float *)(uintptr_t)y, false, true));
	TRY(keep_own(op, y));
	TRY(exchange_rows(op, false));
	TRY(r->inner->type->vector->fill(r->inner, band, 0, p->band));
	TRY(move_rows(op, &p->reached, p->band, true, false));
	return project_slab(op, ADJOINT, power, x);
}

static tomos_status ranked_forward(const tomos_op *op, const float *x, float *y)
{
	return ranked_power(op, 1, x, y);
}

static tomos_status ranked_adjoint(const tomos_op *op, const float *y, float *x)
{
	return ranked_power_adjoint(op, 1, y, x);
}

/* ---- the operator --------------------------------------------------------------------------- */

static void ranked_free(tomos_op *op)
{
	RankedProjector *p = op->own;
	const Ranked *r = ranked_of(op->domain.backend);
	plan_free(&p->plan);
	if (p->band)
		r->inner->type->memory->release(r->inner, p->band);
	if (p->scratch)
		r->inner->type->memory->release(r->inner, p->scratch);
	mem_free(p->reached.list);
	mem_free(p->reached.host);
	mem_free(p->owned.list);
	mem_free(p->owned.host);
}

static tomos_status ranked_part(
	const tomos_op *op, tomos_op **part, const int64_t *views, int64_t count);

static const OpType ranked_type = {.forward = ranked_forward,
	.adjoint = ranked_adjoint,
	.free = ranked_free,
	.part = ranked_part,
	.power = ranked_power,
	.power_adjoint = ranked_power_adjoint};

/* The stretches of some views, rank by rank. */
static tomos_status part_stretches(
	Stretches *part, const Stretches *whole, const int64_t *views, int64_t count)
{
	for (int64_t first = 0, end; first < whole->count; first = end) {
		for (end = first;
			end < whole->count && whole->list[end].rank == whole->list[first].rank;)
			end++;
		for (int64_t i = 0; i < count; i++)
			for (int64_t k = first; k < end; k++) {
				Stretch one = whole->list[k];
				if (one.view != views[i])
					continue;
				one.view = i;
				TRY(add_stretch(part, &one));
			}
	}
	return TOMOS_OK;
}

static tomos_status part_into(
	tomos_op *made, const tomos_op *op, const int64_t *views, int64_t count)
{
	const RankedProjector *whole = op->own;
	RankedProjector *own = made->own;
	own->forward = whole->forward;
	own->back = whole->back;
	own->box = whole->box;
	own->rows = whole->rows;
	TRY(plan_part(&own->plan, &whole->plan, views, count));
	TRY(part_stretches(&own->reached, &whole->reached, views, count));
	TRY(part_stretches(&own->owned, &whole->owned, views, count));
	op_resemble(made, op);
	return make_buffers(own, made);
}

static tomos_status ranked_part(
	const tomos_op *op, tomos_op **part, const int64_t *views, int64_t count)
{
	const int64_t range[3] = {count, op->range.shape[1], op->range.shape[2]};
	tomos_op *made;
	TRY(op_make(&made, &ranked_type, op->domain.backend, op->domain.shape, range,
		sizeof(RankedProjector)));
	tomos_status status = part_into(made, op, views, count);
	if (status == TOMOS_OK)
		*part = made;
	else
		tomos_op_free(made);
	return status;
}

static tomos_status fill_op(
	tomos_op *op, const Bands *b, const tomos_projector_options *o, int64_t *first)
{
	RankedProjector *p = op->own;
	const Ranked *r = ranked_of(op->domain.backend);
	KernelModel model = {.weight = WEIGHT_RAY};
	tomos_geometry *scan;
	int rank = r->comm->rank;
	TRY(projector_choose(o, &p->forward, &p->back, &model));
	p->box =
		(Box){{0, 0, b->slices[rank]}, {b->grid->n[0], b->grid->n[1], b->slices[rank + 1]}};
	p->rows = find_band(b, rank, first);
	TRY(find_stretches(p, b, rank, first));
	TRY(crop_scan(b, first, p->rows, &scan));
	tomos_status status = plan_make(&p->plan, b->grid, scan, &model);
	tomos_geometry_free(scan);
	TRY(status);
	p->plan.plain = o->plain != 0;
	const KernelRow *forward = &kernel_rows[p->forward], *back = &kernel_rows[p->back];
	op->matched = strcmp(forward->weights, back->weights) == 0;
	snprintf(op->description, sizeof op->description, "%s forward, %s back: %s", forward->name,
		back->name, op->matched ? "a matched pair" : "not matched");
	op_place(op, b->grid, b->scan, &model);
	return make_buffers(p, op);
}

tomos_status op_ranked(tomos_op **op, tomos_backend *ranked, const Bands *b,
	const tomos_projector_options *options)
{
	const Ranked *r = ranked_of(ranked);
	tomos_projector_options o = tomos_projector_defaults();
	RowBand all;
	int64_t *first;
	tomos_op *made;
	*op = NULL;
	TRY(options_take(&o, options, "projector"));
	TRY(options_need("projector", &o, NULL));
	TRY(tomos_grid_check(b->grid));
	int rank = r->comm->rank;
	const int64_t domain[3] = {
		b->slices[rank + 1] - b->slices[rank], b->grid->n[1], b->grid->n[0]};
	const int64_t range[3] = {b->scan->count, ranked_rows(b, rank, &all), b->scan->columns};
	TRY(op_make(&made, &ranked_type, ranked, domain, range, sizeof(RankedProjector)));
	tomos_status status =
		mem_alloc(&first, b->scan->count, sizeof *first, "bands of detector rows");
	if (status == TOMOS_OK) {
		status = fill_op(made, b, &o, first);
		mem_free(first);
	}
	if (status == TOMOS_OK)
		*op = made;
	else
		tomos_op_free(made);
	return status;
}
