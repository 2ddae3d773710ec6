/* Views without light (the beam was lost, a frame was not recorded), of line integrals those
 * without a finite value: found from samples of the middle row before anything is read, and taken
 * for bad views. */
#include <stdio.h>
#include <string.h>
#include "run/run.h"

enum { COLUMNS = 256, MOST_FLATS = 4 }; /* most samples of a view; most flats, or darks */
enum { LEAST_VIEWS = 8, NAMED = 8 };    /* of a scan; in the message */
enum { ALWAYS_UNPACKED = 32 << 20 };    /* bytes of a compressed scan for the samples, */
#define MOST_UNPACKED 0.02              /* or this part of it: they are to cost little */
#define NO_LIGHT 0.05                   /* of the flat: less is none, also without darks */
#define MOST_DARK 0.6                   /* of the flats, that darks are */
#define NEARLY_ALL 0.98                 /* of the samples of a view */
#define MOST_OF_NEXT 0.2                /* light, relative to the next views that have some, */
#define LEAST_OF_MEAN 0.3               /* and theirs relative to all views that have some */
#define MOST_VIEWS 0.5                  /* that may be without light: more are no accident */

typedef struct {
	int64_t count;   /* of samples of a view */
	float *level[2]; /* of each sample: without light, and with all of it above that */
	float *views;    /* [view][sample] */
	double *mean;    /* transmission of each view */
	double mean_lit; /* of the views with light */
	double share;    /* of darks in the flats, on average where there is light */
	bool *dark;
	bool integrals; /* which may have any finite value */
} Light;

static void light_free(Light *l)
{
	mem_free(l->level[0]);
	mem_free(l->level[1]);
	mem_free(l->views);
	mem_free(l->mean);
	mem_free(l->dark);
}

static tomos_status light_alloc(Light *l, const tomos_prepared *p)
{
	int64_t views = p->info.views;
	l->count = min64(COLUMNS, p->columns);
	for (int i = 0; i < 2; i++)
		TRY(mem_zeroed(&l->level[i], l->count, sizeof(float), "levels of light"));
	TRY(mem_alloc(
		&l->views, max64(views, MOST_FLATS) * l->count, sizeof(float), "samples of views"));
	TRY(mem_alloc(&l->mean, views, sizeof(double), "means of views"));
	return mem_zeroed(&l->dark, views, sizeof(bool), "views without light");
}

static tomos_status read_samples(
	const tomos_prepared *p, Light *l, tomos_frames which, int64_t frames, int64_t step)
{
	const int64_t first[3] = {0, p->info.rows / 2, p->first_column};
	const int64_t count[3] = {frames, 1, l->count}, steps[3] = {step, 1, p->columns / l->count};
	return tomos_scan_read_box(p->scan, which, first, count, steps, l->views);
}

/* The mean of a few flats, or darks. */
static tomos_status read_level(
	const tomos_prepared *p, Light *l, tomos_frames which, int64_t all, float *level)
{
	int64_t step = (all + MOST_FLATS - 1) / MOST_FLATS,
		count = all > 0 ? (all - 1) / step + 1 : 0;
	if (count == 0)
		return TOMOS_OK;
	TRY(read_samples(p, l, which, count, step));
	for (int64_t i = 0; i < count * l->count; i++)
		level[i % l->count] += l->views[i] / (float)count;
	return TOMOS_OK;
}

/* Only where there is light: beside a narrow beam, darks are as bright as flats. */
static double share_of_darks(const Light *l)
{
	double dark = 0, light = 0;
	for (int64_t i = 0; i < l->count; i++)
		if (l->level[1][i] > 0) {
			dark += (double)l->level[0][i];
			light += (double)l->level[1][i];
		}
	return light > 0 ? dark / (dark + light) : 0;
}

static tomos_status read_levels(const tomos_prepared *p, Light *l)
{
	float most = 0;
	if (prepared_are_counts(p)) {
		TRY(read_level(p, l, TOMOS_DARKS, p->info.darks, l->level[0]));
		TRY(read_level(p, l, TOMOS_FLATS, p->info.flats, l->level[1]));
	}
	for (int64_t i = 0; i < l->count; i++) {
		l->level[1][i] = prepared_are_counts(p) ? l->level[1][i] - l->level[0][i] : 1;
		most = fmaxf(most, l->level[1][i]);
	}
	for (int64_t i = 0; i < l->count; i++) /* dead, or behind a frame */
		if (!(l->level[1][i] > (float)NO_LIGHT * most))
			l->level[1][i] = 0;
	l->share = share_of_darks(l);
	return TOMOS_OK;
}

static void look_at_view(Light *l, int64_t view)
{
	const float *values = l->views + view * l->count;
	double used = 0, without = 0, sum = 0;
	for (int64_t i = 0; i < l->count; i++) {
		if (!(l->level[1][i] > 0))
			continue;
		double t = ((double)values[i] - (double)l->level[0][i]) / (double)l->level[1][i];
		used += 1;
		without += l->integrals ? !isfinite(t) : !(t >= NO_LIGHT);
		sum += isfinite(t) ? t : 0;
	}
	l->mean[view] = used > 0 ? sum / used : 0;
	l->dark[view] = used > 0 && without >= NEARLY_ALL * used;
}

