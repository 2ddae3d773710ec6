/* Operators and vectors that are distributed over ranks: the values of one process, an exact
 * adjoint, and messages of the rows that slabs share and no others. The ranks are threads. */
#include "op/ranked_parts.h" /* first: cmocka makes a macro of fail() */
#include "base/base_test.h"
#include "geom/orbit.h"
#include "ops/rank_threads.h"
#include <math.h>

enum { ACROSS = 12, SLICES = 19, COLUMNS = 16, ROWS = 23, VIEWS = 9 };

/* What the ranks of a test share: results of one process, and what each rank has found. */
typedef struct {
	tomos_geometry *scan;
	tomos_grid grid;
	tomos_backend *backend;
	int64_t slices[MOST_RANKS + 1];
	int groups;                     /* ranks of each slab, which divide the views */
	float *x, *y, *back;            /* a volume, its projections, their back projection */
	double errors[MOST_RANKS];      /* the largest difference from these */
	double products[MOST_RANKS][2]; /* (A x, y) and (x, A'y) */
	const int64_t *views;           /* of a part of the operator */
	int64_t count;
} Shared;

static float *random_values(int64_t count, unsigned seed)
{
	float *values = malloc((size_t)count * sizeof *values);
	for (int64_t i = 0; i < count; i++) {
		seed = seed * 1664525U + 1013904223U;
		values[i] = (float)(seed >> 8) / 16777216.0F;
	}
	return values;
}

static tomos_geometry *make_scan(const char *kind)
{
	static const double distances[2] = {40, 60};
	static const int64_t size[3] = {VIEWS, ROWS, COLUMNS};
	tomos_scan_options o = orbit_options(kind, size, distances);
	tomos_geometry *scan;
	if (strcmp(kind, "laminography") == 0)
		o.tilt = 0.5;
	if (strcmp(kind, "helix") == 0)
		o.pitch = 9, o.arc = 12;
	assert_ok(tomos_geometry_make(&scan, &o));
	return scan;
}

static double largest_difference(const float *a, const float *b, int64_t count)
{
	double largest = 0;
	for (int64_t i = 0; i < count; i++)
		largest = fmax(largest, fabs((double)a[i] - (double)b[i]));
	return largest;
}

/* Copies rows between the projections of the whole scan and those of a slab. */
static void copy_rows(
	const Shared *s, const Bands *b, int slab, int64_t rows, float *part, bool out)
{
	for (int64_t i = 0; i < s->count; i++) {
		const RowBand own = bands_own(b, slab, s->views[i]);
		float *mine = part + i * rows * COLUMNS;
		float *all = s->y + (s->views[i] * ROWS + own.low) * COLUMNS;
		memcpy(out ? all : mine, out ? mine : all,
			(size_t)((own.high - own.low) * COLUMNS) * sizeof *mine);
	}
}

static double row_errors(const Shared *s, const Bands *b, int slab, int64_t rows, const float *part)
{
	double largest = 0;
	for (int64_t i = 0; i < s->count; i++) {
		const RowBand own = bands_own(b, slab, s->views[i]);
		int64_t count = (own.high - own.low) * COLUMNS;
		const float *mine = part + i * rows * COLUMNS;
		largest = fmax(
			largest, largest_difference(mine,
					 s->y + (s->views[i] * ROWS + own.low) * COLUMNS, count));
		for (int64_t k = count; k < rows * COLUMNS; k++)
			largest = fmax(largest, fabs((double)mine[k]));
	}
	return largest;
}

/* The checksum of a vector that ranks have parts of is that of the whole one. */
static tomos_status check_whole(const Shared *s, const tomos_op *op, const float *data)
{
	uint32_t sum;
	if (!op->range.parts)
		return TOMOS_OK;
	TRY(vector_checksum(&op->range, data, &sum));
	return sum == checksum_add(0, s->y, VIEWS * ROWS * COLUMNS * sizeof *s->y)
		       ? TOMOS_OK
		       : TOMOS_BAD_VALUE;
}

