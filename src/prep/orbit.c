/* Circular scans as a few numbers, and back to views. */
#include <math.h>
#include <string.h>
#include "base/vector3.h"
#include "prep/orbit.h"

#define SAME 1e-6 /* relative difference of views that counts as none */

typedef struct {
	double axis[3][3]; /* u, v and direction of the central ray of an upright detector */
} Frame;

static Frame frame_at(double angle, double tilt)
{
	double s = sin(angle), c = cos(angle), sa = sin(tilt), ca = cos(tilt);
	return (Frame){{{c, s, 0}, {s * sa, -c * sa, ca}, {s * ca, -c * ca, -sa}}};
}

/* Rows u, v and normal of the rotated detector, in the upright frame: roll, slant, swivel about the
 * axes of that frame. */
void pose_axes(const double pose[POSE_COUNT], double axes[3][3])
{
	double cr = cos(pose[POSE_ROLL]), sr = sin(pose[POSE_ROLL]);
	double cs = cos(pose[POSE_SLANT]), ss = sin(pose[POSE_SLANT]);
	double cw = cos(pose[POSE_SWIVEL]), sw = sin(pose[POSE_SWIVEL]);
	const double made[3][3] = {{cw * cr + sw * ss * sr, cs * sr, -sw * cr + cw * ss * sr},
		{-cw * sr + sw * ss * cr, cs * cr, sw * sr + cw * ss * cr},
		{sw * cs, -ss, cw * cs}};
	memcpy(axes, made, sizeof made);
}

void pose_counted(const Orbit *orbit, const double pose[POSE_COUNT], double out[POSE_COUNT])
{
	memcpy(out, pose, POSE_COUNT * sizeof *out);
	out[POSE_ROLL] *= orbit->mirror * orbit->upright;
	out[POSE_SLANT] *= orbit->upright;
	out[POSE_SWIVEL] *= orbit->mirror;
}

void pose_pixel(const double pose[POSE_COUNT], double distance, double height, double x, double y,
	double pixel[2])
{
	double axes[3][3], ray[3] = {x, y, distance}, far = distance * pose[POSE_SCALE];
	pose_axes(pose, axes);
	double along = far * axes[2][2] / dot3(axes[2], ray);
	pixel[0] = pose[POSE_AXIS] + along * dot3(axes[0], ray) - far * axes[0][2];
	pixel[1] = pose[POSE_ROW] + (along * dot3(axes[1], ray) - far * axes[1][2]) / height;
}

/* ---- from views ------------------------------------------------------------------------------ */

static tomos_status reject(int64_t view, const char *why)
{
	return fail(TOMOS_UNSUPPORTED,
		"view %lld %s: the axis is found from views on a circle about the z axis that "
		"differ in "
		"their angles only",
		(long long)view, why);
}

/* Direction of the central ray, and its angle and tilt. */
static tomos_status take_ray(const tomos_view *view, int64_t i, Orbit *o, double *angle)
{
	bool point = view_has_source(view);
	double towards = point ? -1 : 1, x = towards * view->src[0], y = towards * view->src[1];
	double level = hypot(x, y);
	if (!(level > 0))
		return reject(i, "has its central ray along the axis");
	*angle = atan2(x, -y);
	o->source = point ? level : 0;
	o->tilt = point ? 0 : atan2(-view->src[2], level);
	o->kind = (int)view->src[3];
	o->lift = o->kind == TOMOS_POINT ? view->src[2] : 0;
	return TOMOS_OK;
}

static void take_rotations(double axes[3][3], double pose[POSE_COUNT])
{
	pose[POSE_SLANT] = asin(fmax(fmin(-axes[2][1], 1), -1));
	pose[POSE_SWIVEL] = atan2(axes[2][0], axes[2][2]);
	pose[POSE_ROLL] = atan2(axes[0][1], axes[1][1]);
}

/* The pixel that the central ray meets, and how far from the source. */
static tomos_status take_foot(
	const tomos_geometry *scan, int64_t i, const Frame *f, double normal[3], Orbit *o)
{
	const tomos_view *view = &scan->views[i];
	double way[3], zero[3] = {0, 0, 0}, across[3], fans = view_fans(view) ? 1 : 0;
	add3(way, view->det, -1, o->source > 0 ? view->src : zero);
	double far = dot3(way, normal) / dot3(f->axis[2], normal);
	add3(across, way, -far, f->axis[2]);
	if (o->source > 0 && !(far > 0))
		return reject(i, "has its detector behind the source");
	o->detector = o->source > 0 ? far : 0;
	double middle[2] = {0.5 * (double)(scan->columns - 1), 0.5 * (double)(scan->rows - 1)};
	o->pose[POSE_AXIS] = middle[0] - dot3(across, view->u) / dot3(view->u, view->u);
	o->pose[POSE_ROW] = middle[1] - (fans > 0 ? view->src[2] / view->v[2]
						  : dot3(across, view->v) / dot3(view->v, view->v));
	return TOMOS_OK;
}

