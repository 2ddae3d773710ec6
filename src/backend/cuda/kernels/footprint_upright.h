/* Separable footprints of columns of voxels on upright detectors: what a block sees of a view, and
 * the weights of a column's voxels.
 *
 * All voxels of a column have the same footprint along detector rows. Along detector columns, they
 * are weighted by integrals between their boundaries (footprint.h).
 */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_FOOTPRINT_UPRIGHT_H
#define TOMOS_BACKEND_CUDA_KERNELS_FOOTPRINT_UPRIGHT_H

#include "backend/cuda/kernels/footprint_blocks.h"

enum {
	TAPS = 3,  /* detector columns of a footprint whose weights are in registers */
	LOOP = 100 /* a kind of tile: rows and columns of a footprint are counted for every voxel */
};

/* A view relative to the first voxel (corner) of a block and the first pixel of its tile. The
 * voxel at (dx, dy), along the block's axes, has depth D = df + da dx + db dy; it projects to
 * column (uf + ua dx + ub dy) / D and row (vf + va dx + vb dy) / D. Per voxel along z the row
 * increases by vc / D. Rows of fans are not divided by D (lower: 0). */
typedef struct __align__(16)
{
	float uf, ua, ub, vf, va, vb, vc, df, da, db;
	float flat, bent, shape; /* FootprintHalf */
	float lower, scale;
	float flush;     /* forward: a unit of the tile in units of the image */
	float away[3];   /* from the source to the corner, in units of length; of fans, [2] is 0 */
	int row, column; /* of the tile's first pixel */
	int rows, columns; /* of the tile */
	int pitch, shift;  /* forward: of its rows; see place_of_column */
	int taps;          /* detector columns of a footprint, at most */
	int kind;          /* of Boundaries, LOOP, DIRECT or UNSEEN */
}
Near;

/* See footprint_tilted.h. */
static __device__ __forceinline__ bool is_side_by_side(const Near &)
{
	return false;
}

/* The pixels that a block meets in a view. */
typedef struct {
	double left, right, bottom, top; /* of footprints, in edges: pixel i is from i to i + 1 */
	double slow, fast;               /* rows per voxel */
	double reach, half;              /* at most, of columns and of the narrow box of rows */
	double wide;                     /* least width of the wide box of columns */
} Seen;

static __device__ Seen seen_by(
	const Footprints &s, const KernelView *k, const double corner[3], const FootprintHalf &half)
{
	Seen seen = {1e9, -1e9, 1e9, -1e9, 1e9, -1e9, 0, 0, 0};
	const int a = s.axis[0], b = s.axis[1];
	const double more[2] = {more_of(s, 0, corner[a]), more_of(s, 1, corner[b])};
	const double u0 = affine(k->column, corner), v0 = affine(k->row, corner) - 0.5 * k->row[2],
		     d0 = affine(k->depth, corner), high = s.size[2] * k->row[2];
	double nearest = 1e300, farthest = 0, across = 0, along = 0;
	float least[2] = {1e30f, 1e30f}, most[2] = {-1e30f, -1e30f}; /* of edges, times D^2 */
#pragma unroll
	for (int i = 0; i < 4; i++) { /* extremes are at the corners */
		const double x = i & 1 ? more[0] : 0, y = i & 2 ? more[1] : 0;
		const double depth = d0 + x * k->depth[a] + y * k->depth[b],
			     u = u0 + x * k->column[a] + y * k->column[b],
			     v = v0 + x * k->row[a] + y * k->row[b], end = v + high;
		const double rate = inverse_double(depth), lower = kernel_row_depth(k, depth),
			     slower = kernel_row_depth(k, rate);
		seen.left = fmin(seen.left, u * rate + 0.5);
		seen.right = fmax(seen.right, u * rate + 0.5);
		seen.bottom = fmin(seen.bottom, v * slower + 0.5);
		seen.top = fmax(seen.top, end * slower + 0.5);
		seen.slow = fmin(seen.slow, k->row[2] * slower);
		seen.fast = fmax(seen.fast, k->row[2] * slower);
		nearest = fmin(nearest, depth);
		farthest = fmax(farthest, depth);
		const double edge[2] = {k->column[0] * depth - u * k->depth[0],
			k->column[1] * depth - u * k->depth[1]};
#pragma unroll
		for (int e = 0; e < 2; e++) {
			least[e] = fminf(least[e], (float)edge[e]);
			most[e] = fmaxf(most[e], (float)edge[e]);
		}
		across = fmax(across, fabs(edge[0]) + fabs(edge[1]));
		along = fmax(along, fmax(fabs(half.flat * lower - half.bent * v),
					    fabs(half.flat * lower - half.bent * end)));
	}
	const double rate = inverse_double(nearest), lower = kernel_row_depth(k, rate);
	seen.reach = 0.5 * across * rate * rate;
	seen.half = along * lower * lower;
	for (int e = 0; e < 2; e++)
		seen.wide = fmax(seen.wide, (double)fmaxf(least[e], -most[e]));
	seen.wide *= inverse_double(farthest * farthest);
	return seen;
}

