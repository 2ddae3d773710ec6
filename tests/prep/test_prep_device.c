/* Preparation on a device against the same in host memory: every step alone, in unusual orders and
 * all together, for all stored types, layouts and odd sizes. */
#include "prep/device_help.h"

/* ---- cases ----------------------------------------------------------------------------------- */

typedef struct {
	const char *name;
	void (*set)(tomos_prep_options *o);
	double light; /* 0: line integrals; below 0: transmissions */
} PrepCase;

static const int64_t bad_list[] = {0, 3, 4};
static const double bend[] = {0.9, 0.05, -0.01};
static const double shift_by[] = {-1.3};
static double shift_list[2][4096];

#define SETTING(name, ...) \
	static void set_##name(tomos_prep_options *o) \
	{ \
		__VA_ARGS__; \
	}
SETTING(nothing, (void)o)
SETTING(normalize, o->steps = "normalize")
SETTING(median, o->flat_average = "median")
SETTING(nearest, o->drift = "nearest"; o->floor = 0.2)
SETTING(no_drift, o->drift = "none")
SETTING(bad_views, o->bad_views = bad_list; o->bad_views_count = 3)
SETTING(leave_out, set_bad_views(o); o->leave_out = 1)
SETTING(bad_first, set_bad_views(o); o->steps = "bad-views,normalize,log,hardening")
SETTING(space, o->zingers = "space")
SETTING(time, o->zingers = "time"; o->zinger_size = 5)
SETTING(both, o->zingers = "both")
SETTING(wide, o->zingers = "both"; o->zinger_size = 99; o->zinger_level = 0.05)
SETTING(wide_space, o->zingers = "space"; o->zinger_size = 7)
SETTING(vo, o->rings = "vo")
SETTING(vo_small, o->rings = "vo"; o->ring_large = 1; o->ring_small = 23)
SETTING(vo_large, o->rings = "vo"; o->ring_small = 1; o->ring_snr = 1.5)
SETTING(vo_three, o->rings = "vo"; o->ring_small = 3; o->ring_large = 31)
SETTING(wavelet, o->rings = "wavelet")
SETTING(haar, o->rings = "wavelet"; o->ring_wavelet = "db1"; o->ring_levels = 1; o->ring_sigma = 4)
SETTING(db10, o->rings = "wavelet"; o->ring_wavelet = "db10"; o->ring_levels = 3;
	o->ring_sigma = 0.3)
SETTING(titarenko, o->rings = "titarenko"; o->ring_alpha = 0.01)
SETTING(shift_one, o->shift_x = shift_by; o->shift_x_count = 1; o->shift_by = "linear")
SETTING(phase, o->phase = "paganin"; o->pixel = 0.001; o->distance = 2; o->energy = 20;
	o->delta_beta = 300)
SETTING(hardening, o->hardening = bend; o->hardening_count = 3)
SETTING(bin, o->bin = 2)
SETTING(bin_first, o->bin = 3; o->rings = "vo"; set_phase(o); set_hardening(o);
	o->steps = "normalize,bin,log,hardening,rings,phase")
SETTING(all, o->zingers = "both"; o->rings = "vo"; set_bad_views(o); set_hardening(o); set_phase(o);
	o->bin = 2; o->leave_out = 1)
SETTING(reversed, o->rings = "wavelet"; set_phase(o); set_hardening(o);
	o->steps = "normalize,log,hardening,phase,rings")

static const PrepCase cases[] = {
	{"flat field and log", set_nothing, 30000},
	{"flat field", set_normalize, 30000},
	{"medians of flats", set_median, 30000},
	{"nearest flats", set_nearest, 30000},
	{"mean of flats", set_no_drift, 30000},
	{"bad views", set_bad_views, 30000},
	{"bad views left out", set_leave_out, 30000},
	{"bad views first", set_bad_first, 30000},
	{"zingers in space", set_space, 30000},
	{"zingers in time", set_time, 30000},
	{"zingers in both", set_both, 30000},
	{"zingers, wide window", set_wide, 30000},
	{"zingers in space, wider", set_wide_space, 30000},
	{"zingers among transmissions", set_both, -1},
	{"transmissions", set_nothing, -1},
	{"line integrals", set_nothing, 0},
	{"rings: vo", set_vo, 30000},
	{"rings: vo, integrals", set_vo, 0},
	{"rings: vo, small stripes", set_vo_small, 30000},
	{"rings: vo, large stripes", set_vo_large, 30000},
	{"rings: vo, three columns", set_vo_three, 30000},
	{"rings: wavelet", set_wavelet, 30000},
	{"rings: wavelet db1", set_haar, 30000},
	{"rings: wavelet db10", set_db10, 0},
	{"rings: titarenko", set_titarenko, 30000},
	{"one shift", set_shift_one, 0},
	{"phase", set_phase, 30000},
	{"hardening", set_hardening, 30000},
	{"hardening of integrals", set_hardening, 0},
	{"binning", set_bin, 30000},
	{"binning first", set_bin_first, 30000},
	{"other order", set_reversed, 30000},
	{"all", set_all, 30000},
};

