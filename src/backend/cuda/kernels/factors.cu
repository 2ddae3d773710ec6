/* Per-pixel factors for updates that divide the back projection by the sum of the weights. All
 * slices have the same weights, so that the factors are computed for one slice. */
#include "backend/cuda/kernels/factors.h"

enum { WIDE = 32, HIGH = 8 };

typedef struct {
	const HatView *views;
	int64_t count, columns;
	int na, nb;
	int64_t low_a, low_b;
	float a, least;
	float *to; /* result of one slice, [b][a]; a, b: axes of the slice */
} Factors;

/* Sum of the weights with which the columns of one view contribute to pixel (a, b). */
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

tomos_status find_factors(
	tomos_backend *backend, const ProjectRequest *what, const HatSlices *l, CudaUpdate *update)
{
	const Box *box = &what->box;
	float *to;
	Factors s = {.count = what->count,
		.columns = what->plan->model.columns,
		.na = (int)(box->high[l->a] - box->low[l->a]),
		.nb = (int)(box->high[l->b] - box->low[l->b]),
		.low_a = box->low[l->a],
		.low_b = box->low[l->b],
		.a = update->a,
		.least = update->least * l->weight};
	TRY(hat_views(backend, what, l, &s.views));
	TRY(cuda_scratch(
		backend, SCRATCH_FACTORS, (int64_t)s.na * s.nb, &to, "weights of a slice"));
	s.to = to;
	make_factors<<<dim3(cuda_blocks(s.na, WIDE, 1 << 30), cuda_blocks(s.nb, HIGH, 65535)),
		dim3(WIDE, HIGH), 0, device_of(backend)->stream>>>(s);
	CUDA_LAUNCHED("weights of a slice");
	update->factors = to;
	return TOMOS_OK;
}
