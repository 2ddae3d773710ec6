/* Stored matrices as devices have them: products with CSR and SCSR, and rows one by one.
 *
 * op/scsr/scsr.h says what SCSR is. A device has rectangles of the image as slabs, so small that groups of threads
 * have all images of one at hand, and in each the pieces of rays one by one, not in pairs; and lists of waves,
 * the pieces of one view and slab that share no pixel, which may be added at once.
 */
#ifndef TOMOS_KERNEL_STORED_H
#define TOMOS_KERNEL_STORED_H

#include "kernel/portable.h"

/* A weight to the power 0, 1 or 2. */
KERNEL_FN float stored_raised(float weight, int power)
{
	return power == 1 ? weight : power == 2 ? weight * weight : weight != 0 ? 1 : 0;
}

/* ---- rows listed by a device ----------------------------------------------------------------- */

/* `most` places for each of `count` rows. */
typedef struct {
	int64_t count, most;
	KERNEL_GLOBAL const int64_t *ray; /* which they are */
	KERNEL_GLOBAL int64_t *index, *entries;
	KERNEL_GLOBAL float *weight;
} KernelBatch;

/* Entry k of row i, by the weight of its ray and that of its voxel; NULL: 1. */
KERNEL_FN void batch_weigh(const KernelBatch *batch, int64_t i, int64_t k,
	KERNEL_GLOBAL const float *rays, KERNEL_GLOBAL const float *voxels)
{
	int64_t at = i * batch->most + k;
	if (rays)
		batch->weight[at] *= rays[batch->ray[i]];
	if (voxels)
		batch->weight[at] *= voxels[batch->index[at]];
}

/* ---- compressed rows ------------------------------------------------------------------------- */

typedef struct {
	int64_t rows, columns, view_rows;
	int wide_pointers, wide_indices; /* 8 bytes each, else 4 */
	KERNEL_GLOBAL const void *pointers, *indices;
	KERNEL_GLOBAL const float *values;
	KERNEL_GLOBAL const int64_t *views; /* of a part; NULL: all */
} KernelCsr;

KERNEL_FN int64_t stored_at(KERNEL_GLOBAL const void *array, int wide, int64_t i)
{
	return wide ? ((KERNEL_GLOBAL const int64_t *)array)[i]
		    : ((KERNEL_GLOBAL const int *)array)[i];
}

/* Where row r begins, and where it ends. */
KERNEL_FN int64_t csr_bounds(const KernelCsr *m, int64_t r, int64_t *end)
{
	int64_t row = m->views ? m->views[r / m->view_rows] * m->view_rows + r % m->view_rows : r;
	*end = stored_at(m->pointers, m->wide_pointers, row + 1);
	return stored_at(m->pointers, m->wide_pointers, row);
}

/* Row r times x: what entries `lane`, `lane` + lanes, ... add to it. */
KERNEL_FN double csr_sum(
	const KernelCsr *m, int64_t r, int power, KERNEL_GLOBAL const float *x, int lane, int lanes)
{
	double sum = 0;
	int64_t end, i = csr_bounds(m, r, &end) + lane;
	for (; i < end; i += lanes)
		sum += (double)stored_raised(m->values[i], power) *
		       x[stored_at(m->indices, m->wide_indices, i)];
	return sum;
}

KERNEL_FN void csr_spread(const KernelCsr *m, int64_t r, int power, float value,
	KERNEL_GLOBAL float *x, int lane, int lanes)
{
	int64_t end, i = csr_bounds(m, r, &end) + lane;
	for (; i < end; i += lanes)
		KERNEL_ADD(&x[stored_at(m->indices, m->wide_indices, i)],
			stored_raised(m->values[i], power) * value);
}

/* Entries of a voxel that is named twice, as matrices from files may have it, are added in the first
 * place; the others are zeros. */
