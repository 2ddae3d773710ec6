/* Voxel-driven forward projection for any detector: every voxel is added to the four pixels around
 * its projection.
 *
 * A block has a box of voxels in registers and visits all views. It adds to a tile of the detector
 * in shared memory, and the tile to the view. Sums are integers, multiples of a small part of the
 * largest weight times the largest voxel, so that they do not depend on the order of additions. The
 * lanes of a warp are along an axis that is far from the rays, so that they rarely add to the same
 * pixel.
 */
#include "backend/cuda/kernels/transpose.h"

enum {
	LANES = 32, /* voxels of a block along the axis of the lanes */
	RUN = 16,   /* voxels of a thread, along the next axis */
	WARPS = 16, /* along the third axis */
	THREADS = LANES * WARPS,
	VIEWS = 64, /* of a pass */
	MOST = 5    /* pixels from voxel to voxel: positions in wider blocks are inaccurate */
};

#define MAGIC 12582912.f /* 1.5 * 2^23: adding it rounds to an integer */
#define QUANTA 4.1e6     /* largest multiple that a voxel adds, less than 2^22 */

/* Weight of a voxel: constant; 1 / depth^2; distance from the source / depth^3. */
typedef enum { EVEN, DEPTH, RAY } Weighting;

/* Of a view: the unit of the sums in images, times the largest voxel; the largest share of a voxel
 * in units of a tile; the axis of the lanes. */
typedef struct {
	float unit, most;
	int axis;
} Quantum;

typedef struct {
	KernelModel model;
	const KernelView *views;
	const Quantum *quanta;
	int count;
	int axis[3]; /* of the lanes, of a run, the third */
	int64_t low[3], stride[3];
	int n[3];
	double step[3];
	const float *volume;
	const unsigned *largest; /* voxel, as the bits of a float */
	int *sums;               /* [view][row][column] */
	float *projections;
} Scatter;

/* How a block adds to a view: to a tile; to the image, because the tile is too small; not at all. */
enum { TO_TILE, TO_IMAGE, UNSEEN };

/* A view relative to the first voxel of a block: the one at d along the axes of the block has depth
 * D = depth[3] + depth . d, and its projection is (u[3] + u . d, v[3] + v . d) / D, relative to
 * pixel (row, column), the middle of the tile. away, step: from the source, times the weight at distance and depth 1,
 * in units of the tile. scale: such a unit in units of the image. */
typedef struct __align__(16)
{
	float u[4], v[4], depth[4];
	float away[3], weight, step[3], scale;
	int kind, column, row;
	int left, below, columns, rows; /* of the tile: first pixel from the middle, size */
}
Near;

/* ---- a view ---------------------------------------------------------------------------------- */

static __device__ double affine(const double f[4], const double at[3])
{
	return f[0] * at[0] + f[1] * at[1] + f[2] * at[2] + f[3];
}

/* The projection of a block, its least depth and largest ratio of distance to depth. */
typedef struct {
	double low[2], high[2], least, slant;
} Extent;

static __device__ double distance_of(const Scatter *s, const KernelView *k, const double p[3])
{
	double square = 0;
	for (int a = 0; a < 3; a++)
		square += (p[a] - k->src[a]) * (p[a] - k->src[a]) * s->step[a] * s->step[a];
	return sqrt(square);
}

/* at: the first voxel of the block. */
static __device__ Extent extent_of(const Scatter *s, const KernelView *k, const double at[3])
{
	Extent e = {{1e9, 1e9}, {-1e9, -1e9}, 1e300, 0};
	const int size[3] = {LANES - 1, RUN - 1, WARPS - 1};
	for (int corner = 0; corner < 8; corner++) {
		double p[3] = {at[0], at[1], at[2]};
		for (int i = 0; i < 3; i++)
			p[s->axis[i]] += corner >> i & 1 ? size[i] : 0;
		const double depth = affine(k->depth, p);
		const double f[2] = {affine(k->column, p) / depth, affine(k->row, p) / depth};
		e.least = fmin(e.least, depth);
		e.slant = fmax(e.slant, distance_of(s, k, p) / depth);
		for (int i = 0; i < 2; i++) {
			e.low[i] = fmin(e.low[i], f[i]);
			e.high[i] = fmax(e.high[i], f[i]);
		}
	}
	return e;
}

