/* tomos view: files in the browser, from a server on this machine. */
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "view/view.h"

/* ---- what is shown --------------------------------------------------------------------------- */

/* 128 bits from the operating system. */
static int make_token(char token[VIEW_TOKEN + 1])
{
	unsigned char bits[VIEW_TOKEN / 2];
	if (getrandom(bits, sizeof bits, 0) != (ssize_t)sizeof bits)
		return failed("no random numbers for the address");
	for (size_t i = 0; i < sizeof bits; i++)
		snprintf(token + 2 * i, 3, "%02x", bits[i]);
	return DONE;
}

static int open_files(const settings *s, view_state *v)
{
	int code = DONE;
	for (int i = 0; i < s->operand_count; i++) {
		DO(source_open(&v->files[i], s, s->operands[i]));
		v->count++;
	}
	if (v->count > 1 && source_is_volume(v->files[0]) != source_is_volume(v->files[1]))
		DO(wrong_usage("'%s' is %s and '%s' is %s: two files are shown together if both "
			       "are volumes or both are not",
			s->operands[0], source_is_volume(v->files[0]) ? "a volume" : "no volume",
			s->operands[1], source_is_volume(v->files[1]) ? "a volume" : "no volume"));
	if (source_is_scan(v->files[0]) && live_open(&v->live, s) != DONE) {
		live_close(v->live);
		v->live = NULL;
		note("no slices are reconstructed from '%s'", s->operands[0]);
	}
	bool zarr = source_folder(v->files[0]) || (v->count > 1 && source_folder(v->files[1]));
	if (s->view.zarr && !zarr)
		DO(wrong_usage("--zarr: '%s' is no Zarr", s->operands[0]));
	v->gate.zarr = s->view.zarr;
done:
	return code;
}

static void close_files(view_state *v)
{
	for (int i = 0; i < VIEW_FILES; i++)
		source_close(v->files[i]);
	live_close(v->live);
	free(v->info);
}

/* ---- the address ----------------------------------------------------------------------------- */

static void say_address(const view_state *v, const char *address)
{
	const char *user = getenv("USER");
	char host[256] = "HOST";
	(void)gethostname(host, sizeof host - 1);
	printf("%s\n", address);
	say("from another machine: ssh -L %d:127.0.0.1:%d %s@%s, then open the same address\n",
		v->gate.port, v->gate.port, user && *user ? user : "USER", host);
	if (v->gate.zarr)
		say("Zarr, for neuroglancer or napari: %szarr/\n", address);
	say("Ctrl-C ends it\n");
	fflush(stdout);
}

static bool has_display(void)
{
	const char *x = getenv("DISPLAY"), *wayland = getenv("WAYLAND_DISPLAY");
	return (x && *x) || (wayland && *wayland);
}

/* In a session of its own, so that Ctrl-C here does not end a browser. */
static pid_t open_browser(const char *address)
{
	char opener[] = "xdg-open", word[512];
	char *const words[] = {opener, word, NULL};
	posix_spawnattr_t attributes;
	posix_spawn_file_actions_t files;
	sigset_t none, standard;
	pid_t pid = -1;
	snprintf(word, sizeof word, "%s", address);
	sigemptyset(&none);
	sigemptyset(&standard);
	sigaddset(&standard, SIGPIPE); /* ignored here, which the browser would inherit */
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setflags(
		&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setsigdefault(&attributes, &standard);
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	if (posix_spawnp(&pid, opener, &files, &attributes, words, environ) != 0)
		pid = -1;
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&attributes);
	return pid;
}

/* ---- serving --------------------------------------------------------------------------------- */

/* Until Ctrl-C, or another signal that ends programs. */
static void wait_for_end(pid_t browser)
{
	const struct timespec moment = {.tv_nsec = 20000000};
	const tomos_progress *p = progress_silent();
	while (!p->report(p->user, "view", 0, 0, 0)) {
		if (browser > 0 && waitpid(browser, NULL, WNOHANG) == browser)
			browser = -1;
		nanosleep(&moment, NULL);
	}
}

static int serve(const settings *s, view_state *v)
{
	char address[128];
	pid_t browser = -1;
	int code = http_start(v, (int)s->view.port);
	if (code != DONE)
		return code;
	snprintf(address, sizeof address, "http://127.0.0.1:%d/%s/", v->gate.port, v->gate.token);
	say_address(v, address);
	if (!s->view.no_browser && has_display())
		browser = open_browser(address);
	progress_end(); /* no more progress to show */
	wait_for_end(browser);
	http_stop();
	return DONE;
}

int cmd_view(const settings *s)
{
	view_state v = {.info_lock = PTHREAD_MUTEX_INITIALIZER,
		.large_lock = PTHREAD_MUTEX_INITIALIZER,
		.live_lock = PTHREAD_MUTEX_INITIALIZER};
	const char *missing = http_missing();
	int code;
	if (s->view.port < 0 || s->view.port > 65535)
		return wrong_usage(
			"--port: %lld is not between 0 and 65535", (long long)s->view.port);
	if (missing)
		return failed("%s", missing);
	(void)signal(SIGPIPE, SIG_IGN); /* clients that go away */
	DO(make_token(v.gate.token));
	DO(open_files(s, &v));
	DO(serve(s, &v));
done:
	close_files(&v);
	return code;
}
