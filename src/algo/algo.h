/* Algorithms on operators and vectors, and what they share. */
#ifndef ALGO_H
#define ALGO_H

#include "op/op.h"

tomos_status progress_report(
	const tomos_progress *progress, const char *stage, int64_t done, int64_t total, double value);

tomos_status sirt(const tomos_op *A, const float *b, float *x, const tomos_sirt_options *o,
	const tomos_progress *p);

#endif
