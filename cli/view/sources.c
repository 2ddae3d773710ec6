/* The files that are shown. A file of the library serves one call at a time, so each level has some
 * that are open, and more are opened while all of these are busy. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "view.h"
#include "source.h"

/* ---- open files ------------------------------------------------------------------------------ */

static tomos_status pool_new(const view_source *s, int level, tomos_file **file)
{
	tomos_file_options options = s->options;
	options.level = level;
	return tomos_file_open(file, s->path, &options);
}

/* The number of a file for the caller alone, or -1. */
static int pool_take(const view_source *s, int level, tomos_status *status)
{
	view_pool *p = (view_pool *)&s->pools[level];
	int number = -1;
	pthread_mutex_lock(&p->lock);
	for (;;) {
		for (int i = 0; i < p->count && number < 0; i++)
			if (!p->busy[i])
				number = i;
		if (number >= 0 || p->count < s->most)
			break;
		pthread_cond_wait(&p->freed, &p->lock);
	}
	if (number < 0)
		number = p->count++;
	p->busy[number] = true;
	pthread_mutex_unlock(&p->lock);
	*status = p->files[number] ? TOMOS_OK : pool_new(s, level, &p->files[number]);
	return number;
}

static void pool_give(const view_source *s, int level, int number)
{
	view_pool *p = (view_pool *)&s->pools[level];
	pthread_mutex_lock(&p->lock);
	p->busy[number] = false;
	pthread_cond_signal(&p->freed);
	pthread_mutex_unlock(&p->lock);
}

/* ---- reading --------------------------------------------------------------------------------- */

tomos_status file_box(view_source *s, const view_request *r, float *data)
{
	tomos_status status;
	int level = (int)r->level, number = pool_take(s, level, &status);
	if (status == TOMOS_OK)
		status = tomos_file_read_box(
			s->pools[level].files[number], r->first, r->count, r->step, data);
	pool_give(s, level, number);
	return status;
}

tomos_status source_read(view_source *s, const view_request *r, float *data)
{
	if (s->scan)
		return scan_box(s, r, data);
	return columns_apply(s, r) ? columns_read(s, r, data) : file_box(s, r, data);
}

/* ---- samples of the whole -------------------------------------------------------------------- */

enum { SLICES = 16, ROWS = 16, MOST = 2048 };
#define MODERATE 8e6 /* voxels */
#define ENOUGH 0.15  /* seconds, after which what was read must do */

/* Sixteenths in an order that begins in the middle and always covers all of it. */
static const int order[SLICES] = {8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15, 0};

/* Rows of one slice. */
static tomos_status sample_slice(view_source *s, int level, int64_t z, float *data, int64_t *count)
{
	const int64_t *n = s->levels[level].shape;
	view_request r = {.level = level};
	for (int k = 1; k < 3; k++) {
		int64_t most = k == 1 ? ROWS : MOST;
		r.step[k] = (n[k] - 1) / most + 1;
		r.count[k] = (n[k] - 1) / r.step[k] + 1;
		r.first[k] = (n[k] - 1 - (r.count[k] - 1) * r.step[k]) / 2;
	}
	r.first[0] = z;
	r.count[0] = r.step[0] = 1;
	*count = r.count[1] * r.count[2];
	return source_read(s, &r, data);
}

/* The finest level of moderate size: means of coarser ones have a narrower range. */
static int sample_level(const view_source *s)
{
	for (int i = 0; i + 1 < s->level_count; i++) {
		const int64_t *n = s->levels[i].shape;
		if ((double)n[0] * (double)n[1] * (double)n[2] <= MODERATE)
			return i;
	}
	return s->level_count - 1;
}

