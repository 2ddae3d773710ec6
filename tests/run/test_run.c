/* Whole reconstructions from file to file: right values, and the same bytes whatever the slabs. */
#include "work.h"
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

/* ---- values ------------------------------------------------------------------------------- */

/* Every slice absorbs more than the one before it, so that slices in the wrong place show. */
static int make_sloped_scan(void **state)
{
	row_slope = 0.05;
	return make_scan(state);
}

/* The mean inside the ball is its attenuation, in 1/mm, within half a percent, in every slice. */
static void right_values(void **state)
{
	(void)state;
	Work w;
	int64_t shape[3] = {0};
	float *data = NULL;
	tomos_file *file;
	tomos_grid grid = {{0}, {0}, {0}};
	work_init(&w, "ball.h5");
	assert_ok(tomos_run(&w.job, NULL));
	assert_int_equal(w.report.slices, ROWS);
	assert_int_equal(w.report.shape[0], ROWS);
	assert_ok(read_all(at("ball.h5"), shape, &data));
	assert_ok(tomos_file_open(&file, at("ball.h5"), NULL));
	assert_ok(tomos_file_grid(file, &grid));
	assert_ok(tomos_file_verify(file, NULL));
	tomos_file_close(file);
	assert_true(fabs(grid.step[0] - PIXEL_UM * 1e-3) < 1e-12);
	for (int64_t z = 0; data && z < shape[0]; z++) {
		double sum = 0, count = 0;
		for (int64_t i = 0; i < shape[1] * shape[2]; i++) {
			double x = grid.first[0] + grid.step[0] * (double)(i % shape[2]) - 0.05;
			double y = grid.first[1] + grid.step[1] * (double)(i / shape[2]) + 0.03;
			bool inside = hypot(x, y) < 0.2;
			sum += inside ? (double)data[z * shape[1] * shape[2] + i] : 0;
			count += inside;
		}
		double expected = 0.8 * (1 + row_slope * (double)z);
		assert_true(fabs(sum / count - expected) < 0.005 * expected);
	}
	free(data);
	assert_non_null(strstr(w.said, "data-exchange, 90 views of 7 rows x 48 columns, 2 flats"));
	assert_int_equal(mem_live(), 0);
}

/* Provenance in HDF5 outputs. */
static void provenance(void **state)
{
	(void)state;
	hid_t file = H5Fopen(at("ball.h5"), H5F_ACC_RDONLY, H5P_DEFAULT);
	static const char *const names[] = {"process/command", "process/recipe", "process/version",
		"process/method", "process/scan", "process/geometry/views", "storage/crc32"};
	assert_true(file >= 0);
	for (int i = 0; i < COUNT(names); i++)
		assert_true(H5Oexists_by_name(file, names[i], H5P_DEFAULT) > 0);
	H5Fclose(file);
}

/* ---- slabs -------------------------------------------------------------------------------- */

static void run_with(const char *output, bool thin, void (*change)(Work *w))
{
	Work w;
	work_init(&w, output);
	w.file.overwrite = 1;
	if (change)
		change(&w);
	if (thin)
		least_memory(&w);
	assert_ok(tomos_run(&w.job, NULL));
	assert_true(thin ? w.report.slabs > 1 : w.report.slabs == 1);
}

static const double one_row = 1.3;

static void with_reach(Work *w)
{
	w->prep.zingers = "both";
	w->prep.zinger_level = 0.01;
	w->prep.rings = "vo";
}

static void with_bins(Work *w)
{
	with_reach(w);
	w->prep.bin = 2;
}

/* Steps after the binning look at rows that are made of two. */
static void with_early_bins(Work *w)
{
	w->prep.bin = 2;
	w->prep.shift_y = &one_row;
	w->prep.shift_y_count = 1;
	w->prep.steps = "normalize,log,bin,shift";
}

static void with_columns(Work *w)
{
	w->run.columns = "5:45";
}

