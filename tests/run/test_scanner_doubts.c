/* Axes, directions and rolls that a scanner's file says and rays contradict. */
#include "run/nikon_help.h"

static tomos_prepared *open_towards(const char *direction)
{
	tomos_axis_options axis = tomos_axis_defaults();
	tomos_prepared *p = NULL;
	axis.direction = direction;
	const tomos_job job = {.bytes = sizeof job, .scan = at("part.xtekct"), .axis = &axis};
	assert_ok(tomos_prepared_open(&p, &job, NULL));
	return p;
}

/* Rays contradict the direction of the file: it is kept with a warning, unless the data are asked,
 * whether the file says the axis or not. */
static void test_contradicted(void **state)
{
	Lab lab = {.rows = LAB_ROWS};
	const Case wrong[] = {{.step = -2, .object = 0}, {.step = -2, .object = 0, .unsaid = true}};
	(void)state;
	put_scan(&(Case){.step = 2});
	for (int i = 0; i < COUNT(wrong); i++) {
		put_xtekct(at("part.xtekct"), &wrong[i], &lab);
		tomos_prepared *p = open_towards("check");
		const char *warning = tomos_prepared_warning(p);
		assert_true(
			warning && strstr(warning, "agree only if the rotation is the reverse"));
		tomos_prepared_close(p);
		p = open_towards("given");
		warning = tomos_prepared_warning(p);
		assert_true(!warning || !strstr(warning, "direction"));
		tomos_prepared_close(p);
		p = open_towards("auto");
		assert_null(tomos_prepared_warning(p));
		assert_non_null(strstr(tomos_prepared_note(p), "negated"));
		assert_projections(p, i ? 0.05 : 1e-3);
		tomos_prepared_close(p);
	}
	put_xtekct(at("part.xtekct"), &(Case){.step = 2}, &lab);
	tomos_prepared *p = open_towards("check");
	assert_null(tomos_prepared_warning(p));
	tomos_prepared_close(p);
}

/* What is advised is not what was given. */
static void test_mirrored(void **state)
{
	tomos_source_options source = tomos_source_defaults();
	(void)state;
	put_scan(&(Case){.step = 2});
	source.flip = "columns";
	tomos_prepared *p = lab_open(at("part.xtekct"), &source, NULL);
	const char *warning = tomos_prepared_warning(p);
	assert_true(warning && strstr(warning, "the reverse of that of"));
	assert_non_null(strstr(warning, "without the option 'flip' columns the frames are not"));
	tomos_prepared_close(p);
}

/* The direction that the user says is kept as well, with the axis searched for or given. */
static void test_reverse(void **state)
{
	tomos_scan_options o = tomos_scan_defaults();
	double axis = 0.5 * (LAB_COLUMNS - 1);
	(void)state;
	put_scan(&(Case){.step = 2, .unsaid = true});
	o.pixel = 0;
	o.reverse = 1;
	for (int i = 0; i < 4; i++) {
		o.axis = i & 1 ? &axis : NULL;
		o.axis_count = i & 1;
		if (i == 2)
			put_xtekct(at("part.xtekct"), &(Case){.step = -2, .unsaid = true},
				&(Lab){.rows = LAB_ROWS});
		tomos_prepared *p = lab_open(at("part.xtekct"), NULL, &o);
		const char *warning = tomos_prepared_warning(p);
		if (i < 2)
			assert_true(
				warning && strstr(warning, "only without the option 'reverse'"));
		else
			assert_null(warning);
		tomos_prepared_close(p);
	}
}

/* An axis that rays contradict is kept with a warning that says where they see it. */
static void test_elsewhere(void **state)
{
	Lab lab = {.rows = LAB_ROWS};
	(void)state;
	put_scan(&(Case){.step = 2, .object = 0.35});
	put_xtekct(at("part.xtekct"), &(Case){.step = 2, .object = -0.35}, &lab);
	tomos_prepared *p = open_towards("check");
	const char *warning = tomos_prepared_warning(p);
	assert_true(warning && strstr(warning, "axis at column 41.2"));
	assert_true(strstr(warning, "says 37.75, which is kept"));
	assert_non_null(strstr(tomos_prepared_note(p), "axis      column 37.75, from"));
	tomos_prepared_close(p);
	put_xtekct(at("part.xtekct"), &(Case){.step = 2, .object = 0.3}, &lab); /* 0.25 columns */
	p = open_towards("check");
	assert_null(tomos_prepared_warning(p));
	tomos_prepared_close(p);
}

/* So is a roll that rays contradict. */
static void test_rolled(void **state)
{
	Lab lab = {.rows = LAB_ROWS};
	(void)state;
	put_scan(&(Case){.step = 2, .object = 0.1, .roll = 2});
	tomos_prepared *p = open_towards("check");
	assert_null(tomos_prepared_warning(p));
	tomos_prepared_close(p);
	put_xtekct(at("part.xtekct"), &(Case){.step = 2, .object = 0.1, .roll = -2}, &lab);
	p = open_towards("check");
	const char *warning = tomos_prepared_warning(p);
	assert_true(warning && strstr(warning, "a detector that is rolled or swivelled"));
	tomos_prepared_close(p);
}

#define TESTS(T) \
	T(test_contradicted), T(test_mirrored), T(test_reverse), T(test_elsewhere), T(test_rolled)
TEST_MAIN(TESTS, scratch_make, scratch_remove)
