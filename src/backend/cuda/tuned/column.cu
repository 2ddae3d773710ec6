/* Voxel-driven back projection where columns of voxels along z fall on one detector column: circular cone
 * beam, stacks of fans and parallel beam, with any angles, offsets and distances.
 *
 * One thread holds COLUMN voxels along z in registers and visits all views. Their detector column is the
 * same, so each detector row is interpolated across columns once and then serves the voxels on both sides
 * of it: about two loads for an update instead of four, and the arithmetic is that of the shared text in
 * float. Okitsu et al. 2010 keep several views in registers; here it is the rows of one view.
 */
#include "backend/cuda/cuda.h"

enum { WIDE = 32, HIGH = 4, COLUMN = 16, VIEWS = 64, BORDER = 2 };

/* Columns of one voxel, where all is in one slice, or of COLUMN.
 * RAYS: weights along the ray of a point source, which differ from voxel to voxel.
 * SLICES: fans of which each lies in a slice, so that voxel k is on row k from the first one's. */

typedef struct {
	const KernelView *views;
	int64_t count;
	KernelModel model;
	int64_t low[3];
	double step[3];
	int n[3];
	const float *images; /* with a border of zeros */
	int64_t pitch, image;
	float *volume;
} Columns;

/* A view seen from the corner of a block of voxels: column = (uf + u . d) / D + u0, likewise row, with
 * D = depth + depth . d. */
typedef struct {
	int u0, v0;
	float uf, ua, ub, vf, va, vb, vc, df, da, db;
	float weight;
	bool fans;    /* the row is not divided by D, and rays stay level */
	float src[3]; /* from the corner, in units; for weights along the ray */
} Near;

/* ---- the border --------------------------------------------------------------------------- */

static __global__ void frame_images(
	const float *from, float *to, int rows, int columns, int64_t pitch, int64_t image)
{
	int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y;
	int64_t view = blockIdx.z;
	if (c >= pitch)
		return;
	int column = c - BORDER, row = r - BORDER;
	bool inside = column >= 0 && column < columns && row >= 0 && row < rows;
	to[view * image + r * pitch + c] =
		inside ? from[(view * rows + row) * columns + column] : 0;
}

/* ---- back --------------------------------------------------------------------------------- */

static __device__ double affine(const double f[4], const double at[3])
{
	return f[0] * at[0] + f[1] * at[1] + f[2] * at[2] + f[3];
}

static __device__ Near near_corner(const Columns *s, const KernelView *k, const double at[3])
{
	double depth = affine(k->depth, at), u = affine(k->column, at), v = affine(k->row, at);
	bool planar = s->model.planar; /* there are no rows to tell apart */
	v = planar ? 0 : v;
	double u0 = fmax(fmin(floor(u / depth), 1e6), -1e6);
	bool fans = KERNEL_FANS(k);
	double lower = fans ? 1 : depth, bend = fans ? 0 : 1;
	/* Rows of slices are whole numbers but for rounding. */
	double v0 = fmax(fmin(floor(v / lower + (fans ? 1e-5 : 0)), 1e6), -1e6);
	Near near = {.u0 = (int)u0,
		.v0 = (int)v0,
		.uf = (float)(u - u0 * depth),
		.ua = (float)(k->column[0] - u0 * k->depth[0]),
		.ub = (float)(k->column[1] - u0 * k->depth[1]),
		.vf = (float)(v - v0 * lower),
		.va = planar ? 0 : (float)(k->row[0] - bend * v0 * k->depth[0]),
		.vb = planar ? 0 : (float)(k->row[1] - bend * v0 * k->depth[1]),
		.vc = planar ? 0 : (float)k->row[2],
		.df = (float)depth,
		.da = (float)k->depth[0],
		.db = (float)k->depth[1],
		.weight = s->model.weight == WEIGHT_RAY ? (float)k->mass : 1,
		.fans = fans};
	for (int a = 0; a < 3; a++)
		near.src[a] = (float)((at[a] - k->src[a]) * s->step[a]);
	return near;
}

/* Rows `row` and on of one detector column, interpolated across it. */
static __device__ __forceinline__ float mix(const float *at, float right)
{
	float one = __ldg(at), two = __ldg(at + 1);
	return fmaf(right, two - one, one);
}

/* One detector column, the same share of each row, for one slice each. */
template <int N>
static __device__ __forceinline__ void visit_slices(const Columns *s, const float *column, int row,
	int sign, float right, float weight, float sum[N])
{
	int last = row + sign * (N - 1), rows = (int)s->model.rows;
	if (min(row, last) >= 0 && max(row, last) < rows) {
		const float *line = column + row * s->pitch;
#pragma unroll
		for (int k = 0; k < N; k++, line += sign * s->pitch)
			sum[k] = fmaf(weight, mix(line, right), sum[k]);
		return;
	}
#pragma unroll
	for (int k = 0; k < N; k++) {
		int r = row + k * sign;
		if (r >= 0 && r < rows)
			sum[k] = fmaf(weight, mix(column + r * s->pitch, right), sum[k]);
	}
}

