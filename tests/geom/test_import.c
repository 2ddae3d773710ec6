/* Geometry files of other programs: points fall on the pixels that the formulas of these programs
 * give, for both directions of rotation and both signs of offsets. */
#include <math.h>
#include "geom/geom.h"
#include "io/io_help.h"

enum { ROWS = 30, COLUMNS = 40, VIEWS = 5 };

static const double points[][3] = {{0, 0, 0}, {3, 1, 2}, {-2, 4, -1}, {1, -3, 2.5}};

static void put(const char *name, const char *text)
{
	put_file(at(name), text, strlen(text));
}

/* Column and row of a point, from det + a u + b v = src + t (p - src). */
static void project(const tomos_view *view, const double p[3], double pixel[2])
{
	double m[3][4];
	for (int i = 0; i < 3; i++) {
		m[i][0] = view->u[i];
		m[i][1] = view->v[i];
		m[i][2] = view->src[i] - p[i];
		m[i][3] = view->src[i] - view->det[i];
	}
	for (int i = 0; i < 3; i++) { /* Gauss and Jordan, with the largest pivot */
		int best = i;
		for (int k = i; k < 3; k++)
			best = fabs(m[k][i]) > fabs(m[best][i]) ? k : best;
		for (int c = 0; c < 4; c++) {
			double kept = m[i][c];
			m[i][c] = m[best][c];
			m[best][c] = kept;
		}
		for (int k = 0; k < 3; k++)
			for (int c = 3; k != i && c >= i; c--)
				m[k][c] -= m[k][i] / m[i][i] * m[i][c];
	}
	pixel[0] = m[0][3] / m[0][0] + 0.5 * (COLUMNS - 1);
	pixel[1] = m[1][3] / m[1][1] + 0.5 * (ROWS - 1);
}

typedef void (*Formula)(int view, const double p[3], double pixel[2]);

static void check(const char *name, double pixel, double height, Formula formula)
{
	tomos_geometry *g;
	bool sized = strstr(name, ".json") || strstr(name, "leap");
	assert_ok(tomos_geometry_import(
		&g, at(name), sized ? 0 : ROWS, sized ? 0 : COLUMNS, -1, pixel, height));
	assert_true(g->count == VIEWS && g->rows == ROWS && g->columns == COLUMNS);
	for (int v = 0; v < VIEWS; v++)
		for (int i = 0; i < COUNT(points); i++) {
			double got[2], wanted[2];
			project(&g->views[v], points[i], got);
			formula(v, points[i], wanted);
			assert_true(
				fabs(got[0] - wanted[0]) < 1e-6 && fabs(got[1] - wanted[1]) < 1e-6);
		}
	tomos_geometry_free(g);
}

static void rejected(const char *name, const char *text, const char *message)
{
	tomos_geometry *g;
	put(name, text);
	assert_int_not_equal(
		tomos_geometry_import(&g, at(name), ROWS, COLUMNS, -1, 1, 1), TOMOS_OK);
	assert_null(g);
	assert_says(message);
}

static double sign = 1; /* of angles and offsets */

static void turn(double *a, double *b, double angle)
{
	double p = *a, q = *b;
	*a = cos(angle) * p - sin(angle) * q;
	*b = sin(angle) * p + cos(angle) * q;
}

/* ---- RTK ---- */

static double rtk_angle(int view, int which)
{
	static const double angles[3] = {25, 4, -3}; /* gantry, out of plane, in plane */
	return sign * (which == 0 ? 10 + angles[0] * view : angles[which]);
}

/* Rotations about y, x and z by the negative angles, then magnified from the source. */
static void rtk_formula(int view, const double p[3], double pixel[2])
{
	double x = p[0], y = p[2], z = -p[1], degree = M_PI / 180;
	turn(&z, &x, -rtk_angle(view, 0) * degree);
	turn(&y, &z, -rtk_angle(view, 1) * degree);
	turn(&x, &y, -rtk_angle(view, 2) * degree);
	double m = 150 / (100 - z), source[2] = {sign * 0.7, -sign * 0.4};
	pixel[0] = (source[0] + (x - source[0]) * m - sign * 1.5) / 0.8 + 0.5 * (COLUMNS - 1);
	pixel[1] = (source[1] + (y - source[1]) * m + sign * 2.5) / 0.6 + 0.5 * (ROWS - 1);
}

