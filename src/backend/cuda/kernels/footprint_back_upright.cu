/* Back projection of separable footprints for upright detectors: circular cone beam, stacks of
 * fans, parallel beam and laminography without roll.
 *
 * All voxels of a column have the same footprint along detector rows, so a thread first adds the
 * detector columns of that footprint, which leaves a line of pixels, and then integrates the line
 * between the boundaries of its voxels (footprint.h). footprint_back.h says how blocks visit the
 * views.
 */
#include "backend/cuda/kernels/footprint_back_upright.h"

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
		foot.scale = rate * rate;
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

/* The pixels from `at` on, added over the detector columns of the footprint. */
template <int SAMPLES, int PITCH, class Pixel>
static __device__ __forceinline__ void add_columns(
	const Near &near, const Foot &foot, const Pixel *at, Pixel line[SAMPLES])
{
#pragma unroll
	for (int i = 0; i < SAMPLES; i++) {
		line[i] = scaled(foot.a[0], at[i * PITCH]);
#pragma unroll
		for (int c = 1; c < TAPS; c++)
			add_scaled(line[i], foot.a[c], at[i * PITCH + c]);
	}
	/* Beyond the tile the weights of narrower footprints are zero, and memory is undefined. */
	for (int c = TAPS; c < near.taps && foot.column + c < near.columns; c++) {
		const float below = trapezoid_below(foot.across, foot.left + (float)c);
		const float above = trapezoid_below(foot.across, foot.left + (float)(c + 1));
		const float a = foot.scale * (above - below);
#pragma unroll
		for (int i = 0; i < SAMPLES; i++)
			add_scaled(line[i], a, at[i * PITCH + c]);
	}
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

/* Adds the line between two boundaries, whose first edges are D samples apart. */
template <int S, int D, class Pixel>
static __device__ __forceinline__ Pixel between(
	const float low[S + 1], const float high[S + 1], const Pixel *line)
{
	Pixel sum = {};
#pragma unroll
	for (int i = 0; i < D + S; i++) {
		const float above = i < D ? 1 : high[i - D] - high[i - D + 1];
		const float weight = i < S ? above - (low[i] - low[i + 1]) : above;
		if (i == 0)
			sum = scaled(weight, line[i]);
		else
			add_scaled(sum, weight, line[i]);
	}
	return sum;
}

template <class B, bool RAYS, int PITCH, class Pixel>
static __device__ __forceinline__ void visit_span(const Footprints &s, const Near &near,
	const Foot &foot, const Pixel *tile, int first, Pixel sum[COLUMN<Pixel>])
{
	constexpr int S = B::S;
	const float edge = fmaf((float)first, foot.climb, foot.edge);
	const float h0 = fmaf((float)first, foot.more, foot.half);
	const float most = fmaxf(fabsf(h0), fabsf(fmaf((float)(B::N - 1), foot.more, h0)));
	const float whole = B::first(edge, foot.climb, most), t0 = edge - whole;
	const float up = near.lower != 0 ? s.step[2] : 0;
	Pixel line[B::SAMPLES];
	add_columns<B::SAMPLES, PITCH>(near, foot, tile + (int)whole * PITCH + foot.column, line);
	Boundary<S> low, high;
	low.set(t0);
#pragma unroll
	for (int k = 0; k < B::N; k++) {
		const float h = fmaxf(fabsf(fmaf((float)k, foot.more, h0)), FOOTPRINT_LEAST);
		const float quarter = 0.25f * inverse_nearly(h);
		float from[S + 1], to[S + 1];
		high.set(B::at(k + 1, t0, foot.climb));
		low.lengths(h, quarter, from);
		high.lengths(h, quarter, to);
		const Pixel *at = line + B::edge(k);
		const bool more = B::edge(k + 1) - B::edge(k) > B::G / 2; /* of odd G */
		const Pixel value = more ? between<S, (B::G + 1) / 2>(from, to, at)
					 : between<S, B::G / 2>(from, to, at);
		const float rise = fmaf((float)(first + k), up, near.away[2]);
		add_scaled(sum[first + k], RAYS ? distance_of(foot, rise) : 1, value);
		low = high;
	}
}

/* One voxel straight from the image, for blocks that see more than a tile, or where horizontal
 * edges appear higher than vertical ones. */
template <class Pixel>
static __device__ __noinline__ void voxel_direct(const Footprints &s, const Near &near,
	const Foot &foot, const Pixel *image, int k, float weight, Pixel *sum)
{
	const float centre = fmaf((float)k + 0.5f, foot.climb, foot.edge) - 0.5f;
	const Trapezoid along =
		trapezoid_of_rows(foot.climb, fmaf((float)k, foot.more, foot.half), near.shape);
	const int r0 = max((int)floorf(centre - along.reach + 0.5f), -near.row);
	const int r1 = min((int)floorf(centre + along.reach + 0.5f), s.rows - 1 - near.row);
	const int c0 = max(0, -(near.column + foot.column));
	const int c1 = min(near.taps, s.columns - (near.column + foot.column)) - 1;
	weight *= foot.scale * foot.climb;
	for (int r = r0; r <= r1; r++) {
		const float up = (float)r - centre;
		const float share =
			trapezoid_below(along, up + 0.5f) - trapezoid_below(along, up - 0.5f);
		const Pixel *at =
			image + ((int64_t)(near.row + r) * s.pitch + near.column + foot.column);
		float below = trapezoid_below(foot.across, foot.left + (float)c0);
		Pixel line = {};
		for (int c = c0; c <= c1; c++) {
			const float above =
				trapezoid_below(foot.across, foot.left + (float)(c + 1));
			add_scaled(line, above - below, __ldg(at + c));
			below = above;
		}
		add_scaled(*sum, weight * share, line);
	}
}

template <bool RAYS, class Pixel>
static __device__ __forceinline__ void visit_direct(const Footprints &s, const Near &near,
	const Foot &foot, const Pixel *image, Pixel sum[COLUMN<Pixel>])
{
#pragma unroll
	for (int k = 0; k < COLUMN<Pixel>; k++) {
		const float rise = near.lower != 0 ? fmaf((float)k, s.step[2], near.away[2]) : 0;
		Pixel here = sum[k];
		voxel_direct(s, near, foot, image, k, RAYS ? distance_of(foot, rise) : 1, &here);
		sum[k] = here;
	}
}

/* Spans of four voxels for pixels of four views: more do not fit into registers. */
template <class B, class Pixel>
using Short = Boundaries<(PARTS<Pixel> == 4 && B::N > 4 ? 4 : B::N), B::G, B::S>;

/* The kind is the same for all threads of a block. */
template <bool RAYS, int PITCH, class Pixel>
static __device__ __forceinline__ void visit_view(const Footprints &s, const Near &near,
	const Pixel *tile, const Pixel *image, float dx, float dy, Pixel sum[COLUMN<Pixel>])
{
	if (near.kind == UNSEEN)
		return;
	const Foot foot = foot_of<RAYS>(s, near, dx, dy);
	if (near.kind == DIRECT)
		visit_direct<RAYS>(s, near, foot, image, sum);
	boundary_visit(near.kind, [&](auto boundaries) {
		typedef Short<decltype(boundaries), Pixel> B;
#pragma unroll
		for (int first = 0; first < COLUMN<Pixel>; first += B::N)
			visit_span<B, RAYS, PITCH>(s, near, foot, tile, first, sum);
	});
}

template <class Pixel, int PITCH, bool RAYS>
static __global__ void __launch_bounds__(THREADS, PARTS<Pixel> == 4 ? 2 : 3)
	footprint_back(const __grid_constant__ Footprints s)
{
	extern __shared__ float4 tile_memory[];
	__shared__ Near near[VIEWS];
	const int x0 = blockIdx.x * SIDE, y0 = blockIdx.y * SIDE, z0 = blockIdx.z * COLUMN<Pixel>;
	const int2 place = place_of(threadIdx.x);
	/* Threads outside the box repeat its last column. */
	const float dx = (float)min(place.x, s.n[0] - 1 - x0),
		    dy = (float)min(place.y, s.n[1] - 1 - y0);
	Pixel sum[COLUMN<Pixel>] = {};
	visit_views<Pixel, PITCH>(
		s, near, (Pixel *)tile_memory,
		[&](const KernelView *k, Near *to) {
			near_block<Pixel>(s, k, x0, y0, z0, PITCH, to);
		},
		[&](const Near &v, const Pixel *tile, const Pixel *image) {
			visit_view<RAYS, PITCH>(s, v, tile, image, dx, dy, sum);
		},
		[&] {
#pragma unroll
			for (int k = 0; k < COLUMN<Pixel>; k++)
				move_sum(sum[k]);
		});
	write_sums<COLUMN<Pixel>>(s, x0 + place.x, y0 + place.y, z0, sum);
}

/* ---- a whole request ------------------------------------------------------------------------- */

static TileSize tile_size(const ProjectRequest *what, int column)
{
	double rows = 0, columns = 0;
	for (int64_t i = 0; i < what->count * 8; i++) {
		const KernelView *k = &what->plan->views[what->first + i / 8];
		double depth = k->depth[3], u = k->column[3], v = k->row[3];
		for (int a = 0; a < 3; a++) {
			const double at =
				(double)(i >> a & 1 ? what->box.high[a] - 1 : what->box.low[a]);
			depth += k->depth[a] * at;
			u += k->column[a] * at;
			v += k->row[a] * at;
		}
		const double lower = KERNEL_FANS(k) ? 1 : depth, bend = KERNEL_FANS(k) ? 0 : 1;
		double x = 0, y = 0;
		for (int a = 0; a < 2; a++) {
			x += fabs(k->column[a] - u / depth * k->depth[a]) / depth;
			y += fabs(k->row[a] - bend * v / lower * k->depth[a]) / lower;
		}
		columns = fmax(columns, (int)SIDE * x);
		rows = fmax(rows, (int)SIDE * y + column * k->row[2] / lower);
	}
	return TileSize{(int)fmin(rows * 1.05 + 10, (int)MOST_ROWS),
		(int)fmin(columns * 1.05 + 8, 1e6), quarter_direction(what)};
}

template <class Pixel> static bool has_tiles(const TileSize *size)
{
	return cuda_has_shared(tile_bytes<Pixel>(size) + VIEWS * (int)sizeof(Near));
}

static bool upright_applies(const ProjectRequest *what, CudaNotes *notes)
{
	if (what->plan->model.columns * what->plan->model.rows > 1 << 28 ||
		!footprint_upright(what))
		return false;
	TileSize *size = notes_of<TileSize>(notes);
	*size = tile_size(what, COLUMN<float4>);
	if (size->direction != 0 && has_tiles<float4>(size))
		return true;
	*size = tile_size(what, COLUMN<float>);
	size->direction = 0;
	return has_tiles<float>(size);
}

template <class Pixel> static auto kernel_of(const ProjectRequest *what, const TileSize *size)
{
	const bool rays =
		what->plan->model.weight == WEIGHT_RAY && what->plan->rays.source != TOMOS_PARALLEL;
	if (size->columns <= NARROW<Pixel>)
		return rays ? footprint_back<Pixel, NARROW<Pixel>, true>
			    : footprint_back<Pixel, NARROW<Pixel>, false>;
	return rays ? footprint_back<Pixel, WIDE<Pixel>, true>
		    : footprint_back<Pixel, WIDE<Pixel>, false>;
}

static tomos_status upright_run(tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const CudaEpilogue *epilogue)
{
	const TileSize *size = notes_of<TileSize>(notes);
	return size->direction ? run_footprints<float4>(backend, what, size, epilogue,
					 kernel_of<float4>(what, size), COLUMN<float4>)
			       : run_footprints<float>(backend, what, size, epilogue,
					 kernel_of<float>(what, size), COLUMN<float>);
}

extern const CudaKernel cuda_footprint_back_upright;
const CudaKernel cuda_footprint_back_upright = {upright_applies, upright_run, footprint_fuses};
