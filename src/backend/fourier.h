/* Projector of parallel rays in slices by Fourier transforms: the central slice theorem with a
 * non-uniform transform.
 *
 * Voxel (x, y) of a slice projects to column s = column[0] x + column[1] y + column[2] of a view.
 * Pixel c of the view is the sum over voxels of K(c - s) times the voxel, where K is the response
 * of a voxel on the detector without frequencies above half a cycle per column:
 *
 *   K(t) = weight / period * sum of response(m / period) cos(2 pi m t / period), |m| < period / 2,
 *
 * and back projection has the same weights. The period is chosen such that nothing wraps around.
 *
 * The sum over all columns c of a period of K(c - s) K(c - s') is a function of s - s',
 *
 *   weight^2 / period * sum of response(m / period)^2 cos(2 pi m (s - s') / period),
 *
 * so that A'A is a convolution if no voxel projects onto columns beyond the detector. A response
 * that ended abruptly at half a cycle would have tails that fall with 1 / t, and each voxel would
 * project onto all columns: line integrals are therefore tapered from 0.4 cycles on.
 */
#ifndef TOMOS_BACKEND_FOURIER_H
#define TOMOS_BACKEND_FOURIER_H

#include "base/base.h"

/* Shape of a voxel on the detector. RESPONSE_LINE: line integrals through the voxel, a rectangle.
 * RESPONSE_LINEAR: linear interpolation between columns, as voxel-driven back projection has it. */
typedef enum { RESPONSE_LINE, RESPONSE_LINEAR } FourierResponse;

/* One view: slice z is at detector row `row` + `step` z. Rows that are nearer to it than `reach`
 * have the weight 1 - distance / reach, which is a single row if rows are whole numbers and the
 * reach is 1. */
typedef struct {
	double column[3], weight;
	double row, step, reach;
} FourierView;

typedef struct {
	int64_t n[3];          /* voxels along x, y and z */
	int64_t rows, columns; /* of a view */
	int64_t count;
	const FourierView *views; /* copied by `open` */
	FourierResponse response;
	double accuracy; /* of the weights, relative to the largest */
	int aliases;     /* RESPONSE_LINEAR, adjoint, CPU: bands on either side of the detector's
	                    own in which the spectrum of a row is repeated */
	int64_t period;  /* 0: that of fourier_period */
	int64_t memory;  /* bytes that it may take on a device; 0: what is free, or the limit of
	                    the backend */
} FourierSpec;

typedef struct Fourier Fourier;

/* Allocates a projector of `bytes`, zeroed, which `fill` completes; a failure closes it. */
typedef tomos_status FourierFill(tomos_backend *backend, Fourier *fourier, const FourierSpec *spec);
tomos_status fourier_make(tomos_backend *backend, Fourier **fourier, size_t bytes,
	const FourierSpec *spec, FourierFill *fill,
	void (*close)(tomos_backend *backend, Fourier *fourier));

/* Columns on either side of a voxel beyond which K is below 3e-4 of its maximum. */
#define FOURIER_REACH 24

/* Whether every slice has a row of its own in all views. */
bool fourier_own_rows(const FourierSpec *spec);

/* The factor of the response at a frequency in cycles per column, 0 to 0.5. */
double fourier_taper(FourierResponse response, double cycles);

/* The columns between which a view sees the centres of the voxels of a slice. */
void fourier_span(const FourierView *view, const int64_t n[3], double *low, double *high);

/* The least period for which no voxel wraps around onto the detector. */
int64_t fourier_period(const FourierSpec *spec);

/* A slice of all distances of two voxels, onto which the kernel of A'A is back projected. */
FourierSpec fourier_twice(const FourierSpec *spec);

/* Cells of the frequency plane per voxel. With few of them the window is wide and its transform
 * small at the edge of a slice, where rounding errors grow accordingly. */
double fourier_oversampling(double accuracy);
/* Upper bound on the memory of the projector. */
double fourier_bytes(const tomos_geometry *scan, const tomos_grid *grid, double accuracy);
/* What its normal operator needs besides. */
double fourier_normal_bytes(const tomos_geometry *scan, const tomos_grid *grid, double accuracy);

/* What aliases need besides. */
double fourier_alias_bytes(const tomos_geometry *scan, const tomos_grid *grid, int aliases);

/* By how many times back projection by transforms is faster than directly, from a model. */
double fourier_gain(const tomos_backend *backend, const tomos_grid *grid,
	const tomos_geometry *scan, int aliases);

#define FOURIER_FINEST 1e-6
#define FOURIER_COARSEST 1e-2

#endif
