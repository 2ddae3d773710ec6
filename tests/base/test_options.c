/* Every row of options.def at run time: its default, its offset in the struct, its help. */
#include "base/base_test.h"

#define RADIANS (3.14159265358979323846 / 180)

static const tomos_option *row_of(const char *group, const char *name, tomos_option_kind kind)
{
	int count;
	const tomos_option *rows = tomos_options(group, &count);
	for (int i = 0; i < count; i++)
		if (strcmp(rows[i].name, name) == 0) {
			assert_int_equal(rows[i].kind, kind);
			assert_true(strlen(rows[i].help) > 5);
			return &rows[i];
		}
	fail_msg("no row for %s of %s", name, group);
	return NULL;
}

static void check_text(const tomos_option *row, const char *value)
{
	assert_string_equal(row->fallback, value);
	if (row->kind == TOMOS_CHOICE && *value)
		assert_true(choice_index(row->values, value) >= 0);
	assert_true(row->values[0] != '=');
}

/* The text of a number reads back as the value, in degrees for an angle. */
#define CHECK_INT(row, o, name) assert_int_equal(strtoll(row->fallback, NULL, 10), o.name);
#define CHECK_REAL(row, o, name) assert_true(strtod(row->fallback, NULL) == o.name);
#define CHECK_LENGTH(row, o, name) CHECK_REAL(row, o, name)
#define CHECK_ENERGY(row, o, name) CHECK_REAL(row, o, name)
#define CHECK_SIZE(row, o, name) CHECK_INT(row, o, name)
#define CHECK_ANGLE(row, o, name) \
	assert_true(fabs(strtod(row->fallback, NULL) * RADIANS - o.name) <= 1e-15 * fabs(o.name));
#define CHECK_FLAG(row, o, name) CHECK_INT(row, o, name)
#define CHECK_TEXT(row, o, name) check_text(row, o.name);
#define CHECK_CHOICE(row, o, name) check_text(row, o.name);
#define CHECK_LIST(row, o, name) \
	assert_string_equal(row->fallback, ""); \
	assert_null(o.name); \
	assert_int_equal(o.name##_count, 0); \
	assert_ptr_equal((char *)&o + row->count_offset, &o.name##_count);
#define CHECK_INTS(row, o, name) CHECK_LIST(row, o, name)
#define CHECK_REALS(row, o, name) CHECK_LIST(row, o, name)
#define CHECK_ANGLES(row, o, name) CHECK_LIST(row, o, name)
#define CHECK_LENGTHS(row, o, name) CHECK_LIST(row, o, name)

#define CHECK_ARRAY(row, o, name) \
	assert_string_equal(row->fallback, ""); \
	assert_null(o.name);
#define CHECK_HISTORY(row, o, name) CHECK_ARRAY(row, o, name)

#define CHECK_ROW(kind, name, ...) \
	{ \
		const tomos_option *row = row_of(group, #name, TOMOS_##kind); \
		assert_ptr_equal((char *)&o + row->offset, &o.name); \
		CHECK_##kind(row, o, name) rows++; \
	}
#define CHECK_GROUP(name, ROWS) \
	static void test_##name(void **state) \
	{ \
		(void)state; \
		const char *group = #name; \
		tomos_##name##_options o = tomos_##name##_defaults(); \
		int rows = 0, count; \
		assert_int_equal(o.bytes, sizeof o); \
		ROWS(CHECK_ROW) \
		assert_non_null(tomos_options(group, &count)); \
		assert_int_equal(count, rows); \
	}
TOMOS_OPTION_GROUPS(CHECK_GROUP)

static void test_printed(void **state)
{
	(void)state;
	assert_string_equal(row_of("algebraic", "relaxation", TOMOS_REAL)->fallback, "0");
	assert_string_equal(row_of("algebraic", "minimum", TOMOS_REAL)->fallback, "-inf");
	assert_string_equal(row_of("algebraic", "maximum", TOMOS_REAL)->fallback, "inf");
	assert_string_equal(row_of("scan", "arc", TOMOS_ANGLE)->fallback, "0");
	assert_string_equal(row_of("scan", "angles", TOMOS_ANGLES)->fallback, "");
	assert_string_equal(row_of("scan", "geometry", TOMOS_CHOICE)->fallback, "parallel");
	assert_string_equal(row_of("file", "overwrite", TOMOS_FLAG)->fallback, "0");
}

static void test_projectors(void **state)
{
	(void)state;
#define KERNEL(function, name, family, weights, help) name,
	static const char *const known[] = {
#include "kernel/kernels.def"
	};
#undef KERNEL
	for (int i = 0; i < COUNT(known); i++) {
		const tomos_option *row = row_of("projector", "forward", TOMOS_CHOICE);
		assert_true(choice_index(row->values, known[i]) >= 0);
		row = row_of("projector", "back", TOMOS_CHOICE);
		assert_true(choice_index(row->values, known[i]) >= 0);
	}
}

static void test_unknown_group(void **state)
{
	(void)state;
	int count = 5;
	assert_null(tomos_options("algebraics", &count));
	assert_int_equal(count, 0);
	assert_null(tomos_options(NULL, &count));
}

int main(void)
{
#define LIST_GROUP(name, ROWS) cmocka_unit_test(test_##name),
	const struct CMUnitTest tests[] = {
		TOMOS_OPTION_GROUPS(LIST_GROUP) cmocka_unit_test(test_printed),
		cmocka_unit_test(test_projectors),
		cmocka_unit_test(test_unknown_group),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
