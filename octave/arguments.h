/* Arguments and results of the Octave gateway: arrays, options by name, geometries and grids as
 * structs. */
#ifndef TOMOS_OCTAVE_ARGUMENTS_H
#define TOMOS_OCTAVE_ARGUMENTS_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <mex.h>
#include <tomos.h>

enum { GROUPS = 6 };
/* Arrays and structs that a call may name, besides the options of the table. */
enum { GRID, START, RAY_WEIGHTS, MASK, TRUTH, GIVEN };
static const char *const given_names[GIVEN] = {"grid", "start", "ray_weights", "mask", "truth"};
#define RADIANS (3.14159265358979323846 / 180)

/* The options a call may give, by their groups; filled from name and value. */
typedef struct {
	tomos_scan_options scan;
	tomos_grid_options grid;
	tomos_projector_options projector;
	tomos_algebraic_options algebraic;
	tomos_analytic_options analytic;
	tomos_phantom_options phantom;
	const mxArray *given[GIVEN];
} Settings;

/* Ends the call; memory of mx functions goes by itself, so nothing else may be held here. */
static void check(tomos_status status)
{
	if (status != TOMOS_OK)
		mexErrMsgIdAndTxt("tomos:failed", "%s", tomos_message());
}

static const char *text_of(const mxArray *value, const char *what)
{
	char *text = mxIsChar(value) ? mxArrayToString(value) : NULL;
	if (!text)
		mexErrMsgIdAndTxt("tomos:usage", "%s must be text", what);
	return text;
}

static double number_of(const mxArray *value, const char *what)
{
	if ((!mxIsNumeric(value) && !mxIsLogical(value)) || mxGetNumberOfElements(value) != 1)
		mexErrMsgIdAndTxt("tomos:usage", "%s must be one number", what);
	return mxGetScalar(value);
}

/* ---- arrays ---------------------------------------------------------------------------------- */

static mxArray *to_single(const mxArray *value, const char *what)
{
	mxArray *out = NULL, *in = (mxArray *)value;
	if ((!mxIsNumeric(value) && !mxIsLogical(value)) || mxIsComplex(value))
		mexErrMsgIdAndTxt("tomos:usage", "%s must be real numbers", what);
	if (mxIsSingle(value))
		return in;
	mexCallMATLAB(1, &out, 1, &in, "single");
	return out;
}

/* Memory (ny, nx, nz) as [z][y][x], or (columns, rows, views) as [view][row][column]. */
static tomos_array volume_array(float *data, const int64_t shape[3])
{
	tomos_array a = {.data = data, .shape = {shape[0], shape[1], shape[2]}};
	a.stride[0] = shape[1] * shape[2];
	a.stride[1] = 1;
	a.stride[2] = shape[1];
	return a;
}

static tomos_array input_array(
	const mxArray *value, const int64_t shape[3], bool volume, const char *what)
{
	mxArray *single = to_single(value, what);
	int64_t count = shape[0] * shape[1] * shape[2];
	if ((int64_t)mxGetNumberOfElements(single) != count)
		mexErrMsgIdAndTxt("tomos:usage", "%s has %lld values, expected %lld x %lld x %lld",
			what, (long long)mxGetNumberOfElements(single),
			(long long)shape[volume ? 1 : 2], (long long)shape[volume ? 2 : 1],
			(long long)shape[0]);
	float *data = mxGetData(single);
	return volume ? volume_array(data, shape)
		      : tomos_array_of(data, shape[0], shape[1], shape[2]);
}

static mxArray *new_volume(const int64_t shape[3], tomos_array *array)
{
	mwSize sizes[3] = {(mwSize)shape[1], (mwSize)shape[2], (mwSize)shape[0]};
	mxArray *made = mxCreateNumericArray(shape[0] > 1 ? 3 : 2, sizes, mxSINGLE_CLASS, mxREAL);
	*array = volume_array(mxGetData(made), shape);
	return made;
}

