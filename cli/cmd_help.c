/* tomos help: the list of commands, one command, and the pages for packaging. */
#include "cli.h"

int cmd_help(const settings *s)
{
	if (s->pages.man)
		help_man();
	else if (s->pages.bash_completion)
		help_bash();
	else if (s->pages.header)
		help_header();
	else if (s->operand_count == 0)
		help_all();
	else {
		const command *c = command_find(s->operands[0]);
		if (!c)
			return command_unknown(s->operands[0]);
		help_command(c);
	}
	return DONE;
}
