/* Cupping: the polynomial of beam hardening correction, and the constant scatter, that make the
 * object uniform, found from one detector row of a scan.
 *
 * M. Kachelriess, K. Sourbelle, W. A. Kalender 2006: the slice is linear in the coefficients of the
 * polynomial, so each power of the line integrals is reconstructed once, and least squares give the
 * combination that is closest to an object of constant attenuation in air. Voxels of denser
 * materials are left out, and rays through metal are replaced: streaks are not cupping.
 */
#include <math.h>
#include <string.h>
#include "algo/analytic.h"
#include "algo/classes.h"
#include "algo/metal.h"
#include "base/solve.h"

enum { WIDE = 256, VIEWS = 360, TERMS = 8, AROUND = 2, LEAST_VOXELS = 40 };
enum { NOWHERE, AIR, OBJECT, DENSE, CLASSES }; /* class of a voxel; NOWHERE: near an edge */

#define SEEN 0.05     /* of the largest line integral: rays through the object */
#define DENSER 1.5    /* times the mean of the object: another material */
#define CLEARLY 0.85  /* of the deviation before: less is left by a polynomial that is taken */
#define MOST_BENT 4.0 /* times: from short paths to the longest, how much attenuation may fall */

/* One row of the scan, with few columns and views. */
typedef struct {
	tomos_backend *backend, *own;
	tomos_geometry *scan;
	tomos_grid grid;
	int64_t values, voxels;
	double most, metal;  /* largest line integral, and that through metal */
	float *p, *work;     /* line integrals, and a function of them */
	float *image[TERMS]; /* reconstructed */
	unsigned char *raw, *class;
} Slice;

/* ---- the slice ------------------------------------------------------------------------------- */

/* One row in the plane z = 0 of every `step`th view, with `bin` columns averaged. */
static tomos_status slice_views(
	Slice *s, const tomos_geometry *scan, int64_t views, int64_t step, int64_t bin)
{
	tomos_view *list;
	int64_t columns = scan->columns / bin;
	TRY(mem_alloc(&list, views, sizeof *list, "views of a slice"));
	for (int64_t i = 0; i < views; i++) {
		list[i] = scan->views[i * step];
		view_slide(&list[i], 0.5 * (double)(columns * bin - scan->columns), 0);
		list[i].det[2] = list[i].src[2] = list[i].u[2] = 0;
		for (int a = 0; a < 2; a++)
			list[i].u[a] *= (double)bin;
		memcpy(list[i].v, (double[]){0, 0, 1}, sizeof list[i].v);
	}
	tomos_status status = tomos_geometry_views(&s->scan, 1, columns, list, views);
	mem_free(list);
	return status;
}

static void slice_fill(Slice *s, const tomos_array *data, int64_t row, int64_t step, int64_t bin)
{
	int64_t columns = s->scan->columns;
	for (int64_t i = 0; i < s->values; i++) {
		const float *from = data->data + i / columns * step * data->stride[0] +
				    row * data->stride[1] + i % columns * bin * data->stride[2];
		double sum = 0;
		for (int64_t k = 0; k < bin; k++)
			sum += (double)from[k * data->stride[2]];
		s->p[i] = (float)(sum / (double)bin);
	}
}

static tomos_status find_most(Slice *s)
{
	s->most = 0;
	for (int64_t i = 0; i < s->values; i++)
		s->most = fmax(s->most, (double)s->p[i]);
	return s->most > 0 ? TOMOS_OK
			   : fail(TOMOS_BAD_VALUE, "the row of the scan has no object in it");
}

/* Whether most rays through the object are as they were, in `work`. */
static bool mostly_kept(const Slice *s)
{
	int64_t object = 0, kept = 0;
	for (int64_t i = 0; i < s->values; i++)
		if ((double)s->work[i] > SEEN * s->metal) {
			object++;
			kept += s->p[i] == s->work[i];
		}
	return 2 * kept > object;
}

/* Replaces rays through metal. What most rays pass through is no metal but the object. */
static tomos_status remove_metal(Slice *s)
{
	tomos_analytic_options how = tomos_analytic_defaults();
	Metal *metal;
	how.padding = "ellipse";
	s->metal = s->most;
	memcpy(s->work, s->p, (size_t)s->values * sizeof *s->p);
	TRY(metal_open(&metal, "fbp", s->backend, s->scan, &how));
	tomos_status status = metal_reduce(metal, s->p);
	metal_close(metal);
	if (!mostly_kept(s))
		memcpy(s->p, s->work, (size_t)s->values * sizeof *s->p);
	return status == TOMOS_OK ? find_most(s) : status;
}

