/* Scans as a beamline leaves them, with flats, darks, noise, stripes, zingers and an axis off
 * centre, to volumes, with no option but the input: right values, and the axis within a tenth of a
 * pixel. */
#include "run_help.h"
#include "scan_files.h"
#include <math.h>

enum { VIEWS = 240, ROWS = 4, COLUMNS = 160, FLATS = 8, DARKS = 4, FRAME = ROWS * COLUMNS };

#define AXIS 83.4
#define PIXEL 0.01 /* mm */
#define PHOTONS 30000.0
#define DARK 100.0

static const tomos_ellipsoid solids[] = {
	{{0.02, -0.05, 0}, {0.55, 0.5, INFINITY}, {0, 0, 0}, 0.8},
	{{0.25, 0.1, 0}, {0.15, 0.1, INFINITY}, {0.4, 0, 0}, 0.6},
	{{-0.2, -0.2, 0}, {0.12, 0.12, INFINITY}, {0, 0, 0}, -0.8},
	{{-0.15, 0.25, 0}, {0.05, 0.08, INFINITY}, {0.9, 0, 0}, 1.2},
};

static double angles[VIEWS];
static float integrals[VIEWS * FRAME];
/* In the order of NXtomo: darks, flats, views. */
static uint16_t frames[(DARKS + FLATS + VIEWS) * FRAME];

static double uniform(void)
{
	static uint64_t state = 1;
	state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return ((double)(state >> 11) + 0.5) / 9007199254740992.0;
}

/* Poisson noise of many photons is nearly Gaussian. */
static uint16_t count_of(double photons)
{
	double noise = sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());
	return (uint16_t)fmin(65535, fmax(0, floor(DARK + photons + sqrt(photons) * noise + 0.5)));
}

/* The beam's profile with the pixels' own sensitivity. */
static double beam(int i)
{
	double x = (double)(i % COLUMNS) / COLUMNS - 0.5;
	return PHOTONS * (1 - 0.4 * x * x) * (1 + 0.05 * sin(1e4 * (double)(i % FRAME)));
}

/* Some pixels respond nonlinearly: flat fields do not correct them, and rings result. */
static double stripe(int i)
{
	return i % FRAME % 37 == 5 ? 0.01 * sin((double)(i % FRAME)) : 0;
}

static void project(void)
{
	project_solids(integrals, (int64_t[]){VIEWS, ROWS, COLUMNS}, PIXEL, AXIS,
		(Solids){solids, COUNT(solids)}, 4);
}

static int measure(void **state)
{
	if (scratch_make(state))
		return -1;
	project();
	for (int i = 0; i < DARKS * FRAME; i++)
		frames[i] = (uint16_t)(DARK + floor(4 * uniform()) - 1);
	for (int i = 0; i < FLATS * FRAME; i++)
		frames[DARKS * FRAME + i] = count_of(beam(i));
	for (int i = 0; i < VIEWS * FRAME; i++) {
		double light = beam(i) * exp(-(double)integrals[i] + stripe(i));
		if (uniform() < 3e-4) /* a zinger */
			light += 20000 * uniform();
		frames[(DARKS + FLATS) * FRAME + i] = count_of(light);
	}
	for (int i = 0; i < VIEWS; i++)
		angles[i] = 180.0 * i / VIEWS;
	return 0;
}

/* ---- the same scan in two kinds of file --------------------------------------------------- */

static void put_exchange(const char *path)
{
	hid_t file = h5_new(path);
	const uint16_t *at_flats = frames + DARKS * FRAME;
	h5_put(file, "exchange/data", H5T_NATIVE_UINT16, 3, (hsize_t[]){VIEWS, ROWS, COLUMNS},
		at_flats + FLATS * FRAME);
	h5_put(file, "exchange/data_white", H5T_NATIVE_UINT16, 3, (hsize_t[]){FLATS, ROWS, COLUMNS},
		at_flats);
	h5_put(file, "exchange/data_dark", H5T_NATIVE_UINT16, 3, (hsize_t[]){DARKS, ROWS, COLUMNS},
		frames);
	h5_put_list(file, "exchange/theta", angles, VIEWS);
	h5_put_scalar(
		file, "measurement/instrument/detection_system/objective/resolution", PIXEL * 1e3);
	H5Fclose(file);
}

