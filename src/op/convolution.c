/* The normal operator of the projector 'fourier', which is a convolution in each slice if no voxel
 * projects beyond the ends of the detector (backend/fourier.h). */
#include <math.h>
#include <stdio.h>
#include "op/op.h"

/* ---- which scans ----------------------------------------------------------------------------- */

/* The first and the last voxel of a row that may differ from 0, in any slice. */
typedef struct {
	int64_t first, last;
} RowSupport;

static void add_row(RowSupport *row, const float *mask, int64_t n)
{
	for (int64_t x = 0; x < n; x++)
		if (mask[x] != 0) {
			row->first = min64(row->first, x);
			row->last = max64(row->last, x);
		}
}

static tomos_status find_support(const Space *space, const float *mask, RowSupport *rows)
{
	const int64_t *n = space->shape;
	float *host;
	TRY(mem_alloc(&host, space->count, sizeof *host, "the mask"));
	const tomos_array array = tomos_array_of(host, n[0], n[1], n[2]);
	tomos_status status = vector_download(space, mask, &array);
	for (int64_t y = 0; y < n[1]; y++)
		rows[y] = (RowSupport){n[2], -1};
	for (int64_t i = 0; status == TOMOS_OK && i < n[0] * n[1]; i++)
		add_row(&rows[i % n[1]], host + i * n[2], n[2]);
	mem_free(host);
	return status;
}

/* The columns between which a view sees the voxels of a mask; low > high: it has none. */
static void masked_span(const FourierView *view, const int64_t n[3], const RowSupport *rows,
	double *low, double *high)
{
	*low = HUGE_VAL;
	*high = -HUGE_VAL;
	for (int64_t y = 0; y < n[1]; y++)
		for (int end = 0; end < 2 && rows[y].first <= rows[y].last; end++) {
			double x = (double)(end ? rows[y].last : rows[y].first);
			double at = view->column[0] * x + view->column[1] * (double)y;
			*low = fmin(*low, view->column[2] + at);
			*high = fmax(*high, view->column[2] + at);
		}
}

/* Columns of the detector must extend `margin` beyond the centres of all voxels. */
static void check_columns(
	const FourierSpec *spec, const RowSupport *rows, double margin, NormalRequest *request)
{
	double low, high, last = (double)spec->columns - 1;
	for (int64_t i = 0; i < spec->count && !request->why[0]; i++) {
		if (rows)
			masked_span(&spec->views[i], spec->n, rows, &low, &high);
		else
			fourier_span(&spec->views[i], spec->n, &low, &high);
		if (low < margin || high > last - margin)
			snprintf(request->why, sizeof request->why,
				"A'A is no convolution, as in view %lld voxels project onto "
				"columns %.1f to %.1f, and the detector has columns 0 to %.0f%s",
				(long long)i, low, high, last,
				margin > 0 ? ""
					   : "; with a --mask of the circle that it covers, or "
					     "a smaller volume, it is one");
	}
}

static void check_rows(const FourierSpec *spec, NormalRequest *request)
{
	if (!request->why[0] && !fourier_own_rows(spec))
		snprintf(request->why, sizeof request->why,
			"A'A is no convolution within slices, as these are not as high as detector "
			"rows or lie between them");
	for (int64_t i = 0; i < spec->count && !request->why[0]; i++) {
		double first = spec->views[i].row;
		double last = first + spec->views[i].step * (double)(spec->n[2] - 1);
		if (fmin(first, last) < 0 || fmax(first, last) >= (double)spec->rows)
			snprintf(request->why, sizeof request->why,
				"A'A is no convolution, as in view %lld slices project onto rows "
				"%.0f to %.0f, and the detector has rows 0 to %lld",
				(long long)i, first, last, (long long)spec->rows - 1);
	}
}

/* Transforms of padded slices take longer than projections of a few views. */
static void check_count(const FourierSpec *spec, NormalRequest *request)
{
	if (4 * spec->count < max64(spec->n[0], spec->n[1]))
		snprintf(request->why, sizeof request->why, "it is slower for %lld views",
			(long long)spec->count);
}

/* A centre on the outer half of the last pixel is on the detector. */
static tomos_status check(const Space *domain, const FourierSpec *spec, NormalRequest *request)
{
	RowSupport *rows = NULL;
	tomos_status status = TOMOS_OK;
	if (!domain->backend->type->fourier->open_normal)
		snprintf(request->why, sizeof request->why, "the %s backend has no convolutions",
			domain->backend->type->name);
	if (request->automatic)
		check_count(spec, request);
	if (request->mask) {
		TRY(mem_alloc(&rows, spec->n[1], sizeof *rows, "the mask"));
		status = find_support(domain, request->mask, rows);
	}
	check_columns(spec, rows, request->automatic ? FOURIER_REACH : -0.5, request);
	check_rows(spec, request);
	mem_free(rows);
	return status;
}

/* ---- operator -------------------------------------------------------------------------------- */

typedef struct {
	Fourier *fourier;
} Convolution;

static tomos_status convolution_apply(const tomos_op *op, const float *x, float *y)
{
	const Convolution *own = op->own;
	tomos_backend *backend = op->domain.backend;
	backend_ran(backend, FORWARD, "fourier_normal");
	backend_ran(backend, ADJOINT, "fourier_normal");
	return backend->type->fourier->apply_normal(backend, own->fourier, x, y);
}

static void convolution_free(tomos_op *op)
{
	const Convolution *own = op->own;
	op->domain.backend->type->fourier->close(op->domain.backend, own->fourier);
}

static const OpType convolution_type = {
	.forward = convolution_apply, .adjoint = convolution_apply, .free = convolution_free};

tomos_status op_convolution(
	tomos_op **normal, const Space *domain, const FourierSpec *spec, NormalRequest *request)
{
	tomos_backend *backend = domain->backend;
	tomos_op *made;
	*normal = NULL;
	TRY(check(domain, spec, request));
	if (request->why[0])
		return TOMOS_OK;
	TRY(op_make(&made, &convolution_type, backend, domain->shape, domain->shape,
		sizeof(Convolution)));
	Convolution *own = made->own;
	tomos_status status = backend->type->fourier->open_normal(backend, &own->fourier, spec);
	if (status != TOMOS_OK)
		tomos_op_free(made);
	if (status == TOMOS_UNSUPPORTED) { /* projections may be possible */
		snprintf(request->why, sizeof request->why, "%s", tomos_message());
		return TOMOS_OK;
	}
	TRY(status);
	*normal = made;
	return TOMOS_OK;
}
