/* Integrals along lines of the averaged views, of all directions. */
#include "prep/plane_lines.h"
#include <math.h>
#include <string.h>
#include "base/solve.h"

#define TRUNCATED 0.02 /* of the largest value, at an end of a line */

/* ---- directions ------------------------------------------------------------------------------ */

static Direction direction_of(const Lines *l, int64_t angle)
{
	const Orbit *o = &l->coarse->orbit;
	double turn = M_PI * (double)angle / (double)l->angles;
	const double normal[2] = {cos(turn), sin(turn)}, unit[2] = {1, l->high};
	Direction s = {
		.a = fabs(normal[1]) >= fabs(normal[0]) ? 0 : 1, .count = {o->columns, o->rows}};
	s.b = 1 - s.a;
	s.across = normal[s.b] * unit[s.b];
	s.by = -normal[s.a] * unit[s.a] / s.across;
	s.at = 0.5 * (double)(s.count[s.b] - 1) - s.by * 0.5 * (double)(s.count[s.a] - 1) -
	       0.5 * (double)(l->offsets - 1);
	s.length = (float)(unit[s.a] / fabs(normal[s.b]));
	return s;
}

/* The range of i in [0, count) for which start + step i is in [0, top]. */
static void range_within(double start, double step, double top, int64_t count, int64_t range[2])
{
	double low = 0, high = (double)(count - 1);
	if (fabs(step) > 1e-9) {
		double p = -start / step, q = (top - start) / step;
		low = fmax(low, ceil(fmin(p, q)));
		high = fmin(high, floor(fmax(p, q)));
	} else if (start < 0 || start > top) {
		high = -1;
	}
	range[0] = (int64_t)low;
	range[1] = high < low ? range[0] : (int64_t)high + 1;
}

static LineEnds ends_of(const Lines *l, const Direction *s, int64_t k)
{
	double start = s->at + (double)k, top = (double)(s->count[s->b] - 1);
	int64_t range[2], pixel[2];
	range_within(start, s->by, top, s->count[s->a], range);
	if (k < 2 || k > l->offsets - 3 || range[0] >= range[1])
		return (LineEnds){-1, -1};
	for (int end = 0; end < 2; end++) {
		int64_t at[2];
		at[s->a] = end ? range[1] - 1 : range[0];
		at[s->b] = (int64_t)(start + s->by * (double)at[s->a] + 0.5);
		pixel[end] = at[1] * s->count[0] + at[0];
	}
	return (LineEnds){(int32_t)pixel[0], (int32_t)pixel[1]};
}

