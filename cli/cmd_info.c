/* tomos info: contents of a file or scan; devices and kernels. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <time.h>
#include "cli.h"

#define DEGREES (180 / 3.14159265358979323846)

typedef struct range {
	double low, high, sum;
	int64_t finite, other, plane;
} range;

static int range_portion(void *user, int64_t first, int64_t count, float *data)
{
	range *r = user;
	(void)first;
	for (int64_t i = 0; i < count * r->plane; i++) {
		if (!isfinite(data[i])) {
			r->other++;
			continue;
		}
		r->low = fmin(r->low, (double)data[i]);
		r->high = fmax(r->high, (double)data[i]);
		r->sum += (double)data[i];
		r->finite++;
	}
	return DONE;
}

static int print_range(tomos_file *file, const tomos_file_info *info)
{
	range r = {HUGE_VAL, -HUGE_VAL, 0, 0, 0, info->shape[1] * info->shape[2]};
	int code = file_each(file, "reading", range_portion, &r);
	if (code != DONE)
		return code;
	if (r.finite)
		printf("values    %g to %g, mean %g%s%s\n", r.low, r.high, r.sum / (double)r.finite,
			info->value_unit[0] ? ", in " : "", info->value_unit);
	printf("non-finite %lld of %lld\n", (long long)r.other, (long long)(r.other + r.finite));
	return DONE;
}

static int print_grid(const tomos_file *file, const tomos_file_info *info)
{
	tomos_grid g;
	const char *unit = strcmp(info->length_unit, "pixel") == 0 ? "pixels" : info->length_unit;
	int code = lib(tomos_file_grid(file, &g));
	if (code == DONE)
		printf("grid      %lld x %lld x %lld voxels (x y z) of %g x %g x %g%s%s,\n"
		       "          the first at (%g, %g, %g)\n",
			(long long)g.n[0], (long long)g.n[1], (long long)g.n[2], g.step[0],
			g.step[1], g.step[2], unit[0] ? " " : "", unit, g.first[0], g.first[1],
			g.first[2]);
	return code;
}

static double length(const double v[3])
{
	return sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
}

/* Angle of u about the z axis, 0 to 360: the view angle of a scan that rotates about it. */
static double view_angle(const tomos_view *v)
{
	double angle = atan2(v->u[1], v->u[0]) * DEGREES;
	return angle < -1e-9 ? angle + 360 : angle;
}

static void print_source(const tomos_view *v)
{
	if (v->src[3] == 0)
		printf("          parallel rays, first along (%g, %g, %g)\n", v->src[0], v->src[1],
			v->src[2]);
	else
		printf("          %s %g from the axis, %g from the detector (first view)\n",
			v->src[3] == 2 ? "a fan for each row, its source" : "point source,",
			hypot(v->src[0], v->src[1]), source_detector(v));
}

/* Whether the views are on a circle about the z axis; otherwise the angle has no meaning. */
static bool is_circle(const tomos_view *list, int64_t count)
{
	for (int64_t i = 0; i < count; i++) {
		double height = list[0].src[3] != 0 ? list[0].src[2] : 0;
		if (fabs(list[i].u[2]) > 1e-9 * length(list[i].u) ||
			fabs(list[i].src[2] - height) > 1e-9 * length(list[i].src))
			return false;
	}
	return true;
}

static void print_scan(const tomos_geometry *scan)
{
	const tomos_view *list = tomos_geometry_list(scan);
	int64_t count = tomos_geometry_count(scan);
	const int64_t shape[3] = {count, tomos_geometry_rows(scan), tomos_geometry_columns(scan)};
	char text[96];
	shape_text(shape, TOMOS_PROJECTIONS, text);
	printf("geometry  %s, pixels of %g x %g\n", text, length(list[0].v), length(list[0].u));
	print_source(&list[0]);
	if (is_circle(list, count))
		printf("          first view at %g degrees, last at %g\n", view_angle(&list[0]),
			view_angle(&list[count - 1]));
}

static int print_geometry(const settings *s, const tomos_file *file)
{
	tomos_geometry *scan = NULL;
	int code = lib(tomos_file_geometry(file, &scan));
	if (code == DONE)
		print_scan(scan);
	if (code == DONE)
		code = geometry_draw(s, scan, NULL);
	tomos_geometry_free(scan);
	return code;
}

/* ---- text ------------------------------------------------------------------------------------ */

