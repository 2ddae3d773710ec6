/* Voxel-driven forward projection for any detector: rolled, slanted, laminography, free vectors.
 *
 * A thread has a pair of neighbouring pixels and follows the ray between them through the planes of
 * its dominant axis a; b and c are the other axes. In each plane it gathers from the voxels that
 * project to within one pixel of either: they are between the rays of the pixels around. Each
 * dominant axis has its own launch; voxels are read through the cache. Positions are recomputed in
 * double every SEGMENT planes.
 */
#include "backend/cuda/kernels/voxel_pairs.h"

enum {
	SEGMENT = 16,
	MOST_B = 4, /* voxels of an unrolled window along b and c */
	MOST_C = 5
};

#define MAGIC 12582912.f /* 1.5 * 2^23: adding it rounds to the nearest integer */

/* Weight of a voxel. LEVEL: constant, of a parallel beam, all depths are 1. RAY: the distance from
 * the source is linear within the window; NEAR: it is not. */
typedef enum { LEVEL, CONSTANT, DEPTH, RAY, NEAR } Weighting;

/* The ray in a plane: its position relative to `at`, depth, and distance from the source. `ahead`:
 * of the plane from the source, in planes. */
typedef struct {
	int64_t at; /* index of a voxel */
	float p, q, depth, length, ahead;
	float reach_p, reach_q; /* voxels farther from the ray along b, c are off the pixels */
} Place;

/* A voxel relative to the ray. */
typedef struct {
	float u, v, depth, length;
} Offset;

/* ---- one voxel ------------------------------------------------------------------------------- */

/* Of the voxel at (x, y) from the ray. For NEAR, .length is its square without the part along b. */
template <Weighting W>
static __device__ __forceinline__ Offset offset_of(
	const Rates &rates, const Place &place, float x, float y)
{
	Offset o = {fmaf(y, rates.u[1], x * rates.u[0]), fmaf(y, rates.v[1], x * rates.v[0]), 1, 1};
	if (W != LEVEL)
		o.depth = fmaf(y, rates.depth[1], fmaf(x, rates.depth[0], place.depth));
	if (W == RAY)
		o.length = fmaf(y, rates.length[1], fmaf(x, rates.length[0], place.length));
	if (W == NEAR) {
		const float along = place.ahead * rates.step[0],
			    up = fmaf(place.ahead, rates.slope[1], y) * rates.step[2];
		o.length = fmaf(along, along, up * up);
	}
	return o;
}

/* Adds the value of the voxel i voxels along b after the one at offset o. right: distance along b
 * from the source, for NEAR. */
template <Weighting W>
static __device__ __forceinline__ void add_voxel(
	const Rates &rates, const Offset &o, float i, float right, float value, float sum[PIXELS])
{
	float u = fmaf(i, rates.u[0], o.u), v = fmaf(i, rates.v[0], o.v), weight = 1;
	if (W != LEVEL) {
		const float rate = inverse_nearly(fmaf(i, rates.depth[0], o.depth));
		u *= rate;
		v *= rate;
		weight = W == CONSTANT ? 1 : rate * rate;
		if (W == RAY)
			weight *= fmaf(i, rates.length[0], o.length) * rate;
		if (W == NEAR) {
			const float away = fmaf(i, rates.step[1], right);
			weight *= root_nearly(fmaf(away, away, o.length)) * rate;
		}
	}
	weight *= __saturatef(1 - fabsf(u));
#pragma unroll
	for (int n = 0; n < PIXELS; n++)
		sum[n] = fmaf(weight * __saturatef(1 - fabsf(v + (0.5f * (PIXELS - 1) - (float)n))),
			value, sum[n]);
}

/* Distance of a voxel along b from the source, x voxels from the ray. */
static __device__ __forceinline__ float right_of(const Rates &rates, const Place &place, float x)
{
	return fmaf(place.ahead, rates.slope[0], x) * rates.step[1];
}

/* ---- planes ---------------------------------------------------------------------------------- */

/* The plane that is `along` planes after `place`. */
static __device__ __forceinline__ Place place_in(
	const Rates &rates, const Place &place, float along)
{
	Place here = place;
	here.p = fmaf(along, rates.slope[0], place.p);
	here.q = fmaf(along, rates.slope[1], place.q);
	here.depth = fmaf(along, rates.deeper, place.depth);
	here.length = fmaf(along, rates.longer, place.length);
	here.ahead = place.ahead + along;
	return here;
}

