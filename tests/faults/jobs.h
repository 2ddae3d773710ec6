/* What the campaigns over faults, growth and threads have backends do: projections with every
 * projector, filtered back projection, iterative methods and a stored matrix, on a stack, a cone
 * beam and free views. */
#ifndef TOMOS_TESTS_FAULTS_JOBS_H
#define TOMOS_TESTS_FAULTS_JOBS_H

#include "base/base.h" /* first: cmocka makes a macro of fail() */
#include "ops/cases.h"

typedef enum { STACK, CONE, FREE, SCENES } SceneKind;
typedef enum { FORWARD, BACK, FBP, FDK, METHOD, MATRIX } JobKind;

typedef struct {
	const char *name;
	SceneKind scene;
	JobKind kind;
	const char *word; /* projector or method */
} Job;

static const Job jobs[] = {{"joseph of a stack", STACK, FORWARD, "joseph"},
	{"joseph back of a stack", STACK, BACK, "joseph"},
	{"joseph of a cone beam", CONE, FORWARD, "joseph"},
	{"joseph back of a cone beam", CONE, BACK, "joseph"},
	{"line of a cone beam", CONE, FORWARD, "line"},
	{"line back of free views", FREE, BACK, "line"},
	{"line-march of free views", FREE, FORWARD, "line-march"},
	{"voxel back of a cone beam", CONE, BACK, "voxel"},
	{"footprint of a stack", STACK, FORWARD, "footprint"},
	{"footprint back of free views", FREE, BACK, "footprint"}, {"fbp", STACK, FBP, ""},
	{"fdk", CONE, FDK, ""}, {"sirt", CONE, METHOD, "sirt"}, {"sart", STACK, METHOD, "sart"},
	{"cgls", STACK, METHOD, "cgls"}, {"pdhg", STACK, METHOD, "pdhg"},
	{"fista", STACK, METHOD, "fista"}, {"art", STACK, METHOD, "art"},
	{"matrix", STACK, MATRIX, "joseph"}};

/* Geometry and data of one kind; what a job gives goes into `got`. */
typedef struct {
	tomos_grid grid;
	tomos_geometry *scan;
	int64_t volume[3], views[3], voxels, pixels;
	float *x, *y, *got;
} JobScene;

static inline JobScene scene_of(SceneKind kind)
{
	enum { JOB_VIEWS = 24, JOB_ROWS = 4, JOB_COLUMNS = 24 };
	double angles[JOB_VIEWS];
	JobScene s = {.grid = {{0}, {0}, {0}}};
	Case c = {.scan = NULL};
	for (int i = 0; i < JOB_VIEWS; i++)
		angles[i] = (kind == CONE ? 2 : 1) * M_PI * i / JOB_VIEWS;
	OK(tomos_grid_centred(&s.grid, JOB_COLUMNS, JOB_COLUMNS, JOB_ROWS, 1));
	if (kind == STACK)
		OK(tomos_geometry_parallel(&s.scan, JOB_ROWS, JOB_COLUMNS, 1, angles, JOB_VIEWS));
	else if (kind == CONE)
		OK(tomos_geometry_cone(
			&s.scan, JOB_ROWS, JOB_COLUMNS, 1.5, 60, 90, angles, JOB_VIEWS));
	else {
		c = case_make(8 + CASE_KINDS);
		s.scan = c.scan;
		s.grid = c.grid;
	}
	for (int a = 0; a < 3; a++)
		s.volume[a] = s.grid.n[2 - a];
	s.views[0] = tomos_geometry_count(s.scan);
	s.views[1] = tomos_geometry_rows(s.scan);
	s.views[2] = tomos_geometry_columns(s.scan);
	s.voxels = s.volume[0] * s.volume[1] * s.volume[2];
	s.pixels = s.views[0] * s.views[1] * s.views[2];
	s.x = case_data(&c, s.voxels);
	s.y = case_data(&c, s.pixels);
	s.got = calloc((size_t)(s.voxels + s.pixels), sizeof *s.got);
	return s;
}

static inline void scene_free(JobScene *s)
{
	tomos_geometry_free(s->scan);
	free(s->x), free(s->y), free(s->got);
}

static inline tomos_array volume_of(const JobScene *s, float *data)
{
	return tomos_array_of(data, s->volume[0], s->volume[1], s->volume[2]);
}

static inline tomos_array views_of(const JobScene *s, float *data)
{
	return tomos_array_of(data, s->views[0], s->views[1], s->views[2]);
}

static inline int64_t job_size(const Job *job, const JobScene *s)
{
	return job->kind == FORWARD ? s->pixels : s->voxels;
}

/* With an existing operator. */
static inline tomos_status job_apply(
	const Job *job, const JobScene *s, const tomos_op *op, float *got)
{
	tomos_array x = volume_of(s, s->x), y = views_of(s, s->y);
	tomos_array made = job->kind == FORWARD ? views_of(s, got) : volume_of(s, got);
	tomos_algebraic_options o = tomos_algebraic_defaults();
	o.iterations = 2;
	for (int64_t i = 0; i < job_size(job, s); i++)
		got[i] = 0;
	if (job->kind == FORWARD)
		return tomos_op_forward(op, &x, &made);
	if (job->kind == BACK || job->kind == MATRIX)
		return tomos_op_adjoint(op, &y, &made);
	return tomos_reconstruct(op, job->word, &y, &made, &o, NULL);
}

static inline tomos_status job_operator(
	const Job *job, tomos_backend *backend, const JobScene *s, tomos_op **op)
{
	tomos_projector_options o = tomos_projector_defaults();
	if (job->kind == MATRIX)
		return tomos_op_matrix(op, backend, &s->grid, s->scan, &o, NULL);
	if (job->kind != METHOD)
		o.forward = o.back = job->word;
	return tomos_op_projector(op, backend, &s->grid, s->scan, &o);
}

/* Computes the result into `got`; creates and frees all objects that it needs. */
static inline tomos_status job_run(
	const Job *job, tomos_backend *backend, const JobScene *s, float *got)
{
	tomos_array y = views_of(s, s->y), made = volume_of(s, got);
	tomos_op *op = NULL;
	if (job->kind == FBP)
		return tomos_fbp(backend, &s->grid, s->scan, &y, &made, NULL, NULL);
	if (job->kind == FDK)
		return tomos_fdk(backend, &s->grid, s->scan, &y, &made, NULL, NULL);
	tomos_status status = job_operator(job, backend, s, &op);
	if (status == TOMOS_OK)
		status = job_apply(job, s, op, got);
	tomos_op_free(op);
	return status;
}

#endif
