/* Hounsfield units: x becomes 1000 (x - water) / (water - air). */
#include <math.h>
#include <string.h>
#include "backend/backend.h"
#include "run/run_parts.h"

typedef struct {
	float scale, add;
} Units;

static tomos_status units_make(Units *units, double water, double air)
{
	double scale = 1000 / (water - air), add = -scale * water;
	if (!(water > air) || !isfinite(scale) || !isfinite(add))
		return fail(TOMOS_BAD_VALUE,
			"hu %g,%g: the attenuation of water must be larger than that of air", water,
			air);
	*units = (Units){(float)scale, (float)add};
	return TOMOS_OK;
}

static tomos_status units_of(Units *units, const tomos_run_options *o)
{
	if (o->hu_count > 2)
		return fail(TOMOS_BAD_VALUE, "hu has %lld values: it takes WATER or WATER,AIR",
			(long long)o->hu_count);
	return units_make(units, o->hu[0], o->hu_count > 1 ? o->hu[1] : 0);
}

static void units_apply(Units units, int64_t count, float *values)
{
	for (int64_t i = 0; i < count; i++)
		values[i] = units.scale * values[i] + units.add;
}

tomos_status run_check_units(const FileRun *r)
{
	Units units;
	return r->options.hu_count > 0 ? units_of(&units, &r->options) : TOMOS_OK;
}

tomos_status run_convert_units(FileRun *r, int64_t count, float *volume)
{
	Units units;
	if (r->options.hu_count == 0)
		return TOMOS_OK;
	TRY(units_of(&units, &r->options));
	if (r->resident)
		return r->backend->type->vector->affine(
			r->backend, count, units.scale, units.add, volume);
	units_apply(units, count, volume);
	return TOMOS_OK;
}

/* ---- volumes that the result is compared with ------------------------------------------------ */

static bool in_hounsfield(const File *file)
{
	return strcmp(file->units.value, "HU") == 0;
}

tomos_status run_match_truth(
	const FileRun *r, const File *file, bool hounsfield, int64_t count, float *values)
{
	Units units;
	if (in_hounsfield(file) == hounsfield)
		return TOMOS_OK;
	TRY(units_of(&units, &r->options));
	if (!hounsfield)
		units = (Units){1 / units.scale, -units.add / units.scale};
	units_apply(units, count, values);
	return TOMOS_OK;
}

tomos_status tomos_hounsfield(const tomos_array *volume, double water, double air)
{
	Units units;
	TRY(array_check(volume, "the volume", NULL, ARRAY_WRITTEN));
	TRY(units_make(&units, water, air));
	const int64_t *n = volume->shape, *step = volume->stride;
	for (int64_t k = 0; k < n[0]; k++)
		for (int64_t j = 0; j < n[1]; j++)
			for (int64_t i = 0; i < n[2]; i++) {
				float *x = volume->data + k * step[0] + j * step[1] + i * step[2];
				*x = units.scale * *x + units.add;
			}
	return TOMOS_OK;
}