KERNEL_FN void csr_list(
	const KernelCsr *m, const KernelBatch *batch, int64_t i, int lane, int lanes)
{
	int64_t end, begin = csr_bounds(m, batch->ray[i], &end);
	for (int64_t k = lane; k < end - begin; k += lanes) {
		int64_t at = begin + k, index = stored_at(m->indices, m->wide_indices, at);
		int again = k > 0 && stored_at(m->indices, m->wide_indices, at - 1) == index;
		float weight = again ? 0 : m->values[at];
		for (at++;
			!again && at < end && stored_at(m->indices, m->wide_indices, at) == index;
			at++)
			weight += m->values[at];
		batch->index[i * batch->most + k] = index;
		batch->weight[i * batch->most + k] = weight;
	}
	if (lane == 0)
		batch->entries[i] = end - begin;
}

/* ---- symmetric compressed rows --------------------------------------------------------------- */

enum { STORED_LANES = 8, STORED_BUNDLE = 16, STORED_STEP = 4, STORED_PIXELS = 1 << 16 };

/* What a stored row has in one slab: whole bundles of entries, of which the last is filled up with weights 0.
 * Entry e of a bundle lies at place stored_place(e), so that STORED_STEP entries in a row are STORED_STEP
 * places apart: threads that walk them together read neighbours of their own. */
typedef struct {
	int64_t bundle;
	int bundles, column; /* column: of the view */
} KernelPiece;

/* Where a stored row has a piece. */
typedef struct {
	int piece, slab;
} KernelPlace;

/* Bundles of one view and slab whose pieces share no pixel; `slot`: that of the view's rows in use. */
typedef struct {
	int64_t bundle;
	int bundles, slot;
} KernelWave;

/* Some views in a slab: what one group of threads does. Pieces and waves as they are used. */
typedef struct {
	int64_t slab, image; /* image: where its part of the result is, for the adjoint */
	int64_t piece, piece_end, wave, wave_end;
} KernelUnit;

/* Where a symmetry takes pixel (x, y): to index origin + x along_x + y along_y. */
typedef struct {
	int64_t origin, along_x, along_y;
} KernelSymmetry;

/* A stored view: the views that its rays are under each symmetry, or -1; bits: the columns in reverse;
 * the target of a lane before, the other way round. */
typedef struct {
	int64_t number, columns, first, slot, target[STORED_LANES];
	int flip, again;
} KernelOrbit;

typedef struct {
	int64_t nx, ny, slabs, across; /* across: slabs side by side */
	int64_t width, height;         /* of a slab, both even */
	int64_t view_columns;
	int64_t used, units; /* orbits of a part */
	int64_t lanes;       /* symmetries */
	KernelSymmetry symmetry[STORED_LANES];
	int64_t inverse[STORED_LANES];
} KernelSlabs;

typedef struct {
	KernelSlabs of;
	KERNEL_GLOBAL const unsigned short *index; /* pixel of the slab, as slab_pixel has it */
	KERNEL_GLOBAL const float *weight;
	KERNEL_GLOBAL const int *column; /* of each bundle */
	KERNEL_GLOBAL const KernelPiece *pieces;
	KERNEL_GLOBAL const KernelPlace *places;
	KERNEL_GLOBAL const int64_t *first_place; /* of each stored row, and one more */
	KERNEL_GLOBAL const KernelOrbit *orbit;   /* in use */
	KERNEL_GLOBAL const int64_t
		*lane_of; /* [view][2]: orbit * STORED_LANES + symmetry, or -1 */
	KERNEL_GLOBAL const KernelUnit *units; /* in use, and their pieces and waves */
	KERNEL_GLOBAL const int *used_pieces;
	KERNEL_GLOBAL const KernelWave *waves;
	KERNEL_GLOBAL const int64_t *first_image; /* of each slab, and one more */
	KERNEL_GLOBAL float *image;               /* [image][lane][slab_plane] */
	KERNEL_GLOBAL float *work;                /* [piece][lane]; back: [row in use][lane] */
} KernelScsr;

KERNEL_FN int stored_place(int entry)
{
	return entry % STORED_STEP * (STORED_BUNDLE / STORED_STEP) + entry / STORED_STEP;
}

