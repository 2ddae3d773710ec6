/* Data of the Fourier projector on the CPU. */
#ifndef TOMOS_BACKEND_CPU_FOURIER_H
#define TOMOS_BACKEND_CPU_FOURIER_H

#include "backend/backend.h"
#include "backend/cpu/level/spread.h"
#include "backend/fft.h"
#include "backend/fourier.h"

/* One axis of the slices and of the frequency plane. */
typedef struct {
	int64_t n, half; /* voxels, and the one at the origin of the transform */
	int64_t size;    /* cells */
	float *scale;    /* of each voxel: one over the transform of the window */
	Fft *fft;
	int tiles;
	int64_t *edge; /* the first cell of each tile, and the end */
	int periods;   /* of the grid that the points extend over: from -periods to periods - 1 */
	PointRange *ranges; /* of a view in a column or row of tiles: [tile][view][period] */
} FourierAxis;

/* Slices are transformed in pairs, as real and imaginary parts; `pairs` of them together are a
 * cell. */
struct Fourier {
	FourierSpec spec;
	FourierView *views; /* with the offsets of the origin */
	FourierAxis axis[2];
	int64_t period, top; /* points of a view, m from -top to top */
	Fft *rows;
	SpreadWindow window;
	const SpreadKernels *kernels;
	int pairs;
	int64_t tile_floats, scratch_floats, share; /* of a thread */
	int workers;
	int64_t pitch;  /* cells from one row of the grid to the next */
	float *grid;    /* [y][x] cells */
	float *values;  /* [view][m + top] cells */
	float *scratch; /* of each thread */
	float *zeros;   /* a row of the detector */
	float *taper;   /* of the response, for m from 0 to top */
	/* Points beyond the detector's band, with a window and ranges of their own. The rest of it,
	 * grid and values included, is that of the object that has it. */
	Fourier *beyond;
	int aliases; /* of such an object: bands on either side; 0 for all others */
	/* Of the normal operator, instead of points: by which transforms are multiplied,
	 * [group of columns][position][column]. */
	float *spectrum;
};

/* One batch of slices, from `slice` on. */
typedef struct Batch Batch;
struct Batch {
	const Fourier *f;
	int64_t slice;
	float *volume, *projections;
	Direction direction;
	int colour;
	void (*task)(const Batch *b, int64_t index, float *scratch);
	int64_t count;
	int64_t next; /* changed atomically */
};

/* The slice in `part` (0: real, 1: imaginary) of lane l; -1: none. */
static inline int64_t slice_of(const Batch *b, int l, int part)
{
	int64_t z = b->slice + 2 * (l % b->f->pairs) + part;
	return z < b->f->spec.n[2] ? z : -1;
}

static inline float *cell_at(const Fourier *f, int64_t y, int64_t x)
{
	return f->grid + (y * f->pitch + x) * 2 * f->pairs;
}

/* From one point of a view to the next along an axis, in cells. */
static inline double step_of(const Fourier *f, int axis, int64_t view)
{
	return f->views[view].column[axis] * (double)f->axis[axis].size / (double)f->period;
}

/* Rows or columns of cells in one transform. */
static inline int group_of(const Fourier *f, const Fft *fft)
{
	return fft_lanes(fft) / f->pairs;
}

/* All tasks, each thread with its own scratch. */
void batch_run(
	Batch *b, int64_t count, void (*task)(const Batch *b, int64_t index, float *scratch));

/* Between slices and the frequency plane. */
void fourier_slices(Batch *b);
/* Between the frequency plane and the values of all points. */
void fourier_tiles(Batch *b);
/* Convolution of slices with the kernel of the normal operator. */
void fourier_convolve(Batch *b, float *out);
/* The squares of the responses as the values of all points. */
void fourier_squares(const Fourier *f);

/* Transforms the rows of a group of views to their values, or back. */
void fourier_rows(const Batch *b, int64_t index, float *scratch);

tomos_status cpu_fourier_open(tomos_backend *backend, Fourier **fourier, const FourierSpec *spec);
tomos_status cpu_normal_open(tomos_backend *backend, Fourier **fourier, const FourierSpec *spec);
tomos_status cpu_normal_apply(
	tomos_backend *backend, Fourier *f, const float *volume, float *result);
void cpu_fourier_close(tomos_backend *backend, Fourier *fourier);

/* Makes an axis of n voxels and `size` cells; allocates the grid and the scratch of the transforms,
 * whose longest row has `row` samples. */
tomos_status axis_make(FourierAxis *axis, int64_t n, int64_t size);
tomos_status fourier_memory(Fourier *f, int64_t grid_rows, int64_t row);

void fourier_release(Fourier *f);

/* The tiles of an axis, and the points of all views in them. */
tomos_status axis_tiles(FourierAxis *axis);
tomos_status axis_ranges(Fourier *f, int which);

/* Points beyond the detector's band (fourier_aliases.c); alias_points adds those of a view to the
 * tile with these indices, whose rows are `stride` floats apart. */
tomos_status aliases_open(Fourier *f);
void aliases_close(Fourier *beyond);
bool alias_points(
	const Batch *b, const int64_t index[2], int64_t stride, int64_t view, float *data);

#endif
