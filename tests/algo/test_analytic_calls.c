/* tomos_fbp and tomos_fdk as a caller meets them: arguments, options, progress, memory. */
#include "algo/analytic.h" /* first: cmocka makes a macro of fail() */
#include "algo/scene.h"

enum { N = 12 };

static Scene small(const char *geometry)
{
	Distances d;
	tomos_scan_options o = scene_scan(geometry, N, 1, &d);
	return scene_make(&o);
}

static tomos_status try_with(Scene *s, const tomos_analytic_options *o)
{
	int64_t live = mem_live();
	tomos_status status =
		tomos_fbp(s->backend, &s->grid, s->scan, &s->data, &s->image, o, NULL);
	assert_int_equal(mem_live(), live);
	return status;
}

static void arguments_are_checked(void **state)
{
	(void)state;
	Scene s = small("parallel");
	tomos_array none = {0}, wrong = s.data, away = s.data;
	tomos_grid bad = s.grid;
	REJECTED(tomos_fbp(NULL, &s.grid, s.scan, &s.data, &s.image, NULL, NULL), TOMOS_BAD_VALUE,
		"fbp needs a backend, a grid and a geometry");
	REJECTED(tomos_fbp(s.backend, NULL, s.scan, &s.data, &s.image, NULL, NULL), TOMOS_BAD_VALUE,
		"fbp needs a backend, a grid and a geometry");
	REJECTED(tomos_fdk(s.backend, &s.grid, NULL, &s.data, &s.image, NULL, NULL),
		TOMOS_BAD_VALUE, "fdk needs a backend, a grid and a geometry");
	REJECTED(tomos_fdk(s.backend, &s.grid, s.scan, &s.data, &s.image, NULL, NULL),
		TOMOS_UNSUPPORTED, "fdk is for point sources; parallel rays go with fbp");
	REJECTED(tomos_fbp(s.backend, &s.grid, s.scan, NULL, &s.image, NULL, NULL), TOMOS_BAD_VALUE,
		"there is no array for the projections");
	REJECTED(tomos_fbp(s.backend, &s.grid, s.scan, &s.data, &none, NULL, NULL), TOMOS_BAD_VALUE,
		"there is no array for the volume");
	wrong.shape[0]++;
	REJECTED(tomos_fbp(s.backend, &s.grid, s.scan, &wrong, &s.image, NULL, NULL),
		TOMOS_BAD_VALUE,
		"the shape of the projections is 25 x 1 x 12, expected 24 x 1 x 12");
	REJECTED(tomos_fbp(s.backend, &s.grid, s.scan, &s.data, &s.data, NULL, NULL),
		TOMOS_BAD_VALUE, "the shape of the volume is 24 x 1 x 12, expected 1 x 12 x 12");
	tomos_array same = tomos_array_of(s.data.data, 1, 12, 12);
	REJECTED(tomos_fbp(s.backend, &s.grid, s.scan, &s.data, &same, NULL, NULL), TOMOS_BAD_VALUE,
		"the projections and the volume are the same memory");
	away.device = 3;
	REJECTED(tomos_fbp(s.backend, &s.grid, s.scan, &away, &s.image, NULL, NULL),
		TOMOS_UNSUPPORTED, "the array for the projections lies on device 3");
	bad.step[1] = 0;
	REJECTED(tomos_fbp(s.backend, &bad, s.scan, &s.data, &s.image, NULL, NULL), TOMOS_BAD_VALUE,
		"step");
	scene_free(&s);
}

static void options_are_checked(void **state)
{
	(void)state;
	Scene s = small("parallel");
	const tomos_analytic_options usual = tomos_analytic_defaults();
	tomos_analytic_options wrong[6] = {usual, usual, usual, usual, usual, usual};
	static const char *const says[] = {"padding 'edges' is not known; did you mean 'edge'?",
		"interpolation 'cubic' is not known",
		"filter_taps -1: it must be from 0 to 1000000000", "filter 'ramp' is not known",
		"cutoff 2: it is a fraction of Nyquist",
		"the member bytes of a tomos_analytic_options is 0"};
	wrong[0].padding = "edges";
	wrong[1].interpolation = "cubic";
	wrong[2].filter_taps = -1;
	wrong[3].filter = "ramp";
	wrong[4].cutoff = 2;
	wrong[5].bytes = 0;
	for (int i = 0; i < COUNT(says); i++)
		REJECTED(try_with(&s, &wrong[i]), TOMOS_BAD_VALUE, says[i]);
	scene_free(&s);
}

