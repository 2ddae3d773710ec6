/* Forward projection of separable footprints for upright detectors, the exact transpose of
 * footprint_back_upright.cu: circular cone beam, stacks of fans, parallel beam and laminography
 * without roll.
 *
 * A warp has 32 detector columns of ROWS rows of a view and visits the planes of the axis that is
 * closest to their rays. On some planes at a time, each lane first takes columns of voxels that the
 * detector columns meet, one after the other, and integrates each between the edges of the rows, as
 * seen along the rays (footprint.h); these sums are kept in shared memory. Then each lane adds the
 * sums that its own detector column meets, times the shares of their footprints.
 *
 * The warps of a block have neighbouring views, which read nearly the same voxels.
 */
#include "backend/cuda/kernels/footprint_forward_upright.h"

/* ---- columns of voxels ----------------------------------------------------------------------- */

/* A column of voxels: rows are `gap` voxels apart from height z on. */
template <class Value> struct Column {
	float z, gap;
	float flat, bent;         /* half the narrow box of voxel j is |flat + bent j| */
	float square, step, rise; /* of the distance from the source */
	const Value *from;        /* voxel 0 */
	int low, high;            /* voxels of the box */
	int64_t slice;            /* from a voxel to the next */
};

template <bool RAYS, class Value>
static __device__ __forceinline__ Value weighted(const Column<Value> &c, int voxel)
{
	const float rise = fmaf((float)voxel, c.step, c.rise);
	const Value x = __ldg(c.from + voxel * c.slice);
	return RAYS ? scaled(length_nearly(fmaf(rise, rise, c.square)), x) : x;
}

template <class Value>
static __device__ __forceinline__ float half_of(const Column<Value> &c, int voxel)
{
	return fmaxf(fabsf(fmaf((float)voxel, c.bent, c.flat)), FOOTPRINT_LEAST);
}

/* N rows from row `first` on. INSIDE: all voxels are in the box. */
template <class B, bool RAYS, bool INSIDE, class Value>
static __device__ __forceinline__ void span_sums(
	const Column<Value> &c, float t, int lowest, int first, Value (*sums)[UNITS])
{
	constexpr int S = B::S;
	Value x[B::SAMPLES];
	float half[B::SAMPLES], quarter[B::SAMPLES], low[S], high[S];
#pragma unroll
	for (int i = 0; i < B::SAMPLES; i++) {
		const int j = lowest + i;
		x[i] = Value{};
		if (INSIDE || (j >= c.low && j < c.high))
			x[i] = weighted<RAYS>(c, j);
		half[i] = half_of(c, j);
		quarter[i] = 0.25f * inverse_nearly(half[i]);
	}
	lengths_below<S>(B::at(0, t, c.gap), half, quarter, low);
#pragma unroll
	for (int k = 0; k < B::N; k++) {
		const int m = B::edge(k), next = B::edge(k + 1);
		lengths_below<S>(B::at(k + 1, t, c.gap), half + next, quarter + next, high);
		sums[first + k][0] = next - m > B::G / 2
					     ? add_between<S, (B::G + 1) / 2>(low, high, x + m)
					     : add_between<S, B::G / 2>(low, high, x + m);
#pragma unroll
		for (int i = 0; i < S; i++)
			low[i] = high[i];
	}
}

/* Spans of four rows for voxels of four views: more do not fit into registers. */
template <class B, class Value>
using Short = Boundaries<(PARTS<Value> == 4 && B::N > 4 ? 4 : B::N), B::G, B::S>;

template <class B, bool RAYS, class Value>
static __device__ __forceinline__ void column_sums(
	const Column<Value> &c, float most, unsigned lanes, Value (*sums)[UNITS])
{
#pragma unroll
	for (int first = 0; first < ROWS<Value>; first += B::N) {
		const float z = fmaf((float)first, c.gap, c.z), whole = B::first(z, c.gap, most);
		const int lowest = (int)whole;
		const bool inside = lowest >= c.low && lowest + B::SAMPLES <= c.high;
		if (__all_sync(lanes, inside))
			span_sums<B, RAYS, true>(c, z - whole, lowest, first, sums);
		else
			span_sums<B, RAYS, false>(c, z - whole, lowest, first, sums);
	}
}

