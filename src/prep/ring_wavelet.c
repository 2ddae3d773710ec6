/* Ring removal by combined wavelet and Fourier filtering: details across columns are damped at low
 * frequencies along the views.
 *
 * B. Münch, P. Trtik, F. Marone, M. Stampanoni, Stripe and ring artifact removal with combined
 * wavelet-Fourier filtering, Optics Express 17 (2009) 8567-8591. The few frequencies affected by
 * the damping 1 - exp(-f^2 / 2 sigma^2) are computed as direct sums; frequency zero is removed
 * completely. Columns are extended by mirror images over the support of the wavelets, because the
 * transform is periodic.
 */
#include <string.h>
#include "prep/prep.h"

OPTION_VALUES(prep_values, TOMOS_PREP_OPTIONS);

#define REACH 4.0 /* widths after which the damping is negligible */

typedef struct {
	double low[WAVELET_TAPS], high[WAVELET_TAPS];
	int taps, levels;
	int64_t views, columns, margin; /* padded size; columns before the first */
} Wavelet;

static int64_t round_up(int64_t count, int levels)
{
	int64_t unit = (int64_t)1 << levels;
	return (count + unit - 1) / unit * unit;
}

tomos_status ring_wavelet_open(RingJob *job)
{
	const tomos_prep_options *o = job->options;
	int moments;
	if (o->ring_levels < 1 || o->ring_levels > 12)
		return fail(TOMOS_BAD_VALUE, "ring-levels %lld: the number must be 1 to 12",
			(long long)o->ring_levels);
	if (!(o->ring_sigma > 0))
		return fail(TOMOS_BAD_VALUE, "ring-sigma %g: it must be above 0", o->ring_sigma);
	TRY(choice_find("wavelet", prep_values.ring_wavelet, o->ring_wavelet, &moments));
	Wavelet *w;
	TRY(mem_zeroed(&w, 1, sizeof *w, "a wavelet"));
	w->taps = 2 * (moments + 1);
	w->levels = (int)o->ring_levels;
	w->margin = min64(job->columns, (int64_t)(w->taps - 1) << w->levels);
	w->views = round_up(job->views, w->levels);
	w->columns = round_up(job->columns + 2 * w->margin, w->levels);
	wavelet_make(moments + 1, w->low, w->high);
	job->own = w;
	return TOMOS_OK;
}

void ring_wavelet_close(RingJob *job)
{
	mem_free(job->own);
	job->own = NULL;
}

int64_t ring_wavelet_floats(const RingJob *job)
{
	const Wavelet *w = job->own;
	return 2 * w->views * w->columns + 6 * w->views + 4 * w->columns + WAVELET_TAPS;
}

typedef void (*Level)(const double *low, const double *high, int taps, const float *in,
	int64_t count, float *out, float *scratch);

/* From the image to a copy of it (forth) or from the copy to the image (back). */
static void along_columns(const Wavelet *w, Level level, const float *in, int64_t views,
	int64_t columns, float *out, double *scratch)
{
	for (int64_t v = 0; v < views; v++)
		level(w->low, w->high, w->taps, in + v * w->columns, columns, out + v * w->columns,
			(float *)(void *)scratch);
}

static void put_line(const double *sums, int64_t columns, float *out)
{
	for (int64_t c = 0; c < columns; c++)
		out[c] = (float)sums[c];
}

/* wavelet_forth and wavelet_back along the views, for all columns at once. */
static void views_forth(
	const Wavelet *w, const float *in, int64_t views, int64_t columns, float *out, double *sums)
{
	const float *lines[WAVELET_TAPS];
	const int64_t half = views / 2;
	for (int64_t i = 0; i < views; i++) {
		int64_t first = 2 * (i < half ? i : i - half);
		for (int k = 0; k < w->taps; k++)
			lines[k] = in + (first + k) % views * w->columns;
		lines_sum(i < half ? w->low : w->high, lines, w->taps, columns, sums);
		put_line(sums, columns, out + i * w->columns);
	}
}

