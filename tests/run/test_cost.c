/* The expected cost of runs over ranks: amounts against sums over the shares, times against rates
 * that are known, files of rates, and the plan of a dry run. */
#include <math.h>
#include "geom/bands.h"
#include "geom/orbit.h"
#include "run/cost.h"
#include "run_help.h"

enum { VIEWS = 24, SIZE = 20, ROWS = 23, COLUMNS = 26 };

static tomos_geometry *scan_of(const char *kind)
{
	static const double distances[2] = {60, 90};
	static const int64_t size[3] = {VIEWS, ROWS, COLUMNS};
	tomos_scan_options o = orbit_options(kind, size, distances);
	tomos_geometry *scan;
	assert_ok(tomos_geometry_make(&scan, &o));
	return scan;
}

/* Rates that are easily told apart. */
static tomos_rates some_rates(void)
{
	tomos_rates r = tomos_rates_defaults();
	r.back = 1e6;
	r.iterate = 2e6;
	r.filter = 1e5;
	r.prepare = 3e5;
	r.read = 4e5;
	r.write = 5e5;
	r.memory = 1e6;
	r.network = 1e5;
	r.read_all = r.write_all = 0;
	r.latency = 0;
	r.start = 0.25;
	return r;
}

typedef struct {
	tomos_geometry *scan;
	tomos_grid grid;
	tomos_work work;
	tomos_rates rates;
} Case;

static Case *case_of(const char *kind, const char *method)
{
	static Case c;
	c.scan = scan_of(kind);
	assert_ok(tomos_grid_for(&c.grid, c.scan, NULL));
	c.work = (tomos_work){.bytes = sizeof c.work,
		.grid = &c.grid,
		.scan = c.scan,
		.method = method,
		.iterations = 7};
	c.rates = some_rates();
	return &c;
}

static tomos_cost expect(const Case *c, int64_t ranks)
{
	tomos_cost cost = {.bytes = sizeof cost};
	assert_ok(tomos_cost_expect(&cost, &c->work, &c->rates, ranks));
	return cost;
}

static double voxels(const Case *c)
{
	return (double)(c->grid.n[0] * c->grid.n[1] * c->grid.n[2]);
}

static void assert_near(double a, double b)
{
	if (!(fabs(a - b) <= 1e-9 * (fabs(a) + fabs(b))))
		print_error("%.12g is not %.12g\n", a, b);
	assert_true(fabs(a - b) <= 1e-9 * (fabs(a) + fabs(b)));
}

static double total(const tomos_cost *c)
{
	double sum = 0;
	for (int i = 0; i < TOMOS_COSTS; i++)
		sum += c->stage_seconds[i];
	return sum;
}

#define assert_fails(expression, status, words) \
	do { \
		assert_int_equal(expression, status); \
		assert_says(words); \
	} while (0)

/* ---- amounts --------------------------------------------------------------------------------- */

/* One rank, one slab: every amount is that of the whole, and nothing overlaps. */
static void one_rank_does_all(void **state)
{
	(void)state;
	const Case *c = case_of("cone", "");
	double values = VIEWS * ROWS * COLUMNS;
	tomos_cost cost = expect(c, 1);
	assert_int_equal(cost.slabs * cost.groups, 1);
	assert_near(cost.read_bytes, 2 * values);
	assert_near(cost.written_bytes, 4 * voxels(c));
	assert_near(cost.sent_bytes, 0);
	assert_near(cost.stage_seconds[TOMOS_COST_READ], 2 * values / 4e5);
	assert_near(cost.stage_seconds[TOMOS_COST_PREPARE], 2 * values / 3e5);
	assert_near(cost.stage_seconds[TOMOS_COST_FILTER], values / 1e5);
	assert_near(cost.stage_seconds[TOMOS_COST_PROJECT], voxels(c) * VIEWS / 1e6);
	assert_near(cost.stage_seconds[TOMOS_COST_WRITE], 4 * voxels(c) / 5e5);
	assert_near(cost.seconds, total(&cost));
	tomos_geometry_free(c->scan);
}

/* Half of the rate with that many slices: the slab takes twice the time. */
static void thin_slabs_are_slower(void **state)
{
	(void)state;
	Case *c = case_of("cone", "");
	double plain = expect(c, 1).stage_seconds[TOMOS_COST_PROJECT];
	c->rates.back_half = (double)c->grid.n[2];
	assert_near(expect(c, 1).stage_seconds[TOMOS_COST_PROJECT], 2 * plain);
	tomos_geometry_free(c->scan);
}

