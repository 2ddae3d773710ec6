/* The projector of a scan whose volume is distributed over ranks in slabs.
 *
 * Forward: a rank projects its slab to the band of rows that this reaches, sends the rows that
 * others own to them, and adds what it receives, always in the same order. Adjoint: the rows go the
 * other way, and each rank back projects its band. Both by chunks of views, of which one is sent
 * while another is projected. Where several ranks share a slab, each has some
 * of the views: the slices of the others are gathered before a forward projection, and the back
 * projections of all are summed; rows are exchanged by ranks with the same views. Ranks of one
 * machine that share the only slab are a team (ranked_team.c) where the kernels allow it.
 */
#include <stdio.h>
#include <string.h>
#include "op/ranked_parts.h"

typedef struct {
	Plan plan; /* the whole grid; views limited to the band */
	int forward, back;
	Box box;
	int64_t rows; /* of the band in each view */
	float *band;  /* in the memory of the backend; NULL: it is what this rank owns */
	float *stage; /* host memory for the rows of a chunk, if that of the backend is another */
	RowExchange exchange; /* of rows with other slabs */
	int64_t *edges;       /* which slices of its slab each rank has; NULL: this rank has all */
	float *whole;         /* memory for all slices of the slab, */
	float *gathered;      /* the same before a forward projection */
	TeamProjector team;   /* instead of the plan and all memory above */
} RankedProjector;

/* ---- construction --------------------------------------------------------------------------- */

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
	int64_t columns = op->range.shape[2], rows = max64(p->rows, op->range.shape[1]);
	int64_t views = op->range.shape[0] / p->exchange.chunks + 1;
	if (p->exchange.own)
		return TOMOS_OK;
	TRY(rows_buffers(&p->exchange));
	if (r->inner->device != 0)
		TRY(mem_alloc(&p->stage, views * rows * columns, sizeof(float), "rows of ranks"));
	return memory->alloc(
		r->inner, &p->band, op->range.shape[0] * p->rows * columns, "a band of rows");
}

static RowExchange make_exchange(tomos_op *op, const SlabGroup *group, int slabs)
{
	Ranked *r = ranked_change(op->domain.backend);
	return (RowExchange){.ranked = r,
		.group = *group,
		.slabs = slabs,
		.views = op->range.shape[0],
		.columns = op->range.shape[2],
		.chunks = rows_chunks(r, op->range.shape[0], slabs)};
}

/* ---- moving rows ---------------------------------------------------------------------------- */

/* The rows of a chunk of a vector, in the memory of the backend: the band, or what this rank owns.
 * Memory of a device is copied at once to host memory, or from it. */
typedef struct {
	float *at, *host;
	int64_t rows, first; /* of a view; the first view */
	int64_t floats;
	bool band;
} ChunkRows;

static ChunkRows chunk_rows(const tomos_op *op, int chunk, const float *vector, bool band)
{
	const RankedProjector *p = op->own;
	const ViewRange views = rows_chunk(&p->exchange, chunk);
	int64_t rows = band ? p->rows : op->range.shape[1], columns = op->range.shape[2];
	float *at = (float *)(uintptr_t)vector + views.first * rows * columns;
	return (ChunkRows){at, p->stage ? p->stage : at, rows, views.first,
		views.count * rows * columns, band};
}

static tomos_status chunk_copy(const tomos_op *op, const ChunkRows *c, bool down)
{
	const RankedProjector *p = op->own;
	const Ranked *r = ranked_of(op->domain.backend);
	return p->stage ? host_copy(r->inner, c->at, c->host, c->floats, down) : TOMOS_OK;
}

/* What is done with the rows of a stretch. */
typedef enum { ROWS_TAKE, ROWS_PUT, ROWS_ADD } RowMove;

static void move_row(float *rows, float *buffer, int64_t count, RowMove move)
{
	if (move == ROWS_TAKE)
		memcpy(buffer, rows, (size_t)count * sizeof *rows);
	else if (move == ROWS_PUT)
		memcpy(rows, buffer, (size_t)count * sizeof *rows);
	else
		for (int64_t i = 0; i < count; i++)
			rows[i] += buffer[i];
}

/* Between the rows of a chunk and the buffer of stretches. `mine`: only rows that this slab both
 * reaches and owns. */
