/* Beam hardening correction from a step wedge: thickness as a polynomial of the line integral. */
#include "base/solve.h"
#include "prep/prep.h"

/* Sums of relative errors: sum over steps of (sum_k b_k p^k / t - 1)^2, in powers of p / most. */
static void normal_equations(const double *pairs, int64_t steps, int terms, double most,
	double a[WEDGE_TERMS][WEDGE_TERMS + 1])
{
	for (int64_t s = 0; s < steps; s++) {
		double row[WEDGE_TERMS + 1], x = pairs[2 * s + 1] / most, power = 1;
		for (int k = 0; k < terms; k++)
			row[k] = (power *= x) / pairs[2 * s];
		row[terms] = 1;
		for (int i = 0; i < terms; i++)
			for (int j = 0; j <= terms; j++)
				a[i][j] += row[i] * row[j];
	}
}

/* Noise may leave a thicker step with a smaller line integral, but not most of them. */
static tomos_status check_growth(const double *pairs, int64_t steps)
{
	const double *thin = pairs, *thick = pairs;
	double mean[2] = {0}, together = 0;
	for (int64_t s = 0; s < steps; s++) {
		const double *step = pairs + 2 * s;
		thin = step[0] < thin[0] ? step : thin;
		thick = step[0] > thick[0] ? step : thick;
		mean[0] += step[0] / (double)steps;
		mean[1] += step[1] / (double)steps;
	}
	for (int64_t s = 0; s < steps; s++)
		together += (pairs[2 * s] - mean[0]) * (pairs[2 * s + 1] - mean[1]);
	if (thin[0] == thick[0])
		return fail(TOMOS_BAD_VALUE,
			"wedge: all %lld steps have the thickness %g; it takes two thicknesses or "
			"more",
			(long long)steps, thin[0]);
	if (!(together > 0))
		return fail(TOMOS_BAD_VALUE,
			"wedge: the line integrals do not grow with the thickness: %g behind %g, "
			"%g behind %g",
			thin[1], thin[0], thick[1], thick[0]);
	return TOMOS_OK;
}

static tomos_status check(const double *pairs, int64_t count, double *most)
{
	*most = 0;
	if (count < 4 || count % 2 != 0)
		return fail(TOMOS_BAD_VALUE,
			"wedge has %lld values: it takes a thickness and a line integral for each "
			"of two steps or more",
			(long long)count);
	for (int64_t i = 0; i < count; i++) {
		if (!(pairs[i] > 0 && pairs[i] < 1e30))
			return fail(TOMOS_BAD_VALUE,
				"wedge: the %s of step %lld is %g; it must be "
				"above 0",
				i % 2 ? "line integral" : "thickness", (long long)(i / 2),
				pairs[i]);
		if (i % 2)
			*most = fmax(*most, pairs[i]);
	}
	return check_growth(pairs, count / 2);
}

tomos_status tomos_hardening_wedge(
	double *coefficients, int64_t count, const double *pairs, int64_t values)
{
	double most;
	TRY(check(pairs, values, &most));
	if (!coefficients || count < 1 || count > WEDGE_TERMS)
		return fail(TOMOS_BAD_VALUE, "%lld coefficients of a polynomial: 1 to %d",
			(long long)count, WEDGE_TERMS);
	for (int terms = (int)min64(count, values / 2); terms > 0; terms--) {
		double a[WEDGE_TERMS][WEDGE_TERMS + 1] = {{0}};
		normal_equations(pairs, values / 2, terms, most, a);
		if (!solve_equations(&a[0][0], terms, WEDGE_TERMS + 1) || !(a[0][terms] > 0))
			continue;
		for (int64_t k = 0; k < count; k++)
			coefficients[k] =
				k < terms ? a[k][terms] / a[0][terms] * pow(most, (double)-k) : 0;
		if (polynomial_increases(coefficients, terms, most))
			return TOMOS_OK;
	}
	return fail(TOMOS_BAD_VALUE, "wedge: no polynomial that increases fits its steps");
}

tomos_status wedge_take(tomos_prep_options *o, double coefficients[WEDGE_TERMS])
{
	if (o->wedge_count == 0)
		return TOMOS_OK;
	if (o->hardening_count > 0)
		return fail(TOMOS_BAD_VALUE, "the option 'hardening' and the option 'wedge' are "
					     "both given; use one of them");
	TRY(tomos_hardening_wedge(coefficients, WEDGE_TERMS, o->wedge, o->wedge_count));
	o->hardening = coefficients;
	o->hardening_count = WEDGE_TERMS;
	return TOMOS_OK;
}

tomos_status wedge_check(const tomos_prep_options *o)
{
	tomos_prep_options copy = *o;
	double coefficients[WEDGE_TERMS];
	return wedge_take(&copy, coefficients);
}

tomos_status automatic_check(const tomos_prep_options *o)
{
	bool hardening = o->hardening_count == 1 && isnan(o->hardening[0]);
	if (!hardening && !isnan(o->scatter))
		return TOMOS_OK;
	return fail(TOMOS_BAD_VALUE,
		"%s auto is found from a whole scan: by a run, or by tomos_%s_find before the "
		"preparation",
		hardening ? "hardening" : "scatter", hardening ? "hardening" : "scatter");
}