static void put_nexus(const char *path)
{
	enum { ALL = DARKS + FLATS + VIEWS };
	static int32_t keys[ALL];
	static double rotated[ALL];
	for (int i = 0; i < ALL; i++) {
		keys[i] = i < DARKS ? 2 : i < DARKS + FLATS;
		rotated[i] = i < DARKS + FLATS ? 0 : angles[i - DARKS - FLATS];
	}
	hid_t file = h5_new(path);
	h5_put_text(file, "entry/definition", "NXtomo", false);
	h5_put(file, "entry/instrument/detector/data", H5T_NATIVE_UINT16, 3,
		(hsize_t[]){ALL, ROWS, COLUMNS}, frames);
	h5_put(file, "entry/instrument/detector/image_key", H5T_NATIVE_INT32, 1, (hsize_t[]){ALL},
		keys);
	h5_put_list(file, "entry/sample/rotation_angle", rotated, ALL);
	h5_attribute(file, "entry/sample/rotation_angle", "units", "degree", false);
	h5_put_scalar(file, "entry/instrument/detector/x_pixel_size", PIXEL * 1e-3);
	H5Fclose(file);
}

/* ---- what comes out ----------------------------------------------------------------------- */

static double axis_said;

static void hear(void *user, tomos_level level, const char *line)
{
	(void)user;
	(void)level;
	(void)sscanf(line, "axis column %lf", &axis_said);
}

static double squared(const tomos_ellipsoid *e, double x, double y)
{
	double c = cos(e->euler[0]), s = sin(e->euler[0]);
	double u = ((x - e->centre[0]) * c + (y - e->centre[1]) * s) / e->axes[0];
	double v = ((y - e->centre[1]) * c - (x - e->centre[0]) * s) / e->axes[1];
	return u * u + v * v;
}

/* The mean inside a solid, its edge and what is inside it left out. */
static double mean_inside(const float *data, const int64_t shape[3], const tomos_grid *g, int solid)
{
	double sum = 0, count = 0;
	for (int64_t i = 0; i < shape[0] * shape[1] * shape[2]; i++) {
		double x = g->first[0] + g->step[0] * (double)(i % shape[2]);
		double y = g->first[1] + g->step[1] * (double)(i / shape[2] % shape[1]);
		bool inside = squared(&solids[solid], x, y) < 0.6;
		for (int k = 0; k < COUNT(solids); k++)
			inside =
				inside && (k == solid || k == 0 || squared(&solids[k], x, y) > 1.8);
		sum += inside ? (double)data[i] : 0;
		count += inside;
	}
	return sum / count;
}

static void reconstruct(const char *name, void (*put)(const char *path))
{
	char path[160];
	tomos_grid grid = {{0}, {0}, {0}};
	int64_t shape[3] = {0};
	float *data = NULL;
	snprintf(path, sizeof path, "%s", at(name));
	put(path);
	const tomos_job job = {.bytes = sizeof job, .scan = path, .say = hear};
	axis_said = 0;
	assert_ok(tomos_run(&job, NULL));
	snprintf(strrchr(path, '.'), 8, "_rec");
	assert_true(fabs(axis_said - AXIS) < 0.1);
	assert_ok(read_all(path, shape, &data));
	assert_int_equal(shape[0], ROWS);
	assert_ok(tomos_grid_centred(&grid, COLUMNS, COLUMNS, ROWS, PIXEL));
	assert_true(fabs(mean_inside(data, shape, &grid, 0) - 0.8) < 0.005 * 0.8);
	assert_true(fabs(mean_inside(data, shape, &grid, 1) - 1.4) < 0.005 * 1.4);
	assert_true(fabs(mean_inside(data, shape, &grid, 2)) < 0.005 * 0.8);
	free(data);
	assert_int_equal(mem_live(), 0);
}

static void exchange(void **state)
{
	(void)state;
	reconstruct("exchange.h5", put_exchange);
}

static void nexus(void **state)
{
	(void)state;
	reconstruct("nexus.nx", put_nexus);
}

#define TESTS(T) T(exchange), T(nexus)
TEST_MAIN(TESTS, measure, scratch_remove)
