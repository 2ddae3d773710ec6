/* Every call of a device's library failing in turn, while backends are opened and while they work,
 * whole and in pieces: each ends with a message or the right result, frees what it took, and works
 * when asked again. */
#include "jobs.h"
#include "device_found.h"

static DeviceCalls calls;
static long tried, ended, survived, lazy;

/* Iterations make the same calls again and again: of more than this some are left out, evenly. */
enum { MOST_FAULTS = 400 };

static long stride(long count)
{
	const char *text = getenv("TOMOS_FAULT_STRIDE");
	long least = text && atoi(text) > 0 ? atoi(text) : case_slow() ? 13 : 1;
	return least * (1 + count / MOST_FAULTS);
}

static void judge(tomos_status status, bool right, const char *what, long nth, const char *call)
{
	tried++;
	if (status != TOMOS_OK && !*tomos_message())
		fail_msg("%s, call %ld (%s): no message", what, nth, call);
	if (status == TOMOS_OK && !right)
		fail_msg("%s, call %ld (%s): status 0 with a wrong result", what, nth, call);
	ended += status != TOMOS_OK;
	survived += status == TOMOS_OK;
}

/* Which lane processes a piece first varies from run to run, and each lane creates its kernels on
 * first use. */
enum { LAZY = 32 };

static void check_left(int64_t blocks, long objects, const char *what, long nth, const char *call)
{
	if (mem_live() != blocks || calls.live() < objects || calls.live() > objects + lazy)
		fail_msg("%s, call %ld (%s): %lld blocks and %ld objects of the device are left",
			what, nth, call, (long long)(mem_live() - blocks), calls.live() - objects);
}

static tomos_status open_with(tomos_backend **backend, int64_t memory)
{
	tomos_device_options o = tomos_device_defaults();
	o.memory = memory;
	return tomos_backend_open_with(backend, test_backend(), &o);
}

static void opening(int64_t memory)
{
	tomos_backend *backend = NULL;
	int64_t blocks = mem_live();
	long objects = calls.live();
	(void)calls.arm(0);
	OK(open_with(&backend, memory));
	tomos_backend_close(backend);
	long count = calls.arm(0);
	check_left(blocks, objects, "opening", 0, "");
	for (long nth = 1; nth <= count; nth += stride(count)) {
		(void)calls.arm(nth);
		tomos_status status = open_with(&backend, memory);
		judge(status, backend != NULL, "opening", nth, calls.failed());
		tomos_backend_close(backend);
		check_left(blocks, objects, "opening", nth, calls.failed());
	}
	(void)calls.arm(0);
}

/* Once more without a fault: the backend works as before and holds as many objects. */
static void run_again(const Job *job, tomos_backend *backend, const JobScene *s,
	const float *expected, const char *after)
{
	if (job_run(job, backend, s, s->got) != TOMOS_OK)
		fail_msg("%s, after %s had failed: %s", job->name, after, tomos_message());
	if (case_difference(s->got, expected, job_size(job, s)) > 1e-5)
		fail_msg("%s: another result after a failure", job->name);
}

static void fail_job(const Job *job, tomos_backend *backend, const JobScene *s)
{
	int64_t size = job_size(job, s);
	float *expected = malloc((size_t)size * sizeof *expected);
	OK(job_run(job, backend, s, s->got));
	memcpy(expected, s->got, (size_t)size * sizeof *expected);
	run_again(job, backend, s, expected, "nothing");
	int64_t blocks = mem_live();
	long objects = calls.live();
	(void)calls.arm(0);
	run_again(job, backend, s, expected, "nothing");
	long count = calls.arm(0);
	for (long nth = 1; nth <= count; nth += stride(count)) {
		(void)calls.arm(nth);
		tomos_status status = job_run(job, backend, s, s->got);
		const char *call = calls.failed();
		(void)calls.arm(0);
		judge(status, case_difference(s->got, expected, size) < 1e-5, job->name, nth, call);
		run_again(job, backend, s, expected, call);
		check_left(blocks, objects, job->name, nth, call);
	}
	printf("  %-30s %5ld calls\n", job->name, count);
	free(expected);
}

static void fail_all(int64_t memory)
{
	tomos_backend *backend;
	opening(memory);
	OK(open_with(&backend, memory));
	for (int i = 0; i < COUNT(jobs); i++) {
		JobScene s = scene_of(jobs[i].scene);
		/* Stored matrices and art are for whole volumes. */
		if (!memory || jobs[i].kind < JOB_METHOD || strcmp(jobs[i].word, "sirt") == 0)
			fail_job(&jobs[i], backend, &s);
		scene_free(&s);
	}
	tomos_backend_close(backend);
}

static void whole(void **state)
{
	(void)state;
	fail_all(0);
}

static void in_pieces(void **state)
{
	(void)state;
	lazy = LAZY;
	fail_all(100000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(whole), cmocka_unit_test(in_pieces)};
	if (!device_opens())
		return 77;
	if (!device_find(&calls)) {
		printf("skipped: backend '%s' is no module whose calls can fail; set "
		       "TOMOS_TEST_BACKEND, and TOMOS_MODULES to the folder 'faults' of the "
		       "build\n",
			test_backend());
		return 77;
	}
	int code = cmocka_run_group_tests(tests, NULL, NULL);
	printf("%ld faults: %ld ended with a message, %ld gave the right result\n", tried, ended,
		survived);
	return code;
}
