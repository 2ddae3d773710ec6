/* Runs that are interrupted and resumed: the same bytes, even if the files left between were
 * damaged. */
#include "work.h"
#include <sys/file.h>
#include <sys/stat.h>
#include <fcntl.h>

/* Interrupted repeatedly, a little later each time, until the run is complete: the same bytes. */
static void resumes(void **state)
{
	(void)state;
	static const char *const names[] = {"r.h5", "r.npy", "r.tif", "r/", "r.mha", "r.mhd",
		"packed.h5", "r.nii", "r.nii.gz", "r.nrrd", "r.vti", "r.nxs", "r.ome.tif"};
	for (int k = 0; k < COUNT(names); k++) {
		Work w;
		tomos_status status = TOMOS_CANCELLED;
		int64_t most = 0;
		work_init(&w, names[k]);
		w.file.compress = strcmp(names[k], "packed.h5") == 0 ? 4 : 0;
		assert_ok(tomos_run(&w.job, NULL));
		char whole[160];
		if (strcmp(names[k], "r.mhd") == 0)
			assert_int_equal(rename(at("r.raw"), at("whole_r.raw")), 0);
		snprintf(whole, sizeof whole, "%s", at(k == 3 ? "whole_r" : "whole_r.bin"));
		assert_int_equal(rename(at(names[k]), whole), 0);
		for (int i = 1; status == TOMOS_CANCELLED; i++) {
			Patience patience = {i};
			const tomos_progress progress = {lose_patience, &patience};
			w.run.memory = few_at_a_time;
			w.run.resume = i > 1;
			status = tomos_run(&w.job, &progress);
			most = max64(most, w.report.resumed);
			assert_true(status == TOMOS_OK || status == TOMOS_CANCELLED);
			assert_true((status == TOMOS_OK) == (access(at(names[k]), F_OK) == 0));
			assert_true(i < 1000);
		}
		assert_true(most > 0);
		assert_same_file(at(k == 3 ? "whole_r/recon_00003.tiff" : "whole_r.bin"),
			at(k == 3 ? "r/recon_00003.tiff" : names[k]));
	}
	assert_same_file(at("whole_r.raw"), at("r.raw"));
	assert_int_equal(hidden_files(), 0);
	assert_int_equal(mem_live(), 0);
}

/* Values beyond the window of an earlier run are counted, those of slices done again once. */
static void values_cut_off(void **state)
{
	(void)state;
	static const double narrow[2] = {0.1, 0.5};
	Work w;
	work_init(&w, "c.h5");
	w.file.type = "uint8";
	w.file.window = narrow, w.file.window_count = 2;
	assert_ok(tomos_run(&w.job, NULL));
	int64_t whole = w.report.cut;
	assert_true(whole > 0);
	w.file.overwrite = 1;
	w.run.memory = few_at_a_time;
	assert_true(run_with_breaks(&w) > 0);
	assert_int_equal(w.report.cut, whole);
}

static int furthest_done(void *user, const char *stage, int64_t done, int64_t total, double value)
{
	double *share = user;
	(void)stage, (void)value;
	*share = fmax(*share, (double)done / (double)total);
	return 0;
}

/* Other slabs than before do some slices once more; these count once. */
static void other_slabs(void **state)
{
	(void)state;
	Work w;
	double share = 0;
	const tomos_progress progress = {furthest_done, &share};
	break_off("o.npy");
	work_init(&w, "o.npy");
	w.run.resume = 1;
	assert_ok(tomos_run(&w.job, &progress));
	assert_true(w.report.resumed > 0);
	assert_true(share == 1);
}

static tomos_analytic_options analytic;
static tomos_source_options source;
static tomos_grid_options grid;
static const double window[2] = {0, 1}, hardening[2] = {1, 0.1}, another_axis = 24.5;
static const double voxel = 0.021;

static void other_filter(Work *w)
{
	analytic = tomos_analytic_defaults();
	analytic.filter = "hann";
	w->job.analytic = &analytic;
}

