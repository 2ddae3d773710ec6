/* The steps of the preparation in values computed by hand: the floor, flats in time, zingers,
 * shifts, phase retrieval, binning before it; on both sides of every limit. */
#include "prep/prep_test.h"

static void assert_value(const char *what, double value, double wanted, double within)
{
	if (!(fabs(value - wanted) <= within))
		fail_msg("%s: %.9g, not %.9g", what, value, wanted);
}

/* ---- the floor ------------------------------------------------------------------------------- */

/* Whatever makes transmissions, or takes their logarithm, ends at the floor that was asked for. */
static void floors(void **state)
{
	(void)state;
	static const double floors[] = {1e-4, 0.05, 0.3};
	for (int k = 0; k < 3; k++) {
		const double floor = floors[k];
		float flat[4] = {200, 200, 200, 200}, counts[4] = {100, 200 * 0.04F, 0, -7};
		float data[4] = {0.5F, 0.04F, 0, -7};
		tomos_array light = tomos_array_of(flat, 1, 1, 4),
			    c = tomos_array_of(counts, 1, 1, 4);
		tomos_array d = tomos_array_of(data, 1, 1, 4);
		tomos_fields fields = {sizeof fields, &light, NULL, NULL, 0};
		tomos_prep_options o = tomos_prep_defaults();
		tomos_prep_report one = {.bytes = sizeof one}, two = {.bytes = sizeof two};
		o.floor = floor;
		OK(tomos_prep_normalize(&c, &fields, &o, &one));
		OK(tomos_prep_log(&d, &o, &two));
		for (int i = 0; i < 4; i++) {
			static const double wanted[] = {0.5, 0.04, 0, -0.035};
			assert_value("transmission", counts[i], fmax(wanted[i], floor), 1e-7);
			assert_value("integral", data[i], -log(fmax(wanted[i], floor)), 1e-5);
		}
		assert_int_equal(one.raised, k == 0 ? 2 : 3);
		assert_int_equal(two.raised, k == 0 ? 2 : 3);
	}
	assert_true(tomos_prep_defaults().floor == 1e-4);
}

/* Phase retrieval ends at it, too: what is nearly opaque everywhere stays at the floor. */
static void floor_of_phase(void **state)
{
	(void)state;
	float data[9];
	tomos_array a = tomos_array_of(data, 1, 3, 3);
	tomos_prep_options o = tomos_prep_defaults();
	o.phase = "paganin", o.pixel = 1e-3, o.distance = 10, o.energy = 20, o.delta_beta = 10;
	o.floor = 0.2;
	for (int i = 0; i < 9; i++)
		data[i] = 5;
	OK(tomos_prep_phase(&a, &o, NULL));
	for (int i = 0; i < 9; i++)
		assert_value("phase", data[i], -log(0.2), 1e-5);
}

/* ---- flats in time --------------------------------------------------------------------------- */

/* Light of 100 at view 2 (the mean of 110, 130 and 120, less darks of 10 and 30), of 200 at view 6,
 * of 400 at view 8, in any order. */
static double light_at(int64_t view, const char *drift, const char *average, double first_view)
{
	float flats[5] = {420, 110, 220, 130, 120}, darks[2] = {10, 30}, one = 1020;
	double views[5] = {8, 2, 6, 2, 2};
	tomos_array flat = tomos_array_of(flats, 5, 1, 1), dark = tomos_array_of(darks, 2, 1, 1);
	float counts[12];
	tomos_array c = tomos_array_of(counts, 12, 1, 1);
	tomos_fields fields = {sizeof fields, &flat, &dark, views, first_view};
	tomos_prep_options o = tomos_prep_defaults();
	o.drift = drift, o.flat_average = average;
	for (int i = 0; i < 12; i++)
		counts[i] = one;
	OK(tomos_prep_normalize(&c, &fields, &o, NULL));
	return 1000 / counts[view];
}

