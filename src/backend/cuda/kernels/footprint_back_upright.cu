/* Back projection of separable footprints for upright detectors: circular cone beam, stacks of
 * fans, parallel beam and laminography without roll.
 *
 * A block has SIDE x SIDE columns of COLUMN voxels along z and visits all views; the part of a view
 * that it needs (a tile) is copied into shared memory while the view before is processed. All
 * voxels of a column have the same footprint along detector rows, so a thread first adds the
 * detector columns of that footprint, which leaves a line of pixels, and then integrates the line
 * between the boundaries of its voxels (footprint.h).
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
template <int SAMPLES, int PITCH>
static __device__ __forceinline__ void add_columns(
	const Near &near, const Foot &foot, const float *at, float line[SAMPLES])
{
#pragma unroll
	for (int i = 0; i < SAMPLES; i++) {
		line[i] = foot.a[0] * at[i * PITCH];
#pragma unroll
		for (int c = 1; c < TAPS; c++)
			line[i] = fmaf(foot.a[c], at[i * PITCH + c], line[i]);
	}
	/* Beyond the tile the weights of narrower footprints are zero, and memory is undefined. */
	for (int c = TAPS; c < near.taps && foot.column + c < near.columns; c++) {
		const float below = trapezoid_below(foot.across, foot.left + (float)c);
		const float above = trapezoid_below(foot.across, foot.left + (float)(c + 1));
		const float a = foot.scale * (above - below);
#pragma unroll
		for (int i = 0; i < SAMPLES; i++)
			line[i] = fmaf(a, at[i * PITCH + c], line[i]);
	}
}

/* A boundary at t, counted from the first edge of S samples: the integral from the edge after that
 * one, and how far the edges between the samples are. */
template <int S> struct Boundary {
	float integral, far[S];

	__device__ __forceinline__ void set(const float *line, const float *changes, float t)
	{
		far[1] = t - 1;
		integral = line[0] * far[1];
#pragma unroll
		for (int e = 1; e < S; e++) {
			far[e] = t - (float)e;
			/* Only the last edge is at most one sample before the boundary. */
			const float after = e == S - 1 ? __saturatef(t - (float)e)
						       : fmaxf(far[e], 0.f);
			integral = fmaf(after, changes[e], integral);
		}
	}

	/* What edges within h of it change of the integral, times 4 h, added to sum. */
	__device__ __forceinline__ float curve(const float *changes, float h, float sum) const
	{
#pragma unroll
		for (int e = 1; e < S; e++) {
			const float q = overlap(h, far[e]);
			sum = fmaf(q * q, changes[e], sum);
		}
		return sum;
	}
};

template <class B, bool RAYS, int PITCH>
static __device__ __forceinline__ void visit_span(const Footprints &s, const Near &near,
	const Foot &foot, const float *tile, int first, float sum[COLUMN])
{
	const float edge = fmaf((float)first, foot.climb, foot.edge);
	const float h0 = fmaf((float)first, foot.more, foot.half);
	const float most = fmaxf(fabsf(h0), fabsf(fmaf((float)(B::N - 1), foot.more, h0)));
	const float whole = B::first(edge, foot.climb, most), t0 = edge - whole;
	const float up = near.lower != 0 ? s.step[2] : 0;
	float line[B::SAMPLES], changes[B::SAMPLES];
	add_columns<B::SAMPLES, PITCH>(near, foot, tile + (int)whole * PITCH + foot.column, line);
	changes[0] = 0;
#pragma unroll
	for (int i = 1; i < B::SAMPLES; i++)
		changes[i] = line[i] - line[i - 1];
	Boundary<B::S> low, high;
	low.set(line, changes, t0);
#pragma unroll
	for (int k = 0; k < B::N; k++) {
		const int m = B::edge(k), next = B::edge(k + 1);
		const float h = fmaxf(fabsf(fmaf((float)k, foot.more, h0)), FOOTPRINT_LEAST);
		high.set(line + next, changes + next, B::at(k + 1, t0, foot.climb));
		float value = high.integral - low.integral;
#pragma unroll
		for (int i = m; i < next; i++)
			value += line[i + 1];
		const float bent =
			high.curve(changes + next, h, -low.curve(changes + m, h, 0));
		value = fmaf(0.25f * inverse_nearly(h), bent, value);
		const float rise = fmaf((float)(first + k), up, near.away[2]);
		sum[first + k] = RAYS ? fmaf(distance_of(foot, rise), value, sum[first + k])
				      : sum[first + k] + value;
		low = high;
	}
}

/* One voxel straight from the image, for blocks that see more than a tile, or where horizontal
 * edges appear higher than vertical ones. */
