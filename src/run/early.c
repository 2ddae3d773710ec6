/* A first look at the volume, a second or so after the start of a run: the middle slice, where it
 * has one detector row, and otherwise planes through a volume from few views and averaged pixels.
 * The final pictures replace it. A geometry without filtered back projection has no first look. */
#include <math.h>
#include <string.h>
#include "run/run_parts.h"

enum { HIGH = 256, WIDE = 512, VIEWS = 192, FRAMES = 8 }; /* at most; FRAMES: flats, and darks */
enum { PASSES = 8 }; /* interleaved, in which the views are read */
#define SECONDS 0.6  /* of reading, after which a pass is the last one */
#define UPDATES 4e9  /* of the middle slice, at most */

typedef struct {
	FileRun *run;
	int64_t row, rows;    /* detector rows in use, after preparation */
	int64_t bin[2];       /* rows and columns averaged, likewise */
	int64_t every, count; /* views in use */
	int64_t shape[2];     /* averaged rows and columns */
	int64_t coarse[3];    /* voxels of the volume, along x, y and z, for each one computed */
	float *frame;         /* one frame of the scan */
	float *views, *flat, *dark; /* averaged */
} Early;

/* ---- averaged frames ------------------------------------------------------------------------- */

/* Averages the pixels of `frame` into `out`, with that weight. */
static void add_frame(const Early *e, float weight, float *out)
{
	const tomos_prepared *p = e->run->whole;
	int64_t high = e->bin[0] * p->bin, wide = e->bin[1] * p->bin;
	float share = weight / (float)(high * wide);
	for (int64_t r = 0; r < e->shape[0] * high; r++) {
		const float *from = e->frame + r * p->info.columns + p->first_column;
		float *to = out + r / high * e->shape[1];
		for (int64_t c = 0; c < e->shape[1]; c++) {
			float sum = 0;
			for (int64_t i = 0; i < wide; i++)
				sum += from[c * wide + i];
			to[c] += share * sum;
		}
	}
}

static tomos_status read_frame(
	const Early *e, tomos_frames which, int64_t frame, float weight, float *out)
{
	const tomos_prepared *p = e->run->whole;
	TRY(tomos_scan_read(p->scan, which, frame, 1, e->row * p->bin, e->rows * p->bin, e->frame));
	add_frame(e, weight, out);
	return TOMOS_OK;
}

/* The mean of some of the flats or darks; NULL: the scan has none. */
static tomos_status read_mean(const Early *e, tomos_frames which, int64_t frames, float **mean)
{
	int64_t every = max64(frames / FRAMES, 1), used = frames / every;
	if (frames == 0)
		return TOMOS_OK;
	TRY(mem_zeroed(mean, e->shape[0] * e->shape[1], sizeof **mean, "an averaged frame"));
	for (int64_t i = 0; i < used; i++)
		TRY(read_frame(e, which, i * every, 1 / (float)used, *mean));
	return TOMOS_OK;
}

/* Reads every 8th view, then those between, until time is up; keeps them in order. */
static tomos_status read_views(Early *e)
{
	static const int order[PASSES] = {0, 4, 2, 6, 1, 5, 3, 7};
	int64_t size = e->shape[0] * e->shape[1], all = e->count;
	double start = run_now();
	int passes = 0;
	TRY(mem_zeroed(&e->views, all * size, sizeof *e->views, "averaged views"));
	while (passes < PASSES && (passes == 0 || run_now() - start < SECONDS)) {
		int end = passes == 0 ? 1 : 2 * passes; /* 1, 2, 4 or 8 of them are evenly spaced */
		for (; passes < end; passes++)
			for (int64_t i = order[passes]; i < all; i += PASSES)
				TRY(read_frame(
					e, TOMOS_VIEWS, i * e->every, 1, e->views + i * size));
	}
	int64_t step = PASSES / passes;
	e->every *= step;
	e->count = (all + step - 1) / step;
	for (int64_t i = 1; i < e->count && step > 1; i++)
		memcpy(e->views + i * size, e->views + i * step * size,
			(size_t)size * sizeof(float));
	return TOMOS_OK;
}

/* From counts to line integrals, without the steps that only remove artefacts. */
static tomos_status prepare_views(const Early *e)
{
	const tomos_prep_options *given = &e->run->whole->prep;
	tomos_prep_options o = tomos_prep_defaults();
	int64_t rows = e->shape[0], columns = e->shape[1];
	tomos_array views = tomos_array_of(e->views, e->count, rows, columns);
	tomos_array flat = tomos_array_of(e->flat, 1, rows, columns);
	tomos_array dark = tomos_array_of(e->dark, 1, rows, columns);
	const tomos_fields fields = {
		.bytes = sizeof fields, .flats = &flat, .darks = e->dark ? &dark : NULL};
	o.quantity = given->quantity;
	o.floor = given->floor;
	o.steps = given->steps;
	return tomos_prepare(&views, e->flat ? &fields : NULL, &o, &views, NULL, NULL);
}

