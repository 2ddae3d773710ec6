/* Products with stored matrices on the device; matrix rows listed and used on the device. */
#include "backend/opencl/opencl.h"

/* ---- arguments ------------------------------------------------------------------------------- */

enum { MOST_ARGS = 32 };

/* Arguments collected for a task, and the buffers that some of them refer to. */
typedef struct {
	OpenclArg args[MOST_ARGS];
	OpenclPlace places[MOST_ARGS];
	int count;
} Task;

static void take(Task *task, const void *value, size_t size)
{
	task->args[task->count++] = (OpenclArg){size, value};
}

#define TAKE(variable) take(task, &(variable), sizeof(variable))

/* Adds a whole array, or a vector, which may start inside one. */
static tomos_status take_array(Task *task, tomos_backend *backend, const void *array)
{
	OpenclPlace *place = &task->places[task->count];
	TRY(opencl_place(backend, array, place));
	TAKE(place->memory);
	return TOMOS_OK;
}

static tomos_status take_vector(Task *task, tomos_backend *backend, const void *vector)
{
	OpenclPlace *place = &task->places[task->count];
	TRY(take_array(task, backend, vector));
	TAKE(place->at);
	return TOMOS_OK;
}

static tomos_status take_csr(Task *task, tomos_backend *backend, const KernelCsr *m)
{
	TAKE(m->rows);
	TAKE(m->columns);
	TAKE(m->view_rows);
	TAKE(m->wide_pointers);
	TAKE(m->wide_indices);
	TRY(take_array(task, backend, m->pointers));
	TRY(take_array(task, backend, m->indices));
	TRY(take_array(task, backend, m->values));
	return take_array(task, backend, m->views);
}

static tomos_status take_scsr(Task *task, tomos_backend *backend, const KernelScsr *m)
{
	const void *arrays[] = {m->index, m->weight, m->column, m->pieces, m->places,
		m->first_place, m->orbit, m->lane_of, m->units, m->used_pieces, m->waves,
		m->first_image, m->image, m->work};
	TAKE(m->of);
	for (int i = 0; i < COUNT(arrays); i++)
		TRY(take_array(task, backend, arrays[i]));
	return TOMOS_OK;
}

static tomos_status take_batch(Task *task, tomos_backend *backend, const KernelBatch *batch)
{
	TAKE(batch->count);
	TAKE(batch->most);
	TRY(take_vector(task, backend, batch->ray));
	TRY(take_array(task, backend, batch->index));
	TRY(take_array(task, backend, batch->entries));
	return take_array(task, backend, batch->weight);
}

/* ---- compressed rows ------------------------------------------------------------------------- */

static tomos_status opencl_csr_apply(tomos_backend *backend, const KernelCsr *m,
	Direction direction, int power, const float *in, float *out)
{
	Task made = {.count = 0}, *task = &made;
	const int64_t n[3] = {WIDE, m->rows, 1};
	if (direction == ADJOINT)
		TRY(backend->type->vector->fill(backend, m->columns, 0, out));
	TRY(take_csr(task, backend, m));
	TAKE(power);
	TRY(take_vector(task, backend, in));
	TRY(take_vector(task, backend, out));
	return opencl_planes(backend,
		direction == FORWARD ? TASK_matrix_csr_forward : TASK_matrix_csr_adjoint, n,
		task->args, task->count);
}

static tomos_status opencl_csr_list_rows(
	tomos_backend *backend, const KernelCsr *m, const KernelBatch *batch)
{
	Task made = {.count = 0}, *task = &made;
	const int64_t n[3] = {WIDE, batch->count, 1};
	TRY(take_csr(task, backend, m));
	TRY(take_batch(task, backend, batch));
	return opencl_planes(backend, TASK_matrix_csr_list, n, task->args, task->count);
}

/* ---- symmetric compressed rows --------------------------------------------------------------- */

typedef struct {
	tomos_backend *backend;
	const KernelScsr *m;
	int power;
	const float *in;
	float *out;
} Product;

static tomos_status run_images(const Product *p)
{
	Task made = {.count = 0}, *task = &made;
	const KernelSlabs *of = &p->m->of;
	const int64_t n[3] = {of->width * of->height * of->lanes, of->slabs, 1};
	TRY(take_scsr(task, p->backend, p->m));
	TRY(take_vector(task, p->backend, p->in));
	return opencl_planes(p->backend, TASK_matrix_scsr_images, n, task->args, task->count);
}

