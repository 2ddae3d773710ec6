/* Algorithms on operators and vectors, and what they share. */
#ifndef ALGO_H
#define ALGO_H

#include "op/op.h"

tomos_status progress_report(const tomos_progress *progress, const char *stage, int64_t done,
	int64_t total, double value);

#endif
