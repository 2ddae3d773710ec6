/* Projection with separable footprints on full circles with views in sets 90 degrees apart
 * (circle.h, tile_circle.h, feet.h): the shares of a voxel serve four views, and the columns of a
 * footprint are vectors of two quads.
 */
#include "backend/cpu/level/feet.h"
#include "backend/cpu/level/tile_circle.h"

/* Pairs of the shares of two neighbouring columns, times the weight of the voxel. */
typedef struct {
	vf pairs[BATCH][MOST_PIXELS / 2][2];
} Columns;

INLINE void columns_of(
	const Feet *f, const Spots *spots, int64_t count, const int columns, Columns *to)
{
	for (int64_t i = 0; i < count; i++)
		for (int c = 0; c < columns; c += 2) {
			vf right = {0}, weight = spots->weight[i];
			if (c + 1 < columns)
				right = weight * f->across[i * columns + c + 1];
			vf_zip(weight * f->across[i * columns + c], right, to->pairs[i][c / 2]);
		}
}

INLINE int64_t place_of(const Feet *f, int64_t i, int l)
{
	return IMAGES * (int64_t)((const int32_t *)&f->cell[i])[l];
}

INLINE float row_share(const Feet *f, int64_t i, int l, int r, const int rows)
{
	return ((const float *)&f->along[i * rows + r])[l];
}

/* What voxel i of lane l takes from the pixels of its footprint. */
INLINE void take_pixels(const float *window, int64_t width, const Feet *f, const Columns *across,
	int64_t i, const int l, const int columns, const int rows, Eight *sum)
{
	const float *from = window + place_of(f, i, l);
	*sum = (Eight){0};
	for (int c = 0; c < columns; c += 2) {
		Eight down = row_share(f, i, l, 0, rows) * EIGHT_FROM(from + IMAGES * c), shares;
		for (int r = 1; r < rows; r++)
			down += row_share(f, i, l, r, rows) *
				EIGHT_FROM(from + r * width + IMAGES * c);
		pair_quads((const float *)across->pairs[i][c / 2] + pair_place(l), &shares);
		*sum += shares * down;
	}
}

INLINE void back_strip(const float *window, int64_t width, const TileStrip *s, const Feet *f,
	const Columns *across, const int columns, const int rows)
{
	float *to = s->voxels;
	for (int64_t i = 0; i < s->count; i++, to += TILE * IMAGES)
		for (int l = 0; l < LANES; l += 2) {
			Eight one, two;
			take_pixels(window, width, f, across, i, l, columns, rows, &one);
			take_pixels(window, width, f, across, i, l + 1, columns, rows, &two);
			add_two(to + l * IMAGES, &one, &two);
		}
}

INLINE void spread_voxel(float *window, int64_t width, const Feet *f, const Columns *across,
	int64_t i, const int l, const int columns, const int rows, const float *voxel)
{
	const quad v = quad_load(voxel);
	const Eight twice = {v[0], v[1], v[2], v[3], v[0], v[1], v[2], v[3]};
	float *to = window + place_of(f, i, l);
	for (int c = 0; c < columns; c += 2) {
		Eight shares;
		pair_quads((const float *)across->pairs[i][c / 2] + pair_place(l), &shares);
		shares *= twice;
		for (int r = 0; r < rows; r++)
			EIGHT_AT(to + 2 * (r * width + IMAGES * c)) +=
				row_share(f, i, l, r, rows) * shares;
	}
}

/* Voxels that are added one after the other are APART voxels apart, along the axis on which pixels
 * change more: nearer ones add to the same places, and wait for each other. */
enum { APART = 4 };

INLINE void forward_strip(float *window, int64_t width, const TileStrip *s, const Feet *f,
	const Columns *across, const int columns, const int rows)
{
	const float *from = s->voxels;
	for (int64_t i = 0; i < s->count; i++, from += TILE * IMAGES)
		for (int first = 0; first < APART; first++)
			for (int l = first; l < LANES; l += APART)
				spread_voxel(window, width, f, across, i, l, columns, rows,
					from + l * IMAGES);
}

INLINE void forward_lines(float *window, int64_t width, const TileStrip *s, const Feet *f,
	const Columns *across, const int columns, const int rows)
{
	const float *from = s->voxels;
	for (int l = 0; l < LANES; l++, from += IMAGES)
		for (int64_t first = 0; first < APART; first++)
			for (int64_t i = first; i < s->count; i += APART)
				spread_voxel(window, width, f, across, i, l, columns, rows,
					from + i * TILE * IMAGES);
}

static QuadWindow window_of(const Cells *cells)
{
	return (QuadWindow){{cells->low[0], cells->low[1]},
		{cells->size[0] + parts(cells->pixels[0], 2) * 2 - 1,
			cells->size[1] + cells->pixels[1] - 1}};
}

INLINE void strip_by(
	const TileView *t, const Cells *cells, TileStrip *s, const int columns, const int rows)
{
	Spots spots;
	Feet feet;
	Columns across;
	Edges edges[2];
	const int64_t width = IMAGES * window_of(cells).size[0];
	feet_edges(t, cells, s, edges);
	for (int64_t left = s->count; left > 0; left -= BATCH) {
		s->count = min64(BATCH, left);
		spots_fill(t, cells, s, &spots);
		feet_of(t, cells, s, &spots, edges, columns, rows, &feet);
		columns_of(&feet, &spots, s->count, columns, &across);
		if (t->what->direction == FORWARD && t->steeper)
			forward_lines(t->window, width, s, &feet, &across, columns, rows);
		else if (t->what->direction == FORWARD)
			forward_strip(t->window, width, s, &feet, &across, columns, rows);
		else
			back_strip(t->window, width, s, &feet, &across, columns, rows);
		s->x0 += BATCH;
		s->voxels += BATCH * TILE * IMAGES;
	}
}

static void project_strip(const TileView *t, const Cells *cells, TileStrip *s)
{
	const int columns = cells->pixels[0], rows = cells->pixels[1];
	if (columns <= 4 && rows == 3)
		strip_by(t, cells, s, 4, 3);
	else if (columns <= 4 && rows == 4)
		strip_by(t, cells, s, 4, 4);
	else
		strip_by(t, cells, s, columns, rows);
}

static void project_block(const TileView *t, const Box *block, const Cells *cells)
{
	const QuadWindow window = window_of(cells);
	window_begin(t, &window);
	project_strips(t, block, cells, window.size[0], 0, project_strip);
	window_end(t, &window);
}

/* Columns are vectors of two quads, which are two registers with narrow vectors. */
static bool footprint_circle_slower(const ProjectRequest *what)
{
	(void)what;
	return LANES < 8;
}

static tomos_status footprint_circle_project(const ProjectRequest *what)
{
	return LEVEL(tiles_circle)(what, project_block);
}

const CpuKernel LEVEL(cpu_footprint_circle) = {
	.applies = LEVEL(tiles_circle_apply),
	.run = {footprint_circle_project, footprint_circle_project},
	.slower = footprint_circle_slower,
};
