/* tomos info kernels: which optimised kernel runs when. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include "cli.h"

/* "JOSEPH | VOXEL" as "joseph, voxel"; other text as it is. */
static void print_words(const char *names, int width)
{
	char text[96];
	size_t at = 0;
	for (const char *c = names; *c && at + 2 < sizeof text; c++) {
		if (*c == ' ' && c[1] == '|') {
			text[at++] = ',';
			c++;
		} else {
			text[at++] = (char)(*c == '_' ? '-' : tolower((unsigned char)*c));
		}
	}
	text[at] = 0;
	printf("%-*s", width, text);
}

static const char *choice_words(const char *choice)
{
	return strcmp(choice, "AUTO") == 0    ? ""
	       : strcmp(choice, "NAMED") == 0 ? "by name only"
					      : "by name only: weights coarser than float";
}

static void print_kernel(const tomos_kernel *k)
{
	const char *choice = choice_words(k->choice);
	bool more = k->applies[0] || choice[0];
	printf("%-27s ", k->name);
	print_words(k->projectors, 21);
	print_words(k->direction, 8);
	print_words(k->rays, more ? 15 : 0);
	printf("%s%s%s\n      %s\n", k->applies, k->applies[0] && choice[0] ? "; " : "", choice,
		k->method);
}

int info_kernels(void)
{
	int count;
	const tomos_kernel *kernels = tomos_kernels(&count);
	const char *backend = "";
	for (int i = 0; i < count; i++) {
		if (strcmp(backend, kernels[i].backend) != 0)
			printf("%s%s\n", i ? "\n" : "", kernels[i].backend);
		backend = kernels[i].backend;
		print_kernel(&kernels[i]);
	}
	return DONE;
}
