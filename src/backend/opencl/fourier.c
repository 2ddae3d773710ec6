/* Projector by Fourier transforms on an OpenCL device (backend/fourier.h).
 *
 * Forward: slices, divided by the transform of the window, are transformed in two dimensions; the
 * points of each view are collected from the cells around them; transforms along the rows of the
 * detector end it. The adjoint has the same steps, transposed, in the opposite order. Every step
 * reads one of two arrays and writes the other.
 */
#include "backend/opencl/fourier.h"

enum { MOST_PAIRS = 4 };

/* ---- opening --------------------------------------------------------------------------------- */

static tomos_status send(
	tomos_backend *b, float **device, const void *host, int64_t bytes, const char *what)
{
	TRY(b->type->memory->alloc(b, device, (bytes + 3) / (int64_t)sizeof(float), what));
	return bytes > 0 ? opencl_send(b, *device, host, (size_t)bytes) : TOMOS_OK;
}

static tomos_status make_scales(tomos_backend *b, Fourier *f)
{
	const int64_t *n = f->batch.n, count = n[0] + n[1];
	float *scales;
	TRY(mem_alloc(&scales, count, sizeof *scales, "the window"));
	window_scales(&f->lines.window, n[0], f->lines.size[0], scales);
	window_scales(&f->lines.window, n[1], f->lines.size[1], scales + n[0]);
	tomos_status status =
		send(b, &f->scale, scales, count * (int64_t)sizeof *scales, "the window");
	mem_free(scales);
	return status;
}

static tomos_status send_lists(tomos_backend *b, Fourier *f, const PointLists *from)
{
	const char *what = "the points of tiles";
	TRY(send(b, &f->segments, from->segments,
		from->segment_count * (int64_t)sizeof(PointSegment), what));
	TRY(send(b, &f->chunks, from->chunks, from->chunk_count * (int64_t)sizeof(PointChunk),
		what));
	return send(b, &f->tiles, from->tiles, from->tile_count * (int64_t)sizeof(PartTile), what);
}

static tomos_status make_lists(tomos_backend *b, Fourier *f)
{
	PointLists host;
	TRY(point_lists_make(&host, &f->lines, ADJOINT));
	tomos_status status = send_lists(b, f, &host);
	f->lists = host;
	f->lists.segments = NULL;
	f->lists.chunks = NULL;
	f->lists.tiles = NULL;
	point_lists_free(&host);
	return status;
}

static FourierBatch first_batch(const PointLines *lines, const FourierSpec *spec)
{
	return (FourierBatch){.n = {spec->n[0], spec->n[1], spec->n[2]},
		.size = {lines->size[0], lines->size[1]},
		.rows = spec->rows,
		.columns = spec->columns,
		.count = spec->count,
		.period = lines->period,
		.taps = lines->window.taps,
		.degree = lines->window.degree,
		.own_rows = lines->own_rows,
		.line = spec->response == RESPONSE_LINE};
}

/* An even number of pairs, or one: two of them share weights. */
tomos_status fourier_arrays(
	tomos_backend *b, Fourier *f, const FourierSpec *spec, int64_t floats, int64_t more)
{
	const int64_t all = (spec->n[2] + 1) / 2, share = device_of(b)->most / 4;
	int64_t free_bytes;
	TRY(b->type->memory->free_bytes(b, &free_bytes));
	int64_t limit = (spec->memory > 0 ? spec->memory : free_bytes / 5 * 4) / 4;
	int64_t most = min64(MOST_PAIRS, min64(limit / (2 * floats + more), share / floats));
	int64_t batches = (all + max64(most / 2 * 2, 1) - 1) / max64(most / 2 * 2, 1);
	int64_t pairs = (all + batches - 1) / batches;
	f->batch.pairs = (int32_t)(pairs > 1 ? (pairs + 1) / 2 * 2 : 1);
	for (int i = 0; i < 2; i++)
		TRY(b->type->memory->alloc(
			b, &f->data[i], f->batch.pairs * floats, "transforms of slices"));
	return TOMOS_OK;
}

static tomos_status fourier_fill(tomos_backend *b, Fourier *f, const FourierSpec *spec)
{
	PointLines *lines = &f->lines;
	TRY(point_lines_make(lines, spec));
	f->batch = first_batch(lines, spec);
	TRY(send(b, &f->views, lines->views, spec->count * (int64_t)sizeof(LineView), "the views"));
	TRY(send(b, &f->polynomials, lines->window.polynomials, sizeof lines->window.polynomials,
		"the window"));
	TRY(make_scales(b, f));
	TRY(make_lists(b, f));
	TRY(opencl_fft_open(b, &f->along[0], lines->size[0]));
	TRY(opencl_fft_open(b, &f->along[1], lines->size[1]));
	TRY(opencl_fft_open(b, &f->rows, lines->period));
	const int64_t parts = 2 * (int64_t)f->lists.parts * FOURIER_CELLS;
	const int64_t values = spec->count * lines->period;
	TRY(fourier_arrays(b, f, spec, 2 * max64(lines->size[0] * lines->size[1], values), parts));
	return b->type->memory->alloc(b, &f->parts, f->batch.pairs * parts, "parts of tiles");
}

