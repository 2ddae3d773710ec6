/* Bad views and binning. */
#ifndef TOMOS_PREP_VIEWS_H
#define TOMOS_PREP_VIEWS_H

#include "base/base.h"

/* Marks the bad views of the options (to be freed with mem_free) and counts them; rejects all
 * bad. */
tomos_status views_mark(const tomos_prep_options *o, int64_t count, bool **bad, int64_t *found);
tomos_status views_bin_check(int64_t bin, const int64_t shape[3]);

#endif