/* Largest weight of a block. */
static __device__ double weight_of(const Scatter *s, const KernelView *k, const Extent *e)
{
	const double weight = s->model.weight == WEIGHT_RAY ? fabs(k->mass) : 1;
	if (!KERNEL_HAS_SOURCE(k) || s->model.weight == WEIGHT_NONE)
		return weight;
	return weight * (s->model.weight == WEIGHT_RAY ? e->slant : 1) / (e->least * e->least);
}

/* unit: of the tile. */
static __device__ void set_affine(
	const Scatter *s, const KernelView *k, const double at[3], double unit, Near *near)
{
	const double mass = (s->model.weight == WEIGHT_RAY ? k->mass : 1) / unit;
	near->weight = (float)mass;
	near->u[3] = (float)(affine(k->column, at) - near->column * affine(k->depth, at));
	near->v[3] = (float)(affine(k->row, at) - near->row * affine(k->depth, at));
	near->depth[3] = (float)affine(k->depth, at);
	for (int i = 0; i < 3; i++) {
		const int a = s->axis[i];
		near->u[i] = (float)(k->column[a] - near->column * k->depth[a]);
		near->v[i] = (float)(k->row[a] - near->row * k->depth[a]);
		near->depth[i] = (float)k->depth[a];
		near->away[i] = (float)((at[a] - k->src[a]) * s->step[a] * mass);
		near->step[i] = (float)(s->step[a] * mass);
	}
}

/* A pixel near the middle of a projection, at most n from the detector. */
static __device__ int middle_of(double low, double high, int64_t n)
{
	return (int)fmin(fmax(0.5 * (low + high), (double)-n), (double)(2 * n));
}

/* first: the first voxel of the block along the axes of the volume. */
template <int PITCH, int ROWS>
static __device__ Near near_block(const Scatter *s, int view, const int first[3])
{
	const KernelView *k = &s->views[view];
	const Quantum q = s->quanta[view];
	Near near = {};
	near.kind = UNSEEN;
	if (q.axis != s->axis[0])
		return near;
	double at[3];
	for (int a = 0; a < 3; a++)
		at[a] = (double)(s->low[a] + first[a]);
	const Extent e = extent_of(s, k, at);
	const bool whole = e.least > 1e-6;
	if (whole && (e.high[0] < -1 || e.low[0] > (double)s->model.columns || e.high[1] < -1 ||
			     e.low[1] > (double)s->model.rows))
		return near;
	near.kind = TO_IMAGE;
	near.column = middle_of(e.low[0], e.high[0], s->model.columns);
	near.row = middle_of(e.low[1], e.high[1], s->model.rows);
	double unit = q.unit;
	if (whole && e.high[0] - e.low[0] < PITCH - 4 && e.high[1] - e.low[1] < ROWS - 4) {
		near.kind = TO_TILE;
		unit = weight_of(s, k, &e) / q.most;
		near.left = near.column - (int)floor(e.low[0] - 1e-3);
		near.below = near.row - (int)floor(e.low[1] - 1e-3);
		near.columns = near.left + (int)floor(e.high[0] + 1e-3) + 2 - near.column;
		near.rows = near.below + (int)floor(e.high[1] + 1e-3) + 2 - near.row;
	}
	near.scale = (float)(unit / q.unit);
	set_affine(s, k, at, unit, &near);
	return near;
}

/* ---- voxels ---------------------------------------------------------------------------------- */

/* A run of voxels: the first one, and the increase per voxel. `square`: of the distance from the
 * source, less the part along the run. Copies, since additions to a tile could change a Near. */
typedef struct {
	float u, v, depth, away, square, by_u, by_v, by_depth, step, weight;
} Run;

