/* Plans of transforms within blocks: radices and twiddle factors. */
#include "backend/cuda/fft.h"

/* Radices from large to small, and the threads that each of them needs. */
static void plan_radices(BlockFft *f, int length)
{
	static const int radices[] = {16, 8, 4, 2, 7, 5, 3};
	*f = (BlockFft){.length = length};
	for (int i = 0, rest = length; i < COUNT(radices); i++)
		for (; rest % radices[i] == 0; rest /= radices[i]) {
			const int r = radices[i], each = FFT_EACH / r, butterflies = length / r;
			f->radix[f->passes++] = r;
			f->threads = (int)max64(f->threads, (butterflies + each - 1) / each);
		}
}

static void reverse_passes(BlockFft *f)
{
	for (int i = 0, j = f->passes - 1; i < j; i++, j--) {
		const int radix = f->radix[i];
		f->radix[i] = f->radix[j];
		f->radix[j] = radix;
	}
}

static void fill_twiddles(const BlockFft *f, float2 *to)
{
	for (int pass = 1, span = f->radix[0]; pass < f->passes; span *= f->radix[pass++])
		for (int r = 1; r < f->radix[pass]; r++)
			for (int k = 0; k < span; k++) {
				double angle = -2 * M_PI * r * k / ((double)span * f->radix[pass]);
				*to++ = make_float2((float)cos(angle), (float)sin(angle));
			}
}

tomos_status fft_send(tomos_backend *b, void *device, const void *host, int64_t bytes)
{
	float *data;
	TRY(b->type->memory->alloc(b, &data, bytes / (int64_t)sizeof(float), "a transform"));
	memcpy(device, &data, sizeof data);
	CUDA_TRY(cudaMemcpyAsync(
			 data, host, (size_t)bytes, cudaMemcpyHostToDevice, device_of(b)->stream),
		"sending a transform");
	return TOMOS_OK;
}

/* All passes together have length - radix[0] twiddle factors. */
tomos_status fft_plan(tomos_backend *b, BlockFft *f, int length, bool backwards, float2 **device)
{
	float2 *twiddles;
	plan_radices(f, length);
	if (backwards)
		reverse_passes(f);
	TRY(mem_alloc(&twiddles, length, sizeof *twiddles, "a transform"));
	fill_twiddles(f, twiddles);
	tomos_status status = fft_send(b, device, twiddles, length * (int64_t)sizeof *twiddles);
	mem_free(twiddles);
	f->twiddles = *device;
	return status;
}
