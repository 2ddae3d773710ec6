/* The vector operations of a backend compared with their definitions, on parts of longer
 * vectors. */
#include "backend/backend.h" /* first: cmocka makes a macro of fail() */
#include "ops/cases.h"

enum { N = 1000, BEFORE = 3, LENGTH = N + 8, LARGE = 300007 };

/* w, x and y on the host, the same on the device, and y as the device has left it. */
typedef struct {
	tomos_backend *backend;
	const BackendType *type;
	float w[LENGTH], x[LENGTH], y[LENGTH], out[LENGTH];
	float *vectors[3];
} Vectors;

static tomos_array line(float *data, int64_t n)
{
	return tomos_array_of(data, 1, 1, n);
}

static int setup(void **state)
{
	static Vectors all;
	Case c = {.state = 3};
	if (tomos_backend_open(&all.backend, test_backend()) != TOMOS_OK) {
		print_message("%s\n", tomos_message());
		return -1;
	}
	all.type = all.backend->type;
	for (int i = 0; i < LENGTH; i++) {
		all.w[i] = (float)case_between(&c, 0, 2);
		all.x[i] = (float)case_between(&c, -1, 1);
		all.y[i] = i % 7 == 0 ? 0 : (float)case_between(&c, -1, 1);
	}
	for (int k = 0; k < 3; k++)
		OK(all.type->memory->alloc(all.backend, &all.vectors[k], LENGTH, "a vector"));
	*state = &all;
	return 0;
}

static int teardown(void **state)
{
	Vectors *all = *state;
	for (int k = 0; k < 3; k++)
		all->type->memory->release(all->backend, all->vectors[k]);
	tomos_backend_close(all->backend);
	return 0;
}

static void load(Vectors *all)
{
	float *host[] = {all->w, all->x, all->y};
	for (int k = 0; k < 3; k++) {
		tomos_array array = line(host[k], LENGTH);
		OK(all->type->memory->upload(all->backend, all->vectors[k], &array));
	}
}

static void fetch(Vectors *all)
{
	tomos_array array = line(all->out, LENGTH);
	OK(all->type->memory->download(all->backend, all->vectors[2], &array));
	for (int i = 0; i < LENGTH; i++)
		if ((i < BEFORE || i >= BEFORE + N) && all->out[i] != all->y[i])
			fail_msg("element %d is outside, but was changed", i);
}

static void near(double is, double wanted, const char *name, int64_t i)
{
	if (!(fabs(is - wanted) <= 1e-6 * (1 + fabs(wanted))))
		fail_msg("%s: element %lld is %g, not %g", name, (long long)i, is, wanted);
}

