/* The first look at a volume: there before the first slab, like the final pictures, and gone with a
 * run that fails. */
#include "work.h"
#include <png.h>

static const char *const planes[] = {"xy", "xz", "yz"};

static const char *picture(const char *name, const char *plane)
{
	char end[64];
	snprintf(end, sizeof end, "%s_%s.png", name, plane);
	return at(end);
}

typedef struct {
	unsigned char *dots;
	int64_t wide, high;
} Picture;

static Picture picture_read(const char *path)
{
	png_image image = {.version = PNG_IMAGE_VERSION};
	assert_true(png_image_begin_read_from_file(&image, path));
	image.format = PNG_FORMAT_GRAY;
	unsigned char *dots = malloc(PNG_IMAGE_SIZE(image));
	assert_true(png_image_finish_read(&image, NULL, dots, 0, NULL));
	return (Picture){dots, image.width, image.height};
}

/* With b moved by some dots along both sides. */
static double correlation(const Picture *a, const Picture *b, int64_t move)
{
	int64_t count = a->wide * a->high;
	double s[5] = {0}, n = 0;
	for (int64_t i = 0; i < count; i++) {
		int64_t u = i % a->wide + move, v = i / a->wide + move;
		if (u < 0 || u >= a->wide || v < 0 || v >= a->high)
			continue;
		double x = a->dots[i], y = b->dots[v * a->wide + u];
		n++;
		s[0] += x, s[1] += y, s[2] += x * x, s[3] += y * y, s[4] += x * y;
	}
	return (n * s[4] - s[0] * s[1]) / sqrt((n * s[2] - s[0] * s[0]) * (n * s[3] - s[1] * s[1]));
}

/* Reads the pictures at the first report of the reconstruction, and may end the run there. */
typedef struct {
	const char *name;
	bool stop;
	Picture early[3];
} Watch;

static int watch(void *user, const char *stage, int64_t done, int64_t total, double value)
{
	Watch *w = user;
	(void)total, (void)value, (void)done;
	if (strcmp(stage, "axis") == 0 || w->early[0].dots)
		return 0;
	for (int i = 0; i < 3; i++)
		if (access(picture(w->name, planes[i]), F_OK) == 0)
			w->early[i] = picture_read(picture(w->name, planes[i]));
	return w->stop;
}

static void run_watched(Work *work, Watch *w)
{
	const tomos_progress progress = {watch, w};
	work->run.preview = 1;
	assert_ok(tomos_run(&work->job, &progress));
	for (int i = 0; i < 3; i++) {
		Picture final = picture_read(picture(w->name, planes[i]));
		assert_non_null(w->early[i].dots);
		assert_int_equal(w->early[i].wide, final.wide);
		assert_int_equal(w->early[i].high, final.high);
		double like = correlation(&w->early[i], &final, 0);
		printf("  %s %s: correlation %.3f\n", w->name, planes[i], like);
		assert_true(like > 0.9);
		for (int move = -2; move <= 2; move += 4) /* it is in its place */
			assert_true(correlation(&w->early[i], &final, move) < like);
		free(final.dots);
		free(w->early[i].dots);
	}
	assert_non_null(strstr(work->said, "preview   first look after "));
	assert_int_equal(mem_live(), 0);
}

/* Counts with flats and darks; some rows and columns only; averaged pixels. */
static void measured(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		static const char *const names[] = {"all", "rows", "columns", "bins"};
		char output[32];
		Work w;
		Watch look = {.name = names[i]};
		snprintf(output, sizeof output, "%s.h5", names[i]);
		work_init(&w, output);
		w.run.rows = i == 1 ? "2:6" : "";
		w.run.columns = i == 2 ? "3:47" : "";
		w.prep.bin = i == 3 ? 2 : 1;
		run_watched(&w, &look);
	}
}

/* More pixels and views than the first look uses. */
static void write_large(const char *path, const char *geometry)
{
	const double source_axis = 6, source_detector = 9;
	tomos_scan_options o = tomos_scan_defaults();
	tomos_geometry *scan;
	tomos_phantom *phantom;
	tomos_file *file;
	o.geometry = geometry;
	o.rows = 11, o.columns = 560, o.views = 250;
	o.pixel = 0.007;
	if (strcmp(geometry, "cone") == 0) {
		o.source_axis = &source_axis, o.source_detector = &source_detector;
		o.source_axis_count = o.source_detector_count = 1;
	}
	int64_t count = o.views * o.rows * o.columns;
	float *data = malloc((size_t)count * sizeof *data);
	const int64_t sizes[3] = {o.views, o.rows, o.columns};
	tomos_array array = tomos_array_of(data, sizes[0], sizes[1], sizes[2]);
	assert_ok(tomos_geometry_make(&scan, &o));
	assert_ok(tomos_phantom_named(&phantom, "shepp-logan-modified", NULL));
	assert_ok(tomos_phantom_project(phantom, scan, 1, &array));
	tomos_file_options f = tomos_file_defaults();
	assert_ok(tomos_file_create(&file, path, TOMOS_PROJECTIONS, sizes, &f));
	assert_ok(tomos_file_set_geometry(file, scan));
	assert_ok(tomos_file_write(file, 0, sizes[0], data));
	assert_ok(tomos_file_commit(file));
	tomos_file_close(file);
	tomos_geometry_free(scan);
	tomos_phantom_free(phantom);
	free(data);
}

static void large(void **state)
{
	(void)state;
	static const char *const kinds[] = {"parallel", "cone"};
	for (int i = 0; i < (CASE_RACES ? 1 : 2); i++) {
		char output[32];
		Work w;
		Watch look = {.name = kinds[i]};
		write_large(at("large.h5"), kinds[i]);
		snprintf(output, sizeof output, "%s.npy", kinds[i]);
		work_init(&w, output);
		snprintf(w.path, sizeof w.path, "%s", at("large.h5"));
		w.job.geometry = NULL;
		run_watched(&w, &look);
		unlink(at("large.h5"));
	}
}

/* An ended run leaves no pictures. */
static void ended(void **state)
{
	(void)state;
	Work w;
	Watch look = {.name = "ended", .stop = true};
	const tomos_progress progress = {watch, &look};
	work_init(&w, "ended.h5");
	w.run.preview = 1;
	assert_int_equal(tomos_run(&w.job, &progress), TOMOS_CANCELLED);
	for (int i = 0; i < 3; i++) {
		assert_non_null(look.early[i].dots);
		assert_int_equal(access(picture("ended", planes[i]), F_OK), -1);
		free(look.early[i].dots);
	}
	assert_int_equal(mem_live(), 0);
}

/* A first look for which there is no memory is left out; nothing leaks. */
static void little_memory(void **state)
{
	(void)state;
	int without = 0;
	for (int nth = 1; nth < 500; nth += CASE_RACES ? 101 : CASE_SLOW ? 21 : 7) {
		Work w;
		work_init(&w, "little.npy");
		w.run.preview = w.file.overwrite = 1;
		mem_fail_nth(nth);
		tomos_status status = tomos_run(&w.job, NULL);
		mem_fail_nth(0);
		assert_true(status == TOMOS_OK || status == TOMOS_NO_MEMORY);
		without += status == TOMOS_OK && !strstr(w.said, "first look");
		assert_int_equal(mem_live(), 0);
	}
	assert_true(without > 0);
}

#define TESTS(T) T(measured), T(large), T(ended), T(little_memory)
TEST_MAIN(TESTS, make_scan, scratch_remove)
