/* Files and directories that appear under their name only when whole. */
#include "base/base.h" /* before cmocka, which has a macro of the name fail() */
#include "base/test_main.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static char start[] = "/tmp/tomos-replace-XXXXXX", before[4096];

static int enter_folder(void **state)
{
	(void)state;
	return !getcwd(before, sizeof before) || !mkdtemp(start) || chdir(start) != 0;
}

static int leave_folder(void **state)
{
	(void)state;
	file_discard(start);
	return chdir(before) != 0 || access(start, F_OK) == 0;
}

static void put(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static bool holds(const char *path, const char *text)
{
	char got[64] = "";
	FILE *file = fopen(path, "r");
	if (!file)
		return false;
	size_t length = fread(got, 1, sizeof got - 1, file);
	fclose(file);
	return length == strlen(text) && strcmp(got, text) == 0;
}

static void drop(char *temporary)
{
	file_discard(temporary);
	mem_free(temporary);
}

#define assert_rejected(call, wanted, part) \
	do { \
		assert_int_equal((call), (wanted)); \
		if (!strstr(tomos_message(), (part))) \
			fail_msg("'%s' has no '%s'", tomos_message(), (part)); \
	} while (0)

static void test_names(void **state)
{
	(void)state;
	char *a, *b, wanted[64];
	assert_int_equal(file_temporary(&a, "x.tif", false), TOMOS_OK);
	snprintf(wanted, sizeof wanted, "./.x.tif.%ld.", (long)getpid());
	assert_memory_equal(a, wanted, strlen(wanted));
	assert_string_equal(a + strlen(a) - 5, ".part");
	assert_int_equal(file_temporary(&b, "x.tif", false), TOMOS_OK);
	assert_string_not_equal(a, b);
	drop(a);
	drop(b);
	assert_int_equal(mkdir("sub", 0777), 0);
	assert_int_equal(file_temporary(&a, "sub/stack//", false), TOMOS_OK);
	assert_memory_equal(a, "sub/.stack.", 11);
	drop(a);
}

/* Any name that the file system accepts can be written; long names are shortened by whole UTF-8
 * characters. */
static void test_long_names(void **state)
{
	(void)state;
	char name[256], *part;
	for (int shift = 0; shift < 2; shift++) {
		memset(name, 'x', sizeof name);
		name[255 - shift] = 0;
		for (int i = shift; i + 1 < 200; i += 2)
			memcpy(name + i, "\xc3\xa9", 2);
		assert_int_equal(file_temporary(&part, name, false), TOMOS_OK);
		assert_int_equal(part[3 + 99 + (shift == 0)], '.');
		put(part, "long");
		assert_int_equal(file_publish(part, name, false), TOMOS_OK);
		assert_true(holds(name, "long"));
		file_discard(name);
		mem_free(part);
	}
}

static void test_file(void **state)
{
	(void)state;
	char *part;
	assert_int_equal(file_temporary(&part, "file", false), TOMOS_OK);
	put(part, "new");
	assert_int_equal(access("file", F_OK), -1);
	assert_int_equal(file_publish(part, "file", false), TOMOS_OK);
	assert_true(holds("file", "new"));
	assert_int_equal(access(part, F_OK), -1);
	mem_free(part);
	assert_rejected(file_temporary(&part, "file", false), TOMOS_IO,
		"'file' exists already and overwrite was not asked for");
	assert_null(part);
	assert_int_equal(file_temporary(&part, "file", true), TOMOS_OK);
	put(part, "newer");
	assert_int_equal(file_publish(part, "file", true), TOMOS_OK);
	assert_true(holds("file", "newer"));
	mem_free(part);
}

static void make_stack(const char *path, const char *name)
{
	char inner[256];
	assert_int_equal(mkdir(path, 0777), 0);
	snprintf(inner, sizeof inner, "%s/%s", path, name);
	put(inner, name);
}

static void test_directory(void **state)
{
	(void)state;
	char *part;
	for (int round = 0; round < 2; round++) {
		assert_int_equal(file_temporary(&part, "stack/", round > 0), TOMOS_OK);
		make_stack(part, round ? "b" : "a");
		assert_int_equal(file_publish(part, "stack/", round > 0), TOMOS_OK);
		assert_int_equal(access(part, F_OK), -1);
		mem_free(part);
	}
	assert_true(holds("stack/b", "b"));
	assert_int_equal(access("stack/a", F_OK), -1);
	make_stack("stack/inner", "precious");
	assert_int_equal(file_temporary(&part, "stack", true), TOMOS_OK);
	make_stack(part, "c");
	assert_rejected(file_publish(part, "stack", true), TOMOS_IO,
		"directory 'stack' has directories in it and is not replaced");
	assert_true(holds("stack/inner/precious", "precious"));
	file_discard(part);
	assert_int_equal(access(part, F_OK), -1);
	drop(part);
}

/* The system's function, unless a test simulates a file system without it, or without hard links as
 * well. */
static bool no_renameat2, no_link;

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name) */
int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags)
{
	if (no_renameat2) {
		errno = EINVAL;
		return -1;
	}
	return (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, flags);
}

int link(const char *from, const char *to)
{
	if (no_link) {
		errno = EPERM;
		return -1;
	}
	return (int)syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0);
}

