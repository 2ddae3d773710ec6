/* Transforms by FFTW in place of our own, for builds with TOMOS_FFT=fftw.
 *
 * Plans are estimated, not measured: measured plans differ from run to run, and with them the last
 * bits of a volume.
 */
#include <fftw3.h>
#include <pthread.h>
#include "backend/cpu/cpu.h"

static pthread_mutex_t planning = PTHREAD_MUTEX_INITIALIZER; /* the planner is not thread-safe */

static void run(const FftPasses *f, float *re, float *im)
{
	fftwf_execute_split_dft(f->plan, re, im, re, im);
}

static void forward(const FftPasses *f, float *data)
{
	run(f, data, data + f->lanes);
}

/* Exchanging real and imaginary parts, before and after, conjugates the transform. */
static void inverse(const FftPasses *f, float *data)
{
	run(f, data + f->lanes, data);
}

tomos_status fftw_use(FftKernels *kernels, FftPasses *f, int lanes)
{
	fftwf_iodim64 length = {f->length, 2 * lanes, 2 * lanes}, many = {lanes, 1, 1};
	float *data; /* only for its alignment: FFTW_ESTIMATE does not write to it */
	TRY(mem_alloc(&data, 2 * lanes * f->length, sizeof *data, "a transform"));
	pthread_mutex_lock(&planning);
	f->plan = fftwf_plan_guru64_split_dft(
		1, &length, 1, &many, data, data + lanes, data, data + lanes, FFTW_ESTIMATE);
	pthread_mutex_unlock(&planning);
	mem_free(data);
	f->lanes = lanes;
	kernels->forward = forward;
	kernels->inverse = inverse;
	return f->plan ? TOMOS_OK
		       : fail(TOMOS_NO_MEMORY, "no plan for transforms of length %lld",
				 (long long)f->length);
}

void fftw_forget(FftPasses *f)
{
	pthread_mutex_lock(&planning);
	if (f->plan)
		fftwf_destroy_plan(f->plan);
	pthread_mutex_unlock(&planning);
}
