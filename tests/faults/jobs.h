/* What the campaigns over faults, growth and threads have backends do: projections with every
 * projector, filtered back projection, preparation, iterative methods and a stored matrix, on a
 * stack, a cone beam and free views. */
#ifndef TOMOS_TESTS_FAULTS_JOBS_H
#define TOMOS_TESTS_FAULTS_JOBS_H

#include "prep/device.h" /* first: cmocka makes a macro of fail() */
#include "ops/cases.h"

typedef enum { STACK, CONE, FREE, SCENES } SceneKind;
typedef enum {
	JOB_FORWARD,
	JOB_BACK,
	JOB_FBP,
	JOB_FDK,
	JOB_PREPARE,
	JOB_METHOD,
	JOB_MATRIX
} JobKind;

typedef struct {
	const char *name;
	SceneKind scene;
	JobKind kind;
	const char *word; /* projector, method, way of back projection, or ring removal */
} Job;

static const Job jobs[] = {{"joseph of a stack", STACK, JOB_FORWARD, "joseph"},
	{"joseph back of a stack", STACK, JOB_BACK, "joseph"},
	{"joseph of a cone beam", CONE, JOB_FORWARD, "joseph"},
	{"joseph back of a cone beam", CONE, JOB_BACK, "joseph"},
	{"line of a cone beam", CONE, JOB_FORWARD, "line"},
	{"line back of free views", FREE, JOB_BACK, "line"},
	{"line-march of free views", FREE, JOB_FORWARD, "line-march"},
	{"voxel back of a cone beam", CONE, JOB_BACK, "voxel"},
	{"footprint of a stack", STACK, JOB_FORWARD, "footprint"},
	{"footprint back of free views", FREE, JOB_BACK, "footprint"},
	{"fbp", STACK, JOB_FBP, "direct"}, {"fbp by Fourier transforms", STACK, JOB_FBP, "fourier"},
	{"fdk", CONE, JOB_FDK, ""}, {"preparation", STACK, JOB_PREPARE, "vo"},
	{"sirt", CONE, JOB_METHOD, "sirt"}, {"sart", STACK, JOB_METHOD, "sart"},
	{"cgls", STACK, JOB_METHOD, "cgls"}, {"pdhg", STACK, JOB_METHOD, "pdhg"},
	{"fista", STACK, JOB_METHOD, "fista"}, {"art", STACK, JOB_METHOD, "art"},
	{"matrix", STACK, JOB_MATRIX, "joseph"}};

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
	bool views = job->kind == JOB_FORWARD || job->kind == JOB_PREPARE;
	return views ? s->pixels : s->voxels;
}

/* With an existing operator. */
static inline tomos_status job_apply(
	const Job *job, const JobScene *s, const tomos_op *op, float *got)
{
	tomos_array x = volume_of(s, s->x), y = views_of(s, s->y);
	tomos_array made = job->kind == JOB_FORWARD ? views_of(s, got) : volume_of(s, got);
	tomos_algebraic_options o = tomos_algebraic_defaults();
	o.iterations = 2;
	for (int64_t i = 0; i < job_size(job, s); i++)
		got[i] = 0;
	if (job->kind == JOB_FORWARD)
		return tomos_op_forward(op, &x, &made);
	if (job->kind == JOB_BACK || job->kind == JOB_MATRIX)
		return tomos_op_adjoint(op, &y, &made);
	return tomos_reconstruct(op, job->word, &y, &made, &o, NULL);
}

static inline tomos_status job_operator(
	const Job *job, tomos_backend *backend, const JobScene *s, tomos_op **op)
{
	tomos_projector_options o = tomos_projector_defaults();
	if (job->kind == JOB_MATRIX)
		return tomos_op_matrix(op, backend, &s->grid, s->scan, &o, NULL);
	if (job->kind != JOB_METHOD)
		o.forward = o.back = job->word;
	return tomos_op_projector(op, backend, &s->grid, s->scan, &o);
}

/* Line integrals from .. to, in device memory. */
static inline tomos_status job_slab(
	tomos_backend *b, const JobScene *s, DevicePrep *prep, float *from, float *to)
{
	const int64_t *n = s->views;
	PrepSlab slab = {.out = to, .rows = n[1], .padded = n[1]};
	slab.views = (StoredBlock){.data = from,
		.type = STORED_FLOAT32,
		.shape = {n[0], n[1], n[2]},
		.stride = {n[1] * n[2], n[2], 1},
		.scale = 1};
	const tomos_array y = views_of(s, s->y);
	TRY(b->type->memory->upload(b, from, &y));
	TRY(device_prep_run(prep, &slab));
	return device_prep_report(prep, NULL);
}

/* On the device, if that has a preparation of its own. */
static inline tomos_status job_prepare(
	const Job *job, tomos_backend *b, const JobScene *s, float *got)
{
	static const int64_t bad[] = {3, 4};
	const PrepScan scan = {s->views[0], s->views[2], 0, 0, NULL};
	tomos_prep_options o = tomos_prep_defaults();
	tomos_array made = views_of(s, got);
	DevicePrep *prep;
	float *from = NULL, *to = NULL;
	tomos_status status;
	o.rings = job->word, o.bad_views = bad, o.bad_views_count = COUNT(bad);
	o.phase = "paganin", o.pixel = 0.01, o.distance = 2, o.energy = 20, o.delta_beta = 300;
	memcpy(got, s->y, (size_t)s->pixels * sizeof *got);
	if (!b->type->prepare)
		return tomos_prepare(&made, NULL, &o, &made, NULL, NULL);
	TRY(device_prep_open(&prep, b, &o, &scan));
	TRY_OR_DONE(b->type->memory->alloc(b, &from, s->pixels, "line integrals"));
	TRY_OR_DONE(b->type->memory->alloc(b, &to, s->pixels, "line integrals"));
	TRY_OR_DONE(job_slab(b, s, prep, from, to));
	status = b->type->memory->download(b, to, &made);
done:
	if (from)
		b->type->memory->release(b, from);
	if (to)
		b->type->memory->release(b, to);
	device_prep_close(prep);
	return status;
}

/* Computes the result into `got`; creates and frees all objects that it needs. */
static inline tomos_status job_run(
	const Job *job, tomos_backend *backend, const JobScene *s, float *got)
{
	tomos_array y = views_of(s, s->y), made = volume_of(s, got);
	tomos_analytic_options o = tomos_analytic_defaults();
	tomos_op *op = NULL;
	if (backend->type->fourier && job->kind == JOB_FBP)
		o.by = job->word;
	if (job->kind == JOB_FBP)
		return tomos_fbp(backend, &s->grid, s->scan, &y, &made, &o, NULL);
	if (job->kind == JOB_FDK)
		return tomos_fdk(backend, &s->grid, s->scan, &y, &made, NULL, NULL);
	if (job->kind == JOB_PREPARE)
		return job_prepare(job, backend, s, got);
	tomos_status status = job_operator(job, backend, s, &op);
	if (status == TOMOS_OK)
		status = job_apply(job, s, op, got);
	tomos_op_free(op);
	return status;
}

#endif
