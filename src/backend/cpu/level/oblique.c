/* Joseph's method for parallel rays in any direction, forward and adjoint.
 *
 * All rays of a view have the same slopes. LANES planes across the dominant axis are copied side by
 * side, each shifted by the integer part of the ray's displacement from the first plane. A ray then
 * crosses all LANES planes within the same 3 x 3 shifted voxels. With the planes in the SIMD lanes
 * no gathers are needed: nine loaded vectors are weighted by hat functions of the fractional
 * displacements. The adjoint adds to the same nine vectors, which are shifted back at the end.
 */
#include <stdatomic.h>
#include "backend/cpu/level/density.h"
#include "backend/cpu/level/oblique.h"

enum {
	TILE_COLUMNS = 64, /* detector columns of a tile (forward) */
	TILE_ROWS = 8,
	LEAST_ROWS = 16,
	ENOUGH_ROWS = 128,
	CHUNK = 8 * LANES,        /* voxels of a row that are shifted at once */
	PIECE_FLOATS = 1 << 18,   /* a piece of the adjoint stays in the L2 cache */
	PART_FLOATS = 3 << 19,    /* a part of the volume stays in the L3 cache */
	LARGEST_FLOATS = 6 << 20, /* limit on scratch memory */
};

static void place_axis(Oblique *o, const KernelWalk *walk, const Part *part, int i)
{
	const Plan *plan = o->what->plan;
	int b = o->axes[i + 1];
	int64_t first = o->what->box.low[b] + (i == 1 ? part->row : 0);
	o->slope[i] = walk->slope[i];
	o->base[i] = walk->base[i] + (double)o->low * walk->slope[i] - (double)first;
	o->u[i] = o->view->u[b] - o->view->u[walk->a] * walk->slope[i];
	o->v[i] = o->view->v[b] - o->view->v[walk->a] * walk->slope[i];
	o->inner[i][0] = -first;
	o->inner[i][1] = plan->whole.n[b] - 1 - first - HALO;
}

/* The ray of pixel (0, 0) of a view; slopes and dominant axis are the same for all its rays. */
static KernelWalk first_ray(const ProjectRequest *what, int64_t number)
{
	const KernelGrid *grid = &what->plan->whole;
	KernelRay ray = kernel_ray(grid, &what->plan->views[what->first + number], 0, 0);
	return kernel_walk(grid, &ray, 1, 0);
}

static Oblique oblique_view(const ProjectRequest *what, int64_t number, const Part *part)
{
	KernelWalk walk = first_ray(what, number);
	const KernelGrid box = request_grid(what);
	Oblique o = {.what = what, .axes = {walk.a, walk.b, walk.c}, .step = (float)walk.step};
	o.view = &what->plan->views[what->first + number];
	const int64_t pixels = what->plan->model.rows * what->plan->model.columns;
	o.image = what->projections ? what->projections + number * pixels : NULL;
	for (int i = 0; i < 3; i++)
		o.stride[i] = kernel_stride(&box, o.axes[i]);
	o.n[0] = part->planes;
	o.n[1] = box.high[walk.b] - box.low[walk.b];
	o.n[2] = part->rows;
	o.low = box.low[walk.a] + part->plane;
	o.volume = what->volume + part->plane * o.stride[0] + part->row * o.stride[2];
	o.staged = part->staged;
	o.pitch = parts(o.n[1], LANES) * LANES;
	o.width = parts(o.n[1] + HALO + MORE, LANES) * LANES;
	for (int i = 0; i < 2; i++)
		place_axis(&o, &walk, part, i);
	return o;
}

static Part whole_box(const ProjectRequest *what, int64_t view)
{
	KernelWalk walk = first_ray(what, view);
	const Box *box = &what->box;
	return (Part){.planes = box->high[walk.a] - box->low[walk.a],
		.rows = box->high[walk.c] - box->low[walk.c]};
}

static bool within_reach(const Oblique *o)
{
	const KernelModel *model = &o->what->plan->model;
	double columns = (double)model->columns, rows = (double)model->rows;
	for (int i = 0; i < 2; i++)
		if (!(fabs(o->base[i]) + columns * fabs(o->u[i]) + rows * fabs(o->v[i]) < FARTHEST))
			return false;
	return max64(o->n[0], max64(o->n[1], o->n[2])) < FARTHEST &&
	       o->width * LANES * (LEAST_ROWS + HALO + MORE) <= LARGEST_FLOATS;
}

