/* SCSR against CSR: view sets of 8, 4, 2 and 1 symmetries, odd and even sizes, parallel and fan
 * beam, ties, and the form of the dense matrices. */
#include "op/scsr/scsr.h" /* first: cmocka makes a macro of fail() */
#include "ops/cpu_backend.h"

#define PI 3.14159265358979323846

typedef struct {
	const char *what;
	int64_t nx, ny, columns, views;
	double pixel, start, arc; /* degrees */
	double axis;              /* columns from the middle */
	double source;            /* 0: parallel */
	int symmetries;
	int64_t least; /* smallest reduction of the rows, in tenths */
	double height; /* of voxels whose width is 1 */
} Setup;

static const Setup setups[] = {
	{"half a turn, even", 16, 16, 16, 24, 1, 0, 180, 0, 0, 8, 60, 1},
	{"half a turn, odd", 17, 17, 17, 24, 1, 0, 180, 0, 0, 8, 60, 1},
	{"half a turn, odd and even", 17, 17, 16, 24, 1, 0, 180, 0, 0, 8, 60, 1},
	{"half a turn, even and odd", 16, 16, 21, 24, 1, 0, 180, 0, 0, 8, 60, 1},
	{"half a turn between the axes", 20, 20, 24, 16, 0.8, 5.625, 180, 0, 0, 8, 79, 1},
	{"half a turn, several slabs", 70, 70, 80, 12, 0.9, 0, 180, 0, 0, 8, 50, 1},
	{"half a turn, groups of all pairs", 150, 150, 170, 8, 0.9, 0, 180, 0, 0, 8, 40, 1},
	{"a whole turn", 15, 15, 22, 32, 0.7, 0, 360, 0, 0, 8, 75, 1},
	{"a whole turn, axis off the middle", 16, 16, 19, 32, 1, 0, 360, 1.3, 0, 8, 60, 1},
	{"half a turn, axis off the middle", 16, 16, 19, 32, 1, 0, 180, 1.3, 0, 1, 10, 1},
	{"quarter turns alone", 16, 16, 20, 12, 1, 3, 360, 0, 0, 4, 39, 1},
	{"half turns alone", 16, 16, 20, 9, 1, 3, 180, 0, 0, 2, 20, 1},
	{"a rectangle", 16, 11, 20, 12, 1, 0, 180, 0, 0, 4, 30, 1},
	{"oblong voxels", 16, 16, 24, 12, 1, 0, 180, 0, 0, 4, 30, 1.25},
	{"nothing in common", 16, 16, 20, 7, 1, 3, 100, 0.2, 0, 1, 10, 1},
	{"voxels larger than pixels", 8, 8, 40, 16, 0.25, 0, 180, 0, 0, 8, 60, 1},
	{"pixels larger than voxels", 24, 24, 8, 16, 3.1, 0, 180, 0, 0, 8, 60, 1},
	{"one column", 9, 9, 1, 16, 1, 0, 180, 0, 0, 8, 20, 1},
	{"fan", 16, 16, 24, 32, 1, 0, 360, 0, 40, 8, 65, 1},
	{"fan, quarter turns alone", 17, 17, 24, 12, 1, 3, 360, 0, 40, 4, 39, 1},
	{"fan, half a turn", 17, 17, 24, 12, 1, 3, 180, 0, 40, 1, 10, 1},
	{"fan, axis off the middle", 16, 16, 24, 32, 1, 0, 360, 2, 40, 4, 39, 1},
};

static void make_scan(const Setup *s, tomos_grid *grid, tomos_geometry **scan)
{
	tomos_scan_options o = tomos_scan_defaults();
	double axis = 0.5 * (double)(s->columns - 1) + s->axis, distance = 2 * s->source;
	o.geometry = s->source > 0 ? "fan" : "parallel";
	o.columns = s->columns;
	o.pixel = s->pixel;
	o.views = s->views;
	o.start = s->start * PI / 180;
	o.arc = s->arc * PI / 180;
	o.axis = &axis, o.axis_count = 1;
	if (s->source > 0) {
		o.source_axis = &s->source, o.source_axis_count = 1;
		o.source_detector = &distance, o.source_detector_count = 1;
	}
	OK(tomos_grid_centred(grid, s->nx, s->ny, 1, 1));
	grid->step[1] *= s->height;
	grid->first[1] *= s->height;
	OK(tomos_geometry_make(scan, &o));
}