static tomos_backend *open_device(void)
{
	tomos_backend *b;
	OK(tomos_backend_open(&b, test_backend()));
	if (b->type->prepare)
		return b;
	print_message("the %s backend prepares in host memory\n", test_backend());
	tomos_backend_close(b);
	return NULL;
}

static void compare(
	tomos_backend *b, const Scan *s, const tomos_prep_options *o, bool fields, const char *name)
{
	Prepared host = on_host(s, o, fields);
	Prepared device = on_device(b, s, o, fields, 0, host.shape[1], host.shape[1]);
	assert_near(&host, &device, 0, host.shape[1], name);
	assert_same_report(&host.report, &device.report);
	free(host.data);
	free(device.data);
}

/* With the views stored in this type. */
static Scan stored_scan(const int64_t n[3], double light, bool spoilt, StoredType type)
{
	Scan s = scan_make(n, light, spoilt);
	frames_store(&s.views, type, false, LAYOUT_WHOLE);
	frames_store(&s.flats, STORED_UINT16, false, LAYOUT_WHOLE);
	frames_store(&s.darks, STORED_UINT16, false, LAYOUT_WHOLE);
	return s;
}

static void run_case(tomos_backend *b, const PrepCase *c, const int64_t n[3], bool spoilt)
{
	tomos_prep_options o = tomos_prep_defaults();
	c->set(&o);
	if (c->light < 0)
		o.quantity = "transmission";
	StoredType type = c->light > 0 ? STORED_UINT16 : STORED_FLOAT32;
	Scan s = stored_scan(n, c->light, spoilt, type);
	compare(b, &s, &o, c->light > 0, c->name);
	scan_free(&s);
}

/* only: how the names of the cases begin. */
static void run_cases(const int64_t (*shapes)[3], int count, bool spoilt, const char *only)
{
	tomos_backend *b = open_device();
	for (int i = 0; b && i < (case_slow() ? 1 : count); i++)
		for (int k = 0; k < COUNT(cases); k++)
			if (strncmp(cases[k].name, only, strlen(only)) == 0)
				run_case(b, &cases[k], shapes[i], spoilt);
	tomos_backend_close(b);
}

static void test_steps(void **state)
{
	(void)state;
	const int64_t shapes[][3] = {{37, 11, 53}, {64, 9, 128}, {300, 4, 75}};
	run_cases(shapes, COUNT(shapes), false, "");
	run_cases(shapes, COUNT(shapes), true, "");
}

/* Sizes that are no multiple of anything, and those of every sorting kernel. These on line
 * integrals: logarithms differ by rounding, which exchanges numbers that are nearly equal. */
static void test_sizes(void **state)
{
	(void)state;
	const int64_t shapes[][3] = {{6, 3, 3}, {7, 4, 1030}, {1025, 3, 34}};
	const int64_t sorted[][3] = {{1537, 3, 33}, {2049, 3, 20}, {4097, 3, 20}};
	run_cases(shapes, COUNT(shapes), true, "");
	run_cases(sorted, COUNT(sorted), true, "rings: vo, integrals");
}

static void test_single_row(void **state)
{
	(void)state;
	tomos_backend *b = open_device();
	const int64_t n[3] = {20, 1, 200};
	const PrepCase c[] = {{"phase of one row", set_phase, 30000}, {"vo of one row", set_vo, 0},
		{"zingers of one row", set_both, 30000}};
	for (int i = 0; b && i < COUNT(c); i++)
		run_case(b, &c[i], n, true);
	tomos_backend_close(b);
}

static void test_shifts(void **state)
{
	(void)state;
	tomos_backend *b = open_device();
	const int64_t n[3] = {40, 13, 61};
	for (int64_t v = 0; v < n[0]; v++) {
		shift_list[0][v] = v % 5 == 0 || v % 7 == 0 ? 0 : 3 * sin((double)v);
		shift_list[1][v] = v % 5 == 0 ? 0 : -11 * cos(1.7 * (double)v);
	}
	tomos_prep_options o = tomos_prep_defaults();
	o.shift_x = shift_list[0], o.shift_y = shift_list[1];
	o.shift_x_count = o.shift_y_count = n[0];
	Scan s = stored_scan(n, 30000, true, STORED_UINT16);
	if (b)
		compare(b, &s, &o, true, "shifts of each view");
	scan_free(&s);
	tomos_backend_close(b);
}

static void test_stored(void **state)
{
	(void)state;
	tomos_backend *b = open_device();
	const int64_t n[3] = {19, 7, 45};
	tomos_prep_options o = tomos_prep_defaults();
	for (int i = 0; b && i < STORED_TYPES * 6; i++) {
		StoredType type = (StoredType)(i % STORED_TYPES);
		bool swapped = i / STORED_TYPES % 2;
		StoredLayout layout = (StoredLayout)(i / STORED_TYPES / 2);
		/* Of the range of a signed byte, and of the whole numbers of a half. */
		Scan s = scan_make(n, type_bytes[type] == 1 ? 100 : 1500, true);
		for (int64_t k = 0; k < n[0] * n[1] * n[2]; k++) {
			float most = type_bytes[type] == 1 ? 127 : 2047;
			s.views.values[k] = fminf(s.views.values[k], most);
			if (type == STORED_FLOAT32 && k % 97 == 0)
				s.views.values[k] = NAN;
		}
		frames_store(&s.views, type, swapped, layout);
		frames_store(&s.flats, type, swapped, layout);
		frames_store(&s.darks, STORED_UINT16, false, layout);
		compare(b, &s, &o, true, "a stored type");
		scan_free(&s);
	}
	tomos_backend_close(b);
}

