/* Stacks whose slices are not as high as detector rows or not in line with them, fans, wide voxels
 * and rolled detectors: against the reference kernel, whole and in parts. */
#include "ops/stacks.h"

typedef struct {
	const char *name;
	int64_t n[3], rows, columns, views;
	double pixel, slice, shift; /* shift: of the axis, in rows */
	double roll, source;        /* source: of fans, from the axis; 0: parallel rays */
} Stack;

static const Stack stacks[] = {
	{"high slices", {37, 29, 17}, 34, 45, 13, 1, 2, 0, 0, 0},
	{"low slices", {31, 33, 40}, 21, 37, 12, 1, 0.6, 0, 0, 0},
	{"between rows", {31, 33, 40}, 40, 37, 12, 1, 1, 0.37, 0, 0},
	{"rows that see a part", {31, 33, 40}, 12, 37, 12, 1, 0.9, 3.3, 0, 0},
	{"few high slices", {37, 29, 7}, 34, 45, 13, 1, 4, 0, 0, 0},
	{"few low slices, part", {37, 29, 6}, 4, 45, 13, 1, 0.6, 0.8, 0, 0},
	{"11 slices between rows", {33, 31, 11}, 9, 43, 13, 1, 1, 0.4, 0, 0},
	{"7 wide slices", {31, 33, 7}, 13, 90, 13, 0.35, 1.4, 0.2, 0, 0},
	{"13 wide slices", {31, 33, 13}, 13, 90, 13, 0.35, 1, 0, 0, 0},
	{"one wide slice", {31, 33, 1}, 1, 97, 13, 0.2, 1, 0, 0, 0},
	{"small voxels, 4 between rows", {61, 67, 4}, 5, 41, 19, 2.6, 1.3, 0.3, 0, 0},
	{"fan, one wide slice", {19, 23, 1}, 1, 97, 17, 0.1, 1, 0, 0, 90},
	{"fans, 3 wide slices", {19, 23, 3}, 3, 97, 17, 0.08, 1, 0, 0, 90},
	{"fan, small voxels", {131, 117, 1}, 1, 31, 17, 9, 1, 0, 0, 130},
	{"wide voxels", {35, 34, 21}, 21, 90, 13, 0.5, 1, 0, 0, 0},
	{"wide, high voxels", {35, 34, 21}, 31, 90, 13, 0.55, 1.7, 0, 0, 0},
	{"fans", {43, 38, 33}, 33, 61, 19, 1.4, 1, 0, 0, 110},
	{"fans, one view", {43, 38, 33}, 33, 61, 1, 1.4, 1, 0, 0, 110},
	{"fans, high slices", {43, 38, 33}, 50, 61, 19, 1.4, 1.5, 0.2, 0, 110},
	{"fans, low slices, 40 views", {43, 38, 33}, 25, 61, 40, 1.4, 0.8, 0.2, 0, 110},
	{"fans, few high slices", {43, 38, 7}, 20, 61, 19, 1.4, 2.5, 0.2, 0, 110},
	{"fans, 13 low slices", {38, 43, 13}, 9, 61, 19, 1.4, 0.7, 0.2, 0, 110},
	{"fans, 11 slices", {43, 38, 11}, 11, 61, 19, 1.4, 1, 0, 0, 110},
	{"fans, few rows", {43, 38, 33}, 5, 61, 19, 1.4, 1, 0, 0, 110},
	{"few rows", {43, 38, 33}, 5, 61, 19, 1, 1, 0, 0, 0},
	{"small voxels, one slice", {61, 67, 1}, 1, 41, 19, 2.6, 1, 0, 0, 0},
	{"small voxels, 5 slices", {61, 67, 5}, 5, 41, 19, 3.3, 1, 0, 0, 0},
	{"fans, source among the voxels", {43, 38, 33}, 33, 61, 19, 1.4, 1, 0, 0, 15},
	{"rolled", {43, 39, 30}, 30, 57, 17, 1, 1, 0, 0.01, 0},
	{"rolled far, offset", {43, 39, 133}, 120, 57, 17, 1.1, 1, 0.4, -0.12, 0},
	{"rolled, low slices", {43, 39, 30}, 30, 57, 17, 1, 0.8, 0, 0.05, 0},
	{"rolled, slices without rows", {33, 41, 90}, 88, 49, 11, 1, 0.99, 0.2, -0.004, 0},
	{"rolled, slices with two rows", {33, 41, 64}, 66, 57, 17, 1, 1, 0.2, 0.0138, 0},
	{"rolled, small groups", {29, 27, 61}, 64, 43, 9, 1.1, 1, 0, 0.02, 0},
	{"rolled too far", {43, 39, 30}, 30, 57, 17, 1, 1, 0, 0.5, 0},
};
enum { STACKS = sizeof stacks / sizeof stacks[0] };

