/* Projection with separable footprints, both directions, any geometry. The footprints of LANES
 * voxels are computed at once (footprint.h); each voxel then reads or adds to its pixels, four
 * columns at a time.
 *
 * Views are padded with borders of MOST_PIXELS zeros, which voxels beside the detector use.
 */
#include "backend/cpu/level/footprint.h"

enum {
	TILE_X = 32,
	TILE_Y = 16,
	TILE_Z = 8,
	SLAB_VOXELS = 1 << 19, /* forward: voxels that stay in the cache for all views */
	LEAST_TASKS = 32,
	SCRATCH_FLOATS = 11 << 20
};

typedef struct {
	const ProjectRequest *what;
	int64_t first, count;  /* views of this pass */
	int64_t copies;        /* forward: padded images per view, each of a part of the slab */
	int64_t z, tall;       /* forward: slices of the slab, from the lowest of the box on */
	int64_t width, floats; /* of a padded view */
	float *samples;
} Pass;

static int64_t padded_width(const KernelModel *model)
{
	return model->columns + 2 * MOST_PIXELS;
}

static int64_t padded_floats(const KernelModel *model)
{
	return (model->rows + 2 * MOST_PIXELS) * padded_width(model);
}

bool LEVEL(footprint_applies)(const ProjectRequest *what)
{
	const KernelModel *model = &what->plan->model;
	return model->columns < MOST_PLACE - MOST_PIXELS &&
	       model->rows < MOST_PLACE - MOST_PIXELS && padded_floats(model) < INT32_MAX;
}

/* Pixel (0, 0) of padded view i of the scratch memory. */
static float *view_origin(const Pass *pass, int64_t i)
{
	return pass->samples + i * pass->floats + MOST_PIXELS * (pass->width + 1);
}

static const KernelView *view_of(const Pass *pass, int64_t view)
{
	return &pass->what->plan->views[pass->what->first + pass->first + view];
}

/* ---- one voxel ------------------------------------------------------------------------------- */

INLINE float voxel_take(const Footprints *f, int l, const float *image, int64_t width,
	const int rows, const int fours)
{
	const float *at = image + f->offset[l];
	v4 sum = {0};
	for (int j = 0; j < fours; j++) {
		v4 column = {0};
		for (int i = 0; i < rows; i++)
			column += f->row[i][l] * four_load(at + i * width + 4 * j);
		sum += column * four_load(f->column[j][four_of(l)]);
	}
	return (sum[0] + sum[2]) + (sum[1] + sum[3]);
}

INLINE void voxel_give(const Footprints *f, int l, float value, float *image, int64_t width,
	const int rows, const int fours)
{
	float *at = image + f->offset[l];
	for (int j = 0; j < fours; j++) {
		v4 column = value * four_load(f->column[j][four_of(l)]);
		for (int i = 0; i < rows; i++) {
			float *to = at + i * width + 4 * j;
			v4 sum = four_load(to) + f->row[i][l] * column;
			memcpy(to, &sum, sizeof sum);
		}
	}
}

void LEVEL(footprint_large)(const Plan *plan, const KernelView *k, const int64_t at[3],
	Direction direction, float *voxel, float *image, int64_t row_stride, int64_t column_stride)
{
	double depth = voxel_affine(k->depth, at), sum = 0;
	if (!(depth > 0))
		return;
	double weight = voxel_weight(&plan->whole, &plan->model, k, at, depth);
	FootprintShadow across = footprint_shadow(k->column, k, at, depth, 1), along = across;
	int64_t c0, c1, r0 = 0, r1 = 0;
	footprint_range(&across, plan->model.columns, &c0, &c1);
	if (!plan->model.planar) {
		along = footprint_shadow(
			k->row, k, at, kernel_row_depth(k, depth), KERNEL_FANS(k) ? 0 : 1);
		footprint_range(&along, plan->model.rows, &r0, &r1);
	}
	for (int64_t r = r0; r <= r1; r++) {
		double row_share = plan->model.planar ? 1 : footprint_share(&along, r);
		for (int64_t c = c0; c <= c1; c++) {
			double share = row_share * footprint_share(&across, c);
			float *pixel = &image[r * row_stride + c * column_stride];
			if (direction == FORWARD && share > KERNEL_LEAST)
				*pixel += (float)(share * weight * *voxel);
			else if (share > KERNEL_LEAST)
				sum += share * weight * *pixel;
		}
	}
	if (direction == ADJOINT)
		*voxel += (float)sum;
}

/* Projects the first `count` of LANES voxels, which are `apart` floats from each other in
 * memory. */
