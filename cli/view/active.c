/* A thread that looks whether clients are still there while their requests are answered: a browser
 * closes the connection of a picture that is no longer wanted, and reading it then ends. */
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include "active.h"

enum { INTERVAL = 30 }; /* milliseconds */

typedef struct entry {
	tomos_cancel flag; /* the first member: entries are known by it */
	int connection;
	bool used;
} entry;

static struct {
	pthread_mutex_t lock;
	pthread_t thread;
	bool running, ending;
	entry list[VIEW_CONNECTIONS + 1];
} active = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool has_gone(int connection)
{
	struct pollfd look = {.fd = connection, .events = POLLRDHUP};
	return connection >= 0 && poll(&look, 1, 0) > 0 &&
	       (look.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

static void *watch(void *user)
{
	bool ending = false;
	(void)user;
	while (!ending) {
		pthread_mutex_lock(&active.lock);
		for (int i = 0; i < COUNT(active.list); i++)
			if (active.list[i].used && has_gone(active.list[i].connection))
				tomos_cancel_raise(&active.list[i].flag);
		ending = active.ending;
		pthread_mutex_unlock(&active.lock);
		(void)poll(NULL, 0, INTERVAL);
	}
	return NULL;
}

bool active_start(void)
{
	active.ending = false;
	active.running = pthread_create(&active.thread, NULL, watch, NULL) == 0;
	return active.running;
}

void active_stop(void)
{
	pthread_mutex_lock(&active.lock);
	active.ending = true;
	for (int i = 0; i < COUNT(active.list); i++)
		if (active.list[i].used)
			tomos_cancel_raise(&active.list[i].flag);
	pthread_mutex_unlock(&active.lock);
	if (active.running)
		pthread_join(active.thread, NULL);
	active.running = false;
}

tomos_cancel *active_begin(int connection)
{
	entry *found = NULL;
	pthread_mutex_lock(&active.lock);
	for (int i = 0; i < COUNT(active.list) && !active.ending && !found; i++)
		if (!active.list[i].used)
			found = &active.list[i];
	if (found) {
		found->used = true;
		found->connection = connection;
		tomos_cancel_clear(&found->flag);
	}
	pthread_mutex_unlock(&active.lock);
	if (!found)
		return NULL;
	tomos_cancel_on(&found->flag);
	return &found->flag;
}

void active_end(tomos_cancel *flag)
{
	tomos_cancel_on(NULL);
	pthread_mutex_lock(&active.lock);
	((entry *)flag)->used = false;
	pthread_mutex_unlock(&active.lock);
}