static tomos_status take_view(const tomos_geometry *scan, int64_t i, Orbit *o, double *angle)
{
	const tomos_view *view = &scan->views[i];
	double axes[3][3], normal[3];
	TRY(take_ray(view, i, o, angle));
	Frame f = frame_at(*angle, o->tilt);
	o->width = norm3(view->u);
	o->height = norm3(view->v);
	o->mirror = dot3(view->u, f.axis[0]) < 0 ? -1 : 1;
	o->upright = dot3(view->v, f.axis[1]) < 0 ? -1 : 1;
	if (fabs(dot3(view->u, view->v)) > SAME * o->width * o->height)
		return reject(i, "has columns and rows that are not perpendicular");
	for (int a = 0; a < 3; a++) {
		axes[0][a] = o->mirror * dot3(view->u, f.axis[a]) / o->width;
		axes[1][a] = o->upright * dot3(view->v, f.axis[a]) / o->height;
	}
	cross3(axes[2], axes[0], axes[1]);
	cross3(normal, view->u, view->v);
	take_rotations(axes, o->pose);
	o->pose[POSE_SCALE] = 1;
	return take_foot(scan, i, &f, normal, o);
}

static bool same_pose(const Orbit *a, const Orbit *b)
{
	double distance = SAME * fmax(fmax(a->detector, a->width), 1e-300);
	bool same = a->kind == b->kind && a->mirror == b->mirror && a->upright == b->upright &&
		    fabs(a->source - b->source) <= distance &&
		    fabs(a->detector - b->detector) <= distance && fabs(a->tilt - b->tilt) < SAME &&
		    fabs(a->width - b->width) <= SAME * a->width &&
		    fabs(a->height - b->height) <= SAME * a->height;
	for (int i = 0; i < POSE_COUNT; i++) /* pixels and radians: both far below what is seen */
		same = same && fabs(a->pose[i] - b->pose[i]) < 1e-4;
	return same;
}

tomos_status orbit_take(Orbit *orbit, const tomos_geometry *scan)
{
	tomos_status status;
	*orbit = (Orbit){.views = scan->count, .rows = scan->rows, .columns = scan->columns};
	TRY(mem_alloc(&orbit->angles, scan->count, sizeof *orbit->angles, "angles"));
	TRY_OR_DONE(take_view(scan, 0, orbit, &orbit->angles[0]));
	for (int64_t i = 1; i < scan->count; i++) {
		Orbit other = *orbit;
		TRY_OR_DONE(take_view(scan, i, &other, &orbit->angles[i]));
		if (!same_pose(orbit, &other))
			TRY_OR_DONE(reject(i, "has other distances or another detector"));
		if (fabs(scan->views[i].src[2] - scan->views[0].src[2]) >
			SAME * fmax(orbit->source, 1))
			TRY_OR_DONE(reject(i, "has its source at another height"));
	}
done:
	if (status != TOMOS_OK)
		orbit_free(orbit);
	return status;
}

void orbit_free(Orbit *orbit)
{
	mem_free(orbit->angles);
	orbit->angles = NULL;
}

/* ---- to views -------------------------------------------------------------------------------- */

static void fill_view(const Orbit *o, const double pose[POSE_COUNT], double angle, tomos_view *out)
{
	double axes[3][3], far = o->detector * pose[POSE_SCALE];
	double columns = 0.5 * (double)(o->columns - 1) - pose[POSE_AXIS];
	double rows = 0.5 * (double)(o->rows - 1) - pose[POSE_ROW];
	Frame f = frame_at(angle, o->tilt);
	pose_axes(pose, axes);
	memset(out, 0, sizeof *out);
	for (int a = 0; a < 3; a++) {
		for (int b = 0; b < 3; b++) {
			out->u[a] += o->mirror * o->width * axes[0][b] * f.axis[b][a];
			out->v[a] += o->upright * o->height * axes[1][b] * f.axis[b][a];
		}
		out->src[a] = o->source > 0 ? -o->source * f.axis[2][a] : f.axis[2][a];
		out->det[a] = o->source > 0 ? (far - o->source) * f.axis[2][a] : 0;
	}
	out->src[2] += o->lift;
	out->det[2] += o->lift;
	out->src[3] = o->kind;
	view_slide(out, columns, rows);
}

tomos_status orbit_geometry(
	tomos_geometry **scan, const Orbit *orbit, const double pose[POSE_COUNT], bool reversed)
{
	TRY(geom_new(scan, orbit->rows, orbit->columns, orbit->views));
	for (int64_t i = 0; i < orbit->views; i++)
		fill_view(orbit, pose, reversed ? -orbit->angles[i] : orbit->angles[i],
			&(*scan)->views[i]);
	return TOMOS_OK;
}
