/* Divides a run into slabs: the memory that each needs, and its thickness. */
#include <math.h>
#include <string.h>
#include "algo/metal.h"
#include "backend/backend.h"
#include "backend/open.h"
#include "run/run_parts.h"

#define DEVICE_SHARE 0.8 /* of a device's free memory, for the vectors of a slab */

enum {
	PROGRAM_BYTES = 12 << 20,
	WORK_BYTES =
		84 << 20, /* upper bound on the memory that a method allocates per group of views */
	WORK_COPIES = 8,  /* copies of the rows: filtered, and reordered for kernels */
	/* Data in device memory: voxels of slabs of THICK slices or more, and bytes of the pieces
	 * of uploads and downloads. */
	LARGEST_SLAB = 512 << 20,
	LARGEST_PIECE = 32 << 20,
	LEAST_PIECE = 4 << 20,
	STACKED = 64,   /* slices of a slab of a stack in device memory, where they fit, */
	ITERATED = 128, /* and of one in which a device iterates */
};

double run_fixed_bytes(const FileRun *r)
{
	double nx = (double)r->grid.n[0], ny = (double)r->grid.n[1], nz = (double)r->slices;
	double planes = r->options.preview || r->job->look ? nx * ny + nx * nz + ny * nz : 0;
	const int64_t shape[3] = {r->slices, r->grid.n[1], r->grid.n[0]};
	return PROGRAM_BYTES + 2 * sizeof(float) * planes + r->kept +
	       io_write_bytes(r->output, shape);
}

/* In host memory; all filtered rows are, too, not only those of some views. */
static double fourier_host(const FileRun *r, const Slab *slab, double rows)
{
	if (r->backend->device != 0)
		return 0;
	return run_fourier_bytes(r, slab->count) + (run_by_fourier(r) ? rows : 0);
}

/* A single slab is read before and written after the computation; several slabs overlap. Vectors
 * are in host memory, unless the device has memory of its own. */
static double iterative_bytes(
	const FileRun *r, const Slab *slab, double raw, double row, double slice)
{
	const Demand *d = &r->iterative.demand;
	double volumes, projections, x = slice * (double)slab->count, y = row * (double)slab->rows;
	demand_vectors(d, &volumes, &projections);
	if (r->backend->device != 0)
		volumes = projections = 0;
	volumes += d->mask + d->truth + 1;
	projections += d->rays + 1;
	/* Of a slab that ranks share: all slices, and those of the rank for the others. */
	double vectors = volumes * x + projections * y +
			 (r->group.ranks > 1 ? (double)(r->group.ranks + 1) * x : 0);
	return slab->count == r->share.count ? fmax(raw + y, vectors) + WORK_BYTES
					     : 2 * raw + x + vectors + WORK_BYTES;
}

/* Metal artefact reduction: rows of this many bytes, and a volume of their own. */
static double metal_share(const FileRun *r, double rows)
{
	const tomos_geometry *g = r->prepared->geometry;
	double all = (double)g->count * (double)g->columns * (double)g->rows * sizeof(float);
	return metal_bytes(g) * rows / all;
}

/* Memory in bytes for a slab of `count` slices, with all buffers and the method's own memory. */
static double slab_bytes(const FileRun *r, int64_t count)
{
	const tomos_prepared *p = r->prepared;
	const tomos_geometry *g = p->geometry;
	int64_t before = (r->share.count - count) / 4 * 2; /* slabs begin with a pair of rows */
	Slab slab = {.first = r->share.first + before, .count = count};
	slab_rows(r, &slab);
	RawRows needs = prepared_needs(p, slab.row, slab.rows);
	double raw = (double)needs.rows * (double)raw_row_bytes(p);
	double row = (double)g->count * (double)g->columns * sizeof(float);
	double slice = (double)r->grid.n[0] * (double)r->grid.n[1] * sizeof(float);
	double binned = p->bin > 1 ? row * (double)needs.prepared_rows : 0;
	double rows = row * (double)max64(slab.rows, slab.padded);
	if (r->iterates)
		return iterative_bytes(r, &slab, raw, row, slice) + binned +
		       fourier_host(r, &slab, rows);
	double volume = slice * (double)slab.padded;
	return 2 * raw + binned + rows + fmin(WORK_COPIES * rows, WORK_BYTES) + 2 * volume +
	       (r->metal ? metal_share(r, rows) + rows + 2 * volume : 0) +
	       fourier_host(r, &slab, rows);
}

