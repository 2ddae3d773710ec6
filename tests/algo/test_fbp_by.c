/* --by auto: which way of back projection it takes, and that the result is that of this way. */
#include "backend/backend.h" /* first: cmocka makes a macro of fail() */
#include "ops/opened.h"

enum { N = 720, VIEWS = 400 };

typedef struct {
	tomos_geometry *scan;
	tomos_grid grid;
	float p[VIEWS][N];
} Scan;

static float volume[2][N][N];

/* Line integrals of a Gaussian blob, or of a disc. */
static void scan_make(Scan *s, double blob, double disc)
{
	tomos_scan_options o = tomos_scan_defaults();
	o.geometry = "parallel";
	o.views = VIEWS, o.columns = N;
	OK(tomos_geometry_make(&s->scan, &o));
	OK(tomos_grid_centred(&s->grid, N, N, 1, 1));
	for (int i = 0; i < VIEWS * N; i++) {
		double t = i % N - 0.5 * (N - 1);
		s->p[i / N][i % N] = (float)(blob > 0 ? exp(-0.5 * t * t / (blob * blob))
						      : sqrt(fmax(disc * disc - t * t, 0)));
	}
}

static const char *reconstruct(const Scan *s, const char *by, tomos_analytic_options o, int to)
{
	tomos_array data = tomos_array_of((float *)(uintptr_t)s->p, VIEWS, 1, N);
	tomos_array x = tomos_array_of(&volume[to][0][0], 1, N, N);
	o.by = by;
	OK(tomos_fbp(backend, &s->grid, s->scan, &data, &x, &o, NULL));
	return tomos_backend_kernel(backend);
}

static bool takes_fourier(const Scan *s, tomos_analytic_options o)
{
	return strcmp(reconstruct(s, "auto", o, 0), "fourier") == 0;
}

/* On a device direct back projection of so small a slice is as fast. */
static void smooth_object(void **state)
{
	static Scan s;
	tomos_analytic_options o = tomos_analytic_defaults();
	bool fast = backend->device == 0;
	(void)state;
	scan_make(&s, 40, 0);
	assert_int_equal(takes_fourier(&s, o), fast);
	(void)reconstruct(&s, fast ? "fourier" : "direct", o, 1);
	assert_memory_equal(volume[0], volume[1], sizeof volume[0]);
	o.interpolation = "nearest";
	assert_false(takes_fourier(&s, o));
	tomos_geometry_free(s.scan);
}

/* Its edges have frequencies beyond the detector's, which few filters remove. */
static void disc(void **state)
{
	static Scan s;
	tomos_analytic_options o = tomos_analytic_defaults();
	(void)state;
	if (case_slow())
		return;
	scan_make(&s, 0, 200);
	assert_false(takes_fourier(&s, o));
	o.filter = "parzen";
	o.cutoff = 0.1;
	assert_int_equal(takes_fourier(&s, o), backend->device == 0);
	tomos_geometry_free(s.scan);
}

#define TESTS(T) T(smooth_object), T(disc)
TEST_MAIN(TESTS, open_backend, close_backend)
