/* tomos recon: a volume from projections. */
#include <string.h>
#include "cli.h"

typedef struct recon_job {
	tomos_backend *backend;
	tomos_geometry *scan;
	tomos_grid grid;
	tomos_array data, volume;
} recon_job;

static const char *recon_method(const settings *s, const tomos_geometry *scan)
{
	if (s->recon.method[0])
		return s->recon.method;
	return scan_point_source(scan) && tomos_geometry_rows(scan) > 1 ? "fdk" : "fbp";
}

/* Options of the methods not chosen are refused: nobody should believe that they did something. */
static int refuse_others(const settings *s, const char *method)
{
	int code;
	if (strcmp(method, "sirt") == 0)
		return settings_refuse(s, GROUP_analytic, GROUP_projector, "with --method sirt");
	DO(settings_refuse(s, GROUP_sirt, -1, "without --method sirt"));
	DO(settings_refuse(s, GROUP_projector, GROUP_analytic, "without --method sirt"));
done:
	return code;
}

static int recon_sirt(const settings *s, recon_job *j)
{
	tomos_op *op = NULL;
	int code;
	DO(lib(tomos_op_projector(&op, j->backend, &j->grid, j->scan, &s->projector)));
	DO(lib(tomos_sirt(op, &j->data, &j->volume, &s->sirt, progress_report())));
done:
	tomos_op_free(op);
	return code;
}

static int recon_run(const settings *s, recon_job *j, const char *method)
{
	if (strcmp(method, "sirt") == 0)
		return recon_sirt(s, j);
	return lib((strcmp(method, "fdk") == 0 ? tomos_fdk : tomos_fbp)(j->backend, &j->grid,
		j->scan, &j->data, &j->volume, &s->analytic, progress_report()));
}

/* Opens the truth before the work, so that one of another shape is refused in time. */
static int truth_open(const settings *s, const int64_t shape[3], tomos_file **truth)
{
	const char *path = s->recon.compare;
	char text[96], wanted[96];
	tomos_file_info info;
	int code;
	if (!path[0])
		return DONE;
	DO(lib(tomos_file_open(truth, path, NULL)));
	DO(lib(tomos_file_describe(*truth, &info)));
	shape_text(info.shape, TOMOS_VOLUME, text);
	shape_text(shape, TOMOS_VOLUME, wanted);
	if (memcmp(info.shape, shape, sizeof info.shape) != 0)
		DO(failed("'%s' is %s, but the reconstruction is %s", path, text, wanted));
done:
	return code;
}

static int truth_compare(const settings *s, tomos_file *truth, const tomos_array *volume)
{
	tomos_array array = {0};
	tomos_difference d;
	int code;
	if (!truth)
		return DONE;
	DO(file_read_all(truth, s->recon.compare, &array));
	DO(difference_print(&array, volume, &d));
done:
	array_free(&array);
	return code;
}

int cmd_recon(const settings *s)
{
	recon_job j = {0};
	tomos_file *file = NULL, *truth = NULL;
	int code;
	DO(load_scan(s, s->operands[0], &j.data, &j.scan));
	const char *method = recon_method(s, j.scan);
	DO(refuse_others(s, method));
	DO(lib(tomos_grid_for(&j.grid, j.scan, &s->grid)));
	const int64_t shape[3] = {j.grid.n[2], j.grid.n[1], j.grid.n[0]};
	DO(truth_open(s, shape, &truth));
	DO(output_open(&file, s, TOMOS_VOLUME, shape));
	DO(array_new(&j.volume, shape, "the volume"));
	DO(lib(tomos_backend_open(&j.backend, s->backend.backend)));
	say("%s on %s\n", method, tomos_backend_describe(j.backend));
	DO(recon_run(s, &j, method));
	array_free(&j.data);
	DO(output_volume(file, s->output.output, &j.volume, &j.grid));
	DO(truth_compare(s, truth, &j.volume));
done:
	array_free(&j.data);
	array_free(&j.volume);
	tomos_file_close(file);
	tomos_file_close(truth);
	tomos_geometry_free(j.scan);
	tomos_backend_close(j.backend);
	return code;
}
