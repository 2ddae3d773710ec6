/* Filters of filtered back projection: windows in frequency and kernels in space. */
#include "algo/analytic.h" /* first: cmocka makes a macro of fail() */
#include "ops/cases.h"

OPTION_VALUES(filter_values, TOMOS_ANALYTIC_OPTIONS);

static const char *const windows[] = {"ram-lak", "shepp-logan", "cosine", "hamming", "hann",
	"blackman", "parzen", "tukey", "gaussian", "kaiser", "butterworth"};

enum { WINDOWS = sizeof windows / sizeof windows[0], TAPS = 2048 };

static tomos_analytic_options with_filter(const char *name, double cutoff)
{
	tomos_analytic_options o = tomos_analytic_defaults();
	o.filter = name;
	o.cutoff = cutoff;
	return o;
}

/* The transform of the even kernel at f cycles per pixel, by Clenshaw's recurrence. */
static double response(const double *kernel, int64_t taps, double f)
{
	double turn = 2 * cos(2 * M_PI * f), now = 0, next = 0;
	for (int64_t n = taps - 1; n > 0; n--) {
		double before = turn * now - next + 2 * kernel[n];
		next = now;
		now = before;
	}
	return kernel[0] + 0.5 * turn * now - next;
}

/* ---- windows --------------------------------------------------------------------------------- */

/* Of a kernel cut off after TAPS the response is right to about 1 / (pi^2 TAPS), 5e-5, and the
 * window, which is response / f, to 5e-5 / f. Within 0.01 of a cut-off the steps of
 * ram-lak and hamming ring. */
static void windows_are_low_pass(void **state)
{
	(void)state;
	static const double cutoffs[] = {1, 0.6, 0.25};
	double *kernel = malloc(TAPS * sizeof *kernel);
	printf("window at 0.1, 0.5 and 0.9 of the cut-off\n");
	for (int w = 0; w < WINDOWS; w++)
		for (int k = 0; k < 3; k++) {
			tomos_analytic_options o = with_filter(windows[w], cutoffs[k]);
			OK(window_kernel(kernel, TAPS, &o));
			double nyquist = 0.5 * cutoffs[k], before = 1;
			for (double f = 0.01; f < nyquist - 0.01; f += 0.005) {
				double now = response(kernel, TAPS, f) / f;
				if (now > before + 1e-4 / f + 5e-3)
					fail_msg("%s rises to %g at %g", windows[w], now, f);
				before = now;
			}
			for (double f = nyquist + 0.01; f < 0.5; f += 0.01)
				if (fabs(response(kernel, TAPS, f)) > 4e-3 * nyquist)
					fail_msg("%s: %g at %g, beyond the cut-off at %g",
						windows[w], response(kernel, TAPS, f), f, nyquist);
			if (cutoffs[k] == 1)
				printf("  %-12s %.3f %.3f %.3f\n", windows[w],
					response(kernel, TAPS, 0.05) / 0.05,
					response(kernel, TAPS, 0.25) / 0.25,
					response(kernel, TAPS, 0.45) / 0.45);
		}
	free(kernel);
}

/* The window at zero frequency is the slope of the response there, without the constant that the
 * kernel's missing tail leaves. */
static void windows_are_one_at_zero(void **state)
{
	(void)state;
	double *kernel = malloc(TAPS * sizeof *kernel);
	for (int w = 0; w < WINDOWS; w++) {
		tomos_analytic_options o = with_filter(windows[w], 1);
		OK(window_kernel(kernel, TAPS, &o));
		double f = 0.002,
		       slope = (response(kernel, TAPS, 3 * f) - response(kernel, TAPS, f)) /
			       (2 * f);
		if (fabs(slope - 1) > 5e-3)
			fail_msg("%s is %g at zero frequency", windows[w], slope);
	}
	free(kernel);
}

/* Sampled in space: the sum over all taps is what the tail leaves, 1 / (pi^2 taps), and not zero as
 * of a ramp sampled in frequency, which shifts the mean of every image. */
static void ramp_has_the_right_mean(void **state)
{
	(void)state;
	double kernel[1000];
	tomos_analytic_options o = with_filter("ram-lak", 1);
	for (int64_t taps = 100; taps <= 1000; taps += 100) {
		OK(window_kernel(kernel, taps, &o));
		double left = response(kernel, taps, 0) * M_PI * M_PI * (double)taps;
		assert_true(fabs(left - 1) < 1e-3);
	}
	assert_true(kernel[0] == 0.25 && fabs(kernel[2]) < 1e-16);
	assert_true(fabs(kernel[3] + 1 / (9 * M_PI * M_PI)) < 1e-15);
}