static void test_rtk(void **state)
{
	tomos_geometry *g;
	(void)state;
	for (sign = -1; sign <= 1; sign += 2) {
		char text[4000];
		int length = snprintf(text, sizeof text,
			"<?xml version=\"1.0\"?>\n<!DOCTYPE RTKGEOMETRY>\n"
			"<RTKThreeDCircularGeometry version=\"3\">\n"
			"<SourceToIsocenterDistance>100</SourceToIsocenterDistance>\n"
			"<SourceToDetectorDistance>150</SourceToDetectorDistance>\n");
		for (int v = 0; v < VIEWS; v++)
			length += snprintf(text + length, sizeof text - (size_t)length,
				"<Projection><GantryAngle>%g</GantryAngle><OutOfPlaneAngle>%g"
				"</OutOfPlaneAngle><InPlaneAngle>%g</InPlaneAngle><SourceOffsetX>%g"
				"</SourceOffsetX><SourceOffsetY>%g</SourceOffsetY>"
				"<ProjectionOffsetX>%g</ProjectionOffsetX><ProjectionOffsetY>%g"
				"</ProjectionOffsetY><Matrix>1 2 3</Matrix></Projection>\n",
				rtk_angle(v, 0), rtk_angle(v, 1), rtk_angle(v, 2), sign * 0.7,
				-sign * 0.4, sign * 1.5, -sign * 2.5);
		snprintf(text + length, sizeof text - (size_t)length,
			"</RTKThreeDCircularGeometry>\n");
		put("rtk.xml", text);
		check("rtk.xml", 0.8, 0.6, rtk_formula);
	}
	assert_int_not_equal(tomos_geometry_read(&g, at("rtk.xml"), ROWS, COLUMNS, -1), TOMOS_OK);
	assert_says("does not hold the size of the pixels");
	rejected("bad.xml", "<a/>", "RTKThreeDCircularGeometry was expected");
	rejected("bad.xml",
		"<RTKThreeDCircularGeometry><Projection><GantryAngle>1</GantryAngle></Projection>"
		"</RTKThreeDCircularGeometry>",
		"source distances 0 and 0");
}

/* ---- TIGRE ---- */

static void tigre_formula(int view, const double p[3], double pixel[2])
{
	double x = p[0] + sign * 0.3, y = p[1] - 0.2, z = p[2] + 0.1;
	turn(&x, &y, -sign * 0.4 * view);
	double m = 150 / (100 - x), cor = sign * 0.5;
	pixel[0] = ((y - cor) * m - sign * 1.2) / 0.8 + 0.5 * (COLUMNS - 1);
	pixel[1] = (z * m + 0.7) / 0.6 + 0.5 * (ROWS - 1);
}

static void test_tigre(void **state)
{
	(void)state;
	for (sign = -1; sign <= 1; sign += 2) {
		char text[1000];
		snprintf(text, sizeof text,
			"{\"DSD\": 150, \"DSO\": 100, \"nDetector\": [%d, %d], \"dDetector\": "
			"[0.6, "
			"0.8], \"offDetector\": [-0.7, %g], \"offOrigin\": [0.1, -0.2, %g], "
			"\"COR\": "
			"%g, \"mode\": \"cone\", \"rotDetector\": [0, 0, 0], \"angles\": [0, %g, "
			"%g, "
			"%g, %g]}",
			ROWS, COLUMNS, sign * 1.2, sign * 0.3, sign * 0.5, sign * 0.4, sign * 0.8,
			sign * 1.2, sign * 1.6);
		put("tigre.json", text);
		check("tigre.json", 0, 0, tigre_formula);
	}
	rejected("bad.json", "{\"DSD\": 1, \"rotDetector\": [1, 0, 0]}", "upright detectors");
	rejected("bad.json", "{\"DSD\": [1, 2]}", "'DSD' must be");
	rejected("bad.json", "{\"DSD\": 2, \"DSO\": 1, \"nDetector\": [3, 4]}", "'angles' must be");
}

/* ---- LEAP ---- */

static double leap_tau, leap_tilt; /* mm, degrees */

