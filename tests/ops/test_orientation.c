/* Where things are: an asymmetric object back projected in every kind of scan, the formula of the
 * detector column in 2D, quarter turns. */
#include "ops/opened.h"

enum { N = 33, PLANE = 9, BALLS = 3 };
#define HALF_TURN 3.14159265358979323846

/* Three balls of different weight, in no symmetric arrangement; y points up, its index down. */
static const double places[BALLS][3] = {{7, 5, -4}, {-8, 3, 6}, {2, -9, 1}};
static const double values[BALLS] = {3, 2, 1.2};

static tomos_phantom *balls(int flat)
{
	tomos_phantom *phantom;
	tomos_ellipsoid list[BALLS];
	for (int i = 0; i < BALLS; i++) {
		list[i] = (tomos_ellipsoid){.axes = {1.3, 1.3, 1.3}, .value = values[i]};
		memcpy(list[i].centre, places[i], sizeof places[i]);
		if (flat)
			list[i].centre[2] = 0;
	}
	OK(tomos_phantom_ellipsoids(&phantom, list, BALLS));
	return phantom;
}

static tomos_geometry *scan_of(const char *kind)
{
	tomos_geometry *scan;
	tomos_scan_options o = tomos_scan_defaults();
	double source_axis = 90, source_detector = 120, axis = 27.3;
	int source =
		strcmp(kind, "fan") == 0 || strcmp(kind, "cone") == 0 || strcmp(kind, "helix") == 0;
	o.geometry = kind;
	o.columns = 53;
	o.rows = strcmp(kind, "fan") == 0 ? 1 : 45;
	o.pixel = source ? 4.0 / 3 : 1;
	o.views = strcmp(kind, "lebedev") == 0 ? 133 : 72;
	o.axis = &axis, o.axis_count = 1;
	o.tilt = strcmp(kind, "laminography") == 0 ? 0.5 : 0;
	o.arc = strcmp(kind, "laminography") == 0 ? 2 * HALF_TURN
		: strcmp(kind, "helix") == 0      ? 4 * HALF_TURN
						  : 0;
	o.pitch = strcmp(kind, "helix") == 0 ? 5 : 0;
	if (source) {
		o.source_axis = &source_axis, o.source_axis_count = 1;
		o.source_detector = &source_detector, o.source_detector_count = 1;
	}
	OK(tomos_geometry_make(&scan, &o));
	return scan;
}

/* The largest value and where it is; it and what lies within four voxels is then out of the
 * race. */
static void take_peak(float *volume, const int64_t n[3], int64_t at[3])
{
	int64_t best = 0;
	for (int64_t i = 0; i < n[0] * n[1] * n[2]; i++)
		best = volume[i] > volume[best] ? i : best;
	at[0] = best % n[0];
	at[1] = best / n[0] % n[1];
	at[2] = best / n[0] / n[1];
	for (int64_t i = 0; i < n[0] * n[1] * n[2]; i++) {
		int64_t x = i % n[0] - at[0], y = i / n[0] % n[1] - at[1],
			z = i / n[0] / n[1] - at[2];
		if (x * x + y * y + z * z <= 16)
			volume[i] = -HUGE_VALF;
	}
}

static void check_peaks(const char *kind, const char *what, float *volume, const int64_t n[3])
{
	for (int i = 0; i < BALLS; i++) {
		int64_t at[3];
		take_peak(volume, n, at);
		double x = 0.5 * (double)(n[0] - 1) + places[i][0];
		double y = 0.5 * (double)(n[1] - 1) - places[i][1];
		double z = n[2] == 1 ? 0 : 0.5 * (double)(n[2] - 1) + places[i][2];
		if (fabs((double)at[0] - x) > 1 || fabs((double)at[1] - y) > 1 ||
			fabs((double)at[2] - z) > 1)
			fail_msg("%s, %s: peak %d at [%lld][%lld][%lld], expected [%g][%g][%g]",
				kind, what, i + 1, (long long)at[2], (long long)at[1],
				(long long)at[0], z, y, x);
	}
}

