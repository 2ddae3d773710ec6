/* Pairs and groups the stored rows, and fills the dense matrices of the groups, in two passes over
 * the projector's entries: one counts, one stores. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "op/scsr/scsr.h"

enum {
	LEAST_SLAB = 32, /* pixel rows of a slab */
	MOST_SLABS = 32,
	MANY_SLABS = 144, /* slabs wanted on a device, if they are not too small */
	LEAST_NEAR = 16,
	PADDING = 64, /* a group is closed before one in PADDING entries is padding */
};

typedef struct {
	int32_t length, column;
} Ranked;

typedef struct {
	ScsrRows *rows;
	const Symmetries *symmetries;
	int32_t *lengths;     /* [slab][stored row] */
	int32_t *done;        /* [slab][stored row]: entries stored so far */
	int32_t *group_of;    /* [pair] */
	Ranked *ranked;       /* space for the rows of a view */
	int64_t row_capacity; /* slabs * rows */
} Building;

/* ---- pairs and groups ------------------------------------------------------------------------ */

static int compare_ranked(const void *a, const void *b)
{
	const Ranked *one = a, *two = b;
	if (one->length != two->length)
		return one->length > two->length ? -1 : 1;
	return one->column < two->column ? -1 : one->column > two->column;
}

/* Lists columns start, start + apart, ... of a view that have entries in the slab, the longest row
 * first. Rows `apart` columns apart share no pixel. Returns their number. */
static int64_t rank_rows(
	const Building *b, int64_t slab, const Orbit *orbit, int64_t start, int64_t apart)
{
	const int32_t *lengths = b->lengths + slab * b->rows->rows + orbit->first;
	int64_t count = 0;
	for (int64_t c = start; c < orbit->columns; c += apart)
		if (lengths[c] > 0)
			b->ranked[count++] = (Ranked){lengths[c], (int32_t)c};
	qsort(b->ranked, (size_t)count, sizeof *b->ranked, compare_ranked);
	return count;
}

static Group open_group(const ScsrRows *rows)
{
	return (Group){
		.at = rows->entries, .masks = rows->mask_count, .pair = (int32_t)rows->pairs};
}

static void close_group(ScsrRows *rows, const Group *group)
{
	rows->entries += (int64_t)group->width * group->pairs;
	rows->mask_count += group->two - group->one;
	rows->pairs += group->pairs;
	rows->group[rows->groups++] = *group;
}

/* Whether a pair of this length can be added to the group without too much padding. */
static bool group_takes(const Group *group, int64_t filled, int64_t length)
{
	int64_t width = max64(group->width, length), pairs = group->pairs + 1;
	return group->pairs < PAIRS && PADDING * (width * pairs - filled - length) <= width * pairs;
}

/* Adds a pair to the group. `place`: the element of ScsrRows.place for column 0 of the view in this
 * slab. */
static void add_pair(
	Building *b, Group *group, const Ranked *longer, const Ranked *shorter, int32_t *place)
{
	int32_t pair = group->pair + group->pairs;
	int32_t length = longer->length + (shorter ? shorter->length : 0);
	b->rows->column[2 * pair] = longer->column;
	b->rows->column[2 * pair + 1] = shorter ? shorter->column : -1;
	place[longer->column] = 2 * pair;
	if (shorter)
		place[shorter->column] = 2 * pair + 1;
	b->group_of[pair] = (int32_t)b->rows->groups;
	group->one = group->pairs && group->one < longer->length ? group->one : longer->length;
	group->two = group->two > longer->length ? group->two : longer->length;
	group->width = group->width > length ? group->width : length;
	group->pairs++;
}