/* In LEAP's frame, the source is at sod (cos a, sin a) with a = phi - 90 degrees, rays go along
 * -(cos a, sin a) + u (-sin a, cos a) + v z. */
static void leap_formula(int view, const double p[3], double pixel[2])
{
	double a = (sign * 20 * view - 90) * M_PI / 180, c = cos(a), s = sin(a);
	double m = 150 / (100 - c * p[0] - s * p[1]);
	double u = (c * p[1] - s * p[0] + leap_tau) * m, v = p[2] * m;
	turn(&u, &v, -leap_tilt * M_PI / 180);
	pixel[0] = 18.5 + sign + u / 0.8;
	pixel[1] = 14 - sign + v / 0.6;
}

static void put_leap(const char *angles)
{
	char text[4000];
	snprintf(text, sizeof text,
		"# CT volume parameters\nnumX = 10\n# CT geometry parameters\ngeometry = cone\n"
		"numAngles = %d\nnumRows = %d\nnumCols = %d\npixelHeight = 0.6\npixelWidth = 0.8\n"
		"centerRow = %g\ncenterCol = %g\n%s\nsod = 100\nsdd = 150\ntau = %g\n"
		"tiltAngle = %g\nhelicalPitch = 0.0\n",
		VIEWS, ROWS, COLUMNS, 14 - sign, 18.5 + sign, angles, leap_tau, leap_tilt);
	put("leap.txt", text);
}

static void test_leap(void **state)
{
	char angles[200];
	(void)state;
	for (int i = 0; i < 8; i++) {
		sign = i & 1 ? 1 : -1;
		leap_tau = i & 2 ? 0 : 1.5 * sign;
		leap_tilt = i & 2 ? 0 : -2 * sign;
		if (i & 4) /* as it writes equal steps */
			snprintf(angles, sizeof angles, "angularRange = %g", sign * 20 * VIEWS);
		else
			snprintf(angles, sizeof angles, "phis = 0, %g, %g, %g, %g", sign * 20,
				sign * 40, sign * 60, sign * 80);
		put_leap(angles);
		check("leap.txt", 0, 0, leap_formula);
	}
	leap_tau = leap_tilt = 0;
	rejected("bad.txt", "geometry = fan\nnumAngles = 1\nnumCols = 2\n",
		"cone and modular can be read");
	rejected("bad.txt", "geometry = cone_parallel\nnumAngles = 1\nnumCols = 2\n",
		"cone and modular can be read");
	rejected("bad.txt", "geometry = cone\ndetectorType = curved\nnumAngles = 1\nnumCols = 2\n",
		"flat detectors can be read");
	rejected("bad.txt", "geometry = cone\nhelicalPitch = 2\nnumAngles = 1\nnumCols = 2\n",
		"helicalPitch is 2; it must be 0");
	rejected("bad.txt",
		"geometry = cone\nnumAngles = 2\nnumRows = 1\nnumCols = 2\npixelWidth = 1\n"
		"pixelHeight = 1\nsod = 2\nsdd = 3\nphis = 1\n",
		"'phis' has 1 numbers; 2 were expected");
	rejected("bad.txt",
		"geometry = cone\nnumAngles = 2\nnumRows = 1\nnumCols = 2\npixelWidth = 1\n"
		"pixelHeight = 1\nsod = 2\nsdd = 3\n",
		"does not have 'phis'");
}

/* The modular beam of the same scan, with the middle of the detector on the central ray. A pitch is
 * in the positions. */
static void test_leap_modular(void **state)
{
	static const char *const names[] = {
		"sourcePositions", "moduleCenters", "rowVectors", "colVectors"};
	char text[4000];
	(void)state;
	sign = 1;
	int length = snprintf(text, sizeof text,
		"geometry = modular\nnumAngles = %d\nnumRows = %d\nnumCols = %d\npixelHeight = "
		"0.6\npixelWidth = 0.8\nhelicalPitch = 2\n",
		VIEWS, ROWS, COLUMNS);
	for (int k = 0; k < 4; k++) {
		length += snprintf(text + length, sizeof text - (size_t)length, "%s = ", names[k]);
		for (int v = 0; v < VIEWS; v++) {
			double a = (20 * v - 90) * M_PI / 180, c = cos(a), s = sin(a);
			double column = 0.8 * (19.5 - 19.5), row = 0.6 * (14.5 - 13);
			const double all[4][3] = {{100 * c, 100 * s, 0},
				{-50 * c - s * column, -50 * s + c * column, row}, {0, 0, 1},
				{-s, c, 0}};
			length += snprintf(text + length, sizeof text - (size_t)length,
				"%.12g, %.12g, %.12g%s", all[k][0], all[k][1], all[k][2],
				v + 1 < VIEWS ? ", " : "\n");
		}
	}
	put("leap.txt", text);
	check("leap.txt", 0, 0, leap_formula);
}

