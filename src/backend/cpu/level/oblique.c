/* Joseph's method for parallel rays in any direction, forward and adjoint.
 *
 * All rays of a view have the same slopes, so whole voxels of the slope can be taken out: LANES planes
 * across the dominant axis are laid side by side, each shifted by the whole part of its own drift. A
 * ray then passes all of them within the same three by three voxels, the lanes being the planes, and
 * there is nothing to gather: nine loaded vectors are weighed by hats of the lanes' fractions. The
 * adjoint adds to the same nine vectors, which are then shifted back.
 */
#include <math.h>
#include <stdatomic.h>
#include "backend/cpu/cpu.h"
#include "backend/cpu/level/simd.h"
#include "kernel/joseph.h"

enum {
	TAPS = 3,          /* voxels along each axis that the planes of one ray can meet */
	HALO = TAPS - 1,   /* and so many before the first */
	TILE_COLUMNS = 64, /* rays summed at a time */
	TILE_ROWS = 8,
	LEAST_ROWS = 8,
	CHUNK = 8 * LANES,      /* columns shifted at a time */
	PIECE_FLOATS = 1 << 18, /* a piece stays in the second cache */
	SLAB_FLOATS = 4 << 20,
	SCRATCH_FLOATS = 11 << 20
};

/* Positions are whole numbers of 2^-40 voxels: a ray has the same one whatever part asks for it. */
#define ONE ((int64_t)1 << 40)
#define FARTHEST 0x1p20

/* A view: ray (column, row) crosses plane k of the box at base + column u + row v + k slope. The axes
 * are the dominant one, then the two across it. */
typedef struct {
	const Projecting *what;
	const KernelView *view;
	float *image;
	int64_t n[3], stride[3];
	double base[2], u[2], v[2], slope[2];
	int64_t inner[2]
		     [2]; /* clamping: a position from first to last is inside whatever its lane */
	float step;
	int64_t pitch;                /* voxels of a row, filled up to whole vectors */
	int64_t width, strips, strip; /* voxels per row of a piece; pieces per block, their rows */
} Oblique;

/* LANES planes and some rows of shifted voxels; row 0 is `from`, column 0 is `low` - HALO. */
typedef struct {
	vf part[2]; /* of the lanes' drift, beyond the whole `shift` */
	int64_t shift[2][LANES];
	int64_t least[2], most[2]; /* shift */
	int64_t plane, planes;     /* the first; how many there are */
	int64_t low, high;         /* columns in which some lane has a voxel */
	int64_t from, to;          /* rays that begin in these rows belong here */
	float *samples;
	float *staged;            /* NULL: voxels are taken from the volume */
	int64_t stage, stage_end; /* rows of voxels that are staged */
} Piece;

static Oblique oblique_view(const Projecting *what, int64_t number)
{
	const Plan *plan = what->plan;
	const KernelView *k = &plan->views[what->first + number];
	KernelRay ray = kernel_ray(&plan->whole, k, 0, 0);
	KernelWalk walk = kernel_walk(&plan->whole, &ray, 1, 0);
	const int axes[3] = {walk.a, walk.b, walk.c};
	const int64_t *low = what->box.low;
	KernelGrid box = plan->whole;
	memcpy(box.low, what->box.low, sizeof box.low);
	memcpy(box.high, what->box.high, sizeof box.high);
	Oblique o = {.what = what, .view = k, .step = (float)walk.step};
	o.image = what->projections + number * plan->model.rows * plan->model.columns;
	for (int i = 0; i < 3; i++) {
		o.n[i] = box.high[axes[i]] - box.low[axes[i]];
		o.stride[i] = kernel_stride(&box, axes[i]);
	}
	for (int i = 0; i < 2; i++) {
		int b = axes[i + 1];
		o.slope[i] = walk.slope[i];
		o.base[i] = walk.base[i] + (double)low[walk.a] * o.slope[i] - (double)low[b];
		o.u[i] = k->u[b] - k->u[walk.a] * o.slope[i];
		o.v[i] = k->v[b] - k->v[walk.a] * o.slope[i];
		o.inner[i][0] = -low[b];
		o.inner[i][1] = plan->whole.n[b] - 1 - low[b] - HALO;
	}
	o.pitch = parts(o.n[1], LANES) * LANES;
	o.width = parts(o.n[1] + LANES + 2 * HALO + 1, LANES) * LANES;
	return o;
}