INLINE void voxels_project(const Footprints *f, const Direction direction, int count, float *voxels,
	int64_t apart, float *image, int64_t width, const int rows, const int fours)
{
	for (int l = 0; l < count; l++) {
		float *voxel = voxels + l * apart;
		if (direction == FORWARD)
			voxel_give(f, l, *voxel, image, width, rows, fours);
		else
			*voxel += voxel_take(f, l, image, width, rows, fours);
	}
}

INLINE void lanes_project(const Pass *pass, const KernelView *k, const VoxelLanes *v,
	const Direction direction, int count, float *voxels, int64_t apart, float *image)
{
	const Plan *plan = pass->what->plan;
	Footprints f;
	footprints_of(&f, plan, k, v, (int32_t)pass->width);
	if (f.fours == 1 && f.rows == 3)
		voxels_project(&f, direction, count, voxels, apart, image, pass->width, 3, 1);
	else if (f.fours == 1)
		voxels_project(&f, direction, count, voxels, apart, image, pass->width, f.rows, 1);
	else
		voxels_project(&f, direction, count, voxels, apart, image, pass->width, f.rows, 2);
	for (int l = 0; vi_any(f.large) && l < count; l++) {
		int64_t at[3] = {(int64_t)v->at[0], (int64_t)v->at[1], (int64_t)v->at[2]};
		at[v->axis] += l * (int64_t)v->stride;
		if (f.large[l])
			LEVEL(footprint_large)
		(plan, k, at, direction, voxels + l * apart, image, pass->width, 1);
	}
}

/* ---- back ------------------------------------------------------------------------------------ */

static void pad_view(void *user, int64_t view)
{
	const Pass *pass = user;
	const KernelModel *model = &pass->what->plan->model;
	const float *from =
		pass->what->projections + (pass->first + view) * model->rows * model->columns;
	float *to = view_origin(pass, view);
	memset(pass->samples + view * pass->floats, 0, (size_t)pass->floats * sizeof *to);
	for (int64_t r = 0; r < model->rows; r++)
		memcpy(to + r * pass->width, from + r * model->columns,
			(size_t)model->columns * sizeof *to);
}

typedef float TileSums[TILE_Z][TILE_Y][TILE_X];

static void tile_add_view(const Pass *pass, int64_t view, const Box *tile, TileSums sums)
{
	const KernelView *k = view_of(pass, view);
	float *image = view_origin(pass, view);
	for (int64_t z = tile->low[2]; z < tile->high[2]; z++)
		for (int64_t y = tile->low[1]; y < tile->high[1]; y++)
			for (int64_t x = tile->low[0]; x < tile->high[0]; x += LANES) {
				VoxelLanes v = {{(double)x, (double)y, (double)z}, 1, 0};
				lanes_project(pass, k, &v, ADJOINT,
					(int)min64(LANES, tile->high[0] - x),
					&sums[z - tile->low[2]][y - tile->low[1]][x - tile->low[0]],
					1, image);
			}
}

static void tile_back(void *user, int64_t index)
{
	const Pass *pass = user;
	const Box *box = &pass->what->box;
	const int64_t size[3] = {TILE_X, TILE_Y, TILE_Z};
	int64_t n[3];
	Box tile;
	for (int a = 0; a < 3; a++) {
		n[a] = box->high[a] - box->low[a];
		tile.low[a] = box->low[a] + index % parts(n[a], size[a]) * size[a];
		tile.high[a] = min64(tile.low[a] + size[a], box->high[a]);
		index /= parts(n[a], size[a]);
	}
	TileSums sums = {{{0}}};
	for (int64_t view = 0; view < pass->count && !cancel_seen(); view++)
		tile_add_view(pass, view, &tile, sums);
	for (int64_t z = tile.low[2]; z < tile.high[2]; z++)
		for (int64_t y = tile.low[1]; y < tile.high[1]; y++)
			for (int64_t x = tile.low[0]; x < tile.high[0]; x++)
				pass->what->volume[((z - box->low[2]) * n[1] + y - box->low[1]) *
							   n[0] +
						   x - box->low[0]] +=
					sums[z - tile.low[2]][y - tile.low[1]][x - tile.low[0]];
}

/* ---- forward --------------------------------------------------------------------------------- */

/* Pixels between voxels that are `apart` apart along an axis, in the middle of the grid. */
static double distance_along(const Plan *plan, const KernelView *k, int axis, int64_t apart)
{
	int64_t at[3];
	for (int a = 0; a < 3; a++)
		at[a] = plan->grid.n[a] / 2;
	double depth = voxel_affine(k->depth, at), bend = k->depth[axis] / depth;
	double column = k->column[axis] - voxel_affine(k->column, at) * bend;
	double row = k->row[axis] - voxel_affine(k->row, at) * (KERNEL_FANS(k) ? 0 : bend);
	return (double)apart * (fabs(column) + fabs(row)) / fabs(depth);
}