typedef struct numbers {
	int64_t count, lines, in_line; /* in_line: numbers per line; -1: lines differ */
	double low, high;
	bool other; /* a word that is not a number */
} numbers;

static void numbers_add(numbers *n, char *line)
{
	const char *between = " \t\r\n,;";
	char *rest = NULL;
	int64_t before = n->count;
	line[strcspn(line, "#")] = 0;
	for (char *word = strtok_r(line, between, &rest); word;
		word = strtok_r(NULL, between, &rest)) {
		char *end;
		double value = strtod(word, &end);
		n->other |= *end != 0;
		n->low = fmin(n->low, value);
		n->high = fmax(n->high, value);
		n->count++;
	}
	if (n->count == before)
		return;
	if (n->lines++ == 0)
		n->in_line = n->count;
	else if (n->in_line != n->count - before)
		n->in_line = -1;
}

/* Describes a text file of numbers, such as angles; false for views (12 per line) and other
 * text. */
static bool info_numbers(const char *path)
{
	numbers n = {.low = HUGE_VAL, .high = -HUGE_VAL};
	char *line = NULL;
	size_t room = 0;
	FILE *file = fopen(path, "r");
	while (file && !n.other && getline(&line, &room, file) >= 0)
		numbers_add(&n, line);
	free(line);
	if (file)
		fclose(file);
	if (n.count == 0 || n.other || n.in_line == 12 || n.in_line < 0)
		return false;
	printf("file      %s\nformat    text, %lld number%s in %lld line%s\nvalues    %g to %g\n",
		path, (long long)n.count, n.count == 1 ? "" : "s", (long long)n.lines,
		n.lines == 1 ? "" : "s", n.low, n.high);
	return true;
}

/* Describes a text file of views. */
static int info_views(const settings *s, const char *path)
{
	tomos_geometry *scan = NULL;
	int code = lib(tomos_geometry_read(&scan, path, 0, 0, -1));
	if (code != DONE)
		return code;
	printf("file      %s\nformat    geometry (%s)\n", path, strrchr(path, '.') + 1);
	print_scan(scan);
	code = geometry_draw(s, scan, NULL);
	tomos_geometry_free(scan);
	return code;
}

static void print_format(const char *path, const tomos_file_info *info)
{
	static const char *const contents[] = {"volume", "projections", "not said"};
	char text[96];
	shape_text(info->shape, info->content, text);
	printf("file      %s\nformat    %s\n", path, info->format);
	if (info->dataset[0])
		printf("dataset   %s\n", info->dataset);
	printf("type      %s\ncontent   %s\nshape     %s\n", info->type, contents[info->content],
		text);
}

static int verify(tomos_file *file)
{
	int code = lib(tomos_file_verify(file, progress_shown()));
	if (code == DONE)
		printf("checksums as written\n");
	return code;
}

/* What an iterative method did. */
static int print_iterations(const tomos_file *file)
{
	char iterations[32], ended[32];
	int code;
	DO(lib(tomos_file_text(file, "iterations", iterations, sizeof iterations)));
	DO(lib(tomos_file_text(file, "ended", ended, sizeof ended)));
	bool early = ended[0] && strcmp(ended, "iterations") != 0;
	if (iterations[0])
		printf("iterations %s%s%s%s\n", iterations, early ? " (" : "", early ? ended : "",
			early ? ")" : "");
done:
	return code;
}

static int info_file(const settings *s, const char *path)
{
	tomos_file *file = NULL;
	tomos_file_info info = {.bytes = sizeof info};
	int code;
	DO(lib(tomos_file_open(&file, path, &s->file)));
	DO(lib(tomos_file_describe(file, &info)));
	print_format(path, &info);
	if (tomos_file_levels(file) > 1)
		printf("levels    %d, this is %d\n", tomos_file_levels(file), (int)s->file.level);
	if (info.has_grid)
		DO(print_grid(file, &info));
	DO(print_iterations(file));
	if (info.has_geometry)
		DO(print_geometry(s, file));
	else if (s->info.draw[0])
		DO(failed("--draw: '%s' has no geometry", path));
	DO(s->info.verify ? verify(file) : print_range(file, &info));
done:
	tomos_file_close(file);
	return code;
}