static void flats_in_time(void **state)
{
	(void)state;
	static const double linear[] = {100, 100, 100, 125, 150, 175, 200, 300, 400, 400, 400, 400};
	static const double nearest[] = {
		100, 100, 100, 100, 200, 200, 200, 400, 400, 400, 400, 400};
	for (int64_t view = 0; view < 12; view++) {
		assert_value("linear", light_at(view, "linear", "mean", 0), linear[view], 1e-3);
		assert_value("nearest", light_at(view, "nearest", "mean", 0), nearest[view], 1e-3);
		assert_value("none", light_at(view, "none", "mean", 0), 180, 1e-3);
		assert_value("median", light_at(view, "none", "median", 0), 110, 1e-3);
		if (view < 7) /* counted from its first view */
			assert_value("a later chunk", light_at(view, "linear", "mean", 5),
				linear[view + 5], 1e-3);
	}
	assert_value("before the middle", light_at(3, "nearest", "mean", 0.9), 100, 1e-3);
	assert_value("behind the middle", light_at(3, "nearest", "mean", 1.1), 200, 1e-3);
}

/* Bad values are interpolated between good ones; beyond the last good one that is repeated; without
 * any, the given value is taken. */
static void bridges(void **state)
{
	(void)state;
	float row[9] = {NAN, NAN, 2, INFINITY, NAN, NAN, 6, -INFINITY, NAN}, none[2] = {NAN, NAN};
	static const float wanted[9] = {2, 2, 2, 3, 4, 5, 6, 6, 6};
	assert_int_equal(row_repair(row, 9, 7), 7);
	for (int i = 0; i < 9; i++)
		assert_value("bridge", row[i], wanted[i], 1e-6);
	assert_int_equal(row_repair(none, 2, 7), 2);
	assert_true(none[0] == 7 && none[1] == 7);
}

/* ---- zingers --------------------------------------------------------------------------------- */

enum { Z_VIEWS = 7, Z_ROWS = 6, Z_COLUMNS = 8, Z_COUNT = Z_VIEWS * Z_ROWS * Z_COLUMNS };

static float *zinger_at(float *data, int view, int row, int column)
{
	return data + (view * Z_ROWS + row) * Z_COLUMNS + column;
}

/* Slopes along each axis. */
static void zinger_scene(float *data)
{
	for (int i = 0; i < Z_COUNT; i++)
		data[i] = 0.3F + 0.01F * (float)(i % Z_COLUMNS) +
			  0.02F * (float)(i / Z_COLUMNS % Z_ROWS) +
			  0.03F * (float)(i / (Z_COLUMNS * Z_ROWS));
}

static int64_t clean(float *data, const char *where, double level, int64_t size)
{
	tomos_array a = tomos_array_of(data, Z_VIEWS, Z_ROWS, Z_COLUMNS);
	tomos_prep_options o = tomos_prep_defaults();
	tomos_prep_report report = {.bytes = sizeof report};
	o.zingers = where, o.zinger_level = level, o.zinger_size = size;
	OK(tomos_prep_zingers(&a, &o, &report));
	return report.zingers;
}

/* A zinger takes the median of its neighbours, in time where that is looked at, if it stands out by
 * more than the level; the rest keeps its bits. */
static void zingers(void **state)
{
	(void)state;
	static const char *const where[] = {"space", "time", "both"};
	for (int w = 0; w < 3; w++)
		for (int64_t size = 3; size <= 5; size += 2)
			for (int above = 0; above < 2; above++) {
				float data[Z_COUNT], truth[Z_COUNT];
				zinger_scene(data);
				memcpy(truth, data, sizeof truth);
				assert_int_equal(clean(data, where[w], 0.1, size), 0);
				assert_memory_equal(data, truth, sizeof truth);
				/* the median of a full window is the middle or the next rank */
				*zinger_at(data, 3, 3, 4) += above ? 0.15F : 0.08F;
				int64_t found = clean(data, where[w], 0.1, size);
				assert_int_equal(found, above);
				float *here = zinger_at(data, 3, 3, 4),
				      *was = zinger_at(truth, 3, 3, 4);
				double within = w == 0 ? 0.011 : 0.031;
				if (above)
					assert_value("repaired", *here, *was, within);
				assert_true(!above || *here >= *was); /* the next rank up */
				*was = *here;
				assert_memory_equal(data, truth, sizeof truth);
			}
}

