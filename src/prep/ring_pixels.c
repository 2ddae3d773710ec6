/* Ring removal by one offset per pixel, for scans whose detector rows see different things, as in
 * cone beams.
 *
 * What a pixel adds to every view is found where the view around it is smooth. In each view, lines
 * of seven pixels through the pixel are compared in eight directions. In the most uniform of them,
 * which follows edges of the object, the difference from the median of the line is taken. The
 * offset is the median of these differences over the views, in which details of the object move.
 *
 * A column that is wrong as a whole looks like an edge there, and is removed before: in the median
 * of the views, it differs from the columns beside it in most of the rows around.
 */
#include "prep/four.h"
#include "prep/prep.h"

enum {
	AROUND = RING_PIXELS_REACH / 2, /* rows on either side: for columns, then for pixels */
	HALF = AROUND / 2,              /* of a line; steps are up to two rows or columns */
	LINE = 2 * HALF + 1,
	LINES = 2 * AROUND + 1, /* rows around a pixel */
	MOST_VIEWS = 256,       /* are enough for the median */
	DIRECTIONS = 8
};

typedef struct {
	const tomos_array *data;
	int64_t views, width; /* that are compared; floats of a padded row */
	float *differences;   /* from the columns beside, [row][column] */
	float *offsets;       /* [row][column] */
} Pixels;

static const int steps[DIRECTIONS][2] = {
	{0, 1}, {1, 0}, {1, 1}, {1, -1}, {1, 2}, {2, 1}, {1, -2}, {2, -1}}; /* rows, columns */

/* The median of seven values, by a network of exchanges. */
INLINE Four median_of_seven(const Four values[LINE])
{
	static const int pairs[][2] = {{0, 5}, {0, 3}, {1, 6}, {2, 4}, {0, 1}, {3, 5}, {2, 6},
		{2, 3}, {3, 6}, {4, 5}, {1, 4}, {1, 3}, {3, 4}};
	Four v[LINE];
	for (int i = 0; i < LINE; i++)
		v[i] = values[i];
#pragma GCC unroll 16
	for (int i = 0; i < (int)(sizeof pairs / sizeof *pairs); i++)
		order(&v[pairs[i][0]], &v[pairs[i][1]]);
	return v[HALF];
}

INLINE Four magnitude(Four v)
{
	return (Four)((FourInts)v & 0x7fffffff);
}

/* Differences of four pixels, the first at `at`, from their surroundings. */
INLINE Four differences(const float *at, int64_t width)
{
	Four best = {0}, least = {0};
#pragma GCC unroll 8
	for (int d = 0; d < DIRECTIONS; d++) {
		Four line[LINE], uneven = {0};
		for (int k = 0; k < LINE; k++)
			line[k] = four_at(at + (k - HALF) * (steps[d][0] * width + steps[d][1]), 0);
		Four middle = median_of_seven(line), difference = line[HALF] - middle;
		for (int k = 0; k < LINE; k++)
			if (k != HALF)
				uneven += magnitude(line[k] - middle);
		FourInts better = uneven < least;
		if (d == 0)
			better = (FourInts){-1, -1, -1, -1};
		best = (Four)((better & (FourInts)difference) | (~better & (FourInts)best));
		least = (Four)((better & (FourInts)uneven) | (~better & (FourInts)least));
	}
	return best;
}

/* The rows around a row of a view, continued by their mirror images. */
static void get_rows(const Pixels *p, int64_t view, int64_t row, float *lines)
{
	const int64_t columns = p->data->shape[2];
	for (int64_t k = 0; k < LINES; k++, lines += p->width) {
		int64_t at = index_mirrored(row + k - AROUND, p->data->shape[1]);
		row_get(p->data, view, at, lines + AROUND);
		for (int64_t c = -AROUND; c < p->width - AROUND; c++)
			if (c < 0 || c >= columns)
				lines[AROUND + c] = lines[AROUND + index_mirrored(c, columns)];
	}
}