static bool within_reach(const Oblique *o)
{
	const KernelModel *model = &o->what->plan->model;
	double columns = (double)model->columns, rows = (double)model->rows;
	for (int i = 0; i < 2; i++)
		if (!(fabs(o->base[i]) + columns * fabs(o->u[i]) + rows * fabs(o->v[i]) < FARTHEST))
			return false;
	return max64(o->n[0], max64(o->n[1], o->n[2])) < FARTHEST &&
	       2 * o->width * LANES * (LEAST_ROWS + 2 * HALO + LANES) <= SCRATCH_FLOATS;
}

bool LEVEL(oblique_applies)(const Projecting *what)
{
	for (int64_t i = 0; i < what->count; i++) {
		if (what->plan->views[what->first + i].src[3] != 0)
			return false;
		Oblique o = oblique_view(what, i);
		if (!within_reach(&o))
			return false;
	}
	return true;
}

/* Cuts the shifted rows of a block into strips of some rows and `more`. */
static void cut_strips(Oblique *o, int64_t more)
{
	int64_t rows = o->n[2] + LANES + HALO + 1;
	o->strip = max64(LEAST_ROWS, PIECE_FLOATS / (o->width * LANES) - more);
	o->strip = min64(o->strip, rows);
	o->strips = parts(rows, o->strip);
}

/* Floats to stage what shifted rows are made of. */
static int64_t stage_size(const Oblique *o, int64_t rows)
{
	return o->stride[0] == 1 ? (rows + LANES) * LANES * o->pitch : 0;
}

static int64_t piece_count(const Oblique *o)
{
	return parts(o->n[0], LANES) * o->strips;
}

/* The planes of a piece and their shifts. Lanes beyond the last plane are like it, and empty. */
static Piece piece_planes(const Oblique *o, int64_t block)
{
	Piece p = {.plane = block * LANES};
	p.planes = min64(LANES, o->n[0] - p.plane);
	for (int i = 0; i < 2; i++) {
		for (int64_t l = 0; l < LANES; l++) {
			double drift = (double)(p.plane + min64(l, p.planes - 1)) * o->slope[i];
			double whole = floor(drift);
			p.shift[i][l] = (int64_t)whole;
			p.part[i][l] = (float)(drift - whole);
		}
		p.least[i] = min64(p.shift[i][0], p.shift[i][LANES - 1]);
		p.most[i] = max64(p.shift[i][0], p.shift[i][LANES - 1]);
	}
	p.low = -p.most[0];
	p.high = o->n[1] - 1 - p.least[0];
	return p;
}

/* ---- rays ------------------------------------------------------------------------------------- */

static inline int64_t position(double p)
{
	return (int64_t)floor(p * 0x1p40);
}

static inline int64_t floor_div(int64_t n, int64_t d)
{
	return n / d - (n % d < 0);
}

/* Narrows columns [range[0], range[1]) to those with low <= start + column step < high. */
static inline void narrow(int64_t start, int64_t step, int64_t low, int64_t high, int64_t range[2])
{
	low *= ONE, high *= ONE;
	if (step == 0) {
		if (start < low || start >= high)
			range[1] = range[0];
		return;
	}
	int64_t first =
		step > 0 ? -floor_div(start - low, step) : floor_div(start - high, -step) + 1;
	int64_t end = step > 0 ? -floor_div(start - high, step) : floor_div(start - low, -step) + 1;
	range[0] = max64(range[0], first);
	range[1] = min64(range[1], end);
}

/* The rays of one detector row that meet a piece: columns `range`, positions of column 0 and steps. */
typedef struct {
	int64_t range[2], start[2], step[2];
} Run;

static inline Run run_of(const Oblique *o, const Piece *p, int64_t row, int64_t first, int64_t end)
{
	Run run = {.range = {first, end}};
	for (int i = 0; i < 2; i++) {
		run.start[i] = position(o->base[i] + (double)row * o->v[i]);
		run.step[i] = position(o->u[i]);
	}
	narrow(run.start[0], run.step[0], p->low - HALO, p->high + 1, run.range);
	narrow(run.start[1], run.step[1], p->from, p->to, run.range);
	return run;
}

/* One ray: its first voxel, and the weights of three along each axis. */
typedef struct {
	int64_t whole[2];
	vf weight[2][TAPS];
} Hit;

