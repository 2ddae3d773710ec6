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
	bool settled;       /* axis and direction are those that tomos recon uses */
	char why[512];      /* the axis could not be found; "": it was */
	tomos_view *views;  /* of the rows that are kept */
	tomos_array rows;   /* [view][row][column] */
	tomos_array binned; /* averages of `bin` columns each, for smaller pictures */
	int64_t bin;        /* 1: none */
	int64_t row;        /* the first of them; -1: none */
};

/* ---- opening --------------------------------------------------------------------------------- */

static void say_warning(void *user, tomos_level level, const char *line)
{
	(void)user;
	if (level == TOMOS_WARNING)
		message_line(level, line);
}

int live_open(view_live **live, const settings *s)
{
	view_live *l = calloc(1, sizeof *l);
	int code;
	*live = l;
	if (!l)
		return failed("no memory for a scan");
	l->row = -1;
	DO(job_make(s, &l->job));
	l->job.job.axis_later = 1; /* the first pictures do not wait for a search */
	l->job.job.say = say_warning;
	DO(lib(tomos_backend_open(&l->backend, s->backend.backend)));
	DO(lib(tomos_prepared_open(&l->prepared, &l->job.job, progress_silent())));
	l->job.job.say = NULL; /* said once */
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

/* ---- the axis -------------------------------------------------------------------------------- */

static const tomos_geometry *geometry(const view_live *l)
{
	return tomos_prepared_geometry(l->prepared);
}

double live_axis(const view_live *l)
{
	return axis_column(geometry(l));
}

bool live_axis_given(const view_live *l)
{
	return l->job.scan.axis_count > 0;
}

int64_t live_rows(const view_live *l)
{
	return tomos_geometry_rows(geometry(l));
}

bool live_point(const view_live *l)
{
	return scan_point_source(geometry(l));
}

/* Opens the scan as tomos recon does: the axis, where it is not known, is searched for, and the
 * direction of rotation. Where the search fails, the scan stays as it is, and `why` says why. */
static tomos_status settle(view_live *l)
{
	tomos_prepared *opened;
	if (l->settled)
		return TOMOS_OK;
	l->job.job.axis_later = 0;
	tomos_status status = tomos_prepared_open(&opened, &l->job.job, progress_silent());
	if (status == TOMOS_CANCELLED || status == TOMOS_NO_MEMORY)
		return status;
	l->settled = true;
	if (status != TOMOS_OK) {
		message_typed(tomos_message(), l->why, sizeof l->why);
		return TOMOS_OK;
	}
	tomos_prepared_close(l->prepared);
	l->prepared = opened;
	l->row = -1; /* the views have moved */
	return TOMOS_OK;
}

static void typed_or_empty(const char *line, char *text, size_t size)
{
	text[0] = 0;
	if (line)
		message_line_typed(line, text, size);
}

tomos_status live_find(view_live *l, view_axis *axis)
{
	tomos_axis found = {.bytes = sizeof found};
	tomos_status status = settle(l);
	*axis = (view_axis){.column = NAN, .error = NAN};
	if (status != TOMOS_OK)
		return status;
	snprintf(axis->why, sizeof axis->why, "%s", l->why);
	if (axis->why[0])
		return TOMOS_OK;
	axis->column = live_axis(l);
	if (tomos_prepared_searched(l->prepared, &found))
		axis->error = found.error;
	axis->reversed = found.reversed;
	typed_or_empty(tomos_prepared_warning(l->prepared), axis->warning, sizeof axis->warning);
	return TOMOS_OK;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Row that a point projects to, as a real number; false: it is not in front of the source. */
static bool project(const tomos_view *w, const double point[3], double *row)
{
	const double *s = w->src, *u = w->u, *v = w->v;
	const double n[3] = {
		u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]};
	double way = 0, far = 0, along[2] = {0, 0}, uu = 0, uv = 0, vv = 0;
	for (int a = 0; a < 3; a++) {
		way += (point[a] - s[a]) * n[a];
		far += (w->det[a] - s[a]) * n[a];
	}
	double depth = way / far;
	for (int a = 0; a < 3; a++) {
		double place = s[a] + (point[a] - s[a]) / depth - w->det[a];
		along[0] += place * u[a];
		along[1] += place * v[a];
		uu += u[a] * u[a];
		uv += u[a] * v[a];
		vv += v[a] * v[a];
	}
	*row = (along[1] * uu - along[0] * uv) / (uu * vv - uv * uv);
	return depth > 0.01 && isfinite(*row);
}

/* Rows that a slice of this grid at height z needs: those that the corners of its voxels project
 * to. */
static void cone_rows(
	const tomos_geometry *g, const tomos_grid *grid, double z, int64_t *row, int64_t *rows)
{
	double low = HUGE_VAL, high = -HUGE_VAL, all = (double)tomos_geometry_rows(g), at;
	for (int64_t i = 0; i < tomos_geometry_count(g); i++)
		for (int corner = 0; corner < 4; corner++) {
			const double end[2] = {corner & 1 ? (double)grid->n[0] - 0.5 : -0.5,
				corner & 2 ? (double)grid->n[1] - 0.5 : -0.5};
			const double point[3] = {grid->first[0] + end[0] * grid->step[0],
				grid->first[1] + end[1] * grid->step[1], z};
			bool seen = project(&tomos_geometry_list(g)[i], point, &at);
			low = seen ? fmin(low, at) : -all;
			high = seen ? fmax(high, at) : all;
		}
	low = fmin(fmax(floor(low + 0.5 * (all - 1)) - 1, 0), all - 1);
	high = fmin(fmax(ceil(high + 0.5 * (all - 1)) + 1, low), all - 1);
	*row = (int64_t)low;
	*rows = (int64_t)(high - low) + 1;
}

/* The slice of tomos recon that has the number of the row, and the rows it needs. */
static void choose_rows(
	const view_live *l, int64_t wanted, tomos_grid *grid, int64_t *row, int64_t *rows)
{
	const tomos_geometry *g = geometry(l);
	int64_t all = tomos_geometry_rows(g);
	*row = wanted;
	*rows = 1;
	double slice = all > 1 ? (double)(wanted * (grid->n[2] - 1)) / (double)(all - 1) : 0;
	double z = grid->first[2] + slice * grid->step[2];
	bool cone = tomos_geometry_list(g)[0].src[3] == TOMOS_POINT;
	if (cone)
		cone_rows(g, grid, z, row, rows);
	grid->n[2] = 1;
	grid->first[2] = cone ? z : 0; /* views of one row are moved there */
}

static tomos_status read_rows(view_live *l, int64_t row, int64_t rows)
{
	const tomos_geometry *g = geometry(l);
	int64_t views = tomos_geometry_count(g), columns = tomos_geometry_columns(g);
	if (l->row == row && l->rows.data && l->rows.shape[1] == rows)
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

/* Columns that are averaged, so that voxels are as large as pixels, and the voxels of the picture:
 * as wide as is wanted, or as is soon done. */
static int64_t choose_bin(const view_live *l, int64_t wanted, tomos_grid *grid)
{
	int64_t columns = l->rows.shape[2], bin = 1;
	double most = sqrt(MOST_WORK / (double)l->rows.shape[0]);
	while (wanted == 0 && (double)(grid->n[0] / bin) > most &&
		columns / (bin + 1) >= LEAST_SIDE)
		bin++;
	if (wanted > 0)
		bin = grid->n[0] > wanted ? grid->n[0] / wanted : 1;
	bin = bin < columns ? bin : columns;
	double scale = wanted > 0 ? (double)grid->n[0] / (double)wanted : (double)bin;
	for (int a = 0; a < 2; a++) {
		double first = grid->first[a] - 0.5 * grid->step[a];
		double whole = (double)grid->n[a] * grid->step[a];
		grid->n[a] = (int64_t)fmax(1, floor((double)grid->n[a] / scale + 1e-9));
		grid->step[a] *= scale;
		grid->first[a] = first + 0.5 * (whole - (double)(grid->n[a] - 1) * grid->step[a]);
	}
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

/* Views with their detectors moved along the rows by `shift` columns, and pixels of `bin` columns
 * each, the last ones left out. */
static tomos_status moved_views(const tomos_view *list, int64_t count, int64_t rows,
	int64_t columns, double shift, int64_t bin, tomos_geometry **scan)
{
	tomos_view *views = malloc((size_t)count * sizeof *views);
	if (!views)
		return TOMOS_NO_MEMORY;
	memcpy(views, list, (size_t)count * sizeof *views);
	shift -= 0.5 * (double)(columns % bin);
	for (int64_t i = 0; i < count; i++)
		for (int a = 0; a < 3; a++) {
			views[i].det[a] += shift * views[i].u[a];
			views[i].u[a] *= (double)bin;
		}
	tomos_status status = tomos_geometry_views(scan, rows, columns / bin, views, count);
	free(views);
	return status;
}

static tomos_status draw(const view_live *l, const view_request *r, const tomos_geometry *scan,
	const tomos_grid *grid, float *slice)
{
	tomos_analytic_options options = tomos_analytic_defaults();
	bool binned = tomos_geometry_columns(scan) < l->rows.shape[2];
	const tomos_array picture = tomos_array_of(slice, 1, grid->n[1], grid->n[0]);
	if (r->filter[0])
		options.filter = r->filter;
	return tomos_fbp(l->backend, grid, scan, binned ? &l->binned : &l->rows, &picture, &options,
		progress_silent());
}

/* The grid of tomos recon for this axis. */
static tomos_status whole_grid(const view_live *l, double shift, tomos_grid *grid)
{
	const tomos_geometry *g = geometry(l);
	tomos_geometry *moved;
	tomos_status status = moved_views(tomos_geometry_list(g), tomos_geometry_count(g),
		tomos_geometry_rows(g), tomos_geometry_columns(g), shift, 1, &moved);
	if (status != TOMOS_OK)
		return status;
	status = tomos_grid_for(grid, moved, NULL);
	tomos_geometry_free(moved);
	return status;
}

/* As tomos recon has it; a search comes first where nothing would be right without it. */
tomos_status live_slice(view_live *l, const view_request *r, float **slice, int64_t shape[2])
{
	int64_t row, rows;
	tomos_geometry *scan = NULL;
	tomos_grid grid;
	*slice = NULL;
	bool first = live_point(l) || live_axis_given(l);
	tomos_status status = first ? settle(l) : TOMOS_OK;
	double shift = isnan(r->axis) ? 0 : live_axis(l) - r->axis;
	if (status == TOMOS_OK)
		status = whole_grid(l, shift, &grid);
	if (status != TOMOS_OK)
		return status;
	choose_rows(l, r->row, &grid, &row, &rows);
	status = read_rows(l, row, rows);
	if (status != TOMOS_OK)
		return status;
	int64_t bin = choose_bin(l, r->size, &grid);
	status = bin_columns(l, bin);
	if (status == TOMOS_OK)
		status = moved_views(
			l->views, l->rows.shape[0], rows, l->rows.shape[2], shift, bin, &scan);
	if (status != TOMOS_OK)
		return status;
	shape[0] = grid.n[1];
	shape[1] = grid.n[0];
	*slice = malloc((size_t)(shape[0] * shape[1]) * sizeof **slice);
	status = *slice ? draw(l, r, scan, &grid, *slice) : TOMOS_NO_MEMORY;
	tomos_geometry_free(scan);
	return status;
}