/* first: the corner, from the first voxel of the box; each: columns of a tile begin at its
 * multiples, a power of two. Returns the largest share of a pixel in a voxel, if it has none of the
 * kinds of Boundaries. */
static __device__ __noinline__ float near_block(
	const Footprints &s, const KernelView *k, const int first[3], int pitch, int each, Near *to)
{
	const int a = s.axis[0], b = s.axis[1];
	const double at[3] = {(double)(s.low[0] + first[0]), (double)(s.low[1] + first[1]),
		(double)(s.low[2] + first[2])};
	const FootprintHalf half = footprint_half(k);
	const Seen seen = seen_by(s, k, at, half);
	const double near = 1e-3;                     /* rounding of float */
	const bool steep = 2 * seen.half > seen.slow; /* footprints of up to twice the half more */
	const double beyond = near + (steep ? 2 : 1) * seen.half;
	const double limit = 1e6, left = fmax(fmin(seen.left - seen.reach, limit), -limit) - near;
	const double bottom = fmax(fmin(seen.bottom - beyond, limit), -limit);
	/* Samples of a span begin less than two rows before its first boundary. */
	int kind = boundary_kind((float)seen.slow, (float)seen.fast, (float)seen.half);
	if (steep || kind < 0)
		kind = LOOP;
	/* Footprints of any size begin and end at the detector. */
	const double least = kind == LOOP ? 0 : -1e9;
	const double column = (double)((int)fmax(floor(left), least) & -each),
		     row = fmax(floor(bottom) - 2, least);
	const double depth = affine(k->depth, at), bend = KERNEL_FANS(k) ? 0 : 1;
	Near v = {.uf = (float)(affine(k->column, at) - column * depth),
		.ua = (float)(k->column[a] - column * k->depth[a]),
		.ub = (float)(k->column[b] - column * k->depth[b]),
		.vf = (float)(affine(k->row, at) - row * kernel_row_depth(k, depth)),
		.va = (float)(k->row[a] - bend * row * k->depth[a]),
		.vb = (float)(k->row[b] - bend * row * k->depth[b]),
		.vc = (float)k->row[2],
		.df = (float)depth,
		.da = (float)k->depth[a],
		.db = (float)k->depth[b],
		.flat = (float)(half.flat - row * half.bent),
		.bent = (float)half.bent,
		.shape = (float)half.shape,
		.lower = (float)bend,
		.scale = s.weighting == WEIGHT_RAY ? (float)k->mass : 1,
		.row = (int)row,
		.column = (int)column,
		.taps = (int)fmin(2 * seen.reach + near + 2, limit)};
	for (int i = 0; i < 3; i++)
		v.away[i] = i == 2 && KERNEL_FANS(k)
				    ? 0
				    : (float)((at[s.axis[i]] - k->src[s.axis[i]]) * s.step[i]);
	v.kind = kind;
	/* They end less than four rows after its last one. A thread meets TAPS columns or more, or
	 * whole groups. */
	const double top = seen.top + fmax(4., beyond + 2),
		     right = floor(seen.right + seen.reach + near);
	const double rows = kind == LOOP ? fmax(fmin(top, (double)s.rows) - row, 1.) : top - row;
	const double columns = kind == LOOP
				       ? fmax(fmin(right, s.columns - 1.) - column, 0.) + (int)GROUP
				       : floor(seen.right - seen.reach + near) - column +
						 fmax((double)v.taps, (double)TAPS) + 1;
	if (rows > s.tile_rows || columns > pitch)
		v.kind = DIRECT;
	if (seen.right + seen.reach < -near || seen.left - seen.reach > s.columns + near ||
		seen.top + beyond < 0 || seen.bottom - beyond > s.rows)
		v.kind = UNSEEN;
	v.rows = (int)fmin(rows, (double)s.tile_rows);
	v.columns = (int)fmin(columns, (double)pitch);
	*to = v;
	return (float)(1 / (fmax(seen.slow, 1.) * fmax(seen.wide, 1.)));
}