/* ---- matrices ---- */

static void matrix_of(int view, double m[12])
{
	double a = sign * 0.3 * view, c = cos(a), s = sin(a);
	const double rows[3][4] = {{c, s, 0, 0}, {0, 0, 1, 0}, {s, -c, 0, 100}}; /* u, v, depth */
	for (int k = 0; k < 4; k++) {
		m[k] = 180 * rows[0][k] + (20 + sign) * rows[2][k];
		m[4 + k] = 170 * rows[1][k] + (13 - sign) * rows[2][k];
		m[8 + k] = rows[2][k];
	}
}

static void matrix_formula(int view, const double p[3], double pixel[2])
{
	double m[12], q[3];
	matrix_of(view, m);
	for (int i = 0; i < 3; i++)
		q[i] = m[4 * i] * p[0] + m[4 * i + 1] * p[1] + m[4 * i + 2] * p[2] + m[4 * i + 3];
	pixel[0] = q[0] / q[2];
	pixel[1] = q[1] / q[2];
}

static void put_matrices(const char *name, const char *head, const char *row, const char *tail)
{
	char text[4000];
	int length =
		snprintf(text, sizeof text, "%s", head[0] == 'P' ? "NRRD0004\ntype: float\n" : "");
	for (int v = 0; v < VIEWS; v++) {
		double m[12], scale = v % 2 ? -3 : 1; /* a matrix has no scale of its own */
		matrix_of(v, m);
		length += snprintf(text + length, sizeof text - (size_t)length, "%s", head);
		for (int i = 0; i < 12; i++)
			length += snprintf(text + length, sizeof text - (size_t)length, "%.15g%s",
				scale * m[i],
				i == 11      ? tail
				: i % 4 == 3 ? row
					     : " ");
	}
	put(name, text);
}

static void test_matrices(void **state)
{
	(void)state;
	for (sign = -1; sign <= 1; sign += 2) {
		put_matrices("a.txt", "", "\n", "\n");
		check("a.txt", 0, 0, matrix_formula);
		put_matrices("a.nrrd", "Projection Matrix:=[", "; ", "]\n");
		check("a.nrrd", 0, 0, matrix_formula);
	}
	rejected("bad.txt", "1 2 3 4\n", "matrices of 3 x 4 were expected");
	rejected("bad.txt", "1 0 0 4\n1 0 0 4\n0 0 1 2\n", "no point source");
	rejected("bad.nrrd", "NRRD0004\n", "has 0 numbers");
	/* A line with the key many times is copied once, not from every key on. */
	char line[2000] = "NRRD0004\n";
	for (int i = 0; i < 90; i++)
		strcat(line, "Projection Matrix:=1 ");
	rejected("bad.nrrd", line, "'Projection Matri' is not a number");
}

/* The files of CWI have sources, as ASTRA's cone_vec. */
static void test_geom(void **state)
{
	tomos_geometry *g;
	(void)state;
	put("scan.geom", "0 -66 0 0 133 0 0.15 0 0 0 0 0.15\n1 -66 0 0 133 0 0.15 0 0 0 0 0.15\n");
	assert_ok(tomos_geometry_read(&g, at("scan.geom"), ROWS, COLUMNS, -1));
	assert_true(g->count == 2 && g->views[1].src[0] == 1 && g->views[1].src[3] == TOMOS_POINT);
	tomos_geometry_free(g);
}

#define TESTS(T) \
	T(test_rtk), T(test_tigre), T(test_leap), T(test_leap_modular), T(test_matrices), \
		T(test_geom)
TEST_MAIN(TESTS, scratch_make, scratch_remove)
