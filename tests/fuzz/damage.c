/* main() of a fuzz target without libFuzzer: runs it on its first files and on damaged copies of
 * them, the same ones each time. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "base/base.h"

enum { MOST_FILES = 64, MOST_BYTES = 1 << 16, MOST_RUNS = 4000 };
#define MOST_SECONDS 1.0

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct {
	uint8_t bytes[MOST_BYTES];
	size_t size;
} Input;

static Input files[MOST_FILES], input;
static int count;

static void need(bool holds, const char *what)
{
	if (holds)
		return;
	perror(what);
	exit(1);
}

static void read_files(const char *folder)
{
	struct dirent **names;
	int found = scandir(folder, &names, NULL, alphasort);
	need(found >= 0, folder);
	for (int i = 0; i < found; i++) {
		char path[512];
		snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
		FILE *file =
			names[i]->d_type == DT_REG && count < MOST_FILES ? fopen(path, "rb") : NULL;
		if (file) {
			files[count].size = fread(files[count].bytes, 1, MOST_BYTES, file);
			count += files[count].size > 0;
			fclose(file);
		}
		free(names[i]);
	}
	free(names);
	need(count > 0, "first files");
}

/* Below n: multiplicative congruential, the upper bits. */
static size_t below(size_t n)
{
	static uint64_t state = 1;
	state = state * 6364136223846793005u + 1442695040888963407u;
	return n > 0 ? (size_t)(state >> 33) % n : 0;
}

/* Replaces `out` bytes at `at` by `in` bytes of another place, as far as there is room. */
static void splice(size_t at, size_t out, const uint8_t *from, size_t in)
{
	uint8_t piece[256];
	in = in < sizeof piece ? in : sizeof piece;
	if (input.size - out + in > MOST_BYTES)
		return;
	memcpy(piece, from, in);
	memmove(input.bytes + at + in, input.bytes + at + out, input.size - at - out);
	memcpy(input.bytes + at, piece, in);
	input.size += in - out;
}

static void damage(void)
{
	static const char *const values[] = {
		"-1", "0", "99999999999", "nan", "1e308", "\n", "\"", "%s"};
	const Input *other = &files[below((size_t)count)];
	size_t at = below(input.size), rest = input.size - at, from = below(other->size);
	const char *value = values[below(COUNT(values))];
	switch (below(7)) {
	case 0:
		input.bytes[at] ^= (uint8_t)(1u << below(8));
		break;
	case 1:
		input.bytes[at] = (uint8_t)below(256);
		break;
	case 2:
		memset(input.bytes + at, below(2) ? 255 : 0, rest < 8 ? rest : 1 + below(8));
		break;
	case 3:
		input.size = at + (at == 0);
		break;
	case 4:
		splice(at, below(rest), input.bytes + at, 0);
		break;
	case 5:
		splice(at, 0, other->bytes + from, below(other->size - from + 1));
		break;
	default:
		splice(at, below(rest < 12 ? rest : 12), (const uint8_t *)value, strlen(value));
	}
}

static double seconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int main(int argc, char **argv)
{
	char folder[] = "/tmp/tomos-damage-XXXXXX", *arguments[] = {argv[0], folder, NULL};
	char **list = arguments;
	double begin = seconds();
	int runs = 0;
	argc = 2;
	need(mkdtemp(folder) != NULL, folder);
	LLVMFuzzerInitialize(&argc, &list);
	read_files(folder);
	file_discard(folder);
	for (; runs < MOST_RUNS && (runs < count || seconds() - begin < MOST_SECONDS); runs++) {
		input = files[runs % count];
		for (size_t i = 0, most = runs < count ? 0 : 1 + below(4); i < most; i++)
			damage();
		LLVMFuzzerTestOneInput(input.bytes, input.size);
	}
	printf("%d first files, %d runs\n", count, runs);
	return 0;
}
