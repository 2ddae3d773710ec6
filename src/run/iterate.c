/* Iterative reconstruction of a slab, and what it reads besides the scan. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "run/run_parts.h"

enum { MOST_NOTED = 100000 }; /* iterations whose residuals are kept */

/* ---- the job ------------------------------------------------------------------------------ */

static bool is_named(const char *name)
{
	return name && name[0];
}

bool run_is_iterative(const char *method)
{
	return tomos_method_help(method)[0] != 0;
}

static tomos_status check_arrays(const tomos_algebraic_options *o)
{
	if (o->ray_weights || o->mask || o->truth)
		return fail(TOMOS_BAD_VALUE,
			"%s is an array; a run takes the name of a file instead, in the job",
			o->ray_weights ? "ray_weights"
			: o->mask      ? "mask"
				       : "truth");
	tomos_history history = {.bytes = sizeof history};
	TRY(struct_take(&history, o->history, "tomos_history"));
	if (history.iterate)
		return fail(
			TOMOS_BAD_VALUE, "a run shows no iterates: history.iterate must be NULL");
	return TOMOS_OK;
}

tomos_status iterative_take(FileRun *r)
{
	Iterative *it = &r->iterative;
	const tomos_job *job = r->job;
	it->o = tomos_algebraic_defaults();
	TRY(options_take(&it->o, job->algebraic, "algebraic"));
	TRY(check_arrays(&it->o));
	const bool has_checkpoint = is_named(it->o.checkpoint);
	it->o.resume = has_checkpoint && (r->options.resume || it->o.resume);
	it->names[FILE_START] = job->start;
	it->names[FILE_MASK] = job->mask;
	it->names[FILE_RAYS] = job->ray_weights;
	it->names[FILE_TRUTH] = is_named(job->truth) ? job->truth : job->compare;
	it->demand = (Demand){.method = r->method,
		.o = &it->o,
		.mask = is_named(job->mask),
		.rays = is_named(job->ray_weights),
		.truth = is_named(it->names[FILE_TRUTH])};
	return TOMOS_OK;
}

/* The reason why all slices must be in one slab; NULL: slabs may be smaller. */
static const char *why_whole(const FileRun *r)
{
	if (!r->stacked)
		return "rays cross several slices";
	if (r->job->stored || is_named(r->job->matrix))
		return "the stored matrix is that of all slices";
	if (demand_coupling(&r->iterative.demand) == COUPLING_DIFFERENCES)
		return "its penalty couples neighbouring slices; set the option 'penalty_within' "
		       "to "
		       "'slices' to penalise each slice alone";
	return NULL;
}

tomos_status run_rows_rejected(const char *rows)
{
	return fail(TOMOS_BAD_VALUE,
		"rows '%s': iterative methods reconstruct some of the slices alone only where each "
		"slice projects to one detector row of its own height (parallel or fan beam); here "
		"rays cross several slices, so that the whole object is needed",
		rows);
}

tomos_status iterative_plan(FileRun *r)
{
	Iterative *it = &r->iterative;
	it->why = why_whole(r);
	it->whole = it->why != NULL;
	it->grouped = !it->whole && demand_coupling(&it->demand) == COUPLING_SUMS;
	it->group_files = !it->whole && checkpoints_in_groups(r);
	it->in_groups = it->grouped || it->group_files;
	if (!r->stacked && r->slices < r->grid.n[2])
		return run_rows_rejected(r->options.rows);
	return TOMOS_OK;
}

/* ---- files besides the scan ---------------------------------------------------------------- */

static const char *const file_words[FILE_COUNT] = {
	"the start", "the mask", "the weights of rays", "the truth"};

static void shape_words(const int64_t s[3], char text[96])
{
	snprintf(text, 96, "%lld x %lld x %lld", (long long)s[0], (long long)s[1], (long long)s[2]);
}

