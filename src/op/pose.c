/* Derivatives of projections with respect to the poses of the views (kernel/pose.h): as arrays, as
 * a linear operator from poses to projections, and along given directions of each view's pose. */
#include <stdio.h>
#include <string.h>
#include "op/op.h"

/* Derivatives kept at a time, in floats. */
enum { POSE_CHUNK = 1 << 24 };

typedef struct {
	const tomos_op *projector;
	Space space; /* of the volume; the projector may be freed before */
	float *volume;
} Jacobian;

static int64_t pixels_of(const tomos_op *projector)
{
	return projector->range.shape[1] * projector->range.shape[2];
}

static tomos_status check_projector(const tomos_op *projector)
{
	if (!projector)
		return fail(TOMOS_BAD_VALUE, "derivatives with respect to poses need a projector");
	if (!projector->type->pose)
		return fail(TOMOS_UNSUPPORTED,
			"the operator (%s) has no derivatives with respect to poses: only "
			"projectors have them",
			projector->description);
	return TOMOS_OK;
}

tomos_status op_pose(
	const tomos_op *op, const float *x, int64_t first, int64_t count, float *derivative)
{
	TRY(cancel_check("the derivatives of poses"));
	cancel_begin();
	return cancel_end(
		op->type->pose(op, x, first, count, derivative), "the derivatives of poses");
}

/* ---- views in chunks ------------------------------------------------------------------------- */

typedef struct PoseVisit PoseVisit;
struct PoseVisit {
	const tomos_op *projector;
	const float *volume;
	Space image;    /* of one view */
	float *columns; /* derivatives of the views of a chunk */
	/* Does something with the POSE_NUMBERS images of a view. */
	tomos_status (*view)(const PoseVisit *visit, int64_t view, const float *images);
	const float *read;
	float *written;
	double *poses;
	const double *directions; /* [view][6][count] */
	int count;
};

static tomos_status visit_chunks(PoseVisit *visit, int64_t chunk)
{
	int64_t views = visit->projector->range.shape[0], pixels = visit->image.count;
	for (int64_t first = 0; first < views; first += chunk) {
		int64_t count = min64(chunk, views - first);
		TRY(op_pose(visit->projector, visit->volume, first, count, visit->columns));
		for (int64_t i = 0; i < count; i++)
			TRY(visit->view(
				visit, first + i, visit->columns + i * POSE_NUMBERS * pixels));
	}
	return TOMOS_OK;
}

static tomos_status visit_views(PoseVisit *visit)
{
	const Space *range = &visit->projector->range;
	int64_t pixels = pixels_of(visit->projector), floats;
	visit->image = (Space){range->backend, {1, range->shape[1], range->shape[2]}, pixels, NULL};
	int64_t chunk = max64(1, min64(range->shape[0], POSE_CHUNK / (POSE_NUMBERS * pixels)));
	if (!size_mul(chunk * POSE_NUMBERS, pixels, &floats))
		return fail(TOMOS_NO_MEMORY, "views of %lld pixels are too large for derivatives",
			(long long)pixels);
	Space all = {range->backend, {1, 1, floats}, floats, NULL};
	TRY(vector_new(&visit->columns, &all, "the derivatives of poses"));
	tomos_status status = visit_chunks(visit, chunk);
	vector_free(visit->columns, &all);
	return status;
}

/* ---- the operator ---------------------------------------------------------------------------- */

static tomos_status combine(const PoseVisit *visit, int64_t view, const float *images)
{
	int64_t pixels = visit->image.count;
	for (int k = 0; k < visit->count; k++) {
		float *image = visit->written + (view * visit->count + k) * pixels;
		TRY(vector_fill(&visit->image, 0, image));
		for (int64_t n = 0; n < POSE_NUMBERS; n++) {
			int64_t entry = (view * POSE_NUMBERS + n) * visit->count + k;
			TRY(vector_axpy(&visit->image, (float)visit->directions[entry],
				images + n * pixels, image));
		}
	}
	return TOMOS_OK;
}

static tomos_status products(const PoseVisit *visit, int64_t view, const float *images)
{
	const float *image = visit->read + view * visit->image.count;
	for (int64_t n = 0; n < POSE_NUMBERS; n++)
		TRY(vector_dot(&visit->image, images + n * visit->image.count, image,
			&visit->poses[POSE_NUMBERS * view + n]));
	return TOMOS_OK;
}

tomos_status op_pose_along(
	const tomos_op *op, const float *x, const double *directions, int count, float *images)
{
	PoseVisit visit = {.projector = op,
		.volume = x,
		.view = combine,
		.written = images,
		.directions = directions,
		.count = count};
	TRY(check_projector(op));
	return visit_views(&visit);
}

