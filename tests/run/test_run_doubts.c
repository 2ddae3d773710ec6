/* What runs find wrong with a scan, and say: views without light, flats of another scan, counts
 * that are taken for line integrals, dead columns and frames, empty beams, angles in another
 * unit. */
#include "work.h"

static float integrals[COUNT_ALL], counts[COUNT_ALL], flats[2 * ROWS * COLUMNS];

/* The scan with its counts times `light` and view `black` without light (-1: none). */
static void write_counts(const char *name, float light, int64_t black)
{
	ball_integrals(integrals);
	for (int64_t i = 0; i < COUNT_ALL; i++) {
		bool none = i / (ROWS * COLUMNS) == black;
		counts[i] = none ? 0 : light * 1000 * expf(-integrals[i]);
		flats[i % COUNT(flats)] = 1000;
	}
	for (int i = 0; i < VIEWS; i++)
		theta[i] = 180.0 * i / VIEWS;
	hid_t file = h5_new(at(name));
	h5_put(file, "exchange/data", H5T_NATIVE_FLOAT, 3, (hsize_t[]){VIEWS, ROWS, COLUMNS},
		counts);
	h5_put(file, "exchange/data_white", H5T_NATIVE_FLOAT, 3, (hsize_t[]){2, ROWS, COLUMNS},
		flats);
	h5_put_list(file, "exchange/theta", theta, VIEWS);
	H5Fclose(file);
}

static void write_views(const char *name, const float *data, int64_t views)
{
	const int64_t shape[3] = {views, ROWS, COLUMNS};
	tomos_file_options o = tomos_file_defaults();
	tomos_file *file;
	o.overwrite = 1;
	assert_ok(tomos_file_create(&file, at(name), TOMOS_PROJECTIONS, shape, &o));
	assert_ok(tomos_file_write(file, 0, views, data));
	assert_ok(tomos_file_commit(file));
	tomos_file_close(file);
}

/* Runs the scan and returns what was said. */
static const char *run_scan(Work *w, const char *scan)
{
	snprintf(w->path, sizeof w->path, "%s", at(scan));
	w->file.overwrite = 1;
	w->said[0] = 0;
	assert_ok(tomos_run(&w->job, NULL));
	return w->said;
}

static void says(const char *said, const char *what)
{
	if (!strstr(said, what))
		print_message("'%s' is not in: %s\n", what, said);
	assert_non_null(strstr(said, what));
}

static void says_no(const char *said, const char *what)
{
	if (strstr(said, what))
		print_message("'%s' is in: %s\n", what, said);
	assert_null(strstr(said, what));
}

/* ---- views without light --------------------------------------------------------------------- */

static void black_views_are_bad(void **state)
{
	static const int64_t bad[] = {40};
	Work w, named;
	(void)state;
	write_counts("black.h5", 1, 40);
	work_init(&named, "named.npy");
	named.run.memory = few_at_a_time;
	named.prep.bad_views = bad;
	named.prep.bad_views_count = 1;
	says_no(run_scan(&named, "black.h5"), "no light:");
	assert_true(named.report.slabs > 1);
	assert_int_equal(named.report.prep.views, 1); /* not one of each slab */
	work_init(&w, "black.npy");
	says(run_scan(&w, "black.h5"), "1 view has no light: 40 (");
	assert_int_equal(w.report.prep.views, 1);
	assert_same_file(w.output, named.output);
}

static void put_counts(const char *name)
{
	hid_t file = H5Fopen(at(name), H5F_ACC_RDWR, H5P_DEFAULT);
	for (int i = 0; i < 2; i++) {
		const char *set = i ? "exchange/data_white" : "exchange/data";
		hid_t data = H5Dopen2(file, set, H5P_DEFAULT);
		assert_true(H5Dwrite(data, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT,
				    i ? flats : counts) >= 0);
		H5Dclose(data);
	}
	H5Fclose(file);
}

