/* A Gauss-Newton step on the pose of a detector, from the inconsistency of its projections.
 *
 * The projections are resampled to an upright detector, which the pose decides, and C is what is
 * left of them after reconstruction (Feldkamp's) and projection of the result; with C applied twice
 * the errors of that approximate inverse are small against those of a wrong pose. What is left is
 * compared on the measured pixels: where a value of the pose moves these by d, the residual C b
 * changes by C (d . grad b) - d . grad C b. A shift that the volume can follow has no part in that
 * difference. For full turns of objects within the field of view, which may be that of an offset
 * detector.
 */
#include <math.h>
#include <string.h>
#include "prep/pose.h"

enum { PASSES = 2, MARGIN = 2 };
#define TRUNCATED 0.03 /* of the largest value, at the outermost columns */

typedef struct {
	const Coarse *coarse;
	tomos_backend *backend;
	const double *pose;
	int64_t count; /* of pixels of all views */
	tomos_geometry *upright;
	tomos_grid grid;
	tomos_op *forward;
	tomos_analytic_options how;
	double rows[2];  /* rows in between count */
	bool cut;        /* the object goes on beyond the rows */
	float *places;   /* column and row of the detector for each pixel of the upright one */
	float *moves[2]; /* of a value of the pose: columns and rows per unit */
	float *data, *left, *volume, *projected;
	float *derivatives[NORMAL_MOST];
} Step;

/* ---- resampling ------------------------------------------------------------------------------ */

static void pixel_of(const Step *s, const double pose[POSE_COUNT], int64_t i, double out[2])
{
	const Orbit *o = &s->coarse->orbit;
	double high = o->height / o->width, x, y;
	x = (double)(i % o->columns) - s->pose[POSE_AXIS];
	y = ((double)(i / o->columns) - s->pose[POSE_ROW]) * high;
	double at[POSE_COUNT], distance = o->detector / o->width * s->pose[POSE_SCALE];
	pose_counted(o, pose, at);
	at[POSE_SCALE] /= s->pose[POSE_SCALE];
	pose_pixel(at, distance, high, x, y, out);
}

static void take_places(const Step *s)
{
	const Orbit *o = &s->coarse->orbit;
	for (int64_t i = 0; i < o->rows * o->columns; i++) {
		double at[2];
		pixel_of(s, s->pose, i, at);
		s->places[2 * i] = (float)at[0];
		s->places[2 * i + 1] = (float)at[1];
	}
}

static void take_moves(const Step *s, int value)
{
	const Orbit *o = &s->coarse->orbit;
	double by = value <= POSE_ROW ? 1e-2 : 1e-4, pose[POSE_COUNT], more[2], less[2];
	for (int64_t i = 0; i < o->rows * o->columns; i++) {
		memcpy(pose, s->pose, sizeof pose);
		pose[value] += by;
		pixel_of(s, pose, i, more);
		pose[value] -= 2 * by;
		pixel_of(s, pose, i, less);
		for (int k = 0; k < 2; k++)
			s->moves[k][i] = (float)((more[k] - less[k]) / (2 * by));
	}
}

/* Catmull-Rom's weights of four samples. */
static void cubic(float t, float w[4])
{
	w[0] = 0.5F * t * (-1 + t * (2 - t));
	w[1] = 1 + 0.5F * t * t * (-5 + 3 * t);
	w[2] = 0.5F * t * (1 + t * (4 - 3 * t));
	w[3] = 0.5F * t * t * (t - 1);
}

static void resample_view(const void *user, int64_t view, float *scratch)
{
	const Step *s = user;
	const Orbit *o = &s->coarse->orbit;
	int64_t n = o->columns, rows = o->rows;
	const float *in = s->coarse->data + view * rows * n;
	(void)scratch;
	for (int64_t i = 0; i < rows * n; i++) {
		float at[2] = {s->places[2 * i], s->places[2 * i + 1]}, wc[4], wr[4], sum = 0;
		float c = floorf(at[0]), r = floorf(at[1]);
		cubic(at[0] - c, wc);
		cubic(at[1] - r, wr);
		for (int64_t j = 0; j < 4; j++) {
			const float *line = in + n * min64(max64((int64_t)r + j - 1, 0), rows - 1);
			float part = 0;
			for (int64_t k = 0; k < 4; k++)
				part += wc[k] * line[min64(max64((int64_t)c + k - 1, 0), n - 1)];
			sum += wr[j] * part;
		}
		s->data[view * rows * n + i] = sum;
	}
}

/* Pixels near the edge are interpolated from few, and do not count. */
static bool counts(const Step *s, int64_t pixel)
{
	const Orbit *o = &s->coarse->orbit;
	const float *at = s->places + 2 * pixel;
	int64_t column = pixel % o->columns, row = pixel / o->columns;
	return column >= MARGIN && column < o->columns - MARGIN && (double)row >= s->rows[0] &&
	       (double)row <= s->rows[1] && at[0] >= 1 && at[0] <= (float)(o->columns - 2) &&
	       at[1] >= 1 && at[1] <= (float)(o->rows - 2);
}

