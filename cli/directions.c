/* Time of each view against its direction: an image of a hemisphere seen along z, with a table
 * (Nielsen's thesis, figures 8.1 to 8.5). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench.h"

enum { WIDE = 560, TOP = 40, DISC = 480, LEGEND = 30, LINE = 16, LINES = 5, DOT = 8 };
enum { HIGH = TOP + DISC + LEGEND + LINES * LINE + 10 };

int directions_check(const settings *s, const workload *const *chosen, int count)
{
	const char *path = s->bench.by_view;
	if (!path[0])
		return DONE;
	if (count != 1)
		return wrong_usage("--by-view: it is for one workload, not %d", count);
	if (s->bench.json[0])
		return wrong_usage("--by-view: there is no --json of it");
	if (chosen[0]->scan >= CONE || chosen[0]->task > ADJOINT)
		return wrong_usage(
			"--by-view: %s is not one projection along parallel rays", chosen[0]->name);
	return DONE;
}

/* ---- the table ------------------------------------------------------------------------------- */

static int main_axis(const view_time *v)
{
	int axis = 0;
	for (int a = 1; a < 3; a++)
		if (fabs(v->direction[a]) > fabs(v->direction[axis]))
			axis = a;
	return axis;
}

static int by_time(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* Milliseconds of the views along one axis, in order. */
static int64_t along(const view_time *list, int64_t count, int axis, double *times)
{
	int64_t found = 0;
	for (int64_t i = 0; i < count; i++)
		if (axis == 3 || main_axis(&list[i]) == axis)
			times[found++] = 1e3 * list[i].seconds;
	qsort(times, (size_t)found, sizeof *times, by_time);
	return found;
}

/* One line each for views mainly along x, y and z, one for all, one for the spread. */
static int table(const view_time *list, int64_t count, char text[LINES][96])
{
	static const char *const names[4] = {
		"mostly along x", "mostly along y", "mostly along z", "all"};
	double *times = malloc((size_t)count * sizeof *times), low = HUGE_VAL, high = 0;
	if (!times)
		return failed("no memory for %lld times", (long long)count);
	for (int axis = 0; axis < 4; axis++) {
		int64_t n = along(list, count, axis, times);
		double middle = n > 0 ? 0.5 * (times[(n - 1) / 2] + times[n / 2]) : NAN;
		snprintf(text[axis], 96, "%-14s %4lld views  median %8.4f  %8.4f to %8.4f ms",
			names[axis], (long long)n, middle, n > 0 ? times[0] : NAN,
			n > 0 ? times[n - 1] : NAN);
		low = axis < 3 && n > 0 ? fmin(low, middle) : low;
		high = axis < 3 && n > 0 ? fmax(high, middle) : high;
	}
	snprintf(text[4], 96, "the slowest axis takes %.3f times as long as the fastest",
		high / low);
	free(times);
	return DONE;
}

/* ---- the image ------------------------------------------------------------------------------- */

static void spot(float *dots, double x, double y, double radius, float grey)
{
	for (int j = (int)(y - radius); j <= (int)(y + radius) + 1; j++)
		for (int i = (int)(x - radius); i <= (int)(x + radius) + 1; i++)
			if (hypot(i - x, j - y) <= radius && i >= 0 && i < WIDE && j >= 0 &&
				j < HIGH)
				dots[j * WIDE + i] = grey;
}

static void ring(float *dots)
{
	for (int i = 0; i < 4 * DISC; i++) {
		double t = 2 * 3.14159265358979323846 * i / (4 * DISC);
		spot(dots, WIDE / 2.0 + DISC / 2.0 * cos(t), TOP + DISC / 2.0 * (1 - sin(t)), 0.5,
			0.6F);
	}
}

/* Equal-area projection of the sphere to a disc; opposite rays are the same. */
static void draw_view(float *dots, const view_time *v, float grey)
{
	const double *d = v->direction;
	double length = sqrt(d[0] * d[0] + d[1] * d[1] + d[2] * d[2]);
	double sign = d[2] < 0 ? -1 : 1, scale = sign / (length * sqrt(1 + fabs(d[2]) / length));
	double x = WIDE / 2.0 + (DISC / 2.0 - DOT) * scale * d[0];
	double y = TOP + DISC / 2.0 - (DISC / 2.0 - DOT) * scale * d[1];
	spot(dots, x, y, DOT, 0);
	spot(dots, x, y, DOT - 1, grey);
}

/* From white (no time) to black (longest time). */
static void draw_legend(float *dots, double longest)
{
	char words[64];
	int y = TOP + DISC + 12;
	for (int i = 0; i < 200; i++)
		for (int j = 0; j < 10; j++)
			dots[(y + j) * WIDE + 120 + i] = 1 - (float)i / 200;
	picture_text(dots, WIDE, HIGH, 40, y, "0 MS", 0);
	snprintf(words, sizeof words, "%.4f MS", 1e3 * longest);
	picture_text(dots, WIDE, HIGH, 330, y, words, 0);
}

static int draw(const settings *s, const char *title, const view_time *list, int64_t count,
	char text[LINES][96])
{
	float *dots = malloc(sizeof *dots * WIDE * HIGH);
	double longest = 0;
	if (!dots)
		return failed("no memory for an image");
	for (int i = 0; i < WIDE * HIGH; i++)
		dots[i] = 1;
	for (int64_t i = 0; i < count; i++)
		longest = fmax(longest, list[i].seconds);
	picture_text(dots, WIDE, HIGH, 10, 8, title, 0);
	ring(dots);
	for (int64_t i = 0; i < count; i++)
		draw_view(dots, &list[i], (float)(1 - list[i].seconds / longest));
	draw_legend(dots, longest);
	for (int i = 0; i < LINES; i++)
		picture_text(dots, WIDE, HIGH, 10, TOP + DISC + LEGEND + 6 + LINE * i, text[i], 0);
	int code = lib(tomos_picture_write(s->bench.by_view, dots, WIDE, HIGH, 0, 1, &s->file));
	free(dots);
	return code;
}

int directions_run(const settings *s, tomos_backend *backend, const workload *w)
{
	char text[LINES][96];
	view_time *list = calloc((size_t)w->views, sizeof *list);
	int code;
	if (!list)
		return failed("no memory for %lld times", (long long)w->views);
	DO(workload_views(s, backend, w, list));
	progress_clear();
	DO(table(list, w->views, text));
	printf("%s\n", w->name);
	for (int i = 0; i < LINES; i++)
		printf("%s\n", text[i]);
	DO(draw(s, w->name, list, w->views, text));
	say("wrote %s\n", s->bench.by_view);
done:
	free(list);
	return code;
}