static __device__ __forceinline__ Run run_of(const Near &n, float lane, float warp)
{
	const float across = fmaf(lane, n.step[0], n.away[0]),
		    third = fmaf(warp, n.step[2], n.away[2]);
	return Run{fmaf(lane, n.u[0], fmaf(warp, n.u[2], n.u[3])),
		fmaf(lane, n.v[0], fmaf(warp, n.v[2], n.v[3])),
		fmaf(lane, n.depth[0], fmaf(warp, n.depth[2], n.depth[3])), n.away[1],
		fmaf(across, across, third * third), n.u[1], n.v[1], n.depth[1], n.step[1],
		n.weight};
}

/* A voxel: its projection and its share, in quanta. */
typedef struct {
	float u, v, share;
} Point;

/* As root_nearly; denormal numbers are 0. */
static __device__ __forceinline__ float root_of(float x)
{
	float result;
	asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
	return result;
}

template <Weighting W>
static __device__ __forceinline__ Point point_of(const Run &run, float k, float value)
{
	const float rate = inverse_nearly(fmaf(k, run.by_depth, run.depth)), twice = rate * rate;
	Point p = {fmaf(k, run.by_u, run.u) * rate, fmaf(k, run.by_v, run.v) * rate,
		value * run.weight};
	if (W == DEPTH)
		p.share *= twice;
	if (W == RAY) {
		const float away = fmaf(k, run.step, run.away);
		p.share = (value * twice) * (rate * root_of(fmaf(away, away, run.square)));
	}
	return p;
}

/* Parts of the voxel for four pixels. They are rounded such that their sum is that of the voxel. */
typedef struct {
	int here, right, up, both;
} Parts;

static __device__ __forceinline__ Parts parts_of(float share, float right, float up)
{
	const float above = share * up;
	const int all = __float_as_int(__fadd_rn(share, MAGIC)),
		  upper = __float_as_int(__fadd_rn(above, MAGIC)),
		  righter = __float_as_int(fmaf(share, right, MAGIC)),
		  both = __float_as_int(fmaf(above, right, MAGIC));
	return Parts{all - upper - (righter - both), righter - both, upper - both,
		both - __float_as_int(MAGIC)};
}

template <int PITCH> static __device__ __forceinline__ void add_to_tile(int *middle, const Point &p)
{
	const float column = __fadd_rd(p.u, MAGIC), row = __fadd_rd(p.v, MAGIC);
	const Parts parts =
		parts_of(p.share, p.u - __fadd_rn(column, -MAGIC), p.v - __fadd_rn(row, -MAGIC));
	const unsigned magic = __float_as_uint(MAGIC);
	int *at = middle + (int)(__float_as_uint(row) * PITCH + __float_as_uint(column) -
				   magic * (PITCH + 1));
	atomicAdd(at, parts.here);
	atomicAdd(at + 1, parts.right);
	atomicAdd(at + PITCH, parts.up);
	atomicAdd(at + PITCH + 1, parts.both);
}

static __device__ void add_pixel(const Scatter &s, int *image, int row, int column, float sum)
{
	if (row >= 0 && row < s.model.rows && column >= 0 && column < s.model.columns && sum != 0)
		atomicAdd(image + (int64_t)row * s.model.columns + column, __float2int_rn(sum));
}

static __device__ __forceinline__ void add_to_image(
	const Scatter &s, const Near &near, int *image, const Point &p)
{
	if (!(fabsf(p.u) < 1e7f && fabsf(p.v) < 1e7f))
		return;
	const float column = floorf(p.u), row = floorf(p.v), right = p.u - column, up = p.v - row;
	const int c = near.column + (int)column, r = near.row + (int)row;
	add_pixel(s, image, r, c, p.share * (1 - right) * (1 - up));
	add_pixel(s, image, r, c + 1, p.share * right * (1 - up));
	add_pixel(s, image, r + 1, c, p.share * (1 - right) * up);
	add_pixel(s, image, r + 1, c + 1, p.share * right * up);
}

/* ---- a block --------------------------------------------------------------------------------- */

/* The voxels of a thread: the first `count` are inside the volume, times `scale` at most 1. */
typedef struct {
	const float *from;
	int64_t stride;
	int count;
	float scale;
} Line;

