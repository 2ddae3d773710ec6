/* Rejects options that have no effect without others, according to the needs of their rows. */
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include "cli.h"

static bool is_folder(const char *path)
{
	struct stat info;
	return ends_with(path, "/") || (stat(path, &info) == 0 && S_ISDIR(info.st_mode));
}

/* Without -o, recon writes a folder. */
static void output_facts(settings *s, const command *c)
{
	const char *path = s->output.output;
	size_t used = strlen(s->facts);
	if (strcmp(c->name, "convert") == 0 && s->operand_count == 2)
		path = s->operands[1];
	const char *format = tomos_output_format(path);
	bool zarr = strcmp(format, "zarr") == 0;
	s->folder = !path[0] || (is_folder(path) && !zarr);
	snprintf(s->facts + used, sizeof s->facts - used, " hdf5=%d store=%d folder=%d",
		strcmp(format, "hdf5") == 0, zarr, s->folder);
}

/* Facts known to the command besides the values of options. */
static void take_facts(settings *s, const command *c)
{
	const char *method = "", *phantom = "none";
	if (word_has(c->operands, "phantom") && s->operand_count > 0 &&
		phantom_is_name(s->operands[0]))
		phantom = s->operands[0];
	if (strcmp(c->name, "recon") == 0)
		method = s->recon.method[0] ? s->recon.method : "fbp";
	if (strcmp(c->name, "lambda") == 0) {
		method = s->lambda.method;
		phantom = s->lambda.phantom[0] ? s->lambda.phantom : phantom;
	}
	snprintf(s->facts, sizeof s->facts,
		"method=%s phantom=%.60s backend=%.*s text_views=%d xml_views=%d ranks=%lld "
		"fit=%d",
		method, phantom, (int)strcspn(s->backend.backend, ":"), s->backend.backend,
		ends_with(s->views.views_file, ".txt"), ends_with(s->views.views_file, ".xml"),
		(long long)s->run.ranks, s->center.fit != 0);
	if (s->recon.compare[0])
		snprintf(s->facts + strlen(s->facts), sizeof s->facts - strlen(s->facts),
			" truth=1");
	s->of_scan = word_has("recon prep center", c->name);
	output_facts(s, c);
}

static const void *group_values(const settings *s, int number)
{
	return (const char *)s + group_get(number).offset;
}

static bool row_met(const settings *s, int number, int i, const char *facts)
{
	group g = group_get(number);
	uint64_t bit = (uint64_t)1 << i;
	return tomos_option_unmet(g.rows, g.count, group_values(s, number), &bit, facts) < 0;
}

bool needs_met(const settings *s, int number, int i)
{
	return row_met(s, number, i, s->facts);
}

/* Options of other methods are rejected later, with another message. */
static bool of_the_method(const settings *s, int number, int i)
{
	char method[64] = "";
	if (number == GROUP_scan && s->of_scan) /* may depend on the file: see needs_scan */
		return false;
	if (sscanf(s->facts, "method=%63[^ ]", method) != 1)
		return true;
	bool analytic = !tomos_method_uses(method, "iterations");
	if (number == GROUP_algebraic)
		return tomos_method_uses(method, group_get(number).rows[i].name);
	return number == GROUP_analytic ? analytic : number != GROUP_projector || !analytic;
}

static bool is_asked(const settings *s, int number, int i)
{
	return s->given[number] >> i & 1 && of_the_method(s, number, i);
}

/* Whether an option of the same name in another group has an effect. */
static bool met_elsewhere(const settings *s, int number, const char *name)
{
	for (int other = 0; other < GROUP_COUNT; other++) {
		group g = group_get(other);
		for (int i = 0; other != number && i < g.count; i++)
			if (strcmp(g.rows[i].name, name) == 0 && is_asked(s, other, i) &&
				needs_met(s, other, i))
				return true;
	}
	return false;
}

/* Lists everything that would give the option an effect, in all groups that have it. */
static int reject(const settings *s, const char *name)
{
	char shown[64], words[512] = "", one[256];
	for (int number = 0; number < GROUP_COUNT; number++) {
		group g = group_get(number);
		for (int i = 0; i < g.count; i++) {
			if (strcmp(g.rows[i].name, name) != 0 || !is_asked(s, number, i))
				continue;
			size_t used = strlen(words);
			tomos_option_needs(&g.rows[i], 1, one, sizeof one);
			snprintf(
				words + used, sizeof words - used, "%s%s", used ? " or " : "", one);
		}
	}
	name_shown(name, shown);
	return wrong_usage("--%s has no effect without %s", shown, words);
}

static bool is_repeated(const settings *s, const settings *plain, int number, int i)
{
	return !(s->typed[number] >> i & 1) && row_silent(s, plain, number, i);
}

/* Resets an option without effect if it is a default repeated by a recipe, or if an option of the
 * same name in another group has an effect; otherwise rejects it. */
static int drop_or_reject(settings *s, const settings *plain, int number, int i)
{
	group g = group_get(number);
	if (!is_repeated(s, plain, number, i) && !met_elsewhere(s, number, g.rows[i].name))
		return reject(s, g.rows[i].name);
	row_reset(s, plain, number, i);
	s->given[number] &= ~((uint64_t)1 << i);
	return DONE;
}

int needs_check(settings *s, const command *c)
{
	settings plain;
	int code = DONE;
	settings_init(&plain);
	take_facts(s, c);
	for (int number = 0; number < GROUP_COUNT && code == DONE; number++)
		for (int i = 0; i < group_get(number).count && code == DONE; i++)
			if (is_asked(s, number, i) && !needs_met(s, number, i))
				code = drop_or_reject(s, &plain, number, i);
	settings_free(&plain);
	return code;
}

uint64_t settings_rows(const settings *s, int number)
{
	settings plain;
	uint64_t rows = s->given[number];
	settings_init(&plain);
	for (int i = 0; i < group_get(number).count; i++)
		if (is_repeated(s, &plain, number, i))
			rows &= ~((uint64_t)1 << i);
	settings_free(&plain);
	return rows;
}

static int check_group(const settings *s, int number, const char *facts)
{
	char words[256], shown[64];
	group g = group_get(number);
	uint64_t rows = settings_rows(s, number);
	int i = tomos_option_unmet(g.rows, g.count, group_values(s, number), &rows, facts);
	if (i < 0)
		return DONE;
	tomos_option_needs(&g.rows[i], 1, words, sizeof words);
	name_shown(g.rows[i].name, shown);
	return wrong_usage("--%s has no effect without %s%s%s%s", shown, words,
		number == GROUP_prep ? ", and '" : "", number == GROUP_prep ? s->operands[0] : "",
		number == GROUP_prep ? "' has none" : "");
}

int needs_scan(const settings *s, const tomos_scan *scan)
{
	char facts[128];
	tomos_scan_facts(scan, facts, sizeof facts);
	int code = check_group(s, GROUP_prep, facts);
	return code == DONE ? check_group(s, GROUP_scan, facts) : code;
}
