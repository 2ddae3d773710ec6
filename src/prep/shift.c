/* Correction of subpixel shifts of the views, by linear or Keys' cubic interpolation.
 *
 * R. G. Keys, Cubic convolution interpolation for digital image processing, IEEE Trans. ASSP 29
 * (1981). Values beyond the detector are those of its edge.
 */
#include "prep/prep.h"

OPTION_VALUES(prep_values, TOMOS_PREP_OPTIONS);

typedef struct {
	const tomos_array *data;
	const tomos_prep_options *options;
	bool cubic;
} Shifting;

enum { TAPS = 4 };

/* Weights of four samples for position t between the middle two. */
static void weights_of(double t, bool cubic, double weight[TAPS])
{
	if (!cubic) {
		weight[0] = weight[3] = 0;
		weight[1] = 1 - t;
		weight[2] = t;
		return;
	}
	weight[0] = t * (-0.5 + t * (1 - 0.5 * t));
	weight[1] = 1 + t * t * (-2.5 + 1.5 * t);
	weight[2] = t * (0.5 + t * (2 - 1.5 * t));
	weight[3] = t * t * (-0.5 + 0.5 * t);
}

/* out[i] = in[i + shift], for `count` samples with this stride. */
static void shift_line(
	const float *in, float *out, int64_t count, int64_t stride, double shift, bool cubic)
{
	double weight[TAPS], whole = floor(shift);
	weights_of(shift - whole, cubic, weight);
	for (int64_t i = 0; i < count; i++) {
		double sum = 0;
		for (int k = 0; k < TAPS; k++) {
			int64_t j = min64(max64(i + (int64_t)whole + k - 1, 0), count - 1);
			sum += weight[k] * (double)in[j * stride];
		}
		out[i * stride] = (float)sum;
	}
}

static double shift_of(const double *list, int64_t count, int64_t view)
{
	return count == 0 ? 0 : list[count == 1 ? 0 : view];
}

static void shift_view(const void *user, int64_t view, float *frame)
{
	const Shifting *job = user;
	const tomos_prep_options *o = job->options;
	int64_t rows = job->data->shape[1], columns = job->data->shape[2];
	double x = shift_of(o->shift_x, o->shift_x_count, view);
	double y = shift_of(o->shift_y, o->shift_y_count, view);
	float *moved = frame + rows * columns;
	if (x == 0 && y == 0)
		return;
	frame_get(job->data, view, frame);
	for (int64_t r = 0; r < rows; r++)
		shift_line(frame + r * columns, moved + r * columns, columns, 1, x, job->cubic);
	for (int64_t c = 0; c < columns; c++)
		shift_line(moved + c, frame + c, rows, columns, y, job->cubic);
	frame_put(job->data, view, frame);
}

tomos_status shift_count_check(const char *name, int64_t count, int64_t views)
{
	if (count > 1 && count != views)
		return fail(TOMOS_BAD_VALUE, "%s has %lld values, for %lld views", name,
			(long long)count, (long long)views);
	return TOMOS_OK;
}

static tomos_status check_list(
	const char *name, const double *list, int64_t count, int64_t views, int64_t size)
{
	TRY(shift_count_check(name, count, views));
	for (int64_t i = 0; i < count; i++)
		if (!(fabs(list[i]) < (double)size))
			return fail(TOMOS_BAD_VALUE,
				"%s of view %lld is %g; it must be less than the %lld pixels in "
				"that direction",
				name, (long long)i, list[i], (long long)size);
	return TOMOS_OK;
}

tomos_status shift_check(const tomos_prep_options *o, const int64_t shape[3])
{
	TRY(check_list("shift-x", o->shift_x, o->shift_x_count, shape[0], shape[2]));
	return check_list("shift-y", o->shift_y, o->shift_y_count, shape[0], shape[1]);
}

tomos_status tomos_prep_shift(
	const tomos_array *data, const tomos_prep_options *options, tomos_prep_report *report)
{
	tomos_prep_options o;
	int by;
	TRY(prep_begin(&o, options, report, data, "the views"));
	const int64_t *n = data->shape;
	TRY(choice_find("shift-by", prep_values.shift_by, o.shift_by, &by));
	TRY(shift_check(&o, n));
	Shifting job = {data, &o, by == 1};
	if (o.shift_x_count == 0 && o.shift_y_count == 0)
		return TOMOS_OK;
	return pieces_each(n[0], 2 * n[1] * n[2], shift_view, &job);
}
