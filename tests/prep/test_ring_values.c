/* Each way to remove rings on sinograms for which theory says what comes out: scenes without
 * stripes that must pass, stripes that must go, and the limits between what is taken for a stripe
 * and what is not. */
#include "prep/prep_test.h"

enum { V = 64, C = 256 };

static float sinogram[V * 3200], before[V * 3200];

static void clean(const tomos_prep_options *o, int64_t views, int64_t columns)
{
	tomos_array a = tomos_array_of(sinogram, views, 1, columns);
	memcpy(before, sinogram, sizeof *before * (size_t)(views * columns));
	OK(tomos_prep_rings(&a, o, NULL));
}

static tomos_prep_options by(const char *method)
{
	tomos_prep_options o = tomos_prep_defaults();
	o.rings = method;
	return o;
}

/* The largest difference of columns from .. to - 1 from the expected values. */
static double farthest(int64_t views, int64_t columns, int64_t from, int64_t to,
	double (*wanted)(int64_t v, int64_t c))
{
	double most = 0;
	for (int64_t v = 0; v < views; v++)
		for (int64_t c = from; c < to; c++)
			most = fmax(most, fabs(sinogram[v * columns + c] - wanted(v, c)));
	return most;
}

/* What turns: rises and falls along the views, the same in all columns. */
static double swing(int64_t v, int64_t c)
{
	(void)c;
	return 1 + 0.5 * sin(2 * M_PI * (double)v / V) + 0.1 * cos(14 * M_PI * (double)v / V);
}

static double slope(int64_t v, int64_t c)
{
	return swing(v, c) + 0.002 * (double)c;
}

static void fill(double (*value)(int64_t v, int64_t c), int64_t columns)
{
	for (int64_t i = 0; i < V * columns; i++)
		sinogram[i] = (float)value(i / columns, i % columns);
}

static void add_stripe(int64_t columns, int64_t from, int64_t to, double height)
{
	for (int64_t v = 0; v < V; v++)
		for (int64_t c = from; c < to; c++)
			sinogram[v * columns + c] += (float)height;
}

/* ---- scenes without stripes ------------------------------------------------------------------ */

/* What does not change across columns is no stripe to any of them, nor is a slope, away from the
 * edges. */
static void plain_scenes_pass(void **state)
{
	(void)state;
	static const char *const methods[] = {"vo", "wavelet", "titarenko"};
	for (int m = 0; m < 3; m++) {
		tomos_prep_options o = by(methods[m]);
		fill(swing, C);
		clean(&o, V, C);
		double flat = farthest(V, C, 0, C, swing);
		fill(slope, C);
		clean(&o, V, C);
		double slant = farthest(V, C, 80, C - 80, slope);
		printf("  %s: changed by %.1e, a slope by %.1e\n", methods[m], flat, slant);
		assert_true(flat < 2e-6 && slant < 2e-5);
	}
}

/* A whole scan without noise, against itself: vo's median rounds edges; the others take for a
 * stripe what stays in a column. */
static void scans_pass(void **state)
{
	(void)state;
	static const struct {
		const char *method;
		double changed;
	} list[] = {{"vo", 0.008}, {"wavelet", 0.026}, {"titarenko", 0.015}};
	for (int m = 0; m < 3; m++) {
		Scene s = scene_make(181, 1, C, 127.5, 180, 110);
		float *truth = copy_of(s.data, s.count);
		tomos_prep_options o = by(list[m].method);
		OK(tomos_prep_rings(&s.array, &o, NULL));
		double changed = case_difference(s.data, truth, s.count);
		printf("  %s: a scan without stripes changed by %.4f\n", list[m].method, changed);
		assert_true(changed < list[m].changed);
		free(truth);
		scene_free(&s);
	}
}

/* ---- vo: small stripes ----------------------------------------------------------------------- */

/* Where all columns turn alike a stripe narrower than half the median's window goes without a
 * trace, and one that is as wide stays. Windows are 1 % of the columns, 7 to 21. */
static void small_stripes(void **state)
{
	(void)state;
	static const struct {
		int64_t columns, window, given;
	} list[] = {{C, 7, 0}, {1500, 15, 0}, {3000, 21, 0}, {C, 11, 11}, {C, 5, 5}};
	for (int k = 0; k < COUNT(list); k++)
		for (int wide = 0; wide < 2; wide++) {
			int64_t n = list[k].columns, width = list[k].window / 2 + wide;
			tomos_prep_options o = by("vo");
			o.ring_small = list[k].given;
			o.ring_large = 1;
			fill(swing, n);
			add_stripe(n, 100, 100 + width, 0.03);
			clean(&o, V, n);
			double left = farthest(V, n, 0, n, swing);
			if (!(wide ? left > 0.029 : left < 1e-6))
				fail_msg("%d columns, %d wide: %g left", (int)n, (int)width, left);
		}
}

