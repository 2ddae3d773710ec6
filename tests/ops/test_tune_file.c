/* The file of tuning results: written, read again, damaged, of other devices. */
#include "ops/tune_fake.h"

/* ---- keeping -------------------------------------------------------------------------------- */

static int64_t known(void)
{
	tomos_backend *backend = fake_backend();
	int64_t count = backend->tuning.count;
	tomos_backend_close(backend);
	return count;
}

static const char *wrong_with_file(void)
{
	tomos_backend *backend = fake_backend();
	const char *wrong;
	char *path;
	OK(tomos_tuned_file(backend, &path, &wrong));
	tomos_tuned_free(path);
	tomos_backend_close(backend);
	return wrong ? wrong : "";
}

/* A file with two rows, as text of `length` bytes, and its path; both to be freed. */
static char *kept_file(char **path, size_t *length)
{
	tomos_backend *backend = fake_backend();
	tomos_tuned *rows;
	int64_t count;
	char *text = calloc(1, 4096);
	tune_fake(backend, 0, &rows, &count);
	OK(tomos_tuned_keep(backend, path));
	FILE *file = fopen(*path, "r");
	assert_non_null(file);
	*length = fread(text, 1, 4095, file);
	fclose(file);
	tomos_tuned_free(rows);
	tomos_backend_close(backend);
	return text;
}

static void overwrite(const char *path, const char *text, size_t length)
{
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(text, 1, length, file), length);
	assert_int_equal(fclose(file), 0);
}

static void test_kept_and_recalled(void **state)
{
	(void)state;
	char *path;
	size_t length;
	char *text = kept_file(&path, &length);
	assert_true(strncmp(path, folder, strlen(folder)) == 0);
	assert_non_null(strstr(text, "model a device of two lines\n"));
	tomos_backend *backend = fake_backend();
	assert_int_equal(backend->tuning.count, 2);
	assert_string_equal(ran(backend, 8, 4, 6), "quick");
	/* Others are added; the same projection is not there twice. */
	tomos_tuned *rows, more;
	int64_t count;
	tune_fake(backend, 0, &rows, &count);
	more = rows[0];
	more.views = 100;
	OK(tune_add(backend, &more, 1));
	OK(tomos_tuned_keep(backend, NULL));
	assert_int_equal(known(), 3);
	setenv("TOMOS_TUNE", "off", 1);
	assert_int_equal(known(), 0);
	REJECTED(tomos_tuned_keep(backend, NULL), TOMOS_BAD_VALUE,
		"TOMOS_TUNE is off, so tuning results are not stored");
	unsetenv("TOMOS_TUNE");
	OK(tomos_tuned_forget(backend));
	assert_int_equal(backend->tuning.count, 0);
	assert_int_equal(access(path, F_OK), -1);
	OK(tomos_tuned_forget(backend)); /* a file that does not exist */
	assert_int_equal(known(), 0);
	tomos_tuned_free(rows);
	tomos_backend_close(backend);
	tomos_tuned_free(path);
	free(text);
}

/* Truncated anywhere, with any byte changed, of another version, or missing: the backend opens,
 * with all results or none. */
static void test_broken_files(void **state)
{
	(void)state;
	char *path;
	size_t length;
	char *text = kept_file(&path, &length), *broken = malloc(length + 64);
	for (size_t i = 0; i < length; i++) {
		overwrite(path, text, i);
		assert_int_equal(known(), 0);
	}
	for (size_t i = 0; i < length; i++) {
		memcpy(broken, text, length);
		broken[i] = (char)(broken[i] ^ 0x41);
		overwrite(path, broken, length);
		int64_t count = known();
		assert_true(count == 0 || count == 2);
	}
	const char *version = strstr(text, "version ");
	assert_non_null(version);
	int before = (int)(version - text);
	int size = sprintf(broken, "%.*sversion 0.0.9%s", before, text, strchr(version, '\n'));
	overwrite(path, broken, (size_t)size);
	assert_int_equal(known(), 0);
	assert_string_equal(wrong_with_file(), "it is of another version");
	size = sprintf(broken, "%send 2\n", text);
	overwrite(path, broken, (size_t)size);
	assert_int_equal(known(), 0);
	assert_string_equal(wrong_with_file(), "it continues after its end");
	overwrite(path, text, length - strlen("end 2\n"));
	assert_string_equal(wrong_with_file(), "its end is missing");
	overwrite(path, text, length - 1);
	assert_string_equal(wrong_with_file(), "a line of it is not a measurement");
	overwrite(path, text + 1, length - 1);
	assert_string_equal(wrong_with_file(), "it does not begin with 'tomos tune 2'");
	overwrite(path, text, length);
	assert_int_equal(known(), 2);
	assert_string_equal(wrong_with_file(), "");
	remove(path);
	assert_string_equal(wrong_with_file(), "");
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(known(), 0);
	assert_int_equal(rmdir(path), 0);
	tomos_tuned_free(path);
	free(broken);
	free(text);
}

