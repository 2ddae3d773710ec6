/* Derivatives of projections with respect to the poses of views: against finite differences of the
 * reference kernel in double precision, optimised kernels against the reference kernel, the
 * adjoint, and poses other than 0. */
#include "backend/backend.h"
#include "geom/geom.h"
#include "kernel/ray.h"
#include "ops/opened.h"

enum { CASES = 78, DIVIDED = 12, NUMBERS = 6 };
#define STEP 1e-6

/* The volume along axes a, b, c; 0 outside. */
static double voxel(
	const Plan *plan, const KernelWalk *w, int64_t k, double i, double j, const float *volume)
{
	if (!kernel_in_box(&plan->whole, w->b, (int64_t)i) ||
		!kernel_in_box(&plan->whole, w->c, (int64_t)j))
		return 0;
	return volume[k * w->stride[0] + (int64_t)i * w->stride[1] + (int64_t)j * w->stride[2]];
}

/* Joseph's sum of a ray in double precision. Unlike joseph_ray it keeps the smallest weights,
 * as differences of tiny steps need. */
static double joseph_sum(const Plan *plan, const KernelRay *ray, const float *volume)
{
	KernelWalk w = kernel_walk(&plan->whole, ray, 1, 0);
	double sum = 0;
	for (int64_t k = (int64_t)ceil(w.k_start); k <= (int64_t)floor(w.k_stop); k++) {
		double p = w.base[0] + (double)k * w.slope[0], i = floor(p);
		double q = w.base[1] + (double)k * w.slope[1], j = floor(q);
		for (int corner = 0; corner < 4; corner++) {
			int right = corner & 1, up = corner / 2;
			double share = (right ? p - i : 1 - p + i) * (up ? q - j : 1 - q + j);
			sum += share * voxel(plan, &w, k, i + right, j + up, volume);
		}
	}
	return sum * w.step;
}

/* Of a view moved by a pose. */
static double ray_sum(const Plan *plan, int64_t view, const double pose[NUMBERS], int64_t ray,
	const float *volume)
{
	tomos_geometry moved = *plan->scan;
	tomos_view one = plan->scan->views[view];
	KernelView k;
	view_move(&one, pose);
	moved.views = &one;
	GridView g = grid_view(&moved, 0, &plan->grid);
	memcpy(&k, &g, sizeof g);
	KernelRay r =
		kernel_ray(&plan->whole, &k, ray / plan->scan->columns, ray % plan->scan->columns);
	return joseph_sum(plan, &r, volume);
}

static double difference(
	const Plan *plan, int64_t view, int number, double step, int64_t ray, const float *volume)
{
	double pose[NUMBERS] = {0};
	pose[number] = step;
	double ahead = ray_sum(plan, view, pose, ray, volume);
	pose[number] = -step;
	return (ahead - ray_sum(plan, view, pose, ray, volume)) / (2 * step);
}

typedef struct {
	double square, norm;
	int64_t rays, skipped;
} Sum;

/* One view and number. Rays that pass through voxel centres between the two differences are
 * skipped: there two steps give different results. */
static Sum compare_view(
	const Plan *plan, int64_t view, int number, const float *volume, const float *derivative)
{
	int64_t pixels = plan->scan->rows * plan->scan->columns;
	const float *image = derivative + (view * NUMBERS + number) * pixels;
	Sum sum = {.rays = pixels};
	for (int64_t i = 0; i < pixels; i++) {
		double d = difference(plan, view, number, STEP, i, volume);
		if (fabs(d - difference(plan, view, number, 3 * STEP, i, volume)) >
			1e-5 * (1 + fabs(d))) {
			sum.skipped++;
			continue;
		}
		sum.square += (image[i] - d) * (image[i] - d);
		sum.norm += d * d;
	}
	return sum;
}