static void views_back(
	const Wavelet *w, const float *in, int64_t views, int64_t columns, float *out, double *sums)
{
	const float *lines[WAVELET_TAPS];
	double weights[WAVELET_TAPS];
	int64_t half = views / 2;
	for (int64_t n = 0; n < views; n++) {
		for (int k = 0; k < w->taps; k += 2) {
			int tap = k + (int)(n % 2);
			int64_t i = ((n - tap) / 2 % half + half) % half;
			lines[k] = in + i * w->columns;
			lines[k + 1] = in + (half + i) * w->columns;
			weights[k] = w->low[tap];
			weights[k + 1] = w->high[tap];
		}
		lines_sum(weights, lines, w->taps, columns, sums);
		put_line(sums, columns, out + n * w->columns);
	}
}

/* Scratch of the damping: cosines, sines and lines of the views, sums of the columns. */
typedef struct {
	double *cosine, *sine, *re, *im;
	const float **lines;
} Waves;

/* Reduces one frequency of all columns by the factor `share`. */
static void damp_wave(const Wavelet *w, float *band, int64_t views, int64_t columns, int64_t f,
	double share, const Waves *s)
{
	double factor = share * (f == 0 || 2 * f == views ? 1 : 2) / (double)views;
	for (int64_t v = 0; v < views; v++) {
		double angle = 2 * M_PI * (double)(f * v % views) / (double)views;
		s->cosine[v] = cos(angle);
		s->sine[v] = sin(angle);
		s->lines[v] = band + v * w->columns;
	}
	lines_sum(s->cosine, s->lines, views, columns, s->re);
	lines_sum(s->sine, s->lines, views, columns, s->im);
	for (int64_t v = 0; v < views; v++) {
		double x = factor * s->cosine[v], y = factor * s->sine[v];
		for (int64_t c = 0; c < columns; c++)
			band[v * w->columns + c] -= (float)(x * s->re[c] + y * s->im[c]);
	}
}

static void damp(
	const RingJob *job, float *band, int64_t views, int64_t columns, const Waves *waves)
{
	double sigma = job->options->ring_sigma;
	int64_t most = min64(views / 2, (int64_t)fmin(REACH * sigma, (double)views));
	for (int64_t f = 0; f <= most; f++)
		damp_wave(job->own, band, views, columns, f,
			exp(-0.5 * (double)(f * f) / (sigma * sigma)), waves);
}

static void pad(const RingJob *job, const float *sinogram, float *image)
{
	const Wavelet *w = job->own;
	for (int64_t v = 0; v < w->views; v++) {
		const float *in = sinogram + index_mirrored(v, job->views) * job->columns;
		for (int64_t c = 0; c < w->columns; c++)
			image[v * w->columns + c] = in[index_mirrored(c - w->margin, job->columns)];
	}
}

int64_t ring_wavelet(const RingJob *job, float *sinogram, float *scratch)
{
	const Wavelet *w = job->own;
	double *sums = (double *)(void *)scratch; /* doubles first, for their alignment */
	Waves waves = {.re = sums, .im = sums + w->columns};
	waves.cosine = sums + 2 * w->columns + WAVELET_TAPS / 2; /* wavelet_floats are fewer */
	waves.sine = waves.cosine + w->views;
	waves.lines = (const float **)(void *)(waves.sine + w->views);
	float *image = (float *)(void *)(waves.lines + w->views);
	float *copy = image + w->views * w->columns;
	pad(job, sinogram, image);
	for (int k = 0; k < w->levels; k++) {
		int64_t views = w->views >> k, columns = w->columns >> k;
		along_columns(w, wavelet_forth, image, views, columns, copy, sums);
		views_forth(w, copy, views, columns, image, sums);
		damp(job, image + columns / 2, views / 2, columns / 2, &waves);
	}
	for (int k = w->levels; k > 0; k--) {
		int64_t views = w->views >> (k - 1), columns = w->columns >> (k - 1);
		views_back(w, image, views, columns, copy, sums);
		along_columns(w, wavelet_back, copy, views, columns, image, sums);
	}
	for (int64_t v = 0; v < job->views; v++)
		memcpy(sinogram + v * job->columns, image + v * w->columns + w->margin,
			(size_t)job->columns * sizeof *sinogram);
	return 0;
}