static void other_type(Work *w)
{
	w->file.type = "uint8";
	w->file.window = window;
	w->file.window_count = 2;
}

static void other_hardening(Work *w)
{
	w->prep.hardening = hardening;
	w->prep.hardening_count = 2;
}

static void other_axis(Work *w)
{
	w->scan.axis = &another_axis;
}

static void other_pixel(Work *w)
{
	w->scan.pixel = 0.03;
}

static void other_voxel(Work *w)
{
	grid = tomos_grid_defaults();
	grid.voxel = &voxel;
	grid.voxel_count = 1;
	w->job.grid = &grid;
}

static void other_dataset(Work *w)
{
	source = tomos_source_defaults();
	source.dataset = "/exchange/data";
	source.flats = w->path;
	source.darks = w->path;
	w->job.source = &source;
	w->scan.arc = 3.14159265358979323846;
	w->scan.pixel = PIXEL_UM * 1e-3;
}

static void other_rows(Work *w)
{
	w->run.rows = "0:6";
}

static void other_columns(Work *w)
{
	w->run.columns = "1:48";
}

/* Options that affect the values may not change between the interrupted run and the resumed one. */
static void other_options(void **state)
{
	(void)state;
	void (*const changes[])(Work * w) = {other_filter, other_type, other_hardening, other_axis,
		other_pixel, other_voxel, other_dataset, other_rows, other_columns, NULL};
	break_off("p.npy");
	for (int i = 0; i < COUNT(changes); i++) {
		Work w;
		work_init(&w, "p.npy");
		w.run.resume = 1;
		if (changes[i])
			changes[i](&w);
		tomos_status status = tomos_run(&w.job, NULL);
		assert_int_equal(status, changes[i] ? TOMOS_BAD_VALUE : TOMOS_OK);
		if (changes[i])
			assert_says("p.npy' was begun with other options");
	}
}

/* Another version of Zarr is another layout of the file. */
static void other_zarr(void **state)
{
	(void)state;
	Work w;
	break_off_with("z.zarr", least_memory);
	work_init(&w, "z.zarr");
	w.run.resume = 1;
	w.file.zarr = "2";
	assert_int_equal(tomos_run(&w.job, NULL), TOMOS_BAD_VALUE);
	assert_says("z.zarr' was begun with other options");
	w.file.zarr = "3";
	assert_ok(tomos_run(&w.job, NULL));
	assert_true(w.report.resumed > 0);
}

/* A run that fails keeps the finished part of an earlier one. */
static void nothing_is_lost(void **state)
{
	(void)state;
	char part[160];
	tomos_status status = TOMOS_NO_MEMORY;
	snprintf(part, sizeof part, "%s/.q.npy.part", scratch);
	break_off("q.npy");
	for (int64_t nth = 1; status != TOMOS_OK; nth += 1 + nth / 10) {
		Work w;
		work_init(&w, "q.npy");
		w.run.resume = 1;
		mem_fail_nth(nth);
		status = tomos_run(&w.job, NULL);
		mem_fail_nth(0);
		assert_true(status == TOMOS_OK || status == TOMOS_NO_MEMORY);
		assert_int_equal(access(part, F_OK), status == TOMOS_OK ? -1 : 0);
		assert_true(status != TOMOS_OK || w.report.resumed > 0);
	}
}