static float *derivatives(const Case *c, const tomos_projector_options *o, const float *volume)
{
	tomos_op *op;
	int64_t count = tomos_geometry_count(c->scan);
	float *found = malloc((size_t)(NUMBERS * c->pixels) * sizeof *found);
	tomos_array x = case_volume(c, (float *)volume);
	tomos_array y = tomos_array_of(found, NUMBERS * count, tomos_geometry_rows(c->scan),
		tomos_geometry_columns(c->scan));
	OK(tomos_op_projector(&op, backend, &c->grid, c->scan, o));
	OK(tomos_pose_derivative(op, &x, 0, count, &y));
	tomos_op_free(op);
	return found;
}

/* The largest error of the six numbers of a view. A number on which the view hardly depends is
 * compared with the others of its kind. */
static double view_error(
	const Plan *plan, int64_t view, const float *volume, const float *derivative, Sum *all)
{
	Sum sums[NUMBERS];
	double worst = 0;
	for (int n = 0; n < NUMBERS; n++) {
		sums[n] = compare_view(plan, view, n, volume, derivative);
		all->rays += sums[n].rays;
		all->skipped += sums[n].skipped;
	}
	for (int n = 0; n < NUMBERS; n++) {
		const Sum *kind = sums + n / 3 * 3;
		double norm = kind[0].norm + kind[1].norm + kind[2].norm;
		norm = fmax(sums[n].norm, 1e-2 * norm);
		worst = fmax(worst, sqrt(sums[n].square / fmax(norm, 1e-12)));
	}
	return worst;
}

static void finite_differences(void **state)
{
	(void)state;
	Sum all = {0};
	int64_t views = 0;
	double worst = 0;
	for (int number = 0; number < CASES / (case_slow() ? 6 : 1); number++) {
		Case c = case_make(number);
		Plan plan;
		KernelModel model = {.weight = WEIGHT_RAY};
		float *x = case_data(&c, c.voxels), *d = derivatives(&c, NULL, x);
		OK(plan_make(&plan, &c.grid, c.scan, &model));
		for (int64_t view = 0; view < plan.scan->count; view++, views++) {
			double error = view_error(&plan, view, x, d, &all);
			worst = fmax(worst, error);
			if (!(error <= 1e-4))
				fail_msg("%s, view %d: differs by %g", c.name, (int)view, error);
		}
		plan_free(&plan);
		tomos_geometry_free(c.scan);
		free(x), free(d);
	}
	printf("  %d views, largest error %.1e, %.3f %% of the rays skipped\n", (int)views, worst,
		100.0 * (double)all.skipped / (double)all.rays);
	assert_true(case_slow() || views >= 100);
	assert_true(all.skipped * 100 < all.rays);
}

/* The largest difference of the optimised kernel; frees the scan. */
static double check_case(Case *c, const char *level)
{
	tomos_projector_options o = tomos_projector_defaults();
	float *x = case_data(c, c->voxels), *fast = derivatives(c, &o, x);
	o.plain = 1;
	float *plain = derivatives(c, &o, x);
	const double error = case_largest_difference(fast, plain, NUMBERS * c->pixels);
	if (!(error <= 3e-6))
		fail_msg("%s, %s: differs by %g", level, c->name, error);
	tomos_geometry_free(c->scan);
	free(x), free(fast), free(plain);
	return error;
}

/* Slices that kernels divide in the middle, in whose plane the rays of the middle row are. */
static Case divided_case(int number)
{
	Case c = {.state = (uint64_t)number + 5};
	const double source = 150, detector = 220;
	tomos_scan_options o = tomos_scan_defaults();
	o.geometry = "cone";
	o.rows = 47, o.columns = 21, o.views = 3;
	o.pixel = 1.1, o.pixel_height = 0.9 + 0.0123 * number;
	o.start = 0.3;
	o.source_axis = &source, o.source_axis_count = 1;
	o.source_detector = &detector, o.source_detector_count = 1;
	case_place(&c, &o, (int64_t[]){9, 11, 87});
	snprintf(c.name, sizeof c.name, "87 slices, case %d", number);
	return c;
}

static void check_level(const char *level)
{
	double worst = 0;
	for (int number = 0; number < CASES + DIVIDED; number++) {
		Case c = number < CASES ? case_make(number) : divided_case(number - CASES);
		worst = fmax(worst, check_case(&c, level));
	}
	printf("  %-6s: %.1e\n", level, worst);
}

