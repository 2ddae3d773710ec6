/* Names of checkpoint files of a run, and their checks before the work. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "run/run_parts.h"

static tomos_status name_slices(const FileRun *r, int64_t first, int64_t end, char **path)
{
	return mem_printf(path, "%s.%lld-%lld", r->iterative.o.checkpoint, (long long)first,
		(long long)(end - 1));
}

tomos_status slab_checkpoint(const FileRun *r, const Slab *slab, char **path)
{
	if (r->together || (r->slab_count == 1 && !r->iterative.group_files))
		return mem_text(path, r->iterative.o.checkpoint);
	return name_slices(r, slab->first, slab->first + slab->count, path);
}

static bool group_exists(const FileRun *r, int64_t group)
{
	char *path;
	if (name_slices(r, max64(group, r->first_slice),
		    min64(group + GROUP_SLICES, r->first_slice + r->slices), &path) != TOMOS_OK)
		return false;
	bool found = access(path, F_OK) == 0;
	mem_free(path);
	return found;
}

/* Slabs of ranks do not depend on their number, so that any number of them goes on; and so does one
 * process. */
bool checkpoints_in_groups(const FileRun *r)
{
	const tomos_algebraic_options *o = &r->iterative.o;
	int64_t group = r->first_slice / GROUP_SLICES * GROUP_SLICES;
	if (!o->checkpoint || !o->checkpoint[0])
		return false;
	bool several = max64(comm_size(r->comm), r->options.ranks) > 1; /* now, or planned for */
	if (several || !o->resume || access(o->checkpoint, F_OK) == 0)
		return several;
	while (group < r->first_slice + r->slices && !group_exists(r, group))
		group += GROUP_SLICES;
	return group < r->first_slice + r->slices;
}

static tomos_status check_checkpoint(const FileRun *r, const char *path, int64_t *found)
{
	tomos_checkpoint_info info = {.bytes = sizeof info};
	if (access(path, F_OK) != 0)
		return TOMOS_OK;
	(*found)++;
	tomos_status status = tomos_checkpoint_describe(path, &info);
	if (!info.found && status == TOMOS_OK)
		return fail(TOMOS_BAD_FILE, "'%s' exists and is no checkpoint; name another file",
			path);
	if (!r->iterative.o.resume && !r->file_options.overwrite)
		return fail(TOMOS_IO,
			"'%s' is the checkpoint of an earlier run: the option 'resume' goes on "
			"from it, "
			"the option 'overwrite' begins again",
			path);
	return r->iterative.o.resume ? status : TOMOS_OK;
}

/* Checks the checkpoint files before the work: no other file may be overwritten, and no checkpoint
 * lost. */
tomos_status iterative_checkpoints(FileRun *r)
{
	const char *name = r->iterative.o.checkpoint;
	if (!name || !name[0])
		return TOMOS_OK;
	if (r->together && comm_rank(r->comm) > 0) /* all ranks have the same one */
		return TOMOS_OK;
	for (int64_t i = 0; i < r->slab_count; i++) {
		char *path;
		TRY(slab_checkpoint(r, &r->slabs[i], &path));
		tomos_status status = check_checkpoint(r, path, &r->iterative.checkpoints);
		mem_free(path);
		TRY(status);
	}
	return TOMOS_OK;
}

/* Whether a name ends in the slices of a slab, ".0-15", and in nothing else. */
static bool ends_in_slices(const char *end)
{
	size_t first = end[0] == '.' ? strspn(end + 1, "0123456789") : 0;
	size_t last =
		first > 0 && end[first + 1] == '-' ? strspn(end + first + 2, "0123456789") : 0;
	return last > 0 && !end[first + last + 2];
}

/* The first checkpoint of this name that belongs to other slabs; NULL: there is none. */
static tomos_status find_other(const FileRun *r, char **path)
{
	const char *name = r->iterative.o.checkpoint;
	PathParts parts = path_parts(name);
	const char *base = name + parts.directory_length;
	struct dirent **list;
	char *folder;
	*path = NULL;
	if (access(name, F_OK) == 0)
		return mem_text(path, name);
	TRY(mem_printf(&folder, "%.*s", parts.directory_length, name));
	int count = scandir(folder[0] ? folder : ".", &list, NULL, alphasort);
	tomos_status status = TOMOS_OK;
	for (int i = 0; i < count; i++) {
		const char *found = list[i]->d_name;
		if (!*path && status == TOMOS_OK && strncmp(found, base, strlen(base)) == 0 &&
			ends_in_slices(found + strlen(base)))
			status = mem_printf(path, "%s%s", folder, found);
		free(list[i]); /* scandir's own memory */
	}
	if (count >= 0)
		free(list);
	mem_free(folder);
	return status;
}

static tomos_status say_none(const FileRun *r)
{
	char *other;
	TRY(find_other(r, &other));
	tomos_status status =
		other ? job_warn(r->job,
				"the checkpoint '%s' belongs to a run that divided the slices "
				"differently: slices that are not finished begin with the first "
				"iteration",
				other)
		      : job_note(r->job,
				"there is no checkpoint '%s': slices that are not finished "
				"begin with the first iteration",
				r->iterative.o.checkpoint);
	mem_free(other);
	return status;
}

/* A name that is not that of the earlier run is told of, if no rank has found a file. */
tomos_status checkpoints_say(FileRun *r)
{
	const tomos_algebraic_options *o = &r->iterative.o;
	double found = (double)r->iterative.checkpoints;
	if (!r->iterates || r->options.dry_run || !o->checkpoint || !o->checkpoint[0] || !o->resume)
		return TOMOS_OK;
	TRY(comm_sum(r->comm, &found, 1));
	if (found > 0)
		return TOMOS_OK;
	return run_agree(r, say_none(r));
}
