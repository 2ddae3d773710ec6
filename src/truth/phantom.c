/* Phantoms: sums of ellipsoids, given by name or as a list.
 *
 * The head: L. A. Shepp, B. F. Logan, The Fourier reconstruction of a head section, IEEE Trans.
 * Nucl. Sci. 21, 1974; in three dimensions A. C. Kak, M. Slaney, Principles of computerized
 * tomographic imaging, 1988, p. 102. Modified contrast, in which the details are ten times
 * stronger: P. Toft, The Radon transform, PhD thesis, Technical University of Denmark, 1996; in
 * three dimensions H. Yu, Y. Ye, G. Wang, Katsevich-type algorithms for variable radius spiral
 * cone-beam CT, Proc. SPIE 5535, 2004. The Defrise phantom is a stack of thin discs across the
 * axis, which circular cone-beam scans reconstruct worst.
 *
 * y points up: on a grid whose y index runs downwards the heads appear upright.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "truth/truth.h"

#define DEGREE 0.01745329251994329577
#define SMALLEST 1e-30 /* squares and quotients of numbers between these do not overflow */
#define LARGEST 1e30

enum { ORIGINAL, MODIFIED };

/* Half axes, centre and rotation about z (degrees) in the box [-1, 1]^3; values of the two
 * contrasts. */
typedef struct {
	double axes[3], centre[3], angle, value[2];
} Row;

static const Row ball[] = {{{1, 1, 1}, {0, 0, 0}, 0, {1, 1}}};

static const Row head[] = {
	{{.69, .92, .9}, {0, 0, 0}, 0, {2, 1}},
	{{.6624, .874, .88}, {0, 0, 0}, 0, {-.98, -.8}},
	{{.41, .16, .21}, {-.22, 0, -.25}, 108, {-.02, -.2}},
	{{.31, .11, .22}, {.22, 0, -.25}, 72, {-.02, -.2}},
	{{.21, .25, .5}, {0, .35, -.25}, 0, {.02, .2}},
	{{.046, .046, .046}, {0, .1, -.25}, 0, {.02, .2}},
	{{.046, .023, .02}, {-.08, -.65, -.25}, 0, {.01, .1}},
	{{.046, .023, .02}, {.06, -.65, -.25}, 90, {.01, .1}},
	{{.056, .04, .1}, {.06, -.105, .625}, 90, {.02, .2}},
	{{.056, .056, .1}, {0, .1, .625}, 0, {-.02, -.2}},
};

/* The same in every plane of constant z. */
static const Row head_2d[] = {
	{{.69, .92, INFINITY}, {0, 0, 0}, 0, {2, 1}},
	{{.6624, .874, INFINITY}, {0, -.0184, 0}, 0, {-.98, -.8}},
	{{.11, .31, INFINITY}, {.22, 0, 0}, -18, {-.02, -.2}},
	{{.16, .41, INFINITY}, {-.22, 0, 0}, 18, {-.02, -.2}},
	{{.21, .25, INFINITY}, {0, .35, 0}, 0, {.01, .1}},
	{{.046, .046, INFINITY}, {0, .1, 0}, 0, {.01, .1}},
	{{.046, .046, INFINITY}, {0, -.1, 0}, 0, {.01, .1}},
	{{.046, .023, INFINITY}, {-.08, -.605, 0}, 0, {.01, .1}},
	{{.023, .023, INFINITY}, {0, -.605, 0}, 0, {.01, .1}},
	{{.023, .046, INFINITY}, {.06, -.605, 0}, 0, {.01, .1}},
};

static const Row defrise[] = {
	{{.8, .8, .06}, {0, 0, -.72}, 0, {1, 1}},
	{{.8, .8, .06}, {0, 0, -.48}, 0, {1, 1}},
	{{.8, .8, .06}, {0, 0, -.24}, 0, {1, 1}},
	{{.8, .8, .06}, {0, 0, 0}, 0, {1, 1}},
	{{.8, .8, .06}, {0, 0, .24}, 0, {1, 1}},
	{{.8, .8, .06}, {0, 0, .48}, 0, {1, 1}},
	{{.8, .8, .06}, {0, 0, .72}, 0, {1, 1}},
};

static const struct {
	const char *name;
	const Row *table;
	int64_t rows;
	int contrast;
} named[] = {
#define P(name, table, rows, contrast) {name, table, rows, contrast},
#include "truth/phantoms.def"
#undef P
};

