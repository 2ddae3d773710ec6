/* parallel_for runs each index once: for any number of threads, nested, side by side, after
 * fork. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/base_test.h"

enum { LENGTH = 1000 };

typedef struct {
	_Atomic int visits[LENGTH];
} Visits;

static void visit(void *user, int64_t index)
{
	((Visits *)user)->visits[index]++;
}

static int wrong_visits(const Visits *v, int64_t count, int expected)
{
	int wrong = 0;
	for (int i = 0; i < LENGTH; i++)
		wrong += v->visits[i] != (i < count ? expected : 0);
	return wrong;
}

static void test_each_index_once(void **state)
{
	(void)state;
	static const int threads[] = {1, 2, 7, 3, 1, 16, 2};
	static const int64_t counts[] = {0, 1, 2, 6, 7, 8, LENGTH};
	for (int t = 0; t < COUNT(threads); t++) {
		assert_ok(tomos_set_threads(threads[t]));
		assert_int_equal(tomos_threads(), threads[t]);
		for (int c = 0; c < COUNT(counts); c++) {
			Visits v = {0};
			parallel_for(counts[c], visit, &v);
			assert_int_equal(wrong_visits(&v, counts[c], 1), 0);
		}
	}
}

/* Seven tasks that wait for each other end only if seven threads run them. */
static void meet(void *user, int64_t index)
{
	(void)index;
	pthread_barrier_wait(user);
}

static void test_really_parallel(void **state)
{
	(void)state;
	pthread_barrier_t barrier;
	pthread_barrier_init(&barrier, NULL, 7);
	assert_ok(tomos_set_threads(7));
	parallel_for(7, meet, &barrier);
	pthread_barrier_destroy(&barrier);
}

static void visit_all(void *user, int64_t index)
{
	(void)index;
	parallel_for(LENGTH, visit, user);
}

static void test_nested(void **state)
{
	(void)state;
	Visits v = {0};
	assert_ok(tomos_set_threads(7));
	parallel_for(20, visit_all, &v);
	assert_int_equal(wrong_visits(&v, LENGTH, 20), 0);
}

static void *visit_often(void *user)
{
	for (int i = 0; i < 50; i++)
		parallel_for(LENGTH, visit, user);
	return NULL;
}

static void test_side_by_side(void **state)
{
	(void)state;
	Visits v[2] = {0};
	pthread_t threads[2];
	assert_ok(tomos_set_threads(3));
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, visit_often, &v[i]), 0);
	for (int i = 0; i < 2; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(wrong_visits(&v[i], LENGTH, 50), 0);
	}
}

static void *meet_twice(void *barrier)
{
	parallel_for(2, meet, barrier);
	return NULL;
}

/* Two loops of two tasks that all wait for each other: the second loop has a worker too. */
static void test_loops_share_workers(void **state)
{
	(void)state;
	pthread_barrier_t barrier;
	pthread_t other;
	pthread_barrier_init(&barrier, NULL, 4);
	assert_ok(tomos_set_threads(3));
	assert_int_equal(pthread_create(&other, NULL, meet_twice, &barrier), 0);
	meet_twice(&barrier);
	pthread_join(other, NULL);
	pthread_barrier_destroy(&barrier);
}

#if defined __SANITIZE_THREAD__
#define THREAD_SANITIZER 1
#elif defined __has_feature
#if __has_feature(thread_sanitizer)
#define THREAD_SANITIZER 1
#endif
#endif

static void test_after_fork(void **state)
{
	(void)state;
#if defined THREAD_SANITIZER
	print_message("the thread sanitizer does not allow threads after fork\n");
	skip();
#endif
	Visits v = {0};
	int status;
	assert_ok(tomos_set_threads(4));
	parallel_for(LENGTH, visit, &v);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		pthread_barrier_t barrier;
		pthread_barrier_init(&barrier, NULL, 4);
		alarm(60);
		parallel_for(4, meet, &barrier);
		parallel_for(LENGTH, visit, &v);
		_exit(wrong_visits(&v, LENGTH, 2) != 0);
	}
	assert_true(waitpid(child, &status, 0) == child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	parallel_for(LENGTH, visit, &v);
	assert_int_equal(wrong_visits(&v, LENGTH, 2), 0);
}

