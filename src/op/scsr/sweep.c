/* Sweeps of Kaczmarz's method through SCSR, one view at a time, with the result of one ray after
 * the other.
 *
 * As in op/view_sweep.c the products a_i'x of all rays of a view are computed first and corrected
 * by the sum of step_j a_i'a_j over the rays before. The a_i'a_j are computed once, and are the
 * same for all images of a view. The image is then updated by
 * all rays of the view. Without bounds the result is that of the method.
 *
 * Threads work on slabs, which have no pixel in common; the products of a ray with all slabs are
 * added in order. The image is stored as the symmetry of the current view maps it, so that the
 * stored indices apply as they are or counted from the end; it is rotated or transposed when the
 * next view has another symmetry.
 */
#include <string.h>
#include "op/scsr/scsr.h"

enum {
	BLOCK = 8,      /* side of the squares in which the image is transposed */
	MOST_APART = 64 /* largest distance in columns of rays that share pixels */
};

#define INLINE static inline __attribute__((always_inline))

/* The rays of a view that one lane of an orbit holds, with the columns in order or reversed. */
typedef struct {
	const Orbit *orbit; /* NULL: none */
	int symmetry;
	bool flip, backwards; /* backwards: pixel indices are counted from the last pixel */
	int64_t spared;       /* columns below this one belong to the lane in order */
} Rays;

typedef struct {
	RowSweeper base;
	const Scsr *scsr;
	float *image, *spare, *own; /* own: that of the two which was allocated here */
	int symmetry;               /* symmetry by which the image is currently mapped */
	Rays rays;                  /* in use */
	int64_t capacity;           /* columns of a view, plus one for rows that are ignored */
	double *sums;               /* [slab][column] */
	float *steps;               /* [column] */
	float *products; /* [orbit][column][neighbour]: a_i'a_j with each of the preceding rays j */
	int64_t origin, along_x, along_y; /* source index of target pixel (x, y) in a mapping */
} Sweeper;

/* ---- groups of rows -------------------------------------------------------------------------- */

typedef float Four __attribute__((vector_size(16), aligned(4), may_alias));

/* Loads four pixels; way: direction of the pixel indices, 1 or -1, a constant. */
INLINE Four gather(const float *image, const int64_t way, const int32_t *index)
{
	return (Four){image[way * index[0]], image[way * index[1]], image[way * index[2]],
		image[way * index[3]]};
}

/* Adds columns [from, to) of a group, times the image, to the sum of each pair. */
INLINE void multiply(const ScsrRows *r, const Group *group, const int pairs, const int64_t way,
	int64_t from, int64_t to, const float *image, float *sum)
{
	const int32_t *index = r->index + group->at + from * pairs;
	const float *weight = r->weight + group->at + from * pairs;
	if (pairs == PAIRS) {
		Four low = *(Four *)sum, high = *(Four *)(sum + 4);
		for (; from < to; from++, index += PAIRS, weight += PAIRS) {
			low += *(const Four *)weight * gather(image, way, index);
			high += *(const Four *)(weight + 4) * gather(image, way, index + 4);
		}
		*(Four *)sum = low;
		*(Four *)(sum + 4) = high;
	} else
		for (; from < to; from++, index += pairs, weight += pairs)
			for (int i = 0; i < pairs; i++)
				sum[i] += weight[i] * image[way * index[i]];
}

/* Adds columns [from, to) of a group, times the step of each pair, to the image. */
INLINE void change(const ScsrRows *r, const Group *group, const int pairs, const int64_t way,
	int64_t from, int64_t to, const float *step, float *image)
{
	const int32_t *index = r->index + group->at + from * pairs;
	const float *weight = r->weight + group->at + from * pairs;
	for (; from < to; from++, index += pairs, weight += pairs) {
		float by[PAIRS];
		for (int i = 0; i < pairs; i++)
			by[i] = weight[i] * step[i];
		for (int i = 0; i < pairs; i++)
			image[way * index[i]] += by[i];
	}
}

/* Executes RUN for the ranges of columns in which no pair changes to its short row, and TURN for
 * each pair that does. */
#define WALK_PAIRS(RUN, TURN) \
	const uint8_t *masks = r->masks + group->masks; \
	unsigned rotated = 0; \
	int64_t from = 0; \
	for (int64_t t = group->one; t <= group->two; t++) { \
		unsigned which = t < group->two ? masks[t - group->one] : ~rotated; \
		if (!which) \
			continue; \
		RUN(from, t); \
		for (int i = 0; i < pairs; i++) \
			if (which >> i & 1) \
				TURN(i); \
		rotated |= which; \
		from = t; \
	} \
	RUN(from, group->width);

