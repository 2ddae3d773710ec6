/* View lists in files: round trips to the last bit, broken files and rejections. */
#include "geom/check.h"
#include <dirent.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

static char folder[] = "/tmp/tomos-geometry-XXXXXX";
static char place[512];

static const char *path_of(const char *name)
{
	snprintf(place, sizeof place, "%s/%s", folder, name);
	return place;
}

static const char *put(const char *name, const void *text, size_t length)
{
	FILE *file = fopen(path_of(name), "wb");
	assert_non_null(file);
	assert_int_equal(fwrite(text, 1, length, file), length);
	fclose(file);
	return place;
}

/* What lies in the folder, removed if asked for; returns how many there were. */
static int look(bool clear)
{
	struct dirent **list;
	int count = scandir(folder, &list, NULL, alphasort), found = 0;
	for (int i = 0; i < count; i++) {
		if (strcmp(list[i]->d_name, ".") != 0 && strcmp(list[i]->d_name, "..") != 0) {
			found++;
			if (clear)
				remove(path_of(list[i]->d_name));
		}
		free(list[i]);
	}
	free(list);
	return found;
}

static int make_folder(void **state)
{
	(void)state;
	return mkdtemp(folder) == NULL;
}

static int empty_folder(void **state)
{
	(void)state;
	look(true);
	return 0;
}

static int remove_folder(void **state)
{
	empty_folder(state);
	return rmdir(folder);
}

static int one_kind = 1; /* of source, where all are of one */

/* Views of numbers with all their bits in use, some tiny, some large. */
static tomos_geometry *awkward(bool mixed, int count)
{
	tomos_view views[20];
	tomos_geometry *scan;
	for (int i = 0; i < count; i++) {
		double *n = (double *)&views[i];
		for (int k = 0; k < VIEW_NUMBERS; k++)
			n[k] = uniform(-1, 1) * pow(10, floor(uniform(-2, 3)));
		views[i].src[3] = mixed ? i % 3 : one_kind;
	}
	views[0].det[0] = 5e-324;
	views[0].det[1] = 0.1;
	views[0].det[2] = -1e22 / 3;
	assert_int_equal(tomos_geometry_views(&scan, 123, 4567, views, count), TOMOS_OK);
	return scan;
}

static void check_round_trip(const char *name, bool mixed, int64_t rows, int64_t columns)
{
	tomos_geometry *scan = awkward(mixed, 20), *again;
	assert_int_equal(tomos_geometry_write(scan, path_of(name), NULL), TOMOS_OK);
	assert_int_equal(look(false), 1);
	assert_int_equal(tomos_geometry_read(&again, path_of(name), rows, columns, 1), TOMOS_OK);
	assert_int_equal(again->rows, 123);
	assert_int_equal(again->columns, 4567);
	assert_int_equal(again->count, 20);
	assert_memory_equal(again->views, scan->views, 20 * sizeof(tomos_view));
	tomos_geometry_free(scan);
	tomos_geometry_free(again);
}

static void test_json_round_trip(void **state)
{
	(void)state;
	check_round_trip("a.json", true, 0, 0);
}

static void test_text_round_trip(void **state)
{
	(void)state;
	check_round_trip("a.txt", false, 123, 4567);
	one_kind = 2;
	assert_int_equal(unlink(path_of("a.txt")), 0);
	check_round_trip("a.txt", false, 123, 4567);
	one_kind = 1;
}

/* The sizes in the first line are used, and arguments that contradict them are rejected. */
static void test_text_heading(void **state)
{
	(void)state;
	tomos_geometry *scan = awkward(false, 20), *again;
	assert_int_equal(tomos_geometry_write(scan, path_of("a.txt"), NULL), TOMOS_OK);
	assert_int_equal(tomos_geometry_read(&again, path_of("a.txt"), 0, 0, -1), TOMOS_OK);
	assert_int_equal(again->rows, 123);
	assert_int_equal(again->columns, 4567);
	assert_memory_equal(again->views, scan->views, 20 * sizeof(tomos_view));
	tomos_geometry_free(again);
	assert_rejected(tomos_geometry_read(&again, path_of("a.txt"), 123, 4567, 0),
		TOMOS_BAD_VALUE,
		"begin with a source, as the first one says, but point_source is not set");
	tomos_geometry_free(scan);
	static const char ray[] = "# ray x y z, detector\n0 5 0 0 -3 0 1 0 0 0 0 1\n";
	put("t.txt", ray, sizeof ray - 1);
	assert_rejected(tomos_geometry_read(&again, place, 2, 3, 1), TOMOS_BAD_VALUE,
		"begin with a ray, as the first one says, but point_source is set");
	assert_int_equal(tomos_geometry_read(&again, place, 2, 3, -1), TOMOS_OK);
	tomos_geometry_free(again);
	put("t.txt", ray + 22, sizeof ray - 23);
	assert_rejected(tomos_geometry_read(&again, place, 2, 3, -1), TOMOS_BAD_VALUE,
		"does not say whether its lines begin with a ray or with a source");
}