float *source_sample(view_source *s, int64_t *count)
{
	int level = sample_level(s);
	int64_t nz = s->levels[level].shape[0], last = -1;
	float *data = malloc((size_t)SLICES * ROWS * MOST * sizeof *data);
	double start = seconds();
	*count = 0;
	s->left = false;
	for (int i = 0; data && i < SLICES && (i == 0 || seconds() - start < ENOUGH); i++) {
		int64_t z = nz > SLICES ? order[i] * nz / SLICES : i, got;
		if (z >= nz || z == last)
			break;
		last = z;
		tomos_status status = sample_slice(s, level, z, data + *count, &got);
		*count += status == TOMOS_OK ? got : 0;
		if (status == TOMOS_CANCELLED) {
			s->left = true;
			break;
		}
	}
	return data;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* From the sizes of voxels, or where there are none, of the level. */
static void find_factors(view_source *s, int level, const tomos_file *file)
{
	tomos_grid grid;
	view_level *l = &s->levels[level];
	bool known = s->has_grid && tomos_file_grid(file, &grid) == TOMOS_OK;
	for (int k = 0; k < 3; k++)
		l->factor[k] = known ? grid.step[2 - k] / s->step[k]
				     : round((double)s->levels[0].shape[k] / (double)l->shape[k]);
}

static int describe_levels(view_source *s, const tomos_file *file, const tomos_file_info *info)
{
	int code = DONE;
	s->level_count = tomos_file_levels(file);
	if (s->level_count > VIEW_LEVELS)
		s->level_count = VIEW_LEVELS;
	for (int i = 0; i < s->level_count; i++) {
		view_level *l = &s->levels[i];
		tomos_file *other = NULL;
		tomos_file_info is = {.bytes = sizeof is};
		if (i > 0) {
			DO(lib(pool_new(s, i, &other)));
			s->pools[i].files[0] = other;
			s->pools[i].count = 1;
			DO(lib(tomos_file_describe(other, &is)));
		}
		memcpy(l->shape, i ? is.shape : info->shape, sizeof l->shape);
		find_factors(s, i, i ? other : file);
	}
done:
	return code;
}

static void describe_grid(view_source *s, const tomos_file *file, const tomos_file_info *info)
{
	tomos_grid grid;
	for (int k = 0; k < 3; k++)
		s->step[k] = 1;
	if (!info->has_grid || tomos_file_grid(file, &grid) != TOMOS_OK)
		return;
	s->has_grid = true;
	for (int k = 0; k < 3; k++) {
		s->step[k] = grid.step[2 - k];
		s->origin[k] = grid.first[2 - k];
	}
}

static int open_file(view_source *s)
{
	tomos_file_info info = {.bytes = sizeof info};
	tomos_file *file = NULL;
	int code;
	DO(lib(pool_new(s, 0, &file)));
	s->pools[0].files[0] = file;
	s->pools[0].count = 1;
	DO(lib(tomos_file_describe(file, &info)));
	snprintf(s->type, sizeof s->type, "%s", info.type);
	snprintf(s->format, sizeof s->format, "%s", info.format);
	bool views = info.content == TOMOS_PROJECTIONS;
	s->content = !views ? "volume" : info.shape[1] == 1 ? "sinogram" : "projections";
	/* A stack of TIFF files is checked whole when it is opened; a packed file is unpacked. */
	s->most = strcmp(info.format, "tiff") == 0 || info.unpacked ? 1 : POOL;
	describe_grid(s, file, &info);
	snprintf(s->unit, sizeof s->unit, "%s", s->has_grid ? length_unit(&info, s->step) : "");
	snprintf(s->value_unit, sizeof s->value_unit, "%s", info.value_unit);
	DO(describe_levels(s, file, &info));
done:
	return code;
}

static const char *last_part(const char *path)
{
	size_t length = strlen(path);
	while (length > 1 && path[length - 1] == '/')
		length--;
	const char *start = path + length;
	while (start > path && start[-1] != '/')
		start--;
	return start;
}

int source_open(view_source **source, const settings *given, const char *path)
{
	view_source *s = calloc(1, sizeof *s);
	int code = DONE;
	*source = s;
	if (!s)
		return failed("no memory for '%s'", path);
	for (int i = 0; i < VIEW_LEVELS; i++) {
		pthread_mutex_init(&s->pools[i].lock, NULL);
		pthread_cond_init(&s->pools[i].freed, NULL);
	}
	pthread_mutex_init(&s->columns.lock, NULL);
	pthread_cond_init(&s->columns.loaded, NULL);
	pthread_mutex_init(&s->scan_lock, NULL);
	s->path = path;
	s->options = given->file;
	s->most = POOL;
	snprintf(s->name, sizeof s->name, "%s", last_part(path));
	size_t length = strlen(s->name);
	while (length > 1 && s->name[length - 1] == '/')
		s->name[--length] = 0;
	DO(scan_try(s, given));
	if (!s->scan)
		DO(open_file(s));
done:
	return code;
}

void source_close(view_source *s)
{
	if (!s)
		return;
	for (int i = 0; i < VIEW_LEVELS; i++) {
		for (int k = 0; k < s->pools[i].count; k++)
			tomos_file_close(s->pools[i].files[k]);
		pthread_mutex_destroy(&s->pools[i].lock);
		pthread_cond_destroy(&s->pools[i].freed);
	}
	columns_free(&s->columns);
	pthread_mutex_destroy(&s->columns.lock);
	pthread_cond_destroy(&s->columns.loaded);
	pthread_mutex_destroy(&s->scan_lock);
	scan_free(s);
	free(s);
}

bool source_is_scan(const view_source *s)
{
	return s->scan != NULL;
}

bool source_is_volume(const view_source *s)
{
	return !s->scan && strcmp(s->content, "volume") == 0;
}

int source_levels(const view_source *s)
{
	return s->level_count;
}

const char *source_folder(const view_source *s)
{
	return strcmp(s->format, "zarr") == 0 ? s->path : NULL;
}
