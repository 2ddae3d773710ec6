/* Joseph's forward projection of fans in a single slice. Neighbouring rays are in the SIMD lanes;
 * where their spacing allows, the two pixels of each are selected from two loaded vectors.
 *
 * The slice is copied twice, with its rows and with its columns contiguous: a ray crosses the lines
 * of one copy, those across its dominant axis.
 */
#include <math.h>
#include "backend/cpu/cpu.h"
#include "backend/cpu/level/doubles.h"
#include "backend/cpu/level/stretch.h"

enum { SLICE_FLOATS = 32 << 20, FAN_COLUMNS = 64 /* detector columns per task */ };

typedef struct {
	const ProjectRequest *what;
	int64_t n[2], stride[2]; /* of the box; floats of a line across x (0) and across y (1) */
	int64_t parts;           /* tasks per view */
	float *lines[2];
} Slice;

/* LANES rays: in line k across `axis`, that of lane l is at pixel base[l] + k slope[l]. Lanes
 * beyond the last ray of this axis repeat it, with the length 0. */
typedef struct {
	int axis;
	double base[LANES], slope[LANES];
	float length[LANES];
} Rays;

static int fan_axis(const KernelView *k, double column, double d[2])
{
	for (int a = 0; a < 2; a++)
		d[a] = k->first[a] + column * k->u[a] - k->src[a];
	return fabs(d[0]) >= fabs(d[1]) ? 0 : 1;
}

/* Whether all lines that the rays cross are in front of the source. */
static bool view_fits(const Plan *plan, const KernelView *k)
{
	for (int64_t c = 0; c < plan->model.columns; c++) {
		double d[2];
		int a = fan_axis(k, (double)c, d);
		double last = (double)(plan->grid.n[a] - 1);
		if (!(d[a] > 0 ? k->src[a] < 0 : k->src[a] > last))
			return false;
	}
	return true;
}

bool LEVEL(fan_applies)(const ProjectRequest *what)
{
	const Plan *plan = what->plan;
	if (!plan->model.planar || plan->model.clamp || plan->rays.source <= TOMOS_PARALLEL ||
		plan->grid.n[0] * column_stride(plan->grid.n[1]) > SLICE_FLOATS ||
		plan->grid.n[1] * column_stride(plan->grid.n[0]) > SLICE_FLOATS)
		return false;
	for (int64_t i = what->first; i < what->first + what->count; i++)
		if (!view_fits(plan, &plan->views[i]))
			return false;
	return true;
}

static void line_fill(void *user, int64_t index)
{
	const Slice *s = user;
	int a = index < s->n[0] ? 0 : 1, b = 1 - a;
	int64_t line = a == 0 ? index : index - s->n[0];
	int64_t apart[2] = {1, s->n[0]};
	float *to = s->lines[a] + line * s->stride[a];
	memset(to, 0, (size_t)s->stride[a] * sizeof *to);
	for (int64_t i = 0; i < s->n[b]; i++)
		to[PAD + i] = s->what->volume[line * apart[a] + i * apart[b]];
}

/* The rays of the columns from `column` on that have the dominant axis of the first. Returns their
 * number. */
static int rays_of_columns(
	const Slice *s, const KernelView *k, int64_t column, int64_t end, Rays *r)
{
	const Plan *plan = s->what->plan;
	const int64_t *low = s->what->box.low;
	double d[2];
	int count = 0;
	r->axis = fan_axis(k, (double)column, d);
	int a = r->axis, b = 1 - a;
	for (int l = 0; l < LANES; l++) {
		bool mine =
			count == l && column + l < end && fan_axis(k, (double)(column + l), d) == a;
		count += mine;
		r->slope[l] = mine ? d[b] / d[a] : r->slope[count - 1];
		r->base[l] =
			k->src[b] - (double)low[b] - (k->src[a] - (double)low[a]) * r->slope[l];
		double x = d[0] * plan->whole.step[0], y = d[1] * plan->whole.step[1];
		r->length[l] = mine ? (float)(sqrt(x * x + y * y) / fabs(d[a])) : 0;
	}
	return count;
}