static void move_rows(const tomos_op *op, const Stretches *s, int chunk, const ChunkRows *c,
	RowMove move, bool mine)
{
	const RankedProjector *p = op->own;
	int64_t columns = op->range.shape[2];
	int slab = slab_number(&p->exchange.group);
	float *host = s->host + s->starts[chunk].row * columns;
	for (int64_t i = s->starts[chunk].index; i < s->starts[chunk + 1].index; i++) {
		const Stretch *one = &s->list[i];
		int64_t row = (one->view - c->first) * c->rows + (c->band ? one->band : one->own);
		if (!mine || one->slab == slab)
			move_row(c->host + row * columns, host, one->count * columns, move);
		host += one->count * columns;
	}
}

/* The rows of a chunk: first those of this slab, then the others in the order of the slabs. */
static tomos_status add_chunk(const tomos_op *op, int chunk, float *y)
{
	const RankedProjector *p = op->own;
	const ChunkRows c = chunk_rows(op, chunk, y, false);
	memset(c.host, 0, (size_t)c.floats * sizeof *c.host);
	move_rows(op, &p->exchange.reached, chunk, &c, ROWS_ADD, true);
	move_rows(op, &p->exchange.owned, chunk, &c, ROWS_ADD, false);
	return chunk_copy(op, &c, false);
}

/* ---- projection ----------------------------------------------------------------------------- */

/* Of the views of a chunk; back projections of the chunks are accumulated. */
static tomos_status project_chunk(
	const tomos_op *op, Direction direction, int power, int chunk, float *volume, float *band)
{
	const RankedProjector *p = op->own;
	const Ranked *r = ranked_of(op->domain.backend);
	const ViewRange views = rows_chunk(&p->exchange, chunk);
	const ProjectRequest what = {.plan = &p->plan,
		.kernel = direction == FORWARD ? p->forward : p->back,
		.direction = direction,
		.box = p->box,
		.first = views.first,
		.count = views.count,
		.volume = volume,
		.projections = band + views.first * p->rows * op->range.shape[2],
		.overwrite = direction == FORWARD || chunk == 0};
	return project_power(r->inner, &what, power);
}

/* Collects the whole slab from its ranks; this rank has the part x. */
static tomos_status gather_slab(const tomos_op *op, const float *x, float **slab)
{
	const RankedProjector *p = op->own;
	if (!p->whole)
		return TOMOS_OK;
	*slab = p->gathered;
	return slab_gather(&p->exchange.group, p->edges, x, p->gathered);
}

/* While the rows of a chunk are sent, the next one is projected. */
static tomos_status forward_chunks(const tomos_op *op, int power, float *slab, float *y)
{
	RankedProjector *p = op->own;
	RowExchange *x = &p->exchange;
	if (x->own)
		return project_chunk(op, FORWARD, power, 0, slab, y);
	for (int c = 0; c < x->chunks; c++) {
		TRY(project_chunk(op, FORWARD, power, c, slab, p->band));
		TRY(vector_sync(&op->range));
		const ChunkRows rows = chunk_rows(op, c, p->band, true);
		TRY(chunk_copy(op, &rows, true));
		move_rows(op, &x->reached, c, &rows, ROWS_TAKE, false);
		if (c > 0)
			TRY(rows_wait(x));
		rows_send(x, c, true);
		if (c > 0)
			TRY(add_chunk(op, c - 1, y));
	}
	TRY(rows_wait(x));
	return add_chunk(op, x->chunks - 1, y);
}

/* Rows that this slab owns, to host memory: for others, and those that it reaches itself. */
static tomos_status take_rows(const tomos_op *op, int chunk, const float *y)
{
	const RankedProjector *p = op->own;
	const ChunkRows c = chunk_rows(op, chunk, y, false);
	TRY(chunk_copy(op, &c, true));
	move_rows(op, &p->exchange.owned, chunk, &c, ROWS_TAKE, false);
	move_rows(op, &p->exchange.reached, chunk, &c, ROWS_TAKE, true);
	return TOMOS_OK;
}

