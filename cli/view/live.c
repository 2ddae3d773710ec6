/* One slice of a scan, reconstructed again and again with the axis at another column. The prepared
 * row is kept, so that each picture is a filtered back projection of one row only. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "view.h"

/* Voxels times views of a picture, about a tenth of a second of two cores. */
#define MOST_WORK 3e8
enum { LEAST_SIDE = 128 };

struct view_live {
	scan_job job;
	tomos_prepared *prepared;
	tomos_backend *backend;
	tomos_view *views;  /* of the rows that are kept */
	tomos_array rows;   /* [view][row][column] */
	tomos_array binned; /* averages of `bin` columns each, for smaller pictures */
	int64_t bin;        /* 1: none */
	int64_t row;        /* the first of them; -1: none */
	bool cone;
	tomos_axis found; /* by a search; bytes 0: there was none */
};

/* ---- opening --------------------------------------------------------------------------------- */

int live_open(view_live **live, const settings *s)
{
	view_live *l = calloc(1, sizeof *l);
	int code;
	*live = l;
	if (!l)
		return failed("no memory for a scan");
	l->row = -1;
	DO(job_make(s, &l->job));
	l->job.job.axis_later = 1;
	l->job.job.say = NULL;
	DO(lib(tomos_backend_open(&l->backend, s->backend.backend)));
	DO(lib(tomos_prepared_open(&l->prepared, &l->job.job, progress_silent())));
	const tomos_geometry *g = tomos_prepared_geometry(l->prepared);
	l->cone = tomos_geometry_list(g)[0].src[3] == TOMOS_POINT;
done:
	return code;
}

void live_close(view_live *l)
{
	if (!l)
		return;
	tomos_prepared_close(l->prepared);
	tomos_backend_close(l->backend);
	job_free(&l->job);
	free(l->rows.data);
	free(l->binned.data);
	free(l->views);
	free(l);
}

double live_axis(const view_live *l)
{
	return axis_column(tomos_prepared_geometry(l->prepared));
}

bool live_axis_given(const view_live *l)
{
	return l->job.scan.axis_count > 0;
}