static mxArray *new_projections(const int64_t shape[3], tomos_array *array)
{
	bool flat = shape[1] == 1;
	mwSize sizes[3] = {(mwSize)shape[2], (mwSize)shape[flat ? 0 : 1], (mwSize)shape[0]};
	mxArray *made = mxCreateNumericArray(flat ? 2 : 3, sizes, mxSINGLE_CLASS, mxREAL);
	*array = tomos_array_of(mxGetData(made), shape[0], shape[1], shape[2]);
	return made;
}

/* ---- options --------------------------------------------------------------------------------- */

static const double *list_of(const mxArray *value, const char *name, double factor)
{
	mxArray *in = (mxArray *)value, *whole = NULL;
	size_t count = mxGetNumberOfElements(value);
	if (!mxIsNumeric(value) || count == 0)
		mexErrMsgIdAndTxt("tomos:usage", "%s must be a list of numbers", name);
	mexCallMATLAB(1, &whole, 1, &in, "double");
	double *list = mxMalloc(count * sizeof *list);
	for (size_t i = 0; i < count; i++)
		list[i] = factor * mxGetPr(whole)[i];
	return list;
}

static void set_list(char *options, const tomos_option *row, const mxArray *value)
{
	int64_t count = (int64_t)mxGetNumberOfElements(value);
	const double *list = list_of(value, row->name, row->kind == TOMOS_ANGLES ? RADIANS : 1);
	const void *given = list;
	if (row->kind == TOMOS_INTS) {
		int64_t *whole = mxMalloc((size_t)count * sizeof *whole);
		for (int64_t i = 0; i < count; i++)
			whole[i] = (int64_t)list[i];
		given = whole;
	}
	memcpy(options + row->offset, &given, sizeof given);
	memcpy(options + row->count_offset, &count, sizeof count);
}

static void set_number(char *options, const tomos_option *row, const mxArray *value)
{
	double real = number_of(value, row->name);
	int64_t whole = (int64_t)real;
	int64_t flag = real != 0;
	if (row->kind == TOMOS_INT && (double)whole != real)
		mexErrMsgIdAndTxt(
			"tomos:usage", "%s must be a whole number, not %g", row->name, real);
	if (row->kind == TOMOS_INT)
		memcpy(options + row->offset, &whole, sizeof whole);
	else if (row->kind == TOMOS_FLAG)
		memcpy(options + row->offset, &flag, sizeof flag);
	else {
		real *= row->kind == TOMOS_ANGLE ? RADIANS : 1;
		memcpy(options + row->offset, &real, sizeof real);
	}
}

static void set_option(char *options, const tomos_option *row, const mxArray *value)
{
	const char *text;
	switch (row->kind) {
	case TOMOS_TEXT:
	case TOMOS_CHOICE:
		text = text_of(value, row->name);
		memcpy(options + row->offset, &text, sizeof text);
		break;
	case TOMOS_INTS:
	case TOMOS_REALS:
	case TOMOS_ANGLES:
	case TOMOS_LENGTHS:
		set_list(options, row, value);
		break;
	case TOMOS_ARRAY:
	case TOMOS_HISTORY:
		mexErrMsgIdAndTxt(
			"tomos:usage", "the option '%s' is not there in Octave", row->name);
		break;
	default:
		set_number(options, row, value);
	}
}

static bool set_in_group(const char *group, void *options, const char *name, const mxArray *value)
{
	int count;
	const tomos_option *rows = tomos_options(group, &count);
	for (int i = 0; i < count; i++) {
		const tomos_option *row = TOMOS_ROW(rows, i);
		if (strcmp(row->name, name) == 0) {
			set_option(options, row, value);
			return true;
		}
	}
	return false;
}

static void set_one(Settings *s, const char *const *groups, const char *name, const mxArray *value)
{
	const struct {
		const char *name;
		void *options;
	} all[GROUPS] = {{"scan", &s->scan}, {"grid", &s->grid}, {"projector", &s->projector},
		{"algebraic", &s->algebraic}, {"analytic", &s->analytic}, {"phantom", &s->phantom}};
	for (; *groups; groups++)
		for (int i = 0; i < GROUPS; i++)
			if (strcmp(*groups, all[i].name) == 0 &&
				set_in_group(all[i].name, all[i].options, name, value))
				return;
	mexErrMsgIdAndTxt("tomos:usage", "the option '%s' is not known here", name);
}

