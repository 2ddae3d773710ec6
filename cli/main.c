/* tomos COMMAND [OPTIONS]: finds the command, reads its options, runs it. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cli.h"

/* Commands that several ranks do together. */
static bool uses_ranks(const command *c)
{
	return strcmp(c->name, "recon") == 0;
}

static int run(const command *c, const settings *s)
{
	int64_t threads = s->common.threads;
	message_begin(c->name, s->common.quiet);
	if (s->common.help) {
		help_command(c);
		return DONE;
	}
	int number = threads < INT_MIN ? INT_MIN : threads > INT_MAX ? INT_MAX : (int)threads;
	if (tomos_set_threads(number) != TOMOS_OK)
		return wrong_usage("%s%s", number ? "--threads: " : "", tomos_message());
	return c->run(s);
}

static int parse_and_run(const command *c, int count, char **words)
{
	settings s;
	settings_init(&s);
	int code = settings_parse(&s, c, count, words);
	if (code == DONE)
		code = run(c, &s);
	settings_free(&s);
	return code;
}

/* A full disk or a closed pipe must be reported as a failure. */
static int flush(int code)
{
	if ((fflush(stdout) != 0 || ferror(stdout)) && code == DONE)
		return failed("standard output cannot be written");
	return code;
}

/* With one queue to a GPU instead of eight, its driver starts and ends in 0.1 s less, and the
 * transfers and kernels of a run overlap as well. It is read when the driver starts. */
static void start_quickly(void)
{
	(void)setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 0);
}

/* Of several ranks one prints it. */
static int without_command(const char *name)
{
	int code = ranks_begin();
	if (code != DONE)
		return code;
	if (*name)
		code = command_unknown(name);
	else
		help_all();
	return ranks_end(flush(*name ? code : WRONG_USAGE));
}

int main(int count, char **words)
{
	start_quickly();
	const char *name = count > 1 ? words[1] : "";
	if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
		name = "help";
	if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0)
		name = "version";
	const command *c = command_find(name);
	if (!c)
		return without_command(name);
	message_begin(c->name, false);
	guard_begin();
	progress_start(c->name);
	int code = ranks_begin(); /* its threads leave signals to the one above */
	if (code == DONE) {
		if (ranks_print() || uses_ranks(c))
			code = parse_and_run(c, count - 2, words + 2);
		progress_end();
		code = ranks_end(flush(code));
	}
	guard_end();
	return code;
}
