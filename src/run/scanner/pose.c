/* From the position of source, axis and detector to the parameters of a circular scan.
 *
 * Any source, any axis and any detector that rotate together are a circular scan: the origin is the
 * point of the axis nearest to the source, z is along the axis, and y points to the source.
 */
#include "base/vector3.h"
#include "run/scanner/scanner.h"

Pose pose_upright(double source_axis, double source_detector, const double pixel[2])
{
	return (Pose){.axis = {0, source_axis, 0},
		.along = {0, 0, 1},
		.detector = {0, source_detector, 0},
		.u = {-pixel[0], 0, 0},
		.v = {0, 0, -pixel[1]}};
}

typedef struct {
	double x[3], y[3], z[3], origin[3]; /* unit vectors */
	double radius;
} Axes;

static void into(const Axes *f, const double in[3], double out[3])
{
	const double copy[3] = {in[0], in[1], in[2]};
	out[0] = dot3(f->x, copy);
	out[1] = dot3(f->y, copy);
	out[2] = dot3(f->z, copy);
}

static tomos_status find_frame(const tomos_scan *scan, const Pose *p, Axes *f)
{
	double from[3], size = norm3(p->along);
	for (int i = 0; i < 3; i++) {
		f->z[i] = p->along[i] / size;
		from[i] = p->source[i] - p->axis[i];
	}
	double height = dot3(from, f->z);
	for (int i = 0; i < 3; i++) {
		f->origin[i] = p->axis[i] + height * f->z[i];
		f->y[i] = p->source[i] - f->origin[i];
	}
	f->radius = norm3(f->y);
	if (!(f->radius > 0 && f->radius < 1e15))
		return fail(TOMOS_BAD_FILE, "'%s': the source is %g mm from the rotation axis",
			scan->path, f->radius);
	for (int i = 0; i < 3; i++)
		f->y[i] /= f->radius;
	cross3(f->x, f->y, f->z);
	return TOMOS_OK;
}

/* Rows upwards along z, and columns so that u x v is the direction of the rays. */
static void choose_flip(tomos_scan *scan, double u[3], double v[3])
{
	double normal[3];
	scan->flip[FLIP_ROWS] = v[2] < 0;
	for (int i = 0; i < 3 && scan->flip[FLIP_ROWS]; i++)
		v[i] = -v[i];
	cross3(normal, u, v);
	scan->flip[FLIP_COLUMNS] = normal[1] > 0;
	for (int i = 0; i < 3 && scan->flip[FLIP_COLUMNS]; i++)
		u[i] = -u[i];
}

/* The detector's frame is R_v(swivel) R_u(slant) R_n(roll) in the basis u, v, n of the upright
 * detector: (1,0,0), (0,0,1), (0,-1,0) here. */
static void find_angles(ScanSetup *s, const double u[3], const double v[3])
{
	double normal[3], a = norm3(u), b = norm3(v);
	cross3(normal, u, v);
	double size = norm3(normal);
	s->slant = asin(fmax(-1, fmin(1, -normal[2] / size))) + 0.0;
	s->swivel = atan2(normal[0] / size, -normal[1] / size) + 0.0;
	s->roll = atan2(u[2] / a, v[2] / b) + 0.0;
}

tomos_status scan_pose(tomos_scan *scan, const Pose *pose)
{
	ScanSetup *s = &scan->setup;
	Axes f;
	double u[3], v[3], det[3], normal[3], from[3];
	TRY(find_frame(scan, pose, &f));
	for (int i = 0; i < 3; i++)
		from[i] = pose->detector[i] - f.origin[i];
	into(&f, from, det);
	into(&f, pose->u, u);
	into(&f, pose->v, v);
	choose_flip(scan, u, v);
	cross3(normal, u, v);
	/* The ray from (0, radius, 0) along (0, -1, 0) meets the detector at y = at. */
	double at = dot3(det, normal) / normal[1], distance = f.radius - at;
	if (!(distance > 0 && distance < 1e15))
		return fail(TOMOS_BAD_FILE,
			"'%s': the detector is %g mm from the source, towards the axis at %g mm",
			scan->path, distance, f.radius);
	const double way[3] = {-det[0], at - det[1], -det[2]};
	double uu = dot3(u, u), vv = dot3(v, v);
	s->geometry = "cone";
	s->source_axis = f.radius;
	s->source_detector = distance;
	s->axis = 0.5 * (double)(scan->columns - 1) + dot3(way, u) / uu;
	s->axis_row = 0.5 * (double)(scan->rows - 1) + dot3(way, v) / vv;
	scan->pixel[0] = sqrt(uu);
	scan->pixel[1] = sqrt(vv);
	find_angles(s, u, v);
	return TOMOS_OK;
}
