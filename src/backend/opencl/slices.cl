/* Voxel-driven back projection of in-slice rays, parallel or fan: the columns that a square of
 * pixels needs are kept in local memory, four slices in a vector, some views at a time;
 * interpolation by arithmetic.
 *
 * S. Chilingaryan et al., Reviewing GPU architectures to build efficient back projection for
 * parallel geometries, J. Real-Time Image Process. 17 (2020), section 6.
 */
#include "backend/opencl/device.cl"
#define KERNEL_ADD(pointer, value) (*(pointer) += (value))
#include "kernel/portable.h"

/* As in slices.c: pixels per side of a group, slices. */
#define SIDE 32
#define VIEWS 8
#define PIXELS (SIDE / HIGH) /* per work-item */
/* Columns of a view in local memory; magnified fans need more. */
#define COLUMNS 48
#define FAN_COLUMNS 64
/* Layout of slices; see HatSlices. */
typedef struct {
	int s, a, b, sign;
	long row;
} Slices;

/* The request. */
typedef struct {
	KernelGrid grid;
	KernelModel model;
	Slices l;
	int columns; /* of a view in local memory */
	int size[2]; /* pixels of the group inside the box */
} Request;

static inline Request request_of(KernelGrid grid, KernelModel model, Slices l, int columns)
{
	const int axes[2] = {l.a, l.b};
	Request r = {grid, model, l, columns, {SIDE, SIDE}};
	for (int i = 0; i < 2; i++) {
		long left = grid.high[axes[i]] - grid.low[axes[i]] - (long)get_group_id(i) * SIDE;
		r.size[i] = (int)min((long)SIDE, left);
	}
	return r;
}

/* First pixel of a work-item, relative to the centre of the group. */
static inline float item(const Request *r, int dimension)
{
	return (float)((int)get_local_id(dimension) - r->size[dimension] / 2);
}

/* A view relative to a group: its first column in local memory; pixel (x, y) falls on column (e +
 * ea x + eb y) / (d + da x + db y), both relative to the centre, where floats are most accurate;
 * fans: distance of the centre from the source. */
typedef struct {
	float e, ea, eb, d, da, db, weight, away[2];
	long first;
	int wide; /* needs more columns than fit into local memory */
} Seen;

static inline double affine(global const double *f, const Slices *l, double a, double b)
{
	return f[l->a] * a + f[l->b] * b + f[3];
}

/* Positions off the detector are clamped. */
static inline Seen see(global const KernelView *view, const Request *r, long a0, long b0)
{
	const Slices *l = &r->l;
	const int half_a = r->size[0] / 2, half_b = r->size[1] / 2;
	const double a = (double)(r->grid.low[l->a] + a0 + half_a);
	const double b = (double)(r->grid.low[l->b] + b0 + half_b);
	double least = 1e9, most = -1e9, depth = affine(view->depth, l, a, b);
	for (int corner = 0; corner < 4; corner++) {
		double x = a + (corner & 1 ? r->size[0] - 1 - half_a : -half_a);
		double y = b + (corner & 2 ? r->size[1] - 1 - half_b : -half_b);
		double D = affine(view->depth, l, x, y);
		double at = affine(view->column, l, x, y) / D;
		least = D > 0 ? fmin(least, at) : -1e9;
		most = D > 0 ? fmax(most, at) : 1e9;
	}
	const int wide = most - floor(least) > (double)(r->columns - 4);
	/* Rounded, so that both sides have half of the columns. */
	double first = rint(0.5 * (least + most)) - r->columns / 2;
	first = fmax(fmin(first, (double)r->model.columns), (double)-r->columns);
	double middle = first + r->columns / 2;
	Seen seen = {(float)(affine(view->column, l, a, b) - middle * depth),
		(float)(view->column[l->a] - middle * view->depth[l->a]),
		(float)(view->column[l->b] - middle * view->depth[l->b]), (float)depth,
		(float)view->depth[l->a], (float)view->depth[l->b],
		r->model.weight == WEIGHT_RAY ? (float)view->mass : 1,
		{(float)((a - view->src[l->a]) * r->grid.step[l->a]),
			(float)((b - view->src[l->b]) * r->grid.step[l->b])},
		(long)first, wide};
	return seen;
}

/* One column of up to four slices; zeros off the detector. */
static inline float4 take(
	global const float *from, const Request *r, long row, int slices, long column, float weight)
{
	float x[4] = {0, 0, 0, 0};
	if (column >= 0 && column < r->model.columns)
		for (int i = 0; i < slices; i++) {
			long line = row + i * r->l.sign;
			if (line >= 0 && line < r->model.rows)
				x[i] = weight * from[line * r->model.columns + column];
		}
	return (float4)(x[0], x[1], x[2], x[3]);
}

static inline float4 interpolate(local const float4 *row, float at, int middle)
{
	float low = clamp(floor(at), (float)-middle, (float)(middle - 2));
	local const float4 *x = row + middle + (int)low;
	return mix(x[0], x[1], at - low);
}

/* The same from global memory. */
static inline float4 interpolate_far(
	global const float *from, const Request *r, long row, int slices, const Seen *v, float at)
{
	const float low = floor(at);
	const long column = v->first + r->columns / 2 + (long)low;
	return mix(take(from, r, row, slices, column, 1), take(from, r, row, slices, column + 1, 1),
		at - low);
}