/* Eight bits without a window. */
static void with_bytes(Work *w)
{
	w->file.type = "uint8";
}

/* One slab, and one for each slice, with steps that look beyond a row. */
static void slabs_do_not_show(void **state)
{
	(void)state;
	void (*const changes[])(Work * w) = {
		NULL, with_reach, with_bins, with_early_bins, with_columns, with_bytes};
	for (int i = 0; i < COUNT(changes); i++) {
		run_with("whole.npy", false, changes[i]);
		run_with("slabs.npy", true, changes[i]);
		assert_same_file(at("whole.npy"), at("slabs.npy"));
	}
	assert_int_equal(mem_live(), 0);
}

static void parts(void **state)
{
	(void)state;
	Work w;
	int64_t shape[3] = {0};
	float *all = NULL, *some = NULL;
	work_init(&w, "part/");
	w.run.rows = "3:6"; /* the filter processes rows in pairs, and 3 is the second of one */
	assert_ok(tomos_run(&w.job, NULL));
	assert_int_equal(entries(at("part")), 3);
	assert_int_equal(access(at("part/recon_00003.tiff"), F_OK), 0);
	assert_int_equal(access(at("part/recon_00005.tiff"), F_OK), 0);
	/* another range into the same folder would delete the first */
	work_init(&w, "part/");
	w.run.rows = "0:3";
	w.file.overwrite = 1;
	assert_int_equal(tomos_run(&w.job, NULL), TOMOS_IO);
	assert_says("part/' holds 'recon_0000");
	assert_says("which would be deleted and not replaced");
	assert_int_equal(w.report.slabs, 0);
	assert_int_equal(entries(at("part")), 3);
	w.run.rows = "3:6"; /* the same one may be written again */
	assert_ok(tomos_run(&w.job, NULL));
	/* the number of the first file is the one that was given */
	work_init(&w, "numbered/");
	w.run.rows = "2:5";
	w.file.first_number = 2;
	assert_ok(tomos_run(&w.job, NULL));
	assert_int_equal(access(at("numbered/recon_00002.tiff"), F_OK), 0);
	assert_int_equal(entries(at("numbered")), 3);
	assert_ok(read_all(at("ball.h5"), shape, &all));
	assert_ok(read_all(at("part"), shape, &some));
	assert_memory_equal(all + 3 * shape[1] * shape[2], some,
		(size_t)(3 * shape[1] * shape[2]) * sizeof *all);
	free(all);
	free(some);
	work_init(&w, "unused.h5");
	w.job.output = "";
	w.run.dry_run = 1;
	assert_ok(tomos_run(&w.job, NULL));
	assert_non_null(strstr(w.said, "scan_rec/"));
	assert_non_null(strstr(w.said, "time      about "));
	assert_non_null(strstr(w.said, " s: 7 slices took "));
	assert_int_equal(w.report.slabs, 1); /* planned */
	assert_int_equal(w.report.slices, 0);
	assert_true(w.report.planned_bytes > 1e6);
	assert_int_equal(access(at("scan_rec"), F_OK), -1);
}

/* Records that a run reports progress while it determines the window. */
static int note_window(void *user, const char *stage, int64_t done, int64_t total, double value)
{
	(void)done, (void)total, (void)value;
	*(int *)user += strcmp(stage, "window") == 0;
	return 0;
}

/* The window comes from slices all over the volume, and is said; values come back within half a
 * step. */