static __device__ __noinline__ float voxel_direct(
	const Footprints &s, const Near &near, const Foot &foot, const float *image, int k)
{
	const float centre = fmaf((float)k + 0.5f, foot.climb, foot.edge) - 0.5f;
	const Trapezoid along =
		trapezoid_of_rows(foot.climb, fmaf((float)k, foot.more, foot.half), near.shape);
	const int r0 = max((int)floorf(centre - along.reach + 0.5f), -near.row);
	const int r1 = min((int)floorf(centre + along.reach + 0.5f), s.rows - 1 - near.row);
	const int c0 = max(0, -(near.column + foot.column));
	const int c1 = min(near.taps, s.columns - (near.column + foot.column)) - 1;
	float sum = 0;
	for (int r = r0; r <= r1; r++) {
		const float up = (float)r - centre;
		const float share =
			trapezoid_below(along, up + 0.5f) - trapezoid_below(along, up - 0.5f);
		const float *at =
			image + ((int64_t)(near.row + r) * s.pitch + near.column + foot.column);
		float below = trapezoid_below(foot.across, foot.left + (float)c0), line = 0;
		for (int c = c0; c <= c1; c++) {
			const float above =
				trapezoid_below(foot.across, foot.left + (float)(c + 1));
			line = fmaf(above - below, __ldg(at + c), line);
			below = above;
		}
		sum = fmaf(share, line, sum);
	}
	return sum * foot.scale * foot.climb;
}

template <bool RAYS>
static __device__ __forceinline__ void visit_direct(const Footprints &s, const Near &near,
	const Foot &foot, const float *image, float sum[COLUMN])
{
#pragma unroll
	for (int k = 0; k < COLUMN; k++) {
		const float rise = near.lower != 0 ? fmaf((float)k, s.step[2], near.away[2]) : 0;
		const float weight = RAYS ? distance_of(foot, rise) : 1;
		sum[k] = fmaf(weight, voxel_direct(s, near, foot, image, k), sum[k]);
	}
}

/* The kind is the same for all threads of a block. */
template <bool RAYS, int PITCH>
static __device__ __forceinline__ void visit_view(const Footprints &s, const Near &near,
	const float *tile, const float *image, float dx, float dy, float sum[COLUMN])
{
	if (near.kind == -2)
		return;
	const Foot foot = foot_of<RAYS>(s, near, dx, dy);
	if (near.kind == -1)
		visit_direct<RAYS>(s, near, foot, image, sum);
	boundary_visit(near.kind, [&](auto boundaries) {
		typedef decltype(boundaries) B;
#pragma unroll
		for (int first = 0; first < COLUMN; first += B::N)
			visit_span<B, RAYS, PITCH>(s, near, foot, tile, first, sum);
	});
}

/* Column of voxels (x, y) of a thread: a warp is 8 x 4. */
static __device__ __forceinline__ int2 place_of(int thread)
{
	const int lane = thread % 32, warp = thread / 32;
	return make_int2(lane % 8 + warp % 2 * 8, lane / 8 + warp / 2 * 4);
}

template <bool RAYS, int PITCH>
static __global__ void __launch_bounds__(THREADS, 3)
	footprint_back(const __grid_constant__ Footprints s)
{
	extern __shared__ float4 tile_memory[];
	__shared__ Near near[VIEWS];
	const int x0 = blockIdx.x * SIDE, y0 = blockIdx.y * SIDE, z0 = blockIdx.z * COLUMN;
	const int2 place = place_of(threadIdx.x);
	/* Threads outside the box repeat its last column. */
	const float dx = (float)min(place.x, s.n[0] - 1 - x0),
		    dy = (float)min(place.y, s.n[1] - 1 - y0);
	const int64_t image = (int64_t)s.rows * s.pitch;
	float *tiles[2] = {(float *)tile_memory, (float *)tile_memory + s.tile_rows * PITCH};
	float sum[COLUMN] = {0};
	for (int64_t first = 0; first < s.count; first += VIEWS) {
		const int views = (int)min((int64_t)VIEWS, s.count - first);
		const float *images = s.images + first * image;
		__syncthreads();
		for (int i = threadIdx.x; i < views; i += THREADS)
			near_block(s, &s.views[first + i], x0, y0, z0, PITCH, &near[i]);
		__syncthreads();
		copy_tile<PITCH>(s, near[0], images, tiles[0]);
#pragma unroll 1
		for (int i = 0; i < views; i++, images += image) {
			__pipeline_wait_prior(0);
			__syncthreads(); /* the tile is complete, and the other one free */
			if (i + 1 < views)
				copy_tile<PITCH>(
					s, near[i + 1], images + image, tiles[(i + 1) % 2]);
			visit_view<RAYS, PITCH>(s, near[i], tiles[i % 2], images, dx, dy, sum);
		}
	}
	if (x0 + place.x >= s.n[0] || y0 + place.y >= s.n[1])
		return;
	float *to = s.volume + ((int64_t)z0 * s.n[1] + y0 + place.y) * s.n[0] + x0 + place.x;
	update_voxels<COLUMN, 4>(
		s.update, to, (int64_t)s.n[0] * s.n[1], s.n[2] - z0, [&](int k) { return sum[k]; });
}

