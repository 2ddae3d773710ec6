/* Feldkamp's method away from the mid-plane, on anisotropic voxels and with the axis row off the
 * middle: against what theory says about cones, where it is exact. */
#include "algo/scene.h"

enum { N = CASE_SLOW ? 40 : 64 };

static tomos_scan_options cone_scan(Distances *d, double pixel)
{
	tomos_scan_options o = scene_scan("cone", N, pixel, d);
	o.rows = N, o.views = 3 * N / 2;
	return o;
}

/* Reconstructs what `body` projects to on the scan; the caller frees the volume. */
static float *reconstruct(const tomos_scan_options *o, const tomos_ellipsoid *body,
	const tomos_grid *grid, const tomos_analytic_options *how)
{
	tomos_backend *backend;
	tomos_geometry *scan;
	tomos_phantom *phantom;
	OK(tomos_backend_open(&backend, test_backend()));
	OK(tomos_geometry_make(&scan, o));
	OK(tomos_phantom_ellipsoids(&phantom, body, 1));
	int64_t views = tomos_geometry_count(scan), voxels = grid->n[0] * grid->n[1] * grid->n[2];
	float *data = malloc((size_t)(views * o->rows * o->columns) * sizeof *data);
	float *image = malloc((size_t)voxels * sizeof *image);
	tomos_array b = tomos_array_of(data, views, o->rows, o->columns);
	tomos_array x = tomos_array_of(image, grid->n[2], grid->n[1], grid->n[0]);
	OK(tomos_phantom_project(phantom, scan, 4, &b));
	OK(tomos_fdk(backend, grid, scan, &b, &x, how, NULL));
	tomos_phantom_free(phantom);
	tomos_geometry_free(scan);
	tomos_backend_close(backend);
	free(data);
	return image;
}

static double place(const tomos_grid *grid, int axis, int64_t i)
{
	return grid->first[axis] + (double)i * grid->step[axis];
}

/* The mean of slice z well inside the body, relative to the truth and less 1. */
static double slice_error(
	const float *image, const tomos_grid *grid, const tomos_ellipsoid *body, int64_t z)
{
	double sum = 0, count = 0;
	for (int64_t j = 0; j < grid->n[1]; j++)
		for (int64_t i = 0; i < grid->n[0]; i++) {
			double x = (place(grid, 0, i) - body->centre[0]) / body->axes[0];
			double y = (place(grid, 1, j) - body->centre[1]) / body->axes[1];
			if (hypot(x, y) > 0.85)
				continue;
			sum += image[(z * grid->n[1] + j) * grid->n[0] + i], count++;
		}
	return sum / count / body->value - 1;
}

static tomos_ellipsoid body_in(double reach, double half_height)
{
	double r = 0.7 * reach;
	return (tomos_ellipsoid){.centre = {0.1 * r, -0.06 * r, 0},
		.axes = {r, 0.6 * r, half_height},
		.value = 0.02 / reach};
}

/* Of an object that does not change along z the weighted rows are all the same, so that every slice
 * is as right as the one in the mid-plane: at 9 degrees off it the cosine's v is 1.2 % of the
 * value. */
static void every_slice_of_a_cylinder(void **state)
{
	(void)state;
	static const double rows[] = {0.5, 0.12, 0.86}; /* where z = 0 falls on the detector */
	for (int k = 0; k < 3; k++) {
		Distances d;
		tomos_scan_options o = cone_scan(&d, 0.5);
		double axis_row = rows[k] * (double)(N - 1), reach = scene_reach(&o);
		tomos_ellipsoid body = body_in(reach, INFINITY);
		o.axis_row = &axis_row, o.axis_row_count = 1;
		o.pixel_height = 1.1;
		tomos_grid grid;
		OK(tomos_grid_centred(&grid, N, N, 9, 2.2 * 0.7 * reach / N));
		/* as far as every view sees: the farthest of the body is nearest to the source */
		double nearest = (d.source_axis - 0.8 * reach) / d.source_detector;
		double low = -axis_row * 1.1 * nearest, high = (N - 1 - axis_row) * 1.1 * nearest;
		grid.step[2] = (high - low) / 9, grid.first[2] = low + 0.5 * grid.step[2];
		float *image = reconstruct(&o, &body, &grid, NULL);
		printf("  axis row %5.2f:", axis_row);
		for (int64_t z = 0; z < 9; z++) {
			double error = slice_error(image, &grid, &body, z);
			printf(" %+.5f", error);
			if (!(fabs(error) < (CASE_SLOW ? 0.002 : 0.0005)))
				fail_msg("axis row %g, z = %g: mean off by %g", axis_row,
					place(&grid, 2, z), error);
		}
		printf("\n");
		free(image);
	}
}

