/* Measured scans, reconstructed and compared with what is published about them.
 *
 * The scans are not part of the project: TOMOS_DATA names their folder, and a test whose scan is
 * not there is skipped. TOMOS_PICTURES names a folder for pictures of the results, if they are
 * wanted.
 */
#include <unistd.h>
#include "ops/cases.h"

static int data_path(char path[512], const char *name)
{
	const char *folder = getenv("TOMOS_DATA");
	snprintf(path, 512, "%s/%s", folder ? folder : ".", name);
	if (folder && access(path, R_OK) == 0)
		return 1;
	print_message("skipped: there is no %s (TOMOS_DATA is '%s')\n", name, folder ? folder : "");
	return 0;
}

#define NEEDS(path, name) \
	do { \
		if (!data_path(path, name)) \
			skip(); \
	} while (0)

static float *read_all(const char *path, const char *dataset, int64_t shape[3])
{
	tomos_file_options o = tomos_file_defaults();
	o.dataset = dataset;
	tomos_file *file;
	tomos_file_info info = {.bytes = sizeof info};
	OK(tomos_file_open(&file, path, &o));
	OK(tomos_file_describe(file, &info));
	memcpy(shape, info.shape, sizeof info.shape);
	float *data = malloc((size_t)(shape[0] * shape[1] * shape[2]) * sizeof *data);
	OK(tomos_file_read(file, 0, shape[0], data));
	tomos_file_close(file);
	return data;
}

static void draw(const char *name, const float *image, int64_t n, double low, double high)
{
	const char *folder = getenv("TOMOS_PICTURES");
	char path[1024];
	if (!folder)
		return;
	tomos_file_options o = tomos_file_defaults();
	o.overwrite = 1;
	snprintf(path, sizeof path, "%s/%s.png", folder, name);
	OK(tomos_picture_write(path, image, n, n, low, high, &o));
}

static double *radians(const float *degrees, int64_t count)
{
	double *angles = malloc((size_t)count * sizeof *angles);
	for (int64_t i = 0; i < count; i++)
		angles[i] = degrees[i] * M_PI / 180;
	return angles;
}

static float *reconstruct(const tomos_scan_options *o, const tomos_grid *grid, float *data,
	const tomos_analytic_options *how)
{
	tomos_backend *backend;
	tomos_geometry *scan;
	OK(tomos_backend_open(&backend, test_backend()));
	OK(tomos_geometry_make(&scan, o));
	float *x = malloc((size_t)(grid->n[0] * grid->n[1] * grid->n[2]) * sizeof *x);
	tomos_array b = tomos_array_of(data, o->angles_count, o->rows, o->columns);
	tomos_array image = tomos_array_of(x, grid->n[2], grid->n[1], grid->n[0]);
	OK(tomos_fbp(backend, grid, scan, &b, &image, how, NULL));
	OK(tomos_array_check(&image, "the reconstruction"));
	tomos_geometry_free(scan);
	tomos_backend_close(backend);
	return x;
}

/* Data kept as halves change the picture by at most 1e-4; a backend without them keeps floats. */
static void halves_are_close(const char *name, const tomos_scan_options *o, const tomos_grid *grid,
	float *data, tomos_analytic_options how, const float *wanted)
{
	how.data = "half";
	float *x = reconstruct(o, grid, data, &how);
	double error = case_difference(x, wanted, grid->n[0] * grid->n[1] * grid->n[2]);
	printf("  %s: halves change the picture by %.2g\n", name, error);
	assert_true(error <= 1e-4);
	free(x);
}

/* ---- fan beam: Helsinki Tomography Challenge 2022, phantom 07c ------------------------------- */

/* Half way between the means of what is above and what is below. */
static double mid_threshold(const float *x, int64_t count)
{
	double threshold = 0;
	for (int round = 0; round < 50; round++) {
		double sum[2] = {0}, number[2] = {0};
		for (int64_t i = 0; i < count; i++)
			sum[x[i] > threshold] += x[i], number[x[i] > threshold]++;
		threshold = 0.5 * (sum[0] / number[0] + sum[1] / number[1]);
	}
	return threshold;
}

static double matthews(const float *x, double threshold, const float *truth, int64_t count)
{
	double n[2][2] = {{0}};
	for (int64_t i = 0; i < count; i++)
		n[x[i] > threshold][truth[i] > 0.5]++;
	return (n[1][1] * n[0][0] - n[1][0] * n[0][1]) /
	       sqrt((n[1][1] + n[1][0]) * (n[1][1] + n[0][1]) * (n[0][0] + n[1][0]) *
		       (n[0][0] + n[0][1]));
}

