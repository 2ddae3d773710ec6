/* Interpolation to the nearest pixel where a voxel projects to the middle between pixels, as the
 * voxel on the rotation axis does where the number of columns is even. Rounding must not decide:
 * the upper pixel is taken in every view, on every instruction set and device. */
#include "ops/cases.h"

static const char *const kinds[] = {"parallel", "fan", "cone"};
enum { KINDS = sizeof kinds / sizeof kinds[0], VIEWS = 36, VOXELS = 29, COLUMNS = 52 };

static Case centred(const char *kind, double pixel)
{
	static const double source_axis = 77.7, source_detector = 123.4;
	const int source = strcmp(kind, "parallel") != 0, high = strcmp(kind, "cone") == 0;
	Case c = {.state = 1};
	tomos_scan_options o = tomos_scan_defaults();
	o.geometry = kind;
	o.views = VIEWS, o.columns = COLUMNS, o.rows = high ? 4 : 1;
	o.arc = 2 * 3.14159265358979323846;
	o.pixel = pixel;
	o.source_axis = source ? &source_axis : NULL, o.source_axis_count = source;
	o.source_detector = source ? &source_detector : NULL, o.source_detector_count = source;
	case_place(&c, &o, (int64_t[]){VOXELS, VOXELS, high ? 3 : 1});
	return c;
}

/* Views in which something else than the upper one of the two pixels in the middle has a value. */
static int wrong_views(tomos_backend *backend, Case *c)
{
	const int64_t rows = tomos_geometry_rows(c->scan), size = rows * COLUMNS;
	float *x = calloc((size_t)c->voxels, sizeof *x), *y = calloc((size_t)c->pixels, sizeof *y);
	tomos_projector_options o = tomos_projector_defaults();
	int wrong = 0;
	o.forward = "voxel", o.voxel_interpolation = "nearest";
	x[c->voxels / 2] = 1;
	case_forward(backend, &c->grid, c->scan, &o, x, y);
	for (int64_t view = 0; view < VIEWS; view++) {
		int64_t others = 0, upper = rows / 2 * COLUMNS + COLUMNS / 2;
		for (int64_t i = 0; i < size; i++)
			others += i != upper && y[view * size + i] != 0;
		wrong += others > 0 || !(y[view * size + upper] > 0);
	}
	free(x), free(y);
	return wrong;
}

static void the_upper_of_two(void **state)
{
	(void)state;
	for (int l = 0; l < CPU_LEVELS; l++) {
		tomos_backend *backend = open_level(test_backend(), cpu_levels[l]);
		for (int i = 0; backend && i < 4 * KINDS; i++) {
			Case c = centred(kinds[i % KINDS], 0.3 + 0.17 * i);
			const int wrong = wrong_views(backend, &c);
			if (wrong > 0)
				fail_msg("%s, %s, pixel %g: wrong in %d of %d views", cpu_levels[l],
					kinds[i % KINDS], 0.3 + 0.17 * i, wrong, VIEWS);
			tomos_geometry_free(c.scan);
		}
		tomos_backend_close(backend);
	}
}

#define TESTS(T) T(the_upper_of_two)
TEST_MAIN(TESTS, NULL, NULL)