/* Column, in the view, of the long (0) or short (1) row of pair i; s->capacity - 1 if the row is to
 * be ignored. */
INLINE int64_t column_of(const Sweeper *s, const Group *group, int i, int which)
{
	int64_t none = s->capacity - 1,
		stored = s->scsr->rows->column[2 * (group->pair + i) + which];
	int64_t column = s->rays.flip ? none - 1 - stored : stored;
	return stored < 0 || column < s->rays.spared ? none : column;
}

INLINE void multiply_group(const Sweeper *s, const Group *group, const int pairs, const int64_t way,
	const float *image, double *sums)
{
	const ScsrRows *r = s->scsr->rows;
	float sum[PAIRS] = {0};
#define MULTIPLY(from, to) multiply(r, group, pairs, way, from, to, image, sum)
#define KEEP(i) (sums[column_of(s, group, i, 0)] += sum[i], sum[i] = 0)
	WALK_PAIRS(MULTIPLY, KEEP)
	for (int i = 0; i < pairs; i++)
		sums[column_of(s, group, i, 1)] += sum[i];
}

INLINE void change_group(const Sweeper *s, const Group *group, const int pairs, const int64_t way,
	float *image, double *unused)
{
	const ScsrRows *r = s->scsr->rows;
	float step[PAIRS];
	(void)unused;
	for (int i = 0; i < pairs; i++)
		step[i] = s->steps[column_of(s, group, i, 0)];
#define CHANGE(from, to) change(r, group, pairs, way, from, to, step, image)
#define EXCHANGE(i) (step[i] = s->steps[column_of(s, group, i, 1)])
	WALK_PAIRS(CHANGE, EXCHANGE)
}

/* Calls a function for all groups of a slab, with a constant number of pairs for full groups. */
#define EACH_GROUP(function, way) \
	for (int64_t i = first[0]; i < first[1]; i++) { \
		const Group *group = &r->group[i]; \
		if (group->pairs == PAIRS) \
			function(s, group, PAIRS, way, image, sums); \
		else if (group->pairs == 1) \
			function(s, group, 1, way, image, sums); \
		else \
			function(s, group, group->pairs, way, image, sums); \
	}

#define ON_SLAB(name, function) \
	static void name(void *user, int64_t slab) \
	{ \
		const Sweeper *s = user; \
		const ScsrRows *r = s->scsr->rows; \
		const int64_t *first = &r->first_group[slab * r->orbits + s->rays.orbit->number]; \
		double *sums = s->sums + slab * s->capacity; \
		float *image = s->image + (s->rays.backwards ? r->pixels - 1 : 0); \
		if (s->rays.backwards) \
			EACH_GROUP(function, -1) \
		else \
			EACH_GROUP(function, 1) \
	}

ON_SLAB(multiply_slab, multiply_group)
ON_SLAB(change_slab, change_group)

/* ---- rotation and transposition of the image ------------------------------------------------- */

/* Maps a block of up to BLOCK x BLOCK pixels; constant sizes for full blocks. */
INLINE void turn_block(
	const Sweeper *s, int64_t x, int64_t y, const int64_t wide, const int64_t tall)
{
	int64_t nx = s->scsr->rows->nx, along_x = s->along_x, along_y = s->along_y;
	const float *from = s->image + s->origin + x * along_x + y * along_y;
	float *to = s->spare + y * nx + x, block[BLOCK][BLOCK];
	for (int64_t j = 0; j < wide; j++)
		for (int64_t i = 0; i < tall; i++)
			block[i][j] = from[j * along_x + i * along_y];
	for (int64_t i = 0; i < tall; i++)
		for (int64_t j = 0; j < wide; j++)
			to[i * nx + j] = block[i][j];
}

static void map_rows(void *user, int64_t number)
{
	const Sweeper *s = user;
	int64_t nx = s->scsr->rows->nx, y = number * BLOCK;
	int64_t tall = min64(BLOCK, s->scsr->rows->ny - y);
	for (int64_t x = 0; x < nx; x += BLOCK) {
		if (tall == BLOCK && x + BLOCK <= nx)
			turn_block(s, x, y, BLOCK, BLOCK);
		else
			turn_block(s, x, y, min64(BLOCK, nx - x), tall);
	}
}

static void place(const Symmetry *m, const ScsrRows *r, const int64_t from[2], int64_t to[2])
{
	int64_t x = from[m->swap], y = from[!m->swap];
	to[0] = m->flip[0] ? r->nx - 1 - x : x;
	to[1] = m->flip[1] ? r->ny - 1 - y : y;
}

