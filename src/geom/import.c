/* Geometry files of other programs: RTK, LEAP, and projection matrices. Their axes are
 * exchanged so that z is the rotation axis. */
#include "geom/import.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/keys.h"
#include "base/xml.h"

#define RADIANS (3.14159265358979323846 / 180)

static tomos_status need_size(const ImportJob *job)
{
	if (job->rows >= 1 && job->columns >= 1)
		return TOMOS_OK;
	return fail(TOMOS_BAD_VALUE,
		"'%s' does not hold the detector's size, and %lld rows x %lld columns are given",
		job->path, (long long)job->rows, (long long)job->columns);
}

tomos_status numbers_read(double **list, int64_t *count, const char *text, const char *path)
{
	static const char between[] = " \t\r\n,;[](){}";
	int64_t capacity = 0;
	*list = NULL;
	*count = 0;
	tomos_status status = TOMOS_OK;
	for (const char *at = text + strspn(text, between); *at && status == TOMOS_OK;) {
		char *end;
		double value = strtod(at, &end);
		if (end == at || (*end && !strchr(between, *end)))
			status = fail(TOMOS_BAD_FILE, "'%s': '%.16s' is not a number", path, at);
		else
			status = mem_grow(list, *count, &capacity, sizeof **list, "numbers");
		if (status == TOMOS_OK)
			(*list)[(*count)++] = value;
		at = end + strspn(end, between);
	}
	if (status != TOMOS_OK) {
		mem_free(*list);
		*list = NULL;
	}
	return status;
}

/* ---- RTK ----------------------------------------------------------------------------------- */

typedef struct {
	double source_iso, source_detector, gantry, out_of_plane, in_plane;
	double source[2], detector[2], cylinder;
} Rtk;

/* Numbers of a view replace those of the whole file. */
static tomos_status read_rtk(const XmlNode *node, const char *path, Rtk *r)
{
	const struct {
		const char *name;
		double *value;
	} all[] = {{"SourceToIsocenterDistance", &r->source_iso},
		{"SourceToDetectorDistance", &r->source_detector}, {"GantryAngle", &r->gantry},
		{"OutOfPlaneAngle", &r->out_of_plane}, {"InPlaneAngle", &r->in_plane},
		{"SourceOffsetX", &r->source[0]}, {"SourceOffsetY", &r->source[1]},
		{"ProjectionOffsetX", &r->detector[0]}, {"ProjectionOffsetY", &r->detector[1]},
		{"RadiusCylindricalDetector", &r->cylinder}};
	for (int i = 0; i < COUNT(all); i++)
		TRY(xml_number(node, all[i].name, path, all[i].value, &(bool){false}));
	return TOMOS_OK;
}

void rotate_pair(double *a, double *b, double angle)
{
	double p = *a, q = *b;
	*a = cos(angle) * p - sin(angle) * q;
	*b = sin(angle) * p + cos(angle) * q;
}

/* From the gantry's frame to the room's, by rotations about z, x and y; then RTK's x, y, z become
 * x, z, -y. */
static void from_gantry(const Rtk *r, double a[3])
{
	rotate_pair(&a[0], &a[1], r->in_plane * RADIANS);
	rotate_pair(&a[1], &a[2], r->out_of_plane * RADIANS);
	rotate_pair(&a[2], &a[0], r->gantry * RADIANS);
	double z = a[2];
	a[2] = a[1];
	a[1] = -z;
}

static tomos_status rtk_view(tomos_view *view, const Rtk *r, const ImportJob *job, int64_t index)
{
	if (r->cylinder != 0 || !(r->source_detector > 0) || !(r->source_iso > 0))
		return fail(TOMOS_UNSUPPORTED,
			"'%s', view %lld: a cylindrical detector of radius %g, source distances %g "
			"and %g; flat detectors and point sources can be read",
			job->path, (long long)index, r->cylinder, r->source_iso,
			r->source_detector);
	*view = (tomos_view){.src = {r->source[0], r->source[1], r->source_iso, TOMOS_POINT},
		.det = {r->detector[0], r->detector[1], r->source_iso - r->source_detector},
		.u = {job->pixel[0], 0, 0},
		.v = {0, job->pixel[1], 0}};
	double *const parts[] = {view->src, view->det, view->u, view->v};
	for (int i = 0; i < COUNT(parts); i++)
		from_gantry(r, parts[i]);
	return view_check(view, index);
}

