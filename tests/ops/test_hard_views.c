/* Views that have tripped kernels: lists of both kinds, near and slanted fans, steep slices, rays
 * in outermost faces, rays far beside the volume. Optimised kernels are compared with the reference
 * kernels. */
#include "ops/opened.h"

/* Adjoint of one list of views, optimised against plain, by the largest difference. */
static double largest_difference(const tomos_grid *grid, const tomos_view *views, int64_t count,
	int64_t rows, int64_t columns, const char *model)
{
	tomos_geometry *scan;
	tomos_op *op;
	OK(tomos_geometry_views(&scan, rows, columns, views, count));
	int64_t pixels = count * rows * columns, voxels = grid->n[0] * grid->n[1] * grid->n[2];
	float *y = malloc((size_t)pixels * sizeof *y), *x[2];
	for (int64_t i = 0; i < pixels; i++)
		y[i] = (float)sin(0.9 * (double)i) + 1.5F;
	tomos_array ay = tomos_array_of(y, count, rows, columns);
	for (int plain = 0; plain < 2; plain++) {
		tomos_projector_options o = tomos_projector_defaults();
		o.forward = model;
		o.plain = plain;
		x[plain] = malloc((size_t)voxels * sizeof(float));
		tomos_array ax = tomos_array_of(x[plain], grid->n[2], grid->n[1], grid->n[0]);
		OK(tomos_op_projector(&op, backend, grid, scan, &o));
		OK(tomos_op_adjoint(op, &ay, &ax));
		tomos_op_free(op);
	}
	double largest = 0;
	for (int64_t i = 0; i < voxels; i++)
		largest = fmax(largest, fabs((double)x[0][i] - x[1][i]));
	free(y), free(x[0]), free(x[1]);
	tomos_geometry_free(scan);
	return largest;
}

/* The step from pixel to pixel is largest inside an edge of these slices, not at a corner. */
static void fans_from_nearby(void **state)
{
	(void)state;
	static const double fans[][8] = {
		{48, 133, -70.195, 140.778, 85.8348, -121.7013, -1.071927, -0.637201},
		{47, 111, -28.954, 110.153, 80.5121, -3.9028, -1.046525, -1.004408},
		{78, 105, -73.956, 106.083, 94.3160, -96.5946, -1.158403, -0.329501},
		{29, 103, -54.277, 104.668, 121.2168, -157.1711, -2.175857, -0.861613}};
	for (int i = 0; i < 4; i++) {
		const double *f = fans[i];
		tomos_grid grid = {{(int64_t)f[0], (int64_t)f[1], 1}, {0, 0, 0}, {1, 1, 1}};
		tomos_view view = {{f[2], f[3], 0, 1}, {f[4], f[5], 0}, {f[6], f[7], 0}, {0, 0, 1}};
		double d = largest_difference(&grid, &view, 1, 1, 201, "voxel");
		if (!(d < 1e-4))
			fail_msg("fan %d: optimised and reference kernel differ by %g", i, d);
	}
}

/* Slices whose squares of 32 pixels meet nearly as many columns as kernels keep of a view. */
static void steep_slices(void **state)
{
	(void)state;
	tomos_grid grid = {{96, 70, 1}, {-47.5, -34.5, 0}, {1, 1, 1}};
	for (int i = 0; i < 16; i++) {
		double angle = (44 + 0.125 * i) * M_PI / 180, pixel = 0.976 + 0.005 * (i % 4);
		double c = cos(angle), s = sin(angle);
		tomos_view view = {{-s, c, 0, 0}, {0.03 * i * c, 0.03 * i * s, 0},
			{pixel * c, pixel * s, 0}, {0, 0, 1}};
		double d = largest_difference(&grid, &view, 1, 1, 160, "voxel");
		if (!(d < 1e-4))
			fail_msg("slice %d: optimised and reference kernel differ by %g", i, d);
	}
}

