/* The normal operator A'A of the Fourier projector on the CPU, as a convolution.
 *
 * If the projections of no voxel extend beyond the detector, two voxels share weights by their
 * distance alone (backend/fourier.h). The kernel of that convolution is a sum over the points of
 * all views, as back projection is one, with the squares of the responses as their values. Slices
 * are padded to twice their size, so that the convolution is not cyclic.
 */
#include "backend/cpu/cpu.h"
#include "backend/cpu/fourier.h"
#include "base/fft.h"

/* All that transforms of slices of n voxels need, with `size` cells, rows of which `rows` are
 * stored. */
static tomos_status plain_slices(
	Fourier *f, const int64_t n[3], const int64_t size[2], int64_t rows)
{
	f->pairs = n[2] > 2 ? SPREAD_LANES : 1;
	for (int a = 0; a < 3; a++)
		f->spec.n[a] = n[a];
	for (int a = 0; a < 2; a++) {
		FourierAxis *axis = &f->axis[a];
		TRY(axis_make(axis, n[a], size[a]));
		TRY(mem_alloc(&axis->scale, n[a], sizeof *axis->scale, "scales"));
		for (int64_t i = 0; i < n[a]; i++)
			axis->scale[i] = 1;
	}
	return fourier_memory(f, rows, size[0]);
}

/* The kernel for all distances of two voxels of a slice. */
static tomos_status make_kernel(tomos_backend *backend, const FourierSpec *spec, float *kernel)
{
	Fourier *f;
	TRY(cpu_fourier_open(backend, &f, spec));
	Batch b = {.f = f, .volume = kernel, .direction = ADJOINT};
	fourier_squares(f);
	fourier_tiles(&b);
	fourier_slices(&b);
	cpu_fourier_close(backend, f);
	return TOMOS_OK;
}

/* From the transformed kernel, which is real as the kernel is even. */
static void fill_spectrum(Fourier *f, const Fourier *plane)
{
	const Fft *fft = f->axis[1].fft;
	const int64_t wide = f->axis[0].size, high = f->axis[1].size, group = group_of(f, fft);
	const float unit = 1 / ((float)wide * (float)high);
	for (int64_t y = 0; y < high; y++)
		for (int64_t x = 0; x < wide; x++)
			f->spectrum[(x / group * high + fft_position(fft, y)) * group + x % group] =
				unit * cell_at(plane, y, x)[0];
}

/* The kernel in two steps: its values, and their transform in `plane`. */
static tomos_status make_spectrum(tomos_backend *backend, Fourier *f, const FourierSpec *spec)
{
	const FourierSpec twice = fourier_twice(spec);
	const int64_t size[2] = {f->axis[0].size, f->axis[1].size};
	int64_t group = group_of(f, f->axis[1].fft), wide = parts(size[0], group) * group;
	Fourier plane = {.pairs = 1};
	float *kernel = NULL;
	tomos_status status;
	TRY(mem_zeroed(&f->spectrum, wide * size[1], sizeof(float), "the spectrum of A'A"));
	TRY_OR_DONE(mem_alloc(&kernel, twice.n[0] * twice.n[1], sizeof *kernel, "A'A"));
	TRY_OR_DONE(make_kernel(backend, &twice, kernel));
	TRY_OR_DONE(plain_slices(&plane, twice.n, size, size[1]));
	fourier_slices(&(Batch){.f = &plane, .volume = kernel, .direction = FORWARD});
	fill_spectrum(f, &plane);
done:
	mem_free(kernel);
	fourier_release(&plane);
	return status;
}

static tomos_status normal_fill(tomos_backend *backend, Fourier *f, const FourierSpec *spec)
{
	const int64_t size[2] = {fft_length(2 * spec->n[0] - 1), fft_length(2 * spec->n[1] - 1)};
	TRY(plain_slices(f, spec->n, size, spec->n[1]));
	return make_spectrum(backend, f, spec);
}

tomos_status cpu_normal_open(tomos_backend *backend, Fourier **fourier, const FourierSpec *spec)
{
	return fourier_make(
		backend, fourier, sizeof **fourier, spec, normal_fill, cpu_fourier_close);
}

tomos_status cpu_normal_apply(
	tomos_backend *backend, Fourier *f, const float *volume, float *result)
{
	(void)backend;
	for (int64_t z = 0; z < f->spec.n[2] && !cancel_seen(); z += 2 * f->pairs) {
		Batch b = {.f = f, .slice = z, .volume = (float *)(uintptr_t)volume};
		fourier_convolve(&b, result);
	}
	return TOMOS_OK;
}
