/* Projections that go on with their result in the same pass over it, where a tuned kernel can: back
 * projections that update the volume, forward ones that are compared with data.
 *
 * J. E. H. Nielsen, thesis of 2014, section 8.3: update and clamp as part of the back projection. Where
 * slices share their weights, so do they share the sums of them, which are those of one slice.
 */
#include "backend/cuda/tuned/hat.h"

enum { WIDE = 32, HIGH = 8, FACTORS = 4 };

typedef struct {
	const HatView *views;
	int64_t count, columns;
	int na, nb;
	int64_t low_a, low_b;
	float a, least;
	float *to; /* [b][a] */
} Factors;

/* The weights with which a view's columns meet a pixel, all together. */
static __device__ float weights_at(const HatView *hat, double a, double b, int64_t columns)
{
	double e = hat->e0 + hat->ea * a + hat->eb * b;
	double first = fmax(ceil(e - hat->h), 0.), last = fmin(floor(e + hat->h), columns - 1.);
	float sum = 0;
	for (double c = first; c <= last; c++)
		sum += hat_value((float)(c - e), 1 / hat->h);
	return hat->weight * sum;
}

static __global__ void __launch_bounds__(WIDE *HIGH) make_factors(const __grid_constant__ Factors s)
{
	int a = blockIdx.x * WIDE + threadIdx.x, b = blockIdx.y * HIGH + threadIdx.y;
	if (a >= s.na || b >= s.nb)
		return;
	float under = 0;
	for (int64_t view = 0; view < s.count; view++)
		under += weights_at(
			&s.views[view], (double)(s.low_a + a), (double)(s.low_b + b), s.columns);
	s.to[(int64_t)b * s.na + a] = cuda_average(s.a, under, s.least);
}

static tomos_status find_factors(
	tomos_backend *backend, const Projecting *what, const HatSlices *l, CudaStep *step)
{
	const Box *box = &what->box;
	float *to;
	Factors s = {.count = what->count,
		.columns = what->plan->model.columns,
		.na = (int)(box->high[l->a] - box->low[l->a]),
		.nb = (int)(box->high[l->b] - box->low[l->b]),
		.low_a = box->low[l->a],
		.low_b = box->low[l->b],
		.a = step->a,
		.least = step->least * l->weight};
	TRY(hat_views(backend, what, l, &s.views));
	TRY(cuda_scratch(backend, FACTORS, (int64_t)s.na * s.nb, &to, "weights of a slice"));
	s.to = to;
	make_factors<<<dim3(cuda_blocks(s.na, WIDE, 1 << 30), cuda_blocks(s.nb, HIGH, 65535)),
		dim3(WIDE, HIGH), 0, device_of(backend)->stream>>>(s);
	CUDA_LAUNCHED("weights of a slice");
	step->factors = to;
	return TOMOS_OK;
}

static tomos_status run_step(tomos_backend *backend, const Projecting *what, const BackStep *given,
	const CudaChoice *choice, CudaSteps way)
{
	CudaDevice *d = device_of(backend);
	CudaStep step = {.a = given->a,
		.low = given->low,
		.high = given->high,
		.volume = what->volume,
		.voxels = given->voxels,
		.average = given->average,
		.rays = given->rays,
		.least = given->least};
	if (way == STEPS_WITH_FACTORS)
		TRY(find_factors(backend, what, notes_of<HatSlices>(&choice->notes), &step));
	d->step = &step;
	backend->ran = choice->tuned->name;
	tomos_status status = choice->tuned->run(backend, what, &choice->notes);
	d->step = NULL;
	return status;
}

static tomos_status step_locked(
	tomos_backend *backend, const Projecting *what, const BackStep *step, bool *done)
{
	const CudaChoice *choice;
	CudaSteps way = STEPS_NOT;
	TRY(cuda_use(backend));
	TRY(cuda_choose(backend, what, &choice));
	if (choice->tuned && choice->tuned->steps)
		way = choice->tuned->steps(backend, what, &choice->notes, step);
	*done = way != STEPS_NOT;
	return *done ? run_step(backend, what, step, choice, way) : TOMOS_OK;
}

tomos_status cuda_back_step(
	tomos_backend *backend, const Projecting *what, const BackStep *step, bool *done)
{
	pthread_mutex_lock(&device_of(backend)->lock);
	tomos_status status = step_locked(backend, what, step, done);
	pthread_mutex_unlock(&device_of(backend)->lock);
	return status;
}

static tomos_status run_compare(tomos_backend *backend, const Projecting *what,
	const Compare *given, const CudaChoice *choice)
{
	CudaDevice *d = device_of(backend);
	const CudaCompare compare = {what->projections, *given};
	tomos_status status = cuda_enter(backend);
	d->compare = &compare;
	backend->ran = choice->tuned->name;
	if (status == TOMOS_OK)
		status = choice->tuned->run(backend, what, &choice->notes);
	d->compare = NULL;
	tomos_status left = cuda_leave(backend);
	return status == TOMOS_OK ? left : status;
}

static tomos_status compare_locked(
	tomos_backend *backend, const Projecting *what, const Compare *compare, bool *done)
{
	const CudaChoice *choice;
	TRY(cuda_use(backend));
	TRY(cuda_choose(backend, what, &choice));
	*done = cuda_fills(choice, what);
	return *done ? run_compare(backend, what, compare, choice) : TOMOS_OK;
}

tomos_status cuda_compare(
	tomos_backend *backend, const Projecting *what, const Compare *compare, bool *done)
{
	pthread_mutex_lock(&device_of(backend)->lock);
	tomos_status status = compare_locked(backend, what, compare, done);
	pthread_mutex_unlock(&device_of(backend)->lock);
	return status;
}