static tomos_status project(Shared *s, tomos_comm *comm, tomos_op *op, const Bands *b)
{
	int rank = comm->rank, slab = rank / s->groups;
	int64_t rows = op->range.shape[1];
	float *y, *x, *mine = s->x + s->slices[rank] * ACROSS * ACROSS;
	TRY(mem_zeroed(&y, 2 * op->range.count, sizeof *y, "projections"));
	TRY(mem_zeroed(&x, op->domain.count, sizeof *x, "a volume"));
	TRY(op_forward(op, mine, y));
	s->errors[rank] = row_errors(s, b, slab, rows, y);
	float *data = y + op->range.count;
	copy_rows(s, b, slab, rows, data, false);
	TRY(check_whole(s, op, data));
	TRY(op_adjoint(op, data, x));
	s->errors[rank] = fmax(
		s->errors[rank], largest_difference(x, s->back + s->slices[rank] * ACROSS * ACROSS,
					 op->domain.count));
	TRY(vector_dot(&op->range, y, data, &s->products[rank][0]));
	TRY(vector_dot(&op->domain, mine, x, &s->products[rank][1]));
	mem_free(y);
	mem_free(x);
	return TOMOS_OK;
}

static tomos_status try_rank(Shared *s, tomos_comm *comm)
{
	const Bands bands = {s->scan, &s->grid, s->slices, comm->size, 1, NULL, 0};
	tomos_backend *own, *ranked; /* of each rank */
	tomos_op *whole, *part = NULL;
	TRY(tomos_backend_open(&own, "cpu"));
	TRY(ranked_open(&ranked, own, comm));
	TRY(op_ranked(&whole, ranked, &bands, NULL));
	TRY(op_part(whole, &part, s->views, s->count));
	tomos_status status = project(s, comm, part, &bands);
	tomos_op_free(part);
	tomos_op_free(whole);
	ranked_close(ranked);
	tomos_backend_close(own);
	return status;
}

/* The views of a rank: a part of all, the slabs being those of several ranks. */
static tomos_status try_group(Shared *s, tomos_comm *comm)
{
	int rank = comm->rank, member = rank % s->groups;
	int64_t list[VIEWS], first = VIEWS * member / s->groups;
	Shared mine = *s;
	tomos_backend *own, *ranked;
	tomos_geometry *scan;
	tomos_op *op;
	mine.count = VIEWS * (member + 1) / s->groups - first;
	mine.views = list;
	for (int64_t i = 0; i < mine.count; i++)
		list[i] = first + i;
	TRY(tomos_geometry_views(&scan, ROWS, COLUMNS, s->scan->views + first, mine.count));
	const Bands all = {
		s->scan, &s->grid, s->slices, comm->size / s->groups, s->groups, NULL, 0};
	const Bands bands = {
		scan, &s->grid, s->slices, comm->size / s->groups, s->groups, s->scan, first};
	TRY(tomos_backend_open(&own, "cpu"));
	TRY(ranked_open(&ranked, own, comm));
	TRY(op_ranked(&op, ranked, &bands, NULL));
	tomos_op *part;
	if (op_part(op, &part, list, 1) != TOMOS_UNSUPPORTED)
		return TOMOS_BAD_VALUE;
	TRY(project(&mine, comm, op, &all));
	s->errors[rank] = mine.errors[rank];
	memcpy(s->products[rank], mine.products[rank], sizeof mine.products[rank]);
	tomos_op_free(op);
	ranked_close(ranked);
	tomos_backend_close(own);
	tomos_geometry_free(scan);
	return TOMOS_OK;
}

static tomos_status rank_work(tomos_comm *comm, void *user)
{
	Shared *s = user;
	return s->groups > 1 ? try_group(s, comm) : try_rank(s, comm);
}

/* The same by one process. */
static void project_alone(Shared *s)
{
	tomos_op *whole, *part;
	float *y = random_values(VIEWS * ROWS * COLUMNS, 1);
	assert_ok(tomos_op_projector(&whole, s->backend, &s->grid, s->scan, NULL));
	assert_ok(op_part(whole, &part, s->views, s->count));
	assert_ok(op_forward(part, s->x, y));
	assert_ok(op_adjoint(part, y, s->back));
	for (int64_t i = 0; i < s->count; i++)
		memcpy(s->y + s->views[i] * ROWS * COLUMNS, y + i * ROWS * COLUMNS,
			ROWS * COLUMNS * sizeof *y);
	free(y);
	tomos_op_free(part);
	tomos_op_free(whole);
}