/* The ring of one column of whatever size, up or down, that keeps the order of the views. */
static void small_stripes_of_any_height(void **state)
{
	(void)state;
	for (double height = -0.4; height < 0.5; height += 0.2) {
		tomos_prep_options o = by("vo");
		o.ring_large = 1;
		fill(swing, C);
		add_stripe(C, 77, 78, height);
		clean(&o, V, C);
		assert_true(farthest(V, C, 0, C, swing) < 1e-6);
	}
}

/* ---- vo: broken columns ---------------------------------------------------------------------- */

static double noisy(int64_t v, int64_t c)
{
	uint64_t random = (uint64_t)(v * 7919 + c * 104729 + 12345);
	noise_of(&random);
	return slope(v, c) + 0.002 * noise_of(&random);
}

/* A column with the same value in all views is replaced by interpolation between the columns two
 * away from it; the others do not change. */
static void dead_columns(void **state)
{
	(void)state;
	tomos_prep_options o = by("vo");
	tomos_prep_report report = {.bytes = sizeof report};
	o.ring_small = 1;
	fill(noisy, C);
	for (int64_t v = 0; v < V; v++)
		sinogram[v * C + 90] = 0.4F;
	memcpy(before, sinogram, sizeof before);
	tomos_array a = tomos_array_of(sinogram, V, 1, C);
	OK(tomos_prep_rings(&a, &o, &report));
	assert_int_equal(report.stripes, 1);
	for (int64_t v = 0; v < V; v++)
		for (int64_t c = 0; c < C; c++) {
			double left = before[v * C + 88], right = before[v * C + 92];
			double wanted = c >= 89 && c <= 91
						? left + (right - left) * (double)(c - 88) / 4
						: before[v * C + c];
			assert_true(fabs(sinogram[v * C + c] - wanted) < 1e-6);
		}
}

/* What stands still between what does not is no stripe: nothing there is less usual than
 * nothing. */
static void still_columns(void **state)
{
	(void)state;
	tomos_prep_options o = by("vo");
	o.ring_small = 1;
	for (int64_t i = 0; i < V * C; i++) {
		bool still = i % C >= 60 && i % C < C - 60;
		sinogram[i] = (float)(still ? 1 : 0.2 + (i / C % 2 ? 0.01 : -0.01));
	}
	clean(&o, V, C);
	assert_memory_equal(sinogram, before, sizeof *before * V * C);
}

/* Unrest of ring_snr times the usual is broken, less is not. */
static void restless_columns(void **state)
{
	(void)state;
	for (int k = 0; k < 4; k++) {
		double times = k % 2 ? 1.25 : 0.75, snr = k / 2 ? 6 : 3;
		tomos_prep_options o = by("vo");
		tomos_prep_report report = {.bytes = sizeof report};
		o.ring_small = 1, o.ring_snr = snr;
		/* zigzags of 0.01 in all columns, and a larger one about a level far away */
		for (int64_t i = 0; i < V * C; i++)
			sinogram[i] = (float)(1 +
					      (i / C % 2 ? 0.01 : -0.01) *
						      (i % C == 90 ? times * snr : 1) +
					      (i % C == 90 ? 0.9 : 0));
		tomos_array a = tomos_array_of(sinogram, V, 1, C);
		OK(tomos_prep_rings(&a, &o, &report));
		if (report.stripes != k % 2)
			fail_msg("%g times the unrest: %d stripes", times * snr,
				(int)report.stripes);
	}
}

/* ---- vo: large stripes ----------------------------------------------------------------------- */

/* Columns 3 % of all of them, 15 to 61: stripes up to half of that wide are levelled, wider ones
 * stay, and so do those that the small median takes. */
