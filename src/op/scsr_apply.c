/* Products with SCSR: one stored entry serves all images of its ray.
 *
 * The image is laid out with all images of a pixel side by side, so a stored entry is one weight times
 * a short vector, with one lane per symmetry. Forward sums along rows, group by group. The adjoint
 * reads the same arrays slab by slab: the entries of a row are in the order of pixels and the slabs'
 * ends are kept, so each task adds to pixels of its own, in the order of the rows.
 */
#include <string.h>
#include "op/scsr.h"

enum {
	TILE = 16,  /* side of the squares in which the image is rearranged */
	CHUNK = 64, /* columns summed in single precision before they go to the double sums */
};

#define INLINE static inline __attribute__((always_inline))

typedef struct {
	const Scsr *scsr;
	int power;
	const float *in;
	float *out;
	float *image;  /* [pixel][lane] */
	float *values; /* [slot][2][lane]: adjoint */
} Product;

/* A weight to the power: 0 counts entries, not padding. */
INLINE float raised(float weight, const int plain, int power)
{
	if (plain)
		return weight;
	return power == 2 ? weight * weight : weight != 0 ? 1 : 0;
}

/* ---- the image, all images of a pixel side by side ------------------------------------------------ */

static void spread_tiles(void *user, int64_t tile_row)
{
	const Product *p = user;
	const ScsrRows *r = p->scsr->rows;
	const Symmetries *s = &p->scsr->symmetries;
	int64_t y0 = tile_row * TILE, y1 = min64(y0 + TILE, r->ny), lanes = s->count;
	for (int64_t x0 = 0; x0 < r->nx; x0 += TILE)
		for (int64_t y = y0; y < y1; y++)
			for (int64_t x = x0; x < min64(x0 + TILE, r->nx); x++)
				for (int64_t g = 0; g < lanes; g++) {
					const Symmetry *m = &s->list[g];
					p->image[(y * r->nx + x) * lanes + g] =
						p->in[m->origin + x * m->along_x + y * m->along_y];
				}
}

/* Pixel (x, y) of the result is the sum of lane g of the pixel that g takes there: the lanes of the
 * inverse of g are read, so that each task writes its own pixels. */
static void collect_tiles(void *user, int64_t tile_row)
{
	const Product *p = user;
	const ScsrRows *r = p->scsr->rows;
	const Symmetries *s = &p->scsr->symmetries;
	int64_t y0 = tile_row * TILE, y1 = min64(y0 + TILE, r->ny), lanes = s->count;
	for (int64_t x0 = 0; x0 < r->nx; x0 += TILE)
		for (int64_t y = y0; y < y1; y++)
			for (int64_t x = x0; x < min64(x0 + TILE, r->nx); x++) {
				float sum = 0;
				for (int64_t g = 0; g < lanes; g++) {
					const Symmetry *m = &s->list[s->inverse[g]];
					int64_t at = m->origin + x * m->along_x + y * m->along_y;
					sum += p->image[at * lanes + g];
				}
				p->out[y * r->nx + x] = sum;
			}
}

/* ---- rows and their images --------------------------------------------------------------------------- */

/* Where lane g of a stored row lies among all rows, or -1. The middle column of a view that is
 * its own mirror image is met twice, and counts once. */
INLINE int64_t lane_row(const Scsr *s, const Orbit *orbit, int64_t column, int g)
{
	int64_t columns = s->rows->view_columns, mirror = columns - 1 - column;
	if (orbit->target[g] < 0 || (column == mirror && orbit->again[g]))
		return -1;
	return orbit->target[g] * columns + (orbit->flip[g] ? mirror : column);
}

static void put_row(const Product *p, const Orbit *orbit, int64_t column, const double *sums)
{
	for (int g = 0; column >= 0 && g < p->scsr->symmetries.count; g++) {
		int64_t row = lane_row(p->scsr, orbit, column, g);
		if (row >= 0)
			p->out[row] = (float)sums[g];
	}
}

static void get_rows(void *user, int64_t number)
{
	const Product *p = user;
	const Scsr *s = p->scsr;
	const Group *group = &s->groups[number];
	const Orbit *orbit = &s->symmetries.orbits[group->orbit];
	int lanes = s->symmetries.count;
	for (int64_t i = 0; i < 2 * group->pairs; i++) {
		int64_t column = s->rows->column[2 * group->pair + i];
		float *values = &p->values[(2 * group->slot + i) * lanes];
		for (int g = 0; g < lanes; g++) {
			int64_t row = column < 0 ? -1 : lane_row(s, orbit, column, g);
			values[g] = row < 0 ? 0 : p->in[row];
		}
	}
}