/* ---- planes ---------------------------------------------------------------------------------- */

static tomos_status early_geometry(const Early *e, tomos_geometry **scan)
{
	const tomos_geometry *g = e->run->whole->geometry;
	tomos_view *views;
	TRY(mem_alloc(&views, e->count, sizeof *views, "views of a first look"));
	double down = (double)e->row + 0.5 * (double)(e->shape[0] * e->bin[0] - g->rows);
	double across = 0.5 * (double)(e->shape[1] * e->bin[1] - g->columns);
	for (int64_t i = 0; i < e->count; i++) {
		views[i] = g->views[i * e->every];
		view_slide(&views[i], across, down);
		for (int a = 0; a < 3; a++) {
			views[i].u[a] *= (double)e->bin[1];
			views[i].v[a] *= (double)e->bin[0];
		}
	}
	tomos_status status = tomos_geometry_views(scan, e->shape[0], e->shape[1], views, e->count);
	mem_free(views);
	return status;
}

/* The plane through the middle across that axis (0: z, 1: y, 2: x, as in the array). */
static tomos_grid plane_grid(const Early *e, int across)
{
	const FileRun *r = e->run;
	const int64_t n[3] = {r->grid.n[0], r->grid.n[1], r->slices};
	tomos_grid grid = r->grid;
	grid.first[2] += (double)r->first_slice * grid.step[2];
	for (int a = 0; a < 3; a++) {
		double many = (double)e->coarse[a];
		bool one = a == 2 - across;
		double start = one ? (double)(n[a] / 2) : 0.5 * (many - 1);
		grid.n[a] = one ? 1 : max64(n[a] / e->coarse[a], 1);
		grid.first[a] += start * grid.step[a];
		grid.step[a] *= many;
	}
	return grid;
}

/* Enlarges a plane to the size of its picture, in which z increases upwards. */
static void place_plane(const Early *e, int across, const tomos_grid *grid, const float *plane)
{
	const FileRun *r = e->run;
	int x = across == 2 ? 1 : 0, y = across == 0 ? 1 : 2;
	int64_t wide = r->grid.n[x], high = y == 2 ? r->slices : r->grid.n[y];
	for (int64_t j = 0; j < high; j++) {
		int64_t row = y == 2 ? high - 1 - j : j;
		const float *from = plane + min64(j / e->coarse[y], grid->n[y] - 1) * grid->n[x];
		for (int64_t i = 0; i < wide; i++)
			r->preview.planes[across][row * wide + i] =
				from[min64(i / e->coarse[x], grid->n[x] - 1)];
	}
}

static tomos_status compute_plane(
	const Early *e, const tomos_geometry *scan, float *data, tomos_grid grid, int across)
{
	float *plane;
	TRY(mem_alloc(&plane, grid.n[0] * grid.n[1] * grid.n[2], sizeof *plane, "a first look"));
	const tomos_array rows = tomos_array_of(data, scan->count, scan->rows, scan->columns);
	const tomos_array image = tomos_array_of(plane, grid.n[2], grid.n[1], grid.n[0]);
	tomos_status status = tomos_fbp(e->run->backend, &grid, scan, &rows, &image, NULL, NULL);
	if (status == TOMOS_OK)
		place_plane(e, across, &grid, plane);
	mem_free(plane);
	return status;
}

