/* Points of the Fourier projector, sorted by the tiles of the grid.
 *
 * The points of a view are on a line through the origin, so that those in a tile are consecutive: a
 * segment. Points beyond the grid belong to its periodic continuation. A block processes one chunk
 * of the segments of a tile; all views meet near the origin, and tiles there have many chunks.
 */
#include "backend/cuda/fourier.h"

typedef struct {
	PointSegment segment; /* `begin` is its end here */
	int64_t tile;
} Found;

typedef struct {
	const Fourier *f;
	Direction direction;
	int64_t *start; /* of the segments of each view: counts, then offsets */
	Found *found;   /* NULL: they are counted */
} Search;

/* Tiles of the periodic continuation are numbered through. */
static int64_t tiles_of(const Fourier *f, int axis)
{
	return (f->size[axis] + FOURIER_TILE - 1) / FOURIER_TILE;
}

static int64_t period_of(int64_t number, int64_t tiles)
{
	return number >= 0 ? number / tiles : -((-number + tiles - 1) / tiles);
}

static int64_t tile_first(const Fourier *f, int axis, int64_t number)
{
	int64_t tiles = tiles_of(f, axis), p = period_of(number, tiles);
	return p * f->size[axis] + (number - p * tiles) * FOURIER_TILE;
}

static int64_t tile_number(const Fourier *f, int axis, int64_t cell)
{
	int64_t p = period_of(cell, f->size[axis]);
	return p * tiles_of(f, axis) + (cell - p * f->size[axis]) / FOURIER_TILE;
}

/* Points with a cell in the tile, or with their first one in it. */
static PointRange points_of(const Search *s, int axis, double step, int64_t number)
{
	const Fourier *f = s->f;
	int64_t low = tile_first(f, axis, number), high = tile_first(f, axis, number + 1);
	if (s->direction == ADJOINT)
		low -= f->window.taps - 1;
	return window_points(&f->window, step, f->top, (double)low, (double)high);
}

/* The tiles along an axis that points from .. to - 1 of a line are in. */
static void tile_span(
	const Search *s, int axis, double step, PointRange range, int64_t *first, int64_t *last)
{
	const Fourier *f = s->f;
	double a = window_first(&f->window, step, range.from);
	double b = window_first(&f->window, step, range.to - 1);
	int64_t more = s->direction == ADJOINT ? f->window.taps - 1 : 0;
	*first = tile_number(f, axis, (int64_t)fmin(a, b));
	*last = tile_number(f, axis, (int64_t)fmax(a, b) + more);
}

static void note(
	const Search *s, int64_t view, const int64_t number[2], PointRange range, int64_t *count)
{
	const Fourier *f = s->f;
	int64_t tile[2];
	if (s->found) {
		Found *found = &s->found[s->start[view] + *count];
		*found = (Found){.segment = {(int)view, range.from, range.to}};
		for (int a = 0; a < 2; a++) {
			int64_t tiles = tiles_of(f, a);
			tile[a] = number[a] - period_of(number[a], tiles) * tiles;
			found->segment.origin[a] = (int)tile_first(f, a, number[a]);
		}
		found->tile = tile[1] * tiles_of(f, 0) + tile[0];
	}
	++*count;
}

static void search_view(void *user, int64_t view)
{
	const Search *s = (const Search *)user;
	const double *step = s->f->host_views[view].step;
	const PointRange all = {(int32_t)-s->f->top, (int32_t)s->f->top + 1};
	int64_t x[2], y[2], number[2], count = 0;
	tile_span(s, 0, step[0], all, &x[0], &x[1]);
	for (number[0] = x[0]; number[0] <= x[1]; number[0]++) {
		PointRange across = points_of(s, 0, step[0], number[0]);
		if (across.from >= across.to)
			continue;
		tile_span(s, 1, step[1], across, &y[0], &y[1]);
		for (number[1] = y[0]; number[1] <= y[1]; number[1]++) {
			PointRange both = points_of(s, 1, step[1], number[1]);
			both.from = both.from > across.from ? both.from : across.from;
			both.to = both.to < across.to ? both.to : across.to;
			if (both.from < both.to)
				note(s, view, number, both, &count);
		}
	}
	if (!s->found)
		s->start[view] = count;
}

/* ---- chunks ---------------------------------------------------------------------------------- */

/* The lists in host memory. */
typedef struct {
	PointSegment *segments;
	int64_t *first; /* segment of each tile */
	PointChunk *chunks;
	PartTile *tiles;
	int64_t chunk_count;
} Sorted;

static int64_t total(int64_t *start, int64_t count)
{
	int64_t sum = 0;
	for (int64_t i = 0; i < count; i++) {
		int64_t here = start[i];
		start[i] = sum;
		sum += here;
	}
	return sum;
}