static void check_ranks(Shared *s, int ranks, double sent)
{
	const Bands bands = {s->scan, &s->grid, s->slices, ranks / s->groups, s->groups, NULL, 0};
	double volume = SLICES * ACROSS * ACROSS * sizeof(float);
	double slices = 2 * (s->groups - 1) * volume; /* gathered, and reduce-scattered */
	bool near = ranks_local >= ranks;             /* in shared memory, or by messages */
	double wanted = near ? 0 : slices;
	for (int i = 0; i < ranks; i++) {
		if (s->errors[i] > 2e-4)
			fail_msg("rank %d of %d differs by %g", i, ranks, s->errors[i]);
		assert_float_equal((float)(s->products[i][0] / s->products[i][1]), 1, 1e-5F);
		assert_true(s->products[i][0] == s->products[0][0]);
	}
	for (int i = 0; i < ranks / s->groups; i++)
		wanted += 2 * (double)bands_sent(&bands, i) * sizeof(float);
	if (s->count == VIEWS) /* a forward and a back projection */
		assert_true(sent == wanted && ranks_shared == (near ? slices : 0));
}

static void check_kind(const char *kind, const int64_t *views, int64_t count, int most, int groups)
{
	Shared s = {.scan = make_scan(kind), .groups = groups, .views = views, .count = count};
	assert_ok(tomos_grid_centred(&s.grid, ACROSS, ACROSS, SLICES, 1));
	assert_ok(tomos_backend_open(&s.backend, "cpu"));
	s.x = random_values(SLICES * ACROSS * ACROSS, 7);
	s.y = random_values(VIEWS * ROWS * COLUMNS, 8);
	s.back = random_values(SLICES * ACROSS * ACROSS, 9);
	project_alone(&s);
	for (int ranks = groups; ranks <= most; ranks += groups) {
		for (int i = 0; i <= ranks; i++)
			s.slices[i] = SLICES * i / ranks;
		check_ranks(&s, ranks, ranks_run(ranks, rank_work, &s, TOMOS_OK));
	}
	free(s.x);
	free(s.y);
	free(s.back);
	tomos_backend_close(s.backend);
	tomos_geometry_free(s.scan);
}

static void projections_are_those_of_one_process(void **state)
{
	static const int64_t all[VIEWS] = {0, 1, 2, 3, 4, 5, 6, 7, 8}, some[3] = {7, 0, 4};
	(void)state;
	check_kind("cone", all, VIEWS, 5, 1);
	check_kind("laminography", all, VIEWS, 4, 1);
	check_kind("helix", all, VIEWS, 5, 1);
	check_kind("cone", some, 3, 3, 1);
	check_kind("helix", some, 3, 3, 1);
	for (ranks_local = MOST_RANKS; ranks_local > 0; ranks_local /= MOST_RANKS) {
		check_kind("cone", all, VIEWS, 4, 2);
		check_kind("laminography", all, VIEWS, 3, 3);
		check_kind("helix", all, VIEWS, 6, 3);
	}
	ranks_local = MOST_RANKS;
}

/* ---- messages by chunks of views ------------------------------------------------------------ */

/* A forward and a back projection, whose bytes follow each other in `result`. */
static tomos_status project_by(
	Shared *s, tomos_comm *comm, int64_t chunk, bool waits, float **result, int64_t counts[2])
{
	const Bands bands = {s->scan, &s->grid, s->slices, comm->size, 1, NULL, 0};
	tomos_backend *own, *ranked;
	tomos_op *op;
	TRY(tomos_backend_open(&own, "cpu"));
	TRY(ranked_open(&ranked, own, comm));
	ranked_change(ranked)->chunk_views = chunk;
	ranked_change(ranked)->waits = waits;
	TRY(op_ranked(&op, ranked, &bands, NULL));
	counts[0] = op->range.count;
	counts[1] = op->domain.count;
	TRY(mem_zeroed(result, counts[0] + counts[1], sizeof **result, "results"));
	TRY(op_forward(op, s->x + s->slices[comm->rank] * ACROSS * ACROSS, *result));
	TRY(op_adjoint(op, *result, *result + counts[0]));
	tomos_op_free(op);
	ranked_close(ranked);
	tomos_backend_close(own);
	return TOMOS_OK;
}