/* Index, in the current image, of the pixel that symmetry `to` maps to (x, y). */
static int64_t place_now(const Sweeper *s, int to, int64_t x, int64_t y)
{
	const Symmetries *all = &s->scsr->symmetries;
	const int64_t wanted[2] = {x, y};
	int64_t there[2], now[2];
	place(&all->list[to], s->scsr->rows, wanted, there);
	place(&all->list[all->inverse[s->symmetry]], s->scsr->rows, there, now);
	return now[1] * s->scsr->rows->nx + now[0];
}

/* Whether the image mapped by a symmetry is the current one, read in order (way 1) or in reverse
 * order (way -1). */
static bool is_current(Sweeper *s, int symmetry, int64_t way)
{
	s->origin = place_now(s, symmetry, 0, 0);
	s->along_x = place_now(s, symmetry, 1, 0) - s->origin;
	s->along_y = place_now(s, symmetry, 0, 1) - s->origin;
	return s->along_x == way && s->along_y == way * s->scsr->rows->nx;
}

static void map_image(Sweeper *s, int symmetry)
{
	float *rotated = s->spare;
	if (is_current(s, symmetry, 1))
		return;
	parallel_for((s->scsr->rows->ny + BLOCK - 1) / BLOCK, map_rows, s);
	s->spare = s->image;
	s->image = rotated;
	s->symmetry = symmetry;
}

/* ---- views ----------------------------------------------------------------------------------- */

static Rays rays_of(const Sweeper *s, int64_t view, bool flip)
{
	const Scsr *scsr = s->scsr;
	int64_t lane = scsr->lanes[2 * view + flip], straight = scsr->lanes[2 * view];
	if (lane < 0)
		return (Rays){0};
	const Orbit *orbit = &scsr->symmetries.orbits[lane / SYMMETRIES];
	return (Rays){.orbit = orbit,
		.symmetry = (int)(lane % SYMMETRIES),
		.flip = flip,
		.spared = flip && straight >= 0 ? orbit->columns : 0};
}

/* Runs a task on all slabs with these rays; does nothing if there are none. */
static void work(Sweeper *s, Rays rays, void (*on_slab)(void *, int64_t))
{
	if (!rays.orbit)
		return;
	rays.backwards = is_current(s, rays.symmetry, -1);
	if (!rays.backwards)
		map_image(s, rays.symmetry);
	s->rays = rays;
	parallel_for(s->scsr->rows->slabs, on_slab, s);
}

/* The lane for whose view the products of an orbit are computed. */
static int first_lane(const Orbit *orbit)
{
	int g = 0;
	while (orbit->target[g] < 0)
		g++;
	return g;
}

/* Computes the steps of a view's rays from the sums, one ray after the other. If the columns are
 * reversed, the ray d columns before ray c is stored d columns after it, where its product with c
 * is found. */
static void find_steps(Sweeper *s, const RowSweep *rows, int64_t view, const Rays *rays)
{
	const ScsrRows *r = s->scsr->rows;
	int64_t columns = r->view_columns, near = r->disjoint_columns - 1;
	int64_t number = rays->orbit - s->scsr->symmetries.orbits;
	const float *products = s->products + number * columns * near;
	bool reverse = rays->flip != rays->orbit->flip[first_lane(rays->orbit)];
	for (int64_t c = 0; c < columns; c++) {
		int64_t i = view * columns + c;
		double sum = 0;
		for (int64_t slab = 0; slab < r->slabs; slab++)
			sum += s->sums[slab * s->capacity + c];
		for (int64_t d = 1; d <= min64(near, c); d++)
			sum += (double)s->steps[c - d] *
			       products[(reverse ? columns - 1 - c + d : c) * near + d - 1];
		rows->r[i] = (float)(rows->b[i] - sum);
		s->steps[c] = rows->factor[i] * rows->r[i];
	}
	s->steps[columns] = 0;
}

static void sweep(RowSweeper *face, const RowSweep *rows, float *x)
{
	Sweeper *s = (Sweeper *)face;
	s->image = x;
	s->spare = s->own;
	s->symmetry = 0;
	for (int64_t i = 0; i < rows->count && !tomos_cancel_raised(cancel_asked()); i++) {
		Rays straight = rays_of(s, rows->views[i], false);
		Rays reverse = rays_of(s, rows->views[i], true);
		memset(s->sums, 0, (size_t)(s->scsr->rows->slabs * s->capacity) * sizeof *s->sums);
		work(s, straight, multiply_slab);
		work(s, reverse, multiply_slab);
		const Rays *either = straight.orbit ? &straight : &reverse;
		if (either->orbit)
			find_steps(s, rows, rows->views[i], either);
		work(s, reverse, change_slab);
		work(s, straight, change_slab);
	}
	map_image(s, 0);
	if (s->image != x)
		memcpy(x, s->image, (size_t)s->scsr->rows->pixels * sizeof *x);
}

