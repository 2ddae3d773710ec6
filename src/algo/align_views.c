/* Alignment of views: the shift of each view along its columns and rows, and on request its roll
 * about the direction through the detector, from the projections alone.
 *
 * Steps of Gauss-Newton on the motions and the volume together (align_step.c), from coarse pixels
 * and voxels to fine ones; at each resolution the volume begins with a reconstruction of few
 * iterations.
 *
 * What the volume cannot represent is taken for motion, and so is the error of interpolation
 * between voxels, which depends on where the rays of a view pass. Hence voxels are half as wide as
 * pixels and hold a smooth volume x = S z, which is close to linear between them and has no more
 * freedom than the rays determine; binned projections are smoothed. Voxels that rays through air
 * pass are 0 (align_extent.c): a tilt of all views is nearly a rotation of the object, and most of
 * what is left of it would be explained by values in air. Shifts that a motion of the object
 * explains are not determined by the data and removed. */
#include <math.h>
#include <string.h>
#include "algo/align_step.h"
#include "base/solve.h"
#include "base/vector3.h"

enum {
	SMALLEST = 16,
	LARGEST_COLUMNS = 128,
	FINER = 2 /* voxels per pixel */
};

/* Variance of the blur by smoothing and by the width of a pixel, relative to that by smoothing:
 * (1/2 + 1/12) / (1/2). */
#define WHOLE_BLUR (7.0 / 6)
#define UPRIGHT 0.9      /* cosine between rows and the axis */
enum { LEAST_MORE = 6 }; /* slices at either end for what moves in and out */

typedef struct {
	tomos_backend *backend;
	tomos_grid grid;
	const tomos_geometry *scan;
	const tomos_array *projections;
	tomos_align_options options;
	double *motions, *poses;    /* [view][3], [view][6] */
	double *directions, *steps; /* [view][6][3], [view][3] */
	int64_t bin, done, total;
	bool roll, last; /* at this resolution; it is the finest */
	const tomos_progress *progress;
} Align;

/* ---- motions and poses ----------------------------------------------------------------------- */

/* Unit vectors along columns and rows and through the detector. */
static void view_frame(const tomos_view *view, double frame[3][3])
{
	double length = norm3(view->u);
	for (int a = 0; a < 3; a++)
		frame[0][a] = view->u[a] / length;
	cross3(frame[2], view->u, view->v);
	length = norm3(frame[2]);
	for (int a = 0; a < 3; a++)
		frame[2][a] /= length;
	cross3(frame[1], frame[2], frame[0]);
}

static void motion_pose(const tomos_view *view, const double motion[MOTIONS], double pose[6])
{
	double frame[3][3];
	view_frame(view, frame);
	for (int a = 0; a < 3; a++) {
		pose[a] = motion[0] * frame[0][a] + motion[1] * frame[1][a];
		pose[3 + a] = motion[2] * frame[2][a];
	}
}

static void set_poses(Align *a)
{
	for (int64_t i = 0; i < a->scan->count; i++)
		motion_pose(&a->scan->views[i], a->motions + MOTIONS * i, a->poses + 6 * i);
}

/* One row determines the shift along columns only. */
static int motion_count(const Align *a)
{
	if (a->scan->rows == 1)
		return 1;
	return a->roll ? MOTIONS : MOTIONS - 1;
}

/* Removes the shifts of the views that a shift of the object explains. Only where a volume starts
 * from zero: one that is continued stays where it is, and would no longer fit the views. */
static void remove_shift(Align *a)
{
	double *motions = a->motions;
	double m[3][4] = {{0}}, frame[3][3];
	int shifts = motion_count(a) > 1 ? 2 : 1;
	for (int64_t i = 0; i < a->scan->count; i++) {
		view_frame(&a->scan->views[i], frame);
		for (int n = 0; n < shifts; n++)
			for (int j = 0; j < 3; j++) {
				m[j][3] += frame[n][j] * motions[MOTIONS * i + n];
				for (int k = 0; k < 3; k++)
					m[j][k] += frame[n][j] * frame[n][k];
			}
	}
	for (int j = 0; j < 3; j++) /* one view, or one row, does not determine all of it */
		m[j][j] += 1e-9 * (double)a->scan->count;
	if (!solve_equations(m[0], 3, 4))
		return;
	const double shift[3] = {m[0][3], m[1][3], m[2][3]};
	for (int64_t i = 0; i < a->scan->count; i++) {
		view_frame(&a->scan->views[i], frame);
		for (int n = 0; n < shifts; n++)
			motions[MOTIONS * i + n] -= dot3(frame[n], shift);
	}
	set_poses(a);
}

