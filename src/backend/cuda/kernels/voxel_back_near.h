/* Voxel-driven back projection by blocks of voxel columns: how a block reads a view.
 *
 * A block has SIDE x SIDE columns of COLUMN voxels along z. The part of a view that it needs is a
 * tile in shared memory, if that is large enough. A Pixel of an image has 8, 16 or 32 bytes.
 */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_VOXEL_BACK_NEAR_H
#define TOMOS_BACKEND_CUDA_KERNELS_VOXEL_BACK_NEAR_H

#include "backend/cuda/kernels/affine.h"
#include "backend/cuda/kernels/points.h"
#include "kernel/voxel.h"

enum {
	SIDE = 16,
	COLUMN = 16,
	TILE = 32,         /* rows and columns of a tile */
	MOST = 64,         /* most rows or columns of a tile that is wider or higher than that */
	BORDER = MOST + 2, /* rows and columns of zeros around an image */
	THREADS = SIDE * SIDE,
	WARPS = THREADS / 32
};

/* The same where the magnification varies much: as large as the blocks of an SM allow. HUGE_TILE:
 * for voxels of about two pixels. */
template <class Pixel> constexpr int LARGE_TILE = sizeof(Pixel) == 16 ? 36 : 34;
enum { HUGE_TILE = 52 };

/* How a block reads a view. From a tile: spans of voxels (points.h); single voxels of upright
 * columns; voxels of columns that drift across detector columns, at level or sloping depth; the
 * same with an exact weight of each voxel, since the source is close. From the image, because the
 * tile is too small; the same with positions in double, since the block is so close to the source
 * that it is more than MOST pixels wide. Not at all, because the block is not seen. */
enum {
	SPANS_OF_8,
	SPANS_OF_4,
	SINGLE,
	LEVEL,
	SLOPED,
	CLOSE,
	FROM_IMAGE = -1,
	IN_DOUBLE = -2,
	UNSEEN = -3
};

/* A tile has the two halves of pixels of 32 bytes in two planes: side by side they would be read
 * with bank conflicts, since only every second 16 bytes are read at once. CELL: bytes of a pixel in
 * a plane. */
template <class Pixel> constexpr int CELL = sizeof(Pixel) > 16 ? 16 : (int)sizeof(Pixel);

/* Row pitch of a tile, in pixels: neighbouring rows are half of the banks apart. With this, and
 * threads placed as in place_of, few concurrent reads have bank conflicts. */
template <class Pixel, int SIZE> constexpr int PITCH = SIZE + 64 / CELL<Pixel>;

/* Bytes from plane to plane. */
template <class Pixel, int SIZE> constexpr int PLANE = SIZE *PITCH<Pixel, SIZE> *CELL<Pixel>;

/* The same for single voxels, where the tile may be wider and lower. */
template <class Pixel> static __host__ __device__ __forceinline__ int pitch_of(int columns)
{
	const int half = 64 / CELL<Pixel>;
	return (columns + half - 1) / (2 * half) * (2 * half) + half;
}

/* Pixels that shared memory reads at once, if they are in different banks. */
template <class Pixel> constexpr int BANKS = 128 / CELL<Pixel>;

/* Column of voxels (x, y) of a thread: 8 or 16 neighbouring threads are a rectangle, a warp is 8
 * x 4. */
static __device__ __forceinline__ int2 place_of(int thread)
{
	const int lane = thread % 32, warp = thread / 32;
	return make_int2(lane % 4 + lane / 16 * 4 + warp % 2 * 8, lane / 4 % 4 + warp / 2 * 4);
}

/* A view relative to the first voxel (corner) of a block. The voxel at (dx, dy) from the corner
 * has depth D = df + da dx + db dy. Its projection, relative to the tile's first pixel or the
 * centre of four pixels in the middle, is (column, row) = (U, V) / D = (uf + ua dx + ub dy, vf + va
 * dx + vb dy) / D. Per voxel along z, U, V and D increase by uc, vc and dc; uc and dc are 0 for
 * upright columns. */