static void group_class(Building *b, int64_t slab, const Orbit *orbit, int64_t start, int64_t apart)
{
	int32_t *place = b->rows->place + slab * b->rows->rows + orbit->first;
	int64_t count = rank_rows(b, slab, orbit, start, apart), filled = 0;
	Group group = open_group(b->rows);
	group.opens = 1;
	for (int64_t i = 0; i < (count + 1) / 2; i++) {
		const Ranked *longer = &b->ranked[i];
		const Ranked *shorter = count - 1 - i > i ? &b->ranked[count - 1 - i] : NULL;
		int64_t length = (int64_t)longer->length + (shorter ? shorter->length : 0);
		if (group.pairs > 0 && !group_takes(&group, filled, length)) {
			close_group(b->rows, &group);
			group = open_group(b->rows);
			filled = 0;
		}
		add_pair(b, &group, longer, shorter, place);
		filled += length;
	}
	if (group.pairs > 0)
		close_group(b->rows, &group);
}

static void group_all(Building *b, const Plan *plan)
{
	const Symmetries *s = b->symmetries;
	for (int64_t slab = 0; slab < b->rows->slabs; slab++)
		for (int64_t i = 0; i < s->orbit_count; i++) {
			const Orbit *orbit = &s->orbits[i];
			int64_t apart = plan_disjoint_columns(plan, orbit->view);
			b->rows->disjoint_columns = max64(b->rows->disjoint_columns, apart);
			b->rows->first_group[slab * s->orbit_count + i] = b->rows->groups;
			for (int64_t start = 0; start < apart; start++)
				group_class(b, slab, orbit, start, apart);
		}
	b->rows->first_group[b->rows->slabs * s->orbit_count] = b->rows->groups;
}

/* ---- filling --------------------------------------------------------------------------------- */

/* Slab of a pixel. Computed with 32-bit numbers, whose division is faster. */
static int64_t slab_of(const ScsrRows *rows, int64_t index)
{
	uint32_t pixel = (uint32_t)index, nx = (uint32_t)rows->nx, y = pixel / nx;
	uint32_t slab = y / (uint32_t)rows->slab_size * (uint32_t)rows->across;
	return rows->across == 1 ? slab : slab + (pixel - y * nx) / (uint32_t)rows->slab_width;
}

static void count_entries(
	void *user, int64_t row, int64_t count, const int64_t *index, const float *weight)
{
	const Building *b = user;
	(void)weight;
	for (int64_t i = 0; i < count; i++)
		b->lengths[slab_of(b->rows, index[i]) * b->rows->rows + row]++;
}

static void put_entries(
	void *user, int64_t row, int64_t count, const int64_t *index, const float *weight)
{
	const Building *b = user;
	ScsrRows *rows = b->rows;
	for (int64_t i = 0; i < count; i++) {
		int64_t at = slab_of(rows, index[i]) * rows->rows + row, place = rows->place[at];
		const Group *group = &rows->group[b->group_of[place / 2]];
		/* A short row begins where the long row of its pair ends. */
		const int32_t *column = rows->column + (place & ~(int64_t)1);
		int64_t start = place & 1 ? b->lengths[at + column[0] - column[1]] : 0;
		int64_t t = start + b->done[at]++;
		at = group->at + t * group->pairs + place / 2 - group->pair;
		rows->index[at] = (int32_t)index[i];
		rows->weight[at] = weight[i];
	}
}

/* Pads the rows of a group, repeating the last pixel with weight 0, and sets the masks. */
static void pad_group(const Building *b, const Group *group, const int32_t *lengths)
{
	ScsrRows *rows = b->rows;
	for (int64_t p = 0; p < group->pairs; p++) {
		const int32_t *column = rows->column + 2 * (group->pair + p);
		int64_t longer = lengths[column[0]], at = group->at + p;
		int64_t end = longer + (column[1] >= 0 ? lengths[column[1]] : 0);
		for (int64_t t = end; t < group->width; t++) {
			rows->index[at + t * group->pairs] =
				rows->index[at + (end - 1) * group->pairs];
			rows->weight[at + t * group->pairs] = 0;
		}
		if (longer < group->two)
			rows->masks[group->masks + longer - group->one] |= (uint8_t)(1 << p);
	}
}

static void pad_all(const Building *b)
{
	const ScsrRows *rows = b->rows;
	for (int64_t i = 0; i < rows->slabs * rows->orbits; i++) {
		const Orbit *orbit = &b->symmetries->orbits[i % rows->orbits];
		const int32_t *lengths = b->lengths + i / rows->orbits * rows->rows + orbit->first;
		for (int64_t g = rows->first_group[i]; g < rows->first_group[i + 1]; g++)
			pad_group(b, &rows->group[g], lengths);
	}
}