static void journals(void **state)
{
	(void)state;
	Work w;
	break_off("j.npy");
	work_init(&w, "j.npy");
	w.run.resume = 1;
	w.prep.floor = 1e-3;
	assert_int_equal(tomos_run(&w.job, NULL), TOMOS_BAD_VALUE);
	assert_says("j.npy' was begun with other options");
	/* another process has it */
	char journal[160];
	snprintf(journal, sizeof journal, "%s/.j.npy.journal", scratch);
	int other = open(journal, O_RDWR);
	assert_true(other >= 0 && flock(other, LOCK_EX) == 0);
	assert_int_equal(tomos_run(&w.job, NULL), TOMOS_IO);
	assert_says("j.npy' is being written by another process");
	close(other);
	/* lines that cannot be read are ignored, with a warning */
	FILE *text = fopen(journal, "a");
	assert_non_null(text);
	fputs("what is this\n", text);
	fclose(text);
	work_init(&w, "j.npy");
	w.run.resume = 1;
	assert_ok(tomos_run(&w.job, NULL));
	assert_true(w.report.resumed > 0);
	assert_non_null(strstr(w.said, "warning: 1 line of '"));
	assert_int_equal(access(journal, F_OK), -1);
	/* without a journal there is nothing to resume */
	break_off("j.npy");
	assert_int_equal(unlink(journal), 0);
	assert_ok(tomos_run(&w.job, NULL));
	assert_int_equal(w.report.resumed, 0);
	assert_int_equal(access(journal, F_OK), -1);
	assert_int_equal(tomos_run(&w.job, NULL), TOMOS_IO);
	assert_says("j.npy' exists already");
	assert_int_equal(mem_live(), 0);
}

