/* Phase retrieval of a homogeneous object from one propagation distance.
 *
 * D. Paganin, S. C. Mayo, T. E. Gureyev, P. R. Miller, S. W. Wilkins, Simultaneous phase and
 * amplitude extraction from a single defocused image of a homogeneous object, J. Microscopy 206
 * (2002) 33-40: exp(-mu T) = F^-1 { F{I / I0} / (1 + z (delta / mu) k^2) }, mu = 4 pi beta /
 * wavelength. Input (-log of the transmission) and output (mu T) are line integrals, so that the
 * step is optional. The kernel decays within sqrt(z delta / mu); frames are padded with their edge
 * values by 12 times that.
 */
#include <string.h>
#include "backend/fft.h"
#include "backend/prepare.h"
#include "prep/prep.h"

OPTION_VALUES(prep_values, TOMOS_PREP_OPTIONS);

#define WAVELENGTH 1.2398419843320026e-6 /* mm of 1 keV: h c */

typedef struct {
	const tomos_array *data;
	PrepFrame size;
	int64_t stride;  /* floats of a padded row */
	double strength; /* z delta / mu, in pixels squared */
	float floor;
	Fft *along, *across; /* rows, and columns */
	double *waves[2]; /* squares of the wave numbers at each position of a row, and a column */
} Retrieval;

/* The frame as transmissions, padded with its edge values. */
static void pad(const Retrieval *p, int64_t view, float *line, float *frame)
{
	const tomos_array *a = p->data;
	for (int64_t r = 0; r < p->size.rows; r++) {
		int64_t row = min64(max64(r - p->size.before[0], 0), a->shape[1] - 1);
		row_get(a, view, row, line);
		for (int64_t c = 0; c < p->size.columns; c++)
			frame[r * p->stride + c] = expf(
				-line[min64(max64(c - p->size.before[1], 0), a->shape[2] - 1)]);
	}
}

/* The rows of two frames, which are the real and the imaginary part of one. */
static void transform_rows(const Retrieval *p, float *const frames[2], float *data, bool inverse)
{
	const int lanes = fft_lanes(p->along);
	float *rows[2][FFT_MOST_LANES];
	for (int64_t first = 0; first < p->size.rows; first += lanes) {
		for (int i = 0; i < 2 * lanes; i++) { /* beyond the last row: the last row */
			int64_t row = min64(first + i / 2, p->size.rows - 1);
			rows[i % 2][i / 2] = frames[i % 2] + row * p->stride;
		}
		for (int part = 0; part < 2; part++)
			fft_gather(p->along, (const float *const *)rows[part], 0, p->size.columns,
				part, data);
		(inverse ? fft_inverse : fft_forward)(p->along, data);
		for (int part = 0; part < 2; part++)
			fft_scatter(p->along, data, 0, p->size.columns, part, rows[part]);
	}
}

static void damp(const Retrieval *p, int64_t first, int lanes, float *data)
{
	double share = 1 / ((double)p->size.rows * (double)p->size.columns);
	for (int64_t r = 0; r < p->size.rows; r++)
		for (int l = 0; l < lanes; l++) {
			double wave = p->waves[0][first + l] + p->waves[1][r];
			float h = (float)(share / (1 + p->strength * wave));
			data[2 * r * lanes + l] *= h;
			data[(2 * r + 1) * lanes + l] *= h;
		}
}

/* Transforms and damps columns, and transforms them back. */
static void damp_columns(const Retrieval *p, float *const frames[2], float *data)
{
	const int lanes = fft_lanes(p->across);
	for (int64_t first = 0; first < p->stride; first += lanes) {
		for (int64_t i = 0; i < 2 * p->size.rows; i++)
			memcpy(data + i * lanes, frames[i % 2] + i / 2 * p->stride + first,
				(size_t)lanes * sizeof *data);
		fft_forward(p->across, data);
		damp(p, first, lanes, data);
		fft_inverse(p->across, data);
		for (int64_t i = 0; i < 2 * p->size.rows; i++)
			memcpy(frames[i % 2] + i / 2 * p->stride + first, data + i * lanes,
				(size_t)lanes * sizeof *data);
	}
}

static int64_t transform_floats(const Retrieval *p)
{
	return max64(fft_floats(p->along), fft_floats(p->across));
}

