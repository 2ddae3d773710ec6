/* A cone beam scan averaged to few pixels and views. */
#include <stdlib.h>
#include <string.h>
#include "prep/pose.h"

enum { COLUMNS = 64 };

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

static tomos_status group_views(Coarse *c, const Orbit *scan)
{
	AxisView *sorted;
	int64_t n = scan->views, groups;
	c->together = max64((n + c->orbit.columns) / (2 * c->orbit.columns), 1);
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

tomos_status coarse_begin(Coarse *c, const Orbit *scan)
{
	int64_t bin = max64((scan->columns + COLUMNS / 2) / COLUMNS, 1);
	*c = (Coarse){.bin = bin, .orbit = *scan};
	c->orbit.angles = NULL;
	c->orbit.columns = scan->columns / bin;
	c->orbit.rows = max64(scan->rows / bin, 1);
	c->orbit.width *= (double)bin;
	c->orbit.height *= (double)bin;
	coarse_pose(c, scan->pose, c->orbit.pose);
	tomos_status status = group_views(c, scan);
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

tomos_status coarse_add(Coarse *c, const tomos_array *data, int64_t row)
{
	int64_t n = c->orbit.columns, rows = c->orbit.rows;
	float share = 1 / (float)(c->bin * c->bin * c->together), *line;
	TRY(mem_alloc(&line, data->shape[2], sizeof *line, "a row"));
	for (int64_t v = 0; v < data->shape[0]; v++)
		for (int64_t r = 0; r < data->shape[1]; r++) {
			int64_t group = c->group[v], to = (row + r) / c->bin;
			if (group < 0 || to >= rows)
				continue;
			float *out = c->data + (group * rows + to) * n;
			row_get(data, v, r, line);
			for (int64_t i = 0; i < n * c->bin; i++)
				out[i / c->bin] += share * line[i];
		}
	mem_free(line);
	return TOMOS_OK;
}

/* (1 4 6 4 1) / 16 along `count` values `stride` apart. */
static void smooth(float *values, int64_t count, int64_t stride)
{
	float a = values[0], b = a; /* the two before */
	for (int64_t i = 0; i < count; i++) {
		float here = values[i * stride], next = values[min64(i + 1, count - 1) * stride];
		float after = values[min64(i + 2, count - 1) * stride];
		values[i * stride] = (a + 4 * b + 6 * here + 4 * next + after) / 16;
		a = b;
		b = here;
	}
}

void coarse_finish(Coarse *c)
{
	int64_t n = c->orbit.columns, rows = c->orbit.rows;
	for (int64_t v = 0; v < c->orbit.views; v++) {
		float *view = c->data + v * rows * n;
		for (int64_t r = 0; r < rows; r++)
			smooth(view + r * n, n, 1);
		for (int64_t i = 0; i < n; i++)
			smooth(view + i, rows, n);
	}
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