static void integers(void **state)
{
	(void)state;
	Work w;
	double low = 0, high = 0;
	int64_t shape[3] = {0};
	float *exact = NULL, *stored = NULL;
	work_init(&w, "bytes.h5");
	w.file.type = "uint8";
	int noted = 0;
	assert_ok(tomos_run(&w.job, &(tomos_progress){note_window, &noted}));
	assert_true(noted > 0);
	const char *line = strstr(w.said, "window ");
	assert_non_null(line);
	assert_int_equal(sscanf(line, "window %lf to %lf, from 5 slices", &low, &high), 2);
	assert_true(low < 0 && low > -0.5 && high > 0.8 && high < 1.3);
	assert_ok(read_all(at("ball.h5"), shape, &exact));
	assert_ok(read_all(at("bytes.h5"), shape, &stored));
	int64_t cut = 0;
	for (int64_t i = 0; exact && stored && i < shape[0] * shape[1] * shape[2]; i++) {
		bool inside = (double)exact[i] >= low && (double)exact[i] <= high;
		cut += !inside;
		if (inside)
			assert_true(fabs((double)exact[i] - (double)stored[i]) <
				    0.51 * (high - low) / 255);
	}
	assert_true(labs((long)(cut - w.report.cut)) <= 2); /* the line has six digits */
	free(exact);
	free(stored);
}

/* Three pictures beside the output, the same for any slabs and after an interruption. */
static void previews(void **state)
{
	(void)state;
	static const char *const ends[] = {"xy", "xz", "yz"};
	Work w;
	char whole[64], slabs[64];
	for (int i = 0; i < 2; i++) {
		work_init(&w, i ? "thin.npy" : "look.npy");
		w.run.preview = 1;
		if (i)
			least_memory(&w);
		Patience patience = {1000000};
		const tomos_progress progress = {lose_patience, &patience};
		w.file.overwrite = i;
		if (i) {
			assert_ok(tomos_run(&w.job, &progress));
			patience.left = 1000000 - patience.left - 1;
			assert_int_equal(tomos_run(&w.job, &progress), TOMOS_CANCELLED);
		}
		w.run.resume = i;
		assert_ok(tomos_run(&w.job, NULL));
		assert_true(!i || w.report.resumed > 0);
	}
	for (int i = 0; i < 3; i++) {
		snprintf(whole, sizeof whole, "look_%s.png", ends[i]);
		snprintf(slabs, sizeof slabs, "thin_%s.png", ends[i]);
		char first[160];
		snprintf(first, sizeof first, "%s", at(whole));
		assert_same_file(first, at(slabs));
	}
	unlink(w.output);
	w.run.resume = w.file.overwrite = 0;
	w.said[0] = 0;
	assert_int_equal(tomos_run(&w.job, NULL), TOMOS_IO);
	assert_says("thin_xy.png' exists already and overwrite was not asked for");
	assert_true(w.said[0] == 0); /* before anything else */
	assert_int_equal(access(w.output, F_OK), -1);
	assert_int_equal(mem_live(), 0);
}

/* Pictures that cannot be written: the volume is complete, and nothing is left to resume. */
static void lost_previews(void **state)
{
	(void)state;
	Work w;
	work_init(&w, "lost.npy");
	w.run.preview = w.file.overwrite = 1;
	assert_int_equal(mkdir(at("lost_xz.png"), 0777), 0);
	assert_int_equal(tomos_run(&w.job, NULL), TOMOS_IO);
	assert_says("lost.npy' is complete, but its pictures are not: '");
	assert_int_equal(w.report.slices + w.report.resumed, 0);
	assert_int_equal(access(w.output, F_OK), 0);
	assert_int_equal(rmdir(at("lost_xz.png")), 0);
	assert_int_equal(mem_live(), 0);
}

/* A disk that fills up, as a limit to the size of files: rejected with the file's name, nothing
 * under the final name, and with more space the run goes on to the same bytes. */
static void full_disk(void **state)
{
	(void)state;
	static const char *const names[] = {"full.h5", "full.npy", "full.tif"};
	struct rlimit before, little = {0};
	getrlimit(RLIMIT_FSIZE, &before);
	signal(SIGXFSZ, SIG_IGN);
	for (int k = 0; k < COUNT(names); k++) {
		Work w;
		work_init(&w, names[k]);
		assert_ok(tomos_run(&w.job, NULL));
		assert_int_equal(rename(w.output, at("room.bin")), 0);
		little.rlim_cur = 40000; /* of 64512 bytes */
		little.rlim_max = before.rlim_max;
		w.run.memory = few_at_a_time;
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
		tomos_status status = tomos_run(&w.job, NULL);
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
		assert_int_equal(status, TOMOS_IO);
		assert_says(names[k]);
		assert_int_equal(access(w.output, F_OK), -1);
		w.run.resume = 1;
		assert_ok(tomos_run(&w.job, NULL));
		assert_same_file(at("room.bin"), w.output);
	}
	signal(SIGXFSZ, SIG_DFL);
	assert_int_equal(mem_live(), 0);
}