/* Stored numbers that are scaled, as files of integers may be. */
static void test_scaled(void **state)
{
	(void)state;
	tomos_backend *b = open_device();
	const int64_t n[3] = {19, 7, 45};
	tomos_prep_options o = tomos_prep_defaults();
	Scan s = stored_scan(n, 3000, false, STORED_UINT16);
	s.views.scale = 0.5, s.views.offset = 21;
	for (int64_t i = 0; i < n[0] * n[1] * n[2]; i++)
		s.views.values[i] = (float)(21 + 0.5 * (double)s.views.values[i]);
	if (b)
		compare(b, &s, &o, true, "a scale");
	scan_free(&s);
	tomos_backend_close(b);
}

/* Margins are removed, and rows of zeros appended. */
static void test_margins(void **state)
{
	(void)state;
	tomos_backend *b = open_device();
	const int64_t n[3] = {20, 12, 40};
	tomos_prep_options o = tomos_prep_defaults();
	set_all(&o);
	Scan s = stored_scan(n, 30000, true, STORED_UINT16);
	if (b) {
		Prepared host = on_host(&s, &o, true);
		Prepared device = on_device(b, &s, &o, true, 1, 3, 5);
		assert_near(&host, &device, 1, 3, "margins");
		assert_same_report(&host.report, &device.report);
		free(host.data);
		free(device.data);
	}
	scan_free(&s);
	tomos_backend_close(b);
}

/* ---- rejections ------------------------------------------------------------------------------ */

/* CUDA sorts columns in shared memory, OpenCL any number of views. */
static void test_many(tomos_backend *b, const tomos_prep_options *o)
{
	const PrepScan many = {10000, 20, 2, 0, NULL}, more = {(1 << 20) + 1, 20, 2, 0, NULL};
	DevicePrep *prep;
	if (strcmp(b->type->name, "cuda") == 0) {
		assert_int_equal(device_prep_open(&prep, b, o, &many), TOMOS_UNSUPPORTED);
		assert_non_null(strstr(tomos_message(), "for up to 8192 views, not 10000"));
	} else {
		OK(device_prep_open(&prep, b, o, &many));
		device_prep_close(prep);
	}
	assert_int_equal(device_prep_open(&prep, b, o, &more), TOMOS_UNSUPPORTED);
	assert_non_null(strstr(tomos_message(), "1048577 views of 20 columns are too many"));
}

static void test_rejected(void **state)
{
	(void)state;
	DevicePrep *prep;
	tomos_backend *b;
	const PrepScan scan = {10, 20, 2, 0, NULL};
	OK(tomos_backend_open(&b, "cpu"));
	assert_int_equal(device_prep_open(&prep, b, NULL, &scan), TOMOS_UNSUPPORTED);
	assert_string_equal(tomos_message(), "the cpu backend has no preparation of its own");
	assert_null(prep);
	tomos_backend_close(b);
	if (!(b = open_device()))
		return;
	tomos_prep_options o = tomos_prep_defaults();
	o.rings = "vo", o.ring_small = 4;
	assert_int_equal(device_prep_open(&prep, b, &o, &scan), TOMOS_BAD_VALUE);
	assert_string_equal(tomos_message(), "ring-small 4: it must be odd and at least 1");
	o.ring_small = 0;
	test_many(b, &o);
	const double shifts[3] = {1, 2, 3};
	tomos_prep_options shifted = tomos_prep_defaults();
	shifted.shift_x = shifts, shifted.shift_x_count = 3;
	assert_int_equal(device_prep_open(&prep, b, &shifted, &scan), TOMOS_BAD_VALUE);
	assert_string_equal(tomos_message(), "shift-x has 3 values, for 10 views");
	tomos_prep_options binned = tomos_prep_defaults();
	binned.bin = 2, binned.steps = "bin,normalize,log";
	assert_int_equal(device_prep_open(&prep, b, &binned, &scan), TOMOS_UNSUPPORTED);
	OK(device_prep_open(&prep, b, NULL, &scan));
	PrepSlab slab = {.rows = 1, .padded = 1};
	assert_int_equal(device_prep_run(prep, &slab), TOMOS_BAD_VALUE);
	assert_non_null(strstr(tomos_message(), "the shape of the views is 0 x 0 x 0"));
	device_prep_close(prep);
	tomos_backend_close(b);
}

#define TESTS(T) \
	T(test_steps), T(test_sizes), T(test_single_row), T(test_shifts), T(test_stored), \
		T(test_scaled), T(test_margins), T(test_rejected)
TEST_MAIN(TESTS, NULL, NULL)
