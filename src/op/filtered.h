/* Filtered back projection as an operator: forward = W F A, adjoint = A'F W, with the voxel-driven
 * projector A, the row filter F, and the weights W of detector pixels. */
#ifndef TOMOS_OP_FILTERED_H
#define TOMOS_OP_FILTERED_H

#include "op/op.h"

#define FBP_ACCURACY 3e-5 /* of back projection by Fourier transforms: a window of 7 taps */

typedef struct {
	const tomos_grid *grid;
	const tomos_geometry *scan; /* aligned detectors of spec.columns columns */
	FilterSpec spec;
	bool nearest; /* interpolation between columns */
	PlanData data;
	bool plain;   /* reference kernels only */
	bool fourier; /* back projection by Fourier transforms, for linear interpolation */
	int aliases;  /* bands that it has on either side of the detector's */
	bool mapped;  /* views are resampled to the aligned detectors */
	/* Fills in `view` and its spec.columns column weights; called from several threads. */
	void (*weigh)(const void *user, int64_t i, FilterView *view, float *weights);
	const void *user;
	const char *name;               /* of the method, for messages and progress reports */
	const tomos_progress *progress; /* NULL: none */
} FilteredParts;

/* What the parts point to, except for grid and scan, must outlive the operator. */
tomos_status op_filtered(tomos_op **op, tomos_backend *backend, const FilteredParts *parts);

/* The adjoint in two parts, with all filtered views in memory (filtered_floats): every box of the
 * volume is computed from the same ones. Not to be mixed with op_adjoint of the same operator. */
int64_t filtered_floats(const tomos_op *op);
tomos_status filtered_rows(const tomos_op *op, const float *y, float *filtered);
tomos_status filtered_back(const tomos_op *op, const float *filtered, const Box *box, float *x);

#endif
