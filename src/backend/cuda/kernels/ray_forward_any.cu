/* Forward projection of any scan with the projectors `joseph` or `line`: one thread per ray; the
 * rays of a warp advance together from plane to plane of their dominant axis.
 *
 * a is the dominant axis, b and c are the others. Each dominant axis has its own launch.
 * Neighbouring rays read neighbouring voxels along x or, where x is dominant, along y of a
 * transposed copy of the volume. The four voxels around a point are read through the cache and
 * interpolated in float; positions are recomputed in double every SEGMENT planes.
 *
 * Intersection lengths (`line`) are an interpolation too. Let a ray pass the centre plane at
 * fraction f between the centres of two voxels along b. Within the thickness of the plane, it is in
 * the second voxel for the fraction saturate((f - 1/2) / |slope| + 1/2); likewise along c. It is in
 * the second voxel along both axes for the smaller of the two fractions or, if the slopes have
 * different signs, for their sum minus 1.
 */
#include "backend/cuda/kernels/lanes.h"

/* AHEAD: planes from a sample to what is prefetched into L2 cache. A single view does not find
 * voxels there that others have read. */
enum { SEGMENT = 32, AHEAD = 8 };

typedef enum { JOSEPH, LINE } Weights;

/* Slopes p, q of a ray along b and c, in voxels per plane; LINE: steep_p, steep_q are 1 /
 * |slope|. */
typedef struct {
	float p, q, steep_p, steep_q;
	bool same; /* the slopes have the same sign */
} Rates;

static __device__ Rates rates_of(const KernelWalk *walk)
{
	double p = walk->slope[0], q = walk->slope[1];
	return Rates{(float)p, (float)q, p == 0 ? 1 : (float)(1 / fabs(p)),
		q == 0 ? 1 : (float)(1 / fabs(q)), (p > 0) == (q > 0)};
}

/* Converts the position between two voxels along b (right) and c (up) to the fraction of the
 * second voxel; returns the fraction of the voxel that is second along both. */
template <Weights W>
static __device__ __forceinline__ float both_parts(const Rates &rates, float &right, float &up)
{
	if (W == JOSEPH)
		return right * up;
	right = fma_saturate(right - 0.5f, rates.steep_p, 0.5f);
	up = fma_saturate(up - 0.5f, rates.steep_q, 0.5f);
	return rates.same ? fminf(right, up) : fmaxf(right + up - 1, 0.f);
}

#define MAGIC 12582912.f /* 1.5 * 2^23: adding it rounds to the nearest integer */

/* Interpolates the four voxels of a plane around (p, q), both relative to `plane`, all of them
 * inside the box. Rounding by addition is much faster than floorf and conversion to int. */
static __device__ __forceinline__ float sample_inside(
	const float *plane, float p, float q, int sc, int64_t ahead)
{
	const float half_p = p - 0.5f, half_q = q - 0.5f;
	const float near_p = __fadd_rn(half_p, MAGIC), near_q = __fadd_rn(half_q, MAGIC);
	const int i = __float_as_int(near_p) - __float_as_int(MAGIC);
	const int j = __float_as_int(near_q) - __float_as_int(MAGIC);
	const float right = p - __fadd_rn(near_p, -MAGIC), up = q - __fadd_rn(near_q, -MAGIC);
	const float *at = plane + (j * sc + i);
	asm volatile("prefetch.global.L2 [%0];" ::"l"(at + ahead));
	const float one = __ldg(at), two = __ldg(at + 1), three = __ldg(at + sc),
		    four = __ldg(at + sc + 1);
	const float low = fmaf(right, two - one, one), high = fmaf(right, four - three, three);
	return fmaf(up, high - low, low);
}

/* Interpolates the four voxels of a plane around (p, q). (p, q) and `plane` are relative to
 * voxel (base_i, base_j). sc: stride along c; ahead: to voxels that are prefetched. CHECKED: any of
 * the voxels may be outside. */