static void publish_beside_other(const char *path, bool directory)
{
	char *part, inner[64];
	assert_int_equal(file_temporary(&part, path, false), TOMOS_OK);
	snprintf(inner, sizeof inner, "%s%s", path, directory ? "/mine" : "");
	if (directory) {
		make_stack(part, "mine");
		make_stack(path, "theirs");
	} else {
		put(part, "mine");
		put(path, "theirs");
	}
	assert_rejected(file_publish(part, path, false), TOMOS_IO,
		"' appeared while it was being written and overwrite was not asked for");
	assert_int_equal(access(part, F_OK), 0);
	file_discard(path);
	assert_int_equal(file_publish(part, path, false), TOMOS_OK);
	assert_true(holds(inner, "mine"));
	assert_int_equal(access(part, F_OK), -1);
	file_discard(path);
	mem_free(part);
}

/* A file that another process creates meanwhile is kept, with every method of renaming. */
static void test_appeared(void **state)
{
	(void)state;
	for (int way = 0; way < 3; way++) {
		no_renameat2 = way > 0;
		no_link = way > 1;
		publish_beside_other("meanwhile", false);
		publish_beside_other("meanwhile", true);
	}
	no_renameat2 = no_link = false;
}

static void publish_other_kind(const char *path, bool folder, const char *says)
{
	char *part;
	assert_int_equal(file_temporary(&part, path, true), TOMOS_OK);
	if (folder)
		make_stack(part, "a");
	else
		put(part, "file");
	assert_rejected(file_publish(part, path, true), TOMOS_IO, says);
	drop(part);
}

static void test_kinds_differ(void **state)
{
	(void)state;
	make_stack("folder", "a");
	publish_other_kind(
		"folder", false, "'folder' is a directory and is not replaced by a file");
	put("plain", "old");
	publish_other_kind("plain", true, "'plain' is a file and is not replaced by a directory");
	assert_true(holds("plain", "old") && holds("folder/a", "a"));
}

static void test_rejected(void **state)
{
	(void)state;
	char *part;
	static const char *const bad[] = {"", "/", "//", ".", "..", "./", "x/.."};
	for (int i = 0; i < COUNT(bad); i++)
		assert_rejected(file_temporary(&part, bad[i], true), TOMOS_BAD_VALUE,
			"is not the name of a file to write");
	assert_rejected(
		file_temporary(&part, NULL, true), TOMOS_BAD_VALUE, "no file to write is named");
	assert_rejected(file_temporary(&part, "no/x", true), TOMOS_IO,
		"'no/x' cannot be written: directory 'no/': No such file");
	put("flat", "");
	assert_rejected(
		file_temporary(&part, "flat/x", true), TOMOS_IO, "'flat/x' cannot be written");
	assert_rejected(
		file_publish("gone", "x", true), TOMOS_IO, "'gone', to become 'x', cannot be");
	put("here", "");
	assert_rejected(file_publish("here", "no/x", true), TOMOS_IO,
		"'here' cannot be renamed to 'no/x': No such file");
	file_discard("gone");
	file_discard(NULL);
}

/* Temporary files that were neither published nor discarded can be removed together; other files
 * stay. */
static void test_all(void **state)
{
	(void)state;
	char *part[3];
	for (int i = 0; i < 3; i++) {
		assert_int_equal(file_temporary(&part[i], i ? "left" : "kept", true), TOMOS_OK);
		put(part[i], "text");
	}
	assert_int_equal(file_publish(part[0], "kept", true), TOMOS_OK);
	tomos_file_discard_all();
	assert_true(holds("kept", "text"));
	for (int i = 0; i < 3; i++) {
		assert_int_equal(access(part[i], F_OK), -1);
		mem_free(part[i]);
	}
	tomos_file_discard_all();
}

static void test_memory(void **state)
{
	(void)state;
	char *part = NULL;
	int64_t live = mem_live(), n = 0;
	tomos_status status = TOMOS_NO_MEMORY;
	while (status != TOMOS_OK) {
		mem_fail_nth(++n);
		status = file_temporary(&part, "x", false);
		mem_fail_nth(0);
		if (status != TOMOS_OK)
			assert_int_equal(status, TOMOS_NO_MEMORY);
		if (status != TOMOS_OK)
			assert_int_equal(mem_live(), live);
	}
	assert_true(n > 2);
	drop(part);
	assert_int_equal(mem_live(), live);
	make_stack("one", "a");
	make_stack("two", "b");
	mem_fail_nth(1); /* exchanging needs no memory; a backup without a name is not made */
	status = file_publish("two", "one", true);
	mem_fail_nth(0);
	if (status == TOMOS_OK)
		assert_true(holds("one/b", "b") && access("two", F_OK) != 0);
	else
		assert_true(
			status == TOMOS_NO_MEMORY && holds("one/a", "a") && holds("two/b", "b"));
	assert_int_equal(mem_live(), live);
}

#define TESTS(T) \
	T(test_names), T(test_long_names), T(test_file), T(test_directory), T(test_appeared), \
		T(test_kinds_differ), T(test_rejected), T(test_all), T(test_memory)
TEST_MAIN(TESTS, enter_folder, leave_folder)
