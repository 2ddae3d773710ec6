/* Rows of a scan that prepared rows need, read and prepared. */
#include <string.h>
#include "run/run.h"

/* Margins are whole prepared rows, so that binning combines the same rows in every slab. */
RawRows prepared_needs(const tomos_prepared *p, int64_t row, int64_t rows)
{
	int64_t bin = p->bin, margin = (p->reach.rows + bin - 1) / bin;
	int64_t all = p->info.rows / bin;
	int64_t low = p->reach.all_rows ? 0 : max64(0, row - margin);
	int64_t high = p->reach.all_rows ? all : min64(all, row + rows + margin);
	RawRows needs = {low * bin, (high - low) * bin, row - low, high - low};
	if (high == all) /* rows left over by binning may still be in the reach of a step */
		needs.rows = p->info.rows - needs.row;
	return needs;
}

int64_t raw_row_bytes(const tomos_prepared *p)
{
	int64_t frames = p->info.views + p->info.flats + p->info.darks;
	return frames * p->info.columns * (int64_t)sizeof(float);
}

int64_t raw_stored_bytes(const tomos_prepared *p)
{
	const int64_t counts[] = {p->info.views, p->info.flats, p->info.darks};
	int64_t bytes = 0;
	for (int i = 0; i < COUNT(counts); i++)
		if (counts[i] > 0)
			bytes += counts[i] * p->scan->sets[i].file->element.bytes;
	return bytes * p->info.columns;
}

/* ---- some of the views ---------------------------------------------------------------------- */

static void cut_list(const double **list, int64_t *count, int64_t first, int64_t views)
{
	if (*count <= 1)
		return;
	*list += first;
	*count = views;
}

static tomos_status copy_places(tomos_prepared *part, const tomos_prepared *whole)
{
	int64_t count = whole->info.flats;
	tomos_status status =
		mem_alloc(&part->flat_places, count, sizeof(double), "places of flats");
	if (status == TOMOS_OK)
		memcpy(part->flat_places, whole->flat_places, (size_t)count * sizeof(double));
	else
		prepared_part_free(part);
	return status;
}

tomos_status prepared_part(
	tomos_prepared *part, const tomos_prepared *whole, int64_t first, int64_t count)
{
	const tomos_geometry *g = whole->geometry;
	*part = *whole;
	part->flat_places = NULL;
	TRY(tomos_geometry_views(&part->geometry, g->rows, g->columns, g->views + first, count));
	part->skipped = first;
	part->trims = true;
	if (whole->flat_places)
		TRY(copy_places(part, whole));
	if (whole->reach.all_views || g->count != whole->info.views)
		return TOMOS_OK;
	part->skipped = 0;
	part->trims = false;
	part->first_view = first;
	part->info.views = count;
	cut_list(&part->prep.shift_x, &part->prep.shift_x_count, first, count);
	cut_list(&part->prep.shift_y, &part->prep.shift_y_count, first, count);
	for (int64_t i = 0; part->flat_places && i < part->info.flats; i++)
		part->flat_places[i] -= (double)first;
	return TOMOS_OK;
}

void prepared_part_free(tomos_prepared *part)
{
	tomos_geometry_free(part->geometry);
	mem_free(part->flat_places);
	part->geometry = NULL;
	part->flat_places = NULL;
}

/* ---- reading -------------------------------------------------------------------------------- */

static tomos_status set_alloc(float **data, int64_t frames, int64_t rows, int64_t columns)
{
	int64_t count;
	*data = NULL;
	if (frames == 0)
		return TOMOS_OK;
	TRY(shape_count((int64_t[]){frames, rows, columns}, &count));
	return mem_alloc(data, count, sizeof **data, "rows of a scan");
}

tomos_status raw_alloc(RawSlab *slab, const tomos_prepared *p, int64_t rows)
{
	tomos_status status;
	*slab = (RawSlab){.views = NULL};
	TRY_OR_DONE(set_alloc(&slab->views, p->info.views, rows, p->info.columns));
	TRY_OR_DONE(set_alloc(&slab->flats, p->info.flats, rows, p->info.columns));
	TRY_OR_DONE(set_alloc(&slab->darks, p->info.darks, rows, p->info.columns));
done:
	if (status != TOMOS_OK)
		raw_free(slab);
	return status;
}

