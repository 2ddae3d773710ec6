/* The whole preparation: a simulated scan with all that can be wrong, the order of the steps, what
 * they need, rejections, and every allocation failing in turn. */
#include "prep/prep_test.h"

enum { VIEWS = 120, ROWS = 6, COLUMNS = 160 };

/* Counts of an object with uneven, drifting light, noise, rings, zingers and a bad view. */
static Scene spoilt_scene(Light *l, float **truth)
{
	Scene s = scene_make(VIEWS, ROWS, COLUMNS, 79.5, 180, 70);
	uint64_t random = 2;
	int64_t plane = ROWS * COLUMNS;
	*truth = copy_of(s.data, s.count);
	*l = light_make(&s, 0.1, 5, &random);
	for (int64_t i = 0; i < s.count; i++)
		if (i % COLUMNS == 40 || i % COLUMNS == 99)
			s.data[i] *= 0.93F;
	for (int64_t i = 500; i < s.count; i += 1999)
		s.data[i] += 16000;
	for (int64_t j = 0; j < plane; j++)
		s.data[17 * plane + j] = 0;
	return s;
}

static const int64_t bad_views[] = {17};

static tomos_prep_options all_options(void)
{
	tomos_prep_options o = tomos_prep_defaults();
	o.bad_views = bad_views, o.bad_views_count = 1;
	o.zingers = "both";
	o.rings = "vo";
	return o;
}

static void test_whole(void **state)
{
	(void)state;
	Light l;
	float *truth;
	Scene s = spoilt_scene(&l, &truth);
	tomos_prep_options o = all_options();
	tomos_prep_report report = {.bytes = sizeof report};
	float *plain = copy_of(s.data, s.count);
	tomos_array plain_array = tomos_array_of(plain, VIEWS, ROWS, COLUMNS);
	OK(tomos_prepare(&plain_array, light_fields(&l), NULL, &plain_array, NULL, NULL));
	OK(tomos_prepare(&s.array, light_fields(&l), &o, &s.array, &report, NULL));
	double before = case_difference(plain, truth, s.count);
	double after = case_difference(s.data, truth, s.count);
	printf("  relative error %.4f without cleaning, %.4f with; %lld zingers, %lld stripes\n",
		before, after, (long long)report.zingers, (long long)report.stripes);
	assert_true(after < 0.025 && before > 10 * after);
	assert_int_equal(report.views, 1);
	assert_int_equal(report.repaired, 0);
	assert_true(report.zingers >= 50 && report.zingers <= 65);
	free(plain);
	free(truth);
	light_free(&l);
	scene_free(&s);
}

/* Line integrals that are not finite come from beside them; a row without any is empty. */
static void test_integrals(void **state)
{
	(void)state;
	Scene s = scene_make(VIEWS, ROWS, COLUMNS, 79.5, 180, 70);
	tomos_prep_report report = {.bytes = sizeof report};
	float *row = s.data + COLUMNS, left = s.data[9], right = s.data[11];
	s.data[10] = NAN;
	for (int64_t c = 0; c < COLUMNS; c++)
		row[c] = c % 2 ? INFINITY : -INFINITY;
	OK(tomos_prepare(&s.array, NULL, NULL, &s.array, &report, NULL));
	assert_int_equal(report.repaired, 1 + COLUMNS);
	assert_float_equal(s.data[10], 0.5F * (left + right), 1e-6);
	for (int64_t c = 0; c < COLUMNS; c++)
		assert_true(row[c] == 0);
	scene_free(&s);
}

