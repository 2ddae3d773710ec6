/* Normalised metal artefact reduction (E. Meyer, R. Raupach, M. Lell, B. Schmidt, M. Kachelriess
 * 2010). Metal is found in a first reconstruction, and its shadow by projecting it. Line integrals
 * in the shadow are interpolated along their row; the result is reconstructed and simplified to a
 * prior image without metal. Interpolated again after division by the projections of the prior,
 * the line integrals keep the edges of the object.
 */
#include "algo/metal.h"
#include <math.h>
#include <string.h>
#include "algo/analytic.h"
#include "algo/classes.h"

#define METAL 4.0   /* times the median of the object, where no threshold is given */
#define KEPT 1.6    /* times the median of the object: what is denser keeps its values */
#define OFFSET 0.02 /* of the largest projection of the prior: so that quotients are finite */
#define SHADOW 0.05 /* of a voxel: shorter paths through metal are neglected */

struct Metal {
	tomos_geometry *scan;
	tomos_grid grid;    /* all that the detector sees, at its resolution */
	Analytic *analytic; /* on this grid */
	tomos_op *projector;
	double threshold; /* given, or 0 */
	MetalFound found; /* the last time */
	int64_t rays, voxels;
	int64_t part; /* voxels that levels are found from: of a slice, if rays stay in it */
	float *trace, *prior; /* of rays: path through metal; projections of the prior */
	float *image, *mask;  /* mask: 1 where there is metal */
	float *line;          /* a slice */
};

/* ---- memory ---------------------------------------------------------------------------------- */

static bool is_in_slices(const tomos_geometry *scan)
{
	return scan->rows == 1 || scan->views[0].src[3] != (int)TOMOS_POINT;
}

double metal_bytes(const tomos_geometry *scan)
{
	tomos_grid grid;
	double rays = (double)scan->count * (double)scan->rows * (double)scan->columns;
	if (tomos_grid_for(&grid, scan, NULL) != TOMOS_OK)
		return 0;
	double voxels = (double)grid.n[0] * (double)grid.n[1] * (double)grid.n[2];
	return (3 * rays + 3 * voxels) * sizeof(float);
}

static tomos_status take_memory(Metal *m)
{
	int64_t slice = m->grid.n[0] * m->grid.n[1];
	TRY(shape_count(m->grid.n, &m->voxels));
	m->rays = m->scan->count * m->scan->rows * m->scan->columns;
	m->part = is_in_slices(m->scan) ? slice : m->voxels;
	TRY(mem_alloc(&m->trace, m->rays, sizeof(float), "the shadow of metal"));
	TRY(mem_alloc(&m->prior, m->rays, sizeof(float), "projections of the prior image"));
	TRY(mem_alloc(&m->image, m->voxels, sizeof(float), "a volume to find metal in"));
	TRY(mem_alloc(&m->line, slice, sizeof(float), "a slice"));
	return mem_alloc(&m->mask, m->voxels, sizeof(float), "where metal is");
}

static tomos_status open_into(Metal *m, const char *method, tomos_backend *backend,
	const tomos_geometry *scan, const tomos_analytic_options *options)
{
	tomos_analytic_options plain = *options;
	plain.metal = "none";
	plain.metal_threshold = 0;
	m->threshold = options->metal_threshold;
	if (!(m->threshold >= 0 && m->threshold < HUGE_VAL))
		return fail(TOMOS_BAD_VALUE,
			"metal_threshold %g: it must be above 0, or 0 to find it from the values",
			m->threshold);
	TRY(tomos_geometry_views(&m->scan, scan->rows, scan->columns, scan->views, scan->count));
	TRY(tomos_grid_for(&m->grid, scan, NULL));
	TRY(take_memory(m));
	TRY(analytic_open(&m->analytic, method, backend, &m->grid, scan, NULL, &plain));
	return tomos_op_projector(&m->projector, backend, &m->grid, scan, NULL);
}

tomos_status metal_open(Metal **metal, const char *method, tomos_backend *backend,
	const tomos_geometry *scan, const tomos_analytic_options *options)
{
	Metal *m;
	*metal = NULL;
	TRY(mem_zeroed(&m, 1, sizeof *m, "metal artefact reduction"));
	tomos_status status = open_into(m, method, backend, scan, options);
	if (status == TOMOS_OK)
		*metal = m;
	else
		metal_close(m);
	return status;
}

