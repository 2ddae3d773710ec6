/* What the prepared rows of slabs say about the scan, reported once: objects wider than the
 * detector, flats that do not fit the views, numbers that are no line integrals, and columns that
 * do not vary. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "backend/backend.h"
#include "prep/constant.h"
#include "run/run_parts.h"

#define MOST_AT_EDGE 0.06 /* of the largest value: less is taken for air */
#define ABOVE_NOISE 4     /* times the noise there, likewise */
#define MOST_VIEWS 0.05   /* of the views may have more */
#define MOST_BEYOND 0.005 /* of the columns, that the object may go on */
#define LEAST_MEAN -0.1   /* of line integrals; noise and a beam that changes have means near 0 */

#define SAME 0.03         /* of the value at the edges: differences between columns of air */
#define ALIKE 0.15        /* likewise: standard deviation over the views */
#define MOST_OFFSET 0.5   /* of the largest value: line integrals of air beside wrong flats */
#define LEAST_OFFSET 0.01 /* of transmissions */
#define LEAST_SHARE 0.015 /* of the largest value */
#define SURELY 3          /* standard errors of the value at the edges */
#define COUNTS 20.0       /* the least that numbers of photons are taken to be */
#define LARGEST 1e9       /* line integrals of any unit */
#define LEAST_CHANGE 0.02 /* of transmissions in air */
#define MOST_APART 0.15   /* of that change: between edges, and between columns of air */
#define MOST_AWAY 0.5     /* likewise: line integral in air, of the view that is nearest to 0 */
#define LEAST_OBJECT 4    /* times what is at the edges, is the largest value of a view */

enum { VIEWS = 40, EDGE = 4 }; /* views looked at; most columns that an edge is the mean of */
enum { LEAST_VIEWS = 8 };      /* to tell dead pixels: two may be alike by chance */
enum { LINES = 32 };           /* rows looked at for dead pixels */

/* Views in which the object reaches the first column, and the last. */
typedef struct {
	int64_t views, reached[2];
	double most, edge; /* largest value, and largest mean at an edge that counts */
} Edges;

/* Whether the object may reach that side (0: first columns): of an offset detector and a full turn
 * the short side is covered by the opposite views. */
static bool side_counts(const tomos_geometry *g, int side)
{
	double covered, needed, offset = view_axis_offset(&g->views[0]);
	if (tomos_geometry_cover(g, &covered, &needed) != TOMOS_OK || covered < 6)
		return true;
	return !offset_is_meant(offset, g->columns) || (offset < 0) == (side == 1);
}

static double edge_mean(const float *row, int64_t columns, int side, int64_t skipped, int64_t count)
{
	int64_t first = side ? columns - skipped - count : skipped;
	double sum = 0;
	for (int64_t i = 0; i < count; i++)
		sum += (double)row[first + i];
	return sum / (double)count;
}

/* The mean of the outermost columns, 0 where the object ends with them: beside the end of a round
 * object, the square of a line integral grows in proportion to the distance from it, so two means
 * say how far the object goes on. */