/* Squares of two by two, which rays go through side by side: four entries in a row are then seldom two
 * with the same place in their squares. */
KERNEL_FN int slab_pixel(const KernelSlabs *of, int x, int y)
{
	return (y / 2 * ((int)of->width / 2) + x / 2) * 4 + y % 2 * 2 + x % 2;
}

KERNEL_FN int slab_x(const KernelSlabs *of, int pixel)
{
	return pixel / 4 % ((int)of->width / 2) * 2 + pixel % 2;
}

KERNEL_FN int slab_y(const KernelSlabs *of, int pixel)
{
	return pixel / 4 / ((int)of->width / 2) * 2 + pixel / 2 % 2;
}

/* Whether a symmetry makes rows of columns. */
KERNEL_FN int slab_turned(const KernelSlabs *of, int g)
{
	return of->symmetry[g].along_x != 1 && of->symmetry[g].along_x != -1;
}

/* Where pixel (x, y) of a slab is in its image under symmetry g: neighbours in the rows of the whole image
 * are neighbours there. */
KERNEL_FN int64_t slab_plane(const KernelSlabs *of, int64_t x, int64_t y, int g)
{
	return of->width * of->height * g +
	       (slab_turned(of, g) ? x * of->height + y : y * of->width + x);
}

/* Where symmetry g takes pixel (x, y) of a slab; -1: there is no such pixel. */
KERNEL_FN int64_t slab_target(const KernelSlabs *of, int64_t slab, int64_t x, int64_t y, int64_t g)
{
	x += slab % of->across * of->width;
	y += slab / of->across * of->height;
	if (x >= of->nx || y >= of->ny)
		return -1;
	return of->symmetry[g].origin + x * of->symmetry[g].along_x + y * of->symmetry[g].along_y;
}

/* Pixel (x, y) of the result is the sum of lane g of the pixel that g takes there. Pixels are counted in 32
 * bits, in which divisions are quicker. */
KERNEL_FN float scsr_collect(const KernelScsr *m, int64_t x, int64_t y)
{
	float sum = 0;
	for (int g = 0; g < m->of.lanes; g++) {
		const KernelSymmetry *s = &m->of.symmetry[m->of.inverse[g]];
		unsigned at = (unsigned)(s->origin + x * s->along_x + y * s->along_y);
		unsigned there_y = at / (unsigned)m->of.nx,
			 there_x = at - there_y * (unsigned)m->of.nx;
		unsigned down = there_y / (unsigned)m->of.height,
			 aside = there_x / (unsigned)m->of.width;
		int64_t slab = down * m->of.across + aside;
		int64_t plane = slab_plane(
			&m->of, there_x - aside * m->of.width, there_y - down * m->of.height, g);
		for (int64_t i = m->first_image[slab]; i < m->first_image[slab + 1]; i++)
			sum += m->image[i * m->of.width * m->of.height * m->of.lanes + plane];
	}
	return sum;
}

/* Where lane g of a stored row lies among all rows, or -1. The middle column of a view that is its own
 * mirror image is met twice, and counts once. */
KERNEL_FN int64_t scsr_lane_row(
	const KernelScsr *m, KERNEL_GLOBAL const KernelOrbit *orbit, int64_t column, int g)
{
	int64_t mirror = m->of.view_columns - 1 - column;
	if (orbit->target[g] < 0 || (column == mirror && (orbit->again >> g & 1)))
		return -1;
	return orbit->target[g] * m->of.view_columns + (orbit->flip >> g & 1 ? mirror : column);
}

/* Lane g of a stored row, in all slabs. */
KERNEL_FN float scsr_total(const KernelScsr *m, int64_t row, int g)
{
	double sum = 0;
	for (int64_t i = m->first_place[row]; i < m->first_place[row + 1]; i++)
		sum += m->work[m->places[i].piece * m->of.lanes + g];
	return (float)sum;
}