const char *tomos_phantom_names(void)
{
	static const char names[] =
#define P(name, table, rows, contrast) "|" name
#include "truth/phantoms.def"
#undef P
		;
	return names + 1;
}

/* ---- lists ----------------------------------------------------------------------------------- */

static tomos_status check_axes(const double axes[3], int64_t index)
{
	int infinite = 0;
	for (int i = 0; i < 3; i++) {
		infinite += axes[i] == INFINITY;
		if (!(axes[i] >= SMALLEST && (axes[i] <= LARGEST || axes[i] == INFINITY)))
			return fail(TOMOS_BAD_VALUE,
				"ellipsoid %lld: half axis %d is %g, but must be %g to %g, or "
				"infinite for a "
				"cylinder",
				(long long)index, i, axes[i], SMALLEST, LARGEST);
	}
	if (infinite == 3)
		return fail(TOMOS_BAD_VALUE, "ellipsoid %lld: all half axes are infinite",
			(long long)index);
	return TOMOS_OK;
}

static tomos_status check_numbers(const double *numbers, int count, const char *what, int64_t index)
{
	for (int i = 0; i < count; i++)
		if (!(fabs(numbers[i]) <= LARGEST))
			return fail(TOMOS_BAD_VALUE,
				"ellipsoid %lld: %s is %g, but must be within +-%g",
				(long long)index, what, numbers[i], LARGEST);
	return TOMOS_OK;
}

static tomos_status check_ellipsoid(const tomos_ellipsoid *e, int64_t index)
{
	TRY(check_axes(e->axes, index));
	TRY(check_numbers(e->centre, 3, "a coordinate of the centre", index));
	TRY(check_numbers(e->euler, 3, "an angle", index));
	return check_numbers(&e->value, 1, "the value", index);
}

/* Columns: the axes of the ellipsoid, rotated by Rz(phi) Rx(theta) Rz(psi). */
static void rotation(const double euler[3], double r[3][3])
{
	double c1 = cos(euler[0]), c2 = cos(euler[1]), c3 = cos(euler[2]);
	double s1 = sin(euler[0]), s2 = sin(euler[1]), s3 = sin(euler[2]);
	double rows[3][3] = {
		{c1 * c3 - s1 * c2 * s3, -c1 * s3 - s1 * c2 * c3, s1 * s2},
		{s1 * c3 + c1 * c2 * s3, -s1 * s3 + c1 * c2 * c3, -c1 * s2},
		{s2 * s3, s2 * c3, c2},
	};
	memcpy(r, rows, sizeof rows);
}

static Solid solid_of(const tomos_ellipsoid *e)
{
	double r[3][3];
	Solid solid = {.value = e->value};
	rotation(e->euler, r);
	for (int i = 0; i < 3; i++) {
		solid.centre[i] = e->centre[i];
		solid.radius = fmax(solid.radius, e->axes[i]);
		for (int k = 0; k < 3; k++)
			solid.to_unit[i][k] = r[k][i] / e->axes[i];
	}
	return solid;
}

/* An empty phantom of `count` ellipsoids, to be filled and finished. */
static tomos_status phantom_new(tomos_phantom **phantom, int64_t count)
{
	tomos_phantom *p = NULL;
	tomos_status status = mem_zeroed(phantom, 1, sizeof *p, "a phantom");
	if (status != TOMOS_OK)
		return status;
	p = *phantom;
	p->count = count;
	TRY_OR_DONE(mem_alloc(&p->list, count, sizeof *p->list, "the ellipsoids of a phantom"));
	TRY_OR_DONE(mem_alloc(&p->solids, count, sizeof *p->solids, "the solids of a phantom"));
	return TOMOS_OK;
done:
	tomos_phantom_free(p);
	*phantom = NULL;
	return status;
}

static void phantom_finish(tomos_phantom *phantom)
{
	for (int64_t i = 0; i < phantom->count; i++)
		phantom->solids[i] = solid_of(&phantom->list[i]);
}

tomos_status tomos_phantom_ellipsoids(
	tomos_phantom **phantom, const tomos_ellipsoid *list, int64_t count)
{
	*phantom = NULL;
	if (!list || count < 1)
		return fail(TOMOS_BAD_VALUE,
			"a phantom of %lld ellipsoids: there must be at least one",
			(long long)(list ? count : 0));
	for (int64_t i = 0; i < count; i++)
		TRY(check_ellipsoid(&list[i], i));
	TRY(phantom_new(phantom, count));
	memcpy((*phantom)->list, list, (size_t)count * sizeof *list);
	phantom_finish(*phantom);
	return TOMOS_OK;
}

