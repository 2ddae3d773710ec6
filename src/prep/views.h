/* Bad views and binning, as the whole preparation needs them. */
#ifndef TOMOS_PREP_VIEWS_H
#define TOMOS_PREP_VIEWS_H

#include "base/base.h"

/* Which of `count` views the options call bad (to be mem_freed), and how many; not all may be. */
tomos_status views_mark(const tomos_prep_options *o, int64_t count, bool **bad, int64_t *found);
tomos_status views_bin_check(int64_t bin, const int64_t shape[3]);

#endif
