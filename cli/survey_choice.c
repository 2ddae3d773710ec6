/* The geometries of the survey that a command is given, and files with them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "bench.h"

#define CPU_SCALE 0.25 /* of the sizes in survey.def, which are for a GPU */

static bool is_family(const char *name)
{
	int count;
	const survey_row *list = survey_list(&count);
	for (int i = 0; i < count; i++)
		if (strcmp(list[i].family, name) == 0)
			return true;
	return false;
}

static bool is_known(const char *name)
{
	return is_family(name) || name_in(survey_names(), name, strlen(name));
}

int survey_missing(const char *name)
{
	if (!is_known(name))
		return DONE;
	return wrong_usage("'%s' is %s of the survey; it needs --survey", name,
		is_family(name) ? "a family of geometries" : "a geometry");
}

static int check_name(const char *name)
{
	if (is_known(name))
		return DONE;
	const char *nearest = tomos_name_nearest(survey_names(), name);
	return wrong_usage("unknown geometry '%s'; %s%s", name,
		nearest[0] ? "nearest: " : "see 'tomos bench --survey --list'", nearest);
}

static bool is_chosen(const settings *s, const survey_row *row)
{
	for (int i = 0; i < s->operand_count; i++)
		if (strcmp(s->operands[i], row->name) == 0 ||
			strcmp(s->operands[i], row->family) == 0)
			return true;
	return s->operand_count == 0;
}

int survey_choose(const settings *s, const survey_row ***rows, int *count)
{
	int all, code = DONE;
	const survey_row *list = survey_list(&all);
	*count = 0;
	*rows = NULL;
	for (int i = 0; i < s->operand_count && code == DONE; i++)
		code = check_name(s->operands[i]);
	if (code != DONE)
		return code;
	*rows = malloc((size_t)all * sizeof(const survey_row *));
	if (!*rows)
		return failed("no memory for %d geometries", all);
	for (int i = 0; i < all; i++)
		if (is_chosen(s, &list[i]))
			(*rows)[(*count)++] = &list[i];
	return DONE;
}

double survey_scale(double asked, const tomos_backend *backend)
{
	bool cpu = backend && strncmp(tomos_backend_describe(backend), "cpu", 3) == 0;
	return asked > 0 ? asked : cpu ? CPU_SCALE : 1;
}

int survey_check_scale(double scale)
{
	if (scale == 0 || (scale >= 0.01 && scale <= 16))
		return DONE;
	return wrong_usage("--scale: %g is not between 0.01 and 16", scale);
}

int survey_get(const survey_row *row, double scale, tomos_grid *grid, tomos_geometry **scan)
{
	tomos_status status = survey_make(row, scale, grid, scan);
	return status == TOMOS_NO_MEMORY ? failed("no memory for the views of %s", row->name)
					 : lib(status);
}

int survey_print(void)
{
	int count;
	const survey_row *list = survey_list(&count);
	for (int i = 0; i < count; i++)
		printf("%-8s %-24s %s\n", list[i].family, list[i].name, list[i].about);
	return DONE;
}

static void print_grid(FILE *file, const survey_row *row, const tomos_grid *grid)
{
	fprintf(file, "%s %s", row->name, row->family);
	for (int a = 0; a < 3; a++)
		fprintf(file, " %lld", (long long)grid->n[a]);
	for (int a = 0; a < 3; a++)
		fprintf(file, " %.17g", grid->step[a]);
	for (int a = 0; a < 3; a++)
		fprintf(file, " %.17g", grid->first[a]);
	fprintf(file, "\n");
}

static int save_row(const settings *s, const survey_row *row, FILE *grids)
{
	char path[4096];
	tomos_geometry *scan = NULL;
	tomos_grid grid;
	int code;
	snprintf(path, sizeof path, "%s/%s.json", s->bench.geometries, row->name);
	DO(survey_get(row, survey_scale(s->bench.scale, NULL), &grid, &scan));
	DO(lib(tomos_geometry_write(scan, path, &s->file)));
	print_grid(grids, row, &grid);
done:
	tomos_geometry_free(scan);
	return code;
}

int survey_save(const settings *s)
{
	char path[4096];
	const survey_row **rows = NULL;
	int count, code;
	bool bad = false;
	DO(survey_choose(s, &rows, &count));
	snprintf(path, sizeof path, "%s/grids.txt", s->bench.geometries);
	bad = mkdir(s->bench.geometries, 0777) != 0 && errno != EEXIST;
	FILE *grids = bad ? NULL : fopen(path, s->file.overwrite ? "w" : "wx");
	if (!grids) {
		code = failed("'%s' cannot be written: %s", path, strerror(errno));
		goto done;
	}
	for (int i = 0; i < count && code == DONE; i++)
		code = save_row(s, rows[i], grids);
	bad = ferror(grids) != 0;
	bad |= fclose(grids) != 0;
	if (code == DONE && bad)
		code = failed("'%s' cannot be written: %s", path, strerror(errno));
	if (code == DONE)
		say("wrote %d geometries to %s\n", count, s->bench.geometries);
done:
	free(rows);
	return code;
}
