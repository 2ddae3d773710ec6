/* The page of recon --report as HTML: one file, with everything it shows in it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <time.h>
#include "plot.h"
#include "report.h"

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash && slash[1] ? slash + 1 : path;
}

/* <figure> with a drawing, which may be missing, and a caption of our own words. */
static void figure(FILE *out, const char *svg, const char *caption)
{
	if (svg)
		fprintf(out, "<figure>%s<figcaption>%s</figcaption></figure>\n", svg, caption);
}

static void key(FILE *out, const char *name, const char *value)
{
	fprintf(out, "<div><dt>%s</dt><dd>", name);
	xml_escape(out, value);
	fputs("</dd></div>\n", out);
}

/* ---- parts -------------------------------------------------------------------------------- */

static void put_head(FILE *out, const page *p, const tomos_run_report *r)
{
	char text[64];
	time_t now = time(NULL);
	struct tm date;
	fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
	      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
	      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src "
	      "data:; style-src 'unsafe-inline'\">\n<title>Reconstruction of ",
		out);
	xml_escape(out, base_name(p->s->operands[0]));
	fprintf(out,
		"</title>\n<style>\n%s</style>\n</head>\n<body>\n<main>\n<h1>Reconstruction of ",
		report_style);
	xml_escape(out, base_name(p->s->operands[0]));
	strftime(text, sizeof text, "%Y-%m-%d %H:%M", gmtime_r(&now, &date));
	fprintf(out, "</h1>\n<p class=\"sub\">tomos %s · %s UTC</p>\n<dl class=\"key\">\n",
		tomos_version(), text);
	key(out, "Method", p->method);
	key(out, "Voxels", p->size);
	key(out, "Voxel size", p->voxel);
	snprintf(text, sizeof text, "%.*s", (int)strcspn(p->axis_text, ","), p->axis_text);
	key(out, "Axis", text);
	if (r->iterations > 0) {
		snprintf(text, sizeof text, "%lld, residual %.3g", (long long)r->iterations,
			r->residual);
		key(out, "Iterations", text);
	}
	snprintf(text, sizeof text, r->seconds < 100 ? "%.2f s" : "%.0f s", r->seconds);
	key(out, "Time", text);
	fputs("</dl>\n", out);
}

/* Lines of messages that are warnings, or all others. */
static int put_lines(
	FILE *out, const char *text, bool warnings, const char *before, const char *after)
{
	int count = 0;
	for (const char *at = text; at && *at;) {
		size_t length = strcspn(at, "\n");
		char *line = strndup(at, length);
		bool marked = line && strncmp(line, "! ", 2) == 0;
		if (line && (marked || !warnings)) {
			fputs(before, out);
			xml_escape(out, marked ? line + 2 : line);
			fputs(after, out);
			count++;
		}
		free(line);
		at += length + (at[length] == '\n');
	}
	return count;
}

static void put_warnings(FILE *out, const page *p)
{
	char *list = NULL;
	size_t bytes;
	FILE *lines = open_memstream(&list, &bytes);
	int count = lines ? put_lines(lines, p->printed, true, "<p>", "</p>\n") : 0;
	if (lines && fclose(lines) == 0 && count > 0)
		fprintf(out, "<div class=\"warn\" role=\"note\">\n%s</div>\n", list);
	free(list);
}

static void put_result(FILE *out, const page *p, const tomos_run_report *r)
{
	fputs("<h2>Result</h2>\n", out);
	figure(out, p->planes,
		p->plane_count == 1
			? "The middle slice: 0.1 % of the pixels are darker than black, 0.1 % "
			  "lighter than white."
			: "Middle planes of the volume, with one grey scale: 0.1 % of the pixels "
			  "are darker than black, 0.1 % lighter than white.");
	figure(out, p->histogram, "Values of these pixels; the counts are logarithmic.");
	fputs("<table class=\"facts\">\n", out);
	fact(out, "Output", "%s", p->output);
	fact(out, "Voxels", "%s (x × y × z), their size: %s", p->size, p->voxel);
	if (p->checksums[0])
		fact(out, "Checksums", "%s", p->checksums);
	if (r->cut > 0)
		fact(out, "Cut off", "%lld values beyond the window of the stored integers",
			(long long)r->cut);
	if (r->compared)
		fact(out, "Compared with the truth", "relative L2 %.4g, PSNR %.4g dB, SSIM %.4g",
			r->difference.relative_l2, r->difference.psnr, r->difference.ssim);
	fputs("</table>\n", out);
}

