/* Stored matrices as devices have them: products with CSR and SCSR, and rows one by one.
 *
 * op/scsr.h says what SCSR is. A device has, instead of the bits that say where pairs go over to their
 * short rows, the places themselves; and lists of waves, the groups of one view and slab that share no
 * pixel, which may be added at once.
 */
#ifndef KERNEL_STORED_H
#define KERNEL_STORED_H

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

enum { STORED_LANES = 8 };

/* Entry (t, p) of the dense matrix lies at `at` + t pairs + p. */
typedef struct {
	int64_t at;
	int pair, pairs, width; /* first of its pairs; how many; columns */
	int opens;              /* the first of its wave */
} KernelGroup;

typedef struct {
	int column[2]; /* of the view: long and short row, or -1 */
	int turn;      /* first entry of the short one */
	int group;
} KernelPair;

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
	int64_t nx, ny, slabs, slab_size; /* slabs of whole pixel rows */
	int64_t rows, orbits, view_columns;
	int64_t used, used_rows; /* orbits of a part, and rows of these */
	int64_t chunk;           /* orbits of which `work` holds the sums of all slabs */
	int64_t shares;          /* of the orbits, each with an image of its own */
	int64_t lanes;           /* symmetries */
	KernelSymmetry symmetry[STORED_LANES];
	int64_t inverse[STORED_LANES];
} KernelSlabs;

typedef struct {
	KernelSlabs of;
	KERNEL_GLOBAL const int *index;
	KERNEL_GLOBAL const float *weight;
	KERNEL_GLOBAL const KernelGroup *groups;
	KERNEL_GLOBAL const KernelPair *pairs;
	KERNEL_GLOBAL const int64_t *waves;      /* first group of each, and one more */
	KERNEL_GLOBAL const int64_t *first_wave; /* [slab][orbit], and one more */
	KERNEL_GLOBAL const int *place; /* [slab][stored row]: 2 pair + (0 long, 1 short), or -1 */
	KERNEL_GLOBAL const KernelOrbit *orbit; /* in use */
	KERNEL_GLOBAL const int64_t
		*lane_of;           /* [view][2]: orbit * STORED_LANES + symmetry, or -1 */
	KERNEL_GLOBAL float *image; /* [share][pixel][lane] */
	KERNEL_GLOBAL float *work;  /* [slab][row of a chunk][lane]; back: [row in use][lane] */
} KernelScsr;

KERNEL_FN int64_t scsr_pixel(const KernelScsr *m, int64_t pixel, int64_t g)
{
	int64_t x = pixel % m->of.nx, y = pixel / m->of.nx;
	return m->of.symmetry[g].origin + x * m->of.symmetry[g].along_x +
	       y * m->of.symmetry[g].along_y;
}

/* Pixel (x, y) of the result is the sum of lane g of the pixel that g takes there. */
KERNEL_FN float scsr_collect(const KernelScsr *m, int64_t pixel)
{
	float sum = 0;
	for (int g = 0; g < m->of.lanes; g++) {
		int64_t at = scsr_pixel(m, pixel, m->of.inverse[g]);
		for (int64_t share = 0; share < m->of.shares; share++)
			sum += m->image[(share * m->of.nx * m->of.ny + at) * m->of.lanes + g];
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

/* Lane g of a stored row of the chunk from orbit `first` on, in all slabs. */
KERNEL_FN float scsr_total(const KernelScsr *m, int64_t first, int64_t rows,
	KERNEL_GLOBAL const KernelOrbit *orbit, int64_t column, int g)
{
	double sum = 0;
	int64_t row = orbit->slot - m->orbit[first].slot + column;
	for (int64_t slab = 0; slab < m->of.slabs; slab++)
		if (m->place[slab * m->of.rows + orbit->first + column] >= 0)
			sum += m->work[(slab * rows + row) * m->of.lanes + g];
	return (float)sum;
}

/* Rows of the orbits from `first` to before `end`. */
KERNEL_FN int64_t scsr_rows_between(const KernelScsr *m, int64_t first, int64_t end)
{
	return (end < m->of.used ? m->orbit[end].slot : m->of.used_rows) - m->orbit[first].slot;
}

/* Appends what the stored row has in one slab, as symmetry g sees it. */
KERNEL_FN int64_t scsr_list_piece(const KernelScsr *m, int64_t place, int64_t g, int64_t count,
	KERNEL_GLOBAL int64_t *index, KERNEL_GLOBAL float *weight)
{
	const KernelPair pair = m->pairs[place / 2];
	const KernelGroup group = m->groups[pair.group];
	int p = (int)(place / 2) - group.pair;
	int from = place & 1 ? pair.turn : 0, to = place & 1 ? group.width : pair.turn;
	for (int t = from; t < to; t++) {
		int64_t at = group.at + (int64_t)t * group.pairs + p;
		if (m->weight[at] == 0)
			continue;
		index[count] = scsr_pixel(m, m->index[at], g);
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
	for (int64_t slab = 0; slab < m->of.slabs; slab++) {
		int64_t place = m->place[slab * m->of.rows + orbit->first + column];
		if (place >= 0)
			count = scsr_list_piece(m, place, lane % STORED_LANES, count,
				batch->index + i * batch->most, batch->weight + i * batch->most);
	}
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
} KernelVisits;

/* The step along row i of the batch, whose product with x is known. */
KERNEL_FN float visits_step(const KernelVisits *v, int64_t ray, double product)
{
	double misfit = v->b[ray] - product, square = v->squares[ray];
	return square > 0 ? (float)(v->lambda * (float)misfit / fmax(square, v->least)) : 0;
}

/* A voxel of weight 0 is masked, or named twice. */
KERNEL_FN void visits_move(const KernelVisits *v, int64_t index, float weight, float step)
{
	float moved = v->x[index] + step * weight;
	moved = moved > v->low ? moved : v->low;
	if (weight != 0)
		v->x[index] = moved < v->high ? moved : v->high;
}

#endif
