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

tomos_status axis_make(FourierAxis *axis, int64_t n, int64_t size)
{
	axis->n = n;
	axis->half = n / 2;
	axis->size = size;
	return fft_open(&axis->fft, size);
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

tomos_status fourier_memory(Fourier *f, int64_t grid_rows, int64_t row)
{
	const int64_t cell = 2 * f->pairs, padded = (row + 15) / 16 * 16;
	int64_t most = f->rows ? fft_floats(f->rows) : 0;
	for (int a = 0; a < 2; a++)
		most = max64(most, fft_floats(f->axis[a].fft));
	f->workers = tomos_threads();
	f->scratch_floats = max64(most, f->tile_floats);
	f->share = f->scratch_floats + 2 * FFT_MOST_LANES * padded;
	TRY(mem_alloc(&f->scratch, f->workers * f->share, sizeof(float), "scratch of transforms"));
	TRY(mem_zeroed(&f->zeros, padded, sizeof(float), "a row"));
	/* An odd number of cache lines: cells of a column are not all in one set of the cache. */
	const int64_t line = 16 / cell;
	f->pitch = (parts(f->axis[0].size, line) | 1) * line;
	return mem_alloc(
		&f->grid, f->pitch * grid_rows * cell, sizeof(float), "the frequency plane");
}

static tomos_status take_memory(Fourier *f)
{
	int64_t cell = 2 * f->pairs, tile = 1;
	for (int a = 0; a < 2; a++)
		tile *= parts(f->axis[a].size, f->axis[a].tiles) + SPREAD_BEYOND;
	f->tile_floats = tile * cell;
	/* Rows of slices and of the detector, and the factors of a view. */
	TRY(fourier_memory(
		f, f->axis[1].size, max64(f->axis[0].size, max64(f->period, f->spec.columns))));
	return mem_alloc(&f->values, f->spec.count * (2 * f->top + 1) * cell, sizeof(float),
		"the spectra of views");
}

static tomos_status make_taper(Fourier *f)
{
	TRY(mem_alloc(&f->taper, f->top + 1, sizeof *f->taper, "the taper"));
	for (int64_t m = 0; m <= f->top; m++)
		f->taper[m] = (float)fourier_taper(f->spec.response, (double)m / (double)f->period);
	return TOMOS_OK;
}

static tomos_status make_window(Fourier *f)
{
	const int64_t size[2] = {f->axis[0].size, f->axis[1].size};
	TRY(window_make(&f->window, f->spec.n, size, f->spec.accuracy));
	for (int a = 0; a < 2; a++) {
		FourierAxis *axis = &f->axis[a];
		TRY(mem_alloc(&axis->scale, axis->n, sizeof *axis->scale, "the window"));
		window_scales(&f->window, axis->n, axis->size, axis->scale);
	}
	return TOMOS_OK;
}

static tomos_status fourier_fill(tomos_backend *backend, Fourier *f, const FourierSpec *spec)
{
	const CpuLevel *level = backend->own;
	if (backend->type != &cpu_backend) /* one that divides work between devices */
		TRY(cpu_level_choose(&level));
	f->spec = *spec;
	f->kernels = level->spread;
	f->pairs = f->window.lanes = spec->n[2] > 2 ? SPREAD_LANES : 1;
	f->period = spec->period > 0 ? spec->period : fft_length(fourier_period(spec));
	/* Aliases begin where the detector's band ends, at half a cycle per column. */
	f->top = f->period / 2 - (spec->aliases > 0 ? 0 : 1);
	if ((1 + 2 * spec->aliases) * f->period > 1 << 30)
		return fail(TOMOS_BAD_VALUE,
			"the slices and the detector are %lld columns apart, too many for the "
			"projector 'fourier'",
			(long long)f->period);
	TRY(fft_open(&f->rows, f->period));
	for (int a = 0; a < 2; a++)
		TRY(axis_make(&f->axis[a], spec->n[a], fourier_cells(spec, a)));
	TRY(copy_views(f, spec));
	TRY(make_taper(f));
	TRY(make_window(f));
	for (int a = 0; a < 2; a++) {
		TRY(axis_tiles(&f->axis[a]));
		TRY(axis_ranges(f, a));
	}
	TRY(take_memory(f));
	return spec->aliases > 0 ? aliases_open(f) : TOMOS_OK;
}

void fourier_release(Fourier *f)
{
	aliases_close(f->beyond);
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
	mem_free(f->taper);
	mem_free(f->spectrum);
}

void cpu_fourier_close(tomos_backend *backend, Fourier *f)
{
	(void)backend;
	if (f)
		fourier_release(f);
	mem_free(f);
}

tomos_status cpu_fourier_open(tomos_backend *backend, Fourier **fourier, const FourierSpec *spec)
{
	return fourier_make(
		backend, fourier, sizeof **fourier, spec, fourier_fill, cpu_fourier_close);
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

/* The points of a view that are in the tile, in each period of the grid; whether there are any. */
static bool view_points(const Batch *b, const Tile *tile, int64_t view, float *data)
{
	const Fourier *f = b->f;
	const FourierAxis *x = &f->axis[0], *y = &f->axis[1];
	if (f->aliases > 0)
		return alias_points(b, tile->first, tile->stride, view, data);
	const PointRange *xs = x->ranges + (tile->first[0] * f->spec.count + view) * 2 * x->periods;
	const PointRange *ys = y->ranges + (tile->first[1] * f->spec.count + view) * 2 * y->periods;
	bool any = false;
	for (int i = 0; i < 2 * x->periods; i++)
		for (int j = 0; xs[i].from < xs[i].to && j < 2 * y->periods; j++) {
			SpreadLine line = {step_of(f, 0, view), step_of(f, 1, view), xs[i].from,
				xs[i].to,
				{x->edge[tile->first[0]] + (i - x->periods) * x->size,
					y->edge[tile->first[1]] + (j - y->periods) * y->size},
				tile->stride};
			line.from = max64(line.from, ys[j].from);
			line.to = min64(line.to, ys[j].to);
			if (line.from < line.to)
				line_points(b, &line, view, data);
			any = any || line.from < line.to;
		}
	return any;
}

static void collect_tile(const Batch *b, int64_t index, float *scratch)
{
	const Tile tile = tile_of(b, index);
	move_tile(b, &tile, scratch);
	for (int64_t view = 0; view < b->f->spec.count; view++)
		view_points(b, &tile, view, scratch);
}

/* All views add to the cells near the origin. Sums of VIEWS_ADDED views at a time keep rounding
 * errors small; those of aliases are small anyway. */
static void spread_tile(const Batch *b, int64_t index, float *scratch)
{
	enum { VIEWS_ADDED = 32 };
	const Tile tile = tile_of(b, index);
	const size_t bytes = (size_t)(tile.n[1] * tile.stride) * sizeof *scratch;
	int added = 0;
	memset(scratch, 0, bytes);
	for (int64_t view = 0; view < b->f->spec.count; view++) {
		added += view_points(b, &tile, view, scratch);
		if (added < VIEWS_ADDED || b->f->aliases > 0)
			continue;
		move_tile(b, &tile, scratch);
		memset(scratch, 0, bytes);
		added = 0;
	}
	move_tile(b, &tile, scratch);
}

static void clear_row(const Batch *b, int64_t y, float *scratch)
{
	(void)scratch;
	memset(cell_at(b->f, y, 0), 0,
		(size_t)(b->f->axis[0].size * 2 * b->f->pairs) * sizeof(float));
}

void fourier_tiles(Batch *b)
{
	const Fourier *f = b->f;
	if (b->direction == ADJOINT)
		batch_run(b, f->axis[1].size, clear_row);
	for (b->colour = 0; b->colour < 4; b->colour++)
		batch_run(b, (int64_t)f->axis[0].tiles / 2 * (f->axis[1].tiles / 2),
			b->direction == FORWARD ? collect_tile : spread_tile);
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
			fourier_slices(&b);
			fourier_tiles(&b);
			batch_run(&b, row_tasks(f), fourier_rows);
		} else {
			batch_run(&b, row_tasks(f), fourier_rows);
			fourier_tiles(&b);
			fourier_slices(&b);
		}
		if (f->beyond) {
			b.f = f->beyond;
			fourier_tiles(&b);
			fourier_slices(&b);
		}
	}
	return TOMOS_OK;
}

const BackendFourier cpu_fourier = {cpu_fourier_open, cpu_fourier_close, cpu_fourier_apply,
	cpu_normal_open, cpu_normal_apply, true};
