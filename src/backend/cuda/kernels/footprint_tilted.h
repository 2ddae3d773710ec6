/* Separable footprints on detectors in any position: the shares of a voxel. Every voxel has its own
 * footprint (footprint_shares.h).
 */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_FOOTPRINT_TILTED_H
#define TOMOS_BACKEND_CUDA_KERNELS_FOOTPRINT_TILTED_H

#include "backend/cuda/kernels/footprint_tilted_near.h"

/* ---- voxels ---------------------------------------------------------------------------------- */

/* A column of voxels in a view: U, V and D of the first one and their changes, square of the
 * distance from the source, times scale, without its part along the column. */
typedef struct {
	float u, v, d, by_u, by_v, by_d;
	Edges across, along;
	float square, rise, step, scale;
	int pitch;
} Column;

static __device__ __forceinline__ Column column_of(
	const Footprints &s, const Near &near, float dx, float dy)
{
	const float ax = fmaf(dx, s.step[0], near.away[0]), ay = fmaf(dy, s.step[1], near.away[1]);
	return Column{fmaf(near.u.x, dx, fmaf(near.u.y, dy, near.u.w)),
		fmaf(near.v.x, dx, fmaf(near.v.y, dy, near.v.w)),
		fmaf(near.d.x, dx, fmaf(near.d.y, dy, near.d.w)), near.u.z, near.v.z, near.d.z,
		near.across, near.along, fmaf(ax, ax, ay * ay) * near.scale * near.scale,
		near.away[2] * near.scale, s.step[2] * near.scale, near.scale, near.pitch};
}

/* The weight of a voxel, divided by the product of the two boxes, of which `wide` are halves. */
template <bool RAYS>
static __device__ __forceinline__ float weight_of(
	int weighting, const Column &c, float k, float rate, float product)
{
	if (RAYS) {
		const float rise = fmaf(k, c.step, c.rise), square = fmaf(rise, rise, c.square);
		return (inverse_nearly(product) * rate) * (rate * rate) * length_nearly(square);
	}
	const float weight = c.scale * inverse_nearly(product);
	return weighting == WEIGHT_DEPTH ? weight * (rate * rate) : weight;
}

/* Place of the first of NC x NR pixels on a tile, for positions plus MAGIC as bits. */
template <int NC, int NR> static __device__ __forceinline__ unsigned origin_of(int pitch)
{
	return 0u - (__float_as_uint(MAGIC) + BEFORE<NR>)*pitch -
	       (__float_as_uint(MAGIC) + BEFORE<NC>);
}

/* Voxel k of a column in a view: U, V and D, 1 / D and the projection. */
typedef struct {
	float U, V, depth, rate, u, v;
} Spot;

static __device__ __forceinline__ Spot spot_of(const Column &c, float k)
{
	const float depth = fmaf(k, c.by_d, c.d), rate = inverse_nearly(depth);
	const float U = fmaf(k, c.by_u, c.u), V = fmaf(k, c.by_v, c.v);
	return Spot{U, V, depth, rate, U * rate, V * rate};
}

/* Place of a window on the tile; column, row: of middle_pixel. */
static __device__ __forceinline__ int window_at(float column, float row, int pitch, unsigned origin)
{
	unsigned place = __float_as_uint(row) * pitch + __float_as_uint(column) + origin;
	/* Else the origin becomes a part of every pixel's offset, which has too few bits for it. */
	asm("" : "+r"(place));
	return (int)place;
}

/* Shares of voxel k (ACROSS, ALONG: shapes are plain): calls use(place of the first pixel on the
 * tile, shares of columns, of rows, weight). */
template <bool RAYS, int NC, int NR, bool ACROSS, bool ALONG, class Use>
static __device__ __forceinline__ void visit_voxel(
	int weighting, const Column &c, int pitch, unsigned origin, float k, const Use &use)
{
	const Spot at = spot_of(c, k);
	const Shape across = shape_of<ACROSS>(c.across, at.u),
		    along = shape_of<ALONG>(c.along, at.v);
	const float column = middle_pixel<NC>(at.u), row = middle_pixel<NR>(at.v);
	float a[NC], b[NR];
	shares_of<NC, false>(across, __fadd_rn(column, -MAGIC), at.U, at.depth, a);
	shares_of<NR, false>(along, __fadd_rn(row, -MAGIC), at.V, at.depth, b);
	use(window_at(column, row, pitch, origin), a, b,
		weight_of<RAYS>(weighting, c, k, at.rate, across.wide * along.wide));
}

/* The voxels first .. first + N - 1: calls begin(column, row: of middle_pixel of the first one),
 * and use(i, shares of columns, of rows, weight) for each of them, whose window is span_row(G, i)
 * rows after the first one's. */
template <bool RAYS, int N, int G, int NC, int NR, bool EITHER, class Begin, class Use>
static __device__ __forceinline__ void visit_span(
	int weighting, const Column &c, float first, const Begin &begin, const Use &use)
{
	constexpr float BACK = 0.25f * (N - 1) * G - (G % 2 ? 0.25f : 0.f);
	static_assert(N % 2 == 0);
	const Spot low = spot_of(c, first + (float)(N / 2 - 1)),
		   high = spot_of(c, first + (float)(N / 2));
	const float column = middle_pixel<NC>(0.5f * (low.u + high.u)),
		    row = middle_pixel<NR>(fmaf(0.5f, low.v + high.v, -BACK));
	const float from = __fadd_rn(column, -MAGIC), below = __fadd_rn(row, -MAGIC);
	begin(column, row);
#pragma unroll
	for (int i = 0; i < N; i++) {
		const Spot at = spot_of(c, first + (float)i);
		const Shape across = shape_of<true>(c.across, at.u),
			    along = shape_of<true>(c.along, at.v);
		float a[NC], b[NR];
		shares_of<NC, EITHER>(across, from, at.U, at.depth, a);
		shares_of<NR, false>(along, below + (float)span_row(G, i), at.V, at.depth, b);
		use(i, a, b,
			weight_of<RAYS>(
				weighting, c, first + (float)i, at.rate, across.wide * along.wide));
	}
}