/* Appends what the stored row has in one slab, as symmetry g sees it. */
KERNEL_FN int64_t scsr_list_piece(const KernelScsr *m, KernelPlace place, int64_t g, int64_t count,
	KERNEL_GLOBAL int64_t *index, KERNEL_GLOBAL float *weight)
{
	const KernelPiece piece = m->pieces[place.piece];
	int64_t from = piece.bundle * STORED_BUNDLE;
	for (int64_t at = from; at < from + piece.bundles * STORED_BUNDLE; at++) {
		if (m->weight[at] == 0)
			continue;
		index[count] = slab_target(&m->of, place.slab, slab_x(&m->of, m->index[at]),
			slab_y(&m->of, m->index[at]), g);
		weight[count++] = m->weight[at];
	}
	return count;
}

KERNEL_FN void scsr_list(const KernelScsr *m, const KernelBatch *batch, int64_t i)
{
	int64_t view = batch->ray[i] / m->of.view_columns,
		column = batch->ray[i] % m->of.view_columns;
	int64_t lane = m->lane_of[2 * view], count = 0;
	KERNEL_GLOBAL const KernelOrbit *orbit = &m->orbit[(lane < 0 ? 0 : lane) / STORED_LANES];
	if (lane < 0 || column >= orbit->columns) {
		lane = m->lane_of[2 * view + 1];
		orbit = &m->orbit[lane / STORED_LANES];
		column = m->of.view_columns - 1 - column;
	}
	int64_t row = orbit->first + column;
	for (int64_t k = m->first_place[row]; k < m->first_place[row + 1]; k++)
		count = scsr_list_piece(m, m->places[k], lane % STORED_LANES, count,
			batch->index + i * batch->most, batch->weight + i * batch->most);
	batch->entries[i] = count;
}

/* ---- Kaczmarz's method ----------------------------------------------------------------------- */

/* x += lambda (b_i - a_i'x) / ||a_i||^2 a_i for the rows of a batch, one after the other; r_i is the
 * misfit before. The squares are no less than `least`. */
typedef struct {
	KERNEL_GLOBAL const float *b, *squares;
	KERNEL_GLOBAL float *r, *x;
	double lambda, least;
	float low, high;
} KernelKaczmarz;

/* The step along row i of the batch, whose product with x is known. */
KERNEL_FN float kaczmarz_step(const KernelKaczmarz *v, int64_t ray, double product)
{
	double misfit = v->b[ray] - product, square = v->squares[ray];
	return square > 0 ? (float)(v->lambda * (float)misfit / fmax(square, v->least)) : 0;
}

/* All rays of a view at once, and yet one after the other: with all products taken before the first is used,
 * that of ray i is later off by what the `near` rays before it have added, their steps times the products of
 * the two rows, of which ray j's with ray i lies at [j modulo 2 near + 1][i]. */
enum { STORED_NEIGHBOURS = 8 /* at most */ };

typedef struct {
	int64_t rays, near;
	KERNEL_GLOBAL const float *b, *squares, *products;
	KERNEL_GLOBAL float *r, *steps; /* r: the product, then the misfit */
	double lambda, least;
} KernelKaczmarzView;

KERNEL_FN void kaczmarz_view_ray(const KernelKaczmarzView *s, int64_t i)
{
	double product = s->r[i], square = s->squares[i];
	for (int64_t j = i < s->near ? 0 : i - s->near; j < i; j++)
		product += (double)s->steps[j] * s->products[j % (2 * s->near + 1) * s->rays + i];
	float misfit = (float)(s->b[i] - product);
	s->r[i] = misfit;
	s->steps[i] = square > 0 ? (float)(s->lambda * misfit / fmax(square, s->least)) : 0;
}

/* A voxel of weight 0 is masked, or named twice. */
KERNEL_FN void kaczmarz_update(const KernelKaczmarz *v, int64_t index, float weight, float step)
{
	float moved = v->x[index] + step * weight;
	moved = moved > v->low ? moved : v->low;
	if (weight != 0)
		v->x[index] = moved < v->high ? moved : v->high;
}

#endif
