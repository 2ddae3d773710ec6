/* Which rays of a view meet a tile of voxels in shared memory, for rays in any direction; used by
 * joseph_tiles.h.
 */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_JOSEPH_SEEN_H
#define TOMOS_BACKEND_CUDA_KERNELS_JOSEPH_SEEN_H

#include "backend/cuda/kernels/affine.h"
#include "backend/cuda/kernels/update.h"
#include "kernel/ray.h"

enum {
	LANES = 32,
	AT_ONCE = 4, /* warps of rays that a warp takes, one after the other */
	VIEWS = 96,  /* seen from a tile at a time, at most */
	SQUARE = 32, /* pixels of a view that a block transposes */
	LINES = 8
};

#define MAGIC 12582912.f /* 1.5 * 2^23: adding it rounds to an integer */

/* Views that are rotations of each other by multiples of 180 or 90 degrees are projected together:
 * a ray of one of them and a tile of voxels stand for the rays and tiles that are rotated from
 * them, which have the same positions and weights. The list of views then has 2 or 4 equal parts,
 * and each pass has the same views of all of them. */
typedef struct {
	KernelGrid grid;
	KernelModel model;
	const KernelView *views; /* the first one of the pass */
	int64_t count;           /* views of the pass, of all parts */
	int64_t part, apart;     /* views of a part: of the pass; in the list */
	int quarters;            /* of a circle from a part to the next one */
	int at_once;             /* views seen from a tile at a time */
	int n[3], step[3];       /* voxels of the box; from tile to tile */
	int region[3];           /* voxels that the tiles and their rotations divide up */
	const unsigned *maxima;  /* [view][row][column] of squares of pixels, as the bits of
	                          * floats, for all parts together; NULL: not needed */
	float unit;              /* of sums, relative to the largest value */
} Tiles;

/* Dominant axes of the rays of a launch, as bits. */
enum { LEVEL = 1 | 2, UPRIGHT = 4, ALL = LEVEL | UPRIGHT };

/* A tile of voxels in shared memory: S voxels along E, the contiguous axis, T along the two
 * others, and on every side a border of one voxel, for samples that belong to neighbouring tiles.
 * Strides avoid bank conflicts: neighbouring lanes are neighbours along E, wherever they are along
 * the other axes, and so in different banks if the strides of these are multiples of the banks.
 * With rays of all axes, lanes of those along z are neighbours along y: then that stride is odd. It
 * is also odd for rays along z of views 90 degrees apart, half of which have neighbours along x
 * (SPREAD). */
template <int T_, int S_, int WARPS_, int BLOCKS_, int BYTES_, int AXES_, int PARTS_ = 1,
	int COPIES_ = 1>
struct Tile {
	static constexpr int T = T_, S = S_, WARPS = WARPS_, BLOCKS = BLOCKS_, AXES = AXES_,
			     THREADS = WARPS * LANES;
	static constexpr int PARTS = PARTS_;   /* tiles that are rotations of each other */
	static constexpr int COPIES = COPIES_; /* one behind the other; else side by side */
	static constexpr int E = AXES == UPRIGHT ? 1 : 2, MIDDLE = E == 2 ? 1 : 0;
	static constexpr int VIEWS = BLOCKS == 1 ? (int)::VIEWS : 64;
	static constexpr int LISTS = AXES == ALL     ? 3
				     : AXES == LEVEL ? 2
						     : 1;  /* rays of a view, by axis */
	static constexpr unsigned BYTES = BYTES_;          /* of a voxel */
	static constexpr bool ADDS = BYTES == sizeof(int); /* lanes add to voxels */
	static constexpr bool SPREAD = AXES == UPRIGHT && PARTS == 4;
	static constexpr int LINE = S + (SPREAD               ? 5
						: AXES == ALL ? 3
							      : 2),
			     PLANE = ((T + 2) * LINE + LANES - 1) / LANES * LANES +
				     (SPREAD || (ADDS && AXES == LEVEL) ? 1 : 0);
	/* One more plane on either side: rounding may take a ray just beyond the border. */
	static constexpr int SIZE = ((T + 4) * PLANE + 3) / 4 * 4;
	static constexpr int ORIGIN = 2 * PLANE + LINE + 1; /* of the first voxel */
	static_assert(S % 2 == 0 && T % 2 == 0, "the middle is a voxel");