/* Rows of many voxels, or where horizontal edges appear higher than vertical ones, one by one. */
template <bool RAYS, class Value>
static __device__ __noinline__ void column_sums_any(
	const Column<Value> &c, float most, float shape, Value (*sums)[UNITS])
{
	for (int row = 0; row < ROWS<Value>; row++) {
		const float low = fmaf((float)row, c.gap, c.z), high = low + c.gap;
		const int first = max((int)floorf(low - 2 * most) - 1, c.low);
		const int last = min((int)floorf(high + 2 * most) + 1, c.high - 1);
		Value sum = {};
		for (int j = first; j <= last; j++) {
			const Trapezoid t = trapezoid_of_rows(1, half_of(c, j), shape);
			const float middle = (float)j + 0.5f;
			const float share = trapezoid_below(t, high - middle) -
					    trapezoid_below(t, low - middle);
			add_scaled(sum, share, weighted<RAYS>(c, j));
		}
		sums[row][0] = sum;
	}
}

/* The column dk planes and db columns from the first. Returns whether any row meets its voxels,
 * whose footprints extend up to `beyond` voxels beyond them. */
template <bool RAYS, class Value>
static __device__ __forceinline__ bool column_of(const Sheets &s, const Local &l,
	const Value *volume, float dk, float db, float beyond, Column<Value> *c, float4 *across)
{
	const float d = along(l.d, dk, db), rate = inverse_nearly(d);
	const float u = along(l.u, dk, db) * rate, lower = l.lower != 0 ? rate : 1;
	const float x = fabsf(fmaf(-u, l.d[1], l.u[1])) * rate,
		    y = fabsf(fmaf(-u, l.d[2], l.u[2])) * rate;
	const float wide = fmaxf(fmaxf(x, y), FOOTPRINT_LEAST),
		    narrow = fmaxf(fminf(x, y), FOOTPRINT_LEAST);
	const float ax = fmaf(dk, l.step[0], l.away[0]), ay = fmaf(db, l.step[1], l.away[1]);
	float scale = l.scale;
	if (RAYS)
		scale *= rate * rate * lower;
	else if (s.weighting == WEIGHT_DEPTH)
		scale = rate * rate;
	*across = make_float4(u, narrow, 0.5f * (wide + narrow), scale * inverse_nearly(wide));
	const float bent = l.bent * rate;
	*c = Column<Value>{.z = along(l.z, dk, db),
		.gap = (l.lower != 0 ? d : 1) * l.inverse,
		.flat = fmaf(-bent, l.source, l.flat),
		.bent = bent,
		.square = fmaf(ax, ax, ay * ay),
		.step = l.step[2],
		.rise = l.rise,
		.from = volume + l.slice * ((int64_t)s.n[0] * s.n[1]),
		.low = -l.slice,
		.high = s.n[2] - l.slice,
		.slice = (int64_t)s.n[0] * s.n[1]};
	return c->z - beyond <= (float)c->high &&
	       fmaf((float)ROWS<Value>, c->gap, c->z) + beyond >= (float)c->low;
}

/* The share of the pixel from s - 1/2 to s + 1/2 of the footprint. */
static __device__ __forceinline__ float pixel_share(const float4 &across, float s)
{
	const Trapezoid t = {across.z, across.y, across.w, 0.5f * inverse_nearly(across.y)};
	const float high = s + 0.5f, low = s - 0.5f;
	float sum = 0;
#pragma unroll
	for (int i = 0; i < 2; i++) {
		const float at = i ? high : low, far = t.reach - fabsf(at);
		const float curved = fminf(fmaxf(far, 0.f), t.narrow);
		const float tail = fmaf(curved * t.bend, curved, fmaxf(far - t.narrow, 0.f));
		sum += (i != 0) == (at > 0) ? -tail : tail;
	}
	/* The whole footprint, its wide box's width, where the centre is between both edges. */
	const float wide = 2 * t.reach - t.narrow;
	return t.rate * (high > 0 && !(low > 0) ? wide + sum : sum);
}

/* ---- a segment ------------------------------------------------------------------------------- */

/* Columns first .. first + width - 1 of each of `planes` planes from dk0 on, counted from the first
 * of that plane's range. */
typedef struct {
	int dk0, planes, first, width;
} Batch;