static void put_scan(FILE *out, const page *p)
{
	fputs("<h2>Scan</h2>\n<table class=\"facts\">\n", out);
	if (p->scan)
		fputs(p->scan, out);
	fact(out, "Rotation axis", "%s", p->axis_text);
	fputs("</table>\n", out);
	figure(out, p->geometry,
		"The geometry used: where the rays of all views come from, and detector and outer "
		"rays of the first.");
}

/* "name: options" in lines, as rows of a table. */
static void put_steps(FILE *out, const char *steps)
{
	if (!steps[0]) {
		fputs("<p>No step of preparation ran.</p>\n", out);
		return;
	}
	fputs("<table class=\"facts\">\n<tr><th>Preparation</th><td>in this order</td></tr>\n",
		out);
	for (const char *at = steps; *at; at += strcspn(at, "\n"), at += *at == '\n') {
		char name[32];
		int line = (int)strcspn(at, "\n"), word = (int)strcspn(at, ":\n");
		int rest = word < line ? word + 2 : line;
		snprintf(name, sizeof name, "%.*s", word, at);
		fact(out, name, "%.*s", line - rest, at + rest);
	}
	fputs("</table>\n", out);
}

static void put_repairs(FILE *out, const tomos_prep_report *r)
{
	if (r->repaired || r->raised || r->zingers || r->stripes || r->views)
		fprintf(out,
			"<p>Preparation replaced %lld values without light or not finite and %lld "
			"zingers, raised %lld to the floor, corrected %lld stripes and %lld bad "
			"views.</p>\n",
			(long long)r->repaired, (long long)r->zingers, (long long)r->raised,
			(long long)r->stripes, (long long)r->views);
}

static void put_projections(FILE *out, const page *p, const tomos_run_report *r)
{
	char caption[256];
	fputs("<h2>Projections</h2>\n", out);
	snprintf(caption, sizeof caption, "%s%s",
		p->frame_count > 1 ? "Frames as measured, with one grey scale."
				   : "A view as measured.",
		p->frames_note);
	figure(out, p->frames, caption);
	if (p->frames_missing[0])
		fprintf(out, "<p>%s</p>\n", p->frames_missing);
	snprintf(caption, sizeof caption, "Sinogram as measured, view 0 on top.%s", p->before_note);
	if (p->before && p->after)
		fputs("<div class=\"two\">\n", out);
	figure(out, p->before, caption);
	figure(out, p->after,
		"The same after preparation: line integrals that were reconstructed.");
	if (p->before && p->after)
		fputs("</div>\n", out);
	if (p->after_missing[0])
		fprintf(out, "<p>%s</p>\n", p->after_missing);
	put_steps(out, p->steps);
	put_repairs(out, &r->prep);
	snprintf(caption, sizeof caption,
		"Search for the rotation axis: the dashed line is the result, %.100s.",
		p->axis_text);
	figure(out, p->axis, caption);
}

static void put_convergence(
	FILE *out, const page *p, const tomos_run_report *r, const tomos_history *h)
{
	int64_t count = history_count(h);
	const curve curves[2] = {{"residual", h->residual, count}, {"error", h->error, count}};
	const plot c = {.curves = curves,
		.curve_count = isnan(r->error) ? 1 : 2,
		.across = "iteration",
		.up = "relative norm"};
	char *svg = count > 0 ? plot_svg(&c, 720, 300) : NULL;
	if (!svg)
		return;
	fputs("<h2>Convergence</h2>\n", out);
	fprintf(out, "<figure>%s<figcaption>%s of each iteration, relative to the norm of the %s. ",
		svg, isnan(r->error) ? "Residual" : "Residual and error",
		isnan(r->error) ? "projections" : "projections and of the true volume");
	xml_escape(out, p->method);
	fprintf(out, " ended after %lld iterations (", (long long)r->iterations);
	xml_escape(out, strcmp(r->ended, "iterations") == 0 ? "all that were asked for" : r->ended);
	fprintf(out, ").</figcaption></figure>\n");
	free(svg);
}

static void put_stage(FILE *out, const char *name, int length, double busy, double bytes,
	double wall, bool longest)
{
	double share = wall > 0 ? fmin(100 * busy / wall, 100) : 0;
	fprintf(out, "<tr><td>%.*s%s</td><td class=\"n\">%.2f s</td>", length, name,
		longest ? " (longest)" : "", busy);
	if (bytes > 0)
		fprintf(out, "<td class=\"n\">%.4g MB</td><td class=\"n\">%.3g GB/s</td>",
			bytes * 1e-6, bytes * 1e-9 / busy);
	else
		fputs("<td></td><td></td>", out);
	fprintf(out,
		"<td class=\"n\">%.0f %%</td><td class=\"share\"><div class=\"bar\" "
		"style=\"width:%.1f%%\"></div></td></tr>\n",
		share, share);
}