static void test_large_round_trip(void **state)
{
	(void)state;
	tomos_scan_options o = tomos_scan_defaults();
	tomos_geometry *scan, *again;
	o.columns = 9, o.views = 2000; /* a file larger than the first piece read */
	assert_int_equal(tomos_geometry_make(&scan, &o), TOMOS_OK);
	assert_int_equal(tomos_geometry_write(scan, path_of("b.txt"), NULL), TOMOS_OK);
	assert_int_equal(tomos_geometry_read(&again, path_of("b.txt"), 1, 9, 0), TOMOS_OK);
	assert_memory_equal(again->views, scan->views, 2000 * sizeof(tomos_view));
	tomos_geometry_free(scan);
	tomos_geometry_free(again);
}

static void test_other_language(void **state)
{
	(void)state;
	if (!setlocale(LC_ALL, "de_DE.UTF-8"))
		skip();
	check_round_trip("a.json", true, 0, 0);
	empty_folder(NULL);
	check_round_trip("a.txt", false, 123, 4567);
	setlocale(LC_ALL, "C");
}

static const char small[] =
	"{\"format\": \"tomos-geometry\", \"version\": 1, \"rows\": 2, \"columns\": 3, \"views\": "
	"[\n"
	"{\"source\": [0, 5, 0], \"detector\": [0, -3, 0.5], \"u\": [1, 0, 0], \"v\": [0, 0, 1]},\n"
	"{\"direction\": [0, -1, 0], \"detector\": [0, 0, 0], \"u\": [1, 0, 0], \"v\": [0, 0, "
	"1]}]}";

static void test_json_by_hand(void **state)
{
	(void)state;
	tomos_geometry *scan;
	put("s.json", small, sizeof small - 1);
	assert_int_equal(tomos_geometry_read(&scan, place, 0, 0, 0), TOMOS_OK);
	assert_int_equal(scan->count, 2);
	assert_true(scan->views[0].src[1] == 5 && scan->views[0].src[3] == 1);
	assert_true(scan->views[0].det[2] == 0.5);
	assert_true(scan->views[1].src[1] == -1 && scan->views[1].src[3] == 0);
	tomos_geometry_free(scan);
	assert_int_equal(tomos_geometry_read(&scan, place, 2, 3, 0), TOMOS_OK);
	tomos_geometry_free(scan);
}

static void test_json_truncated(void **state)
{
	(void)state;
	int64_t live = mem_live();
	for (size_t length = 0; length < sizeof small - 1; length++) {
		tomos_geometry *scan;
		put("s.json", small, length);
		assert_rejected(tomos_geometry_read(&scan, place, 0, 0, 0), TOMOS_BAD_FILE,
			"s.json', line ");
		assert_null(scan);
	}
	assert_int_equal(mem_live(), live);
}

/* Whatever a changed byte does, the file is read or rejected with its name. */
static void test_json_garbled(void **state)
{
	(void)state;
	int64_t live = mem_live();
	char text[sizeof small];
	for (size_t i = 0; i < sizeof small - 1; i++)
		for (int bit = 0; bit < 8; bit += 3) {
			tomos_geometry *scan;
			memcpy(text, small, sizeof small);
			text[i] ^= (char)(1 << bit);
			put("s.json", text, sizeof small - 1);
			tomos_status status = tomos_geometry_read(&scan, place, 0, 0, 0);
			if (status != TOMOS_OK)
				assert_rejected(status, TOMOS_BAD_FILE, "s.json'");
			tomos_geometry_free(scan);
		}
	assert_int_equal(mem_live(), live);
}

static void test_json_deep(void **state)
{
	(void)state;
	static char deep[200000];
	tomos_geometry *scan;
	for (int kind = 0; kind < 2; kind++) {
		for (size_t i = 0; i < sizeof deep; i++)
			deep[i] = kind ? "{\"a\":"[i % 5] : '[';
		put("deep.json", deep, sizeof deep);
		assert_rejected(tomos_geometry_read(&scan, place, 0, 0, 0), TOMOS_BAD_FILE,
			"not valid JSON: maximum parsing depth reached");
	}
}

