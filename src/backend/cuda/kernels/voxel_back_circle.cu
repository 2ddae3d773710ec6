/* Voxel-driven back projection on full circles with views in sets that are 90 or 180 degrees apart,
 * or of four views that are mirror images (mirror_images.h).
 *
 * Rotating a voxel and a view by the same angle about the rotation axis leaves detector position
 * and weight unchanged. So for views that are rotations of each other, one position and one weight
 * serve the voxel and its rotated images: two or four updates, whose pixels are stored side by
 * side. A thread has columns of voxels in one half or quarter of the volume and their rotated
 * images; the rest is as in voxel_back_cone.cu.
 *
 * The view list is divided into parts of 180 or 90 degrees. Image i contains view i of every part,
 * interleaved. For the view of part m, the voxel rotated k times reads element m + k of a pixel,
 * modulo the number of parts. A block therefore visits the images once per m, and rotates its
 * accumulators by one place after each pass. Of mirror images there are as many as views, and a
 * block visits them once.
 */
#include "backend/cuda/kernels/mirror_images.h"
#include "backend/cuda/kernels/voxel_back_cone.h"

/* A pixel of a view and of the views that are rotated by multiples of 180 or 90 degrees,
 * interleaved. */
typedef float2 Pair;
typedef float4 Quad;

template <class Pixel> constexpr int PARTS = (int)(sizeof(Pixel) / sizeof(float));
template <class Pixel> constexpr int SUMS = PARTS<Pixel> *COLUMN;
template <class Pixel> constexpr int BLOCKS = PARTS<Pixel> == 2 ? 3 : 2; /* per SM */

/* ---- images ---------------------------------------------------------------------------------- */

typedef struct {
	const float *from; /* the first view; of mirror images: of all views */
	int64_t apart;     /* pixels from one part's first view to the next part's */
	const MirrorView *mirrored;
	int rows, columns;
} Views;

/* Pixel `at` of view k of a set. */
template <bool MIRRORED>
static __device__ __forceinline__ float pixel_of(
	const Views &v, const float *at, int64_t view, int64_t row, int column, int k)
{
	if (!MIRRORED)
		return at[k * v.apart];
	const int seen = v.mirrored[view].view[k];
	return v.from[(int64_t)(seen & MIRROR_BITS) * v.rows * v.columns +
		      mirrored_pixel(seen, v.rows, v.columns, (int)row, column)];
}

template <class Pixel, bool MIRRORED>
static __global__ void make_images(const __grid_constant__ Tiles s, const __grid_constant__ Views v)
{
	int c = blockIdx.x * blockDim.x + threadIdx.x, column = c - BORDER;
	if (c >= s.pitch)
		return;
	for (int64_t line = blockIdx.y; line < s.count * s.lines; line += gridDim.y) {
		int64_t view = line / s.lines, row = line % s.lines - BORDER;
		const float *from = v.from + (view * v.rows + row) * v.columns + column;
		bool inside = row >= 0 && row < v.rows && column >= 0 && column < v.columns;
		Pixel pixel;
#pragma unroll
		for (int k = 0; k < PARTS<Pixel>; k++)
			((float *)&pixel)[k] =
				inside ? pixel_of<MIRRORED>(v, from, view, row, column, k) : 0;
		((Pixel *)s.images)[line * s.pitch + c] = pixel;
	}
}

/* ---- back ------------------------------------------------------------------------------------ */

/* Weights of the columns left and right of a voxel. */
typedef struct {
	float left, right;
} Mix;

template <class Pixel>
static __device__ __forceinline__ void mix(const Pixel *at, Mix m, float q[PARTS<Pixel>])
{
	const Pixel left = at[0], right = at[1];
#pragma unroll
	for (int k = 0; k < PARTS<Pixel>; k++)
		q[k] = fmaf(
			m.right, ((const float *)&right)[k], m.left * ((const float *)&left)[k]);
}

/* Weights of rows k .. k + S for voxel k of a span; see the formula in points.h. */
template <int S>
static __device__ __forceinline__ void shares_of(
	float more, float t0, int k, float weight, float share[S + 1])
{
	float rest = weight;
#pragma unroll
	for (int i = 0; i < S; i++) {
		float next = weight * fma_saturate((float)k, more, t0 - (float)i);
		share[i] = rest - next;
		rest = next;
	}
	share[S] = rest;
}