static tomos_status run_rows(const Product *p, int which, const float *vector)
{
	Task made = {.count = 0}, *task = &made;
	const KernelSlabs *of = &p->m->of;
	const int64_t n[3] = {of->view_columns * of->lanes, of->used, 1};
	TRY(take_scsr(task, p->backend, p->m));
	TRY(take_vector(task, p->backend, vector));
	return opencl_planes(p->backend, which, n, task->args, task->count);
}

static tomos_status run_units(const Product *p, int which)
{
	Task made = {.count = 0}, *task = &made;
	if (p->m->of.units == 0)
		return TOMOS_OK;
	TRY(take_scsr(task, p->backend, p->m));
	TAKE(p->power);
	return opencl_line(p->backend, which, p->m->of.units * GROUP, task->args, task->count);
}

static tomos_status run_collect(const Product *p)
{
	Task made = {.count = 0}, *task = &made;
	const KernelSlabs *of = &p->m->of;
	TRY(take_scsr(task, p->backend, p->m));
	TRY(take_vector(task, p->backend, p->out));
	return opencl_line(
		p->backend, TASK_matrix_scsr_collect, of->nx * of->ny, task->args, task->count);
}

static tomos_status run_forward(const Product *p)
{
	TRY(run_images(p));
	TRY(run_units(p, TASK_matrix_scsr_forward));
	return run_rows(p, TASK_matrix_scsr_totals, p->out);
}

static tomos_status run_adjoint(const Product *p)
{
	TRY(run_rows(p, TASK_matrix_scsr_rows, p->in));
	TRY(run_units(p, TASK_matrix_scsr_adjoint));
	return run_collect(p);
}

/* Intermediate images belong to the matrix: only one product at a time is enqueued. */
static tomos_status opencl_scsr_apply(tomos_backend *backend, const KernelScsr *m,
	Direction direction, int power, const float *in, float *out)
{
	const Product product = {backend, m, power, in, out};
	pthread_mutex_lock(&device_of(backend)->plans);
	tomos_status status = direction == FORWARD ? run_forward(&product) : run_adjoint(&product);
	pthread_mutex_unlock(&device_of(backend)->plans);
	return status;
}

static tomos_status opencl_scsr_list_rows(
	tomos_backend *backend, const KernelScsr *m, const KernelBatch *batch)
{
	Task made = {.count = 0}, *task = &made;
	TRY(take_scsr(task, backend, m));
	TRY(take_batch(task, backend, batch));
	return opencl_line(backend, TASK_matrix_scsr_list, batch->count, task->args, task->count);
}

/* ---- rows, one after the other --------------------------------------------------------------- */

static tomos_status opencl_weight_rows(
	tomos_backend *backend, const KernelBatch *batch, const float *rays, const float *voxels)
{
	Task made = {.count = 0}, *task = &made;
	const int64_t n[3] = {WIDE, batch->count, 1};
	TRY(take_batch(task, backend, batch));
	TRY(take_vector(task, backend, rays));
	TRY(take_vector(task, backend, voxels));
	return opencl_planes(backend, TASK_matrix_weigh, n, task->args, task->count);
}

static tomos_status opencl_kaczmarz_rows(
	tomos_backend *backend, const KernelBatch *batch, const KernelKaczmarz *v)
{
	Task made = {.count = 0}, *task = &made;
	TRY(take_batch(task, backend, batch));
	TRY(take_vector(task, backend, v->b));
	TRY(take_vector(task, backend, v->squares));
	TRY(take_vector(task, backend, v->r));
	TRY(take_vector(task, backend, v->x));
	TAKE(v->lambda);
	TAKE(v->least);
	TAKE(v->low);
	TAKE(v->high);
	return opencl_line(backend, TASK_matrix_visit, GROUP, task->args, task->count);
}

static tomos_status opencl_kaczmarz_view(tomos_backend *backend, const KernelKaczmarzView *what)
{
	Task made = {.count = 0}, *task = &made;
	TAKE(what->rays);
	TAKE(what->near);
	TRY(take_vector(task, backend, what->b));
	TRY(take_vector(task, backend, what->squares));
	TRY(take_vector(task, backend, what->products));
	TRY(take_vector(task, backend, what->r));
	TRY(take_vector(task, backend, what->steps));
	TAKE(what->lambda);
	TAKE(what->least);
	return opencl_line(backend, TASK_matrix_view_steps, 1, task->args, task->count);
}

const BackendMatrix opencl_matrix = {BACKEND_MATRIX(opencl)};
