/* Device memory of a run: counts are uploaded as the scan stores them, prepared, filtered and back
 * projected, and the slices downloaded as the output stores them. */
#include "run/resident.h"
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 256 }; /* of sets of frames in device memory, in bytes */

/* ---- types ----------------------------------------------------------------------------------- */

static bool stored_type(Element e, StoredType *type)
{
	static const struct {
		char kind;
		int bytes;
	} of[STORED_TYPES] = {[STORED_UINT8] = {'u', 1},
		[STORED_INT8] = {'i', 1},
		[STORED_UINT16] = {'u', 2},
		[STORED_INT16] = {'i', 2},
		[STORED_UINT32] = {'u', 4},
		[STORED_INT32] = {'i', 4},
		[STORED_FLOAT16] = {'f', 2},
		[STORED_FLOAT32] = {'f', 4}};
	for (int i = 0; i < STORED_TYPES; i++)
		if (of[i].kind == e.kind && of[i].bytes == e.bytes) {
			*type = (StoredType)i;
			return true;
		}
	return false;
}

static int64_t set_count(const tomos_prepared *p, int set)
{
	return set == TOMOS_VIEWS   ? p->info.views
	       : set == TOMOS_FLATS ? p->info.flats
				    : p->info.darks;
}

static bool types_fit(Resident *d, const tomos_prepared *p)
{
	for (int i = 0; i < 3; i++)
		if (set_count(p, i) > 0 &&
			!stored_type(p->scan->sets[i].file->element, &d->types[i]))
			return false;
	return true;
}

bool resident_wanted(const tomos_backend *backend)
{
	const BackendMemory *memory = backend->type->memory;
	const char *choice = getenv("TOMOS_RESIDENT");
	bool wanted = !choice || strcmp(choice, "0") != 0;
	return wanted && memory->copy_begin && memory->free_bytes;
}

/* ---- memory ---------------------------------------------------------------------------------- */

tomos_status resident_open(Resident **resident, tomos_backend *backend, const tomos_prepared *p)
{
	const PrepScan scan = {
		p->info.views, p->columns, p->info.flats, p->info.darks, p->flat_places};
	Resident *d;
	*resident = NULL;
	TRY(mem_zeroed(&d, 1, sizeof *d, "the memory of a device"));
	d->backend = backend;
	d->encoding.bytes = sizeof(float);
	/* Errors of options are reported by the preparation in host memory. */
	if (!backend->type->vector->encode || !types_fit(d, p) ||
		device_prep_open(&d->prep, backend, &p->prep, &scan) != TOMOS_OK)
		d->prep = NULL;
	*resident = d;
	return TOMOS_OK;
}

static void buffer_free(const Resident *d, DeviceBuffer *b)
{
	if (b->data)
		d->backend->type->memory->release(d->backend, b->data);
	*b = (DeviceBuffer){NULL, 0};
}

static tomos_status buffer_fit(const Resident *d, DeviceBuffer *b, int64_t floats, const char *what)
{
	if (b->floats >= floats)
		return TOMOS_OK;
	buffer_free(d, b);
	TRY(d->backend->type->memory->alloc(d->backend, &b->data, floats, what));
	b->floats = floats;
	return TOMOS_OK;
}

void resident_end_input(Resident *d)
{
	DeviceBuffer *all[] = {&d->counts[0], &d->counts[1], &d->rows, &d->filtered};
	ring_close(&d->up);
	for (int i = 0; i < COUNT(all); i++)
		buffer_free(d, all[i]);
	d->row_count = 0;
}

void resident_close(Resident *d)
{
	if (!d)
		return;
	resident_end_input(d);
	ring_close(&d->down);
	device_prep_close(d->prep);
	DeviceBuffer *all[] = {&d->volumes[0], &d->volumes[1], &d->stored[0], &d->stored[1]};
	for (int i = 0; i < COUNT(all); i++)
		buffer_free(d, all[i]);
	mem_free(d);
}

