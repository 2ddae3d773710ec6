/* Progress on stderr (a bar on a terminal, a few lines in a log) and Ctrl-C, which ends the work. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "cli.h"

#define PATIENCE 1.0 /* seconds of a stage that pass in silence */
#define REDRAW 0.1

static _Atomic int stopped;

static struct {
	char stage[32];
	double start, drawn;
	int64_t tenth; /* last tenth that a log was told of */
	bool shown;    /* a bar is on the terminal's last line */
} state;

static const tomos_run_report *rates;

void progress_rates(const tomos_run_report *report)
{
	rates = report;
}

static void heard(int signal_number)
{
	(void)signal_number; /* never called: the signals are blocked, but must not be ignored */
}

/* Waits for signals in a thread of its own, where anything may be called. The first one ends the work
 * at its next step. Should that take a while, a second Ctrl-C ends the program; other signals come
 * from programs that will not wait for long. */
static void *listen(void *user)
{
	const struct timespec moment = {0, 300000000}, grace = {5, 0};
	sigset_t *signals = user;
	int number;
	sigwait(signals, &number);
	stopped = 1;
	bool again = sigtimedwait(signals, NULL, &moment) >= 0;
	if (!again && number == SIGINT && !message_quiet())
		fputs("\ntomos: interrupted; finishing the current step, press again to stop at "
		      "once\n",
			stderr);
	if (!again && number == SIGINT)
		sigwait(signals, &number);
	else if (!again)
		(void)sigtimedwait(signals, NULL, &grace);
	tomos_file_discard_all();
	fputs("\ntomos: interrupted; ended in the middle of a step\n", stderr);
	_exit(INTERRUPTED);
}

/* A program told to outlive its terminal (nohup) does. */
static bool ignored(int signal_number)
{
	struct sigaction action;
	return sigaction(signal_number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

void progress_start(void)
{
	static sigset_t signals;
	struct sigaction action;
	pthread_t thread;
	memset(&action, 0, sizeof action);
	action.sa_handler = heard;
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	if (!ignored(SIGHUP))
		sigaddset(&signals, SIGHUP);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	signal(SIGXFSZ, SIG_IGN); /* a write past a limit fails with a sentence instead */
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	if (pthread_create(&thread, NULL, listen, &signals) == 0)
		pthread_detach(thread);
	else
		pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
}

void progress_go_on(void)
{
	stopped = 0;
}

double seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void progress_clear(void)
{
	if (state.shown)
		fputs("\r\033[K", stderr);
	state.shown = false;
}

static void draw_bar(int64_t done, int64_t total, double value, double elapsed)
{
	char bar[31], extra[48];
	double left = elapsed * (double)(total - done) / (double)done;
	int filled = (int)(30.0 * (double)done / (double)total);
	memset(bar, '.', 30);
	memset(bar, '#', (size_t)filled);
	bar[30] = 0;
	if (rates)
		snprintf(extra, sizeof extra, "%.3g MB/s  %.3g GU/s",
			rates->read_bytes * 1e-6 / elapsed, rates->updates * 1e-9 / elapsed);
	else
		snprintf(extra, sizeof extra, "%.3g/s", (double)done / elapsed);
	fprintf(stderr, "\r%-12.12s [%s] %3d %%  %s  %d:%02d left", state.stage, bar,
		(int)(100.0 * (double)done / (double)total), extra, (int)left / 60, (int)left % 60);
	if (value > 0)
		fprintf(stderr, "  %.3g", value);
	fputs("\033[K", stderr);
	state.shown = true;
}

static void log_line(int64_t done, int64_t total, double value, double elapsed)
{
	int64_t tenth = (int64_t)(10.0 * (double)done / (double)total);
	if (tenth == state.tenth)
		return;
	state.tenth = tenth;
	fprintf(stderr, "%s: %d %% after %.1f s", state.stage, (int)tenth * 10, elapsed);
	if (value > 0)
		fprintf(stderr, ", residual %.4g", value);
	fputc('\n', stderr);
}

static int report(void *user, const char *stage, int64_t done, int64_t total, double value)
{
	(void)user;
	double now = seconds();
	if (strncmp(stage, state.stage, sizeof state.stage - 1) != 0 || done <= 0) {
		progress_clear();
		snprintf(state.stage, sizeof state.stage, "%s", stage);
		state.start = now;
		state.tenth = 0;
	}
	double elapsed = now - state.start;
	if (stopped || message_quiet() || done <= 0 || total <= 0 || elapsed < PATIENCE)
		return stopped;
	if (!isatty(STDERR_FILENO))
		log_line(done, total, value, elapsed);
	else if (now - state.drawn > REDRAW || done >= total) {
		draw_bar(done, total, value, elapsed);
		state.drawn = now;
	}
	if (done >= total)
		progress_clear();
	return stopped;
}

static int only_stop(void *user, const char *stage, int64_t done, int64_t total, double value)
{
	(void)user;
	(void)stage;
	(void)done;
	(void)total;
	(void)value;
	return stopped;
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
