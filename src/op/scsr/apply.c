/* Products with SCSR (see scsr.h): one stored entry serves all symmetric images of its ray.
 *
 * The image is rearranged so that all images of a pixel are contiguous. A stored entry then is one
 * weight times a short vector with one lane per symmetry. In the forward product a task sums the
 * rows of one stored view; in the adjoint a task adds to one slab of pixels. Both process the
 * groups in the same way.
 */
#include <string.h>
#include "op/scsr/scsr.h"

enum {
	TILE = 16, /* side of the squares in which the image is rearranged */
	MOST_TASKS = 64,
	CHUNK = 64, /* columns summed in single precision before they are added to double sums */
};

#define INLINE static inline __attribute__((always_inline))

typedef struct {
	const Scsr *scsr;
	int power;
	const float *in;
	float *out;
	float *image;  /* [pixel][lane] */
	float *values; /* adjoint: [stored row in use][lane] */
	double *sums;  /* forward: [task][column][lane] */
	int64_t tasks;
} Product;

/* Explicit vectors: compilers do not vectorise over lanes. */
typedef float Four __attribute__((vector_size(16), aligned(4), may_alias));

/* to += w * from */
INLINE void lanes_add(float *to, float w, const float *from, const int lanes)
{
	if (lanes < 4)
		for (int g = 0; g < lanes; g++)
			to[g] += w * from[g];
	else
		for (int g = 0; g < lanes; g += 4)
			*(Four *)(to + g) += w * *(const Four *)(from + g);
}

/* ---- the image, all images of a pixel side by side ------------------------------------------- */

/* Copies each pixel to its lanes (collect false), or sums the lanes of each pixel of the result:
 * lane g of the pixel that symmetry g maps to it. Read through the inverse of g, so that each task
 * writes its own pixels. */
INLINE void walk_tiles(const Product *p, int64_t tile_row, const bool collect)
{
	const ScsrRows *r = p->scsr->rows;
	const Symmetries *s = &p->scsr->symmetries;
	int64_t y0 = tile_row * TILE, y1 = min64(y0 + TILE, r->ny), lanes = s->count;
	for (int64_t x0 = 0; x0 < r->nx; x0 += TILE)
		for (int64_t y = y0; y < y1; y++)
			for (int64_t x = x0; x < min64(x0 + TILE, r->nx); x++) {
				int64_t pixel = y * r->nx + x;
				float sum = 0;
				for (int64_t g = 0; g < lanes; g++) {
					const Symmetry *m = &s->list[collect ? s->inverse[g] : g];
					int64_t at = m->origin + x * m->along_x + y * m->along_y;
					if (collect)
						sum += p->image[at * lanes + g];
					else
						p->image[pixel * lanes + g] = p->in[at];
				}
				if (collect)
					p->out[pixel] = sum;
			}
}

static void spread_tiles(void *user, int64_t tile_row)
{
	walk_tiles(user, tile_row, false);
}

static void collect_tiles(void *user, int64_t tile_row)
{
	walk_tiles(user, tile_row, true);
}

/* ---- rows and their images ------------------------------------------------------------------- */

/* Index, among all rays, of the image of a stored row under symmetry g, or -1. In a view that is
 * its own mirror image the middle column occurs twice, and counts once. */
INLINE int64_t lane_row(const Scsr *s, const Orbit *orbit, int64_t column, int g)
{
	int64_t columns = s->rows->view_columns, mirror = columns - 1 - column;
	if (orbit->target[g] < 0 || (column == mirror && orbit->again[g]))
		return -1;
	return orbit->target[g] * columns + (orbit->flip[g] ? mirror : column);
}

/* ---- forward --------------------------------------------------------------------------------- */

/* Adds columns [from, to) of a group to the sums of the current row of each of its pairs. */
INLINE void sum_columns(const Product *p, const Group *group, const int lanes, const int pairs,
	const int plain, int64_t from, int64_t to, double *const sums[PAIRS])
{
	const int32_t *index = p->scsr->rows->index + group->at + from * pairs;
	const float *weight = p->scsr->rows->weight + group->at + from * pairs;
	while (from < to) {
		int64_t stop = min64(from + CHUNK, to);
		float part[PAIRS][SYMMETRIES] = {{0}};
		for (; from < stop; from++, index += pairs, weight += pairs)
			for (int i = 0; i < pairs; i++)
				lanes_add(part[i], raised(weight[i], plain, p->power),
					p->image + (int64_t)index[i] * lanes, lanes);
		for (int i = 0; i < pairs; i++)
			for (int g = 0; g < lanes; g++)
				sums[i][g] += part[i][g];
	}
}

/* Calls RUN for the ranges of columns of a group between which no pair changes from its long to its
 * short row. rows: data by detector column. Constant arguments give one function per number of
 * lanes and pairs. */
