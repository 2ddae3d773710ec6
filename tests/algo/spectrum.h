/* Scans with a polychromatic beam in closed form: path lengths through elliptic cylinders of
 * several materials, and the mean over a spectrum of what they transmit. */
#ifndef TOMOS_TESTS_ALGO_SPECTRUM_H
#define TOMOS_TESTS_ALGO_SPECTRUM_H

#include "ops/cases.h"

enum { ENERGIES = 20, MOST_BODIES = 8 };

typedef enum { WATER, PLASTIC, BONE, ALUMINIUM, STEEL, MATERIALS } Material;

/* Attenuation in 1/mm at 60 keV: scattering, and absorption, which falls with the third power of
 * the energy. */
static const double attenuation[MATERIALS][2] = {
	{0.018, 0.0026}, {0.0205, 0.0021}, {0.033, 0.026}, {0.042, 0.033}, {0.13, 0.85}};

static inline double attenuation_at(Material material, double energy)
{
	return attenuation[material][0] + attenuation[material][1] * pow(60 / energy, 3);
}

/* A cylinder along z; it displaces what the bodies before it consist of. */
typedef struct {
	double x, y, a, b;
	Material material, in; /* in: the material around it; the same: air */
} Body;

/* Bremsstrahlung of 25 to 120 keV behind 2 mm of aluminium; soft: 6 to 73 keV, without. */
static bool spectrum_soft;

static inline double spectrum_weight(int i, double *energy)
{
	*energy = spectrum_soft ? 6 + 3.5 * (double)i : 25 + 5 * (double)i;
	double filter = spectrum_soft ? 0 : 2, most = spectrum_soft ? 74 : 121;
	return (most / *energy - 1) * *energy * exp(-filter * attenuation_at(ALUMINIUM, *energy));
}

/* Line integrals that a detector measures. */
static inline void spectrum_project(
	const Body *bodies, int count, const tomos_geometry *scan, tomos_array *p)
{
	int64_t values = p->shape[0] * p->shape[1] * p->shape[2];
	double *lengths = calloc((size_t)(values * MATERIALS), sizeof *lengths);
	for (int i = 0; i < count; i++) {
		const tomos_ellipsoid e = {.centre = {bodies[i].x, bodies[i].y, 0},
			.axes = {bodies[i].a, bodies[i].b, INFINITY},
			.value = 1};
		tomos_phantom *phantom;
		OK(tomos_phantom_ellipsoids(&phantom, &e, 1));
		OK(tomos_phantom_project(phantom, scan, 1, p));
		tomos_phantom_free(phantom);
		for (int64_t k = 0; k < values; k++) {
			lengths[bodies[i].material * values + k] += (double)p->data[k];
			if (bodies[i].in != bodies[i].material)
				lengths[bodies[i].in * values + k] -= (double)p->data[k];
		}
	}
	for (int64_t k = 0; k < values; k++) {
		double sum = 0, all = 0;
		for (int i = 0; i < ENERGIES; i++) {
			double energy, weight = spectrum_weight(i, &energy), depth = 0;
			for (int m = 0; m < MATERIALS; m++)
				depth += lengths[m * values + k] *
					 attenuation_at((Material)m, energy);
			sum += weight * exp(-depth);
			all += weight;
		}
		p->data[k] = (float)-log(sum / all);
	}
	free(lengths);
}

#endif
