/* The stages of a run: reading and writing have a thread of their own each; preparation and
 * reconstruction share the caller's, as both use all cores or the device. Between two stages there
 * are two buffers, one being filled and one being emptied.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "run/run_parts.h"

/* With TOMOS_CLOCK=thread, the processor time of the calling thread: for tests of the model of run
 * times, as other processes change it less. */
double run_now(void)
{
	const char *choice = getenv("TOMOS_CLOCK");
	bool own = choice && strcmp(choice, "thread") == 0;
	struct timespec t;
	clock_gettime(own ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void gate_make(Gate *g)
{
	*g = (Gate){.put = 0};
	pthread_mutex_init(&g->lock, NULL);
	pthread_cond_init(&g->moved, NULL);
}

static void gate_free(Gate *g)
{
	pthread_cond_destroy(&g->moved);
	pthread_mutex_destroy(&g->lock);
}

/* Waits until there is a free (ahead 2) or a full (ahead 0) buffer; false when the other side
 * ended. */
static bool gate_wait(Gate *g, bool filling)
{
	pthread_mutex_lock(&g->lock);
	while (!g->ended && (filling ? g->put - g->taken == 2 : g->put == g->taken))
		pthread_cond_wait(&g->moved, &g->lock);
	bool there = filling ? !g->ended : g->put > g->taken;
	pthread_mutex_unlock(&g->lock);
	return there;
}

void gate_move(Gate *g, bool filling)
{
	pthread_mutex_lock(&g->lock);
	*(filling ? &g->put : &g->taken) += 1;
	pthread_cond_broadcast(&g->moved);
	pthread_mutex_unlock(&g->lock);
}

static void gate_end(Gate *g)
{
	pthread_mutex_lock(&g->lock);
	g->ended = true;
	pthread_cond_broadcast(&g->moved);
	pthread_mutex_unlock(&g->lock);
}

/* Error messages are per thread; those of a stage are copied for the caller. */
static void keep_message(char text[512], tomos_status status)
{
	if (status != TOMOS_OK)
		snprintf(text, 512, "%s", tomos_message());
}

/* ---- busy times ---------------------------------------------------------------------------- */

void stage_begin(Stages *s, int stage)
{
	pthread_mutex_lock(&s->lock);
	s->since[stage] = run_now();
	pthread_mutex_unlock(&s->lock);
}

void stage_end(Stages *s, int stage)
{
	pthread_mutex_lock(&s->lock);
	s->seconds[stage] += run_now() - s->since[stage];
	s->since[stage] = 0;
	pthread_mutex_unlock(&s->lock);
}

void slab_done(Stages *s, Work work, const Slab *slab, double start)
{
	pthread_mutex_lock(&s->lock);
	stage_fit_add(&s->fits[work], slab->count, run_now() - start);
	pthread_mutex_unlock(&s->lock);
}

void stages_publish(Stages *s)
{
	tomos_run_report *p = s->run->report;
	double now = run_now();
	pthread_mutex_lock(&s->lock);
	for (int i = 0; i < TOMOS_STAGES; i++) {
		double busy = s->since[i] > 0 ? now - s->since[i] : 0;
		p->stage_seconds[i] = s->before[i] + s->seconds[i] + busy;
		if (p->stage_seconds[i] > p->stage_seconds[p->limiting])
			p->limiting = i;
	}
	pthread_mutex_unlock(&s->lock);
}

/* ---- slabs in their order ------------------------------------------------------------------ */

/* The slab after the last one, as thick as the model of the stages says. */
static const Slab *cut_slab(Stages *s)
{
	const FileRun *r = s->run;
	int64_t last[3] = {0, 0, 0}, left = r->share.first + r->share.count - s->next;
	Slab *slab = &s->cuts[s->turn_count];
	if (left == 0)
		return NULL;
	for (int64_t i = max64(0, s->turn_count - 3); i < s->turn_count; i++)
		last[i - s->turn_count + 3] = s->turns[i].slab->count;
	*slab = (Slab){.first = s->next, .count = next_thickness(&r->limits, s->fits, last, left)};
	slab_rows(r, slab);
	s->next += slab->count;
	return slab;
}

static const Slab *next_slab(Stages *s)
{
	const FileRun *r = s->run;
	if (r->adapts)
		return cut_slab(s);
	return s->next < r->slab_count ? &r->slabs[s->next++] : NULL;
}

/* Of a slab that is not written yet. Rows that are on the device already are not read again. */
static bool add_turn(Stages *s)
{
	const FileRun *r = s->run;
	const Resident *d = r->resident;
	const Turn *before = s->turn_count > 0 ? &s->turns[s->turn_count - 1] : NULL;
	const Slab *slab = next_slab(s);
	while (slab && slab_left(r, slab) == 0)
		slab = next_slab(s);
	if (!slab || !s->turns)
		return false;
	int64_t row = before ? before->slab->row : d ? d->row : 0;
	int64_t rows = before ? before->slab->rows : d ? d->row_count : 0;
	bool fresh = !(r->rows_once && slab->row == row && slab->rows == rows);
	s->turns[s->turn_count++] = (Turn){slab, fresh, before ? before->read + before->fresh : 0};
	return true;
}

const Turn *turn_at(Stages *s, int64_t i)
{
	const Turn *turn = NULL;
	pthread_mutex_lock(&s->lock);
	while (s->turn_count <= i && add_turn(s)) {
	}
	if (i < s->turn_count)
		turn = &s->turns[i];
	pthread_mutex_unlock(&s->lock);
	return turn;
}

/* A turn whose rows are read. Rows that all slabs share are read for the first one at most. */
static const Turn *fresh_turn(Stages *s, int64_t i)
{
	const Turn *turn = s->run->rows_once && i > 0 ? NULL : turn_at(s, i);
	return turn && turn->fresh ? turn : NULL;
}

/* ---- the stages ---------------------------------------------------------------------------- */

static void *read_stage(void *user)
{
	Stages *s = user;
	tomos_cancel_on(s->cancel);
	for (int64_t i = 0; s->read_status == TOMOS_OK && gate_wait(&s->in, true); i++) {
		const Turn *turn = fresh_turn(s, i);
		double start = run_now();
		if (!turn)
			break;
		stage_begin(s, TOMOS_STAGE_READ);
		s->read_status = slab_read(s, turn);
		stage_end(s, TOMOS_STAGE_READ);
		slab_done(s, WORK_READ, turn->slab, start);
		if (s->read_status == TOMOS_OK)
			gate_move(&s->in, true);
	}
	keep_message(s->read_message, s->read_status);
	gate_end(&s->in);
	return NULL;
}

static void *write_stage(void *user)
{
	Stages *s = user;
	tomos_cancel_on(s->cancel);
	s->write_status = slab_open_writing(s->run); /* while the first slab is computed */
	for (int64_t i = 0; s->write_status == TOMOS_OK && gate_wait(&s->out, false); i++) {
		const Turn *turn = &s->turns[i];
		double start = run_now();
		stage_begin(s, TOMOS_STAGE_WRITE);
		s->write_status = s->finish(s, turn, (int)(i % 2));
		stage_end(s, TOMOS_STAGE_WRITE);
		slab_done(s, WORK_WRITE, turn->slab, start);
		if (s->write_status == TOMOS_OK)
			gate_move(&s->out, false);
	}
	keep_message(s->write_message, s->write_status);
	gate_end(&s->out);
	return NULL;
}

static tomos_status compute_stage(Stages *s)
{
	const Turn *turn;
	for (int64_t i = 0; (turn = turn_at(s, i)); i++) {
		if (s->run->resident && !s->run->iterates) /* while its rows are read */
			TRY(slab_analytic(s->run, turn->slab));
		if ((turn->fresh && !gate_wait(&s->in, false)) || !gate_wait(&s->out, true))
			return TOMOS_OK; /* another stage failed and has the error message */
		TRY(slab_compute(s, turn, (int)(i % 2)));
		gate_move(&s->out, true);
	}
	if (s->run->resident && !s->run->iterative.probing) /* while the last slab is written */
		resident_end_input(s->run->resident);
	return TOMOS_OK;
}

/* ---- buffers and threads ------------------------------------------------------------------- */

static tomos_status turns_make(Stages *s)
{
	const FileRun *r = s->run;
	int64_t most = r->adapts ? r->share.count : r->slab_count;
	s->next = r->adapts ? r->share.first : 0;
	TRY(mem_zeroed(&s->turns, most, sizeof *s->turns, "the slabs"));
	return r->adapts ? mem_zeroed(&s->cuts, most, sizeof *s->cuts, "the slabs") : TOMOS_OK;
}

/* Host memory: everything, the rows that the device cannot prepare, or only volumes that are looked
 * at (`floats`). */
static tomos_status host_make(Stages *s, bool floats)
{
	const FileRun *r = s->run;
	const tomos_geometry *g = r->prepared->geometry;
	bool rows = !r->resident || !r->resident->prep;
	int64_t buffers = min64(2, r->slab_count);
	if (rows)
		TRY(mem_alloc(&s->rows, g->count * r->most_lines * g->columns, sizeof(float),
			"prepared rows"));
	for (int i = 0; i < buffers; i++) {
		if (rows)
			TRY(raw_alloc(&s->raw[i], r->prepared, r->most_rows));
		if (!r->resident || floats)
			TRY(mem_alloc(&s->volumes[i], r->most_slices * r->grid.n[1] * r->grid.n[0],
				sizeof(float), "a slab of the volume"));
	}
	return TOMOS_OK;
}

static tomos_status stages_make(Stages *s, bool floats)
{
	FileRun *r = s->run;
	int buffers = (int)min64(2, r->slab_count),
	    bytes = r->resident ? r->resident->encoding.bytes : 0;
	const ResidentSize size = {.raw_rows = r->most_rows,
		.rows = r->most_lines,
		.slices = r->most_slices,
		.slice = r->grid.n[1] * r->grid.n[0],
		.stored = bytes < (int)sizeof(float) ? bytes : 0,
		.buffers = {r->rows_once ? 1 : buffers, buffers}};
	TRY(turns_make(s));
	s->checked = r->resident && r->backend->type->vector->encode;
	if (r->resident)
		TRY(resident_fit(r->resident, r->prepared, &size));
	return host_make(s, floats);
}

static tomos_status stages_start(Stages *s, pthread_t threads[2])
{
	if (pthread_create(&threads[0], NULL, read_stage, s) != 0)
		return fail(TOMOS_NO_MEMORY, "no thread to read with");
	if (pthread_create(&threads[1], NULL, write_stage, s) == 0)
		return TOMOS_OK;
	gate_end(&s->in);
	pthread_join(threads[0], NULL);
	return fail(TOMOS_NO_MEMORY, "no thread to write with");
}

static tomos_status first_failure(const Stages *s, tomos_status status, const char *message)
{
	if (status != TOMOS_OK)
		return fail(status, "%s", message);
	if (s->read_status != TOMOS_OK)
		return fail(s->read_status, "%s", s->read_message);
	if (s->write_status != TOMOS_OK)
		return fail(s->write_status, "%s", s->write_message);
	return TOMOS_OK;
}

tomos_status stages_run(Stages *s)
{
	pthread_t threads[2];
	TRY(stages_start(s, threads));
	tomos_status status = compute_stage(s);
	char message[512];
	keep_message(message, status);
	gate_end(&s->in);
	gate_end(&s->out);
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	s->run->values = s->values;
	return first_failure(s, status, message);
}

/* Times and bytes of the stages, and which of them set the duration of the run. Transfers are timed
 * in several threads, which have ended. */
static void stages_report(Stages *s)
{
	tomos_run_report *p = s->run->report;
	const Resident *d = s->run->resident;
	for (int i = 0; i < TOMOS_STAGES; i++)
		p->stage_bytes[i] += s->bytes[i];
	if (d) {
		s->seconds[TOMOS_STAGE_UPLOAD] = ring_seconds(&d->up);
		s->seconds[TOMOS_STAGE_DOWNLOAD] = ring_seconds(&d->down);
		s->before[TOMOS_STAGE_UPLOAD] = s->before[TOMOS_STAGE_DOWNLOAD] = 0;
		p->stage_bytes[TOMOS_STAGE_UPLOAD] = d->up.bytes;
		p->stage_bytes[TOMOS_STAGE_DOWNLOAD] = d->down.bytes;
	}
	stages_publish(s);
	p->read_seconds = p->stage_seconds[TOMOS_STAGE_READ];
	p->write_seconds = p->stage_seconds[TOMOS_STAGE_WRITE];
	p->written_bytes = p->stage_bytes[TOMOS_STAGE_WRITE];
	p->cut = s->cut + s->run->cut;
}

tomos_status stages_with(FileRun *r, tomos_status (*work)(Stages *s), bool floats)
{
	Stages *s;
	TRY(mem_zeroed(&s, 1, sizeof *s, "the stages of a run"));
	s->run = r;
	s->finish = slab_write;
	s->cancel = cancel_asked();
	pthread_mutex_init(&s->lock, NULL);
	memcpy(s->before, r->report->stage_seconds, sizeof s->before);
	gate_make(&s->in);
	gate_make(&s->out);
	tomos_status status = stages_make(s, floats);
	if (status == TOMOS_OK)
		status = work(s);
	stages_report(s);
	for (int i = 0; i < 2; i++) {
		raw_free(&s->raw[i]);
		mem_free(s->volumes[i]);
	}
	mem_free(s->rows);
	mem_free(s->turns);
	mem_free(s->cuts);
	gate_free(&s->in);
	gate_free(&s->out);
	pthread_mutex_destroy(&s->lock);
	mem_free(s);
	return status;
}
