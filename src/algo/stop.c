/* Stopping rules: change, discrepancy principle, NCP, monotone error rule. */
#include <complex.h>
#include <math.h>
#include "algo/iteration.h"

OPTION_VALUES(algebraic_values, TOMOS_ALGEBRAIC_OPTIONS);

enum { STOP_ITERATIONS, STOP_CHANGE, STOP_DISCREPANCY, STOP_NCP, STOP_MONOTONE };

static int rule_of(const Iteration *it)
{
	return choice_index(algebraic_values.stop, it->o->stop);
}

bool stop_needs_residual(const Iteration *it)
{
	return rule_of(it) == STOP_NCP || rule_of(it) == STOP_MONOTONE;
}

tomos_status stop_prepare(Iteration *it)
{
	it->last = HUGE_VAL;
	iteration_scalar(it, &it->last);
	if (rule_of(it) == STOP_CHANGE) {
		TRY(iteration_vector(it, &it->old_x, it->X, "the volume before"));
		return vector_copy(it->X, it->x, it->old_x);
	}
	if (rule_of(it) == STOP_MONOTONE) {
		TRY(iteration_state(it, &it->old_r, it->Y, "the residual before"));
		return iteration_residual(it, it->old_r);
	}
	return TOMOS_OK;
}

static tomos_status stop_change(Iteration *it, bool *stop)
{
	double change, norm;
	TRY(vector_distance(it->X, it->x, it->old_x, &change));
	TRY(vector_norm(it->X, it->x, &norm));
	*stop = change <= it->o->tolerance * norm;
	return vector_copy(it->X, it->x, it->old_x);
}

/* Landweber's error falls from x_k to the next as long as r_k'(r_k + r_(k+1)) > 2 ||r_k||
 * ||noise||. */
static tomos_status stop_monotone(Iteration *it, const float *r, bool *stop)
{
	double square, product;
	TRY(vector_dot(it->Y, it->old_r, it->old_r, &square));
	TRY(vector_dot(it->Y, it->old_r, r, &product));
	*stop = square + product <= 2 * sqrt(square) * it->o->noise_level * it->b_norm;
	return vector_copy(it->Y, r, it->old_r);
}

static void fft(double complex *a, int64_t n)
{
	for (int64_t i = 1, j = 0; i < n; i++) {
		int64_t bit = n >> 1;
		for (; j & bit; bit >>= 1)
			j ^= bit;
		j ^= bit;
		if (i < j) {
			double complex swap = a[i];
			a[i] = a[j];
			a[j] = swap;
		}
	}
	for (int64_t half = 1; half < n; half *= 2) {
		double complex turn = cexp(-I * 3.14159265358979323846 / (double)half);
		for (int64_t i = 0; i < n; i += 2 * half) {
			double complex w = 1;
			for (int64_t k = i; k < i + half; k++, w *= turn) {
				double complex u = a[k], v = a[k + half] * w;
				a[k] = u + v;
				a[k + half] = u - v;
			}
		}
	}
}

/* Adds the periodogram of one row of pixels, from the first frequency on. */
static void add_row(
	const float *row, int64_t columns, double complex *work, int64_t size, double *power)
{
	for (int64_t i = 0; i < size; i++)
		work[i] = i < columns ? row[i] : 0;
	fft(work, size);
	for (int64_t f = 1; f <= size / 2; f++)
		power[f - 1] += creal(work[f] * conj(work[f]));
}

static double from_line(const double *power, int64_t count)
{
	double total = 0, sum = 0, square = 0;
	for (int64_t i = 0; i < count; i++)
		total += power[i];
	for (int64_t i = 0; i < count; i++) {
		sum += power[i];
		double d = sum / total - (double)(i + 1) / (double)count;
		square += d * d;
	}
	return total > 0 ? sqrt(square) : 0;
}

tomos_status stop_ncp(const Iteration *it, const float *r, double *number)
{
	int64_t columns = it->Y->shape[2], rows = it->Y->count / columns, size = 2;
	float *host = NULL;
	double complex *work = NULL;
	double *power = NULL;
	tomos_status status;
	while (size < columns)
		size *= 2;
	TRY_OR_DONE(mem_alloc(&host, it->Y->count, sizeof *host, "the residual"));
	TRY_OR_DONE(mem_alloc(&work, size, sizeof *work, "a periodogram"));
	TRY_OR_DONE(mem_zeroed(&power, size / 2, sizeof *power, "a periodogram"));
	const tomos_array array =
		tomos_array_of(host, it->Y->shape[0], it->Y->shape[1], it->Y->shape[2]);
	TRY_OR_DONE(vector_download(it->Y, r, &array));
	for (int64_t i = 0; i < rows; i++)
		add_row(host + i * columns, columns, work, size, power);
	*number = from_line(power, size / 2);
done:
	mem_free(host);
	mem_free(work);
	mem_free(power);
	return status;
}

/* The first iterate after which the residual gets less white again. */
static tomos_status stop_white(Iteration *it, const float *r, bool *stop)
{
	double number;
	TRY(stop_ncp(it, r, &number));
	*stop = number > it->last;
	it->last = number;
	return TOMOS_OK;
}

tomos_status stop_check(Iteration *it, const float *r, double norm, bool *stop)
{
	switch (rule_of(it)) {
	case STOP_CHANGE:
		return stop_change(it, stop);
	case STOP_DISCREPANCY:
		*stop = norm <= it->o->noise_level * it->b_norm;
		return TOMOS_OK;
	case STOP_NCP:
		return stop_white(it, r, stop);
	case STOP_MONOTONE:
		return stop_monotone(it, r, stop);
	default:
		return TOMOS_OK;
	}
}