static tomos_status check_shape(const FileRun *r, SlabFile which, const tomos_file *file)
{
	const tomos_geometry *g = r->whole->geometry;
	const int64_t volume[3] = {r->slices, r->grid.n[1], r->grid.n[0]};
	bool cropped = r->stacked && file->shape[1] == r->slices; /* rows of the slices alone */
	const int64_t rays[3] = {g->count, cropped ? r->slices : g->rows, g->columns};
	const int64_t *wanted = which == FILE_RAYS ? rays : volume;
	char has[96], words[96];
	if (which == FILE_START && strcmp(file->units.value, "HU") == 0)
		return fail(TOMOS_BAD_FILE,
			"the start: '%s' is in Hounsfield units, not in attenuation; reconstruct "
			"it without the option 'hu'",
			r->iterative.names[which]);
	bool sinogram = which == FILE_RAYS && g->rows == 1 && file->shape[0] == 1 &&
			file->shape[1] == g->count && file->shape[2] == g->columns;
	if (sinogram || memcmp(file->shape, wanted, sizeof volume) == 0)
		return TOMOS_OK;
	shape_words(file->shape, has);
	shape_words(wanted, words);
	const char *axes = which == FILE_RAYS ? "view row column" : "z y x";
	return fail(TOMOS_BAD_FILE, "%s: '%s' is %s (%s), but the %s %s (%s)", file_words[which],
		r->iterative.names[which], has, axes,
		which == FILE_RAYS ? "projections are" : "reconstruction is", words, axes);
}

/* Opens the files before the work, so that a wrong shape is reported early. */
tomos_status iterative_open(FileRun *r)
{
	Iterative *it = &r->iterative;
	TRY(mem_zeroed(&it->slabs, r->slab_count, sizeof *it->slabs, "the iterations of slabs"));
	it->slab_count = it->slab_capacity = r->slab_count;
	for (int i = 0; i < FILE_COUNT; i++) {
		if (!is_named(it->names[i]))
			continue;
		TRY(tomos_file_open(&it->files[i], it->names[i], NULL));
		TRY(job_say_gap(r->job, it->files[i]));
		TRY(check_shape(r, (SlabFile)i, it->files[i]));
		if (i != FILE_RAYS)
			TRY(run_check_volume(r, it->files[i], i == FILE_TRUTH));
	}
	return TOMOS_OK;
}

void iterative_close(Iterative *it)
{
	for (int i = 0; i < FILE_COUNT; i++) {
		tomos_file_close(it->files[i]);
		mem_free(it->arrays[i]);
	}
	tomos_op_free(it->op);
	for (int64_t i = 0; i < it->slab_count; i++)
		iterations_free(&it->slabs[i]);
	for (int64_t i = 0; i < it->earlier_count; i++)
		iterations_free(&it->earlier[i]);
	mem_free(it->slabs);
	mem_free(it->earlier);
}

/* Rows of the projections of a slab, as the method has them. */
static int64_t slab_lines(const FileRun *r, const Slab *slab)
{
	return r->owned_rows > 0 ? r->owned_rows : slab->rows;
}

static int64_t slice_size(const FileRun *r)
{
	return r->grid.n[0] * r->grid.n[1];
}

/* Reads the rows of the slab from every view. In a file with one sinogram, the rows are the
 * views. */
static tomos_status read_rays(const FileRun *r, const Slab *slab, float *data)
{
	tomos_file *file = r->iterative.files[FILE_RAYS];
	const tomos_geometry *g = r->prepared->geometry;
	int64_t view = r->prepared->first_view + r->prepared->skipped;
	if (file->shape[0] != r->whole->geometry->count)
		return tomos_file_read(file, 0, 1, data);
	int64_t before = file->shape[1] == g->rows ? 0 : r->first_slice + r->first_row;
	const Extract part = {view, g->count, slab->row - before, slab->rows};
	return io_read(file, &part, data);
}

static tomos_status read_file(const FileRun *r, SlabFile which, const Slab *slab, float *data)
{
	const Iterative *it = &r->iterative;
	const tomos_geometry *g = r->prepared->geometry;
	tomos_array array = tomos_array_of(data, slab->count, r->grid.n[1], r->grid.n[0]);
	if (which == FILE_RAYS)
		array = tomos_array_of(data, g->count, slab->rows, g->columns);
	TRY(which == FILE_RAYS ? read_rays(r, slab, data)
			       : tomos_file_read(it->files[which], slab->first - r->first_slice,
					 slab->count, data));
	if (which == FILE_TRUTH)
		TRY(run_match_truth(r, it->files[which], false, slab->count * slice_size(r), data));
	return run_check_numbers(&array, it->names[which]);
}

