/* Preparation on an OpenCL device: point-wise steps and steps on whole views. */
#include <math.h>
#include "backend/opencl/prep.h"

static tomos_status place(tomos_backend *b, const void *data, OpenclPlace *at)
{
	return opencl_place(b, data, at);
}

/* ---- lists and report ------------------------------------------------------------------------ */

static tomos_status use(const tomos_backend *b)
{
	(void)b;
	return TOMOS_OK;
}

static tomos_status send(tomos_backend *b, void *device, const void *host, int64_t bytes)
{
	return opencl_send(b, device, host, (size_t)bytes);
}

/* Counters are pairs of 32 bits, the lower ones first. */
static tomos_status collect(tomos_backend *b, PrepWork *w, unsigned long long found[FOUND_KINDS])
{
	uint32_t halves[2 * FOUND_KINDS];
	float *counters = (float *)(void *)w->found;
	TRY(opencl_receive(b, counters, halves, sizeof halves));
	TRY(b->type->vector->fill(b, 2 * (int64_t)FOUND_KINDS, 0, counters));
	device_of(b)->counts.waits++;
	for (int i = 0; i < FOUND_KINDS; i++)
		found[i] = halves[2 * i] | (unsigned long long)halves[2 * i + 1] << 32;
	return TOMOS_OK;
}

static void release(tomos_backend *b, PrepWork *work, void *const *held, int count)
{
	OpenclPrep *w = (OpenclPrep *)work;
	for (int i = 0; i < count; i++)
		opencl_release(b, held[i]);
	opencl_fft_close(b, &w->along);
	opencl_fft_close(b, &w->across);
}

/* ---- stored numbers -------------------------------------------------------------------------- */

/* Their address is in bytes: a block may begin at any column. */
typedef struct {
	PrepCounts of;
	OpenclPlace place;
} Counts;

static tomos_status find_counts(tomos_backend *b, const StoredBlock *in, Counts *counts)
{
	const int64_t size = sizeof(float);
	counts->of = (PrepCounts){.stride = {in->stride[0], in->stride[1], in->stride[2]},
		.scale = in->scale,
		.offset = in->offset,
		.type = (int32_t)in->type,
		.swapped = in->swapped};
	TRY(place(b, in->data, &counts->place));
	counts->place.at = counts->place.at * size + (int64_t)((uintptr_t)in->data % (size_t)size);
	return TOMOS_OK;
}

static tomos_status prep_convert(tomos_backend *b, const StoredBlock *in, PrepData *out)
{
	Counts counts;
	OpenclPlace to;
	const PrepShape n = prep_shape(out);
	TRY(find_counts(b, in, &counts));
	TRY(place(b, out->data, &to));
	const OpenclArg args[] = {ARG(counts.of), ARG_PLACE(counts.place), ARG(n), ARG_PLACE(to)};
	const int64_t size[3] = {n.columns, n.rows, n.views};
	return opencl_planes(b, TASK_prep_convert, size, args, COUNT(args));
}

static tomos_status prep_average(tomos_backend *b, const StoredBlock *in, const PrepGroup *g)
{
	Counts counts;
	OpenclPlace order, to;
	const PrepShape n = {in->shape[0], in->shape[1], in->shape[2]};
	cl_int median = g->median;
	TRY(find_counts(b, in, &counts));
	TRY(place(b, g->order, &order));
	TRY(place(b, g->image, &to));
	const OpenclArg args[] = {ARG(counts.of), ARG_PLACE(counts.place), ARG(n), ARG_PLACE(order),
		ARG(g->begin), ARG(g->count), ARG(median), ARG_PLACE(to)};
	const int64_t size[3] = {n.columns, n.rows, 1};
	return opencl_planes(b, TASK_prep_average, size, args, COUNT(args));
}

/* ---- values ---------------------------------------------------------------------------------- */

/* One integer per row: 1 marks those with values that are not finite. */
static int64_t rows_floats(const PrepWork *w, int64_t rows)
{
	return w->spec.views * rows;
}

static tomos_status repair_marked(
	tomos_backend *b, const PrepWork *w, float none, PrepData *d, int32_t *rows)
{
	OpenclPlace data, marks, found;
	const int64_t count = d->views * d->rows;
	TRY(place(b, d->data, &data));
	TRY(place(b, rows, &marks));
	TRY(prep_counter(b, w, FOUND_REPAIRED, &found));
	const OpenclArg args[] = {ARG(count), ARG(d->columns), ARG(none), ARG_PLACE(data),
		ARG_PLACE(marks), ARG_PLACE(found)};
	return opencl_line(b, TASK_prep_repair, count, args, COUNT(args));
}

static tomos_status prep_repair(
	tomos_backend *b, const PrepWork *w, float none, PrepData *d, int32_t *rows)
{
	OpenclPlace data, marks;
	const int64_t count = d->views * d->rows, size[3] = {d->columns, count, 1};
	TRY(b->type->vector->fill(b, count, 0, (float *)(void *)rows));
	TRY(place(b, d->data, &data));
	TRY(place(b, rows, &marks));
	const OpenclArg args[] = {ARG(count), ARG(d->columns), ARG_PLACE(data), ARG_PLACE(marks)};
	TRY(opencl_planes(b, TASK_prep_mark, size, args, COUNT(args)));
	return repair_marked(b, w, none, d, rows);
}

static tomos_status prep_points(tomos_backend *b, const PrepWork *w, PrepPoints points, PrepData *d)
{
	OpenclPlace data, terms, found;
	const int64_t n = prep_count(d), count = points.harden ? w->spec.hardening_count : 0;
	const float least = points.raise ? w->spec.floor : -INFINITY;
	cl_int log = points.log;
	TRY(place(b, d->data, &data));
	TRY(place(b, w->spec.hardening, &terms));
	TRY(prep_counter(b, w, FOUND_RAISED, &found));
	const OpenclArg args[] = {ARG(n), ARG(least), ARG(log), ARG_PLACE(terms), ARG(count),
		ARG_PLACE(data), ARG_PLACE(found)};
	return opencl_line(b, TASK_prep_points, n, args, COUNT(args));
}

