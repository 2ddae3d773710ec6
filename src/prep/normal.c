/* Normal equations with few unknowns. */
#include "prep/normal.h"
#include <math.h>
#include <string.h>

typedef struct {
	int count, index[NORMAL_MOST];
	double scale[NORMAL_MOST]; /* 1 / sqrt(diagonal): unknowns may differ in their units */
	double inverse[NORMAL_MOST][NORMAL_MOST];
} Solver;

/* Gauss-Jordan elimination with pivots on the diagonal: the matrix is positive definite. */
static bool invert(int n, double a[NORMAL_MOST][NORMAL_MOST], double out[NORMAL_MOST][NORMAL_MOST])
{
	for (int i = 0; i < n; i++)
		for (int j = 0; j < n; j++)
			out[i][j] = i == j;
	for (int k = 0; k < n; k++) {
		double pivot = a[k][k];
		if (!(pivot > 1e-12))
			return false;
		for (int j = 0; j < n; j++) {
			a[k][j] /= pivot;
			out[k][j] /= pivot;
		}
		for (int i = 0; i < n; i++) {
			double factor = a[i][k];
			for (int j = 0; j < n && i != k; j++) {
				a[i][j] -= factor * a[k][j];
				out[i][j] -= factor * out[k][j];
			}
		}
	}
	return true;
}

static bool prepare(Solver *s, const Normal *all, unsigned free)
{
	double scaled[NORMAL_MOST][NORMAL_MOST];
	s->count = 0;
	for (int i = 0; i < NORMAL_MOST; i++)
		if (free >> i & 1)
			s->index[s->count++] = i;
	for (int i = 0; i < s->count; i++) {
		double diagonal = all->h[s->index[i]][s->index[i]];
		if (!(diagonal > 0) || !isfinite(diagonal))
			return false;
		s->scale[i] = 1 / sqrt(diagonal);
	}
	for (int i = 0; i < s->count; i++)
		for (int j = 0; j < s->count; j++)
			scaled[i][j] = all->h[s->index[i]][s->index[j]] * s->scale[i] * s->scale[j];
	return invert(s->count, scaled, s->inverse);
}

/* out = H^-1 g for the free unknowns, 0 for the others. */
static void apply(const Solver *s, const double g[NORMAL_MOST], double out[NORMAL_MOST])
{
	memset(out, 0, NORMAL_MOST * sizeof *out);
	for (int i = 0; i < s->count; i++)
		for (int j = 0; j < s->count; j++)
			out[s->index[i]] +=
				s->scale[i] * s->inverse[i][j] * s->scale[j] * g[s->index[j]];
}

void normal_add(Normal *sum, const Normal *part)
{
	for (int i = 0; i < NORMAL_MOST; i++) {
		sum->g[i] += part->g[i];
		for (int j = 0; j < NORMAL_MOST; j++)
			sum->h[i][j] += part->h[i][j];
	}
	sum->squares += part->squares;
	sum->energy += part->energy;
}

static Normal sum_of(const Normal blocks[NORMAL_BLOCKS])
{
	Normal all = {.squares = 0};
	for (int b = 0; b < NORMAL_BLOCKS; b++)
		normal_add(&all, &blocks[b]);
	return all;
}

/* The deviation of a block from the result, H^-1 (g + H_b step); over all blocks these sum to 0. */
static void add_scatter(const Solver *s, const Normal *block, const double step[NORMAL_MOST],
	double covariance[NORMAL_MOST][NORMAL_MOST])
{
	double g[NORMAL_MOST], away[NORMAL_MOST];
	for (int i = 0; i < NORMAL_MOST; i++) {
		g[i] = block->g[i];
		for (int j = 0; j < NORMAL_MOST; j++)
			g[i] += block->h[i][j] * step[j];
	}
	apply(s, g, away);
	for (int i = 0; i < NORMAL_MOST; i++)
		for (int j = 0; j < NORMAL_MOST; j++)
			covariance[i][j] += away[i] * away[j] * NORMAL_BLOCKS /
					    (double)(NORMAL_BLOCKS - s->count);
}

bool normal_solve(const Normal blocks[NORMAL_BLOCKS], unsigned free, double step[NORMAL_MOST],
	double covariance[NORMAL_MOST][NORMAL_MOST])
{
	Normal all = sum_of(blocks);
	Solver s;
	memset(step, 0, NORMAL_MOST * sizeof *step);
	memset(covariance, 0, NORMAL_MOST * sizeof *covariance);
	if (!prepare(&s, &all, free))
		return false;
	apply(&s, all.g, step);
	for (int i = 0; i < NORMAL_MOST; i++)
		step[i] = -step[i];
	for (int b = 0; b < NORMAL_BLOCKS; b++)
		add_scatter(&s, &blocks[b], step, covariance);
	return true;
}

void normal_bound(
	const Normal blocks[NORMAL_BLOCKS], unsigned free, double squares, double out[NORMAL_MOST])
{
	Normal all = sum_of(blocks);
	Solver s;
	memset(out, 0, NORMAL_MOST * sizeof *out);
	if (!prepare(&s, &all, free))
		return;
	for (int i = 0; i < s.count; i++)
		out[s.index[i]] = s.scale[i] * sqrt(fmax(s.inverse[i][i], 0) * squares);
}

double normal_residual(const Normal blocks[NORMAL_BLOCKS])
{
	Normal all = sum_of(blocks);
	return all.energy > 0 ? sqrt(all.squares / all.energy) : 0;
}