/* Slabs of rows with the margin that tomos_prep_reach asks for give the same bits as all rows. */
static void test_slabs(void **state)
{
	(void)state;
	Light l, m;
	float *truth, *other;
	Scene s = spoilt_scene(&l, &truth), t = spoilt_scene(&m, &other);
	double y[VIEWS], x[VIEWS];
	for (int i = 0; i < VIEWS; i++)
		y[i] = 0.3 * sin(i), x[i] = cos(i);
	tomos_prep_options o = all_options();
	tomos_reach reach = {.bytes = sizeof reach};
	o.shift_y = y, o.shift_y_count = VIEWS;
	o.shift_x = x, o.shift_x_count = VIEWS;
	OK(tomos_prep_reach(&o, &reach));
	assert_int_equal(reach.rows, 1 + 3);
	assert_true(reach.all_views && !reach.all_rows);
	OK(tomos_set_threads(3));
	OK(tomos_prepare(&s.array, light_fields(&l), &o, &s.array, NULL, NULL));
	OK(tomos_set_threads(1));
	for (int64_t row = 0; row < ROWS; row += 2) {
		int64_t from = max64(row - reach.rows, 0), to = min64(row + 2 + reach.rows, ROWS);
		int64_t n = to - from;
		float *slab = malloc((size_t)(VIEWS * n * COLUMNS) * sizeof *slab);
		tomos_array part = tomos_array_of(slab, VIEWS, n, COLUMNS);
		tomos_array rows[3] = {t.array, m.flat_array, m.dark_array};
		for (int k = 0; k < 3; k++)
			rows[k].data += from * COLUMNS, rows[k].shape[1] = n;
		for (int64_t v = 0; v < VIEWS; v++)
			frame_get(&rows[0], v, slab + v * n * COLUMNS);
		tomos_fields fields = {sizeof fields, &rows[1], &rows[2], m.flat_views, 0};
		OK(tomos_prepare(&part, &fields, &o, &part, NULL, NULL));
		for (int64_t v = 0; v < VIEWS; v++)
			assert_memory_equal(s.data + (v * ROWS + row) * COLUMNS,
				slab + (v * n + row - from) * COLUMNS, 2 * COLUMNS * sizeof *slab);
		free(slab);
	}
	OK(tomos_set_threads(0));
	free(truth), free(other);
	light_free(&l), light_free(&m);
	scene_free(&s), scene_free(&t);
}

/* Views left out and pixels binned: the shape and the scan say so, and the values are the right
 * ones. */
static void test_shape(void **state)
{
	(void)state;
	static const int64_t bad[] = {1, 3};
	float data[5 * 2 * 4], out[3 * 1 * 2];
	tomos_prep_options o = tomos_prep_defaults();
	tomos_scan_options scan_options = tomos_scan_defaults();
	tomos_geometry *scan, *less;
	const int64_t from[3] = {5, 2, 4}, wanted[3] = {3, 1, 2};
	int64_t shape[3];
	o.bad_views = bad, o.bad_views_count = 2, o.leave_out = 1, o.bin = 2;
	OK(tomos_prep_shape(&o, from, shape));
	assert_memory_equal(shape, wanted, sizeof shape);
	for (int i = 0; i < 40; i++)
		data[i] = (float)(i / 8 * 100 + i % 4 / 2);
	tomos_array a = tomos_array_of(data, 5, 2, 4), b = tomos_array_of(out, 3, 1, 2);
	OK(tomos_prepare(&a, NULL, &o, &b, NULL, NULL));
	static const float expected[] = {0, 1, 200, 201, 400, 401};
	assert_memory_equal(out, expected, sizeof out);
	scan_options.views = 5, scan_options.rows = 2, scan_options.columns = 4;
	OK(tomos_geometry_make(&scan, &scan_options));
	OK(tomos_prep_geometry(&less, scan, &o));
	assert_int_equal(tomos_geometry_count(less), 3);
	assert_int_equal(tomos_geometry_columns(less), 2);
	assert_memory_equal(tomos_geometry_list(less)[1].src, tomos_geometry_list(scan)[2].src,
		4 * sizeof(double));
	tomos_geometry_free(scan);
	tomos_geometry_free(less);
}

#define NO(call, words) REJECTED(call, TOMOS_BAD_VALUE, words)

/* The same steps in another order, and quantities that are past some of them. */
static void test_order(void **state)
{
	(void)state;
	float data[3] = {0.5F, 0.25F, 1}, same[3] = {0.5F, 0.25F, 1};
	tomos_array a = tomos_array_of(data, 1, 1, 3), b = tomos_array_of(same, 1, 1, 3);
	static const double twice[] = {2};
	tomos_prep_options o = tomos_prep_defaults();
	o.hardening = twice, o.hardening_count = 1;
	o.quantity = "transmission";
	OK(tomos_prepare(&a, NULL, &o, &a, NULL, NULL));
	assert_true(fabs(data[0] + 2 * log(0.5)) < 1e-6);
	o.quantity = "auto"; /* without flats: line integrals */
	OK(tomos_prepare(&b, NULL, &o, &b, NULL, NULL));
	assert_true(same[0] == 1);
	o.steps = "";
	NO(tomos_prepare(&b, NULL, &o, &b, NULL, NULL),
		"hardening has no effect without hardening in steps");
	o.hardening = NULL, o.hardening_count = 0;
	OK(tomos_prepare(&b, NULL, &o, &b, NULL, NULL));
	assert_true(same[0] == 1);
	o.floor = 0.1;
	NO(tomos_prepare(&b, NULL, &o, &b, NULL, NULL),
		"floor has no effect without data that are not line integrals yet");
}

static int stop(void *user, const char *stage, int64_t done, int64_t total, double value)
{
	(void)stage, (void)value;
	*(int64_t *)user = total;
	return done == 1;
}