template <Weights W, bool CHECKED>
static __device__ __forceinline__ float sample(const float *plane, const Rates &rates, float p,
	float q, int base_i, int base_j, int nb, int nc, int64_t sc, int64_t ahead)
{
	if (!CHECKED && W == JOSEPH)
		return sample_inside(plane, p, q, (int)sc, ahead);
	float p0 = floorf(p), q0 = floorf(q), right = p - p0, up = q - q0;
	float both = both_parts<W>(rates, right, up);
	const float *at = plane + (int)q0 * sc + (int)p0;
	int i = base_i + (int)p0, j = base_j + (int)q0;
	bool left_in = !CHECKED || (unsigned)i < (unsigned)nb;
	bool right_in = !CHECKED || (unsigned)(i + 1) < (unsigned)nb;
	bool low_in = !CHECKED || (unsigned)j < (unsigned)nc;
	bool high_in = !CHECKED || (unsigned)(j + 1) < (unsigned)nc;
	float sum = left_in && low_in ? (1 - right - up + both) * __ldg(at) : 0;
	sum += right_in && low_in ? (right - both) * __ldg(at + 1) : 0;
	sum += left_in && high_in ? (up - both) * __ldg(at + sc) : 0;
	return sum + (right_in && high_in ? both * __ldg(at + sc + 1) : 0);
}

/* Whether a ray stays inside 0 .. n - 1 for a whole segment, with a margin for the rounding to
 * float of positions that are nearly integers. */
static __device__ bool is_inside(double p, double slope, int n)
{
	double end = p + SEGMENT * slope, low = 1e-4, high = n - 1 - 1e-4;
	return p >= low && end >= low && p < high && end < high;
}

/* Sum over the planes of one ray, start .. stop. first .. last: the planes of all rays of the
 * warp. */
template <Weights W, int A>
static __device__ float follow(
	const AxisRays *s, const KernelWalk *walk, int first, int last, int start, int stop)
{
	const int b = A == 0 ? 1 : 0, c = A == 2 ? 1 : 2;
	const int nb = (int)(s->grid.high[b] - s->grid.low[b]);
	const int nc = (int)(s->grid.high[c] - s->grid.low[c]);
	const Rates rates = rates_of(walk);
	const int64_t sc = s->stride[1];
	const bool small = sc <= INT32_MAX / (SEGMENT + 2); /* offsets of a segment fit into int */
	float sum = 0;
	for (int k0 = first; k0 <= last; k0 += SEGMENT) {
		double p = walk->base[0] + k0 * walk->slope[0] - (double)s->grid.low[b];
		double q = walk->base[1] + k0 * walk->slope[1] - (double)s->grid.low[c];
		if (k0 > stop || k0 + SEGMENT <= start)
			continue;
		double whole_p = floor(p), whole_q = floor(q);
		float fp = (float)(p - whole_p), fq = (float)(q - whole_q);
		const int i = (int)whole_p, j = (int)whole_q;
		const float *plane =
			s->volume + (k0 - s->grid.low[A]) * s->stride[0] + i + j * s->stride[1];
		if (small && k0 >= start && k0 + SEGMENT - 1 <= stop &&
			is_inside(p, walk->slope[0], nb) && is_inside(q, walk->slope[1], nc)) {
			const int64_t ahead = k0 + SEGMENT + AHEAD <= (int)s->grid.high[A]
						      ? AHEAD * s->stride[0]
						      : 0;
#pragma unroll 4
			for (int k = 0; k < SEGMENT; k++, plane += s->stride[0])
				sum += sample<W, false>(plane, rates, fmaf((float)k, rates.p, fp),
					fmaf((float)k, rates.q, fq), i, j, nb, nc, sc, ahead);
			continue;
		}
		for (int k = max(start - k0, 0); k < min(SEGMENT, stop - k0 + 1); k++)
			sum += sample<W, true>(plane + k * s->stride[0], rates,
				fmaf((float)k, rates.p, fp), fmaf((float)k, rates.q, fq), i, j, nb,
				nc, sc, 0);
	}
	return sum;
}

/* Path of a ray, and the planes in which it meets the box. LINE: a ray parallel to an axis stays
 * in one row of voxels and is moved to its centre. */
template <Weights W>
static __device__ KernelWalk walk_of(
	const KernelGrid *grid, const KernelRay *exact, int *start, int *stop)
{
	const double along = W == LINE ? 0.5 : 0;
	const KernelRay ray = W == LINE ? kernel_nudge(exact) : *exact;
	KernelWalk walk = kernel_walk(grid, &ray, W == LINE ? 0.5 : 1, along);
	if (walk.k_start <= walk.k_stop) {
		*start = (int)(W == LINE ? floor(walk.k_start + 0.5) : ceil(walk.k_start));
		*stop = (int)floor(walk.k_stop + along);
	}
	for (int i = 0; W == LINE && i < 2; i++)
		if (walk.slope[i] == 0)
			walk.base[i] = floor(walk.base[i] + 0.5);
	return walk;
}

