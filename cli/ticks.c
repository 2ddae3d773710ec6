/* Marks of axes: where they are and what is written beside them. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "plot.h"

double axis_place(const axis *a, double value)
{
	double part = a->powers ? (log10(value) - log10(a->low)) / (log10(a->high) - log10(a->low))
				: (value - a->low) / (a->high - a->low);
	return a->start + part * a->length;
}

double nice_step(double range, int wanted)
{
	double least = range / wanted, ten = pow(10, floor(log10(least)));
	for (int i = 0; i < 3; i++) {
		static const double steps[] = {1, 2, 5};
		if (ten * steps[i] >= least * (1 - 1e-9))
			return ten * steps[i];
	}
	return 10 * ten;
}

static void superscript(int number, char text[24])
{
	static const char *const digits[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
	char plain[16];
	snprintf(plain, sizeof plain, "%d", number);
	text[0] = 0;
	for (const char *c = plain; *c; c++)
		strncat(text, *c == '-' ? "⁻" : digits[*c - '0'], 23 - strlen(text));
}

/* ---- linear ------------------------------------------------------------------------------ */

/* Exponent that is written once, beside the axis; 0: none. */
static int common_exponent(const axis *a)
{
	int e = (int)floor(log10(fmax(fabs(a->low), fabs(a->high))));
	return e >= 6 || e <= -4 ? e : 0;
}

static int linear_ticks(const axis *a, int wanted, tick list[TICKS], char factor[24])
{
	double step = nice_step(a->high - a->low, wanted);
	step = a->whole ? fmax(step, 1) : step;
	int exponent = common_exponent(a), count = 0;
	double unit = pow(10, exponent), lead = step / pow(10, floor(log10(step) + 1e-9));
	int parts = a->whole && step < 5 ? (int)step : fabs(lead - 2) < 0.1 ? 4 : 5;
	int decimals = (int)fmax(0, -floor(log10(step / unit) + 1e-9));
	double small = step / parts;
	if (exponent) {
		superscript(exponent, factor);
		char power[24];
		snprintf(power, sizeof power, "%s", factor);
		snprintf(factor, 24, "×10%.18s", power);
	}
	for (double k = ceil(a->low / small - 1e-6); k * small <= a->high + 1e-6 * small; k++) {
		if (count == TICKS)
			break;
		tick *t = &list[count++];
		double nearest = round(k / parts);
		t->value = fabs(k - nearest * parts) < 0.5 ? nearest * step : k * small;
		t->text[0] = 0;
		if (fabs(k - nearest * parts) < 0.5)
			snprintf(t->text, sizeof t->text, "%s%.*f", nearest < 0 ? "−" : "",
				decimals < 9 ? decimals : 9, fabs(nearest * step / unit));
	}
	return count;
}

/* ---- logarithmic -------------------------------------------------------------------------- */

static void power_text(int digit, int exponent, char text[24])
{
	char power[24];
	if (exponent >= -3 && exponent <= 3) {
		snprintf(text, 24, "%g", digit * pow(10, exponent));
		return;
	}
	superscript(exponent, power);
	if (digit == 1)
		snprintf(text, 24, "10%.20s", power);
	else
		snprintf(text, 24, "%c×10%.16s", '0' + digit, power);
}

static int log_ticks(const axis *a, int wanted, tick list[TICKS])
{
	double first = log10(a->low), last = log10(a->high), decades = last - first;
	int every = (int)fmax(1, ceil(decades / wanted)), count = 0;
	bool between = decades < 1.6; /* 2 and 5 have texts, too, */
	bool all = decades < 0.5;     /* or all digits */
	for (int e = (int)floor(first); e <= (int)ceil(last); e++)
		for (int digit = 1; digit < 10; digit++) {
			double value = digit * pow(10, e);
			bool inside = value >= a->low * (1 - 1e-9) && value <= a->high * (1 + 1e-9);
			if (!inside || count == TICKS || (every > 1 && digit > 1))
				continue;
			bool named = digit == 1 ? e % every == 0
						: all || (between && (digit == 2 || digit == 5));
			list[count].value = value;
			list[count].text[0] = 0;
			if (named)
				power_text(digit, e, list[count].text);
			count++;
		}
	return count;
}

int axis_ticks(const axis *a, int wanted, tick list[TICKS], char factor[24])
{
	factor[0] = 0;
	return a->powers ? log_ticks(a, wanted, list) : linear_ticks(a, wanted, list, factor);
}
