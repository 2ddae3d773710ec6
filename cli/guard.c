/* The guard of a job: a small process that ends the job of which a rank was killed, and names that
 * rank.
 *
 * Launchers end such jobs as well, but that of MPICH names a process instead of a rank, and that of
 * Open MPI 4.1 sometimes waits for ever while it ends itself (a lock of the PMIx library). On each
 * machine the first rank starts the guard, and all ranks of the machine connect to it: a connection
 * that ends without a farewell is a rank that was killed. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include "cli.h"

enum {
	MOST = 4096,      /* descriptors, and therefore ranks of a machine */
	ATTEMPTS = 1000,  /* to find the guard, 5 ms each */
	UNUSED = 60000,   /* milliseconds after which a guard without ranks ends */
	LAST_WAIT = 3000, /* milliseconds for the launcher to end the other ranks */
	LAUNCHER = 2000,  /* and then itself */
	LONGEST = 600000, /* for a launcher that still has other processes */
	LOOK = 20,        /* milliseconds between looks whether a message has been read */
	HIGH = 900,       /* number of the descriptor of the connection, see guard_begin */
	FAREWELL = -1
};

static int connection = -1; /* of this rank to the guard */

/* ---- the guard ------------------------------------------------------------------------------ */

typedef struct {
	pid_t pid; /* 0: not connected */
	int rank;
	bool greeted, ended; /* has sent its number; its farewell */
} Member;

typedef struct {
	int listener, poll;
	pid_t launcher;
	int count, seen; /* ranks that are connected; those that have been */
	bool lost;       /* a rank was killed */
	double deadline; /* of the others */
	int spare;       /* standard error of the launcher, -1: unknown */
	char said[160];  /* a message that is not read yet */
	Member members[MOST];
} Guard;

static double milliseconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

static void rest(long ms)
{
	const struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
	nanosleep(&time, NULL);
}

static void watch(Guard *g, int descriptor)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = descriptor};
	(void)epoll_ctl(g->poll, EPOLL_CTL_ADD, descriptor, &event);
}