template <Weights W, int A>
static __global__ void __launch_bounds__(WARP *WARPS)
	ray_forward(const __grid_constant__ AxisRays s)
{
	int64_t view = blockIdx.y, row, column;
	int lanes = s.lanes[view];
	if (!(lanes & (LANES_AXIS << A)))
		return;
	pixel_of<1>(lanes, &row, &column);
	bool mine = row < s.model.rows && column < s.model.columns;
	KernelWalk walk = {0};
	int start = 1 << 30, stop = -(1 << 30);
	if (mine) {
		KernelRay ray = kernel_ray(&s.grid, &s.views[view], row, column);
		int one = start, two = stop;
		walk = walk_of<W>(&s.grid, &ray, &one, &two);
		mine = walk.a == A;
		if (mine && one <= two) {
			start = max(one, (int)s.grid.low[A]);
			stop = min(two, (int)s.grid.high[A] - 1);
		}
	}
	int first = warp_min(start), last = -warp_min(-stop);
	if (first > last)
		return;
	first = first / SEGMENT * SEGMENT;
	float sum = start <= stop ? follow<W, A>(&s, &walk, first, last, start, stop) : 0;
	if (mine)
		s.projections[(view * s.model.rows + row) * s.model.columns + column] +=
			sum * (float)walk.step;
}

/* ---- a whole request ------------------------------------------------------------------------- */

/* Intersection lengths of rays that start inside the box are left to the reference kernel. */
static bool begins_inside(const Box *box, const KernelView *k)
{
	bool inside = KERNEL_HAS_SOURCE(k);
	for (int a = 0; a < 3; a++)
		inside = inside && k->src[a] > (double)box->low[a] - 2 &&
			 k->src[a] < (double)box->high[a] + 1;
	return inside || KERNEL_FANS(k); /* for fans, the source of each row is not checked */
}

static bool ray_applies(const ProjectRequest *what, CudaNotes *notes)
{
	int *axes = notes_of<int>(notes);
	const KernelModel *model = &what->plan->model;
	bool joseph = what->kernel == KERNEL_joseph;
	for (int a = 0; a < 3; a++)
		if (what->plan->grid.n[a] > 1 << 24)
			return false;
	*axes = 0;
	for (int64_t i = 0; i < what->count; i++) {
		const KernelView *k = &what->plan->views[what->first + i];
		if (!joseph && begins_inside(&what->box, k))
			return false;
		*axes |= axes_of(model, k);
	}
	return !(joseph && model->clamp) && what->count <= 65535;
}

static tomos_status run_axis(
	tomos_backend *backend, const ProjectRequest *what, AxisRays *s, int axis)
{
	cudaStream_t stream = device_of(backend)->stream;
	TRY(axis_volume(backend, what, axis, &s->volume, s->stride));
	dim3 blocks = pixel_blocks<1>(what);
	typedef void (*RayKernel)(const AxisRays s);
	static const RayKernel kernels[2][3] = {
		{ray_forward<JOSEPH, 0>, ray_forward<JOSEPH, 1>, ray_forward<JOSEPH, 2>},
		{ray_forward<LINE, 0>, ray_forward<LINE, 1>, ray_forward<LINE, 2>}};
	kernels[what->kernel == KERNEL_joseph ? JOSEPH : LINE]
	       [axis]<<<blocks, dim3(WARP, WARPS), 0, stream>>>(*s);
	CUDA_LAUNCHED("projecting");
	return TOMOS_OK;
}

static tomos_status ray_run(tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const CudaEpilogue *)
{
	AxisRays s;
	TRY(axis_rays(backend, what, &s));
	int axes = *notes_of<int>(notes);
	for (int a = 0; a < 3; a++)
		if (axes & (1 << a))
			TRY(run_axis(backend, what, &s, a));
	return TOMOS_OK;
}

extern const CudaKernel cuda_ray_forward_any;
const CudaKernel cuda_ray_forward_any = {ray_applies, ray_run};
