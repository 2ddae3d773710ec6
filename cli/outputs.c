/* Checks of all outputs before the work begins: none may replace an input or another output, and
 * each must be writable. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "cli.h"

static bool same_file(const char *a, const char *b)
{
	struct stat x, y;
	return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* The folder of a path, and its last component without trailing slashes. */
static void split_path(const char *path, char folder[PATH_MAX], const char **name, size_t *length)
{
	size_t end = strlen(path), begin;
	while (end > 1 && path[end - 1] == '/')
		end--;
	for (begin = end; begin > 0 && path[begin - 1] != '/'; begin--)
		;
	*name = path + begin;
	*length = end - begin;
	snprintf(folder, PATH_MAX, "%.*s", begin ? (int)begin : 1, begin ? path : ".");
}

/* Also for files that do not exist yet. */
static bool same_place(const char *a, const char *b)
{
	char one[PATH_MAX], two[PATH_MAX];
	const char *x, *y;
	size_t m, n;
	split_path(a, one, &x, &m);
	split_path(b, two, &y, &n);
	return same_file(a, b) || (m == n && memcmp(x, y, n) == 0 && same_file(one, two));
}

/* Resolves symbolic links: the link is kept, and an output that is an input is detected. */
static int check_target(settings *s, const char **target)
{
	struct stat info;
	if (!*target)
		return DONE;
	for (int i = 0; i < s->operand_count; i++)
		if (s->operands[i] && &s->operands[i] != target &&
			same_file(s->operands[i], *target))
			return wrong_usage("'%s' is the input; write to another file", *target);
	if (lstat(*target, &info) != 0 || !S_ISLNK(info.st_mode))
		return DONE;
	char *real = realpath(*target, NULL);
	if (!real) /* dangling: the link itself is replaced */
		return DONE;
	*target = real;
	return settings_keep(s, real);
}

typedef struct {
	const char *name, *path, *endings; /* required extensions, "a|b"; NULL: any */
	bool written_over; /* replaced without --overwrite: written by an earlier run */
} output;

enum { OUTPUTS = 16 };

/* Options that a command does not have are empty. */
static void outputs_list(const settings *s, const command *c, output list[OUTPUTS])
{
	bool convert = strcmp(c->name, "convert") == 0 && s->operand_count == 2;
	bool image = strcmp(c->name, "show") == 0 || strcmp(c->name, "curves") == 0;
	static const char drawn[] = ".png|.svg";
	const output all[OUTPUTS] = {
		{"-o", s->run.dry_run ? "" : s->output.output, image ? drawn : NULL, false},
		{"--checkpoint", s->algebraic.checkpoint, NULL, true},
		{"--history", s->recon.history, NULL, false},
		{"--plot", s->recon.plot, drawn, false}, {"--plot", s->lambda.plot, drawn, false},
		{"--save-recipe", s->recipe.save_recipe, NULL, false},
		{"--report", s->recon.report, ".html", false},
		{"--sbatch", s->recon.sbatch, NULL, false}, {"--json", s->bench.json, NULL, false},
		{"--by-view", s->bench.by_view, drawn, false},
		{"--draw", s->info.draw, drawn, false},
		{"--geometries", s->bench.geometries, NULL, true},
		{"--sheet", s->center.sweep[0] ? s->center.sheet : "", drawn, false},
		{"--picture", s->center.picture, drawn, false},
		{"--save", s->center.save, ".json", false},
		{"output", convert ? s->operands[1] : "", NULL, false}};
	memcpy(list, all, sizeof all);
}

/* Files that options name to be read. */
static const char *input_path(const settings *s, int i)
{
	const file_array *mask = (const file_array *)s->algebraic.mask;
	const file_array *rays = (const file_array *)s->algebraic.ray_weights;
	const file_array *truth = (const file_array *)s->algebraic.truth;
	const char *const list[] = {mask ? mask->path : "", rays ? rays->path : "",
		truth ? truth->path : "", s->recon.start, s->recon.compare, s->source.flats,
		s->source.darks, s->views.views_file, s->stored.matrix, s->recipe.recipe};
	return i < COUNT(list) ? list[i] : NULL;
}

static int check_inputs(const settings *s, const output *list)
{
	for (int i = 0; i < OUTPUTS; i++)
		for (int k = 0; list[i].path[0] && input_path(s, k); k++)
			if (input_path(s, k)[0] && same_file(input_path(s, k), list[i].path))
				return wrong_usage(
					"%s: '%s' is an input, too; write to another file",
					list[i].name, list[i].path);
	return DONE;
}

static int check_apart(const settings *s, const output *list)
{
	for (int i = 1; i < OUTPUTS - 1; i++) {
		const char *path = list[i].path;
		for (int k = 0; path[0] && k < s->operand_count; k++)
			if (s->operands[k] && same_file(s->operands[k], path))
				return wrong_usage("%s: '%s' is the input; write to another file",
					list[i].name, path);
		for (int k = 0; path[0] && k < i; k++)
			if (list[k].path[0] && same_place(list[k].path, path))
				return wrong_usage("%s and %s both name '%s'; write to another "
						   "file",
					list[k].name, list[i].name, path);
	}
	return DONE;
}

static bool ends_so(const char *path, const char *endings)
{
	const char *dot = strrchr(path, '.');
	return dot && name_in(endings, dot, strlen(dot));
}

static int check_one(const settings *s, const output *o)
{
	if (!o->path[0])
		return DONE;
	if (o->endings && !ends_so(o->path, o->endings))
		return wrong_usage("'%s' must end in %s", o->path,
			strchr(o->endings, '|') ? ".png or .svg" : o->endings);
	return lib(tomos_output_check(o->path, o->written_over || s->file.overwrite));
}

int outputs_check(settings *s, const command *c)
{
	output list[OUTPUTS];
	int code;
	if (row_used(c, GROUP_output, 0) && s->output.output[0])
		DO(check_target(s, &s->output.output));
	if (strcmp(c->name, "convert") == 0 && s->operand_count == 2)
		DO(check_target(s, &s->operands[1]));
	outputs_list(s, c, list);
	DO(check_apart(s, list));
	DO(check_inputs(s, list));
	for (int i = 0; i < OUTPUTS; i++)
		DO(check_one(s, &list[i]));
done:
	return code;
}
