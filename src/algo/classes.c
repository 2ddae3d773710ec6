/* Thresholds and levels of classes of voxels, from histograms. */
#include "algo/classes.h"
#include <math.h>

enum { BINS = 1024 };

typedef struct {
	double low, step, count[BINS], sum[BINS];
} Histogram;

static void range_of(const float *values, int64_t count, double above, double range[2])
{
	range[0] = HUGE_VAL;
	range[1] = -HUGE_VAL;
	for (int64_t i = 0; i < count; i++)
		if ((double)values[i] > above) {
			range[0] = fmin(range[0], (double)values[i]);
			range[1] = fmax(range[1], (double)values[i]);
		}
}

static void fill(Histogram *h, const float *values, int64_t count, double above)
{
	for (int64_t i = 0; i < count; i++) {
		if (!((double)values[i] > above))
			continue;
		double value = (double)values[i];
		int64_t bin = min64((int64_t)((value - h->low) / h->step), BINS - 1);
		h->count[bin] += 1;
		h->sum[bin] += value;
	}
}

/* The middle of the bins after which the classes differ most: between them may be nothing. */
static double separate(const Histogram *h)
{
	double all = 0, total = 0, below = 0, sum = 0, best = -1;
	int first = 0, last = 0;
	for (int i = 0; i < BINS; i++) {
		all += h->count[i];
		total += h->sum[i];
	}
	for (int i = 0; i < BINS - 1; i++) {
		below += h->count[i];
		sum += h->sum[i];
		double between = total * below - sum * all;
		double variance =
			below > 0 && below < all ? between * between / (below * (all - below)) : 0;
		if (variance > best * (1 + 1e-9)) {
			best = variance;
			first = i;
		}
		if (variance >= best * (1 - 1e-9))
			last = i;
	}
	return h->low + (0.5 * (double)(first + last) + 1) * h->step;
}

double classes_threshold(const float *values, int64_t count, double above)
{
	Histogram h = {.low = 0};
	double range[2];
	range_of(values, count, above, range);
	if (!(range[1] > range[0]))
		return HUGE_VAL;
	h.low = range[0];
	h.step = (range[1] - range[0]) / BINS;
	fill(&h, values, count, above);
	return separate(&h);
}

double classes_mean(const float *values, int64_t count, double low, double high, int64_t *found)
{
	double sum = 0;
	int64_t number = 0;
	for (int64_t i = 0; i < count; i++)
		if ((double)values[i] > low && (double)values[i] <= high) {
			sum += (double)values[i];
			number++;
		}
	*found = number;
	return number > 0 ? sum / (double)number : 0;
}

static double sum_below(const float *values, int64_t count, double most)
{
	double sum = 0;
	for (int64_t i = 0; i < count; i++)
		if (values[i] > 0 && (double)values[i] <= most)
			sum += (double)values[i];
	return sum;
}

/* By bisection, which needs no memory. */
double classes_level(const float *values, int64_t count)
{
	double range[2], half = 0.5 * sum_below(values, count, HUGE_VAL);
	range_of(values, count, 0, range);
	double from = 0, to = range[1];
	if (!(to > 0))
		return 0;
	for (int i = 0; i < 40; i++) {
		double middle = 0.5 * (from + to);
		if (sum_below(values, count, middle) >= half)
			to = middle;
		else
			from = middle;
	}
	return to;
}