static void print_measures(const tomos_scan_info *i)
{
	if (i->pixel > 0) /* without a height of their own pixels are squares */
		printf("pixel     %g x %g mm\n", i->pixel_height > 0 ? i->pixel_height : i->pixel,
			i->pixel);
	if (i->distance > 0)
		printf("distance  %g mm\n", i->distance);
	if (i->energy > 0)
		printf("energy    %g keV\n", i->energy);
	if (i->half)
		printf("field     half: the axis is near one edge\n");
	if (i->has_shifts)
		printf("shifts    one per view\n");
}

static int print_angles(const tomos_scan *scan, int64_t views)
{
	double *angles = malloc((size_t)views * sizeof *angles);
	int code = angles ? lib(tomos_scan_angles(scan, angles)) : failed("no memory for angles");
	if (code == DONE)
		printf("angles    %g to %g degrees\n", angles[0] * DEGREES,
			angles[views - 1] * DEGREES);
	free(angles);
	return code;
}

/* The geometry that a scanner's file describes. */
static int draw_scan(const settings *s, const tomos_scan *scan, const tomos_scan_info *i)
{
	tomos_geometry *g = NULL;
	if (!s->info.draw[0])
		return DONE;
	if (!i->geometry[0] && !i->has_geometry)
		return failed("--draw: '%s' has no geometry", s->operands[0]);
	int code = lib(tomos_scan_geometry(scan, &g, NULL));
	if (code == DONE)
		code = geometry_draw(s, g, i->geometry[0] ? "mm" : NULL);
	tomos_geometry_free(g);
	return code;
}

/* What a scanner's file says; options are named as they are typed. */
static int print_read(const tomos_scan_info *i)
{
	size_t size = strlen(i->read) + 8;
	char *text = malloc(size);
	if (!text)
		return failed("no memory for what '%s' says", i->kind);
	message_line_typed(i->read, text, size);
	printf("geometry  %s\n%s", i->geometry, text);
	free(text);
	return DONE;
}

/* Describes a measured scan, with its flat and dark fields. */
static int info_scan(const settings *s, const tomos_scan *scan, const char *path)
{
	tomos_scan_info i = {.bytes = sizeof i};
	char text[96];
	int code = lib(tomos_scan_describe(scan, &i));
	if (code != DONE)
		return code;
	const int64_t shape[3] = {i.views, i.rows, i.columns};
	shape_text(shape, TOMOS_PROJECTIONS, text);
	printf("scan      %s\nkind      %s (%s)\n", path, i.kind, i.format);
	if (i.dataset[0])
		printf("dataset   %s\n", i.dataset);
	printf("type      %s, %s\nviews     %s\nflats     %lld\ndarks     %lld\n", i.type,
		i.counts ? "counts" : "line integrals", text, (long long)i.flats,
		(long long)i.darks);
	if (i.geometry[0])
		code = print_read(&i);
	else
		print_measures(&i);
	if (!i.has_angles)
		printf("angles    not said\n");
	else if (code == DONE && !i.geometry[0])
		code = print_angles(scan, i.views);
	return code == DONE ? draw_scan(s, scan, &i) : code;
}

static int info_matrix(const settings *s, const char *path, const tomos_matrix_info *m)
{
	printf("file      %s\nformat    %s\ncontent   matrix (%s)\n"
	       "shape     %lld rows (rays) x %lld columns (voxels)\nentries   %lld",
		path, m->format, m->storage, (long long)m->rows, (long long)m->columns,
		(long long)m->entries);
	printf(", %.4g in a row\n", (double)m->entries / (double)(m->rows > 0 ? m->rows : 1));
	if (s->info.verify)
		printf("checksums none: files of matrices have no such thing\n");
	return DONE;
}

/* Time of saving, iteration, and the settings, one per line. */
static int info_checkpoint(const char *path, const tomos_checkpoint_info *c)
{
	struct stat file;
	struct tm when;
	char date[64] = "";
	if (stat(path, &file) == 0 && localtime_r(&file.st_mtime, &when))
		strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S", &when);
	printf("file      %s\nformat    checkpoint\nsaved     %s\niteration %lld", path, date,
		(long long)c->iterations);
	if (!isnan(c->residual))
		printf(", residual %.4g", c->residual);
	printf("\n");
	for (const char *at = c->settings; *at; at += strcspn(at, ";"), at += *at == ';')
		printf("          %.*s\n", (int)strcspn(at, ";"), at);
	return DONE;
}