/* In slices: every row is read by one rank, or by two where a pair is divided by the grid. */
static void stacks_read_once(void **state)
{
	(void)state;
	const Case *c = case_of("parallel", "");
	for (int64_t ranks = 1; ranks < 40; ranks++) {
		tomos_cost cost = expect(c, ranks);
		assert_near(cost.read_bytes, 2.0 * VIEWS * ROWS * COLUMNS);
		assert_near(cost.written_bytes, 4 * voxels(c));
		assert_near(cost.sent_bytes, 0);
		assert_int_equal(cost.slabs, ranks < 12 ? ranks : 12); /* pairs of rows */
	}
	tomos_geometry_free(c->scan);
}

/* Cone beam: the rows of a share are those that its voxels project to in any view. */
static void cones_read_their_bands(void **state)
{
	(void)state;
	Case *c = case_of("cone", "fdk");
	c->work.groups = 1;
	const ShareRule rule = {.count = c->grid.n[2], .unit = 1};
	for (int ranks = 1; ranks < 30; ranks += 3) {
		int64_t rows = 0, most = 0;
		for (int i = 0; i < ranks; i++) {
			Share share = share_of(&rule, i, ranks);
			const Box box = {{0, 0, share.first},
				{c->grid.n[0], c->grid.n[1], share.first + share.count}};
			int64_t low = ROWS, high = 0;
			for (int64_t v = 0; v < VIEWS && share.count > 0; v++) {
				Window w = geom_window(c->scan, v, &c->grid, &box, 2);
				low = min64(low, w.low[1]);
				high = max64(high, w.high[1]);
			}
			rows += max64(0, high - low);
			most = max64(most, high - low);
		}
		tomos_cost cost = expect(c, ranks);
		assert_near(cost.read_bytes, 2.0 * VIEWS * COLUMNS * (double)rows);
		assert_int_equal(cost.rows, most);
		assert_near(cost.written_bytes, 4 * voxels(c));
	}
	tomos_geometry_free(c->scan);
}

/* Iterations of cone beams send the rows that others own, forward and back; so do the weights, and
 * zeros are not projected. */
static void iterations_send_overlaps(void **state)
{
	(void)state;
	Case *c = case_of("cone", "sirt");
	c->work.groups = 1;
	for (int ranks = 1; ranks <= 9; ranks += 2) {
		int64_t slices[10], pixels = 0;
		for (int i = 0; i <= ranks; i++)
			slices[i] = c->grid.n[2] * i / ranks;
		const Bands bands = {c->scan, &c->grid, slices, ranks, 1, NULL, 0};
		for (int i = 0; i < ranks; i++)
			pixels += bands_sent(&bands, i);
		tomos_cost cost = expect(c, ranks);
		assert_near(cost.sent_bytes, 2.0 * (7 + 1) * 4 * (double)pixels);
		assert_true((ranks > 1) == (cost.stage_seconds[TOMOS_COST_EXCHANGE] > 0));
		assert_near(cost.read_bytes, 2.0 * VIEWS * ROWS * COLUMNS);
		if (ranks == 1)
			assert_near(cost.stage_seconds[TOMOS_COST_PROJECT],
				2 * (7 + 1) * voxels(c) * VIEWS / 2e6);
	}
	tomos_geometry_free(c->scan);
}

/* The cost of four slabs with 12 ranks, of which three share a slab, beside that with 4. The groups
 * divide the time of projection and read nothing twice. */
static tomos_cost expect_groups(Case *c, tomos_cost *plain)
{
	c->work.groups = 1;
	*plain = expect(c, 4);
	c->work.groups = 3;
	tomos_cost cost = expect(c, 12);
	assert_near(cost.read_bytes, plain->read_bytes);
	assert_near(3 * cost.stage_seconds[TOMOS_COST_PROJECT],
		plain->stage_seconds[TOMOS_COST_PROJECT]);
	return cost;
}

