/* Views of the Fourier projector as lines of points, and these points sorted by tiles. */
#include <math.h>
#include "backend/device/fourier.h"
#include "base/fft.h"

/* ---- lines ----------------------------------------------------------------------------------- */

static void fill_view(
	const PointLines *lines, const FourierSpec *spec, const FourierView *from, LineView *to)
{
	const double period = (double)lines->period;
	const bool line = spec->response == RESPONSE_LINE;
	double offset = from->column[2];
	*to = (LineView){.unit = (float)(from->weight / period),
		.row = from->row,
		.height = from->step,
		.reach = from->reach};
	for (int a = 0; a < 2; a++) {
		offset += from->column[a] * (double)(spec->n[a] / 2);
		to->step[a] = from->column[a] * (double)lines->size[a] / period;
		to->width[a] = (line ? from->column[a] : 1) / period;
	}
	to->turn = offset / period;
}

/* Also whether every row of the detector belongs to a slice in all views. */
static void fill_views(PointLines *lines, const FourierSpec *spec)
{
	lines->covers = lines->own_rows = fourier_own_rows(spec);
	for (int64_t i = 0; i < spec->count; i++) {
		const FourierView *view = &spec->views[i];
		double end = view->row + view->step * (double)(spec->n[2] - 1);
		fill_view(lines, spec, view, &lines->views[i]);
		lines->covers = lines->covers && fmin(view->row, end) <= 0 &&
				fmax(view->row, end) >= (double)(spec->rows - 1);
	}
}

tomos_status point_lines_make(PointLines *lines, const FourierSpec *spec)
{
	*lines = (PointLines){.count = spec->count};
	lines->period = spec->period > 0 ? spec->period : fft_length(fourier_period(spec));
	lines->top = lines->period / 2 - 1;
	for (int a = 0; a < 2; a++)
		lines->size[a] = fourier_cells(spec, a);
	if (lines->period > 1 << 24 || lines->size[0] * lines->size[1] > INT32_MAX)
		return fail(TOMOS_UNSUPPORTED,
			"%lld x %lld cells and %lld points of a view are too many for the "
			"projector 'fourier' on a device",
			(long long)lines->size[0], (long long)lines->size[1],
			(long long)lines->period);
	TRY(window_make(&lines->window, spec->n, lines->size, spec->accuracy));
	TRY(mem_alloc(&lines->views, spec->count, sizeof *lines->views, "the views"));
	fill_views(lines, spec);
	return TOMOS_OK;
}

void point_lines_free(PointLines *lines)
{
	mem_free(lines->views);
	lines->views = NULL;
}

/* ---- segments -------------------------------------------------------------------------------- */

typedef struct {
	PointSegment segment; /* `begin` is its end here */
	int64_t tile;
} Found;

typedef struct {
	const PointLines *lines;
	Direction direction;
	int64_t *start; /* of the segments of each view: counts, then offsets */
	Found *found;   /* NULL: they are counted */
} Search;

/* Tiles of the periodic continuation are numbered through. */
static int64_t tiles_of(const PointLines *lines, int axis)
{
	return (lines->size[axis] + FOURIER_TILE - 1) / FOURIER_TILE;
}

static int64_t period_of(int64_t number, int64_t tiles)
{
	return number >= 0 ? number / tiles : -((-number + tiles - 1) / tiles);
}

static int64_t tile_first(const PointLines *lines, int axis, int64_t number)
{
	int64_t tiles = tiles_of(lines, axis), p = period_of(number, tiles);
	return p * lines->size[axis] + (number - p * tiles) * FOURIER_TILE;
}

static int64_t tile_number(const PointLines *lines, int axis, int64_t cell)
{
	int64_t p = period_of(cell, lines->size[axis]);
	return p * tiles_of(lines, axis) + (cell - p * lines->size[axis]) / FOURIER_TILE;
}

/* Points with a cell in the tile, or with their first one in it. */
static PointRange points_of(const Search *s, int axis, double step, int64_t number)
{
	const PointLines *lines = s->lines;
	int64_t low = tile_first(lines, axis, number), high = tile_first(lines, axis, number + 1);
	if (s->direction == ADJOINT)
		low -= lines->window.taps - 1;
	return window_points(&lines->window, step, lines->top, (double)low, (double)high);
}

/* The tiles along an axis that points from .. to - 1 of a line are in. */
static void tile_span(
	const Search *s, int axis, double step, PointRange range, int64_t *first, int64_t *last)
{
	const PointLines *lines = s->lines;
	double a = window_first(&lines->window, step, range.from);
	double b = window_first(&lines->window, step, range.to - 1);
	int64_t more = s->direction == ADJOINT ? lines->window.taps - 1 : 0;
	*first = tile_number(lines, axis, (int64_t)fmin(a, b));
	*last = tile_number(lines, axis, (int64_t)fmax(a, b) + more);
}