enum { CONE = 24, TURN = 40 };

static void cone_file(const char *path, double swivel)
{
	static float data[TURN * CONE * CONE];
	const double source_axis = 6, source_detector = 9;
	tomos_scan_options o = tomos_scan_defaults();
	tomos_geometry *scan;
	tomos_phantom *phantom;
	tomos_file *file;
	o.geometry = "cone";
	o.rows = o.columns = CONE;
	o.views = TURN;
	o.pixel = 0.15;
	o.source_axis = &source_axis;
	o.source_detector = &source_detector;
	o.source_axis_count = o.source_detector_count = 1;
	o.swivel = swivel;
	assert_ok(tomos_geometry_make(&scan, &o));
	assert_ok(tomos_phantom_named(&phantom, "shepp-logan-modified", NULL));
	tomos_array array = tomos_array_of(data, TURN, CONE, CONE);
	assert_ok(tomos_phantom_project(phantom, scan, 1, &array));
	const int64_t sizes[3] = {TURN, CONE, CONE};
	tomos_file_options overwrite = overwriting();
	assert_ok(tomos_file_create(&file, path, TOMOS_PROJECTIONS, sizes, &overwrite));
	assert_ok(tomos_file_set_geometry(file, scan));
	assert_ok(tomos_file_write(file, 0, TURN, data));
	assert_ok(tomos_file_commit(file));
	tomos_file_close(file);
	tomos_phantom_free(phantom);
	tomos_geometry_free(scan);
}

/* A cone beam in slabs, each from the rows that it needs, to rounding; also where the detector is
 * swivelled, whose rows are filtered along lines that cross others. */
static void cone(void **state)
{
	(void)state;
	for (int k = 0; k < 2; k++) {
		Work w;
		int64_t shape[3] = {0};
		float *a = NULL, *b = NULL, most = 0;
		cone_file(at("cone.h5"), 0.6 * k);
		for (int i = 0; i < 2; i++) {
			work_init(&w, i ? "cone1.npy" : "cone0.npy");
			w.job.scan = at("cone.h5");
			w.job.geometry = NULL;
			w.file.overwrite = 1;
			if (i)
				least_memory(&w);
			assert_ok(tomos_run(&w.job, NULL));
			assert_true(i ? w.report.slabs > 1 : w.report.slabs == 1);
		}
		assert_ok(read_all(at("cone0.npy"), shape, &a));
		assert_ok(read_all(at("cone1.npy"), shape, &b));
		for (int64_t i = 0; a && b && i < shape[0] * shape[1] * shape[2]; i++)
			most = fmaxf(most, fabsf(a[i] - b[i]));
		assert_true(most < 1e-6F);
		free(a);
		free(b);
	}
	assert_int_equal(mem_live(), 0);
}

/* The range is in columns of the scan, as the axis is, and not of those in use. */
static void axis_range(void **state)
{
	(void)state;
	const double range[2] = {22, 27};
	tomos_axis_options axis = tomos_axis_defaults();
	Work w;
	double found = 0;
	axis.axis_range = range;
	axis.axis_range_count = 2;
	work_init(&w, "range.npy");
	w.scan.axis = NULL;
	w.scan.axis_count = 0;
	w.job.axis = &axis;
	w.run.columns = "6:48";
	w.run.dry_run = 1;
	assert_ok(tomos_run(&w.job, NULL));
	const char *said = strstr(w.said, "axis      column");
	assert_non_null(said);
	assert_int_equal(sscanf(said, "axis column %lf", &found), 1);
	assert_true(fabs(found - AXIS) < 0.3);
	assert_int_equal(mem_live(), 0);
}