	static __host__ __device__ __forceinline__ constexpr int size(int a)
	{
		return a == E ? S : T;
	}

	static __host__ __device__ __forceinline__ constexpr int stride(int a)
	{
		return a == E ? 1 : a == MIDDLE ? LINE : PLANE;
	}

	/* Offset of a voxel. */
	static __device__ __forceinline__ int at(int x, int y, int z)
	{
		return ORIGIN + x * stride(0) + y * stride(1) + z * stride(2);
	}
};

/* The rays of one view with dominant axis a that may meet a tile. Their pixels are a
 * parallelogram. A line is a row or a column of the detector (lines_are_rows), a place is the
 * number of a pixel in its line. There are `places` pixels in each of `high` lines; the first
 * place moves by `shear` from line to line, and lines move by `skew` from place to place. Lines
 * and places count from a pixel in the middle. L, Z and A are linear functions of line and place.
 * The ray meets plane k at b = (L + k L') / A and e = (Z + k Z') / A along the two other axes;
 * planes and positions count from the middle of the tile. */
typedef struct __align__(16)
{
	double l[3], z[3], a[3]; /* constant, per line, per place: L, Z and A */
	float l_a[3], z_a[3];    /* L' and Z' */
	float shear, skew;       /* places per line; lines per place */
	int line, middle;        /* the first line from the middle one; the middle place */
	int edge, lines;         /* of the detector: the first line from the middle one; all */
	int place, places, high, pitch;
	int strided;           /* places in a line, `stride` from a lane to the next one */
	unsigned strided_rate; /* 2^32 / strided, rounded down */
	int width;             /* stride strided: the pixels of a line and those left out */
	unsigned rate;         /* 2^32 / width, rounded down */
	int warps;             /* rays in units of a warp */
	int2 next;             /* lines and places from a warp's rays to the next ones */
	unsigned char stride, axis, part; /* part: of the view */
	bool certain;                     /* whether a is the dominant axis of all these rays */
	int64_t first;                    /* pixel of the middle line, of all views */
}
Seen;

/* The voxels of a block's tile. */
typedef struct {
	int first[3], size[3];
} Own;

/* The axes across a. */
static __host__ __device__ __forceinline__ constexpr int across_of(int a)
{
	return a == 0 ? 1 : 0;
}

static __host__ __device__ __forceinline__ constexpr int along_of(int a)
{
	return a == 2 ? 1 : 2;
}

/* ---- rays seen from a tile ------------------------------------------------------------------- */

/* Whether most rays of a view are nearer to z than to other axes. */
static __device__ __forceinline__ bool is_along_z(const KernelView *k)
{
	double normal[3];
	for (int a = 0; a < 3; a++) {
		const int b = (a + 1) % 3, c = (a + 2) % 3;
		normal[a] = fabs(k->u[b] * k->v[c] - k->u[c] * k->v[b]);
	}
	return normal[2] > fmax(normal[0], normal[1]);
}

/* Of view i of a pass: its number in the list. */
static __device__ __forceinline__ int64_t view_number(const Tiles *s, int64_t i)
{
	return i / s->part * s->apart + i % s->part;
}

/* Whether the lines of an image are detector rows; else they are columns. Neighbouring pixels of a
 * line are neighbouring lanes, which meet voxels that follow each other along z or, if most rays
 * are along z, along y. The same for all parts, also where rounding differs or y becomes x. */
static __device__ __forceinline__ bool lines_are_rows(const Tiles *s, int64_t i)
{
	const KernelView *k = &s->views[i % s->part];
	const int e = s->quarters % 2 == 0 && is_along_z(k) ? 1 : 2;
	return fabs(k->u[e]) > fabs(k->v[e]);
}

/* The direction of the ray of a pixel, and how it changes by column and row. */
typedef struct {
	double start[3], along[3][3];
} Rays;

static __host__ __device__ inline Rays rays_of(const KernelView *k, double row, double column)
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