/* Rows so close that a vector of voxels reads nearly as many of them as kernels keep, or more. */
static void rows_of_any_pitch(void **state)
{
	(void)state;
	tomos_grid grid = {{21, 19, 40}, {-10, -9, -19.5}, {1, 1, 1}};
	for (int i = 0; i < 48; i++) {
		double pitch = 0.35 * pow(1.03, i), c = cos(0.3 + i), s = sin(0.3 + i);
		tomos_view view = {{-300 * s, 300 * c, 3, 1}, {100 * s, -100 * c, -1},
			{1.3 * c, 1.3 * s, 0}, {0, 0, 1.33 * pitch}};
		int64_t rows = (int64_t)ceil(44 / pitch);
		for (int model = 0; model < 2; model++) {
			double d = largest_difference(
				&grid, &view, 1, rows, 31, model ? "voxel" : "joseph");
			if (!(d < 1e-4))
				fail_msg("pitch %g: optimised and reference kernel differ by %g",
					pitch, d);
		}
	}
}

static void both_kinds_of_source(void **state)
{
	(void)state;
	tomos_grid grid = {{20, 18, 21}, {-9.5, 8.5, -10}, {1, -1, 1}};
	tomos_view views[4] = {{{0, 1, 0, 0}, {0, 40, 0}, {1, 0, 0}, {0, 0, 1}},
		{{0, -60, 0, 1}, {0, 40, 0}, {1.2, 0, 0}, {0, 0, 1.2}},
		{{1, 0, 0, 0}, {40, 0, 0}, {0, 1, 0}, {0, 0, 1}},
		{{-60, 0, 0, 1}, {40, 0, 0}, {0, 1.2, 0}, {0, 0, 1.2}}};
	for (int first = 0; first < 2; first++) /* either kind may come first */
		for (int m = 0; m < 2; m++) {
			double d = largest_difference(
				&grid, views + first, 3, 33, 31, m ? "voxel" : "joseph");
			assert_true(d < 1e-4);
		}
}

static tomos_op *one_ray(
	tomos_geometry **scan, const tomos_grid *grid, const tomos_view *view, const char *model)
{
	tomos_op *op;
	tomos_projector_options o = tomos_projector_defaults();
	o.forward = model;
	OK(tomos_geometry_views(scan, 1, 1, view, 1));
	OK(tomos_op_projector(&op, backend, grid, *scan, &o));
	return op;
}

/* A ray in the outermost face on the upper side belongs to no voxel, on the lower side to the
 * first; in no case is anything read or written beyond the volume. */
static void rays_in_outermost_faces(void **state)
{
	(void)state;
	tomos_grid grid = {{4, 4, 1}, {0, 0, 0}, {1, 1, 1}};
	static const char *const models[] = {"line", "line-march"};
	static const double places[] = {-0.5, 3.5, 3.5 - 1e-9, -0.5 - 1e-9, 1.5};
	static const double lengths[] = {4, 0, 0, 4, 4};
	for (int i = 0; i < 5; i++)
		for (int m = 0; m < 2; m++) {
			tomos_view view = {{0, 1, 0, 0}, {places[i], -9, 0}, {1, 0, 0}, {0, 0, 1}};
			tomos_geometry *scan;
			tomos_op *op = one_ray(&scan, &grid, &view, models[m]);
			float x[16], y = 0;
			for (int j = 0; j < 16; j++)
				x[j] = 1;
			tomos_array ax = tomos_array_of(x, 1, 4, 4),
				    ay = tomos_array_of(&y, 1, 1, 1);
			OK(tomos_op_forward(op, &ax, &ay));
			if (fabs(y - lengths[i]) > 1e-6)
				fail_msg("%s at %.10g: %g, expected %g", models[m], places[i],
					(double)y, lengths[i]);
			OK(tomos_op_adjoint(op, &ay, &ax));
			tomos_op_free(op);
			tomos_geometry_free(scan);
		}
}

/* Directions of a Lebedev rule through n^3 voxels, all at once or one at a time: optimised kernels
 * agree with the reference kernels. */
