/* SCSR in device memory: the arrays of kernel/stored.h, and memory for images and sums. */
#include <string.h>
#include "op/scsr/scsr.h"

static const char what[] = "a matrix";

/* ---- the rows -------------------------------------------------------------------------------- */

static KernelSlabs slabs_of(const ScsrRows *r, const Symmetries *s)
{
	KernelSlabs made = {.nx = r->nx,
		.ny = r->ny,
		.slabs = r->slabs,
		.across = r->across,
		.width = r->slab_width,
		.height = r->slab_size,
		.view_columns = r->view_columns,
		.lanes = s->count};
	for (int g = 0; g < s->count; g++) {
		const Symmetry *m = &s->list[g];
		made.symmetry[g] = (KernelSymmetry){m->origin, m->along_x, m->along_y};
		made.inverse[g] = s->inverse[g];
	}
	return made;
}

/* Uploads the rows and allocates partial images for the largest number of units that an operator or
 * a subset of it has. The work memory is used for one purpose in the forward product and for
 * another in the adjoint. */
static tomos_status send_rows(ScsrRows *r, const Symmetries *s, tomos_backend *backend)
{
	KernelScsr *device = &r->device;
	*device = (KernelScsr){.of = slabs_of(r, s)};
	TRY(scsr_send_pieces(r, s, backend));
	int64_t images = scsr_units(r, r->pieces.bundles) + r->slabs;
	TRY(device_reserve(backend, &device->image,
		images * r->slab_size * r->slab_width * device->of.lanes,
		"the images of an image"));
	return device_reserve(backend, &device->work,
		max64(r->pieces.count, r->rows) * device->of.lanes, "the sums of the rays");
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
	tomos_status status = device_send(
		backend, &scsr->device.orbit, orbits, s->orbit_count, sizeof *orbits, what);
	mem_free(orbits);
	return status;
}

tomos_status scsr_send(Scsr *scsr, tomos_backend *backend)
{
	if (!scsr->borrowed)
		TRY(send_rows(scsr->rows, &scsr->symmetries, backend));
	scsr->device = scsr->rows->device;
	scsr->device.of.used = scsr->symmetries.orbit_count;
	TRY(send_orbits(scsr, backend));
	TRY(scsr_send_units(scsr, backend));
	return device_send(backend, &scsr->device.lane_of, scsr->lanes, 2 * scsr->views,
		sizeof *scsr->lanes, what);
}

void scsr_recall(Scsr *scsr, tomos_backend *backend)
{
	KernelScsr *own = &scsr->device;
	void *used[] = {&own->orbit, &own->lane_of, &own->units, &own->waves, &own->used_pieces,
		&own->first_image};
	for (int i = 0; i < COUNT(used); i++)
		device_free(backend, used[i]);
	if (!scsr->rows || scsr->borrowed)
		return;
	KernelScsr *rows = &scsr->rows->device;
	void *held[] = {&rows->index, &rows->weight, &rows->column, &rows->pieces, &rows->places,
		&rows->first_place, &rows->image, &rows->work};
	for (int i = 0; i < COUNT(held); i++)
		device_free(backend, held[i]);
}