template <bool RAYS, bool SLICES, int N>
static __device__ __forceinline__ void visit(
	const Columns *s, const Near *near, const float *image, float dx, float dy, float sum[N])
{
	const Near v = *near;
	float depth = fmaf(v.da, dx, fmaf(v.db, dy, v.df));
	if (!(depth > 0))
		return;
	float rate = __frcp_rn(depth);
	float u = fmaf(v.ua, dx, fmaf(v.ub, dy, v.uf)) * rate;
	/* Beyond the border of zeros all is as on it. */
	u = fminf(fmaxf(u, (float)(-BORDER - v.u0)), (float)(s->model.columns - v.u0));
	float left = floorf(u), right = u - left;
	float lower = v.fans ? 1 : rate; /* of rows */
	float row = fmaf(v.va, dx, fmaf(v.vb, dy, v.vf)) * lower, climb = v.vc * lower;
	const float *column = image + (v.u0 + (int)left + BORDER) + (v.v0 + BORDER) * s->pitch;
	float lowest = (float)(-BORDER - v.v0), highest = (float)(s->model.rows - v.v0);
	float weight = v.weight, square = 0, rise = 0;
	if (RAYS) {
		float x = fmaf(dx, (float)s->step[0], v.src[0]),
		      y = fmaf(dy, (float)s->step[1], v.src[1]);
		square = fmaf(x, x, y * y);
		rise = v.src[2];
		weight *= rate * rate * (s->model.planar ? 1 : lower);
	} else if (s->model.weight == WEIGHT_DEPTH) {
		weight = rate * rate;
	}
	if (SLICES) {
		visit_slices<N>(s, image + (v.u0 + (int)left + BORDER) + BORDER * s->pitch, v.v0,
			v.vc > 0 ? 1 : -1, right, RAYS ? weight * sqrtf(square) : weight, sum);
		return;
	}
	int held = -(1 << 30);
	float low = 0, high = 0;
#pragma unroll
	for (int k = 0; k < N; k++) {
		float at = fminf(fmaxf(fmaf((float)k, climb, row), lowest), highest);
		float below = floorf(at), up = at - below;
		int r = (int)below;
		if (r != held) {
			const float *line = column + r * s->pitch;
			low = r == held + 1 ? high : mix(line, right);
			high = mix(line + s->pitch, right);
			held = r;
		}
		float value = fmaf(up, high - low, low), w = weight;
		if (RAYS) {
			float z = v.fans ? 0 : fmaf((float)k, (float)s->step[2], rise);
			w *= sqrtf(fmaf(z, z, square));
		}
		sum[k] = fmaf(w, value, sum[k]);
	}
}

template <bool RAYS, bool SLICES, int N>
static __global__ void __launch_bounds__(WIDE *HIGH) column_back(const __grid_constant__ Columns s)
{
	__shared__ Near near[VIEWS];
	const int x0 = blockIdx.x * WIDE, y0 = blockIdx.y * HIGH, z0 = blockIdx.z * N;
	const int x = x0 + threadIdx.x, y = y0 + threadIdx.y;
	const double corner[3] = {
		(double)(s.low[0] + x0), (double)(s.low[1] + y0), (double)(s.low[2] + z0)};
	float sum[N] = {0};
	for (int64_t first = 0; first < s.count; first += VIEWS) {
		int views = (int)min((int64_t)VIEWS, s.count - first);
		__syncthreads();
		for (int i = threadIdx.y * WIDE + threadIdx.x; i < views; i += WIDE * HIGH)
			near[i] = near_corner(&s, &s.views[first + i], corner);
		__syncthreads();
		for (int i = 0; i < views; i++)
			visit<RAYS, SLICES, N>(&s, &near[i], s.images + (first + i) * s.image,
				(float)threadIdx.x, (float)threadIdx.y, sum);
	}
	if (x >= s.n[0] || y >= s.n[1])
		return;
	float *to = s.volume + ((int64_t)z0 * s.n[1] + y) * s.n[0] + x;
#pragma unroll
	for (int k = 0; k < N; k++, to += (int64_t)s.n[0] * s.n[1])
		if (z0 + k < s.n[2])
			*to += sum[k];
}

/* ---- a whole request ---------------------------------------------------------------------- */

