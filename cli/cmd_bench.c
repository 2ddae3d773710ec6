/* tomos bench: measures standard workloads; output as a table and as JSON. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench.h"

static const workload *workload_find(const char *name)
{
	int count;
	const workload *list = workload_list(&count);
	for (int i = 0; i < count; i++)
		if (strcmp(list[i].name, name) == 0)
			return &list[i];
	return NULL;
}

static int workload_unknown(const char *name)
{
	const char *nearest = tomos_name_nearest(workload_names(), name);
	int code = survey_missing(name);
	if (code != DONE)
		return code;
	return wrong_usage("unknown workload '%s'; %s%s", name,
		nearest[0] ? "nearest: " : "see 'tomos bench --list'", nearest);
}

static int print_list(void)
{
	int count;
	const workload *list = workload_list(&count);
	for (int i = 0; i < count; i++)
		printf("%c %-31s %s\n", list[i].quick ? '*' : ' ', list[i].name, list[i].about);
	printf("* the short set, run when no workload is named\n");
	return DONE;
}

/* The given workloads, or the short set, or all. */
static int choose(const settings *s, const workload **chosen, int *count)
{
	int all;
	const workload *list = workload_list(&all);
	*count = 0;
	for (int i = 0; i < s->operand_count; i++) {
		chosen[*count] = workload_find(s->operands[i]);
		if (!chosen[(*count)++])
			return workload_unknown(s->operands[i]);
	}
	for (int i = 0; s->operand_count == 0 && i < all; i++)
		if (list[i].quick || s->bench.all)
			chosen[(*count)++] = &list[i];
	return DONE;
}

typedef struct results {
	const workload *const *chosen;
	const timing *timings;
	int count;
} results;

static void json_workloads(FILE *file, const void *user)
{
	const results *r = user;
	fprintf(file, "\"workloads\": [");
	for (int i = 0; i < r->count; i++) {
		const timing *t = &r->timings[i];
		fprintf(file,
			"%s\n{\"name\": \"%s\", \"median_s\": %.6g, \"min_s\": %.6g, "
			"\"max_s\": %.6g, \"gups\": %.6g, \"bound_gups\": %.6g, "
			"\"bound_by\": \"%s\", \"kernel\": \"%s\"}",
			i ? "," : "", r->chosen[i]->name, t->median, t->least, t->most, t->rate,
			t->bound, t->bound > 0 ? tomos_rate_name(t->part) : "", t->kernel);
	}
	fprintf(file, "\n]\n");
}

static void print_line(const workload *w, const timing *t)
{
	printf("%-31s %10.4f s %10.4f .. %8.4f s %10.4g", w->name, t->median, t->least, t->most,
		t->rate);
	if (t->bound > 0)
		printf(" %10.4g %5.1f %% %s", t->bound, 100 * t->rate / t->bound,
			tomos_rate_name(t->part));
	else
		printf(" %10s %7s", "unknown", "-");
	printf("%s%s\n", t->kernel[0] ? ", kernel " : "", t->kernel);
	fflush(stdout);
}

static int run_views(const settings *s, const workload *w)
{
	tomos_backend *backend = NULL;
	int code;
	DO(lib(tomos_backend_open_with(&backend, s->backend.backend, &s->device)));
	printf("%s\n", tomos_backend_describe(backend));
	DO(directions_run(s, backend, w));
done:
	tomos_backend_close(backend);
	return code;
}

static int run_all(const settings *s, const workload *const *chosen, int count)
{
	tomos_backend *backend = NULL;
	tomos_machine machine = {.bytes = sizeof machine};
	timing *timings = count > 0 ? calloc((size_t)count, sizeof *timings) : NULL;
	int code;
	if (!timings)
		return failed("no memory for %d results", count);
	DO(lib(tomos_backend_open_with(&backend, s->backend.backend, &s->device)));
	printf("%s\n", tomos_backend_describe(backend));
	printf("%-31s %12s %25s %10s %10s %7s by\n", "workload", "median", "spread", "GU/s",
		"bound", "share");
	DO(lib(tomos_backend_machine(backend, &machine)));
	for (int i = 0; i < count; i++) {
		timing *t = &timings[i];
		DO(workload_run(s, backend, chosen[i], t));
		workload_bound(&machine, chosen[i], strcmp(s->projector.data, "half") == 0, t);
		snprintf(t->kernel, sizeof t->kernel, "%s", tomos_backend_kernel(backend));
		progress_clear();
		print_line(chosen[i], t);
	}
	const results all = {chosen, timings, count};
	DO(bench_json(s, tomos_backend_describe(backend), json_workloads, &all));
done:
	tomos_backend_close(backend);
	free(timings);
	return code;
}

int cmd_bench(const settings *s)
{
	int all, count, code;
	workload_list(&all);
	if (s->bench.list && !s->bench.survey)
		return print_list();
	if (s->bench.all && s->operand_count > 0)
		return wrong_usage("--all has no effect with named workloads");
	if (s->bench.survey && (s->bench.all || s->bench.by_view[0]))
		return wrong_usage(
			"%s has no effect with --survey", s->bench.all ? "--all" : "--by-view");
	if (s->bench.repeat < 1 || s->bench.repeat > 100000)
		return wrong_usage(
			"--repeat: %lld is not between 1 and 100000", (long long)s->bench.repeat);
	if (s->bench.survey)
		return bench_survey(s);
	const workload **chosen = malloc((size_t)(all + s->operand_count) * sizeof *chosen);
	if (!chosen)
		return failed("no memory for the workloads");
	DO(choose(s, chosen, &count));
	DO(directions_check(s, chosen, count));
	DO(s->bench.by_view[0] ? run_views(s, chosen[0]) : run_all(s, chosen, count));
done:
	free(chosen);
	return code;
}