/* What the lanes of a warp have in common. */
typedef struct {
	const void *volume;
	int k0, nb, planes;
	int kind;   /* of Boundaries; -1: none */
	float most; /* half the narrow box, at most */
	float beyond, shape;
} Segment;

template <bool RAYS, class Value>
static __device__ __forceinline__ void unit_sums(
	const Segment &g, const Column<Value> &c, unsigned lanes, Value (*sums)[UNITS])
{
	if (g.kind < 0)
		column_sums_any<RAYS>(c, g.most, g.shape, sums);
	boundary_visit(g.kind, [&](auto boundaries) {
		column_sums<Short<decltype(boundaries), Value>, RAYS>(c, g.most, lanes, sums);
	});
}

/* Returns whether rows of the warp meet voxels of these columns. */
template <bool RAYS, class Value>
static __device__ __forceinline__ bool spread(const Sheets &s, const Local &l, const Segment &g,
	const Range &range, const Batch &batch, Spread<Value> *to)
{
	const int units = batch.planes * batch.width;
	const float per_plane = 1 / (float)batch.width;
	bool seen = false;
	for (int first = 0; first < units; first += WARP) {
		const int unit = first + (int)threadIdx.x;
		const bool mine = unit < units;
		const int plane = (int)(((float)min(unit, units - 1) + 0.5f) * per_plane);
		const int dk = batch.dk0 + plane;
		const int db = min(
			first_of(range, dk) + batch.first + unit - plane * batch.width, range.high);
		const int64_t place = (int64_t)(g.k0 + dk) * g.nb + l.b0 + db;
		Column<Value> c;
		float4 across;
		const bool meets = column_of<RAYS>(s, l, (const Value *)g.volume + place, (float)dk,
			(float)db, g.beyond, &c, &across);
		const unsigned lanes = __ballot_sync(~0u, mine);
		const bool any = __any_sync(~0u, mine && meets);
		seen = seen || any;
		if (!mine)
			continue;
		Value(*sums)[UNITS] = (Value(*)[UNITS])(&to->sums[0][unit]);
		to->across[unit] = across;
		if (any) {
			unit_sums<RAYS>(g, c, lanes, sums);
			continue;
		}
#pragma unroll
		for (int row = 0; row < ROWS<Value>; row++)
			sums[row][0] = Value{};
	}
	return seen;
}

template <class Value>
static __device__ __forceinline__ void collect(const Range &range, const Batch &batch,
	const Track &path, float c, const Spread<Value> *from, Value sum[ROWS<Value>])
{
	for (int plane = 0; plane < batch.planes; plane++) {
		const int dk = batch.dk0 + plane, start = first_of(range, dk) + batch.first;
		const int stop = min(start + batch.width, end_of(range, dk)) - 1;
		const float b = fmaf((float)dk, path.slope, path.p);
		int low = start, high = stop;
		if (!range.whole) {
			low = max(low, (int)ceilf(fmaxf(b - path.half, -1e6f)));
			high = min(high, (int)floorf(fminf(b + path.half, 1e6f)));
		}
		for (int db = low; db <= high; db++) {
			const int unit = plane * batch.width + db - start;
			const float4 across = from->across[unit];
			const float share = pixel_share(across, c - across.x);
#pragma unroll
			for (int row = 0; row < ROWS<Value>; row++)
				add_scaled(sum[row], share, from->sums[row][unit]);
		}
	}
}

/* The kind of boundaries for a segment: voxels per row are extreme at its corners. */
static __device__ __forceinline__ void set_kind(const Local &l, const Range &r, Segment *g)
{
	float low = 1e30f, high = 0;
#pragma unroll
	for (int corner = 0; corner < 4; corner++) {
		const float dk = corner & 1 ? (float)(g->planes - 1) : 0.f;
		const int dk_int = corner & 1 ? g->planes - 1 : 0;
		const int db = corner & 2 ? max(end_of(r, dk_int) - 1, r.low)
					  : min(first_of(r, dk_int), r.high);
		const float d = along(l.d, dk, (float)db);
		low = fminf(low, d);
		high = fmaxf(high, d);
	}
	/* Voxels that rows meet are less than one from their edges. */
	g->most = fmaf(l.bent, 1.1f / low, l.rows) + 1e-4f;
	if (l.lower == 0)
		low = high = 1;
	g->kind = boundary_kind(low * l.inverse, high * l.inverse, g->most);
	g->beyond = 1;
	g->shape = l.shape;
	if (g->most > 0.5f) { /* footprints of up to twice the half more */
		g->kind = -1;
		g->most *= 1.2f;
		g->beyond = 1 + 2 * g->most;
	}
}