/* The volume to begin with: of a file, or zeros. */
static tomos_status read_start(const FileRun *r, const Slab *slab, float *volume)
{
	int64_t voxels = slab->count * slice_size(r);
	bool named = r->iterative.files[FILE_START] != NULL;
	float *host = volume;
	if (r->resident && !named)
		return r->backend->type->vector->fill(r->backend, voxels, 0, volume);
	if (r->resident)
		TRY(mem_alloc(&host, voxels, sizeof *host, file_words[FILE_START]));
	tomos_status status = TOMOS_OK;
	if (named)
		status = read_file(r, FILE_START, slab, host);
	else
		memset(host, 0, (size_t)voxels * sizeof *host);
	if (status == TOMOS_OK && r->resident) {
		const tomos_array from =
			tomos_array_of(host, slab->count, r->grid.n[1], r->grid.n[0]);
		status = r->backend->type->memory->upload(r->backend, volume, &from);
	}
	if (r->resident)
		mem_free(host);
	return status;
}

/* Reads the start into the volume, and the other files into arrays, which the options then point
 * to. */
static tomos_status read_files(
	FileRun *r, const Slab *slab, float *volume, tomos_array arrays[FILE_COUNT])
{
	Iterative *it = &r->iterative;
	const tomos_geometry *g = r->prepared->geometry;
	int64_t voxels = slab->count * slice_size(r), rays = g->count * slab->rows * g->columns;
	TRY(read_start(r, slab, volume));
	for (int i = FILE_MASK; i < FILE_COUNT; i++) {
		if (!it->files[i])
			continue;
		mem_free(it->arrays[i]);
		TRY(mem_alloc(&it->arrays[i], i == FILE_RAYS ? rays : voxels, sizeof(float),
			file_words[i]));
		TRY(read_file(r, (SlabFile)i, slab, it->arrays[i]));
		if (i == FILE_RAYS)
			together_pack(r, slab, it->arrays[i]);
		arrays[i] = i == FILE_RAYS ? tomos_array_of(it->arrays[i], g->count,
						     slab_lines(r, slab), g->columns)
					   : tomos_array_of(it->arrays[i], slab->count,
						     r->grid.n[1], r->grid.n[0]);
	}
	return TOMOS_OK;
}

/* ---- a slab ------------------------------------------------------------------------------- */

static double sum_squares(const float *data, const float *weights, int64_t count)
{
	double sum = 0;
	for (int64_t i = 0; i < count; i++)
		sum += (weights ? (double)weights[i] : 1) * (double)data[i] * (double)data[i];
	return sum;
}

/* Of the data of a slab, in host or in device memory; the latter have no weights. */
static tomos_status data_squares(const FileRun *r, const float *data, int64_t count, double *sum)
{
	if (r->resident)
		return r->backend->type->vector->dot(r->backend, count, data, data, sum);
	*sum = sum_squares(data, r->iterative.arrays[FILE_RAYS], count);
	return TOMOS_OK;
}

/* Converts relative norms to squares, which can be summed over slabs. */
static void to_squares(double *list, int64_t count, double of)
{
	for (int64_t i = 0; list && i < count; i++)
		list[i] = list[i] * list[i] * (of > 0 ? of : 1);
}

/* Number of iterations in the slab's checkpoint, if the run continues from it. */
static tomos_status take_before(Iterative *it, const char *path, bool resume)
{
	tomos_checkpoint_info info = {.bytes = sizeof info};
	if (path && resume && access(path, F_OK) == 0)
		TRY(tomos_checkpoint_describe(path, &info));
	it->before = info.iterations;
	return TOMOS_OK;
}

static tomos_status lists_new(const Iterative *it, Iterations *one, tomos_history *h)
{
	h->capacity = min64(max64(it->o.iterations, it->before), MOST_NOTED);
	TRY(mem_zeroed(&one->residual, h->capacity + 1, sizeof(double), "residuals"));
	TRY(mem_zeroed(&one->error, h->capacity + 1, sizeof(double), "errors"));
	h->residual = one->residual;
	h->error = one->error;
	return TOMOS_OK;
}

