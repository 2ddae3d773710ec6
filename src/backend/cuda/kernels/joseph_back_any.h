/* Device code of joseph_back_any.cu: the rays seen from a block, and the sums of its voxels. */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_JOSEPH_BACK_ANY_H
#define TOMOS_BACKEND_CUDA_KERNELS_JOSEPH_BACK_ANY_H

#include "backend/cuda/kernels/points.h"
#include "kernel/ray.h"

enum {
	WIDE = 16, /* a block's columns of voxels: along x, and along y or z; of a warp 8 x 4 */
	HIGH = 8,
	COLUMN = 32,
	THREADS = WIDE * HIGH,
	VIEWS = 32, /* seen from a block at a time */
	STRIP = 32, /* adjacent columns of an image; all images have the same row pitch */
	BORDER = ROWS_BORDER
};

#define MAGIC 12582912.f /* 1.5 * 2^23: adding it rounds to the nearest integer */

/* More than this per row, and the expansion of positions along a column of pixels is not exact. */
#define MOST_CURVED 1e-3

typedef struct {
	KernelGrid grid;
	KernelModel model;
	const KernelView *views;
	int64_t count;
	int n[3], lines, strips;
	const void *images; /* [view][axis][strip][line][column], times the steps of the rays */
	float *volume;
	VoxelUpdate update;
} Gathers;

/* Rays of one dominant axis a seen from the corner of a block; how that changes along a. */
typedef struct __align__(16)
{
	float l[3], z[3], a[3]; /* constant, per column, per row */
	float l_a[3], z_a[3];   /* more for each voxel along a */
	float low, high;        /* rows between which something may be met, from `row` on */
	float fast;             /* most rows per voxel */
	int column, line;       /* the pixel from which is counted; with the border */
	int columns;            /* of the image */
	int kind;               /* of Rows in points.h; -1: none fits */
	bool used;
}
Seen;

/* The axes across (b) and along (e) the columns of voxels, for rays along a. */
static __host__ __device__ __forceinline__ int across_of(int a)
{
	return a == 0 ? 1 : 0;
}

static __host__ __device__ __forceinline__ int along_of(int a)
{
	return a == 2 ? 1 : 2;
}

/* ---- views ----------------------------------------------------------------------------------- */

/* Rows of an image are detector rows or, SWAPPED, columns, so that they follow each other along e
 * rather than b; FLIPPED: in reverse order, so that they do so upwards. */
enum { SWAPPED = 1, FLIPPED = 2 };

static __host__ __device__ inline int facing_of(
	const KernelView *k, const KernelModel *model, int a)
{
	const int b = across_of(a), e = along_of(a);
	double d[3];
	for (int i = 0; i < 3; i++) {
		double middle = k->first[i] + 0.5 * (double)(model->columns - 1) * k->u[i] +
				0.5 * (double)(model->rows - 1) * k->v[i];
		d[i] = KERNEL_HAS_SOURCE(k) ? middle - k->src[i] : k->src[i];
	}
	const double u_b = k->u[b] * d[a] - k->u[a] * d[b], u_e = k->u[e] * d[a] - k->u[a] * d[e];
	const double v_b = k->v[b] * d[a] - k->v[a] * d[b], v_e = k->v[e] * d[a] - k->v[a] * d[e];
	const bool swapped = fabs(u_e * v_b) > fabs(v_e * u_b);
	return (swapped ? SWAPPED : 0) | ((swapped ? u_e : v_e) * d[a] < 0 ? FLIPPED : 0);
}

/* A view with the rows and columns of its image. */
static __host__ __device__ inline KernelView facing_view(
	const KernelView *k, KernelModel *model, int facing)
{
	KernelView view = *k;
	if (facing & SWAPPED) {
		const int64_t rows = model->rows;
		model->rows = model->columns;
		model->columns = rows;
		for (int i = 0; i < 3; i++) {
			view.u[i] = k->v[i];
			view.v[i] = k->u[i];
		}
		for (int i = 0; i < 4; i++) {
			view.column[i] = k->row[i];
			view.row[i] = k->column[i];
		}
	}
	if (facing & FLIPPED) {
		const double last = (double)(model->rows - 1);
		for (int i = 0; i < 3; i++) {
			view.first[i] += last * view.v[i];
			view.v[i] = -view.v[i];
		}
		for (int i = 0; i < 4; i++)
			view.row[i] = last * view.depth[i] - view.row[i];
	}
	return view;
}