/* Rows that meet no pixel are in no group. */
static void zero_rows(const Product *p)
{
	const Scsr *s = p->scsr;
	for (int64_t i = 0; i < s->symmetries.orbit_count; i++) {
		const Orbit *orbit = &s->symmetries.orbits[i];
		for (int64_t c = 0; c < orbit->columns; c++)
			for (int g = 0; g < s->symmetries.count; g++) {
				int64_t row = s->rows->place[orbit->first + c] < 0
						      ? lane_row(s, orbit, c, g)
						      : -1;
				if (row >= 0)
					p->out[row] = 0;
			}
	}
}

/* ---- forward ------------------------------------------------------------------------------------------- */

/* Adds columns [from, to) of a group of `pairs` pairs to the sums. */
INLINE void sum_columns(const Product *p, const Group *group, const int lanes, const int pairs,
	const int plain, int64_t from, int64_t to, double sums[PAIRS][SYMMETRIES])
{
	const int32_t *index = p->scsr->rows->index + group->at + from * pairs;
	const float *weight = p->scsr->rows->weight + group->at + from * pairs;
	while (from < to) {
		int64_t stop = min64(from + CHUNK, to);
		float part[PAIRS][SYMMETRIES] = {{0}};
		for (; from < stop; from++, index += pairs, weight += pairs)
			for (int i = 0; i < pairs; i++) {
				const float *pixel = p->image + (int64_t)index[i] * lanes;
				float w = raised(weight[i], plain, p->power);
				for (int g = 0; g < lanes; g++)
					part[i][g] += w * pixel[g];
			}
		for (int i = 0; i < pairs; i++)
			for (int g = 0; g < lanes; g++)
				sums[i][g] += part[i][g];
	}
}

/* Long rows that end here: out with their sums. */
INLINE void turn_pairs(const Product *p, const Group *group, unsigned which, const int pairs,
	double sums[PAIRS][SYMMETRIES])
{
	const Orbit *orbit = &p->scsr->symmetries.orbits[group->orbit];
	for (int i = 0; i < pairs; i++)
		if (which >> i & 1) {
			put_row(p, orbit, p->scsr->rows->column[2 * (group->pair + i)], sums[i]);
			memset(sums[i], 0, sizeof sums[i]);
		}
}

INLINE void sum_group(
	const Product *p, const Group *group, const int lanes, const int pairs, const int plain)
{
	const uint8_t *masks = p->scsr->rows->masks + group->masks;
	const Orbit *orbit = &p->scsr->symmetries.orbits[group->orbit];
	double sums[PAIRS][SYMMETRIES] = {{0}};
	unsigned turned = 0;
	int64_t from = 0;
	for (int64_t t = group->one; t < group->two; t++) {
		unsigned which = masks[t - group->one];
		if (!which)
			continue;
		sum_columns(p, group, lanes, pairs, plain, from, t, sums);
		turn_pairs(p, group, which, pairs, sums);
		turned |= which;
		from = t;
	}
	sum_columns(p, group, lanes, pairs, plain, from, group->two, sums);
	turn_pairs(p, group, ~turned, pairs, sums);
	sum_columns(p, group, lanes, pairs, plain, group->two, group->width, sums);
	for (int i = 0; i < pairs; i++)
		put_row(p, orbit, p->scsr->rows->column[2 * (group->pair + i) + 1], sums[i]);
}

INLINE void sum_group_of(const Product *p, const Group *group, const int lanes)
{
	if (p->power != 1)
		sum_group(p, group, lanes, group->pairs, 0);
	else if (group->pairs == PAIRS)
		sum_group(p, group, lanes, PAIRS, 1);
	else
		sum_group(p, group, lanes, group->pairs, 1);
}

#define CALL_LANES(call) \
	switch (p->scsr->symmetries.count) { \
	case 8: \
		call(8); \
		break; \
	case 4: \
		call(4); \
		break; \
	case 2: \
		call(2); \
		break; \
	default: \
		call(1); \
	}

static void forward_group(void *user, int64_t number)
{
	const Product *p = user;
	const Group *group = &p->scsr->groups[number];
#define SUM_GROUP(lanes) sum_group_of(p, group, lanes)
	CALL_LANES(SUM_GROUP)
}

static int64_t tile_rows(const ScsrRows *r)
{
	return (r->ny + TILE - 1) / TILE;
}

tomos_status scsr_forward(const Scsr *scsr, int power, const float *x, float *y)
{
	Product p = {.scsr = scsr, .power = power, .in = x, .out = y};
	TRY(mem_alloc(&p.image, scsr->rows->pixels * scsr->symmetries.count, sizeof(float),
		"the images of an image"));
	parallel_for(tile_rows(scsr->rows), spread_tiles, &p);
	zero_rows(&p);
	parallel_for(scsr->group_count, forward_group, &p);
	mem_free(p.image);
	return TOMOS_OK;
}

