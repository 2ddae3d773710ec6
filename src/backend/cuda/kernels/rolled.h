/* Forward projection of parallel rays in planes of constant z, detector rolled: what
 * joseph_forward_rolled.cu and voxel_forward_rolled.cu have in common.
 *
 * A thread has one line through the slices, that of a detector column, and eight slices. The lines
 * of its slices are shifted from each other by a small part of a pixel. The thread follows the
 * lowest; what it sums gives the sums of the others, but for kinks in the few planes where a pixel
 * lies between the lines.
 */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_ROLLED_H
#define TOMOS_BACKEND_CUDA_KERNELS_ROLLED_H

#include "backend/cuda/kernels/transpose.h"

enum {
	QUAD = 4,          /* slices of a float4 */
	SLICES = 2 * QUAD, /* of a thread */
	SEGMENT = 32,      /* planes */
	TILE = 32,
	GROUP = 4, /* neighbouring views of a block, whose lines meet nearly the same pixels */
	ROWS = 2
};

/* ---- kinks ----------------------------------------------------------------------------------- */

/* Slack of the search for kinks, in pixels. */
#define KINK_SLACK 5e-4f

/* Planes with kinks: those where the fraction y of the position, counted from the lowest that can
 * have a kink, is less than `wide`. Positions change by a constant from plane to plane, so that the
 * next such plane is `up` planes on, where y is `rise` larger, `down` planes on, where it is `fall`
 * less, or both together. */
typedef struct {
	float wide, start, rate; /* start: of the first plane, y - p */
	int up, down;
	float rise, fall;
} Kinks;

typedef struct {
	int plane; /* the next plane with a kink */
	float y;
} Kink;

static __device__ __forceinline__ Kink next_kink(const Kinks &s, Kink k)
{
	bool up = k.y < s.wide - s.rise, down = k.y >= s.fall;
	if (up && down) {
		up = s.up <= s.down;
		down = !up;
	} else if (!up && !down) {
		up = down = true;
	}
	return Kink{k.plane + (up ? s.up : 0) + (down ? s.down : 0),
		k.y + (up ? s.rise : 0.f) - (down ? s.fall : 0.f)};
}

static __device__ Kink first_kink(const Kinks &s, double p, int planes)
{
	const double from = p + (double)s.start;
	Kink k = {0, (float)(from - floor(from))};
	while (k.plane < planes && k.y >= s.wide) {
		k.plane++;
		k.y += s.rate;
		k.y -= k.y >= 1 ? 1.f : 0.f;
	}
	return k;
}

/* What the threads of a view find together: its widest range of shifts, as the bits of a float,
 * and the distances between planes with kinks. */
typedef struct {
	int wide, up, down;
} Steps;