/* A wrong value of the variable is reported, unless tomos_set_threads has set the number of
 * threads. */
static void test_variable(void **state)
{
	(void)state;
	setenv("TOMOS_THREADS", "two", 1);
	assert_rejected(threads_check(), TOMOS_BAD_VALUE, "TOMOS_THREADS is 'two'");
	assert_ok(tomos_set_threads(2));
	assert_ok(threads_check());
	unsetenv("TOMOS_THREADS");
}

static void test_number(void **state)
{
	(void)state;
	setenv("TOMOS_THREADS", "5", 1);
	assert_ok(tomos_set_threads(0));
	assert_int_equal(tomos_threads(), 5);
	static const char *const wrong[] = {"many", "-3", "2x", "1025"};
	for (int i = 0; i < COUNT(wrong); i++) {
		char message[96];
		setenv("TOMOS_THREADS", wrong[i], 1);
		snprintf(message, sizeof message,
			"TOMOS_THREADS is '%s': it must be the number of threads, 0 (all cores) to "
			"1024",
			wrong[i]);
		assert_rejected(tomos_set_threads(0), TOMOS_BAD_VALUE, message);
	}
	unsetenv("TOMOS_THREADS");
	assert_ok(tomos_set_threads(0));
	assert_rejected(tomos_set_threads(-1), TOMOS_BAD_VALUE,
		"-1 threads: the number must be 0 (all cores) to 1024");
	assert_rejected(tomos_set_threads(1025), TOMOS_BAD_VALUE, "1025 threads");
	cpu_set_t cores;
	assert_int_equal(sched_getaffinity(0, sizeof cores, &cores), 0);
	assert_int_equal(tomos_threads(), CPU_COUNT(&cores));
	threads_share(3); /* of a rank */
	assert_int_equal(tomos_threads(), 3);
	assert_ok(tomos_set_threads(2));
	assert_int_equal(tomos_threads(), 2);
	assert_ok(tomos_set_threads(0));
	assert_int_equal(tomos_threads(), 3);
	threads_share(0);
	assert_int_equal(tomos_threads(), CPU_COUNT(&cores));
}

typedef struct {
	pthread_barrier_t two;
	_Atomic int now, most, calls;
} Failing;

/* Tasks 5 and 6 run at the same time and both fail. */
static tomos_status fail_at_five_and_six(void *user, int64_t i)
{
	Failing *f = user;
	int now = ++f->now;
	for (int most = f->most; now > most && !atomic_compare_exchange_weak(&f->most, &most, now);)
		;
	f->calls++;
	if (i == 5 || i == 6)
		pthread_barrier_wait(&f->two);
	f->now--;
	return i == 5 || i == 6 ? (fail)(TOMOS_IO, "task %d", (int)i) : TOMOS_OK;
}

static void test_tasks_that_fail(void **state)
{
	(void)state;
	Failing f = {.now = 0};
	pthread_barrier_init(&f.two, NULL, 2);
	assert_ok(tomos_set_threads(7));
	for (int i = 0; i < 20; i++) {
		f.calls = 0;
		assert_int_equal(
			parallel_each(1000, 2, fail_at_five_and_six, &f, "trying"), TOMOS_IO);
		assert_string_equal(tomos_message(), "task 5");
		assert_true(f.calls < 1000);
	}
	assert_int_equal(f.most, 2);
	assert_ok(parallel_each(5, 2, fail_at_five_and_six, &f, "trying"));
	pthread_barrier_destroy(&f.two);
	tomos_cancel flag = {0};
	tomos_cancel_on(&flag);
	tomos_cancel_raise(&flag);
	assert_int_equal(parallel_each(5, 2, fail_at_five_and_six, &f, "trying"), TOMOS_CANCELLED);
	tomos_cancel_on(NULL);
}

#define TESTS(T) \
	T(test_variable), T(test_each_index_once), T(test_really_parallel), T(test_nested), \
		T(test_side_by_side), T(test_loops_share_workers), T(test_after_fork), \
		T(test_tasks_that_fail), T(test_number)
TEST_MAIN(TESTS, NULL, NULL)