static void slice_free(Slice *s)
{
	for (int i = 0; i < TERMS; i++)
		mem_free(s->image[i]);
	mem_free(s->p);
	mem_free(s->work);
	mem_free(s->raw);
	mem_free(s->class);
	tomos_geometry_free(s->scan);
	tomos_backend_close(s->own);
}

static tomos_status slice_memory(Slice *s, int images)
{
	s->values = s->scan->count * s->scan->columns;
	s->voxels = s->grid.n[0] * s->grid.n[1];
	TRY(mem_alloc(&s->p, s->values, sizeof(float), "a row of a scan"));
	TRY(mem_alloc(&s->work, s->values, sizeof(float), "a row of a scan"));
	TRY(mem_alloc(&s->raw, s->voxels, 1, "classes of voxels"));
	TRY(mem_alloc(&s->class, s->voxels, 1, "classes of voxels"));
	for (int i = 0; i < images; i++)
		TRY(mem_alloc(&s->image[i], s->voxels, sizeof(float), "a slice"));
	return TOMOS_OK;
}

static tomos_status slice_open(Slice *s, tomos_backend *backend, const tomos_geometry *scan,
	const tomos_array *data, int images)
{
	if (!scan)
		return fail(TOMOS_BAD_VALUE, "the geometry of the scan is missing");
	const int64_t shape[3] = {scan->count, scan->rows, scan->columns};
	TRY(array_check(data, "the line integrals", shape, ARRAY_READ));
	int64_t bin = (scan->columns + WIDE - 1) / WIDE, step = (scan->count + VIEWS - 1) / VIEWS;
	if (!backend)
		TRY(tomos_backend_open(&s->own, "cpu"));
	s->backend = backend ? backend : s->own;
	TRY(slice_views(s, scan, (scan->count + step - 1) / step, step, bin));
	TRY(tomos_grid_for(&s->grid, s->scan, NULL));
	TRY(slice_memory(s, images));
	slice_fill(s, data, geom_source_row(scan), step, bin);
	return find_most(s);
}

/* Whether all views see the voxel. */
static bool is_inside(const Slice *s, int64_t x, int64_t y)
{
	double rx = (double)x - 0.5 * (double)(s->grid.n[0] - 1);
	double ry = (double)y - 0.5 * (double)(s->grid.n[1] - 1);
	double most = 0.46 * (double)min64(s->grid.n[0], s->grid.n[1]);
	return rx * rx + ry * ry < most * most;
}

/* image = the slice of `work`, 0 outside what all views see; smoothed, as noise would be taken for
 * cupping. */
static tomos_status slice_make(Slice *s, float *image)
{
	tomos_analytic_options how = tomos_analytic_defaults();
	const tomos_array data = tomos_array_of(s->work, s->scan->count, 1, s->scan->columns);
	const tomos_array volume = tomos_array_of(image, 1, s->grid.n[1], s->grid.n[0]);
	how.filter = "hann";
	how.cutoff = 0.7;
	how.padding = "ellipse";
	TRY(tomos_fbp(s->backend, &s->grid, s->scan, &data, &volume, &how, NULL));
	for (int64_t i = 0; i < s->voxels; i++)
		if (!is_inside(s, i % s->grid.n[0], i / s->grid.n[0]))
			image[i] = 0;
	return TOMOS_OK;
}

/* ---- classes of voxels ----------------------------------------------------------------------- */

/* Whether all voxels around it are in the same class. */
static bool is_within(const Slice *s, int64_t x, int64_t y)
{
	int64_t nx = s->grid.n[0];
	for (int64_t j = y - AROUND; j <= y + AROUND; j++)
		for (int64_t i = x - AROUND; i <= x + AROUND; i++)
			if (s->raw[j * nx + i] != s->raw[y * nx + x])
				return false;
	return true;
}

/* The object begins at half its level. A denser class has fewer voxels than the object. */
static void find_levels(const Slice *s, const float *image, double level[2])
{
	int64_t few, many;
	level[0] = 0.5 * classes_level(image, s->voxels);
	level[1] = HUGE_VAL;
	double high = classes_threshold(image, s->voxels, level[0]);
	double dense = classes_mean(image, s->voxels, high, HUGE_VAL, &few);
	double object = classes_mean(image, s->voxels, level[0], high, &many);
	if (dense > DENSER * object && 2 * few < many)
		level[1] = high;
}