/* out = factor d . grad in + keep out, with d in `moves`. */
static void add_moved(const Step *s, const float *in, float factor, float keep, float *out)
{
	const Orbit *o = &s->coarse->orbit;
	int64_t n = o->columns, rows = o->rows;
	for (int64_t i = 0; i < s->count; i++) {
		int64_t pixel = i % (rows * n), c = pixel % n, r = pixel / n;
		float across = c > 0 && c < n - 1 ? 0.5F * (in[i + 1] - in[i - 1]) : 0;
		float along = r > 0 && r < rows - 1 ? 0.5F * (in[i + n] - in[i - n]) : 0;
		out[i] = factor * (s->moves[0][pixel] * across + s->moves[1][pixel] * along) +
			 (keep != 0 ? keep * out[i] : 0);
	}
}

/* ---- what reconstruction and projection leave ------------------------------------------------ */

static tomos_array array_of(const Step *s, float *data)
{
	const Orbit *o = &s->coarse->orbit;
	return tomos_array_of(data, o->views, o->rows, o->columns);
}

/* data = C data */
static tomos_status leave(const Step *s, float *data)
{
	tomos_array all = array_of(s, data), projected = array_of(s, s->projected);
	tomos_array volume = tomos_array_of(s->volume, s->grid.n[2], s->grid.n[1], s->grid.n[0]);
	for (int pass = 0; pass < PASSES; pass++) {
		TRY(tomos_fdk(s->backend, &s->grid, s->upright, &all, &volume, &s->how, NULL));
		TRY(tomos_op_forward(s->forward, &volume, &projected));
		for (int64_t i = 0; i < s->count; i++)
			data[i] -= s->projected[i];
	}
	return TOMOS_OK;
}

static void add_view(const Step *s, int64_t view, unsigned free, Normal *block)
{
	const Orbit *o = &s->coarse->orbit;
	for (int64_t pixel = 0; pixel < o->rows * o->columns; pixel++) {
		int64_t i = view * o->rows * o->columns + pixel;
		if (!counts(s, pixel))
			continue;
		double left = (double)s->left[i];
		block->squares += left * left;
		block->energy += (double)s->data[i] * (double)s->data[i];
		for (int a = 0; a < NORMAL_MOST; a++) {
			if (!(free >> a & 1))
				continue;
			double by = (double)s->derivatives[a][i];
			block->g[a] += by * left;
			for (int b = 0; b < NORMAL_MOST; b++)
				if (free >> b & 1)
					block->h[a][b] += by * (double)s->derivatives[b][i];
		}
	}
}

static tomos_status take_step(Step *s, unsigned free, PoseStep *result)
{
	Normal blocks[NORMAL_BLOCKS];
	size_t bytes = (size_t)s->count * sizeof(float);
	int64_t views = s->coarse->orbit.views;
	take_places(s);
	TRY(pieces_each(views, 1, resample_view, s));
	memcpy(s->left, s->data, bytes);
	TRY(leave(s, s->left));
	for (int value = 0; value < POSE_COUNT; value++) {
		if (!(free >> value & 1))
			continue;
		take_moves(s, value);
		add_moved(s, s->data, 1, 0, s->derivatives[value]);
		TRY(leave(s, s->derivatives[value]));
		add_moved(s, s->left, -1, 1, s->derivatives[value]);
	}
	memset(blocks, 0, sizeof blocks);
	for (int64_t v = 0; v < views; v++)
		add_view(s, v, free, &blocks[v * NORMAL_BLOCKS / views]);
	result->solved = normal_solve(blocks, free, result->step, result->covariance);
	result->residual = normal_residual(blocks);
	result->cut = s->cut;
	return TOMOS_OK;
}

/* ---- set-up ---------------------------------------------------------------------------------- */

#define OFFSET 0.75 /* the shorter side of an offset detector, relative to the longer one */

bool pose_offset(const Orbit *orbit, double axis)
{
	double last = (double)(orbit->columns - 1);
	return fmin(axis, last - axis) < OFFSET * fmax(axis, last - axis);
}

/* Whether the object goes on beyond the outermost rows, or columns; of an offset detector, beyond
 * the column further from the axis. */
static bool truncated(const Coarse *c, double axis, bool rows)
{
	int64_t n = c->orbit.columns, high = c->orbit.rows, all = c->orbit.views * high * n;
	double edge = 0, pixels = 0, last = (double)(n - 1);
	bool offset = pose_offset(&c->orbit, axis);
	bool left = !offset || axis > 0.5 * last, right = !offset || axis < 0.5 * last;
	float most = 0;
	for (int64_t i = 0; i < all; i++) {
		int64_t column = i % n, row = i / n % high;
		bool outermost = rows ? row == 0 || row == high - 1
				      : (left && column == 0) || (right && column == n - 1);
		most = fmaxf(most, c->data[i]);
		edge += outermost ? (double)c->data[i] : 0;
		pixels += outermost;
	}
	return edge > TRUNCATED * (double)most * pixels;
}