static bool oblique_applies(const ProjectRequest *what)
{
	if (what->plan->rays.source != TOMOS_PARALLEL)
		return false;
	for (int64_t i = 0; i < what->count; i++) {
		Part part = whole_box(what, i);
		Oblique o = oblique_view(what, i, &part);
		if (!within_reach(&o))
			return false;
	}
	return true;
}

static bool oblique_slower(const ProjectRequest *what)
{
	double rays = 0, rise = 0, views = (double)min64(SAMPLED_VIEWS, what->count);
	for (int64_t i = 0; i < (int64_t)views; i++) {
		const int64_t view = i * what->count / (int64_t)views;
		Part part = whole_box(what, view);
		Oblique o = oblique_view(what, view, &part);
		rays += rays_per_voxel(what, view) /
			((1 + MORE / (double)o.n[1]) * (1 + MORE / (double)o.n[2]));
		rise += o.axes[0] == 2 ? 1 : fabs(o.slope[o.axes[1] == 2 ? 0 : 1]);
	}
	const bool flat = FLAT_RISE * views > rise, steep = LANES > 8 && rise > STEEP_RISE * views;
	const bool thin = what->box.high[2] - what->box.low[2] < FEWEST_SLICES;
	if (what->direction == FORWARD)
		return thin || LANES <= 8 || rays < FEWEST_RAYS * views || flat;
	return thin || rays < FEWEST_RAYS_BACK * views || steep || (LANES < 8 && flat);
}

/* ---- shifting -------------------------------------------------------------------------------- */

/* Address of row `row` of the shifted voxels in lane l; NULL: the plane has no such row. Its first
 * voxel is in shifted column `before`. */
static float *lane_row(const Oblique *o, const Piece *p, int64_t row, int64_t l, int64_t *before)
{
	int64_t j = row + p->shift[1][l];
	*before = HALO - p->low - p->shift[0][l];
	if (l >= p->planes || j < 0 || j >= o->n[2])
		return NULL;
	if (o->staged)
		return o->staged + ((p->plane * o->n[2] + j * LANES) + l) * o->pitch;
	return o->volume + (p->plane + l) * o->stride[0] + j * o->stride[2];
}

/* Copies up to CHUNK voxels of a shifted row, from `column` on, to [column][lane]. A small buffer
 * is used since the rows of all lanes may map to the same cache sets. */
static void take_columns(const Oblique *o, const Piece *p, int64_t row, int64_t column, float *to)
{
	float some[LANES][CHUNK] = {{0}};
	int64_t before, wide = min64(CHUNK, o->width - column);
	for (int64_t l = 0; l < LANES; l++) {
		const float *from = lane_row(o, p, row, l, &before);
		int64_t first = max64(before, column), end = min64(before + o->n[1], column + wide);
		if (from && first < end)
			memcpy(&some[l][first - column], from + (first - before),
				(size_t)(end - first) * sizeof *from);
	}
	for (int64_t i = 0; i < wide; i += LANES)
		vf_transpose_square(&some[0][i], CHUNK, to + i * LANES, LANES);
}

/* The transpose of take_columns: adds [column][lane] to the volume. */
static void add_columns(
	const Oblique *o, const Piece *p, int64_t row, int64_t column, const float *from)
{
	float some[LANES][CHUNK];
	int64_t before, wide = min64(CHUNK, o->width - column);
	for (int64_t i = 0; i < wide; i += LANES)
		vf_transpose_square(from + i * LANES, LANES, &some[0][i], CHUNK);
	for (int64_t l = 0; l < LANES; l++) {
		float *to = lane_row(o, p, row, l, &before);
		int64_t first = max64(before, column), end = min64(before + o->n[1], column + wide);
		for (int64_t i = first; to && i < end; i++)
			to[i - before] += some[l][i - column];
	}
}

/* ---- planes across x ------------------------------------------------------------------------- */

/* For planes across x, voxels that are contiguous in memory belong to different planes. So the part
 * is first transposed to [block][row][lane][pitch], where a block is LANES planes and pitch the
 * floats of a row. The inner loop is over blocks, which are contiguous in the volume. */
