/* The vector verbs of a backend, each against its definition, on parts of longer vectors. */
#include "backend/backend.h" /* first: cmocka makes a macro of fail() */
#include "ops/cases.h"

enum { N = 1000, BEFORE = 3, LENGTH = N + 8, LARGE = 300007 };

/* w, x and y on the host, the same on the device, and y as the device has left it. */
typedef struct {
	tomos_backend *backend;
	const BackendType *type;
	float w[LENGTH], x[LENGTH], y[LENGTH], out[LENGTH];
	float *vectors[3];
} Room;

static tomos_array line(float *data, int64_t n)
{
	return tomos_array_of(data, 1, 1, n);
}

static int setup(void **state)
{
	static Room room;
	Case c = {.state = 3};
	if (tomos_backend_open(&room.backend, test_backend()) != TOMOS_OK) {
		print_message("%s\n", tomos_message());
		return -1;
	}
	room.type = room.backend->type;
	for (int i = 0; i < LENGTH; i++) {
		room.w[i] = (float)case_between(&c, 0, 2);
		room.x[i] = (float)case_between(&c, -1, 1);
		room.y[i] = i % 7 == 0 ? 0 : (float)case_between(&c, -1, 1);
	}
	for (int k = 0; k < 3; k++)
		OK(room.type->memory->alloc(room.backend, &room.vectors[k], LENGTH, "a vector"));
	*state = &room;
	return 0;
}

static int teardown(void **state)
{
	Room *room = *state;
	for (int k = 0; k < 3; k++)
		room->type->memory->release(room->backend, room->vectors[k]);
	tomos_backend_close(room->backend);
	return 0;
}

static void load(Room *room)
{
	float *host[] = {room->w, room->x, room->y};
	for (int k = 0; k < 3; k++) {
		tomos_array array = line(host[k], LENGTH);
		OK(room->type->memory->upload(room->backend, room->vectors[k], &array));
	}
}

static void fetch(Room *room)
{
	tomos_array array = line(room->out, LENGTH);
	OK(room->type->memory->download(room->backend, room->vectors[2], &array));
	for (int i = 0; i < LENGTH; i++)
		if ((i < BEFORE || i >= BEFORE + N) && room->out[i] != room->y[i])
			fail_msg("element %d lies outside, but was changed", i);
}

static void near(double is, double wanted, const char *verb, int64_t i)
{
	if (!(fabs(is - wanted) <= 1e-6 * (1 + fabs(wanted))))
		fail_msg("%s: element %lld is %g, not %g", verb, (long long)i, is, wanted);
}