/* Ranks that share a slab divide its views and add their volumes: one reduce-scatter. */
static void groups_divide_views(void **state)
{
	(void)state;
	Case *c = case_of("cone", "");
	tomos_cost plain, cost = expect_groups(c, &plain);
	assert_int_equal(cost.slabs, 4);
	assert_int_equal(cost.views, VIEWS / 3);
	assert_near(cost.sent_bytes, 2 * 4 * voxels(c));
	/* A group of a node sends through its memory, others through the network. */
	double slab = 4 * voxels(c) * 6 / (double)c->grid.n[2] * 2 / 3;
	assert_near(cost.stage_seconds[TOMOS_COST_EXCHANGE], slab / 1e5);
	c->rates.node_ranks = 3;
	cost = expect(c, 12);
	assert_near(cost.stage_seconds[TOMOS_COST_EXCHANGE], slab / 1e6);
	tomos_geometry_free(c->scan);
}

/* Iterating, they also exchange the rows of their views with other slabs, as without groups. */
static void groups_iterate(void **state)
{
	(void)state;
	Case *c = case_of("cone", "sirt");
	tomos_cost plain, cost = expect_groups(c, &plain);
	const double slices = 2 * (7 + 1) * 2 * 4 * voxels(c);
	assert_near(cost.sent_bytes, plain.sent_bytes + slices);
	assert_near(cost.shared_bytes, 0);
	/* In the memory of a node slices are read without messages. */
	c->rates.node_ranks = 3;
	cost = expect(c, 12);
	assert_near(cost.sent_bytes, plain.sent_bytes);
	assert_near(cost.shared_bytes, slices);
	tomos_geometry_free(c->scan);
}

/* The slices and views of the rank that has most, relative to those of all by their number. */
static void work_is_even(void **state)
{
	(void)state;
	Case *c = case_of("cone", "sirt");
	for (int ranks = 1; ranks <= 8; ranks++)
		for (c->work.groups = 1; c->work.groups <= ranks; c->work.groups++) {
			if (ranks % c->work.groups != 0)
				continue;
			const tomos_cost cost = expect(c, ranks);
			const double most = (double)(cost.slices * cost.views);
			assert_near(cost.balance, most * ranks / (double)(c->grid.n[2] * VIEWS));
			assert_true(cost.balance >= 1);
		}
	tomos_geometry_free(c->scan);
}

/* As many slabs of 8 slices and more as divide the ranks; others share slabs. */
static void groups_begin_where_slabs_are_thin(void **state)
{
	static const int64_t ranks[] = {1, 2, 4, 6, 8}, groups[] = {1, 1, 2, 3, 4};
	(void)state;
	Case *c = case_of("cone", "");
	assert_int_equal(c->grid.n[2] / 8, 2);
	for (int i = 0; i < COUNT(ranks); i++)
		assert_int_equal(expect(c, ranks[i]).groups, groups[i]);
	c->work.method = "sart"; /* one view at a time */
	assert_int_equal(expect(c, 8).groups, 1);
	tomos_geometry_free(c->scan);
	c = case_of("parallel", "");
	assert_int_equal(expect(c, 8).groups, 1);
	tomos_geometry_free(c->scan);
}

/* All ranks together read no faster than the file system. */
static void file_systems_limit(void **state)
{
	(void)state;
	Case *c = case_of("parallel", "");
	tomos_cost before = expect(c, 8);
	c->rates.write_all = 1e5;
	tomos_cost cost = expect(c, 8);
	assert_near(cost.stage_seconds[TOMOS_COST_WRITE], cost.written_bytes / 1e5);
	assert_true(cost.seconds > before.seconds);
	assert_int_equal(cost.limiting, TOMOS_COST_WRITE);
	tomos_geometry_free(c->scan);
}