/* `small` with one text replaced is rejected. */
static void reject_json(const char *old, const char *new, const char *part)
{
	char text[2 * sizeof small];
	tomos_geometry *scan;
	int64_t live = mem_live();
	const char *at = strstr(small, old);
	assert_non_null(at);
	snprintf(text, sizeof text, "%.*s%s%s", (int)(at - small), small, new, at + strlen(old));
	put("s.json", text, strlen(text));
	assert_rejected(tomos_geometry_read(&scan, place, 0, 0, 0), TOMOS_BAD_FILE, "s.json'");
	assert_rejected(TOMOS_BAD_FILE, TOMOS_BAD_FILE, part);
	assert_null(scan);
	assert_int_equal(mem_live(), live);
}

static void test_json_rejected(void **state)
{
	(void)state;
	reject_json("tomos-geometry", "other", "'format' is 'other', but 'tomos-geometry' was");
	reject_json("\"format\"", "\"form\"", "'format' is '(none)'");
	reject_json("\"version\": 1", "\"version\": 2", "'version' is 2, but 1 was expected");
	reject_json("\"version\": 1", "\"version\": \"1\"", "'version' must be a whole number");
	reject_json("\"rows\": 2", "\"rows\": 2.5", "'rows' must be a whole number");
	reject_json("\"rows\": 2", "\"rows\": 0", "0 rows: at least 1");
	reject_json("\"columns\": 3", "\"columns\": -3", "-3 columns: at least 1");
	reject_json("\"columns\": 3", "\"columnz\": 3", "'columns' must be a whole number");
	reject_json("\"views\"", "\"view\"", "'views' must be a list of views");
	reject_json("\"source\": [0, 5, 0]", "\"source\": [0, 5]",
		"view 0: 'source' must be a list of 3 numbers");
	reject_json("[0, -1, 0]", "[0, \"x\", 0]", "view 1: 'direction'[1] is not a number");
	reject_json("[0, -3, 0.5]", "null", "view 0: 'detector' must be a list of 3 numbers");
	reject_json("\"u\": [1, 0, 0], ", "", "view 0: 'u' must be a list of 3 numbers");
	reject_json("\"v\"", "\"w\"", "view 0: key 'w' is not known");
	reject_json("\"u\": [1, 0, 0]", "\"direction\": [1, 0, 0]",
		"view 0 has several kinds of source; one of 'source', 'direction' and 'fan' was "
		"expected");
	reject_json("\"source\": [0, 5, 0], ", "", "view 0 has no source");
	reject_json("{\"direction\"", "7, {\"direction\"", "view 1 must be an object");
	reject_json("0.5]", "1e999]", "line 2, column ");
	reject_json("[1, 0, 0]", "[0, 0, 0]", "view 0: u is (0, 0, 0)");
	reject_json(
		"\"u\": [1, 0, 0]", "\"u\": [1, 0, 0], \"u\": [2, 0, 0]", "duplicate object key");
	reject_json("]}]}", "]}]} x", "line 3, column ");
	static const char empty[] = "{\"format\":\"tomos-geometry\",\"version\":1,\"rows\":1,"
				    "\"columns\":1,\"views\":[]}";
	tomos_geometry *scan;
	put("s.json", empty, sizeof empty - 1);
	assert_rejected(tomos_geometry_read(&scan, place, 0, 0, 0), TOMOS_BAD_FILE, "0 views");
	put("s.json", "[1, 2]", 6);
	assert_rejected(tomos_geometry_read(&scan, place, 0, 0, 0), TOMOS_BAD_FILE, "'format' is");
	put("s.json", small, sizeof small - 1);
	assert_rejected(tomos_geometry_read(&scan, place, 4, 3, 0), TOMOS_BAD_FILE,
		"'rows' is 2, but 4 was expected");
}

static void test_text_by_hand(void **state)
{
	(void)state;
	static const char text[] = "# a comment\n\n  \t\r\n"
				   "0 5 0\t0 -3 0 1e0 0 0 0 0 1 # first\r\n"
				   "#0 1\n"
				   "0,6,0, 0,-3,0, 1,0,0, .5,0,1"; /* and no end of line */
	tomos_geometry *scan;
	put("t.txt", text, sizeof text - 1);
	assert_int_equal(tomos_geometry_read(&scan, place, 2, 3, 1), TOMOS_OK);
	assert_int_equal(scan->count, 2);
	assert_true(scan->views[0].src[1] == 5 && scan->views[0].src[3] == 1);
	assert_true(scan->views[1].src[1] == 6 && scan->views[1].v[0] == 0.5);
	tomos_geometry_free(scan);
	assert_int_equal(tomos_geometry_read(&scan, place, 2, 3, 0), TOMOS_OK);
	assert_true(scan->views[1].src[3] == 0);
	tomos_geometry_free(scan);
	assert_rejected(tomos_geometry_read(&scan, place, 0, 3, 0), TOMOS_BAD_VALUE,
		"does not hold the detector's size, and 0 rows x 3 columns");
}