static tomos_op *make_matrix(const Setup *s, const tomos_projector_options *o, const char *storage)
{
	tomos_grid grid;
	tomos_geometry *scan;
	tomos_matrix_options m = tomos_matrix_defaults();
	tomos_op *op;
	m.storage = storage;
	make_scan(s, &grid, &scan);
	OK(tomos_op_matrix(&op, cpu, &grid, scan, o, &m));
	tomos_geometry_free(scan);
	return op;
}

static double compare(const tomos_op *one, const tomos_op *two, int power, Case *c)
{
	int64_t n = one->domain.count, m = one->range.count;
	float *x = case_data(c, n), *y = case_data(c, m), *f = case_data(c, m),
	      *g = case_data(c, n);
	float *f2 = case_data(c, m), *g2 = case_data(c, n);
	OK(power == 1 ? op_forward(one, x, f) : op_power(one, power, x, f));
	OK(power == 1 ? op_forward(two, x, f2) : op_power(two, power, x, f2));
	OK(power == 1 ? op_adjoint(one, y, g) : op_power_adjoint(one, power, y, g));
	OK(power == 1 ? op_adjoint(two, y, g2) : op_power_adjoint(two, power, y, g2));
	double worst = fmax(case_difference(f, f2, m), case_difference(g, g2, n));
	free(x), free(y), free(f), free(g), free(f2), free(g2);
	return worst;
}

static void check_rows(const tomos_op *one, const tomos_op *two)
{
	int64_t n = one->domain.count, most = one->row_most, index[2][1024], count[2];
	float weight[2][1024];
	double *dense = calloc((size_t)n, sizeof *dense);
	assert_true(most <= 1024 && two->row_most <= 1024);
	for (int64_t r = 0; r < one->range.count; r++) {
		OK(op_row(one, r, index[0], weight[0], &count[0]));
		OK(op_row(two, r, index[1], weight[1], &count[1]));
		for (int w = 0; w < 2; w++)
			for (int64_t k = 0; k < count[w]; k++)
				dense[index[w][k]] += w ? -weight[w][k] : weight[w][k];
		for (int w = 0; w < 2; w++)
			for (int64_t k = 0; k < count[w]; k++) {
				if (fabs(dense[index[w][k]]) > 1e-6)
					fail_msg("row %d: entries of pixel %d differ by %g", (int)r,
						(int)index[w][k], dense[index[w][k]]);
			}
		for (int w = 0; w < 2; w++)
			for (int64_t k = 0; k < count[w]; k++)
				dense[index[w][k]] = 0;
	}
	free(dense);
}

static void check_parts(const tomos_op *one, const tomos_op *two, Case *c)
{
	int64_t views = one->range.shape[0], list[64], count = 0;
	for (int64_t v = views - 1; v >= 0; v -= 3)
		list[count++] = v;
	tomos_op *a, *b;
	OK(op_part(one, &a, list, count));
	OK(op_part(two, &b, list, count));
	double difference = compare(a, b, 1, c);
	if (!(difference <= 1e-6))
		fail_msg("parts differ by %g", difference);
	check_rows(a, b);
	tomos_op_free(a), tomos_op_free(b);
}

/* ---- sweeps ---------------------------------------------------------------------------------- */

/* Kaczmarz's method with these rows, one after the other. */
static void sweep_rows(const tomos_op *op, const RowSweep *sweep, double *x, double *r)
{
	int64_t columns = op->range.shape[2], index[1024], count;
	float weight[1024];
	for (int64_t k = 0; k < sweep->count * columns; k++) {
		int64_t i = sweep->views[k / columns] * columns + k % columns;
		OK(op_row(op, i, index, weight, &count));
		r[i] = sweep->b[i];
		for (int64_t e = 0; e < count; e++)
			r[i] -= weight[e] * x[index[e]];
		for (int64_t e = 0; e < count; e++)
			x[index[e]] += sweep->factor[i] * r[i] * weight[e];
	}
}

static double largest_difference(const float *a, const double *b, int64_t n)
{
	double worst = 0;
	for (int64_t i = 0; i < n; i++)
		worst = fmax(worst, fabs(a[i] - b[i]));
	return worst;
}

