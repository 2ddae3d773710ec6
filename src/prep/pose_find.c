/* The pose of the detector of a fan or cone beam: axis, swivel and distance from opposite rays of
 * the midplane; vertical centre, roll and slant, which tilt that plane, from all rows. The two are
 * repeated in turn. */
#include <math.h>
#include <string.h>
#include "prep/pose.h"

enum { ROUNDS = 5, MOST_COLUMNS = 512 };
#define MOST_ROLL 0.035 /* radians that the band of rows allows for */
/* Values whose standard error is larger are not determined by the scan: radians, and parts. */
#define LOOSE_ANGLE 0.01
#define LOOSE_SCALE 0.01
/* Errors that all parts of the data have in common, from the averaged pixels: parts of such a pixel
 * at the edge of the detector, and for the vertical centre and the slant what that amounts to. */
#define COMMON 0.02
#define COMMON_AXIS 0.01 /* columns of the scan */
#define COMMON_ROW 0.15
#define COMMON_SLANT 0.002

enum { FAN_VALUES = 1u << POSE_AXIS | 1u << POSE_SWIVEL | 1u << POSE_SCALE };

typedef struct {
	const PoseProblem *problem;
	double pose[POSE_COUNT], error[POSE_COUNT];
	bool reversed;
	bool no_slant;  /* the scan does not determine it */
	bool axis_only; /* what tilts the midplane is not known, nor what depends on that */
	double before, after;
} Search;

static double deviation(double variance)
{
	return variance > 0 ? sqrt(variance) : 0;
}

/* ---- the midplane ---------------------------------------------------------------------------- */

static unsigned tight(const PairFit *fit)
{
	unsigned free = 1u << PAIR_AXIS;
	if (deviation(fit->covariance[PAIR_SWIVEL][PAIR_SWIVEL]) < LOOSE_ANGLE)
		free |= 1u << PAIR_SWIVEL;
	if (deviation(fit->covariance[PAIR_SCALE][PAIR_SCALE]) < LOOSE_SCALE)
		free |= 1u << PAIR_SCALE;
	return free;
}

/* Fits what the pairs determine; the other values stay. */
static tomos_status fit_pairs(const Search *s, const Opposite *pairs, PairFit *fit)
{
	const Orbit *o = s->problem->orbit;
	double distance = o->detector / o->width, sign = s->reversed ? -o->mirror : o->mirror;
	const PairFit start = {.value = {s->pose[POSE_AXIS], o->mirror * s->pose[POSE_SWIVEL],
				       s->pose[POSE_SCALE]}};
	unsigned free = s->axis_only ? 1u << PAIR_AXIS : 7, kept;
	do {
		*fit = start;
		TRY(opposite_fit(pairs, distance, sign, free, fit));
		kept = fit->solved ? tight(fit) & free : 1u << PAIR_AXIS;
		if (kept == free || free == 1u << PAIR_AXIS)
			break;
		free = kept;
	} while (true);
	for (int k = 0; k < PAIR_COUNT; k++)
		if (!(free >> k & 1))
			fit->covariance[k][k] = NAN;
	return TOMOS_OK;
}

static tomos_status fit_midplane(Search *s)
{
	static const int values[PAIR_COUNT] = {POSE_AXIS, POSE_SWIVEL, POSE_SCALE};
	const PoseProblem *p = s->problem;
	const Orbit *o = p->orbit;
	AxisProblem rows = {.data = p->band, .angles = o->angles, .orbit = o};
	Opposite pairs;
	PairFit fit;
	Line line;
	axis_midplane(o, s->pose, &line);
	line.row -= (double)p->row;
	if (p->band->shape[1] == 1)
		line = (Line){.row = 0};
	TRY(opposite_make(&pairs, &rows, &line, MOST_COLUMNS));
	tomos_status status = fit_pairs(s, &pairs, &fit);
	opposite_free(&pairs);
	if (status != TOMOS_OK || !fit.solved)
		return status;
	fit.value[PAIR_SWIVEL] *= o->mirror;
	for (int k = 0; k < PAIR_COUNT; k++) {
		s->error[values[k]] =
			hypot(sqrt(fit.covariance[k][k]), k == PAIR_AXIS ? COMMON_AXIS : 0);
		s->pose[values[k]] = fit.value[k];
	}
	if (!p->coarse || s->axis_only)
		s->before = s->after = fit.residual;
	return TOMOS_OK;
}

/* ---- all rows -------------------------------------------------------------------------------- */

/* The largest step of a value: the residual is far from linear in the slant. */
static double largest_step(int value, const Orbit *coarse)
{
	return value == POSE_ROW ? 0.1 * (double)coarse->rows : value == POSE_ROLL ? 0.1 : 0.05;
}

static double common_error(int value, const Orbit *coarse)
{
	return value == POSE_ROW    ? COMMON_ROW
	       : value == POSE_ROLL ? 2 * COMMON / (double)coarse->columns
				    : COMMON_SLANT;
}

