/* Error measures between two arrays: relative L2, PSNR, SSIM and the largest difference.
 *
 * SSIM: Z. Wang, A. C. Bovik, H. R. Sheikh, E. P. Simoncelli, Image quality assessment: from error
 * visibility to structural similarity, IEEE Trans. Image Process. 13, 2004; with a uniform window
 * of 7 x 7 pixels of one slice and unbiased variances, over all windows inside the slice.
 */
#include <math.h>
#include "truth/truth.h"

enum { WINDOW = 7, BAND = 16, WIDTH = 128 };

/* ---- sums ------------------------------------------------------------------------------------ */

typedef struct {
	double squares, error_squares, largest, low, high;
} Sums;

typedef struct {
	const tomos_array *a, *b;
	Sums *sums; /* one per block */
} Summing;

static void sum_run(
	Sums *s, const float *a, int64_t stride_a, const float *b, int64_t stride_b, int64_t count)
{
	for (int64_t i = 0; i < count; i++) {
		double value = a[i * stride_a], error = value - b[i * stride_b];
		s->squares += value * value;
		s->error_squares += error * error;
		s->largest = fmax(s->largest, fabs(error));
		s->low = fmin(s->low, value);
		s->high = fmax(s->high, value);
	}
}

static void sum_block(void *user, int64_t block)
{
	const Summing *o = user;
	int64_t end = min64((block + 1) * BLOCK, array_count(o->a));
	Sums s = {.low = INFINITY, .high = -INFINITY};
	for (int64_t i = block * BLOCK, n; i < end; i += n) {
		float *a, *b;
		n = array_run(o->a, i, end, &a);
		array_run(o->b, i, end, &b);
		sum_run(&s, a, o->a->stride[2], b, o->b->stride[2], n);
	}
	o->sums[block] = s;
}

static tomos_status sum_all(const tomos_array *a, const tomos_array *b, Sums *total)
{
	int64_t blocks = array_blocks(a);
	Summing o = {.a = a, .b = b};
	TRY(mem_alloc(&o.sums, blocks, sizeof *o.sums, "the sums of a comparison"));
	tomos_status status = parallel_try(blocks, sum_block, &o, "the comparison");
	*total = (Sums){.low = INFINITY, .high = -INFINITY};
	for (int64_t i = 0; i < blocks && status == TOMOS_OK; i++) {
		total->squares += o.sums[i].squares;
		total->error_squares += o.sums[i].error_squares;
		total->largest = fmax(total->largest, o.sums[i].largest);
		total->low = fmin(total->low, o.sums[i].low);
		total->high = fmax(total->high, o.sums[i].high);
	}
	mem_free(o.sums);
	return status;
}

/* ---- SSIM ------------------------------------------------------------------------------------ */

/* Sums over a window, or a column of one, of values minus the first pixel of the row: the variance
 * of a constant image is then exactly zero. */
typedef struct {
	double a, b, aa, bb, ab;
} Moments;

typedef struct {
	const tomos_array *a, *b;
	int64_t window[2]; /* rows, columns */
	int64_t bands;     /* of BAND window rows in a slice */
	double c1, c2;
	double *sums; /* one per band */
} Ssim;

static void moments_add(Moments *m, const Moments *other)
{
	m->a += other->a;
	m->b += other->b;
	m->aa += other->aa;
	m->bb += other->bb;
	m->ab += other->ab;
}

static double quotient(double above, double below)
{
	return below > 0 ? above / below : 1; /* two empty windows are equal */
}

static double window_ssim(const Ssim *o, const Moments *m, double base_a, double base_b)
{
	double n = (double)(o->window[0] * o->window[1]), a = m->a / n, b = m->b / n;
	double unbiased = n > 1 ? n / (n - 1) : 1;
	double vaa = unbiased * fmax(m->aa / n - a * a, 0);
	double vbb = unbiased * fmax(m->bb / n - b * b, 0);
	double vab = unbiased * (m->ab / n - a * b);
	a += base_a;
	b += base_b;
	return quotient(2 * a * b + o->c1, a * a + b * b + o->c1) *
	       quotient(2 * vab + o->c2, vaa + vbb + o->c2);
}

static Moments column_moments(
	const Ssim *o, const float *a, const float *b, double base_a, double base_b)
{
	Moments m = {0, 0, 0, 0, 0};
	for (int64_t i = 0; i < o->window[0]; i++) {
		double p = a[i * o->a->stride[1]] - base_a, q = b[i * o->b->stride[1]] - base_b;
		moments_add(&m, &(Moments){p, q, p * p, q * q, p * q});
	}
	return m;
}

