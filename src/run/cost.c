/* A model of a run over ranks: the work of the rank that has most, divided by the rates of the
 * machine. The shares are those of the run itself (run/share.h, geom/bands.h). */
#include <math.h>
#include <string.h>
#include "geom/bands.h"
#include "run/cost.h"

/* MOST_VIEWS: rows that slabs reach are found from that many views, evenly spread. */
enum { MOST_RANKS = 65536, MOST_VIEWS = 64 };

typedef struct {
	FileRun run;             /* the caller's, with fewer views */
	tomos_prepared prepared; /* likewise */
	CostBytes bytes;
	tomos_rates rates;
	ShareRule rule;
	int slabs;       /* of the volume, empty ones included */
	int64_t *slices; /* where each begins, and the end */
	double views;    /* of the whole scan */
	double more;     /* views of the scan for each one that is looked at */
	double passes;   /* forward and back projections of an iterative method, each */
} Model;

/* What a rank does. */
typedef struct {
	double slices, rows, read, filtered, updates, sent, shared, messages, written, voxels;
	double pieces; /* slabs whose stages overlap */
} Load;

/* ---- the work of a rank ---------------------------------------------------------------------- */

/* Thickness of the slabs in which a rank computes its slices (choose_thickness in plan.c). */
static int64_t thickness(const Model *m, int64_t count)
{
	const FileRun *r = &m->run;
	int64_t thick = max64(THICK, (count + SLABS - 1) / SLABS);
	bool whole = r->iterates ? r->iterative.whole : !r->stacked && m->rates.link <= 0;
	if (r->iterates && r->iterative.in_groups)
		thick = GROUP_SLICES;
	if (whole || r->prepared->reach.all_rows)
		thick = count;
	return m->bytes.thickest > 0 ? min64(thick, m->bytes.thickest) : thick;
}

/* Rows of the scan and prepared rows of some slices. */
static void add_rows(const Model *m, int64_t first, int64_t count, Load *load)
{
	const FileRun *r = &m->run;
	Slab slab = {.first = first, .count = count};
	slab_rows(r, &slab);
	RawRows needs = prepared_needs(r->prepared, slab.row, slab.rows);
	load->rows += (double)needs.rows;
	load->filtered += (double)slab.rows * m->views * (double)r->prepared->geometry->columns;
}

/* Rays that cross slices, iterative methods: a rank reads the rows that it owns. */
static void add_band(const Model *m, int slab, Load *load)
{
	const tomos_geometry *g = m->prepared.geometry;
	const Bands bands = {g, &m->run.grid, m->slices, m->slabs, 1, NULL, 0};
	double rows = 0;
	for (int64_t i = 0; i < g->count; i++) {
		RowBand own = bands_own(&bands, slab, i);
		rows += (double)(own.high - own.low);
	}
	load->rows = rows / (double)g->count;
	const char *message = m->run.options.message;
	double bytes =
		message && strcmp(message, "half") == 0 ? 0.5 * sizeof(float) : sizeof(float);
	load->sent = 2 * m->passes * m->more * (double)bands_sent(&bands, slab) * bytes /
		     (double)m->bytes.groups;
	load->messages = m->slabs > 1 ? 4 * m->passes : 0;
}

/* Penalties on differences: a slice to each neighbour, for every gradient. */
static void add_halo(const Model *m, int slab, Load *load)
{
	const FileRun *r = &m->run;
	bool inner = strcmp(r->method, "fista") == 0 || strcmp(r->method, "asd-pocs") == 0;
	double times =
		(double)r->iterative.o.iterations * (inner ? (double)r->iterative.o.inner : 1);
	int ends = (slab == 0) + (slab + 1 == m->slabs);
	double neighbours = 2 - ends / (double)m->bytes.groups; /* of a rank, on the average */
	load->sent += neighbours * times * (double)(r->grid.n[0] * r->grid.n[1]) * sizeof(float);
	load->messages += 2 * neighbours * times;
}

/* Whether ranks that iterate on a slab are on one node, whose memory they share. */
static bool in_node(const Model *m)
{
	double groups = (double)m->bytes.groups, node = m->rates.node_ranks;
	return m->run.iterates && groups <= node && fmod(node, groups) == 0;
}

/* Ranks that share a slab: each sends the slices of the others, once for every back projection, and
 * its own to all others for every forward projection. */
static void add_groups(const Model *m, Load *load)
{
	double groups = (double)m->bytes.groups, times = m->run.iterates ? 2 * m->passes : 1;
	double bytes = times * (groups - 1) / groups * load->voxels * sizeof(float);
	*(in_node(m) ? &load->shared : &load->sent) += bytes;
	load->messages += times * (groups - 1);
}

