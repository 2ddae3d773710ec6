/* Iterative reconstruction in a run: files besides the scan, the operator of a slab, and the
 * history of iterations. */
#ifndef TOMOS_RUN_ITERATIVE_H
#define TOMOS_RUN_ITERATIVE_H

#include "algo/demands.h"
#include "run/run.h"

/* Number of slices that are reconstructed together if a method couples them by sums. Fixed, so that
 * results do not depend on the memory. */
enum { GROUP_SLICES = 16 };

/* Iterations of some slices: squares of residual and error after each, which add up over slabs. */
typedef struct {
	int64_t first, count; /* slices of the output */
	int64_t iterations;
	double data, truth;       /* squares of the norms */
	double *residual, *error; /* error NULL: there is no truth */
	const char *ended;        /* why; lasts longer than the run */
} Iterations;

/* Files read along with a slab. */
typedef enum { FILE_START, FILE_MASK, FILE_RAYS, FILE_TRUTH, FILE_COUNT } SlabFile;

typedef struct {
	tomos_algebraic_options o;
	Demand demand;
	bool grouped;        /* sums run over groups of GROUP_SLICES slices, counted from slice 0 */
	bool in_groups;      /* slabs are these groups: because of the sums or of checkpoints, */
	bool group_files;    /* which are files of groups */
	int64_t checkpoints; /* files that exist */
	bool whole;          /* all slices must be in one slab, because: */
	const char *why;
	tomos_file *files[FILE_COUNT]; /* NULL: none is named */
	const char *names[FILE_COUNT];
	float *arrays[FILE_COUNT]; /* of one slab; start: NULL, it is read into the volume */
	tomos_op *op; /* for slabs of `op_slices` slices, which all use the same operator */
	int64_t op_slices;
	Iterations
		*slabs; /* of each slab of this run; iterations 0: not done, or by an earlier run */
	int64_t slab_count, slab_capacity;
	Iterations *earlier; /* iterations recorded in the journal of an earlier run */
	int64_t earlier_count, earlier_capacity;
	int64_t before; /* iterations in the checkpoint that the last slab continued from */
	bool probing;   /* a trial: nothing is recorded or saved */
} Iterative;

/* A line of the journal about iterations, without the line break; to be freed. */
tomos_status iterations_text(char **text, const Iterations *iterations);
/* Parses such a line and adds it to the earlier ones; false: it is damaged. */
bool iterations_read(Iterative *it, const char *line);
/* The lines of all slabs of this run; and the slabs of such lines, added to those of this run. */
tomos_status iterations_list(char **text, const Iterative *it);
void iterations_add_list(Iterative *it, const char *text);
/* Combines residual and error of all slabs into the caller's history and the report. */
void iterations_sum(const Iterative *it, tomos_run_report *report);
/* The most of any slab. */
int64_t iterations_most(const Iterative *it);
/* Why the last slab ended that did not do all iterations; "iterations": all did. */
const char *iterations_ended(const Iterative *it);
void iterations_free(Iterations *iterations);

#endif