/* 721 views, of which the first and the last have the same angle. The published picture has y
 * upwards with its rows, and angles the other way round. */
static void fan_beam(void **state)
{
	(void)state;
	char path[512];
	NEEDS(path, "htc2022_07c/htc2022_07c.h5");
	int64_t shape[3], one[3], size[3];
	float *data = read_all(path, "exchange/data", shape);
	float *theta = read_all(path, "exchange/theta", one);
	float *wanted = read_all(path, "reference/fbp", size);
	float *parts = read_all(path, "reference/segmentation", size);
	int64_t n = size[2], count = n * n;
	double *angles = radians(theta, shape[0]), source_axis = 410.66, source_detector = 553.74;
	for (int64_t i = 0; i < shape[0]; i++)
		angles[i] = -angles[i];
	tomos_scan_options o = tomos_scan_defaults();
	o.geometry = "fan";
	o.columns = shape[2], o.pixel = 0.2;
	o.angles = angles, o.angles_count = shape[0];
	o.source_axis = &source_axis, o.source_axis_count = 1;
	o.source_detector = &source_detector, o.source_detector_count = 1;
	const double voxel = 0.2 * source_axis / source_detector;
	tomos_grid grid = {{n, n, 1},
		{-0.5 * (double)(n - 1) * voxel, -0.5 * (double)(n - 1) * voxel, 0},
		{voxel, voxel, voxel}};
	float *x = reconstruct(&o, &grid, data, NULL);
	for (int64_t i = 0; i < count; i++)
		x[i] *= (float)voxel; /* the published values are per pixel */
	double error = case_difference(x, wanted, count), threshold = mid_threshold(x, count);
	double correlation = matthews(x, threshold, parts, count);
	printf("  fan beam: relative L2 %.5f from the published picture, Matthews correlation "
	       "%.5f\n",
		error, correlation);
	draw("fan", x, n, -0.1 * 2 * threshold, 1.3 * 2 * threshold);
	assert_true(error <= 0.0043);
	assert_true(correlation >= 0.999);
	free(data), free(theta), free(wanted), free(parts), free(angles), free(x);
}

/* With the distances alone: the direction of rotation is found, and the axis 0.13 columns beside
 * the nominal one that the published picture was made with. Opposite rays agree best there (0.995
 * %, 1.083 % with the nominal one, computed independently), and the picture has the largest
 * gradients; the search gives simulated scans of this object back to 0.002 columns. */
static void fan_beam_axis(void **state)
{
	(void)state;
	char path[512];
	NEEDS(path, "htc2022_07c/htc2022_07c.h5");
	int64_t shape[3], one[3];
	float *data = read_all(path, "exchange/data", shape);
	float *theta = read_all(path, "exchange/theta", one);
	double *angles = radians(theta, shape[0]), source_axis = 410.66, source_detector = 553.74;
	tomos_scan_options o = tomos_scan_defaults();
	tomos_geometry *scan;
	tomos_axis axis = {.bytes = sizeof axis};
	tomos_array b = tomos_array_of(data, shape[0], 1, shape[2]);
	o.geometry = "fan";
	o.columns = shape[2], o.pixel = 0.2;
	o.angles = angles, o.angles_count = shape[0];
	o.source_axis = &source_axis, o.source_axis_count = 1;
	o.source_detector = &source_detector, o.source_detector_count = 1;
	OK(tomos_geometry_make(&scan, &o));
	OK(tomos_axis_find_scan(&axis, NULL, &b, scan, NULL, NULL));
	printf("  fan beam: axis %.3f, standard error %.3f%s\n", axis.column, axis.error,
		axis.reversed ? ", reversed" : "");
	assert_true(axis.reversed && fabs(axis.column - 279.367) < 0.02);
	tomos_geometry_free(scan);
	free(data), free(theta), free(angles);
}

/* ---- parallel beam: counts, flats and darks -------------------------------------------------- */

static float *mean_image(const float *images, int64_t count, int64_t pixels)
{
	float *mean = calloc((size_t)pixels, sizeof *mean);
	for (int64_t i = 0; i < count * pixels; i++)
		mean[i % pixels] += images[i] / (float)count;
	return mean;
}

/* -log of (data - dark) / (white - dark). A pixel without light takes its neighbour's value;
 * returns how many there are in a view. */