/* Scratch memory: rows around one, differences [view][column], and a list of views. */
static void find_offsets(const void *user, int64_t row, float *scratch)
{
	const Pixels *p = user;
	const int64_t columns = p->data->shape[2], all = p->data->shape[0];
	float *found = scratch + LINES * p->width, *list = found + p->views * p->width;
	for (int64_t i = 0; i < p->views; i++) {
		get_rows(p, i * all / p->views, row, scratch);
		const float *at = scratch + AROUND * (p->width + 1);
		for (int64_t c = 0; c < columns; c += LANES)
			*(Four *)(found + i * p->width + c) = differences(at + c, p->width);
	}
	for (int64_t c = 0; c < columns; c++) {
		for (int64_t i = 0; i < p->views; i++)
			list[i] = found[i * p->width + c];
		p->offsets[row * columns + c] = median_many(list, p->views);
	}
}

/* How far column c of a row differs from the columns beside it. */
static float column_difference(const float *row, int64_t columns, int64_t c)
{
	float line[LINE];
	for (int k = 0; k < LINE; k++)
		line[k] = row[index_mirrored(c + k - HALF, columns)];
	return row[c] - median_of(line, LINE);
}

/* Scratch memory: a row of all views, their median, and a list of views. */
static void compare_columns(const void *user, int64_t row, float *scratch)
{
	const Pixels *p = user;
	const int64_t columns = p->data->shape[2], all = p->data->shape[0];
	float *middle = scratch + p->views * columns, *list = middle + columns;
	for (int64_t i = 0; i < p->views; i++)
		row_get(p->data, i * all / p->views, row, scratch + i * columns);
	for (int64_t c = 0; c < columns; c++) {
		for (int64_t i = 0; i < p->views; i++)
			list[i] = scratch[i * columns + c];
		middle[c] = median_many(list, p->views);
	}
	for (int64_t c = 0; c < columns; c++)
		p->differences[row * columns + c] = column_difference(middle, columns, c);
}

static void find_columns(const void *user, int64_t row, float *scratch)
{
	const Pixels *p = user;
	const int64_t rows = p->data->shape[1], columns = p->data->shape[2];
	for (int64_t c = 0; c < columns; c++) {
		for (int64_t k = 0; k < LINES; k++)
			scratch[k] =
				p->differences[index_mirrored(row + k - AROUND, rows) * columns +
					       c];
		p->offsets[row * columns + c] = median_of(scratch, LINES);
	}
}

static void subtract(const void *user, int64_t view, float *scratch)
{
	const Pixels *p = user;
	const int64_t columns = p->data->shape[2];
	for (int64_t row = 0; row < p->data->shape[1]; row++) {
		row_get(p->data, view, row, scratch);
		for (int64_t c = 0; c < columns; c++)
			scratch[c] -= p->offsets[row * columns + c];
		row_put(p->data, view, row, scratch);
	}
}

static tomos_status remove_columns(Pixels *p)
{
	const int64_t *n = p->data->shape;
	TRY(mem_alloc(&p->differences, n[1] * n[2], sizeof(float), "differences of columns"));
	TRY(pieces_each(n[1], (p->views + 1) * n[2] + p->views, compare_columns, p));
	TRY(pieces_each(n[1], LINES, find_columns, p));
	return pieces_each(n[0], n[2], subtract, p);
}

static tomos_status remove_pixels(Pixels *p)
{
	const int64_t *n = p->data->shape;
	TRY(pieces_each(n[1], (LINES + p->views) * p->width + p->views, find_offsets, p));
	return pieces_each(n[0], n[2], subtract, p);
}

tomos_status ring_pixels(const tomos_array *data)
{
	const int64_t rows = data->shape[1], columns = data->shape[2];
	Pixels p = {.data = data,
		.views = min64(data->shape[0], MOST_VIEWS),
		.width = (columns + 2 * AROUND + 2 * LANES) / LANES * LANES};
	TRY(mem_alloc(&p.offsets, rows * columns, sizeof *p.offsets, "offsets of pixels"));
	tomos_status status = remove_columns(&p);
	if (status == TOMOS_OK)
		status = remove_pixels(&p);
	mem_free(p.differences);
	mem_free(p.offsets);
	return status;
}
