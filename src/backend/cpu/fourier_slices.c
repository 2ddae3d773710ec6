/* Transforms of slices in the Fourier projector and its normal operator. */
#include <string.h>
#include "backend/cpu/cpu.h"
#include "backend/cpu/fourier.h"

/* ---- tasks ----------------------------------------------------------------------------------- */

static void batch_share(void *user, int64_t worker)
{
	Batch *b = user;
	float *scratch = b->f->scratch + worker * b->f->share;
	for (;;) {
		int64_t i = __atomic_fetch_add(&b->next, 1, __ATOMIC_RELAXED);
		if (i >= b->count || cancel_seen())
			return;
		b->task(b, i, scratch);
	}
}

void batch_run(Batch *b, int64_t count, void (*task)(const Batch *b, int64_t index, float *scratch))
{
	b->task = task;
	b->count = count;
	b->next = 0;
	parallel_for(b->f->workers, batch_share, b);
}

/* ---- slices ---------------------------------------------------------------------------------- */

/* Where voxel i is in a transform. */
static int64_t place_of(const FourierAxis *axis, int64_t i)
{
	return i < axis->half ? i - axis->half + axis->size : i - axis->half;
}

/* The row of the grid with the transforms of row i of the slices: of the normal operator only these
 * are stored. */
static int64_t grid_row(const Fourier *f, int64_t i)
{
	return f->spectrum ? i : place_of(&f->axis[1], i);
}

/* Copies neighbouring cells to one position of a transform, in its first lanes, or back. */
static inline void move_group(
	int pairs, int lanes, int64_t count, bool to_grid, float *cells, float *sample)
{
	for (int64_t x = 0; x < count; x++)
		for (int part = 0; part < 2; part++)
			for (int i = 0; i < pairs; i++) {
				float *a = cells + (2 * x + part) * pairs + i;
				float *b = sample + part * lanes + x * pairs + i;
				if (to_grid)
					*a = *b;
				else
					*b = *a;
			}
}

/* With the number of pairs and the direction as constants, which the compiler needs to see. */
static void move_cells(
	const Fourier *f, int lanes, int64_t count, bool to_grid, float *cells, float *sample)
{
	if (f->pairs == 1 && to_grid)
		move_group(1, lanes, count, true, cells, sample);
	else if (f->pairs == 1)
		move_group(1, lanes, count, false, cells, sample);
	else if (to_grid)
		move_group(SPREAD_LANES, lanes, count, true, cells, sample);
	else
		move_group(SPREAD_LANES, lanes, count, false, cells, sample);
}

/* A row of a slice times the scales, rotated to its place in a transform, or the reverse. */
static void move_voxels(const Batch *b, int64_t z, int64_t y, float *row)
{
	const Fourier *f = b->f;
	const FourierAxis *axis = &f->axis[0];
	const int64_t half = axis->half, rest = axis->n - half, n = axis->n;
	if (z < 0 || y >= f->axis[1].n) {
		memset(row, 0, (size_t)axis->size * sizeof *row);
		return;
	}
	float *voxel = b->volume + (z * f->axis[1].n + y) * n, unit = f->axis[1].scale[y];
	float *low = row + axis->size - half;
	if (f->aliases > 0) {
		for (int64_t i = 0; i < half; i++)
			voxel[i] += low[i] * (unit * axis->scale[i]);
		for (int64_t i = 0; i < rest; i++)
			voxel[half + i] += row[i] * (unit * axis->scale[half + i]);
		return;
	}
	if (b->direction == ADJOINT) {
		for (int64_t i = 0; i < half; i++)
			voxel[i] = low[i] * (unit * axis->scale[i]);
		for (int64_t i = 0; i < rest; i++)
			voxel[half + i] = row[i] * (unit * axis->scale[half + i]);
		return;
	}
	for (int64_t i = 0; i < half; i++)
		low[i] = voxel[i] * (unit * axis->scale[i]);
	for (int64_t i = 0; i < rest; i++)
		row[i] = voxel[half + i] * (unit * axis->scale[half + i]);
	memset(row + rest, 0, (size_t)(axis->size - n) * sizeof *row);
}

/* Cells of the rows of a group, from or to a transform along x. */
static void move_row_frequencies(const Batch *b, int64_t first, float *data)
{
	const Fourier *f = b->f;
	const Fft *fft = f->axis[0].fft;
	const int lanes = fft_lanes(fft);
	const int64_t count = min64(group_of(f, fft), f->axis[1].n - first);
	float *rows[FFT_MOST_LANES];
	for (int64_t g = 0; g < count; g++)
		rows[g] = cell_at(f, grid_row(f, first + g), 0);
	for (int64_t k = 0; k < f->axis[0].size; k++) {
		float *sample = data + fft_position(fft, k) * 2 * lanes;
		for (int64_t g = 0; g < count; g++)
			move_cells(f, lanes, 1, b->direction == FORWARD, rows[g] + k * 2 * f->pairs,
				sample + g * f->pairs);
	}
}

