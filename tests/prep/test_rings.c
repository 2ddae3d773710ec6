/* Ring removal: how much of a ring is left, what happens to a sinogram without rings, and
 * wavelets. */
#include "prep/prep_test.h"

enum { VIEWS = 181, ROWS = 2, COLUMNS = 256 };

static tomos_prep_options ring_options(const char *method)
{
	tomos_prep_options o = tomos_prep_defaults();
	o.rings = method;
	return o;
}

static Scene ring_scene(double noise)
{
	Scene s = scene_make(VIEWS, ROWS, COLUMNS, 127.5, 180, 110);
	uint64_t random = 5;
	for (int64_t i = 0; i < s.count; i++)
		s.data[i] += (float)(noise * noise_of(&random));
	return s;
}

typedef enum { SMALL, LARGE, DEAD, RANDOM, KINDS } Kind;

/* Stripes away from where the object ends; 0.1 where the line integrals are about 1. */
static float stripe(Kind kind, int64_t column, float here, uint64_t *random)
{
	switch (kind) {
	case SMALL:
		return column % 40 == 21 ? here + (column % 80 < 40 ? 0.1F : -0.1F) : here;
	case LARGE:
		return column >= 120 && column < 132 ? here + 0.1F : here;
	case DEAD:
		return column == 90 || column == 170 ? 0.7F : here;
	default:
		return column == 90 ? here + 0.3F * (float)noise_of(random) : here;
	}
}

static void add_stripes(Scene *s, Kind kind)
{
	uint64_t random = 9;
	for (int64_t i = 0; i < s->count; i++)
		s->data[i] = stripe(kind, i % COLUMNS, s->data[i], &random);
}

/* What is left of the stripes, as a share, against the same scene without them after the same step;
 * and what the step does to that scene, as rms. */
static double left_over(const char *method, Kind kind, double *changed)
{
	Scene s = ring_scene(0.005), clean = ring_scene(0.005);
	tomos_prep_options o = ring_options(method);
	if (kind == LARGE && strcmp(method, "vo") == 0)
		o.ring_large = 31;
	if (kind == LARGE && strcmp(method, "wavelet") == 0)
		o.ring_levels = 5;
	add_stripes(&s, kind);
	double before = rms(s.data, clean.data, s.count);
	float *plain = copy_of(clean.data, s.count);
	OK(tomos_prep_rings(&s.array, &o, NULL));
	OK(tomos_prep_rings(&clean.array, &o, NULL));
	double after = rms(s.data, clean.data, s.count);
	*changed = rms(clean.data, plain, s.count);
	scene_free(&s);
	scene_free(&clean);
	free(plain);
	return after / before;
}

/* Each method against the stripes it is for: the most that may be left of them. */
static void test_methods(void **state)
{
	(void)state;
	static const struct {
		const char *method, *name;
		Kind kind;
		double left, changed;
	} list[] = {
		{"vo", "small", SMALL, 0.35, 0.008},
		{"vo", "large", LARGE, 0.35, 0.008},
		{"vo", "dead", DEAD, 0.2, 0.008},
		{"vo", "random", RANDOM, 0.4, 0.008},
		{"wavelet", "small", SMALL, 0.3, 0.03},
		{"titarenko", "small", SMALL, 0.3, 0.015},
	};
	for (int i = 0; i < COUNT(list); i += CASE_RACES ? 2 : 1) {
		double changed, left = left_over(list[i].method, list[i].kind, &changed);
		printf("  %s, %s stripes: %.3f left; without stripes changed by %.4f\n",
			list[i].method, list[i].name, left, changed);
		assert_true(left <= list[i].left);
		assert_true(changed <= list[i].changed);
	}
}

/* Stripes found are counted, and none are where there are none. */
static void test_report(void **state)
{
	(void)state;
	tomos_prep_report report = {.bytes = sizeof report};
	Scene s = ring_scene(0.005);
	tomos_prep_options o = ring_options("vo");
	add_stripes(&s, DEAD);
	OK(tomos_prep_rings(&s.array, &o, &report));
	assert_in_range(report.stripes, 2 * ROWS, 16 * ROWS);
	scene_free(&s);
}

/* The same bits for any number of threads, rows one by one, and strided arrays. */
static void test_same(void **state)
{
	(void)state;
	static const char *const methods[] = {"vo", "wavelet", "titarenko"};
	for (int m = 0; m < 3; m++) {
		Scene s = ring_scene(0.005), t = ring_scene(0.005);
		tomos_prep_options o = ring_options(methods[m]);
		add_stripes(&s, SMALL);
		add_stripes(&t, SMALL);
		OK(tomos_set_threads(3));
		OK(tomos_prep_rings(&s.array, &o, NULL));
		OK(tomos_set_threads(1));
		for (int64_t row = 0; row < ROWS; row++) {
			tomos_array part = t.array;
			part.data += row * COLUMNS;
			part.shape[1] = 1;
			OK(tomos_prep_rings(&part, &o, NULL));
		}
		OK(tomos_set_threads(0));
		assert_memory_equal(s.data, t.data, (size_t)s.count * sizeof *s.data);
		scene_free(&s);
		scene_free(&t);
	}
}

