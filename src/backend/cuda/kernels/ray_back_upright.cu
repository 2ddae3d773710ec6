/* Back projection of the projectors `joseph` and `line` for upright detectors (upright.h): each
 * voxel gathers from the rays that pass within one voxel, so no atomics are needed and results are
 * reproducible.
 *
 * Each thread computes a column of voxels along z. All voxels of the column meet the rays of the
 * same few detector columns. Within a detector column, a voxel meets the rows around a position
 * that advances by a constant step from voxel to voxel. For `line`, the weight is the length of the
 * ray in the voxel: the part of one plane of the dominant axis in which the ray is inside the voxel
 * along both other axes.
 */
#include "backend/cuda/kernels/update.h"
#include "backend/cuda/kernels/upright.h"

enum { WIDE = 32, HIGH = 4, COLUMN = 16, BORDER = 4, THREADS = 128 };

#define MAGIC 12582912.f /* 1.5 * 2^23: adding it rounds to the nearest integer */

typedef enum { JOSEPH, LINE } Kind;

typedef struct {
	KernelGrid grid;
	KernelModel model;
	const KernelView *views;
	int64_t count;
	float reach; /* columns to either side of a voxel's projection whose rays may pass it */
	int n[3];
	const Path *paths;  /* [view][column] */
	const void *images; /* [view][row][pitch], with a border; each pixel times its ray's step
		          * length */
	int pitch, rows;    /* rows: with the border */
	float *volume;
	VoxelUpdate update;
} Gather;

static __global__ void make_paths(const __grid_constant__ Gather s, Path *paths)
{
	int64_t column = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
	for (int64_t view = blockIdx.y; view < s.count && column < s.model.columns;
		view += gridDim.y)
		paths[view * s.model.columns + column] =
			path_of(&s.grid, &s.model, &s.views[view], 0, column);
}

/* Copies the views with a border, each pixel multiplied by the step length of its ray. */
template <typename Pixel>
static __global__ void make_images(
	const __grid_constant__ Gather s, const float *from, const float *rays, Pixel *to)
{
	int64_t c = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, column = c - BORDER;
	int64_t lines = s.count * s.rows;
	if (c >= s.pitch)
		return;
	for (int64_t line = blockIdx.y; line < lines; line += gridDim.y) {
		int64_t view = line / s.rows, row = line % s.rows - BORDER;
		bool inside =
			column >= 0 && column < s.model.columns && row >= 0 && row < s.model.rows;
		int64_t at = (view * s.model.rows + row) * s.model.columns + column;
		Pixel pixel = {};
		if (inside)
			set_pixel(pixel,
				step_of(&s.grid, &s.views[view], row, column,
					s.paths[view * s.model.columns + column].axis),
				from + at, rays ? rays + at : NULL);
		to[line * s.pitch + c] = pixel;
	}
}

/* JOSEPH: weighted sum of the T rows around position t of one detector column; gap: distance of
 * rows, in voxels. */
template <int T, typename Pixel>
static __device__ __forceinline__ Pixel rows_at(const Pixel *line, float t, float gap, int pitch)
{
	float rounded = __fadd_rn(t, MAGIC), d = t - __fadd_rn(rounded, -MAGIC), more = 1 - gap;
	const Pixel *at = line + (__float_as_int(rounded) - __float_as_int(MAGIC)) * pitch;
	Pixel value = {};
	accumulate(value, fma_saturate(-fabsf(d), gap, 1.f), __ldg(at));
	if (T == 1) /* rays of the other rows are in other slices */
		return value;
	accumulate(value, fma_saturate(-d, gap, more), __ldg(at - pitch));
	accumulate(value, fma_saturate(d, gap, more), __ldg(at + pitch));
	if (T == 5) {
		accumulate(value, fma_saturate(-d, gap, more - gap), __ldg(at - 2 * pitch));
		accumulate(value, fma_saturate(d, gap, more - gap), __ldg(at + 2 * pitch));
	}
	return value;
}

