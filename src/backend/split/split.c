/* Opens and closes a backend of several devices. */
#include <stdio.h>
#include <string.h>
#include "backend/open.h"
#include "backend/split/split.h"

enum { MOST_DEVICES = 64, ALIGNED = 4 };

/* Memory of a device that does not report what is free. */
#define MEMORY_UNKNOWN ((int64_t)1 << 30)
/* Floats of filtered views in host memory for one back projection. */
#define CHUNK ((int64_t)1 << 30)

/* The input is aligned, as kernels read several floats at a time. */
tomos_status lane_reserve(Lane *lane, int64_t out, int64_t in, int64_t most)
{
	int64_t first = parts_of(out, ALIGNED) * ALIGNED, count = first + in;
	if (lane->capacity < count || lane->capacity > most + ALIGNED) {
		if (lane->block)
			lane->child->type->memory->release(lane->child, lane->block);
		lane->block = NULL;
		lane->capacity = 0;
		TRY(lane->child->type->memory->alloc(lane->child, &lane->block, count, "pieces"));
		lane->capacity = count;
	}
	lane->out = lane->block;
	lane->in = lane->block + first;
	return TOMOS_OK;
}

/* Replaces `old` if its capacity is smaller; a failure leaves no memory. */
static tomos_status host_reserve(void *old, void *pointer_out, int64_t *capacity, int64_t count,
	size_t size, const char *what)
{
	if (*capacity >= count)
		return TOMOS_OK;
	mem_free(old);
	*capacity = 0;
	TRY(mem_alloc(pointer_out, count, size, what));
	*capacity = count;
	return TOMOS_OK;
}

static void unpin_sum(Split *split, Lane *lane)
{
	if (lane->sum_pinned)
		child_unpin(split, lane->child, lane->sum, lane->sum_capacity);
	lane->sum_pinned = false;
}

tomos_status lane_sum(Split *split, Lane *lane, int64_t count)
{
	if (lane->sum_capacity >= count)
		return TOMOS_OK;
	unpin_sum(split, lane);
	TRY(host_reserve(lane->sum, &lane->sum, &lane->sum_capacity, count, sizeof *lane->sum,
		"a piece to be added"));
	lane->sum_pinned = child_pin(split, lane->child, lane->sum, count);
	return TOMOS_OK;
}

tomos_status lane_views(Lane *lane, int64_t count, int64_t columns)
{
	TRY(host_reserve(lane->weights, &lane->weights, &lane->weight_capacity, count * columns,
		sizeof *lane->weights, "weights of views"));
	return host_reserve(lane->views, &lane->views, &lane->view_capacity, count,
		sizeof *lane->views, "views to be filtered");
}

static void lane_close(Split *split, Lane *lane)
{
	if (lane->block)
		lane->child->type->memory->release(lane->child, lane->block);
	unpin_sum(split, lane);
	mem_free(lane->sum);
	mem_free(lane->views);
	mem_free(lane->weights);
	tomos_backend_close(lane->child);
}

static tomos_status split_alloc(
	tomos_backend *backend, float **data, int64_t count, const char *what)
{
	TRY(cpu_backend.memory->alloc(backend, data, count, what));
	return split_pin(backend, *data, count);
}

static void split_release(tomos_backend *backend, float *data)
{
	split_unpin(backend, data);
	cpu_backend.memory->release(backend, data);
}

static void split_close(tomos_backend *backend)
{
	Split *s = split_of(backend);
	split_unpin_all(s);
	for (int i = 0; i < s->count; i++)
		lane_close(s, &s->lanes[i]);
	mem_free(s->lanes);
	pthread_mutex_destroy(&s->lock);
	pthread_mutex_destroy(&s->pin_lock);
	mem_free(s);
}

/* Free memory of the fullest device; a device that is named several times is divided. */
static tomos_status find_memory(
	const Split *s, const char *const *arguments, int devices, int64_t *memory)
{
	*memory = MEMORY_UNKNOWN;
	for (int i = 0; i < devices; i++) {
		tomos_backend *child = s->lanes[i].child;
		int64_t bytes, names = 0;
		if (!child->type->memory->free_bytes)
			return TOMOS_OK;
		TRY(child->type->memory->free_bytes(child, &bytes));
		for (int j = 0; j < devices; j++)
			names += strcmp(arguments[i], arguments[j]) == 0;
		bytes = bytes / 10 * 9 / names;
		*memory = i == 0 ? bytes : min64(*memory, bytes);
	}
	return TOMOS_OK;
}

void split_limit(const Split *s, int64_t own)
{
	const int devices = s->count / STREAMS;
	for (int i = 0; i < s->count && own > 0; i++) {
		tomos_backend *child = s->lanes[i].child;
		child->type->memory->limit_scratch(
			child, own, i < devices ? NULL : s->lanes[i % devices].child);
	}
}

/* In back projection most of a lane's memory holds the result, which is downloaded once; the rest
 * is for uploads and for scratch memory of kernels. In forward projection slabs are as thick as
 * possible, since kernels compute twice at slab borders, and many kernels transpose them first,
 * which takes the same memory again. Views that are filtered get more of it: with fewer steps the
 * result is read and written less often. */
