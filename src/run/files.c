/* Grids and scans in files, as named numbers beside the data. */
#include <stdio.h>
#include <string.h>
#include "base/vector3.h"
#include "geom/geom.h"
#include "io/io.h"

/* ---- numbers under a name ----------------------------------------------------------------- */

/* Reads exactly `count` numbers. If the file has none, *found is false and nothing else changes. */
static tomos_status get_list(
	const File *file, const char *name, double *list, int64_t count, bool *found)
{
	double *values;
	int64_t shape[2];
	TRY(io_get(file, name, &values, shape));
	*found = values != NULL;
	if (!values)
		return TOMOS_OK;
	bool fits = shape[0] == 1 && shape[1] == count;
	if (fits)
		memcpy(list, values, (size_t)count * sizeof *list);
	mem_free(values);
	if (fits)
		return TOMOS_OK;
	return fail(TOMOS_BAD_FILE, "'%s': '%s' has %lld x %lld numbers; %lld were expected",
		file->path, name, (long long)shape[0], (long long)shape[1], (long long)count);
}

static tomos_status take_size(const File *file, const char *name, double number, int64_t *size)
{
	if (!(number >= 1 && number <= 0x1p53) || number != floor(number))
		return fail(TOMOS_BAD_FILE, "'%s': '%s' has %g where a whole number is due",
			file->path, name, number);
	*size = (int64_t)number;
	return TOMOS_OK;
}

/* ---- grids -------------------------------------------------------------------------------- */

/* Projections may have a grid of any size: that of the volume they were made from, or are meant
 * for. */
static tomos_status check_grid_shape(const File *file, const tomos_grid *grid, tomos_status status)
{
	const int64_t *n = grid->n, *shape = file->shape;
	if (file->content == TOMOS_PROJECTIONS)
		return TOMOS_OK;
	if (n[0] == shape[2] && n[1] == shape[1] && n[2] == shape[0])
		return TOMOS_OK;
	return fail(status,
		"'%s': its grid has %lld x %lld x %lld voxels (z, y, x), its data %lld x %lld x "
		"%lld",
		file->path, (long long)n[2], (long long)n[1], (long long)n[0], (long long)shape[0],
		(long long)shape[1], (long long)shape[2]);
}

static tomos_status read_grid(const File *file, tomos_grid *grid, bool *found)
{
	double n[3];
	bool first, step;
	TRY(get_list(file, "grid/n", n, 3, found));
	TRY(get_list(file, "grid/first", grid->first, 3, &first));
	TRY(get_list(file, "grid/step", grid->step, 3, &step));
	if (*found != first || *found != step)
		return fail(TOMOS_BAD_FILE,
			"'%s': its grid is not complete; grid/n, grid/first and grid/step go "
			"together",
			file->path);
	for (int i = 0; i < 3 && *found; i++)
		TRY(take_size(file, "grid/n", n[i], &grid->n[i]));
	if (!*found)
		return TOMOS_OK;
	TRY(check_grid_shape(file, grid, TOMOS_BAD_FILE));
	return tomos_grid_check(grid);
}

tomos_status tomos_file_grid(const File *file, tomos_grid *grid)
{
	tomos_grid read;
	bool found;
	TRY(read_grid(file, &read, &found));
	if (!found)
		return fail(TOMOS_BAD_FILE, "'%s' does not say its grid", file->path);
	*grid = read;
	return TOMOS_OK;
}

tomos_status tomos_file_set_text(File *file, const char *name, const char *text)
{
	char *full;
	if (!name || !name[0] || strchr(name, '/') || !text)
		return fail(TOMOS_BAD_VALUE,
			"'%s': a text must be there, with a plain name, not '%s'", file->path,
			name ? name : "");
	TRY(mem_printf(&full, "process/%s", name));
	tomos_status status = io_put_text(file, full, text);
	mem_free(full);
	return status;
}

tomos_status tomos_file_text(const File *file, const char *name, char *text, size_t size)
{
	char *full, *found = NULL;
	TRY(mem_printf(&full, "process/%s", name));
	tomos_status status = io_text(file, full, &found);
	mem_free(full);
	snprintf(text, size, "%s", found ? found : "");
	mem_free(found);
	return status;
}

tomos_status tomos_file_set_units(File *file, const char *length, const char *value)
{
	const char *const given[2] = {length, value};
	FileUnits *u = &file->units;
	TRY(io_check_writable(file));
	for (int i = 0; i < 2; i++)
		if (given[i] && !unit_is_plain(given[i]))
			return fail(TOMOS_BAD_VALUE,
				"'%s': the unit '%.40s' must have at most %d letters, and no "
				"quotes",
				file->path, given[i], UNIT_NAME - 1);
	if (length)
		snprintf(u->length, UNIT_NAME, "%s", length);
	if (value)
		snprintf(u->value, UNIT_NAME, "%s", value);
	u->set |= length != NULL;
	return units_write(file);
}

