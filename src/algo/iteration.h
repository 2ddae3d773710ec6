/* One run of an algebraic method: its input, its vectors, and the functions called around every
 * iteration. */
#ifndef TOMOS_ALGO_ITERATION_H
#define TOMOS_ALGO_ITERATION_H

#include "op/norm.h"
#include "op/subset.h"

/* A vector that exists until the end of the run. `state` vectors and scalars are saved in
 * checkpoints. */
typedef struct {
	float *data;
	const Space *space;
	bool state;
	float *copy; /* of a state vector after the last whole iteration, or NULL */
} Held;

enum { SCALARS = 24 };

typedef struct {
	const char *method;
	const tomos_op *A; /* rays weighted, voxels masked */
	const Space *X, *Y;
	const float *b; /* weighted likewise */
	float *x;
	const float *rays, *mask; /* roots of the weights; 1 inside; NULL: all the same */
	float low, high;
	const tomos_algebraic_options *o;
	tomos_history *history; /* the caller's, brought up to date from o->history; NULL: none */
	const tomos_progress *progress;
	int64_t k;  /* iterations done */
	bool going; /* there is a next iteration */
	/* Managed by the functions below. */
	Held *held;
	int64_t held_count, held_capacity;
	double *scalars[SCALARS];
	int scalar_count;
	tomos_op *weighted, *gradient, *normal;
	Subsets subsets;
	Space field; /* of the gradient */
	double b_norm, truth_norm, last, least_error, best_at;
	double reference; /* norm that residuals are compared with: of the data, or at the start */
	bool from_zero;   /* the start image is 0 */
	int64_t cache;    /* floats of voxel weights that may be kept and not computed again */
	bool part;        /* of a volume: see Within */
	Vector truth;
	float *best, *old_x, *old_r, *residual;
	const char *ended; /* why the iteration ended */
	bool stopped;      /* ended by a rule of --stop */
	/* The state that a run cancelled within an iteration is reset to. */
	float *kept;   /* the iterate, while the volume changes */
	bool changing; /* since iteration_keep */
	bool was_zero; /* the iterate was 0, so that nothing was copied */
	bool state_kept;
	bool defers;                  /* postpones a cancellation to the end of a short iteration */
	double began, seconds;        /* of the iteration under way, and of the last one */
	const tomos_cancel *deferred; /* the caller's flag, during a short iteration */
	double kept_scalars[SCALARS];
	int64_t saved; /* iterations of the checkpoint written last */
	/* Settings that a checkpoint must agree with, and checksums for it if one is named. */
	char *settings;
	uint32_t start, data_sum, rays_sum, mask_sum;
} Iteration;

typedef tomos_status (*Method)(Iteration *it);
#define METHOD(function, ...) tomos_status function##_method(Iteration *it);
#include "algo/methods.def"
#undef METHOD

tomos_status iteration_vector(Iteration *it, float **data, const Space *space, const char *what);
tomos_status iteration_state(Iteration *it, float **data, const Space *space, const char *what);
void iteration_scalar(Iteration *it, double *scalar);

/* Copies o->history to the caller's. */
tomos_status iteration_give_history(const Iteration *it);
/* To be called before the first iteration, when the state is initialised: replaces it by that of a
 * checkpoint, if there is one. */
tomos_status iteration_start(Iteration *it);
/* To be called after each iteration: reports to the caller and decides whether to continue. `r` is
 * b - A x; if it is not available, its norm suffices. */
tomos_status iteration_iterated(Iteration *it, const float *r);
tomos_status iteration_iterated_norm(Iteration *it, double norm);

/* To be called before the volume changes: keeps the iterate in case the iteration is cancelled, in
 * `into` (a volume that does not change until the end of the iteration) or in a separate vector. If
 * the last iteration was short, a cancellation is deferred to the end of this one instead, and
 * nothing is copied. */
tomos_status iteration_keep(Iteration *it, float *into);
/* For the driver. keep_state: called after a complete iteration, saves the state. keep_restore:
 * called when an iteration was cancelled, restores that state for the checkpoint. */
tomos_status keep_state(Iteration *it);
/* Ends the deferral: observes the caller's cancel flag again. */
void keep_resume_cancel(Iteration *it);
tomos_status keep_restore(Iteration *it);

/* r = b - A x */
tomos_status iteration_residual(const Iteration *it, float *r);
/* The same at the start, and y = w r unless w is NULL. A volume of zeros is not projected. */
tomos_status iteration_first_residual(const Iteration *it, const float *w, float *r, float *y);
/* y += a w s, clamped to the bounds, with y and s restricted to the mask; w NULL: 1. */
tomos_status iteration_step(const Iteration *it, float a, const float *w, const float *s, float *y);
/* Clamps y to the bounds and sets it to 0 outside the mask. */
tomos_status iteration_bound(const Iteration *it, float *y);
/* Sets voxels inside the mask to 1, others to 0. */
tomos_status iteration_ones(const Iteration *it, float *ones);
/* --norm, or an estimate of the norm of A; the vectors are scratch. */
tomos_status iteration_norm(const Iteration *it, const NormVectors *vectors, double *norm);
/* Number of axes of the gradient: x, y and, if the penalty compares neighbouring slices, z. */
int gradient_parts(const Iteration *it);
/* The gradient operator, and its space; created at the first call. */
tomos_status iteration_gradient(Iteration *it, const tomos_op **gradient);

/* Replaces operator and data by those of op_normal, if --normal and the operator of the caller
 * permit it. */
tomos_status iteration_choose_normal(Iteration *it, const tomos_op *op);

/* The rules of --stop, except for "iterations". */
tomos_status stop_prepare(Iteration *it);
tomos_status stop_check(Iteration *it, const float *r, double norm, bool *stop);
bool stop_needs_residual(const Iteration *it);
/* Distance of the residual from white noise: deviation of its normalised cumulative periodogram
 * from a straight line. */
tomos_status stop_ncp(const Iteration *it, const float *r, double *number);

/* Rejects a path at which there is a file that is not a checkpoint; to be called before the
 * work. */
tomos_status checkpoint_check(const char *path);
tomos_status checkpoint_write(const Iteration *it);
/* *found: whether there is a checkpoint. it->stopped: it was saved when the same rule of --stop had
 * ended the run. */
tomos_status checkpoint_read(Iteration *it, bool *found);

#endif