/* The change of pose that each unit motion causes, for a view as it is placed now. */
static void view_directions(const Align *a, int64_t view, const double change[36], double *to)
{
	for (int n = 0, count = motion_count(a); n < count; n++) {
		double unit[MOTIONS] = {n == 0, n == 1, n == 2}, pose[6];
		motion_pose(&a->scan->views[view], unit, pose);
		for (int i = 0; i < 6; i++) {
			to[count * i + n] = 0;
			for (int j = 0; j < 6; j++)
				to[count * i + n] += change[6 * i + j] * pose[j];
		}
	}
}

static tomos_status set_directions(Align *a)
{
	int64_t views = a->scan->count;
	double *changes;
	TRY(mem_alloc(&changes, views, 36 * sizeof *changes, "changes of poses"));
	tomos_status status = tomos_pose_change(a->poses, views, changes);
	for (int64_t i = 0; status == TOMOS_OK && i < views; i++)
		view_directions(a, i, changes + 36 * i, a->directions + i * (6 * motion_count(a)));
	mem_free(changes);
	return status;
}

static void take_steps(Align *a, double factor)
{
	int count = motion_count(a);
	for (int64_t i = 0; i < a->scan->count; i++)
		for (int n = 0; n < count; n++) {
			double step = factor * a->steps[count * i + n];
			a->motions[MOTIONS * i + n] += isfinite(step) ? step : 0;
		}
	set_poses(a);
}

/* ---- data at one resolution ------------------------------------------------------------------ */

/* Rows that are averaged. */
static int64_t bin_rows(const Align *a)
{
	return a->scan->rows == 1 ? 1 : a->bin;
}

/* Averages of bin x bin pixels of a view. */
static void bin_view(const Align *a, int64_t view, int64_t rows, int64_t columns, float *to)
{
	const tomos_array *p = a->projections;
	const float *from = p->data + view * p->stride[0];
	int64_t high = bin_rows(a);
	for (int64_t r = 0; r < rows; r++)
		for (int64_t c = 0; c < columns; c++) {
			double sum = 0;
			for (int64_t i = 0; i < high; i++)
				for (int64_t j = 0; j < a->bin; j++)
					sum += from[(r * high + i) * p->stride[1] +
						    (c * a->bin + j) * p->stride[2]];
			to[r * columns + c] = (float)(sum / (double)(high * a->bin));
		}
}

typedef struct {
	const Align *align;
	int64_t rows, columns;
	float *data;
} BinTask;

static void bin_task(void *user, int64_t view)
{
	const BinTask *t = user;
	bin_view(t->align, view, t->rows, t->columns, t->data + view * t->rows * t->columns);
}

/* The views with bin x bin pixels each; pixels that are left over at the end are not used. */
static tomos_status bin_scan(const Align *a, const tomos_geometry *scan, tomos_geometry **binned)
{
	int64_t bin_high = bin_rows(a);
	int64_t rows = scan->rows / bin_high, columns = scan->columns / a->bin;
	double left[2] = {
		(double)(columns * a->bin - scan->columns), (double)(rows * bin_high - scan->rows)};
	TRY(geom_new(binned, rows, columns, scan->count));
	for (int64_t i = 0; i < scan->count; i++) {
		tomos_view *view = &(*binned)->views[i];
		*view = scan->views[i];
		view_slide(view, 0.5 * left[0], 0.5 * left[1]);
		for (int k = 0; k < 3; k++) {
			view->u[k] *= (double)a->bin;
			view->v[k] *= (double)bin_high;
		}
	}
	return TOMOS_OK;
}

