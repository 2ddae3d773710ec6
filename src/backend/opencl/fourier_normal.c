/* The normal operator A'A of the Fourier projector on an OpenCL device, as a convolution (see
 * cpu/fourier_normal.c): slices are padded to twice their size. */
#include "backend/opencl/fourier.h"
#include "base/fft.h"

/* Transforms of slices of n voxels in planes of `size` cells. */
static tomos_status make_transforms(
	tomos_backend *b, Fourier *f, const FourierSpec *spec, const int64_t size[2])
{
	f->batch = (FourierBatch){.n = {spec->n[0], spec->n[1], spec->n[2]}};
	for (int a = 0; a < 2; a++) {
		f->batch.size[a] = size[a];
		TRY(opencl_fft_open(b, &f->along[a], size[a]));
	}
	return fourier_arrays(b, f, spec, 2 * size[0] * size[1], 0);
}

/* The kernel for all distances of two voxels of a slice, in device memory. */
static tomos_status make_kernel(tomos_backend *b, const FourierSpec *spec, float *kernel)
{
	Fourier *f;
	FourierWork work;
	TRY(opencl_fourier_open(b, &f, spec));
	f->batch.squares = 1;
	tomos_status status = fourier_work(b, f, 0, &work);
	if (status == TOMOS_OK)
		status = fourier_spread(b, &work);
	if (status == TOMOS_OK)
		status = fourier_inverse(b, &work, kernel);
	opencl_fourier_close(b, f);
	return status;
}

static tomos_status take_spectrum(tomos_backend *b, const FourierWork *work, float *spectrum)
{
	const FourierBatch *of = &work->batch;
	OpenclPlace to;
	TRY(opencl_place(b, spectrum, &to));
	const OpenclArg args[] = {ARG(*of), ARG_PLACE(work->data[work->at]), ARG_PLACE(to)};
	const int64_t n[3] = {of->size[1], of->size[0], 1};
	return opencl_planes(b, TASK_fourier_take_spectrum, n, args, COUNT(args));
}

/* The kernel in two steps: its values, and their transform in `plane`. */
static tomos_status make_spectrum(
	tomos_backend *b, const FourierSpec *spec, const int64_t size[2], float *spectrum)
{
	const FourierSpec twice = fourier_twice(spec);
	Fourier *plane = NULL;
	FourierWork work;
	float *kernel = NULL;
	tomos_status status;
	TRY_OR_DONE(b->type->memory->alloc(b, &kernel, twice.n[0] * twice.n[1], "A'A"));
	TRY_OR_DONE(make_kernel(b, &twice, kernel));
	TRY_OR_DONE(mem_zeroed(&plane, 1, sizeof *plane, "A'A"));
	TRY_OR_DONE(make_transforms(b, plane, &twice, size));
	TRY_OR_DONE(fourier_work(b, plane, 0, &work));
	TRY_OR_DONE(fourier_transform(b, &work, kernel));
	TRY_OR_DONE(take_spectrum(b, &work, spectrum));
done:
	opencl_release(b, kernel);
	opencl_fourier_close(b, plane);
	return status;
}

static tomos_status normal_fill(tomos_backend *b, Fourier *f, const FourierSpec *spec)
{
	const int64_t size[2] = {fft_length(2 * spec->n[0] - 1), fft_length(2 * spec->n[1] - 1)};
	TRY(b->type->memory->alloc(b, &f->spectrum, size[0] * size[1], "the spectrum of A'A"));
	TRY(make_spectrum(b, spec, size, f->spectrum));
	return make_transforms(b, f, spec, size);
}

tomos_status opencl_normal_open(tomos_backend *b, Fourier **fourier, const FourierSpec *spec)
{
	return fourier_make(b, fourier, sizeof **fourier, spec, normal_fill, opencl_fourier_close);
}

static tomos_status multiply(tomos_backend *b, const FourierWork *work)
{
	const FourierBatch *of = &work->batch;
	OpenclPlace spectrum;
	TRY(opencl_place(b, work->f->spectrum, &spectrum));
	const OpenclArg args[] = {ARG(*of), ARG_PLACE(spectrum), ARG_PLACE(work->data[work->at])};
	const int64_t n[3] = {of->size[1], of->size[0], of->pairs};
	return opencl_planes(b, TASK_fourier_multiply, n, args, COUNT(args));
}

tomos_status opencl_normal_apply(tomos_backend *b, Fourier *f, const float *volume, float *result)
{
	for (int64_t z = 0; z < f->batch.n[2]; z += 2 * f->batch.pairs) {
		FourierWork work;
		TRY(fourier_work(b, f, z, &work));
		TRY(fourier_transform(b, &work, volume));
		TRY(multiply(b, &work));
		TRY(fourier_inverse(b, &work, result));
	}
	return TOMOS_OK;
}