/* How the rays of one detector column (a sheet) pass a column of voxels. JOSEPH: `weight`. LINE:
 * positions along a ray are in planes, from -1/2 to 1/2 around the plane of the voxels. The ray is
 * inside the column of voxels from `low` to `high`. Per plane, the ray of row 0 rises by `climb`
 * voxels, that of row j by `climb` + j `widen`. */
typedef struct {
	float weight, low, high, widen;
	double climb;
} Passing;

#define LEVEL 1e-6f /* slopes below this are treated as zero */

/* Narrows low .. high to the part in which a ray is inside a voxel, along one axis. The centre
 * of the voxel is `away` from the ray at position 0, and the ray moves by `climb` per plane. Rays
 * on a face between two voxels belong to the upper voxel. */
static __device__ __forceinline__ void narrow(float away, float climb, float *low, float *high)
{
	bool level = fabsf(climb) < LEVEL;
	float rate = __fdividef(1.f, level ? LEVEL : climb);
	float middle = (level ? away - 10 * LEVEL : away) * rate, half = 0.5f * fabsf(rate);
	*low = fmaxf(*low, middle - half);
	*high = fminf(*high, middle + half);
}

/* LINE: adds the T rows around position t, weighted by intersection lengths; `climb` is that of
 * row 0 of `line`. */
template <int T, typename Pixel>
static __device__ __forceinline__ void add_passing(const Pixel *line, float t, float gap, int pitch,
	float climb, const Passing &pass, Pixel &sum)
{
	float rounded = __fadd_rn(t, MAGIC), row = __fadd_rn(rounded, -MAGIC);
	const Pixel *at = line + (__float_as_int(rounded) - __float_as_int(MAGIC)) * pitch;
#pragma unroll
	for (int j = -T / 2; j <= T / 2; j++) {
		float low = pass.low, high = pass.high, here = row + (float)j;
		narrow((t - here) * gap, fmaf(here, pass.widen, climb), &low, &high);
		accumulate(sum, fmaxf(high - low, 0.f), __ldg(at + j * pitch));
	}
}

template <Kind K, int T, typename Pixel>
static __device__ __forceinline__ void add_rows(const Pixel *line, float t, float gap, int pitch,
	float climb, const Passing &pass, Pixel &sum)
{
	if (K == JOSEPH)
		accumulate(sum, pass.weight, rows_at<T>(line, t, gap, pitch));
	else
		add_passing<T>(line, t, gap, pitch, climb, pass, sum);
}

/* Adds one sheet to voxels 0 .. N - 1 of the column. z: height of row 0 relative to voxel 0;
 * rows are `gap` voxels apart. */
template <Kind K, int T, int N, typename Pixel>
static __device__ __forceinline__ void climb(const Gather *s, const Pixel *column, double z,
	float gap, const Passing &pass, Pixel sum[N])
{
	double start = -z / gap, whole = rint(start);
	if (start > (double)(s->model.rows + BORDER) || start + N / gap < -BORDER)
		return;
	float f = (float)(start - whole), rate = __fdividef(1.f, gap);
	const Pixel *line = column + ((int64_t)whole + BORDER) * s->pitch;
	float steep = K == LINE ? (float)(pass.climb + whole * pass.widen) : 0;
	if (start >= 2 - BORDER && start + N / gap <= (double)(s->model.rows + 1)) {
#pragma unroll
		for (int k = 0; k < N; k++)
			add_rows<K, T>(
				line, fmaf((float)k, rate, f), gap, s->pitch, steep, pass, sum[k]);
		return;
	}
	/* Positions beyond the border are clamped to it. */
	float low = (float)(2 - BORDER - whole), high = (float)(s->model.rows + 1 - whole);
#pragma unroll
	for (int k = 0; k < N; k++) {
		float t = fminf(fmaxf(fmaf((float)k, rate, f), low), high);
		add_rows<K, T>(line, t, gap, s->pitch, steep, pass, sum[k]);
	}
}

/* Computes how the sheet passes the column of voxels at position `here` along the minor axis;
 * false if it does not meet it. */
