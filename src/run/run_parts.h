/* What the files of a run share: the run itself, its slabs, its stages. */
#ifndef TOMOS_RUN_RUN_PARTS_H
#define TOMOS_RUN_RUN_PARTS_H

#include <pthread.h>
#include "comm/comm.h"
#include "op/ranked.h"
#include "op/slab_group.h"
#include "run/iterative.h"
#include "run/resident.h"
#include "run/thickness.h"
#include "run/share.h"

enum {
	SLABS = 8,
	THICK = 16
}; /* smallest number of slabs, and smallest thickness, if memory allows */

typedef struct {
	int64_t first, count;   /* slices of the whole grid */
	int64_t row, rows;      /* prepared rows that these need */
	int64_t before, padded; /* stacked: slices computed before the first one, and in total */
} Slab;

/* A backend that a thread is opening. */
typedef struct {
	pthread_t thread;
	bool begun; /* the thread must be waited for */
	const tomos_job *job;
	const tomos_comm *comm; /* the ranks of a machine take its devices in turn */
	tomos_backend *backend;
	tomos_status status;
	char message[512];
} Opening;

void opening_begin(Opening *opening, const tomos_job *job, const tomos_comm *comm);
/* Waits for the thread; *backend is valid until opening_close, which may be called without the
 * others. */
tomos_status opening_end(Opening *opening, tomos_backend **backend);
void opening_close(Opening *opening);

typedef struct {
	tomos_job taken; /* copy of the caller's job */
	const tomos_job *job;
	const tomos_progress *progress;
	double begun, shown; /* when; seconds that the function `look` took */
	tomos_run_options options;
	tomos_prepared *whole;    /* all views, and those of this rank: */
	tomos_prepared *prepared; /* `whole`, or `part` */
	tomos_prepared part;
	Opening opening;
	tomos_backend *backend;
	const char *method, *stage; /* stage: name in reports of progress */
	char *output;
	tomos_grid grid; /* of all slices, before --rows */
	int64_t first_slice, slices;
	tomos_comm *comm;      /* ranks that do the job together; NULL: one process */
	Share share;           /* of this rank: the slices that its slabs consist of, */
	Share own_share;       /* and those that it writes: some of a slab that ranks share */
	SlabGroup group;       /* the ranks that share a slab and divide its views */
	bool together;         /* several ranks iterate on one volume, */
	tomos_backend *ranked; /* with vectors of this backend, */
	Bands bands;    /* and the detector rows of these, unless the slices have their own; of
			   ranks that share slabs: their slices */
	bool disagreed; /* a rank has failed, and all know it */
	bool stacked;   /* slice k needs row k + first_row only */
	int64_t first_row;
	Slab *slabs;
	int64_t slab_count, thickest;
	ThicknessLimits limits;
	bool adapts; /* the thickness of slabs follows the times of the stages, within the limits */
	int64_t most_rows,
		most_lines;  /* of a slab: rows of the scan, prepared rows with padding, */
	int64_t most_slices; /* and slices computed */
	double memory, planned;
	double least_memory; /* of all ranks */
	int64_t near; /* number of consecutive ranks that compute in the memory of one machine; 1:
			 none do */
	int64_t device_limit;  /* bytes that the device may use; 0: all that are free */
	double planned_device; /* bytes; 0: data are in host memory */
	double kept; /* bytes of unpacked chunks of the scan that stay in memory; 0: none */
	Journal journal;
	tomos_file_options file_options;
	double window[2]; /* found from the data, if none was given */
	Preview preview;
	File *file;
	tomos_run_report own, *report; /* of the run, or of a trial */
	_Atomic bool
		useless; /* the data cannot be reconstructed, so nothing is kept for a later run */
	bool lasting;    /* the journal belongs to this run, and a later run can continue it */
	int64_t values;  /* that were prepared */
	int64_t owned_rows;    /* of the projections, iterating together; 0: those of the slab */
	int64_t done;          /* slices, those of an earlier run included */
	int64_t cut;           /* values of that run beyond the window of integers */
	Resident *resident;    /* NULL: data are in host memory */
	bool rows_once;        /* all slabs are computed from the same rows, in device memory */
	Analytic *analytic;    /* of the last slab; all slabs of a stack use the same one */
	int64_t analytic_rows; /* that it has */
	Iterative iterative;
	bool iterates;             /* the method is iterative */
	tomos_analytic_options by; /* of the job, where --by auto was replaced in them, */
	char by_why[256];          /* for this reason */
	bool metal;                /* metal artefacts are reduced, in host memory */
	MetalFound metal_found;
	bool truncated;         /* reported: the object is wider than the detector */
	bool compared_flats;    /* with the projections, and reported where they do not fit */
	bool compared_quantity; /* with what line integrals are like, and reported if unlike */
	bool compared_columns;  /* over the views, and reported where they do not vary */
	bool dead_columns;      /* were among these, in the middle row */
	bool stopped;           /* cancelled, with a whole iterate in the volume */
	tomos_file *compare;    /* the volume that the result is compared with, or NULL */
} FileRun;