static void every_kind_of_scan(void **state)
{
	(void)state;
	static const char *const kinds[] = {
		"parallel", "fan", "cone", "laminography", "helix", "lebedev"};
	for (int k = 0; k < 6; k++) {
		int flat = strcmp(kinds[k], "fan") == 0;
		int64_t n[3] = {N, N + 2, flat ? 1 : N - 6};
		tomos_grid grid;
		OK(tomos_grid_centred(&grid, n[0], n[1], n[2], 1));
		tomos_geometry *scan = scan_of(kinds[k]);
		tomos_phantom *phantom = balls(flat);
		int64_t shape[3] = {tomos_geometry_count(scan), tomos_geometry_rows(scan),
			tomos_geometry_columns(scan)};
		float *data = malloc((size_t)(shape[0] * shape[1] * shape[2]) * sizeof *data);
		float *volume = malloc((size_t)(n[0] * n[1] * n[2]) * sizeof *volume);
		tomos_array array = tomos_array_of(data, shape[0], shape[1], shape[2]);
		OK(tomos_phantom_project(phantom, scan, 3, &array));
		for (int plain = 0; plain < 2; plain++) {
			tomos_projector_options o = tomos_projector_defaults();
			o.forward = "voxel";
			o.plain = plain;
			case_adjoint(backend, &grid, scan, &o, data, volume);
			check_peaks(kinds[k], plain ? "reference kernels" : "tuned", volume, n);
		}
		free(data), free(volume);
		tomos_phantom_free(phantom);
		tomos_geometry_free(scan);
	}
}

/* Where a view's weight lies, in columns. */
static double centroid(const float *row, int64_t columns)
{
	double sum = 0, moment = 0;
	for (int64_t c = 0; c < columns; c++) {
		sum += row[c];
		moment += (double)c * row[c];
	}
	assert_true(sum > 0);
	return moment / sum;
}

/* One pixel of 1 on a slice, seen at nine angles with an axis of its own for each. */
static void check_column(const char *model, int64_t x, int64_t y, int64_t cuts, double limit)
{
	enum { VIEWS = 9 };
	double angles[VIEWS], axes[VIEWS];
	int64_t columns = 25 * cuts;
	for (int i = 0; i < VIEWS; i++) {
		angles[i] = -3 + 0.77 * i;
		axes[i] = (double)cuts * (11.5 + 0.4 * i);
	}
	tomos_scan_options o = tomos_scan_defaults();
	o.columns = columns;
	o.pixel = 1.0 / (double)cuts;
	o.angles = angles, o.angles_count = VIEWS;
	o.axis = axes, o.axis_count = VIEWS;
	tomos_geometry *scan;
	OK(tomos_geometry_make(&scan, &o));
	tomos_grid grid;
	OK(tomos_grid_centred(&grid, PLANE, PLANE + 1, 1, 1));
	float volume[(PLANE + 1) * PLANE] = {0};
	float *data = malloc((size_t)(VIEWS * columns) * sizeof *data);
	volume[y * PLANE + x] = 1;
	tomos_projector_options p = tomos_projector_defaults();
	p.forward = model;
	case_forward(backend, &grid, scan, &p, volume, data);
	for (int i = 0; i < VIEWS; i++) {
		double cx = 0.5 * (PLANE - 1), cy = 0.5 * PLANE;
		double is = (centroid(data + i * columns, columns) - axes[i]) / (double)cuts;
		double should =
			((double)x - cx) * cos(angles[i]) - ((double)y - cy) * sin(angles[i]);
		if (!(fabs(is - should) <= limit))
			fail_msg("%s, pixel x %lld y %lld at %g: column - axis = %g, expected %g",
				model, (long long)x, (long long)y, angles[i], is, should);
	}
	free(data);
	tomos_geometry_free(scan);
}

/* column - axis = (x_index - cx) cos t - (y_index - cy) sin t. Linear interpolation between two
 * pixels preserves the centre of mass exactly; other models are tested with much finer pixels. */
