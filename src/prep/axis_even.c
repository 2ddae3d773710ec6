/* Views at uneven or repeated angles (golden ratio, several turns, views left out) become views at
 * even ones: equal angles are averaged, and neighbours interpolated. Half of the angles at a time
 * show how much the result depends on that. */
#include <stdlib.h>
#include <string.h>
#include "prep/axis.h"

#define EQUAL 1e-7                   /* radians: the same angle */
#define UNEVEN 0.3                   /* of the typical step */
#define WIDEST_GAP (15 * M_PI / 180) /* nothing is interpolated across more */

/* The groups of equal angles in order, the first behind the widest gap, angles increasing. */
typedef struct {
	int64_t count;
	double *angles;
	int64_t *first, *last; /* sorted views first[i] .. last[i] */
} Groups;

static void groups_free(Groups *g)
{
	mem_free(g->angles);
	mem_free(g->first);
	mem_free(g->last);
}

static int64_t after_widest(const AxisView *v, int64_t count)
{
	int64_t start = 0;
	double widest = v[0].angle + 2 * M_PI - v[count - 1].angle;
	for (int64_t i = 1; i < count; i++)
		if (v[i].angle - v[i - 1].angle > widest + EQUAL) {
			widest = v[i].angle - v[i - 1].angle;
			start = i;
		}
	return start;
}

static tomos_status groups_make(Groups *g, AxisView *v, int64_t count)
{
	int64_t start = after_widest(v, count);
	AxisView *rotated;
	TRY(mem_alloc(&g->angles, count, sizeof *g->angles, "angles"));
	TRY(mem_alloc(&g->first, count, sizeof *g->first, "angles"));
	TRY(mem_alloc(&g->last, count, sizeof *g->last, "angles"));
	TRY(mem_alloc(&rotated, count, sizeof *rotated, "sorted angles"));
	for (int64_t i = 0; i < count; i++) {
		rotated[i] = v[(start + i) % count];
		rotated[i].angle += start + i >= count ? 2 * M_PI : 0;
	}
	memcpy(v, rotated, (size_t)count * sizeof *v);
	mem_free(rotated);
	for (int64_t i = 0; i < count; i++) {
		if (i == 0 || v[i].angle - g->angles[g->count - 1] > EQUAL) {
			g->angles[g->count] = v[i].angle;
			g->first[g->count++] = i;
		}
		g->last[g->count - 1] = i;
	}
	return TOMOS_OK;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* Every other group. Views of the others are skipped: `last` is where each ends. */
static void halve(Groups *g, int64_t odd)
{
	int64_t count = 0;
	for (int64_t i = odd; i < g->count; i += 2, count++) {
		g->angles[count] = g->angles[i];
		g->last[count] = g->last[i];
		g->first[count] = g->first[i];
	}
	g->count = count;
}

/* The typical step between angles, the widest, and how many differ from the typical one or are
 * between equal angles. */
static tomos_status measure(
	const Groups *g, int64_t views, double *step, double *widest, int64_t *odd)
{
	int64_t count = g->count - 1;
	double *gaps;
	*step = *widest = 0;
	*odd = views - g->count;
	if (count < 1)
		return TOMOS_OK;
	TRY(mem_alloc(&gaps, count, sizeof *gaps, "steps between angles"));
	for (int64_t i = 0; i < count; i++)
		gaps[i] = g->angles[i + 1] - g->angles[i];
	qsort(gaps, (size_t)count, sizeof *gaps, by_value);
	*step = gaps[count / 2];
	*widest = gaps[count - 1];
	for (int64_t i = 0; i < count; i++)
		*odd += fabs(gaps[i] - *step) > UNEVEN * *step;
	mem_free(gaps);
	return TOMOS_OK;
}

/* Adds a share of the mean view of a group. */
static void add_group(const AxisProblem *p, const AxisView *v, const Groups *g, int64_t group,
	double share, float *out)
{
	const int64_t *n = p->data->shape, *stride = p->data->stride;
	int64_t count = g->last[group] - g->first[group] + 1;
	float weight = (float)(share / (double)count);
	for (int64_t i = g->first[group]; i <= g->last[group]; i++)
		for (int64_t r = 0; r < n[1]; r++)
			for (int64_t c = 0; c < n[2]; c++)
				out[r * n[2] + c] +=
					weight * p->data->data[v[i].view * stride[0] +
							       r * stride[1] + c * stride[2]];
}

/* Views at the first angle and every `step` after it, each between its two neighbours. */
static void interpolate(const AxisProblem *p, const AxisView *v, const Groups *g, double step,
	int64_t count, AxisEven *even)
{
	int64_t size = p->data->shape[1] * p->data->shape[2], low = 0;
	for (int64_t i = 0; i < count; i++) {
		double angle = g->angles[0] + step * (double)i;
		while (low + 2 < g->count && g->angles[low + 1] <= angle)
			low++;
		double part = (angle - g->angles[low]) / (g->angles[low + 1] - g->angles[low]);
		part = fmin(fmax(part, 0), 1);
		even->angles[i] = angle;
		add_group(p, v, g, low, 1 - part, even->data + i * size);
		add_group(p, v, g, low + 1, part, even->data + i * size);
	}
}

static tomos_status make(AxisProblem *p, AxisView *v, int half, AxisEven *even)
{
	const int64_t *n = p->data->shape;
	Groups g = {.count = 0};
	double step, widest;
	int64_t odd, count;
	tomos_status status;
	TRY_OR_DONE(groups_make(&g, v, n[0]));
	TRY_OR_DONE(measure(&g, n[0], &step, &widest, &odd));
	if (odd <= max64(2, n[0] / 50) || g.count < 8)
		goto done;
	if (half)
		halve(&g, half - 1);
	if (widest > fmax(WIDEST_GAP, 8 * step)) {
		status = fail(TOMOS_BAD_VALUE,
			"the views leave out %.4g degrees between others; the search needs views "
			"at even steps, or uneven ones without such gaps",
			widest * 180 / M_PI);
		goto done;
	}
	double arc = g.angles[g.count - 1] - g.angles[0];
	count = g.count;
	TRY_OR_DONE(mem_zeroed(
		&even->data, count * n[1] * n[2], sizeof *even->data, "views at even angles"));
	TRY_OR_DONE(mem_alloc(&even->angles, count, sizeof *even->angles, "even angles"));
	interpolate(p, v, &g, arc / (double)(count - 1), count, even);
	even->array = tomos_array_of(even->data, count, n[1], n[2]);
	p->data = &even->array;
	p->angles = even->angles;
done:
	groups_free(&g);
	return status;
}

tomos_status axis_even(AxisProblem *p, int half, AxisEven *even)
{
	AxisView *views;
	double step;
	*even = (AxisEven){.data = NULL};
	TRY(axis_sort(p, &views, &step));
	tomos_status status = make(p, views, half, even);
	mem_free(views);
	return status;
}

void axis_even_free(AxisEven *even)
{
	mem_free(even->data);
	mem_free(even->angles);
}