static void add_all_rows(const Model *m, Share share, Load *load)
{
	int64_t thick = thickness(m, share.count), end = share.first + share.count;
	load->pieces = ceil((double)share.count / (double)thick);
	if (m->rates.link > 0 && !m->run.stacked) /* the rows stay on the device */
		thick = share.count;
	for (int64_t first = share.first; first < end; first += thick)
		add_rows(m, first, min64(thick, end - first), load);
}

static Load load_of(const Model *m, int slab)
{
	const FileRun *r = &m->run;
	Share share = share_of(&m->rule, slab, m->slabs);
	double groups = (double)m->bytes.groups;
	Load load = {.slices = (double)share.count, .pieces = 1};
	if (share.count == 0)
		return load;
	load.voxels = (double)share.count * (double)r->grid.n[0] * (double)r->grid.n[1];
	if (r->iterates && !r->stacked)
		add_band(m, slab, &load);
	else
		add_all_rows(m, share, &load);
	if (r->iterates && demand_coupling(&r->iterative.demand) == COUPLING_DIFFERENCES)
		add_halo(m, slab, &load);
	add_groups(m, &load);
	load.read = load.rows * m->bytes.row_bytes / groups;
	load.filtered = r->iterates ? 0 : load.filtered / groups;
	load.updates = load.voxels * m->views * (r->iterates ? 2 * m->passes : 1) / groups;
	load.updates *= 1 + (r->iterates ? m->rates.iterate_half : m->rates.back_half) /
				    (double)min64(share.count, thickness(m, share.count));
	load.written = load.voxels / groups * m->bytes.voxel_bytes;
	return load;
}

/* ---- its time -------------------------------------------------------------------------------- */

static tomos_status needed(double rate, const char *name, const char *method)
{
	if (rate > 0)
		return TOMOS_OK;
	return fail(TOMOS_BAD_VALUE, "the rates have no '%s', which %s needs", name, method);
}

static double seconds(double amount, double rate)
{
	return rate > 0 ? amount / rate : 0;
}

/* Messages inside a node, or also between nodes; sums of iterative methods go to all ranks. */
static double exchange_seconds(const Model *m, const Load *load, int64_t ranks)
{
	const tomos_rates *r = &m->rates;
	double groups = (double)m->bytes.groups, node = r->node_ranks, rate = r->memory;
	bool inside = groups > 1 ? groups <= node : (double)ranks <= node;
	double out = groups > 1 ? r->network / node : r->network;
	if (!inside)
		rate = rate > 0 ? fmin(rate, out) : out;
	double sums = m->run.iterates && m->run.iterative.whole && ranks > 1
			      ? 2 * m->passes * ceil(log2((double)ranks))
			      : 0;
	return seconds(load->sent + load->shared, rate) + (load->messages + sums) * r->latency;
}

/* The stages of a rank overlap where it has several slabs. */
static double wall_seconds(const double t[TOMOS_COSTS], double pieces)
{
	double compute = t[TOMOS_COST_PREPARE] + t[TOMOS_COST_FILTER] + t[TOMOS_COST_PROJECT] +
			 t[TOMOS_COST_EXCHANGE];
	const double lanes[] = {t[TOMOS_COST_READ], t[TOMOS_COST_UPLOAD], compute,
		t[TOMOS_COST_DOWNLOAD], t[TOMOS_COST_WRITE]};
	double longest = 0, sum = 0;
	for (int i = 0; i < COUNT(lanes); i++) {
		longest = fmax(longest, lanes[i]);
		sum += lanes[i];
	}
	return t[TOMOS_COST_START] + longest + (sum - longest) / fmax(1, pieces);
}

static void set_times(const Model *m, const Load *most, tomos_cost *c)
{
	const tomos_rates *r = &m->rates;
	double *t = c->stage_seconds, bytes = m->run.iterates ? 2 : 1;
	t[TOMOS_COST_START] = r->start;
	t[TOMOS_COST_READ] =
		fmax(seconds(most->read, r->read), seconds(c->read_bytes, r->read_all));
	t[TOMOS_COST_UPLOAD] = seconds(most->read, r->link);
	t[TOMOS_COST_PREPARE] = seconds(most->read, r->prepare);
	t[TOMOS_COST_FILTER] = seconds(most->filtered, r->filter);
	t[TOMOS_COST_PROJECT] = seconds(most->updates, m->run.iterates ? r->iterate : r->back);
	t[TOMOS_COST_EXCHANGE] = exchange_seconds(m, most, c->ranks) +
				 seconds(bytes * (most->sent + most->shared), r->link);
	t[TOMOS_COST_DOWNLOAD] = seconds(most->written, r->link);
	t[TOMOS_COST_WRITE] =
		fmax(seconds(most->written, r->write), seconds(c->written_bytes, r->write_all));
	c->seconds = wall_seconds(t, most->pieces);
	for (int i = 0; i < TOMOS_COSTS; i++)
		if (t[i] > t[c->limiting])
			c->limiting = i;
}

