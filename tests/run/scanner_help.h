/* A simulated scanner: exact counts of an asymmetric object as its files store them, and a check
 * that what is read from these is that object, in place and in value. */
#ifndef TOMOS_TESTS_RUN_SCANNER_HELP_H
#define TOMOS_TESTS_RUN_SCANNER_HELP_H

#include <math.h>
#include <sys/stat.h>
#include "geom/geom.h"
#include "run/run_help.h"
#include "run/scan.h"

enum { LAB_VIEWS = 180, LAB_ROWS = 48, LAB_COLUMNS = 80 };

/* A laboratory: x to the right as seen from the source, y along the beam, z upwards, in mm. u and v
 * are the steps to the next stored column and row. Source and detector rotate about the axis by
 * `first` + i `step` degrees, anticlockwise seen from above. */
typedef struct {
	double source[3], axis[3], along[3], detector[3], u[3], v[3];
	double first, step, white;
	int64_t views, rows, columns;
} Lab;

static inline Lab lab_make(void)
{
	return (Lab){.axis = {0, 200, 0},
		.along = {0, 0, 1},
		.detector = {0, 500, 0},
		.u = {-0.5, 0, 0},
		.v = {0, 0, -0.5},
		.step = 2,
		.white = 60000,
		.views = LAB_VIEWS,
		.rows = LAB_ROWS,
		.columns = LAB_COLUMNS};
}

typedef struct {
	double x[3], y[3], z[3], origin[3];
} LabFrame;

/* In the frame of the scan: z along the axis, y towards the source of the view at 0 degrees. */
static const tomos_ellipsoid lab_solids[] = {{{0, 0, 0}, {5, 6, 3.2}, {0, 0, 0}, 0.05},
	{{2.2, 1.5, 0.5}, {1.6, 1.4, 1.6}, {0, 0, 0}, 0.04},
	{{-1.5, -3, -0.6}, {1.4, 1.4, 1.4}, {0, 0, 0}, -0.03}};

/* A wide panel sees an object that many times as large, of as little attenuation. */
static double lab_scale = 1;

static inline tomos_phantom *lab_phantom(void)
{
	tomos_ellipsoid solids[COUNT(lab_solids)];
	tomos_phantom *phantom;
	memcpy(solids, lab_solids, sizeof solids);
	for (int i = 0; i < COUNT(solids); i++) {
		for (int k = 0; k < 3; k++) {
			solids[i].centre[k] *= lab_scale;
			solids[i].axes[k] *= lab_scale;
		}
		solids[i].value /= lab_scale;
	}
	assert_ok(tomos_phantom_ellipsoids(&phantom, solids, COUNT(solids)));
	return phantom;
}

