/* The kernels of filtered back projection: a ramp in frequency times a window, in space.
 *
 * The ramp is cut off at a frequency and sampled in space (G. N. Ramachandran, A. V. Lakshminarayanan
 * 1971; A. C. Kak, M. Slaney 1988, ch. 3), not sampled in frequency, so that its mean is right.
 */
#include <math.h>
#include <string.h>
#include "algo/analytic.h"

OPTION_VALUES(analytic_values, TOMOS_ANALYTIC_OPTIONS);

/* Windows over x = frequency / cut-off in [0, 1]: 1 at zero and falling. */
static double ram_lak(double x)
{
	(void)x;
	return 1;
}

static double shepp_logan(double x)
{
	return x == 0 ? 1 : sin(M_PI_2 * x) / (M_PI_2 * x);
}

static double cosine(double x)
{
	return cos(M_PI_2 * x);
}

static double hamming(double x)
{
	return 0.54 + 0.46 * cos(M_PI * x);
}

static double hann(double x)
{
	return 0.5 + 0.5 * cos(M_PI * x);
}

static double parzen(double x)
{
	return x < 0.5 ? 1 - 6 * x * x * (1 - x) : 2 * (1 - x) * (1 - x) * (1 - x);
}

/* Of order 4; half the power at half the cut-off. */
static double butterworth(double x)
{
	return 1 / sqrt(1 + pow(2 * x, 8));
}

/* In the order of the names; NULL: no filter. */
static double (*const windows[])(double x) = {
	ram_lak, shepp_logan, cosine, hamming, hann, parzen, butterworth, NULL};

tomos_status window_find(const char *name, double (**window)(double))
{
	int index;
	TRY(choice_find("filter", analytic_values.filter, name, &index));
	*window = windows[index];
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

/* The integral over frequency by Gauss-Legendre, eight nodes per half turn of the fastest cosine. */
static void integrate(double *kernel, int64_t taps, double cut, double (*window)(double),
	const double *response, int64_t response_count)
{
	static const double node[] = {
		0.1834346424956498, 0.5255324099163290, 0.7966664774136267, 0.9602898564975363};
	static const double weight[] = {
		0.3626837833783620, 0.3137066458778873, 0.2223810344533745, 0.1012285362903763};
	int64_t panels = max64(8, (int64_t)ceil(cut * (double)taps));
	if (response) /* its corners must fall between panels */
		panels = (panels / (response_count - 1) + 1) * (response_count - 1);
	double wide = 0.5 * cut / (double)panels;
	for (int64_t p = 0; p < panels; p++)
		for (int i = 0; i < 8; i++) {
			double f = wide *
				   ((double)p + 0.5 * (1 + (i % 2 ? node[i / 2] : -node[i / 2])));
			double g = response ? user_response(response, response_count, f)
					    : f * window(f / (0.5 * cut));
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
	double (*window)(double);
	TRY(window_find(o->filter, &window));
	if (!(o->cutoff > 0 && o->cutoff <= 1))
		return fail(TOMOS_BAD_VALUE,
			"cutoff %g: it is a fraction of Nyquist, above 0 and up to 1", o->cutoff);
	TRY(check_response(o));
	memset(kernel, 0, (size_t)taps * sizeof *kernel);
	if (!o->response && window == ram_lak)
		for (int64_t n = 0; n < taps; n++)
			kernel[n] = ramp(o->cutoff, n);
	else if (o->response || window)
		integrate(kernel, taps, o->cutoff, window, o->response, o->response_count);
	return TOMOS_OK;
}
