/* Preparation on devices: the lists that its kernels read. */
#include <math.h>
#include <string.h>
#include "backend/device/prepare.h"

/* Copies a list to the device; *list then points there. */
static tomos_status send(tomos_backend *b, const void *host, int64_t bytes, void *list)
{
	float *device;
	TRY(b->type->memory->alloc(b, &device, (bytes + 3) / 4, "lists of the preparation"));
	memcpy(list, &device, sizeof device);
	return module_prepare.send(b, device, host, bytes);
}

static tomos_status send_flats(tomos_backend *b, PrepWork *w, const PrepSpec *given)
{
	PrepSpec *s = &w->spec;
	const int64_t size = sizeof(int32_t), ends = given->groups + 1;
	s->flat_order = NULL;
	s->light = NULL;
	if (given->groups == 0)
		return TOMOS_OK;
	TRY(mem_alloc(&w->begins, ends, sizeof *w->begins, "the groups of the flats"));
	memcpy(w->begins, given->begins, (size_t)(ends * size));
	TRY(send(b, given->flat_order, given->flats * size, &s->flat_order));
	return send(b, given->light, given->views * (int64_t)sizeof(PrepLight), &s->light);
}

static int64_t next_good(const PrepSpec *s, int64_t view, int64_t step)
{
	while (view >= 0 && view < s->views && s->bad[view])
		view += step;
	return view;
}

/* The views around each bad one, and the views that are not omitted. */
static tomos_status send_views(tomos_backend *b, PrepWork *w, const PrepSpec *given)
{
	PrepBridge *bridges;
	int32_t *kept;
	int64_t bad = 0, good = 0;
	tomos_status status;
	if (given->bad_count == 0)
		return TOMOS_OK;
	TRY(mem_alloc(&bridges, given->bad_count, sizeof *bridges, "the bad views"));
	TRY_OR_DONE(mem_alloc(&kept, given->views, sizeof *kept, "the good views"));
	for (int64_t v = 0; v < given->views; v++) {
		if (!given->bad[v]) {
			kept[good++] = (int32_t)v;
			continue;
		}
		int64_t left = next_good(given, v, -1), right = next_good(given, v, 1);
		int64_t from = left < 0 ? right : left, to = right < given->views ? right : left;
		float share = to > from ? (float)(v - from) / (float)(to - from) : 0;
		bridges[bad++] = (PrepBridge){(int32_t)v, (int32_t)from, (int32_t)to, share};
	}
	status = send(b, bridges, bad * (int64_t)sizeof *bridges, &w->bridges);
	if (status == TOMOS_OK && given->leave_out)
		status = send(b, kept, good * (int64_t)sizeof *kept, &w->kept);
	mem_free(kept);
done:
	mem_free(bridges);
	return status;
}

/* As weights_of in prep/shift.c. */
static void shift_weights(double t, bool cubic, float *weight)
{
	const double taps[SHIFT_TAPS] = {cubic ? t * (-0.5 + t * (1 - 0.5 * t)) : 0,
		cubic ? 1 + t * t * (-2.5 + 1.5 * t) : 1 - t,
		cubic ? t * (0.5 + t * (2 - 1.5 * t)) : t, cubic ? t * t * (-0.5 + 0.5 * t) : 0};
	for (int k = 0; k < SHIFT_TAPS; k++)
		weight[k] = (float)taps[k];
}

static double shift_of(const double *list, int64_t count, int64_t view)
{
	return count == 0 ? 0 : list[count == 1 ? 0 : view];
}

static tomos_status send_shifts(tomos_backend *b, PrepWork *w, const PrepSpec *given)
{
	PrepShift *shifts;
	if (given->shift_x_count == 0 && given->shift_y_count == 0)
		return TOMOS_OK;
	TRY(mem_alloc(&shifts, given->views, sizeof *shifts, "shifts of views"));
	for (int64_t v = 0; v < given->views; v++) {
		double x = shift_of(given->shift_x, given->shift_x_count, v);
		double y = shift_of(given->shift_y, given->shift_y_count, v);
		PrepShift *s = &shifts[v];
		/* A shift beyond the detector is rejected before it is used. */
		s->column = (int32_t)fmax(fmin(floor(x), 1e9), -1e9) - 1;
		s->row = (int32_t)fmax(fmin(floor(y), 1e9), -1e9) - 1;
		s->moved = x != 0 || y != 0;
		shift_weights(x - floor(x), given->shift_cubic, s->across);
		shift_weights(y - floor(y), given->shift_cubic, s->along);
	}
	tomos_status status = send(b, shifts, given->views * (int64_t)sizeof *shifts, &w->shifts);
	mem_free(shifts);
	return status;
}

/* Factors of the Thomas algorithm for the system of prep/ring_titarenko.c, whose matrix is the same
 * for all sinograms. */
static tomos_status send_pivots(tomos_backend *b, PrepWork *w, const PrepSpec *given)
{
	double *pivots;
	int64_t n = w->ring_columns;
	if (given->rings != RINGS_TITARENKO)
		return TOMOS_OK;
	TRY(mem_alloc(&pivots, 2 * n, sizeof *pivots, "the equations of ring removal"));
	for (int64_t i = 0; i < n; i++) {
		double ends = n == 1 ? 0 : i == 0 || i == n - 1 ? 1 : 2;
		double pivot = ends + given->ring_alpha + (i > 0 ? pivots[i - 1] : 0);
		pivots[i] = i < n - 1 ? -1 / pivot : 0;
		pivots[n + i] = 1 / pivot;
	}
	tomos_status status = send(b, pivots, 2 * n * (int64_t)sizeof *pivots, &w->pivots);
	mem_free(pivots);
	return status;
}

tomos_status prep_lists_send(tomos_backend *b, PrepWork *w, const PrepSpec *given)
{
	PrepSpec *s = &w->spec;
	const int64_t bytes = FOUND_KINDS * (int64_t)sizeof *w->found;
	const unsigned long long none[FOUND_KINDS] = {0};
	TRY(send(b, none, bytes, &w->found));
	TRY(send_flats(b, w, given));
	TRY(send_views(b, w, given));
	TRY(send_shifts(b, w, given));
	TRY(send_pivots(b, w, given));
	s->hardening = NULL;
	if (given->hardening_count == 0)
		return TOMOS_OK;
	return send(b, given->hardening, given->hardening_count * (int64_t)sizeof(double),
		&s->hardening);
}

void prep_lists_release(tomos_backend *b, PrepWork *w)
{
	const PrepSpec *s = &w->spec;
	void *const held[] = {(void *)(uintptr_t)s->flat_order, (void *)(uintptr_t)s->light,
		(void *)(uintptr_t)s->hardening, w->found, w->bridges, w->kept, w->shifts,
		w->pivots, w->scratch};
	module_prepare.release(b, w, held, COUNT(held));
	mem_free(w->begins);
}