#define WALK_GROUP(TYPE, RUN) \
	const ScsrRows *r = p->scsr->rows; \
	const uint8_t *masks = r->masks + group->masks; \
	TYPE *now[PAIRS]; \
	unsigned rotated = 0; \
	int64_t from = 0; \
	for (int i = 0; i < pairs; i++) \
		now[i] = rows + (int64_t)r->column[2 * (group->pair + i)] * lanes; \
	for (int64_t t = group->one; t <= group->two; t++) { \
		unsigned which = t < group->two ? masks[t - group->one] : ~rotated; \
		if (!which && t < group->two) \
			continue; \
		RUN(p, group, lanes, pairs, plain, from, t, now); \
		for (int i = 0; i < pairs; i++) { \
			int64_t column = r->column[2 * (group->pair + i) + 1]; \
			if (which >> i & 1) \
				now[i] = column < 0 ? none : rows + column * lanes; \
		} \
		rotated |= which; \
		from = t; \
	} \
	RUN(p, group, lanes, pairs, plain, from, group->width, now);

INLINE void sum_group(const Product *p, const Group *group, const int lanes, const int pairs,
	const int plain, double *rows)
{
	double none[SYMMETRIES] = {0}; /* for padding */
	WALK_GROUP(double, sum_columns)
}

/* Full groups use a loop with constant bounds. */
#define CALL_PAIRS(function, lanes, rows) \
	if (p->power != 1) \
		function(p, group, lanes, group->pairs, 0, rows); \
	else if (group->pairs == PAIRS) \
		function(p, group, lanes, PAIRS, 1, rows); \
	else \
		function(p, group, lanes, group->pairs, 1, rows);

#define CALL_LANES(function, rows) \
	switch (p->scsr->symmetries.count) { \
	case 8: \
		CALL_PAIRS(function, 8, rows) \
		break; \
	case 4: \
		CALL_PAIRS(function, 4, rows) \
		break; \
	case 2: \
		CALL_PAIRS(function, 2, rows) \
		break; \
	default: \
		CALL_PAIRS(function, 1, rows) \
	}

static void forward_orbit(const Product *p, const Orbit *orbit, double *sums)
{
	const ScsrRows *r = p->scsr->rows;
	int lanes = p->scsr->symmetries.count;
	memset(sums, 0, (size_t)(orbit->columns * lanes) * sizeof *sums);
	for (int64_t slab = 0; slab < r->slabs; slab++) {
		const int64_t *first = &r->first_group[slab * r->orbits + orbit->number];
		for (int64_t i = first[0]; i < first[1]; i++) {
			const Group *group = &r->group[i];
			CALL_LANES(sum_group, sums)
		}
	}
	for (int64_t c = 0; c < orbit->columns; c++)
		for (int g = 0; g < lanes; g++) {
			int64_t row = lane_row(p->scsr, orbit, c, g);
			if (row >= 0)
				p->out[row] = (float)sums[c * lanes + g];
		}
}

static void forward_task(void *user, int64_t task)
{
	const Product *p = user;
	const Symmetries *s = &p->scsr->symmetries;
	double *sums = p->sums + task * p->scsr->rows->view_columns * s->count;
	for (int64_t i = task; i < s->orbit_count; i += p->tasks)
		forward_orbit(p, &s->orbits[i], sums);
}

static int64_t tile_rows(const ScsrRows *r)
{
	return (r->ny + TILE - 1) / TILE;
}

tomos_status scsr_forward(const Scsr *scsr, int power, const float *x, float *y)
{
	const ScsrRows *r = scsr->rows;
	Product p = {.scsr = scsr, .power = power, .in = x, .out = y};
	tomos_status status;
	int64_t lanes = scsr->symmetries.count;
	p.tasks = min64(scsr->symmetries.orbit_count, MOST_TASKS);
	TRY_OR_DONE(
		mem_alloc(&p.image, r->pixels * lanes, sizeof *p.image, "the images of an image"));
	TRY_OR_DONE(mem_alloc(&p.sums, p.tasks * r->view_columns * lanes, sizeof *p.sums,
		"the sums of the rays"));
	parallel_for(tile_rows(r), spread_tiles, &p);
	parallel_for(p.tasks, forward_task, &p);
done:
	mem_free(p.image);
	mem_free(p.sums);
	return status;
}

/* ---- adjoint --------------------------------------------------------------------------------- */

static void get_rows(void *user, int64_t number)
{
	const Product *p = user;
	const Orbit *orbit = &p->scsr->symmetries.orbits[number];
	int lanes = p->scsr->symmetries.count;
	for (int64_t c = 0; c < orbit->columns; c++)
		for (int g = 0; g < lanes; g++) {
			int64_t row = lane_row(p->scsr, orbit, c, g);
			p->values[(orbit->slot + c) * lanes + g] = row < 0 ? 0 : p->in[row];
		}
}