/* Without RAYS, the weight is common to all voxels and applied to the interpolated columns. */
template <bool RAYS>
static __device__ __forceinline__ Mix mix_of(const Foot &foot, const Weights &w)
{
	const float all = RAYS ? 1 : w.w0, right = all * foot.right;
	return Mix{all - right, right};
}

/* Adds the S + 1 rows q to the sums of voxel k. */
template <int S, class Pixel>
static __device__ __forceinline__ void add_rows(
	const float share[S + 1], const float (*q)[PARTS<Pixel>], int k, float *sum)
{
#pragma unroll
	for (int image = 0; image < PARTS<Pixel>; image++)
#pragma unroll
		for (int i = 0; i <= S; i++)
			sum[image * COLUMN + k] =
				fmaf(share[i], q[i][image], sum[image * COLUMN + k]);
}

template <class P, bool RAYS, int SIZE, class Pixel>
static __device__ __forceinline__ void visit_spans(
	const Foot &foot, const Weights &w, const Pixel *tile, float *sum)
{
	constexpr int S = P::S, N = P::N, APART = PITCH<Pixel, SIZE>;
	const Mix m = mix_of<RAYS>(foot, w);
#pragma unroll
	for (int first = 0; first < COLUMN; first += N) {
		const float more = foot.more,
			    row = fmaf((float)first, more, foot.row + (float)first);
		const float before = P::first(row, more), t0 = row - before;
		const Pixel *at = tile + (int)before * APART + foot.column;
		float q[N + S][PARTS<Pixel>];
#pragma unroll
		for (int k = 0; k < S; k++)
			mix(at + k * APART, m, q[k]);
#pragma unroll
		for (int k = 0; k < N; k++) {
			float share[S + 1];
			mix(at + (k + S) * APART, m, q[k + S]);
			shares_of<S>(
				more, t0, k, RAYS ? weight_at<RAYS>(w, first + k) : 1.f, share);
			add_rows<S, Pixel>(share, q + k, first + k, sum);
		}
	}
}

/* Single voxels of an upright column. */
template <bool RAYS, class Pixel>
static __device__ __forceinline__ void visit_columns(
	const Near &near, const Foot &foot, const Weights &w, const Pixel *tile, float *sum)
{
	const Mix m = mix_of<RAYS>(foot, w);
	visit_singles(foot, tile + foot.column, near.pitch, [&](int k, const Pixel *at, float up) {
		float q[2][PARTS<Pixel>];
		const float weight = RAYS ? weight_at<RAYS>(w, k) : 1.f;
		const float share[2] = {weight - weight * up, weight * up};
		mix(at, m, q[0]);
		mix(at + near.pitch, m, q[1]);
		add_rows<1, Pixel>(share, q, k, sum);
	});
}

/* Adds the four pixels around (x, y), from their centre, to the sums of voxel k. */
template <class Pixel>
static __device__ __forceinline__ void add_square(
	const Pixel *at, int pitch, float x, float y, float weight, int k, float *sum)
{
	const float high = weight * (y + 0.5f), low = weight - high, right = x + 0.5f;
	const float share[4] = {low - low * right, low * right, high - high * right, high * right};
#pragma unroll
	for (int i = 0; i < 4; i++) {
		const Pixel pixel = at[i / 2 * pitch + i % 2];
#pragma unroll
		for (int image = 0; image < PARTS<Pixel>; image++)
			accumulate(
				sum[image * COLUMN + k], share[i], ((const float *)&pixel)[image]);
	}
}

/* near.kind is the same for all threads of a block. */
template <bool RAYS, int SIZE, bool TILTED, class Pixel>
static __device__ __forceinline__ void visit_view(const Tiles &s, const Near &near,
	const Pixel *tile, const Pixel *image, float dx, float dy, float *sum)
{
	if (SIZE > TILE && near.kind == UNSEEN)
		return;
	if constexpr (SIZE > TILE)
		visit_points<RAYS, TILTED>(s, near, tile, image, dx, dy,
			[&](int k, const Pixel *at, int pitch, float x, float y, float weight) {
				add_square(at, pitch, x, y, weight, k, sum);
			});
	if constexpr (!TILTED) {
		if (SIZE > TILE && (near.kind < 0 || near.kind > SINGLE))
			return;
		const Foot foot = foot_of(near, dx, dy);
		const Weights w = weights_of<RAYS>(s, near, foot.rate, 0, dx, dy);
		if (near.kind == SPANS_OF_8)
			visit_spans<Points<8, 2, 2>, RAYS, SIZE>(foot, w, tile, sum);
		else if (near.kind == SPANS_OF_4)
			visit_spans<Points<4, 2, 2>, RAYS, SIZE>(foot, w, tile, sum);
		else if (SIZE > TILE)
			visit_columns<RAYS>(near, foot, w, tile, sum);
	}
}