static void admit(Guard *g)
{
	struct ucred who;
	socklen_t size = sizeof who;
	int s = accept4(g->listener, NULL, NULL, SOCK_CLOEXEC);
	if (s < 0)
		return;
	if (s >= MOST || getsockopt(s, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0 ||
		who.uid != getuid()) {
		close(s);
		return;
	}
	g->members[s] = (Member){.pid = who.pid};
	g->count++;
	g->seen++;
	watch(g, s);
}

/* Standard error is a pipe to the launcher. That of MPICH may end with a rank that is killed in
 * MPI_Finalize, before it has read the message, which then goes to where its own messages went. */
static void say_again(Guard *g)
{
	struct pollfd end = {.fd = STDERR_FILENO};
	int unread = 0;
	if (!g->said[0] || ioctl(STDERR_FILENO, FIONREAD, &unread) != 0 || unread == 0) {
		g->said[0] = 0;
		return;
	}
	if (poll(&end, 1, 0) != 1 || !(end.revents & POLLERR))
		return;
	(void)!write(g->spare, g->said, strlen(g->said));
	g->said[0] = 0;
}

/* Names the first process that is lost; the launcher kills the others after it. */
static void lose(Guard *g, const Member *m)
{
	if (g->lost)
		return;
	g->lost = true;
	g->deadline = milliseconds() + LAST_WAIT;
	snprintf(g->said, sizeof g->said,
		"tomos: rank %d (process %ld) has ended before its work was done: the job ends\n",
		m->rank, (long)m->pid);
	if (write(STDERR_FILENO, g->said, strlen(g->said)) > 0)
		return;
	(void)!write(g->spare, g->said, strlen(g->said));
	g->said[0] = 0;
}

static void hear(Guard *g, int s)
{
	Member *m = &g->members[s];
	int number;
	ssize_t got = recv(s, &number, sizeof number, MSG_DONTWAIT);
	if (got == (ssize_t)sizeof number) {
		if (m->greeted)
			m->ended = number == FAREWELL;
		else
			m->rank = number;
		m->greeted = true;
		return;
	}
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (m->greeted && !m->ended)
		lose(g, m);
	close(s);
	*m = (Member){.pid = 0};
	g->count--;
}

static void end_others(Guard *g)
{
	for (int i = 0; i < MOST; i++)
		if (g->members[i].pid > 0)
			kill(g->members[i].pid, SIGKILL);
	g->deadline = milliseconds() + LAST_WAIT;
}

static int wait_time(const Guard *g)
{
	double left = g->deadline - milliseconds();
	if (!g->lost)
		return g->count > 0 ? -1 : UNUSED;
	if (g->said[0] && left > LOOK)
		return LOOK;
	return left > 0 ? (int)left + 1 : 0;
}

/* Events come in the order in which they happened, so that the first end is that of the rank that
 * was killed. */
static void watch_all(Guard *g)
{
	struct epoll_event list[64];
	do {
		int count = epoll_wait(g->poll, list, sizeof list / sizeof *list, wait_time(g));
		for (int i = 0; i < count; i++)
			if (list[i].data.fd == g->listener)
				admit(g);
			else
				hear(g, list[i].data.fd);
		if (count == 0 && g->seen == 0)
			return;
		say_again(g);
		if (g->lost && milliseconds() > g->deadline)
			end_others(g);
	} while (g->count > 0 || g->seen == 0);
}

/* ---- a launcher that does not end ----------------------------------------------------------- */

/* State, parent and name of a process, from /proc. */
static bool describe_process(long pid, char *state, long *parent, char name[64])
{
	char path[64], text[512];
	snprintf(path, sizeof path, "/proc/%ld/stat", pid);
	FILE *file = fopen(path, "r");
	if (!file)
		return false;
	size_t size = fread(text, 1, sizeof text - 1, file);
	fclose(file);
	text[size] = 0;
	char *open = strchr(text, '('), *close = strrchr(text, ')');
	if (!open || !close || close[1] != ' ' || !close[2] || !close[3])
		return false;
	*close = 0;
	snprintf(name, 64, "%.63s", open + 1);
	*state = close[2];
	*parent = strtol(close + 3, NULL, 10);
	return true;
}

static bool is_launcher(long pid)
{
	static const char *const names[] = {"mpirun", "mpiexec", "orterun", "prterun"};
	char name[64], state;
	long parent;
	if (!describe_process(pid, &state, &parent, name) || state == 'Z')
		return false;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strncmp(name, names[i], strlen(names[i])) == 0)
			return true;
	return false;
}

/* Processes that have not ended: other programs of the same job, or those of other machines. */
static bool has_processes(long pid)
{
	DIR *all = opendir("/proc");
	bool found = !all;
	for (struct dirent *one; !found && (one = readdir(all)) != NULL;) {
		char name[64], state;
		long parent, number = strtol(one->d_name, NULL, 10);
		found = number > 0 && describe_process(number, &state, &parent, name) &&
			parent == pid && state != 'Z';
	}
	if (all)
		closedir(all);
	return found;
}

static void end_launcher(Guard *g)
{
	double begin = milliseconds(), idle = begin;
	long pid = g->launcher;
	while (is_launcher(pid) && milliseconds() - begin < LONGEST) {
		say_again(g);
		if (has_processes(pid))
			idle = milliseconds();
		if (milliseconds() - idle > LAUNCHER) {
			fprintf(stderr,
				"tomos: process %ld, which started the ranks, does not "
				"end after them and is ended\n",
				pid);
			kill((pid_t)pid, SIGKILL);
			return;
		}
		rest(100);
	}
}