/* By tile, and in a tile by view. */
static void sort_segments(const Found *found, int64_t count, int64_t tiles, Sorted *s)
{
	for (int64_t i = 0; i < count; i++)
		s->first[found[i].tile]++;
	total(s->first, tiles + 1);
	for (int64_t i = 0; i < count; i++)
		s->segments[s->first[found[i].tile]++] = found[i].segment;
	for (int64_t i = tiles; i > 0; i--)
		s->first[i] = s->first[i - 1];
	s->first[0] = 0;
}

/* The chunks of a tile; one without points if it has none. */
static void cut_tile(Sorted *s, int64_t tile, int64_t across, PointLists *lists)
{
	const int64_t first = s->chunk_count;
	PointChunk *chunk = NULL;
	for (int64_t i = s->first[tile]; i < s->first[tile + 1] || !chunk; i++) {
		if (!chunk || chunk->points >= FOURIER_CHUNK) {
			chunk = &s->chunks[s->chunk_count++];
			*chunk = (PointChunk){.tile = {(int)(tile % across), (int)(tile / across)},
				.segment = (int)i,
				.part = -1};
		}
		if (s->first[tile] == s->first[tile + 1])
			break;
		PointSegment *g = &s->segments[i];
		int points = g->begin - g->from;
		g->begin = chunk->points;
		chunk->points += points;
		chunk->segments++;
	}
	int parts = (int)(s->chunk_count - first);
	if (parts == 1)
		return;
	s->tiles[lists->tile_count++] =
		(PartTile){{chunk->tile[0], chunk->tile[1]}, lists->parts, parts};
	for (int64_t i = first; i < s->chunk_count; i++)
		s->chunks[i].part = lists->parts++;
}

static tomos_status send_lists(
	tomos_backend *b, const Sorted *s, int64_t segments, PointLists *lists)
{
	lists->chunk_count = (int)s->chunk_count;
	TRY(fourier_send(b, &lists->segments, s->segments, segments * (int64_t)sizeof(PointSegment),
		"the points of tiles"));
	TRY(fourier_send(b, &lists->chunks, s->chunks, s->chunk_count * (int64_t)sizeof(PointChunk),
		"the points of tiles"));
	return fourier_send(b, &lists->tiles, s->tiles,
		lists->tile_count * (int64_t)sizeof(PartTile), "the points of tiles");
}

static tomos_status make_lists(
	tomos_backend *b, const Fourier *f, const Found *found, int64_t count, PointLists *lists)
{
	const int64_t across = tiles_of(f, 0), tiles = across * tiles_of(f, 1);
	Sorted s = {};
	tomos_status status;
	int64_t points = 0;
	for (int64_t i = 0; i < count; i++)
		points += found[i].segment.begin - found[i].segment.from;
	TRY_OR_DONE(mem_alloc(&s.segments, max64(count, 1), sizeof *s.segments, "segments"));
	TRY_OR_DONE(mem_zeroed(&s.first, tiles + 1, sizeof *s.first, "tiles"));
	TRY_OR_DONE(mem_alloc(
		&s.chunks, tiles + points / FOURIER_CHUNK + 1, sizeof *s.chunks, "tiles"));
	TRY_OR_DONE(mem_alloc(&s.tiles, tiles, sizeof *s.tiles, "tiles"));
	sort_segments(found, count, tiles, &s);
	for (int64_t i = 0; i < tiles; i++)
		if (s.first[i] < s.first[i + 1] || lists == &f->lists[ADJOINT])
			cut_tile(&s, i, across, lists);
	TRY_OR_DONE(send_lists(b, &s, count, lists));
done:
	mem_free(s.segments);
	mem_free(s.first);
	mem_free(s.chunks);
	mem_free(s.tiles);
	return status;
}

tomos_status fourier_lists(tomos_backend *b, Fourier *f, Direction direction)
{
	const int64_t count = f->spec.count;
	Search s = {.f = f, .direction = direction};
	tomos_status status;
	TRY(mem_alloc(&s.start, count, sizeof *s.start, "the points of views"));
	parallel_for(count, search_view, &s);
	int64_t segments = total(s.start, count);
	TRY_OR_DONE(mem_alloc(&s.found, max64(segments, 1), sizeof *s.found, "segments"));
	parallel_for(count, search_view, &s);
	if (segments > INT32_MAX)
		status = fail(TOMOS_UNSUPPORTED,
			"the projector 'fourier' has %lld segments of points on the GPU, too many",
			(long long)segments);
	else
		status = make_lists(b, f, s.found, segments, &f->lists[direction]);
	if (status != TOMOS_OK) { /* a later call begins again */
		fourier_lists_free(&f->lists[direction]);
		f->lists[direction] = PointLists{};
	}
done:
	mem_free(s.start);
	mem_free(s.found);
	return status;
}

void fourier_lists_free(PointLists *lists)
{
	cudaFree(lists->segments);
	cudaFree(lists->chunks);
	cudaFree(lists->tiles);
}