static inline Hit hit_of(const Piece *p, const Run *run, int64_t column)
{
	Hit hit;
	for (int i = 0; i < 2; i++) {
		int64_t at = run->start[i] + column * run->step[i];
		float part = (float)(at & (ONE - 1)) * 0x1p-40F;
		vf beyond = p->part[i] + (part - 1);
		hit.whole[i] = at >> 40;
		hit.weight[i][0] = vf_positive(-beyond);
		hit.weight[i][2] = vf_positive(beyond);
		hit.weight[i][1] = 1 - vf_abs(beyond);
	}
	return hit;
}

static inline float *samples_at(const Oblique *o, const Piece *p, const Hit *hit)
{
	return p->samples +
	       ((hit->whole[1] - p->from) * o->width + hit->whole[0] - p->low + HALO) * LANES;
}

/* Clamping: 1 in the lanes whose plane the ray crosses within the outermost centres. */
static vf inside(const Oblique *o, const Piece *p, int64_t row, int64_t column)
{
	const KernelGrid *grid = &o->what->plan->whole;
	KernelRay ray = kernel_ray(grid, o->view, row, column);
	KernelWalk walk = kernel_walk(grid, &ray, 1, 0);
	vf keep = {0};
	for (int64_t l = 0; l < LANES; l++) {
		double k = (double)(o->what->box.low[walk.a] + p->plane + l);
		keep[l] = !joseph_beyond(grid, walk.b, walk.base[0] + k * walk.slope[0]) &&
			  !joseph_beyond(grid, walk.c, walk.base[1] + k * walk.slope[1]);
	}
	return keep;
}

static inline bool all_inside(const Oblique *o, const Piece *p, const Hit *hit)
{
	for (int i = 0; i < 2; i++)
		if (hit->whole[i] + p->least[i] < o->inner[i][0] ||
			hit->whole[i] + p->most[i] > o->inner[i][1])
			return false;
	return true;
}

/* ---- shifting --------------------------------------------------------------------------------- */

/* Row `row` of shifted voxels in one lane begins, as far as it is there, `before` columns later. */
static float *lane_row(const Oblique *o, const Piece *p, int64_t row, int64_t l, int64_t *before)
{
	int64_t j = row + p->shift[1][l];
	*before = HALO - p->low - p->shift[0][l];
	if (l >= p->planes || j < 0 || j >= o->n[2])
		return NULL;
	if (p->staged)
		return p->staged + ((j - p->stage) * LANES + l) * o->pitch;
	return o->what->volume + (p->plane + l) * o->stride[0] + j * o->stride[2];
}

/* Some columns of a row, from `column` on, with all lanes side by side. They go through a small array,
 * since rows of all lanes together may have too few places in a cache. */
static void take_columns(const Oblique *o, const Piece *p, int64_t row, int64_t column, float *to)
{
	float some[LANES][CHUNK] = {{0}};
	int64_t before, wide = min64(CHUNK, o->width - column);
	for (int64_t l = 0; l < LANES; l++) {
		const float *from = lane_row(o, p, row, l, &before);
		int64_t first = max64(before, column), end = min64(before + o->n[1], column + wide);
		if (from && first < end)
			memcpy(some[l] + first - column, from + first - before,
				(size_t)(end - first) * sizeof *from);
	}
	for (int64_t i = 0; i < wide; i += LANES) {
		vf square[LANES];
		for (int l = 0; l < LANES; l++)
			square[l] = vf_load(some[l] + i);
		vf_transpose(square);
		for (int l = 0; l < LANES; l++)
			vf_store(to + (i + l) * LANES, square[l]);
	}
}

static void add_columns(
	const Oblique *o, const Piece *p, int64_t row, int64_t column, const float *from)
{
	float some[LANES][CHUNK];
	int64_t before, wide = min64(CHUNK, o->width - column);
	for (int64_t i = 0; i < wide; i += LANES) {
		vf square[LANES];
		for (int l = 0; l < LANES; l++)
			square[l] = vf_load(from + (i + l) * LANES);
		vf_transpose(square);
		for (int l = 0; l < LANES; l++)
			vf_store(some[l] + i, square[l]);
	}
	for (int64_t l = 0; l < LANES; l++) {
		float *to = lane_row(o, p, row, l, &before);
		int64_t first = max64(before, column), end = min64(before + o->n[1], column + wide);
		for (int64_t i = first; to && i < end; i++)
			to[i - before] += some[l][i - column];
	}
}

/* ---- planes across x -------------------------------------------------------------------------- */

/* There neighbours in memory are of different planes. The voxels that a piece can meet are staged, plane
 * by plane in each row: [row][lane][pitch]. */