static void take_direction(const void *user, int64_t angle, float *scratch)
{
	const Lines *l = user;
	(void)scratch;
	l->directions[angle] = direction_of(l, angle);
	for (int64_t k = 0; k < l->offsets; k++)
		l->ends[angle * l->offsets + k] = ends_of(l, &l->directions[angle], k);
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* A row of pixels, as lines k of [first, end) meet it: between pixels k and k + 1 of `values`. */
typedef struct {
	const float *values;
	float rest, part;
	int64_t first, end;
} CrossedRow;

/* used: pixels of the row that may differ from 0. */
static CrossedRow row_crossed(
	const Lines *l, const Direction *s, const float *image, int64_t i, const int64_t used[2])
{
	int64_t wide = s->count[s->b];
	double start = s->at + s->by * (double)i, whole = floor(start);
	float part = (float)(start - whole) * s->length;
	int64_t shift = (int64_t)whole, first = max64(used[0] - 1, 0),
		end = min64(used[1], wide - 1);
	return (CrossedRow){.values = image + i * wide + shift,
		.rest = s->length - part,
		.part = part,
		.first = max64(first - shift, 0),
		.end = min64(end - shift, l->offsets)};
}

static void add_row(const CrossedRow *r, int64_t first, int64_t end, float *sum)
{
	for (int64_t k = first; k < end; k++)
		sum[k] += r->rest * r->values[k] + r->part * r->values[k + 1];
}

enum { TOGETHER = 4 }; /* rows whose sums are read and written once */

static inline __attribute__((always_inline)) void add_four(
	const CrossedRow r[TOGETHER], int64_t first, int64_t end, float *restrict sum)
{
	const float *a = r[0].values, *b = r[1].values, *c = r[2].values, *d = r[3].values;
	float a0 = r[0].rest, a1 = r[0].part, b0 = r[1].rest, b1 = r[1].part;
	float c0 = r[2].rest, c1 = r[2].part, d0 = r[3].rest, d1 = r[3].part;
	for (int64_t k = first; k < end; k++)
		sum[k] += ((a0 * a[k] + a1 * a[k + 1]) + (b0 * b[k] + b1 * b[k + 1])) +
			  ((c0 * c[k] + c1 * c[k + 1]) + (d0 * d[k] + d1 * d[k + 1]));
}

static void add_rows_base(const CrossedRow *r, int64_t first, int64_t end, float *sum)
{
	add_four(r, first, end, sum);
}

#ifdef __x86_64__
__attribute__((target("avx2"))) static void add_rows_avx2(
	const CrossedRow *r, int64_t first, int64_t end, float *sum)
{
	add_four(r, first, end, sum);
}
#endif

static void add_rows(const CrossedRow *r, int64_t first, int64_t end, float *sum)
{
#ifdef __x86_64__
	if (__builtin_cpu_supports("avx2")) {
		add_rows_avx2(r, first, end, sum);
		return;
	}
#endif
	add_rows_base(r, first, end, sum);
}

/* The lines that meet all of the rows together, the others row by row. */
static void add_together(const CrossedRow r[TOGETHER], float *sum)
{
	int64_t first = 0, end = INT64_MAX;
	for (int j = 0; j < TOGETHER; j++) {
		first = max64(first, r[j].first);
		end = min64(end, r[j].end);
	}
	end = max64(end, first);
	for (int j = 0; j < TOGETHER; j++) {
		add_row(&r[j], r[j].first, min64(first, r[j].end), sum);
		add_row(&r[j], max64(end, r[j].first), r[j].end, sum);
	}
	add_rows(r, first, end, sum);
}

/* Joseph's sums; image: [pixel of a][pixel of b], 0 outside of `range`. */
static void sum_lines(
	const Lines *l, const Direction *s, const float *image, int64_t range[2][2], float *sum)
{
	const int64_t *used = range[s->b];
	int64_t i = range[s->a][0], end = range[s->a][1];
	CrossedRow r[TOGETHER];
	memset(sum, 0, (size_t)l->offsets * sizeof *sum);
	for (; i + TOGETHER <= end; i += TOGETHER) {
		for (int j = 0; j < TOGETHER; j++)
			r[j] = row_crossed(l, s, image, i + j, used);
		add_together(r, sum);
	}
	for (; i < end; i++) {
		r[0] = row_crossed(l, s, image, i, used);
		add_row(&r[0], r[0].first, r[0].end, sum);
	}
}

/* Derivatives across the lines, to fourth order. */
static void derive(const Lines *l, const Direction *s, const float *line, float *out)
{
	float scale = 1 / (12 * (float)s->across);
	for (int64_t k = 2; k < l->offsets - 2; k++)
		out[k] = scale * (8 * (line[k + 1] - line[k - 1]) - line[k + 2] + line[k - 2]);
}

/* Whether the object reaches an edge of the detector, where lines have their last two pixels. */
static bool is_cut(const Lines *l, const float *data)
{
	const int64_t n = l->coarse->orbit.columns, rows = l->coarse->orbit.rows;
	const float most = (float)TRUNCATED * l->most;
	bool cut = false;
	for (int64_t r = 0; r < rows && !cut; r++) {
		const float *row = data + r * n;
		const bool edge = r < 2 || r >= rows - 2;
		for (int64_t c = 0; c < n && edge && !cut; c++)
			cut = fabsf(row[c]) > most;
		for (int64_t c = 0; c < 2 && !cut; c++)
			cut = fabsf(row[c]) > most || fabsf(row[n - 1 - c]) > most;
	}
	return cut;
}

/* Lines that miss the detector, or end in the object, have no value. */
static void leave_out_cut(
	const Lines *l, const LineEnds *ends, bool cut, const float *data, float *out)
{
	float most = (float)TRUNCATED * l->most;
	int64_t first = 0, end = l->offsets;
	while (first < end && ends[first].first < 0)
		out[first++] = NAN;
	while (end > first && ends[end - 1].first < 0)
		out[--end] = NAN;
	for (int64_t k = first; k < end && cut; k++)
		if (fabsf(data[ends[k].first]) > most || fabsf(data[ends[k].last]) > most)
			out[k] = NAN;
}

/* Pixels are divided by the length of their rays. */
static void take_weights(const Lines *l)
{
	const Detector *d = &l->detector;
	int64_t n = l->coarse->orbit.columns, pixels = l->coarse->orbit.rows * n;
	for (int64_t i = 0; i < pixels; i++) {
		double x = (double)(i % n) - d->foot[0];
		double y = ((double)(i / n) - d->foot[1]) * l->high;
		l->weights[i] = (float)(1 / sqrt(d->far * d->far + x * x + y * y));
	}
}

/* Linear interpolation between pixels blurs, by a variance of 1/6 on average: less that. */
static void sharpen_row(float *row, int64_t count)
{
	float before = row[0];
	for (int64_t i = 1; i < count - 1; i++) {
		float here = row[i];
		row[i] = (14 * here - before - row[i + 1]) * (1 / 12.0F);
		before = here;
	}
}

/* Columns range[0] and rows range[1] outside of which an image is 0, sharpened or not. */
static void find_object(const float *image, int64_t rows, int64_t n, int64_t range[2][2])
{
	range[0][0] = n;
	range[1][0] = rows;
	range[0][1] = range[1][1] = 0;
	for (int64_t r = 0; r < rows; r++) {
		const float *row = image + r * n;
		int64_t first = 0, end = n;
		while (first < n && row[first] == 0)
			first++;
		while (end > first && row[end - 1] == 0)
			end--;
		if (first == end)
			continue;
		range[0][0] = max64(min64(range[0][0], first - 1), 0);
		range[0][1] = min64(max64(range[0][1], end + 1), n);
		range[1][0] = max64(min64(range[1][0], r - 1), 0);
		range[1][1] = min64(r + 2, rows);
	}
}

/* Images [row][column] and [column][row] of a view, divided by the length of rays and sharpened
 * along their lines. */
static void take_images(
	const Lines *l, const float *data, int64_t range[2][2], float *rowwise, float *columnwise)
{
	enum { BLOCK = 16 };
	const int64_t n = l->coarse->orbit.columns, rows = l->coarse->orbit.rows;
	for (int64_t i = 0; i < rows * n; i++)
		rowwise[i] = data[i] * l->weights[i];
	find_object(rowwise, rows, n, range);
	for (int64_t r0 = 0; r0 < rows; r0 += BLOCK)
		for (int64_t c = 0; c < n; c++)
			for (int64_t r = r0; r < min64(r0 + BLOCK, rows); r++)
				columnwise[c * rows + r] = rowwise[r * n + c];
	for (int64_t c = 0; c < n; c++)
		sharpen_row(columnwise + c * rows, rows);
	for (int64_t r = 0; r < rows; r++)
		sharpen_row(rowwise + r * n, n);
}

static void take_view(const void *user, int64_t view, float *scratch)
{
	const Lines *l = user;
	const int64_t pixels = l->coarse->orbit.rows * l->coarse->orbit.columns;
	const float *data = l->coarse->data + view * pixels;
	const bool cut = is_cut(l, data);
	float *columnwise = scratch, *rowwise = scratch + pixels, *line = scratch + 2 * pixels;
	int64_t range[2][2];
	take_images(l, data, range, rowwise, columnwise);
	for (int64_t a = 0; a < l->angles; a++) {
		const Direction *s = &l->directions[a];
		float *out = l->lines + (view * l->angles + a) * l->offsets;
		sum_lines(l, s, s->a == 0 ? columnwise : rowwise, range, line);
		derive(l, s, line, out);
		leave_out_cut(l, l->ends + a * l->offsets, cut, data, out);
	}
}

tomos_status lines_take(Lines *l, const Coarse *c)
{
	const Orbit *o = &c->orbit;
	l->coarse = c;
	l->high = o->height / o->width;
	l->angles = max64(o->columns, o->rows);
	l->offsets = o->columns + o->rows + 4;
	for (int64_t i = 0; i < o->views * o->rows * o->columns; i++)
		l->most = c->data[i] > l->most ? c->data[i] : l->most;
	TRY(mem_zeroed(&l->lines, o->views * l->angles * l->offsets, sizeof(float),
		"integrals along lines"));
	TRY(mem_alloc(&l->weights, o->rows * o->columns, sizeof(float), "weights of pixels"));
	take_weights(l);
	TRY(mem_alloc(&l->directions, l->angles, sizeof *l->directions, "directions of lines"));
	TRY(mem_alloc(&l->ends, l->angles * l->offsets, sizeof *l->ends, "ends of lines"));
	TRY(pieces_each(l->angles, 1, take_direction, l));
	return pieces_each(o->views, 2 * o->rows * o->columns + l->offsets, take_view, l);
}

void lines_free(Lines *l)
{
	mem_free(l->lines);
	mem_free(l->weights);
	mem_free(l->directions);
	mem_free(l->ends);
}

/* ---- values between lines -------------------------------------------------------------------- */

/* The line of angle + pi is that of -offset, with the opposite sign. */
bool line_place(const Lines *l, double angle, double offset, LinePlace *place)
{
	double per = (double)l->angles / M_PI, at = angle * per, whole = floor(at);
	float wa[4], da[4], wo[4], dw[4];
	cubic_weights(at - whole, wa, da);
	for (int i = 0; i < 4; i++) {
		int64_t a = (int64_t)whole + i - 1;
		bool flip = a < 0 || a >= l->angles;
		a += a < 0 ? l->angles : a >= l->angles ? -l->angles : 0;
		double across = flip ? -l->directions[a].across : l->directions[a].across;
		double k = offset / across + 0.5 * (double)(l->offsets - 1), low = floor(k);
		if (!(low >= 1 && low < (double)(l->offsets - 2)))
			return false;
		place->from[i] = a * l->offsets + (int64_t)low - 1;
		cubic_weights(k - low, wo, dw);
		float sign = flip ? -1 : 1, angles = (float)per, offsets = (float)(1 / across);
		for (int j = 0; j < 4; j++) {
			place->weight[i][j] = sign * wa[i] * wo[j];
			place->by_angle[i][j] = sign * da[i] * wo[j] * angles;
			place->by_offset[i][j] = sign * wa[i] * dw[j] * offsets;
		}
	}
	return true;
}

LineValue line_value(const Lines *l, int64_t view, int64_t other, const LinePlace *place)
{
	const float *first = l->lines + view * l->angles * l->offsets,
		    *second = l->lines + other * l->angles * l->offsets;
	float value[4] = {0}, by_angle[4] = {0}, by_offset[4] = {0};
	for (int i = 0; i < 4; i++) {
		const float *a = first + place->from[i], *b = second + place->from[i];
		for (int j = 0; j < 4; j++) {
			float mean = 0.5F * (a[j] + b[j]);
			value[j] += place->weight[i][j] * mean;
			by_angle[j] += place->by_angle[i][j] * mean;
			by_offset[j] += place->by_offset[i][j] * mean;
		}
	}
	return (LineValue){(value[0] + value[1]) + (value[2] + value[3]),
		(by_angle[0] + by_angle[1]) + (by_angle[2] + by_angle[3]),
		(by_offset[0] + by_offset[1]) + (by_offset[2] + by_offset[3])};
}
