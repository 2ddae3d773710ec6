/* Random scans and grids of every kind, the one list that all operator tests walk. */
#ifndef TOMOS_TESTS_OPS_CASES_H
#define TOMOS_TESTS_OPS_CASES_H

#include <stdbool.h>
#include "base/test_main.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "tomos.h"

#define OK(expression) \
	do { \
		tomos_status ok_status = (expression); \
		if (ok_status != TOMOS_OK) \
			fail_msg("%s: %s", #expression, tomos_message()); \
	} while (0)

/* The call is rejected with this status and words of this message. */
#define REJECTED(expression, expected, words) \
	do { \
		tomos_status rejected_status = (expression); \
		if (rejected_status != (expected)) \
			fail_msg("%s: %s", #expression, tomos_status_name(rejected_status)); \
		if (!strstr(tomos_message(), words)) \
			fail_msg("%s: '%s' is not in '%s'", #expression, words, tomos_message()); \
	} while (0)

/* The backend that tests run on: the cpu, or the one that TOMOS_TEST_BACKEND names. */
static inline const char *test_backend(void)
{
	const char *name = getenv("TOMOS_TEST_BACKEND");
	return name && *name ? name : "cpu";
}

/* Whether the same work gives the same bits: not on devices, whose threads add to the same sums in
 * any order. */
static inline int test_repeats(void)
{
	return strcmp(test_backend(), "cpu") == 0;
}

/* The instruction sets of the CPU's kernels. */
static const char *const cpu_levels[] = {"base", "avx2", "avx512", "neon"};
enum { CPU_LEVELS = sizeof cpu_levels / sizeof cpu_levels[0] };

/* A backend with the kernels of one of them, which only the CPU's depend on; NULL: this processor
 * does not have it. */
static inline tomos_backend *open_level(const char *backend, const char *level)
{
	tomos_backend *opened = NULL;
	setenv("TOMOS_CPU", level, 1);
	if (tomos_backend_open(&opened, backend) != TOMOS_OK)
		printf("  %s: not on this processor, skipped\n", level);
	unsetenv("TOMOS_CPU");
	return opened;
}

static const char *const case_kinds[] = {"parallel", "fan", "cone", "laminography", "helix",
	"lebedev", "slice", "stack", "vectors", "stack across y", "stack across x", "fans",
	"fans in slices"};
enum { CASE_KINDS = sizeof case_kinds / sizeof case_kinds[0] };

typedef struct {
	uint64_t state;
	char name[64];
	tomos_grid grid;
	tomos_geometry *scan;
	int64_t voxels, pixels;
} Case;

static inline int choice_in(const char *list, const char *name)
{
	return strstr(list, name) != NULL;
}

static inline double case_random(Case *c)
{
	c->state = c->state * 6364136223846793005u + 1442695040888963407u;
	return (double)(c->state >> 11) / 9007199254740992.0;
}

static inline double case_between(Case *c, double low, double high)
{
	return low + (high - low) * case_random(c);
}

static inline int64_t case_integer(Case *c, int64_t low, int64_t high)
{
	return low + (int64_t)(case_random(c) * (double)(high - low + 1));
}

static inline void case_grid(Case *c, int flat, int free)
{
	for (int a = 0; a < 3; a++) {
		c->grid.n[a] = a == 2 && flat ? 1 : case_integer(c, 1, a == 2 ? 9 : 23);
		c->grid.step[a] = free ? case_between(c, 0.5, 1.6) : 1;
		if (case_random(c) < 0.5 || (a == 1 && !free))
			c->grid.step[a] = -c->grid.step[a];
		if (a == 2 && !free)
			c->grid.step[a] = fabs(c->grid.step[a]);
		double centre = free ? case_between(c, -3, 3) : 0;
		if (a == 2 && flat)
			centre = 0;
		c->grid.first[a] = centre - 0.5 * (double)(c->grid.n[a] - 1) * c->grid.step[a];
	}
}

/* Rotates a view about axis `about`. */
static inline void case_rotate_view(tomos_view *view, int about, double degrees)
{
	const double angle = degrees * 3.14159265358979323846 / 180;
	const int i = (about + 1) % 3, j = (about + 2) % 3;
	double *parts[] = {view->src, view->det, view->u, view->v};
	for (int p = 0; p < 4; p++) {
		double *a = parts[p];
		const double x = a[i];
		a[i] = cos(angle) * x - sin(angle) * a[j];
		a[j] = sin(angle) * x + cos(angle) * a[j];
	}
}

/* The same scan with z and another axis exchanged. */
static inline void case_turn(Case *c, int axis)
{
	int64_t count = tomos_geometry_count(c->scan), n = c->grid.n[2];
	tomos_view *views = malloc((size_t)count * sizeof *views);
	memcpy(views, tomos_geometry_list(c->scan), (size_t)count * sizeof *views);
	for (int64_t i = 0; i < count; i++) {
		double *parts[] = {views[i].src, views[i].det, views[i].u, views[i].v};
		for (int p = 0; p < 4; p++) {
			double z = parts[p][2];
			parts[p][2] = parts[p][axis];
			parts[p][axis] = z;
		}
	}
	double *grid[] = {c->grid.first, c->grid.step};
	for (int p = 0; p < 2; p++) {
		double z = grid[p][2];
		grid[p][2] = grid[p][axis];
		grid[p][axis] = z;
	}
	c->grid.n[2] = c->grid.n[axis];
	c->grid.n[axis] = n;
	int64_t rows = tomos_geometry_rows(c->scan), columns = tomos_geometry_columns(c->scan);
	tomos_geometry_free(c->scan);
	OK(tomos_geometry_views(&c->scan, rows, columns, views, count));
	free(views);
}

/* Voxels and pixels of the grid and the scan. */
static inline void case_count(Case *c)
{
	c->voxels = c->grid.n[0] * c->grid.n[1] * c->grid.n[2];
	c->pixels = tomos_geometry_count(c->scan) * tomos_geometry_rows(c->scan) *
		    tomos_geometry_columns(c->scan);
}

/* The scan of the options, and a centred grid with voxels of size 1. */
static inline void case_place(Case *c, const tomos_scan_options *o, const int64_t n[3])
{
	OK(tomos_geometry_make(&c->scan, o));
	OK(tomos_grid_centred(&c->grid, n[0], n[1], n[2], 1));
	case_count(c);
}

/* "slice" and "stack" are parallel beams, "fans in slices" fans, on grids for which optimised
 * kernels exist; the others have odd sizes, off-centre grids, anisotropic voxels and rays that
 * miss. */
static inline Case case_make(int number)
{
	Case c = {.state = (uint64_t)number * 7919 + 17};
	const char *kind = case_kinds[number % CASE_KINDS];
	snprintf(c.name, sizeof c.name, "case %d: %s", number, kind);
	for (int i = 0; i < 4; i++)
		case_random(&c);
	int slice = strcmp(kind, "slice") == 0, fans = strncmp(kind, "fans", 4) == 0;
	int fan = strcmp(kind, "fan") == 0, flat = slice || fan;
	int stack = strncmp(kind, "stack", 5) == 0 || (fans && strlen(kind) > 4);
	case_grid(&c, flat, !slice && !stack);
	tomos_scan_options o = tomos_scan_defaults();
	o.geometry = fans                           ? "fan"
		     : slice || stack               ? "parallel"
		     : strcmp(kind, "vectors") == 0 ? "cone"
						    : kind;
	o.rows = flat ? 1 : stack ? c.grid.n[2] : case_integer(&c, 1, 13);
	o.columns = case_integer(&c, 1, 40);
	o.pixel = case_between(&c, 0.4, 1.7);
	o.pixel_height = stack ? 1 : case_between(&c, 0.4, 1.7);
	o.views = strcmp(kind, "lebedev") == 0 ? 7 : case_integer(&c, 1, 9);
	double source_axis = case_between(&c, 40, 80), source_detector = case_between(&c, 90, 150);
	double axis = case_between(&c, 0, (double)o.columns);
	if (fans || choice_in("fan|cone|helix|vectors", kind)) {
		o.source_axis = &source_axis, o.source_axis_count = 1;
		o.source_detector = &source_detector, o.source_detector_count = 1;
	}
	o.axis = &axis, o.axis_count = 1;
	if (strcmp(kind, "lebedev") != 0)
		o.start = case_between(&c, -4, 4);
	if (strcmp(kind, "helix") == 0)
		o.pitch = case_between(&c, -9, 9);
	if (strcmp(kind, "laminography") == 0)
		o.tilt = case_between(&c, -1, 1);
	if (strcmp(kind, "cone") == 0 && number % 2) {
		o.roll = case_between(&c, -0.3, 0.3);
		o.slant = case_between(&c, -0.3, 0.3);
		o.swivel = case_between(&c, -0.3, 0.3);
	}
	OK(tomos_geometry_make(&c.scan, &o));
	if (strcmp(kind, "vectors") == 0) { /* sources anywhere on a sphere around the volume */
		int64_t count = tomos_geometry_count(c.scan);
		tomos_view *views = malloc((size_t)count * sizeof *views);
		memcpy(views, tomos_geometry_list(c.scan), (size_t)count * sizeof *views);
		for (int64_t i = 0; i < count; i++) {
			double z = case_between(&c, -30, 30);
			views[i].src[2] += z;
			views[i].det[2] -= z;
		}
		tomos_geometry_free(c.scan);
		OK(tomos_geometry_views(&c.scan, o.rows, o.columns, views, count));
		free(views);
	}
	if (strstr(kind, "across"))
		case_turn(&c, strcmp(kind, "stack across y") == 0 ? 1 : 0);
	case_count(&c);
	return c;
}

static inline tomos_array case_volume(const Case *c, float *data)
{
	return tomos_array_of(data, c->grid.n[2], c->grid.n[1], c->grid.n[0]);
}

static inline tomos_array case_projections(const Case *c, float *data)
{
	return tomos_array_of(data, tomos_geometry_count(c->scan), tomos_geometry_rows(c->scan),
		tomos_geometry_columns(c->scan));
}

static inline float *case_data(Case *c, int64_t count)
{
	float *data = malloc((size_t)count * sizeof *data);
	for (int64_t i = 0; i < count; i++)
		data[i] = (float)case_between(c, -0.5, 1);
	return data;
}

static inline double case_dot(const float *a, const float *b, int64_t n)
{
	double sum = 0;
	for (int64_t i = 0; i < n; i++)
		sum += (double)a[i] * b[i];
	return sum;
}

/* ||a - b|| / ||b||, or ||a|| where b is zero. */
static inline double case_difference(const float *a, const float *b, int64_t n)
{
	double square = 0, norm = case_dot(b, b, n);
	for (int64_t i = 0; i < n; i++)
		square += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
	return sqrt(norm > 0 ? square / norm : square);
}

/* Largest difference relative to the largest value of b; NaN if there is one. */
static inline double case_largest_difference(const float *a, const float *b, int64_t n)
{
	double most = 0, value = 0;
	for (int64_t i = 0; i < n; i++) {
		double d = fabs((double)a[i] - b[i]), v = fabs((double)b[i]);
		if (isnan(d))
			return d;
		most = d > most ? d : most;
		value = v > value ? v : value;
	}
	return value > 0 ? most / value : most;
}

/* The same to the bit, or to rounding where the backend does not repeat itself. */
static inline void case_same(const float *a, const float *b, int64_t n)
{
	if (test_repeats())
		assert_memory_equal(a, b, (size_t)n * sizeof *a);
	else
		assert_true(case_difference(a, b, n) < 1e-5);
}

/* Every projector. */
#define KERNEL(function, name, family, weights, help) name,
static const char *const case_models[] = {
#include "kernel/kernels.def"
};
#undef KERNEL
enum { CASE_MODELS = sizeof case_models / sizeof case_models[0] };

static inline double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline void case_apply(tomos_backend *backend, const tomos_grid *grid,
	const tomos_geometry *scan, const tomos_projector_options *o, bool adjoint, const float *in,
	float *out)
{
	tomos_op *op;
	int64_t n[3], m[3];
	OK(tomos_op_projector(&op, backend, grid, scan, o));
	tomos_op_domain(op, adjoint ? m : n);
	tomos_op_range(op, adjoint ? n : m);
	tomos_array from = tomos_array_of((float *)in, n[0], n[1], n[2]);
	tomos_array to = tomos_array_of(out, m[0], m[1], m[2]);
	OK(adjoint ? tomos_op_adjoint(op, &from, &to) : tomos_op_forward(op, &from, &to));
	tomos_op_free(op);
}

/* y = A x, and x = A' y; contiguous data. */
static inline void case_forward(tomos_backend *backend, const tomos_grid *grid,
	const tomos_geometry *scan, const tomos_projector_options *o, const float *x, float *y)
{
	case_apply(backend, grid, scan, o, false, x, y);
}

static inline void case_adjoint(tomos_backend *backend, const tomos_grid *grid,
	const tomos_geometry *scan, const tomos_projector_options *o, const float *y, float *x)
{
	case_apply(backend, grid, scan, o, true, y, x);
}

/* Keeps only the settings that the projector's model supports. */
static inline void case_fit(tomos_projector_options *o)
{
	int voxel = strcmp(o->forward, "voxel") == 0;
	if (!voxel)
		o->voxel_interpolation = "linear";
	if (!voxel && strcmp(o->forward, "joseph") != 0)
		o->boundary = "expand";
}

#endif
