/* The blur of an alignment: that of the projections, which are smoothed, and its removal from a
 * volume for simulated scans of it. Those of a blurred volume would show too little of what depends
 * on small detail. */
#include "algo/align_step.h"

enum { TIMES = 2 }; /* more of them change what is found by less than 0.001 degrees */

/* (1, 2, 1) / 4 along n values; beyond the ends the last values. */
static void smooth_line(float *line, int64_t n, int64_t stride)
{
	float before = line[0];
	for (int64_t i = 0; i < n; i++) {
		float at = line[i * stride], next = i + 1 < n ? line[(i + 1) * stride] : at;
		line[i * stride] = 0.5F * at + 0.25F * (before + next);
		before = at;
	}
}

static void smooth_view(void *user, int64_t view)
{
	const tomos_array *views = user;
	int64_t rows = views->shape[1], columns = views->shape[2];
	float *image = views->data + view * rows * columns;
	for (int64_t r = 0; r < rows; r++)
		smooth_line(image + r * columns, columns, 1);
	for (int64_t c = 0; c < columns && rows > 1; c++)
		smooth_line(image + c, rows, columns);
}

void align_smooth(const tomos_array *views)
{
	tomos_array all = *views;
	parallel_for(all.shape[0], smooth_view, &all);
}

/* sharp += z - S S sharp, which begins with z (van Cittert's iteration). */
static tomos_status sharpen(
	const tomos_op *S, const float *z, float *sharp, float *blurred, float *between)
{
	const Space *space = &S->domain;
	TRY(vector_copy(space, z, sharp));
	for (int i = 0; i < TIMES; i++) {
		TRY(op_forward(S, sharp, between));
		TRY(op_forward(S, between, blurred));
		TRY(vector_axpy(space, -1, blurred, sharp));
		TRY(vector_axpy(space, 1, z, sharp));
	}
	return TOMOS_OK;
}

tomos_status align_sharpen(const tomos_op *S, const float *z, float *sharp)
{
	const Space *space = &S->domain;
	float *blurred, *between;
	TRY(vector_new(&blurred, space, "a blurred volume"));
	tomos_status status = vector_new(&between, space, "a blurred volume");
	if (status == TOMOS_OK) {
		status = sharpen(S, z, sharp, blurred, between);
		vector_free(between, space);
	}
	vector_free(blurred, space);
	return status;
}