static tomos_status rtk_views(tomos_geometry **scan, const ImportJob *job, const XmlNode *root)
{
	int64_t count = 0, view = 0;
	Rtk all = {.source_iso = 0};
	for (const XmlNode *node = root->child; node; node = node->next)
		count += strcmp(node->name, "Projection") == 0;
	if (strcmp(root->name, "RTKThreeDCircularGeometry") != 0 || count == 0)
		return fail(TOMOS_BAD_FILE,
			"'%s' is '%.40s' with %lld views; RTKThreeDCircularGeometry was expected",
			job->path, root->name, (long long)count);
	TRY(geom_new(scan, job->rows, job->columns, count));
	for (const XmlNode *node = root->child; node; node = node->next) {
		/* numbers of the whole file are before the views that they hold for */
		Rtk one = all;
		bool is_view = strcmp(node->name, "Projection") == 0;
		if (!is_view) {
			XmlNode copy = *node;
			copy.next = NULL;
			TRY(read_rtk(&(const XmlNode){.child = &copy}, job->path, &all));
			continue;
		}
		TRY(read_rtk(node, job->path, &one));
		TRY(rtk_view(&(*scan)->views[view], &one, job, view));
		view++;
	}
	return TOMOS_OK;
}

tomos_status import_rtk(tomos_geometry **scan, const ImportJob *job)
{
	XmlNode *root;
	TRY(need_size(job));
	if (!(job->pixel[0] > 0 && job->pixel[1] > 0))
		return fail(TOMOS_BAD_VALUE,
			"'%s' is in mm and does not hold the size of the pixels: give it with the "
			"option 'views_pixel'",
			job->path);
	TRY(xml_read(&root, job->path));
	tomos_status status = rtk_views(scan, job, root);
	xml_free(root);
	return status;
}

/* ---- LEAP ---------------------------------------------------------------------------------- */

bool import_is_leap(const char *text)
{
	return strstr(text, "numAngles") != NULL && strstr(text, "numCols") != NULL;
}

typedef struct {
	const Keys *keys;
	double sod, sdd, tau, tilt, center[2], pixel[2]; /* tilt: degrees */
	int64_t views, rows, columns;
} Leap;

/* A list of that many numbers; to be freed. */
static tomos_status leap_list(const Leap *l, const char *name, int64_t wanted, double **list)
{
	const char *text = keys_text(l->keys, "", name);
	int64_t count;
	if (!text)
		return fail(TOMOS_BAD_FILE, "'%s' does not have '%s'", l->keys->path, name);
	TRY(numbers_read(list, &count, text, l->keys->path));
	if (count == wanted)
		return TOMOS_OK;
	mem_free(*list);
	*list = NULL;
	return fail(TOMOS_BAD_FILE, "'%s': '%s' has %lld numbers; %lld were expected",
		l->keys->path, name, (long long)count, (long long)wanted);
}

static tomos_status leap_modular(const Leap *l, tomos_geometry *scan)
{
	static const char *const names[] = {
		"sourcePositions", "moduleCenters", "rowVectors", "colVectors"};
	double *lists[4] = {NULL, NULL, NULL, NULL};
	tomos_status status = TOMOS_OK;
	for (int i = 0; i < 4 && status == TOMOS_OK; i++)
		status = leap_list(l, names[i], 3 * l->views, &lists[i]);
	for (int64_t i = 0; i < l->views && status == TOMOS_OK; i++) {
		tomos_view *v = &scan->views[i];
		v->src[3] = TOMOS_POINT;
		for (int k = 0; k < 3; k++) {
			v->src[k] = lists[0][3 * i + k];
			v->det[k] = lists[1][3 * i + k];
			v->v[k] = l->pixel[1] * lists[2][3 * i + k];
			v->u[k] = l->pixel[0] * lists[3][3 * i + k];
		}
		status = view_check(v, i);
	}
	for (int i = 0; i < 4; i++)
		mem_free(lists[i]);
	return status;
}

