/* Sorts, pairs and groups the stored rays, and fills their dense matrices in two passes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "op/scsr.h"

enum {
	LEAST_SLAB = 32, /* pixel rows of a slab */
	MOST_SLABS = 32,
	PADDING = 64, /* at most one entry in so many, before a group is closed */
};

typedef struct {
	int64_t length;
	int32_t column;
} Ranked;

typedef struct {
	Scsr *scsr;
	const int64_t *counts; /* [stored row] */
	int64_t *group_of;     /* [pair] */
	Ranked *ranked;        /* room for the rows of a view */
} Building;

/* ---- which rows share no pixel ------------------------------------------------------------------ */

/* No two rays that are so many columns apart meet a pixel in common. A ray-driven kernel reaches
 * less than one pixel to either side of the ray, a footprint half the shadow and half a column. */
static int64_t columns_apart(const Plan *plan, const KernelView *k)
{
	double nearest = HUGE_VAL, rate[2] = {0, 0};
	for (int corner = 0; corner < 4; corner++) {
		double x = corner & 1 ? (double)plan->grid.n[0] : -1;
		double y = corner & 2 ? (double)plan->grid.n[1] : -1;
		double depth = k->depth[0] * x + k->depth[1] * y + k->depth[3];
		double column = k->column[0] * x + k->column[1] * y + k->column[3];
		nearest = fmin(nearest, depth);
		if (depth <= 0)
			continue;
		for (int a = 0; a < 2; a++)
			rate[a] = fmax(
				rate[a], fabs(k->column[a]) + fabs(column / depth * k->depth[a]));
	}
	if (!(nearest > 0)) /* the source is among the voxels: all rays may share one */
		return plan->model.columns;
	double x = rate[0] / nearest, y = rate[1] / nearest;
	double reach = fmax(2 * fmax(x, y), fmax(x + y + 1, 2));
	return reach < (double)plan->model.columns ? (int64_t)floor(reach + 1e-6) + 1
						   : plan->model.columns;
}

/* ---- pairs and groups ------------------------------------------------------------------------------ */

static int compare_ranked(const void *a, const void *b)
{
	const Ranked *one = a, *two = b;
	if (one->length != two->length)
		return one->length > two->length ? -1 : 1;
	return one->column < two->column ? -1 : one->column > two->column;
}

/* Rows `start`, `start` + apart, ... that are not empty, the longest first. */
static int64_t rank_rows(const Building *b, const Orbit *orbit, int64_t start, int64_t apart)
{
	int64_t count = 0;
	for (int64_t c = start; c < orbit->columns; c += apart)
		b->ranked[count++] = (Ranked){b->counts[orbit->first + c], (int32_t)c};
	qsort(b->ranked, (size_t)count, sizeof *b->ranked, compare_ranked);
	while (count > 0 && b->ranked[count - 1].length == 0)
		count--;
	return count;
}

static Group open_group(const Scsr *s, int64_t orbit)
{
	return (Group){.orbit = (int32_t)orbit,
		.pair = s->rows->pairs,
		.slot = s->rows->pairs,
		.at = s->rows->entries,
		.masks = s->rows->mask_count};
}

static void close_group(Building *b, const Group *group)
{
	ScsrRows *rows = b->scsr->rows;
	rows->entries += group->width * group->pairs;
	rows->mask_count += group->two - group->one;
	rows->pairs += group->pairs;
	b->scsr->groups[b->scsr->group_count++] = *group;
}

/* Whether the pair still fits in: few enough, and with little padding. */
static bool group_takes(const Group *group, int64_t filled, int64_t length)
{
	int64_t width = max64(group->width, length), pairs = group->pairs + 1;
	return group->pairs < PAIRS && PADDING * (width * pairs - filled - length) <= width * pairs;
}

static void add_pair(
	Building *b, Group *group, const Ranked *longer, const Ranked *shorter, const Orbit *orbit)
{
	ScsrRows *rows = b->scsr->rows;
	int64_t pair = group->pair + group->pairs;
	rows->column[2 * pair] = longer->column;
	rows->column[2 * pair + 1] = shorter ? shorter->column : -1;
	rows->place[orbit->first + longer->column] = 2 * pair;
	if (shorter)
		rows->place[orbit->first + shorter->column] = 2 * pair + 1;
	b->group_of[pair] = b->scsr->group_count;
	group->one = group->pairs ? min64(group->one, longer->length) : longer->length;
	group->two = max64(group->two, longer->length);
	group->width = max64(group->width, longer->length + (shorter ? shorter->length : 0));
	group->pairs++;
}