typedef struct __align__(16) /* four numbers per load */
{
	float uf, ua, ub, uc, vf, va, vb, vc, df, da, db, dc, weight;
	float away[3];     /* from the source to the corner, in units of length */
	int kind;          /* SPANS_OF_8 .. UNSEEN */
	int from;          /* index of the tile's first pixel in the image */
	int columns, rows; /* columns and rows of the tile that are needed */
	int pitch;         /* row pitch of the tile */
	int column, row;   /* of the image, the pixel that positions are relative to */
	int origin;        /* index of that pixel in the tile; IN_DOUBLE: of the view */
}
Near;

typedef struct {
	const KernelView *views;
	int64_t count;
	int64_t part;  /* number of views to the mirrored ones; 0: none */
	int weighting; /* WEIGHT_NONE, WEIGHT_DEPTH or WEIGHT_RAY */
	int64_t low[3];
	float step[3];
	int n[3];
	const void *images; /* Pixel [view][lines][pitch], with borders of zeros */
	int *residues;      /* of each view: row pitch of a tile modulo BANKS; NULL: pitch_of */
	int lines, pitch;
	float *volume;
	VoxelUpdate update;
} Tiles;

/* First row or column of a tile, clamped to the image; this moves only tiles whose pixels are
 * all zero. */
static __device__ int within(double first, int size, int tile)
{
	return (int)fmin(fmax(first, 0.0), (double)(size - tile));
}

/* The projection of a block: pixels, rows per voxel along z, least depth. */
typedef struct {
	double column, right, row, top, slow, fast, least;
} Extent;

/* Extremes are at the corners, unless a part of the block is behind the source. */
template <bool TILTED>
static __device__ __forceinline__ Extent extent_of(
	const KernelView *k, double x, double y, double z)
{
	Extent e = {1e9, -1e9, 1e9, -1e9, 1e9, -1e9, 1e300};
	for (int corner = 0; corner < (TILTED ? 8 : 4); corner++) {
		double cx = x + (corner & 1 ? SIDE - 1 : 0), cy = y + (corner & 2 ? SIDE - 1 : 0);
		double cz = z + (corner & 4 ? COLUMN - 1 : 0), depth = affine(k->depth, cx, cy, cz);
		double rate = 1 / depth, climb = TILTED ? 0 : k->row[2] * rate;
		double across = affine(k->column, cx, cy, cz) * rate;
		double first = affine(k->row, cx, cy, cz) * rate;
		e.column = fmin(e.column, across);
		e.right = fmax(e.right, across);
		e.row = fmin(e.row, first);
		e.top = fmax(e.top, first + (COLUMN - 1) * climb);
		e.slow = fmin(e.slow, climb);
		e.fast = fmax(e.fast, climb);
		e.least = fmin(e.least, depth);
	}
	return e;
}

/* For upright columns; adds the rows that spans read below the first and above the last voxel. */
static __device__ __forceinline__ int upright_kind(Extent *e)
{
	const float low = (float)e->slow, high = (float)e->fast;
	const int kind = Points<8, 2, 2>::fit(low, high)   ? SPANS_OF_8
			 : Points<4, 2, 2>::fit(low, high) ? SPANS_OF_4
							   : SINGLE;
	const double span = kind == SPANS_OF_8 ? 7 : kind == SPANS_OF_4 ? 3 : 0;
	e->row += fmin(0.0, span * (e->slow - 1));
	/* At least one row more than the corners need: between them rows can be slightly higher. */
	e->top += kind == SINGLE ? 1 : 2 + fmax(0.0, span * (1 - e->slow));
	return kind;
}

/* Treating a slope of the depth as level may move projections by RAY_TOLERANCE. */
static __device__ __forceinline__ int tilted_kind(const KernelView *k, const Extent *e)
{
	const double slope = fabs(k->depth[2]) * COLUMN / e->least;
	return !(e->least > 1e-6)             ? IN_DOUBLE
	       : slope * MOST < RAY_TOLERANCE ? LEVEL
	       : slope < 0.02                 ? SLOPED
					      : CLOSE;
}

/* Whether a block is closer to the source than `limit` voxels, and the weight depends on that. */
static __device__ __forceinline__ bool is_close(const Tiles *s, const Near *near, float limit)
{
	float square = 0;
	for (int a = 0; a < 3; a++) {
		const float away = fabsf(near->away[a]) - SIDE * fabsf(s->step[a]);
		square += away > 0 ? away * away : 0;
	}
	return s->weighting == WEIGHT_RAY && square < limit * limit * s->step[2] * s->step[2];
}

