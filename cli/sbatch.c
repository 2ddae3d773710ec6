/* recon --sbatch: a job script for SLURM, from the plan of a run over ranks. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "cli.h"

#define TIME_FACTOR 1.5 /* limits are more than what is expected */
#define MEMORY_FACTOR 1.25

enum { LEAST_SECONDS = 300, RANK_MIB = 256 }; /* RANK_MIB: libraries and buffers of MPI */
enum { MOST_EDITS = 16 };

typedef struct script {
	FILE *file;
	int line, edits[MOST_EDITS], edit_count; /* lines that depend on the cluster */
} script;

/* Options with a value that belong to the plan and are left out of the job. */
static const char plan_values[] = "--ranks|--rates|--sbatch";

static void put(script *s, const char *format, ...) PRINTF_LIKE(2, 3);
static void put(script *s, const char *format, ...)
{
	va_list values;
	va_start(values, format);
	vfprintf(s->file, format, values);
	va_end(values);
	fputc('\n', s->file);
	s->line++;
}

/* A line that the user has to look at. */
static void put_edit(script *s, const char *text, const char *why)
{
	if (s->edit_count < MOST_EDITS)
		s->edits[s->edit_count++] = s->line + 1;
	put(s, "%s  # EDIT: %s", text, why);
}

static void put_command(script *s, const settings *set)
{
	fprintf(s->file, "srun \"$TOMOS\" recon");
	for (int i = 0; i < set->word_count; i++) {
		const char *word = set->words[i];
		size_t length = strcspn(word, "=");
		if (strcmp(word, "--dry-run") == 0)
			continue;
		if (name_in(plan_values, word, length)) {
			i += word[length] == 0;
			continue;
		}
		fputc(' ', s->file);
		shell_quote(s->file, word);
	}
	put(s, "%s", "");
}

/* Memory is that of a core, so that the number of ranks on a node can be changed by itself. */
static void put_limits(script *s, const settings *set, const tomos_run_report *r, double node_ranks)
{
	int64_t ranks = set->run.ranks;
	double on_node = fmin(fmax(1, floor(node_ranks)), (double)ranks);
	double mib = MEMORY_FACTOR * r->planned_bytes / (1 << 20) + RANK_MIB;
	char node[64];
	long seconds = (long)fmin(1e8, TIME_FACTOR * r->expected_seconds) + LEAST_SECONDS;
	long minutes = (seconds + 59) / 60;
	put(s, "#SBATCH --job-name=tomos");
	put(s, "#SBATCH --ntasks=%lld", (long long)ranks);
	snprintf(node, sizeof node, "#SBATCH --ntasks-per-node=%.0f", on_node);
	put_edit(s, node, "ranks on a node: as many as it has GPUs or sockets");
	put(s, "#SBATCH --cpus-per-task=%d", tomos_threads());
	put(s, "#SBATCH --mem-per-cpu=%.0fM", ceil(mib / tomos_threads()));
	put(s, "#SBATCH --time=%ld-%02ld:%02ld:00", minutes / 1440, minutes / 60 % 24,
		minutes % 60);
	put(s, "#SBATCH --output=tomos-%%j.log");
}

static void put_edits(script *s, const settings *set)
{
	bool gpu = strncmp(set->backend.backend, "cuda", 4) == 0;
	put_edit(s, "##SBATCH --partition=NAME", "the partition; remove one # to use the line");
	put_edit(s, "##SBATCH --account=NAME", "the account or project; remove one # likewise");
	if (gpu)
		put(s, "#SBATCH --gpus-per-task=1");
	else
		put_edit(s, "##SBATCH --gpus-per-task=1", "one GPU for each rank; likewise");
	put(s, "%s", "");
	put_edit(s, "# module load openmpi", "the MPI that tomos uses ('tomos info devices')");
	put_edit(s, "export SLURM_MPI_TYPE=pmix",
		"pmix for Open MPI, pmi2 for MPICH ('srun --mpi=list')");
}

static void put_places(script *s)
{
	char folder[PATH_MAX], program[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
	program[length > 0 ? length : 0] = 0;
	s->edits[s->edit_count++] = s->line + 1;
	fprintf(s->file, "TOMOS=");
	shell_quote(s->file, length > 0 ? program : "tomos");
	put(s, "  # EDIT: where tomos is on the nodes");
	if (getcwd(folder, sizeof folder)) {
		fprintf(s->file, "cd ");
		shell_quote(s->file, folder);
		put(s, " || exit 1");
	}
}

/* The number of ranks on a node is that of the rates; nothing is known of it without a file. */
static double ranks_on_node(const settings *set)
{
	tomos_rates rates = {.bytes = sizeof rates, .node_ranks = 1};
	if (set->run.rates[0] && tomos_rates_read(&rates, set->run.rates) != TOMOS_OK)
		return 1;
	return rates.node_ranks;
}

static void put_script(script *s, const settings *set, const tomos_run_report *r)
{
	put(s, "#!/bin/bash");
	put(s, "# Written by tomos %s. Submit with: sbatch FILE", tomos_version());
	put_limits(s, set, r, ranks_on_node(set));
	put_edits(s, set);
	put_places(s);
	put(s, "%s", "");
	put(s, "# After a job that was ended early, the same command with --resume goes on.");
	put_command(s, set);
}

int sbatch_write(const settings *set, const tomos_run_report *report)
{
	const char *path = set->recon.sbatch;
	script s = {.file = fopen(path, "w")};
	if (!s.file)
		return failed("'%s' cannot be written: %s", path, strerror(errno));
	put_script(&s, set, report);
	bool wrong = ferror(s.file) != 0;
	if (fclose(s.file) != 0 || wrong || chmod(path, 0755) != 0)
		return failed("'%s' cannot be written: %s", path, strerror(errno));
	say("wrote %s; its lines", path);
	for (int i = 0; i < s.edit_count; i++)
		say("%s %d", i == 0 ? "" : i + 1 < s.edit_count ? "," : " and", s.edits[i]);
	say(", marked EDIT, depend on the cluster; then: sbatch %s\n", path);
	return DONE;
}