double run_now(void);                                       /* seconds */
const char *run_default_method(const tomos_geometry *scan); /* where none is named */

/* ---- the plan ----------------------------------------------------------------------------- */

/* stacked, iterates and iterative.in_groups are set. */
ShareRule run_share_rule(const FileRun *run, int64_t ranks);
void slab_rows(const FileRun *run, Slab *slab); /* those that its slices need */
/* Slabs of run->share. */
tomos_status run_plan(FileRun *run);
tomos_status run_cut(FileRun *run, int64_t count); /* again: `count` of equal thickness */
/* Memory in bytes that does not depend on the slabs. */
double run_fixed_bytes(const FileRun *run);
/* Whether fbp back projects by Fourier transforms; memory of these transforms for `count` slices, 0
 * if the job has none: of the backend, which is host memory for the cpu. */
bool run_by_fourier(const FileRun *run);
double run_fourier_bytes(const FileRun *run, int64_t count);
/* Replaces --by auto, when the backend is open. */
tomos_status run_choose_by(FileRun *run);
/* Warns where a large job would run a reference kernel. */
tomos_status run_say_slow(const FileRun *run);

/* Warns of views that are all the same, and of a limited angular range of analytic methods. */
tomos_status run_say_angles(const FileRun *run);

/* Warns once where the prepared rows of a slab, data[view][lines][column], do not end in air, or
 * are brighter than the flats. */
tomos_status run_say_truncated(FileRun *run, const Slab *slab, const float *data, int64_t lines);

/* The option `hu`: checked, and applied to voxels of a slab where these are. */
tomos_status run_check_units(const FileRun *run);
tomos_status run_convert_units(FileRun *run, int64_t count, float *volume);
/* Values of a truth in Hounsfield units, or in attenuation, become those of the result
 * (`hounsfield`) or of iterates. */
tomos_status run_match_truth(
	const FileRun *run, const File *file, bool hounsfield, int64_t count, float *values);

/* ---- iterative methods --------------------------------------------------------------------- */

bool run_is_iterative(const char *method);
tomos_status iterative_take(FileRun *run); /* options and names of the job */
tomos_status iterative_plan(FileRun *run); /* whether there may be several slabs */
tomos_status iterative_open(FileRun *run); /* files besides the scan, checked */
tomos_status iterative_checkpoints(FileRun *run);
/* The checkpoint file of a slab. If there are several slabs, on this rank or another, its name
 * contains the slices; ranks that iterate together have one file. To be freed. */
tomos_status slab_checkpoint(const FileRun *run, const Slab *slab, char **path);
bool checkpoints_in_groups(const FileRun *run);
tomos_status checkpoints_say(FileRun *run); /* collective */
void iterative_close(Iterative *iterative);
tomos_status iterative_operator(FileRun *run, const Slab *slab); /* in run->iterative */
/* The volume of a slab from its prepared rows. A run of one slab that is cancelled after an
 * iteration at least succeeds, with `stopped` set. */
tomos_status iterative_slab(
	FileRun *run, const Slab *slab, float *data, float *volume, const tomos_progress *progress);
/* tomos_array_check of numbers from a file. */
tomos_status run_check_numbers(const tomos_array *array, const char *path);
/* A volume given beside the scan: warns where its grid or (of a truth) its unit does not fit. A
 * truth in Hounsfield units needs a result in these units. */