/* Of line integrals, views without a finite value. */
static void views_of_nan_are_bad(void **state)
{
	Work w;
	(void)state;
	write_counts("nan.h5", 1, 40);
	work_init(&w, "zero.npy");
	w.prep.quantity = "integrals";
	says_no(run_scan(&w, "nan.h5"), "finite value:");
	for (int64_t i = 30 * ROWS * COLUMNS; i < 31 * ROWS * COLUMNS; i++)
		counts[i] = NAN;
	put_counts("nan.h5");
	work_init(&w, "nan.npy");
	w.prep.quantity = "integrals";
	says(run_scan(&w, "nan.h5"), "1 view has no finite value: 30 (");
	assert_int_equal(w.report.prep.views, 1);
	for (int64_t i = 20 * ROWS * COLUMNS; i < COUNT_ALL; i++) /* most of them */
		counts[i] = NAN;
	put_counts("nan.h5");
	work_init(&w, "nan.npy");
	w.prep.quantity = "integrals";
	says(run_scan(&w, "nan.h5"), "70 views have no finite value: 20,21,22,23,24,25,26,27 and ");
	assert_int_equal(w.report.prep.views, 70);
}

/* A plate wider than the detector: the more of it a view looks through, the darker it is. */
static void write_plate(const char *name)
{
	write_counts(name, 1, -1);
	for (int64_t i = 0; i < COUNT_ALL; i++) {
		double angle = M_PI * (double)(i / (ROWS * COLUMNS)) / VIEWS;
		counts[i] = (float)(1000 * exp(-0.5 / fmax(fabs(sin(angle - 1)), 1e-3)));
	}
	put_counts(name);
}

static void other_views_stay(void **state)
{
	Work w;
	(void)state;
	write_counts("light.h5", 1, -1);
	work_init(&w, "light.npy");
	says_no(run_scan(&w, "light.h5"), "no light:");
	assert_int_equal(w.report.prep.views, 0);
	write_plate("plate.h5");
	work_init(&w, "plate.npy");
	says_no(run_scan(&w, "plate.h5"), "no light:");
	write_counts("black.h5", 1, 40);
	work_init(&w, "light.npy");
	w.prep.steps = "normalize,log";
	says_no(run_scan(&w, "black.h5"), "no light:");
}

/* ---- flats and quantities -------------------------------------------------------------------- */

static void flats_that_do_not_fit(void **state)
{
	tomos_source_options source = tomos_source_defaults();
	tomos_analytic_options padded = tomos_analytic_defaults();
	Work w;
	(void)state;
	write_counts("dim.h5", 0.85F, -1);
	for (int i = 0; i < 2; i++) {
		work_init(&w, "dim.npy");
		padded.padding = i ? "ellipse" : "zero";
		w.job.analytic = &padded;
		const char *said = run_scan(&w, "dim.h5");
		says(said, "air transmits 0.85 instead of 1");
		says(said, "'i0' auto");
		says_no(said, "wider than the detector");
	}
	source.i0 = "auto";
	w.job.source = &source;
	says_no(run_scan(&w, "dim.h5"), "air transmits");
}

/* Multiplies values by 1 + noise. */
static void add_noise(float *values, int64_t count, float deviation, uint64_t random)
{
	for (int64_t i = 0; i < count; i++) {
		float sum = 0; /* of twelve numbers of variance 1/12 */
		for (int k = 0; k < 12; k++) {
			random = random * 6364136223846793005u + 1442695040888963407u;
			sum += (float)(random >> 40) / (float)(1 << 24) - 0.5F;
		}
		values[i] *= 1 + deviation * sum;
	}
}

/* One per cent of noise, in air two per cent too dark, and in air that fits. */
static void noise_does_not_hide_flats(void **state)
{
	Work w;
	(void)state;
	for (int fits = 0; fits < 2; fits++) {
		write_counts("noisy.h5", fits ? 1 : 0.98F, -1);
		add_noise(counts, COUNT_ALL, 0.01F, 1);
		put_counts("noisy.h5");
		work_init(&w, "noisy.npy");
		(fits ? says_no : says)(run_scan(&w, "noisy.h5"),
			fits ? "air transmits" : "air transmits 0.98 instead of 1");
	}
}

/* Of an offset detector only one side has to see air; its mean is noise of views and flats. */
static void noise_is_no_wrong_flat(void **state)
{
	double axis = 8;
	Work w;
	(void)state;
	for (uint64_t seed = 1; seed <= 40; seed++) {
		write_counts("noisy.h5", 1, -1);
		add_noise(counts, COUNT_ALL, seed % 2 ? 0.06F : 0.03F, seed);
		add_noise(flats, COUNT(flats), seed % 2 ? 0 : 0.03F, seed + 100);
		put_counts("noisy.h5");
		work_init(&w, "noisy.npy");
		w.scan.arc = 2 * M_PI;
		w.scan.replace_angles = 1;
		w.scan.axis = &axis;
		says_no(run_scan(&w, "noisy.h5"), "air transmits");
	}
}

