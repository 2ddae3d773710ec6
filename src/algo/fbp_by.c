/* --by auto: whether filtered back projection by Fourier transforms replaces the direct one.
 *
 * Linear interpolation between columns adds frequencies that the detector does not have, and only
 * direct back projection has them. How much of an image they are depends on the object, its noise
 * and the filter. So one slice is reconstructed both ways, and transforms are taken where the two
 * agree. Where they do not, transforms of these frequencies as well may still be faster than direct
 * back projection: as many bands as the difference asks for, confirmed by another slice.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "algo/analytic.h"

#define MOST_DIFFERENCE 1e-4 /* of the norms of smoothed slices */
#define MOST_OF_MEANS 3e-4
#define LEAST_GAIN 2 /* in time, by the model */
#define LEAST_WITH_ALIASES 1.5
#define MOST_BANDS 64  /* the range of the option `aliases` */
#define SLICES_TRIED 3 /* what the trials take, in slices of direct back projection */

/* ---- comparison ------------------------------------------------------------------------------ */

/* Binomial weights along one axis: frequencies above half of the Nyquist frequency fall below 1/4,
 * and that of Nyquist to 0. Beyond the ends the last value continues. */
static void smooth_line(float *x, int64_t n, int64_t stride, float *line)
{
	for (int64_t i = 0; i < n; i++)
		line[i] = x[i * stride];
	for (int64_t i = 0; i < n; i++) {
		float sum = 6 * line[i];
		for (int k = 1; k <= 2; k++)
			sum += (k == 1 ? 4 : 1) *
			       (line[max64(i - k, 0)] + line[min64(i + k, n - 1)]);
		x[i * stride] = sum / 16;
	}
}

static void smooth(const tomos_grid *grid, float *slice, float *line)
{
	const int64_t *n = grid->n;
	for (int64_t y = 0; y < n[1]; y++)
		smooth_line(slice + y * n[0], n[0], 1, line);
	for (int64_t x = 0; x < n[0]; x++)
		smooth_line(slice + x, n[1], n[0], line);
}

/* Relative differences of two smoothed slices within the ellipse that the grid encloses. */
static void compare(const tomos_grid *grid, const float *direct, const float *fourier,
	double *difference, double *means)
{
	const int64_t *n = grid->n;
	double apart = 0, square = 0, sum = 0, size = 0;
	for (int64_t i = 0; i < n[0] * n[1]; i++) {
		double u = (2 * (double)(i % n[0]) + 1) / (double)n[0] - 1;
		double v = (2 * (double)(i / n[0]) + 1) / (double)n[1] - 1;
		double d = (double)fourier[i] - direct[i];
		if (u * u + v * v > 1)
			continue;
		apart += d * d;
		square += (double)direct[i] * direct[i];
		sum += d;
		size += fabs((double)direct[i]);
	}
	*difference =
		square > 0 ? sqrt(apart / square) : HUGE_VAL; /* an empty slice shows nothing */
	*means = size > 0 ? fabs(sum) / size : HUGE_VAL;
}

/* ---- the slice of a row ---------------------------------------------------------------------- */

typedef struct {
	tomos_backend *backend;
	tomos_geometry *scan; /* with that row only */
	tomos_grid grid;
	float *row; /* [view][column] */
	float *slices, *line;
} Trial;

static tomos_status trial_make(
	Trial *t, const tomos_grid *grid, const tomos_geometry *scan, int64_t row)
{
	const int64_t *n = grid->n;
	t->grid = *grid;
	t->grid.n[2] = 1;
	TRY(tomos_geometry_views(&t->scan, 1, scan->columns, scan->views, scan->count));
	for (int64_t i = 0; i < scan->count; i++)
		view_slide(&t->scan->views[i], 0, (double)row - 0.5 * (double)(scan->rows - 1));
	t->grid.first[2] = t->scan->views[0].det[2];
	TRY(mem_alloc(&t->slices, 2 * n[0] * n[1], sizeof(float), "two slices"));
	return mem_alloc(&t->line, max64(n[0], n[1]), sizeof(float), "a line of voxels");
}

static void trial_free(Trial *t)
{
	tomos_geometry_free(t->scan);
	mem_free(t->slices);
	mem_free(t->line);
}

static tomos_status reconstruct(
	const Trial *t, const char *by, const tomos_analytic_options *options, float *slice)
{
	tomos_analytic_options o = *options;
	const tomos_array row = tomos_array_of(t->row, t->scan->count, 1, t->scan->columns);
	const tomos_array x = tomos_array_of(slice, 1, t->grid.n[1], t->grid.n[0]);
	Analytic *analytic;
	o.by = by;
	o.metal = "none";
	TRY(analytic_open(&analytic, "fbp", t->backend, &t->grid, t->scan, NULL, &o));
	tomos_status status = analytic_apply(analytic, &row, &x, NULL);
	analytic_close(analytic);
	if (status == TOMOS_OK)
		smooth(&t->grid, slice, t->line);
	return status;
}

/* Differences from the slice that was reconstructed directly. */
typedef struct {
	double slice, means;
	bool small;
} Differences;