static void bad_work_is_rejected(void **state)
{
	(void)state;
	tomos_cost cost = {.bytes = sizeof cost};
	Case *c = case_of("cone", "");
	assert_fails(tomos_cost_expect(&cost, &c->work, &c->rates, 0), TOMOS_BAD_VALUE, "0 ranks");
	assert_fails(tomos_cost_expect(&cost, &c->work, &c->rates, 65537), TOMOS_BAD_VALUE,
		"65537 ranks: 1 to 65536");
	c->work.groups = 5;
	assert_fails(tomos_cost_expect(&cost, &c->work, &c->rates, 4), TOMOS_BAD_VALUE,
		"5 view groups of 4 ranks");
	c->work.method = "sart";
	assert_fails(tomos_cost_expect(&cost, &c->work, &c->rates, 8), TOMOS_UNSUPPORTED,
		"sart has no view groups");
	c->work.method = "sirt";
	c->work.groups = 0;
	c->rates.iterate = 0;
	assert_fails(tomos_cost_expect(&cost, &c->work, &c->rates, 8), TOMOS_BAD_VALUE,
		"the rates have no 'iterate', which sirt needs");
	c->work.method = "fdq";
	assert_fails(tomos_cost_expect(&cost, &c->work, &c->rates, 8), TOMOS_BAD_VALUE, "'fdq'");
	c->work.method = "";
	c->work.sample_bytes = -1;
	assert_fails(tomos_cost_expect(&cost, &c->work, &c->rates, 8), TOMOS_BAD_VALUE,
		"sample_bytes -1");
	c->work.scan = NULL;
	assert_fails(tomos_cost_expect(&cost, &c->work, &c->rates, 8), TOMOS_BAD_VALUE,
		"a grid and views");
	tomos_geometry_free(c->scan);
}

/* ---- files of rates -------------------------------------------------------------------------- */

static void rates_are_stored(void **state)
{
	(void)state;
	tomos_rates a = some_rates(), b = {.bytes = sizeof b};
	snprintf(a.rays, sizeof a.rays, "cone");
	snprintf(a.method, sizeof a.method, "asd-pocs");
	a.back_half = 12.5;
	assert_ok(tomos_rates_write(&a, at("rates.txt"), "a note"));
	assert_ok(tomos_rates_read(&b, at("rates.txt")));
	assert_memory_equal(&a, &b, sizeof a);
	assert_fails(tomos_rates_write(&a, at("rates.txt"), NULL), TOMOS_IO, "cannot be written");
	assert_fails(tomos_rates_read(&b, at("none.txt")), TOMOS_IO, "none.txt");
}

static void reject_text(const char *text, const char *message)
{
	tomos_rates rates = {.bytes = sizeof rates};
	put_file(at("bad.txt"), text, strlen(text));
	assert_fails(tomos_rates_read(&rates, at("bad.txt")), TOMOS_BAD_FILE, message);
}

static void bad_rates_are_rejected(void **state)
{
	char lines[700];
	(void)state;
	reject_text("back 1e9\nspeed 3\n", "line 2: there is no rate 'speed'");
	reject_text("back\n", "line 1: a rate is a name and a number, not 'back'");
	reject_text("# x\nback 1e9 2\n", "line 2: a rate is");
	reject_text("back fast\n", "not a number that is 0 or larger: 'fast'");
	reject_text("back -1\n", "'-1'");
	reject_text("back nan\n", "'nan'");
	reject_text("back inf\n", "'inf'");
	reject_text("node_ranks 0\n", "node_ranks is 0");
	reject_text("rays trapezoids\n", "there is no rate 'rays'");
	memset(lines, '#', sizeof lines);
	lines[sizeof lines - 1] = 0;
	reject_text(lines, "line 1: the line is too long");
	tomos_rates rates = {.bytes = sizeof rates};
	static const char good[] = "\n# all\n  back   2e9 # fast\r\n";
	put_file(at("good.txt"), good, sizeof good - 1);
	assert_ok(tomos_rates_read(&rates, at("good.txt")));
	assert_near(rates.back, 2e9);
	assert_near(rates.network, tomos_rates_defaults().network);
}

/* ---- the plan of a run ----------------------------------------------------------------------- */

static char said[16384];

static void hear(void *user, tomos_level level, const char *line)
{
	(void)user;
	append_line(said, sizeof said, level, line);
}

static void write_scan(const char *kind)
{
	static float data[VIEWS * ROWS * COLUMNS];
	const int64_t shape[3] = {VIEWS, ROWS, COLUMNS};
	tomos_file_options o = tomos_file_defaults();
	tomos_geometry *scan = scan_of(kind);
	tomos_file *file;
	for (int i = 0; i < VIEWS * ROWS * COLUMNS; i++)
		data[i] = (float)(i % 13) / 13;
	o.overwrite = 1;
	assert_ok(tomos_file_create(&file, at("scan.h5"), TOMOS_PROJECTIONS, shape, &o));
	assert_ok(tomos_file_set_geometry(file, scan));
	assert_ok(tomos_file_write(file, 0, VIEWS, data));
	assert_ok(tomos_file_commit(file));
	tomos_file_close(file);
	tomos_geometry_free(scan);
}