static tomos_status fit_rows(Search *s, int round, double *moved)
{
	const Coarse *c = s->problem->coarse;
	unsigned free = 1u << POSE_ROW | 1u << POSE_ROLL |
			(round < 1 || s->no_slant ? 0 : 1u << POSE_SLANT);
	double pose[POSE_COUNT];
	PoseStep step;
	coarse_pose(c, s->pose, pose);
	TRY(pose_step(c, s->problem->backend, pose, s->reversed, free, &step));
	s->before = round == 0 ? step.residual : s->before;
	s->after = step.residual;
	*moved = 0;
	if (!step.solved)
		return TOMOS_OK;
	for (int k = 0; k < POSE_COUNT; k++) {
		double most = largest_step(k, &c->orbit);
		double by = fmin(fmax(step.step[k], -most), most);
		if (!(free >> k & 1))
			continue;
		pose[k] += by;
		double error = hypot(deviation(step.covariance[k][k]), common_error(k, &c->orbit));
		s->error[k] = error * (k == POSE_ROW ? (double)c->bin : 1);
		*moved = fmax(*moved, fabs(by) / most);
	}
	bool late = round >= ROUNDS - 2; /* before, the error is that of another pose */
	s->no_slant = s->no_slant || (late && s->error[POSE_SLANT] > LOOSE_ANGLE);
	if (s->no_slant) {
		pose[POSE_SLANT] = s->problem->orbit->pose[POSE_SLANT];
		s->error[POSE_SLANT] = NAN;
	}
	fine_pose(c, pose, s->pose);
	return TOMOS_OK;
}

static tomos_status report(const Search *s, int done)
{
	const tomos_progress *progress = s->problem->progress;
	if (progress && progress->report &&
		progress->report(
			progress->user, "geometry", done, ROUNDS + 1, s->pose[POSE_AXIS]) != 0)
		return fail(TOMOS_CANCELLED, "cancelled during the search for the geometry");
	return TOMOS_OK;
}

static tomos_status refine(Search *s)
{
	double moved = 1;
	for (int round = 0; round < ROUNDS && moved > 0.01; round++) {
		TRY(fit_midplane(s));
		if (!s->problem->coarse)
			return TOMOS_OK;
		tomos_status status = fit_rows(s, round, &moved);
		if (status == TOMOS_UNSUPPORTED) { /* no reconstruction from these views */
			s->axis_only = true;
			memcpy(s->pose + 1, s->problem->orbit->pose + 1,
				(POSE_COUNT - 1) * sizeof *s->pose);
			break;
		}
		TRY(status);
		TRY(report(s, round + 1));
		moved = round < 2 ? 1 : moved;
	}
	return fit_midplane(s);
}

/* ---- the whole search ------------------------------------------------------------------------ */

static tomos_status start(Search *s, const tomos_axis_options *options)
{
	const PoseProblem *p = s->problem;
	tomos_geometry *rows;
	tomos_axis axis = {.bytes = sizeof axis};
	Orbit band = *p->orbit;
	band.rows = p->band->shape[1];
	band.pose[POSE_ROW] -= (double)p->row;
	memcpy(s->pose, p->orbit->pose, sizeof s->pose);
	for (int k = 0; k < POSE_COUNT; k++)
		s->error[k] = NAN;
	TRY(orbit_geometry(&rows, &band, band.pose, false));
	tomos_status status = tomos_axis_find_scan(&axis, p->backend, p->band, rows, options, NULL);
	tomos_geometry_free(rows);
	s->pose[POSE_AXIS] = axis.column;
	s->error[POSE_AXIS] = axis.error;
	s->reversed = axis.reversed;
	return status;
}

tomos_status pose_find(const PoseProblem *p, const tomos_axis_options *options, tomos_pose *pose)
{
	Search s = {.problem = p};
	double detector = p->orbit->detector;
	TRY(start(&s, options));
	TRY(report(&s, 0));
	TRY(refine(&s));
	*pose = (tomos_pose){.bytes = sizeof *pose,
		.before = s.before,
		.after = s.after,
		.reversed = s.reversed};
	for (int k = 0; k < POSE_COUNT; k++) {
		double unit = k == POSE_SCALE ? detector : 1;
		pose->value[k] = unit * s.pose[k];
		pose->error[k] = unit * s.error[k];
	}
	return TOMOS_OK;
}

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

tomos_status pose_views(tomos_geometry **scan, const Orbit *orbit, const tomos_pose *found)
{
	double pose[POSE_COUNT];
	memcpy(pose, found->value, sizeof pose);
	pose[POSE_SCALE] /= orbit->detector;
	return orbit_geometry(scan, orbit, pose, found->reversed);
}

static tomos_status find_in(const Orbit *orbit, tomos_backend *backend, const tomos_array *data,
	const tomos_axis_options *options, const tomos_progress *progress, tomos_pose *pose)
{
	Coarse coarse = {.bin = 0};
	tomos_array band = *data;
	PoseProblem p = {.orbit = orbit, .band = &band, .backend = backend, .progress = progress};
	if (orbit->rows > 1 && orbit->kind == TOMOS_POINT) {
		TRY(coarse_begin(&coarse, orbit));
		tomos_status added = coarse_add(&coarse, data, 0);
		if (added != TOMOS_OK) {
			coarse_free(&coarse);
			return added;
		}
		coarse_finish(&coarse);
		p.coarse = &coarse;
		pose_band(orbit, &p.row, &band.shape[1]);
		band.data += p.row * band.stride[1];
	}
	tomos_status status = pose_find(&p, options, pose);
	coarse_free(&coarse);
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
