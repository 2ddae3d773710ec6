/* The Fourier projector and its normal operator on an OpenCL device; see fourier.cl. */
#ifndef TOMOS_BACKEND_OPENCL_FOURIER_H
#define TOMOS_BACKEND_OPENCL_FOURIER_H

#include "backend/device/fourier.h"
#include "backend/opencl/fft.h"
#include "backend/opencl/fourier_args.h"

struct Fourier {
	FourierBatch batch; /* the first and largest one */
	PointLines lines;
	PointLists lists; /* numbers only */
	OpenclFft along[2], rows;
	float *views, *segments, *chunks, *tiles; /* of `lines`, and of the adjoint's lists */
	float *polynomials;
	float *scale;   /* of voxels along x, then along y; NULL: 1 */
	float *data[2]; /* planes or values of a batch: input and output of a step */
	float *parts;
	/* Of the normal operator, instead of points: by which transforms are multiplied. */
	float *spectrum;
};

/* A batch of slices in the course of its steps. */
typedef struct {
	const Fourier *f;
	FourierBatch batch;
	OpenclPlace data[2];
	int at; /* which of `data` has the numbers */
} FourierWork;

/* The two arrays, for as many pairs of slices as memory allows. Floats of a pair: in each of them,
 * and besides them. */
tomos_status fourier_arrays(
	tomos_backend *b, Fourier *f, const FourierSpec *spec, int64_t floats, int64_t more);
/* The batch that begins with a slice. */
tomos_status fourier_work(tomos_backend *b, const Fourier *f, int64_t slice, FourierWork *work);
/* Slices to their transform, and back. */
tomos_status fourier_transform(tomos_backend *b, FourierWork *work, const float *volume);
tomos_status fourier_inverse(tomos_backend *b, FourierWork *work, float *volume);
/* Values of points to the plane. */
tomos_status fourier_spread(tomos_backend *b, FourierWork *work);

tomos_status opencl_fourier_open(tomos_backend *b, Fourier **fourier, const FourierSpec *spec);
void opencl_fourier_close(tomos_backend *b, Fourier *f);
tomos_status opencl_normal_open(tomos_backend *b, Fourier **fourier, const FourierSpec *spec);
tomos_status opencl_normal_apply(tomos_backend *b, Fourier *f, const float *volume, float *result);

#endif