/* In space alone a bright spot of the object goes, in time it stays, since the next view has it;
 * dark ones stay. */
static void zingers_that_stay(void **state)
{
	(void)state;
	float data[Z_COUNT], truth[Z_COUNT];
	zinger_scene(data);
	for (int view = 0; view < Z_VIEWS; view++)
		*zinger_at(data, view, 2, 2) += 0.5F; /* part of the object */
	*zinger_at(data, 3, 4, 5) -= 0.5F;
	memcpy(truth, data, sizeof truth);
	assert_int_equal(clean(data, "time", 0.1, 3), 0);
	assert_int_equal(clean(data, "both", 0.1, 3), 0);
	assert_memory_equal(data, truth, sizeof truth);
	assert_int_equal(clean(data, "space", 0.1, 3), Z_VIEWS);
	assert_true(*zinger_at(data, 3, 4, 5) == *zinger_at(truth, 3, 4, 5));
}

/* Two views lit are the median of three and not of five, two pixels that of no nine; and the level
 * counts. */
static void zingers_by_size_and_level(void **state)
{
	(void)state;
	static const char *const where[] = {"space", "time", "both"};
	for (int w = 0; w < 3; w++)
		for (int64_t size = 3; size <= 5; size += 2)
			for (int high = 0; high < 2; high++) {
				float data[Z_COUNT];
				zinger_scene(data);
				*zinger_at(data, 3, 3, 4) += 0.4F;
				*zinger_at(data, 4, 3, 4) += 0.4F;
				bool hidden = w > 0 && size == 3;
				assert_int_equal(clean(data, where[w], high ? 0.5 : 0.3, size),
					high || hidden ? 0 : 2);
			}
	float data[Z_COUNT]; /* a square of 2 x 3 is the median of 3 x 3, not of 5 x 5 */
	zinger_scene(data);
	for (int i = 0; i < 6; i++)
		*zinger_at(data, 3, 2 + i / 3, 3 + i % 3) += 0.4F;
	assert_true(clean(data, "space", 0.1, 5) == 6);
	zinger_scene(data);
	for (int i = 0; i < 6; i++)
		*zinger_at(data, 3, 2 + i / 3, 3 + i % 3) += 0.4F;
	assert_true(clean(data, "space", 0.1, 3) < 6);
}

/* Windows are cut at the corner: of 4 values the median is the mean of the middle two. */
static void zingers_in_corners(void **state)
{
	(void)state;
	float data[Z_COUNT];
	zinger_scene(data);
	data[0] += 1; /* beside 0.31, 0.32, 0.33 */
	assert_int_equal(clean(data, "space", 0.1, 3), 1);
	assert_value("corner", data[0], 0.325, 1e-6);
	zinger_scene(data);
	data[0] += 1; /* before 0.33: the two */
	assert_int_equal(clean(data, "time", 0.1, 3), 1);
	assert_value("first view", data[0], 0.5 * (1.3 + 0.33), 1e-6);
}

/* ---- shifts ---------------------------------------------------------------------------------- */

/* Straight lines and, by cubics, parabolas are read exactly: the value at i + shift, the edge
 * beyond it. */
static void shifts(void **state)
{
	(void)state;
	enum { R = 12, C = 14 };
	static const double x = 1.3, y = -0.6;
	for (int cubic = 0; cubic < 2; cubic++)
		for (int only = 0; only < 3; only++) { /* x, y, both */
			float data[R * C];
			double bend = cubic ? 0.05 : 0, dx = only == 1 ? 0 : x,
			       dy = only == 0 ? 0 : y;
			tomos_array a = tomos_array_of(data, 1, R, C);
			tomos_prep_options o = tomos_prep_defaults();
			for (int i = 0; i < R * C; i++) {
				double r = i / C, c = i % C;
				data[i] = (float)(0.4 * c - 0.3 * r + bend * (c * c - 2 * r * r));
			}
			if (dx != 0)
				o.shift_x = &x, o.shift_x_count = 1;
			if (dy != 0)
				o.shift_y = &y, o.shift_y_count = 1;
			o.shift_by = cubic ? "cubic" : "linear";
			OK(tomos_prep_shift(&a, &o, NULL));
			for (int i = 0; i < R * C; i++) {
				double r = i / C + dy, c = i % C + dx;
				if (i % C > C - 5 || i / C < 2 || i / C > R - 3 || i % C < 1)
					continue;
				assert_value("shift", data[i],
					0.4 * c - 0.3 * r + bend * (c * c - 2 * r * r), 2e-5);
			}
			if (only == 0) /* all of the last column is what was there */
				assert_value("edge", data[C - 1],
					0.4 * (C - 1) + bend * (C - 1) * (C - 1), 1e-5);
		}
}