static void test_rejected(void **state)
{
	(void)state;
	float data[24] = {0}, image[6] = {1, 1, 1, 1, 1, 1};
	tomos_array a = tomos_array_of(data, 4, 2, 3), flat = tomos_array_of(image, 1, 2, 3);
	tomos_array wide = tomos_array_of(image, 1, 1, 6);
	tomos_fields fields = {sizeof fields, &flat, NULL, NULL, 0}, none = {.bytes = sizeof none},
		     other = {sizeof other, &wide, NULL, NULL, 0};
	tomos_prep_options o = tomos_prep_defaults(), bad = o;
	int64_t shape[3];
	NO(tomos_prep_normalize(&a, NULL, &o, NULL), "there are no flats");
	NO(tomos_prep_normalize(&a, &none, &o, NULL), "there are no flats");
	NO(tomos_prep_normalize(NULL, &fields, &o, NULL), "no array for the counts");
	NO(tomos_prep_normalize(&a, &other, &o, NULL),
		"the flats have 1 rows x 6 columns, but the views have 2 x 3");
	other = (tomos_fields){sizeof(tomos_fields), &flat, &wide, NULL, 0};
	NO(tomos_prep_normalize(&a, &other, &o, NULL), "the darks have 1 rows");
	double where = NAN;
	other = (tomos_fields){sizeof(tomos_fields), &flat, NULL, &where, 0};
	NO(tomos_prep_normalize(&a, &other, &o, NULL), "flat 0 was taken at view nan");
	bad.flat_average = "most";
	NO(tomos_prep_normalize(&a, &fields, &bad, NULL), "flat-average 'most' is not known");
	bad = o, bad.drift = "slow";
	NO(tomos_prep_normalize(&a, &fields, &bad, NULL), "drift 'slow' is not known");
	bad = o, bad.floor = 0;
	NO(tomos_prep_log(&a, &bad, NULL), "floor 0: it must be above 0 and below 1");
	bad = o, bad.zingers = "all";
	NO(tomos_prep_zingers(&a, &bad, NULL), "zingers 'all' is not known");
	bad = o, bad.zingers = "both", bad.zinger_size = 2;
	NO(tomos_prep_zingers(&a, &bad, NULL), "zinger-size 2: it must be odd");
	bad = o, bad.zingers = "both", bad.zinger_level = 0;
	NO(tomos_prep_zingers(&a, &bad, NULL), "zinger-level 0: it must be above 0");
	int64_t views[] = {0, 4}, all[] = {0, 1, 2, 3};
	bad = o, bad.bad_views = views, bad.bad_views_count = 2;
	NO(tomos_prep_bad_views(&a, &bad, NULL), "bad view 4: the views are 0 to 3");
	NO(tomos_prep_shape(&bad, a.shape, shape), "bad view 4");
	bad.bad_views = all, bad.bad_views_count = 4;
	NO(tomos_prep_bad_views(&a, &bad, NULL), "all 4 views are bad ones");
}

