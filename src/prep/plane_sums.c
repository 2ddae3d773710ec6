/* Normal equations of planes that two views have in common. */
#include "prep/plane_sums.h"
#include <stdlib.h>
#include <string.h>

enum { FLOATS = sizeof(Sample) / sizeof(float) };

static void add_sample(unsigned free, const Sample *s, Normal *at)
{
	double left = (double)s->value[0] - (double)s->value[1];
	at->squares += left * left;
	at->energy += (double)s->value[0] * (double)s->value[0] +
		      (double)s->value[1] * (double)s->value[1];
	for (int a = 0; a < NORMAL_MOST; a++) {
		if (!(free >> a & 1))
			continue;
		double own = (double)s->by[0][a], other = (double)s->by[1][a];
		at->g[a] += other * left;
		for (int b = 0; b < NORMAL_MOST; b++)
			if (free >> b & 1)
				at->h[a][b] += 0.5 * (own * (double)s->by[1][b] +
							     other * (double)s->by[0][b]);
	}
}

void plane_average(const Sample *middle, int aside, const float *weights, Sample *out)
{
	float *to = (float *)out;
	memset(out, 0, sizeof *out);
	for (int k = -aside; k <= aside; k++) {
		const float *from = (const float *)&middle[k], w = weights[abs(k)];
		for (int i = 0; i < FLOATS; i++)
			to[i] += w * from[i];
	}
}

static Sample minus(const Sample *a, const Sample *b)
{
	Sample out = *a;
	const float *from = (const float *)b;
	float *to = (float *)&out;
	for (int i = 0; i < FLOATS; i++)
		to[i] -= from[i];
	return out;
}

typedef struct {
	Normal sums[BANDS];
	double count[BANDS];
} Bands;

/* The fast part of the planes; slow: the rest, half as many. */
static int64_t add_band(unsigned free, const Sample *planes, int64_t count, Sample *slow,
	Normal *sums, double *counted)
{
	static const float smooth[] = {0.375F, 0.25F, 0.0625F};
	int64_t next = 0;
	for (int64_t k = 2; k < count - 2; k++) {
		Sample average, fast;
		plane_average(&planes[k], 2, smooth, &average);
		if (k % 2 == 0)
			slow[next++] = average;
		if (!is_measured(&average))
			continue;
		fast = minus(&planes[k], &average);
		add_sample(free, &fast, sums);
		++*counted;
	}
	return next;
}

static void add_bands(
	unsigned free, int bands, Sample *planes, Sample *other, int64_t count, Bands *b)
{
	for (int band = 0; band < bands - 1; band++) {
		Sample *last = planes;
		count = add_band(free, planes, count, other, &b->sums[band], &b->count[band]);
		planes = other;
		other = last;
	}
	for (int64_t k = 0; k < count; k++)
		if (is_measured(&planes[k])) {
			add_sample(free, &planes[k], &b->sums[bands - 1]);
			b->count[bands - 1]++;
		}
}

void plane_sums_add(PlaneSums *sums, unsigned free, bool sorted, int class, const int block[2],
	Sample *planes, Sample *other, int64_t count)
{
	Bands all;
	memset(&all, 0, sizeof all);
	for (int64_t k = 0; k < count; k++) {
		double a = (double)planes[k].value[0], b = (double)planes[k].value[1];
		sums->squares += is_measured(&planes[k]) ? (a - b) * (a - b) : 0;
		sums->energy += is_measured(&planes[k]) ? a * a + b * b : 0;
	}
	add_bands(free, sorted ? BANDS : 1, planes, other, count, &all);
	for (int band = 0; band < BANDS; band++) {
		int group = BANDS * class + band;
		sums->count[group] += all.count[band];
		for (int k = 0; k < 2; k++)
			normal_add(&sums->blocks[group][block[k]], &all.sums[band]);
	}
}

static void add_weighted(const Normal *part, double weight, Normal *sum)
{
	for (int i = 0; i < NORMAL_MOST; i++) {
		sum->g[i] += weight * part->g[i];
		for (int j = 0; j < NORMAL_MOST; j++)
			sum->h[i][j] += weight * part->h[i][j];
	}
}

void plane_sums_join(const PlaneSums *sums, int64_t count, bool sorted, Normal out[NORMAL_BLOCKS])
{
	memset(out, 0, NORMAL_BLOCKS * sizeof *out);
	for (int g = 0; g < GROUPS; g++) {
		double squares = 0, samples = 0;
		for (int64_t v = 0; v < count; v++) {
			samples += sums[v].count[g];
			for (int b = 0; b < NORMAL_BLOCKS; b++)
				squares += 0.5 * sums[v].blocks[g][b].squares;
		}
		double weight = !sorted ? 1 : squares > 0 ? samples / squares : 0;
		for (int64_t v = 0; v < count && samples > 0; v++)
			for (int b = 0; b < NORMAL_BLOCKS; b++)
				add_weighted(&sums[v].blocks[g][b], weight, &out[b]);
	}
	for (int64_t v = 0; v < count; v++) {
		out[0].squares += sums[v].squares;
		out[0].energy += sums[v].energy;
	}
}
