/* tomos compare: error measures between two arrays. */
#include <stdio.h>
#include <string.h>
#include "cli.h"

void difference_say(const tomos_difference *d)
{
	progress_clear();
	printf("relative L2         %.6g\nPSNR                %.4g dB\n"
	       "SSIM                %.6g\nlargest difference  %.6g\n",
		d->relative_l2, d->psnr, d->ssim, d->largest);
}

int difference_print(const tomos_array *truth, const tomos_array *other, tomos_difference *d)
{
	int code = lib(tomos_compare(truth, other, d));
	if (code == DONE)
		difference_say(d);
	return code;
}

static int compare_load(const settings *s, const char *path, tomos_array *array,
	tomos_content *content, tomos_grid *grid)
{
	tomos_file *file = NULL;
	tomos_file_info info = {.bytes = sizeof info};
	int code;
	DO(lib(tomos_file_open(&file, path, &s->file)));
	DO(lib(tomos_file_describe(file, &info)));
	*content = info.content;
	DO(file_own_grid(file, grid));
	DO(file_read_all(file, path, array));
done:
	tomos_file_close(file);
	return code;
}

int cmd_compare(const settings *s)
{
	const char *const *paths = s->operands;
	tomos_array a = {0}, b = {0};
	tomos_difference d = {.bytes = sizeof d};
	char shape_a[96], shape_b[96], other[512];
	int code;
	tomos_content content[2];
	tomos_grid grids[2];
	DO(compare_load(s, paths[0], &a, &content[0], &grids[0]));
	DO(compare_load(s, paths[1], &b, &content[1], &grids[1]));
	shape_text(a.shape, content[0], shape_a);
	shape_text(b.shape, content[1], shape_b);
	if (memcmp(a.shape, b.shape, sizeof a.shape) != 0)
		DO(failed("'%s' is %s, but '%s' is %s", paths[0], shape_a, paths[1], shape_b));
	snprintf(other, sizeof other, "'%s'", paths[1]);
	grids_warn(paths[0], &grids[0], other, &grids[1]);
	DO(difference_print(&a, &b, &d));
	if (!(d.relative_l2 <= s->compare.max))
		DO(failed("the relative L2 difference is %.6g, larger than %g", d.relative_l2,
			s->compare.max));
done:
	array_free(&a);
	array_free(&b);
	return code;
}
