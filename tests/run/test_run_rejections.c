/* Runs that are rejected before the work, with a message, and leave nothing. */
#include "work.h"

static int make_sloped_scan(void **state)
{
	row_slope = 0.05;
	return make_scan(state);
}

/* Obstacles to the output are reported before the axis is searched for. */
static void outputs(void **state)
{
	(void)state;
	static const char *const names[] = {"out.foo", "nowhere/out.h5", "scan.npy"};
	static const char *const says[] = {"out.foo' does not say the format to write",
		"nowhere/': No such file or directory; create it first",
		"scan.npy' exists already and overwrite was not asked for"};
	put_file(at("scan.npy"), "", 1);
	for (int i = 0; i < COUNT(names); i++) {
		Work w;
		work_init(&w, names[i]);
		w.scan.axis = NULL;
		w.scan.axis_count = 0;
		assert_int_not_equal(tomos_run(&w.job, NULL), TOMOS_OK);
		assert_says(says[i]);
		assert_true(w.said[0] == 0 && w.report.read_bytes == 0);
	}
	unlink(at("scan.npy"));
	assert_int_equal(mem_live(), 0);
}

static void rejected(Work *w, const char *says)
{
	assert_run_rejected(&w->job, w->output, says);
}

static void rejections(void **state)
{
	(void)state;
	static const char *const ranges[] = {"3", "3:2", "0:8", "a:3", "-1:3", "2:x", "2:2"};
	Work w;
	for (int i = 0; i < COUNT(ranges); i++) {
		work_init(&w, "no.h5");
		w.run.rows = ranges[i];
		rejected(&w, "it must be FIRST:END with 0 <= FIRST < END <= 7");
	}
	work_init(&w, "no.h5");
	w.run.columns = "0:49";
	rejected(&w, "columns '0:49': it must be FIRST:END with 0 <= FIRST < END <= 48");
	work_init(&w, "no.h5");
	w.run.memory = 1 << 20;
	rejected(&w, "1 MiB of memory are too few: one slice alone needs 12");
	work_init(&w, "no.h5");
	w.job.method = "sirtt";
	rejected(&w, "method 'sirtt' is not known; did you mean 'sirt'?");
	work_init(&w, "no.h5");
	w.job.bytes = 4;
	rejected(&w, "the member bytes of a tomos_job is 4");
	work_init(&w, "no.xyz");
	rejected(&w, "does not say the format to write");
	work_init(&w, "scan.h5");
	w.file.overwrite = 1;
	assert_int_equal(tomos_run(&w.job, NULL), TOMOS_BAD_VALUE);
	assert_says("scan.h5' is the scan itself");
	work_init(&w, "no.h5");
	w.job.scan = at("none.h5");
	rejected(&w, "none.h5' cannot be opened");
}

static void put_old(const char *name)
{
	put_file(at(name), "old", 3);
}

/* The output is created while the backend is opened. Where that fails, nothing is left of it, but
 * what an earlier run has left is not touched. */
static void wrong_backend(void **state)
{
	(void)state;
	Work w;
	char text[4];
	work_init(&w, "no.h5");
	w.job.backend = "cpu:1";
	rejected(&w, "cpu");
	assert_int_equal(hidden_files(), 0);
	put_old(".no.h5.part");
	put_old(".no.h5.journal");
	rejected(&w, "cpu");
	assert_int_equal(hidden_files(), 2);
	for (int i = 0; i < 2; i++) {
		const char *path = at(i ? ".no.h5.part" : ".no.h5.journal");
		FILE *file = fopen(path, "rb");
		assert_non_null(file);
		assert_int_equal(fread(text, 1, sizeof text, file), 3);
		assert_memory_equal(text, "old", 3);
		fclose(file);
		unlink(path);
	}
}

/* Integers without flats, a geometry of another shape, rows that are not there. */
static void wrong_scans(void **state)
{
	(void)state;
	static const uint16_t counts[VIEWS * 4];
	Work w;
	tomos_prepared *prepared;
	tomos_geometry *scan;
	hid_t file = h5_new(at("bare.h5"));
	h5_put(file, "exchange/data", H5T_NATIVE_UINT16, 3, (hsize_t[]){VIEWS, 1, 4}, counts);
	h5_put_list(file, "exchange/theta", theta, VIEWS);
	H5Fclose(file);
	work_init(&w, "no.h5");
	w.job.scan = at("bare.h5");
	rejected(&w, "bare.h5' has numbers of type uint16 and no flats: name them with the option "
		     "'flats'");
	assert_ok(tomos_geometry_parallel(&scan, 2, COLUMNS, 1, theta, VIEWS));
	work_init(&w, "no.h5");
	w.job.views = scan;
	assert_int_equal(tomos_run(&w.job, NULL), TOMOS_BAD_VALUE);
	assert_says("scan.h5' has the shape 90 x 7 x 48, but its geometry has 90 views of 2 rows");
	tomos_geometry_free(scan);
	work_init(&w, "no.h5");
	assert_ok(tomos_prepared_open(&prepared, &w.job, NULL));
	assert_int_equal(tomos_prepared_read(prepared, 5, 3, NULL, NULL, NULL), TOMOS_BAD_VALUE);
	assert_says("3 rows from row 5, of 7");
	tomos_prepared_close(prepared);
	assert_int_equal(mem_live(), 0);
}

/* A scan that ends in the middle of its data. */
static void short_reads(void **state)
{
	(void)state;
	Work w;
	float *zeros = calloc(COUNT_ALL, sizeof *zeros);
	write_array(at("cut.npy"), TOMOS_PROJECTIONS, (int64_t[]){VIEWS, ROWS, COLUMNS}, zeros);
	free(zeros);
	work_init(&w, "no.h5");
	tomos_prepared *prepared;
	w.job.scan = at("cut.npy");
	w.scan.arc = 3.14159265358979323846;
	assert_ok(tomos_prepared_open(&prepared, &w.job, NULL));
	assert_int_equal(truncate(at("cut.npy"), 100000), 0);
	float *data = malloc(COUNT_ALL * sizeof *data);
	assert_int_equal(tomos_prepared_read(prepared, 0, ROWS, data, NULL, NULL), TOMOS_BAD_FILE);
	assert_says("cut.npy' ends at byte 100000");
	free(data);
	tomos_prepared_close(prepared);
}

static void default_outputs(void **state)
{
	(void)state;
	static const char *const names[][2] = {{"scan.h5", "scan_rec/"},
		{"a.b/scan", "a.b/scan_rec/"}, {"folder/", "folder_rec/"},
		{"a/.hidden", "a/.hidden_rec/"}, {"x.tar.gz", "x.tar_rec/"}};
	char output[64];
	for (int i = 0; i < COUNT(names); i++) {
		assert_ok(tomos_job_output(names[i][0], output, sizeof output));
		assert_string_equal(output, names[i][1]);
	}
	assert_int_equal(tomos_job_output("scan.h5", output, 9), TOMOS_BAD_VALUE);
	assert_says("the output of 'scan.h5' has a name longer than 9 bytes");
	assert_int_equal(tomos_job_output("", output, 9), TOMOS_BAD_VALUE);
}

#define TESTS(T) \
	T(outputs), T(default_outputs), T(rejections), T(wrong_backend), T(wrong_scans), \
		T(short_reads)
TEST_MAIN(TESTS, make_sloped_scan, scratch_remove)