/* A view, or a flat, that was named for a dark field; and good ones, in all
 * columns or in those of a narrow beam. */
static void darks_that_are_bright(void **state)
{
	Work w;
	(void)state;
	for (int i = 0; i < 3; i++) {
		static float darks[ROWS * COLUMNS];
		write_counts("dark.h5", 1, -1);
		for (int k = 0; k < ROWS * COLUMNS; k++)
			darks[k] = i == 2 && abs(k % COLUMNS - 24) > 5 ? 1000 : i == 1 ? 900 : 300;
		hid_t file = H5Fopen(at("dark.h5"), H5F_ACC_RDWR, H5P_DEFAULT);
		h5_put(file, "exchange/data_dark", H5T_NATIVE_FLOAT, 3,
			(hsize_t[]){1, ROWS, COLUMNS}, darks);
		H5Fclose(file);
		work_init(&w, "dark.npy");
		(i == 1 ? says : says_no)(run_scan(&w, "dark.h5"),
			i == 1 ? "the darks have 0.9 times the counts" : "times the counts");
	}
}

/* A source that fades, or comes up, by 8 % in the course of the scan. */
static void light_that_changes(void **state)
{
	Work w;
	(void)state;
	for (int i = 0; i < 3; i++) {
		write_counts("fading.h5", 1, -1);
		for (int64_t k = 0; k < COUNT_ALL; k++)
			counts[k] *=
				1 + 0.08F * (float)(i - 1) * (float)(k / (ROWS * COLUMNS)) / VIEWS;
		put_counts("fading.h5");
		work_init(&w, "fading.npy");
		const char *said = run_scan(&w, "fading.h5");
		says_no(said, "wider than the detector");
		(i == 1 ? says_no : says)(said, "the light of the source changes");
		if (i == 0)
			says(said, "air at both edges transmits 0.926 to 0.996");
	}
}

/* Objects of which both ends are beside the detector in some of the views: an ellipse, and a plate,
 * which is the same everywhere in these; and in all views, a weak one around a strong one. */
static void light_is_not_an_object_beside_the_detector(void **state)
{
	static const double sizes[][3] = {{0.53, 0.25, 0.8}, {1.2, 0.01, 20}, {1.5, 0.75, 0.08}};
	Work w;
	(void)state;
	for (int i = 0; i < 3; i++) {
		const tomos_ellipsoid solids[] = {
			{{0, 0, 0}, {sizes[i][0], sizes[i][1], INFINITY}, {0, 0, 0}, sizes[i][2]},
			{{0.05, 0, 0}, {0.1, 0.1, INFINITY}, {0, 0, 0}, 10}};
		write_counts("wide.h5", 1, -1);
		project_solids(integrals, (int64_t[]){VIEWS, ROWS, COLUMNS}, PIXEL_UM * 1e-3, AXIS,
			(Solids){solids, i == 2 ? 2 : 1}, 1);
		for (int64_t k = 0; k < COUNT_ALL; k++)
			counts[k] = 1000 * expf(-integrals[k]);
		put_counts("wide.h5");
		work_init(&w, "wide.npy");
		const char *said = run_scan(&w, "wide.h5");
		says_no(said, "the light of the source changes");
		if (i != 1)
			says(said, "wider than the detector");
	}
}

/* One view that is far too bright does not hide that the others are cut off. */
static void wide_objects_with_a_bad_view(void **state)
{
	const double radius = 0.7 * COLUMNS * PIXEL_UM * 1e-3;
	const tomos_ellipsoid wide = {{0, 0, 0}, {radius, 0.9 * radius, INFINITY}, {0, 0, 0}, 0.8};
	Work w;
	(void)state;
	project_solids(integrals, (int64_t[]){VIEWS, ROWS, COLUMNS}, PIXEL_UM * 1e-3, AXIS,
		(Solids){&wide, 1}, 1);
	for (int64_t k = 0; k < ROWS * COLUMNS; k++)
		integrals[k] = -4;
	write_views("wide.npy", integrals, VIEWS);
	work_init(&w, "wide_volume.npy");
	w.scan.arc = M_PI;
	says(run_scan(&w, "wide.npy"), "wider than the detector");
}

