/* Stored matrices on a device: products with CSR and SCSR, and single rows.
 *
 * op/scsr/scsr.h explains SCSR. On a device, slabs are rectangles of the image, small enough for
 * the shared memory of one group of threads, and the pieces of rays are stored one by one instead
 * of in pairs. Waves are pieces of one view and slab that have no pixel in common, so they can be
 * added concurrently.
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

/* `count` matrix rows with space for `most` entries each. */
typedef struct {
	int64_t count, most;
	KERNEL_GLOBAL const int64_t *ray; /* ray of each row */
	KERNEL_GLOBAL int64_t *index, *entries;
	KERNEL_GLOBAL float *weight;
} KernelBatch;

/* Multiplies entry k of row i by the weights of its ray and its voxel; NULL: 1. */
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
	KERNEL_GLOBAL const int64_t *views; /* of a subset; NULL: all */
} KernelCsr;

KERNEL_FN int64_t stored_at(KERNEL_GLOBAL const void *array, int wide, int64_t i)
{
	return wide ? ((KERNEL_GLOBAL const int64_t *)array)[i]
		    : ((KERNEL_GLOBAL const int *)array)[i];
}

/* First entry of row r, and the end. */
KERNEL_FN int64_t csr_bounds(const KernelCsr *m, int64_t r, int64_t *end)
{
	int64_t row = m->views ? m->views[r / m->view_rows] * m->view_rows + r % m->view_rows : r;
	*end = stored_at(m->pointers, m->wide_pointers, row + 1);
	return stored_at(m->pointers, m->wide_pointers, row);
}

/* Row r times x, summed over entries `lane`, `lane` + lanes, ... */
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

/* Matrices read from files may have several entries for one voxel: the first gets their sum, the
 * others 0. */
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

/* The entries of a stored row in one slab, in whole bundles; the last is padded with weights 0.
 * Entry e of a bundle is stored at stored_place(e), so that STORED_STEP consecutive entries are
 * STORED_STEP places apart and threads that walk them together read neighbouring addresses. */
typedef struct {
	int64_t bundle;
	int bundles, column; /* column: of the view */
} KernelPiece;

/* Where to find a piece of a stored row. */
typedef struct {
	int piece, slab;
} KernelPlace;

/* Bundles of one view and slab whose pieces have no pixel in common. `slot`: of the view among
 * those in use. */
typedef struct {
	int64_t bundle;
	int bundles, slot;
} KernelWave;

/* The work of one group of threads: some views in one slab, as ranges of the lists of pieces and
 * waves. */
typedef struct {
	int64_t slab, image; /* image: that receives its part of the adjoint */
	int64_t piece, piece_end, wave, wave_end;
} KernelUnit;

/* A symmetry maps pixel (x, y) to index origin + x along_x + y along_y. */
typedef struct {
	int64_t origin, along_x, along_y;
} KernelSymmetry;

/* A stored view. `target`: the view that each symmetry maps its rays to, or -1. Bit k of `flip`:
 * symmetry k reverses the order of columns; of `again`: an earlier symmetry has the same target,
 * with its columns in the opposite order. */
typedef struct {
	int64_t number, columns, first, slot, target[STORED_LANES];
	int flip, again;
} KernelOrbit;

