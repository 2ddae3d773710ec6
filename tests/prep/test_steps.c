/* The other steps of the preparation, each against what is known about a simulated scan. */
#include "prep/prep_test.h"

enum { VIEWS = 90, ROWS = 4, COLUMNS = 128 };

static Scene plain_scene(void)
{
	return scene_make(VIEWS, ROWS, COLUMNS, 63.5, 180, 55);
}

/* ---- normalize and log ---------------------------------------------------------------------- */

/* Counts with darks, uneven and drifting light become the line integrals they were made of. */
static void test_normalize(void **state)
{
	(void)state;
	static const char *const flats[] = {"mean", "median"};
	for (int i = 0; i < 2; i++) {
		Scene s = plain_scene();
		uint64_t random = 1;
		float *truth = copy_of(s.data, s.count);
		Light l = light_make(&s, 0.2, 0, &random);
		tomos_prep_options o = tomos_prep_defaults();
		tomos_prep_report report = {.bytes = sizeof report};
		o.flat_average = flats[i];
		OK(tomos_prep_normalize(&s.array, light_fields(&l), &o, &report));
		OK(tomos_prep_log(&s.array, &o, &report));
		double error = case_difference(s.data, truth, s.count);
		printf("  %s of flats, interpolated: relative error %.2g\n", flats[i], error);
		assert_true(error < 1e-5);
		assert_int_equal(report.repaired, 0);
		assert_int_equal(report.raised, 0);
		free(truth);
		light_free(&l);
		scene_free(&s);
	}
}

/* The error of the result with this correction of the drift of the light. */
static double drift_error(const char *drift)
{
	Scene s = plain_scene();
	uint64_t random = 1;
	float *truth = copy_of(s.data, s.count);
	Light l = light_make(&s, 0.1, 0, &random);
	tomos_prep_options o = tomos_prep_defaults();
	o.drift = drift;
	OK(tomos_prep_normalize(&s.array, light_fields(&l), &o, NULL));
	OK(tomos_prep_log(&s.array, &o, NULL));
	double error = rms(s.data, truth, s.count);
	free(truth);
	light_free(&l);
	scene_free(&s);
	return error;
}

/* Light that grows by a tenth: the mean is wrong by up to a twentieth, so is the nearest in the
 * middle. */
static void test_drift(void **state)
{
	(void)state;
	double linear = drift_error("linear"), nearest = drift_error("nearest"),
	       none = drift_error("none");
	printf("  drift of 10 %%: linear %.2g, nearest %.3f, none %.3f\n", linear, nearest, none);
	assert_true(linear < 1e-5);
	assert_true(nearest > 0.02 && nearest < 0.04);
	assert_true(none > 0.02 && none < 0.04);
}

/* A chunk of views knows where in the scan it stands. */
static void test_chunks(void **state)
{
	(void)state;
	Scene s = plain_scene(), t = plain_scene();
	uint64_t random = 1;
	Light l = light_make(&s, 0.2, 3, &random);
	memcpy(t.data, s.data, (size_t)s.count * sizeof *s.data);
	tomos_fields fields = *light_fields(&l);
	OK(tomos_set_threads(3));
	OK(tomos_prep_normalize(&s.array, &fields, NULL, NULL));
	OK(tomos_set_threads(1));
	for (int64_t first = 0; first < VIEWS; first += 40) {
		int64_t count = min64(40, VIEWS - first);
		tomos_array part =
			tomos_array_of(t.data + first * ROWS * COLUMNS, count, ROWS, COLUMNS);
		fields.first_view = (double)first;
		OK(tomos_prep_normalize(&part, &fields, NULL, NULL));
	}
	OK(tomos_set_threads(0));
	assert_memory_equal(s.data, t.data, (size_t)s.count * sizeof *s.data);
	light_free(&l);
	scene_free(&s);
	scene_free(&t);
}