/* Rotates the accumulators: each sum moves to the next rotated image. */
template <class Pixel> static __device__ __forceinline__ void move_on(float sum[SUMS<Pixel>])
{
	const int last = SUMS<Pixel> - COLUMN;
#pragma unroll
	for (int k = 0; k < COLUMN; k++) {
		float first = sum[last + k];
#pragma unroll
		for (int i = last + k; i >= COLUMN; i -= COLUMN)
			sum[i] = sum[i - COLUMN];
		sum[k] = first;
	}
}

typedef struct {
	int64_t part;    /* views of one part */
	int direction;   /* number of parts from a view to the one rotated by one step: 1 or 3 */
	Mirrors mirrors; /* where views are no parts of a circle, but mirror images */
} Circle;

/* Number of distinct rotated images of a column: in the middle of odd grids they coincide. */
template <class Pixel> static __device__ __forceinline__ int images_of(const Tiles &s, int x, int y)
{
	const int wide = PARTS<Pixel> == 2 ? s.n[0] : (s.n[0] + 1) / 2;
	if (x >= wide || 2 * y >= s.n[1])
		return 0;
	if (2 * y + 1 < s.n[1])
		return PARTS<Pixel>;
	return PARTS<Pixel> == 2 || 2 * x + 1 == s.n[0] ? 1 : 0;
}

template <class Pixel>
static __device__ __forceinline__ int2 rotated(const Tiles &s, const Circle &circle, int x, int y)
{
	if (PARTS<Pixel> == 2)
		return make_int2(s.n[0] - 1 - x, s.n[1] - 1 - y);
	return circle.direction == 1 ? make_int2(s.n[0] - 1 - y, x) : make_int2(y, s.n[0] - 1 - x);
}

template <class Pixel>
static __device__ __forceinline__ void change(
	const Tiles &s, const Circle &circle, int x, int y, int z0, const float sum[SUMS<Pixel>])
{
	const int images = images_of<Pixel>(s, x, y);
	const int64_t slice = (int64_t)s.n[0] * s.n[1];
	int2 at = make_int2(x, y);
#pragma unroll
	for (int image = 0; image < PARTS<Pixel>; image++) {
		float *to = s.volume + z0 * slice + (int64_t)at.y * s.n[0] + at.x;
		if (image < images)
			update_voxels<COLUMN, 4>(s.update, to, slice, s.n[2] - z0,
				[&](int k) { return sum[image * COLUMN + k]; });
		at = rotated<Pixel>(s, circle, at.x, at.y);
	}
}

/* The same for mirror images. Images of voxels in the middle of an odd grid are left out: they are
 * visited themselves. */
static __device__ __forceinline__ void change_mirrored(
	const Tiles &s, const Mirrors &mirrors, int x, int y, int z0, const float sum[SUMS<Quad>])
{
	const int64_t slice = (int64_t)s.n[0] * s.n[1];
	if (2 * x >= s.n[0] || 2 * y >= s.n[1])
		return;
#pragma unroll
	for (int image = 0; image < PARTS<Quad>; image++) {
		const bool fx = is_flipped(mirrors, image, 0), fy = is_flipped(mirrors, image, 1),
			   fz = is_flipped(mirrors, image, 2);
		if ((fx && 2 * x + 1 == s.n[0]) || (fy && 2 * y + 1 == s.n[1]))
			continue;
		float *to = s.volume + (fz ? s.n[2] - 1 - z0 : z0) * slice +
			    (int64_t)(fy ? s.n[1] - 1 - y : y) * s.n[0] + (fx ? s.n[0] - 1 - x : x);
		update_voxels<COLUMN, 4>(s.update, to, fz ? -slice : slice, s.n[2] - z0,
			[&](int k) { return sum[image * COLUMN + k]; });
	}
}

