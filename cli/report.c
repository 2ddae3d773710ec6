/* What the page of recon --report shows, collected while the data of the run are at hand. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "plot.h"
#include "report.h"

#define LIMIT 0.12  /* seconds to read parts of the scan again, */
#define SHARE 0.008 /* or this part of the run, if that is longer */
enum { BINS = 200, SAMPLES = 1 << 20 };

int page_begin(page *p, const settings *s)
{
	*p = (page){.s = s};
	p->messages = open_memstream(&p->printed, &p->printed_bytes);
	if (!p->messages)
		return failed("no memory for the report");
	message_record(p->messages);
	return DONE;
}

void page_free(page *p)
{
	char *const parts[] = {p->scan, p->planes, p->histogram, p->geometry, p->frames, p->before,
		p->after, p->axis};
	for (int i = 0; i < COUNT(parts); i++)
		free(parts[i]);
	message_record(NULL);
	if (p->messages)
		fclose(p->messages);
	free(p->printed);
	*p = (page){.s = NULL};
}

/* ---- the volume --------------------------------------------------------------------------- */

const char *page_length(const page *p)
{
	return p->known ? p->length : "pixels";
}

static void look_units(page *p, const tomos_grid *grid)
{
	if (p->s->run.hu_count > 0)
		snprintf(p->unit, sizeof p->unit, "HU");
	else
		snprintf(p->unit, sizeof p->unit, "1/%s", p->known ? p->length : "pixel");
	snprintf(p->size, sizeof p->size, "%lld × %lld × %lld", (long long)grid->n[0],
		(long long)grid->n[1], (long long)grid->n[2]);
	double x = fabs(grid->step[0]), y = fabs(grid->step[1]), z = fabs(grid->step[2]);
	bool cube = fabs(x - y) < 1e-6 * x && fabs(x - z) < 1e-6 * x;
	if (cube)
		snprintf(p->voxel, sizeof p->voxel, "%.4g %s", x,
			!p->known && x == 1 ? "pixel" : page_length(p));
	else
		snprintf(p->voxel, sizeof p->voxel, "%.4g × %.4g × %.4g %s", x, y, z,
			page_length(p));
}

/* Some values of all planes. */
static int64_t sample_planes(const tomos_run_look *look, float *some)
{
	int64_t all = 0, n = 0;
	for (int a = 0; a < 3; a++)
		all += look->widths[a] * look->heights[a];
	int64_t step = all / SAMPLES + 1;
	for (int a = 0; a < 3; a++)
		for (int64_t i = 0; i < look->widths[a] * look->heights[a]; i += step)
			if (isfinite(look->planes[a][i]))
				some[n++] = look->planes[a][i];
	return n;
}

static void look_histogram(page *p, const float *some, int64_t n, double low, double high)
{
	double counts[BINS], places[BINS], margin = 0.05 * (high - low);
	char across[64];
	const curve one = {"pixels", counts, BINS};
	low -= margin;
	high += margin;
	for (int i = 0; i < BINS; i++) {
		counts[i] = 0.5; /* an axis of powers has no 0 */
		places[i] = low + (i + 0.5) * (high - low) / BINS;
	}
	for (int64_t i = 0; i < n; i++) {
		double at = ((double)some[i] - low) / (high - low) * BINS;
		if (at >= 0 && at < BINS)
			counts[(int)at] += 1;
	}
	snprintf(across, sizeof across, "%s (%s)", p->s->run.hu_count > 0 ? "value" : "attenuation",
		p->unit);
	const plot h = {.curves = &one,
		.curve_count = 1,
		.places = places,
		.across = across,
		.up = "pixels",
		.filled = true,
		.straight = true};
	p->histogram = plot_svg(&h, 720, 260);
}

static void look_planes(page *p, const tomos_run_look *look)
{
	static const char *const planes[3] = {"xy", "xz", "yz"}, *const across[3] = {"z", "y", "x"};
	float *some = look->planes[0] ? malloc((size_t)(SAMPLES + 8) * 2 * sizeof *some) : NULL;
	int64_t n = some ? sample_planes(look, some) : 0;
	const tomos_grid *grid = look->grid;
	sheet all = {.count = 3, .unit = p->unit, .length = page_length(p)};
	for (int a = 0; a < 3; a++) {
		int64_t middle = grid->n[2 - a] / 2;
		plane *one = &all.planes[a];
		*one = (plane){look->planes[a], look->widths[a], look->heights[a], look->widths[a],
			{fabs(grid->step[a == 2 ? 1 : 0]), fabs(grid->step[a == 0 ? 1 : 2])}, ""};
		snprintf(one->title, sizeof one->title, "%s, %s = %.4g %s", planes[a], across[a],
			grid->first[2 - a] + (double)middle * grid->step[2 - a], all.length);
	}
	if (n > 0 && sampled_range(some, n, &all.low, &all.high)) {
		sheet_drop_thin(&all);
		p->plane_count = all.count;
		all.side = all.count > 1 ? 320 : 560;
		p->planes = sheet_svg(&all);
		look_histogram(p, some, n, all.low, all.high);
	}
	free(some);
}

/* ---- the axis ----------------------------------------------------------------------------- */

static const char negated_text[] = "; angles negated, as opposite rays show";

