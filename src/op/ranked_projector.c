/* The projector of a scan whose volume is distributed over ranks in slabs.
 *
 * Forward: a rank projects its slab to the band of rows that this reaches, sends the rows that
 * others own to them, and adds what it receives, always in the same order. Adjoint: the rows go the
 * other way, and each rank back projects its band. Where several ranks share a slab, each has some
 * of the views: the slices of the others are gathered before a forward projection, and the back
 * projections of all are summed; rows are exchanged by ranks with the same views.
 */
#include <stdio.h>
#include <string.h>
#include "op/ranked_parts.h"

/* Rows of a view that this slab and another have in common; numbered within what each stores. */
typedef struct {
	int slab;
	int64_t view;
	int64_t band, own; /* first row in the band of this slab, or among the rows it owns */
	int64_t count;
} Stretch;

typedef struct {
	Stretch *list; /* in the order of the slabs */
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
	Stretches reached; /* rows of the band, with the slabs that own them, this one included */
	Stretches owned;   /* rows that this slab owns and others reach */
	SlabGroup group;   /* ranks of this slab, */
	int64_t *edges;    /* which of its slices each has, */
	float *whole;      /* and memory for all of them; NULL: this rank has all */
} RankedProjector;

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

/* What this slab and slab `other` exchange in a view. */
static tomos_status add_view(
	RankedProjector *p, const Bands *b, int slab, int other, int64_t view, int64_t first)
{
	const RowBand own = bands_own(b, slab, view);
	const RowBand out = band_meet(bands_reach(b, slab, view), bands_own(b, other, view));
	const RowBand in = band_meet(bands_reach(b, other, view), own);
	const Stretch reached = {
		other, view, out.low - first, out.low - own.low, out.high - out.low};
	const Stretch owned = {other, view, in.low - first, in.low - own.low, in.high - in.low};
	TRY(add_stretch(&p->reached, &reached));
	return other == slab ? TOMOS_OK : add_stretch(&p->owned, &owned);
}

static tomos_status find_stretches(
	RankedProjector *p, const Bands *b, int slab, const int64_t *first)
{
	for (int other = 0; other < b->slabs; other++)
		for (int64_t i = 0; i < b->scan->count; i++)
			TRY(add_view(p, b, slab, other, i, first[i]));
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
		TRY(host_copy(r->inner, at, host, one->count * columns, down));
		host += one->count * columns;
	}
	return TOMOS_OK;
}

/* One message for each slab with which rows are exchanged. */
static int64_t list_messages(const tomos_op *op, const Stretches *s, bool send, CommMessage *list)
{
	const RankedProjector *p = op->own;
	int64_t columns = op->range.shape[2], count = 0, before = 0;
	int slab = slab_number(&p->group), member = slab_member(&p->group);
	for (int64_t i = 0; i < s->count; i++) {
		const Stretch *one = &s->list[i];
		int64_t bytes = one->count * columns * (int64_t)sizeof(float);
		bool next = i > 0 && s->list[i - 1].slab == one->slab && count > 0;
		if (one->slab != slab && next)
			list[count - 1].bytes += bytes;
		else if (one->slab != slab)
			list[count++] = (CommMessage){one->slab * p->group.ranks + member, send,
				s->host + before * columns, bytes};
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
	if (one->slab == slab_number(&p->group)) {
		from = p->band + (one->view * p->rows + one->band) * columns;
	} else if (p->scratch) {
		TRY(host_copy(r->inner, p->scratch, from, count, false));
		from = p->scratch;
	}
	return r->inner->type->vector->axpy(r->inner, count, 1, from, to);
}

/* First those of this slab, then the others in the order of the slabs. */
static tomos_status add_all(const tomos_op *op, float *y)
{
	const RankedProjector *p = op->own;
	float *from = p->owned.host;
	for (int64_t i = 0; i < p->reached.count; i++)
		if (p->reached.list[i].slab == slab_number(&p->group))
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
	const ProjectRequest what = {.plan = &p->plan,
		.kernel = direction == FORWARD ? p->forward : p->back,
		.direction = direction,
		.box = p->box,
		.count = p->plan.scan->count,
		.volume = volume,
		.projections = p->band,
		.overwrite = true};
	return project_power(r->inner, &what, power);
}

/* The slices of this rank within the memory for all of its slab. */
static float *own_slices(const RankedProjector *p)
{
	return p->whole + p->edges[slab_member(&p->group)] * p->group.slice;
}

/* Collects the whole slab from its ranks; this rank has the part x. */
static tomos_status gather_slab(const tomos_op *op, const float *x, float **slab)
{
	const RankedProjector *p = op->own;
	if (!p->whole)
		return TOMOS_OK;
	*slab = p->whole;
	TRY(vector_copy(&op->domain, x, own_slices(p)));
	return slab_gather(&p->group, p->edges, p->whole);
}

static tomos_status forward(const tomos_op *op, int power, const float *x, float *y)
{
	const RankedProjector *p = op->own;
	float *slab = (float *)(uintptr_t)x;
	TRY(gather_slab(op, x, &slab));
	TRY(project_slab(op, FORWARD, power, slab));
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
		if (one->slab == slab_number(&p->group))
			TRY(host_copy(r->inner, (float *)(uintptr_t)at, host, one->count * columns,
				true));
		host += one->count * columns;
	}
	return TOMOS_OK;
}

static tomos_status adjoint(const tomos_op *op, int power, const float *y, float *x)
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
	TRY(project_slab(op, ADJOINT, power, p->whole ? p->whole : x));
	if (!p->whole)
		return TOMOS_OK;
	TRY(slab_sum(&p->group, p->edges, p->whole));
	return vector_copy(&op->domain, own_slices(p), x);
}