static double edge_value(const float *row, int64_t columns, int side)
{
	int64_t count = max64(1, min64(EDGE, columns / 64));
	double outer = edge_mean(row, columns, side, 0, count);
	double inner = 2 * count < columns ? edge_mean(row, columns, side, count, count) : outer;
	double squares = inner * inner - outer * outer;
	if (!(outer > 0) || !(inner > outer))
		return outer;
	double beyond = (double)count * (outer * outer / squares - 0.5); /* in columns */
	return beyond > fmax(1, MOST_BEYOND * (double)columns) ? outer : 0;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* How far noise reaches below 0 at that side, in all views but MOST_VIEWS of them, which may be
 * bad; it reaches as far above. Rows beside the object have nothing else. */
static double edge_noise(const tomos_geometry *g, const float *rows, int64_t views, int side)
{
	double edges[VIEWS] = {0};
	int64_t count = 0;
	for (int64_t i = 0; i < views; i++) {
		double edge = edge_value(rows + i * g->columns, g->columns, side);
		if (isfinite(edge))
			edges[count++] = edge;
	}
	qsort(edges, (size_t)count, sizeof *edges, by_value);
	return count > 0 ? fmax(-edges[(int64_t)(MOST_VIEWS * (double)count)], 0) : 0;
}

/* rows: one row of each view. */
static Edges find_edges(const tomos_geometry *g, const float *rows, int64_t views)
{
	Edges e = {.views = views};
	const bool counts[2] = {side_counts(g, 0), side_counts(g, 1)};
	for (int64_t i = 0; i < views * g->columns; i++)
		e.most = (double)rows[i] > e.most ? (double)rows[i] : e.most;
	for (int side = 0; side < 2; side++) {
		double least =
			fmax(MOST_AT_EDGE * e.most, ABOVE_NOISE * edge_noise(g, rows, views, side));
		for (int64_t i = 0; i < views && counts[side]; i++) {
			double mean = edge_value(rows + i * g->columns, g->columns, side);
			e.reached[side] += mean > least;
			e.edge = fmax(e.edge, mean);
		}
	}
	return e;
}

/* The value at the edges where all views show the same there, as they do where air is; NAN: they do
 * not. */
typedef struct {
	double value, error; /* at the edges, and its standard error */
	double most, mean;   /* largest magnitude and mean of the rows */
} Air;

/* One side, over the views: means of outer and inner columns, and variances of the outer ones and
 * of what noise has in them, half of the variance of differences between the two. */
typedef struct {
	double outer, inner, variance, noise;
} SideOfAir;

static SideOfAir side_of_air(const tomos_geometry *g, const float *rows, int64_t views, int side)
{
	int64_t count = max64(1, min64(EDGE, g->columns / 64));
	double squares = 0, apart = 0, n = (double)views;
	SideOfAir s = {.outer = 0};
	for (int64_t i = 0; i < views; i++) {
		const float *row = rows + i * g->columns;
		double outer = edge_mean(row, g->columns, side, 0, count);
		double inner = edge_mean(row, g->columns, side, count, count);
		s.outer += outer / n;
		s.inner += inner / n;
		squares += outer * outer / n;
		apart += (outer - inner) * (outer - inner) / n;
	}
	double step = s.outer - s.inner;
	s.variance = fmax(squares - s.outer * s.outer, 0);
	s.noise = 0.5 * fmax(apart - step * step, 0);
	return s;
}

/* Whether a side shows the same in all views and columns. Noise is allowed for where the value is
 * too small to be an object that goes on. */
static bool is_alike(const SideOfAir *s, double most, double views)
{
	double size = fabs(s->outer), noise = size > MOST_AT_EDGE * most ? 0 : s->noise;
	double step = SAME * size + 3 * sqrt(2 * noise / views);
	return fabs(s->inner - s->outer) <= step &&
	       s->variance <= ALIKE * size * ALIKE * size + 2 * noise;
}

/* flats: number of flats, each as noisy as a view; HUGE_VAL: flats without noise. */
static Air find_air(const tomos_geometry *g, const float *rows, int64_t views, double flats)
{
	Air air = {.value = NAN};
	double numbers = (double)(views * g->columns), sum = 0, noise = 0, sides = 0;
	for (int64_t i = 0; i < views * g->columns; i++) {
		air.most = fmax(air.most, fabs((double)rows[i]));
		air.mean += (double)rows[i] / numbers;
	}
	for (int side = 0; side < 2 && g->columns > 4 * EDGE; side++) {
		if (!side_counts(g, side))
			continue;
		SideOfAir s = side_of_air(g, rows, views, side);
		if (!is_alike(&s, air.most, (double)views) ||
			(sides > 0 && fabs(s.outer - sum / sides) > ALIKE * fabs(s.outer)))
			return air;
		sum += s.outer;
		noise += s.noise;
		sides += 1;
	}
	air.value = sides > 0 ? sum / sides : NAN;
	air.error = sqrt(noise * (1 / (double)views + 1 / flats)) / sides;
	return air;
}

static tomos_status say(const FileRun *r, const Edges *e)
{
	double share = 100 * e->edge / e->most;
	if (r->prepared->columns < r->prepared->info.columns)
		return job_warn(r->job,
			"the option 'columns' %s cuts the object off: up to %.0f %% of "
			"the "
			"largest value is left at the edge, so that values will be too high; for a "
			"part of the object use all columns with the option 'size' and the option "
			"'centre'%s",
			r->options.columns, share,
			r->iterates ? "" : ", or the option 'padding' ellipse");
	return job_warn(r->job,
		"the object is wider than the detector: up to %.0f %% of the largest "
		"value "
		"is left at the edge, so that values will be too high, most of all towards the "
		"rim; "
		"the option 'padding' ellipse continues the rows to the end of the object",
		share);
}

/* Filtered back projection without continued rows, or columns that were left out by an option. */
static tomos_status wanted(const FileRun *r, bool *yes)
{
	tomos_analytic_options analytic = tomos_analytic_defaults();
	TRY(options_take(&analytic, r->job->analytic, "analytic"));
	bool zero = strcmp(analytic.padding, "zero") == 0 && strcmp(analytic.filter, "none") != 0;
	bool cut = r->prepared->columns < r->prepared->info.columns;
	*yes = r->job->say && !r->truncated && (r->iterates ? cut : zero);
	return TOMOS_OK;
}

/* The middle row of some views, to host memory. */
static tomos_status take_rows(const FileRun *r, const float *data, int64_t lines, int64_t line,
	int64_t count, float *rows)
{
	const tomos_geometry *g = r->prepared->geometry;
	for (int64_t i = 0; i < count; i++) {
		const float *from = data + ((g->count * i / count) * lines + line) * g->columns;
		float *to = rows + i * g->columns;
		const tomos_array row = tomos_array_of(to, 1, 1, g->columns);
		if (r->resident)
			TRY(r->backend->type->memory->download(r->backend, from, &row));
		else
			memcpy(to, from, (size_t)g->columns * sizeof *to);
	}
	return TOMOS_OK;
}

static tomos_status say_edges(FileRun *r, const float *rows, int64_t count)
{
	Edges e = find_edges(r->prepared->geometry, rows, count);
	double limit = fmax(1, MOST_VIEWS * (double)count);
	r->truncated = (double)max64(e.reached[0], e.reached[1]) > limit;
	return r->truncated ? say(r, &e) : TOMOS_OK;
}

/* The edges of a view: their mean, how far they are apart, and by how much they slope, and the
 * largest value between them. */
typedef struct {
	double mean, apart, slope, most;
} BothEdges;

static BothEdges both_edges(const float *row, int64_t columns)
{
	int64_t count = max64(1, min64(EDGE, columns / 64)), in = max64(count, columns / 32);
	double outer[2], inner[2], most = -HUGE_VAL;
	for (int side = 0; side < 2; side++) {
		outer[side] = edge_mean(row, columns, side, 0, count);
		inner[side] = edge_mean(row, columns, side, in, count);
	}
	for (int64_t i = 0; i < columns; i++)
		most = fmax(most, (double)row[i]);
	return (BothEdges){.mean = 0.5 * (outer[0] + outer[1]),
		.apart = fabs(outer[0] - outer[1]),
		.slope = fmax(fabs(outer[0] - inner[0]), fabs(outer[1] - inner[1])),
		.most = most};
}

static double middle_of(double *values, int64_t count)
{
	qsort(values, (size_t)count, sizeof *values, by_value);
	return values[count / 2];
}

/* Whether the views whose edges are above `limit` show air there: what is at the edges is alike,
 * and much less than what is between them. An object that goes on beyond both edges in some views
 * is not. */
static bool is_air_above(const BothEdges *edges, int64_t views, double limit, const double range[2])
{
	double apart[VIEWS], slopes[VIEWS], most[VIEWS], change = range[1] - range[0];
	int64_t count = 0;
	for (int64_t i = 0; i < views; i++)
		if (edges[i].mean > limit) {
			apart[count] = edges[i].apart;
			slopes[count] = edges[i].slope;
			most[count++] = edges[i].most;
		}
	double largest = fmax(fabs(range[0]), fabs(range[1]));
	return count > 0 && middle_of(most, count) > LEAST_OBJECT * largest &&
	       middle_of(apart, count) < MOST_APART * change &&
	       middle_of(slopes, count) < MOST_APART * change;
}

/* Whether both edges show air, alike, that changes with the views: range[] are line integrals
 * there. The flats have to fit some of the views, or nearly so: a weak object that goes on beyond
 * both edges is seen in all of them. */
static bool light_changes(
	const tomos_geometry *g, const float *rows, int64_t views, double range[2])
{
	BothEdges edges[VIEWS];
	double means[VIEWS] = {0};
	for (int64_t i = 0; i < views; i++) {
		edges[i] = both_edges(rows + i * g->columns, g->columns);
		means[i] = edges[i].mean;
		if (!isfinite(edges[i].mean + edges[i].slope))
			return false;
	}
	qsort(means, (size_t)views, sizeof *means, by_value);
	int64_t few = (int64_t)(MOST_VIEWS * (double)views);
	range[0] = means[few];
	range[1] = means[views - 1 - few];
	double change = range[1] - range[0], away = MOST_AWAY * change;
	return change > LEAST_CHANGE && range[0] < away && range[1] > -away &&
	       is_air_above(edges, views, -HUGE_VAL, range) &&
	       is_air_above(edges, views, 0.5 * (range[0] + range[1]), range);
}

static tomos_status say_light(FileRun *r, const float *rows, int64_t count)
{
	double range[2];
	const tomos_geometry *g = r->prepared->geometry;
	if (count < LEAST_VIEWS || g->columns <= 4 * EDGE || !light_changes(g, rows, count, range))
		return TOMOS_OK;
	r->truncated = true; /* no more to be said about the edges */
	return job_warn(r->job,
		"air at both edges transmits %.3g to %.3g, depending on the view: the light of the "
		"source changes, so that values will be off and edges streaked; flat fields that "
		"were taken during the scan follow it",
		exp(-range[1]), exp(-range[0]));
}

/* A polynomial that was given may fall beyond the line integrals that it was made for. */
static tomos_status say_bright(FileRun *r, double mean)
{
	const tomos_prepared *p = r->prepared;
	bool wedge = p->prep.wedge_count > 0;
	if (wedge || (p->prep.hardening_count > 0 && !p->find_hardening))
		return job_warn(r->job,
			"the line integrals are %.3g on average, so that values will be too low: "
			"the polynomial of the option '%s' falls where those of this scan are "
			"large%s, or the flats are not those of this scan",
			mean, wedge ? "wedge" : "hardening",
			wedge ? ", as the steps end before them" : "");
	return job_warn(r->job,
		"the projections are %.3g times as bright as the flats on average, so "
		"that values will be too low; are the flats those of this scan?",
		exp(-mean));
}

/* Where air does not transmit 1, or projections are brighter than the flat field, the flats are not
 * those of the scan. */
static tomos_status say_flats(FileRun *r, const float *rows, int64_t count)
{
	const tomos_geometry *g = r->prepared->geometry;
	bool level = r->prepared->scan->setup.white > 0; /* of counts, instead of flats */
	Air air = find_air(g, rows, count, level ? HUGE_VAL : (double)r->prepared->info.flats);
	bool all = r->prepared->columns == r->prepared->info.columns;
	double size = fabs(air.value);
	r->compared_flats = true;
	double least = fmax(fmax(LEAST_OFFSET, LEAST_SHARE * air.most), SURELY * air.error);
	if (all && size > least && size < MOST_OFFSET * air.most) {
		r->truncated = true; /* no more to be said about the edges */
		return job_warn(r->job,
			"at the edges, alike in all views, air transmits %.3g instead of 1: the "
			"flats do not fit the views, so that values will be too %s; the option "
			"'i0' auto takes the counts without an object from the views instead",
			exp(-air.value), air.value > 0 ? "high" : "low");
	}
	if (!(air.mean < LEAST_MEAN))
		return all ? say_light(r, rows, count) : TOMOS_OK;
	return say_bright(r, air.mean);
}

/* Numbers that are largest in air are counts or transmissions. */
static tomos_status say_quantity(FileRun *r, const float *rows, int64_t count)
{
	Air air = find_air(r->prepared->geometry, rows, count, HUGE_VAL);
	r->compared_quantity = true;
	if (air.most > LARGEST)
		return job_warn(r->job,
			"line integrals of up to %.3g: the numbers in the file may be of another "
			"type, or have the other byte order (the option 'raw')",
			air.most);
	if (!(air.value > MOST_OFFSET * air.most) || !(air.mean < (1 - SAME) * air.value))
		return TOMOS_OK;
	r->truncated = r->compared_columns = true; /* these would be said of line integrals */
	bool counts = air.value >= COUNTS;
	return job_warn(r->job,
		"the numbers are taken for line integrals but are largest beside the object (%.3g "
		"there): these look like %s; give %s",
		air.value, counts ? "counts" : "transmissions",
		counts ? "the option 'flats', or the option 'i0'"
		       : "the option 'quantity' transmission");
}

/* Dead columns, which ring removal replaces, and those behind a frame, which can be left out. */
static tomos_status say_constant(FileRun *r, float *rows, int64_t count)
{
	const tomos_prepared *p = r->prepared;
	int64_t columns = p->geometry->columns;
	const tomos_array array = tomos_array_of(rows, count, 1, columns);
	float *scratch;
	TRY(mem_alloc(&scratch, 2 * columns, sizeof *scratch, "ranges of columns"));
	ConstantColumns found = constant_columns(&array, 0, scratch);
	mem_free(scratch);
	r->compared_columns = true;
	r->dead_columns = found.inside > 0;
	if (found.inside > 0)
		TRY(job_warn(r->job,
			"%lld of %lld columns %s the same value in %lld views (dead pixels) and "
			"will make rings and wrong values around them; the option 'rings' vo "
			"replaces them",
			(long long)found.inside, (long long)columns,
			found.inside == 1 ? "has" : "have", (long long)count));
	if (found.edges == 0)
		return TOMOS_OK;
	return job_warn(r->job,
		"%lld of %lld columns, at the edges, %s the same value in %lld views (a frame) and "
		"will make rings; the option 'columns' %lld:%lld leaves them out",
		(long long)found.edges, (long long)columns, found.edges == 1 ? "has" : "have",
		(long long)count, (long long)(p->first_column + found.first * p->bin),
		(long long)(p->first_column + found.end * p->bin));
}

/* Single dead pixels, in some rows of data that are in host memory: those of a device would have to
 * be fetched. `rows` is overwritten. */
static tomos_status say_dead(
	FileRun *r, const Slab *slab, const float *data, int64_t lines, int64_t count, float *rows)
{
	int64_t columns = r->prepared->geometry->columns, used = min64(LINES, slab->rows), dead = 0;
	const tomos_array array = tomos_array_of(rows, count, 1, columns);
	float *scratch;
	if (r->resident || r->dead_columns)
		return TOMOS_OK;
	TRY(mem_alloc(&scratch, 2 * columns, sizeof *scratch, "ranges of columns"));
	tomos_status status = TOMOS_OK;
	for (int64_t i = 0; i < used && status == TOMOS_OK; i++) {
		status = take_rows(r, data, lines, i * slab->rows / used, count, rows);
		if (status == TOMOS_OK)
			dead += constant_columns(&array, 0, scratch).inside;
	}
	mem_free(scratch);
	if (status != TOMOS_OK || dead == 0)
		return status;
	return job_warn(r->job,
		"%lld of the %lld pixels of %lld rows that were looked at %s the same value in "
		"%lld views (dead pixels) and will make rings; the option 'rings' vo replaces them",
		(long long)dead, (long long)(used * columns), (long long)used,
		dead == 1 ? "has" : "have", (long long)count);
}

tomos_status run_say_truncated(FileRun *r, const Slab *slab, const float *data, int64_t lines)
{
	const tomos_geometry *g = r->prepared->geometry;
	int64_t count = min64(VIEWS, g->count);
	float *rows;
	bool yes;
	TRY(wanted(r, &yes));
	bool flats = r->job->say && !r->compared_flats && r->prepared->info.flats > 0 &&
		     prepared_are_counts(r->prepared) && prepared_are_integrals(r->prepared);
	bool constant = r->job->say && !r->compared_columns && count >= LEAST_VIEWS;
	bool quantity = r->job->say && !r->compared_quantity && !prepared_are_counts(r->prepared) &&
			strcmp(r->prepared->prep.quantity, "auto") == 0;
	if (!yes && !flats && !constant && !quantity)
		return TOMOS_OK;
	TRY(mem_alloc(&rows, count * g->columns, sizeof *rows, "rows of some views"));
	tomos_status status = take_rows(r, data, lines, slab->rows / 2, count, rows);
	if (status == TOMOS_OK && flats)
		status = say_flats(r, rows, count);
	if (status == TOMOS_OK && quantity)
		status = say_quantity(r, rows, count);
	if (status == TOMOS_OK && yes && !r->truncated)
		status = say_edges(r, rows, count);
	if (status == TOMOS_OK && constant && !r->compared_columns) {
		status = say_constant(r, rows, count);
		if (status == TOMOS_OK)
			status = say_dead(r, slab, data, lines, count, rows);
	}
	mem_free(rows);
	return status;
}