static void optimised(void **state)
{
	(void)state;
	tomos_backend *usual = backend;
	for (int l = 0; l < CPU_LEVELS; l++) {
		backend = open_level(test_backend(), cpu_levels[l]);
		if (backend)
			check_level(cpu_levels[l]);
		tomos_backend_close(backend);
	}
	backend = usual;
}

typedef struct {
	tomos_op *projector, *jacobian;
	float *x, *p, *y, *Jp, *Jy;
	int64_t poses;
	tomos_array pose, image, there, back;
} Scene;

static Scene scene_of(Case *c)
{
	Scene s;
	int64_t views = tomos_geometry_count(c->scan);
	s.poses = NUMBERS * views;
	s.x = case_data(c, c->voxels), s.p = case_data(c, s.poses), s.y = case_data(c, c->pixels);
	s.Jp = case_data(c, c->pixels), s.Jy = case_data(c, s.poses);
	tomos_array volume = case_volume(c, s.x);
	s.pose = tomos_array_of(s.p, 1, views, NUMBERS);
	s.image = case_projections(c, s.y);
	s.there = case_projections(c, s.Jp);
	s.back = tomos_array_of(s.Jy, 1, views, NUMBERS);
	OK(tomos_op_projector(&s.projector, backend, &c->grid, c->scan, NULL));
	OK(tomos_op_poses(&s.jacobian, s.projector, &volume));
	memset(s.x, 0, (size_t)c->voxels * sizeof *s.x); /* it has been copied */
	OK(tomos_op_forward(s.jacobian, &s.pose, &s.there));
	OK(tomos_op_adjoint(s.jacobian, &s.image, &s.back));
	return s;
}

static void scene_free(Scene *s)
{
	tomos_op_free(s->jacobian);
	tomos_op_free(s->projector);
	free(s->x), free(s->p), free(s->y), free(s->Jp), free(s->Jy);
}

static void adjoint(void **state)
{
	(void)state;
	for (int number = 0; number < CASES; number++) {
		Case c = case_make(number);
		Scene s = scene_of(&c);
		double norm = sqrt(case_dot(s.Jp, s.Jp, c.pixels) * case_dot(s.y, s.y, c.pixels));
		double error = fabs(case_dot(s.Jp, s.y, c.pixels) - case_dot(s.p, s.Jy, s.poses));
		if (!(error <= 1e-6 * norm))
			fail_msg("%s: adjoint differs by %g of %g", c.name, error, norm);
		assert_int_equal(tomos_op_matched(s.jacobian), 1);
		scene_free(&s);
		tomos_geometry_free(c.scan);
	}
}

/* The operator's columns are the derivatives as arrays. */
static void columns(void **state)
{
	(void)state;
	Case c = case_make(2);
	float *x = case_data(&c, c.voxels), *d = derivatives(&c, NULL, x);
	Case again = case_make(2);
	Scene s = scene_of(&again);
	int64_t pixels = c.pixels / tomos_geometry_count(c.scan);
	float *sum = calloc((size_t)c.pixels, sizeof *sum);
	for (int64_t i = 0; i < s.poses; i++)
		for (int64_t k = 0; k < pixels; k++)
			sum[i / NUMBERS * pixels + k] += s.p[i] * d[i * pixels + k];
	assert_true(case_difference(s.Jp, sum, c.pixels) < 1e-6);
	scene_free(&s);
	tomos_geometry_free(c.scan), tomos_geometry_free(again.scan);
	free(x), free(d), free(sum);
}

