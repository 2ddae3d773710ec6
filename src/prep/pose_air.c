/* Air around the object in an averaged scan. Every line across a detector has the noise of all
 * pixels on it, of air as well: values that noise alone makes are 0. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "prep/pose.h"

enum { REACH = 2, GROW = 3 }; /* pixels on either side: of the means, and what stays beside them */
enum { SAMPLES = 1 << 14 };   /* of the noise */
#define MEDIAN_NORMAL 0.6745  /* of |x| */
#define MEAN_NOISE 0.622      /* of a mean, relative to second differences of smoothed noise */
#define SURELY 4              /* standard deviations */
#define LEAST 0.0005          /* of the largest value */

static int by_value(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;
	return (x > y) - (x < y);
}

/* One of each `step` pixels. Those at equal distances may all be of one column. */
static int64_t sample_at(int64_t index, int64_t step)
{
	uint32_t scattered = (uint32_t)index * 2654435769u;
	return index * step + (int64_t)scattered % step;
}

/* The noise of means, from second differences along the rows, most of which are of smooth parts. */
static tomos_status mean_noise(const Coarse *c, double *noise)
{
	int64_t n = c->orbit.columns, all = c->orbit.views * c->orbit.rows * n;
	int64_t step = max64(all / SAMPLES, 1), count = 0;
	float *list;
	TRY(mem_alloc(&list, all / step, sizeof *list, "second differences"));
	for (int64_t k = 0; k < all / step; k++) {
		int64_t i = sample_at(k, step), column = i % n;
		const float *at = c->data + i;
		if (column > 0 && column < n - 1)
			list[count++] = fabsf(at[-1] - 2 * at[0] + at[1]);
	}
	qsort(list, (size_t)count, sizeof *list, by_value);
	*noise = count > 0 ? MEAN_NOISE * (double)list[count / 2] / MEDIAN_NORMAL : 0;
	mem_free(list);
	return TOMOS_OK;
}

static void sum_row(const float *in, int64_t n, int64_t reach, float *out)
{
	float sum = 0;
	for (int64_t i = 0; i < min64(reach, n); i++)
		sum += in[i];
	for (int64_t i = 0; i < n; i++) {
		sum += i + reach < n ? in[i + reach] : 0;
		out[i] = sum;
		sum -= i >= reach ? in[i - reach] : 0;
	}
}

/* Replaces pixels by sums over windows of (2 reach + 1) x (2 reach + 1) of them; sums: as many
 * pixels of scratch, line: a row. */
static void sum_windows(
	float *image, int64_t rows, int64_t n, int64_t reach, float *sums, float *line)
{
	for (int64_t r = 0; r < rows; r++)
		sum_row(image + r * n, n, reach, sums + r * n);
	memset(line, 0, (size_t)n * sizeof *line);
	for (int64_t r = -reach; r < rows; r++) {
		for (int64_t i = 0; i < n && r + reach < rows; i++)
			line[i] += sums[(r + reach) * n + i];
		for (int64_t i = 0; i < n && r >= 0; i++) {
			image[r * n + i] = line[i];
			line[i] -= r >= reach ? sums[(r - reach) * n + i] : 0;
		}
	}
}

typedef struct {
	const Coarse *coarse;
	float least; /* of the sum over a window */
} Air;

static void clear_view(const void *user, int64_t view, float *scratch)
{
	const Air *a = user;
	int64_t n = a->coarse->orbit.columns, rows = a->coarse->orbit.rows, pixels = rows * n;
	float *data = a->coarse->data + view * pixels, *sums = scratch + pixels,
	      *line = sums + pixels;
	memcpy(scratch, data, (size_t)pixels * sizeof *data);
	sum_windows(scratch, rows, n, REACH, sums, line);
	for (int64_t i = 0; i < pixels; i++)
		scratch[i] = fabsf(scratch[i]) > a->least ? 1 : 0;
	sum_windows(scratch, rows, n, GROW, sums, line);
	for (int64_t i = 0; i < pixels; i++)
		data[i] = scratch[i] > 0.5F ? data[i] : 0;
}

tomos_status coarse_clear_air(const Coarse *c)
{
	int64_t pixels = c->orbit.rows * c->orbit.columns;
	double noise, most = 0;
	TRY(mean_noise(c, &noise));
	for (int64_t i = 0; i < c->orbit.views * pixels; i++)
		most = fmax(most, fabs((double)c->data[i]));
	double window = (2 * REACH + 1) * (2 * REACH + 1);
	Air air = {c, (float)(window * fmax(SURELY * noise, LEAST * most))};
	return pieces_each(c->orbit.views, 2 * pixels + c->orbit.columns, clear_view, &air);
}