static __device__ __forceinline__ Line line_of(const Scatter &s, const int at[3])
{
	const float largest = __uint_as_float(*s.largest);
	const int l = s.axis[0], r = s.axis[1], t = s.axis[2];
	const bool inside = at[l] < s.n[l] && at[t] < s.n[t];
	return Line{s.volume + at[0] * s.stride[0] + at[1] * s.stride[1] + at[2] * s.stride[2],
		s.stride[r], inside ? min((int)RUN, s.n[r] - at[r]) : 0,
		largest > 1e-37f ? 1 / largest : 0}; /* 0 for NaN too */
}

static __device__ __forceinline__ float voxel_of(const Line &line, int k)
{
	return k < line.count ? line.from[k * line.stride] * line.scale : 0;
}

static __device__ __forceinline__ Run own_run(const Near &near)
{
	return run_of(near, (float)(threadIdx.x % LANES), (float)(threadIdx.x / LANES));
}

/* Adds the tile to the image and clears it. */
template <int PITCH>
static __device__ __forceinline__ void flush(
	const Scatter &s, const Near &near, int *tile, int *image)
{
	const int width = (int)s.model.columns, height = (int)s.model.rows, rows = near.rows;
	const int row = near.row - near.below, warp = threadIdx.x / LANES;
	const float scale = near.scale;
	for (int c = threadIdx.x % LANES; c < near.columns; c += LANES) {
		const int column = near.column - near.left + c;
		const bool seen = (unsigned)column < (unsigned)width;
		int *from = tile + (warp * PITCH + c), to = (row + warp) * width + column;
		for (int r = warp; r < rows; r += WARPS) {
			const int sum = *from;
			*from = 0;
			if (seen && (unsigned)(row + r) < (unsigned)height && sum != 0)
				atomicAdd(image + to, __float2int_rn((float)sum * scale));
			from += WARPS * PITCH;
			to += WARPS * width;
		}
	}
}

/* The views to which the block adds through a tile. */
template <Weighting W, int PITCH, int ROWS>
static __device__ __forceinline__ void visit_tiles(
	const Scatter &s, const Near *near, const Line &line, int *tiles)
{
	float value[RUN];
#pragma unroll
	for (int k = 0; k < RUN; k++)
		value[k] = voxel_of(line, k);
	int *tile = tiles, *other = tiles + PITCH * ROWS;
#pragma unroll 1
	for (int i = 0; i < s.count; i++) {
		if (near[i].kind != TO_TILE)
			continue;
		const Run run = own_run(near[i]);
		int *middle = tile + (near[i].below * PITCH + near[i].left);
#pragma unroll
		for (int k = 0; k < RUN; k++)
			add_to_tile<PITCH>(middle, point_of<W>(run, (float)k, value[k]));
		__syncthreads();
		flush<PITCH>(s, near[i], tile, s.sums + i * s.model.rows * s.model.columns);
		int *next = other;
		other = tile;
		tile = next;
	}
}

/* The views for which the tile is too small. */
template <Weighting W>
static __device__ __forceinline__ void visit_images(
	const Scatter &s, const Near *near, const Line &line)
{
	for (int i = 0; i < s.count; i++) {
		if (near[i].kind != TO_IMAGE)
			continue;
		const Run run = own_run(near[i]);
		int *image = s.sums + i * s.model.rows * s.model.columns;
#pragma unroll 1
		for (int k = 0; k < line.count; k++)
			add_to_image(
				s, near[i], image, point_of<W>(run, (float)k, voxel_of(line, k)));
	}
}