/* Back projects s.count views of each part. */
template <class Pixel, bool RAYS, int SIZE, bool TILTED, bool MIRRORED>
static __global__ void __launch_bounds__(THREADS, BLOCKS<Pixel>)
	quarter_back(const __grid_constant__ Tiles s, const __grid_constant__ Circle circle)
{
	const int x0 = blockIdx.x * SIDE, y0 = blockIdx.y * SIDE, z0 = blockIdx.z * COLUMN;
	const int2 place = place_of(threadIdx.x);
	const float dx = (float)place.x, dy = (float)place.y;
	float sum[SUMS<Pixel>] = {};
	const Visited list = {s.views, circle.part, (int)s.count};
	visit_views<Pixel, SIZE, SUMS<Pixel>, MIRRORED ? 1 : PARTS<Pixel>, TILTED>(
		s, list, x0, y0, z0, sum,
		[&](const Near &near, const Pixel *tile, const Pixel *image) {
			visit_view<RAYS, SIZE, TILTED>(s, near, tile, image, dx, dy, sum);
		},
		[&] {
			if (!MIRRORED)
				move_on<Pixel>(sum);
		});
	if constexpr (MIRRORED)
		change_mirrored(s, circle.mirrors, x0 + place.x, y0 + place.y, z0, sum);
	else
		change<Pixel>(s, circle, x0 + place.x, y0 + place.y, z0, sum);
}

/* ---- a whole request ------------------------------------------------------------------------- */

typedef struct {
	int direction; /* `half` or `quarter` of RayClass */
	Mirrors mirrors;
	TileSize size;
} Notes;

template <class Pixel> static bool has_tiles(const ProjectRequest *what, Notes *found)
{
	found->size = tile_size(what);
	return found->size != NO_TILES &&
	       cuda_has_shared(found->size == HUGE_TILES ? tile_bytes<Pixel, HUGE_TILE>()
							 : tile_bytes<Pixel, LARGE_TILE<Pixel>>());
}

/* Parallel rays in planes of constant z have kernels with slices as the fastest axis. */
static bool is_cone_or_laminography(const Plan *plan)
{
	const double *ray = plan->views[0].src;
	return plan->rays.source == TOMOS_POINT ||
	       (plan->rays.source == TOMOS_PARALLEL &&
		       fabs(ray[2]) > 1e-6 * fmax(fabs(ray[0]), fabs(ray[1])));
}

template <class Pixel> static bool is_circle(const ProjectRequest *what, CudaNotes *notes)
{
	Notes *found = notes_of<Notes>(notes);
	*found = Notes{
		is_cone_or_laminography(what->plan) ? request_rotation(what, PARTS<Pixel>) : 0};
	return found->direction != 0 && has_tiles<Pixel>(what, found);
}

/* Four mirror images, where columns of voxels drift across detector columns or tiles are large. */
static bool has_mirrors(const ProjectRequest *what, CudaNotes *notes)
{
	Notes *found = notes_of<Notes>(notes);
	*found = Notes{0, mirrors_find(what, PARTS<Quad>)};
	return found->mirrors.count == PARTS<Quad> && has_tiles<Quad>(what, found) &&
	       (found->size == TILTED_TILES || found->size == HUGE_TILES);
}

/* Floats of the images of one view of each part. */
template <class Pixel> static int64_t image_floats(const KernelModel *model)
{
	return (int64_t)tile_lines(model) * tile_pitch(model) *
	       (int64_t)(sizeof(Pixel) / sizeof(float));
}

/* Back projects the views from `first` on of each part. mirrored: of all views, if they are mirror
 * images. */