static tomos_status classify(Slice *s, const float *image)
{
	int64_t nx = s->grid.n[0], ny = s->grid.n[1], objects = 0;
	double level[2];
	find_levels(s, image, level);
	for (int64_t i = 0; i < s->voxels; i++)
		s->raw[i] = (double)image[i] > level[1]   ? DENSE
			    : (double)image[i] > level[0] ? OBJECT
							  : AIR;
	memset(s->class, NOWHERE, (size_t)s->voxels);
	for (int64_t y = AROUND; y < ny - AROUND; y++)
		for (int64_t x = AROUND; x < nx - AROUND; x++)
			if (is_inside(s, x, y) && is_within(s, x, y)) {
				s->class[y * nx + x] = s->raw[y * nx + x];
				objects += s->raw[y * nx + x] == OBJECT;
			}
	return objects >= LEAST_VOXELS
		       ? TOMOS_OK
		       : fail(TOMOS_BAD_VALUE,
				 "the slice has %lld voxels inside an object, too few to find its "
				 "cupping",
				 (long long)objects);
}

/* Standard deviation within the classes of the object, relative to the mean of the object. */
static double spread(const Slice *s, const float *image)
{
	double count[CLASSES] = {0}, sum[CLASSES] = {0}, squares[CLASSES] = {0};
	for (int64_t i = 0; i < s->voxels; i++) {
		count[s->class[i]] += 1;
		sum[s->class[i]] += (double)image[i];
		squares[s->class[i]] += (double)image[i] * (double)image[i];
	}
	double all = 0, within = 0;
	for (int c = OBJECT; c <= DENSE; c++) {
		all += count[c];
		within += count[c] > 0 ? squares[c] - sum[c] * sum[c] / count[c] : 0;
	}
	double mean = sum[OBJECT] / count[OBJECT];
	return mean > 0 ? sqrt(fmax(within, 0) / all) / mean : HUGE_VAL;
}

/* ---- the polynomial -------------------------------------------------------------------------- */

/* Least squares: the sum of c[k] image[k] is `level` in the object and 0 in air. Each of the two
 * counts by itself, not by its size. */
static bool fit(const Slice *s, int terms, double level, double *c)
{
	static const double share[CLASSES] = {[AIR] = 0.3, [OBJECT] = 1};
	double a[TERMS][TERMS + 1] = {{0}}, count[CLASSES] = {0}, row[TERMS + 1];
	for (int64_t i = 0; i < s->voxels; i++)
		count[s->class[i]] += 1;
	for (int64_t v = 0; v < s->voxels; v++) {
		int class = s->class[v];
		if (share[class] == 0)
			continue;
		for (int k = 0; k < terms; k++)
			row[k] = (double)s->image[k][v];
		row[terms] = class == OBJECT ? level : 0;
		for (int i = 0; i < terms; i++)
			for (int j = 0; j <= terms; j++)
				a[i][j] += share[class] / count[class] * row[i] * row[j];
	}
	for (int i = 0; i < terms; i++)
		a[i][i] *= 1 + 1e-9;
	if (!solve_equations(&a[0][0], terms, TERMS + 1))
		return false;
	for (int k = 0; k < terms; k++)
		c[k] = a[k][terms];
	return true;
}

/* Whether a beam that hardens can have left this: its effective attenuation falls with the length
 * of the path, so that the factor by which a line integral is corrected, the sum of c[k] x^k, grows
 * with it, to a limit. A mixture of materials asks for any factor. */
static bool is_hardening(const double *c, int terms)
{
	double first = 0, most = 0, factor = 0;
	for (int i = 1; i <= 10; i++) { /* tenths of the longest path */
		factor = 0;
		for (int k = terms - 1; k >= 0; k--)
			factor = factor * 0.1 * i + c[k];
		if (i == 1)
			first = factor;
		if (factor < 0.99 * most || !(factor > 0))
			return false;
		most = fmax(most, factor);
	}
	return factor <= MOST_BENT * first;
}

/* The highest degree whose polynomial is that of a beam that hardens and increases, also for rays
 * through metal: otherwise their line integrals would become small or negative. The other
 * coefficients are 0. */
static void fit_terms(const Slice *s, int terms, double level, double *c)
{
	for (; terms > 1; terms--) {
		memset(c, 0, TERMS * sizeof *c);
		if (fit(s, terms, level, c) && is_hardening(c, terms) &&
			polynomial_increases(c, terms, fmax(1, s->metal / s->most)))
			return;
	}
	memset(c, 0, TERMS * sizeof *c);
	c[0] = 1;
}

/* Reconstructs the powers of p / most. */
static tomos_status make_powers(Slice *s, int terms)
{
	for (int k = 0; k < terms; k++) {
		for (int64_t i = 0; i < s->values; i++)
			s->work[i] = (float)pow((double)s->p[i] / s->most, k + 1);
		TRY(slice_make(s, s->image[k]));
	}
	return TOMOS_OK;
}

