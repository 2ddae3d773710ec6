/* Where the object of an alignment is: the voxels that no rays through air pass, and whether it
 * goes on beyond the detector.
 *
 * The level of the noise in air is that of the values below 0, which no object causes. A ray is in
 * air if its neighbours are as well. Where the values of air have an offset above the noise, there
 * are no such rays, and no voxels are left out. */
#include <math.h>
#include "algo/align_step.h"

#define ABOVE_NOISE 4.0 /* standard deviations of the noise in air */
#define ABOVE_MEAN 0.02 /* of the mean of all values: of data without noise */
#define OUTLIER 4.0     /* standard deviations: values further below 0 are not noise */

enum {
	MARGIN = 1, /* pixels around the object that are not taken for air */
	PASSES = 10,
	MOST_VALUES = 1000000,
	PARTS = 32 /* of the views, in each of which a thread takes the largest value */
};

#define CUT 0.03    /* of the largest value: mean of an outermost row that cuts the object off */
#define SHARE 0.05F /* of the views that see a voxel of the object: at most as many see it in air */

/* The least value of rays through the object. */
static double least_of(const float *data, int64_t count)
{
	int64_t step = 1 + count / MOST_VALUES;
	double sum = 0, sigma = 0, within = INFINITY;
	for (int64_t i = 0; i < count; i += step)
		sum += (double)data[i];
	for (int pass = 0; pass < PASSES; pass++) {
		double squares = 0;
		int64_t found = 0;
		for (int64_t i = 0; i < count; i += step)
			if (data[i] < 0 && (double)data[i] > -within) {
				squares += (double)data[i] * (double)data[i];
				found++;
			}
		sigma = found ? sqrt(squares / (double)found) : 0;
		within = OUTLIER * sigma;
	}
	double mean = sum / (double)(1 + (count - 1) / step);
	return fmax(ABOVE_NOISE * sigma, ABOVE_MEAN * mean);
}

/* to[i] = the least of the values within MARGIN of from[i]. */
static void least_of_line(const float *from, float *to, int64_t n, int64_t stride)
{
	for (int64_t i = 0; i < n; i++) {
		int64_t first = i > MARGIN ? i - MARGIN : 0;
		int64_t last = i + MARGIN < n ? i + MARGIN : n - 1;
		float least = from[first * stride];
		for (int64_t k = first + 1; k <= last; k++)
			least = fminf(least, from[k * stride]);
		to[i * stride] = least;
	}
}

typedef struct {
	const float *data;
	float *air, *between;
	int64_t rows, columns;
	double least;
} Air;

static void air_of_view(void *user, int64_t view)
{
	const Air *a = user;
	int64_t first = view * a->rows * a->columns;
	float *air = a->air + first, *between = a->between + first;
	for (int64_t i = 0; i < a->rows * a->columns; i++)
		air[i] = fabs((double)a->data[first + i]) < a->least;
	for (int64_t r = 0; r < a->rows; r++)
		least_of_line(air + r * a->columns, between + r * a->columns, a->columns, 1);
	for (int64_t c = 0; c < a->columns; c++)
		least_of_line(between + c, air + c, a->rows, a->columns);
}

tomos_status align_air(const tomos_array *data, float *air)
{
	const int64_t *n = data->shape;
	Air a = {.data = data->data, .air = air, .rows = n[1], .columns = n[2]};
	int64_t count = n[0] * n[1] * n[2];
	TRY(mem_alloc(&a.between, count, sizeof *a.between, "rays in air"));
	a.least = least_of(a.data, count);
	parallel_for(n[0], air_of_view, &a);
	mem_free(a.between);
	return TOMOS_OK;
}

/* The voxels that hardly any view sees in air: 1, the others 0. */
tomos_status align_mask(const tomos_op *P, const tomos_array *air, float *mask)
{
	const Space *X = &P->domain, *Y = &P->range;
	Vector rays = {0};
	float *ones = NULL, *in_air = NULL;
	tomos_status status;
	TRY_OR_DONE(vector_borrow(&rays, Y, air, VECTOR_IN, "rays in air"));
	TRY_OR_DONE(vector_new(&ones, Y, "ones"));
	TRY_OR_DONE(vector_new(&in_air, X, "rays in air"));
	TRY_OR_DONE(vector_fill(Y, 1, ones));
	TRY_OR_DONE(op_adjoint(P, rays.data, in_air));
	TRY_OR_DONE(op_adjoint(P, ones, mask));
	TRY_OR_DONE(vector_scale(X, SHARE, mask));
	TRY_OR_DONE(vector_axpy(X, -1, in_air, mask));
	TRY_OR_DONE(vector_clamp(X, 0, INFINITY, mask));
	TRY_OR_DONE(vector_indicator(X, mask));
done:
	vector_free(in_air, X);
	vector_free(ones, Y);
	(void)vector_return(&rays, Y, VECTOR_IN);
	return status;
}

/* ---- objects that are cut off ---------------------------------------------------------------- */

typedef struct {
	const tomos_array *projections;
	float most[PARTS];
} Largest;

static void largest_of_part(void *user, int64_t part)
{
	Largest *l = user;
	const tomos_array *p = l->projections;
	float most = 0;
	for (int64_t v = part; v < p->shape[0]; v += PARTS)
		for (int64_t r = 0; r < p->shape[1]; r++) {
			const float *row = p->data + v * p->stride[0] + r * p->stride[1];
			for (int64_t c = 0; c < p->shape[2]; c++)
				most = row[c * p->stride[2]] > most ? row[c * p->stride[2]] : most;
		}
	l->most[part] = most;
}

static float largest(const tomos_array *projections)
{
	Largest l = {.projections = projections};
	float most = 0;
	parallel_for(PARTS, largest_of_part, &l);
	for (int i = 0; i < PARTS; i++)
		most = l.most[i] > most ? l.most[i] : most;
	return most;
}

/* Mean of one row of all views. */
static double row_mean(const tomos_array *p, int64_t row)
{
	double sum = 0;
	for (int64_t v = 0; v < p->shape[0]; v++)
		for (int64_t c = 0; c < p->shape[2]; c++)
			sum += (double)p->data[v * p->stride[0] + row * p->stride[1] +
					       c * p->stride[2]];
	return sum / (double)(p->shape[0] * p->shape[2]);
}

int tomos_align_cut(const tomos_array *projections)
{
	if (!projections || !projections->data || projections->shape[1] < 2)
		return 0;
	double least = CUT * (double)largest(projections);
	return row_mean(projections, 0) > least ||
	       row_mean(projections, projections->shape[1] - 1) > least;
}
