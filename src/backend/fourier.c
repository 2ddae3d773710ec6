/* What every implementation of the Fourier projector has in common. */
#include "backend/fourier.h"
#include <math.h>
#include "backend/fourier_window.h"
#include "base/fft.h"

tomos_status fourier_make(tomos_backend *backend, Fourier **fourier, size_t bytes,
	const FourierSpec *spec, FourierFill *fill,
	void (*close)(tomos_backend *backend, Fourier *fourier))
{
	TRY(mem_zeroed(fourier, 1, bytes, "a projector"));
	tomos_status status = fill(backend, *fourier, spec);
	if (status != TOMOS_OK) {
		close(backend, *fourier);
		*fourier = NULL;
	}
	return status;
}

double fourier_taper(FourierResponse response, double cycles)
{
	const double from = 0.4, to = 0.5;
	if (response != RESPONSE_LINE || cycles <= from)
		return 1;
	double c = cos(M_PI / 2 * (cycles - from) / (to - from));
	return c * c;
}

void fourier_span(const FourierView *view, const int64_t n[3], double *low, double *high)
{
	*low = *high = view->column[2];
	for (int a = 0; a < 2; a++) {
		double reach = view->column[a] * (double)(n[a] - 1);
		*low += fmin(reach, 0);
		*high += fmax(reach, 0);
	}
}

bool fourier_own_rows(const FourierSpec *spec)
{
	for (int64_t i = 0; i < spec->count; i++) {
		const FourierView *view = &spec->views[i];
		if (view->row != floor(view->row) || fabs(view->step) != 1 || view->reach != 1)
			return false;
	}
	return true;
}

int64_t fourier_period(const FourierSpec *spec)
{
	double most = (double)spec->columns, low, high;
	for (int64_t i = 0; i < spec->count; i++) {
		fourier_span(&spec->views[i], spec->n, &low, &high);
		most = fmax(most, fmax(high, (double)spec->columns - 1 - low));
	}
	return (int64_t)fmin(most, 0x1p40) + FOURIER_REACH;
}

FourierSpec fourier_twice(const FourierSpec *spec)
{
	FourierSpec twice = *spec;
	twice.period = fft_length(fourier_period(spec));
	for (int a = 0; a < 2; a++)
		twice.n[a] = 2 * spec->n[a] - 1;
	twice.n[2] = 1;
	return twice;
}

double fourier_oversampling(double accuracy)
{
	return accuracy >= 5e-5 ? 1.25 : accuracy >= 5e-6 ? 1.5 : 2;
}

int64_t fourier_cells(const FourierSpec *spec, int axis)
{
	double least = ceil(fourier_oversampling(spec->accuracy) * (double)spec->n[axis]);
	return fft_length(max64((int64_t)least, 2 * SPREAD_MOST));
}
