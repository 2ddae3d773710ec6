/* The pose of the detector of prepared projections, from all of their rows. */
#include <stdio.h>
#include <string.h>
#include "prep/constant.h"
#include "prep/pose.h"
#include "run/run.h"

#define MOST_FLOATS ((int64_t)32 << 20) /* of the rows read at once */
#define MOST_WIDE ((int64_t)256 << 20)  /* of those about the midplane */

static tomos_status read_rows(tomos_prepared *p, int64_t row, int64_t rows, tomos_array *array,
	const tomos_progress *progress)
{
	const tomos_geometry *g = p->geometry;
	const int64_t shape[3] = {g->count, rows, g->columns};
	int64_t count, constant;
	float *data, *repaired = NULL;
	TRY(shape_count(shape, &count));
	TRY(mem_alloc(&data, count, sizeof *data, "rows to find the geometry in"));
	*array = tomos_array_of(data, shape[0], rows, shape[2]);
	tomos_status status = tomos_prepared_read(p, row, rows, data, NULL, progress);
	if (status == TOMOS_OK)
		status = constant_repair(array, &repaired, &constant);
	if (status != TOMOS_OK || repaired)
		mem_free(data);
	if (status != TOMOS_OK)
		array->data = NULL;
	return status;
}

static tomos_status read_coarse(tomos_prepared *p, const Orbit *orbit, Coarse coarse[COARSE_COUNT],
	const tomos_progress *progress)
{
	int64_t most = max64(MOST_FLOATS / (orbit->views * orbit->columns), 1);
	TRY(coarse_scans_begin(coarse, orbit));
	for (int64_t row = 0; row < orbit->rows; row += most) {
		tomos_array part;
		TRY(read_rows(p, row, min64(most, orbit->rows - row), &part, progress));
		tomos_status status = coarse_scans_add(coarse, &part, row);
		mem_free(part.data);
		TRY(status);
	}
	return coarse_scans_finish(coarse);
}

/* As columns and rows of the scan. */
static void in_pixels_of_scan(const tomos_prepared *p, tomos_pose *pose)
{
	double bin = (double)p->bin, *value = pose->value;
	value[TOMOS_POSE_AXIS] = prepared_column(p, value[TOMOS_POSE_AXIS]);
	value[TOMOS_POSE_AXIS_ROW] =
		(value[TOMOS_POSE_AXIS_ROW] + (double)p->first_row + 0.5) * bin - 0.5;
	pose->error[TOMOS_POSE_AXIS] *= bin;
	pose->error[TOMOS_POSE_AXIS_ROW] *= bin;
}

static tomos_status find_pose(tomos_prepared *p, tomos_backend *backend, const Orbit *orbit,
	tomos_pose *pose, unsigned *kept, const tomos_progress *progress)
{
	Coarse coarse[COARSE_COUNT] = {{.bin = 0}};
	tomos_array band = {.data = NULL};
	PoseProblem problem = {
		.orbit = orbit, .band = &band, .unknown = p->unknown, .backend = backend};
	tomos_axis_options o = p->axis;
	double range[2];
	int64_t rows = orbit->rows;
	tomos_status status;
	for (int i = 0; i < 2 && o.axis_range_count == 2; i++)
		range[i] =
			(p->axis_range[i] - (double)p->first_column + 0.5) / (double)p->bin - 0.5;
	o.axis_range = o.axis_range_count == 2 ? range : NULL;
	problem.progress = progress;
	if (rows > 1 && orbit->kind == TOMOS_POINT) {
		TRY_OR_DONE(read_coarse(p, orbit, coarse, progress));
		problem.coarse = coarse;
		pose_band(orbit, &problem.row, &rows);
	}
	TRY_OR_DONE(read_rows(p, problem.row, rows, &band, progress));
	status = pose_find(&problem, &o, pose, kept);
	if (status == TOMOS_BAD_VALUE && problem.coarse &&
		pose_widen(
			orbit, MOST_WIDE / (orbit->views * orbit->columns), &problem.row, &rows)) {
		mem_free(band.data);
		band.data = NULL;
		TRY_OR_DONE(read_rows(p, problem.row, rows, &band, progress));
		status = pose_find(&problem, &o, pose, kept);
	}
done:
	coarse_scans_free(coarse);
	mem_free(band.data);
	return status;
}

/* Values as given that the scan agrees with. */
static tomos_status say_kept(tomos_prepared *p, unsigned kept)
{
	static const char *const names[] = {
		"axis", "axis-row", "roll", "slant", "swivel", "source-detector"};
	char list[80] = "";
	mem_free(p->note);
	mem_free(p->warning);
	p->note = p->warning = NULL;
	for (int k = 0; k < POSE_COUNT; k++)
		if (kept >> k & 1)
			snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s",
				list[0] ? ", " : "", names[k]);
	return list[0] ? mem_printf(&p->note,
				 "as given, since the scan says the same within twice its standard "
				 "error: %s",
				 list)
		       : TOMOS_OK;
}

tomos_status tomos_prepared_pose(
	tomos_prepared *p, tomos_backend *backend, tomos_pose *pose, const tomos_progress *progress)
{
	Orbit orbit;
	tomos_geometry *fitted = NULL;
	tomos_pose found = {.bytes = sizeof found};
	unsigned kept = 0;
	tomos_status status;
	TRY(struct_give(pose, &found, "tomos_pose"));
	TRY(orbit_take(&orbit, p->geometry));
	if (!(orbit.source > 0))
		TRY_OR_DONE(fail(TOMOS_UNSUPPORTED,
			"'%s' has parallel rays; the pose of the detector is found for fan and "
			"cone "
			"beams",
			p->scan->path));
	TRY_OR_DONE(find_pose(p, backend, &orbit, &found, &kept, progress));
	TRY_OR_DONE(say_kept(p, kept));
	TRY_OR_DONE(pose_views(&fitted, &orbit, &found));
	tomos_geometry_free(p->geometry);
	p->geometry = fitted;
	p->reversed ^= found.reversed != 0;
	in_pixels_of_scan(p, &found);
	status = struct_give(pose, &found, "tomos_pose");
done:
	orbit_free(&orbit);
	return status;
}
