/* Any bytes as the journal of an output under construction: opened to resume, and replayed. */
#include "fuzz_file.h"
#include "run/run.h"

static const Identity identity = {1, 2, "cpu"};
static char folder[] = "/tmp/tomos-fuzz-XXXXXX";

static void remove_folder(void)
{
	file_discard(folder);
}

static void replay(const Journal *j)
{
	tomos_file_options options = tomos_file_defaults();
	const int64_t shape[3] = {4, 2, 2};
	char part[64];
	int64_t unread;
	File *file;
	snprintf(part, sizeof part, "%s/other", folder);
	require(io_create(&file, seed_path(folder, "out.npy"), TOMOS_VOLUME, shape, &options, part,
			false) == TOMOS_OK);
	if (journal_replay(j, file, &unread) != TOMOS_OK)
		require(*tomos_message());
	tomos_file_close(file);
	io_discard(part);
}

/* The journal is a link to the file in memory, the part an empty file beside it. */
static void read_journal(const char *path, const uint8_t *bytes, size_t size)
{
	static bool made;
	Journal j;
	(void)bytes;
	(void)size;
	if (!made) {
		require(mkdtemp(folder) && atexit(remove_folder) == 0 &&
			symlink(path, seed_path(folder, ".out.npy.journal")) == 0);
		put_text(folder, ".out.npy.part", "");
	}
	made = true;
	int64_t live = mem_live();
	tomos_status status =
		journal_open(&j, seed_path(folder, "out.npy"), &identity, true, false);
	require(status == TOMOS_OK || *tomos_message());
	if (status == TOMOS_OK && j.begun)
		replay(&j);
	journal_close(&j, false);
	require(mem_live() == live);
}

static void put_seeds(const char *directory)
{
	const uint32_t sums[2] = {0x12345678, 9};
	const Frame frame = {0};
	Journal j;
	require(journal_open(&j, seed_path(directory, "seed"), &identity, false, true) == TOMOS_OK);
	require(journal_clear(&j) == TOMOS_OK);
	require(journal_begin(&j, &identity) == TOMOS_OK);
	require(journal_ready(&j, &frame) == TOMOS_OK);
	require(journal_add(&j, 0, 2, sums) == TOMOS_OK);
	journal_close(&j, false);
}

const Target target = {NULL, NULL, 0, read_journal, put_seeds};