/* Pixels without light, counts of nothing, infinite ones: what comes out is finite and counted. */
static void test_dark_places(void **state)
{
	(void)state;
	Scene s = plain_scene();
	uint64_t random = 1;
	int64_t plane = ROWS * COLUMNS;
	float *truth = copy_of(s.data, s.count);
	Light l = light_make(&s, 0, 0, &random);
	for (int64_t i = 0; i < l.flat_count; i++) {
		l.flats[i * plane] = 0;                /* pixel (0, 0) */
		l.flats[i * plane + COLUMNS + 50] = 5; /* darker than the dark */
		for (int64_t c = 0; c < COLUMNS; c++)
			l.flats[i * plane + 2 * COLUMNS + c] = 0; /* a whole row */
	}
	s.data[3 * plane + 3 * COLUMNS + 7] = 0;
	s.data[4 * plane + 3 * COLUMNS + 7] = -50;
	s.data[5 * plane + 3 * COLUMNS + 7] = INFINITY;
	s.data[6 * plane + 3 * COLUMNS + 7] = NAN;
	tomos_prep_report report = {.bytes = sizeof report};
	OK(tomos_prep_normalize(&s.array, light_fields(&l), NULL, &report));
	OK(tomos_prep_log(&s.array, NULL, &report));
	OK(tomos_array_check(&s.array, "the integrals"));
	assert_int_equal(report.repaired, (2 + COLUMNS) * VIEWS + 2);
	assert_int_equal(report.raised, 2);
	assert_true(fabs(s.data[3 * plane + 3 * COLUMNS + 7] + log(1e-4)) < 1e-4);
	assert_true(s.data[7 * plane + 2 * COLUMNS + 9] == 0);
	assert_true(fabsf(s.data[5 * plane + 3 * COLUMNS + 7] -
			    truth[5 * plane + 3 * COLUMNS + 7]) < 0.05F);
	free(truth);
	light_free(&l);
	scene_free(&s);
}

static void test_log_alone(void **state)
{
	(void)state;
	float data[4] = {1, NAN, 0.25F, -1};
	tomos_array a = tomos_array_of(data, 1, 1, 4);
	tomos_prep_report report = {.bytes = sizeof report};
	OK(tomos_prep_log(&a, NULL, &report));
	assert_true(data[0] == 0 && fabs(data[1] + log(0.625)) < 1e-6);
	assert_true(fabs(data[2] + log(0.25)) < 1e-6 && fabs(data[3] + log(1e-4)) < 1e-5);
	assert_int_equal(report.repaired, 1);
	assert_int_equal(report.raised, 1);
}

/* ---- zingers -------------------------------------------------------------------------------- */

static void test_zingers(void **state)
{
	(void)state;
	static const char *const where[] = {"space", "time", "both"};
	for (int w = 0; w < 3; w++) {
		Scene s = plain_scene();
		uint64_t random = 3;
		int64_t hit = 0;
		for (int64_t i = 0; i < s.count; i++)
			s.data[i] = expf(-s.data[i]) + (float)(0.005 * noise_of(&random));
		float *truth = copy_of(s.data, s.count);
		for (int64_t i = 1000; i < s.count; i += 997, hit++)
			s.data[i] += 0.8F;
		tomos_prep_options o = tomos_prep_defaults();
		tomos_prep_report report = {.bytes = sizeof report};
		o.zingers = where[w];
		double before = rms(s.data, truth, s.count);
		OK(tomos_prep_zingers(&s.array, &o, &report));
		double after = rms(s.data, truth, s.count);
		printf("  zingers in %s: %.4f before, %.4f after; %lld found of %lld\n", where[w],
			before, after, (long long)report.zingers, (long long)hit);
		assert_true(
			report.zingers >= hit && report.zingers <= (w == 2 ? hit + 5 : 2 * hit));
		assert_true(after < 0.15 * before);
		free(truth);
		scene_free(&s);
	}
}

/* ---- views: bad ones, shifts, binning -------------------------------------------------------- */

static void test_bad_views(void **state)
{
	(void)state;
	Scene s = plain_scene();
	int64_t plane = ROWS * COLUMNS;
	static const int64_t bad[] = {0, 30, 31, VIEWS - 1, 30};
	float *truth = copy_of(s.data, s.count);
	for (int i = 0; i < COUNT(bad); i++)
		for (int64_t j = 0; j < plane; j++)
			s.data[bad[i] * plane + j] = NAN;
	tomos_prep_options o = tomos_prep_defaults();
	tomos_prep_report report = {.bytes = sizeof report};
	o.bad_views = bad, o.bad_views_count = COUNT(bad);
	OK(tomos_prep_bad_views(&s.array, &o, &report));
	assert_int_equal(report.views, 4);
	assert_memory_equal(s.data, s.data + plane, (size_t)plane * sizeof *s.data);
	for (int64_t j = 0; j < plane; j++) {
		float a = truth[29 * plane + j], b = truth[32 * plane + j];
		assert_true(fabsf(s.data[30 * plane + j] - (a + (b - a) / 3)) < 1e-5F);
	}
	free(truth);
	scene_free(&s);
}