/* By convention lengths are in mm. Steps of 1 are those of an array whose size is not known. */
static void usual_unit(File *file, const double *steps, int count)
{
	for (int i = 0; i < count && !file->units.set; i++)
		if (fabs(steps[i]) != 1)
			snprintf(file->units.length, UNIT_NAME, "mm");
}

tomos_status tomos_file_set_grid(File *file, const tomos_grid *grid)
{
	static const int64_t shape[2] = {1, 3};
	TRY(tomos_grid_check(grid));
	TRY(check_grid_shape(file, grid, TOMOS_BAD_VALUE));
	double n[3] = {(double)grid->n[0], (double)grid->n[1], (double)grid->n[2]};
	usual_unit(file, grid->step, 3);
	TRY(io_put(file, "grid/n", n, shape));
	TRY(io_put(file, "grid/first", grid->first, shape));
	TRY(io_put(file, "grid/step", grid->step, shape));
	return units_write(file);
}

/* ---- scans -------------------------------------------------------------------------------- */

static tomos_status check_scan_shape(
	const File *file, int64_t count, int64_t rows, int64_t columns, tomos_status status)
{
	const int64_t *shape = file->shape;
	if (count == shape[0] && rows == shape[1] && columns == shape[2])
		return TOMOS_OK;
	return fail(status,
		"'%s': its geometry has %lld views of %lld rows and %lld columns, its data %lld x "
		"%lld x "
		"%lld",
		file->path, (long long)count, (long long)rows, (long long)columns,
		(long long)shape[0], (long long)shape[1], (long long)shape[2]);
}

static tomos_status make_scan(
	const File *file, tomos_geometry **scan, const double *numbers, const int64_t shape[2])
{
	double detector[2];
	int64_t rows, columns;
	bool found;
	if (shape[1] != VIEW_NUMBERS)
		return fail(TOMOS_BAD_FILE,
			"'%s': 'geometry/views' has %lld numbers per view; %d were expected",
			file->path, (long long)shape[1], VIEW_NUMBERS);
	TRY(get_list(file, "geometry/detector", detector, 2, &found));
	if (!found)
		return fail(TOMOS_BAD_FILE, "'%s' has 'geometry/views' but no 'geometry/detector'",
			file->path);
	TRY(take_size(file, "geometry/detector", detector[0], &rows));
	TRY(take_size(file, "geometry/detector", detector[1], &columns));
	TRY(check_scan_shape(file, shape[0], rows, columns, TOMOS_BAD_FILE));
	return geom_from_numbers(scan, rows, columns, numbers, shape[0]);
}

/* *scan stays NULL if the file has no geometry. */
static tomos_status read_scan(const File *file, tomos_geometry **scan)
{
	double *numbers;
	int64_t shape[2];
	*scan = NULL;
	TRY(io_get(file, "geometry/views", &numbers, shape));
	if (!numbers)
		return TOMOS_OK;
	tomos_status status = make_scan(file, scan, numbers, shape);
	mem_free(numbers);
	return status;
}

tomos_status tomos_file_geometry(const File *file, tomos_geometry **scan)
{
	TRY(read_scan(file, scan));
	if (!*scan)
		return fail(TOMOS_BAD_FILE, "'%s' does not say its geometry", file->path);
	return TOMOS_OK;
}

tomos_status tomos_file_set_geometry(File *file, const tomos_geometry *scan)
{
	if (!scan)
		return fail(TOMOS_BAD_VALUE, "'%s': there is no geometry to keep", file->path);
	const int64_t shape[2] = {scan->count, VIEW_NUMBERS}, two[2] = {1, 2};
	const double detector[2] = {(double)scan->rows, (double)scan->columns};
	double *numbers;
	TRY(check_scan_shape(file, scan->count, scan->rows, scan->columns, TOMOS_BAD_VALUE));
	TRY(mem_alloc(&numbers, scan->count * VIEW_NUMBERS, sizeof *numbers, "the views' numbers"));
	geom_to_numbers(scan, numbers);
	const tomos_view *view = &scan->views[0];
	const double sizes[2] = {norm3(view->u), norm3(view->v)};
	usual_unit(file, sizes, 2);
	tomos_status status = io_put(file, "geometry/views", numbers, shape);
	mem_free(numbers);
	TRY(status);
	TRY(io_put(file, "geometry/detector", detector, two));
	return units_write(file);
}

/* ---- description -------------------------------------------------------------------------- */

tomos_status tomos_file_describe(const File *file, tomos_file_info *info)
{
	tomos_grid grid;
	tomos_geometry *scan;
	bool has_grid;
	TRY(read_grid(file, &grid, &has_grid));
	TRY(read_scan(file, &scan));
	tomos_file_info found = {.bytes = sizeof found,
		.format = file->format->name,
		.type = file->type,
		.dataset = file->dataset,
		.content = file->content,
		.has_grid = has_grid,
		.has_geometry = scan != NULL,
		.unpacked = file->unpacked,
		.length_unit = file->units.length,
		.value_unit = file->units.value};
	memcpy(found.shape, file->shape, sizeof found.shape);
	tomos_geometry_free(scan);
	return struct_give(info, &found, "tomos_file_info");
}