tomos_status run_check_volume(const FileRun *run, const tomos_file *file, bool truth);

/* A note in the journal: first slice of the output, slices, values beyond the window in them. */
#define CUT_NOTE "cut %lld %lld %lld"

/* ---- the output --------------------------------------------------------------------------- */

tomos_status run_identity(const FileRun *run, Identity *identity);
/* Where nothing stands in the way, creates the output while the backend is opened, so that memory
 * for large files is allocated meanwhile. */
tomos_status output_begin_early(FileRun *run);
tomos_status output_create(FileRun *run);               /* by one process, or rank 0 */
tomos_status output_put_iterations(const FileRun *run); /* those of all ranks, by rank 0 */
tomos_status output_put_grid(const FileRun *run);       /* with the units */
/* Compares the output with the volume that the job names, slab by slab; the result is in the
 * report. */
tomos_status run_compare(FileRun *run);
int64_t slab_left(const FileRun *run, const Slab *slab); /* slices that are not written yet */

/* ---- ranks: collective calls, which do nothing more than is needed where there is one -------- */

/* Sets the share of this rank, and whether ranks iterate together. */
tomos_status run_divide(FileRun *run);
void run_divide_free(FileRun *run);
tomos_status run_say_ranks(const FileRun *run);
/* Ranks with the same device divide its memory. Finds which ranks are on one machine, and the
 * memory that all have at least. */
tomos_status run_share_device(FileRun *run);
/* Iterating together: prepares for it, when the backend is open; reduces the prepared rows to those
 * that the rank owns; iterates, with cancellations that all ranks see at the same time. A failure
 * of one rank ends all, as the others wait for it. */
tomos_status together_open(FileRun *run);
void together_pack(FileRun *run, const Slab *slab, float *rows);
tomos_status together_iterate(FileRun *run, const tomos_progress *progress,
	tomos_status (*iterate)(void *user, const tomos_progress *progress), void *user);
tomos_status together_cache(const FileRun *run, int64_t voxels, int64_t *cache);
/* Ranks that share a slab: how many of `ranks` (1: none do), */
tomos_status run_view_groups(const FileRun *run, int64_t ranks, int64_t *groups);
/* the views of one of them, and all views again; */
tomos_status run_take_views(FileRun *run, int64_t group, int64_t groups);
void run_all_views(FileRun *run);
/* pieces of the slab that are the same on all of them; */
tomos_status run_same_slabs(FileRun *run);
/* the sum of what they have computed from their views, in the slices that this rank owns; */
tomos_status run_sum_views(FileRun *run, const Slab *slab, float *volume);
Share slab_own(const FileRun *run, const Slab *slab); /* these slices */
/* and a failure of one, which ends all. */
tomos_status run_end_all(const FileRun *run, tomos_status status);
/* The failure of the first rank that failed, on every rank. After it, nothing is collective. */
tomos_status run_agree(FileRun *run, tomos_status status);
/* Whether there are slices enough for this number of ranks. */
bool run_ranks_fit(const FileRun *run, int64_t ranks);
tomos_status run_check_ranks(const FileRun *run, int64_t ranks);
tomos_status run_open_output(FileRun *run);
tomos_status run_commit(FileRun *run);
/* Brings the iterations of all slabs to rank 0. */
tomos_status run_collect_iterations(FileRun *run);
tomos_status run_collect_report(FileRun *run);
/* Rejects a scan of `values` values, on this rank, if none of any rank was usable. */
tomos_status run_check_usable(FileRun *run, int64_t values);
/* The window of integers: the range of the values of all ranks, `volume` those of this one. */
tomos_status run_take_range(FileRun *run, const float *volume);

/* Pictures of a coarse reconstruction, where pictures are wanted and the geometry allows it. */
tomos_status run_look_early(FileRun *run);
/* All pictures, which rank 0 draws: before the first slab, and when the output is complete. */
tomos_status run_begin_preview(FileRun *run);
tomos_status run_write_preview(FileRun *run);
/* Calls the function `look` of the job. */
void run_show(FileRun *run);

/* ---- the stages --------------------------------------------------------------------------- */