/* Every choice runs, and gives something finite that is not zero. */
static void every_choice_runs(void **state)
{
	(void)state;
	static const char *const filters[] = {"ram-lak", "shepp-logan", "cosine", "hamming", "hann",
		"parzen", "butterworth", "none"};
	static const char *const paddings[] = {"zero", "edge", "smooth"};
	static const char *const readings[] = {"linear", "nearest", "oversampled"};
	static const char *const kinds[] = {"parallel", "fan", "cone"};
	for (int k = 0; k < 3; k++) {
		Scene s = small(kinds[k]);
		for (int i = 0; i < 8 * 3 * 3 * 2; i++) {
			tomos_analytic_options o = tomos_analytic_defaults();
			o.filter = filters[i % 8];
			bool filtered = strcmp(o.filter, "none") != 0;
			o.padding = filtered ? paddings[i / 8 % 3] : "zero";
			o.interpolation = readings[i / 24 % 3];
			o.filter_taps = filtered ? i / 72 * 5 : 0;
			OK(try_with(&s, &o));
			double norm = case_dot(s.image.data, s.image.data, N * N);
			assert_true(isfinite(norm) && norm > 0);
		}
		scene_free(&s);
	}
}

/* Without a filter it is the back projection of weighted rows: the sum of the views' shares. */
static void none_is_plain_back_projection(void **state)
{
	(void)state;
	Scene s = small("parallel");
	for (int64_t i = 0; i < 2 * N * N; i++)
		s.data.data[i] = 1;
	tomos_analytic_options o = tomos_analytic_defaults();
	o.filter = "none";
	OK(try_with(&s, &o));
	assert_true(fabs(s.image.data[N / 2 * N + N / 2] - M_PI) < 1e-5);
	scene_free(&s);
}

/* The option `plain` takes the reference kernel, with the same image to rounding. */
static void reference_kernels(void **state)
{
	(void)state;
	static const char *const kinds[] = {"parallel", "fan", "cone"};
	for (int k = 0; k < COUNT(kinds); k++) {
		Scene s = small(kinds[k]);
		tomos_analytic_options o = tomos_analytic_defaults();
		float fast[N * N];
		OK(try_with(&s, &o));
		memcpy(fast, s.image.data, sizeof fast);
		bool optimised = tomos_backend_kernel(s.backend)[0] != 0;
		assert_true(optimised || strcmp(s.backend->type->name, "opencl") == 0);
		o.plain = 1;
		OK(try_with(&s, &o));
		assert_string_equal(tomos_backend_kernel(s.backend), "");
		assert_true(case_difference(s.image.data, fast, N * N) < 1e-5);
		scene_free(&s);
	}
}

/* Callers' arrays may be strided; the volume's old content does not matter. */
static void strided_arrays(void **state)
{
	(void)state;
	Scene s = small("cone");
	int64_t views = s.data.shape[0], rows = s.data.shape[1];
	OK(try_with(&s, NULL));
	float *wide = malloc((size_t)(views * rows * (N + 3)) * sizeof *wide);
	float *image = malloc((size_t)(2 * N * N) * sizeof *image);
	for (int64_t i = 0; i < views * rows; i++)
		memcpy(wide + i * (N + 3), s.data.data + i * N, N * sizeof *wide);
	for (int64_t i = 0; i < 2 * N * N; i++)
		image[i] = NAN;
	tomos_array from = tomos_array_of(wide, views, rows, N),
		    to = tomos_array_of(image, 1, N, N);
	from.stride[0] = rows * (N + 3), from.stride[1] = N + 3;
	to.stride[1] = 2 * N, to.stride[2] = 2;
	OK(tomos_fdk(s.backend, &s.grid, s.scan, &from, &to, NULL, NULL));
	for (int64_t i = 0; i < N * N; i++)
		assert_true(image[2 * i] == s.image.data[i] && isnan(image[2 * i + 1]));
	free(wide), free(image);
	scene_free(&s);
}

typedef struct {
	int64_t calls, last, total, stop;
	char stage[16];
} Seen;

static int see(void *user, const char *stage, int64_t done, int64_t total, double value)
{
	Seen *seen = user;
	(void)value;
	assert_true(done > seen->last && done <= total);
	seen->calls++;
	seen->last = done;
	seen->total = total;
	snprintf(seen->stage, sizeof seen->stage, "%s", stage);
	return seen->stop && done >= seen->stop;
}