/* Weight of a pixel in a view of fans, at rate 1 / D. */
static inline float fan_weight(const Request *r, const Seen *v, float x, float y, float rate)
{
	if (r->model.weight == WEIGHT_NONE)
		return 1;
	if (r->model.weight == WEIGHT_DEPTH)
		return rate * rate;
	float a = v->away[0] + x * (float)r->grid.step[r->l.a];
	float b = v->away[1] + y * (float)r->grid.step[r->l.b];
	return v->weight * rate * rate * sqrt(a * a + b * b);
}

/* Adds a view to the sums; `from`: its pixels, `kept`: the columns in local memory. */
static inline void add_rays(
	const Request *r, const Seen *v, local const float4 *kept, float4 sums[PIXELS])
{
	float e = v->e + v->ea * item(r, 0) + v->eb * item(r, 1);
	for (int p = 0; p < PIXELS; p++)
		sums[p] += interpolate(kept, e + v->eb * (p * HIGH), r->columns / 2);
}

static inline void add_fans(const Request *r, const Seen *v, local const float4 *kept,
	global const float *from, long row, int slices, float4 sums[PIXELS])
{
	const float x = item(r, 0);
	for (int p = 0; p < PIXELS; p++) {
		const float y = item(r, 1) + p * HIGH, D = fma(v->da, x, fma(v->db, y, v->d));
		const float rate = D > 0 ? 1 / D : 0, E = fma(v->ea, x, fma(v->eb, y, v->e));
		const float near = E * rate, e = fma(fma(-near, D, E), rate, near);
		const float4 value = v->wide ? interpolate_far(from, r, row, slices, v, e)
					     : interpolate(kept, e, r->columns / 2);
		if (D > 0)
			sums[p] += fan_weight(r, v, x, y, rate) * value;
	}
}

static inline void add_to(const Request *r, global float *volume, long a0, long b0, long slice,
	int slices,
	const float4 sums[PIXELS])
{
	const KernelGrid *grid = &r->grid;
	const Slices *l = &r->l;
	const long a = a0 + get_local_id(0), strides[3] = {1, grid->high[0] - grid->low[0],
		(grid->high[0] - grid->low[0]) * (grid->high[1] - grid->low[1])};
	if (a >= grid->high[l->a] - grid->low[l->a])
		return;
	for (int p = 0; p < PIXELS; p++) {
		long b = b0 + get_local_id(1) + p * HIGH;
		if (b >= grid->high[l->b] - grid->low[l->b])
			return;
		global float *to = volume + a * strides[l->a] + b * strides[l->b] +
				   slice * strides[l->s];
		const float x[4] = {sums[p].x, sums[p].y, sums[p].z, sums[p].w};
		for (int i = 0; i < slices; i++)
			to[i * strides[l->s]] += x[i];
	}
}

/* `fans` is a constant at every call; rows and seen: local memory for VIEWS views. */
static inline void back(const Request *r, const int fans, global const KernelView *views,
	long count,
	global float *volume, global const float *projections, local float4 *rows, local Seen *seen)
{
	const int own = (int)(get_local_id(1) * WIDE + get_local_id(0)), columns = r->columns;
	const long a0 = (long)get_group_id(0) * SIDE, b0 = (long)get_group_id(1) * SIDE;
	const long slice = (long)get_group_id(2) * 4;
	const long all = r->grid.high[r->l.s] - r->grid.low[r->l.s];
	const int slices = (int)min(4L, all - slice);
	const long row = r->l.row + r->l.sign * (r->grid.low[r->l.s] + slice);
	const long pixels = r->model.rows * r->model.columns;
	float4 sums[PIXELS];
	for (int p = 0; p < PIXELS; p++)
		sums[p] = (float4)(0);
	for (long at = 0; at < count; at += VIEWS) {
		const int some = (int)min((long)VIEWS, count - at);
		barrier(CLK_LOCAL_MEM_FENCE);
		if (own < some)
			seen[own] = see(&views[at + own], r, a0, b0);
		barrier(CLK_LOCAL_MEM_FENCE);
		for (int i = own; i < some * columns; i += WIDE * HIGH) {
			int v = i / columns;
			rows[i] = take(projections + (at + v) * pixels, r, row, slices,
				seen[v].first + i % columns, fans ? 1 : seen[v].weight);
		}
		barrier(CLK_LOCAL_MEM_FENCE);
		for (int v = 0; v < some; v++) {
			const Seen one = seen[v];
			if (fans)
				add_fans(r, &one, rows + v * columns,
					projections + (at + v) * pixels, row,
					slices, sums);
			else
				add_rays(r, &one, rows + v * columns, sums);
		}
	}
	add_to(r, volume, a0, b0, slice, slices, sums);
}

#define BACK(name, fans, columns) \
	PLANE do_##name(KernelGrid grid, KernelModel model, global const KernelView *views, \
		long first, long count, global float *volume, long volume0, \
		global const float *projections, long projections0, Slices l) \
	{ \
		local float4 rows[VIEWS * (columns)]; \
		local Seen seen[VIEWS]; \
		const Request request = request_of(grid, model, l, columns); \
		back(&request, fans, views + first, count, volume + volume0, \
			projections + projections0, rows, seen); \
	}

BACK(slices_back, 0, COLUMNS)
BACK(fans_back, 1, FAN_COLUMNS)
