/* tomos info kernels: which optimised kernel runs when. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include "cli.h"

enum { WORDS = 96 };

/* "JOSEPH | VOXEL" as "joseph, voxel"; other text as it is. Returns the length. */
static int words_of(const char *names, char text[WORDS])
{
	int at = 0;
	for (const char *c = names; *c && at + 2 < WORDS; c++) {
		if (*c == ' ' && c[1] == '|') {
			text[at++] = ',';
			c++;
		} else {
			text[at++] = (char)(*c == '_' ? '-' : tolower((unsigned char)*c));
		}
	}
	text[at] = 0;
	return at;
}

static void print_words(const char *names, int width)
{
	char text[WORDS];
	words_of(names, text);
	printf("%-*s", width, text);
}

/* Width of the columns, with a space after the longest entry. */
typedef struct {
	int name, projectors, direction, rays;
} widths;

static void widen(int *width, const char *names)
{
	char text[WORDS];
	int length = words_of(names, text) + 1;
	if (length > *width)
		*width = length;
}

static widths widths_of(const tomos_kernel *kernels, int count)
{
	widths w = {0};
	for (int i = 0; i < count; i++) {
		widen(&w.name, kernels[i].name);
		widen(&w.projectors, kernels[i].projectors);
		widen(&w.direction, kernels[i].direction);
		widen(&w.rays, kernels[i].rays);
	}
	return w;
}

static const char *choice_words(const char *choice)
{
	return strcmp(choice, "AUTO") == 0    ? ""
	       : strcmp(choice, "NAMED") == 0 ? "by name only"
					      : "by name only: weights coarser than float";
}

static void print_kernel(const tomos_kernel *k, const widths *w)
{
	const char *choice = choice_words(k->choice);
	bool more = k->applies[0] || choice[0];
	printf("%-*s", w->name, k->name);
	print_words(k->projectors, w->projectors);
	print_words(k->direction, w->direction);
	print_words(k->rays, more ? w->rays : 0);
	printf("%s%s%s\n      %s\n", k->applies, k->applies[0] && choice[0] ? "; " : "", choice,
		k->method);
}

int info_kernels(void)
{
	int count;
	const tomos_kernel *kernels = tomos_kernels(&count);
	const widths w = widths_of(kernels, count);
	const char *backend = "";
	for (int i = 0; i < count; i++) {
		if (strcmp(backend, kernels[i].backend) != 0)
			printf("%s%s\n", i ? "\n" : "", kernels[i].backend);
		backend = kernels[i].backend;
		print_kernel(&kernels[i], &w);
	}
	return DONE;
}