/* Whether planes dk .. end have columns that the warp meets: the range is bounded by straight
 * lines. */
static __device__ __forceinline__ bool meets_planes(const Range &r, int dk, int end)
{
	return r.whole || !((end_of(r, dk) <= r.low && end_of(r, end) <= r.low) ||
				  (first_of(r, dk) > r.high && first_of(r, end) > r.high));
}

/* Columns per plane, at most. */
static __device__ __forceinline__ int range_width(const Range &r, int planes)
{
	const float one = r.p1 - r.p0, two = fmaf((float)(planes - 1), r.slope1 - r.slope0, one);
	const float most = fmaxf(fabsf(one), fabsf(two)) + 2 * r.half;
	const int all = r.high - r.low + 1;
	return r.whole ? all : (int)fminf(floorf(most) + 2, (float)all);
}

template <bool RAYS, class Value>
static __device__ __forceinline__ void visit_segment(const Sheets &s, const Local &l, Segment g,
	float c, Spread<Value> *memory, Value sum[ROWS<Value>])
{
	const Track path = path_of(l, c, g.planes, l.b0, g.nb);
	const Range range = range_of(path, -l.b0, g.nb - 1 - l.b0);
	if (!meets_planes(range, 0, g.planes - 1))
		return;
	const int width = range_width(range, g.planes),
		  at_once = max(1, min(UNITS / width, g.planes));
	set_kind(l, range, &g);
	for (int dk = 0; dk < g.planes; dk += at_once) {
		const int planes = min(at_once, g.planes - dk);
		if (!meets_planes(range, dk, dk + planes - 1))
			continue;
		for (int first = 0; first < width; first += UNITS) {
			const Batch batch = {dk, planes, first, min(width - first, (int)UNITS)};
			__syncwarp();
			const bool seen = spread<RAYS>(s, l, g, range, batch, memory);
			__syncwarp();
			if (seen)
				collect(range, batch, path, c, memory, sum);
		}
	}
}

/* Adds the sum of a pixel to its view, or the sums to the four views. */
template <class Value>
static __device__ __forceinline__ void add_pixel(
	const Sheets &s, int64_t view, int row, int column, const Value &sum)
{
	for (int i = 0; i < PARTS<Value>; i++) {
		const int64_t v = view + i * s.direction % 4 * s.count;
		s.projections[(v * s.rows + row) * s.columns + column] += ((const float *)&sum)[i];
	}
}

template <class Value, bool RAYS>
static __global__ void __launch_bounds__(WARP *WARPS, BLOCKS)
	footprint_forward(const __grid_constant__ Sheets s)
{
	extern __shared__ float4 spread_memory[];
	__shared__ Local locals[WARPS];
	const int warp = threadIdx.y, spans = WARPS / s.together;
	const int64_t view = (int64_t)blockIdx.y * s.together + warp % s.together;
	const int row = (blockIdx.z * spans + warp / s.together) * ROWS<Value>,
		  first = blockIdx.x * WARP;
	const KernelView *k = &s.views[min(view, s.count - 1)];
	/* Rays are perpendicular to the gradient of U - c D. */
	const double c = first + 0.5 * (WARP - 1);
	const int a = fabs(k->column[1] - c * k->depth[1]) >= fabs(k->column[0] - c * k->depth[0])
			      ? 0
			      : 1;
	const bool mine = view < s.count && row < s.rows && s.volume[a];
	const int axes[2] = {a, 1 - a}, na = s.n[a];
	Value sum[ROWS<Value>] = {};
	for (int k0 = 0;; k0 += SEGMENT) {
		const bool going = mine && k0 < na;
		if (going) {
			if (threadIdx.x == 0)
				local_of(s, k, axes, row, ROWS<Value>, first, k0, &locals[warp]);
			__syncwarp();
			const Segment g = {
				s.volume[a], k0, s.n[1 - a], min((int)SEGMENT, na - k0), 0, 0};
			visit_segment<RAYS>(s, locals[warp], g, (float)threadIdx.x,
				(Spread<Value> *)spread_memory + warp, sum);
		}
		if (!__syncthreads_or(going)) /* views of a block advance together */
			break;
	}
	const int column = first + threadIdx.x;
#pragma unroll
	for (int i = 0; i < ROWS<Value>; i++)
		if (mine && column < s.columns && row + i < s.rows)
			add_pixel(s, view, row + i, column, sum[i]);
}

