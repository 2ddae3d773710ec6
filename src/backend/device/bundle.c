/* Sorts views by direction and cuts them into bundles; see bundle.h. */
#include <math.h>
#include <stdlib.h>
#include "backend/device/bundle.h"

#define PI 3.14159265358979323846

enum { AIM = 64 }; /* views per bundle: enough for the fixed cost of a bundle to be small */

typedef struct {
	double angle;
	int32_t view;
} Facing;

static int by_angle(const void *one, const void *two)
{
	const Facing *a = one, *b = two;
	return a->angle != b->angle ? (a->angle > b->angle) - (a->angle < b->angle)
				    : a->view - b->view;
}

/* Rays from -45 to 45 degrees are along b, from 45 to 135 degrees along a. */
static double fold(double angle)
{
	angle -= PI * floor((angle + PI / 4) / PI);
	return angle < 3 * PI / 4 ? angle : -PI / 4;
}

static void sort_views(Facing *sorted, const ProjectRequest *what, const HatSlices *l)
{
	for (int64_t i = 0; i < what->count; i++) {
		const double *column = what->plan->views[what->first + i].column;
		sorted[i] = (Facing){fold(atan2(column[l->b], column[l->a])), (int32_t)i};
	}
	qsort(sorted, (size_t)what->count, sizeof *sorted, by_angle);
}

static void add_bundle(Bundles *bundles, const Facing *sorted, int64_t count)
{
	double middle = 0.5 * (sorted[0].angle + sorted[count - 1].angle);
	bool along_b = sorted[0].angle < PI / 4;
	double slope = along_b ? -tan(middle) : -1 / tan(middle);
	Bundle *b = &bundles->list[bundles->count++];
	*b = (Bundle){.along_b = along_b,
		.slope = llrint(ldexp(slope, BUNDLE_SHIFT)),
		.first = bundles->places / BUNDLE_VIEWS,
		.count = (count + BUNDLE_VIEWS - 1) / BUNDLE_VIEWS};
	for (int64_t i = 0; i < b->count * BUNDLE_VIEWS; i++)
		bundles->order[bundles->places++] = i < count ? sorted[i].view : -1;
}

/* Divides the angles of views along the same axis into equal parts. */
static void cut(Bundles *bundles, const Facing *sorted, int64_t count, double width)
{
	double low = sorted[0].angle, range = sorted[count - 1].angle - low;
	double parts = fmax(ceil(range / width), 1), each = fmax(range / parts, 1e-300);
	for (int64_t i = 1, first = 0, part = 0; i <= count; i++) {
		int64_t now = i < count ? (int64_t)fmin((sorted[i].angle - low) / each, parts - 1)
					: (int64_t)parts;
		if (now == part)
			continue;
		add_bundle(bundles, sorted + first, i - first);
		first = i;
		part = now;
	}
}

/* Width in angle for AIM views, if these are evenly spread. */
static double bundle_width(int64_t views)
{
	return fmax(fmin(PI * AIM / (double)views, PI / 8), PI / 32);
}

tomos_status bundles_make(Bundles *bundles, const ProjectRequest *what, const HatSlices *slices)
{
	*bundles = (Bundles){0};
	double width = bundle_width(what->count);
	int64_t most = 2 * ((int64_t)(PI / 2 / width) + 3), split = 0;
	Facing *sorted;
	TRY(mem_alloc(&bundles->list, most, sizeof *bundles->list, "bundles of views"));
	TRY(mem_alloc(&bundles->order, what->count + most * BUNDLE_VIEWS, sizeof *bundles->order,
		"the order of views"));
	TRY(mem_alloc(&sorted, what->count, sizeof *sorted, "directions of views"));
	sort_views(sorted, what, slices);
	while (split < what->count && sorted[split].angle < PI / 4)
		split++;
	if (split > 0)
		cut(bundles, sorted, split, width);
	if (split < what->count)
		cut(bundles, sorted + split, what->count - split, width);
	mem_free(sorted);
	return TOMOS_OK;
}

void bundles_free(Bundles *bundles)
{
	mem_free(bundles->list);
	mem_free(bundles->order);
}
