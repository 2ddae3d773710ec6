/* Projector by Fourier transforms on the CPU (backend/fourier.h).
 *
 * Forward: slices, divided by the transform of the window, are transformed in two dimensions; the
 * points of each view are collected from the cells around them; transforms along the rows of the
 * detector end it. The adjoint has the same steps, transposed, in the opposite order.
 *
 * Several pairs of slices are in the SIMD lanes of every step and share all weights. The grid is
 * divided into tiles. A thread copies a tile, or adds it to the grid, in one pass; where tiles are
 * added, those of one colour of four are apart and run at the same time, so that sums do not depend
 * on the number of threads.
 */
#include "backend/cpu/fourier.h"
#include <math.h>
#include <string.h>
#include "backend/cpu/cpu.h"
#include "base/fft.h"

/* ---- opening --------------------------------------------------------------------------------- */

static tomos_status axis_make(FourierAxis *axis, int64_t n, double over)
{
	axis->n = n;
	axis->half = n / 2;
	axis->size = fft_length(max64((int64_t)ceil(over * (double)n), 2 * SPREAD_MOST));
	return fft_open(&axis->fft, axis->size);
}

static tomos_status copy_views(Fourier *f, const FourierSpec *spec)
{
	TRY(mem_alloc(&f->views, spec->count, sizeof *f->views, "the views"));
	f->spec.views = f->views;
	for (int64_t i = 0; i < spec->count; i++) {
		f->views[i] = spec->views[i];
		for (int a = 0; a < 2; a++)
			f->views[i].column[2] += f->views[i].column[a] * (double)f->axis[a].half;
	}
	return TOMOS_OK;
}

/* Sequences of a transform for each row or column of cells. */
static int group_of(const Fourier *f, const Fft *fft)
{
	return fft_lanes(fft) / f->pairs;
}

static tomos_status take_memory(Fourier *f)
{
	int64_t cell = 2 * f->pairs, wide = 0, most = fft_floats(f->rows);
	for (int a = 0; a < 2; a++) {
		const FourierAxis *axis = &f->axis[a];
		int64_t tile = parts(axis->size, axis->tiles) + SPREAD_BEYOND;
		wide = a == 0 ? tile * cell : wide;
		f->tile_floats = wide * tile;
		most = max64(most, fft_floats(axis->fft));
	}
	/* Rows of slices and of the detector, and the factors of a view. */
	int64_t row = (max64(f->axis[0].size, max64(f->period, f->spec.columns)) + 15) / 16 * 16;
	f->scratch_floats = max64(most, f->tile_floats);
	f->share = f->scratch_floats + 2 * FFT_MOST_LANES * row;
	TRY(mem_alloc(&f->scratch, f->workers * f->share, sizeof(float), "scratch of transforms"));
	TRY(mem_zeroed(&f->zeros, row, sizeof(float), "a row"));
	TRY(mem_alloc(&f->grid, f->axis[0].size * f->axis[1].size * cell, sizeof(float),
		"the frequency plane"));
	return mem_alloc(&f->values, f->spec.count * (2 * f->top + 1) * cell, sizeof(float),
		"the spectra of views");
}

static tomos_status fourier_fill(Fourier *f, const FourierSpec *spec, const CpuLevel *level)
{
	f->spec = *spec;
	f->kernels = level->spread;
	f->workers = tomos_threads();
	f->pairs = f->window.lanes = spec->n[2] > 2 ? SPREAD_LANES : 1;
	f->period = fft_length(fourier_period(spec));
	f->top = f->period / 2 - 1;
	if (f->period > 1 << 30)
		return fail(TOMOS_BAD_VALUE,
			"the slices and the detector are %lld columns apart, too many for the "
			"projector 'fourier'",
			(long long)f->period);
	TRY(fft_open(&f->rows, f->period));
	for (int a = 0; a < 2; a++)
		TRY(axis_make(&f->axis[a], spec->n[a], fourier_oversampling(spec->accuracy)));
	TRY(copy_views(f, spec));
	TRY(window_make(&f->window, f->axis, spec->accuracy));
	for (int a = 0; a < 2; a++)
		TRY(axis_ranges(f, a));
	return take_memory(f);
}

static void cpu_fourier_close(tomos_backend *backend, Fourier *f)
{
	(void)backend;
	if (!f)
		return;
	for (int a = 0; a < 2; a++) {
		mem_free(f->axis[a].scale);
		mem_free(f->axis[a].edge);
		mem_free(f->axis[a].ranges);
		fft_close(f->axis[a].fft);
	}
	fft_close(f->rows);
	mem_free(f->views);
	mem_free(f->grid);
	mem_free(f->values);
	mem_free(f->scratch);
	mem_free(f->zeros);
	mem_free(f);
}

static tomos_status cpu_fourier_open(
	tomos_backend *backend, Fourier **fourier, const FourierSpec *spec)
{
	TRY(mem_zeroed(fourier, 1, sizeof **fourier, "a projector"));
	tomos_status status = fourier_fill(*fourier, spec, backend->own);
	if (status != TOMOS_OK) {
		cpu_fourier_close(backend, *fourier);
		*fourier = NULL;
	}
	return status;
}

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