static void take_stage(void *user, int64_t row)
{
	const Oblique *o = user;
	for (int64_t i = 0; i < o->n[1]; i += LANES)
		for (int64_t plane = 0; plane < o->n[0]; plane += LANES) {
			const float *from = o->volume + plane + row * o->stride[2];
			float *to = o->staged + (plane * o->n[2] + row * LANES) * o->pitch + i;
			vf square[LANES] = {{0}};
			int64_t planes = min64(LANES, o->n[0] - plane);
			for (int64_t n = 0; n < min64(LANES, o->n[1] - i); n++)
				memcpy(&square[n], from + (i + n) * o->stride[1],
					(size_t)planes * sizeof *from);
			vf_transpose(square);
			for (int l = 0; l < LANES; l++)
				vf_store(to + l * o->pitch, square[l]);
		}
}

static void add_stage(void *user, int64_t row)
{
	const Oblique *o = user;
	for (int64_t i = 0; i < o->n[1]; i += LANES)
		for (int64_t plane = 0; plane < o->n[0]; plane += LANES) {
			const float *from =
				o->staged + (plane * o->n[2] + row * LANES) * o->pitch + i;
			float *to = o->volume + plane + row * o->stride[2];
			vf square[LANES];
			int64_t planes = min64(LANES, o->n[0] - plane);
			for (int l = 0; l < LANES; l++)
				square[l] = vf_load(from + l * o->pitch);
			vf_transpose(square);
			for (int64_t n = 0; n < min64(LANES, o->n[1] - i); n++)
				for (int64_t l = 0; l < planes; l++)
					to[(i + n) * o->stride[1] + l] += square[n][l];
		}
}

static int64_t stage_floats(const Oblique *o)
{
	return o->stride[0] == 1 ? blocks_of(o) * LANES * o->n[2] * o->pitch : 0;
}

/* ---- part by part ---------------------------------------------------------------------------- */

/* A direction: computes one view for one part of the volume, with needs(o) floats of memory. */
typedef struct {
	int64_t (*needs)(const Oblique *o);
	void (*run)(Oblique *o, float *scratch);
} Task;

/* Chooses the size of parts so that they fit into the cache, with enough rows that the halos are a
 * small fraction. */
static void cut_box(const Oblique *whole, Part *part)
{
	int64_t row = whole->width * LANES, rows = whole->n[2];
	int64_t most = PART_FLOATS / row - HALO - MORE;
	if (most < ENOUGH_ROWS)
		most = min64(ENOUGH_ROWS, LARGEST_FLOATS / row - HALO - MORE);
	part->rows = parts(rows, parts(rows, most));
	int64_t blocks = PART_FLOATS / ((part->rows + HALO + MORE) * row);
	part->planes = min64(max64(1, blocks) * LANES, whole->n[0]);
}

/* Computes one part for all views with the same dominant axis as view `first`. */
static void do_part(const ProjectRequest *what, const Task *task, int64_t first, const Part *part,
	float *scratch)
{
	Oblique o = oblique_view(what, first, part);
	int axis = o.axes[0];
	if (part->staged && what->direction == FORWARD)
		parallel_for(o.n[2], take_stage, &o);
	else if (part->staged)
		memset(part->staged, 0, (size_t)stage_floats(&o) * sizeof *part->staged);
	for (int64_t i = first; i < what->count; i++)
		if (first_ray(what, i).a == axis) {
			Oblique view = oblique_view(what, i, part);
			task->run(&view, scratch);
		}
	if (part->staged && what->direction == ADJOINT)
		parallel_for(o.n[2], add_stage, &o);
}

/* Computes all views with the same dominant axis as view `first`, part by part. */
static tomos_status do_axis(const ProjectRequest *what, const Task *task, int64_t first)
{
	Part whole = whole_box(what, first), most = whole;
	Oblique o = oblique_view(what, first, &whole);
	cut_box(&o, &most);
	o = oblique_view(what, first, &most);
	float *staged = NULL, *scratch = NULL;
	tomos_status status;
	if (stage_floats(&o) > 0)
		TRY_OR_DONE(mem_alloc(&staged, stage_floats(&o), sizeof *staged, "shifted planes"));
	TRY_OR_DONE(mem_alloc(&scratch, task->needs(&o), sizeof *scratch, "shifted planes"));
	for (int64_t plane = 0; plane < whole.planes; plane += most.planes)
		for (int64_t row = 0; row < whole.rows; row += most.rows) {
			Part part = {plane, min64(most.planes, whole.planes - plane), row,
				min64(most.rows, whole.rows - row), staged};
			do_part(what, task, first, &part, scratch);
		}
done:
	mem_free(staged);
	mem_free(scratch);
	return status;
}