static tomos_status ranked_apply(
	const tomos_op *op, Direction direction, int power, const float *in, float *out)
{
	return (direction == FORWARD ? forward : adjoint)(op, power, in, out);
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
	if (p->whole)
		r->inner->type->memory->release(r->inner, p->whole);
	mem_free(p->edges);
}

/* The stretches of some views, slab by slab. */
static tomos_status part_stretches(
	Stretches *part, const Stretches *whole, const int64_t *views, int64_t count)
{
	for (int64_t first = 0, end; first < whole->count; first = end) {
		for (end = first;
			end < whole->count && whole->list[end].slab == whole->list[first].slab;)
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

static tomos_status ranked_part(
	tomos_op *part, const tomos_op *op, const int64_t *views, int64_t count)
{
	const RankedProjector *whole = op->own;
	RankedProjector *own = part->own;
	if (whole->whole)
		return fail(TOMOS_UNSUPPORTED,
			"ranks that divide the views among them have no subsets of views");
	own->forward = whole->forward;
	own->back = whole->back;
	own->box = whole->box;
	own->rows = whole->rows;
	own->group = whole->group;
	TRY(plan_part(&own->plan, &whole->plan, views, count));
	TRY(part_stretches(&own->reached, &whole->reached, views, count));
	TRY(part_stretches(&own->owned, &whole->owned, views, count));
	return make_buffers(own, part);
}

static const OpType ranked_type = {.apply = ranked_apply, .free = ranked_free, .part = ranked_part};

/* Memory for the slab, where this rank has a part of it. */
static tomos_status make_whole(RankedProjector *p, const Bands *b)
{
	tomos_backend *inner = p->group.inner;
	int64_t first = p->box.low[2], count = p->box.high[2] - first;
	const int64_t *slices = b->slices + slab_number(&p->group) * b->groups;
	if (b->groups == 1)
		return TOMOS_OK;
	TRY(mem_alloc(&p->edges, b->groups + 1, sizeof *p->edges, "slices of ranks"));
	for (int i = 0; i <= b->groups; i++)
		p->edges[i] = slices[i] - first;
	return inner->type->memory->alloc(
		inner, &p->whole, count * p->group.slice, "a slab of several ranks");
}

/* The place of the slices and rows of this rank among all. */
static tomos_status divide_spaces(tomos_op *op, const Bands *b)
{
	const RankedProjector *p = op->own;
	const tomos_geometry *all = b->all ? b->all : b->scan;
	tomos_comm *comm = p->group.comm;
	const int64_t *n = op->domain.shape, *m = op->range.shape;
	const int64_t slices = bands_slice(b, b->slabs) - b->slices[0];
	const int64_t volume[3] = {slices, n[1], n[2]};
	const int64_t rays[3] = {all->count, all->rows, all->columns};
	TRY(space_divide(&op->domain, &op->parts[0], comm, volume, 1));
	op->parts[0].runs[0] = (SpaceRun){.count = op->domain.count,
		.whole = (b->slices[comm_rank(comm)] - b->slices[0]) * p->group.slice};
	TRY(space_divide(&op->range, &op->parts[1], comm, rays, m[0]));
	for (int64_t i = 0; i < m[0]; i++) {
		const RowBand own = bands_own(b, slab_number(&p->group), i);
		int64_t row = (b->first_view + i) * all->rows + own.low;
		op->parts[1].runs[i] =
			(SpaceRun){i * m[1] * m[2], row * m[2], (own.high - own.low) * m[2]};
	}
	return TOMOS_OK;
}

static tomos_status fill_op(
	tomos_op *op, const Bands *b, const tomos_projector_options *o, int64_t *first)
{
	RankedProjector *p = op->own;
	const Ranked *r = ranked_of(op->domain.backend);
	KernelModel model = {.weight = WEIGHT_RAY};
	tomos_geometry *scan;
	const int64_t *n = b->grid->n;
	p->group = (SlabGroup){r->comm, r->inner, b->groups, n[0] * n[1]};
	int slab = slab_number(&p->group);
	TRY(projector_choose(o, &p->forward, &p->back, &model));
	p->box = (Box){{0, 0, bands_slice(b, slab)}, {n[0], n[1], bands_slice(b, slab + 1)}};
	p->rows = ranked_band(b, slab, first);
	TRY(find_stretches(p, b, slab, first));
	TRY(make_whole(p, b));
	TRY(crop_scan(b, first, p->rows, &scan));
	tomos_status status = plan_make(&p->plan, b->grid, scan, &model);
	tomos_geometry_free(scan);
	TRY(status);
	p->plan.plain = o->plain != 0;
	const KernelRow *forward = &kernel_rows[p->forward], *back = &kernel_rows[p->back];
	op->matched = strcmp(forward->weights, back->weights) == 0;
	snprintf(op->description, sizeof op->description, "%s forward, %s back: %s", forward->name,
		back->name, op->matched ? "a matched pair" : "not matched");
	op_place(op, b->grid, b->all ? b->all : b->scan, &model);
	TRY(divide_spaces(op, b));
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
	const int64_t range[3] = {
		b->scan->count, ranked_rows(b, rank / b->groups, &all), b->scan->columns};
	TRY(op_make(&made, &ranked_type, ranked, domain, range, sizeof(RankedProjector)));
	tomos_status status =
		mem_alloc(&first, b->scan->count, sizeof *first, "bands of detector rows");
	if (status == TOMOS_OK) {
		status = fill_op(made, b, &o, first);
		mem_free(first);
	}
	return op_finish(op, made, status);
}
