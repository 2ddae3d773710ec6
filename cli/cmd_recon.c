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

static int recon_compare(const settings *s, const tomos_array *volume)
{
	tomos_array truth = {0};
	tomos_difference d;
	int code;
	if (!s->recon.compare[0])
		return DONE;
	DO(load_volume(s, s->recon.compare, &truth, NULL));
	DO(difference_print(&truth, volume, &d));
done:
	array_free(&truth);
	return code;
}

int cmd_recon(const settings *s)
{
	recon_job j = {0};
	tomos_file *file = NULL;
	int code;
	DO(load_scan(s, s->operands[0], &j.data, &j.scan));
	const char *method = recon_method(s, j.scan);
	DO(refuse_others(s, method));
	DO(lib(tomos_grid_for(&j.grid, j.scan, &s->grid)));
	const int64_t shape[3] = {j.grid.n[2], j.grid.n[1], j.grid.n[0]};
	DO(output_open(&file, s, TOMOS_VOLUME, shape));
	DO(array_new(&j.volume, shape, "the volume"));
	DO(lib(tomos_backend_open(&j.backend, s->backend.backend)));
	say("%s on %s\n", method, tomos_backend_describe(j.backend));
	DO(recon_run(s, &j, method));
	array_free(&j.data);
	DO(output_volume(file, s->output.output, &j.volume, &j.grid));
	DO(recon_compare(s, &j.volume));
done:
	array_free(&j.data);
	array_free(&j.volume);
	tomos_file_close(file);
	tomos_geometry_free(j.scan);
	tomos_backend_close(j.backend);
	return code;
}