static tomos_grid bin_grid(const Align *a)
{
	tomos_grid g = a->grid;
	for (int k = 0; k < 3; k++) {
		double centre = g.first[k] + 0.5 * (double)(g.n[k] - 1) * g.step[k];
		if (g.n[k] > 1) {
			g.n[k] = FINER * max64(1, (g.n[k] + a->bin - 1) / a->bin);
			g.step[k] *= (double)a->bin / FINER;
		}
		g.first[k] = centre - 0.5 * (double)(g.n[k] - 1) * g.step[k];
	}
	return g;
}

/* ---- a round --------------------------------------------------------------------------------- */

typedef struct {
	tomos_array b, x, air;
	tomos_op *P, *S, *all, *A; /* A: projections P S z of the smoothed volume, z 0 in air */
	float *mask;               /* 0 in air, else 1 */
} Round;

static void round_close(Round *round)
{
	tomos_op_free(round->A);
	tomos_op_free(round->all);
	if (round->mask)
		vector_free(round->mask, &round->P->domain);
	tomos_op_free(round->S);
	tomos_op_free(round->P);
	round->A = round->all = round->S = round->P = NULL;
	round->mask = NULL;
}

/* What an earlier mask let in. */
static tomos_status clear_air(const Round *round)
{
	const Space *domain = &round->P->domain;
	Vector z = {0};
	TRY(vector_borrow(&z, domain, &round->x, VECTOR_IN_OUT, "the volume"));
	tomos_status status = vector_mul(domain, round->mask, z.data);
	tomos_status returned = vector_return(&z, domain, VECTOR_IN_OUT);
	return status == TOMOS_OK ? returned : status;
}

static tomos_status round_open(const Align *a, Round *round)
{
	tomos_grid grid = bin_grid(a);
	tomos_geometry *moved, *binned = NULL;
	TRY(tomos_geometry_move(&moved, a->scan, a->poses));
	tomos_status status = bin_scan(a, moved, &binned);
	tomos_geometry_free(moved);
	if (status != TOMOS_OK)
		return status;
	status = tomos_op_projector(&round->P, a->backend, &grid, binned, NULL);
	tomos_geometry_free(binned);
	if (status != TOMOS_OK)
		return status;
	TRY(op_smooth(&round->S, &round->P->domain));
	TRY(tomos_op_product(&round->all, round->P, round->S));
	TRY(vector_new(&round->mask, &round->P->domain, "a mask of the object"));
	TRY(align_mask(round->P, &round->air, round->mask));
	TRY(clear_air(round));
	return op_weighted(&round->A, round->all, NULL, round->mask);
}

/* The steps are multiplied by the factor. */
static tomos_status round_step(Align *a, const Round *round, double factor)
{
	const Space *domain = &round->A->domain, *range = &round->A->range;
	Vector z = {0}, b = {0};
	float *residual = NULL, *x = NULL;
	tomos_status status;
	TRY_OR_DONE(vector_borrow(&z, domain, &round->x, VECTOR_IN_OUT, "the volume"));
	TRY_OR_DONE(vector_borrow(&b, range, &round->b, VECTOR_IN, "the projections"));
	TRY_OR_DONE(vector_new(&residual, range, "the residual"));
	TRY_OR_DONE(vector_new(&x, domain, "the smoothed volume"));
	TRY_OR_DONE(op_forward(round->S, z.data, x));
	TRY_OR_DONE(op_forward(round->P, x, residual));
	TRY_OR_DONE(vector_xpay(range, b.data, -1, residual));
	TRY_OR_DONE(set_directions(a));
	TRY_OR_DONE(align_step(round->P, round->A, x, residual, a->directions, motion_count(a),
		a->options.round_iterations, z.data, a->steps));
	take_steps(a, factor);
done:
	vector_free(residual, range);
	vector_free(x, domain);
	(void)vector_return(&b, range, VECTOR_IN);
	tomos_status returned = vector_return(&z, domain, VECTOR_IN_OUT);
	return status == TOMOS_OK ? returned : status;
}

static tomos_status tell(Align *a)
{
	a->done++;
	if (a->progress && a->progress->report &&
		a->progress->report(a->progress->user, "aligning", a->done, a->total, 0))
		return fail(TOMOS_CANCELLED, "cancelled after %lld of %lld rounds of alignment",
			(long long)a->done, (long long)a->total);
	return TOMOS_OK;
}