/* Okitsu et al., eq. (1): 2 / (pi^2 (1 - 4 r^2)), for pixels of width 1, with nothing to scale. */
static void shepp_logan_taps_of_the_paper(void **state)
{
	(void)state;
	double kernel[300];
	tomos_analytic_options o = with_filter("shepp-logan", 1);
	OK(window_kernel(kernel, 300, &o));
	for (int64_t r = 0; r < 300; r++) {
		double wanted = 2 / (M_PI * M_PI * (1 - 4.0 * (double)(r * r)));
		if (fabs(kernel[r] - wanted) > 1e-13)
			fail_msg("tap %lld is %.15g, not %.15g", (long long)r, kernel[r], wanted);
	}
}

/* 2 x integral of f window(f) cos(2 pi f n), by Simpson's rule. */
static double simpson(const tomos_analytic_options *o, int64_t n)
{
	enum { PANELS = 8192 };
	double sum = 0, wide = 0.5 * o->cutoff / PANELS, parameter;
	FilterWindow window;
	OK(window_find(o, &window, &parameter));
	for (int i = 0; i <= PANELS; i++) {
		double f = wide * i, weight = i == 0 || i == PANELS ? 1 : i % 2 ? 4 : 2;
		sum += weight * f * window((double)i / PANELS, parameter) *
		       cos(2 * M_PI * f * (double)n);
	}
	return 2 * sum * wide / 3;
}

/* I0, as the mean of exp(x cos t) over a turn. */
static double bessel(double x)
{
	double sum = 0;
	for (int i = 0; i < 256; i++)
		sum += exp(x * cos(2 * M_PI * i / 256));
	return sum / 256;
}

/* The windows as doc/methods.md has them, each written another way than the library does. */
static double formula(const char *name, double x, double p)
{
	double half = cos(0.5 * M_PI * x);
	if (strcmp(name, "blackman") == 0) /* with cos 2a = 2 cos^2 a - 1 */
		return 0.34 + 0.5 * cos(M_PI * x) + 0.16 * pow(cos(M_PI * x), 2);
	if (strcmp(name, "tukey") == 0)
		return x <= 1 - p ? 1 : pow(sin(0.5 * M_PI * (1 - x) / p), 2);
	if (strcmp(name, "gaussian") == 0)
		return pow(2, -x * x / (2 * log(2) * p * p));
	if (strcmp(name, "kaiser") == 0)
		return bessel(p * sqrt(1 - x * x)) / bessel(p);
	if (strcmp(name, "shepp-logan") == 0)
		return x == 0 ? 1 : 2 / (M_PI * x) * sin(0.5 * M_PI * x);
	if (strcmp(name, "cosine") == 0)
		return half;
	if (strcmp(name, "hamming") == 0)
		return 0.08 + 0.92 * half * half;
	if (strcmp(name, "hann") == 0)
		return half * half;
	if (strcmp(name, "parzen") == 0)
		return 2 * pow(1 - x, 3) - (x < 0.5 ? pow(1 - 2 * x, 3) : 0);
	if (strcmp(name, "butterworth") == 0)
		return sqrt(1 / (1 + pow(4 * x * x, p)));
	assert_string_equal(name, "ram-lak");
	return 1;
}

static double usual_parameter(const char *name)
{
	return strcmp(name, "tukey") == 0         ? 0.5
	       : strcmp(name, "gaussian") == 0    ? 0.4
	       : strcmp(name, "kaiser") == 0      ? 6
	       : strcmp(name, "butterworth") == 0 ? 4
						  : 0;
}

/* `given` as the option has it, `p` as it is meant. */
static void window_is_its_formula(const char *name, double given, double p)
{
	tomos_analytic_options o = with_filter(name, 1);
	FilterWindow window;
	double parameter;
	o.filter_parameter = given;
	OK(window_find(&o, &window, &parameter));
	for (int i = 0; i <= 64; i++) {
		double x = i / 64.0, wanted = formula(name, x, p), got = window(x, parameter);
		if (!(fabs(got - wanted) < 1e-13))
			fail_msg("%s is %.15g at %g, not %.15g", name, got, x, wanted);
	}
}

static void windows_are_their_formulas(void **state)
{
	(void)state;
	int names = 0; /* of the option: "none" is the only one without a formula */
	for (const char *at = filter_values.filter; at; at = strchr(at + 1, '|'))
		names++;
	assert_int_equal(names, WINDOWS + 1);
	for (int w = 0; w < WINDOWS; w++)
		window_is_its_formula(windows[w], 0, usual_parameter(windows[w]));
	window_is_its_formula("tukey", 0.2, 0.2);
	window_is_its_formula("tukey", 1, 1);
	window_is_its_formula("gaussian", 0.15, 0.15);
	window_is_its_formula("kaiser", 13, 13);
	window_is_its_formula("butterworth", 2.5, 2.5);
}