template <Weighting W, int PITCH, int ROWS>
static __global__ void __launch_bounds__(THREADS, 2)
	scatter_forward(const __grid_constant__ Scatter s)
{
	extern __shared__ float4 memory[];
	Near *near = (Near *)memory;
	int *tiles = (int *)(near + VIEWS);
	int at[3];
	at[s.axis[0]] = blockIdx.x * LANES;
	at[s.axis[1]] = blockIdx.y * RUN;
	at[s.axis[2]] = blockIdx.z * WARPS;
	if (threadIdx.x < s.count)
		near[threadIdx.x] = near_block<PITCH, ROWS>(&s, threadIdx.x, at);
	for (int i = threadIdx.x; i < 2 * PITCH * ROWS; i += THREADS)
		tiles[i] = 0;
	at[s.axis[0]] += threadIdx.x % LANES;
	at[s.axis[2]] += threadIdx.x / LANES;
	const Line line = line_of(s, at);
	__syncthreads();
	visit_tiles<W, PITCH, ROWS>(s, near, line, tiles);
	visit_images<W>(s, near, line);
}

static __global__ void add_sums(const __grid_constant__ Scatter s)
{
	const int64_t pixels = s.model.rows * s.model.columns;
	const Quantum q = s.quanta[blockIdx.y];
	const float unit = __uint_as_float(*s.largest) * q.unit;
	const int *sums = s.sums + blockIdx.y * pixels;
	float *to = s.projections + blockIdx.y * pixels;
	for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < pixels;
		i += (int64_t)gridDim.x * blockDim.x)
		to[i] = fmaf((float)sums[i], unit, to[i]);
}

/* ---- a whole request ------------------------------------------------------------------------- */

/* Bounds for a view: the weights that all voxels add to a pixel; the parts of voxels of a block that
 * fall on a pixel; pixels from one voxel to the next along each axis; the least depth. */
typedef struct {
	double all, block, size[3], least;
} Bounds;

/* Largest sum of the parts of voxels on a plane of axes b and c that fall on a pixel: the integral
 * of a hat function that is widened by half of a voxel. u, v: pixels per voxel. */
static double plane_bound(const double u[3], const double v[3], int b, int c)
{
	const double area = fabs(u[b] * v[c] - u[c] * v[b]);
	return (1 + fabs(u[b]) + fabs(u[c])) * (1 + fabs(v[b]) + fabs(v[c])) / fmax(area, 1e-12);
}

static double form_at(const double f[4], const double at[3])
{
	return f[0] * at[0] + f[1] * at[1] + f[2] * at[2] + f[3];
}

static double weight_at(const Plan *plan, const KernelView *k, const double at[3])
{
	const double depth = form_at(k->depth, at);
	double square = 0;
	if (plan->model.weight == WEIGHT_NONE)
		return 1;
	if (plan->model.weight == WEIGHT_DEPTH)
		return 1 / (depth * depth);
	for (int a = 0; a < 3; a++)
		square += pow((at[a] - k->src[a]) * plan->whole.step[a], 2);
	return fabs(k->mass) * (KERNEL_HAS_SOURCE(k) ? sqrt(square) / pow(depth, 3) : 1);
}

/* all, block: sums over a plane across each axis. */
static void bound_corner(const Plan *plan, const KernelView *k, const double at[3], double all[3],
	double block[3], Bounds *bounds)
{
	const double depth = form_at(k->depth, at), column = form_at(k->column, at) / depth,
		     row = form_at(k->row, at) / depth, weight = weight_at(plan, k, at);
	double u[3], v[3];
	for (int a = 0; a < 3; a++) {
		u[a] = (k->column[a] - column * k->depth[a]) / depth;
		v[a] = (k->row[a] - row * k->depth[a]) / depth;
		bounds->size[a] = fmax(bounds->size[a], fmax(fabs(u[a]), fabs(v[a])));
	}
	for (int a = 0; a < 3; a++) {
		const double plane = 1.5 * plane_bound(u, v, (a + 1) % 3, (a + 2) % 3);
		all[a] = fmax(all[a], plane * weight);
		block[a] = fmax(block[a], plane);
	}
	bounds->least = fmin(bounds->least, depth);
}

/* Planes across an axis count if they are all on one side of the source: between its sides, a plane
 * through the source is a line on the detector. */