static __device__ __forceinline__ double limited(double value, double low, double high)
{
	return fmin(fmax(value, low), high);
}

/* Sets the affine functions, relative to a pixel. */
static __device__ __forceinline__ void set_affine(
	const KernelView *k, double x, double y, double z, double column, double row, Near *near)
{
	const double depth = affine(k->depth, x, y, z);
	near->uf = (float)(affine(k->column, x, y, z) - column * depth);
	near->ua = (float)(k->column[0] - column * k->depth[0]);
	near->ub = (float)(k->column[1] - column * k->depth[1]);
	near->uc = (float)(k->column[2] - column * k->depth[2]);
	near->vf = (float)(affine(k->row, x, y, z) - row * depth);
	near->va = (float)(k->row[0] - row * k->depth[0]);
	near->vb = (float)(k->row[1] - row * k->depth[1]);
	near->vc = (float)(k->row[2] - row * k->depth[2]);
	near->df = (float)depth;
	near->da = (float)k->depth[0];
	near->db = (float)k->depth[1];
	near->dc = (float)k->depth[2];
}

/* SKIP: views that do not see the block are marked. */
template <class Pixel, int SIZE, bool SKIP, bool TILTED>
static __device__ __forceinline__ Near near_block(
	const Tiles *s, const KernelView *k, int x0, int y0, int z0)
{
	const double x = (double)(s->low[0] + x0), y = (double)(s->low[1] + y0),
		     z = (double)(s->low[2] + z0);
	Extent e = extent_of<TILTED>(k, x, y, z);
	int kind = TILTED ? tilted_kind(k, &e) : upright_kind(&e);
	const bool all = kind != IN_DOUBLE; /* the extent is that of the whole block */
	double column =
		floor(limited(e.column, -1e6, 1e6) / 2 - 1e-3) * 2; /* 16 bytes: two pixels */
	double row = floor(limited(e.row, -1e6, 1e6) - 1e-3);
	Near near = {.weight = s->weighting == WEIGHT_RAY ? (float)k->mass : 1,
		.away = {(float)((x - k->src[0]) * s->step[0]),
			(float)((y - k->src[1]) * s->step[1]),
			(float)((z - k->src[2]) * s->step[2])},
		.from = within(row + BORDER, s->lines, MOST) * s->pitch +
			within(column + BORDER, s->pitch, MOST),
		.columns = (int)limited(e.right - column + 2.01, 0, 1e4),
		.rows = (int)limited(e.top - row + 2.01, 0, 1e4),
		.pitch = PITCH<Pixel, SIZE>};
	if (TILTED || kind == SINGLE || near.columns > SIZE || near.rows > SIZE) {
		kind = TILTED ? kind : SINGLE;
		near.pitch = pitch_of<Pixel>(near.columns);
		if (TILTED && s->residues)
			near.pitch = near.columns + ((s->residues[k - s->views] - near.columns) &
							    (BANKS<Pixel> - 1));
	}
	if (!all || near.rows > MOST || near.columns > MOST)
		kind = IN_DOUBLE;
	else if (near.rows * near.pitch > SIZE * PITCH<Pixel, SIZE>)
		kind = FROM_IMAGE;
	else if (SIZE != TILE && kind >= 0 && is_close(s, &near, 200)) /* see weights_of */
		kind = CLOSE;
	if (SKIP && all &&
		(e.right < -1 || column > (double)(s->pitch - 2 * BORDER) || e.top < -1 ||
			row > (double)(s->lines - 2 * BORDER)))
		kind = UNSEEN;
	const bool drifts = kind == FROM_IMAGE || kind > SINGLE;
	if (drifts) { /* float positions are more accurate */
		column += near.columns / 2;
		row += near.rows / 2;
		near.origin = near.rows / 2 * near.pitch + near.columns / 2;
	}
	if (kind == FROM_IMAGE) {
		column = limited(column, -2, s->pitch - 2 * BORDER);
		row = limited(row, -2, s->lines - 2 * BORDER);
	} else if (kind == IN_DOUBLE) {
		near.origin = (int)(k - s->views);
	}
	near.kind = kind;
	near.column = (int)column + BORDER;
	near.row = (int)row + BORDER;
	const double centre = drifts ? 0.5 : 0; /* of four pixels */
	set_affine(k, x, y, z, column + centre, row + centre, &near);
	return near;
}

#endif