/* While a chunk is back projected, the rows of the next one are sent. */
static tomos_status adjoint_chunks(const tomos_op *op, int power, const float *y, float *slab)
{
	RankedProjector *p = op->own;
	RowExchange *x = &p->exchange;
	if (x->own)
		return project_chunk(op, ADJOINT, power, 0, slab, (float *)(uintptr_t)y);
	TRY(take_rows(op, 0, y));
	rows_send(x, 0, false);
	for (int c = 0; c < x->chunks; c++) {
		bool more = c + 1 < x->chunks;
		if (more)
			TRY(take_rows(op, c + 1, y));
		TRY(rows_wait(x));
		if (more)
			rows_send(x, c + 1, false);
		const ChunkRows rows = chunk_rows(op, c, p->band, true);
		memset(rows.host, 0, (size_t)rows.floats * sizeof *rows.host);
		move_rows(op, &x->reached, c, &rows, ROWS_PUT, false);
		TRY(chunk_copy(op, &rows, false));
		TRY(project_chunk(op, ADJOINT, power, c, slab, p->band));
	}
	return TOMOS_OK;
}

/* What a failure has left under way is waited for. */
static tomos_status end_rows(const tomos_op *op, tomos_status status)
{
	RankedProjector *p = op->own;
	char reason[512];
	if (!p->exchange.begun)
		return status;
	snprintf(reason, sizeof reason, "%s", tomos_message());
	(void)rows_wait(&p->exchange);
	return fail(status, "%s", reason);
}

static tomos_status forward(const tomos_op *op, int power, const float *x, float *y)
{
	const RankedProjector *p = op->own;
	float *slab = (float *)(uintptr_t)x;
	if (p->team.shared)
		return team_forward(&p->team, op, power, x, y);
	TRY(gather_slab(op, x, &slab));
	return end_rows(op, forward_chunks(op, power, slab, y));
}

static tomos_status adjoint(const tomos_op *op, int power, const float *y, float *x)
{
	const RankedProjector *p = op->own;
	const SlabGroup *group = &p->exchange.group;
	if (p->team.shared)
		return team_adjoint(&p->team, op, power, y, x);
	TRY(vector_sync(&op->range));
	TRY(end_rows(op, adjoint_chunks(op, power, y, p->whole ? p->whole : x)));
	if (!p->whole)
		return TOMOS_OK;
	TRY(slab_sum(group, p->edges, p->whole));
	return vector_copy(&op->domain, p->whole + p->edges[slab_member(group)] * group->slice, x);
}

static tomos_status ranked_apply(
	const tomos_op *op, Direction direction, int power, const float *in, float *out)
{
	return (direction == FORWARD ? forward : adjoint)(op, power, in, out);
}

static tomos_status ranked_row_sums(const tomos_op *op, const float *x, float *y)
{
	const RankedProjector *p = op->own;
	return p->team.shared ? team_row_sums(&p->team, op, x, y) : forward(op, 1, x, y);
}

/* ---- the operator --------------------------------------------------------------------------- */

static void ranked_free(tomos_op *op)
{
	RankedProjector *p = op->own;
	const Ranked *r = ranked_of(op->domain.backend);
	plan_free(&p->plan);
	if (p->band)
		r->inner->type->memory->release(r->inner, p->band);
	mem_free(p->stage);
	rows_free(&p->exchange);
	if (p->whole && !slab_direct(&p->exchange.group))
		r->inner->type->memory->release(r->inner, p->whole);
	if (p->edges) /* parts of the operator have none */
		slab_unshare(&p->exchange.group);
	team_close(&p->team);
	mem_free(p->edges);
}

static tomos_status ranked_part(
	tomos_op *part, const tomos_op *op, const int64_t *views, int64_t count)
{
	const RankedProjector *whole = op->own;
	RankedProjector *own = part->own;
	if (whole->edges)
		return fail(TOMOS_UNSUPPORTED,
			"ranks that divide the views among them have no subsets of views");
	own->forward = whole->forward;
	own->back = whole->back;
	own->box = whole->box;
	own->rows = whole->rows;
	own->exchange = make_exchange(part, &whole->exchange.group, whole->exchange.slabs);
	TRY(plan_part(&own->plan, &whole->plan, views, count));
	TRY(rows_part(&own->exchange, &whole->exchange, views));
	return make_buffers(own, part);
}

static const OpType ranked_type = {.apply = ranked_apply,
	.free = ranked_free,
	.part = ranked_part,
	.row_sums = ranked_row_sums};

static tomos_status make_edges(RankedProjector *p, const Bands *b)
{
	const int64_t *slices = b->slices + slab_number(&p->exchange.group) * b->groups;
	if (b->groups == 1)
		return TOMOS_OK;
	TRY(mem_alloc(&p->edges, b->groups + 1, sizeof *p->edges, "slices of ranks"));
	for (int i = 0; i <= b->groups; i++)
		p->edges[i] = slices[i] - p->box.low[2];
	return TOMOS_OK;
}

