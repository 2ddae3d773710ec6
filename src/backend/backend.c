/* Opens backends by name. */
#include <stdio.h>
#include <string.h>
#include "backend/device_module.h"
#include "backend/open.h"
#include "backend/split/split.h"
#include "backend/tune.h"

/* "auto" takes the first one that opens; the CPU, which is built in, always does. */
#define BACKENDS(B) B("cuda", NULL) B("cpu", &cpu_backend) B("opencl", NULL)
#define BACKEND_TYPE(name, type) {name, type},
#define BACKEND_NAME(name, type) "|" name
static const struct {
	const char *name;
	const BackendType *type; /* NULL: a module */
} backends[] = {BACKENDS(BACKEND_TYPE)};

#define KERNEL(id, name, family, weights, help) {name, FAMILY_##family, weights},
const KernelRow kernel_rows[KERNEL_COUNT] = {
#include "kernel/kernels.def"
};
#undef KERNEL

const char *tomos_backend_names(void)
{
	return "auto" BACKENDS(BACKEND_NAME);
}

OPTION_VALUES(device_values, TOMOS_DEVICE_OPTIONS);

static tomos_status take_options(SplitOptions *split, const tomos_device_options *options)
{
	int share;
	tomos_device_options o = tomos_device_defaults();
	TRY(options_take(&o, options, "device"));
	TRY(choice_find("share", device_values.share, o.share, &share));
	if (o.memory < 0)
		return fail(TOMOS_BAD_VALUE, "a memory of %lld bytes: it must not be negative",
			(long long)o.memory);
	*split = (SplitOptions){o.memory, (SplitShare)share};
	return TOMOS_OK;
}

/* Names from the system or a driver are stored on one line of a file. */
static void tidy(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ')
			*text = ' ';
}

void backend_copy(BackendCopy *copy, const BackendType *from)
{
	*copy = (BackendCopy){*from, *from->memory, *from->projector, *from->vector, *from->filter};
	copy->type.memory = &copy->memory;
	copy->type.projector = &copy->projector;
	copy->type.vector = &copy->vector;
	copy->type.filter = &copy->filter;
}

tomos_status backend_open_type(
	tomos_backend **backend, const BackendType *type, const char *argument)
{
	tomos_backend *made;
	*backend = NULL;
	TRY(mem_zeroed(&made, 1, sizeof *made, "a backend"));
	made->type = type;
	tomos_status status = type->open(made, argument);
	if (status != TOMOS_OK) {
		mem_free(made);
		return status;
	}
	tidy(made->model);
	tidy(made->driver);
	status = tune_recall(made);
	if (status == TOMOS_OK)
		*backend = made;
	else
		tomos_backend_close(made);
	return status;
}

/* Processes on one machine take its devices in turn. */
static tomos_status device_in_turn(const char *name, int turn, char number[12])
{
	const ModuleSharing *sharing;
	TRY(module_sharing(name, &sharing));
	int count = sharing->count();
	snprintf(number, 12, "%d", count > 0 ? turn % count : 0);
	return TOMOS_OK;
}

tomos_status backend_place(const tomos_backend *backend, char place[PLACE_LENGTH])
{
	const ModuleSharing *sharing;
	memset(place, 0, PLACE_LENGTH);
	if (backend->device == 0)
		return TOMOS_OK;
	TRY(module_sharing(backend->type->name, &sharing));
	sharing->place(backend, place, PLACE_LENGTH);
	return TOMOS_OK;
}

tomos_status backend_share(const tomos_backend *backend, int processes)
{
	const ModuleSharing *sharing;
	if (backend->device == 0)
		return TOMOS_OK;
	TRY(module_sharing(backend->type->name, &sharing));
	sharing->share(backend, processes);
	return TOMOS_OK;
}

/* Several devices, or a memory limit, are opened as a split; the CPU has neither. */
static tomos_status open_type(tomos_backend **backend, int index, const char *argument, int turn,
	const SplitOptions *split)
{
	const BackendType *type = backends[index].type;
	char number[12];
	if (!type)
		TRY(module_find(backends[index].name, &type));
	bool pieces = split->memory != 0 || strchr(argument, ',');
	if (!argument[0] && type != &cpu_backend && turn > 0) {
		TRY(device_in_turn(backends[index].name, turn, number));
		argument = number;
	}
	if (type == &cpu_backend || !pieces)
		return backend_open_type(backend, type, argument);
	return split_open_list(backend, type, argument, split);
}

static tomos_status open_auto(tomos_backend **backend, int turn, const SplitOptions *split)
{
	tomos_status status = TOMOS_NO_DEVICE;
	for (int i = 0; i < COUNT(backends) && status != TOMOS_OK; i++) {
		status = open_type(backend, i, "", turn, split);
		if (backends[i].type) /* a built-in backend opens, or its error is reported */
			break;
	}
	return status;
}

tomos_status tomos_backend_open(tomos_backend **backend, const char *name)
{
	return tomos_backend_open_with(backend, name, NULL);
}

/* Rejects a memory limit or distribution that would have no effect. */
static tomos_status check_pieces(int index, const char *argument, const SplitOptions *split)
{
	const char *name = backends[index].name;
	if (split->memory != 0 && backends[index].type == &cpu_backend)
		return fail(TOMOS_BAD_VALUE,
			"a memory of %lld bytes is for devices with memory of their own; the %s "
			"backend uses host memory",
			(long long)split->memory, name);
	if (split->share != SHARE_AUTO && split->memory == 0 && !strchr(argument, ','))
		return fail(TOMOS_BAD_VALUE,
			"'%s' alone, without a limit to its memory, has nothing to share", name);
	return TOMOS_OK;
}

tomos_status tomos_backend_open_with(
	tomos_backend **backend, const char *name, const tomos_device_options *options)
{
	return backend_open_in_turn(backend, name, 0, options);
}

/* "cpu", or "cuda:1" with an argument that the backend interprets. */
tomos_status backend_open_in_turn(
	tomos_backend **backend, const char *name, int turn, const tomos_device_options *options)
{
	SplitOptions split;
	int index = 0;
	*backend = NULL;
	TRY(threads_check());
	TRY(take_options(&split, options));
	if (!name || strcmp(name, "auto") == 0)
		return open_auto(backend, turn, &split);
	size_t length = strcspn(name, ":");
	while (index < COUNT(backends) && (strlen(backends[index].name) != length ||
						  memcmp(backends[index].name, name, length) != 0))
		index++;
	if (index == COUNT(backends))
		return choice_find("backend", tomos_backend_names(), name, &index);
	const char *argument = name[length] ? name + length + 1 : "";
	TRY(check_pieces(index, argument, &split));
	return open_type(backend, index, argument, turn, &split);
}

void tomos_backend_close(tomos_backend *backend)
{
	if (!backend)
		return;
	tune_clear(backend);
	backend->type->close(backend);
	mem_free(backend);
}

const char *tomos_backend_describe(const tomos_backend *backend)
{
	return backend->description;
}

const char *tomos_backend_kernel(const tomos_backend *backend)
{
	const char *name = __atomic_load_n(&backend->last_kernel, __ATOMIC_RELAXED);
	return name ? name : "";
}
