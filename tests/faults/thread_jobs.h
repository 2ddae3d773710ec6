/* Threads that work beside each other, on objects of their own and on shared ones: the results are
 * those of one thread, and each thread has its own messages. */
#ifndef TOMOS_TESTS_FAULTS_THREAD_JOBS_H
#define TOMOS_TESTS_FAULTS_THREAD_JOBS_H

#include "jobs.h"
#include <pthread.h>
#include <unistd.h>

enum { MOST_THREADS = 16 };

/* What all threads read: the scenes, what each job has to give, and operators on one backend. */
typedef struct {
	JobScene scenes[SCENES];
	float *expected[COUNT(jobs)];
	tomos_backend *backend;
	tomos_op *ops[COUNT(jobs)];
	int runs;
	char folder[64], scan[96];
	float *volume; /* what a run from that scan has to write */
} Shared;

typedef struct {
	const Shared *shared;
	int number, done;
	char wrong[512]; /* what went wrong; "": nothing */
} Worker;

static inline bool has_operator(const Job *job)
{
	return job->kind != JOB_FBP && job->kind != JOB_FDK && job->kind != JOB_PREPARE;
}

/* A scan in a file, which all threads reconstruct. */
static inline void write_stack(Shared *s)
{
	const JobScene *scene = &s->scenes[STACK];
	tomos_file *file;
	snprintf(s->scan, sizeof s->scan, "%s/scan.h5", s->folder);
	OK(tomos_file_create(&file, s->scan, TOMOS_PROJECTIONS, scene->views, NULL));
	OK(tomos_file_set_geometry(file, scene->scan));
	OK(tomos_file_write(file, 0, scene->views[0], scene->y));
	OK(tomos_file_commit(file));
	tomos_file_close(file);
}

/* From file to file, and the volume read back; the status of what failed. */
static inline tomos_status reconstruct(const Shared *s, const char *name, float *volume)
{
	char output[128];
	tomos_file_options o = tomos_file_defaults();
	tomos_file *file;
	o.overwrite = 1;
	snprintf(output, sizeof output, "%s/%s", s->folder, name);
	const tomos_job job = {.bytes = sizeof job,
		.scan = s->scan,
		.output = output,
		.backend = test_backend(),
		.file = &o};
	TRY(tomos_run(&job, NULL));
	TRY(tomos_file_open(&file, output, NULL));
	tomos_status status = tomos_file_read(file, 0, s->scenes[STACK].volume[0], volume);
	tomos_file_close(file);
	return status;
}

static inline void shared_make(Shared *s, int runs)
{
	s->runs = runs;
	strcpy(s->folder, "/tmp/tomos-threads-XXXXXX");
	assert_non_null(mkdtemp(s->folder));
	OK(tomos_backend_open(&s->backend, test_backend()));
	for (int k = 0; k < SCENES; k++)
		s->scenes[k] = scene_of((SceneKind)k);
	for (int i = 0; i < COUNT(jobs); i++) {
		const JobScene *scene = &s->scenes[jobs[i].scene];
		s->expected[i] = malloc((size_t)job_size(&jobs[i], scene) * sizeof(float));
		OK(job_run(&jobs[i], s->backend, scene, s->expected[i]));
		if (has_operator(&jobs[i]))
			OK(job_operator(&jobs[i], s->backend, scene, &s->ops[i]));
	}
	write_stack(s);
	s->volume = malloc((size_t)s->scenes[STACK].voxels * sizeof(float));
	OK(reconstruct(s, "expected.npy", s->volume));
}

static inline void shared_free(Shared *s)
{
	for (int i = 0; i < COUNT(jobs); i++) {
		tomos_op_free(s->ops[i]);
		free(s->expected[i]);
	}
	for (int k = 0; k < SCENES; k++)
		scene_free(&s->scenes[k]);
	tomos_backend_close(s->backend);
	free(s->volume);
	file_discard(s->folder);
}

/* A shared operator, a shared backend, or a backend of the thread's own, in turn. */
static inline tomos_status work_once(const Shared *s, const Job *job, int way, float *got)
{
	const JobScene *scene = &s->scenes[job->scene];
	const tomos_op *op = s->ops[job - jobs];
	tomos_backend *own = NULL;
	if (way == 0 && op)
		return job_apply(job, scene, op, got);
	if (way < 2)
		return job_run(job, s->backend, scene, got);
	tomos_status status = tomos_backend_open(&own, test_backend());
	if (status == TOMOS_OK)
		status = job_run(job, own, scene, got);
	tomos_backend_close(own);
	return status;
}