static Case stack_case(const Stack *s, int number)
{
	Case c = {.state = (uint64_t)number + 77};
	double axis = 0.5 * (double)(s->columns - 1) + 0.3, far = 1.4 * s->source;
	double axis_row = 0.5 * (double)(s->rows - 1) + s->shift;
	tomos_scan_options o = tomos_scan_defaults();
	if (s->source > 0) {
		o.geometry = "fan";
		o.source_axis = &s->source, o.source_axis_count = 1;
		o.source_detector = &far, o.source_detector_count = 1;
	}
	o.rows = s->rows, o.columns = s->columns, o.views = s->views;
	o.pixel = s->pixel, o.pixel_height = 1;
	o.start = 0.1 * number;
	o.arc = 6.1;
	o.roll = s->roll;
	o.axis = &axis, o.axis_count = 1;
	o.axis_row = &axis_row, o.axis_row_count = 1;
	case_place(&c, &o, s->n);
	c.grid.step[2] *= s->slice;
	c.grid.first[2] *= s->slice;
	snprintf(c.name, sizeof c.name, "%s", s->name);
	return c;
}

/* On devices, reference kernels and forward projections of stacks add atomically. */
static int repeats_bits(Kind kind)
{
	return strcmp(test_backend(), "cpu") == 0 ||
	       (kind.direction == ADJOINT && backend->last_kernel);
}

static void check_part(
	const Stack *s, const Case *c, Kind kind, const Box *box, int64_t first, int64_t count)
{
	int64_t n = 1;
	Case random = *c;
	for (int a = 0; a < 3; a++)
		n *= box->high[a] - box->low[a];
	bool forward = kind.direction == FORWARD;
	int64_t results = forward ? count * (c->pixels / s->views) : n;
	float *from = case_data(&random, forward ? n : c->pixels);
	float *got = project(c, kind, box, first, count, from);
	int repeats = repeats_bits(kind);
	float *again = project(c, kind, box, first, count, from);
	kind.plain = true;
	float *exact = project(c, kind, box, first, count, from);
	double difference = case_difference(got, exact, results);
	/* Positions on the detector are rounded in proportion to the columns of a block. */
	if (!(difference <= (s->pixel < 0.3 ? 1e-5 : 2e-6)))
		fail_msg("%s, kernel %d, direction %d, %lld voxels, %lld views: differs by %g",
			c->name, kind.kernel, (int)kind.direction, (long long)n, (long long)count,
			difference);
	if (repeats)
		assert_memory_equal(got, again, (size_t)results * sizeof *got);
	free(from), free(got), free(again), free(exact);
}

static void check_stack(const Stack *s, const Case *c)
{
	const int64_t *n = c->grid.n;
	const Box whole = {.high = {n[0], n[1], n[2]}};
	const int64_t outer = n[2] > 2; /* slices left out at either end */
	const Box part = {{3, 1, outer}, {n[0], n[1] - 2, n[2] - outer}};
	static const int kernels[] = {KERNEL_voxel, KERNEL_joseph, KERNEL_footprint};
	for (int i = 0; i < 6; i++) {
		Kind kind = {kernels[i % 3], i / 3 ? FORWARD : ADJOINT, DATA_FLOAT, false};
		check_part(s, c, kind, &whole, 0, s->views);
		check_part(s, c, kind, &part, s->views / 3, s->views - s->views / 3);
	}
}

static void stacks_agree(void **state)
{
	(void)state;
	for (int i = 0; i < STACKS; i += CASE_RACES ? 4 : case_slow() ? 2 : 1) {
		Case c = stack_case(&stacks[i], i);
		check_stack(&stacks[i], &c);
		tomos_geometry_free(c.scan);
	}
}

static void a_limit_changes_nothing(void **state)
{
	(void)state;
	static const char *const some[] = {"high slices", "few high slices", "7 wide slices",
		"fans", "fans, high slices", "fan, one wide slice", "rolled far, offset",
		"rolled, slices without rows"};
	for (int i = 0; i < (int)(sizeof some / sizeof some[0]); i++) {
		int number = 0;
		while (strcmp(stacks[number].name, some[i]) != 0)
			number++;
		Case c = stack_case(&stacks[number], number);
		limit_slices(&c, 9);
		check_stack(&stacks[number], &c);
		limit_slices(&c, -1);
		tomos_geometry_free(c.scan);
	}
}

#define TESTS(T) T(stacks_agree), T(a_limit_changes_nothing)
TEST_MAIN(TESTS, open_backend, close_backend)