/* The slice in the middle of a stack, from its own row of all views. */
static tomos_status middle_slice(Early *e)
{
	const FileRun *r = e->run;
	tomos_prepared *p = r->whole;
	const tomos_geometry *g = p->geometry;
	int64_t row = r->first_slice + r->slices / 2 + r->first_row;
	RawRows needs = prepared_needs(p, row, 1);
	tomos_geometry *scan = NULL;
	float *data = NULL;
	tomos_status status;
	if (p->reach.all_rows)
		needs = (RawRows){row * p->bin, p->bin, 0, 1};
	double most = (double)(r->grid.n[0] * r->grid.n[1]) * (double)g->count / UPDATES;
	e->coarse[0] = e->coarse[1] = max64((int64_t)ceil(sqrt(most)), 1);
	tomos_grid grid = plane_grid(e, 0);
	TRY_OR_DONE(mem_alloc(&data, g->count * g->columns, sizeof *data, "a row of all views"));
	TRY_OR_DONE(prepared_read_raw(p, &needs, 1, data, NULL, NULL));
	TRY_OR_DONE(tomos_geometry_views(&scan, 1, g->columns, g->views, g->count));
	for (int64_t i = 0; i < g->count; i++) {
		tomos_view *view = &scan->views[i];
		view->det[2] = view->src[2] = view->u[2] = 0;
		memcpy(view->v, (double[]){0, 0, 1}, sizeof view->v);
	}
	grid.first[2] = 0;
	grid.step[2] = 1;
	TRY_OR_DONE(compute_plane(e, scan, data, grid, 0));
done:
	tomos_geometry_free(scan);
	mem_free(data);
	return status;
}

static tomos_status coarse_planes(Early *e, int first)
{
	const FileRun *r = e->run;
	const tomos_prepared *p = r->whole;
	tomos_geometry *scan = NULL;
	tomos_status status;
	int64_t size = e->rows * p->bin * p->info.columns;
	TRY_OR_DONE(mem_alloc(&e->frame, size, sizeof *e->frame, "a frame"));
	TRY_OR_DONE(read_mean(e, TOMOS_FLATS, p->info.flats, &e->flat));
	TRY_OR_DONE(read_mean(e, TOMOS_DARKS, p->info.darks, &e->dark));
	TRY_OR_DONE(read_views(e));
	TRY_OR_DONE(prepare_views(e));
	TRY_OR_DONE(early_geometry(e, &scan));
	for (int across = first; across < 3; across++)
		TRY_OR_DONE(compute_plane(e, scan, e->views, plane_grid(e, across), across));
done:
	tomos_geometry_free(scan);
	mem_free(e->frame);
	mem_free(e->views);
	mem_free(e->flat);
	mem_free(e->dark);
	return status;
}

static Early early_make(FileRun *r)
{
	const tomos_geometry *g = r->whole->geometry;
	Early e = {.run = r, .row = 0, .rows = g->rows};
	if (r->stacked) {
		e.row = r->first_slice + r->first_row;
		e.rows = r->slices;
	}
	e.bin[0] = (e.rows + HIGH - 1) / HIGH;
	e.bin[1] = (g->columns + WIDE - 1) / WIDE;
	e.every = max64((g->count + VIEWS - 1) / VIEWS, 1);
	e.count = (g->count + e.every - 1) / e.every;
	e.shape[0] = e.rows / e.bin[0];
	e.shape[1] = g->columns / e.bin[1];
	return e;
}

static tomos_status look(FileRun *r)
{
	Early e = early_make(r);
	if (r->stacked)
		TRY(middle_slice(&e));
	for (int a = 0; a < 2; a++)
		e.coarse[a] = (max64(r->grid.n[0], r->grid.n[1]) + WIDE - 1) / WIDE;
	e.coarse[2] = r->stacked ? e.bin[0] : (r->slices + HIGH - 1) / HIGH;
	TRY(coarse_planes(&e, r->stacked ? 1 : 0));
	return preview_draw(&r->preview);
}

/* Views, their filtered copies, and the frames they are averaged from. */
static bool fits_memory(FileRun *r)
{
	enum { COPIES = 3 };
	const Early e = early_make(r);
	const tomos_prepared *p = r->whole;
	double averaged = (double)e.count * (double)e.shape[0] * (double)e.shape[1];
	double row = (double)p->geometry->count * (double)p->geometry->columns;
	double frame = (double)e.rows * (double)p->bin * (double)p->info.columns;
	double most = fmax(averaged, r->stacked ? row : 0);
	return sizeof(float) * (COPIES * most + 2 * frame) + run_fixed_bytes(r) <= r->memory;
}

tomos_status run_look_early(FileRun *r)
{
	double start = run_now();
	char *path;
	bool all = r->whole->geometry->count == r->whole->info.views; /* none left out */
	if (!r->preview.taken || !all || !fits_memory(r))
		return TOMOS_OK;
	tomos_status status = look(r);
	if (status == TOMOS_CANCELLED)
		return status;
	if (status != TOMOS_OK) /* what is wrong with the scan is reported by the run itself */
		return TOMOS_OK;
	TRY(preview_path(&path, &r->preview, 0));
	status = job_say(r->job,
		"preview   first look after %.1f s in '%s', and likewise xz and yz; the final "
		"pictures replace it",
		run_now() - start, path);
	mem_free(path);
	return status;
}