/* Values that are not finite are interpolated before the others are raised and changed. */
static tomos_status prep_normalize(
	tomos_backend *b, const PrepWork *w, const PrepNormalize *n, PrepData *out)
{
	Counts counts;
	OpenclPlace flats, dark, light, to, marks;
	const PrepShape shape = prep_shape(out);
	TRY(b->type->vector->fill(b, shape.views * shape.rows, 0, (float *)(void *)n->rows));
	TRY(find_counts(b, n->counts, &counts));
	TRY(place(b, n->flats, &flats));
	TRY(place(b, n->dark, &dark));
	TRY(place(b, w->spec.light, &light));
	TRY(place(b, out->data, &to));
	TRY(place(b, n->rows, &marks));
	const OpenclArg args[] = {ARG(counts.of), ARG_PLACE(counts.place), ARG(shape),
		ARG_PLACE(flats), ARG_PLACE(dark), ARG_PLACE(light), ARG_PLACE(to),
		ARG_PLACE(marks)};
	const int64_t size[3] = {shape.columns, shape.rows, shape.views};
	TRY(opencl_planes(b, TASK_prep_normalize, size, args, COUNT(args)));
	TRY(repair_marked(b, w, 1, out, n->rows));
	return prep_points(b, w, n->points, out);
}

/* ---- whole views ----------------------------------------------------------------------------- */

static tomos_status prep_bridge(tomos_backend *b, const PrepWork *w, PrepData *d)
{
	OpenclPlace list, data;
	const int64_t count = w->spec.bad_count, plane = d->rows * d->columns;
	TRY(place(b, w->bridges, &list));
	TRY(place(b, d->data, &data));
	const OpenclArg args[] = {ARG_PLACE(list), ARG(count), ARG(plane), ARG_PLACE(data)};
	const int64_t size[3] = {plane, count, 1};
	return opencl_planes(b, TASK_prep_bridge, size, args, COUNT(args));
}

static tomos_status clean_zingers(tomos_backend *b, const PrepZingers *z, PrepData *d)
{
	OpenclPlace copy, data, found;
	const PrepShape n = prep_shape(d);
	const PrepSearch search = {
		z->from, z->first, z->count, z->space, z->time, z->half, z->level};
	TRY(place(b, z->copy, &copy));
	TRY(place(b, d->data, &data));
	TRY(place(b, z->found, &found));
	const OpenclArg args[] = {
		ARG(search), ARG(n), ARG_PLACE(copy), ARG_PLACE(data), ARG_PLACE(found)};
	const int64_t size[3] = {n.columns, n.rows, z->count};
	return opencl_planes(b, TASK_prep_zingers, size, args, COUNT(args));
}

static tomos_status shift_views(tomos_backend *b, const PrepWork *w, const float *from,
	int64_t first, int64_t count, PrepData *d)
{
	OpenclPlace list, copy, data;
	const PrepShape n = prep_shape(d);
	TRY(place(b, w->shifts, &list));
	TRY(place(b, from, &copy));
	TRY(place(b, d->data, &data));
	const OpenclArg args[] = {
		ARG_PLACE(list), ARG(n), ARG(first), ARG(count), ARG_PLACE(copy), ARG_PLACE(data)};
	const int64_t size[3] = {n.columns, n.rows, count};
	return opencl_planes(b, TASK_prep_shift, size, args, COUNT(args));
}

static tomos_status prep_bin(tomos_backend *b, int64_t bin, const PrepData *in, PrepData *out)
{
	OpenclPlace from, to;
	const PrepShape n = prep_shape(in), binned = prep_shape(out);
	TRY(place(b, in->data, &from));
	TRY(place(b, out->data, &to));
	const OpenclArg args[] = {ARG(bin), ARG(n), ARG_PLACE(from), ARG(binned), ARG_PLACE(to)};
	const int64_t size[3] = {binned.columns, binned.rows, binned.views};
	return opencl_planes(b, TASK_prep_bin, size, args, COUNT(args));
}

static tomos_status prep_copy(tomos_backend *b, const PrepCopy *to, const PrepData *in)
{
	OpenclPlace kept, from, out;
	const PrepShape n = prep_shape(in);
	TRY(place(b, to->kept, &kept));
	TRY(place(b, in->data, &from));
	TRY(place(b, to->out, &out));
	const OpenclArg args[] = {ARG_PLACE(kept), ARG(n), ARG(to->views), ARG(to->before),
		ARG(to->rows), ARG(to->padded), ARG_PLACE(from), ARG_PLACE(out)};
	const int64_t size[3] = {n.columns, to->padded, to->views};
	return opencl_planes(b, TASK_prep_copy, size, args, COUNT(args));
}

const PrepDevice module_prepare = {
	.bytes = sizeof(OpenclPrep),
	.batch = PREP_BATCH,
	.phase = &opencl_prep_phase,
	.rings = {NULL, &opencl_prep_vo, &opencl_prep_wavelet, &opencl_prep_titarenko},
	.use = use,
	.send = send,
	.collect = collect,
	.release = release,
	.rows_floats = rows_floats,
	.convert = prep_convert,
	.average = prep_average,
	.normalize = prep_normalize,
	.repair = prep_repair,
	.points = prep_points,
	.bridge = prep_bridge,
	.zingers = clean_zingers,
	.shift = shift_views,
	.bin = prep_bin,
	.copy = prep_copy,
};
