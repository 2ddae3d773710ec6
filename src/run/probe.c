/* Slices that are computed ahead of the others, without an output: for the window of integers, and
 * for the time that a run will take. */
#include <string.h>
#include "run/run_parts.h"

enum { WINDOW_SLICES = 5 };

#define WINDOW_TAIL 1e-4   /* fraction of a slice that may be below its window, and above */
#define WINDOW_MARGIN 0.05 /* relative widening, for slices that were not measured */

static tomos_status probe_slab(Stages *s)
{
	const Turn *turn = turn_at(s, 0);
	stage_begin(s, TOMOS_STAGE_READ);
	if (turn->fresh)
		TRY(slab_read(s, turn));
	stage_end(s, TOMOS_STAGE_READ);
	return slab_compute(s, turn, 0);
}

static tomos_status widen_window(Stages *s, const Turn *turn, int at)
{
	FileRun *r = s->run;
	double one[2];
	float *volume;
	TRY(slab_floats(s, turn, at, &volume));
	window_of(volume, turn->slab->count * r->grid.n[1] * r->grid.n[0], WINDOW_TAIL, one);
	r->window[0] = fmin(r->window[0], one[0]);
	r->window[1] = fmax(r->window[1], one[1]);
	return TOMOS_OK;
}

static tomos_status probe_window(Stages *s)
{
	s->run->window[0] = HUGE_VAL;
	s->run->window[1] = -HUGE_VAL;
	s->finish = widen_window;
	return stages_run(s);
}

/* Reads and computes some slices for their window and times. Which slices does not depend on the
 * slabs. */
tomos_status run_probe(FileRun *whole, const char *stage, Slab *slabs, int64_t count,
	tomos_status (*work)(Stages *), double window[2], tomos_run_report *report)
{
	FileRun r = *whole;
	*report =
		(tomos_run_report){.bytes = sizeof *report, .prep = {.bytes = sizeof report->prep}};
	r.report = report;
	r.iterative.probing = true;
	r.adapts = false;
	r.file = NULL;
	r.stage = stage;
	r.slabs = slabs;
	r.slab_count = count;
	r.slices = r.most_slices = r.most_lines = r.most_rows = 0;
	for (Slab *slab = slabs; slab < slabs + count; slab++) {
		slab_rows(&r, slab);
		r.slices += slab->count;
		r.most_slices = max64(r.most_slices, slab->padded);
		r.most_lines = max64(r.most_lines, max64(slab->padded, slab->rows));
		r.most_rows =
			max64(r.most_rows, prepared_needs(r.prepared, slab->row, slab->rows).rows);
	}
	tomos_status status = stages_with(&r, work, true);
	whole->iterative = r.iterative; /* the operator stays */
	whole->analytic = r.analytic;
	whole->analytic_rows = r.analytic_rows;
	whole->truncated = r.truncated;
	whole->compared_flats = r.compared_flats;
	whole->compared_quantity = r.compared_quantity;
	whole->compared_columns = r.compared_columns;
	whole->iterative.probing = false;
	TRY(status);
	memcpy(window, r.window, sizeof r.window);
	return TOMOS_OK;
}

/* The slab that a slice is in, where slabs are groups. */
static int64_t group_of(const FileRun *r, int64_t slice, int64_t *count)
{
	int64_t group = slice / GROUP_SLICES * GROUP_SLICES, first = max64(group, r->first_slice);
	*count = min64(group + GROUP_SLICES, r->first_slice + r->slices) - first;
	return first;
}

/* Window of integers, if none is given: the range of a few slices, somewhat widened. Which slices
 * does not depend on the slabs. */
tomos_status run_choose_window(FileRun *r)
{
	int64_t count = min64(WINDOW_SLICES, r->slices), together = r->iterates ? 1 : count;
	double window[2] = {HUGE_VAL, -HUGE_VAL};
	Slab slabs[WINDOW_SLICES] = {{.first = 0}};
	for (int64_t i = 0; i < count; i++) {
		int64_t slice = r->first_slice + (2 * i + 1) * r->slices / (2 * count);
		slabs[i] = (Slab){.first = slice, .count = 1};
		if (r->iterative.grouped)
			slabs[i].first = group_of(r, slice, &slabs[i].count);
	}
	for (int64_t i = 0; i < count; i += together) {
		tomos_run_report report;
		double some[2];
		TRY(run_probe(r, "window", slabs + i, together, probe_window, some, &report));
		window[0] = fmin(window[0], some[0]);
		window[1] = fmax(window[1], some[1]);
	}
	double margin = WINDOW_MARGIN * (window[1] - window[0]);
	r->window[0] = window[0] - margin;
	r->window[1] = window[1] + margin;
	r->file_options.window = r->window;
	r->file_options.window_count = 2;
	return job_say(r->job, "window    %g to %g, from %lld slices", r->window[0], r->window[1],
		(long long)count);
}

/* Estimates the duration: the slower of two stages for all slabs, and the other one for one
 * slab. */
tomos_status run_say_time(FileRun *r)
{
	bool again = r->prepared->reach.all_rows; /* in every slab, whatever its height */
	int64_t count = again ? r->thickest : min64(r->thickest, THICK);
	double slabs = again ? (double)r->slab_count : (double)r->slices / (double)count;
	double window[2];
	tomos_run_report t;
	if (!r->job->say || r->iterates)
		return TOMOS_OK;
	int64_t first = r->first_slice + (r->slices - count) / 2;
	Slab slab = {.first = first, .count = count};
	TRY(run_probe(r, "estimate", &slab, 1, probe_slab, window, &t));
	double slow = fmax(t.read_seconds, t.compute_seconds);
	double all = slabs * slow + fmin(t.read_seconds, t.compute_seconds);
	double unit = all < 120 ? 1 : all < 7200 ? 60 : 3600;
	return job_say(r->job,
		"time      about %.2g %s: %lld slices took %.2g s to read and %.2g s to compute; "
		"writing is taken to be no slower",
		all / unit,
		all < 120    ? "s"
		: all < 7200 ? "minutes"
			     : "hours",
		(long long)count, t.read_seconds, t.compute_seconds);
}
