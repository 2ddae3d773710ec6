/* Views of a point source that come in half or quarter turns. */
#ifndef TOMOS_BACKEND_SYMMETRY_H
#define TOMOS_BACKEND_SYMMETRY_H

#include "backend/backend.h"

/* Whether the list of the request's views has `turns` (2 or 4) parts, the views of each turned against those of
 * the part before by a half or a quarter of a circle about the middle of the grid: 1 or, where quarters go
 * the other way, so that those that are one turn on are 3 parts on, 3; else 0. */
int symmetry_direction(const ProjectRequest *what, int turns);

#endif