static void find_mean_lit(Light *l, int64_t views)
{
	double sum = 0, lit = 0;
	for (int64_t v = 0; v < views; v++)
		if (!l->dark[v]) {
			sum += l->mean[v];
			lit += 1;
		}
	l->mean_lit = lit > 0 ? sum / lit : 0;
}

/* Light is lost from one view to the next. A plate that lets nothing through edge-on darkens the
 * views before and after as well. */
static bool is_darker(const Light *l, int64_t view, int64_t views)
{
	bool darker = true, lit = false;
	for (int64_t by = -1; by <= 1; by += 2) {
		int64_t next = view;
		while (next >= 0 && next < views && l->dark[next])
			next += by;
		if (next < 0 || next >= views)
			continue;
		lit = true;
		darker = darker && l->mean[view] < MOST_OF_NEXT * l->mean[next] &&
			 l->mean[next] >= LEAST_OF_MEAN * l->mean_lit;
	}
	return lit && darker;
}

/* Adds them to the bad views, and lists them for the message; how many are new. */
static tomos_status add_views(
	tomos_prepared *p, const Light *l, char *list, size_t size, int64_t *added)
{
	tomos_prep_options *o = &p->prep;
	int64_t views = p->info.views, before = o->bad_views_count, count = before;
	TRY(mem_alloc(&p->bad_views, before + views, sizeof *p->bad_views, "bad views"));
	if (before > 0)
		memcpy(p->bad_views, o->bad_views, (size_t)before * sizeof *p->bad_views);
	for (int64_t v = 0; v < views; v++) {
		bool known = !l->dark[v] || !(l->integrals || is_darker(l, v, views));
		for (int64_t i = 0; i < before && !known; i++)
			known = p->bad_views[i] == v;
		if (known)
			continue;
		p->bad_views[count++] = v;
		if (count - before <= NAMED)
			snprintf(list + strlen(list), size - strlen(list), "%s%lld",
				list[0] ? "," : "", (long long)v);
	}
	*added = count - before;
	/* views without a value are bad, however many; one has to be left */
	double most = l->integrals ? (double)(views - 1) : MOST_VIEWS * (double)views;
	if ((double)*added > most)
		*added = 0;
	if (*added == 0)
		return TOMOS_OK;
	o->bad_views = p->bad_views;
	o->bad_views_count = count;
	return TOMOS_OK;
}

static tomos_status find_dark(tomos_prepared *p, Light *l, const tomos_job *job)
{
	char list[24 * NAMED] = "";
	int64_t added;
	TRY(light_alloc(l, p));
	TRY(read_levels(p, l));
	if (l->share > MOST_DARK)
		TRY(job_warn(job,
			"the darks have %.3g times the counts of the flats on average, so that "
			"little of the light is left: are they dark fields?",
			l->share));
	TRY(read_samples(p, l, TOMOS_VIEWS, p->info.views, 1));
	for (int64_t v = 0; v < p->info.views; v++)
		look_at_view(l, v);
	find_mean_lit(l, p->info.views);
	TRY(add_views(p, l, list, sizeof list, &added));
	if (added == 0)
		return TOMOS_OK;
	return job_warn(job,
		"%lld view%s no %s: %s%s (the beam was lost, or the frame was not recorded); "
		"treated as the option 'bad-views' would",
		(long long)added, added == 1 ? " has" : "s have",
		l->integrals ? "finite value" : "light", list, added > NAMED ? " and others" : "");
}

/* Whether a row of all views can be read without unpacking much of the scan. */
static bool is_cheap(const tomos_scan *scan, const tomos_prepared *p)
{
	int64_t rows = scan_row_grain(scan);
	double bytes = scan->sets[TOMOS_VIEWS].file->element.bytes;
	double unpacked = (double)p->info.views * (double)rows * (double)p->info.columns * bytes;
	return rows <= 1 || unpacked <= fmax(ALWAYS_UNPACKED, MOST_UNPACKED * scan_bytes(scan));
}

tomos_status prepared_dark_views(tomos_prepared *p, const tomos_job *job)
{
	bool counts = prepared_are_counts(p);
	bool light = counts || strcmp(p->prep.quantity, "transmission") == 0;
	bool floats = p->scan->sets[TOMOS_VIEWS].file->element.kind == 'f';
	Light l = {.integrals = !light};
	if ((counts && p->info.flats == 0) || (!light && !floats) || p->info.views < LEAST_VIEWS ||
		!prepared_has_step(p, "bad-views") || !is_cheap(p->scan, p))
		return TOMOS_OK;
	tomos_status status = find_dark(p, &l, job);
	light_free(&l);
	return status;
}
