/* Volumes given beside the scan (start, mask, truth, one to compare with): what does not fit. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "run/run_parts.h"

static tomos_status say_grid(const FileRun *r, const tomos_file *file)
{
	tomos_file_info info = {.bytes = sizeof info};
	tomos_grid theirs, ours = r->grid;
	bool same = true;
	ours.first[2] += (double)r->first_slice * ours.step[2];
	TRY(tomos_file_describe(file, &info));
	if (!info.has_grid)
		return TOMOS_OK;
	TRY(tomos_file_grid(file, &theirs));
	for (int i = 0; i < 3; i++) {
		double near = 1e-3 * fabs(ours.step[i]), first = ours.first[i] - theirs.first[i];
		double step = ours.step[i] - theirs.step[i];
		same = same && fabs(first) <= near &&
		       fabs(first + step * (double)(theirs.n[i] - 1)) <= near;
	}
	if (same)
		return TOMOS_OK;
	return job_warn(r->job,
		"the voxels of '%s' are %g x %g x %g, the first at (%g, %g, %g); those of "
		"the reconstruction are %g x %g x %g, the first at (%g, %g, %g): they are matched "
		"by their indices",
		file->path, theirs.step[0], theirs.step[1], theirs.step[2], theirs.first[0],
		theirs.first[1], theirs.first[2], ours.step[0], ours.step[1], ours.step[2],
		ours.first[0], ours.first[1], ours.first[2]);
}

/* Values of other units are compared as numbers; those of an unknown unit are taken as
 * attenuation. */
static tomos_status say_unit(const FileRun *r, const File *file)
{
	const char *theirs = file->units.value, *length = r->prepared->unit;
	char ours[UNIT_NAME + 2] = "";
	if (r->options.hu_count > 0 && !theirs[0])
		return job_warn(r->job,
			"'%s' does not say its unit: taken as attenuation, and converted "
			"to Hounsfield units where they are compared",
			file->path);
	if (length[0])
		snprintf(ours, sizeof ours, "1/%s", length);
	if (!theirs[0] || !ours[0] || strcmp(theirs, "HU") == 0 || strcmp(theirs, ours) == 0)
		return TOMOS_OK;
	return job_warn(r->job,
		"'%s' is in %s, and the reconstruction in %s: their values differ by the "
		"ratio of the units",
		file->path, theirs, ours);
}

static tomos_status check_truth(const FileRun *r, const File *file)
{
	if (strcmp(file->units.value, "HU") == 0 && r->options.hu_count == 0)
		return fail(TOMOS_BAD_FILE,
			"'%s' is in Hounsfield units, and the reconstruction is not; give the "
			"option 'hu'",
			file->path);
	return say_unit(r, file);
}

tomos_status job_say_gap(const tomos_job *job, const File *file)
{
	int64_t number;
	char after[304];
	TRY(tomos_file_gap(file, &number, after, sizeof after));
	if (number < 0)
		return TOMOS_OK;
	return job_warn(job,
		"number %lld is missing %s%s'; the files are used as if they were "
		"complete",
		(long long)number, after[0] ? "after '" : "in '", after[0] ? after : file->path);
}

tomos_status run_check_volume(const FileRun *r, const File *file, bool truth)
{
	TRY(truth ? check_truth(r, file) : TOMOS_OK);
	return say_grid(r, file);
}

tomos_status run_check_numbers(const tomos_array *array, const char *path)
{
	char reason[512];
	tomos_status status = tomos_array_check(array, path);
	if (status != TOMOS_BAD_VALUE) /* for instance cancelled */
		return status;
	snprintf(reason, sizeof reason, "%s", tomos_message());
	return fail(TOMOS_BAD_FILE, "%s", reason);
}
