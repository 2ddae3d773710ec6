/* Rotation axis from views 180 degrees apart, which are mirror images of each other about it.
 *
 * All pairs of the scan, or the two at the ends of a 180 degree scan, are correlated together, for
 * all axes at once by Fourier transforms. Where there is no view exactly opposite, its neighbours
 * are interpolated, or extrapolated by at most a step. Derivatives along the rows are compared, not
 * values: in half acquisition the two views overlap only in a narrow strip, in which the object
 * changes little. Only the overlap is compared.
 */
#include <stdlib.h>
#include <string.h>
#include "backend/fft.h"
#include "base/fft.h"
#include "prep/axis.h"

enum { MOST_LINES = 1024, MOST_PAIRS = 256, LEAST_OVERLAP = 12 };
enum { COARSE = 128 };    /* columns at least, where some are averaged */
enum { EDGE = 4 };        /* columns on either side that a derivative uses */
enum { PARTS = 8 };       /* of the lines, each with a result of its own */
enum { MANY_PAIRS = 16 }; /* enough for a mean over them that shows rings */
#define LEAST_SHARE \
	1e-4 /* of the energy in the overlap; transforms are exact to 1e-7 of all of it */

/* A view, and the two from which its opposite is interpolated. */
typedef struct {
	int64_t view, other[2];
	double share[2];
} Pair;

/* Sums over the overlap: of products of the two derivatives, and of their squares. */
typedef struct {
	double product, here, opposite;
} Overlap;

typedef struct {
	int64_t lines, columns, length; /* length: of a transform */
	int64_t bin;                    /* columns of the data that are averaged */
	int64_t first, count;           /* sums of columns tried */
	float *here, *opposite;         /* derivatives [line][column], and a line of zeros */
	double *energy;                 /* cumulative, [part][here, opposite][column + 1] */
	Overlap *overlaps;              /* [part][sum] */
	double *score, *likeness;       /* of each sum */
	Fft *fft;
} Correlation;

/* The opposite of sorted view i; false if there is none near enough. */
static bool find_opposite(const AxisView *views, int64_t count, int64_t i, double step, Pair *pair)
{
	double target = fmod(views[i].angle + M_PI, 2 * M_PI);
	int64_t after = 0;
	for (int64_t end = count; after < end;) { /* the first view not before the target */
		int64_t middle = (after + end) / 2;
		if (views[middle].angle < target)
			after = middle + 1;
		else
			end = middle;
	}
	int64_t b = after % count, a = (after + count - 1) % count;
	double back = fmod(target - views[a].angle + 2 * M_PI, 2 * M_PI);
	double on = fmod(views[b].angle - target + 2 * M_PI, 2 * M_PI);
	pair->view = views[i].view;
	if (back + on > 2.5 * step) { /* at an end: extrapolated from the last two */
		bool before = back < on;
		int64_t c = before ? (a + count - 1) % count : (b + 1) % count;
		int64_t end = before ? a : b;
		double gap = before ? back : on;
		double last = fabs(views[end].angle - views[c].angle);
		if (gap > 1.2 * step || last > 2.5 * step || last <= 0)
			return false;
		pair->other[0] = views[end].view, pair->other[1] = views[c].view;
		pair->share[1] = -gap / last;
	} else {
		pair->other[0] = views[a].view, pair->other[1] = views[b].view;
		pair->share[1] = back + on > 0 ? back / (back + on) : 0;
	}
	pair->share[0] = 1 - pair->share[1];
	return true;
}

static int64_t find_pairs(const AxisView *views, int64_t count, double step, Pair pairs[MOST_PAIRS])
{
	Pair pair;
	int64_t all = 0, kept = 0;
	for (int64_t i = 0; i < count; i++)
		all += find_opposite(views, count, i, step, &pair);
	int64_t every = max64((all + MOST_PAIRS - 1) / MOST_PAIRS, 1), number = 0;
	for (int64_t i = 0; i < count && kept < MOST_PAIRS; i++)
		if (find_opposite(views, count, i, step, &pair) && number++ % every == 0)
			pairs[kept++] = pair;
	return kept;
}

static void bin_row(float *row, int64_t columns, int64_t bin)
{
	for (int64_t c = 0; c < columns && bin > 1; c++) {
		float sum = 0;
		for (int64_t i = 0; i < bin; i++)
			sum += row[c * bin + i];
		row[c] = sum;
	}
}