/* The first voxel within `reach` of a position, plus MAGIC. */
static __device__ __forceinline__ float first_voxel(float p, float reach)
{
	return __fadd_rn(p - reach + 0.5f, MAGIC);
}

static __device__ __forceinline__ int whole(float magic)
{
	return __float_as_int(magic) - __float_as_int(MAGIC);
}

/* Adds a segment whose windows of NB x NC voxels are all inside the box. */
template <Weighting W, int NB, int NC>
static __device__ __forceinline__ void gather(const Rates &rates, const Place &place,
	const float *volume, int64_t stride, int sc, float sum[PIXELS])
{
	const float *plane = volume + place.at;
#pragma unroll 1
	for (float k = 0; k < SEGMENT; k += 1, plane += stride) {
		const Place here = place_in(rates, place, k);
		const float i0 = first_voxel(here.p, here.reach_p),
			    j0 = first_voxel(here.q, here.reach_q);
		const float x = __fadd_rn(i0, -MAGIC) - here.p, y = __fadd_rn(j0, -MAGIC) - here.q;
		const float right = right_of(rates, here, x);
		const float *row = plane + (whole(j0) * sc + whole(i0));
#pragma unroll
		for (int j = 0; j < NC; j++, row += sc) {
			if (NC > 2 && j == NC - 1 && y + (float)j > here.reach_q)
				break; /* often none of the rays of a warp needs the last row */
			const Offset o = offset_of<W>(rates, here, x, y + (float)j);
#pragma unroll
			for (int i = 0; i < NB; i++)
				add_voxel<W>(rates, o, (float)i, right, __ldg(row + i), sum);
		}
	}
}

/* The same for windows of any size, of which any part may be outside the box: planes first .. last
 * - 1. i0, j0: voxel at place.at. */
template <Weighting W>
static __device__ __forceinline__ void gather_checked(const AxisRays &s, const Rates &rates,
	const Place &place, int i0, int j0, int first, int last, float sum[PIXELS])
{
	for (int k = first; k < last; k++) {
		const Place here = place_in(rates, place, (float)k);
		const float *plane = (const float *)s.volume + place.at + k * s.stride[0];
		const int low = max((int)ceilf(here.p - here.reach_p), -i0),
			  high = min((int)floorf(here.p + here.reach_p), s.nb - 1 - i0),
			  top = min((int)floorf(here.q + here.reach_q), s.nc - 1 - j0);
		const float x = (float)low - here.p, right = right_of(rates, here, x);
		for (int j = max((int)ceilf(here.q - here.reach_q), -j0); j <= top; j++) {
			const Offset o = offset_of<W>(rates, here, x, (float)j - here.q);
			const float *row = plane + j * s.stride[1];
			for (int i = low; i <= high; i++)
				add_voxel<W>(
					rates, o, (float)(i - low), right, __ldg(row + i), sum);
		}
	}
}

/* Calls gather with windows of nb x nc voxels or more. */
template <Weighting W>
static __device__ __forceinline__ void gather_window(const AxisRays &s, const Rates &rates,
	const Place &place, int nb, int nc, float sum[PIXELS])
{
	const int sc = (int)s.stride[1];
	const float *volume = (const float *)s.volume;
#define WINDOW(NB, NC) \
	if (nb <= NB && nc <= NC) \
		return gather<W, NB, NC>(rates, place, volume, s.stride[0], sc, sum);
	WINDOW(2, 2)
	WINDOW(2, 3)
	WINDOW(3, 3)
	WINDOW(2, 4)
	WINDOW(3, 4)
	WINDOW(4, 3)
	WINDOW(2, 5)
	WINDOW(3, 5)
	WINDOW(4, 4)
#undef WINDOW
	gather<W, MOST_B, MOST_C>(rates, place, volume, s.stride[0], sc, sum);
}

/* ---- rays ------------------------------------------------------------------------------------ */