/* An axis that was not searched for, or not found. */
static void look_axis_given(page *p, const tomos_run_look *look, const tomos_axis *found)
{
	double column = axis_column(tomos_prepared_geometry(look->prepared));
	snprintf(p->axis_text, sizeof p->axis_text, "column %.2f, %s%s",
		(column + 0.5) * (double)look->bin - 0.5 + (double)look->first_column,
		found->confidence > 0 ? "as given" : "assumed in the middle of the detector",
		found->reversed ? negated_text : "");
}

static void look_axis(page *p, const tomos_run_look *look)
{
	tomos_axis found = {.bytes = sizeof found};
	double places[TOMOS_AXIS_SCORES], best = 0;
	if (!tomos_prepared_searched(look->prepared, &found)) {
		look_axis_given(p, look, &found);
		return;
	}
	char error[48] = "";
	double from, to, step;
	bool doubt = tomos_axis_doubt(&found, &from, &to, &step);
	if (!isnan(found.error))
		snprintf(error, sizeof error, ", standard error %.2g columns", found.error);
	snprintf(p->axis_text, sizeof p->axis_text, "column %.2f, found%s, %s (confidence %.2f)%s",
		found.column, error, doubt ? "uncertain" : "certain", found.confidence,
		found.reversed ? negated_text : "");
	for (int64_t i = 0; i < found.scores; i++)
		best = fmax(best, found.score[i]);
	for (int64_t i = 0; i < found.scores; i++) {
		places[i] = found.score_first + (double)i * found.score_step;
		found.score[i] /= best > 0 ? best : 1;
	}
	const curve one = {"score", found.score, found.scores};
	const plot scores = {.curves = &one,
		.curve_count = 1,
		.places = places,
		.across = "position of the axis (detector column)",
		.up = "score / best",
		.linear = true,
		.straight = true,
		.marks = &found.column,
		.mark_count = 1};
	if (found.scores > 1)
		p->axis = plot_svg(&scores, 720, 260);
}

/* ---- the output --------------------------------------------------------------------------- */

/* CRC-32 of the checksums themselves, four bytes each, lowest first. */
static uint32_t crc_of(const uint32_t *list, int64_t count)
{
	uint32_t crc = ~UINT32_C(0);
	for (int64_t i = 0; i < 4 * count; i++) {
		crc ^= list[i / 4] >> (8 * (i % 4)) & 255;
		for (int k = 0; k < 8; k++)
			crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0xedb88320) : 0);
	}
	return ~crc;
}

static void look_checksums(page *p, const tomos_run_look *look)
{
	tomos_file *file = NULL;
	int64_t count = look->grid->n[2];
	uint32_t *list = malloc((size_t)count * sizeof *list);
	if (list && strcmp(tomos_output_format(look->output), "hdf5") == 0 &&
		tomos_file_open(&file, look->output, NULL) == TOMOS_OK &&
		tomos_file_checksums(file, list) == TOMOS_OK)
		snprintf(p->checksums, sizeof p->checksums,
			"CRC-32 of the slices, stored with them: first %08x, middle %08x, last "
			"%08x; of all %lld together %08x",
			(unsigned)list[0], (unsigned)list[count / 2], (unsigned)list[count - 1],
			(long long)count, (unsigned)crc_of(list, count));
	tomos_file_close(file);
	free(list);
}

/* ---- all of it ----------------------------------------------------------------------------- */

/* Seconds that reading the scan once more, for its pictures, may take. */
static double time_limit(const page *p)
{
	const char *given = getenv("TOMOS_REPORT_SECONDS");
	double limit;
	return given && text_real(given, &limit) ? limit : fmax(LIMIT, SHARE * p->run_seconds);
}

/* The pixels before binning. */
static void look_pixel(page *p, shown_scan *t)
{
	const tomos_view *v = tomos_geometry_list(tomos_prepared_geometry(t->look->prepared));
	double bin = (double)t->look->bin;
	t->pixel[0] = sqrt(v->u[0] * v->u[0] + v->u[1] * v->u[1] + v->u[2] * v->u[2]) / bin;
	t->pixel[1] = sqrt(v->v[0] * v->v[0] + v->v[1] * v->v[1] + v->v[2] * v->v[2]) / bin;
	snprintf(p->length, sizeof p->length, "%s", tomos_prepared_unit(t->look->prepared));
	p->known = p->length[0] && strcmp(p->length, "pixel") != 0;
}

void page_look(void *user, const tomos_run_look *look)
{
	page *p = user;
	shown_scan t = {
		.s = p->s, .look = look, .info = {.bytes = sizeof t.info}, .limit = time_limit(p)};
	double begun = seconds();
	bool open = tomos_scan_open(&t.scan, p->s->operands[0], &p->s->source) == TOMOS_OK &&
		    tomos_scan_describe(t.scan, &t.info) == TOMOS_OK;
	snprintf(p->output, sizeof p->output, "%s", look->output);
	snprintf(p->method, sizeof p->method, "%s", look->method);
	snprintf(p->backend, sizeof p->backend, "%s", look->backend);
	p->device_bytes = look->device_bytes;
	look_pixel(p, &t);
	look_units(p, look->grid);
	look_planes(p, look);
	look_axis(p, look);
	if (tomos_prepared_steps(look->prepared, p->steps, sizeof p->steps) != TOMOS_OK)
		p->steps[0] = 0;
	look_checksums(p, look);
	p->geometry = geometry_svg(tomos_prepared_geometry(look->prepared), page_length(p));
	if (open) {
		p->scan = scan_facts(p, &t);
		scan_pictures(p, &t);
	}
	tomos_scan_close(t.scan);
	p->seconds = seconds() - begun;
}