/* ---- all ranks ------------------------------------------------------------------------------- */

static void take_most(Load *most, const Load *load)
{
	const double *from = (const double *)load;
	double *to = (double *)most;
	for (size_t i = 0; i < sizeof *most / sizeof *to; i++)
		to[i] = fmax(to[i], from[i]);
}

static void all_ranks(const Model *m, tomos_cost *c)
{
	Load most = {.slices = 0};
	double groups = (double)m->bytes.groups, columns = (double)m->prepared.geometry->columns;
	double voxels = 0;
	for (int slab = 0; slab < m->slabs; slab++) {
		Load load = load_of(m, slab);
		take_most(&most, &load);
		c->slabs += load.slices > 0;
		c->read_bytes += groups * load.read;
		c->sent_bytes += groups * load.sent;
		c->shared_bytes += groups * load.shared;
		voxels += load.voxels;
		c->written_bytes += groups * load.written;
	}
	c->groups = m->bytes.groups;
	c->slices = (int64_t)most.slices;
	c->rows = (int64_t)ceil(most.rows);
	c->views = (int64_t)ceil(m->views / groups);
	c->balance = most.voxels * (double)(m->slabs * c->views) * groups / (voxels * m->views);
	c->data_bytes = sizeof(float) * (most.voxels + most.rows * m->views * columns / groups);
	set_times(m, &most, c);
}

/* Every k-th view. */
static tomos_status fewer_views(const tomos_geometry *g, tomos_geometry **few)
{
	int64_t step = (g->count + MOST_VIEWS - 1) / MOST_VIEWS,
		count = (g->count + step - 1) / step;
	tomos_view *views;
	TRY(mem_alloc(&views, count, sizeof *views, "views"));
	for (int64_t i = 0; i < count; i++)
		views[i] = g->views[i * step];
	tomos_status status = tomos_geometry_views(few, g->rows, g->columns, views, count);
	mem_free(views);
	return status;
}

static tomos_status check(const Model *m, int64_t ranks)
{
	const tomos_rates *r = &m->rates;
	const char *method = m->run.method;
	if (ranks < 1 || ranks > MOST_RANKS)
		return fail(TOMOS_BAD_VALUE, "%lld ranks: 1 to %d are possible", (long long)ranks,
			MOST_RANKS);
	if (m->bytes.groups < 1 || m->bytes.groups > ranks)
		return fail(TOMOS_BAD_VALUE, "%lld view groups of %lld ranks",
			(long long)m->bytes.groups, (long long)ranks);
	if (m->bytes.groups > 1 && m->run.iterates &&
		(m->run.stacked || tomos_method_uses(method, "order")))
		return fail(TOMOS_UNSUPPORTED, "%s has no view groups", method);
	if (m->run.iterates)
		return needed(r->iterate, "iterate", method);
	TRY(needed(r->filter, "filter", method));
	return needed(r->back, "back", method);
}

/* Methods that do not project a start of zeros (iteration_first_residual). */
static bool skips_zeros(const FileRun *r)
{
	const char *start = r->iterative.names[FILE_START];
	return choice_index("sirt|cgls|lsqr|lsmr", r->method) >= 0 && !(start && start[0]);
}

/* Pairs of a forward and a back projection: those of the iterations, of the first residual, of the
 * weights, and of an estimate of the norm, which takes about nine. */
static double passes_of(const FileRun *r)
{
	const Iterative *it = &r->iterative;
	double first = skips_zeros(r) ? 0.5 : 1;
	double weights = tomos_method_uses(r->method, "weights") ? 0.5 : 0;
	double norm = tomos_method_uses(r->method, "norm") && it->o.norm <= 0 ? 9 : 0;
	return (double)it->o.iterations + first + weights + norm;
}

