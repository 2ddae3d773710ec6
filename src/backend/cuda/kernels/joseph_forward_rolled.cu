/* Joseph's forward projection of parallel rays in planes of constant z, detector rolled: the ray of
 * pixel (row, column) is at height z = z0 + zc column + zr row, and in a slice at a position
 * that is affine in row and column as well.
 *
 * Joseph's weights are products of those within a slice and those along z. A thread has one column
 * and eight slices (rolled.h). Each slice is met by the rays of the few rows within one slice of
 * it, which are pr pixels apart. As a function of the position of the ray, the sum over a slice is
 * linear but for kinks where a ray passes the centre of a pixel: the thread follows one ray, whose
 * sums and their derivatives give those of all rows and of its eight slices, and adds kinks in the
 * few planes where a pixel lies between the rays. A second kernel interpolates along z.
 */
#include "backend/cuda/kernels/joseph_forward_rolled.h"

enum {
	LEAST_SLICES = 8,
	MOST_SLOTS = 9, /* in all passes */
	HIGH = 8
};

/* Rows and slices within this distance of one slice have no weight. */
#define ROLLED_EDGE 1e-7

typedef struct {
	int slots; /* most rows that meet a slice */
} Notes;

typedef struct {
	KernelGrid grid;
	const KernelView *views;
	int64_t count, columns, rows;
	RolledVolume volume;
	int slot;     /* first slot of this pass */
	float4 *sums; /* [slot of the pass][view][column][quad] */
	float *to;
} Rolled;

/* The first row whose ray is less than one slice from `slice` in a column. */
static __device__ double first_row(const KernelView *k, double slice, double column)
{
	const double middle = (slice - k->first[2] - column * k->u[2]) / k->v[2];
	return floor(middle - (1 - ROLLED_EDGE) / fabs(k->v[2])) + 1;
}

/* ---- within the slices ----------------------------------------------------------------------- */

/* Rays of a column: in plane 0 of the box, that of row 0 is at p, others pr per row away. */
typedef struct {
	double p, pr, slope;
	float weight;
	bool along; /* planes are across b */
} Course;

static __device__ Course course_of(const Rolled &s, const KernelView *k, double column)
{
	double d[2] = {k->src[0], k->src[1]};
	const double largest = fmax(fabs(d[0]), fabs(d[1]));
	d[0] = fabs(d[0]) < 1e-12 * largest ? 0 : d[0];
	d[1] = fabs(d[1]) < 1e-12 * largest ? 0 : d[1];
	const int a = fabs(d[0]) >= fabs(d[1]) ? 0 : 1, b = 1 - a;
	const double slope = d[b] / d[a], low_a = (double)(a ? s.volume.low_b : s.volume.low_a),
		     low_b = (double)(a ? s.volume.low_a : s.volume.low_b);
	const double start_a = k->first[a] + column * k->u[a] - low_a,
		     start_b = k->first[b] + column * k->u[b] - low_b;
	return Course{start_b - start_a * slope, k->v[b] - k->v[a] * slope, slope,
		(float)(hypot(d[0] * s.grid.step[0], d[1] * s.grid.step[1]) / largest), a == 1};
}

/* offset[slice][i]: how far the ray of the i-th row that meets a slice is from the one at p, the
 * lowest of all. Returns for how many i some slice has a row on the detector. */
static __device__ int find_offsets(const Rolled &s, const KernelView *k, const Course &course,
	int64_t slice, int64_t column, float offset[SLICES][SLOTS], double *p)
{
	double row[SLICES], low = 1e300;
	int slots = 0;
	for (int j = 0; j < SLICES; j++) {
		const double z = (double)(slice + j);
		row[j] = first_row(k, z, (double)column) + s.slot;
		for (int w = 0; w < SLOTS; w++) {
			const double r = row[j] + w;
			const double height = k->first[2] + (double)column * k->u[2] + r * k->v[2];
			low = fmin(low, course.pr * r);
			if (r >= 0 && r < (double)s.rows && fabs(height - z) < 1)
				slots = max(slots, w + 1);
		}
	}
	for (int j = 0; j < SLICES; j++)
		for (int w = 0; w < SLOTS; w++)
			offset[j][w] = (float)(course.pr * (row[j] + w) - low);
	*p = course.p + low;
	return slots;
}