/* image[terms] = the corrected slice. */
static void combine(Slice *s, const double *c, int terms)
{
	for (int64_t i = 0; i < s->voxels; i++) {
		double sum = 0;
		for (int k = 0; k < terms; k++)
			sum += c[k] * (double)s->image[k][i];
		s->image[terms][i] = (float)sum;
	}
}

static double object_mean(const Slice *s, const float *image)
{
	double sum = 0, count = 0;
	for (int64_t i = 0; i < s->voxels; i++)
		if (s->class[i] == OBJECT) {
			sum += (double)image[i];
			count += 1;
		}
	return sum / count;
}

/* Classes are found again in the corrected slice, where materials differ more clearly. A polynomial
 * that does not make the object clearly more uniform is not taken: 1, 0, ... */
static tomos_status find_polynomial(Slice *s, int terms, double *found, double quality[2])
{
	double c[TERMS] = {0};
	TRY(make_powers(s, terms));
	TRY(classify(s, s->image[0]));
	for (int i = 0; i < 2; i++) {
		fit_terms(s, terms, object_mean(s, s->image[0]), c);
		combine(s, c, terms);
		TRY(classify(s, s->image[terms]));
	}
	fit_terms(s, terms, object_mean(s, s->image[0]), c);
	combine(s, c, terms);
	double before = spread(s, s->image[0]), after = spread(s, s->image[terms]);
	bool better = after < CLEARLY * before;
	for (int k = 0; k < terms; k++)
		found[k] = better ? c[k] * pow(s->most, -k) : k == 0;
	if (quality) {
		quality[0] = before;
		quality[1] = better ? after : before;
	}
	return TOMOS_OK;
}

tomos_status tomos_hardening_find(double *coefficients, int64_t count, double quality[2],
	tomos_backend *backend, const tomos_geometry *scan, const tomos_array *integrals)
{
	Slice s = {.backend = NULL};
	if (!coefficients || count < 1 || count >= TERMS)
		return fail(TOMOS_BAD_VALUE, "%lld coefficients of a polynomial: 1 to %d",
			(long long)count, TERMS - 1);
	tomos_status status = slice_open(&s, backend, scan, integrals, (int)count + 1);
	if (status == TOMOS_OK)
		status = remove_metal(&s);
	if (status == TOMOS_OK)
		status = find_polynomial(&s, (int)count, coefficients, quality);
	slice_free(&s);
	return status;
}

/* ---- scatter --------------------------------------------------------------------------------- */

/* The spread of the object's values after this much scatter has been subtracted. */
static tomos_status try_scatter(Slice *s, double scatter, double *value)
{
	for (int64_t i = 0; i < s->values; i++)
		s->work[i] =
			(float)-log(fmax((exp(-(double)s->p[i]) - scatter) / (1 - scatter), 1e-6));
	TRY(slice_make(s, s->image[0]));
	*value = spread(s, s->image[0]);
	return TOMOS_OK;
}

/* Golden section between 0 and nearly the smallest transmission. */
static tomos_status find_scatter(Slice *s, double *scatter, double quality[2])
{
	const double golden = 0.6180339887498949;
	double low = 0, high = 0.97 * exp(-s->most), at[2], value[2], none;
	memcpy(s->work, s->p, (size_t)s->values * sizeof *s->work);
	TRY(slice_make(s, s->image[0]));
	TRY(classify(s, s->image[0]));
	none = spread(s, s->image[0]);
	for (int i = 0; i < 2; i++) {
		at[i] = low + (i ? golden : 1 - golden) * (high - low);
		TRY(try_scatter(s, at[i], &value[i]));
	}
	for (int i = 0; i < 18; i++) {
		int better = value[1] < value[0], moved = 1 - better;
		*(better ? &low : &high) = at[moved];
		at[moved] = at[better];
		value[moved] = value[better];
		at[better] = low + (better ? golden : 1 - golden) * (high - low);
		TRY(try_scatter(s, at[better], &value[better]));
	}
	double least = fmin(value[0], value[1]);
	*scatter = least < none ? at[value[1] < value[0]] : 0;
	if (quality) {
		quality[0] = none;
		quality[1] = fmin(least, none);
	}
	return TOMOS_OK;
}

tomos_status tomos_scatter_find(double *scatter, double quality[2], tomos_backend *backend,
	const tomos_geometry *scan, const tomos_array *integrals)
{
	Slice s = {.backend = NULL};
	if (!scatter)
		return fail(TOMOS_BAD_VALUE, "the result of the search for scatter is missing");
	tomos_status status = slice_open(&s, backend, scan, integrals, 1);
	if (status == TOMOS_OK)
		status = find_scatter(&s, scatter, quality);
	slice_free(&s);
	return status;
}
