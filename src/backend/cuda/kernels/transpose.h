/* Transposing between the callers' order of axes (outside) and the order of the kernels
 * (inside), in which slices are the fastest axis, so that one index and weight serves all
 * slices. */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_TRANSPOSE_H
#define TOMOS_BACKEND_CUDA_KERNELS_TRANSPOSE_H

#include <cuda_fp16.h>
#include "backend/cuda/kernels/hat.h"

/* Slices per pass: keeps scratch memory small compared with the arrays. */
enum { SLICES_AT_ONCE = 128 };

/* An array in both orders. outside: element (i, j, k) is at i si + j sj + k sk, where i is the
 * slice; inside: [k][j][slice]. */
typedef struct {
	float *outside;
	float *inside;
	int64_t slices, pitch, nj, nk; /* pitch: slices inside, padded with zeros */
	int64_t si, sj, sk;
	const unsigned *largest; /* transpose_out: value that set the scale of halves; NULL: no
	                          * scale */
	const HatView *weights;  /* transpose_in: weight of each k; NULL: none */
	int64_t margin;          /* transpose_in: zeros added before and after all j */
} Transposed;

/* The same with values as halves, in words of eight slices (a chunk). Values are multiplied by a
 * power of two that brings the largest one to 2^13, far from both ends of the range of halves. With
 * two parts, a value is the sum of two halves: nearly the accuracy of float. */
enum { CHUNK = 8 };

typedef struct {
	uint4 *data;          /* layout HalfRows; unused for HalfSquares */
	int parts;            /* 1: rounded; 2: also the rounding errors */
	const HatView *views; /* k is a view, whose weight multiplies the data; NULL: no weights */
	const float *rays;    /* a factor of each [k][j]; NULL: none */
	unsigned *largest;    /* in device memory: largest value, as the bits of a float */
} Halves;

/* The exponent of that power of two; 0 where the largest value is infinite or NaN. */
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

/* Layout of words: [part][k][j][chunk]. */
typedef struct {
	int64_t nj, nk, chunks;
} HalfRows;

/* Layout by squares of SQUARE_SIDE^2 pixels, each with all slices of a group: [group][square
 * k][square j][part][eight pixels][chunk][pixel]. along_j: pixels that are neighbours along j are
 * contiguous; along_k: those along k. Pixels and slices outside are zero. In each 16 slices, two
 * words alternate by pairs of slices, so that a thread that gets two sums of each word from a
 * tensor core product has four consecutive slices. */
enum { SQUARE_SIDE = 4, SQUARE_PIXELS = SQUARE_SIDE * SQUARE_SIDE };

typedef struct {
	int64_t nj, nk, groups, chunks; /* squares along j and k; groups of slices; chunks per
	                                 * group */
	uint4 *along_j, *along_k;       /* NULL: not wanted */
} HalfSquares;

/* Range of the slices of the box that have a detector row. */
void slices_range(const ProjectRequest *what, const HatSlices *l, int64_t *low, int64_t *high);
/* The volume and the projections of some of these slices. `inside` is NULL; the pitch is a
 * multiple of `unit`. */
Transposed transposed_volume(const ProjectRequest *what, const HatSlices *l, int64_t slice,
	int64_t slices, int64_t unit);
Transposed transposed_views(const ProjectRequest *what, const HatSlices *l, int64_t slice,
	int64_t slices, int64_t unit);

/* Transposition of a whole volume from [z][y][x] to [z][x][y]. */
Transposed transposed_planes(float *volume, float *transposed, int64_t nx, int64_t ny, int64_t nz);
/* Scratch memory that a kernel needs per slice: copies of the volume's and of the projections'
 * slice. unit: preferred multiple of slices per pass. */
typedef struct {
	int unit, volumes, views;
	int64_t margin; /* zero columns on each side of a row */
} SlicesScratch;

/* Slices per pass: SLICES_AT_ONCE, or as many as fit into scratch memory. */
int64_t slices_at_once(const tomos_backend *backend, const ProjectRequest *what, const HatSlices *l,
	SlicesScratch keeps);

tomos_status transpose_in(tomos_backend *backend, const Transposed *t);
/* Largest absolute value of `outside`, times the weights; written to device memory. */
tomos_status largest_value(
	tomos_backend *backend, const Transposed *t, const HatView *weights, unsigned *largest);
tomos_status transpose_in_rows(
	tomos_backend *backend, const Transposed *t, const Halves *halves, HalfRows to);
tomos_status transpose_in_squares(
	tomos_backend *backend, const Transposed *t, const Halves *halves, HalfSquares to);
/* From inside to outside, with the epilogue of the request. */
tomos_status transpose_out(
	tomos_backend *backend, const Transposed *t, const CudaEpilogue *epilogue);
/* CudaKernel.fuses and .overwrites of kernels whose result goes through transpose_out. */
CudaFusion transpose_fuses(const tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const FusedUpdate *step);
bool transpose_overwrites(const ProjectRequest *what, const CudaNotes *notes);
/* Whether every slice of the box has a detector row. */
bool slices_have_rows(const ProjectRequest *what, const HatSlices *l);

/* Processes a request in passes of some slices: calls run_part(backend, what, &slices, views,
 * first slice, number of slices, epilogue). */
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

/* sum += scale value, for four slices or views. */
static __device__ __forceinline__ void add_scaled(float4 &sum, float scale, const float4 &value)
{
	sum.x = fmaf(scale, value.x, sum.x);
	sum.y = fmaf(scale, value.y, sum.y);
	sum.z = fmaf(scale, value.z, sum.z);
	sum.w = fmaf(scale, value.w, sum.w);
}

#endif
