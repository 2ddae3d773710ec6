/* Projector by Fourier transforms on the GPU (backend/fourier.h).
 *
 * Forward: slices, divided by the transform of the window, are transformed in two dimensions; the
 * points of each view are collected from the cells around them; transforms along the rows of the
 * detector end it. The adjoint has the same steps, transposed, in the opposite order.
 */
#include "backend/cuda/fourier.h"

tomos_status fourier_send(
	tomos_backend *b, void *device, const void *host, int64_t bytes, const char *what)
{
	float **to = (float **)device;
	TRY(b->type->memory->alloc(b, to, (bytes + 3) / (int64_t)sizeof(float), what));
	CUDA_TRY(cudaMemcpyAsync(
			 *to, host, (size_t)bytes, cudaMemcpyHostToDevice, device_of(b)->stream),
		"sending points");
	return TOMOS_OK;
}

/* ---- opening --------------------------------------------------------------------------------- */

static void lists_free(PointLists *lists)
{
	cudaFree(lists->segments);
	cudaFree(lists->chunks);
	cudaFree(lists->tiles);
	*lists = PointLists{};
}

/* From host memory; the copies are complete when it returns. */
static tomos_status send_lists(tomos_backend *b, const PointLists *from, PointLists *to)
{
	const char *what = "the points of tiles";
	to->segment_count = from->segment_count;
	to->chunk_count = from->chunk_count;
	to->tile_count = from->tile_count;
	to->parts = from->parts;
	TRY(fourier_send(b, &to->segments, from->segments,
		from->segment_count * (int64_t)sizeof(PointSegment), what));
	TRY(fourier_send(b, &to->chunks, from->chunks,
		from->chunk_count * (int64_t)sizeof(PointChunk), what));
	TRY(fourier_send(
		b, &to->tiles, from->tiles, from->tile_count * (int64_t)sizeof(PartTile), what));
	return b->type->memory->sync(b);
}

/* A later call begins again after a failure. */
static tomos_status make_lists(tomos_backend *b, Fourier *f, Direction direction)
{
	PointLists host;
	TRY(point_lists_make(&host, &f->lines, direction));
	tomos_status status = send_lists(b, &host, &f->lists[direction]);
	if (status != TOMOS_OK)
		lists_free(&f->lists[direction]);
	point_lists_free(&host);
	return status;
}

static tomos_status make_scales(tomos_backend *b, Fourier *f)
{
	for (int a = 0; a < 2; a++) {
		float *scales;
		TRY(mem_alloc(&scales, f->spec.n[a], sizeof *scales, "the window"));
		window_scales(&f->lines.window, f->spec.n[a], f->lines.size[a], scales);
		tomos_status status = fourier_send(b, &f->scale[a], scales,
			f->spec.n[a] * (int64_t)sizeof *scales, "the window");
		mem_free(scales);
		TRY(status);
	}
	return TOMOS_OK;
}

/* Bytes of a pair of slices in a batch. */
static double pair_bytes(const Fourier *f)
{
	const double cells = (double)f->lines.size[0] * (double)f->lines.size[1];
	const double values = (double)f->spec.count * (double)f->lines.period;
	const int64_t parts = (int64_t)f->lists[ADJOINT].parts * FOURIER_TILE * FOURIER_TILE;
	return sizeof(float2) * (cells + values + (double)parts);
}

/* As many pairs as memory allows, in batches of the same size. Kernels process one pair or an even
 * number of them. cuFFT may need as much memory as it transforms at once. */
static tomos_status choose_batch(tomos_backend *b, Fourier *f)
{
	const double cells = (double)f->lines.size[0] * (double)f->lines.size[1],
		     together = 8 << 20;
	int64_t all = (f->spec.n[2] + 1) / 2, free_bytes, most = FOURIER_PAIRS;
	TRY(b->type->memory->free_bytes(b, &free_bytes));
	double limit = (double)f->spec.memory;
	if (limit == 0)
		limit = fmin((double)device_of(b)->scratch_most * sizeof(float),
			0.8 * (double)free_bytes);
	limit -= sizeof(float2) * fmax(cells, together);
	most = max64(1, min64(most, fourier_most_pairs(f)));
	most = (int64_t)fmin((double)most, fmax(1, limit / pair_bytes(f)));
	most -= most > 1 && most % 2;
	int64_t batches = (all + most - 1) / most;
	f->pairs = (int)((all + batches - 1) / batches);
	f->pairs += f->pairs > 1 && f->pairs % 2;
	f->planes = f->pairs * cells <= together ? f->pairs : 1;
	return TOMOS_OK;
}

static tomos_status take_memory(tomos_backend *b, Fourier *f)
{
	const int64_t pairs = f->pairs, cells = f->lines.size[0] * f->lines.size[1];
	const int64_t parts = (int64_t)f->lists[ADJOINT].parts * FOURIER_TILE * FOURIER_TILE;
	const BackendMemory *memory = b->type->memory;
	TRY(memory->alloc(b, (float **)&f->grid, 2 * pairs * cells, "the frequency plane"));
	TRY(memory->alloc(b, (float **)&f->values, 2 * pairs * f->spec.count * f->lines.period,
		"the spectra of views"));
	return memory->alloc(b, (float **)&f->parts, 2 * pairs * parts, "parts of tiles");
}

