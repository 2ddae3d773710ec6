/* Geometry files of other programs. */
#ifndef TOMOS_GEOM_IMPORT_H
#define TOMOS_GEOM_IMPORT_H

#include <jansson.h>
#include <locale.h>
#include "geom/parts.h"

/* Of our own files: their format, and the key of a view's source by tomos_source. */
extern const char geometry_form[];
extern const char *const geometry_kinds[3];
bool path_ends(const char *path, const char *ending);
/* Numbers have a decimal point between these two, in any locale. */
tomos_status plain_numbers(locale_t *plain, locale_t *before);
void usual_numbers(locale_t plain, locale_t before);

/* What the caller knows of a geometry; 0: nothing. */
typedef struct {
	const char *path;
	const char *text;
	int64_t rows, columns;
	double pixel[2];
} ImportJob;

/* RTK's ThreeDCircularGeometry (XML): angles and distances of each view, in mm. */
tomos_status import_rtk(tomos_geometry **scan, const ImportJob *job);
/* LEAP's parameters: "key = value" lines of a cone or modular beam. */
bool import_is_leap(const char *text);
tomos_status import_leap(tomos_geometry **scan, const ImportJob *job);
/* 3 x 4 matrices that project points in mm to columns and rows, whole numbers at pixel centres:
 * three lines of four numbers per view, or the header lines "Projection Matrix:=[...]" of a NRRD
 * file. */
bool import_is_matrices(const char *text);
tomos_status import_matrices(tomos_geometry **scan, const ImportJob *job);
/* A view from one such matrix, as rows. */
tomos_status view_from_matrix(
	tomos_view *view, const double m[12], int64_t rows, int64_t columns, int64_t index);
/* TIGRE's geometry: its fields as a JSON object, with the angles. */
tomos_status import_tigre(tomos_geometry **scan, const json_t *root);

/* (a, b) rotated by the angle, from a towards b. */
void rotate_pair(double *a, double *b, double angle);
/* Numbers separated by blanks, commas, semicolons or brackets; to be freed. */
tomos_status numbers_read(double **list, int64_t *count, const char *text, const char *path);

#endif
