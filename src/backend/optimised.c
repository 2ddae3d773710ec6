/* The table of optimised kernels, for listings and for the performance model. */
#include "backend/optimised.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define CPU "cpu"
#define CUDA "cuda"
#define OPENCL "opencl"
#define OPTIMISED(backend, id, projectors, direction, choice, cache, fma, fetch, tensor, rays, \
	applies, method) \
	{sizeof(tomos_kernel), backend, #id, #projectors, #direction, #choice, #rays, applies, \
		method, {0, 0, cache, fma, fetch, tensor}},
static const tomos_kernel rows[] = {
#include "backend/optimised.def"
};

const tomos_kernel *tomos_kernels(int *count)
{
	*count = COUNT(rows);
	return rows;
}

const double *optimised_demand(const char *kernel)
{
	for (int i = 0; i < COUNT(rows); i++)
		if (strcmp(rows[i].name, kernel) == 0)
			return rows[i].work;
	return NULL;
}

/* ---- why there is none --------------------------------------------------------------------- */

static const char *rays_text(const RayClass *rays)
{
	bool upright = rays_are(rays, RAYS_UPRIGHT), slices = rays_are(rays, RAYS_IN_SLICE);
	switch (rays->source) {
	case TOMOS_PARALLEL:
		return slices ? "parallel rays in slices" : "oblique parallel rays";
	case TOMOS_POINT:
		return upright ? "point sources with an upright detector"
			       : "point sources with a tilted detector";
	case TOMOS_FAN_PER_ROW:
		return slices ? "fans in slices" : "fans across slices";
	default:
		return "sources of several kinds";
	}
}

/* The columns of `rows` that are read here, as numbers. */
#undef OPTIMISED
#define OPTIMISED(backend, id, projectors, direction, choice, ...) {projectors, direction, choice},
static const struct {
	unsigned projectors, direction;
	OptimisedChoice choice;
} codes[] = {
#include "backend/optimised.def"
};

/* "IN_SLICE | FANS" as "in-slice, fans". */
static void append_rays(char *text, size_t size, const char *rays)
{
	size_t length = strlen(text);
	for (const char *c = rays; *c && length + 1 < size; c++) {
		if (*c == ' ' && c[1] == '|') {
			text[length++] = ',';
			c++;
		} else {
			text[length++] = (char)(*c == '_' ? '-' : tolower((unsigned char)*c));
		}
	}
	text[length] = 0;
}

/* The kernels of this projector and direction, with the rays they are for. */
static void list_kernels(
	const tomos_backend *backend, const ProjectRequest *what, char *text, size_t size)
{
	*text = 0;
	for (int i = 0; i < COUNT(rows); i++) {
		if (strcmp(rows[i].backend, backend->type->name) != 0 || codes[i].choice != AUTO ||
			!optimised_computes(codes[i].projectors, codes[i].direction, what))
			continue;
		size_t length = strlen(text);
		snprintf(text + length, size - length, "%s%s (", length ? ", " : "", rows[i].name);
		append_rays(text, size, rows[i].rays);
		length = strlen(text);
		snprintf(text + length, size - length, "%s%s)", rows[i].applies[0] ? "; " : "",
			rows[i].applies);
	}
}

static bool has_automatic(tomos_backend *backend, const ProjectRequest *what)
{
	KernelCandidate list[MAX_CANDIDATES];
	int count = backend->type->projector->candidates(backend, what, list), i = 0;
	while (i < count && !list[i].automatic)
		i++;
	return i < count;
}

/* The options without which a kernel would apply; "": it is not for options. */
static const char *options_text(tomos_backend *backend, const ProjectRequest *what)
{
	const KernelModel *model = &what->plan->model;
	Plan plan = *what->plan;
	ProjectRequest usual = *what;
	usual.plan = &plan;
	plan.model.clamp = plan.model.nearest = 0;
	if ((!model->clamp && !model->nearest) || !has_automatic(backend, &usual))
		return "";
	return !model->nearest ? " with boundary clamp"
	       : !model->clamp ? " with voxel_interpolation nearest"
			       : " with boundary clamp and voxel_interpolation nearest";
}

bool optimised_lacks(tomos_backend *backend, const ProjectRequest *what, char *why, size_t size)
{
	char known[2048];
	if (!backend->type->projector->candidates || what->plan->plain ||
		has_automatic(backend, what))
		return false;
	const char *options = options_text(backend, what);
	if (*options)
		snprintf(known, sizeof known, "one without");
	else
		list_kernels(backend, what, known, sizeof known);
	snprintf(why, size, "%s has no optimised kernel of '%s'%s for %s; it has %s",
		backend->type->name, kernel_rows[what->kernel].name, options,
		rays_text(&what->plan->rays),
		known[0] ? known : "none of this projector and direction");
	return true;
}