/* Smallest thickness of a slab, if there are several, that leaves time to overlap. Iterations take
 * longer than reading and writing, and are fastest on a device with many slices. */
static int64_t overlapping(const FileRun *r)
{
	int64_t least = r->iterates && r->backend->device != 0 ? ITERATED : THICK;
	int64_t thick = max64(least, (r->share.count + SLABS - 1) / SLABS);
	return r->stacked ? (thick + THICK - 1) / THICK * THICK : thick;
}

/* Whether chunks of the scan reach over several slabs, and each slab unpacks them again. */
static bool unpacks_again(const FileRun *r, int64_t thick)
{
	return r->kept <= 0 && scan_row_grain(r->prepared->scan) > thick;
}

/* Chunks that several slabs need are unpacked once, if memory allows to keep them. */
static void plan_kept(FileRun *r)
{
	int64_t all = r->share.count, few = min64(max64(THICK, GROUP_SLICES), all);
	double bytes = scan_bytes(r->prepared->scan);
	r->kept = 0;
	double others = run_fixed_bytes(r) + slab_bytes(r, few);
	bool one = r->iterative.whole || few == all ||
		   (!r->stacked && run_fixed_bytes(r) + slab_bytes(r, all) <= r->memory);
	if (!one && scan_row_grain(r->prepared->scan) > 1 && others + bytes <= r->memory)
		r->kept = bytes;
}

/* Slabs as thick as memory allows, but several, so that reading, computing and writing overlap. */
static tomos_status choose_thickness(FileRun *r, int64_t *thick)
{
	double left = r->memory - run_fixed_bytes(r);
	int64_t low = 1, high = r->share.count;
	if (slab_bytes(r, 1) > left)
		return fail(TOMOS_NO_MEMORY,
			"%.4g MiB of memory are too few: one slice alone needs %.4g MiB%s",
			r->memory / (1 << 20), (slab_bytes(r, 1) + run_fixed_bytes(r)) / (1 << 20),
			r->prepared->reach.all_rows
				? ", as phase retrieval looks at all rows at once"
				: "");
	while (low < high) { /* the thickest that fits */
		int64_t middle = low + (high - low + 1) / 2;
		if (slab_bytes(r, middle) <= left)
			low = middle;
		else
			high = middle - 1;
	}
	/* Every slab reads all rows: the fewer slabs, the better. */
	bool again = r->prepared->reach.all_rows ||
		     (!r->stacked && (low == r->share.count || r->metal)) ||
		     unpacks_again(r, overlapping(r));
	*thick = again ? low : min64(low, overlapping(r));
	return TOMOS_OK;
}

/* Vectors besides data and volume: of filtered back projection, the filtered rows. */
static double device_bytes(const FileRun *r, int64_t count)
{
	const tomos_geometry *g = r->prepared->geometry;
	double volumes = 0, projections = 1;
	if (r->iterates)
		demand_vectors(&r->iterative.demand, &volumes, &projections);
	return sizeof(float) * (double)count *
		       ((volumes + 1) * (double)r->grid.n[0] * (double)r->grid.n[1] +
			       (projections + 1) * (double)g->count * (double)g->columns) +
	       run_fourier_bytes(r, count);
}

/* Bytes of a device for the vectors of a slab. */
static tomos_status device_share(const FileRun *r, double *bytes)
{
	int64_t free_bytes;
	TRY(r->backend->type->memory->free_bytes(r->backend, &free_bytes));
	if (r->device_limit > 0)
		free_bytes = min64(free_bytes, r->device_limit);
	*bytes = DEVICE_SHARE * (double)free_bytes;
	return TOMOS_OK;
}

/* Limits the thickness so that the vectors of a slab fit into device memory, if the device reports
 * its size. */
