/* Executes items of work on all lanes, one thread per lane, until all items are done or one has
 * failed. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include "backend/split/split.h"

struct LaneRun {
	Split *split;
	int64_t items;
	_Atomic int64_t next; /* next item to be started */
	LaneTask *task;
	void *user;
	pthread_mutex_t lock;
	pthread_cond_t moved;
	bool *done; /* per item */
	atomic_bool stop;
	const tomos_cancel *cancel; /* of the caller */
	tomos_status status;        /* of the first failure, with its message */
	char message[1024];
};

typedef struct {
	LaneRun *run;
	int number;
	pthread_t thread;
	bool started;
} Driver;

bool run_stopped(LaneRun *run)
{
	return atomic_load(&run->stop) || tomos_cancel_raised(run->cancel);
}

bool run_wait(LaneRun *run, int64_t item)
{
	pthread_mutex_lock(&run->lock);
	while (!run->done[item] && !run_stopped(run))
		pthread_cond_wait(&run->moved, &run->lock);
	bool done = run->done[item];
	pthread_mutex_unlock(&run->lock);
	return done;
}

/* After a failure: wakes all lanes that wait for an item. */
static void halt(LaneRun *run)
{
	atomic_store(&run->stop, true);
	pthread_cond_broadcast(&run->moved);
}

static void note(LaneRun *run, int64_t item, tomos_status status)
{
	pthread_mutex_lock(&run->lock);
	if (status == TOMOS_OK) {
		run->done[item] = true;
		pthread_cond_broadcast(&run->moved);
	} else if (!run_stopped(run)) {
		run->status = status;
		snprintf(run->message, sizeof run->message, "%s", tomos_message());
	}
	if (status != TOMOS_OK)
		halt(run);
	pthread_mutex_unlock(&run->lock);
}

static void *drive(void *user)
{
	const Driver *driver = user;
	LaneRun *run = driver->run;
	Lane *lane = &run->split->lanes[driver->number];
	lane->sent = -1;
	int64_t i;
	while ((i = atomic_fetch_add(&run->next, 1)) < run->items && !run_stopped(run))
		note(run, i, run->task(run, run->user, lane, i));
	pthread_mutex_lock(&run->lock);
	if (i < run->items) /* other lanes may be waiting for items that will not be started */
		halt(run);
	pthread_mutex_unlock(&run->lock);
	return NULL;
}

/* Starts a thread per lane; the calling thread uses the first lane. */
static void drive_all(LaneRun *run, Driver *drivers, int count)
{
	for (int i = 0; i < count; i++)
		drivers[i] = (Driver){.run = run, .number = i};
	for (int i = 1; i < count; i++) {
		int error = pthread_create(&drivers[i].thread, NULL, drive, &drivers[i]);
		drivers[i].started = error == 0;
		if (error)
			note(run, i,
				fail(TOMOS_NO_MEMORY, "no thread for a device: %s",
					strerror(error)));
	}
	drive(&drivers[0]);
	for (int i = 1; i < count; i++)
		if (drivers[i].started)
			pthread_join(drivers[i].thread, NULL);
}

tomos_status split_run(Split *split, int64_t items, LaneTask *task, void *user)
{
	LaneRun run = {.split = split,
		.items = items,
		.task = task,
		.user = user,
		.cancel = cancel_watched()};
	Driver *drivers;
	int count = (int)min64(split->count, items);
	if (items == 0)
		return TOMOS_OK;
	TRY(mem_alloc(&drivers, count, sizeof *drivers, "the lanes"));
	tomos_status status = mem_zeroed(&run.done, items, sizeof *run.done, "the pieces");
	if (status == TOMOS_OK) {
		pthread_mutex_init(&run.lock, NULL);
		pthread_cond_init(&run.moved, NULL);
		drive_all(&run, drivers, count);
		pthread_cond_destroy(&run.moved);
		pthread_mutex_destroy(&run.lock);
		status = run.status == TOMOS_OK ? TOMOS_OK : fail(run.status, "%s", run.message);
	}
	mem_free(run.done);
	mem_free(drivers);
	return status;
}