static tomos_status compare_orders(tomos_comm *comm, void *user)
{
	Shared *s = user;
	float *overlapped, *waiting, *once;
	int64_t n[2];
	TRY(project_by(s, comm, 2, false, &overlapped, n));
	TRY(project_by(s, comm, 2, true, &waiting, n));
	TRY(project_by(s, comm, VIEWS, true, &once, n));
	bool same = memcmp(overlapped, waiting, (size_t)(n[0] + n[1]) * sizeof *once) == 0 &&
		    memcmp(overlapped, once, (size_t)n[0] * sizeof *once) == 0;
	s->errors[comm->rank] = largest_difference(overlapped + n[0], once + n[0], n[1]);
	mem_free(overlapped);
	mem_free(waiting);
	mem_free(once);
	return same ? TOMOS_OK : TOMOS_BAD_VALUE;
}

/* Messages that overlap computing change no bit; back projections of all views at once are summed
 * in another order. */
static void overlapped_messages_change_nothing(void **state)
{
	static const char *const kinds[] = {"cone", "laminography", "helix"};
	(void)state;
	for (int k = 0; k < COUNT(kinds); k++) {
		Shared s = {.scan = make_scan(kinds[k]), .groups = 1};
		assert_ok(tomos_grid_centred(&s.grid, ACROSS, ACROSS, SLICES, 1));
		s.x = random_values(SLICES * ACROSS * ACROSS, 11);
		for (int i = 0; i <= 3; i++)
			s.slices[i] = SLICES * i / 3;
		(void)ranks_run(3, compare_orders, &s, TOMOS_OK);
		for (int i = 0; i < 3; i++)
			assert_true(s.errors[i] < 1e-2); /* of values up to 1e3 */
		free(s.x);
		tomos_geometry_free(s.scan);
	}
}

/* ---- differences across slabs --------------------------------------------------------------- */

typedef struct {
	float *x, *field, *back;
	double errors[MOST_RANKS];
	tomos_backend *backend;
} Gradients;

static tomos_status try_gradient(tomos_comm *comm, void *user)
{
	Gradients *g = user;
	int64_t size = ACROSS * ACROSS, first = SLICES * comm->rank / comm->size;
	int64_t end = SLICES * (comm->rank + 1) / comm->size, count = (end - first) * size;
	const int64_t shape[3] = {end - first, ACROSS, ACROSS};
	float *field, *x;
	double largest = 0;
	tomos_backend *ranked;
	TRY(ranked_open(&ranked, g->backend, comm));
	TRY(mem_alloc(&field, 3 * count, sizeof *field, "a field"));
	TRY(mem_alloc(&x, count, sizeof *x, "a volume"));
	TRY(ranked->type->vector->gradient(ranked, shape, 3, g->x + first * size, field));
	for (int part = 0; part < 3; part++)
		largest = fmax(largest, largest_difference(field + part * count,
						g->field + (part * SLICES + first) * size, count));
	TRY(ranked->type->vector->gradient_adjoint(ranked, shape, 3, field, x));
	largest = fmax(largest, largest_difference(x, g->back + first * size, count));
	g->errors[comm->rank] = largest;
	mem_free(field);
	mem_free(x);
	ranked_close(ranked);
	return TOMOS_OK;
}

static void differences_cross_slabs(void **state)
{
	const int64_t shape[3] = {SLICES, ACROSS, ACROSS};
	Gradients g = {.x = random_values(SLICES * ACROSS * ACROSS, 3)};
	(void)state;
	g.field = random_values(3 * SLICES * ACROSS * ACROSS, 4);
	g.back = random_values(SLICES * ACROSS * ACROSS, 5);
	assert_ok(tomos_backend_open(&g.backend, "cpu"));
	assert_ok(g.backend->type->vector->gradient(g.backend, shape, 3, g.x, g.field));
	assert_ok(g.backend->type->vector->gradient_adjoint(g.backend, shape, 3, g.field, g.back));
	for (int ranks = 1; ranks <= 5; ranks++) {
		double sent = ranks_run(ranks, try_gradient, &g, TOMOS_OK);
		assert_true(sent == 2.0 * (ranks - 1) * ACROSS * ACROSS * sizeof(float));
		for (int i = 0; i < ranks; i++)
			assert_true(g.errors[i] < 1e-6);
	}
	free(g.x);
	free(g.field);
	free(g.back);
	tomos_backend_close(g.backend);
}