static inline void work_job(Worker *w, int run)
{
	const Shared *s = w->shared;
	const Job *job = &jobs[(w->number * 7 + run) % COUNT(jobs)];
	int64_t size = job_size(job, &s->scenes[job->scene]);
	float *got = malloc((size_t)size * sizeof *got);
	tomos_status status = work_once(s, job, run % 3, got);
	if (status != TOMOS_OK)
		snprintf(w->wrong, sizeof w->wrong, "%s: %s", job->name, tomos_message());
	else if (test_repeats()
			 ? memcmp(got, s->expected[job - jobs], (size_t)size * sizeof *got) != 0
			 : case_difference(got, s->expected[job - jobs], size) > 1e-5)
		snprintf(w->wrong, sizeof w->wrong, "%s, way %d: another result", job->name,
			run % 3);
	free(got);
}

/* A file of the thread's own there and back, and a message that is its own. */
static inline void work_files(Worker *w)
{
	static const char *const endings[] = {"h5", "npy", "tif", "mha"};
	const int64_t shape[3] = {1, 2, 2};
	float data[4] = {(float)w->number, 1, 2, 3}, got[4] = {0};
	char path[128], missing[32];
	tomos_file *file;
	tomos_file_options o = tomos_file_defaults();
	o.overwrite = 1;
	snprintf(path, sizeof path, "%s/%d.%s", w->shared->folder, w->number, endings[w->done % 4]);
	snprintf(missing, sizeof missing, "no-file-%d.npy", w->number);
	tomos_status status = tomos_file_create(&file, path, TOMOS_VOLUME, shape, &o);
	if (status == TOMOS_OK)
		status = tomos_file_write(file, 0, 1, data);
	if (status == TOMOS_OK)
		status = tomos_file_commit(file);
	tomos_file_close(file);
	if (status == TOMOS_OK && (status = tomos_file_open(&file, path, NULL)) == TOMOS_OK) {
		status = tomos_file_read(file, 0, 1, got);
		tomos_file_close(file);
	}
	if (status != TOMOS_OK || case_difference(got, data, 4) > 0)
		snprintf(w->wrong, sizeof w->wrong, "%s: %s", path, tomos_message());
	status = tomos_file_open(&file, missing, NULL);
	if (status == TOMOS_OK || !strstr(tomos_message(), missing))
		snprintf(
			w->wrong, sizeof w->wrong, "'%s' is not in '%s'", missing, tomos_message());
}

static inline void work_run(Worker *w)
{
	const Shared *s = w->shared;
	int64_t size = s->scenes[STACK].voxels;
	float *volume = calloc((size_t)size, sizeof *volume);
	char name[32];
	snprintf(name, sizeof name, "volume-%d.%s", w->number, w->done % 2 ? "npy" : "h5");
	if (reconstruct(s, name, volume) != TOMOS_OK)
		snprintf(w->wrong, sizeof w->wrong, "%s: %s", name, tomos_message());
	else if (case_difference(volume, s->volume, size) > (test_repeats() ? 0 : 1e-5))
		snprintf(w->wrong, sizeof w->wrong, "%s: another result", name);
	free(volume);
}

static inline void *work(void *user)
{
	Worker *w = user;
	for (; w->done < w->shared->runs && !w->wrong[0]; w->done++) {
		work_job(w, w->done);
		if (!w->wrong[0])
			work_files(w);
		if (!w->wrong[0] && w->done % 4 == 0)
			work_run(w);
	}
	return NULL;
}

static inline void run_threads(int threads, int runs)
{
	Shared s = {.runs = 0};
	Worker workers[MOST_THREADS];
	pthread_t handles[MOST_THREADS];
	int done = 0;
	int64_t before = mem_live();
	shared_make(&s, runs);
	for (int i = 0; i < threads; i++) {
		workers[i] = (Worker){.shared = &s, .number = i};
		assert_int_equal(pthread_create(&handles[i], NULL, work, &workers[i]), 0);
	}
	for (int i = 0; i < threads; i++) {
		pthread_join(handles[i], NULL);
		done += workers[i].done;
	}
	for (int i = 0; i < threads; i++)
		if (workers[i].wrong[0])
			fail_msg("thread %d, job %d: %s", i, workers[i].done, workers[i].wrong);
	shared_free(&s);
	assert_int_equal(mem_live(), before);
	printf("  %d jobs by %d threads\n", done, threads);
}

#endif