static void transform_x(const Batch *b, int64_t index, float *scratch)
{
	const Fourier *f = b->f;
	const FourierAxis *axis = &f->axis[0];
	const int lanes = fft_lanes(axis->fft), group = group_of(f, axis->fft);
	float *rows[2][FFT_MOST_LANES];
	const int64_t stride = (axis->size + 15) / 16 * 16, first = index * group;
	for (int i = 0; i < 2 * lanes; i++)
		rows[i % 2][i / 2] = scratch + f->scratch_floats + i * stride;
	if (b->direction == FORWARD) {
		for (int i = 0; i < 2 * lanes; i++)
			move_voxels(b, slice_of(b, i / 2, i % 2), first + i / 2 / f->pairs,
				rows[i % 2][i / 2]);
		for (int part = 0; part < 2; part++)
			fft_gather(axis->fft, (const float *const *)rows[part], 0, axis->size, part,
				scratch);
		fft_forward(axis->fft, scratch);
		move_row_frequencies(b, first, scratch);
		return;
	}
	move_row_frequencies(b, first, scratch);
	fft_inverse(axis->fft, scratch);
	for (int part = 0; part < 2; part++)
		fft_scatter(axis->fft, scratch, 0, axis->size, part, rows[part]);
	for (int i = 0; i < 2 * lanes; i++)
		move_voxels(
			b, slice_of(b, i / 2, i % 2), first + i / 2 / f->pairs, rows[i % 2][i / 2]);
}

/* Between the cells of a group of columns and the sequences of their transform: those of voxels,
 * before the transform, and those of all frequencies, after it. */
static void move_column_voxels(const Batch *b, int64_t first, bool to_grid, float *data)
{
	const Fourier *f = b->f;
	const FourierAxis *axis = &f->axis[1];
	const int lanes = fft_lanes(axis->fft);
	const int64_t count = min64(group_of(f, axis->fft), f->axis[0].size - first);
	for (int64_t i = 0; i < axis->n; i++)
		move_cells(f, lanes, count, to_grid, cell_at(f, grid_row(f, i), first),
			data + place_of(axis, i) * 2 * lanes);
}

static void move_column_frequencies(const Batch *b, int64_t first, bool to_grid, float *data)
{
	const Fourier *f = b->f;
	const Fft *fft = f->axis[1].fft;
	const int lanes = fft_lanes(fft);
	const int64_t count = min64(group_of(f, fft), f->axis[0].size - first);
	for (int64_t k = 0; k < f->axis[1].size; k++)
		move_cells(f, lanes, count, to_grid, cell_at(f, k, first),
			data + fft_position(fft, k) * 2 * lanes);
}

/* Columns of the grid; rows without voxels are zero, or not needed. */
static void transform_y(const Batch *b, int64_t index, float *scratch)
{
	const Fft *fft = b->f->axis[1].fft;
	const int64_t first = index * group_of(b->f, fft);
	if (b->direction == FORWARD) {
		memset(scratch, 0, (size_t)fft_floats(fft) * sizeof *scratch);
		move_column_voxels(b, first, false, scratch);
		fft_forward(fft, scratch);
		move_column_frequencies(b, first, true, scratch);
		return;
	}
	move_column_frequencies(b, first, false, scratch);
	fft_inverse(fft, scratch);
	move_column_voxels(b, first, true, scratch);
}

static inline void multiply_cells(int pairs, int lanes, const float *factor, float *sample)
{
	for (int g = 0; g < lanes / pairs; g++)
		for (int i = 0; i < pairs; i++) {
			sample[g * pairs + i] *= factor[g];
			sample[lanes + g * pairs + i] *= factor[g];
		}
}

/* The transform of a group of columns times the spectrum, and back. */
static void convolve_y(const Batch *b, int64_t index, float *scratch)
{
	const Fourier *f = b->f;
	const Fft *fft = f->axis[1].fft;
	const int lanes = fft_lanes(fft), group = group_of(f, fft);
	const float *c = f->spectrum + index * group * f->axis[1].size;
	memset(scratch, 0, (size_t)fft_floats(fft) * sizeof *scratch);
	move_column_voxels(b, index * group, false, scratch);
	fft_forward(fft, scratch);
	for (int64_t k = 0; k < f->axis[1].size; k++, c += group)
		if (f->pairs == 1)
			multiply_cells(1, lanes, c, scratch + k * 2 * lanes);
		else
			multiply_cells(SPREAD_LANES, lanes, c, scratch + k * 2 * lanes);
	fft_inverse(fft, scratch);
	move_column_voxels(b, index * group, true, scratch);
}

/* Tasks of the transforms of all rows of the slices and of all columns of the grid. */
static int64_t x_tasks(const Fourier *f)
{
	return parts(f->axis[1].n, group_of(f, f->axis[0].fft));
}

static int64_t y_tasks(const Fourier *f)
{
	return parts(f->axis[0].size, group_of(f, f->axis[1].fft));
}

void fourier_slices(Batch *b)
{
	if (b->direction == FORWARD)
		batch_run(b, x_tasks(b->f), transform_x);
	batch_run(b, y_tasks(b->f), transform_y);
	if (b->direction == ADJOINT)
		batch_run(b, x_tasks(b->f), transform_x);
}

void fourier_convolve(Batch *b, float *out)
{
	b->direction = FORWARD;
	batch_run(b, x_tasks(b->f), transform_x);
	batch_run(b, y_tasks(b->f), convolve_y);
	b->direction = ADJOINT;
	b->volume = out;
	batch_run(b, x_tasks(b->f), transform_x);
}