/* Shared memory of the ranks, which Open MPI leaves if its launcher is killed. */
static void remove_segments(void)
{
	const char *job = getenv("PMIX_NAMESPACE");
	char pattern[96], *end;
	glob_t found;
	if (!job || !*job)
		return;
	unsigned long number = strtoul(job, &end, 10);
	if (*end)
		return;
	snprintf(pattern, sizeof pattern, "/dev/shm/vader_segment.*.%lu.%lx.*",
		(unsigned long)geteuid(), number);
	if (glob(pattern, GLOB_NOSORT, NULL, &found) == 0)
		for (size_t i = 0; i < found.gl_pathc; i++)
			(void)unlink(found.gl_pathv[i]);
	globfree(&found);
}

/* ---- starting and finding it ---------------------------------------------------------------- */

/* In a session of its own: launchers end all processes of a rank's. What other processes wait to be
 * closed is closed. */
static void run_guard(int listener, pid_t launcher)
{
	static Guard guard;
	char path[64];
	setsid();
	(void)signal(SIGPIPE, SIG_IGN);
	if (dup2(listener, STDIN_FILENO) < 0)
		_exit(1);
	close(STDOUT_FILENO);
	for (int i = STDERR_FILENO + 1; i < MOST; i++)
		close(i);
	guard.listener = STDIN_FILENO;
	guard.launcher = launcher;
	snprintf(path, sizeof path, "/proc/%ld/fd/2", (long)launcher);
	guard.spare = open(path, O_WRONLY | O_APPEND | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	guard.poll = epoll_create1(EPOLL_CLOEXEC);
	watch(&guard, guard.listener);
	watch_all(&guard);
	if (guard.lost) {
		close(guard.listener);
		end_launcher(&guard);
		say_again(&guard);
		remove_segments();
	}
	_exit(0);
}

/* A name that all ranks of a machine know: they are children of one process. */
static struct sockaddr_un address_of(pid_t launcher, socklen_t *size)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int length = snprintf(a.sun_path + 1, sizeof a.sun_path - 1, "tomos-guard-%ld-%ld",
		(long)getuid(), (long)launcher);
	*size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
	return a;
}

static void start_guard(const struct sockaddr_un *address, socklen_t size, pid_t launcher)
{
	int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	bool bound = s >= 0 && bind(s, (const struct sockaddr *)address, size) == 0 &&
		     listen(s, MOST) == 0;
	if (bound && fork() == 0)
		run_guard(s, launcher);
	if (s >= 0)
		close(s);
}

static int find_guard(pid_t launcher)
{
	socklen_t size;
	const struct sockaddr_un address = address_of(launcher, &size);
	for (int i = 0; i < ATTEMPTS; i++) {
		int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
		if (s < 0 || connect(s, (const struct sockaddr *)&address, size) == 0)
			return s;
		close(s);
		if (i % 2 == 0)
			start_guard(&address, size, launcher);
		else
			rest(10);
	}
	return -1;
}

/* Number of this rank, as the launcher gives it; -1: unknown. */
static int launched_rank(void)
{
	static const char *const names[] = {
		"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		const char *value = getenv(names[i]);
		if (value && *value)
			return (int)strtol(value, NULL, 10);
	}
	return -1;
}

/* Linux closes the descriptors of a killed process from the highest number down. The launcher of
 * MPICH kills the other ranks as soon as its own connection to this one is closed, so the guard's
 * has to be closed before that. */
static int raise_descriptor(int s)
{
	int high = s < 0 ? -1 : fcntl(s, F_DUPFD_CLOEXEC, HIGH);
	if (high < 0)
		return s;
	close(s);
	return high;
}

void guard_begin(void)
{
	int rank = launched_rank();
	if (!tomos_comm_launched() || rank < 0)
		return;
	connection = raise_descriptor(find_guard(getppid()));
	if (connection >= 0)
		(void)send(connection, &rank, sizeof rank, MSG_NOSIGNAL);
}

void guard_end(void)
{
	const int farewell = FAREWELL;
	if (connection < 0)
		return;
	(void)send(connection, &farewell, sizeof farewell, MSG_NOSIGNAL);
	close(connection);
	connection = -1;
}
