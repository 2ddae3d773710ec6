/* Parallel loops over rows, views or sinograms of strided arrays, with scratch memory per
 * thread. */
#include <stdatomic.h>
#include <string.h>
#include "prep/prep.h"

typedef struct {
	PieceTask task;
	const void *job;
	int64_t count, floats;
	float *scratch;
	_Atomic int64_t next;
} Pieces;

static void run_share(void *user, int64_t worker)
{
	Pieces *p = user;
	for (int64_t i; !cancel_seen() && (i = atomic_fetch_add(&p->next, 1)) < p->count;)
		p->task(p->job, i, p->scratch + worker * p->floats);
}

tomos_status pieces_each(int64_t count, int64_t floats, PieceTask task, const void *job)
{
	int64_t workers = min64(tomos_threads(), count), all;
	floats = (floats + 15) / 16 * 16; /* so that the scratch of every thread is aligned */
	Pieces p = {.task = task, .job = job, .count = count, .floats = floats};
	if (!size_mul(floats, workers, &all))
		return fail(TOMOS_NO_MEMORY, "no memory for %lld x %lld floats of scratch",
			(long long)workers, (long long)floats);
	TRY(mem_alloc(&p.scratch, max64(all, 1), sizeof(float), "scratch of the preparation"));
	tomos_status status = parallel_try(workers, run_share, &p, "the preparation");
	mem_free(p.scratch);
	return status;
}

void row_get(const tomos_array *a, int64_t view, int64_t row, float *out)
{
	const float *in = array_row(a, view, row);
	if (a->stride[2] == 1) {
		memcpy(out, in, (size_t)a->shape[2] * sizeof *out);
		return;
	}
	for (int64_t i = 0; i < a->shape[2]; i++)
		out[i] = in[i * a->stride[2]];
}

void row_put(const tomos_array *a, int64_t view, int64_t row, const float *in)
{
	float *out = array_row(a, view, row);
	if (a->stride[2] == 1) {
		memcpy(out, in, (size_t)a->shape[2] * sizeof *out);
		return;
	}
	for (int64_t i = 0; i < a->shape[2]; i++)
		out[i * a->stride[2]] = in[i];
}

void sinogram_get(const tomos_array *a, int64_t row, float *out)
{
	for (int64_t view = 0; view < a->shape[0]; view++)
		row_get(a, view, row, out + view * a->shape[2]);
}

void sinogram_put(const tomos_array *a, int64_t row, const float *in)
{
	for (int64_t view = 0; view < a->shape[0]; view++)
		row_put(a, view, row, in + view * a->shape[2]);
}

void frame_get(const tomos_array *a, int64_t view, float *out)
{
	for (int64_t row = 0; row < a->shape[1]; row++)
		row_get(a, view, row, out + row * a->shape[2]);
}

void frame_put(const tomos_array *a, int64_t view, const float *in)
{
	for (int64_t row = 0; row < a->shape[1]; row++)
		row_put(a, view, row, in + row * a->shape[2]);
}

/* Interpolates columns from..to-1 between the good values beside them, or repeats the only one. */
static void bridge(float *row, int64_t columns, int64_t from, int64_t to, float none)
{
	float left = from > 0 ? row[from - 1] : to < columns ? row[to] : none;
	float right = to < columns ? row[to] : left;
	for (int64_t i = from; i < to; i++)
		row[i] = left + (right - left) * (float)(i - from + 1) / (float)(to - from + 1);
}

/* By bits, as compilers vectorise this loop. */
static bool all_finite(const float *row, int64_t columns)
{
	uint32_t bad = 0;
	for (int64_t i = 0; i < columns; i++) {
		uint32_t bits;
		memcpy(&bits, row + i, sizeof bits);
		bad |= (bits & 0x7f800000u) == 0x7f800000u;
	}
	return bad == 0;
}

int64_t row_repair(float *row, int64_t columns, float none)
{
	int64_t bad = 0;
	if (all_finite(row, columns))
		return 0;
	for (int64_t i = 0; i < columns; i++) {
		int64_t from = i;
		while (i < columns && !isfinite(row[i]))
			i++;
		if (i > from)
			bridge(row, columns, from, i, none);
		bad += i - from;
	}
	return bad;
}

int64_t row_raise(float *row, int64_t columns, float floor)
{
	enum { PART = 1 << 20 };
	int64_t raised = 0;
	for (int64_t first = 0; first < columns; first += PART) {
		int32_t part = 0; /* of the width of the values, so that the loop vectorises */
		for (int64_t i = first; i < min64(first + PART, columns); i++) {
			part += row[i] < floor;
			row[i] = row[i] > floor ? row[i] : floor;
		}
		raised += part;
	}
	return raised;
}