/* With parallel rays the pixel moves, with a source the direction does. rows: lines are rows. */
static __device__ void see_sheets(
	const KernelView *k, const Rays *rays, const double at[3], int a, bool rows, Seen *s)
{
	const int b = across_of(a), e = along_of(a);
	const double *ray = rays->along[0];
	const double inverse = 1 / fmax(fabs(ray[0]), fmax(fabs(ray[1]), fabs(ray[2])));
	const double ahead = at[a] - rays->start[a];
	for (int i = 0; i < 3; i++) {
		const double *d = rays->along[i];
		double l = (rays->start[b] - at[b]) * d[a] + ahead * d[b];
		double z = (rays->start[e] - at[e]) * d[a] + ahead * d[e];
		if (!KERNEL_HAS_SOURCE(k) && i > 0) {
			const double *step = i == 1 ? k->u : k->v;
			l = step[b] * ray[a] - step[a] * ray[b];
			z = step[e] * ray[a] - step[a] * ray[e];
		}
		const int to = i == 0 ? 0 : rows ? 3 - i : i;
		s->l[to] = l * inverse;
		s->z[to] = z * inverse;
		s->a[to] = d[a] * inverse;
		s->l_a[to] = (float)(d[b] * inverse);
		s->z_a[to] = (float)(d[e] * inverse);
	}
}

/* Lines and places of pixels. */
typedef struct {
	double low[2], high[2];
} Rectangle;

/* Whether a may be the dominant axis of a ray of these pixels, or of its rotations, for which
 * rounding may decide otherwise. Directions are affine in the pixel. */