static tomos_status fill_rows(Building *b, const Lister *lister, const Part *parts)
{
	ScsrRows *rows = b->rows;
	TRY(mem_zeroed(&b->done, b->row_capacity, sizeof *b->done, "the rows of a matrix"));
	TRY(mem_alloc(
		&rows->index, rows->entries, sizeof *rows->index, "the pixel indices of a matrix"));
	TRY(mem_alloc(
		&rows->weight, rows->entries, sizeof *rows->weight, "the values of a matrix"));
	TRY(mem_zeroed(&rows->masks, rows->mask_count, 1, "the junctions of a matrix"));
	TRY(lister_fill(lister, parts, rows->orbits, put_entries, b));
	pad_all(b);
	return TOMOS_OK;
}

/* ---- the whole matrix ------------------------------------------------------------------------ */

/* Side of the square slabs on a device: the most pixels that fit into `slab_bytes` with all their
 * images and into a 16-bit index, fewer if there would be few slabs; an even number. */
static int64_t slab_side(const ScsrRows *rows, int lanes, int64_t slab_bytes)
{
	int64_t fit = slab_bytes / (lanes * (int64_t)sizeof(float));
	double most = sqrt((double)min64(fit, STORED_PIXELS));
	double many = fmax(LEAST_NEAR, sqrt((double)rows->pixels / MANY_SLABS));
	return max64(2, (int64_t)fmin(most, many) / 2 * 2);
}

/* Size of the parts of n when divided into nearly equal parts of about `side`; an even number. */
static int64_t cut(int64_t n, int64_t side)
{
	int64_t parts = (n + side - 1) / side;
	return ((n + parts - 1) / parts + 1) / 2 * 2;
}

static void measure_slabs(ScsrRows *rows, int lanes, int64_t slab_bytes)
{
	int64_t wanted = max64(1, min64(MOST_SLABS, rows->ny / LEAST_SLAB));
	int64_t side = slab_bytes > 0 ? slab_side(rows, lanes, slab_bytes) : 0;
	rows->slab_size = slab_bytes > 0 ? cut(rows->ny, side) : (rows->ny + wanted - 1) / wanted;
	rows->slab_width = slab_bytes > 0 ? cut(rows->nx, side) : rows->nx;
	rows->across = (rows->nx + rows->slab_width - 1) / rows->slab_width;
	rows->slabs = rows->across * ((rows->ny + rows->slab_size - 1) / rows->slab_size);
}

static void measure_rows(ScsrRows *rows, const Plan *plan, int lanes, int64_t slab_bytes)
{
	rows->nx = plan->grid.n[0];
	rows->ny = plan->grid.n[1];
	rows->pixels = rows->nx * rows->ny;
	rows->view_columns = plan->model.columns;
	measure_slabs(rows, lanes, slab_bytes);
}

static tomos_status take_places(Building *b)
{
	ScsrRows *rows = b->rows;
	int64_t capacity = b->row_capacity;
	TRY(mem_alloc(&rows->column, 2 * capacity, sizeof(int32_t), "the pairs of a matrix"));
	TRY(mem_alloc(&rows->place, capacity, sizeof(int32_t), "the pairs of a matrix"));
	TRY(mem_alloc(&b->group_of, capacity, sizeof(int32_t), "the pairs of a matrix"));
	TRY(mem_alloc(&rows->group, capacity, sizeof(Group), "the groups of a matrix"));
	TRY(mem_alloc(&b->ranked, rows->view_columns, sizeof(Ranked), "the rows of a view"));
	TRY(mem_alloc(&rows->first_group, rows->slabs * rows->orbits + 1, sizeof(int64_t),
		"the groups of a matrix"));
	memset(rows->place, -1, (size_t)capacity * sizeof(int32_t));
	return TOMOS_OK;
}

