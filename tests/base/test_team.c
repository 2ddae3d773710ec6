/* Loops of a team: each index once, on one of its processes; a loop begins after the one before. */
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/base_test.h"
#include "base/team.h"

enum { MEMBERS = 4, LENGTH = 300, ROUNDS = 200, SCRATCH = 64 };

/* In memory of all members. */
typedef struct {
	TeamState state;
	int visits[LENGTH], done, late, wrong, nested, idle;
	int members[MEMBERS]; /* indices that each has computed */
	float scratch[SCRATCH];
} Common;

static Common *common;
static int member;

static Common *make_common(void)
{
	void *memory = mmap(
		NULL, sizeof *common, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(memory != MAP_FAILED);
	return memory;
}

static void count_nested(void *user, int64_t index)
{
	(void)user, (void)index;
	__atomic_add_fetch(&common->nested, 1, __ATOMIC_SEQ_CST);
}

/* All indices of a loop are done before the first of the next. */
static void visit(void *user, int64_t index)
{
	int round = *(const int *)user;
	int before = __atomic_fetch_add(&common->done, 1, __ATOMIC_SEQ_CST);
	if (before < round * LENGTH || before >= (round + 1) * LENGTH)
		__atomic_add_fetch(&common->late, 1, __ATOMIC_SEQ_CST);
	__atomic_add_fetch(&common->visits[index], 1, __ATOMIC_SEQ_CST);
	__atomic_add_fetch(&common->members[member], 1, __ATOMIC_SEQ_CST);
	if (index == 0)
		parallel_for(3, count_nested, NULL);
}

static void member_works(const Team *team)
{
	float *scratch;
	team_enter(team);
	for (int round = 0; round < ROUNDS; round++)
		parallel_for(LENGTH, visit, &round);
	bool shared =
		scratch_take(&scratch, SCRATCH, "a test") == TOMOS_OK && scratch == common->scratch;
	scratch_give(scratch);
	bool rejected = scratch_take(&scratch, SCRATCH + 1, "a test") == TOMOS_NO_MEMORY;
	team_leave();
	if (!shared || !rejected || team_here())
		__atomic_add_fetch(&common->wrong, 1, __ATOMIC_SEQ_CST);
}

/* Afterwards loops and memory are those of the process again. */
static bool works_alone(void)
{
	float *scratch;
	common->nested = 0;
	parallel_for(5, count_nested, NULL);
	bool own = scratch_take(&scratch, SCRATCH + 1, "a test") == TOMOS_OK &&
		   scratch != common->scratch;
	scratch_give(scratch);
	return own && common->nested == 5;
}

static void loops_of_several_processes(void **state)
{
	(void)state;
	common = make_common();
	const Team team = {.members = MEMBERS,
		.state = &common->state,
		.scratch = common->scratch,
		.floats = SCRATCH};
	assert_ok(tomos_set_threads(2));
	alarm(60);
	for (member = 1; member < MEMBERS; member++)
		if (fork() == 0) {
			member_works(&team);
			_exit(0);
		}
	member = 0;
	member_works(&team);
	for (int i = 1; i < MEMBERS; i++)
		assert_true(wait(NULL) > 0);
	alarm(0);
	for (int i = 0; i < LENGTH; i++)
		assert_int_equal(common->visits[i], ROUNDS);
	assert_int_equal(common->late, 0);
	assert_int_equal(common->wrong, 0);
	assert_int_equal(common->nested, 3 * ROUNDS);
	for (int i = 0; i < MEMBERS; i++)
		assert_true(common->members[i] > 0);
	assert_true(works_alone());
	munmap(common, sizeof *common);
}

static void count_idle(void *user)
{
	(void)user;
	__atomic_add_fetch(&common->idle, 1, __ATOMIC_SEQ_CST);
}

/* A member that comes late is waited for, and the others look after their messages meanwhile: it
 * does not come before they have. */
static void members_wait(void **state)
{
	(void)state;
	common = make_common();
	const Team team = {.members = 2, .state = &common->state, .idle = count_idle};
	alarm(60);
	if (fork() == 0) {
		for (int i = 0; i < 10000 && !__atomic_load_n(&common->idle, __ATOMIC_SEQ_CST); i++)
			usleep(1000);
		common->done = 1;
		team_wait(&team);
		_exit(0);
	}
	team_wait(&team);
	alarm(0);
	assert_int_equal(common->done, 1);
	assert_true(common->idle > 0);
	assert_true(wait(NULL) > 0);
	munmap(common, sizeof *common);
}

#define TESTS(T) T(loops_of_several_processes), T(members_wait)
TEST_MAIN(TESTS, NULL, NULL)
