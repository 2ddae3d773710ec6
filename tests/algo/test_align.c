/* Alignment: random shifts of each view, put into closed-form projections with noise, are found, in
 * parallel beam, cone beam and laminography; and the roll. */
#include "geom/geom.h"
#include "ops/opened.h"

enum { SIZE = 48, VIEWS = 60 };

typedef struct {
	tomos_geometry *scan;
	tomos_grid grid;
	float *data;
	tomos_array b;
	double *true_motions, *motions, *poses;
} Scene;

static tomos_geometry *scan_of(const char *kind)
{
	tomos_geometry *scan;
	tomos_scan_options o = tomos_scan_defaults();
	double source_axis = 4 * SIZE, source_detector = 6 * SIZE;
	o.geometry = kind;
	o.rows = o.columns = SIZE;
	o.views = VIEWS;
	o.arc = 2 * acos(-1);
	if (strcmp(kind, "cone") == 0) {
		o.source_axis = &source_axis, o.source_axis_count = 1;
		o.source_detector = &source_detector, o.source_detector_count = 1;
		o.pixel = 1.5;
	}
	if (strcmp(kind, "laminography") == 0)
		o.tilt = 0.5;
	OK(tomos_geometry_make(&scan, &o));
	return scan;
}

static tomos_phantom *phantom_of(Case *c)
{
	tomos_ellipsoid list[21] = {{{0, 0, 0}, {0.38 * SIZE, 0.32 * SIZE, 0.36 * SIZE}, {0}, 0.3}};
	tomos_phantom *phantom;
	for (int i = 1; i < 21; i++) {
		for (int a = 0; a < 3; a++) {
			list[i].centre[a] = case_between(c, -0.18, 0.18) * SIZE;
			list[i].axes[a] = case_between(c, 0.03, 0.08) * SIZE;
			list[i].euler[a] = case_between(c, 0, 3);
		}
		list[i].value = case_between(c, -0.3, 0.6);
	}
	OK(tomos_phantom_ellipsoids(&phantom, list, 21));
	return phantom;
}

/* The unit vectors that motions are measured along. */
static void frame_of(const tomos_view *view, double frame[3][3])
{
	double u = 0, v = 0;
	for (int a = 0; a < 3; a++)
		u += view->u[a] * view->u[a], v += view->v[a] * view->v[a];
	for (int a = 0; a < 3; a++) {
		int b = (a + 1) % 3, c = (a + 2) % 3;
		frame[0][a] = view->u[a] / sqrt(u);
		frame[1][a] = view->v[a] / sqrt(v);
		frame[2][a] = (view->u[b] * view->v[c] - view->u[c] * view->v[b]) / sqrt(u * v);
	}
}

static Scene scene_of(const char *kind, double shift, double roll)
{
	Scene s = {.scan = scan_of(kind)};
	Case c = {.state = 77};
	double poses[6 * VIEWS], frame[3][3];
	tomos_geometry *moved;
	tomos_phantom *phantom = phantom_of(&c);
	s.true_motions = calloc(3 * VIEWS, sizeof(double));
	s.motions = calloc(3 * VIEWS, sizeof(double));
	s.poses = calloc(6 * VIEWS, sizeof(double));
	for (int i = 0; i < VIEWS; i++) {
		double *m = s.true_motions + 3 * i;
		frame_of(&tomos_geometry_list(s.scan)[i], frame);
		m[0] = case_between(&c, -1, 1) * shift;
		m[1] = case_between(&c, -1, 1) * shift;
		m[2] = case_between(&c, -1, 1) * roll;
		for (int a = 0; a < 3; a++) {
			poses[6 * i + a] = m[0] * frame[0][a] + m[1] * frame[1][a];
			poses[6 * i + 3 + a] = m[2] * frame[2][a];
		}
	}
	s.data = calloc((size_t)VIEWS * SIZE * SIZE, sizeof *s.data);
	s.b = tomos_array_of(s.data, VIEWS, SIZE, SIZE);
	OK(tomos_geometry_move(&moved, s.scan, poses));
	OK(tomos_phantom_project(phantom, moved, 1, &s.b));
	OK(tomos_noise_gaussian(&s.b, 0.02, 3));
	OK(tomos_grid_centred(&s.grid, SIZE, SIZE, SIZE, 1));
	tomos_geometry_free(moved);
	tomos_phantom_free(phantom);
	return s;
}

static void scene_free(Scene *s)
{
	tomos_geometry_free(s->scan);
	free(s->data), free(s->true_motions), free(s->motions), free(s->poses);
}

/* Least squares of three unknowns by Cramer's rule. */
static void fit3(double m[3][3], const double right[3], double x[3])
{
	double cross[3][3], det = 0;
	for (int i = 0; i < 3; i++)
		for (int a = 0; a < 3; a++) {
			int j = (i + 1) % 3, k = (i + 2) % 3, b = (a + 1) % 3, c = (a + 2) % 3;
			cross[i][a] = m[j][b] * m[k][c] - m[j][c] * m[k][b];
		}
	for (int a = 0; a < 3; a++)
		det += m[0][a] * cross[0][a];
	for (int a = 0; a < 3; a++)
		x[a] = (cross[0][a] * right[0] + cross[1][a] * right[1] + cross[2][a] * right[2]) /
		       det;
}

/* Errors, rms: shifts without that of the whole object, which the data do not determine; rolls
 * without the part of a rotation of the whole object, which they determine weakly. */
