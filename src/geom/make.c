/* Scans from a few parameters: parallel, fan, cone, laminography, helix, Lebedev directions.
 *
 * Each view has an upright frame: the direction of the central ray, and unit vectors u and v
 * perpendicular to it with u x v = ray. The detector is rotated in that frame about pixel
 * (axis_row, axis), which is where the central ray through the rotation axis meets it.
 * doc/conventions.md has the formulas.
 */
#include <string.h>
#include "geom/parts.h"

#define PI 3.14159265358979323846
#define DEGREES (180 / PI)
#define MOST_ANGLE 1e6 /* radians: larger angles have lost too many digits */

OPTION_VALUES(scan_values, TOMOS_SCAN_OPTIONS);

enum { CIRCLE = 1, SOURCE = 2, SLICES = 4 };
#define MOST_ARC (4 * PI) /* in equal steps, except of a helix */

/* In the order of the choices in options.def; `arc` is the default. */
typedef struct {
	const char *name;
	int has;
	double arc;
} Kind;

static const Kind kinds[] = {
	{"parallel", CIRCLE, PI},
	{"fan", CIRCLE | SOURCE | SLICES, 2 * PI},
	{"cone", CIRCLE | SOURCE, 2 * PI},
	{"laminography", CIRCLE, PI},
	{"helix", CIRCLE | SOURCE, 2 * PI},
	{"lebedev", 0, 0},
};

typedef struct {
	tomos_scan_options o;
	const Kind *kind;
	double *directions; /* of the rays, lebedev alone */
	double middle;      /* helix: the angle at which z = 0 */
} Plan;

typedef struct {
	double ray[3], u[3], v[3];
} Frame;

/* ---- checks ------------------------------------------------------------------------------- */

static tomos_status check_finite(const tomos_scan_options *o)
{
	const struct {
		const char *name;
		double value;
	} angles[] = {{"arc", o->arc}, {"start", o->start}, {"roll", o->roll}, {"slant", o->slant},
		{"swivel", o->swivel}, {"tilt", o->tilt}};
	for (int i = 0; i < COUNT(angles); i++)
		if (!(fabs(angles[i].value) <= MOST_ANGLE))
			return fail(TOMOS_BAD_VALUE,
				"%s is %g degrees; it must be between %g and %g", angles[i].name,
				angles[i].value * DEGREES, -MOST_ANGLE * DEGREES,
				MOST_ANGLE * DEGREES);
	if (!(fabs(o->pitch) <= LARGEST))
		return fail(TOMOS_BAD_VALUE, "pitch is %g; it must be between %g and %g", o->pitch,
			-LARGEST, LARGEST);
	return TOMOS_OK;
}

static tomos_status check_pixel(const tomos_scan_options *o)
{
	if (!(o->pixel > 0 && o->pixel <= LARGEST))
		return fail(TOMOS_BAD_VALUE,
			"pixel is %g; the width must be greater than 0 and at most %g", o->pixel,
			LARGEST);
	if (!(o->pixel_height >= 0 && o->pixel_height <= LARGEST))
		return fail(TOMOS_BAD_VALUE,
			"pixel_height is %g; it must be greater than 0 and at most %g, or 0 for "
			"the "
			"width",
			o->pixel_height, LARGEST);
	return TOMOS_OK;
}

/* A list, if given, has `wanted` finite values, or one for all views. */
static tomos_status check_list(
	const char *name, const double *list, int64_t count, int64_t wanted, bool one)
{
	if (!list && count == 0)
		return TOMOS_OK;
	if (!list || count < 1)
		return fail(TOMOS_BAD_VALUE, "the list %s is empty (%lld values)", name,
			(long long)count);
	if (count != wanted && !(one && count == 1))
		return fail(TOMOS_BAD_VALUE,
			"%s has %lld values for %lld views; it takes %sone per view%s", name,
			(long long)count, (long long)wanted, one ? "one, or " : "",
			one && count == 2 ? " (the decimal mark is a point)" : "");
	bool angles = strcmp(name, "angles") == 0;
	double most = angles ? MOST_ANGLE : LARGEST, unit = angles ? DEGREES : 1;
	for (int64_t i = 0; i < count; i++)
		if (!(fabs(list[i]) <= most))
			return fail(TOMOS_BAD_VALUE,
				"view %lld: %s is %g%s; it must be between %g and %g", (long long)i,
				angles ? "its angle" : name, list[i] * unit,
				angles ? " degrees" : "", -most * unit, most * unit);
	return TOMOS_OK;
}

