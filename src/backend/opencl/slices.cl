/* Voxel-driven back projection of slices in which rays stay: the columns that a square of pixels meets are
 * kept in local memory, four slices in a vector, some views at a time; interpolation by arithmetic.
 *
 * S. Chilingaryan et al., Reviewing GPU architectures to build efficient back projection for parallel
 * geometries, J. Real-Time Image Process. 17 (2020), section 6.
 */
#include "backend/opencl/device.cl"
#define KERNEL_ADD(pointer, value) (*(pointer) += (value))
#include "kernel/portable.h"

/* As slices.c has them: pixels of a group on each side, columns that they meet, slices. */
#define SIDE 32
#define COLUMNS 48
#define MIDDLE (COLUMNS / 2)
#define VIEWS 8
#define PIXELS (SIDE / HIGH) /* of an item */

/* How slices lie; see HatSlices. */
typedef struct {
	int s, a, b, sign;
	long row;
} Slices;

/* A view as a group sees it: its first column, and where the first pixel falls, counted from the middle of
 * the columns, since floats are more exact there. */
typedef struct {
	float e, ea, eb, weight;
	long first;
} Seen;

/* Off the detector it does not matter how far. */
static inline Seen see(global const KernelView *view, const KernelModel *model, const Slices *l,
	const KernelGrid *grid, long a0, long b0)
{
	double ea = view->column[l->a], eb = view->column[l->b];
	double e = view->column[3] + ea * (double)(grid->low[l->a] + a0) +
		   eb * (double)(grid->low[l->b] + b0);
	double least = floor(e + (SIDE - 1) * (fmin(0., ea) + fmin(0., eb)));
	double first = fmax(fmin(least, (double)model->columns), (double)-COLUMNS);
	Seen seen = {(float)(e - first - MIDDLE), (float)ea, (float)eb,
		model->weight == WEIGHT_RAY ? (float)view->mass : 1, (long)first};
	return seen;
}

/* One column of up to four slices, zeros off the detector. */
static inline float4 take(global const float *from, const KernelModel *model, const Slices *l, long row,
	int slices, long column, float weight)
{
	float x[4] = {0, 0, 0, 0};
	if (column >= 0 && column < model->columns)
		for (int i = 0; i < slices; i++) {
			long r = row + i * l->sign;
			if (r >= 0 && r < model->rows)
				x[i] = weight * from[r * model->columns + column];
		}
	return (float4)(x[0], x[1], x[2], x[3]);
}

static inline float4 interpolate(local const float4 *row, float at)
{
	float low = clamp(floor(at), (float)-MIDDLE, (float)(MIDDLE - 2));
	local const float4 *x = row + MIDDLE + (int)low;
	return mix(x[0], x[1], at - low);
}

PLANE do_slices_back(KernelGrid grid, KernelModel model, global const KernelView *views, long first,
	long count, global float *volume, long volume0, global const float *projections,
	long projections0, Slices l)
{
	local float4 rows[VIEWS][COLUMNS];
	local Seen seen[VIEWS];
	const int item = (int)(get_local_id(1) * WIDE + get_local_id(0));
	const long a0 = (long)get_group_id(0) * SIDE, b0 = (long)get_group_id(1) * SIDE;
	const long slice = (long)get_group_id(2) * 4, all = grid.high[l.s] - grid.low[l.s];
	const int slices = (int)min(4L, all - slice);
	const long row = l.row + l.sign * (grid.low[l.s] + slice);
	float4 sums[PIXELS];
	for (int p = 0; p < PIXELS; p++)
		sums[p] = (float4)(0);
	for (long at = 0; at < count; at += VIEWS) {
		const int some = (int)min((long)VIEWS, count - at);
		barrier(CLK_LOCAL_MEM_FENCE);
		if (item < some)
			seen[item] = see(&views[first + at + item], &model, &l, &grid, a0, b0);
		barrier(CLK_LOCAL_MEM_FENCE);
		for (int i = item; i < some * COLUMNS; i += WIDE * HIGH) {
			int v = i / COLUMNS, c = i % COLUMNS;
			rows[v][c] = take(projections + projections0 +
					(at + v) * model.rows * model.columns,
				&model, &l, row, slices, seen[v].first + c, seen[v].weight);
		}
		barrier(CLK_LOCAL_MEM_FENCE);
		for (int v = 0; v < some; v++) {
			float e = seen[v].e + seen[v].ea * get_local_id(0) +
				  seen[v].eb * get_local_id(1);
			for (int p = 0; p < PIXELS; p++)
				sums[p] += interpolate(rows[v], e + seen[v].eb * (p * HIGH));
		}
	}
	const long a = a0 + get_local_id(0), strides[3] = {1, grid.high[0] - grid.low[0],
		(grid.high[0] - grid.low[0]) * (grid.high[1] - grid.low[1])};
	if (a >= grid.high[l.a] - grid.low[l.a])
		return;
	for (int p = 0; p < PIXELS; p++) {
		long b = b0 + get_local_id(1) + p * HIGH;
		if (b >= grid.high[l.b] - grid.low[l.b])
			return;
		global float *to = volume + volume0 + a * strides[l.a] + b * strides[l.b] +
				   slice * strides[l.s];
		const float x[4] = {sums[p].x, sums[p].y, sums[p].z, sums[p].w};
		for (int i = 0; i < slices; i++)
			to[i * strides[l.s]] += x[i];
	}
}