/* Pixels times the steps of their rays; of each dominant axis its own image, zeros where the ray
 * has another. E: the axis of the columns of voxels. */
template <int E, typename Pixel>
static __global__ void make_images(
	const __grid_constant__ Gathers s, const float *from, const float *rays, Pixel *to)
{
	constexpr int AXES = E == 2 ? 2 : 1;
	const int64_t across = (int64_t)blockIdx.x * STRIP + threadIdx.x;
	const int64_t lines = s.count * s.lines, size = (int64_t)s.strips * s.lines * STRIP;
	for (int64_t i = (int64_t)blockIdx.y * blockDim.y + threadIdx.y; i < lines * AXES;
		i += (int64_t)gridDim.y * blockDim.y) {
		const int64_t line = i % s.lines, image = i / s.lines, view = image / AXES;
		const int a = E == 2 ? (int)(image % 2) : 2;
		const KernelView *k = &s.views[view];
		const int facing = facing_of(k, &s.model, a);
		int64_t row = line - BORDER, column = across;
		if (facing & FLIPPED)
			row = (facing & SWAPPED ? s.model.columns : s.model.rows) - 1 - row;
		if (facing & SWAPPED) {
			column = row;
			row = across;
		}
		Pixel pixel = {};
		if (column >= 0 && column < s.model.columns && row >= 0 && row < s.model.rows) {
			const KernelRay ray = kernel_ray(&s.grid, k, row, column);
			const int64_t at = (view * s.model.rows + row) * s.model.columns + column;
			if (kernel_dominant(&ray) == a)
				set_pixel(pixel, (float)(ray.length / fabs(ray.direction[a])),
					from + at, rays ? rays + at : NULL);
		}
		to[image * size + ((int64_t)blockIdx.x * s.lines + line) * STRIP + threadIdx.x] =
			pixel;
	}
}

/* ---- rays seen from a block ------------------------------------------------------------------ */

static __device__ double affine(const double f[4], const double at[3])
{
	return f[0] * at[0] + f[1] * at[1] + f[2] * at[2] + f[3];
}

/* The direction of the ray of a pixel, and how it changes by column and row. */
typedef struct {
	double start[3], along[3][3];
} Rays;

static __device__ Rays rays_of(const KernelView *k, double row, double column)
{
	Rays rays;
	for (int i = 0; i < 3; i++) {
		double pixel = k->first[i] + column * k->u[i] + row * k->v[i];
		bool source = KERNEL_HAS_SOURCE(k);
		rays.start[i] = source ? k->src[i] : pixel;
		rays.along[0][i] = source ? pixel - k->src[i] : k->src[i];
		rays.along[1][i] = source ? k->u[i] : 0;
		rays.along[2][i] = source ? k->v[i] : 0;
	}
	return rays;
}

/* With parallel rays the pixel moves, with a source the direction does. */
static __device__ void see_sheets(
	const KernelView *k, const Rays *rays, const double at[3], int a, Seen *s)
{
	const int b = across_of(a), e = along_of(a);
	const double inverse = 1 / rays->along[0][a];
	const double ahead = at[a] - rays->start[a];
	for (int i = 0; i < 3; i++) {
		const double *d = rays->along[i];
		double l = (rays->start[b] - at[b]) * d[a] + ahead * d[b];
		double z = (rays->start[e] - at[e]) * d[a] + ahead * d[e];
		if (!KERNEL_HAS_SOURCE(k) && i > 0) {
			const double *step = i == 1 ? k->u : k->v, *ray = rays->along[0];
			l = step[b] * ray[a] - step[a] * ray[b];
			z = step[e] * ray[a] - step[a] * ray[e];
		}
		s->l[i] = (float)(l * inverse);
		s->z[i] = (float)(z * inverse);
		s->a[i] = (float)(d[a] * inverse);
		s->l_a[i] = (float)(d[b] * inverse);
		s->z_a[i] = (float)(d[e] * inverse);
	}
}

