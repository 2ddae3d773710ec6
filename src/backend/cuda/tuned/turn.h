/* The order of axes: outside, volume and projections as callers have them; inside, slices are the fastest
 * axis, so that index and weight found once serve all of them. */
#ifndef CUDA_TURN_H
#define CUDA_TURN_H

#include <cuda_fp16.h>
#include "backend/cuda/tuned/hat.h"

/* Slices at a time: what the scratch holds stays small beside the arrays themselves. */
enum { TURN_SLICES = 128 };

/* outside: element (i, j, k) at i si + j sj + k sk, i the slice; inside: [k][j][slice]. */
typedef struct {
	float *outside;
	float *inside;
	int64_t slices, pitch, nj, nk; /* pitch: slices with zeros added */
	int64_t si, sj, sk;
	const unsigned *largest; /* turn_out: what turn_in_halves scaled by; NULL: nothing */
	const HatView *weights;  /* turn_in: of each k; NULL: none */
	int64_t margin;          /* turn_in: zeros inside, so many before and after all j */
} Turning;

/* Rows as halves, times the weight of their view and a power of two that brings the largest value to
 * 2^13, far from both ends of their range. Two parts add up to nearly a float. */
typedef struct {
	__half *data; /* [part][k][j][slice] */
	int parts;    /* 1: rounded; 2: also what the rounding took away */
	const HatView *views;
	unsigned *largest; /* on the card: the largest value, as the bits of a float */
} TurnHalves;

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

/* The slices of the box that have a detector row. */
void turn_range(const Projecting *what, const HatSlices *l, int64_t *low, int64_t *high);
/* Volume and projections of some of them; inside is left NULL, the pitch a multiple of `unit`. */
Turning turn_volume(
	const Projecting *what, const HatSlices *l, int64_t slice, int64_t slices, int64_t unit);
Turning turn_views(
	const Projecting *what, const HatSlices *l, int64_t slice, int64_t slices, int64_t unit);

/* A whole volume [z][y][x] to [z][x][y]. */
Turning turn_planes(float *volume, float *turned, int64_t nx, int64_t ny, int64_t nz);

tomos_status turn_in(tomos_backend *backend, const Turning *t);
/* The largest value outside, times the weights, into memory of the card. */
tomos_status turn_largest(
	tomos_backend *backend, const Turning *t, const HatView *weights, unsigned *largest);
tomos_status turn_in_halves(tomos_backend *backend, const Turning *t, const TurnHalves *halves);
/* The other way, added to what is there. */
tomos_status turn_out(tomos_backend *backend, const Turning *t);

#endif
