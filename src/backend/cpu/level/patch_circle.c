/* Voxel-driven projection with bilinear interpolation on full circles with views in sets 90 degrees
 * apart (circle.h, tile_circle.h): two vectors of two quads are the four pixels around a voxel. */
#include "backend/cpu/level/patch.h"
#include "backend/cpu/level/tile_circle.h"

static bool patch_circle_applies(const ProjectRequest *what)
{
	return LEVEL(patch_applies)(what) && LEVEL(tiles_circle_apply)(what);
}

enum { FEWEST_SETS = 2 }; /* of views, that repay copying the volume */

bool LEVEL(patch_circle_is_fast)(const ProjectRequest *what)
{
	return patch_circle_applies(what) && what->count >= FEWEST_SETS * IMAGES;
}

/* With oblique rays, the only other kernel takes twice the time. */
static bool patch_circle_slower(const ProjectRequest *what)
{
	return rays_are(&what->plan->rays, RAYS_UPRIGHT) && !LEVEL(patch_circle_is_fast)(what);
}

/* The weights of the voxels of a strip: of the columns left and right of each, in pairs
 * (pair_place), and the share of the upper row. */
typedef struct {
	vf pairs[SPAN][2], upper[SPAN];
} Shares;

SEPARATE void strip_shares(const Hits *hits, int64_t count, Shares *shares)
{
	for (int64_t i = 0; i < count; i++) {
		vf right = hits->right[i] + 0.5F, weight = hits->weight[i];
		right *= weight;
		vf_zip(weight - right, right, shares->pairs[i]);
		shares->upper[i] = hits->up[i] + 0.5F;
	}
}

INLINE int64_t cell_of(const Hits *hits, int64_t i, int l)
{
	return (uint16_t)((const int32_t *)&hits->cell[i])[l];
}

INLINE float upper_of(const Shares *shares, int64_t i, int l)
{
	return ((const float *)&shares->upper[i])[l];
}

/* ---- back ------------------------------------------------------------------------------------ */

/* What voxel i of lane l takes from the columns left and right of it. */
INLINE void take_columns(const Hits *hits, const Shares *shares, const float *window, int64_t row,
	int64_t i, const int l, Eight *both)
{
	const float *at = window + 2 * cell_of(hits, i, l);
	Eight low = EIGHT_FROM(at), high = EIGHT_FROM(at + row), columns;
	pair_quads((const float *)shares->pairs[i] + pair_place(l), &columns);
	*both = columns * (low + upper_of(shares, i, l) * (high - low));
}

SEPARATE void back_strip(const Hits *hits, const Shares *shares, const float *window, int64_t row,
	int64_t count, float *sums)
{
	for (int64_t i = 0; i < count; i++, sums += TILE * IMAGES) {
#pragma GCC unroll 16
		for (int l = 0; l < LANES; l += 2) {
			Eight one, two;
			take_columns(hits, shares, window, row, i, l, &one);
			take_columns(hits, shares, window, row, i, l + 1, &two);
			add_two(sums + l * IMAGES, &one, &two);
		}
	}
}

/* ---- forward --------------------------------------------------------------------------------- */

INLINE void spread_voxel(const Hits *hits, const Shares *shares, float *window, int64_t row,
	int64_t i, const int l, const float *voxel)
{
	const quad v = quad_load(voxel);
	const Eight twice = {v[0], v[1], v[2], v[3], v[0], v[1], v[2], v[3]};
	float *to = window + 4 * cell_of(hits, i, l);
	Eight columns;
	pair_quads((const float *)shares->pairs[i] + pair_place(l), &columns);
	columns *= twice;
	Eight high = upper_of(shares, i, l) * columns;
	EIGHT_AT(to) += columns - high;
	EIGHT_AT(to + row) += high;
}

/* Voxels that are added one after the other are second neighbours, along the axis on which pixels
 * change more: others add to the same places, and wait for each other. */
SEPARATE void forward_strip(const Hits *hits, const Shares *shares, float *window, int64_t row,
	int64_t count, const float *values)
{
	for (int64_t i = 0; i < count; i++, values += TILE * IMAGES)
		for (int odd = 0; odd < 2; odd++) {
#pragma GCC unroll 16
			for (int l = odd; l < LANES; l += 2)
				spread_voxel(hits, shares, window, row, i, l, values + l * IMAGES);
		}
}

SEPARATE void forward_lines(const Hits *hits, const Shares *shares, float *window, int64_t row,
	int64_t count, const float *values)
{
	for (int l = 0; l < LANES; l++, values += IMAGES)
		for (int64_t odd = 0; odd < 2; odd++)
			for (int64_t i = odd; i < count; i += 2)
				spread_voxel(hits, shares, window, row, i, l,
					values + i * TILE * IMAGES);
}

/* ---- a whole request ------------------------------------------------------------------------- */

INLINE void project_strip(const TileView *t, const Cells *cells, TileStrip *s)
{
	Hits hits;
	Shares shares;
	const int64_t row = IMAGES * (cells->size[0] + 1);
	strip_hit(t, cells, s, &hits);
	strip_shares(&hits, s->count, &shares);
	if (t->what->direction == FORWARD && t->steeper)
		forward_lines(&hits, &shares, t->window, 2 * row, s->count, s->voxels);
	else if (t->what->direction == FORWARD)
		forward_strip(&hits, &shares, t->window, 2 * row, s->count, s->voxels);
	else
		back_strip(&hits, &shares, t->window, row, s->count, s->voxels);
}

static void project_block(const TileView *t, const Box *block, const Cells *cells)
{
	const QuadWindow window = {
		{cells->low[0], cells->low[1]}, {cells->size[0] + 1, cells->size[1] + 1}};
	window_begin(t, &window);
	project_strips(t, block, cells, window.size[0], 0, project_strip);
	window_end(t, &window);
}

static tomos_status patch_circle_project(const ProjectRequest *what)
{
	return LEVEL(tiles_circle)(what, project_block);
}

const CpuKernel LEVEL(cpu_patch_circle) = {
	.applies = patch_circle_applies,
	.run = {patch_circle_project, patch_circle_project},
	.slower = patch_circle_slower,
};
