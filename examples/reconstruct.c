/* Scans the Shepp-Logan head with a cone beam, in closed form, and reconstructs it. */
#include <stdio.h>
#include <stdlib.h>
#include <tomos.h>

enum { SIZE = 64, VIEWS = 120 };

static const double turn = 6.283185307179586;

/* Everything that is created here is freed in main, also after a failure. */
typedef struct {
	tomos_geometry *scan;
	tomos_phantom *head;
	tomos_backend *backend;
	float *projections, *truth, *image;
} Work;

static tomos_status describe_scan(Work *w, tomos_grid *grid)
{
	double angles[VIEWS];
	for (int i = 0; i < VIEWS; i++)
		angles[i] = turn * i / VIEWS;
	/* Pixels of 2 mm, twice as far from the source as the axis: voxels of 1 mm. */
	tomos_status s = tomos_geometry_cone(&w->scan, SIZE, SIZE, 2, 250, 500, angles, VIEWS);
	return s ? s : tomos_grid_for(grid, w->scan, NULL);
}

static tomos_status reconstruct(Work *w, tomos_difference *difference)
{
	tomos_grid grid;
	tomos_phantom_options size = tomos_phantom_defaults();
	size.radius = 0.4 * SIZE;
	size.samples = 2;
	tomos_array b = tomos_array_of(w->projections, VIEWS, SIZE, SIZE);
	tomos_array truth = tomos_array_of(w->truth, SIZE, SIZE, SIZE);
	tomos_array image = tomos_array_of(w->image, SIZE, SIZE, SIZE);
	tomos_status s = describe_scan(w, &grid);
	s = s ? s : tomos_phantom_named(&w->head, "shepp-logan-modified", &size);
	s = s ? s : tomos_phantom_project(w->head, w->scan, size.samples, &b);
	s = s ? s : tomos_backend_open(&w->backend, "auto");
	s = s ? s : tomos_fdk(w->backend, &grid, w->scan, &b, &image, NULL, NULL);
	s = s ? s : tomos_phantom_volume(w->head, &grid, size.samples, &truth);
	return s ? s : tomos_compare(&truth, &image, difference);
}

int main(void)
{
	Work w = {0};
	tomos_difference d = {.bytes = sizeof d};
	w.projections = calloc((size_t)VIEWS * SIZE * SIZE, sizeof(float));
	w.truth = calloc((size_t)SIZE * SIZE * SIZE, sizeof(float));
	w.image = calloc((size_t)SIZE * SIZE * SIZE, sizeof(float));
	int failed = !w.projections || !w.truth || !w.image;
	if (failed)
		fprintf(stderr, "reconstruct: out of memory\n");
	else if ((failed = reconstruct(&w, &d) != TOMOS_OK))
		fprintf(stderr, "reconstruct: %s\n", tomos_message());
	else
		printf("relative error %.4f, PSNR %.2f dB, SSIM %.4f\n", d.relative_l2, d.psnr,
			d.ssim);
	tomos_backend_close(w.backend);
	tomos_phantom_free(w.head);
	tomos_geometry_free(w.scan);
	free(w.projections);
	free(w.truth);
	free(w.image);
	return failed;
}
