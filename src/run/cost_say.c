/* The plan of a run over ranks, printed: decomposition, memory, bytes, time, and where more ranks
 * stop helping. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "run/cost.h"

#define LEAST_GAIN 0.2 /* fraction of the time that twice the ranks save, to be worth it */

enum { TABLE_RANKS = 4096 };

/* The share of the rank that has most slices. */
static Share largest_share(const FileRun *r, int64_t ranks)
{
	const ShareRule rule = run_share_rule(r, ranks);
	Share most = {0, 0};
	for (int i = 0; i < (int)ranks; i++) {
		Share share = share_of(&rule, i, (int)ranks);
		if (share.count > most.count || (share.count == most.count && i <= (int)ranks / 2))
			most = share;
	}
	return most;
}

/* Of another number of ranks than planned for, a number of view groups may not be possible. */
static tomos_status take_groups(const FileRun *r, int64_t ranks, int64_t *groups)
{
	*groups = 1;
	return r->options.view_groups > 0 && ranks % r->options.view_groups != 0
		       ? TOMOS_OK
		       : run_view_groups(r, ranks, groups);
}

tomos_status cost_plan(FileRun *r)
{
	int64_t groups, ranks = r->options.ranks;
	tomos_rates rates = tomos_rates_defaults();
	TRY(run_check_ranks(r, ranks));
	if (r->options.rates[0] && access(r->options.rates, F_OK) == 0)
		TRY(tomos_rates_read(&rates, r->options.rates));
	r->near = r->backend->device == 0 ? rates_near(&rates) : 1;
	TRY(run_view_groups(r, ranks, &groups));
	r->share = r->own_share = largest_share(r, r->iterates ? ranks : ranks / groups);
	r->group.ranks = (int)groups;
	TRY(run_take_views(r, 0, groups));
	tomos_status status = run_plan(r);
	run_all_views(r);
	r->group.ranks = 1;
	return status;
}

/* ---- the rates ------------------------------------------------------------------------------ */

static tomos_status warn_others(const FileRun *r, const tomos_rates *rates)
{
	const char *path = r->options.rates, *rays = rates_rays(r);
	if (rates->rays[0] && strcmp(rates->rays, rays) != 0)
		TRY(job_warn(r->job, "'%s' was measured with rays of kind '%s', not '%s'", path,
			rates->rays, rays));
	if (rates->method[0] && strcmp(rates->method, r->method) != 0 && r->iterates)
		TRY(job_warn(r->job, "'%s' was measured with %s, not %s", path, rates->method,
			r->method));
	return TOMOS_OK;
}

static tomos_status store_rates(const FileRun *r, const tomos_rates *rates)
{
	const int64_t *n = r->grid.n;
	char note[640];
	snprintf(note, sizeof note, "%s of '%.200s', %lld x %lld x %lld voxels, on %.200s",
		r->method, r->job->scan, (long long)n[0], (long long)n[1], (long long)r->slices,
		tomos_backend_describe(r->backend));
	note[strcspn(note, "\r\n")] = 0;
	TRY(tomos_rates_write(rates, r->options.rates, note));
	return job_say(r->job, "rates     measured, and written to '%s'", r->options.rates);
}

/* Those of the file in the options; where it does not exist, measured here and written to it. */
static tomos_status rates_of(FileRun *r, tomos_rates *rates)
{
	const char *path = r->options.rates;
	*rates = tomos_rates_defaults();
	if (path[0] && access(path, F_OK) == 0) {
		TRY(tomos_rates_read(rates, path));
		TRY(warn_others(r, rates));
		return job_say(r->job, "rates     of '%s'", path);
	}
	if (path[0])
		TRY(file_check(path, false));
	TRY(rates_measure(r, rates));
	if (path[0])
		return store_rates(r, rates);
	return job_say(r->job, "rates     measured here; the option 'rates' stores them in a file");
}

static tomos_status say_rates(const FileRun *r, const tomos_rates *s)
{
	if (r->iterates)
		TRY(job_say(r->job,
			"          a rank: iterations %.4g GU/s, preparation %.4g GB/s, "
			"read %.4g GB/s, write %.4g GB/s",
			1e-9 * s->iterate, 1e-9 * s->prepare, 1e-9 * s->read, 1e-9 * s->write));
	else
		TRY(job_say(r->job,
			"          a rank: back projection %.4g GU/s, filter %.4g G "
			"values/s, preparation %.4g GB/s, read %.4g GB/s, write %.4g "
			"GB/s",
			1e-9 * s->back, 1e-9 * s->filter, 1e-9 * s->prepare, 1e-9 * s->read,
			1e-9 * s->write));
	return job_say(r->job,
		"          %.4g rank%s on a node, network %.4g GB/s; file system: read %.4g GB/s, "
		"write %.4g GB/s at most",
		s->node_ranks, s->node_ranks == 1 ? "" : "s", 1e-9 * s->network, 1e-9 * s->read_all,
		1e-9 * s->write_all);
}

/* ---- the decomposition ---------------------------------------------------------------------- */