/* A single shift, of columns or of rows, applies to all views, in the step alone and in the whole
 * preparation. */
static void shift_of_all_views(void **state)
{
	(void)state;
	static const double one = 1;
	for (int rows = 0; rows < 2; rows++) {
		float data[2 * 3 * 3], out[2 * 3 * 3];
		tomos_array a = tomos_array_of(data, 2, 3, 3), b = tomos_array_of(out, 2, 3, 3);
		tomos_prep_options o = tomos_prep_defaults();
		for (int i = 0; i < 18; i++)
			data[i] = (float)i;
		if (rows)
			o.shift_y = &one, o.shift_y_count = 1;
		else
			o.shift_x = &one, o.shift_x_count = 1;
		OK(tomos_prepare(&a, NULL, &o, &b, NULL, NULL));
		for (int i = 0; i < 18; i++) {
			int to = rows ? (i / 3 % 3 < 2 ? i + 3 : i) : (i % 3 < 2 ? i + 1 : i);
			assert_value("shift", out[i], to, 1e-5);
		}
	}
}

/* Keys' weights at a half and at a quarter. */
static void keys(void **state)
{
	(void)state;
	static const double shift[] = {0.5, 0.25};
	static const double wanted[2][4] = {
		{-0.0625, 0.5625, 0.5625, -0.0625}, {-0.0234375, 0.2265625, 0.8671875, -0.0703125}};
	for (int k = 0; k < 2; k++) {
		float data[9] = {0};
		tomos_array a = tomos_array_of(data, 1, 1, 9);
		tomos_prep_options o = tomos_prep_defaults();
		o.shift_x = &shift[k], o.shift_x_count = 1;
		data[4] = 1;
		OK(tomos_prep_shift(&a, &o, NULL));
		for (int i = 0; i < 4; i++)
			assert_value("Keys", data[2 + i], wanted[k][i], 1e-6);
	}
}

/* ---- phase ----------------------------------------------------------------------------------- */

/* A transmission of 0.6 + 0.2 cos(k x) comes out with 0.2 / (1 + z (delta / mu) k^2), where mu is
 * 4 pi beta / wavelength: along rows and along columns, away from the edges. */
static void waves(void **state)
{
	(void)state;
	enum { N = 96 };
	const double pixel = 2e-3, distance = 40, energy = 18, ratio = 35;
	const double wavelength = 1.23984198e-6 / energy; /* h c = 1.23984198 keV nm, in mm */
	const double strength = distance * ratio * wavelength / (4 * M_PI) / (pixel * pixel);
	float *data = malloc(sizeof *data * N * N);
	for (int along = 0; along < 2; along++)
		for (double k = 0.2; k < 1.3; k += 0.5) {
			tomos_array a = tomos_array_of(data, 1, N, N);
			tomos_prep_options o = tomos_prep_defaults();
			o.phase = "paganin", o.pixel = pixel, o.distance = distance;
			o.energy = energy, o.delta_beta = ratio;
			for (int i = 0; i < N * N; i++)
				data[i] = (float)-log(0.6 + 0.2 * cos(k * (along ? i / N : i % N)));
			OK(tomos_prep_phase(&a, &o, NULL));
			for (int i = 30; i < N - 30; i++) {
				double wanted = 0.6 + 0.2 / (1 + strength * k * k) * cos(k * i);
				int at = along ? i * N + N / 2 : N / 2 * N + i;
				assert_value("wave", exp(-data[at]), wanted, 2e-4);
			}
		}
	free(data);
}

