/* A cone beam scan averaged to few pixels and views. */
#include <stdlib.h>
#include <string.h>
#include "prep/pose.h"

static int by_angle(const void *a, const void *b)
{
	const AxisView *x = a, *y = b;
	int side = (x->angle > y->angle) - (x->angle < y->angle);
	return side ? side : (x->view > y->view) - (x->view < y->view);
}

/* Angles as if they went on after a full turn, from the view after the widest gap. */
static tomos_status sort_views(const Orbit *o, AxisView **sorted)
{
	int64_t start = 0, n = o->views;
	double widest = 0;
	TRY(mem_alloc(sorted, n, sizeof **sorted, "sorted angles"));
	for (int64_t i = 0; i < n; i++) {
		double angle = fmod(o->angles[i], 2 * M_PI);
		(*sorted)[i] = (AxisView){angle < 0 ? angle + 2 * M_PI : angle, i};
	}
	qsort(*sorted, (size_t)n, sizeof **sorted, by_angle);
	for (int64_t i = 0; i < n; i++) {
		double before = i ? (*sorted)[i - 1].angle : (*sorted)[n - 1].angle - 2 * M_PI;
		if ((*sorted)[i].angle - before > widest + 1e-9) {
			widest = (*sorted)[i].angle - before;
			start = i;
		}
	}
	for (int64_t i = 0; i < start; i++)
		(*sorted)[i].angle += 2 * M_PI;
	qsort(*sorted, (size_t)n, sizeof **sorted, by_angle);
	return TOMOS_OK;
}

static tomos_status group_views(Coarse *c, const Orbit *scan, int64_t views)
{
	AxisView *sorted;
	int64_t n = scan->views, groups;
	c->together = max64((n + views / 2) / views, 1);
	groups = n / c->together;
	c->orbit.views = groups;
	TRY(mem_zeroed(&c->orbit.angles, groups, sizeof(double), "angles"));
	TRY(mem_alloc(&c->group, n, sizeof *c->group, "groups of views"));
	TRY(sort_views(scan, &sorted));
	for (int64_t i = 0; i < n; i++) {
		int64_t group = i / c->together;
		c->group[sorted[i].view] = group < groups ? group : -1;
		if (group < groups)
			c->orbit.angles[group] += sorted[i].angle / (double)c->together;
	}
	mem_free(sorted);
	return TOMOS_OK;
}

tomos_status coarse_begin(Coarse *c, const Orbit *scan, int64_t columns, int64_t views)
{
	int64_t bin = max64((scan->columns + columns / 2) / columns, scan->rows / (2 * columns));
	bin = max64(bin, 1);
	*c = (Coarse){.bin = bin, .orbit = *scan};
	c->orbit.angles = NULL;
	c->orbit.columns = scan->columns / bin;
	c->orbit.rows = max64(scan->rows / bin, 1);
	c->orbit.width *= (double)bin;
	c->orbit.height *= (double)bin;
	coarse_pose(c, scan->pose, c->orbit.pose);
	tomos_status status = group_views(c, scan, views);
	if (status == TOMOS_OK)
		status = mem_zeroed(&c->data, c->orbit.views * c->orbit.rows * c->orbit.columns,
			sizeof(float), "an averaged scan");
	if (status != TOMOS_OK)
		coarse_free(c);
	return status;
}

void coarse_free(Coarse *c)
{
	orbit_free(&c->orbit);
	mem_free(c->group);
	mem_free(c->data);
	*c = (Coarse){.bin = 0};
}

typedef struct {
	const Coarse *coarse;
	const tomos_array *data;
	int64_t row, first; /* of the scan, and the averaged one it is in */
} Adding;

/* Adds all rows of the scan that are averaged to one. */
static void add_rows(const void *user, int64_t index, float *line)
{
	const Adding *a = user;
	const Coarse *c = a->coarse;
	int64_t n = c->orbit.columns, bin = c->bin, to = a->first + index;
	int64_t from = max64(to * bin - a->row, 0);
	int64_t end = min64((to + 1) * bin - a->row, a->data->shape[1]);
	float share = 1 / (float)(bin * bin * c->together);
	for (int64_t v = 0; v < a->data->shape[0]; v++) {
		float *out = c->data + (c->group[v] * c->orbit.rows + to) * n;
		for (int64_t r = from; r < end && c->group[v] >= 0; r++) {
			row_get(a->data, v, r, line);
			for (int64_t i = 0; i < n; i++) {
				float sum = line[i * bin];
				for (int64_t k = 1; k < bin; k++)
					sum += line[i * bin + k];
				out[i] += share * sum;
			}
		}
	}
}

tomos_status coarse_add(Coarse *c, const tomos_array *data, int64_t row)
{
	Adding a = {c, data, row, row / c->bin};
	int64_t end = min64((row + data->shape[1] - 1) / c->bin + 1, c->orbit.rows);
	return pieces_each(max64(end - a.first, 0), data->shape[2], add_rows, &a);
}

