/* The grid of formats whose headers have places for it: the named numbers "grid/n", "grid/first"
 * and "grid/step". Such formats describe volumes, so the grid of projections, which is that of
 * another array, is not stored. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "io/io.h"

tomos_status grid_get(const GridNumbers *grid, const File *file, const char *name, double **values,
	int64_t shape[2])
{
	const double n[3] = {
		(double)file->shape[2], (double)file->shape[1], (double)file->shape[0]};
	const double *from = strcmp(name, "grid/n") == 0       ? n
			     : strcmp(name, "grid/first") == 0 ? grid->first
			     : strcmp(name, "grid/step") == 0  ? grid->step
							       : NULL;
	if (!from || !grid->known)
		return TOMOS_OK;
	TRY(mem_alloc(values, 3, sizeof **values, "a grid"));
	memcpy(*values, from, sizeof n);
	shape[0] = 1;
	shape[1] = 3;
	return TOMOS_OK;
}

void grid_put(GridNumbers *grid, const File *file, const char *name, const double *values)
{
	if (file->content == TOMOS_PROJECTIONS)
		return;
	if (strcmp(name, "grid/first") == 0)
		memcpy(grid->first, values, sizeof grid->first);
	if (strcmp(name, "grid/step") == 0)
		memcpy(grid->step, values, sizeof grid->step);
	grid->known |= strcmp(name, "grid/step") == 0;
}

void grid_scale(GridNumbers *grid, double factor)
{
	for (int i = 0; i < 3; i++) {
		grid->first[i] *= factor;
		grid->step[i] *= factor;
	}
}

void grid_mirror_xy(GridNumbers *grid)
{
	for (int i = 0; i < 2; i++) {
		grid->first[i] = -grid->first[i];
		grid->step[i] = -grid->step[i];
	}
}

/* Zero and numbers that are not finite make no grid. */
void grid_check(GridNumbers *grid)
{
	for (int i = 0; i < 3; i++)
		grid->known &=
			isfinite(grid->first[i]) && isfinite(grid->step[i]) && grid->step[i] != 0;
}

/* The decimal number of fewest digits that is this float: 0.1F gives 0.1. */
double float_as_written(float number)
{
	char text[32];
	for (int digits = 6; digits < 9; digits++) {
		snprintf(text, sizeof text, "%.*g", digits, (double)number);
		if (strtof(text, NULL) == number)
			return strtod(text, NULL);
	}
	return (double)number;
}
