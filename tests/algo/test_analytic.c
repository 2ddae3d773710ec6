/* Filtered back projection and Feldkamp's method: values in absolute units for every kind of
 * scan. */
#include "algo/scene.h"

typedef struct {
	const char *name, *geometry;
	double arc, off_axis; /* degrees; axis this fraction of the width off the middle */
	double spread;        /* the most of the deviation inside, which noise of sampling makes */
} Scan;

#define MEAN 0.0005 /* README promises 0.03 %: of the three sizes the worst is 0.02 */

static const Scan scans[] = {{"parallel 180", "parallel", 180, 0, 0.001},
	{"parallel 180, axis off", "parallel", 180, 0.04, 0.001},
	{"parallel 360", "parallel", 360, 0, 0.001},
	{"parallel 360, axis off", "parallel", 360, 0.03, 0.001},
	{"parallel half acquisition", "parallel", 360, 0.38, 0.01},
	{"half acquisition, left", "parallel", 360, -0.38, 0.01},
	{"fan full", "fan", 360, 0, 0.001}, {"fan short", "fan", 220, 0, 0.001},
	{"fan overscan", "fan", 290, 0, 0.001}, {"fan offset", "fan", 360, 0.3, 0.004},
	{"fan offset, left", "fan", 360, -0.3, 0.004}, {"cone full", "cone", 360, 0, 0.001},
	{"fan short, axis off", "fan", 220, 0.045, 0.001}, {"cone short", "cone", 220, 0, 0.001},
	{"cone short, axis off left", "cone", 220, -0.045, 0.001},
	{"cone offset", "cone", 360, 0.3, 0.004}};

static double mean_error(const Scan *kind, int64_t n, double pixel, double *spread)
{
	Distances distances;
	tomos_scan_options o = scene_scan(kind->geometry, n, pixel, &distances);
	double axis = 0.5 * (double)(n - 1) - kind->off_axis * (double)n;
	o.arc = kind->arc * M_PI / 180;
	o.axis = &axis, o.axis_count = 1;
	Scene s = scene_make(&o);
	scene_reconstruct(&s, NULL);
	double error = scene_error(&s, spread);
	scene_free(&s);
	return error;
}

static void values(void **state)
{
	(void)state;
	static const struct {
		int64_t n;
		double pixel;
	} sizes[] = {{96, 1}, {97, 0.127}, {128, 0.5}};
	printf("mean inside a uniform ellipse, relative to the truth (and rms deviation)\n");
	for (size_t i = 0; i < sizeof scans / sizeof scans[0]; i += CASE_RACES ? 4 : 1) {
		printf("  %-26s", scans[i].name);
		for (size_t k = 0; k < (CASE_SLOW ? 1 : 3); k++) {
			double spread,
				error = mean_error(&scans[i], sizes[k].n, sizes[k].pixel, &spread);
			printf("  n %3lld: %+.4f (%.4f)", (long long)sizes[k].n, error, spread);
			if (!(fabs(error) <= MEAN && spread < scans[i].spread))
				fail_msg("%s, %lld columns of %g: mean off by %g, deviation %g",
					scans[i].name, (long long)sizes[k].n, sizes[k].pixel, error,
					spread);
		}
		printf("\n");
	}
}

#define TESTS(T) T(values)
TEST_MAIN(TESTS, NULL, NULL)