/* Two buffers between a stage and the next. */
typedef struct {
	pthread_mutex_t lock;
	pthread_cond_t moved;
	int64_t put, taken; /* buffers filled and emptied so far */
	bool ended;         /* nothing will be put or taken any more */
} Gate;

void gate_move(Gate *gate, bool filling); /* a buffer was filled, or emptied */

/* A slab to be done; fresh: its rows are read, number `read` of those that are. */
typedef struct {
	const Slab *slab;
	bool fresh;
	int64_t read;
} Turn;

/* What is done with a slab, each by one thread: stages at the same time. */
typedef enum { WORK_READ, WORK_COMPUTE, WORK_WRITE, WORKS } Work;

typedef struct Stages Stages;
struct Stages {
	FileRun *run;
	/* The last stage: slab_write, or what a trial does with its slices. */
	tomos_status (*finish)(Stages *stages, const Turn *turn, int at);
	Turn *turns;
	Slab *cuts;               /* of a run that adapts its slabs: one per turn */
	int64_t turn_count, next; /* next: slice that has no turn yet, or slab of the plan */
	Gate in, out;
	RawSlab raw[2];       /* host memory: counts, */
	float *rows;          /* prepared rows */
	float *volumes[2];    /* and volumes; NULL: in the memory of the device */
	bool checked;         /* values of volumes that reach the host are finite */
	pthread_mutex_t lock; /* guards the busy times and the turns */
	StageFit fits[WORKS]; /* of times of slabs */
	double seconds[TOMOS_STAGES], since[TOMOS_STAGES]; /* since: 0, or when work began */
	double before[TOMOS_STAGES]; /* the same of earlier stages of the run */
	double bytes[TOMOS_STAGES];  /* each of one thread */
	_Atomic int64_t cut;         /* values beyond the window */
	int64_t encoded_cut[2];      /* likewise, of a slab that the device has encoded */
	int64_t values;              /* that were prepared */
	const tomos_cancel *cancel;  /* the caller's flag, for the threads of the stages */
	tomos_status read_status, write_status;
	char read_message[512], write_message[512];
};

/* Allocates all buffers and calls `work`; floats: slab_floats will be called. */
tomos_status stages_with(FileRun *run, tomos_status (*work)(Stages *stages), bool floats);
tomos_status stages_run(Stages *stages);
/* Around the work of a stage, whose busy time any thread may ask for. */
void stage_begin(Stages *stages, int stage);
void stage_end(Stages *stages, int stage);
/* A slab was read, computed or written; the work began at `start`. */
void slab_done(Stages *stages, Work work, const Slab *slab, double start);
/* The slab whose turn is i, counted from 0; NULL: there is none. */
const Turn *turn_at(Stages *stages, int64_t i);
/* Busy times so far, and which is the longest, into the report. */
void stages_publish(Stages *stages);
/* Calls `work` for slabs that are given by their slices, without an output, for their times and
 * their window. */
tomos_status run_probe(FileRun *whole, const char *stage, Slab *slabs, int64_t count,
	tomos_status (*work)(Stages *), double window[2], tomos_run_report *report);
/* The window of integers, from a few slices. */
tomos_status run_choose_window(FileRun *run);
/* Says how long the run will take. */
tomos_status run_say_time(FileRun *run);
tomos_status slab_read(Stages *stages, const Turn *turn);
/* The rows of a slab, unless they are those of the last one. What was read may be overwritten
 * afterwards. */
tomos_status slab_prepare(Stages *stages, const Turn *turn, const tomos_progress *progress);
/* Opens the analytic method for a slab: the last one, if that fits. */
tomos_status slab_analytic(FileRun *run, const Slab *slab);
/* at: the buffer of the volume, 0 or 1. */
tomos_status slab_compute(Stages *stages, const Turn *turn, int at);
/* In device memory: the slices in the type of the output; rejects values that are not finite. */
tomos_status slab_encode(Stages *stages, const Turn *turn, int at);
/* Memory that slices are downloaded to, which takes a moment, unless it is there. */
tomos_status slab_open_writing(const FileRun *r);
tomos_status slab_write(Stages *stages, const Turn *turn, int at);
/* The slices of a volume buffer, as floats in host memory. */
tomos_status slab_floats(Stages *stages, const Turn *turn, int at, float **volume);

#endif
