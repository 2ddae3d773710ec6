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

typedef struct {
	tomos_array array;
	tomos_content content;
	tomos_grid grid;
	char unit[UNIT]; /* of its values */
} side;

static int side_load(const settings *s, const char *path, side *a)
{
	tomos_file *file = NULL;
	tomos_file_info info = {0};
	int code;
	DO(file_open(s, path, &file, &info));
	a->content = info.content;
	snprintf(a->unit, UNIT, "%s", info.value_unit);
	DO(file_own_grid(file, &a->grid));
	DO(file_read_all(file, path, &a->array));
done:
	tomos_file_close(file);
	return code;
}

static void say_units(const char *const *paths, const side sides[2])
{
	const char *a = sides[0].unit, *b = sides[1].unit;
	if (strcmp(a, b) == 0 && a[0])
		printf("unit                %s\n", a);
	else if (a[0] && b[0])
		warn("'%s' is in %s, but '%s' in %s: the numbers are compared as they are",
			paths[0], a, paths[1], b);
}

int cmd_compare(const settings *s)
{
	const char *const *paths = s->operands;
	side sides[2] = {{.unit = ""}, {.unit = ""}};
	const tomos_array *a = &sides[0].array, *b = &sides[1].array;
	tomos_difference d = {.bytes = sizeof d};
	char shape_a[96], shape_b[96], other[512];
	int code;
	DO(side_load(s, paths[0], &sides[0]));
	DO(side_load(s, paths[1], &sides[1]));
	shape_text(a->shape, sides[0].content, shape_a);
	shape_text(b->shape, sides[1].content, shape_b);
	if (memcmp(a->shape, b->shape, sizeof a->shape) != 0)
		DO(failed("'%s' is %s, but '%s' is %s", paths[0], shape_a, paths[1], shape_b));
	snprintf(other, sizeof other, "'%s'", paths[1]);
	grids_warn(paths[0], &sides[0].grid, other, &sides[1].grid);
	DO(difference_print(a, b, &d));
	say_units(paths, sides);
	if (!(d.relative_l2 <= s->compare.max))
		DO(failed("the relative L2 difference is %.6g, larger than %g", d.relative_l2,
			s->compare.max));
done:
	array_free(&sides[0].array);
	array_free(&sides[1].array);
	return code;
}