/* Derivatives of a row, without those at the ends, which lack columns beyond them. */
static void inner_slopes(const float *row, int64_t n, float *out)
{
	axis_slopes(row, n, out);
	memset(out, 0, EDGE * sizeof *out);
	memset(out + n - EDGE, 0, EDGE * sizeof *out);
}

/* `scratch`: two rows of the data. */
static void fill_line(
	const AxisProblem *p, const Pair *pair, int64_t row, Correlation *k, float *scratch)
{
	int64_t n = k->columns, all = p->data->shape[2], at = k->lines++ * n;
	float *other = scratch + all;
	row_get(p->data, pair->view, row, scratch);
	bin_row(scratch, n, k->bin);
	inner_slopes(scratch, n, k->here + at);
	row_get(p->data, pair->other[0], row, scratch);
	row_get(p->data, pair->other[1], row, other);
	for (int64_t c = 0; c < all; c++)
		scratch[c] = (float)(pair->share[0] * (double)scratch[c] +
				     pair->share[1] * (double)other[c]);
	bin_row(scratch, n, k->bin);
	inner_slopes(scratch, n, other);
	for (int64_t c = 0; c < n; c++) /* mirrored: the derivative changes sign */
		k->opposite[at + n - 1 - c] = -other[c];
}

/* Rings are the same in all views, and mirrored they would be correlated about every sum of two of
 * them. Line i is of row i % rows. */
static void remove_rings(const Correlation *k, float *lines, int64_t rows, float *mean)
{
	int64_t n = k->columns, pairs = k->lines / rows;
	for (int64_t row = 0; row < rows; row++) {
		memset(mean, 0, (size_t)n * sizeof *mean);
		for (int64_t i = row; i < k->lines; i += rows)
			for (int64_t c = 0; c < n; c++)
				mean[c] += lines[i * n + c] / (float)pairs;
		for (int64_t i = row; i < k->lines; i += rows)
			for (int64_t c = 0; c < n; c++)
				lines[i * n + c] -= mean[c];
	}
}

/* ---- correlation ---------------------------------------------------------------------------- */

/* Adds the squares of a line to the sums per column. */
static void add_squares(const float *line, int64_t n, double *sums)
{
	for (int64_t c = 0; c < n; c++)
		sums[c + 1] += (double)line[c] * (double)line[c];
}

/* Transforms a group of lines, which are real parts, and their opposites, imaginary parts. */
static void transform(const Correlation *k, int64_t first, float *data)
{
	const int lanes = fft_lanes(k->fft);
	int64_t n = k->columns;
	const float *here[FFT_MOST_LANES], *opposite[FFT_MOST_LANES];
	for (int l = 0; l < lanes; l++) { /* zeros after the last line */
		int64_t line = min64(first + l * PARTS, k->lines);
		here[l] = k->here + line * n;
		opposite[l] = k->opposite + line * n;
	}
	fft_gather(k->fft, here, 0, n, 0, data);
	fft_gather(k->fft, opposite, 0, n, 1, data);
	memset(data + 2 * n * lanes, 0, (size_t)(2 * (k->length - n) * lanes) * sizeof *data);
	fft_forward(k->fft, data);
}

/* Adds the products of the conjugate spectra of lines with those of their opposites: for the
 * spectrum Z of both, (Re Z(k) Im Z(-k) + Im Z(k) Re Z(-k)) / 2 and (|Z(-k)|^2 - |Z(k)|^2) / 4. */
static void add_cross(const Correlation *k, const float *data, float *cross)
{
	const int lanes = fft_lanes(k->fft);
	for (int64_t i = 0; i < k->length; i++) {
		int64_t at = 2 * fft_position(k->fft, i) * lanes;
		const float *a = data + at, *b = a + lanes;
		const float *c =
			data + 2 * fft_position(k->fft, (k->length - i) % k->length) * lanes;
		const float *d = c + lanes;
		for (int l = 0; l < lanes; l++) {
			cross[at + l] += 0.5F * (a[l] * d[l] + b[l] * c[l]);
			cross[at + lanes + l] +=
				0.25F * (c[l] * c[l] + d[l] * d[l] - a[l] * a[l] - b[l] * b[l]);
		}
	}
}

/* Column j of one view corresponds to column sum - j of the other, j + (n - 1 - sum) when
 * mirrored. */