static void directions_agree(int64_t n, int64_t views, int alone)
{
	tomos_scan_options o = tomos_scan_defaults();
	tomos_geometry *scan;
	o.geometry = "lebedev";
	o.views = views;
	o.rows = o.columns = n;
	o.pixel = 2.0 / (double)n;
	Case c = {.state = (uint64_t)n};
	OK(tomos_geometry_make(&scan, &o));
	OK(tomos_grid_centred(&c.grid, n, n, n, 2.0 / (double)n));
	tomos_projector_options tuned = tomos_projector_defaults(), plain = tuned;
	plain.plain = 1;
	int64_t count = alone ? 1 : views, pixels = count * n * n;
	float *x = case_data(&c, n * n * n), *one = case_data(&c, pixels),
	      *two = case_data(&c, pixels);
	for (int64_t i = 0; i < views; i += count) {
		OK(tomos_geometry_views(&c.scan, n, n, tomos_geometry_list(scan) + i, count));
		case_forward(backend, &c.grid, c.scan, &tuned, x, one);
		case_forward(backend, &c.grid, c.scan, &plain, x, two);
		assert_true(case_difference(one, two, pixels) < 1e-5);
		tomos_geometry_free(c.scan);
	}
	free(x), free(one), free(two);
	tomos_geometry_free(scan);
}

/* Rays along the axes through voxel centres, but for rounding: nothing outside is touched, as
 * checkers of memory see. */
static void rays_through_centres(void **state)
{
	(void)state;
	for (int64_t n = 33; n < 41; n++)
		directions_agree(n, 7, 0);
}

static void one_direction_at_a_time(void **state)
{
	(void)state;
	directions_agree(36, 25, 1);
	directions_agree(49, 25, 1);
}

/* A ray almost along y, so far from the volume that indices of planes would overflow. */
static void rays_far_beside(void **state)
{
	(void)state;
	tomos_grid grid = {{8, 8, 1}, {0, 0, 0}, {1, 1, 1}};
	tomos_view view = {{1.5e-12, 1, 0, 0}, {-3e7, -9, 0}, {1, 0, 0}, {0, 0, 1}};
	for (int m = 0; m < CASE_MODELS; m++)
		assert_true(largest_difference(&grid, &view, 1, 1, 3, case_models[m]) == 0);
}

/* The length of a direction does not matter. */
static void directions_of_any_length(void **state)
{
	(void)state;
	tomos_grid grid = {{9, 9, 1}, {-4, -4, 0}, {1, 1, 1}};
	static const char *const models[] = {"joseph", "line", "voxel", "footprint"};
	for (int m = 0; m < 4; m++) {
		float y[2];
		for (int tiny = 0; tiny < 2; tiny++) {
			double size = tiny ? 1e-10 : 1;
			tomos_view view = {
				{0, size, size, 0}, {0, 0, 0}, {1, 0, 0}, {0, -0.7, 0.7}};
			tomos_geometry *scan;
			tomos_op *op = one_ray(&scan, &grid, &view, models[m]);
			float x[81];
			for (int j = 0; j < 81; j++)
				x[j] = 1;
			tomos_array ax = tomos_array_of(x, 1, 9, 9);
			tomos_array ay = tomos_array_of(&y[tiny], 1, 1, 1);
			OK(tomos_op_forward(op, &ax, &ay));
			tomos_op_free(op);
			tomos_geometry_free(scan);
		}
		assert_true(fabs(y[0] - y[1]) <= 1e-6 * fabs(y[0]));
	}
}

/* A circle about an axis that is tilted towards y by `tilt`; `shift` moves the detector along its
 * columns, so that opposite views are no mirror images. */
static void tilted_circle(tomos_view *views, int count, double tilt, double shift)
{
	for (int i = 0; i < count; i++) {
		const double angle = 0.3 + 6.283185307179586 * i / count, s = sin(angle),
			     c = cos(angle);
		const double to[3] = {s, -c, 0}, along[3] = {c, s, 0}, up[3] = {0, 0, 1};
		double view[4][3];
		for (int a = 0; a < 3; a++) {
			view[0][a] = -50 * to[a];
			view[1][a] = 30 * to[a] + shift * up[a];
			view[2][a] = 1.3 * along[a];
			view[3][a] = 1.2 * up[a];
		}
		for (int j = 0; j < 4; j++) {
			const double y = view[j][1], z = view[j][2];
			view[j][1] = cos(tilt) * y - sin(tilt) * z;
			view[j][2] = sin(tilt) * y + cos(tilt) * z;
		}
		for (int a = 0; a < 3; a++) {
			views[i].src[a] = view[0][a], views[i].det[a] = view[1][a];
			views[i].u[a] = view[2][a], views[i].v[a] = view[3][a];
		}
		views[i].src[3] = TOMOS_POINT;
	}
}

