/* Everything a thousand times in one process: neither blocks of memory nor the process, nor what is
 * held on a device, grow. */
#include "run/work.h" /* first: cmocka makes a macro of fail() */
#define fail() _fail(__FILE__, __LINE__)
#include "jobs.h"
#include "device_found.h"

/* A page or so is taken late by the system's allocator and by libraries; 1000 leaks of 2 KB are
 * more. */
enum { WARM = 100, GROWTH_KB = 2000 };

static DeviceCalls calls;
static bool wrapped;

static int runs(void)
{
	return case_slow() ? 50 : 1000;
}

static long resident_kb(void)
{
	long pages = 0;
	FILE *file = fopen("/proc/self/statm", "r");
	assert_non_null(file);
	assert_int_equal(fscanf(file, "%*d %ld", &pages), 1);
	fclose(file);
	return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

typedef void (*Repeated)(void *user);

static void repeat(Repeated step, void *user, const char *name)
{
	for (int i = 0; i < WARM; i++)
		step(user);
	int64_t blocks = mem_live();
	long resident = resident_kb(), objects = wrapped ? calls.live() : 0;
	for (int i = 0; i < runs(); i++)
		step(user);
	long grown = resident_kb() - resident, more = wrapped ? calls.live() - objects : 0;
	printf("  %-30s %+5ld KB, %+lld blocks, %+ld objects of the device in %d runs\n", name,
		grown, (long long)(mem_live() - blocks), more, runs());
	assert_int_equal(mem_live(), blocks);
	assert_int_equal(more, 0);
	if (!CASE_SLOW)
		assert_true(grown < GROWTH_KB);
}

/* ---- backends and what they do -------------------------------------------------------------- */

typedef struct {
	const Job *job;
	tomos_backend *backend;
	JobScene scene;
} JobWork;

static void do_job(void *user)
{
	JobWork *w = user;
	OK(job_run(w->job, w->backend, &w->scene, w->scene.got));
}

static void open_close(void *user)
{
	tomos_backend *backend;
	(void)user;
	OK(tomos_backend_open(&backend, test_backend()));
	tomos_backend_close(backend);
}

static void working(void **state)
{
	tomos_backend *backend;
	(void)state;
	OK(tomos_backend_open(&backend, test_backend()));
	wrapped = device_find(&calls);
	for (int i = 0; i < COUNT(jobs); i++) {
		JobWork w = {&jobs[i], backend, scene_of(jobs[i].scene)};
		repeat(do_job, &w, jobs[i].name);
		scene_free(&w.scene);
	}
	tomos_backend_close(backend);
	repeat(open_close, NULL, "opening and closing");
}

/* ---- files -------------------------------------------------------------------------------- */

static void write_read(void *user)
{
	const int64_t shape[3] = {2, 3, 4};
	float data[24] = {1, 2, 3}, *got;
	int64_t found[3];
	write_array(at(user), TOMOS_VOLUME, shape, data);
	assert_ok(read_all(at(user), found, &got));
	free(got);
}

static void reject(void *user)
{
	tomos_file *file;
	assert_int_not_equal(tomos_file_open(&file, at(user), NULL), TOMOS_OK);
}

static void run_files(void *user)
{
	Work *w = user;
	w->said[0] = 0;
	assert_ok(tomos_run(&w->job, NULL));
}

static void recall(void *user)
{
	char *path;
	const char *wrong;
	assert_ok(tomos_tuned_file(user, &path, &wrong));
	tomos_tuned_free(path);
}

static void files(void **state)
{
	static const char *const names[] = {"v.h5", "v.npy", "v.tif", "v.mha", "v.mhd", "v/"};
	tomos_backend *backend;
	Work w;
	(void)state;
	for (int i = 0; i < COUNT(names); i++)
		repeat(write_read, (void *)(uintptr_t)names[i], names[i]);
	put_file(at("broken.h5"), "\x89HDF\r\n\x1a\n", 8);
	repeat(reject, (void *)(uintptr_t) "broken.h5", "a broken file");
	work_init(&w, "volume.npy");
	w.job.backend = test_backend();
	w.file.overwrite = 1;
	repeat(run_files, &w, "file to file");
	OK(tomos_backend_open(&backend, "cpu"));
	repeat(recall, backend, "what was measured");
	tomos_backend_close(backend);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(working), cmocka_unit_test(files)};
	if (!device_opens())
		return 77;
	return cmocka_run_group_tests(tests, make_scan, scratch_remove);
}