static void errors_of(const Scene *s, double error[3])
{
	double m[2][3][3] = {{{0}}}, right[2][3] = {{0}}, c[2][3] = {{0}}, frame[3][3],
	       sum[3] = {0};
	for (int pass = 0; pass < 2; pass++)
		for (int i = 0; i < VIEWS; i++) {
			frame_of(&tomos_geometry_list(s->scan)[i], frame);
			for (int n = 0; n < 3; n++) {
				double d = s->motions[3 * i + n] - s->true_motions[3 * i + n];
				int kind = n / 2;
				for (int a = 0; a < 3; a++) {
					if (pass)
						d -= frame[n][a] * c[kind][a];
					right[kind][a] += frame[n][a] * d;
					for (int b = 0; b < 3; b++)
						m[kind][a][b] += frame[n][a] * frame[n][b];
				}
				sum[n] += pass ? d * d : 0;
			}
			if (i + 1 == VIEWS && !pass)
				for (int kind = 0; kind < 2; kind++) {
					m[kind][2][2] += 1e-9; /* rolls about horizontal rays */
					fit3(m[kind], right[kind], c[kind]);
				}
		}
	for (int n = 0; n < 3; n++)
		error[n] = sqrt(sum[n] / VIEWS);
}

static void shifts_of(const char *kind)
{
	Scene s = scene_of(kind, 3.4, 0); /* 2 pixels rms */
	tomos_align_options o = tomos_align_defaults();
	double error[3], limit = case_slow() ? 0.15 : 0.05;
	if (case_slow()) /* sanitizers: no full resolution */
		o.rounds = 3, o.finest = 2;
	OK(tomos_align(backend, &s.grid, s.scan, &s.b, s.motions, s.poses, &o, NULL));
	errors_of(&s, error);
	printf("  %-12s: shifts to %.3f columns, %.3f rows\n", kind, error[0], error[1]);
	assert_true(error[0] < limit && error[1] < limit);
	for (int i = 0; i < VIEWS; i++) /* roll was not asked for */
		assert_true(s.motions[3 * i + 2] == 0);
	scene_free(&s);
}

static void shifts_parallel(void **state)
{
	(void)state;
	if (case_slow())
		return;
	shifts_of("parallel");
}

static void shifts_cone(void **state)
{
	(void)state;
	shifts_of("cone");
}

static void shifts_laminography(void **state)
{
	(void)state;
	if (case_slow())
		return;
	shifts_of("laminography");
}

/* Rolls are less certain; here their errors become a fraction of what they were. */
static void rolls(void **state)
{
	(void)state;
	if (case_slow())
		return;
	Scene s = scene_of("cone", 3.4, 0.035); /* 1.2 degrees rms */
	tomos_align_options o = tomos_align_defaults();
	double error[3], degree = acos(-1) / 180;
	o.fit_roll = 1;
	OK(tomos_align(backend, &s.grid, s.scan, &s.b, s.motions, s.poses, &o, NULL));
	errors_of(&s, error);
	printf("  shifts to %.3f columns, %.3f rows, rolls to %.3f degrees\n", error[0], error[1],
		error[2] / degree);
	assert_true(error[0] < 0.1 && error[1] < 0.1 && error[2] < 0.4 * degree);
	scene_free(&s);
}

/* The poses are those that move the views by the motions. */
static void poses(void **state)
{
	(void)state;
	Scene s = scene_of("parallel", 1, 0);
	tomos_align_options o = tomos_align_defaults();
	double frame[3][3];
	o.rounds = 1, o.round_iterations = 2, o.finest = 2;
	OK(tomos_align(backend, &s.grid, s.scan, &s.b, s.motions, s.poses, &o, NULL));
	for (int i = 0; i < VIEWS; i++) {
		frame_of(&tomos_geometry_list(s.scan)[i], frame);
		for (int a = 0; a < 3; a++)
			assert_true(fabs(s.poses[6 * i + a] - s.motions[3 * i] * frame[0][a] -
					    s.motions[3 * i + 1] * frame[1][a]) < 1e-9);
	}
	scene_free(&s);
}

static int stop(void *user, const char *stage, int64_t done, int64_t total, double value)
{
	(void)stage, (void)value;
	*(int64_t *)user = total;
	return done == 2;
}

static void rejections(void **state)
{
	(void)state;
	Scene s = scene_of("parallel", 1, 0);
	tomos_align_options o = tomos_align_defaults();
	int64_t total = 0;
	tomos_progress progress = {stop, &total};
	tomos_array wrong = tomos_array_of(s.data, 1, SIZE, SIZE);
	REJECTED(tomos_align(NULL, &s.grid, s.scan, &s.b, s.motions, s.poses, &o, NULL),
		TOMOS_BAD_VALUE, "needs a backend");
	REJECTED(tomos_align(backend, &s.grid, s.scan, &wrong, s.motions, s.poses, &o, NULL),
		TOMOS_BAD_VALUE, "the projections");
	o.rounds = 1, o.round_iterations = 1;
	REJECTED(tomos_align(backend, &s.grid, s.scan, &s.b, s.motions, s.poses, &o, &progress),
		TOMOS_CANCELLED, "2 of");
	assert_int_equal(total, 2); /* resolutions of 48 and 24 columns */
	o.finest = 49;
	REJECTED(tomos_align(backend, &s.grid, s.scan, &s.b, s.motions, s.poses, &o, NULL),
		TOMOS_BAD_VALUE, "finest is 49");
	o.finest = 0, o.rounds = 0;
	REJECTED(tomos_align(backend, &s.grid, s.scan, &s.b, s.motions, s.poses, &o, NULL),
		TOMOS_BAD_VALUE, "rounds");
	scene_free(&s);
}

#define TESTS(T) \
	T(shifts_parallel), T(shifts_cone), T(shifts_laminography), T(rolls), T(poses), \
		T(rejections)
TEST_MAIN(TESTS, open_backend, close_backend)