static void reject_text(const char *text, size_t length, const char *part)
{
	tomos_geometry *scan;
	int64_t live = mem_live();
	put("t.txt", text, length);
	assert_rejected(tomos_geometry_read(&scan, place, 2, 3, 1), TOMOS_BAD_FILE, "t.txt'");
	assert_rejected(TOMOS_BAD_FILE, TOMOS_BAD_FILE, part);
	assert_null(scan);
	assert_int_equal(mem_live(), live);
}

#define GOOD "0 5 0 0 -3 0 1 0 0 0 0 1\n"

static void test_text_rejected(void **state)
{
	(void)state;
	reject_text("", 0, "has no views: lines of 12 numbers were expected");
	reject_text("# only\n", 7, "has no views");
	reject_text(GOOD "1 2 3\n", 31, "line 2: 3 numbers were found, 12 were expected");
	reject_text(GOOD GOOD "\n1 2 3 4 5 6 7 8 9 10 11 12 13\n" GOOD, 106,
		"line 4: 13 numbers were found");
	reject_text("#\n0 5 0 0 x3 0 1 0 0 0 0 1\n", 27,
		"line 2: 'x3 0 1 0 0 0 0 1' stands where a number was expected");
	reject_text("0 5 0 0 3x 0 1 0 0 0 0 1\n", 25, "line 1: '3x 0 1 0 0 0 0 1' stands where");
	reject_text(GOOD "0 nan 0 0 -3 0 1 0 0 0 0 1", 51, "line 2: view 1: the source, y is nan");
	reject_text(GOOD "0 5 0 0 -3 0 0 0 0 0 0 1", 49, "line 2: view 1: u is (0, 0, 0)");
	reject_text("0 5 0\0" GOOD, 6 + 25, "has a zero byte");
}

/* 6 columns are for one row of pixels. */
static void test_text_in_plane(void **state)
{
	(void)state;
	tomos_geometry *scan;
	static const char text[] = "# source, detector, u\n3 4 -6 -8 0.4 -0.3\n0 5 1 -3 0.5 0\n";
	put("t.txt", text, sizeof text - 1);
	assert_int_equal(tomos_geometry_read(&scan, place, 1, 7, 1), TOMOS_OK);
	assert_int_equal(scan->count, 2);
	const tomos_view *view = &scan->views[0];
	assert_true(view->src[0] == 3 && view->src[1] == 4 && view->src[2] == 0);
	assert_true(view->src[3] == 1 && view->det[1] == -8 && view->u[1] == -0.3);
	assert_true(fabs(view->v[2] - 0.5) < 1e-15 && view->v[0] == 0);
	tomos_geometry_free(scan);
	assert_rejected(tomos_geometry_read(&scan, place, 2, 7, 1), TOMOS_BAD_FILE,
		"line 2: 6 numbers, without z and v, are for one row of pixels, and there are 2");
}

static void test_text_truncated(void **state)
{
	(void)state;
	static const char text[] = GOOD "0 6.5 0 0 -3 0 1 0 0 0 0 1\n";
	for (size_t length = 0; length < sizeof text - 3; length++) {
		tomos_geometry *scan;
		put("t.txt", text, length);
		tomos_status status = tomos_geometry_read(&scan, place, 2, 3, 1);
		if (length == 24 || length == 25) /* the first line is whole, and all there is */
			assert_int_equal(status, TOMOS_OK);
		else
			assert_rejected(status, TOMOS_BAD_FILE, "t.txt'");
		tomos_geometry_free(scan);
	}
}

static void test_not_there(void **state)
{
	(void)state;
	tomos_geometry *scan;
	assert_rejected(tomos_geometry_read(&scan, path_of("no.json"), 0, 0, 0), TOMOS_IO,
		"no.json' cannot be opened: No such file");
	assert_rejected(tomos_geometry_read(&scan, folder, 0, 0, 0), TOMOS_IO,
		"' cannot be read: Is a directory");
	assert_rejected(
		tomos_geometry_read(&scan, NULL, 0, 0, 0), TOMOS_BAD_VALUE, "no geometry file");
}

