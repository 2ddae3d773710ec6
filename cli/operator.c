/* The operator of the algebraic methods: a projector, its stored matrix, or a matrix from a
 * file. */
#include "cli.h"

static int operator_from_file(const settings *s, tomos_backend *backend, const tomos_grid *grid,
	const tomos_geometry *scan, tomos_op **op)
{
	const int64_t domain[3] = {grid->n[2], grid->n[1], grid->n[0]};
	const int64_t range[3] = {tomos_geometry_count(scan), tomos_geometry_rows(scan),
		tomos_geometry_columns(scan)};
	int code;
	DO(settings_reject(s, GROUP_projector, -1, "with --matrix"));
	if (s->stored.stored[0])
		DO(wrong_usage("--stored has no effect with --matrix"));
	note("reading the matrix '%s'\n", s->stored.matrix);
	DO(lib(tomos_op_matrix_read(op, backend, s->stored.matrix, domain, range)));
done:
	return code;
}

int operator_make(const settings *s, tomos_backend *backend, const tomos_grid *grid,
	const tomos_geometry *scan, tomos_op **op)
{
	tomos_matrix_options o = tomos_matrix_defaults();
	int code;
	if (s->stored.matrix[0]) {
		DO(operator_from_file(s, backend, grid, scan, op));
	} else if (s->stored.stored[0]) {
		o.storage = s->stored.stored;
		note("computing the matrix\n");
		DO(lib(tomos_op_matrix(op, backend, grid, scan, &s->projector, &o)));
	} else {
		return lib(tomos_op_projector(op, backend, grid, scan, &s->projector));
	}
	say("%s\n", tomos_op_describe(*op));
done:
	return code;
}