/* ---- adjoint --------------------------------------------------------------------------------------------- */

INLINE void spread_row(const Product *p, const Group *group, int64_t pair, int64_t from, int64_t to,
	const int lanes, const int plain, const float *values)
{
	const int32_t *index = p->scsr->rows->index + group->at + pair;
	const float *weight = p->scsr->rows->weight + group->at + pair;
	int64_t stride = group->pairs;
	float value[SYMMETRIES];
	for (int g = 0; g < lanes; g++)
		value[g] = values[g];
	for (int64_t t = from; t < to; t++) {
		float *pixel = p->image + (int64_t)index[t * stride] * lanes;
		float w = raised(weight[t * stride], plain, p->power);
		for (int g = 0; g < lanes; g++)
			pixel[g] += w * value[g];
	}
}

INLINE void spread_slab(const Product *p, int64_t slab, const int lanes, const int plain)
{
	const Scsr *s = p->scsr;
	const ScsrRows *r = s->rows;
	for (int64_t n = 0; n < s->group_count; n++) {
		const Group *group = &s->groups[n];
		for (int64_t i = 0; i < 2 * group->pairs; i++) {
			const uint32_t *ends = r->ends + (2 * group->pair + i) * r->slabs;
			int64_t start = i & 1 ? ends[-1] : 0; /* the long row's last end */
			spread_row(p, group, i / 2, start + (slab ? ends[slab - 1] : 0),
				start + ends[slab], lanes, plain,
				p->values + (2 * group->slot + i) * lanes);
		}
	}
}

static void adjoint_slab(void *user, int64_t slab)
{
	const Product *p = user;
	const ScsrRows *r = p->scsr->rows;
	int64_t from = slab * r->slab_size, to = min64(from + r->slab_size, r->ny);
	int64_t row = r->nx * p->scsr->symmetries.count;
	memset(p->image + from * row, 0, (size_t)((to - from) * row) * sizeof(float));
#define SPREAD(lanes) \
	p->power == 1 ? spread_slab(p, slab, lanes, 1) : spread_slab(p, slab, lanes, 0)
	CALL_LANES(SPREAD)
}

tomos_status scsr_adjoint(const Scsr *scsr, int power, const float *y, float *x)
{
	Product p = {.scsr = scsr, .power = power, .in = y, .out = x};
	tomos_status status;
	int lanes = scsr->symmetries.count;
	TRY_OR_DONE(mem_alloc(
		&p.image, scsr->rows->pixels * lanes, sizeof(float), "the images of an image"));
	TRY_OR_DONE(mem_alloc(
		&p.values, 2 * scsr->slots * lanes, sizeof(float), "the images of the rays"));
	parallel_for(scsr->group_count, get_rows, &p);
	parallel_for(scsr->rows->slabs, adjoint_slab, &p);
	parallel_for(tile_rows(scsr->rows), collect_tiles, &p);
done:
	mem_free(p.image);
	mem_free(p.values);
	return status;
}

/* ---- one row --------------------------------------------------------------------------------------------- */

static const Group *group_of(const Scsr *s, int64_t pair)
{
	int64_t low = 0, high = s->group_count;
	while (high - low > 1) {
		int64_t middle = (low + high) / 2;
		if (s->groups[middle].pair <= pair)
			low = middle;
		else
			high = middle;
	}
	return &s->groups[low];
}

void scsr_row(
	const Scsr *s, int64_t view, int64_t column, int64_t *index, float *weight, int64_t *count)
{
	const ScsrRows *r = s->rows;
	int64_t lane = s->lanes[2 * view], mirror = r->view_columns - 1 - column;
	const Orbit *orbit = &s->symmetries.orbits[max64(lane, 0) / SYMMETRIES];
	*count = 0;
	if (lane < 0 || column >= orbit->columns) {
		lane = s->lanes[2 * view + 1];
		orbit = &s->symmetries.orbits[lane / SYMMETRIES];
		column = mirror;
	}
	const Symmetry *m = &s->symmetries.list[lane % SYMMETRIES];
	int64_t place = r->place[orbit->first + column];
	if (place < 0)
		return;
	const Group *group = group_of(s, place / 2);
	const uint32_t *ends = r->ends + place * r->slabs;
	int64_t from = place & 1 ? ends[-1] : 0, to = from + ends[r->slabs - 1];
	for (int64_t t = from; t < to; t++) {
		int64_t at = group->at + t * group->pairs + place / 2 - group->pair;
		int64_t y = r->index[at] / r->nx, x = r->index[at] % r->nx;
		index[*count] = m->origin + x * m->along_x + y * m->along_y;
		weight[(*count)++] = r->weight[at];
	}
}
