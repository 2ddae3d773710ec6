/* Flat-field correction: (counts - dark) / (flat - dark), flats averaged or interpolated in time.
 *
 * Pixels without light and counts that are not finite are interpolated from their neighbours in the
 * row, so that rows are independent of each other. Values below the floor are raised to it.
 */
#include <stdatomic.h>
#include <string.h>
#include "prep/flats.h"
#include "prep/prep.h"

OPTION_VALUES(prep_values, TOMOS_PREP_OPTIONS);

/* Images [image][row][column], averaged into one for each time at which they were taken. */
typedef struct {
	int64_t rows, columns;
	FlatGroups of;
	float *images; /* [group][row][column] */
} Field;

typedef struct {
	const tomos_array *counts;
	const Field *flat, *dark;
	double first_view;
	int drift;
	float floor;
	_Atomic int64_t *repaired, *raised;
} Normalizing;

typedef struct {
	const tomos_array *images;
	Field *field;
	bool median;
} Reducing;

static void reduce_pixel(const Reducing *job, const Taken *images, int64_t count, int64_t row,
	int64_t column, float *values)
{
	const tomos_array *a = job->images;
	Field *f = job->field;
	double sum = 0;
	for (int64_t i = 0; i < count; i++) {
		values[i] = array_row(a, images[i].image, row)[column * a->stride[2]];
		sum += (double)values[i];
	}
	float one = job->median && isfinite(sum) ? median_of(values, count)
						 : (float)(sum / (double)count);
	f->images[row * f->columns + column] = one;
}

static void reduce_row(const void *user, int64_t row, float *values)
{
	Reducing job = *(const Reducing *)user;
	Field *f = job.field, group = *f;
	for (int64_t g = 0; g < f->of.groups; g++) {
		group.images = f->images + g * f->rows * f->columns;
		job.field = &group;
		for (int64_t c = 0; c < f->columns; c++)
			reduce_pixel(&job, f->of.order + f->of.begins[g],
				f->of.begins[g + 1] - f->of.begins[g], row, c, values);
	}
}

static void field_free(Field *f)
{
	flats_free(&f->of);
	mem_free(f->images);
}

/* Zeros if there are no images. */
static tomos_status field_make(
	Field *f, const tomos_array *images, const double *positions, bool median)
{
	int64_t size = f->rows * f->columns, all;
	TRY(flats_group(&f->of, images ? images->shape[0] : 1, positions));
	if (!size_mul(size, f->of.groups, &all))
		return fail(TOMOS_NO_MEMORY, "no memory for %lld flats", (long long)f->of.groups);
	TRY(mem_zeroed(&f->images, all, sizeof(float), "averaged flats or darks"));
	Reducing job = {images, f, median};
	return images ? pieces_each(f->rows, f->of.count, reduce_row, &job) : TOMOS_OK;
}

static void normalize_row(const Normalizing *job, int64_t view, int64_t row, float *values)
{
	const Field *flat = job->flat;
	int64_t columns = flat->columns, plane = flat->rows * columns, group[2];
	float share;
	flats_between(&flat->of, job->first_view + (double)view, job->drift, group, &share);
	const float *a = flat->images + group[0] * plane + row * columns;
	const float *b = flat->images + group[1] * plane + row * columns;
	const float *dark = job->dark->images + row * columns;
	for (int64_t c = 0; c < columns; c++) {
		float light = a[c] + share * (b[c] - a[c]) - dark[c];
		float ratio =
			(values[c] - dark[c]) / light; /* in any case, so that loops vectorise */
		values[c] = light > 0 ? ratio : NAN;
	}
	*job->repaired += row_repair(values, columns, 1);
	*job->raised += row_raise(values, columns, job->floor);
}

static void normalize_view(const void *user, int64_t view, float *values)
{
	const Normalizing *job = user;
	for (int64_t row = 0; row < job->counts->shape[1]; row++) {
		row_get(job->counts, view, row, values);
		normalize_row(job, view, row, values);
		row_put(job->counts, view, row, values);
	}
}

static tomos_status check_images(
	const tomos_array *images, const char *what, const tomos_array *data)
{
	if (!images)
		return TOMOS_OK;
	TRY(array_check(images, what, NULL, ARRAY_READ));
	if (images->shape[1] == data->shape[1] && images->shape[2] == data->shape[2])
		return TOMOS_OK;
	return fail(TOMOS_BAD_VALUE,
		"%s have %lld rows x %lld columns, but the views have %lld x %lld", what,
		(long long)images->shape[1], (long long)images->shape[2], (long long)data->shape[1],
		(long long)data->shape[2]);
}

tomos_status tomos_prep_normalize(const tomos_array *counts, const tomos_fields *fields,
	const tomos_prep_options *options, tomos_prep_report *report)
{
	tomos_prep_options o;
	int flats, drift;
	tomos_fields own = {.bytes = sizeof own};
	TRY(prep_take(&o, options));
	TRY(struct_take(&own, fields, "tomos_fields"));
	fields = &own;
	TRY(report_add(report, NULL));
	TRY(array_check(counts, "the counts", NULL, ARRAY_WRITTEN));
	if (!fields->flats)
		return fail(TOMOS_BAD_VALUE, "there are no flats to normalize the counts with");
	TRY(check_images(fields->flats, "the flats", counts));
	TRY(check_images(fields->darks, "the darks", counts));
	TRY(flats_check(fields->flat_views, fields->flats->shape[0]));
	TRY(choice_find("flat-average", prep_values.flat_average, o.flat_average, &flats));
	TRY(choice_find("drift", prep_values.drift, o.drift, &drift));
	TRY(prep_need(&o, fields, "counts"));
	Field flat = {.rows = counts->shape[1], .columns = counts->shape[2]}, dark = flat;
	_Atomic int64_t repaired = 0, raised = 0;
	tomos_status status;
	TRY_OR_DONE(field_make(
		&flat, fields->flats, drift == 2 ? NULL : fields->flat_views, flats == 1));
	TRY_OR_DONE(field_make(&dark, fields->darks, NULL, flats == 1));
	Normalizing job = {counts, &flat, &dark, fields->first_view, drift, (float)o.floor,
		&repaired, &raised};
	TRY_OR_DONE(pieces_each(counts->shape[0], flat.columns, normalize_view, &job));
	const tomos_prep_report found = {.repaired = repaired, .raised = raised};
	status = report_add(report, &found);
done:
	field_free(&flat);
	field_free(&dark);
	return status;
}