/* Two sweeps with the views in an odd order, and some twice. */
static double check_sweeps(const tomos_op *op, Case *c)
{
	int64_t n = op->domain.count, m = op->range.count, views[128];
	RowSweeper *sweeper;
	RowSweep sweep = {.views = views, .count = op->range.shape[0] + 2};
	float *x = case_data(c, n), *b = case_data(c, m), *factor = case_data(c, m);
	float *r = case_data(c, m), *ones = case_data(c, n);
	double *y = calloc((size_t)n, sizeof *y), *q = calloc((size_t)m, sizeof *q);
	for (int64_t i = 0; i < sweep.count; i++)
		views[i] = i * 7 % op->range.shape[0];
	for (int64_t i = 0; i < n; i++)
		y[i] = x[i], ones[i] = 1;
	OK(op_power(op, 2, ones, factor));
	for (int64_t i = 0; i < m; i++)
		factor[i] = factor[i] > 0.1F ? 0.9F / factor[i] : 0;
	sweep.b = b, sweep.factor = factor, sweep.r = r;
	OK(op_sweeper(op, &sweeper));
	assert_non_null(sweeper);
	for (int k = 0; k < 2; k++) {
		sweeper->sweep(sweeper, &sweep, x);
		sweep_rows(op, &sweep, y, q);
	}
	sweeper->free(sweeper);
	double worst = largest_difference(x, y, n);
	for (int64_t i = 0; i < op->range.shape[0]; i++) /* views that were met */
		for (int64_t k = 0; k < sweep.count; k++)
			if (views[k] == i)
				worst = fmax(worst,
					largest_difference(r + i * op->range.shape[2],
						q + i * op->range.shape[2], op->range.shape[2]));
	free(x), free(b), free(factor), free(r), free(ones), free(y), free(q);
	return worst;
}

static void sweeps_are_by_rows(void **state)
{
	(void)state;
	double worst = 0;
	for (size_t i = 0; i < sizeof setups / sizeof *setups; i++)
		for (int model = 0; model < CASE_MODELS; model += CASE_SLOW ? 3 : 1) {
			tomos_projector_options o = tomos_projector_defaults();
			Case c = {.state = i};
			const int64_t some[] = {3, 1, 5};
			tomos_op *part;
			o.boundary = (i + (size_t)model) % 2 ? "clamp" : "expand";
			o.forward = case_models[model];
			case_fit(&o);
			tomos_op *op = make_matrix(&setups[i], &o, "scsr");
			OK(op_part(op, &part, some, 3));
			double difference = fmax(check_sweeps(op, &c), check_sweeps(part, &c));
			if (!(difference < 1e-4))
				fail_msg("%s, %s: sweeps differ by %g", setups[i].what, o.forward,
					difference);
			worst = fmax(worst, difference);
			tomos_op_free(part), tomos_op_free(op);
		}
	printf("  sweeps against rows one by one: largest difference %.1e\n", worst);
}

/* ---- SCSR is CSR ----------------------------------------------------------------------------- */

static void check_setup(
	const Setup *s, const tomos_projector_options *o, int symmetries, double *worst)
{
	Case c = {.state = 99};
	tomos_op *csr = make_matrix(s, o, "csr"), *scsr = make_matrix(s, o, "scsr");
	const Scsr *own = scsr->own;
	double difference = compare(scsr, csr, 1, &c);
	if (!(difference <= 1e-6))
		fail_msg("%s, %s %s %s: products differ by %g", s->what, o->forward, o->boundary,
			o->voxel_interpolation, difference);
	/* Entries that are zero but for rounding are counted by either or neither. */
	if (strcmp(o->forward, "footprint") == 0)
		assert_true(compare(scsr, csr, 2, &c) <= 1e-6);
	if (own->symmetries.count != symmetries)
		fail_msg("%s, %s: %d symmetries", s->what, o->forward, own->symmetries.count);
	char words[32];
	snprintf(words, sizeof words, "%d symmetr", symmetries);
	assert_non_null(strstr(tomos_op_describe(scsr), words));
	check_rows(scsr, csr);
	check_parts(scsr, csr, &c);
	*worst = fmax(*worst, difference);
	tomos_op_free(csr), tomos_op_free(scsr);
}