static void test_rejected_steps(void **state)
{
	(void)state;
	float data[24] = {0}, image[6] = {1, 1, 1, 1, 1, 1};
	tomos_array a = tomos_array_of(data, 4, 2, 3), flat = tomos_array_of(image, 1, 2, 3);
	tomos_fields fields = {sizeof fields, &flat, NULL, NULL, 0};
	tomos_prep_options o = tomos_prep_defaults(), bad = o;
	int64_t shape[3], total = 0;
	tomos_geometry *scan;
	tomos_reach reach = {.bytes = sizeof reach};
	double shifts[] = {0, 1, NAN, 0};
	bad = o, bad.shift_x = shifts, bad.shift_x_count = 2;
	NO(tomos_prep_shift(&a, &bad, NULL), "shift-x has 2 values, for 4 views");
	bad.shift_x_count = 4;
	NO(tomos_prep_shift(&a, &bad, NULL), "shift-x of view 2 is nan");
	bad = o, bad.shift_y = shifts + 1, bad.shift_y_count = 1, bad.shift_by = "sinc";
	NO(tomos_prep_shift(&a, &bad, NULL), "shift-by 'sinc' is not known");
	double nothing[] = {0, 0};
	bad = o, bad.hardening = nothing, bad.hardening_count = 2;
	NO(tomos_prep_hardening(&a, &bad, NULL), "hardening: all 2 coefficients are 0");
	bad = o, bad.phase = "paganin";
	NO(tomos_prep_phase(&a, &bad, NULL), "phase retrieval: pixel is 0 mm");
	bad.pixel = 1, bad.distance = 1, bad.energy = -1;
	NO(tomos_prep_phase(&a, &bad, NULL), "phase retrieval: energy is -1 keV");
	bad.phase = "ctf";
	NO(tomos_prep_phase(&a, &bad, NULL), "phase 'ctf' is not known");
	bad = o, bad.hardening = shifts, bad.hardening_count = 3;
	NO(tomos_prep_hardening(&a, &bad, NULL), "hardening nan: it must be from -1e+30 to 1e+30");
	NO(tomos_prep_bin(&a, 3, &flat),
		"bin 3: it must be 1 to the smaller of 2 rows and 3 columns");
	NO(tomos_prep_bin(&a, 2, &flat), "the shape of the binned views is 1 x 2 x 3");
	bad = o, bad.bin = 0;
	NO(tomos_prep_shape(&bad, a.shape, shape), "bin 0");
	NO(tomos_prep_geometry(&scan, NULL, &o), "there is no geometry");
	bad = o, bad.steps = "log,zinger";
	NO(tomos_prep_reach(&bad, &reach), "step 'zinger' is not known");
	bad.steps = "log,log";
	NO(tomos_prep_reach(&bad, &reach), "steps: step 'log' stands there twice");
	bad.steps = "a-step-with-a-name-longer-than-any-other";
	NO(tomos_prep_reach(&bad, &reach),
		"step 'a-step-with-a-name-longer-than-any-other' is not known");
	bad = o, bad.steps = "log,zingers", bad.zingers = "both", bad.quantity = "transmission";
	NO(tomos_prepare(&a, NULL, &bad, &a, NULL, NULL),
		"step 'zingers' is for transmission, but the data are line integrals there");
	bad = o, bad.quantity = "counts";
	NO(tomos_prepare(&a, NULL, &bad, &a, NULL, NULL), "there are no flats");
	bad.quantity = "volts";
	NO(tomos_prepare(&a, NULL, &bad, &a, NULL, NULL), "quantity 'volts' is not known");
	NO(tomos_prepare(&a, NULL, &o, &flat, NULL, NULL), "the shape of the prepared data");
#undef NO
	tomos_progress progress = {stop, &total};
	REJECTED(tomos_prepare(&a, &fields, &o, &a, NULL, &progress), TOMOS_CANCELLED,
		"cancelled during step 'normalize' of the preparation");
	assert_int_equal(total, 2);
	assert_non_null(strstr(tomos_prep_steps(), "normalize|bad-views|"));
}

/* Everything at once on a few pixels, with the nth allocation failing. */
static tomos_status prepare_small(const char *rings)
{
	float data[6 * 3 * 8], image[24], out[5 * 1 * 4];
	static const int64_t bad[] = {2};
	static const double twice[] = {2}, shift[] = {0.5};
	for (int i = 0; i < 144; i++)
		data[i] = i < 24 ? (image[i] = 2) : 1;
	tomos_array a = tomos_array_of(data, 6, 3, 8), flat = tomos_array_of(image, 1, 3, 8);
	tomos_array b = tomos_array_of(out, 5, 1, 4);
	tomos_fields fields = {sizeof fields, &flat, NULL, NULL, 0};
	tomos_prep_options o = tomos_prep_defaults();
	o.bad_views = bad, o.bad_views_count = 1, o.leave_out = 1;
	o.hardening = twice, o.hardening_count = 1;
	o.shift_x = shift, o.shift_x_count = 1;
	o.zingers = "both", o.rings = rings, o.bin = 2;
	o.phase = "paganin", o.pixel = 1e-3, o.distance = 10, o.energy = 20, o.delta_beta = 100;
	return tomos_prepare(&a, &fields, &o, &b, NULL, NULL);
}

static void test_memory(void **state)
{
	(void)state;
	static const char *const methods[] = {"vo", "wavelet", "titarenko"};
	for (int m = 0; m < 3; m++) {
		int failures = 0;
		for (;; failures++) {
			int64_t before = mem_live();
			mem_fail_nth(failures + 1);
			tomos_status status = prepare_small(methods[m]);
			mem_fail_nth(0);
			assert_int_equal(mem_live(), before);
			if (status == TOMOS_OK)
				break;
			assert_int_equal(status, TOMOS_NO_MEMORY);
			assert_non_null(strstr(tomos_message(), "no memory for "));
			assert_true(failures < 1000);
		}
		assert_true(failures >= 15);
	}
}

#define TESTS(T) \
	T(test_whole), T(test_integrals), T(test_slabs), T(test_shape), T(test_order), \
		T(test_rejected), T(test_rejected_steps), T(test_memory)
TEST_MAIN(TESTS, NULL, NULL)