/* ---- images ---------------------------------------------------------------------------------- */

/* Rows padded to a multiple of QUAD pixels. */
static __global__ void pad_rows(const __grid_constant__ Footprints s, const float *from, float *to)
{
	const int c = blockIdx.x * blockDim.x + threadIdx.x;
	if (c >= s.pitch)
		return;
	for (int64_t line = blockIdx.y; line < s.count * s.rows; line += gridDim.y)
		to[line * s.pitch + c] = c < s.columns ? from[line * s.columns + c] : 0;
}

/* ---- a whole request ------------------------------------------------------------------------- */

static int64_t padded_columns(const KernelModel *model)
{
	return (model->columns + QUAD - 1) / QUAD * QUAD;
}

static int64_t view_floats(const KernelModel *model, bool)
{
	return padded_columns(model) * model->rows;
}

/* Rows and columns that blocks see of a view, at most; blocks may still see more, where the depth
 * varies within them. */
typedef struct {
	int rows, columns;
} TileSize;

static TileSize tile_size(const ProjectRequest *what)
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
		rows = fmax(rows, (int)SIDE * y + (int)COLUMN * k->row[2] / lower);
	}
	return TileSize{(int)fmin(rows * 1.05 + 10, (int)MOST_ROWS),
		(int)fmin(columns * 1.05 + 8, (int)WIDE)};
}

static bool upright_applies(const ProjectRequest *what, CudaNotes *notes)
{
	if (view_floats(&what->plan->model, false) > 1 << 30 || !footprint_upright(what))
		return false;
	const TileSize size = tile_size(what);
	*notes_of<TileSize>(notes) = size;
	return cuda_has_shared(
		2 * size.rows * (size.columns <= NARROW ? NARROW : WIDE) * (int)sizeof(float) +
		VIEWS * (int)sizeof(Near));
}

static CudaFusion upright_fuses(const tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const FusedUpdate *step)
{
	return step->average ? FUSES_NOT : update_fuses<view_floats>(backend, what, notes, step);
}

template <int PITCH>
static tomos_status run_views(
	tomos_backend *backend, const ProjectRequest *what, const Footprints *s, int64_t first)
{
	cudaStream_t stream = device_of(backend)->stream;
	pad_rows<<<dim3(cuda_blocks(s->pitch, 128, 1 << 30),
			   cuda_blocks(s->count * s->rows, 1, 65535)),
		128, 0, stream>>>(
		*s, what->projections + first * s->rows * s->columns, (float *)s->images);
	const bool rays = s->weighting == WEIGHT_RAY && what->plan->rays.source != TOMOS_PARALLEL;
	auto kernel = rays ? footprint_back<true, PITCH> : footprint_back<false, PITCH>;
	const int bytes = 2 * s->tile_rows * PITCH * (int)sizeof(float);
	TRY(cuda_take_shared((const void *)kernel));
	kernel<<<dim3(cuda_blocks(s->n[0], SIDE, 1 << 30), cuda_blocks(s->n[1], SIDE, 65535),
			 cuda_blocks(s->n[2], COLUMN, 65535)),
		THREADS, bytes, stream>>>(*s);
	CUDA_LAUNCHED("back projecting");
	return TOMOS_OK;
}

static tomos_status upright_run(tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const CudaEpilogue *epilogue)
{
	const Plan *plan = what->plan;
	const TileSize *tile = notes_of<TileSize>(notes);
	const CudaPlan *kept;
	VoxelUpdate update;
	float *images;
	Footprints s = {.weighting = plan->model.weight,
		.rows = (int)plan->model.rows,
		.columns = (int)plan->model.columns,
		.pitch = (int)padded_columns(&plan->model),
		.tile_rows = tile->rows,
		.volume = what->volume};
	for (int a = 0; a < 3; a++) {
		s.low[a] = what->box.low[a];
		s.n[a] = (int)(what->box.high[a] - what->box.low[a]);
		s.step[a] = (float)plan->whole.step[a];
	}
	TRY(update_open(backend, what, epilogue, &update));
	const int64_t floats = view_floats(&plan->model, false);
	const int64_t at_once = views_at_once(backend, what, floats);
	TRY(cuda_plan(backend, plan, &kept));
	TRY(cuda_scratch(backend, SCRATCH_REORDERED, at_once * floats, &images, "padded images"));
	s.images = images;
	return views_each(&update, what->count, at_once,
		[&](int64_t first, int64_t count, const VoxelUpdate &part) {
			s.views = kept->views + what->first + first;
			s.count = count;
			s.update = part;
			return (tile->columns <= NARROW
					? run_views<NARROW>
					: run_views<WIDE>)(backend, what, &s, first);
		});
}

extern const CudaKernel cuda_footprint_back_upright;
const CudaKernel cuda_footprint_back_upright = {upright_applies, upright_run, upright_fuses};
