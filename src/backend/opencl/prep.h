/* Preparation on an OpenCL device: what its files share. */
#ifndef TOMOS_BACKEND_OPENCL_PREP_H
#define TOMOS_BACKEND_OPENCL_PREP_H

#include "backend/device/prepare.h"
#include "backend/opencl/fft.h"
#include "backend/opencl/prep_args.h"

enum { PREP_BATCH = 16 << 20 }; /* floats of a step's scratch memory, or more */

typedef struct {
	PrepWork work;
	/* phase: transforms of the last size of frames, along rows and columns */
	PrepFrame frame;
	OpenclFft along, across;
} OpenclPrep;

extern const PrepStep opencl_prep_vo, opencl_prep_wavelet, opencl_prep_titarenko, opencl_prep_phase;

static inline PrepShape prep_shape(const PrepData *d)
{
	return (PrepShape){d->views, d->rows, d->columns};
}

/* The counter of one kind of changes. */
static inline tomos_status prep_counter(
	tomos_backend *b, const PrepWork *w, int kind, OpenclPlace *place)
{
	return opencl_place(b, (const float *)(const void *)(w->found + kind), place);
}

#endif
