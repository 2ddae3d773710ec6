/* Any bytes as a recipe of tomos recon: taken, or rejected; then written again. */
#include "fuzz_file.h"
#include "cli.h"

static bool all(const settings *s, int number, const tomos_option *row)
{
	(void)s;
	(void)number;
	(void)row;
	return true;
}

static void read_recipe(const char *path, const uint8_t *bytes, size_t size)
{
	const command *recon = command_find("recon");
	settings s;
	char *text = NULL;
	(void)bytes;
	(void)size;
	settings_init(&s);
	if (recipe_read(&s, recon, path) == DONE)
		require(recipe_text(&s, recon, all, &text) == DONE);
	free(text);
	settings_free(&s);
}

/* Error messages of the command are not shown; the fuzzer prints to a stream of its own. */
static void put_seeds(const char *directory)
{
	put_text(directory, "seed.ini",
		"[prep]\nrings = vo\nbin = 2\nhardening = 1,0.5\n\n[scan]\naxis = 296.0\n"
		"angles = 0,1,\n\t2,3\npixel = 1.17um\n[run]\nrows = 1:2\n[recon]\nmethod = "
		"sirt\n");
	stderr = fopen("/dev/null", "w");
	require(stderr != NULL);
}

const Target target = {NULL, NULL, 0, read_recipe, put_seeds};