/* (1 4 6 4 1) / 16 along a row; beyond its ends the last values. */
static void smooth_row(float *row, int64_t count)
{
	float a = row[0], b = a; /* the two before */
	for (int64_t i = 0; i < count; i++) {
		float here = row[i], next = row[min64(i + 1, count - 1)];
		float after = row[min64(i + 2, count - 1)];
		row[i] = (a + 4 * b + 6 * here + 4 * next + after) / 16;
		a = b;
		b = here;
	}
}

/* Likewise along the columns, of all rows at once. before: two rows of scratch. */
static void smooth_columns(float *view, int64_t rows, int64_t n, float *before)
{
	float *a = before, *b = before + n;
	memcpy(a, view, (size_t)n * sizeof *a);
	memcpy(b, view, (size_t)n * sizeof *b);
	for (int64_t r = 0; r < rows; r++) {
		float *row = view + r * n;
		const float *next = view + min64(r + 1, rows - 1) * n;
		const float *after = view + min64(r + 2, rows - 1) * n;
		for (int64_t i = 0; i < n; i++) {
			float here = row[i], below = next == row ? here : next[i],
			      last = after == row ? here : after[i];
			row[i] = (a[i] + 4 * b[i] + 6 * here + 4 * below + last) / 16;
			a[i] = b[i];
			b[i] = here;
		}
	}
}

/* scratch: two rows */
static void smooth_view(float *view, int64_t rows, int64_t n, float *scratch)
{
	for (int64_t r = 0; r < rows; r++)
		smooth_row(view + r * n, n);
	smooth_columns(view, rows, n, scratch);
}

static void finish_view(const void *user, int64_t view, float *scratch)
{
	const Coarse *c = user;
	int64_t n = c->orbit.columns, rows = c->orbit.rows;
	smooth_view(c->data + view * rows * n, rows, n, scratch);
}

tomos_status coarse_finish(const Coarse *c)
{
	return pieces_each(c->orbit.views, 2 * c->orbit.columns, finish_view, c);
}

static void sharpen_view(const void *user, int64_t view, float *scratch)
{
	const Coarse *c = user;
	int64_t n = c->orbit.columns, rows = c->orbit.rows;
	float *data = c->data + view * rows * n;
	memcpy(scratch, data, (size_t)(rows * n) * sizeof *scratch);
	smooth_view(scratch, rows, n, scratch + rows * n);
	for (int64_t i = 0; i < rows * n; i++)
		data[i] = 2 * data[i] - scratch[i];
}

tomos_status coarse_sharpen(const Coarse *c)
{
	return pieces_each(c->orbit.views, (c->orbit.rows + 2) * c->orbit.columns, sharpen_view, c);
}

void coarse_pose(const Coarse *c, const double pose[POSE_COUNT], double out[POSE_COUNT])
{
	memcpy(out, pose, POSE_COUNT * sizeof *out);
	for (int i = POSE_AXIS; i <= POSE_ROW; i++)
		out[i] = (pose[i] + 0.5) / (double)c->bin - 0.5;
}

void fine_pose(const Coarse *c, const double pose[POSE_COUNT], double out[POSE_COUNT])
{
	memcpy(out, pose, POSE_COUNT * sizeof *out);
	for (int i = POSE_AXIS; i <= POSE_ROW; i++)
		out[i] = (pose[i] + 0.5) * (double)c->bin - 0.5;
}

/* ---- the scans of a search ------------------------------------------------------------------- */

tomos_status coarse_scans_begin(Coarse scans[COARSE_COUNT], const Orbit *scan)
{
	static const int64_t columns[COARSE_COUNT] = {64, 128, 256};
	static const int64_t views[COARSE_COUNT] = {128, 120, 120};
	tomos_status status = TOMOS_OK;
	for (int i = 0; i < COARSE_COUNT; i++)
		scans[i] = (Coarse){.bin = 0};
	for (int i = 0; i < COARSE_COUNT && status == TOMOS_OK; i++)
		status = coarse_begin(&scans[i], scan, columns[i], views[i]);
	if (status != TOMOS_OK)
		coarse_scans_free(scans);
	return status;
}

tomos_status coarse_scans_add(Coarse scans[COARSE_COUNT], const tomos_array *data, int64_t row)
{
	for (int i = 0; i < COARSE_COUNT; i++)
		TRY(coarse_add(&scans[i], data, row));
	return TOMOS_OK;
}

tomos_status coarse_scans_finish(Coarse scans[COARSE_COUNT])
{
	for (int i = 0; i < COARSE_COUNT; i++)
		TRY(coarse_finish(&scans[i]));
	for (int i = COARSE_PLANES; i < COARSE_COUNT; i++) {
		TRY(coarse_sharpen(&scans[i]));
		TRY(coarse_clear_air(&scans[i]));
	}
	return TOMOS_OK;
}

void coarse_scans_free(Coarse scans[COARSE_COUNT])
{
	for (int i = 0; i < COARSE_COUNT; i++)
		coarse_free(&scans[i]);
}