static __host__ __device__ inline bool may_be_dominant(
	const KernelView *k, const Rectangle *of, bool rows, int a)
{
	double least[3] = {1e300, 1e300, 1e300}, most[3] = {-1e300, -1e300, -1e300};
	for (int corner = 0; corner < 4; corner++) {
		const double line = corner & 1 ? of->high[0] : of->low[0],
			     place = corner & 2 ? of->high[1] : of->low[1];
		const Rays rays = rays_of(k, rows ? line : place, rows ? place : line);
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
	return fmax(fabs(least[a]), fabs(most[a])) >= (1 - 1e-6) * floor_of_largest;
}

/* The projections of the corners of a box that has the `size` voxels from `first` on and a voxel
 * around them: line and place. */
static __device__ void project_corners(const Tiles *s, const KernelView *k, const int first[3],
	const int size[3], bool rows, double f[8][2])
{
	for (int corner = 0; corner < 8; corner++) {
		double at[3];
		for (int i = 0; i < 3; i++)
			at[i] = (double)(s->grid.low[i] + first[i]) +
				(corner >> i & 1 ? size[i] : -1);
		const double depth = affine(k->depth, at);
		f[corner][0] = affine(rows ? k->row : k->column, at) / depth;
		f[corner][1] = affine(rows ? k->column : k->row, at) / depth;
	}
}

/* The pixels around these; false: none is on the detector. */
static __device__ bool find_pixels(
	const Tiles *s, bool rows, const double f[8][2], Rectangle *found)
{
	const double last[2] = {(double)((rows ? s->model.rows : s->model.columns) - 1),
		(double)((rows ? s->model.columns : s->model.rows) - 1)};
	bool any = true;
	for (int i = 0; i < 2; i++) {
		double low = 1e300, high = -1e300;
		for (int corner = 0; corner < 8; corner++) {
			low = fmin(low, f[corner][i]);
			high = fmax(high, f[corner][i]);
		}
		any = any && high >= 0 && low <= last[i];
		found->low[i] = fmin(fmax(ceil(low - 1e-3), 0.0), last[i]);
		found->high[i] = fmin(fmax(floor(high + 1e-3), 0.0), last[i]);
		any = any && found->low[i] <= found->high[i];
	}
	return any;
}

/* A parallelogram of pixels: see Seen. */
typedef struct {
	double skew, shear, line, lines, place, places;
} Sheared;

/* The sum of the edges of a tile along an axis, in lines and places. */
static __device__ void edges_along(const double f[8][2], int axis, double sum[2])
{
	sum[0] = sum[1] = 0;
	for (int corner = 0; corner < 8; corner++)
		for (int i = 0; i < 2; i++)
			sum[i] += corner >> axis & 1 ? f[corner][i] : -f[corner][i];
}

/* Lines that follow `skew`, from the place `middle` on. */
static __device__ void skew_lines(
	const double f[8][2], const Rectangle *of, double middle, double skew, Sheared *to)
{
	double low = 1e300, high = -1e300;
	for (int corner = 0; corner < 8; corner++) {
		const double line = f[corner][0] - skew * (f[corner][1] - middle);
		low = fmin(low, line);
		high = fmax(high, line);
	}
	to->skew = skew;
	to->line = skew == 0 ? of->low[0] : ceil(low - 0.501); /* the skew is rounded to pixels */
	to->lines = (skew == 0 ? of->high[0] : floor(high + 0.501)) - to->line + 1;
}

/* Moves the places of each line along, in the direction of the edges of the tile along b, if then
 * there are fewer. */
static __device__ void shear_places(
	const double f[8][2], const Rectangle *of, double middle, int b, Sheared *to)
{
	double along[2], low = 1e300, high = -1e300;
	edges_along(f, b, along);
	along[0] -= to->skew * along[1];
	const double shear = fabs(along[0]) > 0.5 * fabs(along[1]) ? along[1] / along[0] : 0;
	for (int corner = 0; corner < 8; corner++) {
		const double line = f[corner][0] - to->skew * (f[corner][1] - middle),
			     place = f[corner][1] - shear * (line - to->line);
		low = fmin(low, place);
		high = fmax(high, place);
	}
	/* The shear is rounded to pixels, and so is the skew. */
	const double margin = 0.501 + (to->skew != 0 ? 0.5 * fabs(shear) : 0);
	low = ceil(low - margin);
	high = floor(high + margin);
	const bool fewer = high - low < of->high[1] - of->low[1];
	to->shear = fewer ? shear : 0;
	to->place = fewer ? low : of->low[1];
	to->places = (fewer ? high - low : of->high[1] - of->low[1]) + 1;
}

/* The pixels that may meet the tile: lines follow its edges along e, if then there are fewer. */
static __device__ void shear_pixels(
	const double f[8][2], const Rectangle *of, const double middle[2], int a, Seen *seen)
{
	double along[2];
	Sheared best, skewed;
	edges_along(f, along_of(a), along);
	skew_lines(f, of, middle[1], 0, &best);
	shear_places(f, of, middle[1], across_of(a), &best);
	if (fabs(along[0]) < fabs(along[1]) && fabs(along[0]) > 4) { /* of four edges */
		skew_lines(f, of, middle[1], along[0] / along[1], &skewed);
		shear_places(f, of, middle[1], across_of(a), &skewed);
		best = skewed.lines * skewed.places < best.lines * best.places ? skewed : best;
	}
	seen->skew = (float)best.skew;
	seen->shear = (float)best.shear;
	seen->line = (int)(best.line - middle[0]);
	seen->place = (int)best.place;
	seen->places = (int)best.places;
	seen->high = (int)best.lines;
}

/* Rays of neighbouring pixels are `gap` voxels apart. If that is less than half, several lanes
 * would add to the same voxel: they take every third pixel or so. */
template <class Tile> static __device__ void set_lanes(Seen *seen)
{
	const double gap = fmax(fabs(seen->l[2]), fabs(seen->z[2])) / fabs(seen->a[0]);
	const int stride = Tile::ADDS && gap < 0.5 ? (int)fmin(ceil(1 / gap), 4.0) : 1;
	seen->stride = (unsigned char)stride;
	seen->strided = (seen->places + stride - 1) / stride;
	seen->strided_rate = 0xffffffffu / (unsigned)seen->strided;
	seen->width = seen->strided * stride;
	seen->rate = 0xffffffffu / (unsigned)seen->width;
	seen->next = make_int2(LANES / seen->width, LANES % seen->width);
	seen->warps = (seen->width * seen->high + LANES - 1) / LANES;
}

/* Bits of the largest pixel of the squares around a rectangle. */
static __device__ unsigned largest_pixel(
	const Tiles *s, int64_t view, bool rows, const Rectangle *of)
{
	const int64_t wide = (s->model.columns + SQUARE - 1) / SQUARE,
		      high = (s->model.rows + SQUARE - 1) / SQUARE;
	const int c = rows ? 1 : 0, r = 1 - c;
	unsigned most = 0;
	for (int j = (int)of->low[r] / SQUARE; j <= (int)of->high[r] / SQUARE; j++)
		for (int i = (int)of->low[c] / SQUARE; i <= (int)of->high[c] / SQUARE; i++)
			most = max(most, s->maxima[(view * high + j) * wide + i]);
	return most;
}

/* Rays that meet a tile: their number in a list, units of them that warps have taken, the largest
 * pixel. */
typedef struct {
	int count, taken;
	unsigned largest;
} Found;

/* Appends the rays of axis a that may meet the tile to a list. Not inlined, as that would take
 * registers from the loops over rays. */
template <class Tile>
static __device__ __noinline__ void see(
	const Tiles *s, int64_t view, const Own &own, int a, Seen *list, Found *found)
{
	const KernelView *k = &s->views[view_number(s, view)];
	const bool rows = lines_are_rows(s, view);
	Rectangle of;
	double at[3], middle[2], f[8][2];
	project_corners(s, k, own.first, own.size, rows, f);
	if (!find_pixels(s, rows, f, &of) || !may_be_dominant(k, &of, rows, a))
		return;
	Seen *seen = &list[atomicAdd(&found->count, 1)];
	if (s->maxima)
		atomicMax(&found->largest, largest_pixel(s, view % s->part, rows, &of));
	for (int i = 0; i < 3; i++)
		at[i] = (double)(s->grid.low[i] + own.first[i] + Tile::size(i) / 2);
	for (int i = 0; i < 2; i++)
		middle[i] = rint(0.5 * (of.low[i] + of.high[i]));
	const Rays rays = rays_of(k, middle[rows ? 0 : 1], middle[rows ? 1 : 0]);
	see_sheets(k, &rays, at, a, rows, seen);
	shear_pixels(f, &of, middle, a, seen);
	seen->pitch = (int)(rows ? s->model.columns : s->model.rows);
	seen->lines = (int)(rows ? s->model.rows : s->model.columns);
	seen->edge = -(int)middle[0];
	seen->middle = (int)middle[1];
	set_lanes<Tile>(seen);
	seen->axis = (unsigned char)a;
	seen->certain = true;
	for (int i = 0; i < 3; i++)
		seen->certain = seen->certain && (i == a || !may_be_dominant(k, &of, rows, i));
	seen->part = (unsigned char)(view / s->part);
	seen->first = view * s->model.rows * s->model.columns + (int64_t)middle[0] * seen->pitch;
}

/* ---- views of a request ---------------------------------------------------------------------- */

/* Whether no ray starts inside the box. */
static inline bool is_in_front(const ProjectRequest *what, const KernelView *k)
{
	bool in_front = true;
	for (int corner = 0; corner < 8; corner++) {
		double depth = k->depth[3];
		for (int a = 0; a < 3; a++)
			depth += k->depth[a] * (double)(corner >> a & 1 ? what->box.high[a]
									: what->box.low[a] - 1);
		in_front = in_front && depth > 1e-2;
	}
	return in_front;
}

static inline Tiles tiles_of(const ProjectRequest *what)
{
	Tiles s = {.grid = what->plan->whole, .model = what->plan->model, .at_once = VIEWS};
	memcpy(s.grid.low, what->box.low, sizeof s.grid.low);
	for (int a = 0; a < 3; a++)
		s.n[a] = (int)(what->box.high[a] - what->box.low[a]);
	return s;
}

/* Bits of the axes that may be dominant in a view, found for parts of it, in which directions vary
 * less. */
static inline int axes_of(const KernelModel *model, const KernelView *k)
{
	const int SIDE = 8;
	const double high = (double)(model->rows - 1) / SIDE,
		     wide = (double)(model->columns - 1) / SIDE;
	int axes = 0;
	for (int i = 0; i < SIDE * SIDE && axes != ALL; i++) {
		const int r = i / SIDE, c = i % SIDE;
		const Rectangle part = {{r * high, c * wide}, {(r + 1) * high, (c + 1) * wide}};
		for (int a = 0; a < 3; a++)
			axes |= may_be_dominant(k, &part, true, a) ? 1 << a : 0;
	}
	return axes;
}

/* Whether all views are point sources or parallel rays outside the box; the axes of their rays. */
static inline bool tiles_apply(const ProjectRequest *what, int *axes)
{
	const KernelModel *model = &what->plan->model;
	bool all = !model->planar && !model->clamp && model->rows * model->columns <= INT32_MAX;
	*axes = 0;
	for (int64_t i = 0; i < what->count && all; i++) {
		const KernelView *k = &what->plan->views[what->first + i];
		all = !KERNEL_FANS(k) && (!KERNEL_HAS_SOURCE(k) || is_in_front(what, k));
		*axes |= axes_of(model, k);
	}
	return all;
}

#endif