/* All tasks, each thread with its own scratch. */
static void batch_run(
	Batch *b, int64_t count, void (*task)(const Batch *b, int64_t index, float *scratch))
{
	b->task = task;
	b->count = count;
	b->next = 0;
	parallel_for(b->f->workers, batch_share, b);
}

/* ---- slices ---------------------------------------------------------------------------------- */

static float *cell_at(const Fourier *f, int64_t y, int64_t x)
{
	return f->grid + (y * f->axis[0].size + x) * 2 * f->pairs;
}

/* Where voxel i is in a transform. */
static int64_t place_of(const FourierAxis *axis, int64_t i)
{
	return i < axis->half ? i - axis->half + axis->size : i - axis->half;
}

/* Copies the cells of a line of the grid (`step` floats apart) to the sequences of a transform, in
 * lanes from `lane` on, or back. */
static void move_cell(const Fourier *f, int lanes, bool to_grid, float *cell, float *sample)
{
	for (int part = 0; part < 2; part++) {
		float *a = cell + part * f->pairs, *b = sample + part * lanes;
		for (int i = 0; i < f->pairs; i++)
			if (to_grid)
				a[i] = b[i];
			else
				b[i] = a[i];
	}
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
static void move_cells(const Batch *b, int64_t first, float *data)
{
	const Fourier *f = b->f;
	const Fft *fft = f->axis[0].fft;
	const int lanes = fft_lanes(fft), group = group_of(f, fft);
	for (int64_t k = 0; k < f->axis[0].size; k++) {
		float *sample = data + fft_position(fft, k) * 2 * lanes;
		for (int g = 0; g < group; g++)
			if (first + g < f->axis[1].n)
				move_cell(f, lanes, b->direction == FORWARD,
					cell_at(f, place_of(&f->axis[1], first + g), k),
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
		move_cells(b, first, scratch);
		return;
	}
	move_cells(b, first, scratch);
	fft_inverse(axis->fft, scratch);
	for (int part = 0; part < 2; part++)
		fft_scatter(axis->fft, scratch, 0, axis->size, part, rows[part]);
	for (int i = 0; i < 2 * lanes; i++)
		move_voxels(
			b, slice_of(b, i / 2, i % 2), first + i / 2 / f->pairs, rows[i % 2][i / 2]);
}

/* Columns of the grid; rows without voxels are zero, or not needed. */
static void transform_y(const Batch *b, int64_t index, float *scratch)
{
	const Fourier *f = b->f;
	const FourierAxis *axis = &f->axis[1];
	const int lanes = fft_lanes(axis->fft), group = group_of(f, axis->fft);
	const int64_t first = index * group, end = min64(first + group, f->axis[0].size);
	const bool forward = b->direction == FORWARD;
	if (forward)
		memset(scratch, 0, (size_t)fft_floats(axis->fft) * sizeof *scratch);
	for (int64_t i = 0; forward && i < axis->n; i++)
		for (int64_t x = first; x < end; x++)
			move_cell(f, lanes, false, cell_at(f, place_of(axis, i), x),
				scratch + place_of(axis, i) * 2 * lanes + (x - first) * f->pairs);
	if (forward)
		fft_forward(axis->fft, scratch);
	for (int64_t k = 0; k < axis->size; k++)
		for (int64_t x = first; x < end; x++)
			move_cell(f, lanes, forward, cell_at(f, k, x),
				scratch + fft_position(axis->fft, k) * 2 * lanes +
					(x - first) * f->pairs);
	if (forward)
		return;
	fft_inverse(axis->fft, scratch);
	for (int64_t i = 0; i < axis->n; i++)
		for (int64_t x = first; x < end; x++)
			move_cell(f, lanes, true, cell_at(f, place_of(axis, i), x),
				scratch + place_of(axis, i) * 2 * lanes + (x - first) * f->pairs);
}

static void transform_slices(Batch *b)
{
	const Fourier *f = b->f;
	int64_t x = parts(f->axis[1].n, group_of(f, f->axis[0].fft));
	int64_t y = parts(f->axis[0].size, group_of(f, f->axis[1].fft));
	if (b->direction == FORWARD)
		batch_run(b, x, transform_x);
	batch_run(b, y, transform_y);
	if (b->direction == ADJOINT)
		batch_run(b, x, transform_x);
}

/* ---- tiles ----------------------------------------------------------------------------------- */

/* A tile with the cells beyond it, at which windows end; cells repeat with the size of the grid. */
typedef struct {
	int64_t first[2], n[2], stride;
} Tile;

static Tile tile_of(const Batch *b, int64_t index)
{
	const FourierAxis *axis = b->f->axis;
	int64_t across = axis[0].tiles / 2, at[2] = {index % across, index / across};
	Tile tile;
	for (int a = 0; a < 2; a++) {
		int64_t i = 2 * at[a] + (b->colour >> a & 1);
		tile.first[a] = i;
		tile.n[a] = axis[a].edge[i + 1] - axis[a].edge[i] + SPREAD_BEYOND;
	}
	tile.stride = tile.n[0] * 2 * b->f->pairs;
	return tile;
}

/* Adds the tile to the grid, or copies it from there. */
static void move_tile(const Batch *b, const Tile *tile, float *data)
{
	const Fourier *f = b->f;
	const FourierAxis *axis = f->axis;
	const int64_t cell = 2 * f->pairs, left = axis[0].edge[tile->first[0]];
	for (int64_t j = 0; j < tile->n[1]; j++) {
		int64_t y = (axis[1].edge[tile->first[1]] + j) % axis[1].size, count;
		for (int64_t i = 0; i < tile->n[0]; i += count) {
			int64_t x = (left + i) % axis[0].size;
			count = min64(tile->n[0] - i, axis[0].size - x);
			float *a = cell_at(f, y, x), *t = data + j * tile->stride + i * cell;
			if (b->direction == FORWARD)
				memcpy(t, a, (size_t)(count * cell) * sizeof *t);
			else
				for (int64_t k = 0; k < count * cell; k++)
					a[k] += t[k];
		}
	}
}

static void line_points(const Batch *b, const SpreadLine *line, int64_t view, float *tile)
{
	const Fourier *f = b->f;
	float *values = f->values + (view * (2 * f->top + 1) + f->top) * 2 * f->pairs;
	if (b->direction == FORWARD)
		f->kernels->collect(&f->window, line, tile, values);
	else
		f->kernels->spread(&f->window, line, values, tile);
}

/* The points of a view that are in the tile, in each period of the grid. */
static void view_points(const Batch *b, const Tile *tile, int64_t view, float *data)
{
	const Fourier *f = b->f;
	const FourierAxis *x = &f->axis[0], *y = &f->axis[1];
	const PointRange *xs = x->ranges + (tile->first[0] * f->spec.count + view) * 2 * x->periods;
	const PointRange *ys = y->ranges + (tile->first[1] * f->spec.count + view) * 2 * y->periods;
	const double unit = 1 / (double)f->period, *column = f->views[view].column;
	for (int i = 0; i < 2 * x->periods; i++)
		for (int j = 0; xs[i].from < xs[i].to && j < 2 * y->periods; j++) {
			SpreadLine line = {column[0] * (double)x->size * unit,
				column[1] * (double)y->size * unit, xs[i].from, xs[i].to,
				{x->edge[tile->first[0]] + (i - x->periods) * x->size,
					y->edge[tile->first[1]] + (j - y->periods) * y->size},
				tile->stride};
			line.from = max64(line.from, ys[j].from);
			line.to = min64(line.to, ys[j].to);
			if (line.from < line.to)
				line_points(b, &line, view, data);
		}
}

static void tile_points(const Batch *b, int64_t index, float *scratch)
{
	const Tile tile = tile_of(b, index);
	if (b->direction == FORWARD)
		move_tile(b, &tile, scratch);
	else
		memset(scratch, 0, (size_t)(tile.n[1] * tile.stride) * sizeof *scratch);
	for (int64_t view = 0; view < b->f->spec.count; view++)
		view_points(b, &tile, view, scratch);
	if (b->direction == ADJOINT)
		move_tile(b, &tile, scratch);
}

static void clear_row(const Batch *b, int64_t y, float *scratch)
{
	(void)scratch;
	memset(cell_at(b->f, y, 0), 0,
		(size_t)(b->f->axis[0].size * 2 * b->f->pairs) * sizeof(float));
}

static void all_tiles(Batch *b)
{
	const Fourier *f = b->f;
	if (b->direction == ADJOINT)
		batch_run(b, f->axis[1].size, clear_row);
	for (b->colour = 0; b->colour < 4; b->colour++)
		batch_run(b, (int64_t)f->axis[0].tiles / 2 * (f->axis[1].tiles / 2), tile_points);
}

/* ---- both directions ------------------------------------------------------------------------- */

static int64_t row_tasks(const Fourier *f)
{
	return parts(f->spec.count, group_of(f, f->rows));
}

static tomos_status cpu_fourier_apply(
	tomos_backend *backend, Fourier *f, Direction direction, float *volume, float *projections)
{
	const FourierSpec *spec = &f->spec;
	(void)backend;
	if (direction == FORWARD)
		memset(projections, 0,
			(size_t)(spec->count * spec->rows * spec->columns) * sizeof *projections);
	for (int64_t z = 0; z < spec->n[2] && !cancel_seen(); z += 2 * f->pairs) {
		Batch b = {.f = f,
			.slice = z,
			.volume = volume,
			.projections = projections,
			.direction = direction};
		if (direction == FORWARD) {
			transform_slices(&b);
			all_tiles(&b);
			batch_run(&b, row_tasks(f), fourier_rows);
		} else {
			batch_run(&b, row_tasks(f), fourier_rows);
			all_tiles(&b);
			transform_slices(&b);
		}
	}
	return TOMOS_OK;
}

const BackendFourier cpu_fourier = {cpu_fourier_open, cpu_fourier_close, cpu_fourier_apply};
