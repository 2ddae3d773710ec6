/* Files of an interrupted run, damaged in several ways and in every format: a resumed run gives the
 * same bytes. */
#include "work.h"
#include <sys/stat.h>

static const char *const formats[] = {
	"d.h5", "d_packed.h5", "d.npy", "d.tif", "d/", "d.mha", "d.mhd", "d.raw", "d.nii.gz"};

static void packed(Work *w)
{
	w->file.compress = strstr(w->output, "packed") ? 4 : 0;
}

typedef struct {
	char paths[32][256];
	int count;
} Files;

/* Every file in a directory whose name begins so. */
static void list_files(Files *files, const char *directory, const char *start)
{
	DIR *d = opendir(directory);
	assert_non_null(d);
	for (struct dirent *e; (e = readdir(d)) && files->count < COUNT(files->paths);)
		if (strncmp(e->d_name, start, strlen(start)) == 0 && strcmp(e->d_name, ".") != 0 &&
			strcmp(e->d_name, "..") != 0)
			snprintf(files->paths[files->count++], sizeof files->paths[0],
				"%.150s/%.100s", directory, e->d_name);
	closedir(d);
}

/* The files that an interrupted run has left, sorted by name. */
static Files left_over(const char *output)
{
	Files files = {.count = 0};
	char start[64], part[160];
	struct stat info;
	snprintf(start, sizeof start, ".%.*s.", (int)strcspn(output, "/"), output);
	list_files(&files, scratch, start);
	for (int i = 0; i < files.count; i++) {
		if (stat(files.paths[i], &info) != 0 || !S_ISDIR(info.st_mode))
			continue;
		snprintf(part, sizeof part, "%.150s", files.paths[i]);
		memcpy(files.paths[i], files.paths[--files.count], sizeof files.paths[i]);
		list_files(&files, part, "");
	}
	qsort(files.paths, (size_t)files.count, sizeof files.paths[0],
		(int (*)(const void *, const void *))strcmp);
	return files;
}

enum { CUT, EMPTIED, ZEROED, FLIPPED, LENGTHENED, DELETED, DAMAGES };

/* `place`: position in the file, from 0 to 1. */
static void damage(const char *path, int kind, double place)
{
	size_t length;
	unsigned char *bytes = get_file(path, &length);
	size_t from = (size_t)(place * (double)length), block = length - from;
	unsigned char *longer = realloc(bytes, length + 100);
	assert_non_null(longer);
	memset(longer + length, 'x', 100);
	if (kind == ZEROED)
		memset(longer + from, 0, block < 512 ? block : 512);
	if (kind == FLIPPED)
		longer[from] ^= 16;
	put_file(path, longer,
		kind == CUT          ? from
		: kind == EMPTIED    ? 0
		: kind == LENGTHENED ? length + 100
				     : length);
	if (kind == DELETED)
		assert_int_equal(unlink(path), 0);
	free(longer);
}

static void same_output(const char *whole, const char *output)
{
	if (output[strlen(output) - 1] != '/') {
		assert_same_file(at(whole), at(output));
		return;
	}
	assert_int_equal(entries(at(output)), ROWS);
	for (int i = 0; i < ROWS; i++) {
		char a[96], b[96];
		snprintf(a, sizeof a, "%s/recon_%05d.tiff", whole, i);
		snprintf(b, sizeof b, "%s/recon_%05d.tiff", output, i);
		assert_same_file(at(a), at(b));
	}
}

/* Damages one of the files; the resumed run must give the same bytes. */
static void go_on_after(const char *output, int file, int kind, double place, bool *lost)
{
	Work w;
	break_off_with(output, packed);
	Files files = left_over(output);
	assert_true(file < files.count);
	(void)unlink(at("d.raw"));
	damage(files.paths[file], kind, place);
	work_init(&w, output);
	packed(&w);
	w.run.memory = few_at_a_time;
	w.run.resume = 1;
	assert_ok(tomos_run(&w.job, NULL));
	*lost = strstr(w.said, "warning: ") != NULL;
	same_output("whole_d", output);
	if (strstr(output, ".mhd"))
		assert_same_file(at("whole_d.raw"), at("d.raw"));
	assert_int_equal(hidden_files(), 0);
	file_discard(w.output);
	(void)unlink(at("d.raw"));
}

/* Every file of an interrupted run, with every kind of damage, in every format. */
static void damaged(void **state)
{
	(void)state;
	static const double places[] = {0.003, 0.35, 0.6, 0.97};
	for (int k = 0; k < COUNT(formats); k++) {
		Work w;
		bool lost, any = false;
		work_init(&w, formats[k]);
		packed(&w);
		assert_ok(tomos_run(&w.job, NULL));
		char whole[160];
		snprintf(whole, sizeof whole, "%s", at("whole_d"));
		assert_int_equal(rename(w.output, whole), 0);
		if (strstr(formats[k], ".mhd"))
			assert_int_equal(rename(at("d.raw"), at("whole_d.raw")), 0);
		break_off_with(formats[k], packed);
		int files = (int)min64(3, left_over(formats[k]).count);
		assert_true(files >= 2);
		for (int i = 0; i < files; i++)
			for (int kind = 0; kind < DAMAGES; kind++)
				for (int p = 0; p < (kind == ZEROED || kind == FLIPPED ? 4 : 1);
					p += CASE_SLOW ? 3 : 1) {
					go_on_after(formats[k], i, kind,
						places[kind == CUT ? 1 : p], &lost);
					any |= lost;
				}
		assert_true(any);
		file_discard(whole);
	}
	assert_int_equal(mem_live(), 0);
}

#define TESTS(T) T(damaged)
TEST_MAIN(TESTS, make_sloping_scan, scratch_remove)
