/* Large outputs in memory (tmpfs), which are written through mappings: the same bytes, and a full
 * file system is a failure with a message, not the end of the process. */
#include "io_help.h"
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include "io/io.h"

enum { SLICES = 30, SIDE = 300, SLICE = SIDE * SIDE }; /* 10.8 MB */

static const int64_t shape[3] = {SLICES, SIDE, SIDE};
static const char *const names[] = {"a.h5", "a.npy", "a.tif", "a.mha", "a.raw"};
static float *numbers;

static int make_numbers(void **state)
{
	struct statvfs disk;
	(void)state;
	numbers = malloc(SLICES * SLICE * sizeof *numbers);
	for (int i = 0; i < SLICES * SLICE; i++)
		numbers[i] = (float)i;
	bool there = statvfs("/dev/shm", &disk) == 0 &&
		     (double)disk.f_bavail * (double)disk.f_frsize > 200e6;
	if (!there)
		printf("skipped: /dev/shm is not there, or full\n");
	return scratch_in(there ? "/dev/shm" : "/tmp");
}

static int free_numbers(void **state)
{
	free(numbers);
	return scratch_remove(state);
}

/* Slices in any order, some of them twice. */
static tomos_status write_all(const char *path)
{
	tomos_file_options o = overwriting();
	tomos_file *file;
	TRY(tomos_file_create(&file, path, TOMOS_VOLUME, shape, &o));
	tomos_status status = tomos_file_write(file, 20, 10, numbers + 20 * SLICE);
	if (status == TOMOS_OK)
		status = tomos_file_write(file, 0, 1, numbers);
	if (status == TOMOS_OK)
		status = tomos_file_write(file, 0, 21, numbers);
	if (status == TOMOS_OK)
		status = tomos_file_commit(file);
	tomos_file_close(file);
	return status;
}

static void same_numbers(void **state)
{
	(void)state;
	for (int n = 0; n < COUNT(names); n++) {
		tomos_file_options o = tomos_file_defaults();
		tomos_file *file;
		float *back = malloc(SLICES * SLICE * sizeof *back);
		assert_ok(write_all(at(names[n])));
		o.raw = n == 4 ? "30,300,300,float32" : "";
		assert_ok(tomos_file_open(&file, at(names[n]), &o));
		assert_ok(tomos_file_read(file, 0, SLICES, back));
		assert_memory_equal(back, numbers, SLICES * SLICE * sizeof *back);
		tomos_file_close(file);
		free(back);
	}
	assert_int_equal(mem_live(), 0);
}

/* An output that is given up leaves nothing. */
static void given_up(void **state)
{
	int before = entries(scratch);
	tomos_file_options o = overwriting();
	(void)state;
	for (int n = 0; n < COUNT(names); n++) {
		tomos_file *file;
		assert_ok(tomos_file_create(&file, at(names[n]), TOMOS_VOLUME, shape, &o));
		assert_ok(tomos_file_write(file, 3, 2, numbers));
		tomos_file_close(file);
	}
	assert_int_equal(entries(scratch), before);
	assert_int_equal(mem_live(), 0);
}

/* ---- full ------------------------------------------------------------------------------------ */

static _Atomic bool filling;

/* Takes all space that is left, again and again. */
static void *fill(void *path)
{
	static const char zeros[1 << 16];
	int file = open(path, O_WRONLY | O_CREAT, 0666);
	for (off_t end = 0; filling;) {
		ssize_t put = pwrite(file, zeros, sizeof zeros, end);
		end += put > 0 ? put : 0;
	}
	close(file);
	return NULL;
}

static int write_on_full(const char *folder, int try)
{
	char path[128], rest[128];
	pthread_t thread;
	snprintf(path, sizeof path, "%s/%s", folder, names[try % COUNT(names)]);
	snprintf(rest, sizeof rest, "%s/rest", folder);
	tomos_file_options o = overwriting();
	tomos_file *file;
	if (tomos_file_create(&file, path, TOMOS_VOLUME, shape, &o) != TOMOS_OK) {
		print_error("%s\n", tomos_message());
		return 2;
	}
	filling = true;
	pthread_create(&thread, NULL, fill, rest);
	tomos_status status = TOMOS_OK;
	for (int i = 0; i < SLICES && status == TOMOS_OK; i++)
		status = tomos_file_write(file, i, 1, numbers + i * SLICE);
	if (status == TOMOS_OK)
		status = tomos_file_commit(file);
	filling = false;
	pthread_join(thread, NULL);
	bool said = strstr(tomos_message(), "No space left on device") != NULL;
	tomos_file_close(file);
	unlink(path);
	unlink(rest);
	if (status != TOMOS_OK && !said)
		print_error("%d: %s\n", (int)status, tomos_message());
	return status == TOMOS_OK || (status == TOMOS_IO && said) ? 0 : 3;
}

static bool put_line(const char *path, const char *text)
{
	int file = open(path, O_WRONLY);
	bool put = file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text);
	close(file);
	return put;
}

/* Mounts of this process alone, with the rights of root there. */
static bool own_mounts(void)
{
	char users[64], groups[64];
	snprintf(users, sizeof users, "0 %d 1", (int)getuid());
	snprintf(groups, sizeof groups, "0 %d 1", (int)getgid());
	return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 &&
	       put_line("/proc/self/setgroups", "deny") && put_line("/proc/self/uid_map", users) &&
	       put_line("/proc/self/gid_map", groups);
}

/* In a file system of its own, of 16 MB, of which another writer takes what it can get. */
static int child(void)
{
	char folder[96];
	snprintf(folder, sizeof folder, "%s/disk", scratch);
	if (!own_mounts() || mkdir(folder, 0777) != 0 ||
		mount("tmpfs", folder, "tmpfs", 0, "size=16M") != 0)
		return 77;
	for (int try = 0; try < 20; try++) {
		int result = write_on_full(folder, try);
		if (result)
			return result;
	}
	return 0;
}

static void full(void **state)
{
	int result;
	(void)state;
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0)
		exit(child());
	waitpid(pid, &result, 0);
	assert_true(WIFEXITED(result));
	if (WEXITSTATUS(result) == 77)
		printf("skipped: this user may not mount a file system of his own\n");
	else
		assert_int_equal(WEXITSTATUS(result), 0);
}

#define TESTS(T) T(full), T(same_numbers), T(given_up)
TEST_MAIN(TESTS, make_numbers, free_numbers)