void raw_free(RawSlab *slab)
{
	mem_free(slab->views);
	mem_free(slab->flats);
	mem_free(slab->darks);
	*slab = (RawSlab){.views = NULL};
}

tomos_status raw_read(RawSlab *slab, tomos_prepared *p, const RawRows *rows)
{
	slab->rows = *rows;
	TRY(tomos_scan_read(p->scan, TOMOS_VIEWS, p->first_view, p->info.views, rows->row,
		rows->rows, slab->views));
	if (p->info.flats)
		TRY(tomos_scan_read(p->scan, TOMOS_FLATS, 0, p->info.flats, rows->row, rows->rows,
			slab->flats));
	if (p->info.darks)
		TRY(tomos_scan_read(p->scan, TOMOS_DARKS, 0, p->info.darks, rows->row, rows->rows,
			slab->darks));
	return TOMOS_OK;
}

/* Keeps the columns in use, of frames that have all columns. */
static tomos_array cropped(const tomos_prepared *p, float *data, int64_t frames, int64_t rows)
{
	tomos_array array = tomos_array_of(data, frames, rows, p->info.columns);
	array.data = data ? data + p->first_column : NULL;
	array.shape[2] = p->columns;
	return array;
}

typedef struct {
	const tomos_array *from;
	int64_t view, before, rows; /* the first view and row */
	float *data;
} RowsCopy;

static void copy_view(void *user, int64_t view)
{
	const RowsCopy *c = user;
	int64_t columns = c->from->shape[2];
	for (int64_t r = 0; r < c->rows; r++)
		memcpy(c->data + (view * c->rows + r) * columns,
			c->from->data + (c->view + view) * c->from->stride[0] +
				(c->before + r) * c->from->stride[1],
			(size_t)columns * sizeof *c->data);
}

/* Prepares the rows, in place if the shape does not change, and then removes the margins. */
static tomos_status prepare_into(RawSlab *slab, const tomos_prepared *p, const tomos_fields *fields,
	int64_t rows, float *data, tomos_prep_report *report, const tomos_progress *progress)
{
	tomos_array views = cropped(p, slab->views, p->info.views, slab->rows.rows), made = views;
	float *own = NULL;
	int64_t shape[3], count;
	TRY(tomos_prep_shape(&p->prep, views.shape, shape));
	if (memcmp(shape, views.shape, sizeof shape) != 0) {
		TRY(shape_count(shape, &count));
		TRY(mem_alloc(&own, count, sizeof *own, "prepared rows"));
		made = tomos_array_of(own, shape[0], shape[1], shape[2]);
	}
	tomos_status status = tomos_prepare(&views, fields, &p->prep, &made, report, progress);
	RowsCopy copy = {&made, p->skipped, slab->rows.before, rows, data};
	if (status == TOMOS_OK)
		parallel_for(p->trims ? p->geometry->count : made.shape[0], copy_view, &copy);
	mem_free(own);
	return status;
}

tomos_status prepared_usable(
	const tomos_prepared *p, const tomos_prep_report *report, int64_t values)
{
	if (values == 0 || report->repaired < values)
		return TOMOS_OK;
	return fail(TOMOS_BAD_FILE,
		"'%s': none of %lld values is finite and has light, a flat above the dark",
		p->scan->path, (long long)values);
}

tomos_status raw_prepare(RawSlab *slab, const tomos_prepared *p, int64_t rows, float *data,
	tomos_prep_report *report, const tomos_progress *progress)
{
	tomos_array flats = cropped(p, slab->flats, p->info.flats, slab->rows.rows);
	tomos_array darks = cropped(p, slab->darks, p->info.darks, slab->rows.rows);
	const tomos_fields fields = {.bytes = sizeof fields,
		.flats = &flats,
		.darks = p->info.darks ? &darks : NULL,
		.flat_views = p->flat_places};
	return prepare_into(slab, p, p->info.flats ? &fields : NULL, rows, data, report, progress);
}