static void numbers_that_are_no_integrals(void **state)
{
	static float other[COUNT_ALL];
	Work w;
	(void)state;
	for (int i = 0; i < 3; i++) {
		ball_integrals(integrals);
		for (int64_t k = 0; k < COUNT_ALL; k++)
			other[k] = i == 2 ? integrals[k] : (i ? 1 : 4e4F) * expf(-integrals[k]);
		write_views("numbers.npy", other, VIEWS);
		work_init(&w, "numbers_volume.npy");
		w.scan.arc = M_PI;
		const char *said = run_scan(&w, "numbers.npy");
		if (i == 2) {
			says_no(said, "look like");
			continue;
		}
		says(said, i ? "look like transmissions; give the option 'quantity' transmission"
			     : "look like counts; give the option 'flats', or the option 'i0'");
		says_no(said, "wider than the detector");
		says_no(said, "same value");
	}
}

static void numbers_of_another_type(void **state)
{
	double axis = AXIS;
	Work w;
	(void)state;
	ball_integrals(integrals);
	for (int i = 0; i < 2; i++) {
		write_views("type.npy", integrals, VIEWS);
		work_init(&w, "type_volume.npy");
		w.scan.arc = M_PI;
		w.scan.axis = &axis;
		w.scan.axis_count = 1;
		(i ? says : says_no)(run_scan(&w, "type.npy"), "may be of another type");
		for (int64_t k = 0; k < COUNT_ALL; k++)
			integrals[k] *= 1e30F;
	}
}

/* Two materials in a beam that does not harden are left as they are. */
static void mixtures_are_not_corrected(void **state)
{
	static const double automatic = NAN;
	const tomos_ellipsoid solids[] = {{{0, 0, 0}, {0.4, 0.4, INFINITY}, {0, 0, 0}, 0.8},
		{{0, 0, 0}, {0.2, 0.2, INFINITY}, {0, 0, 0}, 0.3}};
	Work w[2];
	(void)state;
	project_solids(integrals, (int64_t[]){VIEWS, ROWS, COLUMNS}, PIXEL_UM * 1e-3, AXIS,
		(Solids){solids, 2}, 1);
	write_views("mixture.npy", integrals, VIEWS);
	for (int i = 0; i < 2; i++) {
		work_init(&w[i], i ? "mixture_auto.npy" : "mixture_plain.npy");
		w[i].scan.arc = M_PI;
		w[i].prep.hardening = i ? &automatic : NULL;
		w[i].prep.hardening_count = i;
		const char *said = run_scan(&w[i], "mixture.npy");
		(i ? says : says_no)(said, "does not look like one material");
	}
	assert_same_file(w[0].output, w[1].output);
}

/* ---- columns --------------------------------------------------------------------------------- */

/* A cylinder on the axis looks the same from all sides, but where an insert is. */
static void cylinders_are_no_frames(void **state)
{
	const tomos_ellipsoid solids[] = {{{0, 0, 0}, {0.4, 0.4, INFINITY}, {0, 0, 0}, 0.8},
		{{0.1, 0, 0}, {0.05, 0.05, INFINITY}, {0, 0, 0}, 0.5}};
	Work w;
	(void)state;
	project_solids(integrals, (int64_t[]){VIEWS, ROWS, COLUMNS}, PIXEL_UM * 1e-3, AXIS,
		(Solids){solids, 2}, 1);
	for (int i = 0; i < 3; i++) {
		for (int64_t k = 0; i > 0 && k < COUNT_ALL; k++)
			if (i == 1 ? k % COLUMNS < 3 : k % COLUMNS == 26)
				integrals[k] = 3;
			else if (i == 2 && k % COLUMNS < 3)
				integrals[k] = 0;
		write_views("cylinder.npy", integrals, VIEWS);
		work_init(&w, "cylinder_volume.npy");
		w.scan.arc = M_PI;
		const char *said = run_scan(&w, "cylinder.npy");
		if (i == 0)
			says_no(said, "same value");
		if (i == 1) {
			says(said, "3 of 48 columns, at the edges, have the same value");
			says(said, "'columns' 3:48 leaves them out");
		}
		if (i == 2)
			says(said, "1 of 48 columns has the same value");
	}
}

