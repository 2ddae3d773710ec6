/* Finds views that are turned against each other: a voxel falls on one where the voxel that is turned with it
 * falls on the other. */
#include <math.h>
#include "backend/symmetry.h"

/* Whether f(p) = g(p turned): by a quarter, (x, y) goes to (n - 1 - y, x), by a half to their opposite. */
static bool is_turned(
	const double f[4], const double g[4], int turns, const int64_t n[3], double scale)
{
	double x = (double)(n[0] - 1), y = (double)(n[1] - 1),
	       most = fabs(g[2] - f[2]) * (double)n[2];
	double back[3] = {g[1], -g[0], g[3] + g[0] * x};
	if (turns == 2)
		back[0] = -g[0], back[1] = -g[1], back[2] = g[3] + g[0] * x + g[1] * y;
	most = fmax(most, fmax(fabs(back[0] - f[0]) * x, fabs(back[1] - f[1]) * y));
	return fmax(most, fabs(back[2] - f[3])) <= 1e-7 * scale;
}

static bool view_is_turned(const ProjectRequest *what, int turns, int64_t one, int64_t two)
{
	const KernelView *views = what->plan->views + what->first;
	const KernelView *a = &views[one], *b = &views[two];
	const int64_t *n = what->plan->grid.n;
	return is_turned(a->column, b->column, turns, n, 1) &&
	       is_turned(a->row, b->row, turns, n, 1) &&
	       is_turned(a->depth, b->depth, turns, n, 1e-3) && a->src[3] == b->src[3] &&
	       fabs(a->mass - b->mass) <= 1e-9 * fabs(a->mass);
}

int symmetry_direction(const ProjectRequest *what, int turns)
{
	const Plan *plan = what->plan;
	const double *step = plan->whole.step;
	bool square = plan->grid.n[0] == plan->grid.n[1] &&
		      fabs(step[0] - step[1]) <= 1e-9 * fabs(step[0]);
	int64_t count = what->count, part = count / turns;
	if (!(square || turns == 2) || count % turns != 0 || count == 0 ||
		plan->views[what->first].src[3] != 1)
		return 0;
	for (int direction = 1; direction < turns; direction += 2) {
		int64_t i = 0;
		while (i < count && view_is_turned(what, turns, i, (i + direction * part) % count))
			i++;
		if (i == count)
			return direction;
	}
	return 0;
}
