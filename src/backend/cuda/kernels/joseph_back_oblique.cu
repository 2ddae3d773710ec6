/* Joseph's back projection of parallel rays in any direction: each voxel gathers from the rays that
 * pass within one voxel on both minor axes, so results are reproducible.
 *
 * The rays of a view cross a plane of the dominant axis in a regular lattice. Let (c, r) be the
 * column and row onto which a voxel projects. The ray of pixel (c + dc, r + dr) passes the voxel at
 * distances p[0] dc + p[1] dr along the first minor axis and q[0] dc + q[1] dr along the second
 * (LatticeView), in voxels.
 */
#include "backend/cuda/kernels/oblique.h"
#include "backend/cuda/kernels/update.h"

enum { WIDE = 32, HIGH = 8, VIEWS = 64, BORDER = 3, MOST = 5, THREADS = 128 };

typedef struct {
	double column[4], row[4];
	float p[2], q[2];    /* shift of rays along the minor axes, per column and per row */
	float columns, rows; /* rays that can meet a voxel are at most this far from its
	                      * projection, in pixels */
	float step;
} LatticeView;

typedef struct {
	const LatticeView *views;
	int64_t count;
	int rows, columns, n[3];
	int64_t low[3];
	const void *images; /* [view][row][pitch], with a border of zeros */
	int64_t pitch, image;
	float *volume;
	VoxelUpdate update;
} Lattice;

/* A view relative to the first voxel (corner) of a block: the voxel at (dx, dy) projects to
 * column + cf + cx dx + cy dy and row + rf + rx dx + ry dy; p0 .. q1: p and q of LatticeView. */
typedef struct {
	int column, row;
	float cf, cx, cy, rf, rx, ry, p0, p1, q0, q1, columns, rows, step;
} Near;

template <typename Pixel>
static __global__ void set_border(const __grid_constant__ Lattice s, const float *from,
	const float *rays, Pixel *to, int64_t lines, int high)
{
	int c = blockIdx.x * blockDim.x + threadIdx.x, column = c - BORDER;
	if (c >= s.pitch)
		return;
	for (int64_t line = blockIdx.y; line < lines; line += gridDim.y) {
		int64_t view = line / high, row = line % high - BORDER;
		int64_t at = (view * s.rows + row) * s.columns + column;
		bool inside = column >= 0 && column < s.columns && row >= 0 && row < s.rows;
		Pixel pixel = {};
		if (inside)
			set_pixel(pixel, 1, from + at, rays ? rays + at : NULL);
		to[line * s.pitch + c] = pixel;
	}
}

static __device__ Near near_corner(const LatticeView *v, double x, double y, double z)
{
	double column = v->column[0] * x + v->column[1] * y + v->column[2] * z + v->column[3];
	double row = v->row[0] * x + v->row[1] * y + v->row[2] * z + v->row[3];
	double c = floor(fmax(fmin(column, 1e6), -1e6)), r = floor(fmax(fmin(row, 1e6), -1e6));
	return Near{(int)c, (int)r, (float)(column - c), (float)v->column[0], (float)v->column[1],
		(float)(row - r), (float)v->row[0], (float)v->row[1], v->p[0], v->p[1], v->q[0],
		v->q[1], v->columns, v->rows, v->step};
}

/* Weighted sum over the N x N pixels that start at `at` (column, row of the image with its
 * border). The ray of the first pixel passes the voxel at (p, q). CHECKED: some pixels may be
 * outside the image. */
template <int N, bool CHECKED, typename Pixel>
static __device__ __forceinline__ Pixel sum_pixels(const Near *v, const Pixel *at, int64_t pitch,
	float p, float q, int column, int row, int high)
{
	Pixel sum = {};
#pragma unroll
	for (int j = 0; j < N; j++, p += v->p1, q += v->q1, at += pitch)
#pragma unroll
		for (int i = 0; i < N; i++) {
			if (CHECKED && ((unsigned)(column + i) >= (unsigned)pitch ||
					       (unsigned)(row + j) >= (unsigned)high))
				continue;
			float across = __saturatef(1 - fabsf(fmaf((float)i, v->p0, p)));
			float along = __saturatef(1 - fabsf(fmaf((float)i, v->q0, q)));
			accumulate(sum, across * along, __ldg(at + i));
		}
	return sum;
}