static double of_view(const double *list, int64_t count, int64_t view)
{
	return list[count == 1 ? 0 : view];
}

static tomos_status check_distances(const tomos_scan_options *o, const Kind *kind)
{
	if (o->source_axis_count == 0 || o->source_detector_count == 0)
		return fail(TOMOS_BAD_VALUE, "a %s scan needs %s", kind->name,
			o->source_axis_count ? "source_detector" : "source_axis");
	for (int64_t i = 0; i < o->views; i++) {
		double axis = of_view(o->source_axis, o->source_axis_count, i);
		double detector = of_view(o->source_detector, o->source_detector_count, i);
		if (!(axis > 0))
			return fail(TOMOS_BAD_VALUE,
				"view %lld: source_axis is %g; it must be greater than 0",
				(long long)i, axis);
		if (!(detector >= axis))
			return fail(TOMOS_BAD_VALUE,
				"view %lld: source_detector is %g; it must not be less than "
				"source_axis, %g",
				(long long)i, detector, axis);
	}
	return TOMOS_OK;
}

static tomos_status check_lists(const tomos_scan_options *o, const Kind *kind)
{
	int64_t views = o->views;
	TRY(check_list("axis", o->axis, o->axis_count, views, true));
	TRY(check_list("axis_row", o->axis_row, o->axis_row_count, views, true));
	TRY(check_list("source_axis", o->source_axis, o->source_axis_count, views, true));
	TRY(check_list(
		"source_detector", o->source_detector, o->source_detector_count, views, true));
	return kind->has & SOURCE ? check_distances(o, kind) : TOMOS_OK;
}

/* Several rows, each of which sees one slice. */
static bool has_fans(const tomos_scan_options *o, const Kind *kind)
{
	return kind->has & SLICES && o->rows > 1;
}

static tomos_status check_fans(const tomos_scan_options *o)
{
	const char *name = o->roll != 0 ? "roll" : "slant";
	double angle = o->roll != 0 ? o->roll : o->slant;
	if (angle != 0)
		return fail(TOMOS_BAD_VALUE,
			"a fan scan of %lld rows with a %s of %g degrees: each row must stay in "
			"its slice, so it must be 0",
			(long long)o->rows, name, angle * DEGREES);
	return TOMOS_OK;
}

/* Parameters that a kind does not use are rejected instead of ignored. */
static tomos_status check_unused(const tomos_scan_options *o, const Kind *kind)
{
	TRY(options_need("scan", o, "scan=0"));
	if (has_fans(o, kind))
		TRY(check_fans(o));
	if (fabs(o->tilt) >= PI / 2 * (1 - 1e-9))
		return fail(TOMOS_BAD_VALUE,
			"a tilt of %g degrees: it must be greater than -90 and less than 90",
			o->tilt * DEGREES);
	return TOMOS_OK;
}

/* The number of views is that of the angles, or the one given. */
static tomos_status choose_views(tomos_scan_options *o, const Kind *kind)
{
	if (o->angles && (o->arc != 0 || o->start != 0))
		return fail(TOMOS_BAD_VALUE,
			"the option 'angles' is given, and the option '%s' (%g degrees) too; give "
			"one",
			o->arc != 0 ? "arc" : "start", (o->arc != 0 ? o->arc : o->start) * DEGREES);
	if (o->views == 0)
		o->views = o->angles_count;
	TRY(check_list("angles", o->angles, o->angles_count, o->views, false));
	if (fabs(o->arc) > MOST_ARC && strcmp(kind->name, "helix") != 0)
		return fail(TOMOS_BAD_VALUE,
			"arc is %g degrees (%g radians); in equal steps it is at most %g degrees: "
			"for more, list the angles",
			o->arc * DEGREES, o->arc, MOST_ARC * DEGREES);
	if (o->arc == 0)
		o->arc = kind->arc;
	return TOMOS_OK;
}