static void group_class(Building *b, int64_t number, int64_t start, int64_t apart)
{
	const Orbit *orbit = &b->scsr->symmetries.orbits[number];
	int64_t count = rank_rows(b, orbit, start, apart), filled = 0;
	Group group = open_group(b->scsr, number);
	for (int64_t i = 0; i < (count + 1) / 2; i++) {
		const Ranked *longer = &b->ranked[i];
		const Ranked *shorter = count - 1 - i > i ? &b->ranked[count - 1 - i] : NULL;
		int64_t length = longer->length + (shorter ? shorter->length : 0);
		if (group.pairs > 0 && !group_takes(&group, filled, length)) {
			close_group(b, &group);
			group = open_group(b->scsr, number);
			filled = 0;
		}
		add_pair(b, &group, longer, shorter, orbit);
		filled += length;
	}
	if (group.pairs > 0)
		close_group(b, &group);
}

static void group_all(Building *b, const Plan *plan)
{
	const Symmetries *s = &b->scsr->symmetries;
	for (int64_t i = 0; i < s->orbit_count; i++) {
		int64_t apart = columns_apart(plan, &plan->views[s->orbits[i].view]);
		for (int64_t start = 0; start < apart; start++)
			group_class(b, i, start, apart);
	}
	b->scsr->slots = b->scsr->rows->pairs;
}

/* ---- filling ------------------------------------------------------------------------------------------ */

typedef struct {
	const Building *building;
	int64_t *done; /* [stored row]: entries so far */
} Filling;

static void put_entries(
	void *user, int64_t row, int64_t count, const int64_t *index, const float *weight)
{
	const Filling *f = user;
	const Building *b = f->building;
	ScsrRows *rows = b->scsr->rows;
	int64_t place = rows->place[row], pair = place / 2;
	const Group *group = &b->scsr->groups[b->group_of[pair]];
	const Orbit *orbit = &b->scsr->symmetries.orbits[group->orbit];
	int64_t start = place & 1 ? b->counts[orbit->first + rows->column[2 * pair]] : 0;
	int64_t slab_pixels = rows->slab_size * rows->nx;
	uint32_t *ends = rows->ends + place * rows->slabs;
	for (int64_t i = 0; i < count; i++) {
		int64_t t = start + f->done[row]++;
		int64_t at = group->at + t * group->pairs + pair - group->pair;
		rows->index[at] = (int32_t)index[i];
		rows->weight[at] = weight[i];
		ends[index[i] / slab_pixels]++;
	}
}

/* Counts of the slabs become their ends. */
static void sum_ends(ScsrRows *rows)
{
	for (int64_t row = 0; row < 2 * rows->pairs; row++)
		for (int64_t s = 1; s < rows->slabs; s++)
			rows->ends[row * rows->slabs + s] += rows->ends[row * rows->slabs + s - 1];
}

/* Padding: weight 0 on pixel 0, and the bits of the second sub-matrix. */
static void pad_group(const Building *b, const Group *group)
{
	ScsrRows *rows = b->scsr->rows;
	const Orbit *orbit = &b->scsr->symmetries.orbits[group->orbit];
	for (int64_t p = 0; p < group->pairs; p++) {
		const int32_t *column = rows->column + 2 * (group->pair + p);
		int64_t longer = b->counts[orbit->first + column[0]];
		int64_t end = longer + (column[1] >= 0 ? b->counts[orbit->first + column[1]] : 0);
		for (int64_t t = end; t < group->width; t++) {
			rows->index[group->at + t * group->pairs + p] = 0;
			rows->weight[group->at + t * group->pairs + p] = 0;
		}
		if (longer < group->two)
			rows->masks[group->masks + longer - group->one] |= (uint8_t)(1 << p);
	}
}

static tomos_status fill_rows(Building *b, const Lister *lister, const Part *parts)
{
	ScsrRows *rows = b->scsr->rows;
	const Symmetries *s = &b->scsr->symmetries;
	int64_t *done = NULL;
	tomos_status status;
	TRY_OR_DONE(mem_zeroed(&done, s->rows, sizeof *done, "the rows of a matrix"));
	TRY_OR_DONE(mem_alloc(
		&rows->index, rows->entries, sizeof *rows->index, "the pixel indices of a matrix"));
	TRY_OR_DONE(mem_alloc(
		&rows->weight, rows->entries, sizeof *rows->weight, "the values of a matrix"));
	TRY_OR_DONE(mem_zeroed(&rows->masks, rows->mask_count, 1, "the junctions of a matrix"));
	TRY_OR_DONE(mem_zeroed(&rows->ends, 2 * rows->pairs * rows->slabs, sizeof *rows->ends,
		"the slabs of a matrix"));
	TRY_OR_DONE(lister_fill(lister, parts, s->orbit_count, put_entries, &(Filling){b, done}));
	sum_ends(rows);
	for (int64_t g = 0; g < b->scsr->group_count; g++)
		pad_group(b, &b->scsr->groups[g]);
done:
	mem_free(done);
	return status;
}

/* ---- all of it ------------------------------------------------------------------------------------------- */

static void measure_rows(ScsrRows *rows, const Plan *plan)
{
	rows->nx = plan->grid.n[0];
	rows->ny = plan->grid.n[1];
	rows->pixels = rows->nx * rows->ny;
	rows->view_columns = plan->model.columns;
	int64_t wanted = max64(1, min64(MOST_SLABS, rows->ny / LEAST_SLAB));
	rows->slab_size = (rows->ny + wanted - 1) / wanted;
	rows->slabs = (rows->ny + rows->slab_size - 1) / rows->slab_size;
}

