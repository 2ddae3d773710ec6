/* Linear equations with few unknowns. */
#ifndef TOMOS_BASE_SOLVE_H
#define TOMOS_BASE_SOLVE_H

#include <stdbool.h>

/* Solves n equations by Gaussian elimination with pivots. Row i of `a`, `stride` numbers from the
 * next, has the n coefficients and the right side, which the solution replaces. False: singular. */
bool solve_equations(double *a, int n, int stride);

#endif
