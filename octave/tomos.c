/* tomos(COMMAND, ...): the gateway for Octave and MATLAB. tomos('help') lists the commands.
 *
 * A slice is (ny, nx) as it is shown, a volume (ny, nx, nz), projections are (columns, views), or
 * (columns, rows, views) where there are several rows; angles are degrees. Geometries and grids are
 * plain structs.
 */
#include "arguments.h"

enum { OPERATORS = 64 };

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

typedef tomos_status Analytic(tomos_backend *backend, const tomos_grid *grid,
	const tomos_geometry *scan, const tomos_array *projections, const tomos_array *volume,
	const tomos_analytic_options *options, const tomos_progress *progress);

/* NULL: not an analytic method. */
static Analytic *analytic_of(const char *method)
{
	static const struct {
		const char *name;
		Analytic *run;
	} rows[] = {{"fbp", tomos_fbp}, {"fdk", tomos_fdk}};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (strcmp(method, rows[i].name) == 0)
			return rows[i].run;
	return NULL;
}

static tomos_status solve(const char *method, const tomos_geometry *scan, const tomos_grid *grid,
	const Settings *s, const tomos_array *b, const tomos_array *x)
{
	tomos_op *op;
	if (analytic_of(method))
		return analytic_of(method)(backend, grid, scan, b, x, &s->analytic, NULL);
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
	Settings s = take_settings(count - 2, list + 2, analytic_of(method) ? direct : iterative);
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
