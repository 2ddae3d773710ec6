/* Progress on stderr (a bar on a terminal, a few lines in a log) and Ctrl-C, which ends the work.
 *
 * A thread of its own waits for signals and shows how long the work has taken while it says
 * nothing. The flag that the first Ctrl-C raises is watched by the library (tomos_cancel_on), which
 * leaves its loops. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "cli.h"

#define FIRST_AFTER 0.8 /* seconds of a stage before its progress is shown */
#define REDRAW 0.1
#define TICK 0.2 /* of the thread that redraws */

static tomos_cancel stopped; /* by a signal */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the state */

static struct {
	char stage[32];
	int64_t done, total; /* as reported last; total 0: nothing yet */
	double value, start, drawn;
	int64_t tenth;  /* last tenth that was printed to a log; -1: none yet */
	int64_t slices; /* of the run, as its report has them; 0: none */
	char limit[16]; /* the stage that has been busy for the longest time */
	bool shown;     /* a bar is on the terminal's last line */
	bool ended;     /* nothing is drawn any more */
} state;

static const tomos_run_report *rates;

void progress_rates(const tomos_run_report *report)
{
	pthread_mutex_lock(&lock);
	rates = report;
	state.slices = 0;
	pthread_mutex_unlock(&lock);
}

/* The run changes its report between two calls of `report`, in the thread that calls it. */
static void take_rates(void)
{
	const char *name = tomos_stage_names();
	for (int64_t i = rates->limiting; i > 0 && *name; i--)
		name += strcspn(name, "|") + 1;
	state.slices = rates->shape[0];
	snprintf(state.limit, sizeof state.limit, "%.*s", (int)strcspn(name, "|"), name);
}

/* The signals are blocked and taken by a thread; this runs only where that could not be started. */
static void heard(int signal_number)
{
	(void)signal_number;
	tomos_cancel_raise(&stopped);
}

static struct timespec interval(double seconds)
{
	struct timespec t = {(time_t)seconds, 0};
	t.tv_nsec = (long)(1e9 * (seconds - (double)t.tv_sec));
	return t;
}

static void tick(void);

/* The first signal, with the bar kept alive until then. */
static int first_signal(const sigset_t *signals)
{
	const struct timespec wait = interval(TICK);
	int number;
	while ((number = sigtimedwait(signals, NULL, &wait)) < 0)
		tick();
	return number;
}

/* Anything may be called in this thread. The first signal ends the work at once, with what is whole
 * written. Should that take a while, a second Ctrl-C ends the program; other signals come from
 * programs that will not wait for long. What is being written is left alone by its thread first, as
 * far as it can. */
static void *listen(void *user)
{
	const struct timespec moment = interval(0.3), grace = interval(5);
	sigset_t *signals = user;
	int number = first_signal(signals);
	tomos_cancel_raise(&stopped);
	bool again = sigtimedwait(signals, NULL, &moment) >= 0;
	if (!again && number == SIGINT && !message_quiet())
		fputs("\ntomos: interrupted; finishing the current step, press again to stop at "
		      "once\n",
			stderr);
	if (!again && number == SIGINT)
		sigwait(signals, &number);
	else if (!again)
		(void)sigtimedwait(signals, NULL, &grace);
	tomos_cancel_raise(&stopped);
	(void)sigtimedwait(signals, NULL, &moment);
	tomos_file_discard_all();
	fputs("\ntomos: interrupted; ended in the middle of a step\n", stderr);
	_exit(INTERRUPTED);
}