void tomos_phantom_free(tomos_phantom *phantom)
{
	if (!phantom)
		return;
	mem_free(phantom->list);
	mem_free(phantom->solids);
	mem_free(phantom);
}

const tomos_ellipsoid *tomos_phantom_list(const tomos_phantom *phantom, int64_t *count)
{
	*count = phantom->count;
	return phantom->list;
}

tomos_status phantom_check(const tomos_phantom *phantom, int64_t samples)
{
	if (!phantom)
		return fail(TOMOS_BAD_VALUE, "there is no phantom");
	if (samples < 1 || samples > 1000)
		return fail(TOMOS_BAD_VALUE,
			"phantom: %lld samples per direction, but must be 1 to 1000",
			(long long)samples);
	return TOMOS_OK;
}

/* ---- names ----------------------------------------------------------------------------------- */

static tomos_ellipsoid table_ellipsoid(const Row *row, int contrast)
{
	tomos_ellipsoid e = {.value = row->value[contrast], .euler = {row->angle * DEGREE, 0, 0}};
	memcpy(e.axes, row->axes, sizeof e.axes);
	memcpy(e.centre, row->centre, sizeof e.centre);
	return e;
}

/* A random ellipsoid inside the unit ball, so that a scan of the ball contains it; half axes 0.04
 * to 0.36, any orientation, values 0.1 to 1. The first n of a seed are the same for every count. */
static tomos_ellipsoid random_ellipsoid(uint64_t seed, int64_t index)
{
	double u[10];
	for (int i = 0; i < COUNT(u); i++)
		u[i] = random_uniform(seed, (uint64_t)index * COUNT(u) + (uint64_t)i);
	tomos_ellipsoid e = {.value = 0.1 + 0.9 * u[9],
		.axes = {0.04 + 0.32 * u[0], 0.04 + 0.32 * u[1], 0.04 + 0.32 * u[2]},
		.euler = {360 * DEGREE * u[3], acos(2 * u[4] - 1), 360 * DEGREE * u[5]}};
	double away = (1 - fmax(e.axes[0], fmax(e.axes[1], e.axes[2]))) * cbrt(u[6]);
	double z = 2 * u[7] - 1, across = sqrt(1 - z * z);
	e.centre[0] = away * across * cos(360 * DEGREE * u[8]);
	e.centre[1] = away * across * sin(360 * DEGREE * u[8]);
	e.centre[2] = away * z;
	return e;
}

static void scale_ellipsoid(tomos_ellipsoid *e, double radius, double value)
{
	for (int i = 0; i < 3; i++) {
		e->centre[i] *= radius;
		e->axes[i] *= radius;
	}
	e->value *= value;
}

static tomos_status check_options(const tomos_phantom_options *o, bool random)
{
	if (!(o->radius >= 1e-20 && o->radius <= 1e20))
		return fail(TOMOS_BAD_VALUE, "phantom: the radius is %g, but must be 1e-20 to 1e20",
			o->radius);
	if (!(fabs(o->value) <= 1e20))
		return fail(TOMOS_BAD_VALUE, "phantom: the value is %g, but must be within +-1e20",
			o->value);
	if (random && (o->count < 1 || o->count > 1000000))
		return fail(TOMOS_BAD_VALUE, "phantom: the count is %lld, but must be 1 to 1000000",
			(long long)o->count);
	return TOMOS_OK;
}

tomos_status tomos_phantom_named(
	tomos_phantom **phantom, const char *name, const tomos_phantom_options *options)
{
	tomos_phantom_options o = tomos_phantom_defaults();
	int which;
	char facts[64];
	*phantom = NULL;
	TRY(choice_find("phantom", tomos_phantom_names(), name, &which));
	TRY(options_take(&o, options, "phantom"));
	const Row *table = named[which].table;
	TRY(check_options(&o, !table));
	snprintf(facts, sizeof facts, "phantom=%s", name);
	TRY(options_need("phantom", &o, facts));
	TRY(phantom_new(phantom, table ? named[which].rows : o.count));
	for (int64_t i = 0; i < (*phantom)->count; i++) {
		tomos_ellipsoid *e = &(*phantom)->list[i];
		*e = table ? table_ellipsoid(&table[i], named[which].contrast)
			   : random_ellipsoid((uint64_t)o.seed, i);
		scale_ellipsoid(e, o.radius, o.value);
	}
	phantom_finish(*phantom);
	return TOMOS_OK;
}
