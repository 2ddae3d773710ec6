/* Compiled into the changed copy of the library that `scripts/mutate` builds. */
#include "mutant.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MUTANTS = 10000 };

int mutant_chosen;

__attribute__((constructor)) static void mutant_choose(void)
{
	const char *word = getenv("TOMOS_MUTANT");
	if (word)
		mutant_chosen = strcmp(word, "record") == 0 ? -1 : atoi(word);
}

/* Written at once, one line for each expression: a process may end without notice. */
int mutant_reached(int n)
{
	static char seen[MUTANTS];
	if (n >= MUTANTS || seen[n])
		return 0;
	seen[n] = 1;
	const char *path = getenv("TOMOS_MUTANT_SEEN");
	int file = path ? open(path, O_WRONLY | O_APPEND | O_CREAT, 0666) : -1;
	if (file >= 0) {
		dprintf(file, "%d\n", n);
		close(file);
	}
	return 0;
}
