/* Time of each view against its direction: an image of a hemisphere seen along z, with a table
 * (Nielsen's thesis, figures 8.1 to 8.5). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench.h"
#include "canvas.h"

enum { WIDE = 560, TOP = 40, DISC = 480, LEGEND = 40, LINE = 18, LINES = 5, DOT = 8, BAR = 200 };
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

static void ring(canvas *c)
{
	enum { COUNT_OF = 180 };
	double points[2 * (COUNT_OF + 1)];
	for (int i = 0; i <= COUNT_OF; i++) {
		double t = 2 * 3.14159265358979323846 * i / COUNT_OF;
		points[2 * i] = WIDE / 2.0 + DISC / 2.0 * cos(t);
		points[2 * i + 1] = TOP + DISC / 2.0 * (1 - sin(t));
	}
	canvas_line(c, points, COUNT_OF + 1, (stroke){SOFT, 1, 0});
}

/* A square of one grey. */
static void patch(canvas *c, double x, double y, double wide, double high, double share)
{
	const unsigned char grey = (unsigned char)(255 - 255 * share + 0.5);
	const bitmap one = {&grey, 1, 1, 1};
	canvas_image(c, x, y, wide, high, &one);
}

/* Equal-area projection of the sphere to a disc; opposite rays are the same. */
static void draw_view(canvas *c, const view_time *v, double share)
{
	const double *d = v->direction;
	double length = sqrt(d[0] * d[0] + d[1] * d[1] + d[2] * d[2]);
	double sign = d[2] < 0 ? -1 : 1, scale = sign / (length * sqrt(1 + fabs(d[2]) / length));
	double x = WIDE / 2.0 + (DISC / 2.0 - DOT) * scale * d[0];
	double y = TOP + DISC / 2.0 - (DISC / 2.0 - DOT) * scale * d[1];
	canvas_box(c, x - DOT, y - DOT, 2 * DOT, 2 * DOT, INK);
	patch(c, x - DOT + 1, y - DOT + 1, 2 * DOT - 2, 2 * DOT - 2, share);
}

/* From white (no time) to black (longest time). */
static void draw_legend(canvas *c, double longest)
{
	const lettering plain = {13, 0, INK, false, false};
	char words[64];
	double y = TOP + DISC + 12;
	for (int i = 0; i < BAR; i++)
		patch(c, 120 + i, y, 1, 12, (double)i / BAR);
	canvas_text(c, 70, y + 11, "0 ms", plain);
	snprintf(words, sizeof words, "%.4f ms", 1e3 * longest);
	canvas_text(c, 130 + BAR, y + 11, words, plain);
}

static int draw(const settings *s, const char *title, const view_time *list, int64_t count,
	char text[LINES][96])
{
	const lettering plain = {12, 0, INK, false, false};
	double longest = 0;
	canvas c;
	for (int64_t i = 0; i < count; i++)
		longest = fmax(longest, list[i].seconds);
	canvas_open(&c, s->bench.by_view, WIDE, HIGH, 2);
	canvas_text(&c, 10, 22, title, (lettering){14, 0, INK, false, true});
	ring(&c);
	for (int64_t i = 0; i < count; i++)
		draw_view(&c, &list[i], list[i].seconds / longest);
	draw_legend(&c, longest);
	for (int i = 0; i < LINES; i++)
		canvas_text(&c, 10, TOP + DISC + LEGEND + 14 + LINE * i, text[i], plain);
	return canvas_write(&c, s->bench.by_view, &s->file);
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
