/* Rotation axis from views 180 degrees apart, which are mirror images of each other about it.
 *
 * All pairs of the scan, or the two at the ends of a 180 degree scan, are correlated together.
 * Where there is no view exactly opposite, its neighbours are interpolated, or extrapolated by at
 * most a step. Derivatives along the rows are compared, not values: in half acquisition the two
 * views overlap only in a narrow strip, in which the object changes little. Only the overlap is
 * compared.
 */
#include <string.h>
#include "prep/axis.h"

enum { MOST_LINES = 256, MOST_PAIRS = 64, LEAST_OVERLAP = 12 };
enum { PARTS = 8 }; /* of the lines, each with a result of its own */

/* A view, and the two from which its opposite is interpolated. */
typedef struct {
	int64_t view, other[2];
	double share[2];
} Pair;

typedef struct {
	int64_t lines, columns, first; /* the first sum of columns tried */
	float *here, *opposite;        /* derivatives [line][column] */
	double *score, *likeness;      /* of each sum tried */
	double *apart;                 /* score of each part of the lines, [sum][part] */
} Correlation;

/* The opposite of sorted view i; false if there is none near enough. */
static bool find_opposite(const AxisView *views, int64_t count, int64_t i, double step, Pair *pair)
{
	double target = fmod(views[i].angle + M_PI, 2 * M_PI);
	int64_t after = 0;
	while (after < count && views[after].angle < target)
		after++;
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

/* Derivative of a row smoothed with binomial weights, to suppress structure of one pixel. */
static void slopes(const float *row, int64_t n, float *out)
{
	static const float weight[4] = {14, 14, 6, 1};
	for (int64_t c = 0; c < n; c++) {
		float sum = 0;
		for (int64_t k = 1; k <= 4; k++)
			sum += weight[k - 1] * (row[min64(c + k, n - 1)] - row[max64(c - k, 0)]);
		out[c] = sum;
	}
}

static void fill_line(
	const AxisProblem *p, const Pair *pair, int64_t row, Correlation *k, float *scratch)
{
	int64_t n = k->columns, at = k->lines++ * n;
	float *other = scratch + n;
	row_get(p->data, pair->view, row, scratch);
	slopes(scratch, n, k->here + at);
	row_get(p->data, pair->other[0], row, scratch);
	row_get(p->data, pair->other[1], row, other);
	for (int64_t c = 0; c < n; c++)
		scratch[c] = (float)(pair->share[0] * (double)scratch[c] +
				     pair->share[1] * (double)other[c]);
	slopes(scratch, n, other);
	for (int64_t c = 0; c < n; c++) /* mirrored: the derivative changes sign */
		k->opposite[at + n - 1 - c] = -other[c];
}

/* Correlation coefficient from sums of products and squares. */
static double likeness(const double sums[3])
{
	return sums[1] > 0 && sums[2] > 0 ? sums[0] / sqrt(sums[1] * sums[2]) : 0;
}

/* Column j of one view corresponds to column sum - j of the other, j + (n - 1 - sum) when
 * mirrored. */
static void correlate(void *user, int64_t index)
{
	Correlation *k = user;
	int64_t n = k->columns, sum = k->first + index;
	int64_t from = max64(0, sum - (n - 1)), to = min64(n - 1, sum) + 1;
	double all[3] = {0}, sums[PARTS][3] = {{0}};
	for (int64_t line = 0; line < k->lines; line++) {
		const float *a = k->here + line * n, *b = k->opposite + line * n + (n - 1 - sum);
		float part[3] = {0, 0, 0};
		for (int64_t c = from; c < to; c++) {
			part[0] += a[c] * b[c];
			part[1] += a[c] * a[c];
			part[2] += b[c] * b[c];
		}
		for (int i = 0; i < 3; i++) {
			all[i] += (double)part[i];
			sums[line % PARTS][i] += (double)part[i];
		}
	}
	k->likeness[index] = to - from >= LEAST_OVERLAP ? likeness(all) : 0;
	/* Penalises narrow overlaps, in which correlation may be by chance. */
	double worth = sqrt((double)(to - from) / (double)n);
	k->score[index] = k->likeness[index] * worth;
	for (int i = 0; i < PARTS; i++)
		k->apart[index * PARTS + i] =
			to - from >= LEAST_OVERLAP ? worth * likeness(sums[i]) : 0;
}

/* Standard error, from the best sums of the parts of the lines. */
static double error_of(const Correlation *k, int64_t count)
{
	double columns[PARTS];
	int64_t parts = min64(PARTS, k->lines);
	for (int64_t i = 0; i < parts; i++) {
		const double *score = k->apart + i;
		int64_t at = 1;
		for (int64_t j = 1; j < count - 1; j++)
			at = score[j * PARTS] > score[at * PARTS] ? j : at;
		columns[i] =
			0.5 * ((double)at + axis_top(score[(at - 1) * PARTS], score[at * PARTS],
						    score[(at + 1) * PARTS]));
	}
	return axis_error(columns, parts);
}

static void take_best(const AxisProblem *p, const Correlation *k, int64_t count, AxisAnswer *answer)
{
	int64_t best = 0;
	for (int64_t i = 1; i < count; i++)
		if (k->score[i] > k->score[best])
			best = i;
	answer->at_edge = best == 0 || best == count - 1;
	double top = answer->at_edge ? 0
				     : axis_top(k->likeness[best - 1], k->likeness[best],
					       k->likeness[best + 1]);
	answer->column = 0.5 * ((double)(k->first + best) + top);
	answer->error = error_of(k, count);
	answer->confidence = fmax(k->likeness[best], 0) * axis_confidence(k->score, count, best,
								  max64(p->data->shape[2] / 50, 8));
	axis_settle(p, answer);
}

tomos_status axis_pairs(const AxisProblem *p, AxisAnswer *answer)
{
	Pair pairs[MOST_PAIRS];
	AxisView *views;
	double step;
	float *scratch = NULL;
	tomos_status status;
	TRY(axis_sort(p, &views, &step));
	int64_t found = find_pairs(views, p->data->shape[0], step, pairs);
	mem_free(views);
	if (found == 0)
		return fail(TOMOS_BAD_VALUE, "no two of the %lld views are 180 degrees apart",
			(long long)p->data->shape[0]);
	int64_t n = p->data->shape[2], rows = p->data->shape[1];
	int64_t taken = min64(rows, max64(MOST_LINES / found, 1));
	int64_t low = (int64_t)floor(2 * p->low), count = (int64_t)ceil(2 * p->high) - low + 1;
	Correlation k = {.columns = n, .first = low};
	TRY_OR_DONE(mem_alloc(&k.here, found * taken * n, sizeof(float), "rows to compare"));
	TRY_OR_DONE(mem_alloc(&k.opposite, found * taken * n, sizeof(float), "mirrored rows"));
	TRY_OR_DONE(mem_alloc(&k.score, 2 * count, sizeof(double), "scores of the axis"));
	TRY_OR_DONE(mem_alloc(&k.apart, PARTS * count, sizeof(double), "scores of the axis"));
	TRY_OR_DONE(mem_alloc(&scratch, 2 * n, sizeof(float), "two rows"));
	k.likeness = k.score + count;
	for (int64_t i = 0; i < found; i++)
		for (int64_t r = 0; r < taken; r++)
			fill_line(p, &pairs[i], (2 * r + 1) * rows / (2 * taken), &k, scratch);
	TRY_OR_DONE(parallel_try(count, correlate, &k, "the search for the axis"));
	take_best(p, &k, count, answer);
done:
	mem_free(k.here);
	mem_free(k.opposite);
	mem_free(k.score);
	mem_free(k.apart);
	mem_free(scratch);
	return status;
}
