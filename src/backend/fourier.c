/* What every implementation of the Fourier projector has in common. */
#include "backend/fourier.h"
#include <math.h>
#include "geom/geom.h"

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

int64_t fourier_period(const FourierSpec *spec)
{
	double most = (double)spec->columns, low, high;
	for (int64_t i = 0; i < spec->count; i++) {
		fourier_span(&spec->views[i], spec->n, &low, &high);
		most = fmax(most, fmax(high, (double)spec->columns - 1 - low));
	}
	return (int64_t)fmin(most, 0x1p40) + FOURIER_REACH;
}

double fourier_oversampling(double accuracy)
{
	return accuracy >= 5e-5 ? 1.25 : accuracy >= 5e-6 ? 1.4 : 2;
}

double fourier_bytes(const tomos_geometry *scan, const tomos_grid *grid, double accuracy)
{
	double over = fourier_oversampling(accuracy), wide = 0, pixel = 0;
	double cell = 8 * (grid->n[2] > 2 ? 4 : 1);
	for (int a = 0; a < 3; a++) {
		double u = scan->views[0].u[a];
		pixel += u * u;
		wide += a < 2 ? fabs((double)grid->n[a] * grid->step[a]) : 0;
	}
	double points = (double)scan->columns + wide / sqrt(pixel);
	double cells = over * over * (double)grid->n[0] * (double)grid->n[1];
	double buffers =
		64 * tomos_threads() * (points + over * (double)grid->n[0]) * sizeof(float);
	return 1.1 * (cell * (cells + points * (double)scan->count) + 2 * buffers);
}

/* The kernel is back projected onto a slice of twice the size and transformed. */
double fourier_normal_bytes(const tomos_geometry *scan, const tomos_grid *grid, double accuracy)
{
	tomos_grid twice = *grid;
	twice.n[0] *= 2;
	twice.n[1] *= 2;
	twice.n[2] = 1;
	double padded = 4 * (double)grid->n[0] * (double)grid->n[1];
	double cell = 8 * (grid->n[2] > 2 ? 4 : 1);
	return fourier_bytes(scan, &twice, accuracy) + 1.3 * padded * (16 + 0.5 * cell);
}