/* Memory for the slab, where this rank has a part of it. */
static tomos_status make_whole(RankedProjector *p)
{
	SlabGroup *group = &p->exchange.group;
	int64_t floats = (p->box.high[2] - p->box.low[2]) * group->slice;
	if (!p->edges)
		return TOMOS_OK;
	TRY(slab_share(group, floats));
	if (!slab_direct(group)) {
		TRY(group->inner->type->memory->alloc(
			group->inner, &p->whole, floats, "a slab of several ranks"));
		p->gathered = p->whole;
		return TOMOS_OK;
	}
	p->whole = slab_output(group);
	p->gathered = slab_input(group);
	return TOMOS_OK;
}

/* The place of the slices and rows of this rank among all. */
static tomos_status divide_spaces(tomos_op *op, const Bands *b)
{
	const RankedProjector *p = op->own;
	const tomos_geometry *all = b->all ? b->all : b->scan;
	tomos_comm *comm = p->exchange.group.comm;
	const int64_t *n = op->domain.shape, *m = op->range.shape;
	const int64_t slices = bands_slice(b, b->slabs) - b->slices[0];
	const int64_t volume[3] = {slices, n[1], n[2]};
	const int64_t rays[3] = {all->count, all->rows, all->columns};
	TRY(space_divide(&op->domain, &op->parts[0], comm, volume, 1));
	op->parts[0].runs[0] = (SpaceRun){.count = op->domain.count,
		.whole = (b->slices[comm_rank(comm)] - b->slices[0]) * p->exchange.group.slice};
	TRY(space_divide(&op->range, &op->parts[1], comm, rays, m[0]));
	for (int64_t i = 0; i < m[0]; i++) {
		const RowBand own = bands_own(b, slab_number(&p->exchange.group), i);
		int64_t row = (b->first_view + i) * all->rows + own.low;
		op->parts[1].runs[i] =
			(SpaceRun){i * m[1] * m[2], row * m[2], (own.high - own.low) * m[2]};
	}
	return TOMOS_OK;
}

/* Without a team: what this rank projects. */
static tomos_status make_own(
	tomos_op *op, const Bands *b, const KernelModel *model, bool plain, int64_t *first)
{
	RankedProjector *p = op->own;
	int slab = slab_number(&p->exchange.group);
	tomos_geometry *scan;
	p->rows = ranked_band(b, slab, first);
	p->exchange.own = rows_own(b, first, p->rows) && p->rows == op->range.shape[1];
	TRY(rows_find(&p->exchange, b, slab, first));
	TRY(make_whole(p));
	TRY(crop_scan(b, first, p->rows, &scan));
	tomos_status status = plan_make(&p->plan, b->grid, scan, model);
	tomos_geometry_free(scan);
	p->plan.plain = plain;
	return status == TOMOS_OK ? make_buffers(p, op) : status;
}

static tomos_status fill_op(
	tomos_op *op, const Bands *b, const tomos_projector_options *o, int64_t *first)
{
	RankedProjector *p = op->own;
	const Ranked *r = ranked_of(op->domain.backend);
	KernelModel model = {.weight = WEIGHT_RAY};
	const int64_t *n = b->grid->n;
	const SlabGroup group = {
		.comm = r->comm, .inner = r->inner, .ranks = b->groups, .slice = n[0] * n[1]};
	int slab = slab_number(&group);
	bool plain = o->plain != 0;
	p->exchange = make_exchange(op, &group, b->slabs);
	TRY(projector_choose(o, &p->forward, &p->back, &model));
	p->box = (Box){{0, 0, bands_slice(b, slab)}, {n[0], n[1], bands_slice(b, slab + 1)}};
	TRY(make_edges(p, b));
	p->team = (TeamProjector){
		.group = group, .edges = p->edges, .kernels = {p->forward, p->back}, .box = p->box};
	TRY(team_open(&p->team, b, &model, plain));
	if (!p->team.shared)
		TRY(make_own(op, b, &model, plain, first));
	const KernelRow *forward = &kernel_rows[p->forward], *back = &kernel_rows[p->back];
	op->matched = strcmp(forward->weights, back->weights) == 0;
	snprintf(op->description, sizeof op->description, "%s forward, %s back: %s", forward->name,
		back->name, op->matched ? "a matched pair" : "not matched");
	op_place(op, b->grid, b->all ? b->all : b->scan, &model);
	return divide_spaces(op, b);
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