static void put_timing(FILE *out, const tomos_run_report *r)
{
	const char *name = tomos_stage_names();
	fputs("<table class=\"times\"><tr><th>stage</th><th class=\"n\">busy</th><th "
	      "class=\"n\">amount</th><th "
	      "class=\"n\">rate</th><th class=\"n\">of the time</th><th></th></tr>\n",
		out);
	put_stage(out, "start", 5, r->start_seconds, 0, r->seconds, false);
	for (int i = 0; i < TOMOS_STAGES; i++) {
		int length = (int)strcspn(name, "|");
		if (r->stage_seconds[i] > 0)
			put_stage(out, name, length, r->stage_seconds[i], r->stage_bytes[i],
				r->seconds, i == r->limiting);
		name += length + (name[length] != 0);
	}
	fprintf(out,
		"<tr><td>all</td><td class=\"n\">%.2f s</td><td "
		"colspan=\"4\"></td></tr>\n</table>\n",
		r->seconds);
}

/* The name of the processor, as the system gives it. */
static void processor_name(char name[96])
{
	char line[256];
	FILE *file = fopen("/proc/cpuinfo", "r");
	snprintf(name, 96, "unknown");
	while (file && fgets(line, sizeof line, file)) {
		const char *at = strchr(line, ':');
		if (strncmp(line, "model name", 10) == 0 && at) {
			snprintf(name, 96, "%.*s", (int)strcspn(at + 2, "\n"), at + 2);
			break;
		}
	}
	if (file)
		fclose(file);
}

static void put_run(FILE *out, const page *p, const tomos_run_report *r)
{
	struct rusage used = {0};
	struct utsname system;
	char processor[96];
	processor_name(processor);
	(void)getrusage(RUSAGE_SELF, &used);
	fputs("<h2>Run</h2>\n", out);
	put_timing(out, r);
	fputs("<p>Stages overlap in time: the longest one sets the duration.</p>\n"
	      "<table class=\"facts\">\n",
		out);
	fact(out, "Slabs", "%lld, %lld slices computed, %lld of an earlier run",
		(long long)r->slabs, (long long)r->slices, (long long)r->resumed);
	if (r->ranks > 1)
		fact(out, "Ranks", "%lld, %.4g MB sent between them, %.4g MB in shared memory",
			(long long)r->ranks, r->sent_bytes * 1e-6, r->shared_bytes * 1e-6);
	fact(out, "Memory", "%.4g MB planned, %.4g MB used at most", r->planned_bytes * 1e-6,
		(double)used.ru_maxrss * 1024e-6);
	if (p->device_bytes > 0)
		fact(out, "Device memory", "%.4g MB planned", p->device_bytes * 1e-6);
	fact(out, "Device", "%s", p->backend);
	fact(out, "Processor", "%s", processor);
	if (uname(&system) == 0)
		fact(out, "System", "%s %s, %s", system.sysname, system.release, system.machine);
	fact(out, "Software", "tomos %s; %s", tomos_version(), tomos_libraries());
	if (r->back[0] || r->forward[0])
		fact(out, "Kernels", "%s%s%s%s%s", r->forward[0] ? "forward " : "", r->forward,
			r->forward[0] && r->back[0] ? ", " : "", r->back[0] ? "back " : "",
			r->back);
	fputs("</table>\n", out);
}

static void put_command(FILE *out, const page *p)
{
	fputs("<h2>Command</h2>\n<pre>", out);
	xml_escape(out, p->s->line);
	fputs("</pre>\n<h2>Messages</h2>\n<pre>", out);
	put_lines(out, p->printed, false, "", "\n");
	fputs("</pre>\n<footer>The pictures are part of this file; nothing is loaded from "
	      "elsewhere.</footer>\n</main>\n</body>\n</html>\n",
		out);
}

int page_write(page *p, const tomos_run_report *report, const tomos_history *history)
{
	const char *path = p->s->recon.report;
	text_file file;
	double begun = seconds();
	if (fflush(p->messages) != 0)
		return failed("no memory for '%s'", path);
	if (text_begin(&file, path) != DONE)
		return FAILED;
	FILE *out = file.lines;
	put_head(out, p, report);
	put_warnings(out, p);
	put_result(out, p, report);
	put_scan(out, p);
	put_projections(out, p, report);
	if (history)
		put_convergence(out, p, report, history);
	put_run(out, p, report);
	put_command(out, p);
	int code = text_end(&file, path, p->s->file.overwrite);
	if (code == DONE)
		say("report    %s, in %.2f s\n", path, p->seconds + seconds() - begun);
	return code;
}