static tomos_status do_views(const ProjectRequest *what, const Task *task)
{
	bool done[3] = {false};
	for (int64_t i = 0; i < what->count; i++) {
		int axis = first_ray(what, i).a;
		if (!done[axis])
			TRY(do_axis(what, task, i));
		done[axis] = true;
	}
	return TOMOS_OK;
}

/* ---- forward --------------------------------------------------------------------------------- */

/* In the forward projection a piece is a whole block of LANES planes. Rays that start up to HALO
 * rows before its first row can cross it. */
static Piece block_of(const Oblique *o, float *scratch, int64_t block)
{
	Piece p = piece_of(o, block);
	p.from = -p.most[1] - HALO;
	p.to = o->n[2] - p.least[1];
	p.samples = scratch + block * (o->n[2] + HALO + MORE) * o->width * LANES;
	return p;
}

typedef struct {
	const Oblique *o;
	float *scratch;
} Sum;

static void fill_row(void *user, int64_t index)
{
	const Sum *s = user;
	const Oblique *o = s->o;
	int64_t rows = o->n[2] + HALO + MORE, row = index % rows;
	Piece p = block_of(o, s->scratch, index / rows);
	for (int64_t i = 0; i < o->width; i += CHUNK)
		take_columns(o, &p, p.from + row, i, p.samples + (row * o->width + i) * LANES);
}

/* Weighted sum of the 3 x 3 voxels; `row`: floats from one row of voxels to the next. */
static inline vf sum_taps(const float *at, int64_t row, const Hit *hit)
{
	vf sum = {0};
	for (int j = 0; j < TAPS; j++) {
		vf along = {0};
		for (int i = 0; i < TAPS; i++)
			along += hit->weight[0][i] * vf_load(at + j * row + i * LANES);
		sum += hit->weight[1][j] * along;
	}
	return sum;
}

typedef vf TileSums[TILE_ROWS][TILE_COLUMNS];

static inline void sum_piece(
	const Oblique *o, const Piece *p, const Window *tile, const int clamp, TileSums sums)
{
	for (int64_t r = tile->low[1]; r < tile->high[1]; r++) {
		Run run = run_of(o, p, r, tile->low[0], tile->high[0]);
		for (int64_t c = run.range[0]; c < run.range[1]; c++) {
			Hit hit = hit_of(p, &run, c);
			vf sum = sum_taps(samples_at(o, p, &hit), o->width * LANES, &hit);
			if (clamp && !all_inside(o, p, &hit))
				sum *= inside(o, p, r, c);
			sums[r - tile->low[1]][c - tile->low[0]] += sum;
		}
	}
}

/* Sums the lanes, that is the planes, of each ray and adds the result to the view. */
static void give_sums(const Oblique *o, const Window *tile, TileSums sums)
{
	int64_t columns = o->what->plan->model.columns;
	for (int64_t r = tile->low[1]; r < tile->high[1]; r++)
		for (int64_t c = tile->low[0]; c < tile->high[0]; c += LANES) {
			vf *lanes = &sums[r - tile->low[1]][c - tile->low[0]], sum = {0};
			vf_transpose(lanes);
			for (int l = 0; l < LANES; l++)
				sum += lanes[l];
			float *to = o->image + r * columns + c;
			for (int64_t i = 0; i < min64(LANES, tile->high[0] - c); i++)
				to[i] += o->step * sum[i];
		}
}

static void sum_tile(void *user, int64_t index)
{
	const Sum *s = user;
	const KernelModel *model = &s->o->what->plan->model;
	int64_t across = parts(model->columns, TILE_COLUMNS);
	Window tile = {{index % across * TILE_COLUMNS, index / across * TILE_ROWS}, {0}};
	tile.high[0] = min64(tile.low[0] + TILE_COLUMNS, model->columns);
	tile.high[1] = min64(tile.low[1] + TILE_ROWS, model->rows);
	TileSums sums;
	memset(sums, 0, sizeof sums);
	for (int64_t i = 0; i < blocks_of(s->o); i++) {
		Piece p = block_of(s->o, s->scratch, i);
		if (model->clamp)
			sum_piece(s->o, &p, &tile, 1, sums);
		else
			sum_piece(s->o, &p, &tile, 0, sums);
	}
	give_sums(s->o, &tile, sums);
}

static int64_t sum_needs(const Oblique *o)
{
	return blocks_of(o) * (o->n[2] + HALO + MORE) * o->width * LANES;
}

