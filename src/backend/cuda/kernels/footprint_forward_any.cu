/* Forward projection of separable footprints for any detector: rolled, slanted, C-arms, free
 * vectors.
 *
 * A thread has a cell, a small square of pixels, and follows it through the planes of the axis that
 * is closest to the rays. In each plane it takes the voxels whose centres fall into the cell and
 * adds their footprints (footprint_shares.h) to a patch in shared memory, the cell and the pixels
 * around it, that is its own: sums have the same order in every run. The patches of a block are
 * then added to a tile, and tiles, which overlap, to the projections.
 *
 * Where views are in sets that are 90 degrees apart, the values of a voxel and of its three rotated
 * images are stored side by side, and the shares of a voxel serve four views.
 */
#include "backend/cuda/kernels/footprint_forward_any.h"

/* ---- voxels ---------------------------------------------------------------------------------- */

/* The first voxel of a thread in a plane: U, V and D, from the first pixel of the patch, and the
 * distance from the source along a, b and c. The changes of U and V are from that pixel, too. */
typedef struct {
	Affine u, v, d;
	float square, b, c;
} Anchor;

static __device__ __forceinline__ void set_anchor(
	const Beam &beam, double column, double row, double ka, double kb, double kc, Anchor *to)
{
	const double d = fma(beam.d.a, ka, fma(beam.d.b, kb, fma(beam.d.c, kc, beam.d.w))),
		     u = fma(beam.u.a, ka, fma(beam.u.b, kb, fma(beam.u.c, kc, beam.u.w))),
		     v = fma(beam.v.a, ka, fma(beam.v.b, kb, fma(beam.v.c, kc, beam.v.w)));
	const float a = (float)(beam.away[0] + ka) * beam.step[0];
	to->u.w = (float)fma(-column, d, u);
	to->v.w = (float)fma(-row, d, v);
	to->d.w = (float)d;
	to->square = a * a;
	to->b = (float)(beam.away[1] + kb) * beam.step[1];
	to->c = (float)(beam.away[2] + kc) * beam.step[2];
}

/* Changes of U, V and D relative to the first pixel of the patch. */
static __device__ __forceinline__ void set_changes(
	const Beam &beam, double column, double row, Affine *u, Affine *v, Affine *d)
{
	*u = Affine{(float)fma(-column, beam.d.a, beam.u.a),
		(float)fma(-column, beam.d.b, beam.u.b), (float)fma(-column, beam.d.c, beam.u.c),
		0};
	*v = Affine{(float)fma(-row, beam.d.a, beam.v.a), (float)fma(-row, beam.d.b, beam.v.b),
		(float)fma(-row, beam.d.c, beam.v.c), 0};
	*d = Affine{(float)beam.d.a, (float)beam.d.b, (float)beam.d.c, 0};
}

/* What a thread adds voxels to. */
template <class Value> struct Patch {
	Value *own; /* its element of the first pixel */
	int columns;
	float end[2]; /* number of columns and rows, plus MAGIC */
};

/* Adds the voxel at (b, c) from the anchor. */
template <class Value, bool RAYS, int NC, int NR>
static __device__ __forceinline__ void add_voxel(const Sheets &s, const Beam &beam,
	const Anchor &at, const Patch<Value> &patch, float b, float c, const Value &value)
{
	constexpr unsigned magic = 0x4b400000u; /* the bits of MAGIC */
	const float depth = fmaf(c, at.d.z, fmaf(b, at.d.y, at.d.w)), rate = inverse_nearly(depth);
	const float U = fmaf(c, at.u.z, fmaf(b, at.u.y, at.u.w)),
		    V = fmaf(c, at.v.z, fmaf(b, at.v.y, at.v.w));
	const float u = U * rate, v = V * rate;
	const Shape across = shape_of(at.u, at.d, u), along = shape_of(at.v, at.d, v);
	/* Of voxels beyond the detector, what is outside the patch is added to its border. */
	const float left = fminf(fmaxf(first_pixel(across, u, rate), MAGIC), patch.end[0] - NC),
		    low = fminf(fmaxf(first_pixel(along, v, rate), MAGIC), patch.end[1] - NR);
	float x[NC], y[NR], weight = beam.scale * inverse_nearly(across.wide * along.wide);
	shares_of<NC>(across, __fadd_rn(left, -MAGIC), U, depth, x);
	shares_of<NR>(along, __fadd_rn(low, -MAGIC), V, depth, y);
	if (RAYS) {
		const float away = fmaf(b, beam.step[1], at.b), up = fmaf(c, beam.step[2], at.c);
		const float square = fmaf(away, away, fmaf(up, up, at.square));
		weight *= rate * (rate * rate) * (square * inverse_root(square));
	} else if (s.weighting == WEIGHT_DEPTH) {
		weight *= rate * rate;
	}
	const unsigned place =
		(__float_as_uint(low) - magic) * patch.columns + (__float_as_uint(left) - magic);
	Value *to = patch.own + place * THREADS;
#pragma unroll
	for (int r = 0; r < NR; r++, to += patch.columns * THREADS) {
		const Value line = scaled(weight * y[r], value);
#pragma unroll
		for (int i = 0; i < NC; i++) {
			Value sum = to[i * THREADS];
			add_scaled(sum, x[i], line);
			to[i * THREADS] = sum;
		}
	}
}