/* A smooth picture moved by parts of pixels comes back to its place, away from the edges. */
static void test_shift(void **state)
{
	(void)state;
	enum { V = 3, R = 40, C = 50 };
	static const double x[V] = {0.3, -2.75, 0}, y[V] = {-1.5, 0.25, 0};
	static const char *const by[] = {"linear", "cubic"};
	for (int k = 0; k < 2; k++) {
		float data[V * R * C], most = 0;
		for (int i = 0; i < V * R * C; i++) {
			double r = i / C % R - y[i / (R * C)], c = i % C - x[i / (R * C)];
			data[i] = (float)(sin(0.2 * r) * cos(0.25 * c));
		}
		tomos_array a = tomos_array_of(data, V, R, C);
		tomos_prep_options o = tomos_prep_defaults();
		o.shift_x = x, o.shift_x_count = V;
		o.shift_y = y, o.shift_y_count = V;
		o.shift_by = by[k];
		OK(tomos_prep_shift(&a, &o, NULL));
		for (int i = 0; i < V * R * C; i++) {
			int r = i / C % R, c = i % C;
			if (r >= 5 && c >= 5 && r < R - 5 && c < C - 5)
				most = fmaxf(most,
					fabsf(data[i] - (float)(sin(0.2 * r) * cos(0.25 * c))));
		}
		printf("  shifts, %s: largest error %.5f\n", by[k], most);
		assert_true(most < (k == 0 ? 0.02F : 0.002F));
	}
}

static void test_bin(void **state)
{
	(void)state;
	float data[2 * 5 * 7], binned[2 * 2 * 3];
	for (int i = 0; i < 70; i++)
		data[i] = (float)(i % 7 + 10 * (i / 7 % 5) + 100 * (i / 35));
	tomos_array a = tomos_array_of(data, 2, 5, 7), b = tomos_array_of(binned, 2, 2, 3);
	OK(tomos_prep_bin(&a, 2, &b));
	for (int i = 0; i < 12; i++)
		assert_true(binned[i] == (float)(2 * (i % 3) + 0.5 + 10 * (2 * (i / 3 % 2) + 0.5) +
						 100 * (i / 6)));
	/* The pixel of the binned scan is in the middle of those it is made of. */
	double angles[2] = {0, 1}, axis = 2.2;
	tomos_scan_options o = tomos_scan_defaults();
	tomos_prep_options p = tomos_prep_defaults();
	tomos_geometry *scan, *half;
	o.rows = 5, o.columns = 7, o.pixel = 0.5, o.angles = angles, o.angles_count = 2;
	o.axis = &axis, o.axis_count = 1;
	p.bin = 2;
	OK(tomos_geometry_make(&scan, &o));
	OK(tomos_prep_geometry(&half, scan, &p));
	for (int i = 0; i < 2; i++) {
		const tomos_view *v = &tomos_geometry_list(scan)[i],
				 *w = &tomos_geometry_list(half)[i];
		for (int k = 0; k < 3;
			k++) { /* pixel (1, 2): the mean of rows 2, 3 and columns 4, 5 */
			double from = v->det[k] + (2.5 - 2) * v->v[k] + (4.5 - 3) * v->u[k];
			double to = w->det[k] + (1 - 0.5) * w->v[k] + (2 - 1) * w->u[k];
			assert_true(fabs(from - to) < 1e-12);
		}
	}
	tomos_geometry_free(scan);
	tomos_geometry_free(half);
}

/* ---- beam hardening and phase --------------------------------------------------------------- */

static void test_hardening(void **state)
{
	(void)state;
	float data[3] = {0, 1, 2};
	tomos_array a = tomos_array_of(data, 1, 1, 3);
	static const double list[] = {1, 0.5, 0.25};
	tomos_prep_options o = tomos_prep_defaults();
	o.hardening = list, o.hardening_count = 3;
	OK(tomos_prep_hardening(&a, &o, NULL));
	assert_true(data[0] == 0 && data[1] == 1.75F && data[2] == 6);
}