/* Whether a may be the dominant axis of a ray of the pixels between low and high. Directions are
 * affine in the pixel. */
static __device__ bool may_be_dominant(
	const KernelView *k, const double low[2], const double high[2], int a)
{
	double least[3] = {1e300, 1e300, 1e300}, most[3] = {-1e300, -1e300, -1e300};
	for (int corner = 0; corner < 4; corner++) {
		Rays rays =
			rays_of(k, corner & 1 ? high[1] : low[1], corner & 2 ? high[0] : low[0]);
		for (int i = 0; i < 3; i++) {
			least[i] = fmin(least[i], rays.along[0][i]);
			most[i] = fmax(most[i], rays.along[0][i]);
		}
	}
	double floor_of_largest = 0;
	for (int i = 0; i < 3; i++)
		if (least[i] * most[i] > 0)
			floor_of_largest =
				fmax(floor_of_largest, fmin(fabs(least[i]), fabs(most[i])));
	return fmax(fabs(least[a]), fabs(most[a])) >= floor_of_largest;
}

/* Voxels between two rows of one column of pixels, at a corner of the block that is on pixel `at`,
 * counted from the one that rays are relative to. */
static __device__ double gap_of(const Seen *seen, int along, int k, const double at[2])
{
	const double gap =
		(double)seen->z[2] + along * (double)seen->z_a[2] - k * (double)seen->a[2];
	return gap / (1 + at[0] * (double)seen->a[1] + at[1] * (double)seen->a[2]);
}

/* The variant of Rows for all voxels of the block, and for columns of pixels near them. */
static __device__ void see_rates(double least, double most, Seen *seen)
{
	const double columns =
		2 * (1 + 6 * fabs((double)seen->l[2])) / fmax(fabs((double)seen->l[1]), 1e-2);
	const double differ = 1 + (2 + columns) * fabs((double)seen->a[1]);
	seen->fast = (float)fmin(differ / fmax(least, 1e-3), 1e3);
	seen->kind = least > 1e-3 && fabs((double)seen->a[2]) < MOST_CURVED
			     ? rows_kind((float)(1 / (most * differ)), seen->fast)
			     : -1;
	/* Rays of a column of pixels leave the voxels soon: short spans need fewer columns. */
	if (seen->kind == 0 && fabsf(seen->l[2]) > 0.33f)
		seen->kind = 1;
}

