/* Bad views, interpolated between the nearest good ones or omitted; and binning. */
#include <string.h>
#include "geom/geom.h"
#include "prep/prep.h"
#include "prep/views.h"

tomos_status views_mark(const tomos_prep_options *o, int64_t count, bool **bad, int64_t *found)
{
	*found = 0;
	TRY(mem_zeroed(bad, count, sizeof **bad, "the list of bad views"));
	for (int64_t i = 0; i < o->bad_views_count; i++) {
		int64_t view = o->bad_views[i];
		if (view < 0 || view >= count) {
			mem_free(*bad);
			*bad = NULL;
			return fail(TOMOS_BAD_VALUE, "bad view %lld: the views are 0 to %lld",
				(long long)view, (long long)count - 1);
		}
		*found += !(*bad)[view];
		(*bad)[view] = true;
	}
	if (*found < count)
		return TOMOS_OK;
	mem_free(*bad);
	*bad = NULL;
	return fail(TOMOS_BAD_VALUE, "all %lld views are bad ones", (long long)count);
}

typedef struct {
	const tomos_array *data;
	const bool *bad;
} Bridging;

static void bridge_row(const void *user, int64_t row, float *scratch)
{
	const Bridging *job = user;
	const tomos_array *a = job->data;
	int64_t views = a->shape[0], columns = a->shape[2], left = -1;
	float *before = scratch, *after = scratch + columns, *between = after + columns;
	for (int64_t v = 0; v < views; v++) {
		if (!job->bad[v]) {
			left = v;
			continue;
		}
		int64_t right = v;
		while (right < views && job->bad[right])
			right++;
		int64_t from = left < 0 ? right : left, to = right < views ? right : left;
		float share = to > from ? (float)(v - from) / (float)(to - from) : 0;
		row_get(a, from, row, before);
		row_get(a, to, row, after);
		for (int64_t c = 0; c < columns; c++)
			between[c] = before[c] + share * (after[c] - before[c]);
		row_put(a, v, row, between);
	}
}

tomos_status tomos_prep_bad_views(
	const tomos_array *data, const tomos_prep_options *options, tomos_prep_report *report)
{
	tomos_prep_options o;
	bool *bad;
	int64_t found;
	TRY(prep_begin(&o, options, report, data, "the views"));
	TRY(views_mark(&o, data->shape[0], &bad, &found));
	Bridging job = {data, bad};
	tomos_status status = TOMOS_OK;
	if (found > 0)
		status = pieces_each(data->shape[1], 3 * data->shape[2], bridge_row, &job);
	if (status == TOMOS_OK)
		status = report_add(report, &(tomos_prep_report){.views = found});
	mem_free(bad);
	return status;
}

typedef struct {
	const tomos_array *data, *binned;
	int64_t bin;
} Binning;

static void bin_view(const void *user, int64_t view, float *row)
{
	const Binning *job = user;
	const tomos_array *in = job->data;
	int64_t bin = job->bin, columns = job->binned->shape[2];
	double share = 1 / ((double)bin * (double)bin);
	for (int64_t r = 0; r < job->binned->shape[1]; r++) {
		for (int64_t c = 0; c < columns; c++) {
			double sum = 0;
			for (int64_t j = 0; j < bin; j++)
				for (int64_t i = 0; i < bin; i++)
					sum += (double)array_row(in, view,
						r * bin + j)[(c * bin + i) * in->stride[2]];
			row[c] = (float)(sum * share);
		}
		row_put(job->binned, view, r, row);
	}
}

tomos_status views_bin_check(int64_t bin, const int64_t shape[3])
{
	if (bin >= 1 && bin <= shape[1] && bin <= shape[2])
		return TOMOS_OK;
	return fail(TOMOS_BAD_VALUE,
		"bin %lld: it must be 1 to the smaller of %lld rows and %lld columns",
		(long long)bin, (long long)shape[1], (long long)shape[2]);
}

tomos_status tomos_prep_bin(const tomos_array *data, int64_t bin, const tomos_array *binned)
{
	TRY(array_check(data, "the views", NULL, ARRAY_READ));
	TRY(views_bin_check(bin, data->shape));
	const int64_t shape[3] = {data->shape[0], data->shape[1] / bin, data->shape[2] / bin};
	TRY(array_check(binned, "the binned views", shape, ARRAY_WRITTEN));
	TRY(arrays_apart(data, "the views", binned, "the binned views"));
	Binning job = {data, binned, bin};
	return pieces_each(shape[0], shape[2], bin_view, &job);
}

/* Pixels become `bin` times as large; if some are left over at the end, the detector centre
 * moves. */
static void bin_geometry(tomos_view *view, int64_t bin, const int64_t from[2], const int64_t to[2])
{
	view_slide(
		view, 0.5 * (double)(to[1] * bin - from[1]), 0.5 * (double)(to[0] * bin - from[0]));
	for (int i = 0; i < 3; i++) {
		view->u[i] *= (double)bin;
		view->v[i] *= (double)bin;
	}
}

tomos_status tomos_prep_geometry(
	tomos_geometry **prepared, const tomos_geometry *scan, const tomos_prep_options *options)
{
	tomos_prep_options o;
	tomos_view *views = NULL;
	bool *bad = NULL;
	int64_t found, shape[3], count = 0;
	tomos_status status;
	*prepared = NULL;
	TRY(prep_take(&o, options));
	if (!scan)
		return fail(TOMOS_BAD_VALUE, "there is no geometry to prepare");
	const int64_t from[3] = {scan->count, scan->rows, scan->columns};
	TRY(tomos_prep_shape(&o, from, shape));
	TRY_OR_DONE(views_mark(&o, scan->count, &bad, &found));
	TRY_OR_DONE(mem_alloc(&views, scan->count, sizeof *views, "the prepared views"));
	for (int64_t i = 0; i < scan->count; i++) {
		if (bad[i] && shape[0] < scan->count)
			continue;
		views[count] = scan->views[i];
		if (shape[1] != from[1] || shape[2] != from[2])
			bin_geometry(&views[count], o.bin, from + 1, shape + 1);
		count++;
	}
	TRY_OR_DONE(tomos_geometry_views(prepared, shape[1], shape[2], views, count));
done:
	mem_free(views);
	mem_free(bad);
	return status;
}