/* Bytes of a row of all columns in all frames of a set. */
static int64_t set_bytes(const tomos_prepared *p, int set, int64_t rows)
{
	int64_t count = set_count(p, set);
	int bytes = count ? p->scan->sets[set].file->element.bytes : 0;
	return (count * rows * p->info.columns * bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static int64_t counts_floats(const Resident *d, const tomos_prepared *p, int64_t rows)
{
	int64_t bytes = 0;
	for (int i = 0; d->prep && i < 3; i++)
		bytes += set_bytes(p, i, rows);
	return bytes / (int64_t)sizeof(float);
}

static int64_t rows_floats(const tomos_prepared *p, int64_t rows)
{
	return p->geometry->count * rows * p->geometry->columns;
}

static int64_t stored_floats(const ResidentSize *size)
{
	return (size->slices * size->slice * size->stored + 3) / (int64_t)sizeof(float);
}

/* Filtered rows may be wider, twice at most for an offset detector; kernels reorder them. */
double resident_bytes(const Resident *d, const tomos_prepared *p, const ResidentSize *size)
{
	enum { COPIES = 5 };
	double rows = (double)rows_floats(p, size->rows);
	double volume = (double)size->slices * (double)size->slice;
	double counts = (double)counts_floats(d, p, size->raw_rows);
	double scratch = d->prep ? (double)device_prep_floats(d->prep, size->raw_rows) : 0;
	return sizeof(float) * (size->buffers[0] * counts + scratch + COPIES * rows +
				       size->buffers[1] * (volume + (double)stored_floats(size)));
}

tomos_status resident_fit(Resident *d, const tomos_prepared *p, const ResidentSize *size)
{
	for (int i = 0; i < size->buffers[0]; i++)
		TRY(buffer_fit(
			d, &d->counts[i], counts_floats(d, p, size->raw_rows), "rows of a scan"));
	TRY(buffer_fit(d, &d->rows, rows_floats(p, size->rows), "prepared rows"));
	for (int i = 0; i < size->buffers[1]; i++) {
		TRY(buffer_fit(
			d, &d->volumes[i], size->slices * size->slice, "a slab of the volume"));
		TRY(buffer_fit(d, &d->stored[i], stored_floats(size), "a slab of the output"));
	}
	return TOMOS_OK;
}

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct {
	tomos_scan *scan;
	tomos_frames set;
	int64_t frame; /* the first that is read */
	int64_t row, rows;
} SetRead;

static tomos_status read_frames(void *user, int64_t first, int64_t count, char *host)
{
	const SetRead *r = user;
	const Extract part = {r->frame + first, count, r->row, r->rows};
	return scan_read_stored(r->scan, r->set, &part, tomos_threads(), host);
}

static tomos_status open_up(Resident *d, int64_t item)
{
	if (d->up.memory && d->up.piece >= item)
		return TOMOS_OK;
	ring_close(&d->up);
	return ring_open(&d->up, d->backend, COPY_UPLOAD, max64(item, d->piece), RESIDENT_SLOTS);
}

tomos_status resident_read(Resident *d, tomos_prepared *p, const RawRows *rows, int at)
{
	char *to = (char *)d->counts[at].data;
	for (int i = 0; i < 3; to += set_bytes(p, i, rows->rows), i++) {
		int64_t frame = i == TOMOS_VIEWS ? p->first_view : 0;
		SetRead read = {p->scan, (tomos_frames)i, frame, rows->row, rows->rows};
		const File *file = p->scan->sets[i].file;
		RingJob job = {
			.device = to, .count = set_count(p, i), .task = read_frames, .user = &read};
		if (job.count == 0)
			continue;
		job.bytes = rows->rows * p->info.columns * file->element.bytes;
		job.group = file->grain;
		TRY(open_up(d, job.bytes));
		TRY(ring_upload(&d->up, &job));
	}
	d->read[at] = *rows;
	return TOMOS_OK;
}

/* ---- preparation ----------------------------------------------------------------------------- */

/* The columns in use of a set, in buffer `at`. */
static StoredBlock block_of(const Resident *d, const tomos_prepared *p, int at, int set)
{
	int64_t rows = d->read[at].rows, columns = p->info.columns, count = set_count(p, set);
	const File *file = p->scan->sets[set].file;
	const char *from = (const char *)d->counts[at].data;
	for (int i = 0; i < set; i++)
		from += set_bytes(p, i, rows);
	if (count == 0)
		return (StoredBlock){.data = NULL};
	return (StoredBlock){.data = from + p->first_column * file->element.bytes,
		.type = d->types[set],
		.swapped = file->element.swapped,
		.scale = file->scale,
		.offset = file->offset,
		.shape = {count, rows, p->columns},
		.stride = {rows * columns, columns, 1}};
}

tomos_status resident_prepare(Resident *d, const tomos_prepared *p, int at, int64_t rows,
	int64_t padded, tomos_prep_report *report)
{
	const PrepSlab slab = {.views = block_of(d, p, at, TOMOS_VIEWS),
		.flats = block_of(d, p, at, TOMOS_FLATS),
		.darks = block_of(d, p, at, TOMOS_DARKS),
		.out = d->rows.data,
		.before = d->read[at].before,
		.rows = rows,
		.padded = padded};
	TRY(device_prep_run(d->prep, &slab));
	return device_prep_report(d->prep, report);
}

typedef struct {
	const float *from;
	int64_t rows, padded, columns; /* of a view: given, with padding */
	float *to;
} RowsCopy;

static void copy_view(void *user, int64_t i)
{
	const RowsCopy *c = user;
	int64_t given = c->rows * c->columns, all = c->padded * c->columns;
	memcpy(c->to + i * all, c->from + i * given, (size_t)given * sizeof *c->to);
	memset(c->to + i * all + given, 0, (size_t)(all - given) * sizeof *c->to);
}

static tomos_status copy_views(void *user, int64_t first, int64_t count, char *host)
{
	RowsCopy c = *(const RowsCopy *)user;
	c.from += first * c.rows * c.columns;
	c.to = (float *)(void *)host;
	return parallel_try(count, copy_view, &c, "preparing");
}

tomos_status resident_upload(
	Resident *d, const tomos_prepared *p, const float *host, int64_t rows, int64_t padded)
{
	RowsCopy copy = {host, rows, padded, p->geometry->columns, NULL};
	const RingJob job = {.device = (char *)d->rows.data,
		.count = p->geometry->count,
		.bytes = padded * p->geometry->columns * (int64_t)sizeof(float),
		.task = copy_views,
		.user = &copy};
	TRY(open_up(d, job.bytes));
	return ring_upload(&d->up, &job);
}

/* ---- reconstruction -------------------------------------------------------------------------- */

tomos_status resident_filter(Resident *d, Analytic *analytic)
{
	TRY(buffer_fit(d, &d->filtered, analytic_floats(analytic), "filtered views"));
	return analytic_filter(analytic, d->rows.data, d->filtered.data);
}

tomos_status resident_encode(Resident *d, int at, int64_t first, int64_t values, int64_t counts[2])
{
	const BackendVector *vector = d->backend->type->vector;
	counts[0] = counts[1] = 0;
	if (!vector->encode)
		return d->backend->type->memory->sync(d->backend);
	if (d->encoding.bytes < (int)sizeof(float))
		TRY(buffer_fit(d, &d->stored[at], (values * d->encoding.bytes + 3) / 4,
			"a slab of the output"));
	return vector->encode(d->backend, values, d->volumes[at].data + first, &d->encoding,
		d->stored[at].data, counts);
}