static tomos_status set_memory(Split *s, const BackendType *type, const char *const *arguments,
	int devices, const SplitOptions *options)
{
	s->memory = options->memory;
	s->limited = s->memory > 0;
	if (!s->limited)
		TRY(find_memory(s, arguments, devices, &s->memory));
	int64_t floats = s->memory / STREAMS / (int64_t)sizeof(float);
	s->own = type->memory->limit_scratch ? floats / 8 * 3 - ALIGNED : 0;
	s->own_rows = type->memory->limit_scratch ? floats / 4 - ALIGNED : 0;
	s->capacity = floats - s->own - ALIGNED;
	s->in[FORWARD] = type->memory->limit_scratch ? floats / 16 * 5 : floats / 4;
	s->in[ADJOINT] = type->memory->limit_scratch ? floats / 8 : floats / 4;
	s->in_rows = type->memory->limit_scratch ? floats / 32 * 7 : floats / 4;
	split_limit(s, s->own);
	return TOMOS_OK;
}

/* The rates of the first device times the number of devices. */
static tomos_status split_machine(tomos_backend *backend, tomos_machine *machine)
{
	const Split *s = split_of(backend);
	const int devices = s->count / STREAMS;
	TRY(tomos_backend_machine(s->lanes[0].child, machine));
	machine->processors *= devices;
	for (int i = 0; i < TOMOS_RATES; i++)
		machine->rates[i] *= devices;
	return TOMOS_OK;
}

static void set_type(Split *s, const BackendType *type)
{
	BackendCopy *own = &s->tables;
	backend_copy(own, &cpu_backend);
	own->type.name = type->name;
	own->type.chunk = CHUNK;
	own->type.open = NULL;
	own->type.close = split_close;
	own->type.machine = split_machine;
	own->memory.alloc = split_alloc;
	own->memory.release = split_release;
	own->memory.pin = split_pin;
	own->memory.unpin = split_unpin;
	own->projector = (BackendProjector){.apply = split_project,
		.apply_power = type->projector->apply_power ? split_power : NULL,
		.back_update = split_back_update,
		.pose = cpu_backend.projector->pose,
		.row = cpu_backend.projector->row};
	own->type.fourier = &split_fourier;
	own->filter = (BackendFilter){.open = split_filter_open,
		.close = split_filter_close,
		.apply = split_filter,
		.back_project = split_filter_back_project};
}

/* Lane i belongs to device i % devices, so that the first items go to different ones. */
static tomos_status open_lanes(Split *s, const BackendType *type, const char *const *arguments,
	int devices, const SplitOptions *options)
{
	for (; s->count < devices * STREAMS; s->count++)
		TRY(backend_open_type(
			&s->lanes[s->count].child, type, arguments[s->count % devices]));
	return set_memory(s, type, arguments, devices, options);
}

static void describe(tomos_backend *backend, int devices)
{
	static const char *const units[] = {"bytes", "KiB", "MiB", "GiB"};
	const Split *s = split_of(backend);
	double memory = (double)s->memory;
	int unit = 0;
	for (; memory >= 1024 && unit < COUNT(units) - 1; unit++)
		memory /= 1024;
	snprintf(backend->description, sizeof backend->description,
		"%d device%s, pieces in %.4g %s%s: %.70s", devices, devices == 1 ? "" : "s", memory,
		units[unit], devices == 1 ? "" : " each", s->lanes[0].child->description);
}

tomos_backend *backend_limited(tomos_backend *backend, int64_t *bytes)
{
	const Split *s = backend->type->close == split_close ? split_of(backend) : NULL;
	bool one = s && s->count == STREAMS && s->limited;
	*bytes = one ? s->memory : 0;
	return one ? s->lanes[0].child : backend;
}

static tomos_status check_count(int count)
{
	if (count < 1 || count > MOST_DEVICES)
		return fail(TOMOS_BAD_VALUE, "%d devices: work is shared by 1 to %d", count,
			MOST_DEVICES);
	return TOMOS_OK;
}

tomos_status split_open(tomos_backend **backend, const BackendType *type,
	const char *const *arguments, int count, const SplitOptions *options)
{
	Split *s = NULL;
	tomos_backend *made = NULL;
	tomos_status status;
	*backend = NULL;
	TRY(check_count(count));
	TRY_OR_DONE(mem_zeroed(&made, 1, sizeof *made, "a backend"));
	TRY_OR_DONE(mem_zeroed(&s, 1, sizeof *s, "a backend"));
	TRY_OR_DONE(mem_zeroed(&s->lanes, (int64_t)count * STREAMS, sizeof *s->lanes, "a backend"));
	pthread_mutex_init(&s->lock, NULL);
	pthread_mutex_init(&s->pin_lock, NULL);
	s->share = options->share;
	set_type(s, type);
	made->type = &s->tables.type;
	made->own = s;
	status = open_lanes(s, type, arguments, count, options);
	if (status != TOMOS_OK) {
		tomos_backend_close(made);
		return status;
	}
	describe(made, count);
	*backend = made;
	return TOMOS_OK;
done:
	mem_free(s);
	mem_free(made);
	return status;
}

tomos_status split_open_list(tomos_backend **backend, const BackendType *type, const char *list,
	const SplitOptions *options)
{
	const char *arguments[MOST_DEVICES];
	char *copy;
	int count = 0;
	tomos_status status;
	*backend = NULL;
	TRY(mem_text(&copy, list));
	for (char *at = copy; at; count++) {
		char *comma = strchr(at, ',');
		if (comma)
			*comma = 0;
		if (count < MOST_DEVICES)
			arguments[count] = at;
		if (!*at && *list) {
			status = fail(TOMOS_BAD_VALUE,
				"%s:%s: devices are named by numbers, as "
				"%s:0,1",
				type->name, list, type->name);
			goto done;
		}
		at = comma ? comma + 1 : NULL;
	}
	status = split_open(backend, type, arguments, count, options);
done:
	mem_free(copy);
	return status;
}