static int64_t to_integrals(float *data, int64_t views, int64_t rows, int64_t columns,
	const float *white, const float *dark)
{
	int64_t dead = 0, pixels = rows * columns;
	for (int64_t v = 0; v < views; v++)
		for (int64_t i = pixels - 1; i >= 0; i--) {
			float light = white[i] - dark[i], *p = data + v * pixels + i;
			int64_t beside = i % columns + 1 < columns ? 1 : -1;
			if (light > 0)
				*p = -logf(fminf(fmaxf((*p - dark[i]) / light, 1e-4F), 1.2F));
			else
				*p = p[beside], dead += v == 0;
		}
	return dead;
}

typedef struct {
	double low, high, mean,
		negative; /* 1 and 99 per cent; of the values below zero: sum over sum */
} Levels;

static int by_value(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;
	return (x > y) - (x < y);
}

static Levels levels_of(const float *x, int64_t count)
{
	float *sorted = malloc((size_t)count * sizeof *sorted);
	double sum = 0, below = 0, all = 0;
	memcpy(sorted, x, (size_t)count * sizeof *sorted);
	qsort(sorted, (size_t)count, sizeof *sorted, by_value);
	for (int64_t i = 0; i < count; i++) {
		sum += x[i], all += fabs(x[i]);
		below += x[i] < 0 ? -x[i] : 0;
	}
	Levels l = {sorted[count / 100], sorted[count - 1 - count / 100], sum / (double)count,
		below / all};
	free(sorted);
	return l;
}

/* The mean over rings about the axis, from `from` to `to` pixels. */
static double ring(const float *x, int64_t n, double from, double to)
{
	double sum = 0, number = 0, middle = 0.5 * (double)(n - 1);
	for (int64_t i = 0; i < n * n; i++) {
		double r = hypot((double)(i % n) - middle, (double)(i / n) - middle);
		if (r >= from && r < to)
			sum += x[i], number++;
	}
	return sum / number;
}

static float *tooth_slice(float *data, const double *angles, const int64_t shape[3], double axis)
{
	tomos_scan_options o = tomos_scan_defaults();
	tomos_grid grid;
	o.rows = shape[1], o.columns = shape[2];
	o.angles = angles, o.angles_count = shape[0];
	o.axis = &axis, o.axis_count = 1;
	OK(tomos_grid_centred(&grid, shape[2], shape[2], 1, 1));
	grid.first[2] = -0.5; /* the first of two rows */
	return reconstruct(&o, &grid, data, NULL);
}

/* Its two rows over and over, a stack that is high enough to be kept as halves. */
static void tooth_in_halves(const float *data, const double *angles, const int64_t shape[3])
{
	enum { TIMES = 16 };
	int64_t block = shape[1] * shape[2];
	float *high = malloc((size_t)(shape[0] * TIMES * block) * sizeof *high);
	for (int64_t i = 0; i < shape[0] * TIMES; i++)
		memcpy(high + i * block, data + i / TIMES * block, (size_t)block * sizeof *high);
	tomos_scan_options o = tomos_scan_defaults();
	tomos_grid grid;
	double axis = 296;
	o.rows = TIMES * shape[1], o.columns = shape[2];
	o.angles = angles, o.angles_count = shape[0];
	o.axis = &axis, o.axis_count = 1;
	OK(tomos_grid_centred(&grid, shape[2], shape[2], o.rows, 1));
	float *x = reconstruct(&o, &grid, high, NULL);
	halves_are_close("tooth", &o, &grid, high, tomos_analytic_defaults(), x);
	free(high), free(x);
}

/* A tooth in air: with the axis where it is the picture has less below zero than beside it. */
static void tooth(void **state)
{
	(void)state;
	char path[512];
	NEEDS(path, "tooth/tooth.h5");
	int64_t shape[3], flats[3], darks[3], one[3];
	float *data = read_all(path, "exchange/data", shape);
	float *white = read_all(path, "exchange/data_white", flats);
	float *dark = read_all(path, "exchange/data_dark", darks);
	float *theta = read_all(path, "exchange/theta", one);
	double *angles = radians(theta, shape[0]), negative = 0;
	float *flat = mean_image(white, flats[0], shape[1] * shape[2]);
	float *black = mean_image(dark, darks[0], shape[1] * shape[2]);
	assert_int_equal(to_integrals(data, shape[0], shape[1], shape[2], flat, black), 0);
	static const double axes[] = {296, 290, 302};
	for (int i = 0; i < 3; i++) {
		float *x = tooth_slice(data, angles, shape, axes[i]);
		Levels l = levels_of(x, shape[2] * shape[2]);
		printf("  tooth, axis %g: 1 %% %.5f, 99 %% %.5f, mean %.5f, below zero %.4f\n",
			axes[i], l.low, l.high, l.mean, l.negative);
		if (i == 0) {
			draw("tooth", x, shape[2], l.low, 1.2 * l.high);
			assert_true(l.high > 4 * fabs(l.low) && l.high > 2 * l.mean && l.mean > 0);
			negative = l.negative;
		}
		assert_true(i == 0 || l.negative > 1.05 * negative);
		free(x);
	}
	tooth_in_halves(data, angles, shape);
	free(data), free(white), free(dark), free(theta), free(angles), free(flat), free(black);
}