/* Adds one view to the voxel at (dx, dy) of the block: the N x N pixels whose rays may pass
 * within one voxel. */
template <int N, typename Pixel>
static __device__ __forceinline__ void visit(
	const Lattice *s, const Near *near, const Pixel *image, float dx, float dy, Pixel &sum)
{
	const Near v = *near;
	float c = fmaf(v.cx, dx, fmaf(v.cy, dy, v.cf)), r = fmaf(v.rx, dx, fmaf(v.ry, dy, v.rf));
	float c0 = ceilf(c - v.columns), r0 = ceilf(r - v.rows), dc = c0 - c, dr = r0 - r;
	int column = v.column + (int)c0 + BORDER, row = v.row + (int)r0 + BORDER;
	const int pitch = (int)s->pitch, high = s->rows + 2 * BORDER;
	if (column <= -N || row <= -N || column >= pitch || row >= high)
		return;
	const Pixel *at = image + (int64_t)row * pitch + column;
	float p = fmaf(v.p0, dc, v.p1 * dr), q = fmaf(v.q0, dc, v.q1 * dr);
	bool whole = column >= 0 && row >= 0 && column + N <= pitch && row + N <= high;
	accumulate(sum, v.step,
		whole ? sum_pixels<N, false>(&v, at, pitch, p, q, column, row, high)
		      : sum_pixels<N, true>(&v, at, pitch, p, q, column, row, high));
}

template <int N, typename Pixel>
static __global__ void __launch_bounds__(WIDE *HIGH) lattice_back(const __grid_constant__ Lattice s)
{
	__shared__ Near near[VIEWS];
	const int x0 = blockIdx.x * WIDE, y0 = blockIdx.y * HIGH, z = blockIdx.z;
	const int x = x0 + threadIdx.x, y = y0 + threadIdx.y;
	Pixel sum = {};
	for (int64_t first = 0; first < s.count; first += VIEWS) {
		int views = (int)min((int64_t)VIEWS, s.count - first);
		__syncthreads();
		for (int i = threadIdx.y * WIDE + threadIdx.x; i < views; i += WIDE * HIGH)
			near[i] = near_corner(&s.views[first + i], (double)(s.low[0] + x0),
				(double)(s.low[1] + y0), (double)(s.low[2] + z));
		__syncthreads();
		for (int i = 0; i < views; i++)
			visit<N>(&s, &near[i], (const Pixel *)s.images + (first + i) * s.image,
				(float)threadIdx.x, (float)threadIdx.y, sum);
	}
	float *voxel = s.volume + ((int64_t)z * s.n[1] + y) * s.n[0] + x;
	if (x < s.n[0] && y < s.n[1])
		update_voxels<1, 1>(s.update, voxel, 0, 1, [&](int) { return sum; });
}

/* ---- a whole request ------------------------------------------------------------------------- */

static bool lattice_view(const Plan *plan, const KernelView *k, LatticeView *view)
{
	ObliqueView rays;
	if (!oblique_view(plan, k, &rays))
		return false;
	double p0 = rays.column[0], q0 = rays.column[1], p1 = rays.row[0], q1 = rays.row[1];
	double det = fabs(p0 * q1 - p1 * q0);
	memcpy(view->column, k->column, sizeof view->column);
	memcpy(view->row, k->row, sizeof view->row);
	view->p[0] = (float)p0;
	view->p[1] = (float)p1;
	view->q[0] = (float)q0;
	view->q[1] = (float)q1;
	view->columns = (float)((fabs(q1) + fabs(p1)) / det);
	view->rows = (float)((fabs(q0) + fabs(p0)) / det);
	view->step = (float)rays.step;
	return true;
}