/* The voxels of a cell in a plane, along c for one b after the other: the next one. */
typedef struct {
	float b, b_end, c, c_end; /* whole numbers */
} Next;

/* Returns whether there is one. */
static __device__ __forceinline__ bool find_next(const Limits &l, Next *next)
{
	while (!(next->c < next->c_end)) {
		next->b += 1;
		if (!(next->b < next->b_end))
			return false;
		const float2 row = row_of(l, next->b);
		next->c = row.x;
		next->c_end = row.y;
	}
	return true;
}

/* Adds the voxels of a cell in a plane, the first of which is next. */
template <class Value, bool RAYS, int NC, int NR>
static __device__ __forceinline__ void visit_cell(const Sheets &s, const Beam &beam,
	const Anchor &at, const Patch<Value> &patch, const Limits &limits, Next next,
	const Value *volume)
{
	const float b0 = next.b, c0 = next.c;
	const int stride_b = (int)beam.stride[1];
	const int64_t stride_c = beam.stride[2];
	Value ahead = __ldg(volume);
	bool more;
	do {
		const Value value = ahead;
		const float b = next.b - b0, c = next.c - c0;
		next.c += 1;
		more = find_next(limits, &next);
		if (more)
			ahead = __ldg(volume + (int)(next.b - b0) * stride_b +
				      (int)(next.c - c0) * stride_c);
		add_voxel<Value, RAYS, NC, NR>(s, beam, at, patch, b, c, value);
	} while (more);
}

/* The kind of shares that the voxels of a cell need; at: of the first voxel. */
static __device__ __forceinline__ int kind_of(const Sheets &s, const Anchor &at)
{
	const float rate = inverse_nearly(at.d.w);
	const Shape across = shape_of(at.u, at.d, at.u.w * rate),
		    along = shape_of(at.v, at.d, at.v.w * rate);
	/* Lengths change with depth and position: by how much within the cell. */
	const float voxels = s.voxels + (float)s.cell,
		    more = 1 + 3 * voxels * (fabsf(at.d.y) + fabsf(at.d.z)) * rate;
	const float wide = (across.wide + across.narrow) * rate * more,
		    high = (along.wide + along.narrow) * rate * more;
	const int kind = share_kind(wide, high);
	return kind < 0 ? s.kind : min(kind, s.kind);
}

template <class Value, bool RAYS>
static __device__ __forceinline__ void visit_planes(const Sheets &s, const Beam &beam,
	const Cell &cell, const Patch<Value> &patch, double column, double row, bool mine)
{
	Anchor at;
	set_changes(beam, column, row, &at.u, &at.v, &at.d);
#pragma unroll 1
	for (int k = 0; k < beam.n[0]; k++) {
		const double plane = (double)k;
		const int2 columns = cell_columns(cell, plane, beam.n[1]);
		const Limits limits = limits_of(cell, plane, beam.n[2]);
		Next next = {(float)columns.x - 1, (float)columns.y, 0, 0};
		const bool some = mine && find_next(limits, &next);
		if (some)
			set_anchor(beam, column, row, plane, (double)next.b, (double)next.c, &at);
		/* The threads of a warp take the same way. */
		const int kind = -least_of_warp(some ? -kind_of(s, at) : 0);
		if (!some)
			continue;
		const Value *volume = (const Value *)s.volume + k * beam.stride[0] +
				      (int)next.b * beam.stride[1] + (int)next.c * beam.stride[2];
		switch (kind) {
#define KIND(number, NC, NR) \
	case number: \
		visit_cell<Value, RAYS, NC, NR>(s, beam, at, patch, limits, next, volume); \
		break;
			SHARE_KINDS(KIND)
#undef KIND
		default:
			break;
		}
	}
}

/* ---- a block --------------------------------------------------------------------------------- */

/* Adds the patches of a block and writes the tile. */
template <class Value>
static __device__ __forceinline__ void write_tile(
	const Sheets &s, const Value *patches, Value *tile)
{
	const int wide = tile_size(s, 0), high = tile_size(s, 1);
	for (int i = threadIdx.x; i < wide * high; i += THREADS) {
		const int x = i % wide, y = i / wide;
		const int x1 = min(x / s.cell, CELLS_X - 1), y1 = min(y / s.cell, CELLS_Y - 1);
		Value sum = {};
		for (int cy = y1; cy >= 0 && y - cy * s.cell < s.size[1]; cy--)
			for (int cx = x1; cx >= 0 && x - cx * s.cell < s.size[0]; cx--)
				add_scaled(sum, 1,
					patches[((y - cy * s.cell) * s.size[0] + x - cx * s.cell) *
							THREADS +
						cy * CELLS_X + cx]);
		tile[i] = sum;
	}
}