static double *read_angles(const char *path, int64_t first, int64_t count)
{
	FILE *file = fopen(path, "r");
	double value, *angles = malloc((size_t)count * sizeof *angles);
	assert_non_null(file);
	for (int64_t i = 0; i < first + count; i++) {
		assert_int_equal(fscanf(file, "%lf", &value), 1);
		if (i >= first)
			angles[i - first] = value * M_PI / 180;
	}
	fclose(file);
	return angles;
}

/* The projections alone, in a folder of links. */
static float *read_stack(const char *folder, int64_t count, int64_t shape[3])
{
	char links[] = "/tmp/tomos-stack-XXXXXX", from[600], to[128];
	assert_non_null(mkdtemp(links));
	for (int64_t i = 0; i < count; i++) {
		snprintf(from, sizeof from, "%s/raw_%05lld.tiff", folder, (long long)i);
		snprintf(to, sizeof to, "%s/raw_%05lld.tiff", links, (long long)i);
		assert_int_equal(symlink(from, to), 0);
	}
	float *data = read_all(links, "", shape);
	for (int64_t i = 0; i < count; i++) {
		snprintf(to, sizeof to, "%s/raw_%05lld.tiff", links, (long long)i);
		unlink(to);
	}
	rmdir(links);
	return data;
}

/* A wire in a holder that is wider than the detector. Zeros beyond the detector make a bright rim
 * that smooth padding takes away; the dead pixel leaves no trace. */
static void truncated_stack(void **state)
{
	(void)state;
	enum { VIEWS = 91 };
	char path[512], name[600];
	NEEDS(path, "i13_24737_tiff");
	int64_t shape[3], size[3];
	float *data = read_stack(path, VIEWS, shape);
	snprintf(name, sizeof name, "%s/flat_00001.tiff", path);
	float *flat = read_all(name, "", size);
	snprintf(name, sizeof name, "%s/dark_00001.tiff", path);
	float *dark = read_all(name, "", size);
	snprintf(name, sizeof name, "%s/angles.txt", path);
	double *angles = read_angles(name, 10, VIEWS), axis = 86, rims[3];
	assert_int_equal(shape[0], VIEWS);
	assert_int_equal(to_integrals(data, VIEWS, shape[1], shape[2], flat, dark), 1);
	tomos_scan_options o = tomos_scan_defaults();
	o.rows = shape[1], o.columns = shape[2];
	o.angles = angles, o.angles_count = VIEWS;
	o.axis = &axis, o.axis_count = 1;
	tomos_grid grid;
	OK(tomos_grid_centred(&grid, shape[2], shape[2], shape[1], 1));
	static const char *const paddings[] = {"zero", "edge", "smooth"};
	int64_t n = shape[2], plane = n * n;
	for (int i = 0; i < 3; i++) {
		tomos_analytic_options how = tomos_analytic_defaults();
		how.padding = paddings[i];
		float *x = reconstruct(&o, &grid, data, &how), *middle = x + shape[1] / 2 * plane;
		Levels first = levels_of(x, plane), l = levels_of(middle, plane);
		rims[i] = ring(middle, n, 68, 73) - ring(middle, n, 40, 60);
		printf("  stack, padding %-6s: 1 %% %.4f, 99 %% %.4f; the rim is brighter by "
		       "%.4f\n",
			paddings[i], l.low, l.high, rims[i]);
		draw(paddings[i], middle, n, l.low, 1.2 * l.high);
		assert_true(first.high < 2 * l.high && first.low > -l.high);
		halves_are_close("stack", &o, &grid, data, how, x);
		free(x);
	}
	assert_true(fabs(rims[1]) < 0.5 * rims[0] && fabs(rims[2]) < 0.5 * rims[0]);
	free(data), free(flat), free(dark), free(angles);
}

int main(void)
{
	const char *folder = getenv("TOMOS_DATA");
	if (!folder || access(folder, R_OK) != 0) {
		printf("skipped: TOMOS_DATA names no folder with measured scans\n");
		return 77;
	}
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fan_beam),
		cmocka_unit_test(fan_beam_axis),
		cmocka_unit_test(tooth),
		cmocka_unit_test(truncated_stack),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