static tomos_status fit_device(const FileRun *r, int64_t *thick)
{
	double bytes;
	if (r->backend->device == 0 || !r->backend->type->memory->free_bytes)
		return TOMOS_OK;
	TRY(device_share(r, &bytes));
	while (*thick > 1 && device_bytes(r, *thick) > bytes)
		*thick = (*thick + 1) / 2;
	return TOMOS_OK;
}

static tomos_status too_little(const FileRun *r, int64_t slices, const char *why)
{
	return fail(TOMOS_NO_MEMORY,
		"%.4g MiB of memory are too few: %s of %lld slice%s together needs %.4g MiB at "
		"least, as %s",
		r->memory / (1 << 20), r->method, (long long)slices, slices == 1 ? "" : "s",
		(slab_bytes(r, slices) + run_fixed_bytes(r)) / (1 << 20), why);
}

/* All slices in one slab, groups of a fixed size, or as many as memory allows. If the whole volume
 * must be in memory, only a limit that the user has set is enforced. */
static tomos_status iterative_thickness(FileRun *r, int64_t *thick)
{
	double left = r->memory - run_fixed_bytes(r);
	int64_t group = min64(GROUP_SLICES, r->share.count);
	*thick = r->share.count;
	if (r->iterative.whole && r->options.memory > 0 && slab_bytes(r, r->share.count) > left)
		return too_little(r, r->share.count, r->iterative.why);
	if (r->iterative.in_groups && slab_bytes(r, group) > left)
		return too_little(r, group, "its sums or checkpoints cover that many slices");
	if (r->iterative.whole)
		return TOMOS_OK;
	if (r->iterative.in_groups) {
		*thick = GROUP_SLICES;
		return TOMOS_OK;
	}
	TRY(choose_thickness(r, thick));
	return fit_device(r, thick);
}

/* ---- data in device memory ----------------------------------------------------------------- */

static ResidentSize resident_size(const FileRun *r, int64_t count)
{
	int64_t before = (r->share.count - count) / 4 * 2;
	Slab slab = {.first = r->share.first + before, .count = count};
	slab_rows(r, &slab);
	int buffers = count < r->share.count ? 2 : 1;
	return (ResidentSize){.raw_rows = prepared_needs(r->prepared, slab.row, slab.rows).rows,
		.rows = max64(slab.rows, slab.padded),
		.slices = slab.padded,
		.slice = r->grid.n[1] * r->grid.n[0],
		.stored = strcmp(r->file_options.type, "float32") == 0 ? 0 : 2,
		.buffers = {r->rows_once ? 1 : buffers, buffers}};
}