/* In `call` the vectors are W, X and Y; in `value` their elements w, x and y. */
#define EXPECT(call, value) \
	do { \
		load(all); \
		float *W = all->vectors[0] + BEFORE, *X = all->vectors[1] + BEFORE, \
		      *Y = all->vectors[2] + BEFORE; \
		(void)W, (void)X; \
		OK(all->type->vector->call); \
		fetch(all); \
		for (int i = BEFORE; i < BEFORE + N; i++) { \
			float w = all->w[i], x = all->x[i], y = all->y[i]; \
			(void)w, (void)x, (void)y; \
			near(all->out[i], value, #call, i); \
		} \
	} while (0)

static float between(float value, float low, float high)
{
	return fminf(fmaxf(value, low), high);
}

static void elements(void **state)
{
	Vectors *all = *state;
	tomos_backend *b = all->backend;
	EXPECT(fill(b, N, 2.5F, Y), 2.5);
	EXPECT(copy(b, N, X, Y), x);
	EXPECT(axpy(b, N, 0.5F, X, Y), y + 0.5F * x);
	EXPECT(xpay(b, N, X, -0.25F, Y), x - 0.25F * y);
	EXPECT(mul(b, N, W, Y), w * y);
	EXPECT(mul_axpy(b, N, 3, W, X, Y), y + 3 * w * x);
	EXPECT(invert(b, N, 0.1F, Y), fabsf(y) > 0.1F ? 1 / y : 0);
	EXPECT(clamp(b, N, -0.2F, 0.4F, Y), between(y, -0.2F, 0.4F));
	EXPECT(scale(b, N, -2, Y), -2 * y);
	EXPECT(indicator(b, N, Y), y != 0);
	EXPECT(ratio(b, N, X, 0.1F, Y), fabsf(y) > 0.1F ? fmaxf(x, 0) / y : 0);
	EXPECT(soft_threshold(b, N, 0.3F, Y), copysignf(fmaxf(fabsf(y) - 0.3F, 0), y));
	EXPECT(axpy_clamp(b, N, 0.7F, NULL, X, -0.5F, 0.6F, Y), between(y + 0.7F * x, -0.5F, 0.6F));
	EXPECT(axpy_clamp(b, N, 0.7F, W, X, -0.5F, 0.6F, Y),
		between(y + 0.7F * w * x, -0.5F, 0.6F));
	if (all->type->vector->residual) {
		EXPECT(residual(b, N, X, W, Y, W), x - y);
		EXPECT(residual(b, N, X, Y, W, Y), y * (x - w));
	}
	for (int i = 0; i < LENGTH; i++)
		all->y[i] = fabsf(all->y[i]);
	EXPECT(sqrt(b, N, Y), sqrtf(y));
	EXPECT(fill(b, 0, 1, Y), y);
}

/* Of few and of many elements; nothing but the sum comes back. */
static void sums(void **state)
{
	Vectors *all = *state;
	static const int64_t counts[] = {1, 2, 127, 129, LARGE};
	Case c = {.state = 9};
	float *x = case_data(&c, LARGE + 1), *y = case_data(&c, LARGE + 1), *device[2];
	tomos_array from[2] = {line(x, LARGE + 1), line(y, LARGE + 1)};
	for (int k = 0; k < 2; k++) {
		OK(all->type->memory->alloc(all->backend, &device[k], LARGE + 1, "a vector"));
		OK(all->type->memory->upload(all->backend, device[k], &from[k]));
	}
	for (int k = 0; k < 5; k++) {
		double dot, distance, largest, wanted = 0, square = 0, most = 0;
		for (int64_t i = 1; i <= counts[k]; i++) {
			wanted += (double)x[i] * y[i];
			square += ((double)x[i] - y[i]) * ((double)x[i] - y[i]);
			most = fmax(most, fabs((double)x[i]));
		}
		OK(all->type->vector->dot(
			all->backend, counts[k], device[0] + 1, device[1] + 1, &dot));
		OK(all->type->vector->distance(
			all->backend, counts[k], device[0] + 1, device[1] + 1, &distance));
		OK(all->type->vector->max_abs(all->backend, counts[k], device[0] + 1, &largest));
		assert_true(fabs(dot - wanted) <= 1e-12 * (double)counts[k]);
		assert_true(fabs(distance - sqrt(square)) <= 1e-12 * (double)counts[k]);
		assert_true(largest == most);
	}
	for (int k = 0; k < 2; k++)
		all->type->memory->release(all->backend, device[k]);
	free(x), free(y);
}

enum { PARTS = 3, EACH = 300 };

static double length_of(const float *y, int64_t i)
{
	double square = 0;
	for (int k = 0; k < PARTS; k++)
		square += (double)y[k * EACH + i] * y[k * EACH + i];
	return sqrt(square);
}

static void lengths(void **state)
{
	Vectors *all = *state;
	for (int kind = 0; kind < 3; kind++) {
		float *Y = all->vectors[2] + BEFORE, *y = all->y + BEFORE;
		load(all);
		OK(kind == 2 ? all->type->vector->normalise(all->backend, EACH, PARTS, 0.3F, Y)
			     : all->type->vector->clip_norm(
				       all->backend, EACH, PARTS, kind == 0 ? 0.5F : 0, Y));
		fetch(all);
		for (int64_t i = 0; i < EACH * PARTS; i++) {
			double length = length_of(y, i % EACH);
			double by = kind == 2   ? 1 / hypot(length, 0.3)
				    : kind == 1 ? 0
						: fmin(1, 0.5 / length);
			near(all->out[BEFORE + i], y[i] * by, "lengths", i);
		}
	}
}

/* Of one slice, of slices one by one, and of a volume: the definition, and its adjoint. */
static void gradients(void **state)
{
	Vectors *all = *state;
	enum { NZ = 4, NY = 5, NX = 7 };
	for (int kind = 0; kind < 3; kind++) {
		int64_t nz = kind == 0 ? 1 : NZ, shape[3] = {nz, NY, NX}, n = nz * NY * NX;
		int parts = kind == 2 ? 3 : 2;
		const int64_t stride[3] = {1, NX, NX * NY}, extent[3] = {NX, NY, nz};
		float *X = all->vectors[1] + BEFORE, *Y = all->vectors[2] + BEFORE;
		float *x = all->x + BEFORE, *field = all->out + BEFORE;
		load(all);
		OK(all->type->vector->gradient(all->backend, shape, parts, X, Y));
		fetch(all);
		for (int64_t i = 0; i < parts * n; i++) {
			int64_t k = i / n, at = i % n;
			bool last = at / stride[k] % extent[k] == extent[k] - 1;
			near(field[i], last ? 0 : x[at + stride[k]] - x[at], "gradient", i);
		}
		double forward = case_dot(field, all->y + BEFORE, parts * n);
		load(all);
		OK(all->type->vector->gradient_adjoint(all->backend, shape, parts, Y, X));
		OK(all->type->vector->copy(all->backend, n, X, Y));
		fetch(all);
		near(case_dot(x, all->out + BEFORE, n), forward, "adjoint", 0);
	}
}

/* Arrays with strides of any sign, and more elements than a stage of a transfer has. */
static void strided_arrays(void **state)
{
	Vectors *all = *state;
	enum { N0 = 33, N1 = 130, N2 = 1025 };
	int64_t n = (int64_t)N0 * N1 * N2;
	float *host = calloc((size_t)(2 * n), sizeof *host),
	      *back = calloc((size_t)n, sizeof *back);
	tomos_array from = tomos_array_of(host + 2 * n - 2, N0, N1, N2);
	tomos_array packed = tomos_array_of(back, N0, N1, N2);
	from.stride[0] = -2 * N1 * N2, from.stride[1] = -2, from.stride[2] = -2 * N1;
	for (int64_t i = 0; i < 2 * n; i++)
		host[i] = (float)(i % 16777213);
	float *device;
	OK(all->type->memory->alloc(all->backend, &device, n, "a vector"));
	OK(all->type->memory->upload(all->backend, device, &from));
	OK(all->type->memory->download(all->backend, device, &packed));
	for (int64_t i = 0; i < n; i++) {
		int64_t a = i / (N1 * N2), b = i / N2 % N1, c = i % N2;
		assert_true(
			back[i] ==
			from.data[a * from.stride[0] + b * from.stride[1] + c * from.stride[2]]);
	}
	memset(host, 0, (size_t)(2 * n) * sizeof *host);
	OK(all->type->memory->download(all->backend, device, &from));
	for (int64_t i = 0; i < 2 * n; i++)
		assert_true(host[i] == (i % 2 ? 0 : (float)(i % 16777213)));
	all->type->memory->release(all->backend, device);
	free(host), free(back);
}

/* Operations on several vectors at once, where the backend has them. */
static void lists(void **state)
{
	Vectors *all = *state;
	const BackendVector *of = all->type->vector;
	const float *list[2] = {all->vectors[0] + BEFORE, all->vectors[1] + BEFORE};
	const float a[2] = {0.5F, -3};
	double sums[2], wanted[2] = {0, 0};
	float *y = all->vectors[2] + BEFORE;
	for (int i = BEFORE; i < BEFORE + N; i++) {
		wanted[0] += (double)all->w[i] * all->y[i];
		wanted[1] += (double)all->x[i] * all->y[i];
	}
	load(all);
	if (of->dots)
		OK(of->dots(all->backend, N, 2, list, y, sums));
	for (int k = 0; of->dots && k < 2; k++)
		near(sums[k], wanted[k], "dots", k);
	for (int add = 0; of->combine && add < 2; add++) {
		load(all);
		OK(of->combine(all->backend, N, 2, a, list, add, y));
		fetch(all);
		for (int i = BEFORE; i < BEFORE + N; i++)
			near(all->out[i],
				(add ? (double)all->y[i] : 0) + 0.5 * (double)all->w[i] -
					3 * (double)all->x[i],
				"combine", i);
	}
}

#define TESTS(T) T(elements), T(sums), T(lists), T(lengths), T(gradients), T(strided_arrays)
TEST_MAIN(TESTS, setup, teardown)
