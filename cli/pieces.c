/* Projection in pieces of views or slices, each a second or so of work, so that it can be watched
 * and stopped. Pieces work on parts of the caller's arrays: nothing is copied. */
#include <string.h>
#include "cli.h"

#define WORK 2e9  /* voxels times views worth one piece */
#define FEWEST 16 /* views or slices in a piece, so that what an operator prepares is paid for */

/* One projection: of a volume on its grid, or of a phantom. */
typedef struct job {
	tomos_backend *backend;
	const tomos_grid *grid;
	const tomos_geometry *scan;
	const tomos_projector_options *options;
	const tomos_phantom *phantom;
	int64_t samples;
	const tomos_array *volume, *projections;
} job;

static int64_t piece_size(int64_t count, int64_t fewest, double work_each)
{
	double size = WORK / (work_each > 1 ? work_each : 1);
	return size >= (double)count ? count : size < (double)fewest ? fewest : (int64_t)size;
}

static tomos_array part(const tomos_array *whole, int64_t first, int64_t count)
{
	tomos_array a = *whole;
	a.data += first * a.stride[0];
	a.shape[0] = count;
	return a;
}

static int in_pieces(const job *j, const char *stage, int64_t total, int64_t step,
	int (*piece)(const job *j, int64_t first, int64_t count))
{
	int code;
	DO(progress_step(stage, 0, total));
	for (int64_t first = 0; first < total; first += step) {
		int64_t count = total - first < step ? total - first : step;
		DO(piece(j, first, count));
		DO(progress_step(stage, first + count, total));
	}
done:
	return code;
}

static int forward_piece(const job *j, int64_t first, int64_t count)
{
	const tomos_geometry *scan = j->scan;
	tomos_array y = part(j->projections, first, count);
	tomos_geometry *some = NULL;
	tomos_op *op = NULL;
	int code;
	DO(lib(tomos_geometry_views(&some, tomos_geometry_rows(scan), tomos_geometry_columns(scan),
		tomos_geometry_list(scan) + first, count)));
	if (j->phantom) {
		DO(lib(tomos_phantom_project(j->phantom, some, j->samples, &y)));
	} else {
		DO(lib(tomos_op_projector(&op, j->backend, j->grid, some, j->options)));
		DO(lib(tomos_op_forward(op, j->volume, &y)));
	}
done:
	tomos_op_free(op);
	tomos_geometry_free(some);
	return code;
}

int pieces_forward(tomos_backend *backend, const tomos_grid *grid, const tomos_geometry *scan,
	const tomos_projector_options *options, const tomos_array *volume,
	const tomos_array *projections)
{
	const job j = {backend, grid, scan, options, NULL, 0, volume, projections};
	double voxels = (double)grid->n[0] * (double)grid->n[1] * (double)grid->n[2];
	int64_t total = tomos_geometry_count(scan);
	return in_pieces(&j, "projecting", total, piece_size(total, FEWEST, voxels), forward_piece);
}

int pieces_phantom(const tomos_phantom *phantom, const tomos_geometry *scan, int64_t samples,
	const tomos_array *projections)
{
	const job j = {
		.scan = scan, .phantom = phantom, .samples = samples, .projections = projections};
	int64_t total = tomos_geometry_count(scan), ellipsoids;
	tomos_phantom_list(phantom, &ellipsoids);
	double rays = (double)projections->shape[1] * (double)projections->shape[2] *
		      (double)samples * (double)samples;
	/* A chord costs about ten updates of a voxel; pieces prepare nothing, so they may be
	 * short. */
	return in_pieces(&j, "projecting", total,
		piece_size(total, 1, 100 * rays * (double)ellipsoids), forward_piece);
}

static int volume_piece(const job *j, int64_t first, int64_t count)
{
	tomos_array x = part(j->volume, first, count);
	tomos_grid slab = *j->grid;
	slab.n[2] = count;
	slab.first[2] += slab.step[2] * (double)first;
	return lib(tomos_phantom_volume(j->phantom, &slab, j->samples, &x));
}

int pieces_volume(const tomos_phantom *phantom, const tomos_grid *grid, int64_t samples,
	const tomos_array *volume)
{
	const job j = {.grid = grid, .phantom = phantom, .samples = samples, .volume = volume};
	int64_t ellipsoids;
	tomos_phantom_list(phantom, &ellipsoids);
	double points = (double)grid->n[0] * (double)grid->n[1] * (double)samples *
			(double)samples * (double)samples;
	double work = points * (double)ellipsoids;
	return in_pieces(&j, "sampling", grid->n[2], piece_size(grid->n[2], 1, work), volume_piece);
}

static int back_piece(const job *j, int64_t first, int64_t count)
{
	tomos_array x = part(j->volume, first, count);
	tomos_grid slab = *j->grid;
	tomos_op *op = NULL;
	int code;
	slab.n[2] = count;
	slab.first[2] += slab.step[2] * (double)first;
	DO(lib(tomos_op_projector(&op, j->backend, &slab, j->scan, j->options)));
	DO(lib(tomos_op_adjoint(op, j->projections, &x)));
done:
	tomos_op_free(op);
	return code;
}

/* Whether slabs give what the whole grid gives: a clamped boundary is where the grid ends, so every
 * slab would have its own, a ray in a face between voxels may fall to the other side, and one slice
 * with one row of pixels is a matter of the plane, in which z plays no part. */
static bool slabs_agree(const tomos_projector_options *o, const tomos_geometry *scan)
{
	const char *model = o->back[0] ? o->back : o->forward;
	return strcmp(o->boundary, "clamp") != 0 && strncmp(model, "line", 4) != 0 &&
	       tomos_geometry_rows(scan) > 1;
}

int pieces_back(tomos_backend *backend, const tomos_grid *grid, const tomos_geometry *scan,
	const tomos_projector_options *options, const tomos_array *projections,
	const tomos_array *volume)
{
	const job j = {backend, grid, scan, options, NULL, 0, volume, projections};
	double work = (double)grid->n[0] * (double)grid->n[1] * (double)tomos_geometry_count(scan);
	int64_t total = grid->n[2], step = piece_size(total, FEWEST, work);
	if (!slabs_agree(options, scan))
		step = total;
	return in_pieces(&j, "back projecting", total, step, back_piece);
}