static Bounds bounds_of(const Plan *plan, const KernelView *k)
{
	Bounds bounds = {.all = 1e300, .block = 1e300, .least = 1e300};
	double all[3] = {0, 0, 0}, block[3] = {0, 0, 0};
	for (int corner = 0; corner < 8; corner++) {
		double at[3];
		for (int a = 0; a < 3; a++)
			at[a] = corner >> a & 1 ? (double)plan->grid.n[a] : -1.0;
		bound_corner(plan, k, at, all, block, &bounds);
	}
	for (int a = 0; a < 3; a++) {
		const double n = (double)plan->grid.n[a];
		if (KERNEL_HAS_SOURCE(k) && k->src[a] >= -1 && k->src[a] <= n)
			continue;
		bounds.all = fmin(bounds.all, all[a] * n);
		bounds.block = fmin(bounds.block, block[a] * (int)LANES);
	}
	return bounds;
}

/* The lanes are along z, unless voxels are much more apart along x on the detector. */
static void make_quantum(const Plan *plan, int64_t view, const void *user, void *place)
{
	(void)user;
	const Bounds bounds = bounds_of(plan, &plan->views[view]);
	const bool few = plan->grid.n[2] < LANES / 2 && plan->grid.n[2] < plan->grid.n[0];
	Quantum *q = (Quantum *)place;
	q->unit = (float)(bounds.all / 2e9);
	q->most = (float)fmin(QUANTA, 2e9 / bounds.block);
	q->axis = few || bounds.size[0] > 2 * bounds.size[2] ? 0 : 2;
}

typedef struct {
	double widest; /* most pixels that a block is wide or high */
	int axes;      /* of lanes, bit mask */
} Notes;

/* Not for a fan per row, where the depth does not divide the row. */
static bool scatter_applies(const ProjectRequest *what, CudaNotes *notes)
{
	const Plan *plan = what->plan;
	const KernelModel *model = &plan->model;
	const int source = plan->rays.source;
	Notes *found = notes_of<Notes>(notes);
	if (model->clamp || model->nearest || model->planar || model->rows > 1 << 20 ||
		model->columns > 1 << 20 || model->rows * model->columns > 1 << 28 ||
		!(source == TOMOS_POINT || source == TOMOS_PARALLEL))
		return false;
	found->axes = 0;
	found->widest = 0;
	for (int a = 0; a < 3; a++)
		if (plan->grid.n[a] > 1 << 19)
			return false;
	for (int64_t i = 0; i < what->count; i++) {
		const Bounds bounds = bounds_of(plan, &plan->views[what->first + i]);
		Quantum q;
		make_quantum(plan, what->first + i, NULL, &q);
		const double size = fmax(bounds.size[0], fmax(bounds.size[1], bounds.size[2]));
		if (!(bounds.least > 1e-3) || !(size < (int)MOST) || !(bounds.block < 2e5) ||
			!isfinite(q.unit) || !(q.unit > 0))
			return false;
		found->axes |= 1 << q.axis;
		const double wide = fmax(bounds.size[2] * (q.axis == 2 ? (int)LANES : (int)RUN),
			fmax(bounds.size[0], bounds.size[1]) *
				(q.axis == 2 ? (int)RUN : (int)LANES));
		found->widest = fmax(found->widest, wide);
	}
	return true;
}

enum { PITCH = 45, ROWS = 72, LARGE_PITCH = 97, LARGE_ROWS = 128 };

typedef void (*Kernel)(const Scatter s);

template <int PITCH, int ROWS> static Kernel kernel_of(const ProjectRequest *what)
{
	const int weight = what->plan->model.weight;
	const bool source = what->plan->rays.source == TOMOS_POINT;
	return weight == WEIGHT_RAY && source     ? scatter_forward<RAY, PITCH, ROWS>
	       : weight == WEIGHT_DEPTH && source ? scatter_forward<DEPTH, PITCH, ROWS>
						  : scatter_forward<EVEN, PITCH, ROWS>;
}