void metal_close(Metal *m)
{
	if (!m)
		return;
	analytic_close(m->analytic);
	tomos_op_free(m->projector);
	tomos_geometry_free(m->scan);
	mem_free(m->trace);
	mem_free(m->prior);
	mem_free(m->image);
	mem_free(m->mask);
	mem_free(m->line);
	mem_free(m);
}

/* ---- images ---------------------------------------------------------------------------------- */

static tomos_status reconstruct(Metal *m, float *p)
{
	const tomos_geometry *g = m->scan;
	const int64_t *n = m->grid.n;
	const tomos_array data = tomos_array_of(p, g->count, g->rows, g->columns);
	const tomos_array volume = tomos_array_of(m->image, n[2], n[1], n[0]);
	return analytic_apply(m->analytic, &data, &volume, NULL);
}

static tomos_status project(const Metal *m, float *image, float *p)
{
	const tomos_geometry *g = m->scan;
	const int64_t *n = m->grid.n;
	const tomos_array data = tomos_array_of(p, g->count, g->rows, g->columns);
	const tomos_array volume = tomos_array_of(image, n[2], n[1], n[0]);
	return tomos_op_forward(m->projector, &volume, &data);
}

/* Sets the mask; returns whether there is metal. */
static bool find_metal(Metal *m)
{
	m->found = (MetalFound){.voxels = (double)m->voxels, .low = HUGE_VAL};
	for (int64_t at = 0; at < m->voxels; at += m->part) {
		const float *image = m->image + at;
		double limit = m->threshold;
		if (limit == 0)
			limit = METAL * classes_level(image, m->part);
		if (limit > 0) { /* else the slice is empty */
			m->found.low = fmin(m->found.low, limit);
			m->found.high = fmax(m->found.high, limit);
		}
		limit = limit > 0 ? limit : HUGE_VAL;
		for (int64_t i = 0; i < m->part; i++) {
			m->mask[at + i] = (double)image[i] > limit;
			m->found.metal += (double)m->mask[at + i];
		}
	}
	return m->found.metal > 0;
}

void metal_add_found(const Metal *m, MetalFound *sum)
{
	bool first = sum->voxels == 0;
	sum->voxels += m->found.voxels;
	sum->metal += m->found.metal;
	sum->low = first ? m->found.low : fmin(sum->low, m->found.low);
	sum->high = fmax(sum->high, m->found.high);
}

/* Mean of the 3 x 3 voxels around each one of a slice, against noise and streaks. */
static void smooth_slice(const Metal *m, float *slice)
{
	int64_t nx = m->grid.n[0], ny = m->grid.n[1];
	memcpy(m->line, slice, (size_t)(nx * ny) * sizeof *slice);
	for (int64_t y = 1; y < ny - 1; y++)
		for (int64_t x = 1; x < nx - 1; x++) {
			float sum = 0;
			for (int64_t j = -1; j <= 1; j++)
				for (int64_t i = -1; i <= 1; i++)
					sum += m->line[(y + j) * nx + x + i];
			slice[y * nx + x] = sum / 9;
		}
}

