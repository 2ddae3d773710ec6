/* Progress reports to the caller. */
#include "base/base.h"

tomos_status progress_report(const tomos_progress *progress, const char *stage, int64_t done,
	int64_t total, double value)
{
	if (!progress || !progress->report ||
		progress->report(progress->user, stage, done, total, value) == 0)
		return TOMOS_OK;
	if (total > 0)
		return fail(TOMOS_CANCELLED, "%s was cancelled after step %lld of %lld", stage,
			(long long)done, (long long)total);
	return fail(TOMOS_CANCELLED, "%s was cancelled", stage);
}
