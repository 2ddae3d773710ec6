/* What the methods that search for the rotation axis have in common: order of the views, scores,
 * standard errors, ends of the range. */
#include <stdlib.h>
#include "prep/axis.h"

#define AT_END 0.25 /* columns: half a step of the search */

static int by_angle(const void *a, const void *b)
{
	const AxisView *x = a, *y = b;
	int side = (x->angle > y->angle) - (x->angle < y->angle);
	return side ? side : (x->view > y->view) - (x->view < y->view);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

tomos_status axis_sort(const AxisProblem *p, AxisView **views, double *step)
{
	int64_t count = p->data->shape[0];
	double *gaps;
	*views = NULL;
	TRY(mem_alloc(&gaps, count, sizeof *gaps, "steps between angles"));
	tomos_status status = mem_alloc(views, count, sizeof **views, "sorted angles");
	if (status == TOMOS_OK) {
		for (int64_t i = 0; i < count; i++) {
			double angle = fmod(p->angles[i], 2 * M_PI);
			(*views)[i] = (AxisView){angle < 0 ? angle + 2 * M_PI : angle, i};
		}
		qsort(*views, (size_t)count, sizeof **views, by_angle);
		for (int64_t i = 0; i + 1 < count; i++)
			gaps[i] = (*views)[i + 1].angle - (*views)[i].angle;
		qsort(gaps, (size_t)(count - 1), sizeof *gaps, by_value);
		*step = count > 1 ? gaps[(count - 1) / 2] : 0;
	}
	mem_free(gaps);
	return status;
}

bool axis_full_turn(const AxisView *views, int64_t count, double step)
{
	double widest = 2 * M_PI - views[count - 1].angle + views[0].angle;
	for (int64_t i = 0; i + 1 < count; i++)
		widest = fmax(widest, views[i + 1].angle - views[i].angle);
	return widest < fmax(4 * step, 0.1);
}

double axis_confidence(const double *scores, int64_t count, int64_t best, int64_t apart)
{
	double second = -HUGE_VAL, least = HUGE_VAL;
	for (int64_t i = 0; i < count; i++) {
		least = fmin(least, scores[i]);
		if (llabs(i - best) > apart)
			second = fmax(second, scores[i]);
	}
	double spread = scores[best] - least;
	if (!(spread > 0))
		return 0;
	return second < least ? 1 : (scores[best] - second) / spread;
}

void axis_scores(AxisAnswer *answer, const double *scores, int64_t count, double first, double step)
{
	int64_t by = (count + TOMOS_AXIS_SCORES - 1) / TOMOS_AXIS_SCORES;
	answer->scores = by > 0 ? (count + by - 1) / by : 0;
	answer->score_first = first + 0.5 * (double)(by - 1) * step;
	answer->score_step = step * (double)by;
	for (int64_t i = 0; i < answer->scores; i++) {
		answer->score[i] = scores[i * by];
		for (int64_t k = i * by; k < min64((i + 1) * by, count); k++)
			answer->score[i] = fmax(answer->score[i], scores[k]);
	}
}

double axis_error(const double *answers, int64_t count)
{
	double sum = 0, squares = 0, n = (double)count;
	for (int64_t i = 0; i < count; i++)
		sum += answers[i];
	for (int64_t i = 0; i < count; i++)
		squares += (answers[i] - sum / n) * (answers[i] - sum / n);
	return count > 1 ? sqrt(squares / (n * (n - 1))) : NAN;
}

double axis_top(double before, double here, double after)
{
	double bend = before - 2 * here + after;
	double top = bend < 0 ? 0.5 * (before - after) / bend : 0;
	return fmin(fmax(top, -0.5), 0.5);
}

void axis_slopes(const float *row, int64_t n, float *out)
{
	static const float weight[4] = {14, 14, 6, 1};
	for (int64_t c = 0; c < n; c++) {
		float sum = 0;
		for (int64_t k = 1; k <= 4; k++)
			sum += weight[k - 1] * (row[min64(c + k, n - 1)] - row[max64(c - k, 0)]);
		out[c] = sum;
	}
}

bool axis_at_end(const AxisProblem *p, double column)
{
	return column - p->low < AT_END || p->high - column < AT_END;
}

/* The search in half columns starts before the range, and its refinement may leave it. */
void axis_settle(const AxisProblem *p, AxisAnswer *answer)
{
	answer->column = fmin(fmax(answer->column, p->low), p->high);
	answer->at_edge |= axis_at_end(p, answer->column);
}