static __device__ int most_of_warp(int value)
{
	for (int apart = TILE / 2; apart > 0; apart /= 2)
		value = max(value, __shfl_xor_sync(~0u, value, apart));
	return value;
}

/* Largest offset of the first slots. */
static __device__ float most_of(const float offset[SLICES][SLOTS], int slots)
{
	float most = 0;
	for (int j = 0; j < SLICES; j++)
		for (int w = 0; w < SLOTS; w++)
			most = fmaxf(most, w < slots ? offset[j][w] : 0.f);
	return most;
}

static __global__ void __launch_bounds__(TILE *GROUP *ROWS, 2)
	column_slices(const __grid_constant__ Rolled s)
{
	__shared__ Steps steps[GROUP];
	__shared__ Kinks kinks[GROUP];
	const RolledThread t = rolled_thread();
	const int64_t column = t.line, view = t.view;
	const bool inside = column < s.columns && view < s.count;
	const KernelView *k = &s.views[view < s.count ? view : 0];
	const Course course = course_of(s, k, (double)column);
	const int planes = course.along ? s.volume.nb : s.volume.na;
	float offset[SLICES][SLOTS], sums[SLOTS][SLICES];
	double p;
	int slots =
		find_offsets(s, k, course, s.volume.low + blockIdx.z * SLICES, column, offset, &p);
	slots = most_of_warp(inside ? slots : 0);
	find_kinks(course.slope, planes, most_of(offset, slots), steps, kinks);
	if (!inside || slots == 0)
		return;
	const Lines lines = rolled_lines(s.volume, blockIdx.z, course.along);
	if (slots < SLOTS)
		follow<SLOTS - 1>(
			lines, kinks[threadIdx.y % GROUP], p, course.slope, planes, offset, sums);
	else
		follow<SLOTS>(
			lines, kinks[threadIdx.y % GROUP], p, course.slope, planes, offset, sums);
	const float m = course.weight;
#pragma unroll
	for (int w = 0; w < SLOTS; w++)
#pragma unroll
		for (int h = 0; h < SLICES; h += QUAD)
			if (w < slots)
				s.sums[((w * s.count + view) * s.columns + column) *
						s.volume.eights * 2 +
					blockIdx.z * 2 + h / QUAD] = make_float4(m * sums[w][h],
					m * sums[w][h + 1], m * sums[w][h + 2], m * sums[w][h + 3]);
}

/* ---- along z --------------------------------------------------------------------------------- */

/* Adds to each pixel the two slices around its ray, if their sums are in this pass. */
static __global__ void __launch_bounds__(TILE *HIGH) rolled_rows(const __grid_constant__ Rolled s)
{
	const int64_t column = (int64_t)blockIdx.x * TILE + threadIdx.x,
		      row = (int64_t)blockIdx.y * HIGH + threadIdx.y;
	if (column >= s.columns || row >= s.rows)
		return;
	for (int64_t view = blockIdx.z; view < s.count; view += gridDim.z) {
		const KernelView *k = &s.views[view];
		const double z = k->first[2] + (double)column * k->u[2] + (double)row * k->v[2];
		const double n0 = floor(z) - (double)s.volume.low;
		if (n0 < -1 || n0 >= (double)s.volume.slices)
			continue;
		float sum = 0;
		for (int i = 0; i < 2; i++) {
			const double slice = floor(z) + i, weight = 1 - fabs(z - slice);
			const double w = (double)row - first_row(k, slice, (double)column) - s.slot;
			const double n = slice - (double)s.volume.low;
			if (!(weight > 0 && n >= 0 && n < (double)s.volume.slices && w >= 0 &&
				    w < SLOTS))
				continue;
			const float *from =
				(const float *)(s.sums +
						(((int)w * s.count + view) * s.columns + column) *
							s.volume.eights * 2) +
				(int)n;
			sum = fmaf((float)weight, __ldg(from), sum);
		}
		s.to[(view * s.rows + row) * s.columns + column] += sum;
	}
}

/* ---- a whole request ------------------------------------------------------------------------- */

