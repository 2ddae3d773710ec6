/* Plan of the Fourier projector on the CPU: the points in each tile of the grid. */
#include <math.h>
#include "backend/cpu/cpu.h"
#include "backend/cpu/fourier.h"

enum { TILE = 64 };

tomos_status axis_tiles(FourierAxis *axis)
{
	axis->tiles = 2 * (int)max64(1, axis->size / (2 * TILE));
	TRY(mem_alloc(&axis->edge, axis->tiles + 1, sizeof *axis->edge, "the tiles"));
	for (int i = 0; i <= axis->tiles; i++)
		axis->edge[i] = i * axis->size / axis->tiles;
	return TOMOS_OK;
}

typedef struct {
	Fourier *f;
	int axis;
} RangeTask;

static void range_tile(void *user, int64_t tile)
{
	const RangeTask *r = user;
	const Fourier *f = r->f;
	const FourierAxis *axis = &f->axis[r->axis];
	PointRange *to = axis->ranges + tile * f->spec.count * 2 * axis->periods;
	const int64_t top = f->top + f->aliases * f->period;
	for (int64_t v = 0; v < f->spec.count; v++) {
		double step = step_of(f, r->axis, v);
		for (int p = -axis->periods; p < axis->periods; p++) {
			double shift = (double)(p * axis->size);
			*to++ = window_points(&f->window, step, top,
				(double)axis->edge[tile] + shift,
				(double)axis->edge[tile + 1] + shift);
		}
	}
}

tomos_status axis_ranges(Fourier *f, int which)
{
	FourierAxis *axis = &f->axis[which];
	double most = 0;
	for (int64_t v = 0; v < f->spec.count; v++)
		most = fmax(most, fabs(f->views[v].column[which]));
	/* Points are up to most / 2 periods from the origin, and half a window further. */
	axis->periods =
		(int)ceil((0.5 + f->aliases) * most + (double)SPREAD_MOST / (double)axis->size);
	TRY(mem_alloc(&axis->ranges, axis->tiles * f->spec.count * 2 * axis->periods,
		sizeof *axis->ranges, "the points of the tiles"));
	parallel_for(axis->tiles, range_tile, &(RangeTask){f, which});
	return TOMOS_OK;
}
