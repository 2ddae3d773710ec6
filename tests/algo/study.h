/* The Shepp-Logan head on a circular cone-beam scan, and the errors of its reconstruction. */
#ifndef TOMOS_TESTS_ALGO_STUDY_H
#define TOMOS_TESTS_ALGO_STUDY_H

#include <time.h>
#include "algo/scene.h"

typedef struct {
	double all, head; /* relative L2: of the cube; of the head */
	double flat;      /* the same near the mid-plane and away from edges */
	double brain;     /* mean of the brain's matter there, relative to the truth and less 1 */
	double seconds;
} Errors;

typedef struct {
	int64_t n;
	tomos_backend *backend;
	tomos_geometry *scan;
	tomos_phantom *head;
	tomos_grid grid;
	tomos_array data, image, truth;
} Study;

static tomos_array new_array(int64_t a, int64_t b, int64_t c)
{
	return tomos_array_of(malloc((size_t)(a * b * c) * sizeof(float)), a, b, c);
}

/* A cube around the head, as wide as the detector sees at the axis: paper 001's set-up in small. */
static Study study_make(int64_t n, int64_t views)
{
	Study s = {.n = n};
	Distances d;
	tomos_scan_options o = scene_scan("cone", n, 3.0 / (double)n, &d);
	o.rows = n, o.views = views;
	OK(tomos_backend_open(&s.backend, test_backend()));
	OK(tomos_geometry_make(&s.scan, &o));
	OK(tomos_phantom_named(&s.head, "shepp-logan-modified", NULL));
	OK(tomos_grid_centred(&s.grid, n, n, n, 2.0 / (double)n));
	s.data = new_array(o.views, n, n);
	s.image = new_array(n, n, n);
	s.truth = new_array(n, n, n);
	OK(tomos_phantom_project(s.head, s.scan, 2, &s.data));
	OK(tomos_phantom_volume(s.head, &s.grid, 2, &s.truth));
	return s;
}

static void study_free(Study *s)
{
	free(s->data.data), free(s->image.data), free(s->truth.data);
	tomos_phantom_free(s->head);
	tomos_geometry_free(s->scan);
	tomos_backend_close(s->backend);
}

/* Whether the truth is the same within two voxels in each direction. */
static int is_smooth(const Study *s, int64_t at)
{
	int64_t n = s->n, x = at % n, y = at / n % n, z = at / n / n;
	const float *t = s->truth.data;
	if (x < 2 || y < 2 || z < 2 || x >= n - 2 || y >= n - 2 || z >= n - 2)
		return 0;
	const int64_t steps[] = {1, n, n * n, 2, 2 * n, 2 * n * n};
	for (int i = 0; i < 6; i++)
		if (t[at + steps[i]] != t[at] || t[at - steps[i]] != t[at])
			return 0;
	return 1;
}

/* Squares of errors and of the truth over the voxels of one kind. */
typedef struct {
	double square, norm;
} Share;

static void share_add(Share *share, double error, double truth)
{
	share->square += error * error;
	share->norm += truth * truth;
}

static double share_error(const Share *share)
{
	return sqrt(share->square / share->norm);
}

static Errors study_errors(const Study *s)
{
	Share all = {0}, head = {0}, flat = {0};
	double brain = 0, number = 0;
	int64_t n = s->n;
	for (int64_t i = 0; i < n * n * n; i++) {
		double t = s->truth.data[i], e = s->image.data[i] - t;
		share_add(&all, e, t);
		if (t == 0)
			continue;
		share_add(&head, e, t);
		if (llabs(i / n / n - n / 2) > n / 32 || !is_smooth(s, i))
			continue;
		share_add(&flat, e, t);
		if (fabs(t - 0.2) < 1e-6)
			brain += s->image.data[i], number++;
	}
	return (Errors){share_error(&all), share_error(&head), share_error(&flat),
		brain / number / 0.2 - 1, 0};
}

static void study_headline(void)
{
	printf("  size  views  relative L2: all    head    flat   brain's mean   seconds of fdk\n");
}

/* Simulates, reconstructs, measures and prints one line. */
static Errors study_run(int64_t n, int64_t views)
{
	Study s = study_make(n, views);
	struct timespec begin, end;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	OK(tomos_fdk(s.backend, &s.grid, s.scan, &s.data, &s.image, NULL, NULL));
	clock_gettime(CLOCK_MONOTONIC, &end);
	Errors e = study_errors(&s);
	e.seconds =
		(double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
	printf("  %4lld  %5lld  %16.4f  %.4f  %.4f  %+13.5f  %15.2f\n", (long long)n,
		(long long)views, e.all, e.head, e.flat, e.brain, e.seconds);
	study_free(&s);
	return e;
}

#endif