static void scsr_is_csr(void **state)
{
	(void)state;
	double worst = 0;
	for (size_t i = 0; i < sizeof setups / sizeof *setups; i++)
		for (int model = 0; model < CASE_MODELS; model++)
			for (int choice = 0; choice < (CASE_SLOW ? 1 : 3); choice++) {
				tomos_projector_options o = tomos_projector_defaults();
				o.forward = case_models[model];
				o.boundary = choice == 1 ? "clamp" : "expand";
				o.voxel_interpolation = choice == 2 ? "nearest" : "linear";
				case_fit(&o);
				bool nearest = strcmp(o.voxel_interpolation, "nearest") == 0;
				check_setup(
					&setups[i], &o, nearest ? 1 : setups[i].symmetries, &worst);
			}
	printf("  SCSR against CSR: largest difference %.1e\n", worst);
}

/* ---- the form of it -------------------------------------------------------------------------- */

static void check_group(const Scsr *s, const Group *g)
{
	const ScsrRows *r = s->rows;
	assert_true(g->pairs >= 1 && g->pairs <= PAIRS);
	assert_true(g->one <= g->two && g->two <= g->width);
	for (int64_t t = 0; t < g->width; t++)
		for (int i = 0; i < g->pairs; i++)
			for (int j = 0; j < i; j++) {
				int64_t a = g->at + t * g->pairs + i, b = g->at + t * g->pairs + j;
				if (r->weight[a] != 0 && r->weight[b] != 0)
					assert_int_not_equal(r->index[a], r->index[b]);
			}
	for (int i = 0; i < g->pairs; i++) {
		int64_t bits = 0;
		for (int64_t t = g->one; t < g->two; t++)
			bits += r->masks[g->masks + t - g->one] >> i & 1;
		assert_in_range(bits, 0, 1);
	}
}

/* Every pair is a long row and a short one, in the place that is kept for it. */
static void check_pairs(const Scsr *s)
{
	const ScsrRows *r = s->rows;
	int64_t found = 0, missing = 0;
	for (int64_t i = 0; i < r->slabs * r->rows; i++)
		found += r->place[i] >= 0;
	for (int64_t i = 0; i < r->pairs; i++)
		missing += r->column[2 * i + 1] < 0;
	assert_int_equal(found, 2 * r->pairs - missing);
}

/* Of every array. */
static void check_bytes(const Scsr *s)
{
	const ScsrRows *r = s->rows;
	int64_t bytes = 0;
	bytes += r->entries * (int64_t)sizeof *r->index;
	bytes += r->entries * (int64_t)sizeof *r->weight;
	bytes += r->mask_count * (int64_t)sizeof *r->masks;
	bytes += 2 * r->pairs * (int64_t)sizeof *r->column;
	bytes += r->slabs * r->rows * (int64_t)sizeof *r->place;
	bytes += r->groups * (int64_t)sizeof *r->group;
	bytes += (r->slabs * r->orbits + 1) * (int64_t)sizeof *r->first_group;
	bytes += r->orbits * (int64_t)sizeof(Orbit);
	assert_int_equal(scsr_bytes(s), bytes);
}

static void form(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof setups / sizeof *setups; i++)
		for (int model = 0; model < CASE_MODELS; model++) {
			tomos_projector_options o = tomos_projector_defaults();
			o.forward = case_models[model];
			tomos_op *op = make_matrix(&setups[i], &o, "scsr");
			const Scsr *s = op->own;
			for (int64_t g = 0; g < s->rows->groups; g++)
				check_group(s, &s->rows->group[g]);
			check_pairs(s);
			check_bytes(s);
			bool ties = strcmp(case_models[model], "line") == 0 ||
				    strcmp(case_models[model], "line-march") == 0;
			if (!ties && 10 * op->range.count < setups[i].least * s->symmetries.rows)
				fail_msg("%s: %d of %d rows stored", setups[i].what,
					(int)s->symmetries.rows, (int)op->range.count);
			tomos_op_free(op);
		}
}