tomos_status cost_of(const FileRun *r, const CostBytes *bytes, const tomos_rates *rates,
	int64_t ranks, tomos_cost *cost)
{
	const tomos_geometry *g = r->prepared->geometry;
	tomos_geometry *few = NULL;
	tomos_status status;
	Model m = {.run = *r,
		.prepared = *r->prepared,
		.bytes = *bytes,
		.rates = *rates,
		.rule = run_share_rule(r, ranks),
		.views = (double)g->count,
		.passes = r->iterates ? passes_of(r) : 0};
	*cost = (tomos_cost){.bytes = sizeof *cost, .ranks = ranks};
	TRY(check(&m, ranks));
	m.slabs = (int)(ranks / bytes->groups);
	TRY_OR_DONE(fewer_views(g, &few));
	m.prepared.geometry = few;
	m.run.prepared = &m.prepared;
	m.run.rows_once = false;
	m.more = (double)g->count / (double)few->count;
	TRY_OR_DONE(mem_alloc(&m.slices, m.slabs + 1, sizeof *m.slices, "shares of ranks"));
	for (int i = 0; i <= m.slabs; i++)
		m.slices[i] = i < m.slabs ? share_of(&m.rule, i, m.slabs).first
					  : r->first_slice + r->slices;
	all_ranks(&m, cost);
done:
	mem_free(m.slices);
	tomos_geometry_free(few);
	return status;
}

const char *tomos_cost_names(void)
{
	return "start|read|upload|prepare|filter|project|exchange|download|write";
}

/* ---- without files -------------------------------------------------------------------------- */

static tomos_status work_check(const tomos_work *w)
{
	if (!w->grid || !w->scan || w->scan->count < 1)
		return fail(TOMOS_BAD_VALUE, "the cost of a run needs a grid and views");
	TRY(tomos_grid_check(w->grid));
	bool known = choice_index(tomos_method_names(), w->method) >= 0 ||
		     choice_index(analytic_names(), w->method) >= 0;
	if (!known)
		return fail(TOMOS_BAD_VALUE, "method '%s' is not one of %s|%s", w->method,
			analytic_names(), tomos_method_names());
	if (w->iterations < 0 || w->sample_bytes < 0 || w->voxel_bytes < 0)
		return fail(TOMOS_BAD_VALUE,
			"iterations %lld, sample_bytes %g and voxel_bytes %g must not be negative",
			(long long)w->iterations, w->sample_bytes, w->voxel_bytes);
	return TOMOS_OK;
}

int64_t rates_near(const tomos_rates *rates)
{
	return rates->link > 0 ? 1 : (int64_t)fmax(1, fmin(rates->node_ranks, 1e6));
}

/* A run of these data, as far as the model looks at it. */
static tomos_status work_run(const tomos_work *w, const tomos_rates *rates, FileRun *r,
	tomos_prepared *p, const tomos_job *job)
{
	*p = (tomos_prepared){.geometry = (tomos_geometry *)(uintptr_t)w->scan,
		.bin = 1,
		.info = {.rows = w->scan->rows, .columns = w->scan->columns}};
	*r = (FileRun){.job = job,
		.prepared = p,
		.method = w->method,
		.grid = *w->grid,
		.least_memory = HUGE_VAL,
		.near = rates_near(rates)};
	r->slices = w->grid->n[2];
	r->stacked = run_stacked(w->scan, w->grid, &r->first_row);
	r->iterates = run_is_iterative(w->method);
	if (!r->iterates)
		return TOMOS_OK;
	TRY(iterative_take(r));
	r->iterative.o.iterations = w->iterations;
	return iterative_plan(r);
}

tomos_status tomos_cost_expect(
	tomos_cost *given, const tomos_work *work, const tomos_rates *rates, int64_t ranks)
{
	const tomos_job job = {.bytes = sizeof job};
	tomos_rates known = tomos_rates_defaults();
	tomos_work w = {.bytes = sizeof w};
	tomos_prepared prepared;
	tomos_cost cost;
	FileRun run;
	TRY(struct_take(&w, work, "tomos_work"));
	TRY(struct_take(&known, rates, "tomos_rates"));
	if (!w.method || !w.method[0])
		w.method = w.scan && w.scan->count > 0 ? run_default_method(w.scan) : "fbp";
	TRY(work_check(&w));
	TRY(work_run(&w, &known, &run, &prepared, &job));
	CostBytes bytes = {.row_bytes = (double)(w.scan->count * w.scan->columns) *
					(w.sample_bytes > 0 ? w.sample_bytes : 2),
		.voxel_bytes = w.voxel_bytes > 0 ? w.voxel_bytes : 4,
		.groups = w.groups};
	if (w.groups <= 0)
		TRY(run_view_groups(&run, ranks, &bytes.groups));
	TRY(cost_of(&run, &bytes, &known, ranks, &cost));
	return struct_give(given, &cost, "tomos_cost");
}
