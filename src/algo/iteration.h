/* One run of an algebraic method: what it works on, what it holds, and what every iteration brings.
 * */
#ifndef TOMOS_ALGO_ITERATION_H
#define TOMOS_ALGO_ITERATION_H

#include "op/norm.h"
#include "op/subset.h"

/* A vector that lives as long as the it; `state` vectors and scalars are what a checkpoint saves.
 * */
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
	bool going; /* on to the next one */
	/* What the driver keeps. */
	Held *held;
	int64_t held_count, held_capacity;
	double *scalars[SCALARS];
	int scalar_count;
	tomos_op *weighted, *gradient;
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
	bool stopped;      /* by a rule of --stop */
	/* What a run that is cancelled within an iteration goes back to. */
	float *kept;   /* the iterate, while the volume changes */
	bool changing; /* since iteration_keep */
	bool state_kept;
	bool defers;                  /* a cancel, to the end of a short iteration */
	double began, seconds;        /* of the iteration under way, and of the last one */
	const tomos_cancel *deferred; /* the caller's flag, during a short iteration */
	double kept_scalars[SCALARS];
	int64_t saved; /* iterations of the checkpoint written last */
	/* What a checkpoint belongs to, and checksums for it where one is named. */
	char *settings;
	uint32_t start, data_sum, rays_sum, mask_sum;
} Iteration;

typedef tomos_status (*Method)(Iteration *it);
#define METHOD(function, name, needs, coupling, volumes, projections, options, help) \
	tomos_status function##_method(Iteration *it);
#include "algo/methods.def"
#undef METHOD

tomos_status iteration_vector(Iteration *it, float **data, const Space *space, const char *what);
tomos_status iteration_state(Iteration *it, float **data, const Space *space, const char *what);
void iteration_scalar(Iteration *it, double *scalar);

/* Copies o->history to the caller's. */
tomos_status iteration_give_history(const Iteration *it);
/* Before the first iteration, with the state set up: takes a checkpoint's state instead. */
tomos_status iteration_start(Iteration *it);
/* After each: what the caller sees, whether to go on. `r` is b - A x; without it its norm will do.
 * */
tomos_status iteration_iterated(Iteration *it, const float *r);
tomos_status iteration_iterated_norm(Iteration *it, double norm);

/* Before the volume changes: keeps the iterate, in `into` (a volume that stays as it is until the
 * end of the iteration) or in a vector of its own, in case the iteration is cancelled. After a short
 * iteration it defers the cancel to the end of the next one instead. */
tomos_status iteration_keep(Iteration *it, float *into);
/* For the driver: after a whole iteration; and when one was cancelled, whose checkpoint is written.
 * */
tomos_status keep_state(Iteration *it);
/* Watches the caller's flag again. */
void keep_resume_cancel(Iteration *it);
tomos_status keep_restore(Iteration *it);

/* r = b - A x */
tomos_status iteration_residual(const Iteration *it, float *r);
/* y += a w s inside the bounds, with y and s inside the mask; w NULL: 1. */
tomos_status iteration_step(const Iteration *it, float a, const float *w, const float *s, float *y);
/* y inside the bounds and the mask. */
tomos_status iteration_bound(const Iteration *it, float *y);
/* 1 in every voxel that counts. */
tomos_status iteration_ones(const Iteration *it, float *ones);
/* --norm, or an estimate of the norm of A; the vectors are scratch. */
tomos_status iteration_norm(const Iteration *it, const NormVectors *vectors, double *norm);
/* The gradient and its space, made at the first call. */
tomos_status iteration_gradient(Iteration *it, const tomos_op **gradient);

/* The rules of --stop but for "iterations". */
tomos_status stop_prepare(Iteration *it);
tomos_status stop_check(Iteration *it, const float *r, double norm, bool *stop);
bool stop_needs_residual(const Iteration *it);
/* How far the residual is from white noise: its normalised cumulative periodogram from a line. */
tomos_status stop_ncp(const Iteration *it, const float *r, double *number);

/* Before the work: rejects a name under which there is something else than a checkpoint. */
tomos_status checkpoint_check(const char *path);
tomos_status checkpoint_write(const Iteration *it);
/* *found: whether there was one; it->stopped: it was saved where the same rule had ended the run.
 * */
tomos_status checkpoint_read(Iteration *it, bool *found);

#endif
