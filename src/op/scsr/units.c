/* Divides a product with SCSR into units of work, one per thread block. A unit consists of some
 * views in one slab; units have similar sizes and are sorted, the largest first. */
#include <stdlib.h>
#include "op/scsr/scsr.h"

enum {
	UNITS = 512,    /* number of units that keeps a device busy */
	LEAST_WORK = 1, /* least bundles of a unit per pixel of its slab */
	WAVE_WORK = 32, /* cost of a wave, in bundles: threads wait for each other after it */
};

static const char what[] = "the work on a matrix";

typedef struct {
	int64_t work;
	KernelUnit unit;
} Sized;

typedef struct {
	const Scsr *scsr;
	int64_t wanted, work; /* number of units wanted; total work in bundles */
	Sized *units;
	KernelUnit *sorted;
	KernelWave *waves;
	int32_t *pieces;
	int64_t *first_image;
	int64_t unit_count, wave_count, piece_count;
} Sharing;

static int64_t cell_of(const Scsr *scsr, int64_t slab, int64_t orbit)
{
	return slab * scsr->rows->orbits + scsr->symmetries.orbits[orbit].number;
}

/* First piece of a cell (slab * orbits + orbit); also valid for one cell beyond the last. */
static int64_t piece_of(const ScsrPieces *p, int64_t cell)
{
	return p->first_piece[p->first_wave[cell]];
}

/* Work of a cell, in bundles. */
static int64_t cell_work(const Scsr *scsr, int64_t cell)
{
	const ScsrPieces *p = &scsr->rows->pieces;
	return p->list[piece_of(p, cell + 1)].bundle - p->list[piece_of(p, cell)].bundle +
	       WAVE_WORK * (p->first_wave[cell + 1] - p->first_wave[cell]);
}

static void measure(Sharing *s)
{
	const Scsr *scsr = s->scsr;
	const ScsrPieces *p = &scsr->rows->pieces;
	for (int64_t slab = 0; slab < scsr->rows->slabs; slab++)
		for (int64_t i = 0; i < scsr->symmetries.orbit_count; i++) {
			int64_t cell = cell_of(scsr, slab, i);
			s->work += cell_work(scsr, cell);
			s->piece_count += piece_of(p, cell + 1) - piece_of(p, cell);
			s->wave_count += p->first_wave[cell + 1] - p->first_wave[cell];
		}
	s->wanted = scsr_units(scsr->rows, s->work - WAVE_WORK * s->wave_count);
}

int64_t scsr_units(const ScsrRows *rows, int64_t bundles)
{
	return max64(1, min64(UNITS, bundles / (LEAST_WORK * rows->slab_size * rows->slab_width)));
}

/* Appends the waves and pieces of a view to a unit. */
static void add_cell(Sharing *s, Sized *to, const Orbit *orbit, int64_t cell)
{
	const ScsrPieces *p = &s->scsr->rows->pieces;
	for (int64_t w = p->first_wave[cell]; w < p->first_wave[cell + 1]; w++) {
		int64_t bundle = p->list[p->first_piece[w]].bundle;
		int64_t end = p->list[p->first_piece[w + 1]].bundle;
		s->waves[s->wave_count++] =
			(KernelWave){bundle, (int)(end - bundle), (int)orbit->slot};
	}
	for (int64_t i = piece_of(p, cell); i < piece_of(p, cell + 1); i++)
		s->pieces[s->piece_count++] = (int32_t)i;
	to->work += cell_work(s->scsr, cell);
	to->unit.piece_end = s->piece_count;
	to->unit.wave_end = s->wave_count;
}

static Sized open_unit(const Sharing *s, int64_t slab)
{
	return (Sized){0, {slab, s->unit_count, s->piece_count, s->piece_count, s->wave_count,
				  s->wave_count}};
}

static void share_slab(Sharing *s, int64_t slab)
{
	const Symmetries *all = &s->scsr->symmetries;
	int64_t work = 0, done = 0, cut = 0;
	for (int64_t i = 0; i < all->orbit_count; i++)
		work += cell_work(s->scsr, cell_of(s->scsr, slab, i));
	int64_t parts = (work * s->wanted + s->work - 1) / max64(s->work, 1);
	Sized unit = open_unit(s, slab);
	for (int64_t i = 0; i < all->orbit_count; i++) {
		add_cell(s, &unit, &all->orbits[i], cell_of(s->scsr, slab, i));
		if (unit.work == 0 || (done + unit.work) * parts < (cut + 1) * work)
			continue;
		done += unit.work;
		cut = done * parts / work;
		s->units[s->unit_count++] = unit;
		unit = open_unit(s, slab);
	}
}

static int compare_sized(const void *a, const void *b)
{
	const Sized *one = a, *two = b;
	if (one->work != two->work)
		return one->work > two->work ? -1 : 1;
	return one->unit.image < two->unit.image ? -1 : 1;
}

static void share(Sharing *s)
{
	int64_t slabs = s->scsr->rows->slabs;
	s->wave_count = s->piece_count = 0;
	for (int64_t slab = 0; slab < slabs; slab++) {
		s->first_image[slab] = s->unit_count;
		share_slab(s, slab);
	}
	s->first_image[slabs] = s->unit_count;
	qsort(s->units, (size_t)s->unit_count, sizeof *s->units, compare_sized);
	for (int64_t i = 0; i < s->unit_count; i++)
		s->sorted[i] = s->units[i].unit;
}

static tomos_status take_room(Sharing *s)
{
	int64_t slabs = s->scsr->rows->slabs, most = s->wanted + slabs;
	TRY(mem_alloc(&s->units, most, sizeof *s->units, what));
	TRY(mem_alloc(&s->sorted, most, sizeof *s->sorted, what));
	TRY(mem_alloc(&s->waves, s->wave_count, sizeof *s->waves, what));
	TRY(mem_alloc(&s->pieces, s->piece_count, sizeof *s->pieces, what));
	return mem_alloc(&s->first_image, slabs + 1, sizeof *s->first_image, what);
}

static tomos_status send(const Sharing *s, KernelScsr *device, tomos_backend *backend)
{
	device->of.units = s->unit_count;
	TRY(device_send(
		backend, &device->units, s->sorted, s->unit_count, sizeof *s->sorted, what));
	TRY(device_send(backend, &device->waves, s->waves, s->wave_count, sizeof *s->waves, what));
	TRY(device_send(
		backend, &device->used_pieces, s->pieces, s->piece_count, sizeof *s->pieces, what));
	return device_send(backend, &device->first_image, s->first_image, s->scsr->rows->slabs + 1,
		sizeof *s->first_image, what);
}

tomos_status scsr_send_units(Scsr *scsr, tomos_backend *backend)
{
	Sharing s = {.scsr = scsr};
	tomos_status status;
	measure(&s);
	TRY_OR_DONE(take_room(&s));
	share(&s);
	TRY_OR_DONE(send(&s, &scsr->device, backend));
done:
	mem_free(s.units);
	mem_free(s.sorted);
	mem_free(s.waves);
	mem_free(s.pieces);
	mem_free(s.first_image);
	return status;
}