/* Poses as a vector of the backend, and as numbers of the host. */
static tomos_status poses_copy(const Space *space, float *vector, double *poses, bool upload)
{
	float *host;
	TRY(mem_alloc(&host, space->count, sizeof *host, "poses"));
	tomos_array array = tomos_array_of(host, space->shape[0], space->shape[1], space->shape[2]);
	for (int64_t i = 0; upload && i < space->count; i++)
		host[i] = (float)poses[i];
	tomos_status status = upload ? vector_upload(space, vector, &array)
				     : vector_download(space, vector, &array);
	if (upload && status == TOMOS_OK)
		status = vector_sync(space); /* the host array is freed */
	for (int64_t i = 0; !upload && status == TOMOS_OK && i < space->count; i++)
		poses[i] = host[i];
	mem_free(host);
	return status;
}

static tomos_status jacobian_forward(const tomos_op *op, const float *x, float *y)
{
	const Jacobian *own = op->own;
	double *poses;
	TRY(mem_alloc(&poses, op->domain.count, sizeof *poses, "poses"));
	tomos_status status = poses_copy(&op->domain, (float *)x, poses, false);
	if (status == TOMOS_OK)
		status = op_pose_along(own->projector, own->volume, poses, 1, y);
	mem_free(poses);
	return status;
}

static tomos_status jacobian_adjoint(const tomos_op *op, const float *y, float *x)
{
	const Jacobian *own = op->own;
	PoseVisit visit = {
		.projector = own->projector, .volume = own->volume, .view = products, .read = y};
	TRY(mem_alloc(&visit.poses, op->domain.count, sizeof *visit.poses, "poses"));
	tomos_status status = visit_views(&visit);
	if (status == TOMOS_OK)
		status = poses_copy(&op->domain, x, visit.poses, true);
	mem_free(visit.poses);
	return status;
}

static void jacobian_free(tomos_op *op)
{
	const Jacobian *own = op->own;
	vector_free(own->volume, &own->space);
}

static const OpType jacobian_type = {
	.forward = jacobian_forward, .adjoint = jacobian_adjoint, .free = jacobian_free};

static tomos_status keep_volume(Jacobian *own, const tomos_array *volume)
{
	const Space *space = &own->space;
	Vector given;
	TRY(vector_new(&own->volume, space, "the volume"));
	TRY(vector_borrow(&given, space, volume, VECTOR_IN, "the volume"));
	tomos_status status = vector_copy(space, given.data, own->volume);
	if (status == TOMOS_OK)
		status = vector_sync(space);
	tomos_status returned = vector_return(&given, space, VECTOR_IN);
	return status == TOMOS_OK ? returned : status;
}

tomos_status tomos_op_poses(tomos_op **op, const tomos_op *projector, const tomos_array *volume)
{
	*op = NULL;
	TRY(check_projector(projector));
	const int64_t domain[3] = {1, projector->range.shape[0], POSE_NUMBERS};
	tomos_op *made;
	TRY(op_make(&made, &jacobian_type, projector->domain.backend, domain,
		projector->range.shape, sizeof(Jacobian)));
	Jacobian *own = made->own;
	own->projector = projector;
	own->space = projector->domain;
	made->matched = true;
	made->entries = ENTRIES_SIGNED;
	snprintf(made->description, sizeof made->description,
		"derivatives with respect to the poses of %lld views", (long long)domain[1]);
	return op_finish(op, made, keep_volume(own, volume));
}

/* ---- arrays ---------------------------------------------------------------------------------- */

tomos_status tomos_pose_derivative(const tomos_op *projector, const tomos_array *volume,
	int64_t first, int64_t count, const tomos_array *derivative)
{
	Vector x, y;
	TRY(check_projector(projector));
	const Space *range = &projector->range;
	if (first < 0 || count < 1 || count > range->shape[0] - first)
		return fail(TOMOS_BAD_VALUE,
			"derivatives of views %lld to %lld: the scan has views 0 to %lld",
			(long long)first, (long long)(first + count - 1),
			(long long)(range->shape[0] - 1));
	Space space = {
		range->backend, {POSE_NUMBERS * count, range->shape[1], range->shape[2]}, 0, NULL};
	TRY(shape_count(space.shape, &space.count));
	TRY(vector_borrow(&x, &projector->domain, volume, VECTOR_IN, "the volume"));
	tomos_status status = vector_borrow(&y, &space, derivative, VECTOR_OUT, "the derivatives");
	if (status == TOMOS_OK) {
		status = op_pose(projector, x.data, first, count, y.data);
		tomos_status returned = vector_return(&y, &space, VECTOR_OUT);
		status = status == TOMOS_OK ? returned : status;
	}
	tomos_status returned = vector_return(&x, &projector->domain, VECTOR_IN);
	return status == TOMOS_OK ? returned : status;
}