static void stage_rows(const Oblique *o, Piece *p, int64_t rows, float *staged)
{
	p->staged = o->stride[0] == 1 ? staged : NULL;
	p->stage = max64(0, p->from + p->least[1]);
	p->stage_end = min64(o->n[2], p->from + rows + p->most[1]);
}

static void take_stage(const Oblique *o, const Piece *p, int64_t j)
{
	float *to = p->staged + (j - p->stage) * LANES * o->pitch;
	const float *from = o->what->volume + p->plane + j * o->stride[2];
	for (int64_t i = 0; i < o->pitch; i += LANES) {
		vf square[LANES] = {{0}};
		int64_t some = min64(LANES, o->n[1] - i);
		for (int64_t n = 0; n < some; n++) {
			const float *voxels = from + (i + n) * o->stride[1];
			if (p->planes == LANES)
				square[n] = vf_load(voxels);
			else
				memcpy(&square[n], voxels, (size_t)p->planes * sizeof *from);
		}
		vf_transpose(square);
		for (int l = 0; l < LANES; l++)
			vf_store(to + l * o->pitch + i, square[l]);
	}
}

/* Lanes [first, end) of the row belong to the piece. */
static void add_stage(const Oblique *o, const Piece *p, int64_t j, int64_t first, int64_t end)
{
	const float *from = p->staged + (j - p->stage) * LANES * o->pitch;
	float *to = o->what->volume + p->plane + j * o->stride[2];
	for (int64_t i = 0; i < o->n[1]; i += LANES) {
		vf square[LANES];
		for (int l = 0; l < LANES; l++)
			square[l] = vf_load(from + l * o->pitch + i);
		vf_transpose(square);
		for (int64_t n = 0; n < min64(LANES, o->n[1] - i); n++) {
			float *voxels = to + (i + n) * o->stride[1];
			if (end - first == LANES)
				vf_store(voxels, vf_load(voxels) + square[n]);
			else
				for (int64_t l = first; l < end; l++)
					voxels[l] += square[n][l];
		}
	}
}

/* ---- forward ---------------------------------------------------------------------------------- */

typedef struct {
	Oblique o;
	Piece *pieces;
	int64_t count,
		rows; /* of this slab; of a piece, those that are read after the last ray's included */
} Slab;

static void fill_stage(void *user, int64_t index)
{
	const Slab *s = user;
	const Piece *p = &s->pieces[index / (s->rows + LANES)];
	int64_t j = p->stage + index % (s->rows + LANES);
	if (j < p->stage_end)
		take_stage(&s->o, p, j);
}

static void fill_row(void *user, int64_t index)
{
	const Slab *s = user;
	const Piece *p = &s->pieces[index / s->rows];
	int64_t row = index % s->rows;
	float *to = p->samples + row * s->o.width * LANES;
	for (int64_t i = 0; i < s->o.width; i += CHUNK)
		take_columns(&s->o, p, p->from + row, i, to + i * LANES);
}

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
	const Slab *s = user;
	const KernelModel *model = &s->o.what->plan->model;
	int64_t across = parts(model->columns, TILE_COLUMNS);
	Window tile = {{index % across * TILE_COLUMNS, index / across * TILE_ROWS}, {0}};
	tile.high[0] = min64(tile.low[0] + TILE_COLUMNS, model->columns);
	tile.high[1] = min64(tile.low[1] + TILE_ROWS, model->rows);
	TileSums sums;
	memset(sums, 0, sizeof sums);
	for (int64_t i = 0; i < s->count; i++) {
		if (model->clamp)
			sum_piece(&s->o, &s->pieces[i], &tile, 1, sums);
		else
			sum_piece(&s->o, &s->pieces[i], &tile, 0, sums);
	}
	give_sums(&s->o, &tile, sums);
}

/* Rays that begin up to HALO rows before the first shifted one can meet it. */
static Piece slab_piece(const Oblique *o, int64_t index)
{
	Piece p = piece_planes(o, index / o->strips);
	int64_t first = -p.most[1] - HALO;
	p.from = first + index % o->strips * o->strip;
	p.to = p.from + o->strip;
	return p;
}