/* A scan of several chunks: each is reported, and any report may cancel. */
static void progress_and_cancelling(void **state)
{
	(void)state;
	Distances d;
	tomos_scan_options o = scene_scan("cone", 256, 1, &d);
	o.rows = 1024, o.views = 70;
	tomos_geometry *scan;
	tomos_backend *backend;
	tomos_grid grid;
	float *data = calloc(70 * 1024 * 256, sizeof *data), x[8];
	tomos_array b = tomos_array_of(data, 70, 1024, 256), image = tomos_array_of(x, 2, 2, 2);
	OK(tomos_geometry_make(&scan, &o));
	OK(tomos_backend_open(&backend, test_backend()));
	OK(tomos_grid_centred(&grid, 2, 2, 2, 1));
	Seen seen = {0};
	tomos_progress progress = {see, &seen};
	OK(tomos_fdk(backend, &grid, scan, &b, &image, NULL, &progress));
	bool several = b.shape[0] * b.shape[1] * b.shape[2] > backend->type->chunk;
	assert_true((seen.calls > 1) == several && seen.last == 70 && seen.total == 70);
	assert_string_equal(seen.stage, "fdk");
	int64_t live = mem_live();
	seen = (Seen){.stop = 1};
	REJECTED(tomos_fbp(backend, &grid, scan, &b, &image, NULL, &progress), TOMOS_CANCELLED,
		"fbp was cancelled after step");
	assert_true(seen.calls == 1 && mem_live() == live);
	free(data);
	tomos_geometry_free(scan);
	tomos_backend_close(backend);
}

static tomos_status little_memory_free(tomos_backend *backend, int64_t *bytes)
{
	(void)backend;
	*bytes = (int64_t)(2 * 7 * (N / 2) * N * sizeof(float)); /* half of it: seven views */
	return TOMOS_OK;
}

/* As many views at a time as a device has room for. */
static void little_memory(void **state)
{
	(void)state;
	Scene s = small("cone");
	BackendCopy copy;
	const BackendType *own = s.backend->type;
	float whole[N * N];
	Seen seen = {0};
	OK(tomos_fdk(s.backend, &s.grid, s.scan, &s.data, &s.image, NULL, NULL));
	memcpy(whole, s.image.data, sizeof whole);
	backend_copy(&copy, own);
	copy.memory.free_bytes = little_memory_free;
	s.backend->type = &copy.type;
	OK(tomos_fdk(s.backend, &s.grid, s.scan, &s.data, &s.image, NULL,
		&(tomos_progress){see, &seen}));
	s.backend->type = own;
	assert_int_equal(seen.calls, (s.data.shape[0] + 6) / 7);
	assert_true(case_difference(s.image.data, whole, COUNT(whole)) < 1e-6);
	scene_free(&s);
}

/* Every allocation in turn, on the paths of aligned and of rotated detectors. */
static void memory_may_fail(void **state)
{
	(void)state;
	static const char *const kinds[] = {"parallel", "fan", "cone", "rotated"};
	for (int k = 0; k < 4; k++) {
		Distances d;
		tomos_scan_options o = scene_scan(k == 3 ? "cone" : kinds[k], N, 1, &d);
		o.roll = k == 3 ? 0.1 : 0;
		Scene s = scene_make(&o);
		for (int taps = 0; taps <= 4; taps += 4) {
			tomos_analytic_options a = tomos_analytic_defaults();
			a.filter_taps = taps;
			tomos_array image = s.image;
			image.stride[1] = 1, image.stride[2] = N; /* transposed: needs a copy */
			int64_t live = mem_live(), nth = 0;
			tomos_status status;
			do {
				mem_fail_nth(++nth);
				status = tomos_fbp(
					s.backend, &s.grid, s.scan, &s.data, &image, &a, NULL);
				mem_fail_nth(0);
				assert_true(status == TOMOS_OK || status == TOMOS_NO_MEMORY);
				assert_int_equal(mem_live(), live);
				if (status != TOMOS_OK)
					assert_non_null(strstr(tomos_message(), "no memory for"));
			} while (status != TOMOS_OK);
			assert_true(nth > 10);
		}
		scene_free(&s);
	}
}

#define TESTS(T) \
	T(arguments_are_checked), T(options_are_checked), T(every_choice_runs), \
		T(none_is_plain_back_projection), T(reference_kernels), T(strided_arrays), \
		T(progress_and_cancelling), T(little_memory), T(memory_may_fail)
TEST_MAIN(TESTS, NULL, NULL)
