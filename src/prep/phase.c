/* Phase retrieval of a homogeneous object from one propagation distance.
 *
 * D. Paganin, S. C. Mayo, T. E. Gureyev, P. R. Miller, S. W. Wilkins, Simultaneous phase and
 * amplitude extraction from a single defocused image of a homogeneous object, J. Microscopy 206
 * (2002) 33-40: exp(-mu T) = F^-1 { F{I / I0} / (1 + z (delta / mu) k^2) }, mu = 4 pi beta /
 * wavelength. Input (-log of the transmission) and output (mu T) are line integrals, so that the
 * step is optional. The kernel decays within sqrt(z delta / mu); frames are padded with their edge
 * values by 12 times that.
 */
#include <fftw3.h>
#include <string.h>
#include "backend/prepare.h"
#include "base/fft.h"
#include "prep/prep.h"

OPTION_VALUES(prep_values, TOMOS_PREP_OPTIONS);

#define WAVELENGTH 1.2398419843320026e-6 /* mm of 1 keV: h c */

typedef struct {
	const tomos_array *data;
	PrepFrame size;
	int64_t stride;  /* floats of a padded row, transformed in place */
	double strength; /* z delta / mu, in pixels squared */
	float floor;
	fftwf_plan forth, back;
} Retrieval;

/* The frame as transmissions, padded with its edge values. */
static void pad(const Retrieval *p, int64_t view, float *frame)
{
	const tomos_array *a = p->data;
	float *line = frame + p->size.rows * p->stride;
	for (int64_t r = 0; r < p->size.rows; r++) {
		int64_t row = min64(max64(r - p->size.before[0], 0), a->shape[1] - 1);
		row_get(a, view, row, line);
		for (int64_t c = 0; c < p->size.columns; c++)
			frame[r * p->stride + c] = expf(
				-line[min64(max64(c - p->size.before[1], 0), a->shape[2] - 1)]);
	}
}

static double wave(int64_t k, int64_t count)
{
	return 2 * M_PI * (double)min64(k, count - k) / (double)count;
}

static void damp(const Retrieval *p, float *frame)
{
	double share = 1 / ((double)p->size.rows * (double)p->size.columns);
	for (int64_t r = 0; r < p->size.rows; r++) {
		double y = wave(r, p->size.rows);
		for (int64_t c = 0; c < p->stride / 2; c++) {
			double x = wave(c, p->size.columns);
			float h = (float)(share / (1 + p->strength * (x * x + y * y)));
			frame[r * p->stride + 2 * c] *= h;
			frame[r * p->stride + 2 * c + 1] *= h;
		}
	}
}

static void retrieve_view(const void *user, int64_t view, float *frame)
{
	const Retrieval *p = user;
	const tomos_array *a = p->data;
	pad(p, view, frame);
	fftwf_execute_dft_r2c(p->forth, frame, (fftwf_complex *)frame);
	damp(p, frame);
	fftwf_execute_dft_c2r(p->back, (fftwf_complex *)frame, frame);
	for (int64_t r = 0; r < a->shape[1]; r++) {
		float *row = frame + (r + p->size.before[0]) * p->stride + p->size.before[1];
		for (int64_t c = 0; c < a->shape[2]; c++)
			row[c] = -logf(fmaxf(row[c], p->floor));
		row_put(a, view, r, row);
	}
}

static tomos_status plans_make(Retrieval *p)
{
	int n[2] = {(int)p->size.rows, (int)p->size.columns};
	float *frame; /* only for its alignment: FFTW_ESTIMATE does not write to it */
	TRY(mem_alloc(&frame, p->size.rows * p->stride, sizeof *frame, "a view to transform"));
	fft_lock();
	p->forth = fftwf_plan_dft_r2c_2d(n[0], n[1], frame, (fftwf_complex *)frame, FFTW_ESTIMATE);
	p->back = fftwf_plan_dft_c2r_2d(n[0], n[1], (fftwf_complex *)frame, frame, FFTW_ESTIMATE);
	fft_unlock();
	mem_free(frame);
	if (p->forth && p->back)
		return TOMOS_OK;
	return fail(TOMOS_NO_MEMORY, "no plan for transforms of %d x %d", n[0], n[1]);
}

static void plans_free(Retrieval *p)
{
	fft_lock();
	if (p->forth)
		fftwf_destroy_plan(p->forth);
	if (p->back)
		fftwf_destroy_plan(p->back);
	fft_unlock();
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
	p->stride = 2 * (p->size.columns / 2 + 1);
	return plans_make(p);
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
	TRY_OR_DONE(pieces_each(
		data->shape[0], p.size.rows * p.stride + data->shape[2], retrieve_view, &p));
done:
	plans_free(&p);
	return status;
}
