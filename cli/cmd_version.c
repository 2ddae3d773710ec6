/* tomos version: the version of the library. */
#include <stdio.h>
#include "cli.h"

int cmd_version(const settings *s)
{
	(void)s;
	printf("tomos %s\n", tomos_version());
	return DONE;
}