/* ---- a whole request ------------------------------------------------------------------------- */

static bool upright_applies(const ProjectRequest *what, CudaNotes *notes)
{
	*notes_of<int>(notes) = quarter_direction(what);
	return what->count <= 65535 && footprint_upright(what);
}

/* The volume as planes across an axis. */
template <class Value>
static tomos_status set_volume(
	tomos_backend *backend, const ProjectRequest *what, int axis, Sheets *s)
{
	const float *volume = NULL;
	int64_t stride[2];
	const KernelGrid slab = {.n = {s->n[0], s->n[1], what->plan->grid.n[2]},
		.low = {0, 0, s->low[2]},
		.high = {s->n[0], s->n[1], s->low[2] + s->n[2]}};
	if (PARTS<Value> == 4)
		TRY(quarter_volume(backend, what, axis, &slab, &volume, stride));
	else
		TRY(axis_volume(backend, what, axis, &volume, stride));
	s->volume[axis] = volume;
	return TOMOS_OK;
}

template <class Value>
static tomos_status launch(tomos_backend *backend, const ProjectRequest *what, const Sheets &s)
{
	const bool rays = s.weighting == WEIGHT_RAY && what->plan->rays.source != TOMOS_PARALLEL;
	auto kernel = rays ? footprint_forward<Value, true> : footprint_forward<Value, false>;
	TRY(cuda_take_shared((const void *)kernel));
	kernel<<<dim3(cuda_blocks(s.columns, WARP, 1 << 30),
			 cuda_blocks(s.count, s.together, 65535),
			 cuda_blocks(s.rows, ROWS<Value> * WARPS / s.together, 65535)),
		dim3(WARP, WARPS), WARPS *(int)sizeof(Spread<Value>), device_of(backend)->stream>>>(
		s);
	CUDA_LAUNCHED("projecting");
	return TOMOS_OK;
}

/* Projects the slices of `s`. Scratch memory has rotated volumes in one order at a time. */
template <class Value>
static tomos_status run_slices(tomos_backend *backend, const ProjectRequest *what, Sheets s)
{
	for (int axis = 0; axis < 2; axis++) {
		if (PARTS<Value> == 4)
			s.volume[1 - axis] = NULL;
		TRY(set_volume<Value>(backend, what, axis, &s));
		if (PARTS<Value> == 4 || axis == 1)
			TRY(launch<Value>(backend, what, s));
	}
	return TOMOS_OK;
}

template <class Value>
static tomos_status run(tomos_backend *backend, const ProjectRequest *what, int direction)
{
	const Plan *plan = what->plan;
	const CudaPlan *kept;
	TRY(cuda_plan(backend, plan, &kept));
	Sheets s = {.views = kept->views + what->first,
		.count = what->count / PARTS<Value>,
		.direction = direction,
		.together = 1,
		.weighting = plan->model.weight,
		.rows = (int)plan->model.rows,
		.columns = (int)plan->model.columns,
		.projections = what->projections};
	for (int a = 0; a < 3; a++) {
		s.low[a] = what->box.low[a];
		s.n[a] = (int)(what->box.high[a] - what->box.low[a]);
		s.step[a] = plan->whole.step[a];
	}
	while (s.together < WARPS && s.together * 2 <= s.count)
		s.together *= 2;
	const int64_t slices = PARTS<Value> == 4 ? quarter_slices(backend, what) : s.n[2];
	for (; s.low[2] < what->box.high[2]; s.low[2] += slices) {
		s.n[2] = (int)min64(slices, what->box.high[2] - s.low[2]);
		TRY(run_slices<Value>(backend, what, s));
	}
	return TOMOS_OK;
}

static tomos_status upright_run(tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const CudaEpilogue *)
{
	const int direction = *notes_of<int>(notes);
	return (direction ? run<float4> : run<float>)(backend, what, direction);
}

extern const CudaKernel cuda_footprint_forward_upright;
const CudaKernel cuda_footprint_forward_upright = {upright_applies, upright_run};
