/* Checks of a projector A that <A x, y> = <x, A' y>, as iterative methods need it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <tomos.h>

enum { SIZE = 48, ROWS = 32, COLUMNS = 56, VIEWS = 19 };
enum { VOXELS = SIZE * SIZE * SIZE, PIXELS = VIEWS * ROWS * COLUMNS };

static double dot(const float *a, const float *b, int count)
{
	double sum = 0;
	for (int i = 0; i < count; i++)
		sum += (double)a[i] * b[i];
	return sum;
}

static void fill(float *data, int count)
{
	for (int i = 0; i < count; i++)
		data[i] = (float)rand() / (float)RAND_MAX - 0.5f;
}

static tomos_status make_operator(tomos_op **A, tomos_backend *backend, const char *name)
{
	tomos_geometry *scan = NULL;
	tomos_grid grid;
	double angles[VIEWS];
	for (int i = 0; i < VIEWS; i++)
		angles[i] = 0.33 * i;
	tomos_projector_options o = tomos_projector_defaults();
	o.forward = name;
	tomos_status s = tomos_geometry_cone(&scan, ROWS, COLUMNS, 2, 150, 300, angles, VIEWS);
	s = s ? s : tomos_grid_centred(&grid, SIZE, SIZE, SIZE, 1);
	s = s ? s : tomos_op_projector(A, backend, &grid, scan, &o);
	tomos_geometry_free(scan); /* the operator has its own copy */
	return s;
}

static tomos_status check(tomos_backend *backend, const char *name, int *failed)
{
	static float x[VOXELS], Ax[PIXELS], y[PIXELS], Aty[VOXELS];
	tomos_array ax = tomos_array_of(x, SIZE, SIZE, SIZE);
	tomos_array aAx = tomos_array_of(Ax, VIEWS, ROWS, COLUMNS);
	tomos_array ay = tomos_array_of(y, VIEWS, ROWS, COLUMNS);
	tomos_array aAty = tomos_array_of(Aty, SIZE, SIZE, SIZE);
	fill(x, VOXELS);
	fill(y, PIXELS);
	tomos_op *A = NULL;
	tomos_status s = make_operator(&A, backend, name);
	s = s ? s : tomos_op_forward(A, &ax, &aAx);
	s = s ? s : tomos_op_adjoint(A, &ay, &aAty);
	tomos_op_free(A);
	if (s)
		return s;
	double scale = sqrt(dot(Ax, Ax, PIXELS) * dot(y, y, PIXELS));
	double error = fabs(dot(Ax, y, PIXELS) - dot(x, Aty, VOXELS)) / scale;
	printf("%-10s |<Ax,y> - <x,A'y>| / (|Ax| |y|) = %.1e\n", name, error);
	*failed |= !(error <= 1e-6);
	return TOMOS_OK;
}

int main(void)
{
	const char *names[] = {"line", "joseph", "voxel", "footprint"};
	int failed = 0;
	tomos_backend *backend = NULL;
	tomos_status s = tomos_backend_open(&backend, "cpu");
	for (int i = 0; i < 4 && s == TOMOS_OK; i++)
		s = check(backend, names[i], &failed);
	if (s)
		fprintf(stderr, "adjoint_test: %s\n", tomos_message());
	tomos_backend_close(backend);
	return s || failed;
}
