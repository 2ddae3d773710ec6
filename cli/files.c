/* Reads and writes whole arrays, in parts so that Ctrl-C takes effect. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "cli.h"

#define PORTION ((int64_t)4 << 20) /* elements per read or write */

static int64_t portion(const int64_t shape[3])
{
	int64_t count = PORTION / (shape[1] * shape[2]);
	return count < 1 ? 1 : count > shape[0] ? shape[0] : count;
}

/* The system may overcommit memory and kill the process later: more than the machine has is an
 * error. */
static bool beyond_memory(int64_t bytes)
{
	return (double)bytes > (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
}

int array_new(tomos_array *array, const int64_t shape[3], const char *what)
{
	int64_t row = 0, plane = 0, count = 0, bytes = 0;
	bool fits = !__builtin_mul_overflow(shape[2], shape[1], &row) &&
		    !__builtin_mul_overflow(row, shape[0], &plane) &&
		    !__builtin_mul_overflow(plane, (int64_t)sizeof(float), &bytes);
	count = plane;
	float *data = fits && bytes > 0 && !beyond_memory(bytes)
			      ? calloc((size_t)count, sizeof *data)
			      : NULL;
	if (!data)
		return failed("no memory for %s: %lld x %lld x %lld floats, %.3g GB", what,
			(long long)shape[0], (long long)shape[1], (long long)shape[2],
			4e-9 * (double)shape[0] * (double)shape[1] * (double)shape[2]);
	*array = tomos_array_of(data, shape[0], shape[1], shape[2]);
	return DONE;
}

void array_free(tomos_array *array)
{
	free(array->data);
	array->data = NULL;
}

void shape_text(const int64_t shape[3], tomos_content content, char text[96])
{
	if (content == TOMOS_PROJECTIONS)
		snprintf(text, 96, "%lld view%s of %lld row%s x %lld column%s", (long long)shape[0],
			shape[0] == 1 ? "" : "s", (long long)shape[1], shape[1] == 1 ? "" : "s",
			(long long)shape[2], shape[2] == 1 ? "" : "s");
	else
		snprintf(text, 96, "%lld x %lld x %lld (z y x)", (long long)shape[0],
			(long long)shape[1], (long long)shape[2]);
}

int file_read_all(tomos_file *file, const char *path, tomos_array *array)
{
	tomos_file_info info = {.bytes = sizeof info};
	int code;
	DO(lib(tomos_file_describe(file, &info)));
	DO(array_new(array, info.shape, path));
	DO(progress_step("reading", 0, info.shape[0]));
	int64_t step = portion(info.shape), plane = info.shape[1] * info.shape[2];
	for (int64_t first = 0; first < info.shape[0]; first += step) {
		int64_t count = info.shape[0] - first < step ? info.shape[0] - first : step;
		DO(lib(tomos_file_read(file, first, count, array->data + first * plane)));
		DO(progress_step("reading", first + count, info.shape[0]));
	}
	if (lib(tomos_array_check(array, path)) != DONE)
		DO(FAILED); /* the content of a file is not wrong usage */
done:
	return code;
}

int output_open(output_file *out, const char *path, const tomos_file_options *options,
	tomos_content content, const int64_t shape[3])
{
	static const double any[2] = {0, 1};
	*out = (output_file){.path = path, .options = *options, .content = content};
	out->options.level = 0; /* of the input */
	out->no_window = strcmp(options->type, "float32") != 0 && options->window_count == 0;
	if (out->no_window)
		out->options.window = any, out->options.window_count = 2;
	return lib(tomos_file_create(&out->file, path, content, shape, &out->options));
}

int output_set_window(output_file *out, double low, double high, const int64_t shape[3])
{
	if (!out->no_window)
		return DONE;
	out->window[0] = low;
	out->window[1] = high > low ? high : low + 1;
	out->no_window = false;
	out->options.window = out->window;
	tomos_file_close(out->file);
	out->file = NULL;
	say("window    %g to %g, the range of the values\n", out->window[0], out->window[1]);
	return lib(tomos_file_create(&out->file, out->path, out->content, shape, &out->options));
}

void output_close(output_file *out)
{
	tomos_file_close(out->file);
	out->file = NULL;
}

static void array_range(const tomos_array *array, double *low, double *high)
{
	int64_t count = array->shape[0] * array->shape[1] * array->shape[2];
	*low = HUGE_VAL, *high = -HUGE_VAL;
	for (int64_t i = 0; i < count; i++) {
		*low = fmin(*low, (double)array->data[i]);
		*high = fmax(*high, (double)array->data[i]);
	}
}

int output_describe(
	tomos_file *file, const char *path, const tomos_grid *grid, const tomos_geometry *scan)
{
	tomos_file_info info = {.bytes = sizeof info};
	int code;
	DO(lib(tomos_file_describe(file, &info)));
	bool views = strcmp(info.format, "hdf5") == 0 || strcmp(info.format, "zarr") == 0;
	bool numbers = strstr("npy npz raw", info.format) != NULL; /* and nothing else */
	if ((grid && numbers) || (scan && !views))
		note("%s files hold no %s; '%s' is without it", info.format,
			scan ? "geometry" : "grid", path);
	if (grid && !numbers)
		DO(lib(tomos_file_set_grid(file, grid)));
	if (scan && views)
		DO(lib(tomos_file_set_geometry(file, scan)));
done:
	return code;
}

static int output_fill(tomos_file *file, const tomos_array *array)
{
	int64_t step = portion(array->shape), plane = array->shape[1] * array->shape[2];
	int code;
	DO(lib(tomos_result_check(array, 0, "the result")));
	DO(progress_step("writing", 0, array->shape[0]));
	for (int64_t first = 0; first < array->shape[0]; first += step) {
		int64_t count = array->shape[0] - first < step ? array->shape[0] - first : step;
		DO(lib(tomos_file_write(file, first, count, array->data + first * plane)));
		DO(progress_step("writing", first + count, array->shape[0]));
	}
	DO(lib(tomos_file_commit(file)));
done:
	return code;
}

int output_range(output_file *out, const tomos_array *array)
{
	double low = 0, high = 0;
	if (out->no_window)
		array_range(array, &low, &high);
	return output_set_window(out, low, high, array->shape);
}

int output_write(output_file *out, const tomos_array *array, const tomos_grid *grid,
	const tomos_geometry *scan)
{
	const char *path = out->path;
	char text[96];
	int code;
	DO(output_range(out, array));
	DO(output_describe(out->file, path, grid, scan));
	DO(output_fill(out->file, array));
	shape_text(array->shape, grid ? TOMOS_VOLUME : TOMOS_PROJECTIONS, text);
	say("wrote %s: %s", path, text);
	if (grid)
		say(" voxels of %g x %g x %g", fabs(grid->step[2]), fabs(grid->step[1]),
			fabs(grid->step[0]));
	say("\n");
done:
	return code;
}

int file_each(tomos_file *file, const char *stage,
	int (*visit)(void *user, int64_t first, int64_t count, float *data), void *user)
{
	tomos_file_info info = {.bytes = sizeof info};
	float *data = NULL;
	int code;
	DO(lib(tomos_file_describe(file, &info)));
	int64_t step = portion(info.shape), total = info.shape[0];
	data = malloc((size_t)(step * info.shape[1] * info.shape[2]) * sizeof *data);
	if (!data)
		DO(failed("no memory for %lld x %lld x %lld floats", (long long)step,
			(long long)info.shape[1], (long long)info.shape[2]));
	DO(progress_step(stage, 0, total));
	for (int64_t first = 0; first < total; first += step) {
		int64_t count = total - first < step ? total - first : step;
		DO(lib(tomos_file_read(file, first, count, data)));
		DO(visit(user, first, count, data));
		DO(progress_step(stage, first + count, total));
	}
done:
	free(data);
	return code;
}

int grid_centred(tomos_grid *grid, const int64_t n[3], const double *voxel, int64_t count)
{
	if (count != 0 && count != 1 && count != 3)
		return wrong_usage(
			"--voxel: one length or three are needed, not %lld", (long long)count);
	double first = count ? voxel[0] : 1;
	int code = lib(tomos_grid_centred(grid, n[0], n[1], n[2], first));
	for (int i = 1; code == DONE && count == 3 && i < 3; i++) {
		grid->first[i] *= voxel[i] / first;
		grid->step[i] *= voxel[i] / first;
	}
	return code == DONE ? lib(tomos_grid_check(grid)) : code;
}

int file_own_grid(const tomos_file *file, tomos_grid *grid)
{
	tomos_file_info info = {.bytes = sizeof info};
	*grid = (tomos_grid){.n = {0}};
	int code = lib(tomos_file_describe(file, &info));
	return code == DONE && info.has_grid ? lib(tomos_file_grid(file, grid)) : code;
}

/* Whether first and last voxels coincide, to a thousandth of the voxel size. */
static bool grids_same(const tomos_grid *a, const tomos_grid *b)
{
	for (int i = 0; i < 3; i++) {
		double first = a->first[i] - b->first[i], step = a->step[i] - b->step[i];
		double last = first + step * (double)(a->n[i] - 1), near = 1e-3 * fabs(a->step[i]);
		if (fabs(first) > near || fabs(last) > near || fabs(step) > near)
			return false;
	}
	return true;
}

void grids_warn(const char *path, const tomos_grid *grid, const char *other, const tomos_grid *with)
{
	if (grid->n[0] == 0 || with->n[0] == 0 || grids_same(grid, with))
		return;
	warn("the voxels of '%s' are %g x %g x %g, the first at (%g, %g, %g); those of %s "
	     "are %g x %g x %g, the first at (%g, %g, %g): they are matched by their indices",
		path, grid->step[0], grid->step[1], grid->step[2], grid->first[0], grid->first[1],
		grid->first[2], other, with->step[0], with->step[1], with->step[2], with->first[0],
		with->first[1], with->first[2]);
}

int file_volume_grid(
	const settings *s, const tomos_file *file, const tomos_file_info *info, tomos_grid *grid)
{
	const int64_t n[3] = {info->shape[2], info->shape[1], info->shape[0]};
	if (!info->has_grid)
		return grid_centred(grid, n, s->input.voxel, s->input.voxel_count);
	int code = lib(tomos_file_grid(file, grid));
	if (code == DONE && s->input.voxel_count)
		return wrong_usage("the file has a grid of its own, with voxels of %g x %g x %g; "
				   "leave out --voxel",
			fabs(grid->step[0]), fabs(grid->step[1]), fabs(grid->step[2]));
	return code;
}

/* A file of which the content is not known, but which has flats, angles or a geometry. */
static bool is_scan(const char *path, const tomos_file_options *o)
{
	tomos_scan *scan = NULL;
	tomos_scan_info info = {.bytes = sizeof info};
	if (!o->raw[0] && tomos_scan_open(&scan, path, NULL) == TOMOS_OK)
		(void)tomos_scan_describe(scan, &info);
	tomos_scan_close(scan);
	return info.flats > 0 || info.has_angles || info.has_geometry;
}

bool file_of_scanner(const char *path)
{
	tomos_scan_info info = {.bytes = sizeof info};
	tomos_scan *scan = NULL;
	bool known = tomos_scan_open(&scan, path, NULL) == TOMOS_OK &&
		     tomos_scan_describe(scan, &info) == TOMOS_OK && info.geometry[0];
	tomos_scan_close(scan);
	return known;
}

/* A file that is no array may be that of a scanner; otherwise the reason is given. */
static int not_opened(const settings *s, const char *path, tomos_file **file)
{
	if (!s->file.raw[0] && file_of_scanner(path))
		return failed("'%s' is the file of a scanner: 'tomos prep %s -o scan.h5' writes "
			      "its line integrals to a file that can be used here, 'tomos view %s' "
			      "shows its views",
			path, path, path);
	return lib(tomos_file_open(file, path, &s->file));
}

int file_open(const settings *s, const char *path, tomos_file **file, tomos_file_info *info)
{
	int64_t number;
	char after[304];
	int code;
	info->bytes = sizeof *info;
	if (tomos_file_open(file, path, &s->file) != TOMOS_OK)
		DO(not_opened(s, path, file));
	DO(lib(tomos_file_describe(*file, info)));
	DO(lib(tomos_file_gap(*file, &number, after, sizeof after)));
	if (number >= 0)
		warn("number %lld is missing %s%s'; the files are used as if they were complete",
			(long long)number, after[0] ? "after '" : "in '", after[0] ? after : path);
done:
	return code;
}

int load_volume(
	const settings *s, const char *path, tomos_array *volume, tomos_grid *grid, char unit[UNIT])
{
	tomos_file *file = NULL;
	tomos_file_info info = {0};
	int code;
	DO(file_open(s, path, &file, &info));
	if (info.content == TOMOS_PROJECTIONS || (!info.has_grid && is_scan(path, &s->file)))
		DO(failed("'%s' holds projections, not a volume", path));
	if (strcmp(info.value_unit, "HU") == 0)
		DO(failed("'%s' is in Hounsfield units, and line integrals are those of "
			  "attenuation; reconstruct it without --hu",
			path));
	DO(file_volume_grid(s, file, &info, grid));
	snprintf(unit, UNIT, "%s", s->input.voxel_count ? "mm" : info.length_unit);
	DO(file_read_all(file, path, volume));
done:
	tomos_file_close(file);
	return code;
}

static void warn_directions(const settings *s, const tomos_geometry *scan)
{
	double low, high;
	if (ends_with(s->views.views_file, ".txt") && tomos_geometry_doubt(scan, &low, &high))
		warn("the first three numbers of each view in '%s' are taken as the direction of "
		     "parallel rays, and have lengths of %g to %g instead of 1: if they are source "
		     "positions, give --point-source",
			s->views.views_file, low, high);
}

int load_views(const settings *s, int64_t rows, int64_t columns, tomos_geometry **scan)
{
	const char *path = s->views.views_file;
	const double *pixel = s->views.views_pixel;
	int64_t given = s->views.views_pixel_count;
	int code = lib(tomos_geometry_import(scan, path, rows, columns, s->views.point_source,
		given > 0 ? pixel[0] : 0, given > 1 ? pixel[1] : 0));
	if (code == DONE)
		warn_directions(s, *scan);
	return code;
}

/* JSON files have the detector size; otherwise it is that of the data, which may be a sinogram. */
int load_views_of(const settings *s, const int64_t shape[3], tomos_geometry **scan)
{
	if (ends_with(s->views.views_file, ".json"))
		return load_views(s, 0, 0, scan);
	int code = load_views(s, shape[1], shape[2], scan);
	if (code != DONE || shape[0] != 1 || tomos_geometry_count(*scan) != shape[1])
		return code;
	tomos_geometry_free(*scan);
	*scan = NULL;
	return load_views(s, 1, shape[2], scan);
}

int fit_views(const char *path, const tomos_geometry *scan, tomos_array *data)
{
	const int64_t wanted[3] = {tomos_geometry_count(scan), tomos_geometry_rows(scan),
		tomos_geometry_columns(scan)};
	const int64_t *got = data->shape;
	bool sinogram = got[0] == 1 && wanted[1] == 1 && got[1] == wanted[0] && got[2] == wanted[2];
	if (!sinogram && memcmp(got, wanted, sizeof wanted) != 0)
		return failed(
			"'%s' has the shape %lld x %lld x %lld, but its geometry has %lld views of "
			"%lld rows x %lld columns",
			path, (long long)got[0], (long long)got[1], (long long)got[2],
			(long long)wanted[0], (long long)wanted[1], (long long)wanted[2]);
	*data = tomos_array_of(data->data, wanted[0], wanted[1], wanted[2]);
	return DONE;
}

int load_scan(const settings *s, const char *path, tomos_array *data, tomos_geometry **scan)
{
	tomos_file *file = NULL;
	tomos_file_info info = {0};
	int code;
	DO(file_open(s, path, &file, &info));
	if (info.content == TOMOS_VOLUME)
		DO(failed("'%s' holds a volume, not projections", path));
	if (s->views.views_file[0])
		DO(load_views_of(s, info.shape, scan));
	else if (info.has_geometry)
		DO(lib(tomos_file_geometry(file, scan)));
	else
		DO(failed("'%s' has no geometry; name one with --views-file", path));
	DO(file_read_all(file, path, data));
	DO(fit_views(path, *scan, data));
done:
	tomos_file_close(file);
	return code;
}