/* ---- frames ------------------------------------------------------------------------------- */

static double angle_of(const tomos_scan_options *o, int64_t view)
{
	return o->angles ? o->angles[view] : o->start + o->arc * ((double)view / (double)o->views);
}

static double middle_angle(const tomos_scan_options *o)
{
	double low = HUGE_VAL, high = -HUGE_VAL;
	for (int64_t i = 0; i < o->views; i++) {
		low = fmin(low, angle_of(o, i));
		high = fmax(high, angle_of(o, i));
	}
	return 0.5 * (low + high);
}

static Frame rotated_frame(double angle, double tilt)
{
	double s = sin(angle), c = cos(angle), sa = sin(tilt), ca = cos(tilt);
	return (Frame){{s * ca, -c * ca, -sa}, {c, s, 0}, {s * sa, -c * sa, ca}};
}

/* Rotates a about the unit vector `about`, right-handed (Rodrigues' formula). */
static void rotate(double a[3], const double about[3], double angle)
{
	double s = sin(angle), c = cos(angle), along = dot3(about, a) * (1 - c), across[3];
	if (angle == 0)
		return;
	cross3(across, about, a);
	for (int i = 0; i < 3; i++)
		a[i] = c * a[i] + s * across[i] + along * about[i];
}

void view_towards(const double direction[3], double u[3], double v[3])
{
	const double front[3] = {0, -1, 0};
	double about[3], cosine = dot3(front, direction) / norm3(direction);
	memcpy(u, (double[]){1, 0, 0}, 3 * sizeof *u);
	memcpy(v, (double[]){0, 0, 1}, 3 * sizeof *v);
	cross3(about, front, direction);
	double sine = norm3(about) / norm3(direction);
	if (sine == 0) { /* parallel directions: half a circle about z, or no rotation */
		u[0] = cosine < 0 ? -1 : 1;
		return;
	}
	for (int i = 0; i < 3; i++)
		about[i] /= sine * norm3(direction);
	rotate(u, about, atan2(sine, cosine));
	rotate(v, about, atan2(sine, cosine));
}

static Frame frame_of(const Plan *plan, int64_t view)
{
	Frame f;
	double sign = plan->o.reverse ? -1 : 1;
	if (!plan->directions)
		return rotated_frame(sign * angle_of(&plan->o, view), plan->o.tilt);
	memcpy(f.ray, plan->directions + 3 * view, sizeof f.ray);
	view_towards(f.ray, f.u, f.v);
	return f;
}

/* ---- views -------------------------------------------------------------------------------- */

/* Rotations of the detector: swivel, then slant about its new u, then roll about its new normal;
 * this is the same as roll, slant, swivel about the axes of the upright frame. */
static void rotate_detector(const tomos_scan_options *o, const Frame *upright, double side[3])
{
	rotate(side, upright->ray, o->roll);
	rotate(side, upright->u, o->slant);
	rotate(side, upright->v, o->swivel);
}

static void place_source(const Plan *plan, int64_t view, const Frame *f, tomos_view *out)
{
	const tomos_scan_options *o = &plan->o;
	memcpy(out->src, f->ray, sizeof f->ray);
	bool source = plan->kind->has & SOURCE;
	out->src[3] = has_fans(o, plan->kind) ? TOMOS_FAN_PER_ROW
		      : source                ? TOMOS_POINT
					      : TOMOS_PARALLEL;
	memset(out->det, 0, sizeof out->det);
	if (!view_has_source(out))
		return;
	double axis = of_view(o->source_axis, o->source_axis_count, view);
	double detector = of_view(o->source_detector, o->source_detector_count, view);
	double z = o->pitch * (angle_of(o, view) - plan->middle) / (2 * PI);
	for (int i = 0; i < 3; i++) {
		out->src[i] = -axis * f->ray[i];
		out->det[i] = (detector - axis) * f->ray[i];
	}
	out->src[2] += z;
	out->det[2] += z;
}

/* -0 + 0 is 0: no minus zeros in files and messages. */
static void tidy(double a[3])
{
	for (int i = 0; i < 3; i++)
		a[i] += 0.0;
}

