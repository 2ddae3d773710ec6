/* The rows of optimised.def: every optimised kernel of every backend. */
#ifndef TOMOS_BACKEND_OPTIMISED_H
#define TOMOS_BACKEND_OPTIMISED_H

#include "backend/backend.h"

enum { JOSEPH = 1, VOXEL = 2, LINE = 4, FOOTPRINT = 8 };
enum { BACK = 1, BOTH = 2 }; /* FORWARD is 0, as in Direction */
typedef enum { AUTO, NAMED, COARSE } OptimisedChoice;
enum { IN_SLICE = 1, FANS = 2, UPRIGHT = 4, CONE = 8, OBLIQUE = 16, ANY = 32 };

/* The projector of a request, as a bit of a row's projectors; 0: none of them. */
static inline unsigned optimised_projector(int kernel)
{
	if (kernel == KERNEL_joseph)
		return JOSEPH;
	if (kernel == KERNEL_voxel)
		return VOXEL;
	if (kernel == KERNEL_footprint)
		return FOOTPRINT;
	return kernel == KERNEL_line || kernel == KERNEL_line_march ? LINE : 0;
}

/* Whether a row's projectors and direction are those of a request. */
static inline bool optimised_computes(
	unsigned projectors, unsigned direction, const ProjectRequest *what)
{
	return (projectors & optimised_projector(what->kernel)) &&
	       (direction == BOTH || direction == (unsigned)what->direction);
}

/* Whether the reference kernel would execute the request, because no optimised one can; `why` then
 * names the rays and the kernels there are. False as well where the backend does not list its
 * kernels. */
bool optimised_lacks(tomos_backend *backend, const ProjectRequest *what, char *why, size_t size);

/* The least work per update for each unit (see tomos_machine_bound); NULL: no such kernel. */
const double *optimised_demand(const char *kernel);

#endif