static void take_overlaps(const Correlation *k, int64_t part, const float *cross)
{
	const int lanes = fft_lanes(k->fft);
	int64_t n = k->columns;
	const double *here = k->energy + part * 2 * (n + 1), *opposite = here + n + 1;
	Overlap *out = k->overlaps + part * k->count;
	for (int64_t i = 0; i < k->count; i++) {
		int64_t sum = k->first + i, shift = n - 1 - sum;
		int64_t from = max64(0, -shift) + EDGE;
		int64_t to = max64(min64(n, n - shift) - EDGE, from);
		const float *products = cross + 2 * ((shift + k->length) % k->length) * lanes;
		double product = 0;
		for (int l = 0; l < lanes; l++)
			product += (double)products[l];
		out[i] = (Overlap){product / (double)k->length, here[to] - here[from],
			opposite[to + shift] - opposite[from + shift]};
	}
}

static void correlate(const void *user, int64_t part, float *scratch)
{
	const Correlation *k = user;
	int64_t n = k->columns, floats = fft_floats(k->fft), step = PARTS * fft_lanes(k->fft);
	float *data = scratch, *cross = data + floats;
	double *here = k->energy + part * 2 * (n + 1), *opposite = here + n + 1;
	memset(cross, 0, (size_t)floats * sizeof *cross);
	for (int64_t line = part; line < k->lines; line += PARTS) {
		add_squares(k->here + line * n, n, here);
		add_squares(k->opposite + line * n, n, opposite);
	}
	for (int64_t first = part; first < k->lines; first += step) {
		transform(k, first, data);
		add_cross(k, data, cross);
	}
	for (int64_t c = 0; c < n; c++) {
		here[c + 1] += here[c];
		opposite[c + 1] += opposite[c];
	}
	fft_inverse(k->fft, cross);
	take_overlaps(k, part, cross);
}

/* Correlation coefficient; 0 where the overlap is too narrow, or empty next to all of the lines. */
static double likeness(
	const Correlation *k, int64_t i, const Overlap *o, double here, double opposite)
{
	int64_t n = k->columns, overlap = n - llabs(n - 1 - k->first - i);
	double most = sqrt(here * opposite), size = sqrt(o->here * o->opposite);
	return overlap >= LEAST_OVERLAP && size > LEAST_SHARE * most ? o->product / size : 0;
}

/* Likeness for parts [from, to) of the lines together. */
static double likeness_of(const Correlation *k, int64_t i, int64_t from, int64_t to)
{
	int64_t n = k->columns;
	double here = 0, opposite = 0;
	Overlap all = {0};
	for (int64_t part = from; part < to; part++) {
		const Overlap *o = &k->overlaps[part * k->count + i];
		all.product += o->product;
		all.here += o->here;
		all.opposite += o->opposite;
		here += k->energy[part * 2 * (n + 1) + n];
		opposite += k->energy[part * 2 * (n + 1) + 2 * n + 1];
	}
	return likeness(k, i, &all, here, opposite);
}

/* Penalises narrow overlaps, in which correlation may be by chance. */
static double worth(const Correlation *k, int64_t i)
{
	int64_t n = k->columns;
	return sqrt((double)(n - llabs(n - 1 - k->first - i)) / (double)n);
}

/* ---- the best sum ---------------------------------------------------------------------------- */

/* Sums that the best score may be away from the largest likeness: the worth grows with the overlap,
 * and moves it. */
enum { MOVED = 4 };

/* The best sum, to fractions, where the likeness is largest beside the best score. */
static double top_near(const double *likeness, int64_t count, int64_t best)
{
	int64_t at = best;
	for (int i = 0; i < MOVED; i++)
		if (at > 0 && likeness[at - 1] > likeness[at])
			at--;
		else if (at + 1 < count && likeness[at + 1] > likeness[at])
			at++;
	if (at == 0 || at == count - 1 || llabs(at - best) == MOVED)
		return (double)best;
	return (double)at + axis_top(likeness[at - 1], likeness[at], likeness[at + 1]);
}

/* Scores for parts [from, to) of the lines together; the best. */
static int64_t take_scores(const Correlation *k, int64_t from, int64_t to)
{
	int64_t best = 0;
	for (int64_t i = 0; i < k->count; i++) {
		k->likeness[i] = likeness_of(k, i, from, to);
		k->score[i] = worth(k, i) * k->likeness[i];
		best = k->score[i] > k->score[best] ? i : best;
	}
	return best;
}

/* Standard error, from the best sums of the parts of the lines. */
static double error_of(const Correlation *k)
{
	double columns[PARTS];
	int64_t parts = min64(PARTS, k->lines);
	for (int64_t part = 0; part < parts; part++) {
		int64_t best = take_scores(k, part, part + 1);
		columns[part] = 0.5 * top_near(k->likeness, k->count, best);
	}
	return axis_error(columns, parts);
}