/* shift: of the highest line of a thread from its lowest. For all threads of a block. */
static __device__ void find_kinks(double slope, int planes, float shift, Steps *steps, Kinks *kinks)
{
	enum { THREADS = TILE * ROWS };
	const double turn = slope - floor(slope);
	const int thread = threadIdx.y / GROUP * TILE + threadIdx.x;
	Steps *own = &steps[threadIdx.y % GROUP];
	if (thread == 0)
		*own = Steps{0, planes, planes};
	__syncthreads();
	atomicMax(&own->wide, __float_as_int(shift));
	__syncthreads();
	const float wide = __int_as_float(own->wide);
	Kinks s = {.wide = wide + 2 * KINK_SLACK,
		.start = wide + KINK_SLACK,
		.rate = (float)turn,
		.rise = 4,
		.fall = 4};
	for (int n = 1 + thread; n < planes; n += THREADS) {
		const double y = n * turn - floor(n * turn);
		if (y < (double)s.wide)
			atomicMin(&own->up, n);
		if (1 - y < (double)s.wide)
			atomicMin(&own->down, n);
	}
	__syncthreads();
	s.up = own->up;
	s.down = own->down;
	if (s.up < planes)
		s.rise = (float)(s.up * turn - floor(s.up * turn));
	if (s.down < planes)
		s.fall = (float)(1 + floor(s.down * turn) - s.down * turn);
	if (thread == 0)
		kinks[threadIdx.y % GROUP] = s;
	__syncthreads();
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* Lines of n pixels; of each the first four slices, and `half` further on the others. Zeros
 * outside. */
typedef struct {
	const float4 *from;
	int64_t half;
	int plane, n; /* plane: from one line to the next */
} Lines;

typedef struct {
	float x[SLICES];
} Pixel;

static __device__ __forceinline__ Pixel pixel_at(const float4 *from, int64_t half)
{
	const float4 v = __ldg(from), w = __ldg(from + half);
	return Pixel{{v.x, v.y, v.z, v.w, w.x, w.y, w.z, w.w}};
}

static __device__ __forceinline__ Pixel pixel_of(const Lines &s, const float4 *line, int i)
{
	return (unsigned)i < (unsigned)s.n ? pixel_at(line + i, s.half) : Pixel{};
}

/* Planes of a segment; the line is at base + f + k rate in plane k. */
typedef struct {
	const float4 *line; /* of its first plane, at pixel `base` */
	float f, rate;
	int base, end;
} Segment;

static __device__ __forceinline__ double segment_start(double p, double rate, int plane)
{
	return fma((double)plane, rate, p);
}

/* A plane with a kink: the line is at f, between -1 and 0, past pixel i. */
typedef struct {
	const float4 *line;
	int i;
	float f;
} KinkPlane;

/* With the same operations as for sums: both have to agree which pixels the line is between. */
static __device__ __forceinline__ KinkPlane kink_plane(
	const Lines &s, double p, double rate, int plane)
{
	const int k = plane % SEGMENT;
	const double start = segment_start(p, rate, plane - k), whole = floor(start);
	const float at = fmaf((float)k, (float)rate, (float)(start - whole)), lowest = floorf(at);
	return KinkPlane{
		s.from + (int64_t)plane * s.plane, (int)whole + (int)lowest + 1, at - lowest - 1};
}

/* ---- volumes --------------------------------------------------------------------------------- */

/* Slices of the volume, as [eight][copy][half][plane][pixel], four slices each: those of eight
 * slices stay in L2 cache while all views are projected. Planes of the copies are across a and
 * across b. */
typedef struct {
	float4 *from;
	int64_t half;         /* float4 of four slices of a copy */
	int na, nb;           /* pixels of the box */
	int64_t low_a, low_b; /* first pixel of the box */
	int64_t low, slices;
	int eights;
} RolledVolume;

/* Slices of a pass. */
int64_t rolled_slices(const tomos_backend *backend, const ProjectRequest *what);
tomos_status rolled_volume(tomos_backend *backend, const ProjectRequest *what, int64_t low,
	int64_t slices, RolledVolume *to);
/* Views of a pass, with `floats` of scratch memory each: a multiple of those of a block. */
int64_t rolled_views(const tomos_backend *backend, int64_t floats, int64_t count);
/* Blocks of TILE x (GROUP ROWS) threads for some lines of each view, and parts of the slices. */
dim3 rolled_blocks(int64_t lines, int64_t views, int64_t parts);

/* The line of a thread. */
typedef struct {
	int64_t line, view;
} RolledThread;

static __device__ __forceinline__ RolledThread rolled_thread(void)
{
	return RolledThread{((int64_t)blockIdx.x * ROWS + threadIdx.y / GROUP) * TILE + threadIdx.x,
		(int64_t)blockIdx.y * GROUP + threadIdx.y % GROUP};
}

/* across_b: planes are across b. */
static __device__ __forceinline__ Lines rolled_lines(
	const RolledVolume &s, int64_t eight, bool across_b)
{
	const int n = across_b ? s.na : s.nb;
	return Lines{s.from + (eight * 2 + across_b) * 2 * s.half, s.half, n, n};
}

#endif
