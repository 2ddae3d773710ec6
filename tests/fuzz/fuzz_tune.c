/* Any bytes as a file of tuning results. */
#include "fuzz_file.h"
#include "backend/backend.h"

static tomos_backend *backend;
static char *place, folder[] = "/tmp/tomos-fuzz-XXXXXX";

static void remove_folder(void)
{
	file_discard(seed_path(folder, "tomos"));
	file_discard(folder);
}

/* The path that the library reads: a link to the file in memory. */
static void make_place(const char *path)
{
	const char *wrong;
	require(mkdtemp(folder) && atexit(remove_folder) == 0 &&
		setenv("XDG_CACHE_HOME", folder, 1) == 0 && unsetenv("TOMOS_TUNE") == 0);
	require(tomos_backend_open(&backend, "cpu") == TOMOS_OK);
	require(tomos_tuned_file(backend, &place, &wrong) == TOMOS_OK);
	require(mkdir(seed_path(folder, "tomos"), 0700) == 0 && symlink(path, place) == 0);
}

static void read_tuned(const char *path, const uint8_t *bytes, size_t size)
{
	char *name = NULL;
	const char *wrong = NULL;
	tomos_backend *another = NULL;
	(void)bytes;
	(void)size;
	if (!place)
		make_place(path);
	int64_t live = mem_live();
	require(tomos_tuned_file(backend, &name, &wrong) == TOMOS_OK);
	tomos_tuned_free(name);
	require(tomos_backend_open(&another, "cpu") == TOMOS_OK);
	tomos_backend_close(another);
	require(mem_live() == live);
}

/* As a run writes it, apart from the lines that name the device. */
static void put_seeds(const char *directory)
{
	tomos_backend *made;
	char text[2048];
	require(tomos_backend_open(&made, "cpu") == TOMOS_OK);
	snprintf(text, sizeof text,
		"tomos tune 2\nversion %s\nmodel%s%s\ndriver%s%s\n"
		"kernel plain projector joseph direction forward data float rays stack size 64 "
		"slices 16 views 90 columns 64 voxel 1 source 0 rate 1.5 "
		"chosen 1 coarse 0\nend 1\n",
		TOMOS_VERSION, *made->model ? " " : "", made->model, *made->driver ? " " : "",
		made->driver);
	tomos_backend_close(made);
	put_text(directory, "seed", text);
}

const Target target = {NULL, NULL, 0, read_tuned, put_seeds};