template <class Value, bool RAYS>
static __global__ void __launch_bounds__(THREADS, PARTS<Value> == 4 ? 4 : 6)
	footprint_forward(const __grid_constant__ Sheets s)
{
	extern __shared__ float4 patch_memory[];
	__shared__ Beam beam;
	__shared__ bool mine;
	Value *patches = (Value *)patch_memory;
	const int tile_x = blockIdx.x % s.tiles[0], tile_y = blockIdx.x / s.tiles[0];
	if (threadIdx.x == 0)
		mine = set_beam(s, &s.views[blockIdx.y], tile_x, tile_y, &beam);
	for (int i = 0; i < s.size[0] * s.size[1]; i++)
		patches[i * THREADS + threadIdx.x] = Value{};
	__syncthreads();
	if (!mine)
		return;
	const int x = beam.x + threadIdx.x % CELLS_X, y = beam.y + threadIdx.x / CELLS_X;
	Cell cell;
	set_cell(s, beam, x, y, &cell);
	const Patch<Value> patch = {patches + threadIdx.x, s.size[0],
		{MAGIC + (float)s.size[0], MAGIC + (float)s.size[1]}};
	visit_planes<Value, RAYS>(s, beam, cell, patch, (double)(x * s.cell - s.before[0]),
		(double)(y * s.cell - s.before[1]), x * s.cell < s.columns && y * s.cell < s.rows);
	__syncthreads();
	const int64_t tile = (int64_t)tile_size(s, 0) * tile_size(s, 1);
	write_tile(s, patches,
		(Value *)s.patches + ((int64_t)blockIdx.y * gridDim.x + blockIdx.x) * tile);
}

/* ---- tiles ----------------------------------------------------------------------------------- */

/* The last tile whose pixels, from `before` pixels before its first cell on, contain pixel i. */
static __device__ __forceinline__ int last_tile(const Sheets &s, int c, int i)
{
	const int pitch = s.cell * (c ? (int)CELLS_Y : (int)CELLS_X);
	return min((i + s.before[c]) / pitch, s.tiles[c] - 1);
}

/* The sum of the tiles that contain a pixel. */
template <class Value>
static __device__ __forceinline__ Value pixel_sum(
	const Sheets &s, const Value *tiles, int column, int row)
{
	const int wide = tile_size(s, 0), high = tile_size(s, 1);
	Value sum = {};
	for (int ty = last_tile(s, 1, row); ty >= 0; ty--) {
		const int y = row + s.before[1] - ty * s.cell * CELLS_Y;
		if (y >= high)
			break;
		for (int tx = last_tile(s, 0, column); tx >= 0; tx--) {
			const int x = column + s.before[0] - tx * s.cell * CELLS_X;
			if (x >= wide)
				break;
			add_scaled(sum, 1,
				tiles[((int64_t)(ty * s.tiles[0] + tx) * high + y) * wide + x]);
		}
	}
	return sum;
}

template <class Value> static __global__ void add_tiles(const __grid_constant__ Sheets s)
{
	const int column = blockIdx.x * blockDim.x + threadIdx.x;
	const int64_t per_view =
		(int64_t)s.tiles[0] * s.tiles[1] * tile_size(s, 0) * tile_size(s, 1);
	if (column >= s.columns)
		return;
	for (int64_t line = blockIdx.y; line < s.count * s.rows; line += gridDim.y) {
		const int64_t view = line / s.rows;
		const Value sum = pixel_sum(s, (const Value *)s.patches + view * per_view, column,
			(int)(line % s.rows));
		for (int i = 0; i < PARTS<Value>; i++)
			s.projections[(i * s.direction % 4 * s.part * s.rows + line) * s.columns +
				      column] += ((const float *)&sum)[i];
	}
}

/* ---- a whole request ------------------------------------------------------------------------- */

static bool any_applies(const ProjectRequest *what, CudaNotes *notes)
{
	const Plan *plan = what->plan;
	const int source = plan->rays.source;
	if (plan->model.planar || !(source == TOMOS_POINT || source == TOMOS_PARALLEL) ||
		plan->model.rows > 1 << 16 || plan->model.columns > 1 << 16 || what->count > 65535)
		return false;
	Notes *found = notes_of<Notes>(notes);
	*found = Notes{{0, 0}, 1e9, {0, 0}, 0, quarter_direction(what)};
	for (int64_t i = 0; i < what->count; i++) {
		const KernelView *k = &plan->views[what->first + i];
		if (!measure_box(what, k, found) || !measure_detector(&plan->model, k, found))
			return false;
	}
	for (int c = 0; c < 2; c++) /* between the corners, and rounding of float */
		found->longest[c] = found->longest[c] * 1.002 + 1e-4;
	if (share_kind((float)found->longest[0], (float)found->longest[1]) < 0)
		return false;
	Sheets s = {};
	if (!set_cells<float4>(found, &s))
		found->direction = 0;
	return set_cells<float>(found, &s);
}