static void test_rejected(void **state)
{
	(void)state;
	float data[12] = {0};
	tomos_array a = tomos_array_of(data, 3, 1, 4);
	tomos_prep_options o = ring_options("vo"), bad = o;
	REJECTED(tomos_prep_rings(NULL, &o, NULL), TOMOS_BAD_VALUE,
		"no array for the line integrals");
	bad.rings = "voo";
	REJECTED(tomos_prep_rings(&a, &bad, NULL), TOMOS_BAD_VALUE, "rings 'voo' is not known");
	bad = o, bad.ring_large = 4;
	REJECTED(tomos_prep_rings(&a, &bad, NULL), TOMOS_BAD_VALUE,
		"ring-large 4: it must be odd and at least 1");
	bad = o, bad.ring_small = -1;
	REJECTED(tomos_prep_rings(&a, &bad, NULL), TOMOS_BAD_VALUE,
		"ring_small -1: it must be from 0 to 999");
	bad = o, bad.ring_snr = 0;
	REJECTED(tomos_prep_rings(&a, &bad, NULL), TOMOS_BAD_VALUE,
		"ring-snr 0: it must be above 0");
	bad = ring_options("wavelet"), bad.ring_levels = 13;
	REJECTED(tomos_prep_rings(&a, &bad, NULL), TOMOS_BAD_VALUE, "ring-levels 13");
	bad = ring_options("wavelet"), bad.ring_sigma = -1;
	REJECTED(tomos_prep_rings(&a, &bad, NULL), TOMOS_BAD_VALUE, "ring-sigma -1");
	bad = ring_options("wavelet"), bad.ring_wavelet = "haar";
	REJECTED(tomos_prep_rings(&a, &bad, NULL), TOMOS_BAD_VALUE, "wavelet 'haar' is not known");
	bad = ring_options("titarenko"), bad.ring_alpha = NAN;
	REJECTED(tomos_prep_rings(&a, &bad, NULL), TOMOS_BAD_VALUE,
		"ring_alpha nan: it must be from 1e-08 to 1e+08");
	static const char *const methods[] = {"none", "vo", "wavelet", "titarenko"};
	for (int m = 0; m < 4; m++) { /* arrays as small as can be */
		tomos_array one = tomos_array_of(data, 1, 1, 1),
			    few = tomos_array_of(data, 2, 1, 3);
		bad = ring_options(methods[m]);
		OK(tomos_prep_rings(&one, &bad, NULL));
		OK(tomos_prep_rings(&few, &bad, NULL));
	}
}

static void test_wavelets(void **state)
{
	(void)state;
	static const double db2[4] = {
		0.4829629131445341, 0.8365163037378079, 0.2241438680420134, -0.1294095225512604};
	double low[WAVELET_TAPS], high[WAVELET_TAPS];
	wavelet_make(2, low, high);
	for (int k = 0; k < 4; k++)
		assert_true(fabs(low[k] - db2[k]) < 1e-12);
	for (int n = 1; n <= 10; n++) {
		wavelet_make(n, low, high);
		for (int shift = 0; shift < n; shift++) {
			double dot = 0;
			for (int k = 0; k + 2 * shift < 2 * n; k++)
				dot += low[k] * low[k + 2 * shift];
			assert_true(fabs(dot - (shift == 0)) < 1e-9);
		}
		for (int moment = 0; moment < n; moment++) {
			double sum = 0, size = 0;
			for (int k = 0; k < 2 * n; k++) {
				double term = pow(k, moment) * low[k];
				sum += k % 2 ? -term : term;
				size += fabs(term);
			}
			assert_true(fabs(sum) < 1e-7 * size);
		}
	}
}

static void test_transform(void **state)
{
	(void)state;
	static const int64_t sizes[] = {2, 8, 30, 64};
	uint64_t random = 3;
	float in[64], out[64], again[64], *scratch = malloc(1024 * sizeof *scratch);
	assert_true(wavelet_floats(64) <= 1024);
	double low[WAVELET_TAPS], high[WAVELET_TAPS];
	for (int n = 1; n <= 10; n++)
		for (int k = 0; k < 4; k++) {
			for (int64_t i = 0; i < sizes[k]; i++)
				in[i] = (float)noise_of(&random);
			wavelet_make(n, low, high);
			wavelet_forth(low, high, 2 * n, in, sizes[k], out, scratch);
			wavelet_back(low, high, 2 * n, out, sizes[k], again, scratch);
			assert_true(rms(in, again, sizes[k]) < 1e-6);
		}
	free(scratch);
}

#define TESTS(T) \
	T(test_wavelets), T(test_transform), T(test_methods), T(test_report), T(test_same), \
		T(test_rejected)
TEST_MAIN(TESTS, NULL, NULL)
