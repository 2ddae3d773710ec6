/* Forward projection of separable footprints: the voxels of a thread, and their images. */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_FOOTPRINT_FORWARD_VOXELS_H
#define TOMOS_BACKEND_CUDA_KERNELS_FOOTPRINT_FORWARD_VOXELS_H

#include "backend/cuda/kernels/footprint_mirrors.h"

/* The voxels of a thread: their place along the axes of the volume, how many are inside of it, and
 * a factor that makes them at most 1. */
typedef struct {
	int at[3], count;
	float scale;
} Line;

static __device__ __forceinline__ Line line_of(const Footprints &s, const int first[3])
{
	const float largest = __uint_as_float(*s.largest);
	const int l = s.axis[0], w = s.axis[1], c = s.axis[2];
	Line line = {{first[0], first[1], first[2]}, 0,
		largest > 1e-37f ? 1 / largest : 0}; /* 0 for NaN too */
	line.at[l] += threadIdx.x % LANES;
	line.at[w] += threadIdx.x / LANES;
	if (line.at[l] < s.domain[l] && line.at[w] < s.domain[w])
		line.count = min(s.size[2], s.domain[c] - first[c]);
	return line;
}

/* Image i of a line: its first voxel, and from one to the next; voxel `middle` is not part of it,
 * since it is visited itself (middle_of). */
typedef struct {
	const float *first;
	int64_t step;
	int count, middle;
	float scale;
} ImageLine;

static __device__ __forceinline__ int64_t place_of_image(
	const Footprints &s, int i, const int at[3])
{
	const int3 p = image_of(s, i, i, at[0], at[1], at[2]);
	return ((int64_t)p.z * s.n[1] + p.y) * s.n[0] + p.x;
}

static __device__ __forceinline__ ImageLine image_of_line(
	const Footprints &s, const Line &line, int i)
{
	const int a = s.axis[0], b = s.axis[1], c = s.axis[2];
	int at[3] = {line.at[0], line.at[1], line.at[2]};
	const bool twice = at[a] == middle_of(s, i, a) || at[b] == middle_of(s, i, b);
	const int middle = middle_of(s, i, c) - at[c];
	const int64_t place = place_of_image(s, i, at);
	at[c]++;
	return ImageLine{s.volume + place, place_of_image(s, i, at) - place, twice ? 0 : line.count,
		middle, line.scale};
}

static __device__ __forceinline__ float voxel_of(const ImageLine &line, int k)
{
	return k < line.count && k != line.middle ? line.first[k * line.step] * line.scale : 0;
}

/* Calls visit(k, voxel) for those inside the box, in a loop that is not unrolled. */
template <class Mine, class Visit>
static __device__ __forceinline__ void voxels_each(
	const Footprints &s, Mine &voxels, const Visit &visit)
{
	const int count = s.domain[s.axis[2]] - (int)blockIdx.z * Mine::COUNT;
#pragma unroll 1
	for (int k = 0; k < Mine::COUNT; k++) {
		if constexpr (PARTS<typename Mine::Value> != 1) {
			if (k < count)
				visit(k, voxels.at(0));
			voxels.template rotate<1>();
		} else if (k < count) {
			visit(k, voxels.at(k));
		}
	}
}

/* Calls visit(k, voxel) for the voxels of a line, which are read once more. */
template <class Value, class Visit>
static __device__ __forceinline__ void line_each(
	const Footprints &s, const Line &line, const Visit &visit)
{
	ImageLine image[PARTS<Value>];
#pragma unroll
	for (int i = 0; i < PARTS<Value>; i++)
		image[i] = image_of_line(s, line, i);
	for (int k = 0; k < line.count; k++) {
		Value value;
#pragma unroll
		for (int i = 0; i < PARTS<Value>; i++)
			((float *)&value)[i] = voxel_of(image[i], k);
		visit(k, value);
	}
}

#endif