static void take_best(const Correlation *k, AxisAnswer *answer)
{
	double bin = (double)k->bin;
	answer->error = bin * error_of(k);
	int64_t count = k->count, best = take_scores(k, 0, PARTS);
	answer->at_edge = best == 0 || best == count - 1;
	double top = answer->at_edge ? (double)best : top_near(k->likeness, count, best);
	answer->column = 0.5 * ((double)k->first + top) * bin + 0.5 * (bin - 1);
	answer->confidence = fmax(k->likeness[best], 0) *
			     axis_confidence(k->score, count, best, max64(k->columns / 50, 8));
	axis_scores(answer, k->score, count, 0.5 * ((double)k->first * bin + bin - 1), 0.5 * bin);
}

static void correlation_free(Correlation *k)
{
	fft_close(k->fft);
	mem_free(k->here);
	mem_free(k->opposite);
	mem_free(k->energy);
	mem_free(k->overlaps);
	mem_free(k->score);
}

static tomos_status correlation_alloc(Correlation *k, int64_t lines)
{
	int64_t n = k->columns;
	TRY(mem_zeroed(&k->here, (lines + 1) * n, sizeof(float), "rows to compare"));
	TRY(mem_zeroed(&k->opposite, (lines + 1) * n, sizeof(float), "mirrored rows"));
	TRY(mem_zeroed(&k->energy, PARTS * 2 * (n + 1), sizeof(double), "squares of rows"));
	TRY(mem_alloc(&k->overlaps, PARTS * k->count, sizeof(Overlap), "sums over overlaps"));
	TRY(mem_alloc(&k->score, 2 * k->count, sizeof(double), "scores of the axis"));
	k->likeness = k->score + k->count;
	return fft_open(&k->fft, k->length);
}

/* The best axis, with `bin` columns averaged. */
static tomos_status search(
	const AxisProblem *p, const Pair *pairs, int64_t found, int64_t bin, AxisAnswer *answer)
{
	int64_t n = p->data->shape[2] / bin, rows = p->data->shape[1];
	int64_t taken = min64(rows, max64(MOST_LINES / found, 1));
	double shift = 0.5 * (double)(bin - 1);
	int64_t low = (int64_t)floor(2 * (p->low - shift) / (double)bin);
	int64_t high = (int64_t)ceil(2 * (p->high - shift) / (double)bin);
	Correlation k = {.columns = n, .bin = bin, .length = fft_length(2 * n)};
	float *scratch = NULL;
	tomos_status status;
	k.first = max64(low, 0);
	k.count = min64(high, 2 * n - 2) - k.first + 1;
	TRY_OR_DONE(correlation_alloc(&k, found * taken));
	TRY_OR_DONE(mem_alloc(&scratch, 2 * p->data->shape[2], sizeof(float), "two rows"));
	for (int64_t i = 0; i < found; i++)
		for (int64_t r = 0; r < taken; r++)
			fill_line(p, &pairs[i], (2 * r + 1) * rows / (2 * taken), &k, scratch);
	for (int i = 0; i < 2 && found >= MANY_PAIRS; i++)
		remove_rings(&k, i ? k.opposite : k.here, taken, scratch);
	TRY_OR_DONE(pieces_each(PARTS, 2 * fft_floats(k.fft), correlate, &k));
	take_best(&k, answer);
done:
	correlation_free(&k);
	mem_free(scratch);
	return status;
}

/* Noise decides how many columns are best averaged: the number with the smallest error. */
tomos_status axis_pairs(const AxisProblem *p, AxisAnswer *answer)
{
	Pair pairs[MOST_PAIRS];
	AxisView *views;
	AxisAnswer coarse;
	double step;
	TRY(axis_sort(p, &views, &step));
	int64_t found = find_pairs(views, p->data->shape[0], step, pairs), n = p->data->shape[2];
	mem_free(views);
	if (found == 0)
		return fail(TOMOS_BAD_VALUE, "no two of the %lld views are 180 degrees apart",
			(long long)p->data->shape[0]);
	TRY(search(p, pairs, found, 1, answer));
	for (int64_t bin = 2; n / bin >= COARSE; bin *= 2) {
		TRY(search(p, pairs, found, bin, &coarse));
		if (isnan(answer->error) ? coarse.confidence > 2 * answer->confidence
					 : coarse.error < answer->error)
			*answer = coarse;
	}
	axis_settle(p, answer);
	return TOMOS_OK;
}