static void large_stripes(void **state)
{
	(void)state;
	static const struct {
		int64_t columns, given, width;
		bool found;
	} list[] = {{C, 0, 7, true}, {C, 0, 8, false}, {C, 0, 4, true}, {C, 0, 3, false},
		{1000, 0, 15, true}, {1000, 0, 16, false}, {3000, 0, 30, true},
		{3000, 0, 31, false}, {C, 41, 20, true}, {C, 41, 21, false}};
	for (int k = 0; k < COUNT(list); k++) {
		int64_t n = list[k].columns;
		tomos_prep_options o = by("vo");
		tomos_prep_report report = {.bytes = sizeof report};
		o.ring_large = list[k].given;
		fill(swing, n);
		add_stripe(n, 100, 100 + list[k].width, 0.05);
		tomos_array a = tomos_array_of(sinogram, V, 1, n);
		OK(tomos_prep_rings(&a, &o, &report));
		double left = farthest(V, n, 0, n, swing);
		if (report.stripes != (list[k].found ? list[k].width : 0) ||
			(list[k].found && !(left < 1e-6)))
			fail_msg("%d columns, %d wide: %d found, %g left", (int)n,
				(int)list[k].width, (int)report.stripes, left);
	}
}

/* Columns in turn 0.001 up and down, so that the usual step over three columns, less their median,
 * is 0.004 or nothing, and a stripe has to stand out by 3 x ring_snr of it, 0.036; less than half
 * of the columns are the object, the others count only where they are no air. */
static int64_t stripes_of(double first, double second, double after, double beside)
{
	tomos_prep_options o = by("vo");
	tomos_prep_report report = {.bytes = sizeof report};
	tomos_array a = tomos_array_of(sinogram, V, 1, C);
	o.ring_small = 5;
	fill(swing, C);
	for (int64_t i = 0; i < V * C; i++) {
		int64_t c = i % C;
		if (c >= 110)
			sinogram[i] *= (float)beside;
		sinogram[i] += (c % 2 ? 0.001F : -0.001F) * (c < 110 ? 1.0F : 0.3F);
		if (c >= 50)
			sinogram[i] += (float)(c >= 57 ? after
						       : first + ((double)(c - 50) + 0.5) / 7 *
									 (second - first));
	}
	memcpy(before, sinogram, sizeof before);
	OK(tomos_prep_rings(&a, &o, &report));
	return report.stripes;
}

static void stripes_that_stand_out(void **state)
{
	(void)state;
	assert_int_equal(stripes_of(0.045, 0.045, 0, 0.05), 7);
	assert_int_equal(stripes_of(0.028, 0.028, 0, 0.05), 0);
	assert_int_equal(stripes_of(-0.045, -0.045, 0, 0.05), 7);
	assert_int_equal(stripes_of(0.028, 0.028, 0, 0.3), 7); /* no air: less is usual */
	assert_int_equal(stripes_of(0.12, 0.075, 0, 0.05), 7);
	for (int64_t v = 0; v < V; v++)
		for (int64_t c = 50; c < 57; c++)
			assert_true(fabs(sinogram[v * C + c] - swing(v, c)) < 0.012);
	assert_int_equal(
		stripes_of(0.12, 0.12, 0.075, 0.05), 0); /* not up and down by about the same */
	assert_int_equal(stripes_of(0.05, 0.05, -0.06, 0.05), 0);
}

/* A restless column where the object has a step of 0.6: it must lie farther from the middle of the
 * columns two away than these are apart, and by ring_snr times the usual unrest of 0.02 more. */
static void restless_columns_at_steps(void **state)
{
	(void)state;
	for (int k = 0; k < 2; k++) {
		tomos_prep_options o = by("vo");
		tomos_prep_report report = {.bytes = sizeof report};
		tomos_array a = tomos_array_of(sinogram, V, 1, C);
		o.ring_small = 1;
		for (int64_t i = 0; i < V * C; i++) {
			int64_t c = i % C;
			double zigzag = i / C % 2 ? 0.01 : -0.01, value = c > 90 ? 1.6 : 1;
			if (c == 89)
				value = 1.5; /* touched by it */
			if (c == 90)
				value = 1.3 + (k ? 0.69 : 0.63), zigzag *= 5;
			sinogram[i] = (float)(value + zigzag);
		}
		OK(tomos_prep_rings(&a, &o, &report));
		assert_int_equal(report.stripes, k);
	}
}

/* ---- titarenko ------------------------------------------------------------------------------- */

/* A stripe of one column, h high: with e = alpha the offsets solve (D'D + e) q = D'D h, and far
 * from the edges q = h (1 - e / sqrt(e^2 + 4 e)) there, and -h e / sqrt(e^2 + 4 e) t^|n| n columns
 * on, with t = 1 + e / 2 - sqrt(e + e^2 / 4). */