static tomos_status note_iterations(
	FileRun *r, const Slab *slab, const float *b, Iterations *one, const tomos_history *h)
{
	Iterative *it = &r->iterative;
	const tomos_geometry *g = r->prepared->geometry;
	int64_t rays = g->count * slab_lines(r, slab) * g->columns;
	one->first = slab->first - r->first_slice;
	one->count = slab->count;
	one->iterations = min64(h->count, h->capacity);
	TRY(data_squares(r, b, rays, &one->data));
	if (it->files[FILE_TRUTH]) {
		int64_t voxels = slab->count * slice_size(r);
		one->truth = sum_squares(it->arrays[FILE_TRUTH], NULL, voxels);
	} else {
		mem_free(one->error);
		one->error = NULL;
	}
	if (r->together) {
		TRY(comm_sum(r->comm, &one->data, 1));
		TRY(comm_sum(r->comm, &one->truth, 1));
	}
	to_squares(one->residual, one->iterations, one->data);
	to_squares(one->error, one->iterations, one->truth);
	one->ended = h->ended;
	if (it->probing)
		return TOMOS_OK;
	it->slabs[slab - r->slabs] = *one;
	*one = (Iterations){.first = 0};
	return TOMOS_OK;
}

/* Memory, in floats, for data cached only to save time: the rest of the planned memory. */
static int64_t cache_floats(const FileRun *r)
{
	double left = (r->memory - r->planned) / sizeof(float);
	return left > 0x1p28 ? (int64_t)1 << 28 : left > 0 ? (int64_t)left : 0;
}

/* The iterations of one slab, with everything that they need. */
typedef struct {
	FileRun *run;
	tomos_array b, x, arrays[FILE_COUNT];
	tomos_algebraic_options o;
	Within within;
} SlabWork;

static tomos_status prepare_work(SlabWork *w, const Slab *slab, float *data, float *volume)
{
	FileRun *r = w->run;
	Iterative *it = &r->iterative;
	const tomos_geometry *g = r->prepared->geometry;
	TRY(read_files(r, slab, volume, w->arrays));
	together_pack(r, slab, data);
	w->o.mask = it->files[FILE_MASK] ? &w->arrays[FILE_MASK] : NULL;
	w->o.ray_weights = it->files[FILE_RAYS] ? &w->arrays[FILE_RAYS] : NULL;
	w->o.truth = it->files[FILE_TRUTH] ? &w->arrays[FILE_TRUTH] : NULL;
	TRY(iterative_operator(r, slab));
	w->b = tomos_array_of(data, g->count, slab_lines(r, slab), g->columns);
	w->x = tomos_array_of(volume, slab->count, r->grid.n[1], r->grid.n[0]);
	w->b.device = w->x.device = r->resident ? r->backend->device : 0;
	return TOMOS_OK;
}

static tomos_status do_work(void *user, const tomos_progress *progress)
{
	SlabWork *w = user;
	const FileRun *r = w->run;
	return reconstruct_within(
		r->iterative.op, r->method, &w->b, &w->x, &w->o, &w->within, progress);
}

static tomos_status iterate(FileRun *r, const Slab *slab, float *data, float *volume,
	const tomos_algebraic_options *options, const tomos_progress *progress)
{
	SlabWork w = {.run = r, .o = *options};
	w.within = (Within){
		.cache = cache_floats(r), .part = r->slab_count > 1 || r->iterative.probing};
	tomos_status status = prepare_work(&w, slab, data, volume);
	TRY(r->together ? run_agree(r, status) : status);
	TRY(together_cache(r, slab->count * slice_size(r), &w.within.cache));
	return together_iterate(r, progress, do_work, &w);
}

tomos_status iterative_slab(
	FileRun *r, const Slab *slab, float *data, float *volume, const tomos_progress *progress)
{
	Iterative *it = &r->iterative;
	tomos_algebraic_options o = it->o;
	tomos_history history = {.bytes = sizeof history};
	Iterations one = {.first = 0};
	char *path = NULL;
	tomos_status status;
	o.history = &history;
	if (it->probing)
		o.checkpoint = "", o.resume = 0, o.every = tomos_algebraic_defaults().every;
	if (is_named(o.checkpoint))
		TRY(slab_checkpoint(r, slab, &path));
	o.checkpoint = path ? path : "";
	TRY_OR_DONE(take_before(it, path, o.resume != 0));
	TRY_OR_DONE(lists_new(it, &one, &history));
	TRY_OR_DONE(iterate(r, slab, data, volume, &o, progress));
done:
	r->stopped = status == TOMOS_CANCELLED && history.count > 0 && r->slab_count == 1 &&
		     !it->probing;
	status = r->stopped ? TOMOS_OK : status;
	if (status == TOMOS_OK)
		status = note_iterations(r, slab, data, &one, &history);
	iterations_free(&one);
	mem_free(path);
	return status;
}