static tomos_status view_forward(const Projecting *what, int64_t view)
{
	Slab s = {.o = oblique_view(what, view)};
	const KernelModel *model = &what->plan->model;
	float *samples = NULL;
	tomos_status status;
	cut_strips(&s.o, HALO);
	s.rows = s.o.strip + HALO;
	int64_t all = piece_count(&s.o), size = s.rows * s.o.width * LANES;
	int64_t each = size + stage_size(&s.o, s.rows);
	int64_t most = limit(SLAB_FLOATS / each, 1, all);
	TRY_OR_DONE(mem_alloc(&samples, most * each, sizeof *samples, "shifted planes"));
	TRY_OR_DONE(mem_alloc(&s.pieces, most, sizeof *s.pieces, "shifted planes"));
	for (int64_t first = 0; first < all; first += s.count) {
		s.count = min64(most, all - first);
		for (int64_t i = 0; i < s.count; i++) {
			s.pieces[i] = slab_piece(&s.o, first + i);
			s.pieces[i].samples = samples + i * each;
			stage_rows(&s.o, &s.pieces[i], s.rows, samples + i * each + size);
		}
		if (s.pieces[0].staged)
			parallel_for(s.count * (s.rows + LANES), fill_stage, &s);
		parallel_for(s.count * s.rows, fill_row, &s);
		parallel_for(parts(model->columns, TILE_COLUMNS) * parts(model->rows, TILE_ROWS),
			sum_tile, &s);
	}
done:
	mem_free(samples);
	mem_free(s.pieces);
	return status;
}

tomos_status LEVEL(oblique_forward)(const Projecting *what)
{
	for (int64_t i = 0; i < what->count; i++)
		TRY(view_forward(what, i));
	return TOMOS_OK;
}

/* ---- adjoint ---------------------------------------------------------------------------------- */

typedef struct {
	Oblique o;
	float *samples;
	int64_t size; /* of one thread's piece */
	_Atomic int64_t next;
} Spreading;

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

static void give_stage(const Oblique *o, const Piece *p, int64_t first)
{
	for (int64_t j = p->stage; j < p->stage_end; j++) {
		int64_t range[2] = {LANES, 0};
		for (int64_t l = 0; l < p->planes; l++) {
			int64_t row = j - p->shift[1][l] - first;
			if (row >= 0 && row < o->strip) {
				range[0] = min64(range[0], l);
				range[1] = l + 1;
			}
		}
		if (range[0] < range[1])
			add_stage(o, p, j, range[0], range[1]);
	}
}

/* A strip owns the rows between its halos; what its rays add to the halos, the next strip's rays add
 * there as well. */
static void spread_piece(const Oblique *o, int64_t index, float *samples)
{
	Piece p = piece_planes(o, index / o->strips);
	int64_t first = -p.most[1] + index % o->strips * o->strip;
	p.from = first - HALO;
	p.to = first + o->strip;
	p.samples = samples;
	int64_t rows = o->strip + 2 * HALO, size = rows * o->width * LANES;
	stage_rows(o, &p, rows, samples + size);
	memset(samples, 0, (size_t)(size + stage_size(o, rows)) * sizeof *samples);
	if (o->what->plan->model.clamp)
		spread_rays(o, &p, 1);
	else
		spread_rays(o, &p, 0);
	for (int64_t row = 0; row < o->strip; row++)
		for (int64_t i = 0; i < o->width; i += CHUNK)
			add_columns(o, &p, first + row, i,
				samples + ((row + HALO) * o->width + i) * LANES);
	if (p.staged)
		give_stage(o, &p, first);
}

static void spread_some(void *user, int64_t slot)
{
	Spreading *s = user;
	int64_t count = piece_count(&s->o);
	for (int64_t i; (i = atomic_fetch_add(&s->next, 1)) < count;)
		spread_piece(&s->o, i, s->samples + slot * s->size);
}

static tomos_status view_back(const Projecting *what, int64_t view)
{
	Spreading s = {.o = oblique_view(what, view)};
	cut_strips(&s.o, 2 * HALO);
	int64_t rows = s.o.strip + 2 * HALO;
	s.size = rows * s.o.width * LANES + stage_size(&s.o, rows);
	int64_t slots = min64(piece_count(&s.o), SCRATCH_FLOATS / s.size);
	slots = min64(slots, tomos_threads());
	TRY(mem_alloc(&s.samples, slots * s.size, sizeof *s.samples, "shifted planes"));
	parallel_for(slots, spread_some, &s);
	mem_free(s.samples);
	return TOMOS_OK;
}

tomos_status LEVEL(oblique_back)(const Projecting *what)
{
	for (int64_t i = 0; i < what->count; i++)
		TRY(view_back(what, i));
	return TOMOS_OK;
}
