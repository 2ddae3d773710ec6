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
	double low[WAVELET_TAPS];
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
	wavelet_make(moments + 1, w->low);
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
	return w->views * w->columns + 2 * max64(w->views, w->columns);
}

typedef void (*Level)(const double *low, int taps, const float *in, int64_t count, float *out);

static void along_columns(
	const Wavelet *w, Level level, float *image, int64_t views, int64_t columns, float *line)
{
	for (int64_t v = 0; v < views; v++) {
		memcpy(line, image + v * w->columns, (size_t)columns * sizeof *line);
		level(w->low, w->taps, line, columns, image + v * w->columns);
	}
}

static void along_views(
	const Wavelet *w, Level level, float *image, int64_t views, int64_t columns, float *line)
{
	float *out = line + views;
	for (int64_t c = 0; c < columns; c++) {
		for (int64_t v = 0; v < views; v++)
			line[v] = image[v * w->columns + c];
		level(w->low, w->taps, line, views, out);
		for (int64_t v = 0; v < views; v++)
			image[v * w->columns + c] = out[v];
	}
}

/* Reduces one frequency of a column by the factor `share`. */
static void damp_wave(
	float *column, int64_t stride, int64_t count, int64_t f, double share, const float *cosine)
{
	double re = 0, im = 0;
	/* cosine[k] = cos(2 pi k / (4 count)), so that the sine of k is cosine[k + 3 count]. */
	const int64_t to_sine = 3 * count;
	for (int64_t v = 0; v < count; v++) {
		int64_t at = 4 * (f * v % count);
		re += (double)column[v * stride] * (double)cosine[at];
		im += (double)column[v * stride] * (double)cosine[(at + to_sine) % (4 * count)];
	}
	double factor = share * (f == 0 || 2 * f == count ? 1 : 2) / (double)count;
	for (int64_t v = 0; v < count; v++) {
		int64_t at = 4 * (f * v % count);
		column[v * stride] -=
			(float)(factor *
				(re * (double)cosine[at] +
					im * (double)cosine[(at + to_sine) % (4 * count)]));
	}
}

static void damp(const RingJob *job, float *band, int64_t views, int64_t columns, float *cosine)
{
	const Wavelet *w = job->own;
	double sigma = job->options->ring_sigma;
	int64_t most = min64(views / 2, (int64_t)fmin(REACH * sigma, (double)views));
	for (int64_t k = 0; k < 4 * views; k++)
		cosine[k] = (float)cos(0.5 * M_PI * (double)k / (double)views);
	for (int64_t c = 0; c < columns; c++)
		for (int64_t f = 0; f <= most; f++)
			damp_wave(band + c, w->columns, views, f,
				exp(-0.5 * (double)(f * f) / (sigma * sigma)), cosine);
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
	float *image = scratch, *line = scratch + w->views * w->columns;
	pad(job, sinogram, image);
	for (int k = 0; k < w->levels; k++) {
		int64_t views = w->views >> k, columns = w->columns >> k;
		along_columns(w, wavelet_forth, image, views, columns, line);
		along_views(w, wavelet_forth, image, views, columns, line);
		damp(job, image + columns / 2, views / 2, columns / 2, line);
	}
	for (int k = w->levels; k > 0; k--) {
		int64_t views = w->views >> (k - 1), columns = w->columns >> (k - 1);
		along_views(w, wavelet_back, image, views, columns, line);
		along_columns(w, wavelet_back, image, views, columns, line);
	}
	for (int64_t v = 0; v < job->views; v++)
		memcpy(sinogram + v * job->columns, image + v * w->columns + w->margin,
			(size_t)job->columns * sizeof *sinogram);
	return 0;
}
