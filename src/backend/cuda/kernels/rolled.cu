/* Host side of rolled.h and voxel_rolled.h: copies of the volume, passes, views. */
#include "backend/cuda/kernels/rolled.h"
#include "backend/cuda/kernels/voxel_rolled.h"

enum { HIGH = 8 };
#define MOST_SUMS ((int64_t)1 << 29) /* floats: 2 GiB, which takes few passes */

int64_t rolled_slices(const tomos_backend *backend, const ProjectRequest *what)
{
	const HatSlices l = {.s = 2, .a = 0, .b = 1, .sign = 1};
	/* Two copies take half of the scratch memory; the sums take the other half. */
	return slices_at_once(backend, what, &l, SlicesScratch{SLICES, 4, 0, 0});
}

/* Both copies of four slices, for a tile of TILE x TILE pixels. */
static __global__ void __launch_bounds__(TILE *HIGH)
	copy_slices(const __grid_constant__ RolledVolume s, const float *volume)
{
	__shared__ float4 tile[TILE][TILE + 1];
	const int a0 = blockIdx.x * TILE, b0 = blockIdx.y * TILE, x = threadIdx.x;
	const int64_t first = (int64_t)blockIdx.z * QUAD, slice = (int64_t)s.na * s.nb;
	float4 *to = s.from + (blockIdx.z / 2 * 4 + blockIdx.z % 2) * s.half;
	for (int y = threadIdx.y; y < TILE && b0 + y < s.nb; y += HIGH) {
		const float *from = volume + first * slice + (int64_t)(b0 + y) * s.na + a0 + x;
		float v[QUAD];
		for (int j = 0; j < QUAD; j++)
			v[j] = first + j < s.slices && a0 + x < s.na ? from[j * slice] : 0;
		tile[y][x] = make_float4(v[0], v[1], v[2], v[3]);
		if (a0 + x < s.na)
			to[2 * s.half + (int64_t)(b0 + y) * s.na + a0 + x] = tile[y][x];
	}
	__syncthreads();
	for (int y = threadIdx.y; y < TILE && a0 + y < s.na; y += HIGH)
		if (b0 + x < s.nb)
			to[(int64_t)(a0 + y) * s.nb + b0 + x] = tile[x][y];
}

tomos_status rolled_volume(tomos_backend *backend, const ProjectRequest *what, int64_t low,
	int64_t slices, RolledVolume *to)
{
	const Box *box = &what->box;
	const int na = (int)(box->high[0] - box->low[0]), nb = (int)(box->high[1] - box->low[1]);
	const int64_t eights = (slices - 1) / SLICES + 1, slice = (int64_t)na * nb;
	float *space;
	TRY(cuda_scratch(
		backend, SCRATCH_REORDERED, 2 * eights * slice * SLICES, &space, "slices"));
	*to = RolledVolume{.from = (float4 *)space,
		.half = slice,
		.na = na,
		.nb = nb,
		.low_a = box->low[0],
		.low_b = box->low[1],
		.low = low,
		.slices = slices,
		.eights = (int)eights};
	copy_slices<<<dim3(cuda_blocks(na, TILE, 1 << 30), cuda_blocks(nb, TILE, 65535),
			      (unsigned)(2 * eights)),
		dim3(TILE, HIGH), 0, device_of(backend)->stream>>>(
		*to, what->volume + (low - box->low[2]) * slice);
	CUDA_LAUNCHED("copying slices");
	return TOMOS_OK;
}

int64_t rolled_views(const tomos_backend *backend, int64_t floats, int64_t count)
{
	const int64_t room = min64(device_of(backend)->slices_most / 2, MOST_SUMS);
	const int64_t most = room / floats / GROUP * GROUP;
	return min64(max64(most, GROUP), min64(count, GROUP * (int64_t)65535));
}

dim3 rolled_blocks(int64_t lines, int64_t views, int64_t parts)
{
	return dim3(cuda_blocks(lines, TILE * ROWS, 1 << 30), cuda_blocks(views, GROUP, 65535),
		cuda_blocks(parts, 1, 65535));
}

static __global__ void __launch_bounds__(TILE) find_courses(
	const KernelView *views, int64_t count, KernelModel model, bool near, Course *to)
{
	const int64_t view = (int64_t)blockIdx.x * TILE + threadIdx.x;
	if (view < count)
		to[view] = course_of(&views[view], &model, near);
}

tomos_status rolled_courses(
	tomos_backend *backend, const ProjectRequest *what, bool near, const Course **views)
{
	const CudaPlan *kept;
	float *space;
	TRY(cuda_plan(backend, what->plan, &kept));
	TRY(cuda_scratch(backend, SCRATCH_LISTS,
		what->count * (int64_t)(sizeof(Course) / sizeof(float)), &space, "views"));
	find_courses<<<cuda_blocks(what->count, TILE, 1 << 30), TILE, 0,
		device_of(backend)->stream>>>(
		kept->views + what->first, what->count, what->plan->model, near, (Course *)space);
	CUDA_LAUNCHED("finding views");
	*views = (const Course *)space;
	return TOMOS_OK;
}