static void offsets(void **state)
{
	(void)state;
	static const double alphas[] = {0.1, 0.02, 1};
	for (int k = 0; k < 3; k++) {
		double e = alphas[k], root = sqrt(e * e + 4 * e), t = 1 + 0.5 * e - 0.5 * root;
		tomos_prep_options o = by("titarenko");
		o.ring_alpha = e;
		fill(swing, C);
		add_stripe(C, 100, 101, 0.2);
		clean(&o, V, C);
		for (int64_t v = 0; v < V; v++)
			for (int64_t c = 0; c < C; c++) {
				double q = 0.2 *
					   ((c == 100) - e / root * pow(t, fabs((double)c - 100)));
				double now = (double)before[v * C + c] - sinogram[v * C + c];
				if (!(fabs(now - q) < 2e-6))
					fail_msg("alpha %g, column %d: %g, not %g", e, (int)c, now,
						q);
			}
	}
	assert_true(tomos_prep_defaults().ring_alpha == 0.1);
}

/* The first column has one neighbour: (1 + e) q0 - q1 = h there, and t as above further in. */
static void offset_of_the_first(void **state)
{
	(void)state;
	double e = 0.1, t = 1 + 0.5 * e - 0.5 * sqrt(e * e + 4 * e);
	tomos_prep_options o = by("titarenko");
	fill(swing, C);
	add_stripe(C, 0, 1, 0.2);
	clean(&o, V, C);
	for (int64_t c = 0; c < 20;
		c++) { /* h less the solution of (D'D + e) x = e h in column 0 */
		double q = 0.2 * ((c == 0) - e / (1 + e - t) * pow(t, (double)c));
		double now = (double)before[c] - sinogram[c];
		assert_true(fabs(now - q) < 2e-6);
	}
}

/* ---- wavelets -------------------------------------------------------------------------------- */

/* Stripes of every other column that change as f waves per scan keep 1 - exp(-f^2 / 2 sigma^2) of
 * themselves; what has no details across columns keeps all. */
static void damping(void **state)
{
	(void)state;
	static const double sigmas[] = {1, 2.5};
	enum { WIDE = 256, LONG = 256 };
	for (int k = 0; k < 2; k++)
		for (int f = 0; f < 8; f++) {
			tomos_prep_options o = by("wavelet");
			double sigma = sigmas[k], keeps = 1 - exp(-0.5 * f * f / (sigma * sigma)),
			       most = 0;
			static float wave[LONG * WIDE];
			tomos_array a = tomos_array_of(wave, LONG, 1, WIDE);
			o.ring_sigma = sigma;
			for (int i = 0; i < LONG * WIDE; i++)
				wave[i] = (float)(cos(2 * M_PI * f * (double)(i / WIDE) / LONG +
							  0.4) *
						  (i % 2 ? 1 : -1));
			OK(tomos_prep_rings(&a, &o, NULL));
			for (int i = 0; i < LONG * WIDE; i++) {
				if (i % WIDE < 80 || i % WIDE >= WIDE - 80)
					continue; /* mirror images, no longer in phase */
				double was = cos(2 * M_PI * f * (double)(i / WIDE) / LONG + 0.4) *
					     (i % 2 ? 1 : -1);
				most = fmax(most, fabs(wave[i] - keeps * was));
			}
			printf("  sigma %g, %d waves: %.2g\n", sigma, f, most);
			assert_true(most < 2e-4);
		}
}

/* Stripes up to 2^levels columns wide go: their wavelengths are in the details. */
static void levels(void **state)
{
	(void)state;
	for (int count = 2; count <= 5; count++) {
		tomos_prep_options o = by("wavelet");
		o.ring_levels = count;
		for (int k = 0; k < 2;
			k++) { /* waves of 2^count columns, and of eight times as many */
			double wide = (double)(1 << count) * (k ? 8 : 1), most = 0;
			for (int64_t i = 0; i < V * C; i++)
				sinogram[i] = (float)cos(2 * M_PI * ((double)(i % C) + 0.5) / wide);
			clean(&o, V, C);
			for (int64_t i = 0; i < V * C; i++)
				most = fmax(most, fabs(sinogram[i] - (k ? before[i] : 0)));
			if (!(most < (k ? 0.006 : 1e-5)))
				fail_msg("%d levels, %g columns: off by %g", count, wide, most);
		}
	}
}

#define TESTS(T) \
	T(plain_scenes_pass), T(scans_pass), T(small_stripes), T(small_stripes_of_any_height), \
		T(dead_columns), T(still_columns), T(restless_columns), T(large_stripes), \
		T(stripes_that_stand_out), T(restless_columns_at_steps), T(offsets), \
		T(offset_of_the_first), T(damping), T(levels)
TEST_MAIN(TESTS, NULL, NULL)