/* ---- failures ------------------------------------------------------------------------------- */

static tomos_status fail_together(tomos_comm *comm, void *user)
{
	char(*messages)[64] = user;
	int index;
	tomos_status own = comm->rank == 2 ? choice_find("disk", "a|b", "c", &index) : TOMOS_OK;
	tomos_status all = comm_agree(comm, own);
	snprintf(messages[comm->rank], sizeof messages[0], "%s", tomos_message());
	return all;
}

static void failures_are_known_to_all(void **state)
{
	char messages[MOST_RANKS][64];
	(void)state;
	(void)ranks_run(4, fail_together, messages, TOMOS_BAD_VALUE);
	for (int i = 0; i < 4; i++)
		assert_non_null(strstr(messages[i], "rank 2: disk 'c'"));
}

/* ---- messages in half precision ------------------------------------------------------------- */

enum { SENT = 1001 }; /* an odd number: the next message begins at a multiple of 4 all the same */

typedef struct {
	tomos_backend *backend;
	double worst[MOST_RANKS], relative[MOST_RANKS];
} Halves;

/* Of sizes from 1e-12 to 1e8, of both signs. */
static float sent_value(int rank, int64_t i)
{
	double size = pow(10, (double)((i * 37 + rank * 11) % 201) / 10 - 12);
	return i == 5 ? 0 : (float)(i % 3 ? size : -size);
}

/* The largest error, relative to the value or to 2^-28 of the largest one of its message. */
static double worst_of(const float *got, int rank)
{
	double worst = 0, largest = 0;
	for (int64_t i = 0; i < SENT; i++)
		largest = fmax(largest, fabs((double)sent_value(rank, i)));
	for (int64_t i = 0; i < SENT; i++) {
		double value = (double)sent_value(rank, i);
		worst = fmax(
			worst, fabs((double)got[i] - value) / fmax(fabs(value), 0x1p-28 * largest));
	}
	return worst;
}

static tomos_status try_halves(tomos_comm *comm, void *user)
{
	Halves *h = user;
	int next = (comm->rank + 1) % comm->size, last = (comm->rank + comm->size - 1) % comm->size;
	float mine[2][SENT], got[2][SENT] = {{0}};
	CommMessage list[4];
	tomos_backend *ranked;
	for (int64_t i = 0; i < SENT; i++)
		mine[0][i] = sent_value(comm->rank, i), mine[1][i] = 1e-20F * mine[0][i];
	for (int i = 0; i < 2; i++) {
		list[2 * i] = (CommMessage){next, true, mine[i], sizeof mine[i]};
		list[2 * i + 1] = (CommMessage){last, false, got[i], sizeof got[i]};
	}
	TRY(ranked_open(&ranked, h->backend, comm));
	ranked_use_half(ranked);
	TRY(ranked_exchange(ranked_change(ranked), list, 4));
	for (int64_t i = 0; i < SENT; i++)
		got[1][i] *= 1e20F;
	h->worst[comm->rank] = fmax(worst_of(got[0], last), worst_of(got[1], last));
	TRY(ranked_rounding(ranked, &h->relative[comm->rank]));
	ranked_close(ranked);
	return TOMOS_OK;
}

static void half_precision_has_the_stated_error(void **state)
{
	Halves h = {.backend = NULL};
	(void)state;
	assert_ok(tomos_backend_open(&h.backend, "cpu"));
	double sent = ranks_run(3, try_halves, &h, TOMOS_OK);
	assert_true(sent == 3 * 2 * (4.0 + 2 * SENT));
	for (int i = 0; i < 3; i++) {
		assert_true(h.worst[i] > 1e-5 && h.worst[i] <= 0x1p-11 + 1e-6);
		assert_true(h.relative[i] > 1e-5 && h.relative[i] < 0x1p-11);
		assert_true(h.relative[i] == h.relative[0]);
	}
	tomos_backend_close(h.backend);
}

#define TESTS(T) \
	T(projections_are_those_of_one_process), T(overlapped_messages_change_nothing), \
		T(differences_cross_slabs), T(failures_are_known_to_all), \
		T(half_precision_has_the_stated_error)
TEST_MAIN(TESTS, NULL, NULL)