/* The thickest slab, `most` slices at most, that fits into the device's memory; 0: none. */
static int64_t resident_thickest(const FileRun *r, int64_t most, double bytes)
{
	int64_t low = 0, high = min64(most, r->share.count);
	while (low < high) {
		int64_t middle = low + (high - low + 1) / 2;
		const ResidentSize size = resident_size(r, middle);
		if (resident_bytes(r->resident, r->prepared, &size) +
				run_fourier_bytes(r, size.slices) <=
			bytes)
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

/* Threads that write: more to one file per slice, and where they work on what they write. */
static int64_t writers(const FileRun *r)
{
	const int64_t shape[3] = {r->slices, r->grid.n[1], r->grid.n[0]};
	bool many = io_names_directory(r->output) || io_write_bytes(r->output, shape) > 0;
	return tomos_threads() * (many ? 7 : 5) / 8;
}

/* Pieces of the transfers, for slabs of this size; false: they exceed the memory. */
static bool resident_rings(FileRun *r, const ResidentSize *size)
{
	Resident *d = r->resident;
	double left = r->memory - run_fixed_bytes(r) - (d->prep ? 0 : slab_bytes(r, size->slices));
	int64_t item = size->raw_rows * r->prepared->info.columns * (int64_t)sizeof(float);
	int64_t slice = size->slice * (int64_t)sizeof(float), most = (int64_t)fmax(0, left / 2);
	int64_t all = item * r->prepared->info.views; /* small scans need little pinned memory */
	d->piece = max64(item, min64(LARGEST_PIECE, min64(all, most) / RESIDENT_SLOTS));
	int64_t written = max64(slice, LEAST_PIECE), workers = most / (2 * written);
	workers = min64(workers, min64(max64(1, writers(r)), COPY_SLOTS / 2));
	d->workers = (int)min64(workers, size->slices);
	int64_t up = ring_bytes(d->piece, RESIDENT_SLOTS);
	int64_t down = ring_bytes(written, 2 * d->workers);
	r->planned = r->memory - left + (double)(up + down);
	return d->workers > 0 && up <= most && down <= most;
}

/* Rows that every slab needs are prepared and filtered once. Otherwise slabs are as thin as is
 * efficient, so that the first ones are soon written. */
static tomos_status resident_thickness(FileRun *r, int64_t *thick)
{
	int64_t most = LARGEST_SLAB / (r->grid.n[0] * r->grid.n[1]);
	int64_t aim = min64(max64(overlapping(r), r->share.count / 4), max64(THICK, most));
	double bytes;
	TRY(device_share(r, &bytes));
	/* Fourier transforms back project all slices of a slab, not a box of a volume. */
	r->rows_once = (!r->stacked || r->prepared->reach.all_rows) && !run_by_fourier(r);
	if (!r->rows_once && unpacks_again(r, aim))
		aim = r->share.count;
	*thick = resident_thickest(r, aim, bytes);
	if (*thick == 0 && r->rows_once) {
		r->rows_once = false;
		*thick = resident_thickest(r, r->share.count, bytes);
	}
	return TOMOS_OK;
}

/* Iterative methods: slabs as in host memory, 0 if the device cannot hold their data. */
static tomos_status resident_group(FileRun *r, int64_t *thick)
{
	double bytes;
	TRY(device_share(r, &bytes));
	const ResidentSize size = resident_size(r, min64(*thick, r->share.count));
	if (resident_bytes(r->resident, r->prepared, &size) + device_bytes(r, size.slices) > bytes)
		*thick = 0;
	return TOMOS_OK;
}

/* Filtered back projection takes as many views at a time as a device holds, but not by Fourier
 * transforms, which need them all. */
static tomos_status host_thickness(FileRun *r, int64_t *thick)
{
	if (r->iterates)
		return iterative_thickness(r, thick);
	TRY(choose_thickness(r, thick));
	return run_by_fourier(r) ? fit_device(r, thick) : TOMOS_OK;
}

/* The method's data are in host memory, or weights are, which the norm of the data depends on. */
static bool is_apart(const FileRun *r)
{
	return r->backend->device == 0 || !resident_wanted(r->backend) || r->together || r->metal ||
	       r->prepared->trims || (r->iterates && r->iterative.demand.rays);
}

/* Keeps the data on the device, if it can hold those of a slab; r->resident is NULL otherwise. A
 * device whose memory is limited is worked on in pieces then; Fourier transforms always are. */
static tomos_status plan_resident(FileRun *r, int64_t *thick)
{
	tomos_backend *given = r->backend;
	if (!r->iterates && !run_by_fourier(r))
		r->backend = backend_limited(given, &r->device_limit);
	if (is_apart(r)) {
		r->backend = given;
		return TOMOS_OK;
	}
	TRY(resident_open(&r->resident, r->backend, r->prepared));
	if (!r->iterates)
		TRY(resident_thickness(r, thick));
	int64_t host = *thick;
	if (r->iterates || (host > 0 && !r->resident->prep))
		TRY(host_thickness(r, &host));
	*thick = r->iterates ? host : min64(*thick, host);
	if (r->iterates)
		TRY(resident_group(r, thick));
	const ResidentSize size = resident_size(r, max64(1, min64(*thick, r->share.count)));
	r->planned_device =
		resident_bytes(r->resident, r->prepared, &size) +
		(r->iterates ? device_bytes(r, size.slices) : run_fourier_bytes(r, size.slices));
	if (*thick > 0 && resident_rings(r, &size))
		return TOMOS_OK;
	r->planned_device = 0;
	resident_close(r->resident);
	r->resident = NULL;
	r->rows_once = false;
	r->backend = given;
	return TOMOS_OK;
}

/* ---- slabs ---------------------------------------------------------------------------------- */

/* Groups are counted from slice 0, so that the first and the last one may be smaller. */
static int64_t slab_end(const FileRun *r, int64_t first)
{
	int64_t end = first + r->thickest;
	if (r->iterative.in_groups)
		end = (first / GROUP_SLICES + 1) * GROUP_SLICES;
	return min64(end, r->share.first + r->share.count);
}

static void measure_slab(FileRun *r, Slab *slab)
{
	slab_rows(r, slab);
	r->most_slices = max64(r->most_slices, slab->padded);
	r->most_lines = max64(r->most_lines, max64(slab->rows, slab->padded));
	RawRows needs = prepared_needs(r->prepared, slab->row, slab->rows);
	r->most_rows = max64(r->most_rows, needs.rows);
}

static tomos_status cut_slabs(FileRun *r)
{
	int64_t end = r->share.first + r->share.count, most = r->share.count / r->thickest + 2;
	r->slab_count = 0;
	TRY(mem_zeroed(&r->slabs, most, sizeof *r->slabs, "the slabs"));
	for (int64_t first = r->share.first; first < end; r->slab_count++) {
		Slab *slab = &r->slabs[r->slab_count];
		slab->first = first;
		first = slab_end(r, first);
		slab->count = first - slab->first;
		measure_slab(r, slab);
	}
	return TOMOS_OK;
}

/* Slabs of stacks, and of volumes whose rows are on the device, may have any thickness. A slab
 * that reads all rows is as thick as possible. */
static void adapt_slabs(FileRun *r)
{
	bool free = r->rows_once ||
		    (r->stacked && !r->prepared->reach.all_rows && !unpacks_again(r, THICK));
	int64_t before = (r->share.count - r->thickest) / 4 * 2;
	Slab between = {.first = r->share.first + before, .count = r->thickest};
	/* On a GPU, back projection of a few slices of a stack takes as long as that of many. */
	int64_t least = r->resident && r->stacked ? STACKED : THICK;
	r->adapts = free && !r->iterates && r->group.ranks == 1 && r->thickest > THICK &&
		    r->slab_count > 1;
	r->limits = (ThicknessLimits){min64(least, max64(THICK, r->thickest / 2)), r->thickest};
	if (r->adapts) /* which has margins on both sides */
		measure_slab(r, &between);
}

/* Slabs of equal thickness, `thick` at most. Kernels of stacks work on 16 slices at a time, and the
 * filter on pairs of rows, so slabs are multiples of these where memory allows. */
static int64_t even_thickness(const FileRun *r, int64_t thick)
{
	int64_t count = (r->share.count + thick - 1) / thick,
		even = (r->share.count + count - 1) / count;
	if (r->iterative.in_groups)
		return min64(GROUP_SLICES, r->share.count);
	if (r->iterates && count > 1 && thick >= GROUP_SLICES)
		return thick / GROUP_SLICES * GROUP_SLICES;
	if (r->iterates || !r->stacked || r->rows_once || count == 1)
		return even;
	int64_t whole = (even + THICK - 1) / THICK * THICK;
	return whole <= thick ? whole : min64((even + 1) / 2 * 2, max64(2, thick / 2 * 2));
}

tomos_status run_cut(FileRun *r, int64_t count)
{
	if (r->share.count == 0)
		return TOMOS_OK;
	r->thickest = (r->share.count + count - 1) / count;
	mem_free(r->slabs);
	return cut_slabs(r);
}

tomos_status run_plan(FileRun *r)
{
	int64_t thick = 1;
	if (r->share.count == 0)
		return TOMOS_OK;
	plan_kept(r);
	TRY(plan_resident(r, &thick));
	if (!r->resident)
		TRY(host_thickness(r, &thick));
	r->thickest = even_thickness(r, thick);
	if (!r->resident)
		r->planned = slab_bytes(r, min64(r->thickest, r->share.count)) + run_fixed_bytes(r);
	TRY(cut_slabs(r));
	adapt_slabs(r);
	if (r->kept > 0)
		scan_keep(r->prepared->scan);
	return TOMOS_OK;
}
