/* The public faces of the algorithms: options checked, callers' arrays brought to the backend. */
#include "algo/algo.h"

tomos_status progress_report(
	const tomos_progress *progress, const char *stage, int64_t done, int64_t total, double value)
{
	if (progress && progress->report &&
		progress->report(progress->user, stage, done, total, value) != 0)
		return fail(TOMOS_CANCELLED, "%s was cancelled after step %lld of %lld", stage,
			(long long)done, (long long)total);
	return TOMOS_OK;
}

tomos_status tomos_sirt(const tomos_op *op, const tomos_array *b, const tomos_array *x,
	const tomos_sirt_options *options, const tomos_progress *progress)
{
	tomos_sirt_options o = tomos_sirt_defaults();
	TRY(options_take(&o, options, "sirt"));
	if (o.iterations < 0)
		return fail(TOMOS_BAD_VALUE, "%lld iterations: the number must not be negative",
			(long long)o.iterations);
	if (!(o.relaxation > 0 && o.relaxation < 2))
		return fail(TOMOS_BAD_VALUE, "relaxation %g: it must lie between 0 and 2", o.relaxation);
	if (!(o.minimum <= o.maximum))
		return fail(TOMOS_BAD_VALUE, "minimum %g is above maximum %g", o.minimum, o.maximum);
	Vector data, image;
	TRY(vector_borrow(&data, &op->range, b, VECTOR_IN, "the projections"));
	tomos_status status = vector_borrow(&image, &op->domain, x, VECTOR_IN_OUT, "the volume");
	if (status == TOMOS_OK) {
		status = sirt(op, data.data, image.data, &o, progress);
		tomos_status returned = vector_return(&image, &op->domain, VECTOR_IN_OUT);
		status = status != TOMOS_OK ? status : returned;
	}
	vector_return(&data, &op->range, VECTOR_IN);
	return status;
}