/* What is said about the axis, found with phase retrieval, which needs all rows. */
static void axis_with_phase(const char *scan, char said[128])
{
	Work w;
	work_init(&w, "phase.npy");
	snprintf(w.path, sizeof w.path, "%s", at(scan));
	w.scan.axis = NULL;
	w.scan.axis_count = 0;
	w.prep.phase = "paganin", w.prep.energy = 20, w.prep.distance = 60;
	w.prep.delta_beta = 50;
	w.run.dry_run = 1;
	assert_ok(tomos_run(&w.job, NULL));
	const char *line = strstr(w.said, "axis      column");
	assert_non_null(line);
	snprintf(said, 128, "%.*s", (int)strcspn(line, "\n"), line);
}

/* The search reads a few rows in the middle, also where the reconstruction needs all of them. */
static void axis_from_few_rows(void **state)
{
	(void)state;
	static float data[COUNT_ALL];
	char said[2][128];
	write_scan(at("outside.h5"));
	hid_t file = H5Fopen(at("outside.h5"), H5F_ACC_RDWR, H5P_DEFAULT);
	hid_t set = H5Dopen2(file, "exchange/data", H5P_DEFAULT);
	H5Dread(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, data);
	for (int i = 0; i < COUNT_ALL; i++) {
		int row = i / COLUMNS % ROWS;
		data[i] *= row == 0 || row > 4 ? (float)(1 + i % 7) : 1;
	}
	H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, data);
	H5Dclose(set);
	H5Fclose(file);
	axis_with_phase("scan.h5", said[0]);
	axis_with_phase("outside.h5", said[1]);
	assert_string_equal(said[0], said[1]);
	assert_int_equal(mem_live(), 0);
}

/* A run that could not write anything reports 0 slices and leaves no files. */
static void nothing_kept(void **state)
{
	(void)state;
	Work w;
	struct rlimit before, little;
	int left = hidden_files();
	work_init(&w, "none/");
	getrlimit(RLIMIT_FSIZE, &before);
	signal(SIGXFSZ, SIG_IGN);
	little = before;
	little.rlim_cur = 1000; /* less than one slice */
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
	tomos_status status = tomos_run(&w.job, NULL);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	signal(SIGXFSZ, SIG_DFL);
	assert_int_equal(status, TOMOS_IO);
	assert_true(w.report.slabs > 0);
	assert_int_equal(w.report.slices + w.report.resumed, 0);
	assert_int_equal(hidden_files(), left);
	assert_int_equal(mem_live(), 0);
}

/* ---- every allocation failing in turn ----------------------------------------------------- */

static void allocation_failures(void **state)
{
	(void)state;
	tomos_status status = TOMOS_NO_MEMORY;
	for (int64_t nth = 1; status != TOMOS_OK; nth += 1 + nth / 40) {
		Work w;
		work_init(&w, "memory.npy");
		w.run.memory = few_at_a_time;
		w.run.rows = "0:3";
		w.run.preview = 1;
		w.file.overwrite = 1;
		w.file.type = "uint8";
		mem_fail_nth(nth);
		status = tomos_run(&w.job, NULL);
		mem_fail_nth(0);
		assert_true(status == TOMOS_OK || status == TOMOS_NO_MEMORY);
		assert_int_equal(mem_live(), 0);
		assert_true(nth < 100000);
	}
}

#define TESTS(T) \
	T(right_values), T(provenance), T(slabs_do_not_show), T(parts), T(cone), T(integers), \
		T(previews), T(lost_previews), T(full_disk), T(nothing_kept), T(axis_range), \
		T(axis_from_few_rows), T(allocation_failures)
TEST_MAIN(TESTS, make_sloped_scan, scratch_remove)