/* ---- a column of voxels ---------------------------------------------------------------------- */

/* Where a column of voxels is on a tile, and the weights of its voxels. */
typedef struct {
	Trapezoid across;
	float left;    /* the first detector column's left edge, from the centre */
	int column;    /* that column */
	float a[TAPS]; /* weights of the detector columns, and of all voxels */
	float scale;
	float edge, climb; /* the first voxel's lower boundary; rows per voxel */
	float half, more;  /* half the narrow box of the first voxel, with its sign; per voxel */
	float square;      /* of the horizontal distance from the source */
} Foot;

/* The weight of detector column c. */
static __device__ __forceinline__ float tap_of(const Foot &foot, int c)
{
	const float below = trapezoid_below(foot.across, foot.left + (float)c);
	const float above = trapezoid_below(foot.across, foot.left + (float)(c + 1));
	return foot.scale * (above - below);
}

static __device__ __forceinline__ float distance_of(const Foot &foot, float rise)
{
	return length_nearly(fmaf(rise, rise, foot.square));
}

template <bool RAYS>
static __device__ __forceinline__ Foot foot_of(
	const Footprints &s, const Near &v, float dx, float dy)
{
	Foot foot;
	const float rate = inverse_nearly(fmaf(v.da, dx, fmaf(v.db, dy, v.df)));
	const float lower = v.lower != 0 ? rate : 1;
	const float u = fmaf(v.ua, dx, fmaf(v.ub, dy, v.uf)) * rate;
	const float x = fabsf(fmaf(-u, v.da, v.ua)) * rate, y = fabsf(fmaf(-u, v.db, v.ub)) * rate;
	foot.across = trapezoid(fmaxf(x, y), fminf(x, y));
	const float first = floorf(u - foot.across.reach + 0.5f);
	foot.column = (int)first;
	foot.left = first - 0.5f - u;
	const float row = fmaf(v.va, dx, fmaf(v.vb, dy, v.vf)) * lower;
	foot.climb = v.vc * lower;
	foot.edge = fmaf(-0.5f, foot.climb, row + 0.5f);
	foot.half = fmaf(-v.bent, row, v.flat) * lower;
	foot.more = -v.bent * foot.climb * lower;
	foot.scale = v.scale;
	if (RAYS) {
		const float ax = fmaf(dx, s.step[0], v.away[0]),
			    ay = fmaf(dy, s.step[1], v.away[1]);
		foot.square = fmaf(ax, ax, ay * ay);
		foot.scale *= rate * rate * lower;
	} else if (s.weighting == WEIGHT_DEPTH) {
		foot.scale *= rate * rate;
	}
	foot.scale *= inverse_nearly(foot.climb);
	float below = trapezoid_below(foot.across, foot.left);
#pragma unroll
	for (int c = 0; c < TAPS; c++) {
		const float above = trapezoid_below(foot.across, foot.left + (float)(c + 1));
		foot.a[c] = foot.scale * (above - below);
		below = above;
	}
	return foot;
}

/* Lengths of a boundary at t, counted from the first edge of S samples: that of the samples before
 * it which is after edge e, averaged over the narrow box of a voxel. */
template <int S> struct Boundary {
	float t, far[S], after[S]; /* from edges 1 .. S - 1; the same if positive, else 0 */

	__device__ __forceinline__ void set(float at)
	{
		t = at;
#pragma unroll
		for (int e = 1; e < S; e++) {
			far[e] = t - (float)e;
			/* Only the last edge is at most one sample before the boundary. */
			after[e] = e == S - 1 ? __saturatef(t - (float)e) : fmaxf(far[e], 0.f);
		}
	}

	/* quarter: 1 / (4 h). */
	__device__ __forceinline__ void lengths(
		float h, float quarter, float after_edge[S + 1]) const
	{
		after_edge[0] = t;
#pragma unroll
		for (int e = 1; e < S; e++) {
			const float q = overlap(h, far[e]);
			after_edge[e] = fmaf(q * quarter, q, after[e]);
		}
		after_edge[S] = 0;
	}
};