static void test_write_rejected(void **state)
{
	(void)state;
	tomos_geometry *scan = awkward(true, 3);
	tomos_file_options o = tomos_file_defaults();
	assert_rejected(tomos_geometry_write(scan, path_of("a.xml"), NULL), TOMOS_BAD_VALUE,
		"a.xml' must end in .json or .txt");
	assert_rejected(
		tomos_geometry_write(scan, NULL, NULL), TOMOS_BAD_VALUE, "'(none)' must end");
	assert_rejected(
		tomos_geometry_write(scan, ".json", NULL), TOMOS_BAD_VALUE, "'.json' must end");
	assert_rejected(tomos_geometry_write(NULL, path_of("a.json"), NULL), TOMOS_BAD_VALUE,
		"there is no geometry to write to");
	assert_rejected(tomos_geometry_write(NULL, path_of("a.txt"), NULL), TOMOS_BAD_VALUE,
		"there is no geometry to write to");
	assert_rejected(tomos_geometry_write(scan, path_of("a.txt"), NULL), TOMOS_UNSUPPORTED,
		"view 1 has a point source, unlike view 0");
	assert_rejected(tomos_geometry_write(scan, path_of("no/a.json"), NULL), TOMOS_IO, "no/'");
	put("a.json", "old", 3);
	assert_rejected(tomos_geometry_write(scan, place, NULL), TOMOS_IO,
		"a.json' exists already and overwrite was not asked for");
	assert_int_equal(look(false), 1);
	o.overwrite = 1;
	assert_int_equal(tomos_geometry_write(scan, place, &o), TOMOS_OK);
	assert_int_equal(look(false), 1);
	o.bytes = 1;
	assert_rejected(tomos_geometry_write(scan, place, &o), TOMOS_BAD_VALUE,
		"bytes of a tomos_file_options is 1");
	tomos_geometry_free(scan);
}

static void test_memory(void **state)
{
	(void)state;
	tomos_geometry *scan = awkward(false, 20), *again;
	static const char *const names[] = {"a.json", "a.txt"};
	int64_t live = mem_live();
	for (int k = 0; k < 2; k++) {
		tomos_status status = TOMOS_NO_MEMORY;
		for (int64_t n = 1; status != TOMOS_OK; n++) {
			mem_fail_nth(n);
			status = tomos_geometry_write(scan, path_of(names[k]), NULL);
			mem_fail_nth(0);
			if (status != TOMOS_OK)
				assert_rejected(status, TOMOS_NO_MEMORY, "no memory for");
			assert_int_equal(mem_live(), live);
			assert_int_equal(look(false), k + (status == TOMOS_OK));
		}
		status = TOMOS_NO_MEMORY;
		for (int64_t n = 1; status != TOMOS_OK; n++) {
			mem_fail_nth(n);
			status = tomos_geometry_read(&again, path_of(names[k]), 123, 4567, 1);
			mem_fail_nth(0);
			if (status != TOMOS_OK) {
				assert_rejected(status, TOMOS_NO_MEMORY, "no memory for");
				assert_int_equal(mem_live(), live);
			}
		}
		tomos_geometry_free(again);
	}
	tomos_geometry_free(scan);
}

/* The limit on the size of files plays the full disk. */
static void test_disk_full(void **state)
{
	(void)state;
	tomos_geometry *scan = awkward(false, 20);
	struct rlimit before, tight;
	int64_t live = mem_live();
	getrlimit(RLIMIT_FSIZE, &before);
	tight = before;
	tight.rlim_cur = 1000;
	void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &tight);
	tomos_status status = tomos_geometry_write(scan, path_of("a.json"), NULL);
	setrlimit(RLIMIT_FSIZE, &before);
	signal(SIGXFSZ, handler);
	assert_rejected(status, TOMOS_IO, "a.json' cannot be written: File too large");
	assert_int_equal(look(false), 0);
	assert_int_equal(mem_live(), live);
	tomos_geometry_free(scan);
}

#define with_folder(test) cmocka_unit_test_setup_teardown(test, empty_folder, empty_folder)

int main(void)
{
	const struct CMUnitTest tests[] = {with_folder(test_json_round_trip),
		with_folder(test_text_round_trip), with_folder(test_large_round_trip),
		with_folder(test_text_heading), with_folder(test_other_language),
		with_folder(test_json_by_hand), with_folder(test_json_truncated),
		with_folder(test_json_garbled), with_folder(test_json_deep),
		with_folder(test_json_rejected), with_folder(test_text_by_hand),
		with_folder(test_text_rejected), with_folder(test_text_in_plane),
		with_folder(test_text_truncated), with_folder(test_not_there),
		with_folder(test_write_rejected), with_folder(test_disk_full),
		with_folder(test_memory)};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
