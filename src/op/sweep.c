/* Lists the rows of a batch in parallel, then uses them one after the other. */
#include "op/sweep.h"
#include "op/matrix.h"

enum { BATCH_BYTES = 64 << 20, LEAST_ROWS = 64, MOST_ROWS = 4096 };

/* An integer of 8 bytes takes two floats. */
enum { LONG = 2 };

tomos_status sweep_open(Sweep *s, const tomos_op *op)
{
	tomos_backend *backend = op->domain.backend;
	int64_t most = op->row_most, capacity = BATCH_BYTES / (most * (LONG + 1) * 4);
	int64_t rows = min64(op->range.count, max64(LEAST_ROWS, min64(capacity, MOST_ROWS)));
	*s = (Sweep){.op = op, .batch = {.count = rows, .most = most}};
	TRY(device_reserve(backend, &s->order, LONG * op->range.count, "the order of rays"));
	TRY(device_reserve(backend, &s->batch.entries, LONG * rows, "rows"));
	TRY(device_reserve(backend, &s->batch.index, LONG * rows * most, "rows"));
	return device_reserve(backend, &s->batch.weight, rows * most, "rows");
}

void sweep_close(Sweep *s)
{
	if (!s->op)
		return;
	tomos_backend *backend = s->op->domain.backend;
	device_free(backend, &s->order);
	device_free(backend, &s->batch.entries);
	device_free(backend, &s->batch.index);
	device_free(backend, &s->batch.weight);
}

tomos_status sweep_order(const Sweep *s, const int64_t *rays)
{
	tomos_backend *backend = s->op->domain.backend;
	tomos_array list =
		tomos_array_of((float *)(uintptr_t)rays, 1, 1, LONG * s->op->range.count);
	return backend->type->memory->upload(backend, (float *)(uintptr_t)s->order, &list);
}

tomos_status sweep_run(const Sweep *s, const KernelKaczmarz *kaczmarz)
{
	tomos_backend *backend = s->op->domain.backend;
	int64_t rays = s->op->range.count;
	KernelBatch batch = s->batch;
	for (int64_t at = 0; at < rays; at += s->batch.count) {
		batch.ray = s->order + at;
		batch.count = min64(s->batch.count, rays - at);
		TRY(cancel_check("a sweep"));
		TRY(op_list(s->op, &batch));
		TRY(backend->type->matrix->kaczmarz_rows(backend, &batch, kaczmarz));
	}
	return TOMOS_OK;
}