static tomos_status round_run(Align *a, Round *round, bool first)
{
	tomos_algebraic_options o = tomos_algebraic_defaults();
	o.iterations = (a->options.round_iterations + 1) / 2; /* the step continues it */
	tomos_status status;
	TRY_OR_DONE(round_open(a, round));
	if (first)
		TRY_OR_DONE(tomos_reconstruct(round->A, "cgls", &round->b, &round->x, &o, NULL));
	TRY_OR_DONE(round_step(a, round, 1));
	status = tell(a);
done:
	round_close(round);
	return status;
}

static bool has_source(const Align *a)
{
	return view_has_source(&a->scan->views[0]);
}

/* Projections of the volume, without most of the blur in it. */
static tomos_status project_sharp(const Round *round)
{
	const Space *domain = &round->A->domain, *range = &round->A->range;
	Vector z = {0}, b = {0};
	float *sharp = NULL;
	tomos_status status;
	TRY_OR_DONE(vector_borrow(&z, domain, &round->x, VECTOR_IN, "the volume"));
	TRY_OR_DONE(vector_borrow(&b, range, &round->b, VECTOR_OUT, "the projections"));
	TRY_OR_DONE(vector_new(&sharp, domain, "a sharp volume"));
	TRY_OR_DONE(align_sharpen(round->S, z.data, sharp));
	status = op_forward(round->A, sharp, b.data);
done:
	vector_free(sharp, domain);
	(void)vector_return(&z, domain, VECTOR_IN);
	tomos_status returned = vector_return(&b, range, VECTOR_OUT);
	return status == TOMOS_OK ? returned : status;
}

/* In a cone beam, pixels and their smoothing blur parts of the object near the source less than
 * others. No volume explains this; it is taken for motion. By how much is found from a simulated
 * scan of the volume, of which the motions are known: what is found in addition is taken away. */
static tomos_status correct_blur(Align *a, Round *round)
{
	tomos_status status;
	TRY_OR_DONE(round_open(a, round));
	TRY_OR_DONE(project_sharp(round));
	align_smooth(&round->b);
	TRY_OR_DONE(round_step(a, round, -WHOLE_BLUR));
	status = tell(a);
done:
	round_close(round);
	return status;
}

/* All rounds with bin x bin pixels. */
static tomos_status level_run(Align *a)
{
	tomos_grid grid = bin_grid(a);
	int64_t rows = a->scan->rows / bin_rows(a), columns = a->scan->columns / a->bin;
	int64_t views = a->scan->count, voxels = grid.n[0] * grid.n[1] * grid.n[2];
	Round round = {.P = NULL};
	float *b = NULL, *x = NULL, *air = NULL;
	tomos_status status;
	TRY_OR_DONE(mem_alloc(&b, views * rows * columns, sizeof *b, "binned projections"));
	TRY_OR_DONE(mem_zeroed(&air, views * rows * columns, sizeof *air, "rays in air"));
	TRY_OR_DONE(mem_zeroed(&x, voxels, sizeof *x, "a volume"));
	round.b = tomos_array_of(b, views, rows, columns);
	round.x = tomos_array_of(x, grid.n[2], grid.n[1], grid.n[0]);
	round.air = tomos_array_of(air, views, rows, columns);
	BinTask task = {a, rows, columns, b};
	remove_shift(a);
	parallel_for(views, bin_task, &task);
	align_smooth(&round.b);
	for (int64_t i = 0; i < a->options.rounds; i++) {
		if (a->done == 1 || (a->done > 1 && i == 0)) /* the first motions are known */
			TRY_OR_DONE(align_air(&round.b, air));
		TRY_OR_DONE(round_run(a, &round, i == 0));
	}
	if (a->last && has_source(a))
		TRY_OR_DONE(correct_blur(a, &round));
done:
	mem_free(b);
	mem_free(air);
	mem_free(x);
	return status;
}

/* ---- objects that are cut off ---------------------------------------------------------------- */

/* Of an object that goes on beyond the first or last row, moved views see parts that others do not;
 * without voxels for them, they would be taken for motion. */