/* The angles: a list, or equal parts of a range from 0, as LEAP reads them; to be freed. */
static tomos_status leap_angles(const Leap *l, double **phis)
{
	double range;
	if (keys_text(l->keys, "", "phis"))
		return leap_list(l, "phis", l->views, phis);
	TRY(keys_number(l->keys, "", "phis|angularRange", &range, NULL));
	TRY(mem_alloc(phis, l->views, sizeof **phis, "angles"));
	for (int64_t i = 0; i < l->views; i++)
		(*phis)[i] = range * (double)i / (double)l->views;
	return TOMOS_OK;
}

/* The source is at sod (cos a, sin a) with a = phi - 90 degrees, columns along (-sin a, cos a),
 * rows along z; tau moves source and detector against the columns, and the detector is rotated by
 * tiltAngle about the central ray. */
static tomos_status leap_cone(const Leap *l, tomos_geometry *scan)
{
	double *phis, column = l->center[1] - 0.5 * (double)(l->columns - 1),
		      row = l->center[0] - 0.5 * (double)(l->rows - 1);
	double ct = cos(l->tilt * RADIANS), st = sin(l->tilt * RADIANS);
	TRY(leap_angles(l, &phis));
	tomos_status status = TOMOS_OK;
	for (int64_t i = 0; i < l->views && status == TOMOS_OK; i++) {
		double a = (phis[i] - 90) * RADIANS, c = cos(a), s = sin(a);
		double far = l->sod - l->sdd, width = l->pixel[0], height = l->pixel[1];
		tomos_view *v = &scan->views[i];
		*v = (tomos_view){
			{l->sod * c + l->tau * s, l->sod * s - l->tau * c, 0, TOMOS_POINT},
			{far * c + l->tau * s, far * s - l->tau * c, 0},
			{-width * ct * s, width * ct * c, width * st},
			{height * st * s, -height * st * c, height * ct}};
		view_slide(v, -column, -row);
		status = view_check(v, i);
	}
	mem_free(phis);
	return status;
}

static tomos_status leap_kind(const ImportJob *job, const Keys *keys, bool *modular)
{
	const char *kind = keys_text(keys, "", "geometry");
	const char *detector = keys_text(keys, "", "detectorType");
	double pitch = 0;
	*modular = kind && strcmp(kind, "modular") == 0;
	if (!*modular && !(kind && strcmp(kind, "cone") == 0))
		return fail(TOMOS_UNSUPPORTED,
			"'%s': geometry is '%.30s'; cone and modular can be read", job->path,
			kind ? kind : "");
	if (detector && strcmp(detector, "flat") != 0)
		return fail(TOMOS_UNSUPPORTED,
			"'%s': detectorType is '%.30s'; flat detectors can be read", job->path,
			detector);
	TRY(keys_number(keys, "", "helicalPitch", &pitch, &(bool){false}));
	if (pitch != 0 && !*modular) /* else the positions contain it */
		return fail(TOMOS_UNSUPPORTED,
			"'%s': helicalPitch is %g; it must be 0, or the geometry modular",
			job->path, pitch);
	return TOMOS_OK;
}

static tomos_status read_leap(tomos_geometry **scan, const ImportJob *job, const Keys *keys)
{
	Leap l = {.keys = keys};
	bool modular;
	TRY(leap_kind(job, keys, &modular));
	TRY(keys_count(keys, "", "numAngles", &l.views));
	TRY(keys_count(keys, "", "numRows", &l.rows));
	TRY(keys_count(keys, "", "numCols", &l.columns));
	TRY(keys_positive(keys, "", "pixelWidth", &l.pixel[0], NULL));
	TRY(keys_positive(keys, "", "pixelHeight", &l.pixel[1], NULL));
	l.center[0] = 0.5 * (double)(l.rows - 1);
	l.center[1] = 0.5 * (double)(l.columns - 1);
	TRY(keys_number(keys, "", "centerRow", &l.center[0], &(bool){false}));
	TRY(keys_number(keys, "", "centerCol", &l.center[1], &(bool){false}));
	TRY(keys_number(keys, "", "tau", &l.tau, &(bool){false}));
	TRY(keys_number(keys, "", "tiltAngle", &l.tilt, &(bool){false}));
	if (!modular) {
		TRY(keys_positive(keys, "", "sod", &l.sod, NULL));
		TRY(keys_positive(keys, "", "sdd", &l.sdd, NULL));
	}
	TRY(geom_new(scan, l.rows, l.columns, l.views));
	return modular ? leap_modular(&l, *scan) : leap_cone(&l, *scan);
}