/* The same view twice, and half of the views twice. */
static void views_twice(void **state)
{
	(void)state;
	tomos_grid grid;
	OK(tomos_grid_centred(&grid, 12, 12, 1, 1));
	for (int extra = 1; extra <= 16; extra++) {
		double angles[32];
		Case c = {.state = 3};
		tomos_geometry *scan;
		tomos_op *csr, *scsr;
		for (int i = 0; i < 16 + extra; i++)
			angles[i] = PI / 16 * (i % 16);
		OK(tomos_geometry_parallel(&scan, 1, 15, 0.9, angles, 16 + extra));
		tomos_matrix_options m = tomos_matrix_defaults();
		OK(tomos_op_matrix(&csr, cpu, &grid, scan, NULL, &m));
		m.storage = "scsr";
		OK(tomos_op_matrix(&scsr, cpu, &grid, scan, NULL, &m));
		assert_true(compare(scsr, csr, 1, &c) <= 1e-6);
		assert_true(check_sweeps(scsr, &c) < 1e-4);
		tomos_op_free(csr), tomos_op_free(scsr);
		tomos_geometry_free(scan);
	}
}

static void threads_do_not_matter(void **state)
{
	(void)state;
	const Setup *s = &setups[5];
	static float x[70 * 70], y[12 * 80], f[3][12 * 80], g[3][70 * 70], h[3][70 * 70];
	const int64_t views[] = {0, 7, 3, 11};
	Case c = {.state = 8};
	for (int i = 0; i < 70 * 70; i++)
		x[i] = (float)case_random(&c);
	for (int i = 0; i < 12 * 80; i++)
		y[i] = (float)case_random(&c);
	for (int t = 0; t < 3; t++) {
		OK(tomos_set_threads((int[]){1, 2, 7}[t]));
		tomos_op *op = make_matrix(s, NULL, "scsr");
		OK(op_forward(op, x, f[t]));
		OK(op_adjoint(op, y, g[t]));
		assert_memory_equal(f[0], f[t], sizeof f[0]);
		assert_memory_equal(g[0], g[t], sizeof g[0]);
		float r[12 * 80], factor[12 * 80];
		RowSweep sweep = {views, 4, y, factor, r};
		RowSweeper *sweeper;
		for (int i = 0; i < 12 * 80; i++)
			factor[i] = 0.01F;
		memcpy(h[t], x, sizeof x);
		OK(op_sweeper(op, &sweeper));
		sweeper->sweep(sweeper, &sweep, h[t]);
		sweeper->free(sweeper);
		assert_memory_equal(h[0], h[t], sizeof h[0]);
		tomos_op_free(op);
	}
	OK(tomos_set_threads(0));
}

static void failing_allocations(void **state)
{
	(void)state;
	tomos_grid grid;
	tomos_geometry *scan;
	tomos_matrix_options m = tomos_matrix_defaults();
	tomos_op *op = NULL, *part = NULL;
	const int64_t view = 3;
	m.storage = "scsr";
	make_scan(&setups[0], &grid, &scan);
	tomos_status status = TOMOS_NO_MEMORY;
	for (int n = 1; status != TOMOS_OK; n++) {
		int64_t before = mem_live();
		mem_fail_nth(n);
		status = tomos_op_matrix(&op, cpu, &grid, scan, NULL, &m);
		mem_fail_nth(0);
		if (status != TOMOS_OK) {
			assert_int_equal(status, TOMOS_NO_MEMORY);
			assert_int_equal(mem_live(), before);
		}
	}
	float x[256] = {0}, y[24 * 16] = {0};
	RowSweeper *sweeper = NULL;
	for (int verb = 0; verb < 4; verb++) {
		status = TOMOS_NO_MEMORY;
		for (int n = 1; status != TOMOS_OK; n++) {
			int64_t before = mem_live();
			mem_fail_nth(n);
			status = verb == 0   ? op_forward(op, x, y)
				 : verb == 1 ? op_adjoint(op, y, x)
				 : verb == 2 ? op_part(op, &part, &view, 1)
					     : op_sweeper(op, &sweeper);
			mem_fail_nth(0);
			if (status != TOMOS_OK) {
				assert_int_equal(status, TOMOS_NO_MEMORY);
				assert_int_equal(mem_live(), before);
			}
		}
	}
	sweeper->free(sweeper);
	tomos_op_free(part), tomos_op_free(op);
	tomos_geometry_free(scan);
}

#define TESTS(T) \
	T(scsr_is_csr), T(sweeps_are_by_rows), T(form), T(views_twice), T(threads_do_not_matter), \
		T(failing_allocations)
TEST_MAIN(TESTS, set_up, tear_down)