static void column_formula(void **state)
{
	(void)state;
	for (int64_t y = 0; y <= PLANE; y += 3)
		for (int64_t x = 0; x < PLANE; x += 2) {
			check_column("voxel", x, y, 1, 1e-5);
			for (int m = 0; m < CASE_MODELS; m++)
				check_column(case_models[m], x, y, 32, 0.02);
		}
}

/* The value at (x, y) moves to where a quarter turn (x axis towards y axis, y up) takes it. */
static void turn_volume(const float *from, float *to, int64_t n, int64_t nz)
{
	for (int64_t z = 0; z < nz; z++)
		for (int64_t y = 0; y < n; y++)
			for (int64_t x = 0; x < n; x++)
				to[(z * n + (n - 1 - x)) * n + y] = from[(z * n + y) * n + x];
}

/* P(t + quarter) of the rotated volume is P(t) of the volume; likewise for the adjoint. */
static void check_quarter(const char *kind, const char *model, int plain)
{
	Case c = {.state = 99};
	double angles[2][5], source_axis = 50, source_detector = 70;
	int64_t n = 14, nz = strcmp(kind, "fan") == 0 ? 1 : 6;
	tomos_geometry *scans[2];
	tomos_scan_options o = tomos_scan_defaults();
	for (int i = 0; i < 5; i++) {
		angles[0][i] = 0.11 + 0.83 * i;
		angles[1][i] = angles[0][i] + HALF_TURN / 2;
	}
	o.geometry = kind;
	o.rows = strcmp(kind, "fan") == 0 ? 1 : 7;
	o.columns = 19;
	o.tilt = strcmp(kind, "laminography") == 0 ? 0.4 : 0;
	if (strcmp(kind, "fan") == 0 || strcmp(kind, "cone") == 0) {
		o.source_axis = &source_axis, o.source_axis_count = 1;
		o.source_detector = &source_detector, o.source_detector_count = 1;
	}
	for (int i = 0; i < 2; i++) {
		o.angles = angles[i], o.angles_count = 5;
		OK(tomos_geometry_make(&scans[i], &o));
	}
	OK(tomos_grid_centred(&c.grid, n, n, nz, 1));
	int64_t voxels = n * n * nz, pixels = 5 * o.rows * o.columns;
	float *x = case_data(&c, voxels), *rotated = case_data(&c, voxels),
	      *y = case_data(&c, pixels);
	float *f[2] = {case_data(&c, pixels), case_data(&c, pixels)};
	float *g[2] = {case_data(&c, voxels), case_data(&c, voxels)};
	tomos_projector_options p = tomos_projector_defaults();
	p.forward = model;
	p.plain = plain;
	turn_volume(x, rotated, n, nz);
	for (int i = 0; i < 2; i++) {
		case_forward(backend, &c.grid, scans[i], &p, i ? rotated : x, f[i]);
		case_adjoint(backend, &c.grid, scans[i], &p, y, g[i]);
		tomos_geometry_free(scans[i]);
	}
	turn_volume(g[0], rotated, n, nz);
	double forward = case_difference(f[1], f[0], pixels);
	double adjoint = case_difference(g[1], rotated, voxels);
	double limit = test_repeats() ? 1e-6 : 5e-6; /* floats, or sums of integers */
	if (!(forward <= limit && adjoint <= limit) || case_dot(f[0], f[0], pixels) == 0)
		fail_msg("%s of %s: a quarter turn changes forward by %g, adjoint by %g", model,
			kind, forward, adjoint);
	free(x), free(rotated), free(y), free(f[0]), free(f[1]), free(g[0]), free(g[1]);
}

static void quarter_turns(void **state)
{
	(void)state;
	static const char *const kinds[] = {"parallel", "fan", "cone", "laminography"};
	for (int k = 0; k < 4; k++)
		for (int m = 0; m < CASE_MODELS; m++)
			for (int plain = 0; plain < 2; plain++)
				check_quarter(kinds[k], case_models[m], plain);
}

#define TESTS(T) T(every_kind_of_scan), T(column_formula), T(quarter_turns)
TEST_MAIN(TESTS, open_backend, close_backend)
