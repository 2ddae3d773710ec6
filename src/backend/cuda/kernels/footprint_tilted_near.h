/* Separable footprints on detectors in any position: what a block sees of a view. */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_FOOTPRINT_TILTED_NEAR_H
#define TOMOS_BACKEND_CUDA_KERNELS_FOOTPRINT_TILTED_NEAR_H

#include "backend/cuda/kernels/footprint_blocks.h"
#include "backend/cuda/kernels/footprint_shares.h"

/* U, V or D: changes along the three axes of a block, and the constant. */
typedef struct {
	float x, y, z, w;
} Affine;

/* A view relative to the first voxel (corner) of a block and the first pixel of its tile, with
 * depths divided by that of the corner. */
typedef struct __align__(16)
{
	Affine u, v, d;
	Edges across, along;
	float away[3]; /* from the source to the corner, in units of length */
	float scale;
	float flush;       /* forward: a unit of the tile in units of the image */
	int row, column;   /* of the tile's first pixel */
	int rows, columns; /* of the tile */
	int pitch, shift;  /* of its rows; forward: see place_of_column */
	int kind;
}
Near;

/* Forward: whether the rows of a tile of several views are side by side. */
static __device__ __forceinline__ bool is_side_by_side(const Near &near)
{
	return near.kind >= SHARE_COUNT;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* Projection of a block, in pixels: range of centres; the least and the largest depth. */
typedef struct {
	double low[2], high[2], depth, far;
	SeenSpan span;
} Seen;

/* The changes of U or V and of D along the edges of a voxel. */
typedef struct {
	float f[3], d[3];
} Change;

static __device__ __forceinline__ Change change_of(const double f[4], const double d[4])
{
	return Change{
		{(float)f[0], (float)f[1], (float)f[2]}, {(float)d[0], (float)d[1], (float)d[2]}};
}

/* Adds the footprint at pixel p, where 1 / D is `rate`; c: 0 across columns, 1 along rows. */
static __device__ __forceinline__ void see_footprint(
	const Change &change, int column, int c, float p, float rate, SeenSpan *seen)
{
	const float by[3] = {fmaf(-p, change.d[0], change.f[0]), fmaf(-p, change.d[1], change.f[1]),
		fmaf(-p, change.d[2], change.f[2])};
	const float x = fabsf(by[0]), y = fabsf(by[1]), z = fabsf(by[2]);
	const float larger = fmaxf(x, y), one = fminf(x, y), two = fminf(larger, z),
		    wide = fmaxf(larger, z),
		    narrow = length_nearly(fmaf(one, one, fmaf(two, two, 1e-30f)));
	const float step = rate * (column == 2 ? by[2] : column == 1 ? by[1] : by[0]);
	seen->length[c] = fmaxf(seen->length[c], rate * (wide + fminf(narrow, wide)));
	seen->gap[c] = fminf(seen->gap[c], rate * (wide - narrow));
	seen->low[c] = fminf(seen->low[c], step);
	seen->high[c] = fmaxf(seen->high[c], step);
}

/* Adds a corner of the block at which U, V and D are these; column: axis of its columns. */
static __device__ __forceinline__ void see_corner(
	const double form[3], const Change change[2], int column, Seen *seen)
{
	const double rate = inverse_double(form[2]);
	seen->depth = fmin(seen->depth, form[2]);
	seen->far = fmax(seen->far, form[2]);
#pragma unroll
	for (int c = 0; c < 2; c++) {
		const double p = form[c] * rate;
		seen->low[c] = fmin(seen->low[c], p);
		seen->high[c] = fmax(seen->high[c], p);
		see_footprint(change[c], column, c, (float)p, (float)rate, &seen->span);
	}
}

/* Columns of voxels count as whole, also beyond the box. Loops are unrolled, so that nothing is in
 * local memory. */
static __device__ __forceinline__ Seen seen_by(
	const Footprints &s, const KernelView *k, const double corner[3])
{
	Seen seen = {{1e9, 1e9}, {-1e9, -1e9}, 1e300, 0,
		{{0, 0}, {1e9f, 1e9f}, {-1e9f, -1e9f}, {1e9f, 1e9f}}};
	const Change change[2] = {change_of(k->column, k->depth), change_of(k->row, k->depth)};
	const double *const forms[3] = {k->column, k->row, k->depth};
	double at[3], by[3][3];
#pragma unroll
	for (int f = 0; f < 3; f++)
		at[f] = affine(forms[f], corner);
#pragma unroll
	for (int j = 0; j < 3; j++) {
		const int a = s.axis[j];
		const double more = j == 2 ? s.size[j] - 1 : more_of(s, j, corner[a]);
#pragma unroll
		for (int f = 0; f < 3; f++)
			by[f][j] = more * forms[f][a];
	}
#pragma unroll
	for (int i = 0; i < 8; i++) { /* extremes are at the corners */
		double form[3];
#pragma unroll
		for (int f = 0; f < 3; f++)
			form[f] = at[f] + ((i & 1 ? by[f][0] : 0) + (i & 2 ? by[f][1] : 0)) +
				  (i & 4 ? by[f][2] : 0);
		see_corner(form, change, s.axis[2], &seen);
	}
	for (int c = 0; c < 2; c++) { /* rounding of float, and lengths between the corners */
		SeenSpan &span = seen.span;
		span.length[c] = fmaf(span.length[c], 1.0005f, 2e-5f);
		span.low[c] = span.low[c] - fmaf(fabsf(span.low[c]), 5e-4f, 2e-5f);
		span.high[c] = span.high[c] + fmaf(fabsf(span.high[c]), 5e-4f, 2e-5f);
		span.gap[c] = fmaf(span.gap[c], 0.9995f, -1e-4f);
	}
	return seen;
}

/* The axis along which the edge of a voxel appears longest at pixel p. */
static __device__ __forceinline__ int longest_edge(const double f[4], const double d[4], double p)
{
	const double x = fabs(f[0] - p * d[0]), y = fabs(f[1] - p * d[1]),
		     z = fabs(f[2] - p * d[2]);
	return z > fmax(x, y) ? 2 : y > x ? 1 : 0;
}

/* Whether that edge is longer than both others together at pixel p; sign: its sign. */
static __device__ __forceinline__ bool is_plain(
	const double f[4], const double d[4], double p, int longest, double *sign)
{
	const int b = (longest + 1) % 3, c = (longest + 2) % 3;
	const double edge = f[longest] - p * d[longest], y = f[b] - p * d[b], z = f[c] - p * d[c];
	const bool same = edge * *sign >= 0;
	*sign = edge;
	return same && (y * y + z * z) * 1.002 < edge * edge;
}

/* Whether shapes are plain between two pixels. */
static __device__ __forceinline__ bool are_plain(
	const double f[4], const double d[4], double low, double high, int longest)
{
	double sign = 0;
	return is_plain(f, d, low, longest, &sign) && is_plain(f, d, high, longest, &sign);
}

/* The largest share of a pixel in a voxel, along one coordinate, in which shapes are plain between
 * two pixels. */
static __device__ __forceinline__ double largest_share(
	const double f[4], const double d[4], double low, double high, int longest, double far)
{
	const double edge =
		fmin(fabs(f[longest] - low * d[longest]), fabs(f[longest] - high * d[longest]));
	return far / fmax(edge, far);
}

/* pixel: that which positions are relative to. */
static __device__ __forceinline__ Edges edges_of(
	const double f[4], const KernelView *k, int longest, double pixel, double rate)
{
	Edges to;
#pragma unroll
	for (int i = 0; i < 3; i++) {
		const int a = (longest + i) % 3;
		to.f[i] = (float)(0.5 * rate * (f[a] - pixel * k->depth[a]));
		to.d[i] = (float)(0.5 * rate * k->depth[a]);
	}
	return to;
}

static __device__ __forceinline__ Affine affine_of(const Footprints &s, const double f[4],
	const KernelView *k, const double at[3], double pixel, double rate)
{
	const int a = s.axis[0], b = s.axis[1], c = s.axis[2];
	return Affine{(float)((f[a] - pixel * k->depth[a]) * rate),
		(float)((f[b] - pixel * k->depth[b]) * rate),
		(float)((f[c] - pixel * k->depth[c]) * rate),
		(float)((affine(f, at) - pixel * affine(k->depth, at)) * rate)};
}

/* Factor of all voxels of a view, where depths are divided by 1 / rate; by four, since shapes have
 * halves of boxes. */
static __device__ __forceinline__ float scale_of(int weighting, const KernelView *k, double rate)
{
	const double weight = weighting == WEIGHT_DEPTH ? rate * rate
			      : weighting != WEIGHT_RAY ? 1
			      : KERNEL_HAS_SOURCE(k)    ? k->mass * rate * rate * rate
							: k->mass;
	return (float)(0.25 * weight);
}

/* The first of the pixels whose shares are computed, for a centre at p; reach: half the length of a
 * footprint. */
static __device__ double first_share(int kind, int c, double p, double reach)
{
	const int n = share_pixels(kind, c);
	if (kind == LOOP)
		return rint(fmin(fmax(p - reach, -1e6), 1e6));
	return rint(fmin(fmax(p, -1e6), 1e6) - (n % 2 ? 0 : 0.5)) - (n - 1) / 2;
}

/* Whether there is memory for a tile of this size; forward, tiles of spans have rows of
 * span_pitch. */
static __device__ __forceinline__ bool has_tile(
	const Footprints &s, int kind, const double size[2], int pitch)
{
	const bool spans = s.tile_area > 0 && kind >= SHARE_COUNT;
	const double most = spans ? span_pitch(kind_size(kind).step) : pitch,
		     columns = spans ? most : size[0];
	return size[1] <= s.tile_rows && size[0] <= most &&
	       (s.tile_area == 0 || columns * size[1] <= s.tile_area);
}

/* Rows and columns of the tile, and whether the block meets the view. each: columns of a tile begin
 * at its multiples, a power of two. */
static __device__ void set_tile(const Footprints &s, const Seen &seen, int pitch, int each, Near *v)
{
	const KindSize span = kind_size(v->kind);
	double first[2], size[2];
	for (int c = 0; c < 2; c++) {
		/* The window of a voxel is about the middle of its span. */
		const double more = 1e-3 + 0.5 * span_more(span.voxels, c ? span.step : 0,
							 seen.span.low[c], seen.span.high[c]);
		const double reach = 0.51 * seen.span.length[c]; /* more between corners */
		first[c] = first_share(v->kind, c, seen.low[c] - more, reach);
		if (c == 0)
			first[c] = (double)((int)first[c] & -each);
		double end = first_share(v->kind, c, seen.high[c] + more, -reach);
		/* Footprints of any size end at the detector or within a group of columns. */
		if (v->kind == LOOP) {
			first[c] = fmax(first[c], 0.);
			end = fmin(end, (double)((c ? s.rows : s.columns) - 1));
		}
		size[c] = fmax(end - first[c], 0.) +
			  (v->kind == LOOP ? (int)GROUP : share_pixels(v->kind, c));
	}
	v->columns = (int)fmin(size[0], (double)pitch);
	v->rows = (int)fmin(size[1], (double)s.tile_rows);
	v->pitch = pitch;
	if (!has_tile(s, v->kind, size, pitch) || !(seen.depth > 0))
		v->kind = DIRECT;
	/* Columns of voxels that end beside the source may be seen from far outside the detector;
	 * floats relative to such a pixel would have too few digits. */
	v->column = (int)(v->kind < 0 ? seen_position(first[0], s.columns) : first[0]);
	v->row = (int)(v->kind < 0 ? seen_position(first[1], s.rows) : first[1]);
	const double reach[2] = {0.5 * seen.span.length[0] + 0.5, 0.5 * seen.span.length[1] + 0.5};
	if (seen.depth > 0 &&
		(seen.high[0] + reach[0] < 0 || seen.low[0] - reach[0] > s.columns - 1 ||
			seen.high[1] + reach[1] < 0 || seen.low[1] - reach[1] > s.rows - 1))
		v->kind = UNSEEN;
}

/* first: the corner, from the first voxel of the box. Returns the largest share of a pixel in a
 * voxel. */
static __device__ __noinline__ float near_block(
	const Footprints &s, const KernelView *k, const int first[3], int pitch, int each, Near *to)
{
	const double at[3] = {(double)(s.low[0] + first[0]), (double)(s.low[1] + first[1]),
		(double)(s.low[2] + first[2])};
	const Seen seen = seen_by(s, k, at);
	const double rate = inverse_double(affine(k->depth, at));
	const int across = longest_edge(k->column, k->depth, 0.5 * (seen.low[0] + seen.high[0])),
		  along = longest_edge(k->row, k->depth, 0.5 * (seen.low[1] + seen.high[1]));
	Near v = {.scale = scale_of(s.weighting, k, rate)};
	const bool plain[2] = {are_plain(k->column, k->depth, seen.low[0], seen.high[0], across),
		are_plain(k->row, k->depth, seen.low[1], seen.high[1], along)};
	const bool forward = s.tile_area > 0, several = forward && has_images(s);
	const SpanChoice choice = {!several, several, forward};
	v.kind = plain[0] && plain[1] ? span_kind(seen.span, choice) : DIRECT;
	if (v.kind >= 0)
		set_tile(s, seen, pitch, each, &v);
	if (v.kind == DIRECT) {
		v.kind = share_kind(seen.span.length[0], seen.span.length[1], plain[0], plain[1]);
		if (forward && s.large && v.kind >= FORWARD_SHARES)
			v.kind = LOOP;
		set_tile(s, seen, pitch, each, &v);
	}
	v.across = edges_of(k->column, k, across, v.column, rate);
	v.along = edges_of(k->row, k, along, v.row, rate);
	v.u = affine_of(s, k->column, k, at, v.column, rate);
	v.v = affine_of(s, k->row, k, at, v.row, rate);
	v.d = Affine{(float)(k->depth[s.axis[0]] * rate), (float)(k->depth[s.axis[1]] * rate),
		(float)(k->depth[s.axis[2]] * rate), 1};
	for (int i = 0; i < 3; i++)
		v.away[i] = (float)((at[s.axis[i]] - k->src[s.axis[i]]) * s.step[i]);
	*to = v;
	double share = 1;
	if (plain[0])
		share *= largest_share(
			k->column, k->depth, seen.low[0], seen.high[0], across, seen.far);
	if (plain[1])
		share *=
			largest_share(k->row, k->depth, seen.low[1], seen.high[1], along, seen.far);
	return (float)share;
}

#endif