/* Sums of the rays over the lines [first, last). `window`: all pixels of a line that the rays meet
 * are in one window; `down`: the last lane has the lowest position. */
INLINE vf rays_sum(const Slice *s, const Rays *r, int64_t first, int64_t last, const bool window,
	const bool down)
{
	vf sum = {0};
	int64_t n = s->n[1 - r->axis], stride = s->stride[r->axis];
	const float *line = s->lines[r->axis] + first * stride + PAD;
	Doubles place = doubles_load(r->base), slope = doubles_load(r->slope);
	for (int h = 0; h < 2; h++) /* rounding to the nearest becomes rounding down */
		place.half[h] += (double)first * slope.half[h] - 0.5;
	for (int64_t k = first; k < last; k++, line += stride) {
		vf fraction;
		vi at = doubles_round(&place, &fraction);
		fraction = vf_positive(fraction + 0.5F);
		vf low, high;
		if (window) {
			int32_t lowest = down ? at[LANES - 1] : at[0];
			const float *from = line + limit(lowest, -PAD, n);
			low = vf_pick(from, at - lowest);
			high = vf_pick(from, at - lowest + 1);
		} else {
			at = vi_limit(at, -PAD, (int32_t)n);
			low = vf_gather(line, at);
			high = vf_gather(line + 1, at);
		}
		sum += low + fraction * (high - low);
		for (int h = 0; h < 2; h++)
			place.half[h] += slope.half[h];
	}
	return sum;
}

/* Whether no ray meets a pixel of line k. */
static bool rays_miss(const Slice *s, const Rays *r, int64_t k)
{
	double one = r->base[0] + (double)k * r->slope[0];
	double two = r->base[LANES - 1] + (double)k * r->slope[LANES - 1];
	return fmax(one, two) <= -1 || fmin(one, two) >= (double)s->n[1 - r->axis];
}

static vf rays_project(const Slice *s, const Rays *r)
{
	int64_t first = 0, last = s->n[r->axis];
	while (first < last && rays_miss(s, r, first))
		first++;
	while (first < last && rays_miss(s, r, last - 1))
		last--;
	double apart = r->base[LANES - 1] - r->base[0], more = r->slope[LANES - 1] - r->slope[0];
	double widest = fmax(fabs(apart + (double)first * more), fabs(apart + (double)last * more));
	bool down = apart + 0.5 * (double)(first + last) * more < 0;
	if (widest > WINDOW - 4)
		return rays_sum(s, r, first, last, false, false);
	return down ? rays_sum(s, r, first, last, true, true)
		    : rays_sum(s, r, first, last, true, false);
}

static void columns_project(void *user, int64_t index)
{
	const Slice *s = user;
	int64_t columns = s->what->plan->model.columns, view = index / s->parts;
	const KernelView *k = &s->what->plan->views[s->what->first + view];
	float *image = s->what->projections + view * columns;
	int64_t column = index % s->parts * FAN_COLUMNS, end = min64(column + FAN_COLUMNS, columns);
	while (column < end && !cancel_seen()) {
		Rays rays;
		int count = rays_of_columns(s, k, column, end, &rays);
		vf sum = rays_project(s, &rays);
		for (int l = 0; l < count; l++)
			image[column + l] += rays.length[l] * sum[l];
		column += count;
	}
}

tomos_status LEVEL(fan_forward)(const ProjectRequest *what)
{
	const Box *box = &what->box;
	Slice s = {.what = what, .parts = parts(what->plan->model.columns, FAN_COLUMNS)};
	for (int a = 0; a < 2; a++)
		s.n[a] = box->high[a] - box->low[a];
	for (int a = 0; a < 2; a++)
		s.stride[a] = column_stride(s.n[1 - a]);
	TRY(mem_alloc(&s.lines[0], s.n[0] * s.stride[0] + s.n[1] * s.stride[1], sizeof(float),
		"lines of the slice"));
	s.lines[1] = s.lines[0] + s.n[0] * s.stride[0];
	parallel_for(s.n[0] + s.n[1], line_fill, &s);
	parallel_for(what->count * s.parts, columns_project, &s);
	mem_free(s.lines[0]);
	return TOMOS_OK;
}