static void wrong_parameters_are_rejected(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		double parameter;
	} wrong[] = {{"tukey", 1.01}, {"tukey", -0.5}, {"gaussian", NAN}, {"kaiser", 1e9},
		{"butterworth", -4}};
	double kernel[8];
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		tomos_analytic_options o = with_filter(wrong[i].name, 1);
		o.filter_parameter = wrong[i].parameter;
		REJECTED(window_kernel(kernel, 8, &o), TOMOS_BAD_VALUE,
			"it must be above 0 and at most");
	}
}

static void kernels_are_the_windows_integrals(void **state)
{
	(void)state;
	static const double cutoffs[] = {1, 0.37};
	static const int64_t at[] = {0, 1, 2, 5, 63, 64, 199};
	double kernel[200];
	for (int w = 0; w < WINDOWS; w++)
		for (int k = 0; k < 2; k++) {
			tomos_analytic_options o = with_filter(windows[w], cutoffs[k]);
			OK(window_kernel(kernel, 200, &o));
			for (size_t i = 0; i < sizeof at / sizeof at[0]; i++) {
				double wanted = simpson(&o, at[i]);
				if (fabs(kernel[at[i]] - wanted) > 1e-10)
					fail_msg("%s, cut-off %g: tap %lld is %g, not %g",
						windows[w], cutoffs[k], (long long)at[i],
						kernel[at[i]], wanted);
			}
			OK(window_kernel(kernel, 2, &o)); /* no fewer frequencies for few taps */
			assert_true(fabs(kernel[1] - simpson(&o, 1)) < 1e-9);
		}
}

static void users_own_response(void **state)
{
	(void)state;
	double kernel[200], wanted[200];
	static const double ramp[] = {0, 0.25, 0.5}, flat[] = {1, 1};
	tomos_analytic_options o = tomos_analytic_defaults();
	OK(window_kernel(wanted, 200, &o));
	o.response = ramp, o.response_count = 3;
	OK(window_kernel(kernel, 200, &o));
	for (int i = 0; i < 200; i++)
		assert_true(fabs(kernel[i] - wanted[i]) < 1e-12);
	o.response = flat, o.response_count = 2; /* leaves rows as they are */
	OK(window_kernel(kernel, 200, &o));
	for (int i = 0; i < 200; i++)
		assert_true(fabs(kernel[i] - (i == 0)) < 1e-12);
}

static void wrong_filters_are_rejected(void **state)
{
	(void)state;
	double kernel[8];
	static const double one[] = {1, 1}, bad[] = {0, 0.2, NAN};
	tomos_analytic_options o = with_filter("ram-lac", 1);
	REJECTED(window_kernel(kernel, 8, &o), TOMOS_BAD_VALUE, "filter 'ram-lac' is not known");
	REJECTED(window_kernel(kernel, 8, &o), TOMOS_BAD_VALUE, "did you mean 'ram-lak'?");
	o = with_filter(NULL, 1);
	REJECTED(window_kernel(kernel, 8, &o), TOMOS_BAD_VALUE, "filter '(none)' is not known");
	static const double cutoffs[] = {0, -0.5, 1.01, NAN, INFINITY};
	for (int i = 0; i < 5; i++) {
		o = with_filter("hann", cutoffs[i]);
		REJECTED(window_kernel(kernel, 8, &o), TOMOS_BAD_VALUE,
			"it is a fraction of Nyquist, above 0 and up to 1");
	}
	o = with_filter("ram-lak", 1);
	o.response = one, o.response_count = 1;
	REJECTED(window_kernel(kernel, 8, &o), TOMOS_BAD_VALUE,
		"a filter response needs two values or more, not 1");
	o.response = bad, o.response_count = 3;
	REJECTED(tomos_options_check("analytic", &o), TOMOS_BAD_VALUE,
		"response nan: it must be from -1e+30 to 1e+30");
	o.response = one, o.response_count = 2, o.cutoff = 0.5;
	REJECTED(window_kernel(kernel, 8, &o), TOMOS_BAD_VALUE,
		"cutoff 0.5 does not go with a filter response of your own");
	o = with_filter("hann", 1);
	o.response = one, o.response_count = 2;
	REJECTED(window_kernel(kernel, 8, &o), TOMOS_BAD_VALUE,
		"filter 'hann' does not go with a filter response of your own");
}

#define TESTS(T) \
	T(windows_are_low_pass), T(windows_are_one_at_zero), T(ramp_has_the_right_mean), \
		T(shepp_logan_taps_of_the_paper), T(windows_are_their_formulas), \
		T(wrong_parameters_are_rejected), T(kernels_are_the_windows_integrals), \
		T(users_own_response), T(wrong_filters_are_rejected)
TEST_MAIN(TESTS, NULL, NULL)
