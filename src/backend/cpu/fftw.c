/* Transforms by FFTW in place of our own, for builds with TOMOS_FFT=fftw.
 *
 * Plans are estimated, not measured: measured plans differ from run to run, and with them the last
 * bits of a volume.
 */
#include <fftw3.h>
#include <pthread.h>
#include "backend/cpu/cpu.h"

static pthread_mutex_t planning = PTHREAD_MUTEX_INITIALIZER; /* the planner is not thread-safe */

static void forward(const FftPasses *f, float *data)
{
	float *im = data + f->lanes;
	fftwf_execute_split_dft(f->plans[0], data, im, data, im);
}

/* Exchanging real and imaginary parts, before and after, conjugates the transform. */
static void inverse(const FftPasses *f, float *data)
{
	float *im = data + f->lanes;
	fftwf_execute_split_dft(f->plans[1], im, data, im, data);
}

/* A plan is for one distance between real and imaginary parts. */
static fftwf_plan plan_for(int64_t length, int lanes, float *re, float *im)
{
	fftwf_iodim64 samples = {length, 2 * lanes, 2 * lanes}, many = {lanes, 1, 1};
	return fftwf_plan_guru64_split_dft(1, &samples, 1, &many, re, im, re, im, FFTW_ESTIMATE);
}

tomos_status fftw_use(FftKernels *kernels, FftPasses *f, int lanes)
{
	float *data; /* only for its alignment: FFTW_ESTIMATE does not write to it */
	TRY(mem_alloc(&data, 2 * lanes * f->length, sizeof *data, "a transform"));
	pthread_mutex_lock(&planning);
	f->plans[0] = plan_for(f->length, lanes, data, data + lanes);
	f->plans[1] = plan_for(f->length, lanes, data + lanes, data);
	pthread_mutex_unlock(&planning);
	mem_free(data);
	f->lanes = lanes;
	kernels->forward = forward;
	kernels->inverse = inverse;
	return f->plans[0] && f->plans[1]
		       ? TOMOS_OK
		       : fail(TOMOS_NO_MEMORY, "no plan for transforms of length %lld",
				 (long long)f->length);
}

void fftw_forget(FftPasses *f)
{
	pthread_mutex_lock(&planning);
	for (int i = 0; i < 2; i++)
		if (f->plans[i])
			fftwf_destroy_plan(f->plans[i]);
	pthread_mutex_unlock(&planning);
}