/* ---- products of neighbours ------------------------------------------------------------------ */

typedef struct {
	const Sweeper *sweeper;
	int64_t tasks, most; /* most: largest number of entries of a row */
	float *images;       /* [task]: one row as an image; zeros between rows */
	int64_t *index;      /* [task][column modulo apart][entry]: the last `apart` rows */
	float *weight;
} Neighbours;

static void orbit_products(const Neighbours *n, int64_t task, int64_t number)
{
	const Scsr *scsr = n->sweeper->scsr;
	const Orbit *orbit = &scsr->symmetries.orbits[number];
	int64_t columns = scsr->rows->view_columns, apart = scsr->rows->disjoint_columns,
		count[MOST_APART];
	float *image = n->images + task * scsr->rows->pixels;
	float *out = n->sweeper->products + number * columns * (apart - 1);
	for (int64_t c = 0; c < columns; c++, out += apart - 1) {
		int64_t at = (task * apart + c % apart) * n->most, *index = n->index + at;
		float *weight = n->weight + at;
		scsr_row(scsr, orbit->target[first_lane(orbit)], c, index, weight,
			&count[c % apart]);
		for (int64_t k = 0; k < count[c % apart]; k++)
			image[index[k]] += weight[k];
		for (int64_t d = 1; d < apart; d++) {
			double sum = 0;
			int64_t before = (c + apart - d) % apart;
			at = (task * apart + before) * n->most;
			for (int64_t k = 0; d <= c && k < count[before]; k++)
				sum += (double)n->weight[at + k] * image[n->index[at + k]];
			out[d - 1] = (float)sum;
		}
		for (int64_t k = 0; k < count[c % apart]; k++)
			image[index[k]] = 0;
	}
}

static void task_products(void *user, int64_t task)
{
	const Neighbours *n = user;
	int64_t count = n->sweeper->scsr->symmetries.orbit_count;
	for (int64_t i = task; i < count && !cancel_seen(); i += n->tasks)
		orbit_products(n, task, i);
}

static tomos_status find_products(const Sweeper *s, int64_t row_most)
{
	const ScsrRows *r = s->scsr->rows;
	Neighbours n = {.sweeper = s, .most = row_most};
	tomos_status status;
	n.tasks = min64(tomos_threads(), s->scsr->symmetries.orbit_count);
	int64_t capacity = n.tasks * r->disjoint_columns * n.most;
	TRY_OR_DONE(mem_zeroed(
		&n.images, n.tasks * r->pixels, sizeof *n.images, "rows of a matrix spread out"));
	TRY_OR_DONE(mem_alloc(&n.index, capacity, sizeof *n.index, "rows of a matrix"));
	TRY_OR_DONE(mem_alloc(&n.weight, capacity, sizeof *n.weight, "rows of a matrix"));
	TRY_OR_DONE(parallel_try(n.tasks, task_products, &n, "the products of rays"));
done:
	mem_free(n.images);
	mem_free(n.index);
	mem_free(n.weight);
	return status;
}

/* ---- making ---------------------------------------------------------------------------------- */

static void release(RowSweeper *face)
{
	Sweeper *s = (Sweeper *)face;
	mem_free(s->own);
	mem_free(s->sums);
	mem_free(s->steps);
	mem_free(s->products);
	mem_free(s);
}

tomos_status scsr_sweeper(const Scsr *scsr, int64_t row_most, RowSweeper **made)
{
	const ScsrRows *r = scsr->rows;
	Sweeper *s;
	tomos_status status;
	if (r->disjoint_columns > MOST_APART)
		return TOMOS_OK;
	TRY(mem_zeroed(&s, 1, sizeof *s, "a sweep"));
	*s = (Sweeper){.base = {sweep, release}, .scsr = scsr, .capacity = r->view_columns + 1};
	int64_t rows = scsr->symmetries.orbit_count * r->view_columns;
	TRY_OR_DONE(mem_alloc(&s->own, r->pixels, sizeof *s->own, "the image rotated"));
	TRY_OR_DONE(
		mem_alloc(&s->sums, r->slabs * s->capacity, sizeof *s->sums, "sums of the rays"));
	TRY_OR_DONE(mem_alloc(&s->steps, s->capacity, sizeof *s->steps, "steps of the rays"));
	TRY_OR_DONE(mem_alloc(&s->products, rows * (r->disjoint_columns - 1), sizeof *s->products,
		"products of neighbouring rays"));
	TRY_OR_DONE(find_products(s, row_most));
	*made = &s->base;
done:
	if (status != TOMOS_OK)
		release(&s->base);
	return status;
}
