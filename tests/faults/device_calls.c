/* Which call of a device's library is to fail. */
#include "device_calls.h"
#include <stdatomic.h>
#include <stddef.h>

static _Atomic long calls, wanted, live;
static const char *_Atomic failed;

bool device_due(const char *call)
{
	long number = atomic_fetch_add(&calls, 1) + 1;
	if (number != wanted)
		return false;
	failed = call;
	return true;
}

void device_count(int change)
{
	atomic_fetch_add(&live, change);
}

long device_arm(long nth)
{
	wanted = 0;
	long before = atomic_exchange(&calls, 0);
	failed = NULL;
	wanted = nth;
	return before;
}

long device_live(void)
{
	return live;
}

const char *device_failed(void)
{
	const char *name = failed;
	return name ? name : "";
}
