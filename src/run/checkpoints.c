/* Names of checkpoint files of a run, and their checks before the work. */
#include <unistd.h>
#include "run/run_parts.h"

tomos_status slab_checkpoint(const FileRun *r, const Slab *slab, char **path)
{
	const char *name = r->iterative.o.checkpoint;
	if (r->together || (r->slab_count == 1 && comm_size(r->comm) == 1))
		return mem_text(path, name);
	return mem_printf(path, "%s.%lld-%lld", name, (long long)slab->first,
		(long long)(slab->first + slab->count - 1));
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
 * lost. A name that is not that of the earlier run is told of. */
tomos_status iterative_checkpoints(FileRun *r)
{
	const char *name = r->iterative.o.checkpoint;
	int64_t found = 0;
	if (!name || !name[0])
		return TOMOS_OK;
	if (r->together && comm_rank(r->comm) > 0) /* all ranks have the same one */
		return TOMOS_OK;
	for (int64_t i = 0; i < r->slab_count; i++) {
		char *path;
		TRY(slab_checkpoint(r, &r->slabs[i], &path));
		tomos_status status = check_checkpoint(r, path, &found);
		mem_free(path);
		TRY(status);
	}
	if (!r->iterative.o.resume || found > 0 || comm_rank(r->comm) > 0)
		return TOMOS_OK;
	return job_say(r->job,
		"note: there is no checkpoint '%s': slices that are not finished begin with the "
		"first iteration",
		name);
}