/* Frees the unused end of an array: it was allocated for the worst case, in which every row is a
 * pair and every pair a group. */
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

static tomos_status count_rows(Building *b, Lister *lister, const Part *parts)
{
	int64_t *counts;
	TRY(mem_alloc(&counts, b->rows->rows, sizeof *counts, "the rows of a matrix"));
	tomos_status status = lister_count(lister, parts, b->rows->orbits, counts);
	for (int64_t i = 0; i < b->rows->rows && status == TOMOS_OK; i++)
		b->rows->longest = max64(b->rows->longest, counts[i]);
	mem_free(counts);
	TRY(status);
	TRY(mem_zeroed(&b->lengths, b->row_capacity, sizeof *b->lengths, "the rows of a matrix"));
	return lister_fill(lister, parts, b->rows->orbits, count_entries, b);
}

static tomos_status build_rows(Building *b, Lister *lister, const Part *parts)
{
	ScsrRows *rows = b->rows;
	rows->rows = b->symmetries->rows;
	rows->orbits = b->symmetries->orbit_count;
	if (!size_mul(rows->rows, rows->slabs, &b->row_capacity) || b->row_capacity > INT32_MAX / 2)
		return fail(TOMOS_UNSUPPORTED,
			"SCSR: %lld stored rows in %lld slabs; at most %d pieces are possible",
			(long long)rows->rows, (long long)rows->slabs, INT32_MAX / 2);
	TRY(count_rows(b, lister, parts));
	TRY(take_places(b));
	group_all(b, &lister->plan);
	TRY(shrink(&rows->group, rows->groups, sizeof(Group)));
	TRY(shrink(&rows->column, 2 * rows->pairs, sizeof(int32_t)));
	return fill_rows(b, lister, parts);
}

tomos_status scsr_build(Scsr *scsr, Lister *lister, int64_t slab_bytes)
{
	Building b = {.symmetries = &scsr->symmetries};
	Part *parts = NULL;
	tomos_status status;
	TRY_OR_DONE(mem_zeroed(&scsr->rows, 1, sizeof *scsr->rows, "a matrix"));
	b.rows = scsr->rows;
	TRY_OR_DONE(symmetries_find(&scsr->symmetries, lister));
	measure_rows(scsr->rows, &lister->plan, scsr->symmetries.count, slab_bytes);
	TRY_OR_DONE(make_parts(&scsr->symmetries, &parts));
	TRY_OR_DONE(build_rows(&b, lister, parts));
	TRY_OR_DONE(scsr_number_lanes(scsr, lister->plan.scan->count));
done:
	mem_free(parts);
	mem_free(b.lengths);
	mem_free(b.done);
	mem_free(b.group_of);
	mem_free(b.ranked);
	if (status != TOMOS_OK)
		scsr_clear(scsr);
	return status;
}

void scsr_clear(Scsr *scsr)
{
	symmetries_free(&scsr->symmetries);
	mem_free(scsr->lanes);
	if (scsr->rows && !scsr->borrowed) {
		mem_free(scsr->rows->index);
		mem_free(scsr->rows->weight);
		mem_free(scsr->rows->masks);
		mem_free(scsr->rows->column);
		mem_free(scsr->rows->place);
		mem_free(scsr->rows->group);
		mem_free(scsr->rows->first_group);
		mem_free(scsr->rows->pieces.list);
		mem_free(scsr->rows->pieces.first_piece);
		mem_free(scsr->rows->pieces.first_wave);
		mem_free(scsr->rows);
	}
	*scsr = (Scsr){0};
}

int64_t scsr_bytes(const Scsr *scsr)
{
	const ScsrRows *r = scsr->rows;
	return r->entries * (int64_t)(sizeof *r->index + sizeof *r->weight) + r->mask_count +
	       2 * r->pairs * (int64_t)sizeof *r->column +
	       r->slabs * r->rows * (int64_t)sizeof *r->place +
	       r->groups * (int64_t)sizeof *r->group +
	       (r->slabs * r->orbits + 1) * (int64_t)sizeof *r->first_group +
	       r->orbits * (int64_t)sizeof(Orbit);
}