/* Of an object that is longer than the field of view, rays near its ends meet parts that other
 * views do not see. */
static void choose_rows(Step *s)
{
	const Orbit *o = &s->coarse->orbit;
	double axis = s->pose[POSE_AXIS], row = s->pose[POSE_ROW];
	double far = fmax(axis, (double)(o->columns - 1) - axis) * o->width;
	double radius = o->source * far / hypot(far, o->detector);
	double ratio = (o->source - radius) / (o->source + radius);
	s->rows[0] = MARGIN;
	s->rows[1] = (double)(o->rows - 1 - MARGIN);
	s->cut = truncated(s->coarse, axis, true);
	if (s->cut) {
		s->rows[0] = fmax(row - ratio * row, MARGIN);
		s->rows[1] = fmin(row + ratio * ((double)(o->rows - 1) - row), s->rows[1]);
	}
}

static bool full_turn(const Orbit *o)
{
	double sweep = o->angles[o->views - 1] - o->angles[0];
	return sweep * (double)o->views > 1.99 * M_PI * (double)(o->views - 1);
}

/* The grid that the detector sees, with voxels of a pixel's size at the axis. */
static void choose_grid(Step *s)
{
	const Orbit *o = &s->coarse->orbit;
	double row = s->pose[POSE_ROW];
	double far = fmax(s->pose[POSE_AXIS], (double)(o->columns - 1) - s->pose[POSE_AXIS]);
	double high = fmax(row, (double)(o->rows - 1) - row);
	double size = o->width * o->source / (o->detector * s->pose[POSE_SCALE]);
	int64_t wide = 2 * (int64_t)ceil(fmin(far, 1.5 * (double)o->columns)) + 2;
	int64_t tall = 2 * (int64_t)ceil(fmin(high, 1.5 * (double)o->rows)) + 2;
	double tallness = size * o->height / o->width;
	s->grid = (tomos_grid){.n = {wide, wide, tall},
		.first = {-0.5 * size * (double)(wide - 1), 0.5 * size * (double)(wide - 1),
			-0.5 * tallness * (double)(tall - 1) + o->lift},
		.step = {size, -size, tallness}};
}

static tomos_status step_open(Step *s, bool reversed, unsigned free)
{
	const Orbit *o = &s->coarse->orbit;
	const double pose[POSE_COUNT] = {[POSE_AXIS] = s->pose[POSE_AXIS],
		[POSE_ROW] = s->pose[POSE_ROW],
		[POSE_SCALE] = s->pose[POSE_SCALE]};
	int64_t pixels = o->rows * o->columns;
	s->count = o->views * pixels;
	choose_grid(s);
	choose_rows(s);
	s->how = tomos_analytic_defaults();
	s->how.filter = "hann";
	if (truncated(s->coarse, s->pose[POSE_AXIS], false) || !full_turn(o))
		return fail(TOMOS_UNSUPPORTED, "what reconstruction leaves of the projections "
					       "shows the pose for full turns "
					       "of objects within the field of view");
	TRY(orbit_geometry(&s->upright, o, pose, reversed));
	TRY(tomos_op_projector(&s->forward, s->backend, &s->grid, s->upright, NULL));
	TRY(mem_alloc(&s->places, 2 * pixels, sizeof(float), "places of pixels"));
	for (int k = 0; k < 2; k++)
		TRY(mem_alloc(&s->moves[k], pixels, sizeof(float), "moves of pixels"));
	float **const lists[] = {&s->data, &s->left, &s->projected};
	for (int k = 0; k < COUNT(lists); k++)
		TRY(mem_alloc(lists[k], s->count, sizeof(float), "an averaged scan"));
	for (int k = 0; k < NORMAL_MOST; k++)
		if (free >> k & 1)
			TRY(mem_alloc(&s->derivatives[k], s->count, sizeof(float),
				"derivatives by the pose"));
	return mem_alloc(&s->volume, s->grid.n[0] * s->grid.n[1] * s->grid.n[2], sizeof(float),
		"a small volume");
}

static void step_close(Step *s)
{
	tomos_op_free(s->forward);
	tomos_geometry_free(s->upright);
	mem_free(s->places);
	mem_free(s->moves[0]);
	mem_free(s->moves[1]);
	mem_free(s->data);
	mem_free(s->left);
	mem_free(s->projected);
	mem_free(s->volume);
	for (int k = 0; k < NORMAL_MOST; k++)
		mem_free(s->derivatives[k]);
}

tomos_status pose_step(const Coarse *c, tomos_backend *backend, const double pose[POSE_COUNT],
	bool reversed, unsigned free, PoseStep *result)
{
	Step s = {.coarse = c, .backend = backend, .pose = pose};
	tomos_status status = step_open(&s, reversed, free);
	if (status == TOMOS_OK)
		status = take_step(&s, free, result);
	step_close(&s);
	return status;
}