void opencl_fourier_close(tomos_backend *b, Fourier *f)
{
	if (!f)
		return;
	float *held[] = {f->views, f->segments, f->chunks, f->tiles, f->polynomials, f->scale,
		f->data[0], f->data[1], f->parts, f->spectrum};
	for (int i = 0; i < COUNT(held); i++)
		opencl_release(b, held[i]);
	for (int a = 0; a < 2; a++)
		opencl_fft_close(b, &f->along[a]);
	opencl_fft_close(b, &f->rows);
	point_lines_free(&f->lines);
	mem_free(f);
}

tomos_status opencl_fourier_open(tomos_backend *b, Fourier **fourier, const FourierSpec *spec)
{
	return fourier_make(b, fourier, sizeof **fourier, spec, fourier_fill, opencl_fourier_close);
}

/* ---- steps ----------------------------------------------------------------------------------- */

tomos_status fourier_work(tomos_backend *b, const Fourier *f, int64_t slice, FourierWork *work)
{
	*work = (FourierWork){.f = f, .batch = f->batch};
	work->batch.slice = slice;
	work->batch.pairs = (int32_t)min64(f->batch.pairs, (f->batch.n[2] - slice + 1) / 2);
	TRY(opencl_place(b, f->data[0], &work->data[0]));
	return opencl_place(b, f->data[1], &work->data[1]);
}

/* Between slices and their rows in the present array. */
static tomos_status move_slices(
	tomos_backend *b, const FourierWork *work, int task, const float *volume)
{
	const FourierBatch *of = &work->batch;
	const OpenclPlace *rows = &work->data[work->at];
	const bool load = task == TASK_fourier_load_slices;
	OpenclPlace scale, voxels;
	TRY(opencl_place(b, work->f->scale, &scale));
	TRY(opencl_place(b, volume, &voxels));
	const OpenclPlace *from = load ? &voxels : rows, *to = load ? rows : &voxels;
	const OpenclArg args[] = {ARG(*of), ARG_PLACE(scale), ARG_PLACE(*from), ARG_PLACE(*to)};
	const int64_t n[3] = {load ? of->size[0] : of->n[0], of->n[1], of->pairs};
	return opencl_planes(b, task, n, args, COUNT(args));
}

/* Between rows and columns of planes, from one array to the other. */
static tomos_status transpose(tomos_backend *b, FourierWork *work, int task)
{
	const FourierBatch *of = &work->batch;
	const OpenclPlace from = work->data[work->at], to = work->data[1 - work->at];
	const OpenclArg args[] = {ARG(*of), ARG_PLACE(from), ARG_PLACE(to)};
	const bool columns = task == TASK_fourier_rows_to_columns;
	const int64_t n[3] = {
		columns ? of->size[1] : of->size[0], columns ? of->size[0] : of->n[1], of->pairs};
	work->at = 1 - work->at;
	return opencl_planes(b, task, n, args, COUNT(args));
}

static tomos_status run_fft(
	tomos_backend *b, FourierWork *work, const OpenclFft *fft, int64_t sequences)
{
	const OpenclPlace data[2] = {work->data[0], work->data[1]};
	return opencl_fft_run(
		b, fft, work->batch.pairs * sequences, (OpenclPlace){NULL, 0}, data, &work->at);
}

tomos_status fourier_transform(tomos_backend *b, FourierWork *work, const float *volume)
{
	const Fourier *f = work->f;
	work->at = 0;
	TRY(move_slices(b, work, TASK_fourier_load_slices, volume));
	TRY(run_fft(b, work, &f->along[0], f->batch.n[1]));
	TRY(transpose(b, work, TASK_fourier_rows_to_columns));
	return run_fft(b, work, &f->along[1], f->batch.size[0]);
}

tomos_status fourier_inverse(tomos_backend *b, FourierWork *work, float *volume)
{
	const Fourier *f = work->f;
	TRY(run_fft(b, work, &f->along[1], f->batch.size[0]));
	TRY(transpose(b, work, TASK_fourier_columns_to_rows));
	TRY(run_fft(b, work, &f->along[0], f->batch.n[1]));
	return move_slices(b, work, TASK_fourier_store_slices, volume);
}