/* A step far from both edges: the filter's kernel is exp(-|x| / L) / (2 L), L^2 = z delta / mu, and
 * views go on by their edges, so that the left one knows nothing of the right. */
static void step_and_edges(void **state)
{
	(void)state;
	enum { N = 64, R = 3 };
	const double pixel = 1e-3, distance = 50, energy = 20, length = 4;
	const double ratio =
		length * length * pixel * pixel * 4 * M_PI / (distance * 1.23984198e-6 / energy);
	float data[R * N];
	tomos_array a = tomos_array_of(data, 1, R, N);
	tomos_prep_options o = tomos_prep_defaults();
	o.phase = "paganin", o.pixel = pixel, o.distance = distance, o.energy = energy;
	o.delta_beta = ratio;
	for (int i = 0; i < R * N; i++)
		data[i] = i % N < N / 2 ? 0 : 2;
	OK(tomos_prep_phase(&a, &o, NULL));
	for (int i = 0; i < R * N; i++) {
		double x = i % N - (N / 2 - 0.5), high = 1, low = exp(-2);
		double share = 0.5 * exp(-fabs(x) / length), far = fabs(x) > 12;
		double wanted = x < 0 ? high - (high - low) * share : low + (high - low) * share;
		if (far)
			assert_value("step", exp(-data[i]), wanted, 3e-4);
	}
}

/* Binned before, its pixels are the larger ones. */
static void phase_of_binned(void **state)
{
	(void)state;
	enum { N = 24 };
	float data[N * N], binned[N * N / 4], out[N * N / 4];
	tomos_array a = tomos_array_of(data, 1, N, N), b = tomos_array_of(binned, 1, N / 2, N / 2);
	tomos_array c = tomos_array_of(out, 1, N / 2, N / 2);
	tomos_prep_options o = tomos_prep_defaults();
	for (int i = 0; i < N * N; i++)
		data[i] = (float)(1 + 0.5 * sin(0.4 * (i % N)) * cos(0.3 * (i / N)));
	o.phase = "paganin", o.pixel = 2e-3, o.distance = 60, o.energy = 20, o.delta_beta = 50;
	OK(tomos_prep_bin(&a, 2, &b));
	o.bin = 2, o.steps = "bin,phase";
	OK(tomos_prepare(&a, NULL, &o, &c, NULL, NULL));
	o.pixel = 4e-3;
	OK(tomos_prep_phase(&b, &o, NULL));
	for (int i = 0; i < N * N / 4; i++)
		assert_value("binned", out[i], binned[i], 1e-6);
}

/* ---- views ----------------------------------------------------------------------------------- */

/* Straight between the nearest good ones, the nearest one before the first and after the last. */
static void bad_views(void **state)
{
	(void)state;
	static const int64_t bad[] = {0, 1, 4, 5, 6, 9};
	static const float wanted[] = {4, 4, 4, 8, 11, 14, 17, 20, 1, 1};
	float data[10] = {-1, -1, 4, 8, -1, -1, -1, 20, 1, -1};
	tomos_array a = tomos_array_of(data, 10, 1, 1);
	tomos_prep_options o = tomos_prep_defaults();
	o.bad_views = bad, o.bad_views_count = COUNT(bad);
	OK(tomos_prep_bad_views(&a, &o, NULL));
	for (int i = 0; i < 10; i++)
		assert_value("bad view", data[i], wanted[i], 1e-6);
}

#define TESTS(T) \
	T(floors), T(floor_of_phase), T(flats_in_time), T(bridges), T(zingers), \
		T(zingers_that_stay), T(zingers_by_size_and_level), T(zingers_in_corners), \
		T(shifts), T(shift_of_all_views), T(keys), T(waves), T(step_and_edges), \
		T(phase_of_binned), T(bad_views)
TEST_MAIN(TESTS, NULL, NULL)