/* The weight of sample i for a voxel between two boundaries, whose first edges are D samples
 * apart. */
template <int S, int D>
static __device__ __forceinline__ float weight_between(
	const float low[S + 1], const float high[S + 1], int i)
{
	const float above = i < D ? 1 : high[i - D] - high[i - D + 1];
	return i < S ? above - (low[i] - low[i + 1]) : above;
}

/* The part of a voxel beyond edge e, in samples: its weights are the differences of these. For one
 * view, differences of the samples need fewer instructions than weights. */
template <int S, int D>
static __device__ __forceinline__ float part_beyond(
	const float low[S + 1], const float high[S + 1], float climb, int e)
{
	const float above = e < D ? high[0] + (float)(D - e) : high[e - D];
	return e == 0 ? climb : e < S ? above - low[e] : above;
}

/* Voxels first .. first + B::N - 1 of a column. */
typedef struct {
	float whole, t; /* the first edge; position of the first boundary from there */
	float half;     /* half the narrow box of the first voxel, with its sign */
} Span;

template <class B> static __device__ __forceinline__ Span span_of(const Foot &foot, int first)
{
	const float edge = fmaf((float)first, foot.climb, foot.edge);
	const float h = fmaf((float)first, foot.more, foot.half);
	const float most = fmaxf(fabsf(h), fabsf(fmaf((float)(B::N - 1), foot.more, h)));
	const float whole = B::first(edge, foot.climb, most);
	return Span{whole, edge - whole, h};
}

/* Calls visit(k, from, to) with the lengths of the boundaries of every voxel. */
template <class B, class Visit>
static __device__ __forceinline__ void span_visit(
	const Foot &foot, const Span &span, const Visit &visit)
{
	constexpr int S = B::S;
	Boundary<S> low, high;
	low.set(span.t);
#pragma unroll
	for (int k = 0; k < B::N; k++) {
		const float h = fmaxf(fabsf(fmaf((float)k, foot.more, span.half)), FOOTPRINT_LEAST);
		const float quarter = 0.25f * inverse_nearly(h);
		float from[S + 1], to[S + 1];
		high.set(B::at(k + 1, span.t, foot.climb));
		low.lengths(h, quarter, from);
		high.lengths(h, quarter, to);
		visit(k, from, to);
		low = high;
	}
}

/* Whether the first edges of the boundaries of voxel k are (G + 1) / 2 samples apart, not G / 2. */
template <class B> static __device__ __forceinline__ constexpr bool is_longer(int k)
{
	return B::edge(k + 1) - B::edge(k) > B::G / 2;
}

/* Spans of four voxels for pixels of four views: more do not fit into registers. */
template <class B, class Pixel>
using Short = Boundaries<(PARTS<Pixel> == 4 && B::N > 4 ? 4 : B::N), B::G, B::S>;

/* The rows of voxel k, from `low` to `high` of the tile at most: calls meet(row, weight). */
template <class Meet>
static __device__ __forceinline__ void visit_rows(
	const Near &near, const Foot &foot, int k, int low, int high, const Meet &meet)
{
	const float centre = fmaf((float)k + 0.5f, foot.climb, foot.edge) - 0.5f;
	const Trapezoid along =
		trapezoid_of_rows(foot.climb, fmaf((float)k, foot.more, foot.half), near.shape);
	const int r0 = max((int)floorf(centre - along.reach + 0.5f), low);
	const int r1 = min((int)floorf(centre + along.reach + 0.5f), high);
	float below = trapezoid_below(along, (float)r0 - 0.5f - centre);
	for (int r = r0; r <= r1; r++) {
		const float above = trapezoid_below(along, (float)r + 0.5f - centre);
		meet(r, foot.climb * (above - below));
		below = above;
	}
}

/* All columns of the footprint on the tile, in groups: calls meet(the first column on the tile,
 * GROUP weights). */