tomos_status live_find(view_live *l, double *axis, double *error)
{
	int64_t row, rows;
	if (l->found.bytes == 0) {
		tomos_axis found = {.bytes = sizeof found};
		tomos_status status = tomos_prepared_axis_rows(l->prepared, &row, &rows);
		if (status == TOMOS_OK)
			status = tomos_prepared_axis(
				l->prepared, l->backend, row, rows, &found, progress_silent());
		if (status != TOMOS_OK)
			return status;
		l->found = found;
		l->row = -1; /* the views have moved */
	}
	*axis = live_axis(l);
	*error = l->found.error;
	return TOMOS_OK;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Rows that a slice needs: its own, or for a cone beam those about the midplane. */
static tomos_status choose_rows(const view_live *l, int64_t wanted, int64_t *row, int64_t *rows)
{
	const tomos_geometry *g = tomos_prepared_geometry(l->prepared);
	int64_t all = tomos_geometry_rows(g), wide = tomos_geometry_columns(g) / 16;
	*row = wanted;
	*rows = 1;
	if (!l->cone)
		return TOMOS_OK;
	tomos_status status = tomos_prepared_axis_rows(l->prepared, row, rows);
	int64_t end = *row + *rows + wide;
	*row = *row > wide ? *row - wide : 0;
	*rows = (end < all ? end : all) - *row;
	return status;
}

static tomos_status read_rows(view_live *l, int64_t row, int64_t rows)
{
	const tomos_geometry *g = tomos_prepared_geometry(l->prepared);
	int64_t views = tomos_geometry_count(g), columns = tomos_geometry_columns(g);
	if (l->row == row && l->rows.data)
		return TOMOS_OK;
	l->row = -1;
	l->bin = 1;
	free(l->rows.data);
	free(l->views);
	l->views = calloc((size_t)views, sizeof *l->views);
	l->rows = tomos_array_of(
		malloc((size_t)(views * rows * columns) * sizeof(float)), views, rows, columns);
	if (!l->rows.data || !l->views)
		return TOMOS_NO_MEMORY;
	tomos_status status =
		tomos_prepared_read(l->prepared, row, rows, l->rows.data, NULL, progress_silent());
	if (status != TOMOS_OK)
		return status;
	views_of_rows(g, row, l->rows.shape[1], l->views);
	l->row = row;
	return TOMOS_OK;
}

/* ---- pictures -------------------------------------------------------------------------------- */

/* Columns that are averaged, so that voxels are as large as pixels; the size of the picture. */
static int64_t choose_bin(const view_live *l, int64_t wanted, int64_t *side)
{
	int64_t columns = l->rows.shape[2], bin = 1;
	double most = sqrt(MOST_WORK / (double)l->rows.shape[0]);
	while (wanted == 0 && (double)(columns / bin) > most && columns / (bin + 1) >= LEAST_SIDE)
		bin++;
	if (wanted > 0)
		bin = columns > wanted ? columns / wanted : 1;
	*side = wanted > 0 ? wanted : columns / bin;
	return bin;
}

static tomos_status bin_columns(view_live *l, int64_t bin)
{
	const int64_t *n = l->rows.shape, columns = n[2] / bin;
	if (bin == 1 || bin == l->bin)
		return TOMOS_OK;
	free(l->binned.data);
	l->bin = 1;
	float *data = malloc((size_t)(n[0] * n[1] * columns) * sizeof *data);
	l->binned = tomos_array_of(data, n[0], n[1], columns);
	if (!data)
		return TOMOS_NO_MEMORY;
	for (int64_t i = 0; i < n[0] * n[1] * columns; i++) {
		const float *from = l->rows.data + i / columns * n[2] + i % columns * bin;
		double sum = 0;
		for (int64_t k = 0; k < bin; k++)
			sum += (double)from[k];
		data[i] = (float)(sum / (double)bin);
	}
	l->bin = bin;
	return TOMOS_OK;
}

/* The views with their detectors moved along the rows by `shift` columns, and pixels of `bin`
 * columns each, the last ones left out. */
static tomos_status moved_scan(const view_live *l, double shift, int64_t bin, tomos_geometry **scan)
{
	int64_t count = l->rows.shape[0], columns = l->rows.shape[2];
	tomos_view *views = malloc((size_t)count * sizeof *views);
	if (!views)
		return TOMOS_NO_MEMORY;
	memcpy(views, l->views, (size_t)count * sizeof *views);
	shift -= 0.5 * (double)(columns % bin);
	for (int64_t i = 0; i < count; i++)
		for (int a = 0; a < 3; a++) {
			views[i].det[a] += shift * views[i].u[a];
			views[i].u[a] *= (double)bin;
		}
	tomos_status status =
		tomos_geometry_views(scan, l->rows.shape[1], columns / bin, views, count);
	free(views);
	return status;
}

static tomos_status draw(const view_live *l, const view_request *r, const tomos_geometry *scan,
	int64_t side, float *slice)
{
	tomos_analytic_options options = tomos_analytic_defaults();
	int64_t columns = tomos_geometry_columns(scan);
	const tomos_array *rows = columns < l->rows.shape[2] ? &l->binned : &l->rows;
	const tomos_array picture = tomos_array_of(slice, 1, side, side);
	tomos_grid grid;
	tomos_status status = tomos_grid_for(&grid, scan, NULL);
	if (status != TOMOS_OK)
		return status;
	double step = fabs(grid.step[0]) * (double)columns / (double)side;
	status = tomos_grid_centred(&grid, side, side, 1, step);
	if (r->filter[0])
		options.filter = r->filter;
	if (status == TOMOS_OK)
		status = tomos_fbp(
			l->backend, &grid, scan, rows, &picture, &options, progress_silent());
	return status;
}

tomos_status live_slice(view_live *l, const view_request *r, float **slice, int64_t shape[2])
{
	const tomos_geometry *g = tomos_prepared_geometry(l->prepared);
	int64_t row, rows, last = tomos_geometry_rows(g) - 1;
	int64_t bin = 1, side;
	tomos_geometry *scan = NULL;
	double shift = isnan(r->axis) ? 0 : axis_column(g) - r->axis;
	*slice = NULL;
	tomos_status status = choose_rows(l, r->row < last ? r->row : last, &row, &rows);
	if (status == TOMOS_OK)
		status = read_rows(l, row, rows);
	if (status != TOMOS_OK)
		return status;
	bin = choose_bin(l, r->size, &side);
	status = bin_columns(l, bin);
	if (status == TOMOS_OK)
		status = moved_scan(l, shift, bin, &scan);
	if (status != TOMOS_OK)
		return status;
	shape[0] = shape[1] = side;
	*slice = malloc((size_t)(shape[0] * shape[1]) * sizeof **slice);
	status = *slice ? draw(l, r, scan, shape[0], *slice) : TOMOS_NO_MEMORY;
	tomos_geometry_free(scan);
	return status;
}
