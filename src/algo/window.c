/* The kernels of filtered back projection: a ramp in frequency times a window, in space.
 *
 * The ramp is cut off at a frequency and sampled in space (G. N. Ramachandran, A. V.
 * Lakshminarayanan 1971; A. C. Kak, M. Slaney 1988, ch. 3), not sampled in frequency, so that its
 * mean is right.
 */
#include <math.h>
#include <string.h>
#include "algo/analytic.h"

enum { PANELS = 64 }; /* at least: narrow windows fall fast */

OPTION_VALUES(analytic_values, TOMOS_ANALYTIC_OPTIONS);

/* Windows over x = frequency / cut-off in [0, 1], 1 at zero and falling; p is their parameter. */
static double ram_lak(double x, double p)
{
	(void)x, (void)p;
	return 1;
}

static double shepp_logan(double x, double p)
{
	(void)p;
	return x == 0 ? 1 : sin(M_PI_2 * x) / (M_PI_2 * x);
}

static double cosine(double x, double p)
{
	(void)p;
	return cos(M_PI_2 * x);
}

static double hamming(double x, double p)
{
	(void)p;
	return 0.54 + 0.46 * cos(M_PI * x);
}

static double hann(double x, double p)
{
	(void)p;
	return 0.5 + 0.5 * cos(M_PI * x);
}

static double blackman(double x, double p)
{
	(void)p;
	return 0.42 + 0.5 * cos(M_PI * x) + 0.08 * cos(2 * M_PI * x);
}

static double parzen(double x, double p)
{
	(void)p;
	return x < 0.5 ? 1 - 6 * x * x * (1 - x) : 2 * (1 - x) * (1 - x) * (1 - x);
}

/* Flat up to 1 - p, then half a period of a cosine. */
static double tukey(double x, double p)
{
	return x <= 1 - p ? 1 : 0.5 + 0.5 * cos(M_PI * (x - 1 + p) / p);
}

static double gaussian(double x, double p)
{
	return exp(-0.5 * x * x / (p * p));
}

/* The modified Bessel function of order zero, by its series, whose terms are all positive. */
static double bessel_i0(double x)
{
	double sum = 1, term = 1;
	for (int k = 1; term > 1e-17 * sum; k++) {
		term *= 0.25 * x * x / ((double)k * k);
		sum += term;
	}
	return sum;
}

static double kaiser(double x, double p)
{
	return bessel_i0(p * sqrt(fmax(0, 1 - x * x))) / bessel_i0(p);
}

/* Half the power at half the cut-off; p is the order. */
static double butterworth(double x, double p)
{
	return 1 / sqrt(1 + pow(2 * x, 2 * p));
}

/* In the order of the names; no window: no filter. A parameter is above 0 and at most `most`. */
static const struct {
	FilterWindow window;
	double usual, most;
} windows[] = {{ram_lak, 0, 0}, {shepp_logan, 0, 0}, {cosine, 0, 0}, {hamming, 0, 0}, {hann, 0, 0},
	{blackman, 0, 0}, {parzen, 0, 0}, {tukey, 0.5, 1}, {gaussian, 0.4, 100}, {kaiser, 6, 500},
	{butterworth, 4, 100}, {NULL, 0, 0}};

tomos_status window_find(const tomos_analytic_options *o, FilterWindow *window, double *parameter)
{
	int index;
	double p = o->filter_parameter;
	TRY(choice_find("filter", analytic_values.filter, o->filter, &index));
	*window = windows[index].window;
	*parameter = p == 0 ? windows[index].usual : p;
	if (p != 0 && !(p > 0 && p <= windows[index].most))
		return fail(TOMOS_BAD_VALUE,
			"filter_parameter %g: of %s it must be above 0 and at most %g, or 0 for %g",
			p, o->filter, windows[index].most, windows[index].usual);
	return TOMOS_OK;
}

/* 2 x integral of f cos(2 pi f n) from 0 to cut / 2. */
static double ramp(double cut, int64_t n)
{
	if (n == 0)
		return cut * cut / 4;
	double a = M_PI * (double)n, b = a * cut;
	return cut * sin(b) / (2 * a) + (cos(b) - 1) / (2 * a * a);
}

static double user_response(const double *response, int64_t count, double f)
{
	double p = 2 * f * (double)(count - 1);
	int64_t i = min64((int64_t)p, count - 2);
	return response[i] + (p - (double)i) * (response[i + 1] - response[i]);
}

/* kernel[n] += 2 x weight x g(f) cos(2 pi f n), by the recurrence of the cosine. */
static void add_frequency(double *kernel, int64_t taps, double f, double amount)
{
	double turn = 2 * cos(2 * M_PI * f), before = cos(2 * M_PI * f), now = 1;
	for (int64_t n = 0; n < taps; n++) {
		kernel[n] += 2 * amount * now;
		double next = turn * now - before;
		before = now;
		now = next;
	}
}

/* The integral over frequency by Gauss-Legendre, eight nodes per half period of the fastest
 * cosine. */
static void integrate(double *kernel, int64_t taps, FilterWindow window, double parameter,
	const tomos_analytic_options *o)
{
	static const double node[] = {
		0.1834346424956498, 0.5255324099163290, 0.7966664774136267, 0.9602898564975363};
	static const double weight[] = {
		0.3626837833783620, 0.3137066458778873, 0.2223810344533745, 0.1012285362903763};
	double cut = o->cutoff;
	int64_t panels = max64(PANELS, (int64_t)ceil(cut * (double)taps));
	if (o->response) /* its corners must fall between panels */
		panels = (panels / (o->response_count - 1) + 1) * (o->response_count - 1);
	double wide = 0.5 * cut / (double)panels;
	for (int64_t p = 0; p < panels; p++)
		for (int i = 0; i < 8; i++) {
			double f = wide *
				   ((double)p + 0.5 * (1 + (i % 2 ? node[i / 2] : -node[i / 2])));
			double g = o->response ? user_response(o->response, o->response_count, f)
					       : f * window(f / (0.5 * cut), parameter);
			add_frequency(kernel, taps, f, 0.5 * wide * weight[i / 2] * g);
		}
}

static tomos_status check_response(const tomos_analytic_options *o)
{
	if (!o->response)
		return TOMOS_OK;
	if (o->response_count < 2)
		return fail(TOMOS_BAD_VALUE, "a filter response needs two values or more, not %lld",
			(long long)o->response_count);
	if (o->cutoff != 1)
		return fail(TOMOS_BAD_VALUE,
			"cutoff %g does not go with a filter response of your own", o->cutoff);
	if (strcmp(o->filter, tomos_analytic_defaults().filter) != 0)
		return fail(TOMOS_BAD_VALUE,
			"filter '%s' does not go with a filter response of your own", o->filter);
	return TOMOS_OK;
}

tomos_status window_kernel(double *kernel, int64_t taps, const tomos_analytic_options *o)
{
	FilterWindow window;
	double parameter;
	TRY(window_find(o, &window, &parameter));
	if (!(o->cutoff > 0 && o->cutoff <= 1))
		return fail(TOMOS_BAD_VALUE,
			"cutoff %g: it is a fraction of Nyquist, above 0 and up to 1", o->cutoff);
	TRY(check_response(o));
	memset(kernel, 0, (size_t)taps * sizeof *kernel);
	if (!o->response && window == ram_lak)
		for (int64_t n = 0; n < taps; n++)
			kernel[n] = ramp(o->cutoff, n);
	else if (o->response || window)
		integrate(kernel, taps, window, parameter, o);
	return TOMOS_OK;
}
