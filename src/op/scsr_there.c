/* SCSR on devices: its arrays as kernel/stored.h has them, and room for the images and sums. */
#include <string.h>
#include "op/scsr.h"

enum {
	WORK_FLOATS = 32 << 20, /* sums of the pieces of rays that are kept at a time */
	BLOCKS = 512,           /* slabs and shares that keep a device busy */
	MOST_SHARES = 4,
};

static const char what[] = "a matrix";

/* ---- the rows -------------------------------------------------------------------------------- */

static int64_t count_waves(const ScsrRows *r)
{
	int64_t count = 0;
	for (int64_t i = 0; i < r->groups; i++)
		count += r->group[i].opens;
	return count;
}

static tomos_status send_waves(const ScsrRows *r, KernelScsr *there, tomos_backend *backend)
{
	int64_t *waves = NULL, *first = NULL, cells = r->slabs * r->orbits, wave = 0;
	int64_t count = count_waves(r);
	tomos_status status;
	TRY_OR_DONE(mem_alloc(&waves, count + 1, sizeof *waves, what));
	TRY_OR_DONE(mem_alloc(&first, cells + 1, sizeof *first, what));
	for (int64_t cell = 0; cell < cells; cell++) {
		first[cell] = wave;
		for (int64_t g = r->first_group[cell]; g < r->first_group[cell + 1]; g++)
			if (r->group[g].opens)
				waves[wave++] = g;
	}
	first[cells] = wave;
	waves[count] = r->groups;
	TRY_OR_DONE(there_send(backend, &there->waves, waves, count + 1, sizeof *waves, what));
	TRY_OR_DONE(there_send(backend, &there->first_wave, first, cells + 1, sizeof *first, what));
done:
	mem_free(waves);
	mem_free(first);
	return status;
}

/* Where pair p of a group goes over to its short row: at a bit, or where all of them have. */
static int32_t turn_of(const ScsrRows *r, const Group *group, int p)
{
	int32_t t = group->one;
	while (t < group->two && !(r->masks[group->masks + t - group->one] >> p & 1))
		t++;
	return t;
}

static tomos_status send_groups(const ScsrRows *r, KernelScsr *there, tomos_backend *backend)
{
	KernelGroup *groups = NULL;
	KernelPair *pairs = NULL;
	tomos_status status;
	TRY_OR_DONE(mem_alloc(&groups, r->groups, sizeof *groups, what));
	TRY_OR_DONE(mem_alloc(&pairs, r->pairs, sizeof *pairs, what));
	for (int64_t i = 0; i < r->groups; i++) {
		const Group *g = &r->group[i];
		groups[i] = (KernelGroup){g->at, g->pair, g->pairs, g->width, g->opens};
		for (int p = 0; p < g->pairs; p++) {
			const int32_t *column = r->column + 2 * (g->pair + p);
			pairs[g->pair + p] =
				(KernelPair){{column[0], column[1]}, turn_of(r, g, p), (int)i};
		}
	}
	TRY_OR_DONE(there_send(backend, &there->groups, groups, r->groups, sizeof *groups, what));
	TRY_OR_DONE(there_send(backend, &there->pairs, pairs, r->pairs, sizeof *pairs, what));
done:
	mem_free(groups);
	mem_free(pairs);
	return status;
}

static KernelSlabs slabs_of(const ScsrRows *r, const Symmetries *s)
{
	KernelSlabs made = {.nx = r->nx,
		.ny = r->ny,
		.slabs = r->slabs,
		.slab_size = r->slab_size,
		.rows = r->rows,
		.orbits = r->orbits,
		.view_columns = r->view_columns,
		.lanes = s->count};
	for (int g = 0; g < s->count; g++) {
		const Symmetry *m = &s->list[g];
		made.symmetry[g] = (KernelSymmetry){m->origin, m->along_x, m->along_y};
		made.inverse[g] = s->inverse[g];
	}
	int64_t each = r->slabs * r->view_columns * s->count;
	made.chunk = max64(1, min64(r->orbits, WORK_FLOATS / each));
	made.shares = max64(1, min64(min64(r->orbits, MOST_SHARES), BLOCKS / r->slabs));
	return made;
}

/* Forward and back, work holds one thing or the other. */
static int64_t work_floats(const ScsrRows *r, const KernelScsr *there)
{
	return max64(there->of.chunk * r->slabs * r->view_columns, r->rows) * there->of.lanes;
}

static tomos_status send_rows(ScsrRows *r, const Symmetries *s, tomos_backend *backend)
{
	KernelScsr *there = &r->there;
	*there = (KernelScsr){.of = slabs_of(r, s)};
	TRY(there_send(backend, &there->index, r->index, r->entries, sizeof *r->index, what));
	TRY(there_send(backend, &there->weight, r->weight, r->entries, sizeof *r->weight, what));
	TRY(there_send(
		backend, &there->place, r->place, r->slabs * r->rows, sizeof *r->place, what));
	TRY(send_groups(r, there, backend));
	TRY(send_waves(r, there, backend));
	TRY(there_room(backend, &there->image, there->of.shares * r->pixels * there->of.lanes,
		"the images of an image"));
	return there_room(backend, &there->work, work_floats(r, there), "the sums of the rays");
}

/* ---- the orbits ------------------------------------------------------------------------------ */

static KernelOrbit orbit_there(const Orbit *orbit)
{
	KernelOrbit made = {.number = orbit->number,
		.columns = orbit->columns,
		.first = orbit->first,
		.slot = orbit->slot};
	memcpy(made.target, orbit->target, sizeof made.target);
	for (int g = 0; g < SYMMETRIES; g++) {
		made.flip |= orbit->flip[g] << g;
		made.again |= orbit->again[g] << g;
	}
	return made;
}

static tomos_status send_orbits(Scsr *scsr, tomos_backend *backend)
{
	const Symmetries *s = &scsr->symmetries;
	KernelOrbit *orbits;
	TRY(mem_alloc(&orbits, s->orbit_count, sizeof *orbits, what));
	for (int64_t i = 0; i < s->orbit_count; i++)
		orbits[i] = orbit_there(&s->orbits[i]);
	tomos_status status = there_send(
		backend, &scsr->there.orbit, orbits, s->orbit_count, sizeof *orbits, what);
	mem_free(orbits);
	return status;
}

tomos_status scsr_send(Scsr *scsr, tomos_backend *backend)
{
	if (!scsr->borrowed)
		TRY(send_rows(scsr->rows, &scsr->symmetries, backend));
	scsr->there = scsr->rows->there;
	scsr->there.of.used = scsr->symmetries.orbit_count;
	scsr->there.of.used_rows = scsr->symmetries.rows;
	TRY(send_orbits(scsr, backend));
	return there_send(backend, &scsr->there.lane_of, scsr->lanes, 2 * scsr->views,
		sizeof *scsr->lanes, what);
}

void scsr_recall(Scsr *scsr, tomos_backend *backend)
{
	there_free(backend, &scsr->there.orbit);
	there_free(backend, &scsr->there.lane_of);
	if (!scsr->rows || scsr->borrowed)
		return;
	KernelScsr *rows = &scsr->rows->there;
	void *held[] = {&rows->index, &rows->weight, &rows->place, &rows->groups, &rows->pairs,
		&rows->waves, &rows->first_wave, &rows->image, &rows->work};
	for (int i = 0; i < COUNT(held); i++)
		there_free(backend, held[i]);
}