static tomos_status fourier_fill(tomos_backend *b, Fourier *f, const FourierSpec *spec)
{
	TRY(point_lines_make(&f->lines, spec));
	TRY(fourier_send(b, &f->views, f->lines.views, spec->count * (int64_t)sizeof(LineView),
		"the views"));
	TRY(make_scales(b, f));
	TRY(make_lists(b, f, ADJOINT));
	TRY(choose_batch(b, f));
	TRY(take_memory(b, f));
	const int64_t plane[2] = {f->lines.size[1], f->lines.size[0]};
	TRY(fourier_plan(&f->plane_fft, &f->has_plane_fft, 2, plane, f->planes));
	return fourier_plan(&f->row_fft, &f->has_row_fft, 1, &f->lines.period, spec->count);
}

void cuda_fourier_close(tomos_backend *backend, Fourier *f)
{
	if (!f)
		return;
	(void)cudaSetDevice(device_of(backend)->number);
	(void)cudaStreamSynchronize(device_of(backend)->stream); /* plans are in use until then */
	void *held[] = {f->views, f->scale[0], f->scale[1], f->grid, f->values, f->parts};
	for (int i = 0; i < COUNT(held); i++)
		cudaFree(held[i]);
	for (int k = 0; k < 2; k++)
		lists_free(&f->lists[k]);
	if (f->has_plane_fft)
		cufftDestroy(f->plane_fft);
	if (f->has_row_fft)
		cufftDestroy(f->row_fft);
	convolution_free(f->normal);
	(void)cudaGetLastError();
	point_lines_free(&f->lines);
	mem_free(f);
}

tomos_status fourier_open(tomos_backend *b, Fourier **fourier, const FourierSpec *spec,
	tomos_status (*fill)(tomos_backend *b, Fourier *f, const FourierSpec *spec))
{
	TRY(cuda_use(b));
	TRY(mem_zeroed(fourier, 1, sizeof **fourier, "a projector"));
	(*fourier)->spec = *spec;
	(*fourier)->spec.views = NULL;
	tomos_status status = fill(b, *fourier, spec);
	if (status != TOMOS_OK) {
		cuda_fourier_close(b, *fourier);
		*fourier = NULL;
	}
	return status;
}

tomos_status cuda_fourier_open(tomos_backend *backend, Fourier **fourier, const FourierSpec *spec)
{
	return fourier_open(backend, fourier, spec, fourier_fill);
}

/* ---- both directions ------------------------------------------------------------------------- */

SliceBatch fourier_batch(const Fourier *f, int64_t slice)
{
	const FourierSpec *spec = &f->spec;
	return (SliceBatch){.n = {spec->n[0], spec->n[1], spec->n[2]},
		.size = {f->lines.size[0], f->lines.size[1]},
		.rows = spec->rows,
		.columns = spec->columns,
		.count = spec->count,
		.period = f->lines.period,
		.slice = slice,
		.pairs = f->pairs,
		.own_rows = f->lines.own_rows,
		.views = f->views,
		.scale = {f->scale[0], f->scale[1]},
		.grid = f->grid,
		.values = f->values};
}

static tomos_status transform_planes(tomos_backend *b, const Fourier *f, int direction)
{
	for (int i = 0; i < f->pairs; i += f->planes)
		TRY(fourier_transform(b, f->plane_fft,
			f->grid + i * f->lines.size[0] * f->lines.size[1], direction,
			f->lines.size[0]));
	return TOMOS_OK;
}

static tomos_status transform_rows(tomos_backend *b, const Fourier *f, int direction)
{
	for (int i = 0; i < f->pairs; i++)
		TRY(fourier_transform(b, f->row_fft,
			f->values + i * f->spec.count * f->lines.period, direction,
			f->lines.period));
	return TOMOS_OK;
}

static tomos_status project_batch(tomos_backend *b, const Fourier *f, const SliceBatch *batch)
{
	TRY(slices_move(b, batch, true));
	TRY(transform_planes(b, f, CUFFT_FORWARD));
	TRY(fourier_collect(b, f));
	TRY(transform_rows(b, f, CUFFT_INVERSE));
	return rows_move(b, batch, false);
}

static tomos_status back_project_batch(tomos_backend *b, const Fourier *f, const SliceBatch *batch)
{
	TRY(rows_move(b, batch, true));
	TRY(transform_rows(b, f, CUFFT_FORWARD));
	TRY(fourier_spread(b, f, false));
	TRY(transform_planes(b, f, CUFFT_INVERSE));
	return slices_move(b, batch, false);
}

/* The points of the forward projection are sorted when it is first needed: filtered back projection
 * has none. */
static tomos_status apply(
	tomos_backend *b, Fourier *f, Direction direction, float *volume, float *projections)
{
	const FourierSpec *spec = &f->spec;
	if (!f->lists[direction].chunks)
		TRY(make_lists(b, f, direction));
	if (direction == FORWARD && !f->lines.covers)
		TRY(b->type->vector->fill(
			b, spec->count * spec->rows * spec->columns, 0, projections));
	for (int64_t z = 0; z < spec->n[2]; z += 2 * f->pairs) {
		SliceBatch batch = fourier_batch(f, z);
		batch.volume = volume;
		batch.projections = projections;
		TRY(direction == FORWARD ? project_batch(b, f, &batch)
					 : back_project_batch(b, f, &batch));
	}
	return TOMOS_OK;
}

static tomos_status cuda_fourier_apply(
	tomos_backend *backend, Fourier *f, Direction direction, float *volume, float *projections)
{
	TRY(cuda_use(backend));
	tomos_status status = cuda_enter(backend);
	if (status == TOMOS_OK)
		status = apply(backend, f, direction, volume, projections);
	tomos_status left = cuda_leave(backend);
	return status == TOMOS_OK ? left : status;
}

extern "C" {
extern const BackendFourier cuda_fourier;
const BackendFourier cuda_fourier = {cuda_fourier_open, cuda_fourier_close, cuda_fourier_apply,
	cuda_normal_open, cuda_normal_apply, false};
}