static void test_lines_that_are_no_rows(void **state)
{
	(void)state;
#define ROW(kernel, size, views, rate) \
	("kernel " kernel " projector voxel direction back data float rays slices size " size \
	 " slices 4 views " views " columns 8 voxel 1 source 0 rate " rate " chosen 1 coarse 0\n")
	static const char *const lines[] = {
		ROW("a", "8", "6", "1"), /* a good one, to begin with */
		ROW("a", "8", "0", "1"),
		ROW("a", "-8", "6", "1"),
		ROW("a", "8", "6", "nan"),
		ROW("a", "8", "6", "1e99"),
		ROW("a-name-that-is-longer-than-all-that-kernels-have", "8", "6", "1"),
		ROW("a", "99999999999999999999999999", "6", "1"),
		"kernel\n",
	};
#undef ROW
	char *path, *text, *rows, broken[8192];
	size_t length;
	text = kept_file(&path, &length);
	rows = strstr(text, "kernel ");
	assert_non_null(rows);
	for (int i = 0; i < COUNT(lines); i++) {
		const int64_t expected = i == 0 ? 1 : 0;
		int size = sprintf(broken, "%.*s%send 1\n", (int)(rows - text), text, lines[i]);
		overwrite(path, broken, (size_t)size);
		assert_int_equal(known(), expected);
	}
	tomos_tuned_free(path);
	free(text);
}

static void test_other_devices(void **state)
{
	(void)state;
	char *path;
	size_t length;
	char *text = kept_file(&path, &length);
	assert_int_equal(known(), 2);
	fake_driver = "1.3";
	assert_int_equal(known(), 0);
	fake_driver = "1.2";
	fake_model = "another";
	assert_int_equal(known(), 0);
	/* Even if a file under its name belongs to the first device. */
	tomos_backend *backend = fake_backend();
	char *second;
	OK(tomos_tuned_keep(backend, &second));
	assert_string_not_equal(path, second);
	overwrite(second, text, length);
	assert_int_equal(known(), 0);
	assert_string_equal(wrong_with_file(), "it is of another device or driver");
	OK(tomos_tuned_forget(backend));
	tomos_backend_close(backend);
	fake_model = "a device\nof two lines";
	assert_int_equal(known(), 2);
	tomos_tuned_free(second);
	tomos_tuned_free(path);
	free(text);
}

static void test_where_it_is_kept(void **state)
{
	(void)state;
	tomos_backend *backend = fake_backend();
	const char *before = getenv("HOME");
	char *path, *home = strdup(before ? before : "");
	char wanted[64];
	setenv("XDG_CACHE_HOME", "/dev/null/cache", 1);
	REJECTED(tomos_tuned_keep(backend, &path), TOMOS_IO,
		"the directory '/dev/null/cache' cannot be created");
	assert_int_equal(known(), 0);
	OK(tomos_tuned_forget(backend));
	setenv("XDG_CACHE_HOME", "not/absolute", 1);
	setenv("HOME", folder, 1);
	OK(tomos_tuned_keep(backend, &path));
	snprintf(wanted, sizeof wanted, "%s/.cache/tomos/tune-fake-", folder);
	assert_true(strncmp(path, wanted, strlen(wanted)) == 0);
	tomos_tuned_free(path);
	unsetenv("XDG_CACHE_HOME");
	unsetenv("HOME");
	REJECTED(tomos_tuned_keep(backend, &path), TOMOS_IO, "there is no cache directory");
	REJECTED(tomos_tuned_forget(backend), TOMOS_IO, "there is no cache directory");
	assert_int_equal(known(), 0);
	setenv("XDG_CACHE_HOME", folder, 1);
	setenv("HOME", home, 1);
	REJECTED(tomos_tuned_keep(NULL, &path), TOMOS_BAD_VALUE, "need a backend");
	REJECTED(tomos_tuned_forget(NULL), TOMOS_BAD_VALUE, "need a backend");
	REJECTED(tomos_tuned_file(NULL, &path, &(const char *){NULL}), TOMOS_BAD_VALUE,
		"need a backend");
	free(home);
	tomos_backend_close(backend);
}

static void test_no_memory(void **state)
{
	(void)state;
	int64_t before = mem_live();
	tomos_status status = TOMOS_NO_MEMORY;
	Problem p = problem(8, 4, 6);
	tomos_tune_options o = tomos_tune_defaults();
	o.seconds = 1e-3;
	for (int64_t nth = 1; status != TOMOS_OK; nth++) {
		tomos_backend *backend = fake_backend();
		tomos_tuned *rows = NULL, *list = NULL;
		int64_t count;
		char *path = NULL;
		mem_fail_nth(nth);
		status = tomos_tune(&rows, &count, backend, &p.grid, p.scan, &o, NULL);
		status = status == TOMOS_OK ? tomos_tuned_keep(backend, &path) : status;
		status = status == TOMOS_OK ? tomos_tuned_list(&list, &count, backend) : status;
		mem_fail_nth(0);
		assert_true(status == TOMOS_OK || status == TOMOS_NO_MEMORY);
		assert_null(backend->tuning.forced);
		tomos_tuned_free(rows);
		tomos_tuned_free(list);
		tomos_tuned_free(path);
		tomos_backend_close(backend);
	}
	tomos_geometry_free(p.scan);
	assert_true(known() > 0);
	status = TOMOS_NO_MEMORY;
	for (int64_t nth = 1; status != TOMOS_OK; nth++) {
		tomos_backend *backend = NULL;
		mem_fail_nth(nth);
		status = backend_open_type(&backend, &fake.type, "");
		mem_fail_nth(0);
		assert_true(status == TOMOS_OK ? backend->tuning.count > 0 : !backend);
		tomos_backend_close(backend);
	}
	assert_int_equal(mem_live(), before);
}

#define TESTS(T) \
	T(test_kept_and_recalled), T(test_broken_files), T(test_lines_that_are_no_rows), \
		T(test_other_devices), T(test_where_it_is_kept), T(test_no_memory)
TEST_MAIN(TESTS, begin, end)