/* A dead pixel beside the middle row, which is that of most other questions. */
static void single_pixels_are_dead(void **state)
{
	Work w;
	(void)state;
	ball_integrals(integrals);
	for (int i = 0; i < 2; i++) {
		for (int64_t k = 0; i > 0 && k < COUNT_ALL; k++)
			if (k / COLUMNS % ROWS == 1 && k % COLUMNS == 20)
				integrals[k] = 3;
		write_views("pixel.npy", integrals, VIEWS);
		work_init(&w, "pixel_volume.npy");
		w.scan.arc = M_PI;
		const char *said = run_scan(&w, "pixel.npy");
		if (i == 0)
			says_no(said, "same value");
		else
			says(said, "1 of the 336 pixels of 7 rows that were looked at has the "
				   "same value");
	}
}

/* Rows beside the object have nothing but noise, also at their ends. */
static void noise_is_no_object(void **state)
{
	uint32_t number = 1;
	Work w;
	(void)state;
	for (int64_t i = 0; i < COUNT_ALL; i++) {
		number = number * 1664525u + 1013904223u;
		integrals[i] = 0.02f * ((float)(number >> 8) / (float)(1 << 24) - 0.5f);
	}
	write_views("noise.npy", integrals, VIEWS);
	work_init(&w, "noise_volume.npy");
	w.scan.arc = M_PI;
	says_no(run_scan(&w, "noise.npy"), "wider than the detector");
	for (int64_t i = 0; i < COUNT_ALL; i++)
		integrals[i] += 0.1f;
	write_views("noise.npy", integrals, VIEWS);
	says(run_scan(&w, "noise.npy"), "wider than the detector");
}

/* ---- the axis and the angles ----------------------------------------------------------------- */

static void empty_beams_have_no_axis(void **state)
{
	Work w;
	(void)state;
	write_counts("empty.h5", 1, -1);
	hid_t file = H5Fopen(at("empty.h5"), H5F_ACC_RDWR, H5P_DEFAULT);
	hid_t data = H5Dopen2(file, "exchange/data", H5P_DEFAULT);
	for (int64_t i = 0; i < COUNT_ALL; i++)
		counts[i] = 997;
	assert_true(H5Dwrite(data, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, counts) >= 0);
	H5Dclose(data);
	H5Fclose(file);
	work_init(&w, "empty_volume.npy");
	w.scan.axis = NULL;
	w.scan.axis_count = 0;
	const char *said = run_scan(&w, "empty.h5");
	says(said, "there is nothing to find the axis from");
	says_no(said, "confidence");
}

static void found_axes_have_a_word(void **state)
{
	Work w;
	(void)state;
	write_counts("light.h5", 1, -1);
	work_init(&w, "light.npy");
	w.scan.axis = NULL;
	w.scan.axis_count = 0;
	says(run_scan(&w, "light.h5"), ", certain (confidence ");
}

/* Few views over 6 degrees are not 2 pi that were given as degrees. */
static void short_arcs_are_degrees(void **state)
{
	static const double arcs[] = {6, 6.2832, 3.14, 3.3}, degree = M_PI / 180;
	(void)state;
	ball_integrals(integrals);
	write_views("few.npy", integrals, 20);
	for (int i = 0; i < 4; i++) {
		Work w;
		work_init(&w, "few_volume.npy");
		w.scan.arc = arcs[i] * degree;
		const char *said = run_scan(&w, "few.npy");
		(i == 1 || i == 2 ? says : says_no)(said, "look like radians");
	}
}

#define TESTS(T) \
	T(black_views_are_bad), T(views_of_nan_are_bad), T(other_views_stay), \
		T(flats_that_do_not_fit), T(noise_does_not_hide_flats), T(noise_is_no_wrong_flat), \
		T(darks_that_are_bright), T(light_that_changes), \
		T(light_is_not_an_object_beside_the_detector), T(wide_objects_with_a_bad_view), \
		T(numbers_that_are_no_integrals), T(numbers_of_another_type), \
		T(mixtures_are_not_corrected), T(cylinders_are_no_frames), \
		T(single_pixels_are_dead), T(noise_is_no_object), T(empty_beams_have_no_axis), \
		T(found_axes_have_a_word), T(short_arcs_are_degrees)
TEST_MAIN(TESTS, make_scan, scratch_remove)