/* Start of a segment. i, j: voxel at place.at. */
static __device__ Place place_of(const AxisRays *s, const Path *path, int k0, int *i, int *j)
{
	const double p = path->base[0] + k0 * path->slope[0] - (double)s->grid.low[s->b];
	const double q = path->base[1] + k0 * path->slope[1] - (double)s->grid.low[s->c];
	const double ahead = k0 - path->source;
	float reach[2];
	for (int n = 0; n < 2; n++)
		reach[n] = (float)(path->reach[n] +
				   fmax(k0 * path->widen[n], (k0 + SEGMENT - 1) * path->widen[n]));
	*i = (int)floor(p);
	*j = (int)floor(q);
	return Place{(k0 - s->grid.low[s->a]) * s->stride[0] + *i + *j * s->stride[1],
		(float)(p - *i), (float)(q - *j), (float)(path->depth[0] + k0 * path->depth[1]),
		(float)(ahead * path->rates.longer), (float)ahead, reach[0], reach[1]};
}

/* Number of voxels within `reach` of any position, less those with weights of rounding errors. */
static __device__ int window_of(float reach)
{
	return (int)fminf(ceilf(2 * reach - 1e-5f), 1e6f);
}

/* Whether a window of `wide` voxels stays inside n voxels for a whole segment. */
static __device__ bool is_inside(float p, float slope, float reach, int i, int wide, int n)
{
	const float end = fmaf((float)(SEGMENT - 1), slope, p), first = (float)i - reach;
	return first + fminf(p, end) >= 0.01f &&
	       first + fmaxf(p, end) + (float)wide <= (float)(n - 1) - 0.01f;
}

template <Weighting W>
static __device__ __forceinline__ void follow(
	const AxisRays *s, const Path *path, int first, int last, float total[PIXELS])
{
	const bool small = s->stride[1] <= INT32_MAX / (4 * SEGMENT); /* offsets fit into int */
	for (int k0 = first; k0 <= last; k0 += SEGMENT) {
		const bool some = k0 <= path->stop && k0 + SEGMENT > path->start;
		const bool all = k0 >= path->start && k0 + SEGMENT - 1 <= path->stop;
		int i = 0, j = 0;
		Place place = {0};
		if (some)
			place = place_of(s, path, k0, &i, &j);
		const int nb = -warp_min(-window_of(place.reach_p)),
			  nc = -warp_min(-window_of(place.reach_q));
		const bool inside =
			all && small && nb <= MOST_B && nc <= MOST_C &&
			is_inside(place.p, path->rates.slope[0], place.reach_p, i, MOST_B, s->nb) &&
			is_inside(place.q, path->rates.slope[1], place.reach_q, j, MOST_C, s->nc);
		float sum[PIXELS] = {};
		if (!__any_sync(~0u, some && !inside)) {
			if (some)
				gather_window<W>(*s, path->rates, place, nb, nc, sum);
		} else if (some) {
			gather_checked<W>(*s, path->rates, place, i, j, max(path->start - k0, 0),
				min(SEGMENT, path->stop - k0 + 1), sum);
		}
		for (int n = 0; n < PIXELS; n++)
			total[n] += sum[n];
	}
}

template <Weighting W>
static __global__ void __launch_bounds__(WARP *WARPS, 3)
	any_forward(const __grid_constant__ AxisRays s)
{
	const int64_t view = blockIdx.y;
	const int lanes = s.lanes[view];
	if (!(lanes & (LANES_AXIS << s.a)))
		return;
	int64_t row, column;
	pixel_of<PIXELS>(lanes, &row, &column);
	const KernelView *k = &s.views[view];
	Path path = {};
	path.start = 1 << 30;
	path.stop = -(1 << 30);
	const bool mine = row < s.model.rows && column < s.model.columns &&
			  set_path(&s, k, lanes, row, column, &path);
	int first = warp_min(path.start), last = -warp_min(-path.stop);
	if (first > last)
		return;
	float sum[PIXELS] = {};
	follow<W>(&s, &path, first, last, sum);
	const float scale = s.model.weight == WEIGHT_RAY ? (float)k->mass : 1;
	for (int n = 0; mine && n < PIXELS && row < s.model.rows && column < s.model.columns; n++) {
		s.projections[(view * s.model.rows + row) * s.model.columns + column] +=
			sum[n] * scale;
		row += lanes & LANES_ROWS ? 0 : 1;
		column += lanes & LANES_ROWS ? 1 : 0;
	}
}

/* ---- a whole request ------------------------------------------------------------------------- */

/* Size of a pixel relative to its distance from the source: at most this, as the largest
 * components, or lengths, of vectors that have these units. */