static void sum_view(Oblique *o, float *scratch)
{
	const KernelModel *model = &o->what->plan->model;
	Sum s = {o, scratch};
	parallel_for(blocks_of(o) * (o->n[2] + HALO + MORE), fill_row, &s);
	parallel_for(
		parts(model->columns, TILE_COLUMNS) * parts(model->rows, TILE_ROWS), sum_tile, &s);
}

static tomos_status oblique_forward(const ProjectRequest *what)
{
	return do_views(what, &(Task){sum_needs, sum_view});
}

/* ---- adjoint --------------------------------------------------------------------------------- */

typedef struct {
	const Oblique *o;
	float *scratch; /* one piece per thread */
	int64_t size;
	_Atomic int64_t next;
} Spread;

static inline void add_taps(float *at, int64_t row, const Hit *hit, vf value)
{
	for (int j = 0; j < TAPS; j++) {
		vf part = hit->weight[1][j] * value;
		for (int i = 0; i < TAPS; i++) {
			float *to = at + j * row + i * LANES;
			vf_store(to, vf_load(to) + hit->weight[0][i] * part);
		}
	}
}

static inline void spread_rays(const Oblique *o, const Piece *p, const int clamp)
{
	const KernelModel *model = &o->what->plan->model;
	for (int64_t r = 0; r < model->rows; r++) {
		Run run = run_of(o, p, r, 0, model->columns);
		for (int64_t c = run.range[0]; c < run.range[1]; c++) {
			Hit hit = hit_of(p, &run, c);
			vf value = o->step * o->image[r * model->columns + c] + (vf){0};
			if (clamp && !all_inside(o, p, &hit))
				value *= inside(o, p, r, c);
			add_taps(samples_at(o, p, &hit), o->width * LANES, &hit, value);
		}
	}
}

/* A piece of the adjoint is a strip of rows of a block, with HALO rows on either side. Only the
 * rows between the halos are added to the volume: rays that cross a halo are also processed by the
 * neighbouring strip, which adds their contributions to those rows. */
static void spread_piece(const Oblique *o, int64_t index, float *samples)
{
	Piece p = piece_of(o, index / o->strips);
	int64_t first = -p.most[1] + index % o->strips * o->strip;
	p.from = first - HALO;
	p.to = first + o->strip;
	p.samples = samples;
	memset(samples, 0, (size_t)((o->strip + 2 * HALO) * o->width * LANES) * sizeof *samples);
	if (o->what->plan->model.clamp)
		spread_rays(o, &p, 1);
	else
		spread_rays(o, &p, 0);
	for (int64_t row = 0; row < o->strip; row++)
		for (int64_t i = 0; i < o->width; i += CHUNK)
			add_columns(o, &p, first + row, i,
				samples + ((row + HALO) * o->width + i) * LANES);
}

static void spread_some(void *user, int64_t slot)
{
	Spread *s = user;
	int64_t count = blocks_of(s->o) * s->o->strips;
	for (int64_t i; (i = atomic_fetch_add(&s->next, 1)) < count;)
		spread_piece(s->o, i, s->scratch + slot * s->size);
}

static int64_t strip_rows(const Oblique *o)
{
	int64_t most = max64(LEAST_ROWS, PIECE_FLOATS / (o->width * LANES) - 2 * HALO);
	return min64(most, o->n[2] + MORE);
}

static int64_t piece_floats(const Oblique *o)
{
	return (strip_rows(o) + 2 * HALO) * o->width * LANES;
}

/* Enough for parts with fewer rows as well, whose pieces are smaller but more numerous. */
static int64_t spread_needs(const Oblique *o)
{
	int64_t one = piece_floats(o);
	return max64(one, min64(tomos_threads() * one, LARGEST_FLOATS));
}

static void spread_view(Oblique *o, float *scratch)
{
	Spread s = {.o = o, .scratch = scratch, .size = piece_floats(o)};
	o->strip = strip_rows(o);
	o->strips = parts(o->n[2] + MORE, o->strip);
	parallel_for(limit(LARGEST_FLOATS / s.size, 1, tomos_threads()), spread_some, &s);
}

static tomos_status oblique_back(const ProjectRequest *what)
{
	return do_views(what, &(Task){spread_needs, spread_view});
}

const CpuKernel LEVEL(cpu_oblique) = {.applies = oblique_applies,
	.run = {oblique_forward, oblique_back},
	.slower = oblique_slower,
	.by_width = true};
