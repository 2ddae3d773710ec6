/* Linear equations with few unknowns, and polynomials. */
#ifndef TOMOS_BASE_SOLVE_H
#define TOMOS_BASE_SOLVE_H

#include <stdbool.h>

/* Solves n equations by Gaussian elimination with pivots. Row i of `a`, `stride` numbers from the
 * next, has the n coefficients and the right side, which the solution replaces. False: singular. */
bool solve_equations(double *a, int n, int stride);

/* Whether the sum of c[k] x^(k+1) increases from x = 0 to `most`. */
bool polynomial_increases(const double *c, int terms, double most);

/* Interpolation by Catmull-Rom's cubic, a part t of the way from the second of four samples to the
 * third: the weights of the samples, and of the derivative. */
void cubic_weights(double t, float weight[4], float slope[4]);
/* Likewise of a cubic B-spline, of its coefficients. */
void spline_weights(double t, float weight[4], float slope[4]);

#endif