/* The pixels of a footprint in one coordinate: first .. last, and the coordinate times depth. */
typedef struct {
	Shape shape;
	int first, last;
	float centre, depth;
} Extent;

static __device__ __forceinline__ Extent extent_of(
	const Edges &edges, float p, float P, const Spot &at, int low, int high)
{
	const Shape shape = shape_of<false>(edges, p);
	const float reach = shape.reach * at.rate;
	return Extent{shape, max((int)rintf(fmaxf(p - reach, -1e6f)), low),
		min((int)rintf(fminf(p + reach, 1e6f)), high), P, at.depth};
}

/* The part of the footprint before pixel i, times the wide box. */
static __device__ __forceinline__ float extent_before(const Extent &e, int i)
{
	return shape_below(e.shape, fmaf((float)i - 0.5f, e.depth, -e.centre));
}

/* One voxel, its pixels being within `low` and `high`, columns and rows: calls meet(row, column,
 * shares of GROUP columns, of the row). */
template <bool RAYS, class Meet>
static __device__ __forceinline__ void voxel_loop(
	const Footprints &s, const Column &c, float k, int2 low, int2 high, const Meet &meet)
{
	const Spot at = spot_of(c, k);
	const Extent across = extent_of(c.across, at.u, at.U, at, low.x, high.x),
		     along = extent_of(c.along, at.v, at.V, at, low.y, high.y);
	const float weight =
		weight_of<RAYS>(s.weighting, c, k, at.rate, across.shape.wide * along.shape.wide);
	float left = extent_before(across, across.first);
	for (int x = across.first; x <= across.last; x += GROUP) {
		float a[GROUP];
#pragma unroll
		for (int i = 0; i < GROUP; i++) {
			const float right = extent_before(across, x + i + 1);
			a[i] = weight * (right - left);
			left = right;
		}
		float below = extent_before(along, along.first);
		for (int y = along.first; y <= along.last; y++) {
			const float above = extent_before(along, y + 1);
			meet(y, x, a, above - below);
			below = above;
		}
	}
}

/* One voxel, for blocks that see more than a tile: calls meet(place in the image, weight) for every
 * pixel. */
template <bool RAYS, class Meet>
static __device__ __forceinline__ void voxel_direct(const Footprints &s, const Near &near,
	const Column &c, int pitch, float k, const Meet &meet)
{
	const int2 low = make_int2(-near.column, -near.row),
		   high = make_int2(s.columns - 1 - near.column, s.rows - 1 - near.row);
	voxel_loop<RAYS>(s, c, k, low, high, [&](int y, int x, const float *a, float share) {
		const int64_t place = (int64_t)(near.row + y) * pitch + near.column + x;
#pragma unroll
		for (int i = 0; i < GROUP; i++)
			if (x + i <= high.x)
				meet(place + i, share * a[i]);
	});
}

/* ---- requests -------------------------------------------------------------------------------- */

/* Calls add(columns, rows) with what a block of these voxels along the axes of the volume sees at a
 * point of the box. */
template <class Add>
static void measure_block(const ProjectRequest *what, const KernelView *k, const double at[3],
	const int block[3], const Add &add)
{
	const double depth = affine(k->depth, at);
	double wide[2] = {0, 0};
	for (int c = 0; c < 2; c++) {
		const double *f = c ? k->row : k->column;
		const double p = seen_position(affine(f, at) / depth,
			c ? what->plan->model.rows : what->plan->model.columns);
		for (int a = 0; a < 3; a++)
			wide[c] += (block[a] + 1) * fabs(f[a] - p * k->depth[a]) / depth;
	}
	add(wide[0], wide[1]);
}

/* Size of the tiles of blocks; block_of(view, block): voxels along the axes of the volume. each:
 * see count_tile. */
template <class BlockOf>
static TileSize tile_size(const ProjectRequest *what, int each, const BlockOf &block_of)
{
	TileSize size = {.direction = quarter_direction(what)};
	TileCounts counts = {};
	int block[3];
	for (int64_t i = 0; i < what->count * 8; i++) {
		const KernelView *k = &what->plan->views[what->first + i / 8];
		double at[3];
		for (int a = 0; a < 3; a++)
			at[a] = (double)(i >> a & 1 ? what->box.high[a] - 1 : what->box.low[a]);
		block_of(k, block);
		measure_block(what, k, at, block,
			[&](double columns, double rows) { enlarge(columns, rows, &size); });
	}
	sample_box(what, [&](const KernelView *k, const double at[3]) {
		block_of(k, block);
		measure_block(what, k, at, block, [&](double columns, double rows) {
			count_tile(columns, rows, each, &counts);
		});
	});
	set_usual(&counts, &size);
	return size;
}

/* Whether kernels for any detector apply to the views, all of the box being in front of the
 * source. */
static inline bool tilted_applies(const ProjectRequest *what)
{
	const Plan *plan = what->plan;
	const int source = plan->rays.source;
	if (plan->model.planar || !(source == TOMOS_POINT || source == TOMOS_PARALLEL) ||
		plan->model.rows > 1 << 16 || plan->model.columns > 1 << 16)
		return false;
	for (int64_t i = 0; i < what->count; i++)
		if (!is_in_front(what, &plan->views[what->first + i], 4))
			return false;
	return true;
}

#endif