/* Integrals along lines parallel to the axis come out exactly (Feldkamp et al. 1984), and what is
 * symmetric about the mid-plane stays so wherever that falls on the detector. Rows 1 % too high or
 * moved by half of one show. */
static void integrals_along_the_axis(void **state)
{
	(void)state;
	static const double rows[] = {0.5, 0.37};
	for (int k = 0; k < 2; k++) {
		Distances d;
		tomos_scan_options o = cone_scan(&d, 0.5);
		double axis_row = rows[k] * (double)(N - 1), reach = scene_reach(&o);
		double height = 0.3 * reach;
		o.axis_row = &axis_row, o.axis_row_count = 1;
		o.pixel_height = 0.6;
		tomos_ellipsoid body = body_in(reach, height);
		tomos_grid grid;
		OK(tomos_grid_centred(&grid, 24, 20, 100, 1));
		for (int a = 0; a < 3; a++) {
			double wide = a == 2 ? 2.4 * height : 0.6 * body.axes[a];
			grid.step[a] = 2 * wide / (double)grid.n[a];
			grid.first[a] = body.centre[a] - wide + 0.5 * grid.step[a];
		}
		float *image = reconstruct(&o, &body, &grid, NULL);
		double sum = 0, wanted = 0, moment = 0;
		for (int64_t i = 0; i < grid.n[0] * grid.n[1]; i++) {
			for (int64_t z = 0; z < grid.n[2]; z++) {
				double f = image[z * grid.n[0] * grid.n[1] + i] * grid.step[2];
				sum += f, moment += f * place(&grid, 2, z);
			}
			double x = (place(&grid, 0, i % grid.n[0]) - body.centre[0]) / body.axes[0];
			double y = (place(&grid, 1, i / grid.n[0]) - body.centre[1]) / body.axes[1];
			wanted += 2 * height * sqrt(1 - x * x - y * y) * body.value;
		}
		printf("  axis row %5.2f: integrals along z off by %+.5f, their centre at %+.5f\n",
			axis_row, sum / wanted - 1, moment / sum);
		assert_true(fabs(sum / wanted - 1) < (CASE_SLOW ? 0.005 : 0.002));
		assert_true(fabs(moment / sum) < 0.02 * o.pixel_height);
		free(image);
	}
}

/* A voxel is what it is where it stands: each of an anisotropic grid off the centre, whatever the
 * signs of its steps, is the only one of a grid that has no steps at all. */
static void voxels_by_themselves(void **state)
{
	(void)state;
	static const char *const kinds[] = {"parallel", "fan", "cone"};
	static const double steps[] = {0.31, -0.57, 0.83};
	for (int k = 0; k < 3; k++) {
		Distances d;
		tomos_scan_options o = scene_scan(kinds[k], 32, 0.5, &d);
		o.rows = k == 1 ? 1 : 32;
		Scene s = scene_make(&o);
		tomos_grid grid = {.n = {17, 11, k == 1 ? 1 : 9}}, one = {.n = {1, 1, 1}};
		for (int a = 0; a < 3; a++) {
			double half = 0.5 * (double)(grid.n[a] - 1);
			one.step[a] = 1;
			grid.step[a] = steps[(a + k) % 3] * (k == 1 && a == 2 ? -1 : 1);
			grid.first[a] = 0.4 * a * (a == 2 && k == 1 ? 0 : 1) - half * grid.step[a];
		}
		int64_t count = grid.n[0] * grid.n[1] * grid.n[2];
		float *image = malloc((size_t)count * sizeof *image), alone;
		tomos_array all = tomos_array_of(image, grid.n[2], grid.n[1], grid.n[0]);
		tomos_array single = tomos_array_of(&alone, 1, 1, 1);
		OK(tomos_fbp(s.backend, &grid, s.scan, &s.data, &all, NULL, NULL));
		for (int64_t i = 0; i < count; i += CASE_SLOW ? 61 : 19) {
			one.first[0] = place(&grid, 0, i % grid.n[0]);
			one.first[1] = place(&grid, 1, i / grid.n[0] % grid.n[1]);
			one.first[2] = place(&grid, 2, i / grid.n[0] / grid.n[1]);
			OK(tomos_fbp(s.backend, &one, s.scan, &s.data, &single, NULL, NULL));
			if (!(fabs((double)image[i] - alone) < 1e-4 * s.body.value))
				fail_msg("%s, voxel %lld: %g, alone %g", kinds[k], (long long)i,
					(double)image[i], (double)alone);
		}
		free(image);
		scene_free(&s);
	}
}

#define TESTS(T) T(every_slice_of_a_cylinder), T(integrals_along_the_axis), T(voxels_by_themselves)
TEST_MAIN(TESTS, NULL, NULL)