/* Views on opposite sides of the centre share positions, in even and odd grids. */
static void circles_about_tilted_axes(void **state)
{
	(void)state;
	static const int64_t sizes[][3] = {{20, 18, 22}, {17, 21, 19}, {16, 33, 40}};
	for (int i = 0; i < 6; i++) {
		const int64_t *n = sizes[i % 3];
		tomos_view views[8];
		tomos_grid grid = {{n[0], n[1], n[2]}, {0, 0, 0}, {1, 0.9, 1.1}};
		for (int a = 0; a < 3; a++)
			grid.first[a] = -0.5 * (double)(n[a] - 1) * grid.step[a];
		tilted_circle(views, 8, 0.1 + 0.2 * i, i < 3 ? 0 : 2.5);
		double d = largest_difference(&grid, views, 8, 31 + i, 40, "voxel");
		if (!(d < 1e-4)) /* of about 30 */
			fail_msg("circle %d: optimised and reference kernel differ by %g", i, d);
	}
}

enum {
	CUBE = 12,
	CUBE_VIEWS = 5,
	CUBE_SIDE = 30,
	CUBE_PIXELS = CUBE_VIEWS * CUBE_SIDE * CUBE_SIDE
};

static tomos_geometry *cone_around(double roll)
{
	const double source_axis = 60, source_detector = 90;
	tomos_scan_options o = tomos_scan_defaults();
	tomos_geometry *scan;
	o.geometry = "cone";
	o.views = CUBE_VIEWS, o.rows = CUBE_SIDE, o.columns = CUBE_SIDE, o.roll = roll;
	o.source_axis = &source_axis, o.source_detector = &source_detector;
	o.source_axis_count = o.source_detector_count = 1;
	OK(tomos_geometry_make(&scan, &o));
	return scan;
}

/* Of the voxels around the middle one. */
static float near_middle(int i)
{
	const int at[3] = {i % CUBE, i / CUBE % CUBE, i / (CUBE * CUBE)};
	bool near = true;
	for (int a = 0; a < 3; a++)
		near = near && abs(at[a] - CUBE / 2) <= 2;
	return near ? 1 : 0;
}

/* A voxel that is not finite changes the pixels near its projection and no others. */
static void one_voxel_not_finite(void **state)
{
	(void)state;
	static const double kinds[][2] = {{0, NAN}, {0.1, NAN}, {0.1, INFINITY}, {0, -INFINITY}};
	const tomos_grid grid = {{CUBE, CUBE, CUBE}, {-5.5, -5.5, -5.5}, {1, 1, 1}};
	static float x[3][CUBE * CUBE * CUBE], y[3][CUBE_PIXELS];
	tomos_projector_options o = tomos_projector_defaults();
	o.forward = "voxel";
	for (int kind = 0; kind < 4; kind++) {
		tomos_geometry *scan = cone_around(kinds[kind][0]);
		int lost = 0;
		for (int i = 0; i < CUBE * CUBE * CUBE; i++) {
			x[0][i] = x[1][i] = (float)sin(0.9 * i) + 1.5F;
			x[2][i] = near_middle(i);
		}
		x[1][CUBE / 2 * (CUBE * CUBE + CUBE + 1)] = (float)kinds[kind][1];
		memset(y, 0, sizeof y);
		for (int i = 0; i < 3; i++)
			case_forward(backend, &grid, scan, &o, x[i], y[i]);
		for (int i = 0; i < CUBE_PIXELS; i++) {
			lost += !isfinite(y[1][i]);
			if (y[2][i] == 0 && !(fabs(y[1][i] - y[0][i]) <= 1e-5 * fabs(y[0][i])))
				fail_msg("kind %d: pixel %d is %g, with the voxel finite %g", kind,
					i, y[1][i], y[0][i]);
		}
		assert_true(lost >= CUBE_VIEWS);
		tomos_geometry_free(scan);
	}
}

#define TESTS(T) \
	T(fans_from_nearby), T(steep_slices), T(rows_of_any_pitch), T(both_kinds_of_source), \
		T(rays_in_outermost_faces), T(rays_through_centres), T(one_direction_at_a_time), \
		T(rays_far_beside), T(directions_of_any_length), T(circles_about_tilted_axes), \
		T(one_voxel_not_finite)
TEST_MAIN(TESTS, open_backend, close_backend)