static tomos_status plan(const char *method, int64_t ranks, const char *rates, double *seconds)
{
	tomos_run_options run = tomos_run_defaults();
	tomos_run_report report = {.bytes = sizeof report};
	tomos_algebraic_options algebraic = tomos_algebraic_defaults();
	algebraic.iterations = 4;
	run.dry_run = 1;
	run.ranks = ranks;
	run.rates = rates;
	tomos_job job = {.bytes = sizeof job,
		.scan = at("scan.h5"),
		.output = at("volume.h5"),
		.method = method,
		.backend = "cpu",
		.run = &run,
		.algebraic = tomos_method_help(method)[0] ? &algebraic : NULL,
		.say = hear,
		.report = &report};
	said[0] = 0;
	tomos_status status = tomos_run(&job, NULL);
	*seconds = report.expected_seconds;
	return status;
}

static void assert_said(const char *words)
{
	if (!strstr(said, words))
		print_error("'%s' is not in:\n%s", words, said);
	assert_non_null(strstr(said, words));
}

/* Measured once, then taken from the file: the same times. Nothing else is left. */
static void plans_measure_once(void **state)
{
	static const struct {
		const char *geometry, *method;
		int ranks;
		const char *slabs, *last; /* row of the table */
	} cases[] = {{"parallel", "fbp", 17, "12 slabs of up to 2 slices", "     4096 "},
		{"cone", "fdk", 17, "1 slab of up to 23 slices, 17 view groups", "     4096 "},
		{"cone", "sirt", 11, "1 slab of up to 23 slices, 11 view groups", "        8 "},
		{"parallel", "cgls", 17, "2 slabs of up to 16 slices", "     4096 "}};
	(void)state;
	for (int i = 0; i < COUNT(cases); i++) {
		double first, second;
		char path[256];
		snprintf(path, sizeof path, "%s/plan%d.txt", scratch, i);
		write_scan(cases[i].geometry);
		int before = entries(scratch);
		assert_ok(plan(cases[i].method, cases[i].ranks, path, &first));
		assert_said("rates     measured, and written to");
		assert_said(cases[i].slabs);
		assert_said("memory    ");
		assert_said("bytes     read ");
		assert_said(cases[i].last);
		assert_said("scales    up to ");
		assert_int_equal(entries(scratch), before + 1);
		assert_ok(plan(cases[i].method, cases[i].ranks, path, &second));
		assert_said("rates     of '");
		assert_true(first > 0);
		assert_true(fabs(first - second) < 1e-3 * first);
	}
}

static void plans_warn_and_reject(void **state)
{
	(void)state;
	double seconds;
	write_scan("cone");
	assert_ok(plan("fdk", 64, at("warn.txt"), &seconds));
	assert_said("warning: 41 of the 64 ranks have nothing to do");
	assert_fails(plan("sirt", 12, at("many.txt"), &seconds), TOMOS_BAD_VALUE,
		"12 ranks are too many for 23 slices");
	write_scan("parallel");
	assert_ok(plan("fbp", 2, at("warn.txt"), &seconds));
	assert_said("was measured with rays of kind 'cone', not 'slices'");
	assert_fails(plan("sirt", 2, at("warn.txt"), &seconds), TOMOS_BAD_VALUE,
		"the rates have no 'iterate', which sirt needs");
	assert_fails(plan("fbp", 2, at("no/such/folder.txt"), &seconds), TOMOS_IO, "no/such");
	put_file(at("wrong.txt"), "bck 1\n", 6);
	assert_fails(plan("fbp", 2, at("wrong.txt"), &seconds), TOMOS_BAD_FILE, "'bck'");
}

#define TESTS(T) \
	T(one_rank_does_all), T(thin_slabs_are_slower), T(stacks_read_once), \
		T(cones_read_their_bands), T(iterations_send_overlaps), T(groups_divide_views), \
		T(groups_iterate), T(work_is_even), T(groups_begin_where_slabs_are_thin), \
		T(file_systems_limit), T(bad_work_is_rejected), T(rates_are_stored), \
		T(bad_rates_are_rejected), T(plans_measure_once), T(plans_warn_and_reject)
TEST_MAIN(TESTS, scratch_make, scratch_remove)