/* Sum over `count` windows side by side whose first pixels are a and b. */
static double windows_ssim(const Ssim *o, const float *a, const float *b, int64_t count)
{
	Moments columns[WIDTH + WINDOW - 1] = {{0, 0, 0, 0, 0}};
	double base_a = *a, base_b = *b, sum = 0;
	for (int64_t x = 0; x < count + o->window[1] - 1; x++)
		columns[x] = column_moments(
			o, a + x * o->a->stride[2], b + x * o->b->stride[2], base_a, base_b);
	for (int64_t x = 0; x < count; x++) {
		Moments m = {0, 0, 0, 0, 0};
		for (int64_t i = 0; i < o->window[1]; i++)
			moments_add(&m, &columns[x + i]);
		sum += window_ssim(o, &m, base_a, base_b);
	}
	return sum;
}

static void sum_band(void *user, int64_t index)
{
	const Ssim *o = user;
	int64_t slice = index / o->bands, first = index % o->bands * BAND;
	int64_t rows = o->a->shape[1] - o->window[0] + 1;
	int64_t columns = o->a->shape[2] - o->window[1] + 1;
	double sum = 0;
	for (int64_t y = first; y < min64(first + BAND, rows); y++)
		for (int64_t x = 0; x < columns; x += WIDTH) {
			const int64_t *s = o->a->stride, *t = o->b->stride;
			sum += windows_ssim(o, o->a->data + (slice * s[0] + y * s[1] + x * s[2]),
				o->b->data + (slice * t[0] + y * t[1] + x * t[2]),
				min64(WIDTH, columns - x));
		}
	o->sums[index] = sum;
}

static int64_t window_length(int64_t n)
{
	return n >= WINDOW ? WINDOW : n - (n % 2 == 0);
}

static tomos_status mean_ssim(
	const tomos_array *a, const tomos_array *b, double range, double *mean)
{
	Ssim o = {.a = a,
		.b = b,
		.c1 = 0.01 * range * 0.01 * range,
		.c2 = 0.03 * range * 0.03 * range};
	o.window[0] = window_length(a->shape[1]);
	o.window[1] = window_length(a->shape[2]);
	int64_t rows = a->shape[1] - o.window[0] + 1, columns = a->shape[2] - o.window[1] + 1;
	o.bands = (rows + BAND - 1) / BAND;
	int64_t count = a->shape[0] * o.bands;
	TRY(mem_alloc(&o.sums, count, sizeof *o.sums, "the sums of a comparison"));
	tomos_status status = parallel_try(count, sum_band, &o, "the comparison");
	double sum = 0;
	for (int64_t i = 0; i < count && status == TOMOS_OK; i++)
		sum += o.sums[i];
	*mean = sum / ((double)a->shape[0] * (double)rows * (double)columns);
	mem_free(o.sums);
	return status;
}

void comparison_begin(Comparison *c)
{
	*c = (Comparison){.low = INFINITY, .high = -INFINITY};
}

tomos_status comparison_sum(Comparison *c, const tomos_array *a, const tomos_array *b)
{
	Sums s;
	TRY(array_check(a, "the first to compare", NULL, ARRAY_READ));
	TRY(array_check(b, "the second to compare", a->shape, ARRAY_READ));
	TRY(array_finite(a, "the first to compare", ""));
	TRY(array_finite(b, "the second to compare", ""));
	TRY(sum_all(a, b, &s));
	c->squares += s.squares;
	c->error_squares += s.error_squares;
	c->largest = fmax(c->largest, s.largest);
	c->low = fmin(c->low, s.low);
	c->high = fmax(c->high, s.high);
	c->count += (double)array_count(a);
	return TOMOS_OK;
}

tomos_status comparison_ssim(Comparison *c, const tomos_array *a, const tomos_array *b)
{
	double mean;
	TRY(mean_ssim(a, b, c->high - c->low, &mean));
	c->ssim += mean * (double)a->shape[0];
	c->slices += (double)a->shape[0];
	return TOMOS_OK;
}

void comparison_end(const Comparison *c, tomos_difference *difference)
{
	double rmse = sqrt(c->error_squares / c->count);
	difference->relative_l2 = rmse > 0 ? sqrt(c->error_squares / c->squares) : 0;
	difference->psnr = rmse > 0 ? 20 * log10((c->high - c->low) / rmse) : INFINITY;
	difference->ssim = c->ssim / c->slices;
	difference->largest = c->largest;
}

tomos_status tomos_compare(const tomos_array *a, const tomos_array *b, tomos_difference *difference)
{
	tomos_difference found = {.bytes = sizeof found};
	Comparison c;
	comparison_begin(&c);
	TRY(comparison_sum(&c, a, b));
	TRY(comparison_ssim(&c, a, b));
	comparison_end(&c, &found);
	return struct_give(difference, &found, "tomos_difference");
}
