/* Fourier transforms of many complex rows at once, pass by pass (kernel/fft.h). */
#include "backend/opencl/fft.h"
#include <math.h>

static void find_passes(OpenclFft *fft)
{
	static const int radices[] = {4, 2, 3, 5, 7};
	int64_t rest = fft->length;
	for (int i = 0; i < COUNT(radices); i++)
		for (; rest % radices[i] == 0; rest /= radices[i])
			fft->radix[fft->passes++] = radices[i];
}

tomos_status opencl_fft_open(tomos_backend *b, OpenclFft *fft, int64_t length)
{
	float *twiddles;
	tomos_status status;
	*fft = (OpenclFft){.length = length};
	find_passes(fft);
	TRY(mem_alloc(&twiddles, 2 * length, sizeof *twiddles, "the factors of a transform"));
	for (int64_t i = 0; i < length; i++) {
		double angle = -2 * M_PI * (double)i / (double)length;
		twiddles[2 * i] = (float)cos(angle);
		twiddles[2 * i + 1] = (float)sin(angle);
	}
	TRY_OR_DONE(b->type->memory->alloc(b, &fft->twiddles, 2 * length, "a transform"));
	status = opencl_send(b, fft->twiddles, twiddles, (size_t)(2 * length) * sizeof *twiddles);
done:
	mem_free(twiddles);
	return status;
}

void opencl_fft_close(tomos_backend *b, OpenclFft *fft)
{
	opencl_release(b, fft->twiddles);
	*fft = (OpenclFft){.length = 0};
}

tomos_status opencl_fft_run(tomos_backend *b, const OpenclFft *fft, int64_t rows, OpenclPlace scale,
	const OpenclPlace data[2], int *at)
{
	OpenclPlace twiddles;
	int64_t span = 1;
	TRY(opencl_place(b, fft->twiddles, &twiddles));
	for (int i = 0; i < fft->passes; i++, *at = 1 - *at) {
		cl_int radix = fft->radix[i];
		const OpenclArg args[] = {ARG(fft->length), ARG(span), ARG(radix), ARG(rows),
			ARG_PLACE(twiddles), ARG_PLACE(scale), ARG_PLACE(data[*at]),
			ARG_PLACE(data[1 - *at])};
		const int64_t n[3] = {fft->length / radix, rows, 1};
		TRY(opencl_planes(b, TASK_filter_transform_rows, n, args, COUNT(args)));
		span *= radix;
		scale = (OpenclPlace){NULL, 0};
	}
	return TOMOS_OK;
}