template <class Pixel, bool MIRRORED, int SIZE, bool TILTED>
static tomos_status run_views(tomos_backend *backend, const ProjectRequest *what, const Tiles *s,
	const Circle &circle, const MirrorView *mirrored, int64_t first)
{
	const KernelModel *model = &what->plan->model;
	cudaStream_t stream = device_of(backend)->stream;
	const int64_t pixels = model->rows * model->columns;
	const Views views = {.from = what->projections + (MIRRORED ? 0 : first * pixels),
		.apart = circle.part * pixels,
		.mirrored = MIRRORED ? mirrored + first : NULL,
		.rows = (int)model->rows,
		.columns = (int)model->columns};
	make_images<Pixel, MIRRORED><<<dim3(cuda_blocks(s->pitch, 128, 1 << 30),
					       cuda_blocks(s->count * s->lines, 1, 65535)),
		128, 0, stream>>>(*s, views);
	CUDA_LAUNCHED("putting views side by side");
	if (first + s->count == circle.part)
		TRY(cuda_taken(backend));
	const bool rays = model->weight == WEIGHT_RAY && what->plan->rays.source == TOMOS_POINT;
	auto kernel = rays ? quarter_back<Pixel, true, SIZE, TILTED, MIRRORED>
			   : quarter_back<Pixel, false, SIZE, TILTED, MIRRORED>;
	const int bytes = tile_bytes<Pixel, SIZE>();
	TRY(tile_take(kernel, bytes));
	int64_t wide = PARTS<Pixel> == 2 ? s->n[0] : (s->n[0] + 1) / 2, tall = (s->n[1] + 1) / 2;
	kernel<<<dim3(cuda_blocks(wide, SIDE, 1 << 30), cuda_blocks(tall, SIDE, 65535),
			 cuda_blocks(s->n[2], COLUMN, 65535)),
		THREADS, bytes, stream>>>(*s, circle);
	CUDA_LAUNCHED("back projecting");
	return TOMOS_OK;
}

template <class Pixel, bool MIRRORED>
static tomos_status run(tomos_backend *backend, const ProjectRequest *what, const CudaNotes *notes,
	const CudaEpilogue *epilogue)
{
	/* Mirror images have tiles for any detector: see has_mirrors. */
	constexpr int LARGE = LARGE_TILE<Pixel>, SMALL = MIRRORED ? LARGE : TILE;
	const CudaPlan *kept;
	float *images;
	VoxelUpdate update;
	Tiles s = tile_request(what);
	TRY(update_open(backend, what, epilogue, &update));
	const Notes *found = notes_of<Notes>(notes);
	const Circle circle = {MIRRORED ? what->count : what->count / PARTS<Pixel>,
		found->direction, found->mirrors};
	const MirrorView *mirrored = NULL;
	int64_t image = image_floats<Pixel>(&what->plan->model);
	int64_t at_once = max64(1, min64(device_of(backend)->scratch_most / image, circle.part));
	TRY(cuda_plan(backend, what->plan, &kept));
	if (MIRRORED)
		TRY(send_mirrors(backend, what->plan, &circle.mirrors, &mirrored));
	TRY(cuda_scratch(
		backend, SCRATCH_REORDERED, at_once * image, &images, "views side by side"));
	s.images = images;
	const auto run_part =
		found->size == HUGE_TILES ? run_views<Pixel, MIRRORED, HUGE_TILE, true>
		: MIRRORED || found->size == TILTED_TILES ? run_views<Pixel, MIRRORED, LARGE, true>
		: found->size == LARGE_TILES ? run_views<Pixel, MIRRORED, LARGE, MIRRORED>
					     : run_views<Pixel, MIRRORED, SMALL, MIRRORED>;
	return views_each(&update, circle.part, at_once,
		[&](int64_t first, int64_t count, const VoxelUpdate &part) {
			s.views = kept->views + first;
			s.count = count;
			s.update = part;
			return run_part(backend, what, &s, circle, mirrored, first);
		});
}

/* Division by the sum of the weights would need twice the accumulators, more than there are
 * registers: voxel_back_cone fuses these updates. */
static CudaFusion circle_fuses(
	const tomos_backend *, const ProjectRequest *, const CudaNotes *, const FusedUpdate *step)
{
	return step->average ? FUSES_NEXT : FUSES;
}

extern const CudaKernel cuda_voxel_back_circle_4, cuda_voxel_back_circle_2, cuda_voxel_back_mirrors;
const CudaKernel cuda_voxel_back_circle_4 = {is_circle<Quad>, run<Quad, false>, circle_fuses};
const CudaKernel cuda_voxel_back_circle_2 = {is_circle<Pair>, run<Pair, false>, circle_fuses};
const CudaKernel cuda_voxel_back_mirrors = {has_mirrors, run<Quad, true>, circle_fuses};
