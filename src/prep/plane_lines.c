/* Integrals along lines of the averaged views, of all directions. */
#include "prep/plane_lines.h"
#include <math.h>
#include <string.h>
#include "base/solve.h"

#define TRUNCATED 0.02 /* of the largest value, at an end of a line */

/* Images are interpolated along the rows of pixels that lines cross by cubic B-splines: they hold
 * the coefficients of these, BORDER more at both ends of a row. A pixel has a part in coefficients
 * up to SPREAD further. */
enum { BORDER = 1, SPREAD = 6 };

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

/* Where row i of the pixels of a meets the lines. */
static Crossing crossing_of(const Direction *s, int64_t i)
{
	Crossing c;
	double start = s->at + s->by * (double)i, whole = floor(start);
	float slopes[LINE_TAPS];
	spline_weights(start - whole, c.weights, slopes);
	for (int k = 0; k < LINE_TAPS; k++)
		c.weights[k] *= s->length;
	c.shift = (int64_t)whole;
	return c;
}

static void take_direction(const void *user, int64_t angle, float *scratch)
{
	const Lines *l = user;
	(void)scratch;
	l->directions[angle] = direction_of(l, angle);
	const Direction *s = &l->directions[angle];
	for (int64_t i = 0; i < s->count[s->a]; i++)
		l->crossings[angle * l->angles + i] = crossing_of(s, i);
	for (int64_t k = 0; k < l->offsets; k++)
		l->ends[angle * l->offsets + k] = ends_of(l, s, k);
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* A row of pixels, as lines k of [first, end) meet it: they have the coefficients from `values[k]`
 * on. */
typedef struct {
	const float *values;
	const float *weights;
	int64_t first, end;
} CrossedRow;

/* Row i of the pixels of a; used: those of its pixels that may differ from 0. */
static CrossedRow row_crossed(
	const Lines *l, int64_t angle, const float *image, int64_t i, const int64_t used[2])
{
	const Direction *s = &l->directions[angle];
	const Crossing *c = &l->crossings[angle * l->angles + i];
	int64_t wide = s->count[s->b], first = max64(used[0] - SPREAD - 2, 0),
		end = min64(used[1] + SPREAD + 1, wide - 1);
	return (CrossedRow){.values = image + i * (wide + 2 * BORDER) + c->shift,
		.weights = c->weights,
		.first = max64(first - c->shift, 0),
		.end = min64(end - c->shift, l->offsets)};
}

static void add_row(const CrossedRow *r, int64_t first, int64_t end, float *sum)
{
	const float *v = r->values, *w = r->weights;
	for (int64_t k = first; k < end; k++)
		sum[k] += (w[0] * v[k] + w[1] * v[k + 1]) + (w[2] * v[k + 2] + w[3] * v[k + 3]);
}

enum { TOGETHER = 2 }; /* rows whose sums are read and written once */

static inline __attribute__((always_inline)) void add_two(
	const CrossedRow r[TOGETHER], int64_t first, int64_t end, float *restrict sum)
{
	const float *a = r[0].values, *b = r[1].values;
	const float *v = r[0].weights, *w = r[1].weights;
	float v0 = v[0], v1 = v[1], v2 = v[2], v3 = v[3];
	float w0 = w[0], w1 = w[1], w2 = w[2], w3 = w[3];
	for (int64_t k = first; k < end; k++)
		sum[k] += ((v0 * a[k] + v1 * a[k + 1]) + (v2 * a[k + 2] + v3 * a[k + 3])) +
			  ((w0 * b[k] + w1 * b[k + 1]) + (w2 * b[k + 2] + w3 * b[k + 3]));
}

static void add_rows_base(const CrossedRow *r, int64_t first, int64_t end, float *sum)
{
	add_two(r, first, end, sum);
}

#ifdef __x86_64__
__attribute__((target("avx2"))) static void add_rows_avx2(
	const CrossedRow *r, int64_t first, int64_t end, float *sum)
{
	add_two(r, first, end, sum);
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

/* Sums along lines; image: [pixel of a][coefficient along b], 0 outside of `range`. */
static void sum_lines(
	const Lines *l, int64_t angle, const float *image, int64_t range[2][2], float *sum)
{
	const Direction *s = &l->directions[angle];
	const int64_t *used = range[s->b];
	int64_t i = range[s->a][0], end = range[s->a][1];
	CrossedRow r[TOGETHER];
	memset(sum, 0, (size_t)l->offsets * sizeof *sum);
	for (; i + TOGETHER <= end; i += TOGETHER) {
		for (int j = 0; j < TOGETHER; j++)
			r[j] = row_crossed(l, angle, image, i + j, used);
		add_together(r, sum);
	}
	for (; i < end; i++) {
		r[0] = row_crossed(l, angle, image, i, used);
		add_row(&r[0], r[0].first, r[0].end, sum);
	}
}

/* Derivatives across the lines, as coefficients of cubic B-splines: the derivative to sixth order,
 * and the inverse of what a spline makes of its coefficients, in one filter whose values on the
 * other side have the opposite sign. There are 0s beyond both ends of `line`. */
enum { DERIVES = 7 };
static void derive(const Lines *l, const Direction *s, const float *line, float *out)
{
	static const float taps[DERIVES] = {1.26833743F, -0.58740812F, 0.18410674F, -0.04933125F,
		0.01321827F, -0.00354182F, 0.00094903F};
	float scale = 1 / (float)s->across;
	for (int64_t k = 0; k < l->offsets; k++) {
		float sum = 0;
		for (int j = 0; j < DERIVES; j++)
			sum += taps[j] * (line[k + j + 1] - line[k - j - 1]);
		out[k] = scale * sum;
	}
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
	const float most = (float)TRUNCATED * l->most;
	for (int64_t k = 0; k < l->offsets; k++)
		if (ends[k].first < 0 || (cut && (fabsf(data[ends[k].first]) > most ||
							 fabsf(data[ends[k].last]) > most)))
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

/* The coefficients of a cubic B-spline through `count` values, which row[BORDER] is the first of;
 * beyond them it goes on with the last one. line: scratch. */
static void spline_row(float *row, int64_t count, float *line)
{
	static const float taps[SPREAD + 1] = {1.73205081F, -0.46410162F, 0.12435565F, -0.03332100F,
		0.00892833F, -0.00239234F, 0.00064103F};
	const float *from = line + SPREAD;
	for (int64_t i = 0; i < count + 2 * (SPREAD + BORDER); i++)
		line[i] = row[BORDER + min64(max64(i - SPREAD - BORDER, 0), count - 1)];
	for (int64_t i = 0; i < count + 2 * BORDER; i++) {
		float sum = taps[0] * from[i];
		for (int j = 1; j <= SPREAD; j++)
			sum += taps[j] * (from[i - j] + from[i + j]);
		row[i] = sum;
	}
}

/* Columns range[0] and rows range[1] outside of which an image is 0; stride: of its rows. */
static void find_object(
	const float *image, int64_t rows, int64_t n, int64_t stride, int64_t range[2][2])
{
	range[0][0] = n;
	range[1][0] = rows;
	range[0][1] = range[1][1] = 0;
	for (int64_t r = 0; r < rows; r++) {
		const float *row = image + r * stride;
		int64_t first = 0, end = n;
		while (first < n && row[first] == 0)
			first++;
		while (end > first && row[end - 1] == 0)
			end--;
		if (first == end)
			continue;
		range[0][0] = min64(range[0][0], first);
		range[0][1] = max64(range[0][1], end);
		range[1][0] = min64(range[1][0], r);
		range[1][1] = r + 1;
	}
}

/* Images [row][column] and [column][row] of a view, divided by the length of rays, as coefficients
 * along their lines. line: scratch. */
static void take_images(const Lines *l, const float *data, int64_t range[2][2], float *rowwise,
	float *columnwise, float *line)
{
	enum { BLOCK = 16 };
	const int64_t n = l->coarse->orbit.columns, rows = l->coarse->orbit.rows;
	const int64_t wide = n + 2 * BORDER, high = rows + 2 * BORDER;
	for (int64_t r = 0; r < rows; r++)
		for (int64_t c = 0; c < n; c++)
			rowwise[r * wide + BORDER + c] = data[r * n + c] * l->weights[r * n + c];
	find_object(rowwise + BORDER, rows, n, wide, range);
	for (int64_t r0 = 0; r0 < rows; r0 += BLOCK)
		for (int64_t c = 0; c < n; c++)
			for (int64_t r = r0; r < min64(r0 + BLOCK, rows); r++)
				columnwise[c * high + BORDER + r] = rowwise[r * wide + BORDER + c];
	for (int64_t c = range[0][0]; c < range[0][1]; c++)
		spline_row(columnwise + c * high, rows, line);
	for (int64_t r = range[1][0]; r < range[1][1]; r++)
		spline_row(rowwise + r * wide, n, line);
}

/* Floats of an image of `rows` rows, for any thread. */
static int64_t image_floats(int64_t rows, int64_t columns)
{
	return rows * (columns + 2 * BORDER);
}

static int64_t scratch_floats(const Lines *l)
{
	int64_t n = l->coarse->orbit.columns, rows = l->coarse->orbit.rows;
	return image_floats(rows, n) + image_floats(n, rows) + l->offsets + 2 * DERIVES;
}

static void take_view(const void *user, int64_t view, float *scratch)
{
	const Lines *l = user;
	const int64_t rows = l->coarse->orbit.rows, n = l->coarse->orbit.columns;
	const float *data = l->coarse->data + view * rows * n;
	const bool cut = is_cut(l, data);
	float *rowwise = scratch, *columnwise = rowwise + image_floats(rows, n),
	      *line = columnwise + image_floats(n, rows);
	int64_t range[2][2];
	take_images(l, data, range, rowwise, columnwise, line);
	memset(line, 0, (size_t)(l->offsets + 2 * DERIVES) * sizeof *line);
	for (int64_t a = 0; a < l->angles; a++) {
		const Direction *s = &l->directions[a];
		float *out = l->lines + (view * l->angles + a) * l->offsets;
		sum_lines(l, a, s->a == 0 ? columnwise : rowwise, range, line + DERIVES);
		derive(l, s, line + DERIVES, out);
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
	TRY(mem_alloc(&l->crossings, l->angles * l->angles, sizeof *l->crossings,
		"rows of pixels across lines"));
	TRY(mem_alloc(&l->ends, l->angles * l->offsets, sizeof *l->ends, "ends of lines"));
	TRY(pieces_each(l->angles, 1, take_direction, l));
	return pieces_each(o->views, scratch_floats(l), take_view, l);
}

void lines_free(Lines *l)
{
	mem_free(l->lines);
	mem_free(l->weights);
	mem_free(l->directions);
	mem_free(l->crossings);
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
		spline_weights(k - low, wo, dw);
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
