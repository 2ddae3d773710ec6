/* Least squares with few unknowns: normal equations of blocks of data, their solution, and its
 * covariance from the scatter between the blocks. */
#ifndef TOMOS_PREP_NORMAL_H
#define TOMOS_PREP_NORMAL_H

#include <stdbool.h>

enum { NORMAL_MOST = 6, NORMAL_BLOCKS = 16 };

/* h = sum of J'J and g = sum of J'r over a block, J the derivatives of the residuals r. */
typedef struct {
	double h[NORMAL_MOST][NORMAL_MOST], g[NORMAL_MOST];
	double squares, energy; /* of the residuals, and of the data */
} Normal;

void normal_add(Normal *sum, const Normal *part);

/* The Gauss-Newton step of the unknowns whose bits are set in `free`, 0 for the others. covariance:
 * that of the result, which includes errors of the model as far as they differ between blocks.
 * False: the equations are singular. */
bool normal_solve(const Normal blocks[NORMAL_BLOCKS], unsigned free, double step[NORMAL_MOST],
	double covariance[NORMAL_MOST][NORMAL_MOST]);

/* The most by which residuals whose sum of squares is `squares` change the unknowns in `free`;
 * 0 for the others, and where the equations are singular. */
void normal_bound(
	const Normal blocks[NORMAL_BLOCKS], unsigned free, double squares, double out[NORMAL_MOST]);

/* Root of the sum of squares, relative to that of the data. */
double normal_residual(const Normal blocks[NORMAL_BLOCKS]);

#endif