static double pixel_angle(const KernelView *k, const double unit[3], bool largest)
{
	double to[3], u[3], v[3], size = 0;
	for (int a = 0; a < 3; a++) {
		to[a] = (k->first[a] - k->src[a]) * unit[a];
		u[a] = k->u[a] * unit[a];
		v[a] = k->v[a] * unit[a];
		const double side = fabs(u[a]) + fabs(v[a]);
		size = largest ? fmax(size, side) : hypot(size, side);
	}
	const double n[3] = {
		u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]};
	const double area = largest ? fabs(n[0]) + fabs(n[1]) + fabs(n[2])
				    : sqrt(n[0] * n[0] + n[1] * n[1] + n[2] * n[2]);
	return size * area / fabs(n[0] * to[0] + n[1] * to[1] + n[2] * to[2]);
}

/* All of the box is in front of the source, and the rays of neighbouring pixels have nearly the
 * same direction. */
static bool view_applies(const ProjectRequest *what, const KernelView *k)
{
	static const double unit[3] = {1, 1, 1};
	if (!KERNEL_HAS_SOURCE(k))
		return true;
	for (int corner = 0; corner < 8; corner++) {
		double depth = k->depth[3];
		for (int a = 0; a < 3; a++)
			depth += k->depth[a] * (double)(corner >> a & 1 ? what->box.high[a]
									: what->box.low[a] - 1);
		if (!(depth > 1e-3))
			return false;
	}
	return pixel_angle(k, unit, true) < 0.25;
}

typedef struct {
	int axes;
	Weighting weighting;
} Notes;

/* Not for a fan per row, where the depth does not divide the row. */
static bool any_applies(const ProjectRequest *what, CudaNotes *notes)
{
	const KernelModel *model = &what->plan->model;
	const int source = what->plan->rays.source;
	Notes *found = notes_of<Notes>(notes);
	if (model->clamp || model->nearest || model->planar || what->count > 65535 ||
		!(source == TOMOS_POINT || source == TOMOS_PARALLEL))
		return false;
	for (int a = 0; a < 3; a++)
		if (what->plan->grid.n[a] > 1 << 20)
			return false;
	found->axes = 0;
	double angle = 0;
	for (int64_t i = 0; i < what->count; i++) {
		const KernelView *k = &what->plan->views[what->first + i];
		if (!view_applies(what, k))
			return false;
		found->axes |= axes_of(model, k);
		angle = fmax(angle, pixel_angle(k, what->plan->whole.step, false));
	}
	found->weighting = source == TOMOS_PARALLEL        ? LEVEL
			   : model->weight == WEIGHT_NONE  ? CONSTANT
			   : model->weight == WEIGHT_DEPTH ? DEPTH
			   : angle < 1.0 / 400             ? RAY
							   : NEAR;
	return true;
}

static auto kernel_of(Weighting weighting)
{
	typedef void (*Kernel)(const AxisRays s);
	static const Kernel kernels[] = {any_forward<LEVEL>, any_forward<CONSTANT>,
		any_forward<DEPTH>, any_forward<RAY>, any_forward<NEAR>};
	return kernels[weighting];
}

static tomos_status run_axis(tomos_backend *backend, const ProjectRequest *what, AxisRays s,
	const Notes *found, int axis)
{
	TRY(axis_volume(backend, what, axis, &s.volume, s.stride));
	s.a = axis;
	s.b = axis == 0 ? 1 : 0;
	s.c = axis == 2 ? 1 : 2;
	s.nb = (int)(s.grid.high[s.b] - s.grid.low[s.b]);
	s.nc = (int)(s.grid.high[s.c] - s.grid.low[s.c]);
	dim3 blocks = pixel_blocks<PIXELS>(what);
	blocks.y = (unsigned)s.count;
	kernel_of(found->weighting)<<<blocks, dim3(WARP, WARPS), 0, device_of(backend)->stream>>>(
		s);
	CUDA_LAUNCHED("projecting");
	return TOMOS_OK;
}

static tomos_status any_run(tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const CudaEpilogue *)
{
	const Notes *found = notes_of<Notes>(notes);
	AxisRays s;
	TRY(axis_rays(backend, what, &s));
	for (int a = 0; a < 3; a++)
		if (found->axes & (1 << a))
			TRY(run_axis(backend, what, s, found, a));
	return TOMOS_OK;
}

extern const CudaKernel cuda_voxel_forward_any;
const CudaKernel cuda_voxel_forward_any = {any_applies, any_run};
