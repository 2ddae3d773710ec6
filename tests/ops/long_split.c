/* Scans of some size in pieces: the same as whole. */
#include "backend/split/split.h"
#include "ops/cases.h"

enum { SIZE = 128, VIEWS = 96 };

typedef struct {
	tomos_grid grid;
	tomos_geometry *scan;
	tomos_array x, y;
} Scan;

static float *data_of(int64_t count)
{
	float *data = malloc((size_t)count * sizeof *data);
	for (int64_t i = 0; i < count; i++)
		data[i] = (float)(i * 7919 % 1009) / 1009;
	return data;
}

static Scan scan_make(const char *geometry)
{
	Scan s;
	tomos_scan_options o = tomos_scan_defaults();
	const double axis = 600, detector = 900;
	o.geometry = geometry;
	o.rows = o.columns = SIZE, o.views = VIEWS;
	if (strcmp(geometry, "cone") == 0) {
		o.source_axis = &axis, o.source_axis_count = 1;
		o.source_detector = &detector, o.source_detector_count = 1;
	}
	OK(tomos_geometry_make(&s.scan, &o));
	OK(tomos_grid_for(&s.grid, s.scan, NULL));
	s.x = tomos_array_of(data_of((int64_t)SIZE * SIZE * SIZE), SIZE, SIZE, SIZE);
	s.y = tomos_array_of(data_of((int64_t)VIEWS * SIZE * SIZE), VIEWS, SIZE, SIZE);
	return s;
}

/* Forward, back and a filtered back projection, one after the other. */
static void do_all(tomos_backend *b, const Scan *s, float *out[3])
{
	const int64_t volume = (int64_t)SIZE * SIZE * SIZE;
	tomos_array y = tomos_array_of(out[0], VIEWS, SIZE, SIZE);
	tomos_array x = tomos_array_of(out[1], SIZE, SIZE, SIZE);
	tomos_op *op;
	OK(tomos_op_projector(&op, b, &s->grid, s->scan, NULL));
	OK(tomos_op_forward(op, &s->x, &y));
	OK(tomos_op_adjoint(op, &s->y, &x));
	memcpy(out[2], out[1], (size_t)volume * sizeof(float));
	x.data = out[2];
	OK(tomos_fbp(b, &s->grid, s->scan, &s->y, &x, NULL, NULL));
	tomos_op_free(op);
}

static void in_pieces(void **state)
{
	(void)state;
	static const char *const geometries[] = {"cone", "parallel"}, *const none[2] = {"", ""};
	static const int64_t memories[] = {1 << 20, 3 << 20, 20 << 20};
	const int64_t counts[3] = {(int64_t)VIEWS * SIZE * SIZE, (int64_t)SIZE * SIZE * SIZE,
		(int64_t)SIZE * SIZE * SIZE};
	float *whole[3], *parts[3];
	for (int i = 0; i < 3; i++) {
		whole[i] = malloc((size_t)counts[i] * sizeof(float));
		parts[i] = malloc((size_t)counts[i] * sizeof(float));
	}
	for (int g = 0; g < 2; g++) {
		Scan s = scan_make(geometries[g]);
		tomos_backend *b;
		OK(tomos_backend_open(&b, "cpu"));
		do_all(b, &s, whole);
		tomos_backend_close(b);
		for (int m = 0; m < 3; m++) {
			OK(split_open(&b, &cpu_backend, none, 1 + m % 2,
				&(SplitOptions){memories[m], SHARE_AUTO}));
			do_all(b, &s, parts);
			tomos_backend_close(b);
			for (int i = 0; i < 3; i++) {
				double difference = case_difference(parts[i], whole[i], counts[i]);
				printf("%s, %lld MiB: %g\n", geometries[g],
					(long long)memories[m] >> 20, difference);
				assert_true(difference < 1e-6);
			}
		}
		free(s.x.data), free(s.y.data);
		tomos_geometry_free(s.scan);
	}
	for (int i = 0; i < 3; i++)
		free(whole[i]), free(parts[i]);
}

#define TESTS(T) T(in_pieces)
TEST_MAIN(TESTS, NULL, NULL)