/* Under nohup the program outlives its terminal. */
static bool ignored(int signal_number)
{
	struct sigaction action;
	return sigaction(signal_number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

/* A stage before its first report, under the name of the command. */
static void begin_stage(const char *stage, double now)
{
	snprintf(state.stage, sizeof state.stage, "%s", stage);
	state.start = now;
	state.done = state.total = 0;
	state.tenth = -1;
	state.value = 0;
}

void progress_start(const char *command_name)
{
	static sigset_t signals;
	struct sigaction action;
	pthread_t thread;
	begin_stage(command_name, seconds());
	memset(&action, 0, sizeof action);
	action.sa_handler = heard;
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	if (!ignored(SIGHUP))
		sigaddset(&signals, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &signals, NULL); /* first, lest one is lost on the way */
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	signal(SIGXFSZ, SIG_IGN); /* a write past a limit then fails with a message */
	tomos_cancel_on(&stopped);
	if (pthread_create(&thread, NULL, listen, &signals) == 0)
		pthread_detach(thread);
	else
		pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
}

void progress_go_on(void)
{
	tomos_cancel_clear(&stopped);
}

double seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void clear_bar(void)
{
	if (state.shown)
		fputs("\r\033[K", stderr);
	state.shown = false;
	state.drawn = seconds(); /* what is printed now stays alone for a moment */
}

void progress_clear(void)
{
	pthread_mutex_lock(&lock);
	clear_bar();
	pthread_mutex_unlock(&lock);
}

void progress_end(void)
{
	pthread_mutex_lock(&lock);
	clear_bar();
	state.ended = true;
	pthread_mutex_unlock(&lock);
}

/* "12.3/s", or the slices of a run and the stage that limits it. */
static void rate_text(char *text, size_t size, double elapsed)
{
	double done = (double)state.done;
	if (state.slices > 0 && state.total > 0)
		snprintf(text, size, "%.3g slices/s, limited by %s",
			(double)state.slices * done / (double)state.total / elapsed, state.limit);
	else
		snprintf(text, size, "%.3g/s", done / elapsed);
}

static void draw_bar(double elapsed)
{
	char bar[31], extra[64];
	bool run = state.slices > 0; /* whose rate takes more columns of the terminal */
	int width = run ? 10 : 30;
	double part = state.total > 0 ? (double)state.done / (double)state.total : 0;
	double left = part > 0 ? elapsed * (1 - part) / part : elapsed;
	memset(bar, '.', (size_t)width);
	memset(bar, '#', (size_t)(width * part));
	bar[width] = 0;
	rate_text(extra, sizeof extra, elapsed);
	if (state.total > 0)
		fprintf(stderr, "\r%-*.12s [%s] %3d %%  %s  ", run ? 6 : 12, state.stage, bar,
			(int)(100 * part), part > 0 ? extra : "");
	else
		fprintf(stderr, "\r%-12.12s ", state.stage);
	fprintf(stderr, "%d:%02d %s", (int)left / 60, (int)left % 60, part > 0 ? "left" : "so far");
	if (state.value > 0)
		fprintf(stderr, "  %.3g", state.value);
	fputs("\033[K", stderr);
	state.shown = true;
}

static void log_line(double elapsed)
{
	int64_t tenth =
		state.total > 0 ? (int64_t)(10.0 * (double)state.done / (double)state.total) : 0;
	if (tenth <= state.tenth)
		return;
	state.tenth = tenth;
	char rate[64];
	rate_text(rate, sizeof rate, elapsed);
	if (state.total > 0)
		fprintf(stderr, "%s: %d %% after %.1f s%s%s", state.stage, (int)tenth * 10, elapsed,
			state.slices > 0 && tenth > 0 ? ", " : "",
			state.slices > 0 && tenth > 0 ? rate : "");
	else
		fprintf(stderr, "%s: at work for %.1f s", state.stage, elapsed);
	if (state.value > 0)
		fprintf(stderr, ", residual %.4g", state.value);
	fputc('\n', stderr);
}

/* With the lock held. */
static void show(double now, double redraw)
{
	double elapsed = now - state.start;
	if (tomos_cancel_raised(&stopped) || message_quiet() || state.ended ||
		elapsed < FIRST_AFTER)
		return;
	if (!isatty(STDERR_FILENO))
		log_line(elapsed);
	else if (now - state.drawn > redraw) {
		draw_bar(elapsed);
		state.drawn = now;
	}
}

static void tick(void)
{
	pthread_mutex_lock(&lock);
	show(seconds(), TICK);
	pthread_mutex_unlock(&lock);
}

static void take(const char *stage, int64_t done, int64_t total, double value)
{
	double now = seconds();
	bool again = done <= 0 && state.done > 0;
	if (strncmp(stage, state.stage, sizeof state.stage - 1) != 0 || again) {
		if (state.shown)
			clear_bar();
		begin_stage(stage, now);
	}
	state.done = done > 0 ? done : 0;
	state.total = total > 0 ? total : 0;
	state.value = value;
	if (rates)
		take_rates();
	if (state.done > 0)
		show(now, done == total ? 0 : REDRAW);
	if (total > 0 && done >= total) {
		if (state.shown)
			clear_bar();
		begin_stage(message_command(), now);
	}
}

static int report(void *user, const char *stage, int64_t done, int64_t total, double value)
{
	(void)user;
	pthread_mutex_lock(&lock);
	take(stage, done, total, value);
	pthread_mutex_unlock(&lock);
	return tomos_cancel_raised(&stopped);
}

static int only_stop(void *user, const char *stage, int64_t done, int64_t total, double value)
{
	(void)user;
	(void)stage;
	(void)done;
	(void)total;
	(void)value;
	return tomos_cancel_raised(&stopped);
}

const tomos_progress *progress_silent(void)
{
	static const tomos_progress progress = {only_stop, NULL};
	return &progress;
}

const tomos_progress *progress_shown(void)
{
	static const tomos_progress progress = {report, NULL};
	return &progress;
}

int progress_step(const char *stage, int64_t done, int64_t total)
{
	return report(NULL, stage, done, total, 0) ? interrupted() : DONE;
}