/* Adds a part of the slab to one copy of a view. Neighbouring voxels add to the same pixels, and an
 * addition must wait for the one before. The lanes are therefore voxels far from each other, along
 * the axis where they are more pixels apart. */
static void slab_forward(void *user, int64_t index)
{
	const Pass *pass = user;
	const Box *box = &pass->what->box;
	int64_t n[2] = {box->high[0] - box->low[0], box->high[1] - box->low[1]};
	int64_t apart[2] = {parts(n[0], LANES), parts(n[1], LANES)}, stride[2] = {1, n[0]};
	int64_t part = index % pass->copies;
	const KernelView *k = view_of(pass, index / pass->copies);
	int a = distance_along(pass->what->plan, k, 0, apart[0]) <
				distance_along(pass->what->plan, k, 1, apart[1])
			? 1
			: 0;
	int b = 1 - a;
	int64_t low = part * n[b] / pass->copies, high = (part + 1) * n[b] / pass->copies;
	for (int64_t z = pass->z; z < pass->z + pass->tall && !cancel_seen(); z++)
		for (int64_t j = low; j < high; j++)
			for (int64_t i = 0; i < apart[a]; i++) {
				VoxelLanes v = {
					{0, 0, (double)(box->low[2] + z)}, (double)apart[a], a};
				v.at[a] = (double)(box->low[a] + i);
				v.at[b] = (double)(box->low[b] + j);
				lanes_project(pass, k, &v, FORWARD, (int)parts(n[a] - i, apart[a]),
					pass->what->volume + z * n[0] * n[1] + i * stride[a] +
						j * stride[b],
					apart[a] * stride[a], view_origin(pass, index));
			}
}

/* Adds the copies of a view to the projections. */
static void give_view(void *user, int64_t view)
{
	const Pass *pass = user;
	const KernelModel *model = &pass->what->plan->model;
	float *to = pass->what->projections + (pass->first + view) * model->rows * model->columns;
	for (int64_t i = 0; i < pass->copies; i++) {
		const float *from = view_origin(pass, view * pass->copies + i);
		for (int64_t r = 0; r < model->rows; r++)
			for (int64_t c = 0; c < model->columns; c++)
				to[r * model->columns + c] += from[r * pass->width + c];
	}
}

static void pass_forward(Pass *pass)
{
	const Box *box = &pass->what->box;
	int64_t slice = (box->high[0] - box->low[0]) * (box->high[1] - box->low[1]);
	int64_t slices = box->high[2] - box->low[2], most = max64(1, SLAB_VOXELS / slice);
	memset(pass->samples, 0,
		(size_t)(pass->count * pass->copies * pass->floats) * sizeof *pass->samples);
	for (pass->z = 0; pass->z < slices; pass->z += pass->tall) {
		pass->tall = min64(most, slices - pass->z);
		parallel_for(pass->count * pass->copies, slab_forward, pass);
	}
	parallel_for(pass->count, give_view, pass);
}

/* ---- the whole ------------------------------------------------------------------------------- */

static void pass_back(Pass *pass)
{
	const Box *box = &pass->what->box;
	parallel_for(pass->count, pad_view, pass);
	parallel_for(parts(box->high[0] - box->low[0], TILE_X) *
			     parts(box->high[1] - box->low[1], TILE_Y) *
			     parts(box->high[2] - box->low[2], TILE_Z),
		tile_back, pass);
}

tomos_status LEVEL(footprint_project)(const ProjectRequest *what)
{
	const KernelModel *model = &what->plan->model;
	bool forward = what->direction == FORWARD;
	Pass pass = {.what = what, .width = padded_width(model), .floats = padded_floats(model)};
	pass.copies = forward ? parts(LEAST_TASKS, max64(1, min64(what->count, LEAST_TASKS))) : 1;
	int64_t views = max64(1, min64(what->count, SCRATCH_FLOATS / (pass.copies * pass.floats)));
	TRY(mem_alloc(
		&pass.samples, views * pass.copies * pass.floats, sizeof(float), "padded views"));
	for (pass.first = 0; pass.first < what->count; pass.first += pass.count) {
		pass.count = min64(views, what->count - pass.first);
		(forward ? pass_forward : pass_back)(&pass);
	}
	mem_free(pass.samples);
	return TOMOS_OK;
}