static tomos_status take_places(Building *b)
{
	Scsr *scsr = b->scsr;
	int64_t rows = scsr->symmetries.rows;
	TRY(mem_alloc(&scsr->rows->column, 2 * rows, sizeof(int32_t), "the pairs of a matrix"));
	TRY(mem_alloc(&scsr->rows->place, rows, sizeof(int64_t), "the pairs of a matrix"));
	TRY(mem_alloc(&b->group_of, rows, sizeof(int64_t), "the pairs of a matrix"));
	TRY(mem_alloc(&scsr->groups, rows, sizeof(Group), "the groups of a matrix"));
	TRY(mem_alloc(&b->ranked, scsr->rows->view_columns, sizeof(Ranked), "the rows of a view"));
	for (int64_t i = 0; i < rows; i++)
		scsr->rows->place[i] = -1;
	return TOMOS_OK;
}

/* Arrays were made for the worst case, every row a pair and every pair a group. */
static tomos_status shrink(void *array, int64_t count, size_t size)
{
	void *old, *fitting;
	memcpy(&old, array, sizeof old);
	TRY(mem_alloc(&fitting, count, size, "the groups of a matrix"));
	memcpy(fitting, old, (size_t)count * size);
	mem_free(old);
	memcpy(array, &fitting, sizeof fitting);
	return TOMOS_OK;
}

static tomos_status make_parts(const Symmetries *s, Part **parts)
{
	TRY(mem_alloc(parts, s->orbit_count, sizeof **parts, "the parts of a matrix"));
	for (int64_t i = 0; i < s->orbit_count; i++)
		(*parts)[i] =
			(Part){s->orbits[i].view, 0, s->orbits[i].columns, s->orbits[i].first};
	return TOMOS_OK;
}

static tomos_status build_rows(Building *b, Lister *lister, const Part *parts, int64_t *counts)
{
	Scsr *scsr = b->scsr;
	TRY(lister_count(lister, parts, scsr->symmetries.orbit_count, counts));
	b->counts = counts;
	TRY(take_places(b));
	group_all(b, &lister->plan);
	TRY(shrink(&scsr->groups, scsr->group_count, sizeof(Group)));
	TRY(shrink(&scsr->rows->column, 2 * scsr->rows->pairs, sizeof(int32_t)));
	for (int64_t i = 0; i < scsr->symmetries.rows; i++)
		scsr->rows->longest = max64(scsr->rows->longest, counts[i]);
	return fill_rows(b, lister, parts);
}

tomos_status scsr_build(Scsr *scsr, Lister *lister)
{
	Building b = {.scsr = scsr};
	Part *parts = NULL;
	int64_t *counts = NULL;
	tomos_status status;
	TRY_OR_DONE(mem_zeroed(&scsr->rows, 1, sizeof *scsr->rows, "a matrix"));
	measure_rows(scsr->rows, &lister->plan);
	TRY_OR_DONE(symmetries_find(&scsr->symmetries, lister));
	TRY_OR_DONE(make_parts(&scsr->symmetries, &parts));
	TRY_OR_DONE(
		mem_alloc(&counts, scsr->symmetries.rows, sizeof *counts, "the rows of a matrix"));
	TRY_OR_DONE(build_rows(&b, lister, parts, counts));
	TRY_OR_DONE(scsr_number_lanes(scsr, lister->plan.scan->count));
done:
	mem_free(parts);
	mem_free(counts);
	mem_free(b.group_of);
	mem_free(b.ranked);
	if (status != TOMOS_OK)
		scsr_clear(scsr);
	return status;
}

void scsr_clear(Scsr *scsr)
{
	symmetries_free(&scsr->symmetries);
	mem_free(scsr->groups);
	mem_free(scsr->lanes);
	if (scsr->rows && !scsr->borrowed) {
		mem_free(scsr->rows->index);
		mem_free(scsr->rows->weight);
		mem_free(scsr->rows->masks);
		mem_free(scsr->rows->column);
		mem_free(scsr->rows->ends);
		mem_free(scsr->rows->place);
		mem_free(scsr->rows);
	}
	*scsr = (Scsr){0};
}

int64_t scsr_bytes(const Scsr *scsr)
{
	const ScsrRows *r = scsr->rows;
	const Symmetries *s = &scsr->symmetries;
	return r->entries * (int64_t)(sizeof *r->index + sizeof *r->weight) + r->mask_count +
	       2 * r->pairs * (int64_t)(sizeof *r->column + (size_t)r->slabs * sizeof *r->ends) +
	       s->rows * (int64_t)sizeof *r->place + s->orbit_count * (int64_t)sizeof *s->orbits +
	       scsr->group_count * (int64_t)sizeof *scsr->groups;
}
