/* Forward projection of separable footprints for upright detectors, the exact transpose of
 * footprint_back_upright.cu: circular cone beam, stacks of fans, parallel beam and laminography
 * without roll.
 *
 * A thread adds the voxels of a column to a line of detector rows in registers, and the line to the
 * detector columns of the footprint that all these voxels have. footprint_forward.h says how blocks
 * visit the views.
 */
#include "backend/cuda/kernels/footprint_forward.h"
#include "backend/cuda/kernels/footprint_upright.h"

/* Voxels of a thread: of four views; of two; of one; of one if voxels appear large. */
typedef RegisterValues<float4, 8> Four;
typedef RegisterValues<float2, 16> Two;
typedef SharedValues<16> One;
typedef SharedValues<8> Large;

/* ---- a column of voxels ---------------------------------------------------------------------- */

/* What a thread needs after its first addition: those could change a Near. */
typedef struct {
	int taps, columns, pitch;
	float rise, up; /* height of the first voxel above the source, and per voxel */
} Climb;

/* Weights of the samples of a voxel between two boundaries, whose first edges are D samples
 * apart. */
template <int S, int D>
static __device__ __forceinline__ void set_weights(
	const float low[S + 1], const float high[S + 1], float scale, float *weight)
{
#pragma unroll
	for (int i = 0; i < D + S; i++)
		weight[i] = scale * weight_between<S, D>(low, high, i);
}

/* `shift` of tiles (place_of_column), if boundaries are about G / 2 rows apart, and columns of
 * voxels probably as many columns. */
static __host__ __device__ constexpr int shift_of(int G)
{
	return G > 4 ? 2 : G > 3 ? 1 : 0;
}

/* First row of a footprint, in its first column, or in column 0 where neighbouring columns are not
 * side by side. */
template <class B>
static __device__ __forceinline__ int *first_row(
	const Foot &foot, const Climb &climb, const Span &span, int *tile)
{
	int *row = tile + (int)span.whole * climb.pitch;
	return shift_of(B::G) == 0 ? row + foot.column : row;
}

/* Adds a line to the detector columns of the footprint; at: first_row. ALWAYS: columns that all
 * lanes add to; the others have fewer bank conflicts. Columns side by side share addresses, but for
 * a constant. */
template <class B, int ALWAYS>
static __device__ __forceinline__ void add_line(
	const Foot &foot, const Climb &climb, int *at, const float line[B::SAMPLES])
{
	constexpr int SHIFT = shift_of(B::G);
	const auto column_of = [&](int c) {
		return SHIFT == 0 ? at : at + place_of_column(SHIFT, climb.pitch, foot.column + c);
	};
	const auto add = [&](int *column, int i, int c, float a) {
		add_quanta(column + (i * climb.pitch + (SHIFT == 0 ? c : 0)), a, line[i]);
	};
	int *to[TAPS];
#pragma unroll
	for (int c = 0; c < TAPS; c++)
		to[c] = column_of(c);
#pragma unroll
	for (int i = 0; i < B::SAMPLES; i++)
#pragma unroll
		for (int c = 0; c < ALWAYS; c++)
			add(to[c], i, c, foot.a[c]);
	if (ALWAYS < TAPS && foot.a[TAPS - 1] > 0)
#pragma unroll
		for (int i = 0; i < B::SAMPLES; i++)
			add(to[TAPS - 1], i, TAPS - 1, foot.a[TAPS - 1]);
	for (int c = TAPS; c < climb.taps && foot.column + c < climb.columns; c++) {
		const float a = tap_of(foot, c);
		int *next = column_of(c);
#pragma unroll
		for (int i = 0; i < B::SAMPLES; i++)
			add(next, i, c, a);
	}
}

/* Adds a voxel beyond the edges of its samples except the first. */
template <int S, int D>
static __device__ __forceinline__ void add_beyond(
	const float low[S + 1], const float high[S + 1], float climb, float x, float *beyond)
{
#pragma unroll
	for (int e = 1; e < D + S; e++)
		add_scaled(beyond[e], part_beyond<S, D>(low, high, climb, e), x);
}