/* Whether every slice falls on a row of its own in each view, and no voxel between rows. */
static bool lies_in_slices(const Plan *plan, const KernelView *k)
{
	const int64_t *n = plan->grid.n;
	double drift = (fabs(k->row[2]) - 1) * (double)n[2];
	double tilt = fabs(k->row[0]) * (double)n[0] + fabs(k->row[1]) * (double)n[1];
	return KERNEL_FANS(k) && tilt < 1e-6 && fabs(k->row[3] - rint(k->row[3])) < 1e-6 &&
	       fabs(drift) < 1e-6;
}

static bool column_applies(const Projecting *what, CudaNotes *notes)
{
	bool *in_slices = notes_of<bool>(notes);
	const Plan *plan = what->plan;
	*in_slices = !plan->model.planar;
	if (plan->model.clamp || plan->model.nearest)
		return false;
	for (int64_t i = 0; i < what->count; i++) {
		const KernelView *k = &plan->views[what->first + i];
		*in_slices = *in_slices && lies_in_slices(plan, k);
		double scale = fabs(k->column[0]) + fabs(k->column[1]);
		double height = (double)plan->grid.n[2];
		if ((k->src[3] != 0) != (plan->views[what->first].src[3] != 0))
			return false;
		if (KERNEL_FANS(k) && fabs(k->row[0]) + fabs(k->row[1]) > 1e-9)
			return false; /* the source would lie elsewhere for each voxel */
		if (!plan->model.planar &&
			(fabs(k->column[2]) * height > 1e-7 * scale ||
				fabs(k->depth[2]) * height > 1e-9 * fabs(k->depth[3])))
			return false;
	}
	return true;
}

static tomos_status run_views(tomos_backend *backend, const Projecting *what, Columns *s,
	int64_t first, int64_t count, bool in_slices)
{
	const KernelModel *model = &s->model;
	cudaStream_t stream = device_of(backend)->stream;
	float *framed;
	TRY(cuda_scratch(backend, 0, count * s->image, &framed, "images with a border"));
	for (int64_t i = 0; i < count; i += 65535)
		frame_images<<<dim3(cuda_blocks(s->pitch, 128, 1 << 30),
				       (unsigned)(model->rows + 2 * BORDER),
				       (unsigned)min64(65535, count - i)),
			128, 0, stream>>>(
			what->projections + (first + i) * model->rows * model->columns,
			framed + i * s->image, (int)model->rows, (int)model->columns, s->pitch,
			s->image);
	const CudaPlan *kept;
	TRY(cuda_plan(backend, what->plan, &kept));
	s->views = kept->views + what->first + first;
	s->count = count;
	s->images = framed;
	bool rays = model->weight == WEIGHT_RAY && what->plan->views[what->first].src[3] != 0;
	bool flat = s->n[2] == 1;
	dim3 blocks(cuda_blocks(s->n[0], WIDE, 1 << 30), cuda_blocks(s->n[1], HIGH, 65535),
		cuda_blocks(s->n[2], flat ? 1 : COLUMN, 65535));
	typedef void (*ColumnKernel)(const Columns s);
	static const ColumnKernel kernels[2][2] = {
		{column_back<false, false, COLUMN>, column_back<true, false, COLUMN>},
		{column_back<false, false, 1>, column_back<true, false, 1>}};
	static const ColumnKernel slices[2] = {
		column_back<false, true, COLUMN>, column_back<true, true, COLUMN>};
	ColumnKernel kernel = in_slices && !flat ? slices[rays] : kernels[flat][rays];
	kernel<<<blocks, dim3(WIDE, HIGH), 0, stream>>>(*s);
	CUDA_LAUNCHED("back projecting");
	return TOMOS_OK;
}

static tomos_status column_run(
	tomos_backend *backend, const Projecting *what, const CudaNotes *notes)
{
	const Plan *plan = what->plan;
	Columns s = {.model = plan->model, .volume = what->volume};
	for (int a = 0; a < 3; a++) {
		s.low[a] = what->box.low[a];
		s.n[a] = (int)(what->box.high[a] - what->box.low[a]);
		s.step[a] = plan->whole.step[a];
	}
	s.pitch = (plan->model.columns + 2 * BORDER + 3) / 4 * 4;
	s.image = s.pitch * (plan->model.rows + 2 * BORDER);
	int64_t chunk = max64(1, min64(device_of(backend)->scratch_most / s.image, what->count));
	for (int64_t at = 0; at < what->count; at += chunk)
		TRY(run_views(backend, what, &s, at, min64(chunk, what->count - at),
			*notes_of<bool>(notes)));
	return TOMOS_OK;
}

extern const CudaTuned column_kernels[1];
const CudaTuned column_kernels[1] = {{"column", KERNEL_voxel, ADJOINT, column_applies, column_run}};