/* Whether the rays of a view stay in planes of constant z, and those of eight slices in a pixel. */
static bool view_applies(const ProjectRequest *what, const KernelView *k, Notes *n)
{
	const double x = fabs(k->src[0]), y = fabs(k->src[1]), most = fmax(x, y);
	const int a = x >= y ? 0 : 1, b = 1 - a;
	const double way = (double)(what->plan->grid.n[0] + what->plan->grid.n[1]) +
			   fabs(k->first[0]) + fabs(k->first[1]);
	if (!(fabs(k->src[2]) * way <= RAY_TOLERANCE * most) || !(fabs(k->v[2]) > 1e-3))
		return false;
	const double pr = fabs(k->v[b] - k->v[a] * k->src[b] / k->src[a]);
	/* The rows of eight slices, of which each has SLOTS from its first one on. */
	const double rows = (double)(SLICES - 1) / fabs(k->v[2]) + (double)SLOTS;
	const int slots = (int)ceil(2 / fabs(k->v[2]));
	n->slots = n->slots > slots ? n->slots : slots;
	/* With rays further apart, kinks take longer than the rays. */
	return pr * rows <= 0.7 && n->slots <= MOST_SLOTS;
}

static bool rolled_applies(const ProjectRequest *what, CudaNotes *notes)
{
	const Plan *plan = what->plan;
	Notes *n = notes_of<Notes>(notes);
	*n = Notes{.slots = 1};
	if (plan->model.clamp || plan->model.nearest || plan->model.planar ||
		plan->rays.source != TOMOS_PARALLEL || plan->model.rows < LEAST_SLICES ||
		what->box.high[2] - what->box.low[2] < LEAST_SLICES)
		return false;
	for (int64_t i = 0; i < what->count; i++)
		if (!view_applies(what, &plan->views[what->first + i], n))
			return false;
	return true;
}

static tomos_status run_pass(tomos_backend *backend, const Rolled *s)
{
	cudaStream_t stream = device_of(backend)->stream;
	column_slices<<<rolled_blocks(s->columns, s->count, s->volume.eights),
		dim3(TILE, GROUP * ROWS), 0, stream>>>(*s);
	CUDA_LAUNCHED("projecting slices");
	rolled_rows<<<dim3(cuda_blocks(s->columns, TILE, 1 << 30),
			      cuda_blocks(s->rows, HIGH, 65535), cuda_blocks(s->count, 1, 65535)),
		dim3(TILE, HIGH), 0, stream>>>(*s);
	CUDA_LAUNCHED("interpolating between slices");
	return TOMOS_OK;
}

static tomos_status run_slices(tomos_backend *backend, const Notes *n, Rolled s)
{
	const int64_t view = SLOTS * s.columns * s.volume.eights * SLICES, all = s.count;
	const int64_t views = rolled_views(backend, view, all);
	float *sums;
	TRY(cuda_scratch(backend, SCRATCH_ROWS, views * view, &sums, "rows of slices"));
	s.sums = (float4 *)sums;
	for (int64_t first = 0; first < all; first += views) {
		Rolled part = s;
		part.views += first;
		part.count = min64(views, all - first);
		part.to += first * s.rows * s.columns;
		for (part.slot = 0; part.slot < n->slots; part.slot += SLOTS)
			TRY(run_pass(backend, &part));
	}
	return TOMOS_OK;
}

static tomos_status rolled_run(tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const CudaEpilogue *)
{
	const Plan *plan = what->plan;
	const CudaPlan *kept;
	TRY(cuda_plan(backend, plan, &kept));
	const int64_t most = rolled_slices(backend, what), high = what->box.high[2];
	Rolled s = {.grid = plan->whole,
		.views = kept->views + what->first,
		.count = what->count,
		.columns = plan->model.columns,
		.rows = plan->model.rows,
		.to = what->projections};
	for (int64_t low = what->box.low[2]; low < high; low += most) {
		TRY(rolled_volume(backend, what, low, min64(most, high - low), &s.volume));
		TRY(run_slices(backend, notes_of<Notes>(notes), s));
	}
	return TOMOS_OK;
}

extern const CudaKernel cuda_joseph_forward_rolled;
const CudaKernel cuda_joseph_forward_rolled = {rolled_applies, rolled_run};
