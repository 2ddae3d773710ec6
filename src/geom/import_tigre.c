/* Geometries of TIGRE: the fields of its geometry, written as a JSON object. */
#include <string.h>
#include "geom/import.h"

/* In mm and radians. */
typedef struct {
	double source_object, source_detector, cor; /* DSO, DSD, COR */
	double size[2], pixel[2], offset[2];        /* nDetector, dDetector, offDetector: v, u */
	double origin[3];                           /* offOrigin: z, y, x */
} Tigre;

/* At angle 0 the source is on x, columns along y and rows along z; COR moves source and detector
 * along y, offOrigin the object. */
static void view_from_tigre(tomos_view *view, const Tigre *t, double angle)
{
	*view = (tomos_view){.src = {t->source_object, t->cor, 0, TOMOS_POINT},
		.det = {t->source_object - t->source_detector, t->cor + t->offset[1], t->offset[0]},
		.u = {0, t->pixel[1], 0},
		.v = {0, 0, t->pixel[0]}};
	double *const parts[] = {view->src, view->det, view->u, view->v};
	for (int i = 0; i < COUNT(parts); i++)
		rotate_pair(&parts[i][0], &parts[i][1], angle);
	for (int i = 0; i < 3; i++) {
		view->src[i] -= t->origin[2 - i];
		view->det[i] -= t->origin[2 - i];
	}
}

/* Numbers of a field: one, or a list of `count`; missing ones stay. */
static tomos_status tigre_field(const json_t *root, const char *key, double *values, size_t count)
{
	const json_t *field = json_object_get(root, key);
	if (!field || json_is_null(field))
		return TOMOS_OK;
	for (size_t i = 0; i < count; i++) {
		const json_t *number = json_is_array(field) ? json_array_get(field, i) : field;
		if (!json_is_number(number) ||
			(json_is_array(field) && json_array_size(field) != count))
			return fail(TOMOS_UNSUPPORTED, "'%s' must be %s%zu numbers for all views",
				key, count == 1 ? "a number, or " : "a list of ", count);
		values[i] = json_number_value(number);
	}
	return TOMOS_OK;
}

static tomos_status tigre_read(const json_t *root, Tigre *t)
{
	double rotated[3] = {0, 0, 0};
	*t = (Tigre){.cor = 0};
	TRY(tigre_field(root, "DSO", &t->source_object, 1));
	TRY(tigre_field(root, "DSD", &t->source_detector, 1));
	TRY(tigre_field(root, "COR", &t->cor, 1));
	TRY(tigre_field(root, "nDetector", t->size, 2));
	TRY(tigre_field(root, "dDetector", t->pixel, 2));
	TRY(tigre_field(root, "offDetector", t->offset, 2));
	TRY(tigre_field(root, "offOrigin", t->origin, 3));
	TRY(tigre_field(root, "rotDetector", rotated, 3));
	const char *mode = json_string_value(json_object_get(root, "mode"));
	if (rotated[0] != 0 || rotated[1] != 0 || rotated[2] != 0 ||
		(mode && strcmp(mode, "cone") != 0))
		return fail(TOMOS_UNSUPPORTED,
			"mode is '%.20s' and rotDetector %g %g %g; cone beams with upright "
			"detectors can be read",
			mode ? mode : "", rotated[0], rotated[1], rotated[2]);
	if (!(t->size[0] >= 1 && t->size[1] >= 1 && t->size[0] < 1e7 && t->size[1] < 1e7))
		return fail(TOMOS_BAD_FILE, "nDetector is %g x %g", t->size[0], t->size[1]);
	return TOMOS_OK;
}

tomos_status import_tigre(tomos_geometry **scan, const json_t *root)
{
	const json_t *angles = json_object_get(root, "angles");
	Tigre t;
	TRY(tigre_read(root, &t));
	if (!json_is_array(angles))
		return fail(TOMOS_BAD_FILE, "'angles' must be a list of numbers, in radians");
	TRY(geom_new(
		scan, (int64_t)t.size[0], (int64_t)t.size[1], (int64_t)json_array_size(angles)));
	for (int64_t i = 0; i < (*scan)->count; i++) {
		const json_t *angle = json_array_get(angles, (size_t)i);
		if (!json_is_number(angle))
			return fail(TOMOS_BAD_FILE, "'angles'[%lld] is not a number", (long long)i);
		view_from_tigre(&(*scan)->views[i], &t, json_number_value(angle));
		TRY(view_check(&(*scan)->views[i], i));
	}
	return TOMOS_OK;
}