/* Another slice by transforms, compared with the first one; *why is not empty if there is none. */
static tomos_status by_transforms(
	const Trial *t, const tomos_analytic_options *o, Differences *apart, char why[256])
{
	float *direct = t->slices, *fourier = direct + t->grid.n[0] * t->grid.n[1];
	tomos_status status = reconstruct(t, "fourier", o, fourier);
	if (status == TOMOS_NO_MEMORY || status == TOMOS_UNSUPPORTED) {
		snprintf(why, 256, "not by Fourier transforms: %.220s", tomos_message());
		return TOMOS_OK;
	}
	TRY(status);
	compare(&t->grid, direct, fourier, &apart->slice, &apart->means);
	apart->small = apart->slice <= MOST_DIFFERENCE && apart->means <= MOST_OF_MEANS;
	return TOMOS_OK;
}

static void say(ByChoice *choice, double gain, const Differences *apart)
{
	char bands[48] = "";
	if (choice->aliases > 0)
		snprintf(bands, sizeof bands, " with aliases of %d bands", choice->aliases);
	snprintf(choice->why, sizeof choice->why,
		"Fourier transforms%s are about %.2g times as fast; a slice, smoothed, differs by "
		"%.2g %% from direct back projection, its mean by %.2g %% (limits %g and %g)%s",
		bands, gain, 100 * apart->slice, 100 * apart->means, 100 * MOST_DIFFERENCE,
		100 * MOST_OF_MEANS, choice->fourier ? "" : "; --by fourier takes them");
}

/* The bands that reduce a difference without any to the limit: it falls by 1.75 bands^1.31, as
 * measured with ramp filters, and faster with others. */
static int bands_for(double difference)
{
	double fall = difference / (0.9 * MOST_DIFFERENCE) / 1.75;
	return (int)ceil(pow(fmin(fmax(fall, 1), 1e3), 1 / 1.31));
}

/* Transforms with aliases, if these are worth a trial. */
static tomos_status try_aliases(Trial *t, const tomos_analytic_options *options,
	const tomos_grid *grid, const Differences *without, ByChoice *choice)
{
	tomos_analytic_options o = *options;
	const double slices = (double)grid->n[2];
	Differences apart = {0};
	o.aliases = bands_for(without->slice);
	double gain = fourier_gain(t->backend, grid, t->scan, (int)o.aliases);
	if (o.aliases > MOST_BANDS || !fourier_has_aliases(t->backend) ||
		slices / (SLICES_TRIED + slices / gain) < LEAST_WITH_ALIASES)
		return TOMOS_OK;
	char why[256] = "";
	TRY(by_transforms(t, &o, &apart, why));
	if (why[0] || !apart.small)
		return TOMOS_OK;
	choice->fourier = true;
	choice->aliases = (int)o.aliases;
	say(choice, gain, &apart);
	return TOMOS_OK;
}

static tomos_status both_ways(Trial *t, const tomos_analytic_options *o, const tomos_grid *grid,
	double gain, ByChoice *choice)
{
	Differences apart = {0};
	TRY(reconstruct(t, "direct", o, t->slices));
	TRY(by_transforms(t, o, &apart, choice->why));
	if (choice->why[0])
		return TOMOS_OK;
	choice->fourier = apart.small;
	say(choice, gain, &apart);
	return apart.small ? TOMOS_OK : try_aliases(t, o, grid, &apart, choice);
}

/* ---- choice ---------------------------------------------------------------------------------- */

/* Why Fourier transforms are out of the question; empty: they are not. */
static tomos_status exclude(ByChoice *choice, const tomos_backend *backend, const tomos_grid *grid,
	const tomos_geometry *scan, const tomos_analytic_options *o)
{
	tomos_geometry *aligned;
	double *maps;
	const char *why = NULL;
	if (o->plain || (o->interpolation && strcmp(o->interpolation, "linear") != 0))
		why = "they have linear interpolation only, and no reference kernel";
	if (!why) {
		TRY(align_views(&aligned, &maps, scan));
		const RayClass rays = rays_summary(aligned, grid);
		why = fourier_rejects(backend, &rays, rays.planar);
		tomos_geometry_free(aligned);
		mem_free(maps);
	}
	if (why)
		snprintf(choice->why, sizeof choice->why, "not by Fourier transforms: %s", why);
	return TOMOS_OK;
}

tomos_status fbp_choose_by(ByChoice *choice, tomos_backend *backend, const tomos_grid *grid,
	const tomos_geometry *scan, const tomos_analytic_options *o,
	tomos_status (*read)(void *user, int64_t row, float *data), void *user)
{
	Trial t = {.backend = backend};
	tomos_status status;
	*choice = (ByChoice){.fourier = false};
	TRY(exclude(choice, backend, grid, scan, o));
	if (choice->why[0])
		return TOMOS_OK;
	double gain = fourier_gain(backend, grid, scan, 0);
	if (gain < LEAST_GAIN) {
		snprintf(choice->why, sizeof choice->why,
			"Fourier transforms are about %.2g times as fast, not twice", gain);
		return TOMOS_OK;
	}
	TRY_OR_DONE(mem_alloc(&t.row, scan->count * scan->columns, sizeof *t.row, "a row"));
	TRY_OR_DONE(trial_make(&t, grid, scan, scan->rows / 2));
	TRY_OR_DONE(read(user, scan->rows / 2, t.row));
	TRY_OR_DONE(both_ways(&t, o, grid, gain, choice));
done:
	trial_free(&t);
	mem_free(t.row);
	return status;
}