/* Voxels first .. first + B::N - 1 of a column, in one view. */
template <class B, bool RAYS, class Mine>
static __device__ __forceinline__ void visit_one(
	const Foot &foot, const Climb &climb, int *tile, int first, const Mine &voxels)
{
	const Span span = span_of<B>(foot, first);
	const float up = fmaf((float)first, climb.up, climb.rise);
	float x[B::N], beyond[B::SAMPLES + 1] = {}, line[B::SAMPLES];
	span_visit<B>(foot, span, [&](int k, const float *from, const float *to) {
		float *at = beyond + B::edge(k);
		x[k] = voxels.at(first + k);
		if (RAYS)
			x[k] *= distance_of(foot, fmaf((float)k, climb.up, up));
		if (is_longer<B>(k))
			add_beyond<B::S, (B::G + 1) / 2>(from, to, foot.climb, x[k], at);
		else
			add_beyond<B::S, B::G / 2>(from, to, foot.climb, x[k], at);
	});
#pragma unroll
	for (int i = 0; i < B::SAMPLES; i++)
		line[i] = beyond[i] - beyond[i + 1];
#pragma unroll
	for (int k = 0; k < B::N; k++)
		add_scaled(line[B::edge(k)], foot.climb, x[k]);
	add_line<B, TAPS>(foot, climb, first_row<B>(foot, climb, span, tile), line);
}

/* The same in several views, of the first B::N of `voxels`; apart: from one tile to the next. */
template <class B, bool RAYS, class Mine>
static __device__ __forceinline__ void visit_several(
	const Foot &foot, const Climb &climb, int *tile, int apart, int first, const Mine &voxels)
{
	constexpr int LONG = (B::G + 1) / 2, SHORT = B::G / 2;
	const Span span = span_of<B>(foot, first);
	const float up = fmaf((float)first, climb.up, climb.rise);
	float weight[B::N][LONG + B::S];
	span_visit<B>(foot, span, [&](int k, const float *from, const float *to) {
		const float scale = RAYS ? distance_of(foot, fmaf((float)k, climb.up, up)) : 1;
		if (is_longer<B>(k))
			set_weights<B::S, LONG>(from, to, scale, weight[k]);
		else
			set_weights<B::S, SHORT>(from, to, scale, weight[k]);
	});
	int *at = first_row<B>(foot, climb, span, tile);
#pragma unroll
	for (int part = 0; part < PARTS<typename Mine::Value>; part++, at += apart) {
		float line[B::SAMPLES] = {};
#pragma unroll
		for (int k = 0; k < B::N; k++)
#pragma unroll
			for (int i = 0; i < (is_longer<B>(k) ? LONG : SHORT) + B::S; i++)
				add_scaled(line[B::edge(k) + i], weight[k][i],
					part_of(voxels.at(k), part));
		add_line<B, TAPS - 1>(foot, climb, at, line);
	}
}

/* Footprints of any size. */
template <bool RAYS, class Mine>
static __device__ __noinline__ void visit_loop(
	const Footprints &s, const Near &near, float dx, float dy, int *tile, Mine voxels)
{
	const Foot foot = foot_of<RAYS>(s, near, dx, dy);
	const int pitch = near.pitch, apart = tile_pixels(near), end = near.rows - 1;
	visit_columns(near, foot, [&](int column, const float *a) {
		int place[GROUP];
#pragma unroll
		for (int i = 0; i < GROUP; i++)
			place[i] = place_of_column(LOOP_SHIFT, pitch, column + i);
		voxels_each(s, voxels, [&](int k, const typename Mine::Value &x) {
			const float weight = far_weight<RAYS>(s, near, foot, k);
			visit_rows(near, foot, k, 0, end, [&](int r, float share) {
				add_group(tile + r * pitch, place, apart, a, weight * share, x);
			});
		});
	});
}