/* Describes files that are neither array nor scan; for others *code is unchanged. */
static void info_other(const settings *s, const char *path, int *code)
{
	tomos_checkpoint_info checkpoint = {.bytes = sizeof checkpoint};
	tomos_matrix_info matrix = {.bytes = sizeof matrix};
	struct stat file;
	if (stat(path, &file) != 0 || !S_ISREG(file.st_mode) || access(path, R_OK) != 0)
		return;
	tomos_status status = tomos_checkpoint_describe(path, &checkpoint);
	if (status != TOMOS_OK || checkpoint.found) {
		*code = status == TOMOS_OK ? info_checkpoint(path, &checkpoint) : lib(status);
		return;
	}
	status = tomos_matrix_describe(path, &matrix);
	if (status == TOMOS_OK && matrix.found)
		*code = info_matrix(s, path, &matrix);
	else if (status != TOMOS_OK && matrix.format && ends_with(path, ".mtx"))
		*code = lib(status);
}

/* A file that is no scan may still be an array. Otherwise the reason is that of the scan. */
static int info_unread(const settings *s, const char *path)
{
	tomos_file *file = NULL;
	char why[800];
	snprintf(why, sizeof why, "%s", tomos_message());
	tomos_status status = tomos_file_open(&file, path, &s->file);
	/* An option that does not fit the file, or the same reason. */
	bool same = status != TOMOS_OK && strcmp(why, tomos_message()) == 0;
	if (status == TOMOS_BAD_VALUE || same)
		return lib(status);
	if (status != TOMOS_OK)
		return failed("%s", why);
	tomos_file_close(file);
	return info_file(s, path);
}

static void print_gaps(const tomos_scan *scan)
{
	for (int i = TOMOS_VIEWS; i <= TOMOS_DARKS; i++) {
		int64_t number;
		char after[304];
		if (tomos_scan_gap(scan, (tomos_frames)i, &number, after, sizeof after) ==
				TOMOS_OK &&
			number >= 0)
			printf("missing   number %lld %s%s%s\n", (long long)number,
				after[0] ? "after '" : "at the beginning", after,
				after[0] ? "'" : "");
	}
}

/* Arrays and files written by tomos are described as files, others as scans. */
static int info_any(const settings *s, const char *path)
{
	tomos_source_options o = tomos_source_defaults();
	tomos_scan *scan = NULL;
	tomos_scan_info i = {.bytes = sizeof i};
	int code = -1;
	bool plain = s->file.raw[0] || s->file.dataset[0];
	if (!plain)
		info_other(s, path, &code);
	if (code >= 0)
		return code;
	if (!plain && !s->info.verify && tomos_scan_open(&scan, path, &o) != TOMOS_OK)
		return info_unread(s, path);
	if (scan && tomos_scan_describe(scan, &i) == TOMOS_OK && !word_has("tomos array", i.kind) &&
		(i.flats > 0 || i.darks > 0 || i.has_angles))
		code = info_scan(s, scan, path);
	code = code >= 0 ? code : info_file(s, path);
	if (scan && code == DONE)
		print_gaps(scan);
	tomos_scan_close(scan);
	return code;
}

/* Describes each backend, or why it is not available. */
static int info_devices(void)
{
	const char *names = tomos_backend_names();
	while ((names = strchr(names, '|'))) {
		char name[32];
		names++;
		snprintf(name, sizeof name, "%.*s", (int)strcspn(names, "|"), names);
		tomos_backend *backend;
		bool there = tomos_backend_open(&backend, name) == TOMOS_OK;
		printf("%-9s %s\n", name,
			there ? tomos_backend_describe(backend) : tomos_message());
		if (there)
			tomos_backend_close(backend);
	}
	printf("threads   %d\n", tomos_threads());
	printf("mpi       %s\n", tomos_comm_describe(ranks_comm()));
	return DONE;
}

int cmd_info(const settings *s)
{
	const char *what = s->operands[0];
	if (strcmp(what, "devices") == 0)
		return info_devices();
	if (strcmp(what, "kernels") == 0)
		return info_kernels();
	if (ends_with(what, ".txt") && info_numbers(what))
		return DONE;
	bool views = ends_with(what, ".json") || ends_with(what, ".txt");
	struct stat place;
	int code = views ? info_views(s, what) : info_any(s, what);
	if (code == DONE && stat(what, &place) == 0 && S_ISDIR(place.st_mode))
		note_scanner(what);
	return code;
}
