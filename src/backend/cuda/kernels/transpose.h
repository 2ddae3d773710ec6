/* Transposing between the callers' order of axes (outside) and the kernels' (inside), in which
 * slices are the fastest axis: index and weight computed once serve all slices. */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_TRANSPOSE_H
#define TOMOS_BACKEND_CUDA_KERNELS_TRANSPOSE_H

#include <cuda_fp16.h>
#include "backend/cuda/kernels/hat.h"

/* Slices at a time: scratch stays small compared with the arrays themselves. */
enum { SLICES_AT_ONCE = 128 };

/* outside: element (i, j, k) at i si + j sj + k sk, i the slice; inside: [k][j][slice]. */
typedef struct {
	float *outside;
	float *inside;
	int64_t slices, pitch, nj, nk; /* pitch: slices with zeros added */
	int64_t si, sj, sk;
	const unsigned *largest; /* transpose_out: what halves were scaled by; NULL: nothing */
	const HatView *weights;  /* transpose_in: of each k; NULL: none */
	int64_t margin;          /* transpose_in: zeros inside, so many before and after all j */
} Transposed;

/* The same as halves, in words of eight slices, times a power of two that brings the largest value
 * to 2^13, far from both ends of their range. Two parts add up to nearly a float. */
enum { CHUNK = 8 };

typedef struct {
	uint4 *data;          /* see HalfRows; HalfSquares has places of its own */
	int parts;            /* 1: rounded; 2: also what the rounding took away */
	const HatView *views; /* k is a view, whose weight goes into the data; NULL: it is not */
	unsigned *largest;    /* on the GPU: the largest value, as the bits of a float */
} Halves;

/* That power of two; 1 where the largest value is none to scale by: infinite, or not a number. */
static __device__ __forceinline__ int scale_exponent(unsigned largest)
{
	enum { SCALED = 13, INFINITE = 255 };
	int exponent = (int)(largest >> 23);
	return exponent == INFINITE ? 0 : min(SCALED + 127 - exponent, 126);
}

static __device__ __forceinline__ float power_of_two(int exponent)
{
	return __uint_as_float((unsigned)(exponent + 127) << 23);
}

/* Where words go: [part][k][j][chunk]. */
typedef struct {
	int64_t nj, nk, chunks;
} HalfRows;

/* Or squares of the plane, each with all slices of a group: [group][square k][square j][part][eight
 * pixels] [chunk][pixel], a square has SQUARE_SIDE^2 pixels, of which those next to each other
 * along j follow each other, or in another array those along k. Beyond the plane and the slices
 * there are zeros. Of 16 slices, two words have two of each four in turn, so that a thread which
 * holds two of each as a product's sums has four in a row. */
enum { SQUARE_SIDE = 4, SQUARE_PIXELS = SQUARE_SIDE * SQUARE_SIDE };

typedef struct {
	int64_t nj, nk, groups, chunks; /* squares; chunks of a group */
	uint4 *along_j, *along_k;       /* NULL: not wanted */
} HalfSquares;

/* The slices of the box that have a detector row. */
void slices_range(const ProjectRequest *what, const HatSlices *l, int64_t *low, int64_t *high);
/* Volume and projections of some of them; inside is left NULL, the pitch a multiple of `unit`. */
Transposed transposed_volume(const ProjectRequest *what, const HatSlices *l, int64_t slice,
	int64_t slices, int64_t unit);
Transposed transposed_views(const ProjectRequest *what, const HatSlices *l, int64_t slice,
	int64_t slices, int64_t unit);

/* A whole volume [z][y][x] to [z][x][y]. */
Transposed transposed_planes(float *volume, float *turned, int64_t nx, int64_t ny, int64_t nz);
/* What a kernel keeps of the slices it does at a time: their volume and projections, each so many
 * times. It does best with whole units of them. */
typedef struct {
	int unit, volumes, views;
	int64_t margin; /* columns more on each side */
} SlicesScratch;

/* Slices at a time: SLICES_AT_ONCE, or as many as may be kept. */
int64_t slices_at_once(const tomos_backend *backend, const ProjectRequest *what, const HatSlices *l,
	SlicesScratch keeps);

tomos_status transpose_in(tomos_backend *backend, const Transposed *t);
/* The largest value outside, times the weights, into memory of the GPU. */
tomos_status largest_value(
	tomos_backend *backend, const Transposed *t, const HatView *weights, unsigned *largest);
tomos_status transpose_in_rows(
	tomos_backend *backend, const Transposed *t, const Halves *halves, HalfRows to);
tomos_status transpose_in_squares(
	tomos_backend *backend, const Transposed *t, const Halves *halves, HalfSquares to);
/* The other way, with the epilogue of the request. */
tomos_status transpose_out(
	tomos_backend *backend, const Transposed *t, const CudaEpilogue *epilogue);
/* Of kernels whose result goes out this way. */
CudaFusion transpose_fuses(const tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const FusedUpdate *step);
bool transpose_overwrites(const ProjectRequest *what, const CudaNotes *notes);
/* Whether every slice of the box has a detector row. */
bool slices_have_rows(const ProjectRequest *what, const HatSlices *l);

/* A whole request, some slices at a time: run_part(backend, what, &slices, views, first, count,
 * epilogue). */
template <class Part>
static inline tomos_status slices_each(tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const CudaEpilogue *epilogue, SlicesScratch keeps, Part run_part)
{
	const HatSlices l = *notes_of<HatSlices>(notes);
	const HatView *views;
	int64_t low, high, most = slices_at_once(backend, what, &l, keeps);
	TRY(hat_views(backend, what, &l, &views));
	slices_range(what, &l, &low, &high);
	for (int64_t at = low; at < high; at += most)
		TRY(run_part(backend, what, &l, views, at, min64(most, high - at), epilogue));
	return TOMOS_OK;
}

#endif