/* The kind is the same for all threads of a block. LARGE: footprints of any size, which take
 * registers and time of the others too. */
template <bool RAYS, bool LARGE, class Mine>
static __device__ __forceinline__ void visit_view(
	const Footprints &s, const Near &near, int *tile, float dx, float dy, Mine &voxels)
{
	const Foot foot = foot_of<RAYS>(s, near, dx, dy);
	const Climb climb = {
		near.taps, near.columns, near.pitch, near.away[2], near.lower != 0 ? s.step[2] : 0};
	const int apart = tile_pixels(near);
	if (LARGE && near.kind == LOOP) {
		visit_loop<RAYS>(s, near, dx, dy, tile, voxels);
		return;
	}
	boundary_visit(near.kind, [&](auto boundaries) {
		typedef decltype(boundaries) B;
		if constexpr (PARTS<typename Mine::Value> != 1) {
			/* Unrolled, this would not fit into the instruction cache. */
#pragma unroll 1
			for (int first = 0; first < Mine::COUNT; first += B::N) {
				visit_several<B, RAYS>(foot, climb, tile, apart, first, voxels);
				voxels.template rotate<B::N>();
			}
		} else {
#pragma unroll 1
			for (int first = 0; first < Mine::COUNT; first += B::N)
				visit_one<B, RAYS>(foot, climb, tile, first, voxels);
		}
	});
}

template <bool RAYS, class Value>
static __device__ __noinline__ void visit_direct(
	const Footprints &s, const Near &near, int *image, const Line &line, float dx, float dy)
{
	const Foot foot = foot_of<RAYS>(s, near, dx, dy);
	const int64_t apart = s.count * s.rows * s.columns;
	line_each<Value>(s, line, [&](int k, const Value &x) {
		voxel_direct(s, near, foot, s.columns, k, far_weight<RAYS>(s, near, foot, k),
			[&](int64_t place, float share) {
				add_rounded(image + place, apart, share, x);
			});
	});
}

/* ---- a block --------------------------------------------------------------------------------- */

/* The axis of lanes for a view: of x and y, the one whose voxels are farther apart on the detector
 * in the middle of the box. */
static __host__ __device__ inline int lanes_of(
	const KernelView *k, const int64_t low[3], const int n[3])
{
	double depth = k->depth[3], u = k->column[3];
	for (int a = 0; a < 3; a++) {
		depth += k->depth[a] * ((double)low[a] + 0.5 * n[a]);
		u += k->column[a] * ((double)low[a] + 0.5 * n[a]);
	}
	return fabs(k->column[1] * depth - u * k->depth[1]) >
			       fabs(k->column[0] * depth - u * k->depth[0])
		       ? 1
		       : 0;
}

static __device__ void set_near(const Footprints &s, int view, const int first[3], Near *near)
{
	const KernelView *k = &s.views[view];
	near->kind = UNSEEN;
	if (lanes_of(k, s.low, s.n) != s.axis[0])
		return;
	const float share = near_block(s, k, first, MOST_SIDE, 1, near);
	/* Units of a tile would be coarse for the voxels far from the source. */
	if (near->kind == LOOP &&
		(!s.large || is_deep(near->df, s.size[0] * near->da, s.size[1] * near->db, 0)))
		near->kind = DIRECT;
	const float rate = 1 / near->df, lower = near->lower != 0 ? rate : 1;
	int shift = LOOP_SHIFT;
	boundary_visit(near->kind, [&](auto boundaries) { shift = shift_of(boundaries.G); });
	set_pitch(s, (near->ua - near->uf * rate * near->da) * rate,
		(near->va - near->lower * near->vf * rate * near->da) * lower, shift, near);
	/* A row meets about one voxel more than fit into it. */
	const double depth = near->df + s.size[0] * fabsf(near->da) + s.size[1] * fabsf(near->db);
	const double more = near->kind == LOOP ? share : 1 + kernel_row_depth(k, depth) / k->row[2];
	set_units(s, k, s.quanta[view], first, (float)more, near);
}