/* The line integrals of a sphere, seen at a distance: the transport of intensity, which Paganin's
 * filter inverts, is (1 - z delta / mu laplacian) exp(-mu T); in real space, by finite differences
 * of a picture oversampled so that these are good. */
static void test_phase(void **state)
{
	(void)state;
	enum { N = 160, FINE = 4 };
	const double pixel = 1.17e-3, distance = 60, energy = 20, ratio = 40, mu = 10;
	const double strength = ratio * 1.2398419843320026e-6 / energy * distance / (4 * M_PI);
	double radius = 50 * pixel, h = pixel / FINE, soft = 15 * pixel;
	float *data = malloc(sizeof *data * N * N), *truth = malloc(sizeof *data * N * N);
	for (int i = 0; i < N * N; i++) {
		double c[5][2] = {{0, 0}, {h, 0}, {-h, 0}, {0, h}, {0, -h}}, t[5], thick = 0;
		for (int k = 0; k < 5; k++) {
			double x = (i % N - 79.3) * pixel + c[k][0],
			       y = (i / N - 78.6) * pixel + c[k][1];
			double inside =
				radius * radius - x * x - y * y; /* an edge softened a little */
			double root = 0.5 * (inside + sqrt(inside * inside + pow(soft, 4)));
			double p = 2 * mu * sqrt(root);
			t[k] = exp(-p);
			thick = k == 0 ? p : thick;
		}
		double laplacian = (t[1] + t[2] + t[3] + t[4] - 4 * t[0]) / (h * h);
		truth[i] = (float)thick;
		data[i] = (float)-log(t[0] - strength * laplacian);
	}
	tomos_array a = tomos_array_of(data, 1, N, N);
	tomos_prep_options o = tomos_prep_defaults();
	o.phase = "paganin", o.pixel = pixel, o.distance = distance, o.energy = energy;
	o.delta_beta = ratio;
	double before = case_difference(data, truth, N * N);
	OK(tomos_prep_phase(&a, &o, NULL));
	double after = case_difference(data, truth, N * N);
	printf("  phase: relative error %.4f before, %.4f after\n", before, after);
	assert_true(after < 0.005 && before > 5 * after);
	free(data);
	free(truth);
}

/* What does not change over the view is left alone, whatever its size. */
static void test_phase_flat(void **state)
{
	(void)state;
	static const int64_t sizes[][2] = {{1, 1}, {1, 9}, {7, 1}, {5, 12}};
	for (int k = 0; k < 4; k++) {
		float data[60];
		for (int i = 0; i < 60; i++)
			data[i] = 0.7F;
		tomos_array a = tomos_array_of(data, 1, sizes[k][0], sizes[k][1]);
		tomos_prep_options o = tomos_prep_defaults();
		o.phase = "paganin", o.pixel = 1e-3, o.distance = 100, o.energy = 25;
		o.delta_beta = 1000;
		OK(tomos_prep_phase(&a, &o, NULL));
		for (int64_t i = 0; i < sizes[k][0] * sizes[k][1]; i++)
			assert_true(fabsf(data[i] - 0.7F) < 1e-5F);
	}
}

static void test_median(void **state)
{
	(void)state;
	uint64_t random = 7;
	float row[41], out[41], window[15], values[15];
	for (int i = 0; i < 41; i++)
		row[i] = (float)floor(4 * noise_of(&random)); /* with ties */
	for (int64_t size = 1; size <= 15; size += 2) {
		median_row(row, out, 41, size, window);
		for (int64_t i = 0; i < 41; i++) {
			for (int64_t k = 0; k < size; k++)
				values[k] = row[index_mirrored(i + k - size / 2, 41)];
			assert_true(out[i] == median_of(values, size));
		}
	}
	float four[4] = {4, 1, 3, 2};
	assert_true(median_of(four, 4) == 2.5F);
}

#define TESTS(T) \
	T(test_median), T(test_normalize), T(test_drift), T(test_chunks), T(test_dark_places), \
		T(test_log_alone), T(test_zingers), T(test_bad_views), T(test_shift), T(test_bin), \
		T(test_hardening), T(test_phase), T(test_phase_flat)
TEST_MAIN(TESTS, NULL, NULL)