/* In `call` the vectors are W, X and Y; in `value` their elements w, x and y. */
#define EXPECT(call, value) \
	do { \
		load(room); \
		float *W = room->vectors[0] + BEFORE, *X = room->vectors[1] + BEFORE, \
		      *Y = room->vectors[2] + BEFORE; \
		(void)W, (void)X; \
		OK(room->type->vector->call); \
		fetch(room); \
		for (int i = BEFORE; i < BEFORE + N; i++) { \
			float w = room->w[i], x = room->x[i], y = room->y[i]; \
			(void)w, (void)x, (void)y; \
			near(room->out[i], value, #call, i); \
		} \
	} while (0)

static float between(float value, float low, float high)
{
	return fminf(fmaxf(value, low), high);
}

static void elements(void **state)
{
	Room *room = *state;
	tomos_backend *b = room->backend;
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
	if (room->type->vector->residual) {
		EXPECT(residual(b, N, X, W, Y, W), x - y);
		EXPECT(residual(b, N, X, Y, W, Y), y * (x - w));
	}
	for (int i = 0; i < LENGTH; i++)
		room->y[i] = fabsf(room->y[i]);
	EXPECT(sqrt(b, N, Y), sqrtf(y));
	EXPECT(fill(b, 0, 1, Y), y);
}

/* Of few and of many elements; nothing but the sum comes back. */
static void sums(void **state)
{
	Room *room = *state;
	static const int64_t counts[] = {1, 2, 127, 129, LARGE};
	Case c = {.state = 9};
	float *x = case_data(&c, LARGE + 1), *y = case_data(&c, LARGE + 1), *there[2];
	tomos_array from[2] = {line(x, LARGE + 1), line(y, LARGE + 1)};
	for (int k = 0; k < 2; k++) {
		OK(room->type->memory->alloc(room->backend, &there[k], LARGE + 1, "a vector"));
		OK(room->type->memory->upload(room->backend, there[k], &from[k]));
	}
	for (int k = 0; k < 5; k++) {
		double dot, distance, largest, wanted = 0, square = 0, most = 0;
		for (int64_t i = 1; i <= counts[k]; i++) {
			wanted += (double)x[i] * y[i];
			square += ((double)x[i] - y[i]) * ((double)x[i] - y[i]);
			most = fmax(most, fabs((double)x[i]));
		}
		OK(room->type->vector->dot(
			room->backend, counts[k], there[0] + 1, there[1] + 1, &dot));
		OK(room->type->vector->distance(
			room->backend, counts[k], there[0] + 1, there[1] + 1, &distance));
		OK(room->type->vector->max_abs(room->backend, counts[k], there[0] + 1, &largest));
		assert_true(fabs(dot - wanted) <= 1e-12 * (double)counts[k]);
		assert_true(fabs(distance - sqrt(square)) <= 1e-12 * (double)counts[k]);
		assert_true(largest == most);
	}
	for (int k = 0; k < 2; k++)
		room->type->memory->release(room->backend, there[k]);
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
	Room *room = *state;
	for (int kind = 0; kind < 3; kind++) {
		float *Y = room->vectors[2] + BEFORE, *y = room->y + BEFORE;
		load(room);
		OK(kind == 2 ? room->type->vector->normalise(room->backend, EACH, PARTS, 0.3F, Y)
			     : room->type->vector->clip_norm(
				       room->backend, EACH, PARTS, kind == 0 ? 0.5F : 0, Y));
		fetch(room);
		for (int64_t i = 0; i < EACH * PARTS; i++) {
			double length = length_of(y, i % EACH);
			double by = kind == 2   ? 1 / hypot(length, 0.3)
				    : kind == 1 ? 0
						: fmin(1, 0.5 / length);
			near(room->out[BEFORE + i], y[i] * by, "lengths", i);
		}
	}
}

/* Of a volume and of one slice: the definition, and the adjoint of it. */
static void gradients(void **state)
{
	Room *room = *state;
	enum { NZ = 4, NY = 5, NX = 7 };
	for (int64_t nz = 1; nz <= NZ; nz += NZ - 1) {
		int64_t shape[3] = {nz, NY, NX}, n = nz * NY * NX, parts = nz > 1 ? 3 : 2;
		const int64_t stride[3] = {1, NX, NX * NY}, extent[3] = {NX, NY, nz};
		float *X = room->vectors[1] + BEFORE, *Y = room->vectors[2] + BEFORE;
		float *x = room->x + BEFORE, *field = room->out + BEFORE;
		load(room);
		OK(room->type->vector->gradient(room->backend, shape, X, Y));
		fetch(room);
		for (int64_t i = 0; i < parts * n; i++) {
			int64_t k = i / n, at = i % n;
			bool last = at / stride[k] % extent[k] == extent[k] - 1;
			near(field[i], last ? 0 : x[at + stride[k]] - x[at], "gradient", i);
		}
		double forward = case_dot(field, room->y + BEFORE, parts * n);
		load(room);
		OK(room->type->vector->gradient_adjoint(room->backend, shape, Y, X));
		OK(room->type->vector->copy(room->backend, n, X, Y));
		fetch(room);
		near(case_dot(x, room->out + BEFORE, n), forward, "adjoint", 0);
	}
}

/* Arrays with strides of any sign, and more elements than a stage of a transfer has. */
static void strided_arrays(void **state)
{
	Room *room = *state;
	enum { N0 = 33, N1 = 130, N2 = 1025 };
	int64_t n = (int64_t)N0 * N1 * N2;
	float *host = calloc((size_t)(2 * n), sizeof *host),
	      *back = calloc((size_t)n, sizeof *back);
	tomos_array from = tomos_array_of(host + 2 * n - 2, N0, N1, N2);
	tomos_array packed = tomos_array_of(back, N0, N1, N2);
	from.stride[0] = -2 * N1 * N2, from.stride[1] = -2, from.stride[2] = -2 * N1;
	for (int64_t i = 0; i < 2 * n; i++)
		host[i] = (float)(i % 16777213);
	float *there;
	OK(room->type->memory->alloc(room->backend, &there, n, "a vector"));
	OK(room->type->memory->upload(room->backend, there, &from));
	OK(room->type->memory->download(room->backend, there, &packed));
	for (int64_t i = 0; i < n; i++) {
		int64_t a = i / (N1 * N2), b = i / N2 % N1, c = i % N2;
		assert_true(
			back[i] ==
			from.data[a * from.stride[0] + b * from.stride[1] + c * from.stride[2]]);
	}
	memset(host, 0, (size_t)(2 * n) * sizeof *host);
	OK(room->type->memory->download(room->backend, there, &from));
	for (int64_t i = 0; i < 2 * n; i++)
		assert_true(host[i] == (i % 2 ? 0 : (float)(i % 16777213)));
	room->type->memory->release(room->backend, there);
	free(host), free(back);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(elements), cmocka_unit_test(sums),
		cmocka_unit_test(lengths), cmocka_unit_test(gradients),
		cmocka_unit_test(strided_arrays)};
	return cmocka_run_group_tests(tests, setup, teardown);
}
