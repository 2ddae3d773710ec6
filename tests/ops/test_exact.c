/* Projectors against what they are by definition, computed here from the list of views alone, in
 * random scans of every kind with anisotropic voxels.
 *
 * line: the projection of a volume of ones is the length of each ray inside the box. joseph: of a
 * volume of ones it is the distance of planes times the sum of the weights in each plane, 1 or less
 * at the border of the box; of a volume that is linear in x, y and z it is the integral, since
 * linear interpolation and the midpoint rule are exact for it. voxel, footprint: the weights of a
 * voxel, summed over all pixels, are its volume times the density of pixels there,
 * |grad c x grad r|, and their centre of mass is where the voxel's centre projects to; for
 * footprints, which are sums over whole pixels, within half a pixel.
 */
#include "op/op.h" /* first: cmocka makes a macro of fail() */
#include "ops/opened.h"

enum { CASES = 4 * CASE_KINDS };

/* A ray of a scan: points start + t way, with t >= 0 where it has a source. */
typedef struct {
	double start[3], way[3];
	int has_source;
} Ray;

static double dot(const double a[3], const double b[3])
{
	return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

static void cross(double out[3], const double a[3], const double b[3])
{
	for (int i = 0; i < 3; i++)
		out[i] = a[(i + 1) % 3] * b[(i + 2) % 3] - a[(i + 2) % 3] * b[(i + 1) % 3];
}

static double middle_column(const Case *c)
{
	return 0.5 * (double)(tomos_geometry_columns(c->scan) - 1);
}

static double middle_row(const Case *c)
{
	return 0.5 * (double)(tomos_geometry_rows(c->scan) - 1);
}

static Ray ray_of(const Case *c, int64_t view, int64_t row, int64_t column)
{
	const tomos_view *w = &tomos_geometry_list(c->scan)[view];
	Ray ray = {.has_source = w->src[3] != 0};
	double across = (double)column - middle_column(c), along = (double)row - middle_row(c);
	for (int a = 0; a < 3; a++) {
		double pixel = w->det[a] + across * w->u[a] + along * w->v[a];
		double source = w->src[a] + (w->src[3] == 2 ? along * w->v[a] : 0);
		ray.start[a] = ray.has_source ? source : pixel;
		ray.way[a] = ray.has_source ? pixel - source : source;
	}
	return ray;
}

/* The length of a ray between the outer faces of the voxels. */
static double length_inside(const Case *c, const Ray *ray)
{
	double enter = ray->has_source ? 0 : -HUGE_VAL, leave = HUGE_VAL;
	for (int a = 0; a < 3; a++) {
		double step = c->grid.step[a];
		double one = (c->grid.first[a] - 0.5 * step - ray->start[a]) / ray->way[a];
		double two = one + (double)c->grid.n[a] * step / ray->way[a];
		if (fabs(ray->way[a]) > 1e-12) {
			enter = fmax(enter, fmin(one, two));
			leave = fmin(leave, fmax(one, two));
		} else if (fabs((ray->start[a] - c->grid.first[a]) / step -
				   0.5 * (double)(c->grid.n[a] - 1)) > 0.5 * (double)c->grid.n[a]) {
			return 0;
		}
	}
	return leave > enter ? (leave - enter) * sqrt(dot(ray->way, ray->way)) : 0;
}

/* The axis along which a ray crosses most voxels, and the ray in voxel indices. */
static int index_ray(const Case *c, const Ray *ray, double start[3], double way[3])
{
	int most = 0;
	for (int a = 0; a < 3; a++) {
		start[a] = (ray->start[a] - c->grid.first[a]) / c->grid.step[a];
		way[a] = ray->way[a] / c->grid.step[a];
		if (fabs(way[a]) > fabs(way[most]))
			most = a;
	}
	return most;
}

/* 1 between the outermost of n centres; beyond them it falls to 0 within one voxel, or at once. */
static double inside(double p, int64_t n, int clamp)
{
	double beyond = fmax(-p, p - (double)(n - 1));
	return beyond < 1e-9 ? 1 : clamp ? 0 : fmax(0, 1 - beyond);
}

static double planes_crossed(const Case *c, const Ray *ray, int clamp, double *all)
{
	double start[3], way[3], sum = 0;
	int a = index_ray(c, ray, start, way);
	for (int64_t k = 0; k < c->grid.n[a]; k++) {
		double t = ((double)k - start[a]) / way[a], share = 1;
		for (int b = 0; b < 3; b++)
			if (b != a)
				share *= inside(start[b] + t * way[b], c->grid.n[b], clamp);
		sum += ray->has_source && t < 0 ? 0 : share;
	}
	*all = (double)c->grid.n[a];
	return sum * sqrt(dot(ray->way, ray->way)) / fabs(way[a]);
}

static double affine(const double at[3])
{
	return 3 + 0.7 * at[0] - 0.4 * at[1] + 0.9 * at[2];
}

/* The integral of a linear function over a ray that is inside all planes: its value half way. */
static double linear_integral(const Case *c, const Ray *ray, double length)
{
	double start[3], way[3], at[3];
	int a = index_ray(c, ray, start, way);
	double t = (0.5 * (double)(c->grid.n[a] - 1) - start[a]) / way[a];
	for (int b = 0; b < 3; b++)
		at[b] = start[b] + t * way[b];
	return length * affine(at);
}

static float *affine_volume(const Case *c)
{
	float *data = malloc((size_t)c->voxels * sizeof *data);
	for (int64_t i = 0; i < c->voxels; i++) {
		const int64_t *n = c->grid.n;
		const double at[3] = {
			(double)(i % n[0]), (double)(i / n[0] % n[1]), (double)(i / n[0] / n[1])};
		data[i] = (float)affine(at);
	}
	return data;
}

static float *ones(int64_t count)
{
	float *data = malloc((size_t)count * sizeof *data);
	for (int64_t i = 0; i < count; i++)
		data[i] = 1;
	return data;
}

typedef double Expected(const Case *c, const Ray *ray);

static double line_expected(const Case *c, const Ray *ray)
{
	return length_inside(c, ray);
}

static double joseph_expected(const Case *c, const Ray *ray)
{
	double all;
	return planes_crossed(c, ray, 0, &all);
}

static double clamp_expected(const Case *c, const Ray *ray)
{
	double all;
	return planes_crossed(c, ray, 1, &all);
}

/* NAN if the value is not known in closed form. */
static double linear_expected(const Case *c, const Ray *ray)
{
	double all, length = planes_crossed(c, ray, 1, &all), start[3], way[3];
	int a = index_ray(c, ray, start, way);
	double whole = all * sqrt(dot(ray->way, ray->way)) / fabs(way[a]);
	return fabs(length - whole) < 1e-9 * whole ? linear_integral(c, ray, whole) : NAN;
}

/* Compares each ray of a projection; how many were known. */
static int64_t check_rays(const Case *c, const char *name, const float *y, Expected *expected)
{
	int64_t views = tomos_geometry_count(c->scan), rows = tomos_geometry_rows(c->scan),
		columns = tomos_geometry_columns(c->scan), known = 0;
	for (int64_t i = 0; i < views * rows * columns; i++) {
		Ray ray = ray_of(c, i / columns / rows, i / columns % rows, i % columns);
		double right = expected(c, &ray);
		if (isnan(right))
			continue;
		known += right > 0;
		if (!(fabs((double)y[i] - right) <= 1e-5 * (1 + fabs(right))))
			fail_msg("%s, %s: ray %lld is %.9g, not %.9g", name, c->name, (long long)i,
				(double)y[i], right);
	}
	return known;
}

static int64_t check_forward(
	Case *c, const tomos_projector_options *o, int linear, Expected *expected)
{
	float *x = linear ? affine_volume(c) : ones(c->voxels), *y = ones(c->pixels);
	case_forward(backend, &c->grid, c->scan, o, x, y);
	int64_t known = check_rays(c, o->forward, y, expected);
	free(x), free(y);
	return known;
}

/* The known answer in every case; `least` rays of all cases must have met something. */
static void check_cases(
	const char *model, const char *boundary, int linear, Expected *expected, int64_t least)
{
	int64_t known = 0;
	for (int i = 0; i < CASES; i++)
		for (int plain = 0; plain < 2; plain++) {
			Case c = case_make(i);
			tomos_projector_options o = tomos_projector_defaults();
			o.forward = model;
			o.boundary = boundary;
			o.plain = plain;
			known += check_forward(&c, &o, linear, expected);
			tomos_geometry_free(c.scan);
		}
	assert_true(known >= least);
}

/* The same scan with its sources inside the volume: rays begin there. */
static void move_sources_in(Case *c)
{
	int64_t count = tomos_geometry_count(c->scan);
	tomos_view *views = malloc((size_t)count * sizeof *views);
	tomos_geometry *moved;
	memcpy(views, tomos_geometry_list(c->scan), (size_t)count * sizeof *views);
	for (int64_t i = 0; i < count; i++)
		for (int a = 0; a < 3; a++) {
			double size = (double)c->grid.n[a] * c->grid.step[a];
			views[i].src[a] = c->grid.first[a] - 0.5 * c->grid.step[a] +
					  case_between(c, 0.1, 0.9) * size;
		}
	OK(tomos_geometry_views(&moved, tomos_geometry_rows(c->scan),
		tomos_geometry_columns(c->scan), views, count));
	tomos_geometry_free(c->scan);
	c->scan = moved;
	free(views);
}

static void sources_inside(void **state)
{
	(void)state;
	int64_t known = 0;
	for (int i = 0; i < CASES; i++) {
		Case c = case_make(i);
		if (choice_in("cone|vectors", strchr(c.name, ':') + 2)) {
			tomos_projector_options o = tomos_projector_defaults();
			move_sources_in(&c);
			o.forward = "line";
			known += check_forward(&c, &o, 0, line_expected);
			o.forward = "line-march";
			known += check_forward(&c, &o, 0, line_expected);
			o.forward = "joseph";
			known += check_forward(&c, &o, 0, joseph_expected);
		}
		tomos_geometry_free(c.scan);
	}
	assert_true(known > 1000);
}

static void line_is_length(void **state)
{
	(void)state;
	check_cases("line", "expand", 0, line_expected, 10000);
	check_cases("line-march", "expand", 0, line_expected, 10000);
}

static void joseph_is_planes(void **state)
{
	(void)state;
	check_cases("joseph", "expand", 0, joseph_expected, 10000);
	check_cases("joseph", "clamp", 0, clamp_expected, 10000);
	check_cases("joseph", "expand", 1, linear_expected, 1000);
}

/* Solves a x = b for the columns a[0..2] of a matrix. */
static void solve3(double x[3], double a[3][3], const double b[3])
{
	for (int i = 0; i < 3; i++) {
		double normal[3];
		cross(normal, a[(i + 1) % 3], a[(i + 2) % 3]);
		x[i] = dot(normal, b) / dot(normal, a[i]);
	}
}

/* Column and row on which a point falls. */
static void project_point(
	const Case *c, const tomos_view *w, const double point[3], double pixel[2])
{
	double x[3], b[3], way[3], a[3][3];
	for (int i = 0; i < 3; i++) {
		way[i] = w->det[i] - w->src[i];
		b[i] = point[i] - (w->src[3] == 0 ? w->det[i] : w->src[i]);
		a[0][i] = w->u[i];
		a[1][i] = w->v[i];
		a[2][i] = w->src[3] == 0 ? w->src[i] : way[i];
	}
	solve3(x, a,
		b); /* of a source: the share of the way to the detector, and u and v times it */
	pixel[0] = middle_column(c) + x[0] / (w->src[3] == 0 ? 1 : x[2]);
	pixel[1] = middle_row(c) + x[1] / (w->src[3] == 1 ? x[2] : 1);
}

static void centre_of(const Case *c, int64_t i, double centre[3])
{
	const int64_t at[3] = {
		i % c->grid.n[0], i / c->grid.n[0] % c->grid.n[1], i / c->grid.n[0] / c->grid.n[1]};
	for (int a = 0; a < 3; a++)
		centre[a] = c->grid.first[a] + (double)at[a] * c->grid.step[a];
}

/* |grad c x grad r| times the volume of a voxel; of one slice, |grad c| times its area. */
static double density(const Case *c, const tomos_view *w, const double centre[3], int planar)
{
	double grad[2][3], both[3], h = 1e-4;
	for (int a = 0; a < 3; a++) {
		double to[3], low[2], high[2];
		memcpy(to, centre, sizeof to);
		to[a] = centre[a] - h;
		project_point(c, w, to, low);
		to[a] = centre[a] + h;
		project_point(c, w, to, high);
		for (int k = 0; k < 2; k++)
			grad[k][a] = (high[k] - low[k]) / (2 * h);
	}
	double area = fabs(c->grid.step[0] * c->grid.step[1]);
	if (planar)
		return area * hypot(grad[0][0], grad[0][1]);
	cross(both, grad[0], grad[1]);
	return area * fabs(c->grid.step[2]) * sqrt(dot(both, both));
}

/* Whether all of a voxel's projection, `margin` pixels about it included, falls on a detector. */
static int on_detector(
	const Case *c, const tomos_view *w, const double centre[3], double margin, int planar)
{
	double most[2] = {2 * middle_column(c), planar ? HUGE_VAL : 2 * middle_row(c)};
	for (int corner = 0; corner < 9; corner++) {
		double point[3], pixel[2];
		for (int a = 0; a < 3; a++)
			point[a] = centre[a] + (corner == 8              ? 0
						       : corner >> a & 1 ? 0.5
									 : -0.5) *
						       c->grid.step[a];
		project_point(c, w, corner < 8 && margin == 0 ? centre : point, pixel);
		for (int k = 0; k < (planar ? 1 : 2); k++)
			if (!(pixel[k] >= margin && pixel[k] <= most[k] - margin))
				return 0;
	}
	return 1;
}

static int is_planar(const Case *c)
{
	const char *kind = strchr(c->name, ':') + 2;
	return strcmp(kind, "fan") == 0 || strcmp(kind, "slice") == 0;
}

/* One view's back projection of 1, of the column's number and of the row's. */
static void back_project(Case *c, const tomos_projector_options *o, float *x[3])
{
	int64_t columns = tomos_geometry_columns(c->scan);
	float *y = ones(c->pixels);
	case_adjoint(backend, &c->grid, c->scan, o, y, x[0]);
	for (int64_t i = 0; i < c->pixels; i++)
		y[i] = (float)(i % columns);
	case_adjoint(backend, &c->grid, c->scan, o, y, x[1]);
	for (int64_t i = 0; i < c->pixels; i++)
		y[i] = (float)(i / columns);
	case_adjoint(backend, &c->grid, c->scan, o, y, x[2]);
	free(y);
}

static int64_t check_voxels(const Case *c, const tomos_projector_options *o, float *x[3])
{
	const tomos_view *w = tomos_geometry_list(c->scan);
	int planar = is_planar(c), nearest = strcmp(o->voxel_interpolation, "nearest") == 0;
	int wide = strcmp(o->forward, "footprint") == 0;
	int64_t known = 0;
	for (int64_t i = 0; i < c->voxels; i++) {
		double centre[3], pixel[2];
		centre_of(c, i, centre);
		if (!on_detector(c, w, centre, wide ? 0.6 : 0, planar))
			continue;
		project_point(c, w, centre, pixel);
		if (nearest && fabs(pixel[0] - floor(pixel[0]) - 0.5) < 1e-6)
			continue;
		known++;
		double weight = density(c, w, centre, planar), sum = (double)x[0][i];
		if (!(fabs(sum - weight) <= 2e-5 * weight))
			fail_msg("%s, %s: voxel %lld weighs %.9g, not %.9g", o->forward, c->name,
				(long long)i, sum, weight);
		for (int k = 0; k < (planar ? 1 : 2); k++) {
			double right = nearest ? floor(pixel[k] + 0.5) : pixel[k],
			       got = (double)x[k + 1][i] / sum;
			if (!(fabs(got - right) <= (wide ? 0.5 : 1e-4)))
				fail_msg("%s, %s: voxel %lld falls on %.9g, not %.9g", o->forward,
					c->name, (long long)i, got, right);
		}
	}
	return known;
}

/* The same scan with its first view alone. */
static void keep_first(Case *c)
{
	tomos_geometry *one;
	int64_t rows = tomos_geometry_rows(c->scan), columns = tomos_geometry_columns(c->scan);
	OK(tomos_geometry_views(&one, rows, columns, tomos_geometry_list(c->scan), 1));
	tomos_geometry_free(c->scan);
	c->scan = one;
	case_count(c);
}

static void check_projections(const char *model, const char *interpolation)
{
	int64_t known = 0;
	for (int i = 0; i < CASES; i++)
		for (int plain = 0; plain < 2; plain++) {
			Case c = case_make(i);
			keep_first(&c);
			tomos_projector_options o = tomos_projector_defaults();
			o.forward = model;
			o.voxel_interpolation = interpolation;
			o.plain = plain;
			float *x[3];
			for (int k = 0; k < 3; k++)
				x[k] = ones(c.voxels);
			back_project(&c, &o, x);
			known += check_voxels(&c, &o, x);
			for (int k = 0; k < 3; k++)
				free(x[k]);
			tomos_geometry_free(c.scan);
		}
	assert_true(known > 1000);
}

static void voxel_is_density(void **state)
{
	(void)state;
	check_projections("voxel", "linear");
	check_projections("voxel", "nearest");
}

static void footprint_is_density(void **state)
{
	(void)state;
	check_projections("footprint", "linear");
}

/* Entries of a row: each voxel once, and none of weight 0. */
static void check_row(const Case *c, const tomos_op *op, int64_t ray, char *met)
{
	int64_t count, *index = malloc((size_t)op->row_most * sizeof *index);
	float *weight = malloc((size_t)op->row_most * sizeof *weight);
	OK(op_row(op, ray, index, weight, &count));
	memset(met, 0, (size_t)c->voxels);
	for (int64_t k = 0; k < count; k++) {
		if (met[index[k]]++ || !(weight[k] > 0))
			fail_msg("%s: entry %lld of row %lld is %g", c->name, (long long)k,
				(long long)ray, (double)weight[k]);
	}
	free(index), free(weight);
}

static void rows_have_no_zeros(void **state)
{
	(void)state;
	for (int i = 0; i < CASE_KINDS; i++)
		for (int model = 0; model < CASE_MODELS; model++) {
			Case c = case_make(i);
			tomos_projector_options o = tomos_projector_defaults();
			tomos_matrix_options how = tomos_matrix_defaults();
			tomos_op *op;
			o.forward = case_models[model];
			how.storage = "csr";
			OK(tomos_op_matrix(&op, backend, &c.grid, c.scan, &o, &how));
			char *met = malloc((size_t)c.voxels);
			for (int64_t ray = 0; ray < c.pixels; ray++)
				check_row(&c, op, ray, met);
			free(met);
			tomos_op_free(op);
			tomos_geometry_free(c.scan);
		}
}

#define TESTS(T) \
	T(line_is_length), T(joseph_is_planes), T(sources_inside), T(rows_have_no_zeros), \
		T(voxel_is_density), T(footprint_is_density)
TEST_MAIN(TESTS, open_backend, close_backend)