typedef struct {
	int64_t nx, ny, slabs, across; /* across: slabs along x */
	int64_t width, height;         /* of a slab, both even */
	int64_t view_columns;
	int64_t used, units; /* orbits in use, and their units */
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
	KERNEL_GLOBAL const int64_t *first_place; /* of each stored row; then the end */
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

/* Pixels are numbered in squares of 2 x 2, along which rays pass side by side: of four consecutive
 * entries, two seldom have the same position in their squares. */
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

/* Whether a symmetry exchanges x and y. */
KERNEL_FN int slab_transposed(const KernelSlabs *of, int g)
{
	return of->symmetry[g].along_x != 1 && of->symmetry[g].along_x != -1;
}

/* Position of pixel (x, y) of a slab in its image under symmetry g, where neighbours in rows of the
 * whole image are neighbours in memory. */
KERNEL_FN int64_t slab_plane(const KernelSlabs *of, int64_t x, int64_t y, int g)
{
	return of->width * of->height * g +
	       (slab_transposed(of, g) ? x * of->height + y : y * of->width + x);
}

/* The pixel to which symmetry g maps pixel (x, y) of a slab; -1: outside the image. */
KERNEL_FN int64_t slab_target(const KernelSlabs *of, int64_t slab, int64_t x, int64_t y, int64_t g)
{
	x += slab % of->across * of->width;
	y += slab / of->across * of->height;
	if (x >= of->nx || y >= of->ny)
		return -1;
	return of->symmetry[g].origin + x * of->symmetry[g].along_x + y * of->symmetry[g].along_y;
}

/* Pixel (x, y) of the result: the sum over symmetries g of lane g of the pixel that g maps to it.
 * Indices are 32-bit, which divide faster. */
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

/* Number of the matrix row that symmetry g makes of a stored row, or -1. The middle column of a
 * view that is its own mirror image is found twice and counts once. */
KERNEL_FN int64_t scsr_lane_row(
	const KernelScsr *m, KERNEL_GLOBAL const KernelOrbit *orbit, int64_t column, int g)
{
	int64_t mirror = m->of.view_columns - 1 - column;
	if (orbit->target[g] < 0 || (column == mirror && (orbit->again >> g & 1)))
		return -1;
	return orbit->target[g] * m->of.view_columns + (orbit->flip >> g & 1 ? mirror : column);
}

/* Lane g of a stored row, summed over all slabs. */
KERNEL_FN float scsr_total(const KernelScsr *m, int64_t row, int g)
{
	double sum = 0;
	for (int64_t i = m->first_place[row]; i < m->first_place[row + 1]; i++)
		sum += m->work[m->places[i].piece * m->of.lanes + g];
	return (float)sum;
}

/* Appends the entries of a stored row in one slab, mapped by symmetry g. */
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

/* x += lambda (b_i - a_i'x) / ||a_i||^2 a_i for the rows of a batch in order; r_i is the residual
 * before each step. Squared norms are replaced by `least` where they are less. */
typedef struct {
	KERNEL_GLOBAL const float *b, *squares;
	KERNEL_GLOBAL float *r, *x;
	double lambda, least;
	float low, high;
} KernelKaczmarz;

/* Step length along row i, whose product with x is known. */
KERNEL_FN float kaczmarz_step(const KernelKaczmarz *v, int64_t ray, double product)
{
	double residual = v->b[ray] - product, square = v->squares[ray];
	return square > 0 ? (float)(v->lambda * (float)residual / fmax(square, v->least)) : 0;
}

/* The same steps for all rays of a view, from products a_i'x taken before the first step: the
 * product of ray i is corrected by the steps of the `near` rays before it times the products of the
 * rows, a_j'a_i at [j modulo 2 near + 1][i]. */
enum { STORED_NEIGHBOURS = 8 /* at most */ };

typedef struct {
	int64_t rays, near;
	KERNEL_GLOBAL const float *b, *squares, *products;
	KERNEL_GLOBAL float *r, *steps; /* r: the product, replaced by the residual */
	double lambda, least;
} KernelKaczmarzView;

KERNEL_FN void kaczmarz_view_ray(const KernelKaczmarzView *s, int64_t i)
{
	double product = s->r[i], square = s->squares[i];
	for (int64_t j = i < s->near ? 0 : i - s->near; j < i; j++)
		product += (double)s->steps[j] * s->products[j % (2 * s->near + 1) * s->rays + i];
	float residual = (float)(s->b[i] - product);
	s->r[i] = residual;
	s->steps[i] = square > 0 ? (float)(s->lambda * residual / fmax(square, s->least)) : 0;
}

/* Entries of weight 0 belong to masked or repeated voxels. */
KERNEL_FN void kaczmarz_update(const KernelKaczmarz *v, int64_t index, float weight, float step)
{
	float moved = v->x[index] + step * weight;
	moved = moved > v->low ? moved : v->low;
	if (weight != 0)
		v->x[index] = moved < v->high ? moved : v->high;
}

#endif