/* Between detector rows and the values in the present array. */
static tomos_status move_rows(
	tomos_backend *b, const FourierWork *work, int task, const float *projections)
{
	const FourierBatch *of = &work->batch;
	const OpenclPlace *values = &work->data[work->at];
	const bool load = task == TASK_fourier_load_rows;
	OpenclPlace views, pixels;
	TRY(opencl_place(b, work->f->views, &views));
	TRY(opencl_place(b, projections, &pixels));
	const OpenclPlace *from = load ? &pixels : values, *to = load ? values : &pixels;
	const OpenclArg args[] = {ARG(*of), ARG(views.memory), ARG_PLACE(*from), ARG_PLACE(*to)};
	const int64_t n[3] = {
		load ? of->period : of->columns, of->count, load || of->own_rows ? of->pairs : 1};
	return opencl_planes(b, task, n, args, COUNT(args));
}

static tomos_status collect(tomos_backend *b, FourierWork *work)
{
	const FourierBatch *of = &work->batch;
	const OpenclPlace from = work->data[work->at], to = work->data[1 - work->at];
	OpenclPlace views, polynomials;
	TRY(opencl_place(b, work->f->views, &views));
	TRY(opencl_place(b, work->f->polynomials, &polynomials));
	const OpenclArg args[] = {ARG(*of), ARG(views.memory), ARG_PLACE(polynomials),
		ARG_PLACE(from), ARG_PLACE(to)};
	const int64_t n[3] = {of->period, of->count, (of->pairs + 1) / 2};
	work->at = 1 - work->at;
	return opencl_planes(b, TASK_fourier_collect, n, args, COUNT(args));
}

static tomos_status add_parts(tomos_backend *b, const FourierWork *work, OpenclPlace parts)
{
	const FourierBatch *of = &work->batch;
	const int64_t tile_count = work->f->lists.tile_count;
	OpenclPlace tiles;
	TRY(opencl_place(b, work->f->tiles, &tiles));
	const OpenclArg args[] = {ARG(*of), ARG(tile_count), ARG(tiles.memory), ARG_PLACE(parts),
		ARG_PLACE(work->data[work->at])};
	const int64_t n[3] = {FOURIER_CELLS, tile_count, of->pairs};
	return opencl_planes(b, TASK_fourier_add_parts, n, args, COUNT(args));
}

tomos_status fourier_spread(tomos_backend *b, FourierWork *work)
{
	const Fourier *f = work->f;
	const FourierBatch *of = &work->batch;
	const int64_t chunk_count = f->lists.chunk_count;
	const OpenclPlace from = work->data[work->at], to = work->data[1 - work->at];
	OpenclPlace views, polynomials, chunks, segments, parts;
	TRY(opencl_place(b, f->views, &views));
	TRY(opencl_place(b, f->polynomials, &polynomials));
	TRY(opencl_place(b, f->chunks, &chunks));
	TRY(opencl_place(b, f->segments, &segments));
	TRY(opencl_place(b, f->parts, &parts));
	const OpenclArg args[] = {ARG(*of), ARG(chunk_count), ARG(chunks.memory),
		ARG(segments.memory), ARG(views.memory), ARG_PLACE(polynomials), ARG_PLACE(from),
		ARG_PLACE(to), ARG_PLACE(parts)};
	work->at = 1 - work->at;
	TRY(opencl_line(b, TASK_fourier_spread, chunk_count * ((of->pairs + 1) / 2) * GROUP, args,
		COUNT(args)));
	return add_parts(b, work, parts);
}

/* ---- both directions ------------------------------------------------------------------------- */

static tomos_status project_batch(
	tomos_backend *b, FourierWork *work, const float *volume, float *projections)
{
	TRY(fourier_transform(b, work, volume));
	TRY(collect(b, work));
	TRY(run_fft(b, work, &work->f->rows, work->batch.count));
	return move_rows(b, work, TASK_fourier_store_rows, projections);
}

static tomos_status back_project_batch(
	tomos_backend *b, FourierWork *work, float *volume, const float *projections)
{
	TRY(move_rows(b, work, TASK_fourier_load_rows, projections));
	TRY(run_fft(b, work, &work->f->rows, work->batch.count));
	TRY(fourier_spread(b, work));
	return fourier_inverse(b, work, volume);
}

static tomos_status opencl_fourier_apply(
	tomos_backend *b, Fourier *f, Direction direction, float *volume, float *projections)
{
	const FourierBatch *of = &f->batch;
	if (direction == FORWARD && !f->lines.covers)
		TRY(b->type->vector->fill(b, of->count * of->rows * of->columns, 0, projections));
	for (int64_t z = 0; z < of->n[2]; z += 2 * of->pairs) {
		FourierWork work;
		TRY(fourier_work(b, f, z, &work));
		TRY(direction == FORWARD ? project_batch(b, &work, volume, projections)
					 : back_project_batch(b, &work, volume, projections));
	}
	return TOMOS_OK;
}

const BackendFourier opencl_fourier = {opencl_fourier_open, opencl_fourier_close,
	opencl_fourier_apply, opencl_normal_open, opencl_normal_apply, false};