template <int E>
static __device__ Seen see(const Gathers *s, const KernelView *plain, const int first[3], int a)
{
	KernelModel model = s->model;
	const KernelView view = facing_view(plain, &model, facing_of(plain, &s->model, a)),
			 *k = &view;
	/* Not beyond the box, where no variant of Rows may fit. */
	const int size[3] = {min(WIDE, s->n[0] - first[0]),
		min(E == 2 ? HIGH : COLUMN, s->n[1] - first[1]),
		min(E == 2 ? COLUMN : HIGH, s->n[2] - first[2])};
	double at[3], low[2] = {1e300, 1e300}, high[2] = {-1e300, -1e300}, place[2], f[8][2];
	for (int corner = 0; corner < 8; corner++) {
		for (int i = 0; i < 3; i++)
			at[i] = (double)(s->grid.low[i] + first[i]) +
				(corner >> i & 1 ? size[i] : -1);
		double depth = affine(k->depth, at);
		f[corner][0] = affine(k->column, at) / depth;
		f[corner][1] = affine(k->row, at) / depth;
		for (int i = 0; i < 2; i++) {
			low[i] = fmin(low[i], f[corner][i]);
			high[i] = fmax(high[i], f[corner][i]);
		}
	}
	const double last[2] = {(double)(model.columns - 1), (double)(model.rows - 1)};
	Seen seen = {.columns = (int)model.columns, .used = true};
	for (int i = 0; i < 3; i++)
		at[i] = (double)(s->grid.low[i] + first[i]);
	for (int i = 0; i < 2; i++) {
		seen.used = seen.used && high[i] >= 0 && low[i] <= last[i];
		low[i] = fmin(fmax(floor(low[i]), 0.0), last[i]);
		high[i] = fmin(fmax(ceil(high[i]), 0.0), last[i]);
		place[i] = rint(0.5 * (low[i] + high[i]));
	}
	seen.used = seen.used && may_be_dominant(k, low, high, a);
	if (!seen.used)
		return seen;
	const Rays rays = rays_of(k, place[1], place[0]);
	see_sheets(k, &rays, at, a, &seen);
	double least = 1e300, most = 0;
	for (int corner = 0; corner < 8; corner++) {
		const int e = along_of(a);
		const double away[2] = {f[corner][0] - place[0], f[corner][1] - place[1]};
		double gap = gap_of(&seen, corner >> a & 1 ? size[a] : -1,
			corner >> e & 1 ? size[e] : -1, away);
		least = fmin(least, gap);
		most = fmax(most, gap);
	}
	see_rates(least, most, &seen);
	seen.column = (int)place[0];
	seen.line = (int)place[1] + BORDER;
	seen.low = (float)(ROWS_SIDE - BORDER - place[1]);
	seen.high = (float)(last[1] + 1 + ROWS_SIDE - place[1]);
	return seen;
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* L, Z and A for a column of voxels. */
typedef struct {
	float l[3], z[3], a[3];
} Column;

/* One column of pixels, c from the origin, and the voxels from `first` on, whose middle is on row
 * `row`. */
template <class R, typename Pixel>
static __device__ __forceinline__ void gather(const Column &v, const Seen &seen, const Pixel *line,
	float c, float row_middle, float first, Pixel *sum)
{
	const float l0 = fmaf(c, v.l[1], v.l[0]), z0 = fmaf(c, v.z[1], v.z[0]);
	const float a0 = fmaf(c, v.a[1], 1.f), middle = row_middle - 0.5f * R::LAST;
	const float rounded = __fadd_rn(fminf(fmaxf(middle, seen.low), seen.high), MAGIC);
	const float row0 = __fadd_rn(rounded, -MAGIC) - R::SIDE;
	const Pixel *at =
		line + (__float_as_int(rounded) - __float_as_int(MAGIC) - R::SIDE) * STRIP;
	enum { ROWS = R::LAST + 2 * R::SIDE + 1 };
	Pixel q[ROWS];
	float z[ROWS];
#pragma unroll
	for (int i = 0; i < ROWS; i++) {
		const float row = row0 + (float)i;
		const float rate = inverse_nearly(fmaf(row, v.a[2], a0));
		const float share = fma_saturate(-fabsf(fmaf(row, v.l[2], l0)), rate, 1.f);
		const Pixel pixel = __ldg(at + i * STRIP);
		q[i] = Pixel{};
		accumulate(q[i], share, pixel);
		z[i] = fmaf(fmaf(row, v.z[2], z0), rate, -first);
	}
#pragma unroll
	for (int k = 0; k < R::SPAN; k++) {
		const int m = R::of(k) + R::SIDE;
		accumulate(sum[k], __saturatef(1 - fabsf(z[m] - (float)k)), q[m]);
#pragma unroll
		for (int side = 1; side <= R::SIDE; side++) {
			accumulate(sum[k], __saturatef(1 - fabsf(z[m - side] - (float)k)),
				q[m - side]);
			accumulate(sum[k], __saturatef(1 - fabsf(z[m + side] - (float)k)),
				q[m + side]);
		}
	}
}

/* The same for about one row per voxel: row i is near voxel i - 1, and adds to it and to its two
 * neighbours. Along the column of pixels, positions are series around its middle row: L / A at t
 * rows from there is p + t s (1 - t x + t^2 x^2 ...), x the change of A by row, relative to A. */
template <int SPAN, bool POINT, typename Pixel>
static __device__ __forceinline__ void gather_near(const Column &v, const Seen &seen,
	const Pixel *line, float c, float row_middle, float first, Pixel *sum)
{
	constexpr int MIDDLE = SPAN / 2; /* the voxel around which the series is */
	const float nearest = row_middle - 0.5f * (SPAN - 1);
	const float rounded = __fadd_rn(fminf(fmaxf(nearest, seen.low), seen.high), MAGIC);
	const float row = __fadd_rn(rounded, -MAGIC) + (float)MIDDLE;
	const Pixel *at = line + (__float_as_int(rounded) - __float_as_int(MAGIC) - 1) * STRIP;
	const float a = POINT ? fmaf(row, v.a[2], fmaf(c, v.a[1], 1.f)) : 1.f;
	const float rate = POINT ? inverse_nearly(a) : 1.f, x = POINT ? v.a[2] * rate : 0.f;
	const float l = fmaf(row, v.l[2], fmaf(c, v.l[1], v.l[0])) * rate;
	const float z = fmaf(row, v.z[2], fmaf(c, v.z[1], v.z[0])) * rate;
	const float slope_l = fmaf(-l, x, v.l[2] * rate), slope_z = fmaf(-z, x, v.z[2] * rate);
	const float away = z - (first + (float)MIDDLE), more = slope_z - 1;
	const float bend_l = -slope_l * x, bend_z = -slope_z * x, third_z = -bend_z * x;
#pragma unroll
	for (int i = 0; i < SPAN + 2; i++) {
		const float t = (float)(i - 1 - MIDDLE);
		const float aside = fmaf(t, POINT ? fmaf(t, bend_l, slope_l) : slope_l, l);
		const float curve = POINT ? fmaf(t, fmaf(t, third_z, bend_z), more) : more;
		const float d = fmaf(t, curve, away);
		Pixel q = {};
		accumulate(q, __saturatef(1 - fabsf(aside)), __ldg(at + i * STRIP));
		if (i >= 2)
			accumulate(sum[i - 2], __saturatef(-d), q);
		if (i >= 1 && i <= SPAN)
			accumulate(sum[i - 1], __saturatef(1 - fabsf(d)), q);
		if (i <= SPAN - 1)
			accumulate(sum[i], __saturatef(d), q);
	}
}

/* Voxels of many rows, one by one. */
template <typename Pixel>
static __device__ __forceinline__ void gather_one(
	const Column &v, const Seen &seen, const Pixel *line, float c, float t, float k, Pixel *sum)
{
	const float l0 = fmaf(c, v.l[1], v.l[0]), z0 = fmaf(c, v.z[1], v.z[0]);
	const float a0 = fmaf(c, v.a[1], 1.f), rate = fmaf(1.02f, seen.fast, 1e-3f);
	int low = (int)fmaxf(floorf(t - rate), seen.low),
	    high = (int)fminf(ceilf(t + rate), seen.high);
	for (int row = low; row <= high; row++) {
		const float inverse = inverse_nearly(fmaf((float)row, v.a[2], a0));
		const float share =
			fma_saturate(-fabsf(fmaf((float)row, v.l[2], l0)), inverse, 1.f);
		const float z = fmaf(fmaf((float)row, v.z[2], z0), inverse, -k);
		accumulate(*sum, share * __saturatef(1 - fabsf(z)), __ldg(line + row * STRIP));
	}
}

/* Calls use(c, line, row) for the columns of pixels whose rays may meet the `span` voxels from
 * `first` on; the middle of these is on `row`. Along the columns, that row changes linearly. */
template <int SPAN, typename Pixel, class Use>
static __device__ __forceinline__ void each_column(const Gathers &s, const Seen &seen,
	const Column &v, const Pixel *lines, float first, const Use &use)
{
	const float k = first + 0.5f * (SPAN - 1);
	const float down = -inverse_nearly(fmaf(-k, v.a[2], v.z[2]));
	const float at = (v.z[0] - k) * down, per = fmaf(-k, v.a[1], v.z[1]) * down;
	const float l = fmaf(per, v.l[2], v.l[1]), a = fmaf(per, v.a[2], v.a[1]);
	const float u = -fmaf(at, v.l[2], v.l[0]) * inverse_nearly(l);
	/* Rays of columns further away are more than one voxel away, whatever the row: |L| > A. */
	const float rows = fmaf(0.5f * (SPAN + 1), seen.fast, 0.02f);
	const float most = fmaf(fabsf(v.l[2]) + fabsf(v.a[2]), rows,
		fmaf(u, v.a[1], fmaf(fmaf(u, per, at), v.a[2], 1.f)));
	const float side = 1.001f * most * inverse_nearly(fmaxf(fabsf(l) - fabsf(a), 1e-6f));
	const int low = max((int)ceilf(u - side) + seen.column, 0);
	const int high = min((int)floorf(u + side) + seen.column, seen.columns - 1);
	for (int c = low; c <= high; c++) {
		const float away = (float)(c - seen.column);
		use(away, lines + (c + c / STRIP * (s.lines - 1) * STRIP), fmaf(away, per, at));
	}
}

template <bool POINT, typename Pixel>
static __device__ __forceinline__ void visit(const Gathers &s, const Seen &seen, const Pixel *image,
	float along, float across, Pixel sum[COLUMN])
{
	Column v;
#pragma unroll
	for (int i = 0; i < 3; i++) {
		v.a[i] = seen.a[i];
		v.l[i] = fmaf(along, seen.l_a[i], fmaf(-across, seen.a[i], seen.l[i]));
		v.z[i] = fmaf(along, seen.z_a[i], seen.z[i]);
	}
	const Pixel *lines = image + seen.line * STRIP;
	rows_visit(seen.kind, [&](auto rows) {
		typedef decltype(rows) R;
#pragma unroll
		for (int first = 0; first < COLUMN; first += R::SPAN)
			each_column<R::SPAN>(s, seen, v, lines, (float)first,
				[&](float c, const Pixel *line, float row) {
					if constexpr (R::ONE)
						gather_near<R::SPAN, POINT>(v, seen, line, c, row,
							(float)first, sum + first);
					else
						gather<R>(v, seen, line, c, row, (float)first,
							sum + first);
				});
	});
	if (seen.kind >= 0)
		return;
#pragma unroll
	for (int k = 0; k < COLUMN; k++)
		each_column<1>(
			s, seen, v, lines, (float)k, [&](float c, const Pixel *line, float row) {
				gather_one(v, seen, line, c, row, (float)k, sum + k);
			});
}

template <int E, bool POINT, typename Pixel>
static __global__ void __launch_bounds__(THREADS, sizeof(Pixel) == 8 ? 3 : 4)
	any_back(const __grid_constant__ Gathers s)
{
	constexpr int AXES = E == 2 ? 2 : 1;
	__shared__ Seen seen[VIEWS * AXES];
	const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	const int dx = lane % 8 + warp % 2 * 8, dy = lane / 8 + warp / 2 * 4;
	const int first[3] = {(int)blockIdx.x * WIDE, (int)blockIdx.y * (E == 2 ? HIGH : COLUMN),
		(int)blockIdx.z * (E == 2 ? COLUMN : HIGH)};
	const int64_t size = (int64_t)s.strips * s.lines * STRIP;
	const Pixel *image = (const Pixel *)s.images;
	Pixel sum[COLUMN] = {};
	for (int64_t done = 0; done < s.count; done += VIEWS) {
		const int count = AXES * (int)min((int64_t)VIEWS, s.count - done);
		__syncthreads();
		if (threadIdx.x < count)
			seen[threadIdx.x] = see<E>(&s, &s.views[done + threadIdx.x / AXES], first,
				E == 2 ? threadIdx.x % 2 : 2);
		__syncthreads();
		for (int i = 0; i < count; i++, image += size)
			if (seen[i].used) {
				const bool x = E == 2 && i % 2 == 0; /* a = x */
				visit<POINT>(s, seen[i], image, (float)(x ? dx : dy),
					(float)(x ? dy : dx), sum);
			}
	}
	const int at[3] = {
		first[0] + dx, first[1] + (E == 2 ? dy : 0), first[2] + (E == 2 ? 0 : dy)};
	if (at[0] >= s.n[0] || at[1] >= s.n[1] || at[2] >= s.n[2])
		return;
	float *to = s.volume + ((int64_t)at[2] * s.n[1] + at[1]) * s.n[0] + at[0];
	update_voxels<COLUMN, 4>(s.update, to, E == 2 ? (int64_t)s.n[0] * s.n[1] : s.n[0],
		s.n[E] - first[E], [&](int k) { return sum[k]; });
}

#endif