template <class Meet>
static __device__ __forceinline__ void visit_columns(
	const Near &near, const Foot &foot, const Meet &meet)
{
	const int end = min((int)(foot.across.reach - foot.left) + 1,
		near.columns - (int)GROUP + 1 - foot.column);
	const int begin = max(0, -foot.column);
	float below = trapezoid_below(foot.across, foot.left + (float)begin);
	for (int c = begin; c < end; c += GROUP) {
		float a[GROUP];
#pragma unroll
		for (int i = 0; i < GROUP; i++) {
			const float above =
				trapezoid_below(foot.across, foot.left + (float)(c + i + 1));
			a[i] = foot.scale * (above - below);
			below = above;
		}
		meet(foot.column + c, a);
	}
}

/* One voxel, for blocks that see more than a tile: calls meet(place in the image, weight) for every
 * pixel. */
template <class Meet>
static __device__ __forceinline__ void voxel_direct(const Footprints &s, const Near &near,
	const Foot &foot, int pitch, int k, float weight, const Meet &meet)
{
	const int c0 = max(0, -(near.column + foot.column));
	const int c1 = min(near.taps, s.columns - (near.column + foot.column)) - 1;
	weight *= foot.scale;
	visit_rows(near, foot, k, -near.row, s.rows - 1 - near.row, [&](int r, float share) {
		const int64_t place = (int64_t)(near.row + r) * pitch + near.column + foot.column;
		float below = trapezoid_below(foot.across, foot.left + (float)c0);
		for (int c = c0; c <= c1; c++) {
			const float above =
				trapezoid_below(foot.across, foot.left + (float)(c + 1));
			meet(place + c, weight * share * (above - below));
			below = above;
		}
	});
}

/* Weight of voxel k by its distance from the source. */
template <bool RAYS>
static __device__ __forceinline__ float far_weight(
	const Footprints &s, const Near &near, const Foot &foot, int k)
{
	const float rise = near.lower != 0 ? fmaf((float)k, s.step[2], near.away[2]) : 0;
	return RAYS ? distance_of(foot, rise) : 1;
}

/* ---- requests -------------------------------------------------------------------------------- */

/* Voxels of a block along the axis of x and y whose voxels are farther apart on the detector, along
 * the other one, and along z. */
typedef struct {
	int lanes, warps, column;
} BlockSize;

/* Calls add(columns, rows) with what such a block sees at a point of the box. */
template <class Add>
static void measure_block(const ProjectRequest *what, const KernelView *k, const double at[3],
	const BlockSize &block, const Add &add)
{
	const bool fans = KERNEL_FANS(k);
	const double depth = affine(k->depth, at), lower = fans ? 1 : depth, bend = fans ? 0 : 1,
		     u = seen_position(affine(k->column, at) / depth, what->plan->model.columns),
		     v = seen_position(affine(k->row, at) / lower, what->plan->model.rows);
	double x[2], y[2];
	for (int a = 0; a < 2; a++) {
		x[a] = fabs(k->column[a] - u * k->depth[a]) / depth;
		y[a] = fabs(k->row[a] - bend * v * k->depth[a]) / lower;
	}
	add(block.lanes * fmax(x[0], x[1]) + block.warps * fmin(x[0], x[1]),
		block.lanes * fmax(y[0], y[1]) + block.warps * fmin(y[0], y[1]) +
			block.column * k->row[2] / lower);
}

static inline TileSize tile_size(const ProjectRequest *what, const BlockSize &block)
{
	TileSize size = {.direction = quarter_direction(what), .column = block.column};
	TileCounts counts = {};
	for (int64_t i = 0; i < what->count * 8; i++) {
		double at[3];
		for (int a = 0; a < 3; a++)
			at[a] = (double)(i >> a & 1 ? what->box.high[a] - 1 : what->box.low[a]);
		measure_block(what, &what->plan->views[what->first + i / 8], at, block,
			[&](double columns, double rows) { enlarge(columns, rows, &size); });
	}
	sample_box(what, [&](const KernelView *k, const double at[3]) {
		measure_block(what, k, at, block, [&](double columns, double rows) {
			count_tile(columns, rows, 1, &counts);
		});
	});
	set_usual(&counts, &size);
	return size;
}

#endif
