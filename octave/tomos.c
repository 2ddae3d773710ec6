/* tomos(COMMAND, ...): the gateway for Octave and MATLAB. tomos('help') lists what there is.
 *
 * A slice is (ny, nx) as it is shown, a volume (ny, nx, nz), projections are (columns, views), or (columns,
 * rows, views) where there are several rows; angles are degrees. Geometries and grids are plain structs.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <mex.h>
#include <tomos.h>

enum { GROUPS = 6, OPERATORS = 64 };
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

static tomos_op *operators[OPERATORS];
static tomos_backend *backend;

static void release_all(void)
{
	for (int i = 0; i < OPERATORS; i++) {
		tomos_op_free(operators[i]);
		operators[i] = NULL;
	}
	tomos_backend_close(backend);
	backend = NULL;
}

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

/* ---- arrays ------------------------------------------------------------------------------- */

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

/* ---- options ------------------------------------------------------------------------------ */

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
	for (int i = 0; i < count; i++)
		if (strcmp(rows[i].name, name) == 0) {
			set_option(options, &rows[i], value);
			return true;
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

/* ---- geometries and grids as structs ------------------------------------------------------ */

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

/* ---- commands ----------------------------------------------------------------------------- */

static mxArray *make_geometry(const char *command, int count, const mxArray *list[])
{
	(void)command;
	static const char *const groups[] = {"scan", NULL};
	const char *kind = text_of(list[0], "the kind of scan");
	Settings s = take_settings(count - 1, list + 1, groups);
	s.scan.geometry = kind;
	tomos_geometry *scan;
	check(tomos_geometry_make(&scan, &s.scan));
	mxArray *made = geometry_struct(scan);
	tomos_geometry_free(scan);
	return made;
}

static mxArray *make_grid(const char *command, int count, const mxArray *list[])
{
	(void)command;
	static const char *const groups[] = {"grid", NULL};
	Settings s = take_settings(count - 1, list + 1, groups);
	tomos_geometry *scan = geometry_of(list[0]);
	tomos_grid grid;
	tomos_status status = tomos_grid_for(&grid, scan, &s.grid);
	tomos_geometry_free(scan);
	check(status);
	return grid_struct(&grid);
}

static mxArray *make_phantom(const char *command, int count, const mxArray *list[])
{
	(void)command;
	static const char *const groups[] = {"phantom", NULL};
	Settings s = take_settings(count - 2, list + 2, groups);
	tomos_grid grid;
	tomos_phantom *phantom;
	tomos_array array;
	s.given[GRID] = list[1];
	check(grid_of(&grid, &s, NULL));
	int64_t shape[3] = {grid.n[2], grid.n[1], grid.n[0]};
	mxArray *made = new_volume(shape, &array);
	check(tomos_phantom_named(&phantom, text_of(list[0], "the phantom's name"), &s.phantom));
	tomos_status status = tomos_phantom_volume(phantom, &grid, s.phantom.samples, &array);
	tomos_phantom_free(phantom);
	check(status);
	return made;
}

/* Handles are whole numbers from 1, so that a script can hold them. */
static mxArray *make_operator(const char *command, int count, const mxArray *list[])
{
	(void)command;
	static const char *const groups[] = {"projector", "grid", NULL};
	Settings s = take_settings(count - 1, list + 1, groups);
	int place = 0;
	tomos_grid grid;
	while (place < OPERATORS && operators[place])
		place++;
	if (place == OPERATORS)
		mexErrMsgIdAndTxt(
			"tomos:usage", "there are %d projectors already; free some", OPERATORS);
	tomos_geometry *scan = geometry_of(list[0]);
	tomos_status status = grid_of(&grid, &s, scan);
	if (status == TOMOS_OK)
		status = tomos_op_projector(&operators[place], backend, &grid, scan, &s.projector);
	tomos_geometry_free(scan);
	check(status);
	return mxCreateDoubleScalar(place + 1);
}

static tomos_op **operator_of(const mxArray *value)
{
	double number = number_of(value, "a projector");
	if (!(number >= 1 && number <= OPERATORS) || !operators[(int)number - 1])
		mexErrMsgIdAndTxt("tomos:usage", "there is no projector %g", number);
	return &operators[(int)number - 1];
}

static mxArray *apply(const char *command, int count, const mxArray *list[])
{
	(void)count;
	bool forward = strcmp(command, "forward") == 0;
	const tomos_op *op = *operator_of(list[0]);
	int64_t domain[3], range[3];
	tomos_array from, to;
	tomos_op_domain(op, domain);
	tomos_op_range(op, range);
	from = input_array(list[1], forward ? domain : range, forward,
		forward ? "the volume" : "the projections");
	mxArray *made = forward ? new_projections(range, &to) : new_volume(domain, &to);
	check(forward ? tomos_op_forward(op, &from, &to) : tomos_op_adjoint(op, &from, &to));
	return made;
}

static mxArray *norm_of(const char *command, int count, const mxArray *list[])
{
	(void)command, (void)count;
	double value;
	check(tomos_op_norm(*operator_of(list[0]), &value, NULL));
	return mxCreateDoubleScalar(value);
}

static mxArray *free_operator(const char *command, int count, const mxArray *list[])
{
	(void)command, (void)count;
	tomos_op **op = operator_of(list[0]);
	tomos_op_free(*op);
	*op = NULL;
	return mxCreateDoubleScalar(0);
}

/* Arrays given beside the options, of the shapes of the problem. */
static void take_arrays(
	Settings *s, tomos_array arrays[GIVEN], const int64_t domain[3], const int64_t range[3])
{
	const tomos_array **places[GIVEN] = {[RAY_WEIGHTS] = &s->algebraic.ray_weights,
		[MASK] = &s->algebraic.mask,
		[TRUTH] = &s->algebraic.truth};
	for (int i = START; i < GIVEN; i++)
		if (s->given[i]) {
			bool volume = i != RAY_WEIGHTS;
			arrays[i] = input_array(
				s->given[i], volume ? domain : range, volume, given_names[i]);
			if (places[i])
				*places[i] = &arrays[i];
		}
}

static tomos_status solve(const char *method, const tomos_geometry *scan, const tomos_grid *grid,
	const Settings *s, const tomos_array *b, const tomos_array *x)
{
	if (strcmp(method, "fbp") == 0)
		return tomos_fbp(backend, grid, scan, b, x, &s->analytic, NULL);
	if (strcmp(method, "fdk") == 0)
		return tomos_fdk(backend, grid, scan, b, x, &s->analytic, NULL);
	tomos_op *op;
	tomos_status status = tomos_op_projector(&op, backend, grid, scan, &s->projector);
	if (status == TOMOS_OK)
		status = tomos_reconstruct(op, method, b, x, &s->algebraic, NULL);
	tomos_op_free(op);
	return status;
}

/* The shapes of a problem. Nothing is held afterwards, so that what follows may end the call. */
static void take_shapes(const mxArray *geometry, const Settings *s, tomos_grid *grid,
	int64_t domain[3], int64_t range[3])
{
	tomos_geometry *scan = geometry_of(geometry);
	tomos_status status = grid_of(grid, s, scan);
	range[0] = tomos_geometry_count(scan);
	range[1] = tomos_geometry_rows(scan);
	range[2] = tomos_geometry_columns(scan);
	tomos_geometry_free(scan);
	check(status);
	for (int i = 0; i < 3; i++)
		domain[i] = grid->n[2 - i];
}

static mxArray *reconstruct(const char *method, int count, const mxArray *list[])
{
	static const char *const iterative[] = {"algebraic", "projector", "grid", NULL};
	static const char *const direct[] = {"analytic", "grid", NULL};
	bool analytic = strcmp(method, "fbp") == 0 || strcmp(method, "fdk") == 0;
	Settings s = take_settings(count - 2, list + 2, analytic ? direct : iterative);
	tomos_grid grid;
	int64_t domain[3], range[3];
	take_shapes(list[0], &s, &grid, domain, range);
	tomos_array x, arrays[GIVEN], b = input_array(list[1], range, false, "the projections");
	take_arrays(&s, arrays, domain, range);
	mxArray *made = new_volume(domain, &x);
	if (s.given[START])
		memcpy(x.data, arrays[START].data, mxGetNumberOfElements(made) * sizeof(float));
	tomos_geometry *scan = geometry_of(list[0]);
	tomos_status status = solve(method, scan, &grid, &s, &b, &x);
	tomos_geometry_free(scan);
	check(status);
	return made;
}

static mxArray *help_text(const char *command, int count, const mxArray *list[])
{
	(void)command, (void)count, (void)list;
	char text[4096];
	snprintf(text, sizeof text,
		"tomos('geometry', KIND, OPTIONS...)   parallel, fan, cone, laminography, helix, "
		"lebedev\n"
		"tomos('grid', GEOMETRY, OPTIONS...)\n"
		"tomos('phantom', NAME, GRID, OPTIONS...)   %s\n"
		"tomos(METHOD, GEOMETRY, PROJECTIONS, OPTIONS...)   fbp|fdk|%s\n"
		"tomos('projector', GEOMETRY, OPTIONS...)   then 'forward', 'adjoint', 'norm', "
		"'free'\n"
		"tomos('version')\n",
		tomos_phantom_names(), tomos_method_names());
	return mxCreateString(text);
}

static mxArray *version_text(const char *command, int count, const mxArray *list[])
{
	(void)command, (void)count, (void)list;
	return mxCreateString(tomos_version());
}

static const struct {
	const char *name;
	mxArray *(*run)(const char *command, int count, const mxArray *list[]);
	int needs; /* arguments */
	const char *usage;
} commands[] = {
	{"help", help_text, 0, ""}, {"version", version_text, 0, ""},
	{"geometry", make_geometry, 1, "tomos('geometry', KIND, OPTIONS...)"},
	{"grid", make_grid, 1, "tomos('grid', GEOMETRY, OPTIONS...)"},
	{"phantom", make_phantom, 2, "tomos('phantom', NAME, GRID, OPTIONS...)"},
	{"projector", make_operator, 1, "tomos('projector', GEOMETRY, OPTIONS...)"},
	{"forward", apply, 2, "tomos('forward', PROJECTOR, VOLUME)"},
	{"adjoint", apply, 2, "tomos('adjoint', PROJECTOR, PROJECTIONS)"},
	{"norm", norm_of, 1, "tomos('norm', PROJECTOR)"},
	{"free", free_operator, 1, "tomos('free', PROJECTOR)"},
	{"", reconstruct, 2, "tomos(METHOD, GEOMETRY, PROJECTIONS, OPTIONS...)"}, /* any other */
};

void mexFunction(int results, mxArray *result[], int count, const mxArray *list[])
{
	(void)results;
	if (count == 0)
		mexErrMsgIdAndTxt("tomos:usage", "usage: tomos(COMMAND, ...); see tomos('help')");
	const char *command = text_of(list[0], "the command");
	int i = 0, last = (int)(sizeof commands / sizeof commands[0]) - 1;
	if (!backend) {
		mexAtExit(release_all);
		check(tomos_backend_open(&backend, "auto"));
	}
	while (i < last && strcmp(command, commands[i].name) != 0)
		i++;
	if (count - 1 < commands[i].needs)
		mexErrMsgIdAndTxt("tomos:usage", "usage: %s", commands[i].usage);
	result[0] = commands[i].run(command, count - 1, list + 1);
}