static void note(
	const Search *s, int64_t view, const int64_t number[2], PointRange range, int64_t *count)
{
	const PointLines *lines = s->lines;
	int64_t tile[2];
	if (s->found) {
		Found *found = &s->found[s->start[view] + *count];
		*found = (Found){.segment = {(int)view, range.from, range.to}};
		for (int a = 0; a < 2; a++) {
			int64_t tiles = tiles_of(lines, a);
			tile[a] = number[a] - period_of(number[a], tiles) * tiles;
			found->segment.origin[a] = (int)tile_first(lines, a, number[a]);
		}
		found->tile = tile[1] * tiles_of(lines, 0) + tile[0];
	}
	++*count;
}

static void search_view(void *user, int64_t view)
{
	const Search *s = user;
	const double *step = s->lines->views[view].step;
	const PointRange all = {(int32_t)-s->lines->top, (int32_t)s->lines->top + 1};
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

typedef struct {
	PointLists *lists;
	int64_t *first; /* segment of each tile */
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
static void sort_segments(Sorted *s, const Found *found, int64_t count, int64_t tiles)
{
	PointSegment *segments = s->lists->segments;
	for (int64_t i = 0; i < count; i++)
		s->first[found[i].tile]++;
	total(s->first, tiles + 1);
	for (int64_t i = 0; i < count; i++)
		segments[s->first[found[i].tile]++] = found[i].segment;
	for (int64_t i = tiles; i > 0; i--)
		s->first[i] = s->first[i - 1];
	s->first[0] = 0;
}

static PointChunk *add_chunk(PointLists *lists, int64_t tile, int64_t across, int64_t segment)
{
	PointChunk *chunk = &lists->chunks[lists->chunk_count++];
	*chunk = (PointChunk){.tile = {(int)(tile % across), (int)(tile / across)},
		.segment = (int)segment,
		.part = -1};
	return chunk;
}

/* The chunks of a tile; one without points if it has none. */
static void cut_tile(Sorted *s, int64_t tile, int64_t across)
{
	PointLists *lists = s->lists;
	const int first = lists->chunk_count;
	PointChunk *chunk = add_chunk(lists, tile, across, s->first[tile]);
	for (int64_t i = s->first[tile]; i < s->first[tile + 1]; i++) {
		PointSegment *g = &lists->segments[i];
		int points = g->begin - g->from;
		if (chunk->points >= FOURIER_CHUNK)
			chunk = add_chunk(lists, tile, across, i);
		g->begin = chunk->points;
		chunk->points += points;
		chunk->segments++;
	}
	int parts = lists->chunk_count - first;
	if (parts == 1)
		return;
	lists->tiles[lists->tile_count++] =
		(PartTile){{chunk->tile[0], chunk->tile[1]}, lists->parts, parts};
	for (int i = first; i < lists->chunk_count; i++)
		lists->chunks[i].part = lists->parts++;
}

static tomos_status sort_points(
	PointLists *lists, const PointLines *lines, const Search *search, int64_t count)
{
	const int64_t across = tiles_of(lines, 0), tiles = across * tiles_of(lines, 1);
	Sorted s = {.lists = lists};
	tomos_status status;
	int64_t points = 0;
	for (int64_t i = 0; i < count; i++)
		points += search->found[i].segment.begin - search->found[i].segment.from;
	TRY_OR_DONE(mem_zeroed(&s.first, tiles + 1, sizeof *s.first, "tiles"));
	TRY_OR_DONE(mem_alloc(
		&lists->segments, max64(count, 1), sizeof *lists->segments, "segments of points"));
	TRY_OR_DONE(mem_alloc(&lists->chunks, tiles + points / FOURIER_CHUNK + 1,
		sizeof *lists->chunks, "the points of tiles"));
	TRY_OR_DONE(mem_alloc(&lists->tiles, tiles, sizeof *lists->tiles, "tiles"));
	lists->segment_count = (int)count;
	sort_segments(&s, search->found, count, tiles);
	for (int64_t i = 0; i < tiles; i++)
		if (s.first[i] < s.first[i + 1] || search->direction == ADJOINT)
			cut_tile(&s, i, across);
done:
	mem_free(s.first);
	return status;
}

static tomos_status find_points(PointLists *lists, const PointLines *lines, Search *s)
{
	TRY(mem_alloc(&s->start, lines->count, sizeof *s->start, "the points of views"));
	parallel_for(lines->count, search_view, s);
	int64_t segments = total(s->start, lines->count);
	if (segments > INT32_MAX)
		return fail(TOMOS_UNSUPPORTED,
			"the projector 'fourier' has %lld segments of points on a device, too many",
			(long long)segments);
	TRY(mem_alloc(&s->found, max64(segments, 1), sizeof *s->found, "segments of points"));
	parallel_for(lines->count, search_view, s);
	return sort_points(lists, lines, s, segments);
}

tomos_status point_lists_make(PointLists *lists, const PointLines *lines, Direction direction)
{
	Search s = {.lines = lines, .direction = direction};
	*lists = (PointLists){.parts = 0};
	tomos_status status = find_points(lists, lines, &s);
	if (status != TOMOS_OK)
		point_lists_free(lists);
	mem_free(s.start);
	mem_free(s.found);
	return status;
}

void point_lists_free(PointLists *lists)
{
	mem_free(lists->segments);
	mem_free(lists->chunks);
	mem_free(lists->tiles);
	*lists = (PointLists){.parts = 0};
}