/* The volume for planes across an axis. */
template <class Value>
static tomos_status set_volume(
	tomos_backend *backend, const ProjectRequest *what, int axis, Sheets *s)
{
	const float *volume = NULL;
	int64_t stride[2] = {0, 0};
	const KernelGrid slab = {.n = {s->n[0], s->n[1], what->plan->grid.n[2]},
		.low = {0, 0, s->low[2]},
		.high = {s->n[0], s->n[1], s->low[2] + s->n[2]}};
	if (PARTS<Value> == 4)
		TRY(quarter_volume(backend, what, axis, &slab, &volume, stride));
	else
		TRY(axis_volume(backend, what, axis, &volume, stride));
	s->volume = volume;
	s->axis = axis;
	s->stride[axis] = stride[0];
	s->stride[axis == 0 ? 1 : 0] = 1;
	s->stride[axis == 2 ? 1 : 2] = stride[1];
	return TOMOS_OK;
}

/* Views and slices of `s`, along all axes. */
template <class Value>
static tomos_status run_views(tomos_backend *backend, const ProjectRequest *what, Sheets s)
{
	cudaStream_t stream = device_of(backend)->stream;
	const bool rays = s.weighting == WEIGHT_RAY && what->plan->rays.source != TOMOS_PARALLEL;
	auto kernel = rays ? footprint_forward<Value, true> : footprint_forward<Value, false>;
	TRY(cuda_take_shared((const void *)kernel));
	for (int axis = 0; axis < 3; axis++) {
		if (!(s.axes & 1 << axis))
			continue;
		TRY(set_volume<Value>(backend, what, axis, &s));
		kernel<<<dim3(s.tiles[0] * s.tiles[1], (unsigned)s.count), THREADS,
			patch_bytes<Value>(s), stream>>>(s);
		CUDA_LAUNCHED("projecting");
	}
	add_tiles<Value><<<dim3(cuda_blocks(s.columns, 128, 1 << 30),
				   cuda_blocks(s.count * s.rows, 1, 65535)),
		128, 0, stream>>>(s);
	CUDA_LAUNCHED("adding tiles");
	return TOMOS_OK;
}

template <class Value>
static tomos_status run(
	tomos_backend *backend, const ProjectRequest *what, const Notes *found, Sheets s)
{
	const CudaPlan *kept;
	TRY(cuda_plan(backend, what->plan, &kept));
	s.part = what->count / PARTS<Value>;
	set_cells<Value>(found, &s);
	const int64_t floats =
		(int64_t)s.tiles[0] * s.tiles[1] * tile_size(s, 0) * tile_size(s, 1) * PARTS<Value>;
	const int64_t at_once = max64(1, min64(device_of(backend)->scratch_most / floats, s.part));
	TRY(cuda_scratch(backend, SCRATCH_ROWS, at_once * floats, &s.patches, "parts of views"));
	const int64_t slices = PARTS<Value> == 4 ? quarter_slices(backend, what) : s.n[2];
	for (; s.low[2] < what->box.high[2]; s.low[2] += slices) {
		s.n[2] = (int)min64(slices, what->box.high[2] - s.low[2]);
		for (int64_t first = 0; first < s.part; first += at_once) {
			s.count = min64(at_once, s.part - first);
			s.views = kept->views + what->first + first;
			s.projections = what->projections + first * s.rows * s.columns;
			TRY(run_views<Value>(backend, what, s));
		}
	}
	return TOMOS_OK;
}

static tomos_status any_run(tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const CudaEpilogue *)
{
	const Plan *plan = what->plan;
	const Notes *found = notes_of<Notes>(notes);
	Sheets s = {.direction = found->direction,
		.weighting = plan->model.weight,
		.rows = (int)plan->model.rows,
		.columns = (int)plan->model.columns,
		.axes = found->axes};
	for (int a = 0; a < 3; a++) {
		s.low[a] = what->box.low[a];
		s.n[a] = (int)(what->box.high[a] - what->box.low[a]);
		s.step[a] = plan->whole.step[a];
	}
	return (found->direction ? run<float4> : run<float>)(backend, what, found, s);
}

extern const CudaKernel cuda_footprint_forward_any;
const CudaKernel cuda_footprint_forward_any = {any_applies, any_run};