/* The same bits whatever the number of threads, and whatever the views of a call. */
static void threads(void **state)
{
	(void)state;
	Case c = case_make(8);
	float *x = case_data(&c, c.voxels), *one, *three;
	int before = tomos_threads();
	OK(tomos_set_threads(1));
	one = derivatives(&c, NULL, x);
	OK(tomos_set_threads(3));
	three = derivatives(&c, NULL, x);
	OK(tomos_set_threads(before));
	case_same(one, three, NUMBERS * c.pixels);
	tomos_op *op;
	int64_t views = tomos_geometry_count(c.scan), part = NUMBERS * c.pixels / views;
	tomos_array volume = case_volume(&c, x);
	OK(tomos_op_projector(&op, backend, &c.grid, c.scan, NULL));
	for (int64_t v = 0; v < views; v++) {
		tomos_array y = tomos_array_of(three, NUMBERS, tomos_geometry_rows(c.scan),
			tomos_geometry_columns(c.scan));
		OK(tomos_pose_derivative(op, &volume, v, 1, &y));
		case_same(one + v * part, three, part);
	}
	tomos_op_free(op);
	tomos_geometry_free(c.scan);
	free(x), free(one), free(three);
}

/* A ray that meets the volume after its view was moved is where the formula says. */
static void moving(void **state)
{
	(void)state;
	Case c = case_make(1);
	double poses[16 * NUMBERS], rotated[3] = {0.3, -0.4, 1.2};
	tomos_geometry *moved, *back;
	int64_t count = tomos_geometry_count(c.scan);
	for (int64_t i = 0; i < count * NUMBERS; i++)
		poses[i] = i % NUMBERS < 3 ? 0 : rotated[i % 3];
	OK(tomos_geometry_move(&moved, c.scan, poses));
	for (int64_t i = 0; i < count * NUMBERS; i++)
		poses[i] = -poses[i];
	OK(tomos_geometry_move(&back, moved, poses));
	for (int64_t i = 0; i < count; i++) {
		const double *a = (const double *)&tomos_geometry_list(c.scan)[i];
		const double *b = (const double *)&tomos_geometry_list(back)[i];
		for (int n = 0; n < VIEW_NUMBERS; n++)
			assert_true(fabs(a[n] - b[n]) < 1e-12 * 200);
	}
	tomos_geometry_free(moved);
	/* A quarter turn about z takes x to y, and then it is shifted. */
	tomos_view view = {{1, 0, 0, 1}, {-1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
	double pose[NUMBERS] = {10, 20, 30, 0, 0, acos(0)};
	view_move(&view, pose);
	const double wanted[VIEW_NUMBERS] = {10, 21, 30, 1, 10, 19, 30, -1, 0, 0, 0, 0, 1};
	for (int n = 0; n < VIEW_NUMBERS; n++)
		assert_true(fabs(((double *)&view)[n] - wanted[n]) < 1e-12);
	tomos_geometry_free(back);
	tomos_geometry_free(c.scan);
}

/* Points of moved views: the change of the pose, and a further small pose M d, move them alike. */
static void changes(void **state)
{
	(void)state;
	static const double angles[] = {0, 1e-7, 2e-4, 0.3, 3};
	Case c = {.state = 5};
	for (int a = 0; a < 5; a++)
		for (int n = 0; n < NUMBERS; n++) {
			double pose[NUMBERS], m[NUMBERS * NUMBERS], small[NUMBERS], step = 1e-6;
			for (int i = 0; i < NUMBERS; i++)
				pose[i] = case_between(&c, -1, 1) * (i < 3 ? 5 : angles[a]);
			OK(tomos_pose_change(pose, 1, m));
			tomos_view view = {{4, 5, 6, 1}, {-7, 3, 1}, {0, 1, 0.5}, {0.2, 0, 1}};
			tomos_view ahead = view, behind = view, by = view;
			view_move(&by, pose);
			pose[n] += step;
			view_move(&ahead, pose);
			pose[n] -= 2 * step;
			view_move(&behind, pose);
			for (int i = 0; i < NUMBERS; i++)
				small[i] = 1e-7 * m[NUMBERS * i + n];
			tomos_view further = by;
			view_move(&further, small);
			for (int i = 0; i < VIEW_NUMBERS; i++) {
				double d = (((double *)&ahead)[i] - ((double *)&behind)[i]) / 2e-6;
				double e = (((double *)&further)[i] - ((double *)&by)[i]) / 1e-7;
				assert_true(fabs(d - e) < 2e-5);
			}
		}
}

static void rejections(void **state)
{
	(void)state;
	Case c = case_make(0);
	tomos_op *op, *made, *sum;
	tomos_geometry *moved;
	double poses[16 * NUMBERS] = {0};
	float *x = case_data(&c, c.voxels), *d = case_data(&c, NUMBERS * c.pixels);
	tomos_array volume = case_volume(&c, x), wrong = tomos_array_of(x, 1, 1, c.voxels);
	tomos_array y = tomos_array_of(
		d, NUMBERS, tomos_geometry_rows(c.scan), tomos_geometry_columns(c.scan));
	tomos_projector_options o = tomos_projector_defaults();
	OK(tomos_op_projector(&op, backend, &c.grid, c.scan, &o));
	REJECTED(tomos_op_poses(&made, NULL, &volume), TOMOS_BAD_VALUE, "need a projector");
	assert_null(made);
	if (c.grid.n[1] > 1 || c.grid.n[2] > 1)
		REJECTED(tomos_op_poses(&made, op, &wrong), TOMOS_BAD_VALUE, "the volume");
	REJECTED(tomos_pose_derivative(op, &volume, -1, 1, &y), TOMOS_BAD_VALUE, "views -1 to -1");
	REJECTED(tomos_pose_derivative(op, &volume, 0, 1000, &y), TOMOS_BAD_VALUE, "0 to 999");
	OK(tomos_op_sum(&sum, 2, op, 0, NULL));
	REJECTED(tomos_op_poses(&made, sum, &volume), TOMOS_UNSUPPORTED, "only projectors");
	tomos_op_free(sum);
	tomos_op_free(op);
	o.forward = "voxel";
	OK(tomos_op_projector(&op, backend, &c.grid, c.scan, &o));
	REJECTED(tomos_pose_derivative(op, &volume, 0, 1, &y), TOMOS_UNSUPPORTED, "'voxel'");
	tomos_op_free(op);
	REJECTED(tomos_geometry_move(&moved, c.scan, NULL), TOMOS_BAD_VALUE, "six numbers");
	poses[4] = NAN;
	REJECTED(tomos_geometry_move(&moved, c.scan, poses), TOMOS_BAD_VALUE,
		"view 0: number 4 of its pose is nan");
	REJECTED(tomos_pose_change(poses, 0, poses), TOMOS_BAD_VALUE, "6 x 6");
	tomos_geometry_free(c.scan);
	free(x), free(d);
}

/* Every allocation fails in turn, and nothing leaks. */
static void memory(void **state)
{
	(void)state;
	Case c = case_make(2);
	int64_t views = tomos_geometry_count(c.scan);
	float *x = case_data(&c, c.voxels), *p = case_data(&c, NUMBERS * views);
	float *y = case_data(&c, c.pixels);
	tomos_array volume = case_volume(&c, x), image = case_projections(&c, y);
	tomos_array pose = tomos_array_of(p, 1, views, NUMBERS);
	tomos_op *op, *jacobian;
	int64_t before = mem_live();
	tomos_status status = TOMOS_NO_MEMORY;
	for (int nth = 1; status == TOMOS_NO_MEMORY; nth++) {
		OK(tomos_op_projector(&op, backend, &c.grid, c.scan, NULL));
		mem_fail_nth(nth);
		status = tomos_op_poses(&jacobian, op, &volume);
		if (status == TOMOS_OK)
			status = tomos_op_forward(jacobian, &pose, &image);
		if (status == TOMOS_OK)
			status = tomos_op_adjoint(jacobian, &image, &pose);
		mem_fail_nth(0);
		tomos_op_free(op); /* before its Jacobian: this is allowed at the end */
		tomos_op_free(jacobian);
		assert_int_equal(mem_live(), before);
		assert_true(nth < 100);
	}
	assert_int_equal(status, TOMOS_OK);
	tomos_geometry_free(c.scan);
	free(x), free(p), free(y);
}

#define TESTS(T) \
	T(finite_differences), T(optimised), T(adjoint), T(columns), T(threads), T(moving), \
		T(changes), T(rejections), T(memory)
TEST_MAIN(TESTS, open_backend, close_backend)