static void put_view(const Retrieval *p, int64_t view, float *frame)
{
	const tomos_array *a = p->data;
	for (int64_t r = 0; r < a->shape[1]; r++) {
		float *row = frame + (r + p->size.before[0]) * p->stride + p->size.before[1];
		for (int64_t c = 0; c < a->shape[2]; c++)
			row[c] = -logf(fmaxf(row[c], p->floor));
		row_put(a, view, r, row);
	}
}

/* Two views; the last of an odd number is alone, with zeros. */
static void retrieve_pair(const void *user, int64_t pair, float *scratch)
{
	const Retrieval *p = user;
	int64_t frame = p->size.rows * p->stride, views = min64(2, p->data->shape[0] - 2 * pair);
	float *frames[2] = {scratch, scratch + frame}, *data = scratch + 2 * frame;
	memset(scratch, 0, (size_t)(2 * frame) * sizeof *scratch);
	for (int64_t i = 0; i < views; i++)
		pad(p, 2 * pair + i, data, frames[i]);
	transform_rows(p, frames, data, false);
	damp_columns(p, frames, data);
	transform_rows(p, frames, data, true);
	for (int64_t i = 0; i < views; i++)
		put_view(p, 2 * pair + i, frames[i]);
}

/* Squares of the wave numbers, in radians per sample, at each position of a spectrum. */
static tomos_status waves_make(double **waves, const Fft *fft, int64_t length, int64_t count)
{
	TRY(mem_zeroed(waves, count, sizeof **waves, "the frequencies of a view"));
	for (int64_t k = 0; k < length; k++) {
		double wave = 2 * M_PI * (double)min64(k, length - k) / (double)length;
		(*waves)[fft_position(fft, k)] = wave * wave;
	}
	return TOMOS_OK;
}

static tomos_status transforms_make(Retrieval *p)
{
	TRY(fft_open(&p->along, p->size.columns));
	TRY(fft_open(&p->across, p->size.rows));
	TRY(waves_make(&p->waves[0], p->along, p->size.columns, p->stride));
	return waves_make(&p->waves[1], p->across, p->size.rows, p->size.rows);
}

static void retrieval_free(Retrieval *p)
{
	fft_close(p->along);
	fft_close(p->across);
	mem_free(p->waves[0]);
	mem_free(p->waves[1]);
}

static tomos_status check(const tomos_prep_options *o)
{
	const struct {
		const char *name, *unit;
		double value;
	} needed[] = {{"pixel", " mm", o->pixel}, {"distance", " mm", o->distance},
		{"energy", " keV", o->energy}, {"delta-beta", "", o->delta_beta}};
	for (int i = 0; i < COUNT(needed); i++)
		if (!(needed[i].value > 0 && isfinite(needed[i].value)))
			return fail(TOMOS_BAD_VALUE,
				"phase retrieval: %s is %g%s; pixel, distance, energy and "
				"delta-beta must be above 0",
				needed[i].name, needed[i].value, needed[i].unit);
	return TOMOS_OK;
}

tomos_status phase_strength(const tomos_prep_options *o, double *strength)
{
	TRY(check(o));
	double mu = o->delta_beta * WAVELENGTH / o->energy * o->distance / (4 * M_PI);
	*strength = mu / (o->pixel * o->pixel);
	return TOMOS_OK;
}

static tomos_status prepare(Retrieval *p, const tomos_prep_options *o)
{
	const int64_t *n = p->data->shape;
	TRY(phase_strength(o, &p->strength));
	TRY(prep_phase_frame(&p->size, p->strength, n[1], n[2]));
	p->stride = (p->size.columns + FFT_MOST_LANES - 1) / FFT_MOST_LANES * FFT_MOST_LANES;
	return transforms_make(p);
}

tomos_status tomos_prep_phase(
	const tomos_array *data, const tomos_prep_options *options, tomos_prep_report *report)
{
	tomos_prep_options o;
	int method;
	TRY(prep_begin(&o, options, report, data, "the line integrals"));
	TRY(choice_find("phase", prep_values.phase, o.phase, &method));
	if (method == 0)
		return TOMOS_OK;
	Retrieval p = {.data = data, .floor = (float)o.floor};
	tomos_status status;
	TRY_OR_DONE(prepare(&p, &o));
	int64_t floats = 2 * p.size.rows * p.stride + max64(transform_floats(&p), data->shape[2]);
	TRY_OR_DONE(pieces_each((data->shape[0] + 1) / 2, floats, retrieve_pair, &p));
done:
	retrieval_free(&p);
	return status;
}