static inline double dot(const double a[3], const double b[3])
{
	return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

/* Rotated by the angle about z of the frame x, y, z. */
static inline void lab_into(const LabFrame *f, double angle, const double in[3], double *out)
{
	double p = dot(f->x, in), q = dot(f->y, in);
	out[0] = p * cos(angle) - q * sin(angle);
	out[1] = p * sin(angle) + q * cos(angle);
	out[2] = dot(f->z, in);
}

static inline LabFrame lab_frame(const Lab *lab)
{
	LabFrame f;
	double from[3], size = sqrt(dot(lab->along, lab->along));
	for (int i = 0; i < 3; i++) {
		f.z[i] = lab->along[i] / size;
		from[i] = lab->source[i] - lab->axis[i];
	}
	double height = dot(from, f.z), radius = sqrt(dot(from, from) - height * height);
	for (int i = 0; i < 3; i++) {
		f.origin[i] = lab->axis[i] + height * f.z[i];
		f.y[i] = (lab->source[i] - f.origin[i]) / radius;
	}
	for (int i = 0; i < 3; i++)
		f.x[i] = f.y[(i + 1) % 3] * f.z[(i + 2) % 3] - f.y[(i + 2) % 3] * f.z[(i + 1) % 3];
	return f;
}

static inline tomos_geometry *lab_geometry(const Lab *lab)
{
	const LabFrame f = lab_frame(lab);
	double from[3];
	tomos_geometry *g;
	tomos_view *views = malloc((size_t)lab->views * sizeof *views);
	for (int64_t i = 0; i < lab->views; i++) {
		double angle = (lab->first + lab->step * (double)i) * M_PI / 180;
		for (int k = 0; k < 3; k++)
			from[k] = lab->source[k] - f.origin[k];
		lab_into(&f, angle, from, views[i].src);
		views[i].src[3] = TOMOS_POINT;
		for (int k = 0; k < 3; k++)
			from[k] = lab->detector[k] - f.origin[k];
		lab_into(&f, angle, from, views[i].det);
		lab_into(&f, angle, lab->u, views[i].u);
		lab_into(&f, angle, lab->v, views[i].v);
	}
	assert_ok(tomos_geometry_views(&g, lab->rows, lab->columns, views, lab->views));
	free(views);
	return g;
}

static inline void lab_project(const tomos_geometry *g, float *data)
{
	tomos_phantom *phantom = lab_phantom();
	tomos_array array = tomos_array_of(
		data, tomos_geometry_count(g), tomos_geometry_rows(g), tomos_geometry_columns(g));
	assert_ok(tomos_phantom_project(phantom, g, 1, &array));
	tomos_phantom_free(phantom);
}

/* Counts in the order of the files; to be freed. */
static inline float *lab_counts(const Lab *lab)
{
	int64_t count = lab->views * lab->rows * lab->columns;
	float *data = malloc((size_t)count * sizeof *data);
	tomos_geometry *g = lab_geometry(lab);
	lab_project(g, data);
	for (int64_t i = 0; i < count; i++)
		data[i] = (float)round(lab->white * exp(-(double)data[i]));
	tomos_geometry_free(g);
	return data;
}

static inline void put_number(FILE *file, uint64_t value, int bytes)
{
	for (int i = 0; i < bytes; i++)
		fputc((int)(value >> 8 * i & 255), file);
}

/* One view as a TIFF file of uint16, without the care of the library's writer, which waits for the
 * disk. */
static inline void put_tiff(const char *path, int64_t rows, int64_t columns, const float *data)
{
	uint32_t bytes = (uint32_t)(2 * rows * columns), high = (uint32_t)rows;
	const uint32_t tags[][2] = {{256, (uint32_t)columns}, {257, high}, {258, 16}, {259, 1},
		{262, 1}, {273, 8}, {277, 1}, {278, high}, {279, bytes}};
	FILE *file = fopen(path, "wb");
	assert_non_null(file);
	fputs("II*", file);
	put_number(file, 0, 1);
	put_number(file, 8 + bytes, 4);
	for (int64_t i = 0; i < rows * columns; i++)
		put_number(file, (uint64_t)data[i], 2);
	put_number(file, COUNT(tags), 2);
	for (int i = 0; i < COUNT(tags); i++) {
		put_number(file, tags[i][0], 2);
		put_number(file, 4, 2);
		put_number(file, 1, 4);
		put_number(file, tags[i][1], 4);
	}
	put_number(file, 0, 4);
	assert_int_equal(fclose(file), 0);
}

/* All views as "<prefix><first number + i>.tif", with `digits` digits. */
static inline void put_tiffs(
	const Lab *lab, const float *counts, const char *prefix, int digits, int first)
{
	for (int64_t i = 0; i < lab->views; i++) {
		char name[128];
		snprintf(name, sizeof name, "%s%0*d.tif", prefix, digits, first + (int)i);
		put_tiff(at(name), lab->rows, lab->columns, counts + i * lab->rows * lab->columns);
	}
}

static inline void put_words(const char *path, const char *words)
{
	put_file(path, words, strlen(words));
}

/* ---- the check ------------------------------------------------------------------------------ */

/* What was read equals the projections of the object along the rays that were read. */
static inline void assert_projections(tomos_prepared *p, double tolerance)
{
	const tomos_geometry *g = tomos_prepared_geometry(p);
	int64_t count = g->count * g->rows * g->columns;
	float *got = malloc((size_t)count * sizeof *got),
	      *wanted = malloc((size_t)count * sizeof *got);
	double worst = 0;
	assert_ok(tomos_prepared_read(p, 0, g->rows, got, NULL, NULL));
	lab_project(g, wanted);
	for (int64_t i = 0; i < count; i++)
		worst = fmax(worst, fabs((double)got[i] - (double)wanted[i]));
	if (!(worst <= tolerance))
		print_error("projections differ by %g\n", worst);
	assert_true(worst <= tolerance);
	free(got);
	free(wanted);
}

/* Whether the voxels around this one have its value. */
static inline bool is_inside(const tomos_array *a, int64_t z, int64_t y, int64_t x, int64_t margin)
{
	int64_t at[3] = {z, y, x};
	for (int i = 0; i < 3; i++)
		if (at[i] < margin || at[i] >= a->shape[i] - margin)
			return false;
	float value = a->data[(z * a->shape[1] + y) * a->shape[2] + x];
	for (int64_t i = z - margin; i <= z + margin; i++)
		for (int64_t j = y - margin; j <= y + margin; j++)
			for (int64_t k = x - margin; k <= x + margin; k++)
				if (a->data[(i * a->shape[1] + j) * a->shape[2] + k] != value)
					return false;
	return value != 0;
}

/* Mean of the volume where the object has a value that part `solid` adds to the first. */
static inline void assert_mean(
	const tomos_array *truth, const float *volume, double value, double tolerance)
{
	const int64_t *n = truth->shape;
	double sum = 0, count = 0;
	for (int64_t z = 0; z < n[0]; z++)
		for (int64_t y = 0; y < n[1]; y++)
			for (int64_t x = 0; x < n[2]; x++) {
				int64_t i = (z * n[1] + y) * n[2] + x;
				if (fabs((double)truth->data[i] - value) > 1e-3 * value ||
					!is_inside(truth, z, y, x, 3))
					continue;
				sum += (double)volume[i];
				count++;
			}
	double mean = sum / fmax(count, 1);
	double limit = tolerance * 0.05 / lab_scale;
	if (!(fabs(mean - value) <= limit))
		print_error("mean %g of %g voxels, expected %g\n", mean, count, value);
	assert_true(count >= 8 && fabs(mean - value) <= limit);
}

/* The volume made by fdk has the values of the object, where it has them; tolerance in units of the
 * first solid. */
static inline void assert_volume(tomos_prepared *p, double tolerance)
{
	const tomos_geometry *g = tomos_prepared_geometry(p);
	tomos_backend *backend;
	tomos_phantom *phantom = lab_phantom();
	tomos_grid grid;
	assert_ok(tomos_grid_for(&grid, g, NULL));
	int64_t count = grid.n[0] * grid.n[1] * grid.n[2], rays = g->count * g->rows * g->columns;
	float *volume = calloc((size_t)count, sizeof *volume), *truth = calloc((size_t)count, 4);
	float *rows = malloc((size_t)rays * sizeof *rows);
	tomos_array b = tomos_array_of(rows, g->count, g->rows, g->columns);
	tomos_array x = tomos_array_of(volume, grid.n[2], grid.n[1], grid.n[0]);
	tomos_array t = tomos_array_of(truth, grid.n[2], grid.n[1], grid.n[0]);
	assert_ok(tomos_backend_open(&backend, "cpu"));
	assert_ok(tomos_prepared_read(p, 0, g->rows, rows, NULL, NULL));
	assert_ok(tomos_fdk(backend, &grid, g, &b, &x, NULL, NULL));
	assert_ok(tomos_phantom_volume(phantom, &grid, 1, &t));
	for (int i = 0; i < COUNT(lab_solids); i++)
		assert_mean(&t, volume,
			(lab_solids[0].value + (i ? lab_solids[i].value : 0)) / lab_scale,
			tolerance);
	tomos_phantom_free(phantom);
	tomos_backend_close(backend);
	free(volume);
	free(truth);
	free(rows);
}

/* A job on the scan; `geometry` and `source` may be NULL. */
static inline tomos_prepared *lab_open(
	const char *path, const tomos_source_options *source, const tomos_scan_options *geometry)
{
	tomos_prepared *p = NULL;
	const tomos_job job = {
		.bytes = sizeof job, .scan = path, .source = source, .geometry = geometry};
	assert_ok(tomos_prepared_open(&p, &job, NULL));
	return p;
}

/* Projections along the rays to 1e-3, without reconstructing them. */
static inline void assert_rays(const char *path)
{
	tomos_prepared *p = lab_open(path, NULL, NULL);
	assert_projections(p, 1e-3);
	tomos_prepared_close(p);
}

/* The scan at `path` as it is: projections along the rays to 1e-3, values to 0.5 %. */
static inline void assert_object(const char *path)
{
	tomos_prepared *p = lab_open(path, NULL, NULL);
	assert_projections(p, 1e-3);
	assert_volume(p, 0.005);
	tomos_prepared_close(p);
}

/* The same where the file does not say the axis, which falls on the middle of the detector plus
 * `offset` columns. */
static inline void assert_object_at(
	const char *path, const tomos_source_options *source, double offset)
{
	tomos_scan_options o = tomos_scan_defaults();
	double axis = 0.5 * (LAB_COLUMNS - 1) + offset;
	o.pixel = 0;
	o.axis = &axis;
	o.axis_count = 1;
	tomos_prepared *p = lab_open(path, source, &o);
	assert_projections(p, 1e-3);
	assert_volume(p, 0.005);
	tomos_prepared_close(p);
}

static inline void assert_rejected(const char *path, const char *text, const char *message)
{
	tomos_scan *scan;
	put_words(path, text);
	assert_int_not_equal(tomos_scan_open(&scan, path, NULL), TOMOS_OK);
	assert_says(message);
}

/* ---- damaged files -------------------------------------------------------------------------- */

/* The file cut off and with bytes changed, at places spread over its first `most` bytes: each is
 * read, or rejected with a message; nothing leaks. */
static inline void assert_damage(const char *path, size_t most)
{
	size_t length;
	unsigned char *bytes = get_file(path, &length);
	size_t part = length < most ? length : most, step = part / 97 + 1;
	int64_t live = mem_live();
	for (size_t i = 0; i < part; i += step)
		for (int kind = 0; kind < 3; kind++) {
			tomos_scan *scan = NULL;
			unsigned char kept = bytes[i];
			bytes[i] = kind == 1 ? (unsigned char)~kept : kind == 2 ? '9' : kept;
			put_file(path, bytes, kind == 0 ? i : length);
			bytes[i] = kept;
			if (tomos_scan_open(&scan, path, NULL) != TOMOS_OK)
				assert_true(scan == NULL && tomos_message()[0]);
			tomos_scan_close(scan);
			assert_int_equal(mem_live(), live);
		}
	put_file(path, bytes, length);
	free(bytes);
}

#endif