template <Kind K>
static __device__ __forceinline__ bool passes(
	const Path &path, double plane, double here, Passing *pass)
{
	double away = here - (path.p + plane * path.slope);
	if (K == JOSEPH) {
		pass->weight = 1 - (float)fabs(away);
		return pass->weight > 0;
	}
	pass->low = -0.5f;
	pass->high = 0.5f;
	pass->climb = path.climb;
	pass->widen = (float)path.widen;
	if (path.slope == 0)
		return away > -0.5 + 1e-9 && away <= 0.5 + 1e-9; /* as in kernel_nudge */
	narrow((float)away, (float)path.slope, &pass->low, &pass->high);
	return pass->low < pass->high;
}

/* T: most rows that meet a voxel; N: voxels per column. */
template <Kind K, int T, int N, typename Pixel>
static __global__ void __launch_bounds__(THREADS) gather_back(const __grid_constant__ Gather s)
{
	const int x = blockIdx.x * WIDE + threadIdx.x, y = blockIdx.y * HIGH + threadIdx.y;
	const int z0 = blockIdx.z * N;
	if (x >= s.n[0] || y >= s.n[1])
		return;
	const Pixel *images = (const Pixel *)s.images;
	Pixel sum[N] = {};
	for (int64_t view = 0; view < s.count; view++) {
		const KernelView *k = &s.views[view];
		double at[2] = {(double)(s.grid.low[0] + x), (double)(s.grid.low[1] + y)};
		double depth = k->depth[0] * at[0] + k->depth[1] * at[1] + k->depth[3];
		double u = (k->column[0] * at[0] + k->column[1] * at[1] + k->column[3]) / depth;
		int first = (int)fmax(ceil(u - s.reach), 0.0);
		int last = (int)fmin(floor(u + s.reach), (double)(s.model.columns - 1));
		for (int c = first; c <= last; c++) {
			const Path path = s.paths[view * s.model.columns + c];
			double plane = path.axis == 0 ? x : y, here = path.axis == 0 ? y : x;
			Passing pass;
			if (!passes<K>(path, plane, here, &pass))
				continue;
			float gap = (float)(path.gap + plane * path.widen);
			climb<K, T, N>(&s, images + view * s.rows * s.pitch + c + BORDER,
				path.z + plane * path.climb - z0, gap, pass, sum);
		}
	}
	float *to = s.volume + ((int64_t)z0 * s.n[1] + y) * s.n[0] + x;
	update_voxels<N, N == 1 ? 1 : 4>(
		s.update, to, (int64_t)s.n[0] * s.n[1], s.n[2] - z0, [&](int k) { return sum[k]; });
}

/* ---- a whole request ------------------------------------------------------------------------- */

typedef struct {
	double reach;
	int taps; /* most rows that meet a voxel */
} Reach;

static bool gather_applies(const ProjectRequest *what, CudaNotes *notes)
{
	Reach *reach = notes_of<Reach>(notes);
	const RayClass *rays = &what->plan->rays;
	double gap, most;
	reach->reach = sheet_reach(what, &gap, &most);
	if (!(reach->reach > 0 && gap >= 0.5))
		return false;
	/* Rays contribute to a voxel within one voxel (joseph), or half a voxel plus half their
	 * rise per plane (line). */
	bool five = gap < (what->kernel == KERNEL_joseph ? 0.67 : 0.76);
	bool fans = rays->source == TOMOS_FAN_PER_ROW && rays_are(rays, RAYS_IN_SLICE);
	reach->taps = fans ? 1 : five ? 5 : 3;
	return true;
}

/* Floats of scratch memory per view; pairs: each pixel is a float2 of value and weight. */
static int64_t view_floats(const KernelModel *model, bool pairs)
{
	int64_t pixels = (model->rows + 2 * BORDER) * (model->columns + 2 * BORDER);
	return pixels * (pairs ? 2 : 1) + model->columns * (int64_t)(sizeof(Path) / sizeof(float));
}

typedef void (*GatherKernel)(const Gather s);