/* Air is 0, the object has one level, and what is denser stays as it is. */
static void make_prior(Metal *m)
{
	int64_t slice = m->grid.n[0] * m->grid.n[1];
	for (int64_t at = 0; at < m->voxels; at += slice)
		smooth_slice(m, m->image + at);
	for (int64_t at = 0; at < m->voxels; at += m->part) {
		float *image = m->image + at;
		const float *mask = m->mask + at;
		double level = classes_level(image, m->part), air = 0.5 * level;
		for (int64_t i = 0; i < m->part; i++) {
			double value = (double)image[i];
			bool dense = value > KEPT * level && mask[i] == 0;
			image[i] = value > air || mask[i] != 0 ? (float)(dense ? value : level) : 0;
		}
	}
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* The shadow, with one more column on either side: 1 in it, 0 outside. */
static void widen_trace(const Metal *m)
{
	int64_t columns = m->scan->columns;
	float least = (float)(SHADOW * fmin(fabs(m->grid.step[0]), fabs(m->grid.step[1])));
	for (int64_t row = 0; row < m->rays; row += columns) {
		float *trace = m->trace + row;
		bool last = false;
		for (int64_t c = 0; c < columns; c++) {
			bool here = trace[c] > least;
			bool next = c + 1 < columns && trace[c + 1] > least;
			trace[c] = last || here || next;
			last = here;
		}
	}
}

/* Interpolates columns from..to-1, between the values beside them or from the only one. */
static void bridge(float *row, int64_t columns, int64_t from, int64_t to)
{
	if (from == 0 && to == columns)
		return;
	float left = from > 0 ? row[from - 1] : row[to];
	float right = to < columns ? row[to] : left;
	for (int64_t c = from; c < to; c++)
		row[c] = left + (right - left) * (float)(c - from + 1) / (float)(to - from + 1);
}

static void bridge_row(const float *trace, int64_t columns, float *row)
{
	for (int64_t c = 0; c < columns; c++) {
		int64_t from = c;
		while (c < columns && trace[c] != 0)
			c++;
		if (c > from)
			bridge(row, columns, from, c);
	}
}

typedef struct {
	const Metal *metal;
	float *p;
	float offset; /* of line integrals and prior; HUGE_VALF: not divided by the prior */
} Bridging;

static void bridge_view(void *user, int64_t view)
{
	const Bridging *b = user;
	const Metal *m = b->metal;
	int64_t columns = m->scan->columns, rows = m->scan->rows;
	for (int64_t r = view * rows; r < (view + 1) * rows; r++) {
		float *p = b->p + r * columns;
		const float *prior = m->prior + r * columns, *trace = m->trace + r * columns;
		bool divided = b->offset != HUGE_VALF;
		for (int64_t c = 0; divided && c < columns; c++)
			p[c] = (p[c] + b->offset) / (prior[c] + b->offset);
		bridge_row(trace, columns, p);
		for (int64_t c = 0; divided && c < columns; c++)
			p[c] = p[c] * (prior[c] + b->offset) - b->offset;
	}
}

static float largest(const float *values, int64_t count)
{
	float most = 0;
	for (int64_t i = 0; i < count; i++)
		most = values[i] > most ? values[i] : most;
	return most;
}

/* Only line integrals in the shadow are changed; dividing and multiplying would round the rest. */
static tomos_status replace_shadow(Metal *m, float *p)
{
	float *own;
	TRY(mem_alloc(&own, m->rays, sizeof *own, "line integrals without metal"));
	memcpy(own, p, (size_t)m->rays * sizeof *own);
	parallel_for(m->scan->count, bridge_view, &(Bridging){m, own, HUGE_VALF});
	tomos_status status = reconstruct(m, own);
	if (status == TOMOS_OK) {
		make_prior(m);
		status = project(m, m->image, m->prior);
	}
	if (status == TOMOS_OK) {
		float offset = (float)OFFSET * largest(m->prior, m->rays);
		memcpy(own, p, (size_t)m->rays * sizeof *own);
		parallel_for(m->scan->count, bridge_view,
			&(Bridging){m, own, offset > 0 ? offset : HUGE_VALF});
		for (int64_t i = 0; i < m->rays; i++)
			p[i] = m->trace[i] != 0 ? own[i] : p[i];
	}
	mem_free(own);
	return status;
}

tomos_status metal_reduce(Metal *m, float *p)
{
	TRY(reconstruct(m, p));
	if (!find_metal(m))
		return TOMOS_OK;
	TRY(project(m, m->mask, m->trace));
	widen_trace(m);
	return replace_shadow(m, p);
}

/* ---- the result ------------------------------------------------------------------------------ */

/* Index along an axis of the voxel of the mask at voxel i of the grid; -1: outside. */
static int64_t mask_index(const Metal *m, const tomos_grid *grid, int axis, int64_t i)
{
	double at = grid->first[axis] + (double)i * grid->step[axis];
	double index = floor((at - m->grid.first[axis]) / m->grid.step[axis] + 0.5);
	return index >= 0 && index < (double)m->grid.n[axis] ? (int64_t)index : -1;
}

void metal_insert(const Metal *m, const tomos_grid *grid, const float *plain, float *volume)
{
	const int64_t *n = grid->n, *own = m->grid.n;
	for (int64_t k = 0; k < n[2]; k++)
		for (int64_t j = 0; j < n[1]; j++) {
			int64_t z = mask_index(m, grid, 2, k), y = mask_index(m, grid, 1, j);
			int64_t at = (k * n[1] + j) * n[0];
			for (int64_t i = 0; i < n[0] && z >= 0 && y >= 0; i++) {
				int64_t x = mask_index(m, grid, 0, i);
				if (x >= 0 && m->mask[(z * own[1] + y) * own[0] + x] != 0)
					volume[at + i] = plain[at + i];
			}
		}
}