INLINE void spread_columns(const Product *p, const Group *group, const int lanes, const int pairs,
	const int plain, int64_t from, int64_t to, const float *const values[PAIRS])
{
	const int32_t *index = p->scsr->rows->index + group->at + from * pairs;
	const float *weight = p->scsr->rows->weight + group->at + from * pairs;
	float value[PAIRS][SYMMETRIES];
	for (int i = 0; i < pairs; i++)
		for (int g = 0; g < lanes; g++)
			value[i][g] = values[i][g];
	for (; from < to; from++, index += pairs, weight += pairs)
		for (int i = 0; i < pairs; i++)
			lanes_add(p->image + (int64_t)index[i] * lanes,
				raised(weight[i], plain, p->power), value[i], lanes);
}

INLINE void spread_group(const Product *p, const Group *group, const int lanes, const int pairs,
	const int plain, const float *rows)
{
	const float none[SYMMETRIES] = {0};
	WALK_GROUP(const float, spread_columns)
}

static void adjoint_slab(void *user, int64_t slab)
{
	const Product *p = user;
	const ScsrRows *r = p->scsr->rows;
	const Symmetries *s = &p->scsr->symmetries;
	int64_t from = slab * r->slab_size, to = min64(from + r->slab_size, r->ny);
	int64_t row = r->nx * s->count;
	memset(p->image + from * row, 0, (size_t)((to - from) * row) * sizeof *p->image);
	for (int64_t n = 0; n < s->orbit_count; n++) {
		const Orbit *orbit = &s->orbits[n];
		const int64_t *first = &r->first_group[slab * r->orbits + orbit->number];
		const float *values = p->values + orbit->slot * s->count;
		for (int64_t i = first[0]; i < first[1]; i++) {
			const Group *group = &r->group[i];
			CALL_LANES(spread_group, values)
		}
	}
}

tomos_status scsr_adjoint(const Scsr *scsr, int power, const float *y, float *x)
{
	const ScsrRows *r = scsr->rows;
	Product p = {.scsr = scsr, .power = power, .in = y, .out = x};
	tomos_status status;
	int64_t lanes = scsr->symmetries.count;
	TRY_OR_DONE(
		mem_alloc(&p.image, r->pixels * lanes, sizeof *p.image, "the images of an image"));
	TRY_OR_DONE(mem_alloc(&p.values, scsr->symmetries.rows * lanes, sizeof *p.values,
		"the images of the rays"));
	parallel_for(scsr->symmetries.orbit_count, get_rows, &p);
	parallel_for(r->slabs, adjoint_slab, &p);
	parallel_for(tile_rows(r), collect_tiles, &p);
done:
	mem_free(p.image);
	mem_free(p.values);
	return status;
}

/* ---- one row --------------------------------------------------------------------------------- */

static const Group *group_of(const ScsrRows *r, int64_t pair)
{
	int64_t low = 0, high = r->groups;
	while (high - low > 1) {
		int64_t middle = (low + high) / 2;
		if (r->group[middle].pair <= pair)
			low = middle;
		else
			high = middle;
	}
	return &r->group[low];
}

static int64_t junction(const ScsrRows *r, const Group *group, int64_t p)
{
	int64_t t = group->one;
	while (t < group->two && !(r->masks[group->masks + t - group->one] >> p & 1))
		t++;
	return t;
}

/* Appends the entries of a stored row in one slab, with the pixels mapped by the symmetry. The
 * pixel row is found by multiplication with a reciprocal, which is exact below 2^31 pixels and much
 * faster than a division. */
static void append_piece(const ScsrRows *r, int64_t place, const Symmetry *m, int64_t *index,
	float *weight, int64_t *count)
{
	const Group *group = group_of(r, place / 2);
	int64_t p = place / 2 - group->pair, turn = junction(r, group, p);
	int64_t from = place & 1 ? turn : 0, to = place & 1 ? group->width : turn;
	int64_t per_row = m->along_y - m->along_x * r->nx;
	double rows = 1 / (double)r->nx;
	for (int64_t t = from; t < to; t++) {
		int64_t at = group->at + t * group->pairs + p, pixel = r->index[at];
		if (r->weight[at] == 0) /* padding */
			continue;
		int64_t y = (int64_t)(((double)pixel + 0.5) * rows);
		index[*count] = m->origin + pixel * m->along_x + y * per_row;
		weight[(*count)++] = r->weight[at];
	}
}

void scsr_row(
	const Scsr *s, int64_t view, int64_t column, int64_t *index, float *weight, int64_t *count)
{
	const ScsrRows *r = s->rows;
	int64_t lane = s->lanes[2 * view];
	const Orbit *orbit = &s->symmetries.orbits[max64(lane, 0) / SYMMETRIES];
	if (lane < 0 || column >= orbit->columns) {
		lane = s->lanes[2 * view + 1];
		orbit = &s->symmetries.orbits[lane / SYMMETRIES];
		column = r->view_columns - 1 - column;
	}
	*count = 0;
	for (int64_t slab = 0; slab < r->slabs; slab++) {
		int64_t place = r->place[slab * r->rows + orbit->first + column];
		if (place >= 0)
			append_piece(r, place, &s->symmetries.list[lane % SYMMETRIES], index,
				weight, count);
	}
}