/* The row height of fans is the pixel width at the axis, so that voxels are cubes. */
static double row_height(const Plan *plan)
{
	const tomos_scan_options *o = &plan->o;
	if (o->pixel_height > 0)
		return o->pixel_height;
	return has_fans(o, plan->kind) ? o->pixel * o->source_axis[0] / o->source_detector[0]
				       : o->pixel;
}

static void fill_view(const Plan *plan, int64_t view, tomos_view *out)
{
	const tomos_scan_options *o = &plan->o;
	Frame f = frame_of(plan, view), d = f;
	double height = row_height(plan);
	double middle[2] = {0.5 * (double)(o->columns - 1), 0.5 * (double)(o->rows - 1)};
	rotate_detector(o, &f, d.u);
	rotate_detector(o, &f, d.v);
	for (int i = 0; i < 3; i++) {
		out->u[i] = o->pixel * d.u[i];
		out->v[i] = height * d.v[i];
	}
	place_source(plan, view, &f, out);
	if (o->axis)
		view_slide(out, middle[0] - of_view(o->axis, o->axis_count, view), 0);
	if (o->axis_row)
		view_slide(out, 0, middle[1] - of_view(o->axis_row, o->axis_row_count, view));
	tidy(out->src);
	tidy(out->det);
	tidy(out->u);
	tidy(out->v);
}

tomos_status tomos_geometry_make(tomos_geometry **scan, const tomos_scan_options *options)
{
	Plan plan = {.o = tomos_scan_defaults()};
	tomos_scan_options *o = &plan.o;
	int index;
	*scan = NULL;
	TRY(options_take(o, options, "scan"));
	TRY(choice_find("geometry", scan_values.geometry, o->geometry, &index));
	plan.kind = &kinds[index];
	TRY(check_finite(o));
	TRY(check_pixel(o));
	TRY(check_unused(o, plan.kind));
	TRY(choose_views(o, plan.kind));
	TRY(geom_new(scan, o->rows, o->columns, o->views));
	tomos_status status = check_lists(o, plan.kind);
	if (status == TOMOS_OK && !(plan.kind->has & CIRCLE))
		status = lebedev_directions(&plan.directions, o->views);
	if (status != TOMOS_OK) {
		tomos_geometry_free(*scan);
		*scan = NULL;
		return status;
	}
	plan.middle = middle_angle(o);
	for (int64_t i = 0; i < o->views; i++)
		fill_view(&plan, i, &(*scan)->views[i]);
	mem_free(plan.directions);
	return geom_seal(scan);
}

/* ---- the common kinds in one line --------------------------------------------------------- */

static tomos_scan_options simple_scan(const char *kind, int64_t rows, int64_t columns, double pixel,
	const double *angles, int64_t count)
{
	tomos_scan_options o = tomos_scan_defaults();
	o.geometry = kind;
	o.rows = rows;
	o.columns = columns;
	o.pixel = pixel;
	o.angles = angles;
	o.angles_count = count;
	return o;
}

static tomos_status make_divergent(tomos_geometry **scan, tomos_scan_options o,
	const double *source_axis, const double *source_detector)
{
	o.source_axis = source_axis;
	o.source_detector = source_detector;
	o.source_axis_count = o.source_detector_count = 1;
	return tomos_geometry_make(scan, &o);
}

tomos_status tomos_geometry_parallel(tomos_geometry **scan, int64_t rows, int64_t columns,
	double pixel, const double *angles, int64_t count)
{
	tomos_scan_options o = simple_scan("parallel", rows, columns, pixel, angles, count);
	return tomos_geometry_make(scan, &o);
}

tomos_status tomos_geometry_fan(tomos_geometry **scan, int64_t columns, double pixel,
	double source_axis, double source_detector, const double *angles, int64_t count)
{
	return make_divergent(scan, simple_scan("fan", 1, columns, pixel, angles, count),
		&source_axis, &source_detector);
}

tomos_status tomos_geometry_cone(tomos_geometry **scan, int64_t rows, int64_t columns, double pixel,
	double source_axis, double source_detector, const double *angles, int64_t count)
{
	return make_divergent(scan, simple_scan("cone", rows, columns, pixel, angles, count),
		&source_axis, &source_detector);
}
