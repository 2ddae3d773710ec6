/* The search for the pose of a detector, for arrays in memory. */
#include <math.h>
#include <string.h>
#include "prep/constant.h"
#include "prep/pose.h"

#define MOST_ROLL 0.035  /* radians that the band of rows allows for */
#define MOSTLY_NOISE 0.3 /* by which projections contradict each other */
#define MOST_ERROR 2     /* columns, of the axis: with more, nothing is sharp */
#define NO_BETTER 1.01   /* times what they did before */
#define EXACT 1e-3       /* of them; smaller contradictions are errors of interpolation */

void pose_band(const Orbit *orbit, int64_t *row, int64_t *rows)
{
	Line line;
	axis_midplane(orbit, orbit->pose, &line);
	double low = fmin(line.row, line.row + line.slope * (double)(orbit->columns - 1));
	double high = fmax(line.row, line.row + line.slope * (double)(orbit->columns - 1));
	double reach = (double)line.reach + 0.05 * (double)orbit->rows +
		       0.5 * MOST_ROLL * (double)orbit->columns * orbit->width / orbit->height;
	double last = (double)(orbit->rows - 1);
	*row = (int64_t)fmin(fmax(floor(low - reach), 0), last);
	*rows = (int64_t)fmin(fmax(ceil(high + reach), 0), last) - *row + 1;
}

bool pose_widen(const Orbit *orbit, int64_t most, int64_t *row, int64_t *rows)
{
	int64_t beside = (most - *rows) / 2;
	if (*rows >= orbit->rows || beside <= 0)
		return false;
	int64_t end = min64(*row + *rows + beside, orbit->rows);
	*row = max64(*row - beside, 0);
	*rows = end - *row;
	return true;
}

tomos_status pose_views(tomos_geometry **scan, const Orbit *orbit, const tomos_pose *found)
{
	double pose[POSE_COUNT];
	memcpy(pose, found->value, sizeof pose);
	pose[POSE_SCALE] /= orbit->detector;
	return orbit_geometry(scan, orbit, pose, found->reversed);
}

tomos_status pose_unknown(const tomos_axis_options *options, unsigned *bits)
{
	static const char *const names[POSE_COUNT] = {
		"axis", "axis-row", "roll", "slant", "swivel", "source-detector"};
	tomos_axis_options o = tomos_axis_defaults();
	TRY(options_take(&o, options, "axis"));
	const char *at = o.unknown ? o.unknown : "";
	*bits = at[0] ? 1u << POSE_AXIS : POSE_ALL;
	for (size_t length; *at; at += length + (at[length] == ',')) {
		int k = 0;
		length = strcspn(at, ",");
		while (k < POSE_COUNT &&
			(strlen(names[k]) != length || strncmp(names[k], at, length) != 0))
			k++;
		if (k == POSE_COUNT)
			return fail(TOMOS_BAD_VALUE,
				"unknown '%.*s' is not a value of the pose: 'axis-row', 'roll', "
				"'slant', 'swivel' or 'source-detector'",
				(int)length, at);
		*bits |= 1u << k;
	}
	return TOMOS_OK;
}

static void take_rows(tomos_array *band, const tomos_array *data, int64_t row, int64_t rows)
{
	*band = *data;
	band->data += row * data->stride[1];
	band->shape[1] = rows;
}

static tomos_status find_in(const Orbit *orbit, tomos_backend *backend, const tomos_array *given,
	const tomos_axis_options *options, const tomos_progress *progress, tomos_pose *pose)
{
	Coarse coarse[COARSE_COUNT] = {{.bin = 0}};
	tomos_array data = *given, band;
	float *repaired;
	int64_t constant, rows = orbit->rows;
	unsigned kept;
	PoseProblem p = {.orbit = orbit, .band = &band, .backend = backend, .progress = progress};
	tomos_status status;
	TRY(pose_unknown(options, &p.unknown));
	TRY(constant_repair(&data, &repaired, &constant));
	if (orbit->rows > 1 && orbit->kind == TOMOS_POINT) {
		TRY_OR_DONE(coarse_scans_begin(coarse, orbit));
		TRY_OR_DONE(coarse_scans_add(coarse, &data, 0));
		TRY_OR_DONE(coarse_scans_finish(coarse));
		p.coarse = coarse;
		pose_band(orbit, &p.row, &rows);
	}
	take_rows(&band, &data, p.row, rows);
	status = pose_find(&p, options, pose, &kept);
	if (status == TOMOS_BAD_VALUE && p.coarse &&
		pose_widen(orbit, 3 * orbit->rows, &p.row, &rows)) {
		take_rows(&band, &data, p.row, rows);
		status = pose_find(&p, options, pose, &kept);
	}
done:
	coarse_scans_free(coarse);
	mem_free(repaired);
	return status;
}

tomos_status tomos_pose_find(tomos_pose *pose, tomos_geometry **fitted, tomos_backend *backend,
	const tomos_array *integrals, const tomos_geometry *scan, const tomos_axis_options *options,
	const tomos_progress *progress)
{
	Orbit orbit;
	tomos_backend *own = NULL;
	tomos_pose found = {.bytes = sizeof found};
	if (fitted)
		*fitted = NULL;
	TRY(struct_give(pose, &found, "tomos_pose"));
	if (!scan)
		return fail(TOMOS_BAD_VALUE, "the scan is missing");
	TRY(array_check(integrals, "the line integrals",
		(int64_t[]){scan->count, scan->rows, scan->columns}, ARRAY_READ));
	TRY(array_finite(integrals, "the array of line integrals", "")); /* all rows count */
	TRY(orbit_take(&orbit, scan));
	tomos_status status = TOMOS_OK;
	if (!(orbit.source > 0))
		status = fail(TOMOS_UNSUPPORTED,
			"the pose of the detector is found for point sources; of parallel rays the "
			"axis is");
	if (status == TOMOS_OK && !backend)
		status = tomos_backend_open(&own, "cpu");
	if (status == TOMOS_OK)
		status = find_in(
			&orbit, backend ? backend : own, integrals, options, progress, &found);
	if (status == TOMOS_OK && fitted)
		status = pose_views(fitted, &orbit, &found);
	tomos_backend_close(own);
	orbit_free(&orbit);
	return status == TOMOS_OK ? struct_give(pose, &found, "tomos_pose") : status;
}

int tomos_pose_doubt(const tomos_pose *given)
{
	tomos_pose pose = {.bytes = sizeof pose};
	if (!given || struct_take(&pose, given, "tomos_pose") != TOMOS_OK)
		return TOMOS_POSE_CERTAIN;
	if (!(pose.error[TOMOS_POSE_AXIS] <= MOST_ERROR) || pose.after > MOSTLY_NOISE)
		return TOMOS_POSE_DISAGREES;
	if (pose.after > NO_BETTER * pose.before &&
		pose.after * pose.after - pose.before * pose.before > EXACT * EXACT)
		return TOMOS_POSE_NO_BETTER;
	return pose.beyond ? TOMOS_POSE_BEYOND : TOMOS_POSE_CERTAIN;
}