/* N (see visit) for the view that needs most pixels; 0 where this kernel does not apply. */
static int lattice_size(const ProjectRequest *what)
{
	const KernelModel *model = &what->plan->model;
	double most = 0;
	if (what->plan->rays.source != TOMOS_PARALLEL || model->clamp || model->planar ||
		what->box.high[2] - what->box.low[2] > 65535)
		return 0;
	for (int64_t i = 0; i < what->count; i++) {
		LatticeView view;
		if (!lattice_view(what->plan, &what->plan->views[what->first + i], &view))
			return 0;
		most = fmax(most, fmax(view.columns, view.rows));
	}
	int size = (int)floor(2 * most * (1 - 1e-6)) + 1;
	return size > MOST ? 0 : size < 3 ? 3 : size;
}

static bool lattice_applies(const ProjectRequest *what, CudaNotes *notes)
{
	int *size = notes_of<int>(notes);
	*size = lattice_size(what);
	return *size > 0;
}

static void make_view(const Plan *plan, int64_t view, const void *user, void *place)
{
	(void)user;
	lattice_view(plan, &plan->views[view], (LatticeView *)place);
}

/* Floats of scratch memory per view; pairs: each pixel is a float2 of value and weight. */
static int64_t view_floats(const KernelModel *model, bool pairs)
{
	int64_t pixels = (model->columns + 2 * BORDER) * (model->rows + 2 * BORDER);
	return pixels * (pairs ? 2 : 1);
}

template <typename Pixel>
static void launch(cudaStream_t stream, const ProjectRequest *what, Lattice *s, int64_t first,
	float *images, int size)
{
	typedef void (*LatticeKernel)(const Lattice s);
	static const LatticeKernel kernels[] = {
		lattice_back<3, Pixel>, lattice_back<4, Pixel>, lattice_back<5, Pixel>};
	const float *rays = s->update.with.rays;
	int64_t at = first * s->rows * s->columns;
	int high = s->rows + 2 * BORDER;
	set_border<Pixel><<<dim3(cuda_blocks(s->pitch, THREADS, 1 << 30),
				    cuda_blocks(s->count * high, 1, 65535)),
		THREADS, 0, stream>>>(*s, what->projections + at, rays ? rays + at : NULL,
		(Pixel *)images, s->count * high, high);
	s->images = images;
	kernels[size - 3]<<<dim3(cuda_blocks(s->n[0], WIDE, 1 << 30),
				    cuda_blocks(s->n[1], HIGH, 65535), (unsigned)s->n[2]),
		dim3(WIDE, HIGH), 0, stream>>>(*s);
}

static tomos_status run_views(tomos_backend *backend, const ProjectRequest *what, Lattice s,
	int64_t first, int64_t count, int size)
{
	const bool pairs = s.update.with.average;
	float *images;
	const void *views;
	TRY(cuda_scratch(backend, SCRATCH_REORDERED, count * s.image * (pairs ? 2 : 1), &images,
		"images with a border"));
	TRY(cuda_kept(
		backend, what->plan, KEPT_LATTICE, sizeof(LatticeView), make_view, NULL, &views));
	s.views = (const LatticeView *)views + what->first + first;
	s.count = count;
	(pairs ? launch<float2> : launch<float>)(device_of(backend)->stream, what, &s, first,
		images, size);
	CUDA_LAUNCHED("back projecting");
	return TOMOS_OK;
}

static tomos_status lattice_run(tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const CudaEpilogue *epilogue)
{
	const KernelModel *model = &what->plan->model;
	Lattice s = {
		.rows = (int)model->rows, .columns = (int)model->columns, .volume = what->volume};
	for (int a = 0; a < 3; a++) {
		s.low[a] = what->box.low[a];
		s.n[a] = (int)(what->box.high[a] - what->box.low[a]);
	}
	s.pitch = s.columns + 2 * BORDER;
	s.image = s.pitch * (s.rows + 2 * BORDER);
	return update_each<view_floats>(backend, what, epilogue,
		[&](int64_t first, int64_t count, const VoxelUpdate &part) {
			s.update = part;
			return run_views(backend, what, s, first, count, *notes_of<int>(notes));
		});
}

extern const CudaKernel cuda_joseph_back_oblique;
const CudaKernel cuda_joseph_back_oblique = {
	lattice_applies, lattice_run, update_fuses<view_floats>};