static tomos_status run_axis(
	tomos_backend *backend, const ProjectRequest *what, Scatter s, bool large, int axis)
{
	const int bytes =
		(int)(VIEWS * sizeof(Near)) + 8 * (large ? LARGE_PITCH * LARGE_ROWS : PITCH * ROWS);
	const Kernel kernel =
		large ? kernel_of<LARGE_PITCH, LARGE_ROWS>(what) : kernel_of<PITCH, ROWS>(what);
	s.axis[0] = axis;
	s.axis[1] = axis == 2 ? 0 : 2;
	s.axis[2] = 1;
	CUDA_TRY(cudaFuncSetAttribute(
			 (const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
		"taking shared memory");
	kernel<<<dim3(cuda_blocks(s.n[s.axis[0]], LANES, 1 << 30),
			 cuda_blocks(s.n[s.axis[1]], RUN, 65535),
			 cuda_blocks(s.n[s.axis[2]], WARPS, 65535)),
		THREADS, bytes, device_of(backend)->stream>>>(s);
	CUDA_LAUNCHED("projecting");
	return TOMOS_OK;
}

static tomos_status run_views(
	tomos_backend *backend, const ProjectRequest *what, const Scatter *s, const Notes *found)
{
	const int64_t pixels = s->model.rows * s->model.columns;
	cudaStream_t stream = device_of(backend)->stream;
	CUDA_TRY(cudaMemsetAsync(s->sums, 0, (size_t)(s->count * pixels) * sizeof(int), stream),
		"projecting");
	for (int a = 0; a < 3; a++)
		if (found->axes & (1 << a))
			TRY(run_axis(backend, what, *s, found->widest > PITCH - 4, a));
	add_sums<<<dim3(cuda_blocks(pixels, 1024, 1 << 20), (unsigned)s->count), 256, 0, stream>>>(
		*s);
	CUDA_LAUNCHED("projecting");
	return TOMOS_OK;
}

static tomos_status find_largest(
	tomos_backend *backend, const ProjectRequest *what, const Scatter *s, float **largest)
{
	const Transposed voxels = {.outside = what->volume,
		.slices = s->n[2],
		.nj = s->n[0],
		.nk = s->n[1],
		.si = s->stride[2],
		.sj = 1,
		.sk = s->stride[1]};
	TRY(cuda_scratch(backend, SCRATCH_LISTS, 1, largest, "the largest voxel"));
	return largest_value(backend, &voxels, NULL, (unsigned *)*largest);
}

static tomos_status scatter_run(tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const CudaEpilogue *)
{
	const Plan *plan = what->plan;
	const CudaPlan *kept;
	const void *quanta;
	float *largest, *sums;
	TRY(cuda_plan(backend, plan, &kept));
	TRY(cuda_kept(
		backend, plan, KEPT_VOXEL_HATS, sizeof(Quantum), make_quantum, NULL, &quanta));
	Scatter s = {.model = plan->model, .volume = what->volume};
	for (int a = 0; a < 3; a++) {
		s.low[a] = what->box.low[a];
		s.n[a] = (int)(what->box.high[a] - what->box.low[a]);
		s.stride[a] = a == 0 ? 1 : s.stride[a - 1] * s.n[a - 1];
		s.step[a] = plan->whole.step[a];
	}
	const int64_t pixels = s.model.rows * s.model.columns;
	const int64_t most = max64(1, min64(VIEWS, device_of(backend)->scratch_most / pixels));
	TRY(find_largest(backend, what, &s, &largest));
	TRY(cuda_scratch(backend, SCRATCH_REORDERED, min64(most, what->count) * pixels, &sums,
		"sums of pixels"));
	s.largest = (const unsigned *)largest;
	s.sums = (int *)sums;
	for (int64_t first = 0; first < what->count; first += most) {
		s.views = kept->views + what->first + first;
		s.quanta = (const Quantum *)quanta + what->first + first;
		s.count = (int)min64(most, what->count - first);
		s.projections = what->projections + first * pixels;
		TRY(run_views(backend, what, &s, notes_of<Notes>(notes)));
	}
	return TOMOS_OK;
}

extern const CudaKernel cuda_voxel_forward_scatter;
const CudaKernel cuda_voxel_forward_scatter = {scatter_applies, scatter_run};
