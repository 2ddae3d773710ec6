/* What is said of the rotation axis of prepared projections: where it is from, and doubts. */
#include <stdio.h>
#include <string.h>
#include "run/run.h"

tomos_status axis_warn_contradicted(tomos_prepared *p)
{
	if (p->by_reverse)
		return mem_printf(&p->warning,
			"opposite rays agree only without the option 'reverse', which is kept: the "
			"volume will be blurred");
	if (p->by_views)
		return mem_printf(&p->warning,
			"opposite rays agree only if the rotation is the reverse of that of the "
			"views, which is kept: the volume will be blurred, unless the views are in "
			"another order than those of '%s'; the option 'direction' auto negates the "
			"angles",
			p->scan->path);
	return mem_printf(&p->warning,
		"opposite rays agree only if the rotation is the reverse of that of '%s', "
		"which is kept: the volume will be blurred; the option "
		"'direction' auto negates the angles, and %s the option 'flip' columns the "
		"frames are %smirrored",
		p->scan->path, p->scan->mirrored ? "without" : "with",
		p->scan->mirrored ? "not " : "");
}

tomos_status axis_warn_elsewhere(tomos_prepared *p, double column, double said)
{
	if (p->by_views)
		return mem_printf(&p->warning,
			"opposite rays agree best with the axis at column %.2f; the views have it "
			"at %.2f, which is kept: the volume may be blurred; are these the views of "
			"'%s'?",
			column, said, p->scan->path);
	return mem_printf(&p->warning,
		"opposite rays agree best with the axis at column %.2f; '%s' says %.2f, which is "
		"kept: the volume may be blurred; the option 'axis' %.2f takes the other one",
		column, p->scan->path, said, column);
}

/* What to do about a result that is not certain. */
static tomos_status warn_doubt(tomos_prepared *p, const tomos_axis *axis)
{
	const double results[] = {axis->pairs, axis->vo, axis->sharpness};
	static const char *const names[] = {"pairs", "vo", "sharpness"};
	double from, to, step, last = (double)(p->info.columns - 1);
	char list[120] = "";
	if (axis->contradicted)
		return axis_warn_contradicted(p);
	if (!tomos_axis_doubt(axis, &from, &to, &step))
		return TOMOS_OK;
	for (int i = 0; i < COUNT(results); i++)
		if (!isnan(results[i]))
			snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s %.2f",
				list[0] ? ", " : "", names[i], results[i]);
	if (prepared_is_tilted(p))
		return mem_printf(
			&p->warning, "the axis is uncertain (%s); the option 'axis' sets it", list);
	if (axis->at_edge)
		return mem_printf(&p->warning,
			"the axis may be outside the range %g to %g that was searched (%s); give "
			"another one with the option 'axis-range', or the column with the option "
			"'axis'",
			axis->low, axis->high, list);
	return mem_printf(&p->warning,
		"the axis is uncertain (%s); compare slices with 'tomos center %s --sweep "
		"%g:%g:%g' and "
		"the options of this run",
		list, p->scan->path, from, fmin(to, last), step);
}

tomos_status axis_warn_tilted(tomos_prepared *p)
{
	return mem_printf(&p->warning,
		"opposite rays agree far better with a detector that is rolled or "
		"swivelled; 'tomos center %s --fit' and the options of this run find by how much",
		p->scan->path);
}

tomos_status axis_say_found(tomos_prepared *p, int64_t row, int64_t rows, const tomos_axis *axis)
{
	char error[40] = "";
	if (!isnan(axis->error))
		snprintf(error, sizeof error, "standard error %.2g, ", axis->error);
	TRY(warn_doubt(p, axis));
	const char *word = p->warning ? "uncertain" : "certain";
	if (axis->tilted && !p->warning)
		TRY(axis_warn_tilted(p));
	return mem_printf(&p->note,
		"axis      column %.2f, found in rows %lld to %lld, %s%s (confidence %.2f)%s",
		axis->column, (long long)(row * p->bin), (long long)((row + rows) * p->bin - 1),
		error, word, axis->confidence,
		axis->reversed ? "; the angles are negated: opposite rays agree only if the "
				 "rotation is reversed (the option 'direction' given keeps them)"
			       : "");
}

tomos_status axis_say_not_found(tomos_prepared *p)
{
	char reason[320], fit[400] = "";
	snprintf(reason, sizeof reason, "%.300s", tomos_message());
	if (view_has_source(&p->geometry->views[0]) && p->geometry->rows > 1)
		snprintf(fit, sizeof fit, "'tomos center %.300s --fit' looks at all rows, ",
			p->scan->path);
	TRY(mem_printf(&p->warning, "the axis could not be found (%s); %sthe option 'axis' sets it",
		reason, fit));
	p->assumed = true;
	return mem_printf(&p->note, "axis      column %.2f, the middle of the detector",
		0.5 * (double)(p->info.columns - 1));
}

/* The axis of a helix is not searched for, and is taken to be in the middle. */
tomos_status axis_say_middle(tomos_prepared *p, const tomos_job *job)
{
	const char *kind = job->geometry ? job->geometry->geometry : "";
	if (strcmp(kind, "helix") != 0)
		return TOMOS_OK;
	p->assumed = true;
	return mem_printf(&p->note,
		"axis      column %.2f, the middle of the detector: of a helix it is not searched "
		"for; the option 'axis' sets it",
		0.5 * (double)(p->info.columns - 1));
}

/* An axis that the scanner's file says, before what was found of the direction. */
tomos_status axis_say_of_file(tomos_prepared *p)
{
	char *direction = p->note;
	p->note = NULL;
	tomos_status status =
		mem_printf(&p->note, "axis      column %.2f, from '%s'%s%s", p->scan->setup.axis,
			p->scan->path, direction ? "; " : "", direction ? direction : "");
	mem_free(direction);
	return status;
}

tomos_status axis_say_no_direction(tomos_prepared *p)
{
	return mem_printf(&p->warning,
		"the direction of rotation could not be found (%.300s): it is that of the angles",
		tomos_message());
}