template <class Mine, bool RAYS, bool LARGE>
static __global__ void __launch_bounds__(THREADS, PARTS<typename Mine::Value> != 1 ? 2 : 3)
	footprint_forward(const __grid_constant__ Footprints s)
{
	typedef typename Mine::Value Value;
	extern __shared__ float4 memory[];
	__shared__ Near near[VIEWS];
	visit_block<Mine>(
		s, near, (int *)memory,
		[&](int view, const int first[3], Near *to) { set_near(s, view, first, to); },
		[&](const Near &v, int *tile, float dx, float dy, Mine &voxels) {
			visit_view<RAYS, LARGE>(s, v, tile, dx, dy, voxels);
		},
		[&](const Near &v, int *image, const Line &line, float dx, float dy) {
			visit_direct<RAYS, Value>(s, v, image, line, dx, dy);
		});
}

/* ---- a whole request ------------------------------------------------------------------------- */

enum { NEAR_BYTES = VIEWS * (int)sizeof(Near) };

template <class Mine> static bool has_tiles(const ProjectRequest *what, int blocks, TileSize *size)
{
	*size = tile_size(what, BlockSize{LANES, WARPS, Mine::COUNT});
	return share_memory<typename Mine::Value>(NEAR_BYTES + Mine::BYTES, blocks, size);
}

template <class Mine> static bool has_some(const ProjectRequest *what, TileSize *size)
{
	return has_tiles<Mine>(what, 2, size) || has_tiles<Mine>(what, 1, size);
}

/* Tiles of four views, of two or of one; of fewer voxels, where these appear large or few blocks
 * would have more. */
static void choose_tiles(const ProjectRequest *what, TileSize *size)
{
	if (choose_images(
		    what, size, [&] { return has_some<Four>(what, size); },
		    [&] { return has_some<Two>(what, size); }))
		return;
	if (!(has_many_blocks<One, Large>(what) && has_tiles<One>(what, 3, size)) &&
		!has_tiles<Large>(what, 3, size) && !has_tiles<Large>(what, 2, size))
		take_memory(NEAR_BYTES + Large::BYTES, size);
	forget_images(size);
}

static bool upright_applies(const ProjectRequest *what, CudaNotes *notes)
{
	int unused;
	if (what->plan->model.columns * what->plan->model.rows > 1 << 28 ||
		!footprint_upright(what) || !quanta_apply(what, &unused))
		return false;
	TileSize *size = notes_of<TileSize>(notes);
	choose_tiles(what, size);
	const int n[3] = {(int)(what->box.high[0] - what->box.low[0]),
		(int)(what->box.high[1] - what->box.low[1]),
		(int)(what->box.high[2] - what->box.low[2])};
	for (int64_t i = 0; i < what->count; i++)
		size->axes |= 1 << lanes_of(&what->plan->views[what->first + i], what->box.low, n);
	return true;
}

template <class Mine>
static tomos_status run(tomos_backend *backend, const ProjectRequest *what, const TileSize *size)
{
	const bool rays = has_rays(what);
	auto kernel = has_large_footprints(what) ? rays ? footprint_forward<Mine, true, true>
							: footprint_forward<Mine, false, true>
		      : rays ? footprint_forward<Mine, true, false>
						 : footprint_forward<Mine, false, false>;
	return run_footprints<Mine>(
		backend, what, size, NEAR_BYTES, kernel, [](int lanes, int axis[3]) {
			axis[0] = lanes;
			axis[1] = lanes == 1 ? 0 : 1;
			axis[2] = 2;
		});
}

static tomos_status upright_run(tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const CudaEpilogue *)
{
	const TileSize *size = notes_of<TileSize>(notes);
	return run_of_size(size, run<Four>, run<Two>, run<One>, run<Large>, One::COUNT)(
		backend, what, size);
}

extern const CudaKernel cuda_footprint_forward_upright;
const CudaKernel cuda_footprint_forward_upright = {upright_applies, upright_run};