static tomos_status say_parts(const FileRun *r, const tomos_cost *c)
{
	const tomos_geometry *g = r->prepared->geometry;
	double scan = (double)raw_stored_bytes(r->prepared) * (double)r->prepared->info.rows;
	TRY(job_say(r->job,
		"ranks     %lld: %lld slab%s of up to %lld slices, %lld view group%s of up to %lld "
		"views, up to %lld of %lld detector rows each",
		(long long)c->ranks, (long long)c->slabs, c->slabs == 1 ? "" : "s",
		(long long)c->slices, (long long)c->groups, c->groups == 1 ? "" : "s",
		(long long)c->views, (long long)c->rows, (long long)g->rows));
	if (c->slabs * c->groups < c->ranks)
		TRY(job_warn(r->job, "%lld of the %lld ranks have nothing to do",
			(long long)(c->ranks - c->slabs * c->groups), (long long)c->ranks));
	TRY(job_say(
		r->job, "          the rank with most work does %.3g times the mean", c->balance));
	TRY(job_say(r->job, "memory    %.0f MiB for a rank", r->planned / (1 << 20)));
	if (r->planned_device > 0)
		TRY(job_say(r->job, "          and %.0f MiB on its device",
			r->planned_device / (1 << 20)));
	TRY(job_say(r->job,
		"bytes     read %.4g GB (%.3g times the scan), sent %.4g GB, written %.4g GB",
		1e-9 * c->read_bytes, c->read_bytes / scan, 1e-9 * c->sent_bytes,
		1e-9 * c->written_bytes));
	if (c->shared_bytes <= 0)
		return TOMOS_OK;
	return job_say(r->job,
		"          %.4g GB read from the memory shared by the ranks of a node",
		1e-9 * c->shared_bytes);
}

/* ---- the time -------------------------------------------------------------------------------- */

static void time_text(double seconds, char text[32])
{
	if (seconds < 120)
		snprintf(text, 32, "%.3g s", seconds);
	else if (seconds < 7200)
		snprintf(text, 32, "%.3g min", seconds / 60);
	else
		snprintf(text, 32, "%.3g h", seconds / 3600);
}

static const char *stage_name(int64_t stage, char name[16])
{
	const char *at = tomos_cost_names();
	for (int64_t i = 0; i < stage; i++)
		at += strcspn(at, "|") + 1;
	snprintf(name, 16, "%.*s", (int)strcspn(at, "|"), at);
	return name;
}

static tomos_status say_seconds(const FileRun *r, const tomos_cost *c)
{
	char line[512], name[16], time[32];
	int used = 0;
	for (int i = 0; i < TOMOS_COSTS; i++) {
		if (c->stage_seconds[i] <= 0)
			continue;
		time_text(c->stage_seconds[i], time);
		used += snprintf(line + used, sizeof line - (size_t)used, "%s%s %s",
			used ? ", " : "", stage_name(i, name), time);
	}
	time_text(c->seconds, time);
	return job_say(r->job, "time      about %s: %s", time, line);
}

static tomos_status say_row(const FileRun *r, const tomos_cost *c, const tomos_cost *one)
{
	char name[16], time[32];
	double speed = one->seconds / c->seconds;
	time_text(c->seconds, time);
	return job_say(r->job, "  %7lld %7lld %7lld %9s %8.1f %9.0f %%   %s", (long long)c->ranks,
		(long long)c->slices, (long long)c->rows, time, speed,
		100 * speed / (double)c->ranks, stage_name(c->limiting, name));
}

/* 1, 2, 4, ... ranks, as many as are possible, and the largest number of these from which twice as
 * many save enough. */
static tomos_status say_scaling(const FileRun *r, CostBytes *bytes, const tomos_rates *rates)
{
	tomos_cost one = {.ranks = 0}, last = {.ranks = 0}, c, stop = {.ranks = 0};
	char name[16];
	double gain = 0;
	TRY(job_say(r->job, "  %7s %7s %7s %9s %8s %11s   %s", "ranks", "slices", "rows", "time",
		"speed-up", "efficiency", "longest stage"));
	for (int64_t ranks = 1; ranks <= TABLE_RANKS && run_ranks_fit(r, ranks); ranks *= 2) {
		TRY(take_groups(r, ranks, &bytes->groups));
		TRY(cost_of(r, bytes, rates, ranks, &c));
		if (ranks == 1)
			one = c;
		double saved = ranks > 1 ? 1 - c.seconds / last.seconds : 1;
		if (saved < LEAST_GAIN && stop.ranks == 0) {
			stop = last;
			gain = saved;
		}
		TRY(say_row(r, &c, &one));
		last = c;
	}
	if (stop.ranks == 0)
		return job_say(r->job, "scales    up to %lld rank%s", (long long)last.ranks,
			last.ranks == 1 ? "" : "s");
	return job_say(r->job,
		"scales    up to %lld rank%s: twice as many would save %.0f %% of the time; '%s' "
		"is the longest stage there",
		(long long)stop.ranks, stop.ranks == 1 ? "" : "s", 100 * fmax(0, gain),
		stage_name(stop.limiting, name));
}

tomos_status cost_say(FileRun *r)
{
	CostBytes bytes = {.row_bytes = (double)raw_stored_bytes(r->prepared),
		.thickest = r->slab_count > 1 ? r->thickest : 0};
	tomos_rates rates;
	tomos_cost cost;
	Element element;
	bytes.voxel_bytes = element_named(r->file_options.type, &element) ? element.bytes : 4;
	TRY(rates_of(r, &rates));
	TRY(say_rates(r, &rates));
	TRY(run_view_groups(r, r->options.ranks, &bytes.groups));
	TRY(cost_of(r, &bytes, &rates, r->options.ranks, &cost));
	TRY(say_parts(r, &cost));
	TRY(say_seconds(r, &cost));
	r->report->expected_seconds = cost.seconds;
	return say_scaling(r, &bytes, &rates);
}