template <typename Pixel> static GatherKernel kernel_of(int kernel, int taps, bool flat)
{
	static const GatherKernel kernels[2][3][2] = {
		{{gather_back<JOSEPH, 1, COLUMN, Pixel>, gather_back<JOSEPH, 1, 1, Pixel>},
			{gather_back<JOSEPH, 3, COLUMN, Pixel>, gather_back<JOSEPH, 3, 1, Pixel>},
			{gather_back<JOSEPH, 5, COLUMN, Pixel>, gather_back<JOSEPH, 5, 1, Pixel>}},
		{{gather_back<LINE, 1, COLUMN, Pixel>, gather_back<LINE, 1, 1, Pixel>},
			{gather_back<LINE, 3, COLUMN, Pixel>, gather_back<LINE, 3, 1, Pixel>},
			{gather_back<LINE, 5, COLUMN, Pixel>, gather_back<LINE, 5, 1, Pixel>}}};
	return kernels[kernel == KERNEL_joseph ? JOSEPH : LINE][taps / 2][flat];
}

template <typename Pixel>
static void launch(cudaStream_t stream, const ProjectRequest *what, Gather *s, int64_t first,
	float *images, int taps)
{
	const KernelModel *model = &s->model;
	bool flat = s->n[2] == 1;
	int64_t at = first * model->rows * model->columns;
	make_images<Pixel><<<dim3(cuda_blocks(s->pitch, THREADS, 1 << 30),
				     cuda_blocks(s->count * s->rows, 1, 65535)),
		THREADS, 0, stream>>>(*s, what->projections + at,
		s->update.with.rays ? s->update.with.rays + at : NULL, (Pixel *)images);
	s->images = images;
	kernel_of<Pixel>(what->kernel, taps,
		flat)<<<dim3(cuda_blocks(s->n[0], WIDE, 1 << 30), cuda_blocks(s->n[1], HIGH, 65535),
				cuda_blocks(s->n[2], flat ? 1 : COLUMN, 65535)),
		dim3(WIDE, HIGH), 0, stream>>>(*s);
}

static tomos_status run_views(tomos_backend *backend, const ProjectRequest *what, Gather s,
	int64_t first, int64_t count, int taps)
{
	const KernelModel *model = &s.model;
	const CudaPlan *kept;
	cudaStream_t stream = device_of(backend)->stream;
	float *paths, *images;
	int64_t path_floats = count * model->columns * (int64_t)(sizeof(Path) / sizeof(float));
	int64_t pixels = count * s.rows * s.pitch * (s.update.with.average ? 2 : 1);
	TRY(cuda_plan(backend, what->plan, &kept));
	TRY(cuda_scratch(backend, SCRATCH_REORDERED, pixels, &images, "images with a border"));
	TRY(cuda_scratch(backend, SCRATCH_ROWS, path_floats, &paths, "paths of rays"));
	s.views = kept->views + what->first + first;
	s.count = count;
	s.paths = (const Path *)paths;
	make_paths<<<dim3(cuda_blocks(model->columns, THREADS, 1 << 30),
			     cuda_blocks(count, 1, 65535)),
		THREADS, 0, stream>>>(s, (Path *)paths);
	CUDA_LAUNCHED("back projecting"); /* stops if the paths were not computed */
	(s.update.with.average ? launch<float2> : launch<float>)(stream, what, &s, first, images,
		taps);
	CUDA_LAUNCHED("back projecting");
	return TOMOS_OK;
}

static tomos_status gather_run(tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const CudaEpilogue *epilogue)
{
	const Plan *plan = what->plan;
	const Reach *reach = notes_of<Reach>(notes);
	Gather s = {.grid = plan->whole,
		.model = plan->model,
		.reach = (float)reach->reach,
		.pitch = (int)plan->model.columns + 2 * BORDER,
		.rows = (int)plan->model.rows + 2 * BORDER,
		.volume = what->volume};
	memcpy(s.grid.low, what->box.low, sizeof s.grid.low);
	for (int a = 0; a < 3; a++)
		s.n[a] = (int)(what->box.high[a] - what->box.low[a]);
	return update_each<view_floats>(backend, what, epilogue,
		[&](int64_t first, int64_t count, const VoxelUpdate &part) {
			s.update = part;
			return run_views(backend, what, s, first, count, reach->taps);
		});
}

extern const CudaKernel cuda_ray_back_upright;
const CudaKernel cuda_ray_back_upright = {gather_applies, gather_run, update_fuses<view_floats>};