tomos_status import_leap(tomos_geometry **scan, const ImportJob *job)
{
	Keys keys;
	TRY(keys_read(&keys, job->path));
	tomos_status status = read_leap(scan, job, &keys);
	keys_free(&keys);
	return status;
}

/* ---- matrices ------------------------------------------------------------------------------ */

static const char nrrd_key[] = "Projection Matrix:=";

bool import_is_matrices(const char *text)
{
	int numbers = 0;
	if (strncmp(text, "NRRD", 4) == 0)
		return true;
	while (*text == '#' || *text == '\n' || *text == '\r')
		text += *text == '#' ? strcspn(text, "\n") : 1;
	for (char *end; *text && *text != '\n'; text = end + strspn(end, " \t\r,;[]")) {
		(void)strtod(text, &end);
		if (end == text)
			return false;
		numbers++;
	}
	return numbers == 4;
}

/* The source is where all rays meet: M p = 0. Pixel (column, row) is on the ray M^-1 (column, row,
 * 1); the detector is put where its rays are twice as far as the origin, since a matrix does not
 * say how far it is. */
tomos_status view_from_matrix(
	tomos_view *view, const double m[12], int64_t rows, int64_t columns, int64_t index)
{
	double inverse[3][3], column[3];
	const double a[3][3] = {{m[0], m[1], m[2]}, {m[4], m[5], m[6]}, {m[8], m[9], m[10]}};
	for (int i = 0; i < 3; i++) {
		cross3(column, a[(i + 1) % 3], a[(i + 2) % 3]);
		for (int k = 0; k < 3; k++)
			inverse[k][i] = column[k];
	}
	double det = a[0][0] * inverse[0][0] + a[0][1] * inverse[1][0] + a[0][2] * inverse[2][0];
	if (!(fabs(det) > 1e-300) || m[11] == 0)
		return fail(TOMOS_BAD_FILE,
			"view %lld: the matrix has no point source away from the origin",
			(long long)index);
	double middle[3] = {0.5 * (double)(columns - 1), 0.5 * (double)(rows - 1), 1};
	double scale = 2 * m[11] / det; /* the depth of the origin is m[11] */
	for (int k = 0; k < 3; k++) {
		view->src[k] =
			-(inverse[k][0] * m[3] + inverse[k][1] * m[7] + inverse[k][2] * m[11]) /
			det;
		view->u[k] = scale * inverse[k][0];
		view->v[k] = scale * inverse[k][1];
		view->det[k] = view->src[k] +
			       scale * (inverse[k][0] * middle[0] + inverse[k][1] * middle[1] +
					       inverse[k][2] * middle[2]);
	}
	view->src[3] = TOMOS_POINT;
	return view_check(view, index);
}

/* The numbers of all matrices: of a NRRD header, those after its keys. */
static tomos_status matrix_numbers(const ImportJob *job, double **list, int64_t *count)
{
	char *copy, *to;
	if (strncmp(job->text, "NRRD", 4) != 0)
		return numbers_read(list, count, job->text, job->path);
	TRY(mem_zeroed(&copy, (int64_t)strlen(job->text) + 2, 1, "the header of a file"));
	to = copy;
	for (const char *line = strstr(job->text, nrrd_key); line; line = strstr(line, nrrd_key)) {
		line += strlen(nrrd_key);
		size_t length = strcspn(line, "\r\n");
		memcpy(to, line, length);
		to += length;
		*to++ = ' ';
		line += length;
	}
	tomos_status status = numbers_read(list, count, copy, job->path);
	mem_free(copy);
	return status;
}

tomos_status import_matrices(tomos_geometry **scan, const ImportJob *job)
{
	double *list;
	int64_t count;
	TRY(need_size(job));
	TRY(matrix_numbers(job, &list, &count));
	tomos_status status =
		count > 0 && count % 12 == 0
			? geom_new(scan, job->rows, job->columns, count / 12)
			: fail(TOMOS_BAD_FILE,
				  "'%s' has %lld numbers; matrices of 3 x 4 were expected",
				  job->path, (long long)count);
	for (int64_t i = 0; i < count / 12 && status == TOMOS_OK; i++)
		status = view_from_matrix(
			&(*scan)->views[i], list + 12 * i, job->rows, job->columns, i);
	mem_free(list);
	return status;
}