static void put_text(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

/* A data file beside a .mhd belongs to the interrupted run only if its journal names it; that of an
 * older volume is not touched. */
static void old_data(void **state)
{
	(void)state;
	Work w;
	char whole[160], journal[160], head[64];
	work_init(&w, "whole_c.mhd");
	assert_ok(tomos_run(&w.job, NULL));
	snprintf(whole, sizeof whole, "%s", at("whole_c.raw"));
	snprintf(journal, sizeof journal, "%s/.c.mhd.journal", scratch);
	for (int i = 0; i < 2; i++) {
		break_off("c.mhd");
		work_init(&w, "c.mhd");
		w.run.resume = w.file.overwrite = 1;
		assert_int_equal(unlink(at(".c.mhd.part.data")), 0);
		put_text(at("c.raw"), "an older volume");
		if (i == 0) { /* the journal lists slices, but the file with their data is gone */
			assert_int_equal(tomos_run(&w.job, NULL), TOMOS_BAD_FILE);
			assert_says("is not done, but its data are in '");
			assert_says("c.raw' already; run without resume");
			struct stat info;
			assert_int_equal(stat(at("c.raw"), &info), 0);
			assert_int_equal(info.st_size, 15);
			w.run.resume = 0;
		} else { /* interrupted before the first slice: a journal of one line */
			FILE *text = fopen(journal, "r");
			assert_non_null(text);
			assert_non_null(fgets(head, sizeof head, text));
			fclose(text);
			put_text(journal, head);
		}
		assert_ok(tomos_run(&w.job, NULL));
		assert_int_equal(w.report.resumed, 0);
		assert_same_file(whole, at("c.raw"));
	}
	assert_int_equal(mem_live(), 0);
}

/* ---- other scans -------------------------------------------------------------------------- */

/* A scan of the same name and shape with other values is not continued; the same values in another
 * file are. */
static void other_scan(void **state)
{
	(void)state;
	Work w;
	char scan[160], moved[160];
	snprintf(scan, sizeof scan, "%s", at("scan.h5"));
	snprintf(moved, sizeof moved, "%s", at("elsewhere.h5"));
	for (int i = 0; i < 2; i++) {
		break_off("s.npy");
		assert_int_equal(rename(scan, moved), 0);
		row_slope = i ? row_slope : 0.2;
		write_scan(scan);
		work_init(&w, "s.npy");
		w.run.resume = 1;
		if (i) {
			w.job.scan = moved;
			assert_int_equal(unlink(scan), 0);
			assert_ok(tomos_run(&w.job, NULL));
			assert_true(w.report.resumed > 0);
		} else {
			assert_int_equal(tomos_run(&w.job, NULL), TOMOS_BAD_VALUE);
			assert_says("s.npy' was begun with another scan: size, time or content");
			assert_int_equal(access(w.output, F_OK), -1);
		}
		row_slope = 0.1;
		assert_int_equal(rename(moved, scan), 0);
	}
	assert_int_equal(mem_live(), 0);
}

static char scan_path[160];

static void with_flats(Work *w)
{
	source = tomos_source_defaults();
	source.flats = scan_path;
	w->job.source = &source;
}

static void with_path(Work *w)
{
	w->job.scan = scan_path;
	w->scan.arc = 3.14159265358979323846;
}

static void write_flats(float level)
{
	static float flats[ROWS * COLUMNS];
	for (int i = 0; i < ROWS * COLUMNS; i++)
		flats[i] = level;
	snprintf(scan_path, sizeof scan_path, "%s", at("flats.npy"));
	write_array(scan_path, TOMOS_PROJECTIONS, (int64_t[]){1, ROWS, COLUMNS}, flats);
}

/* One picture of many. */
static void write_stack(float first)
{
	static float views[COUNT_ALL];
	for (int i = 0; i < COUNT_ALL; i++)
		views[i] = (float)(i % 97) + (i == 40 * ROWS * COLUMNS ? first : 0);
	snprintf(scan_path, sizeof scan_path, "%s", at("stack/"));
	write_array(scan_path, TOMOS_PROJECTIONS, (int64_t[]){VIEWS, ROWS, COLUMNS}, views);
}

/* The numbers are in another file than the one that is named. */
static void write_virtual(float first)
{
	static float views[COUNT_ALL];
	const hsize_t shape[3] = {VIEWS, ROWS, COLUMNS};
	for (int i = 0; i < COUNT_ALL; i++)
		views[i] = (float)(i % 97) + (i == 40 * ROWS * COLUMNS ? first : 0);
	hid_t file = h5_new(at("numbers.h5")), list = H5Pcreate(H5P_DATASET_CREATE);
	H5Pset_obj_track_times(list, 0); /* the same numbers give the same bytes at any time */
	h5_put_as(file, "data", H5T_NATIVE_FLOAT, 3, shape, list, views);
	H5Fclose(file);
	snprintf(scan_path, sizeof scan_path, "%s", at("virtual.h5"));
	file = h5_new(scan_path);
	hid_t space = H5Screate_simple(3, shape, NULL);
	assert_true(H5Pset_virtual(list, space, "numbers.h5", "data", space) >= 0);
	hid_t data = H5Dcreate2(
		file, "projections", H5T_NATIVE_FLOAT, space, H5P_DEFAULT, list, H5P_DEFAULT);
	assert_true(data >= 0);
	H5Dclose(data);
	H5Pclose(list);
	H5Sclose(space);
	H5Fclose(file);
}

/* Wherever the numbers of a scan come from, others are not mixed with them. */
static void other_numbers(void **state)
{
	(void)state;
	static const struct {
		void (*write)(float number);
		void (*change)(Work *w);
	} kinds[] = {
		{write_flats, with_flats}, {write_stack, with_path}, {write_virtual, with_path}};
	for (int i = 0; i < COUNT(kinds); i++) {
		Work w;
		kinds[i].write(1200);
		break_off_with("n.npy", kinds[i].change);
		for (int same = 0; same < 2; same++) {
			kinds[i].write(same ? 1200 : 1201);
			work_init(&w, "n.npy");
			kinds[i].change(&w);
			w.run.resume = 1;
			assert_int_equal(
				tomos_run(&w.job, NULL), same ? TOMOS_OK : TOMOS_BAD_VALUE);
			if (!same)
				assert_says("n.npy' was begun with another scan");
		}
		assert_true(w.report.resumed > 0);
		unlink(w.output);
	}
	assert_int_equal(mem_live(), 0);
}

#define TESTS(T) \
	T(resumes), T(values_cut_off), T(other_slabs), T(other_options), T(other_zarr), \
		T(nothing_is_lost), T(journals), T(old_data), T(other_scan), T(other_numbers)
TEST_MAIN(TESTS, make_sloping_scan, scratch_remove)