static int given_index(const char *name)
{
	int i = 0;
	while (i < GIVEN && strcmp(name, given_names[i]) != 0)
		i++;
	return i;
}

/* Name and value in turn, looked for in these groups. */
static Settings take_settings(int count, const mxArray *list[], const char *const *groups)
{
	Settings s = {tomos_scan_defaults(), tomos_grid_defaults(), tomos_projector_defaults(),
		tomos_algebraic_defaults(), tomos_analytic_defaults(), tomos_phantom_defaults(),
		{NULL}};
	if (count % 2)
		mexErrMsgIdAndTxt("tomos:usage", "options are names and values in turn");
	for (int i = 0; i < count; i += 2) {
		const char *name = text_of(list[i], "the name of an option");
		int given = given_index(name);
		if (given < GIVEN)
			s.given[given] = list[i + 1];
		else
			set_one(&s, groups, name, list[i + 1]);
	}
	return s;
}

/* ---- geometries and grids as structs --------------------------------------------------------- */

static double *field(const mxArray *from, const char *name, size_t count, const char *what)
{
	mxArray *value = mxIsStruct(from) ? mxGetField(from, 0, name) : NULL;
	if (!value || !mxIsDouble(value) || (count > 0 && mxGetNumberOfElements(value) != count))
		mexErrMsgIdAndTxt(
			"tomos:usage", "%s is not a struct that tomos('%s', ...) made", what, what);
	return mxGetPr(value);
}

static mxArray *numbers(const double *values, mwSize rows, mwSize columns)
{
	mxArray *made = mxCreateDoubleMatrix(rows, columns, mxREAL);
	memcpy(mxGetPr(made), values, rows * columns * sizeof *values);
	return made;
}

enum { VIEW = sizeof(tomos_view) / sizeof(double) };

static mxArray *geometry_struct(const tomos_geometry *scan)
{
	const char *names[] = {"views", "rows", "columns"};
	mxArray *made = mxCreateStructMatrix(1, 1, 3, names);
	int64_t count = tomos_geometry_count(scan);
	mxSetField(made, 0, "views",
		numbers((const double *)tomos_geometry_list(scan), VIEW, (mwSize)count));
	mxSetField(made, 0, "rows", mxCreateDoubleScalar((double)tomos_geometry_rows(scan)));
	mxSetField(made, 0, "columns", mxCreateDoubleScalar((double)tomos_geometry_columns(scan)));
	return made;
}

static tomos_geometry *geometry_of(const mxArray *value)
{
	tomos_geometry *scan;
	double *views = field(value, "views", 0, "geometry");
	int64_t rows = (int64_t)*field(value, "rows", 1, "geometry");
	int64_t columns = (int64_t)*field(value, "columns", 1, "geometry");
	size_t count = mxGetNumberOfElements(mxGetField(value, 0, "views")) / VIEW;
	check(tomos_geometry_views(
		&scan, rows, columns, (const tomos_view *)(void *)views, (int64_t)count));
	return scan;
}

static mxArray *grid_struct(const tomos_grid *grid)
{
	const char *names[] = {"n", "first", "step"};
	mxArray *made = mxCreateStructMatrix(1, 1, 3, names);
	double n[3] = {(double)grid->n[0], (double)grid->n[1], (double)grid->n[2]};
	mxSetField(made, 0, "n", numbers(n, 1, 3));
	mxSetField(made, 0, "first", numbers(grid->first, 1, 3));
	mxSetField(made, 0, "step", numbers(grid->step, 1, 3));
	return made;
}

/* The grid that was given, or the one the scan suggests. */
static tomos_status grid_of(tomos_grid *grid, const Settings *s, const tomos_geometry *scan)
{
	if (!s->given[GRID])
		return tomos_grid_for(grid, scan, &s->grid);
	const double *n = field(s->given[GRID], "n", 3, "grid");
	for (int i = 0; i < 3; i++)
		grid->n[i] = (int64_t)n[i];
	memcpy(grid->first, field(s->given[GRID], "first", 3, "grid"), sizeof grid->first);
	memcpy(grid->step, field(s->given[GRID], "step", 3, "grid"), sizeof grid->step);
	return tomos_grid_check(grid);
}

#endif
