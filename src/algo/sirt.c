/* SIRT with inverse row and column sums: x += lambda C A' R (b - A x).
 *
 * P. Gilbert 1972; Pedersen and Lindhøj 2018, eq. (2). R and C are the inverse row and column sums of
 * A, zero for rays that meet nothing and voxels that no ray meets.
 */
#include "algo/algo.h"

tomos_status sirt(const tomos_op *A, const float *b, float *x, const tomos_sirt_options *o,
	const tomos_progress *p)
{
	const Space *X = &A->domain, *Y = &A->range;
	float *R = NULL, *C = NULL, *r = NULL, *s = NULL;
	double norm;
	tomos_status status;
	TRY_OR_DONE(vector_new(&R, Y, "row sums"));
	TRY_OR_DONE(vector_new(&C, X, "column sums"));
	TRY_OR_DONE(vector_new(&r, Y, "the residual"));
	TRY_OR_DONE(vector_new(&s, X, "the update"));
	TRY_OR_DONE(vector_fill(X, 1, s));
	TRY_OR_DONE(op_forward(A, s, R));
	TRY_OR_DONE(vector_invert(Y, 1e-6F, R));
	TRY_OR_DONE(vector_fill(Y, 1, r));
	TRY_OR_DONE(op_adjoint(A, r, C));
	TRY_OR_DONE(vector_invert(X, 1e-6F, C));
	for (int64_t k = 0; k < o->iterations; k++) {
		TRY_OR_DONE(op_forward(A, x, r));        /* r = A x */
		TRY_OR_DONE(vector_xpay(Y, b, -1, r));   /* r = b - A x */
		TRY_OR_DONE(vector_norm(Y, r, &norm));
		TRY_OR_DONE(vector_mul(Y, R, r));        /* R r */
		TRY_OR_DONE(op_adjoint(A, r, s));        /* s = A' R r */
		TRY_OR_DONE(vector_mul_axpy(X, (float)o->relaxation, C, s, x));
		TRY_OR_DONE(vector_clamp(X, (float)o->minimum, (float)o->maximum, x));
		TRY_OR_DONE(progress_report(p, "sirt", k + 1, o->iterations, norm));
	}
done:
	vector_free(R, Y);
	vector_free(C, X);
	vector_free(r, Y);
	vector_free(s, X);
	return status;
}