static void lengthen_grid(Align *a)
{
	const tomos_view *view = &a->scan->views[0];
	tomos_grid *g = &a->grid;
	double half = 0.5 * (double)g->n[2], wide = 0.5 * (double)g->n[0] * fabs(g->step[0]);
	if (g->n[2] < 2 || fabs(view->v[2]) < UPRIGHT * norm3(view->v) ||
		!tomos_align_cut(a->projections))
		return;
	double spread = view_has_source(view) ? half * fmin(wide / norm3(view->src), 1) : 0;
	int64_t more = max64(LEAST_MORE, g->n[2] / 8) + (int64_t)ceil(spread);
	g->first[2] -= (double)more * g->step[2];
	g->n[2] += 2 * more;
}

/* ---- all resolutions ------------------------------------------------------------------------- */

static bool bin_possible(const Align *a, int64_t bin)
{
	return a->scan->columns / bin >= SMALLEST &&
	       (a->scan->rows == 1 || a->scan->rows / bin >= SMALLEST / 2);
}

static int64_t finest_bin(const Align *a)
{
	int64_t bin = 1;
	if (a->options.finest > 0)
		return a->options.finest;
	while (a->scan->columns / bin > LARGEST_COLUMNS && bin_possible(a, 2 * bin))
		bin *= 2;
	return bin;
}

static tomos_status levels_run(Align *a)
{
	int64_t finest = finest_bin(a), coarsest = finest, levels = 1;
	for (; bin_possible(a, 2 * coarsest) && levels < 4; levels++)
		coarsest *= 2;
	a->total = levels * a->options.rounds + has_source(a);
	for (a->bin = coarsest; a->bin >= finest; a->bin /= 2) {
		/* A few pixels do not determine the roll. */
		a->roll = a->options.fit_roll && (a->bin < coarsest || levels == 1);
		a->last = a->bin == finest;
		TRY(level_run(a));
	}
	return TOMOS_OK;
}

static tomos_status align_check(const Align *a)
{
	const tomos_geometry *scan = a->scan;
	const int64_t shape[3] = {scan->count, scan->rows, scan->columns};
	TRY(tomos_grid_check(&a->grid));
	TRY(array_check_on(0, a->projections, "the projections", shape, ARRAY_READ));
	TRY(array_finite(a->projections, "the array of projections", "")); /* one would hide all */
	if (a->options.fit_roll && scan->rows == 1)
		return fail(TOMOS_BAD_VALUE,
			"fit_roll: a detector of one row does not determine the roll of a view");
	if (a->options.finest > 0 && scan->columns / a->options.finest < 1)
		return fail(TOMOS_BAD_VALUE, "finest is %lld: the detector has %lld columns",
			(long long)a->options.finest, (long long)scan->columns);
	if (scan->rows > 1 && a->options.finest > scan->rows)
		return fail(TOMOS_BAD_VALUE, "finest is %lld: the detector has %lld rows",
			(long long)a->options.finest, (long long)scan->rows);
	return TOMOS_OK;
}

tomos_status tomos_align(tomos_backend *backend, const tomos_grid *grid, const tomos_geometry *scan,
	const tomos_array *projections, double *motions, double *poses,
	const tomos_align_options *options, const tomos_progress *progress)
{
	if (!backend || !grid || !scan || !projections || !motions || !poses)
		return fail(TOMOS_BAD_VALUE, "alignment needs a backend, a grid, a geometry, "
					     "projections and places for motions and poses");
	Align a = {.backend = backend,
		.grid = *grid,
		.scan = scan,
		.projections = projections,
		.options = tomos_align_defaults(),
		.motions = motions,
		.poses = poses,
		.progress = progress};
	tomos_status status;
	TRY(options_take(&a.options, options, "align"));
	TRY(align_check(&a));
	lengthen_grid(&a);
	memset(motions, 0, (size_t)(MOTIONS * scan->count) * sizeof *motions);
	memset(poses, 0, (size_t)(6 * scan->count) * sizeof *poses);
	TRY_OR_DONE(
		mem_alloc(&a.directions, scan->count, 6 * MOTIONS * sizeof(double), "directions"));
	TRY_OR_DONE(mem_alloc(&a.steps, scan->count, MOTIONS * sizeof(double), "steps"));
	TRY_OR_DONE(levels_run(&a));
	remove_shift(&a);
done:
	mem_free(a.directions);
	mem_free(a.steps);
	return status;
}
