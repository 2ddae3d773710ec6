/* One step of sirt, sart, block, art, mlem and osem compared with the formulas, on a matrix of 42
 * rays and 20 voxels. */
#include "algo/steps_help.h"

/* ---- sirt, sart, block ----------------------------------------------------------------------- */

static const char *const kinds[] = {"sirt", "cimmino", "landweber", "cav", "drop"};

/* Blocks of 2 views, of 2 and 1, of all. */
static void sweeps(const Dense *d, double lambda, int blocks, int count, double *x)
{
	dense_begin(d, x);
	for (int k = 0; k < count; k++)
		for (int block = 0, from = 0; block < blocks; block++) {
			int size = VIEWS / blocks + (block < VIEWS % blocks);
			update(d, lambda, from, from + size, x);
			from += size;
		}
}

static void updates(void **state)
{
	(void)state;
	static const struct {
		const char *method;
		int blocks;
	} list[] = {{"sirt", 1}, {"sart", VIEWS}, {"block", 3}, {"block", 4}};
	Dense d;
	for (int way = 0; way < WAYS; way++)
		for (int k = 0; k < COUNT(kinds); k++)
			for (int m = 0; m < COUNT(list); m++) {
				double x[VOXELS],
					lambda = strcmp(kinds[k], "landweber") ? 0.7 : 0.02;
				char what[64];
				snprintf(what, sizeof what, "%s, %d blocks, %s, way %d",
					list[m].method, list[m].blocks, kinds[k], way);
				dense_way(&d, way);
				d.o.weights = kinds[k];
				d.o.relaxation = lambda;
				d.o.blocks = strcmp(list[m].method, "block") ? 0 : list[m].blocks;
				dense_run(&d, list[m].method, 3);
				sweeps(&d, lambda, list[m].blocks, 3, x);
				dense_same(&d, what, x, ROUNDING);
				dense_free(&d);
			}
}

/* The default relaxation: 1, or, for weights that do not bound A' M A, the inverse of its largest
 * eigenvalue. */
static double relaxation_of(Dense *d)
{
	double x[VOXELS], one[VOXELS], way = 0, square = 0;
	dense_run(d, "sirt", 1);
	dense_begin(d, x);
	memcpy(one, x, sizeof one);
	update(d, 1, 0, VIEWS, one);
	for (int j = 0; j < VOXELS; j++) {
		way += (d->image[j] - x[j]) * (one[j] - x[j]);
		square += (one[j] - x[j]) * (one[j] - x[j]);
	}
	return way / square;
}

static void relaxations(void **state)
{
	(void)state;
	Dense d;
	for (int k = 0; k < COUNT(kinds); k++)
		for (int way = 0; way < WAYS; way += 2) {
			dense_way(&d, way);
			d.o.weights = kinds[k];
			/* norms are estimated with a margin of a few per cent */
			double lambda = relaxation_of(&d), wanted = 1;
			if (k == 1 || k == 2)
				wanted = 1 / eigenvalue(&d);
			if (!(fabs(lambda / wanted - 1) < (wanted == 1 ? 1e-5 : 0.03)))
				fail_msg("%s: relaxation %g, not %g", kinds[k], lambda, wanted);
			dense_free(&d);
		}
}

/* Every update takes (t - 1) / t' of the way from the last one on, t' = (1 + sqrt(1 + 4 t^2)) /
 * 2. */
static void momentum(void **state)
{
	(void)state;
	Dense d;
	double x[VOXELS], z[VOXELS], t = 1;
	dense_make(&d);
	d.o.blocks = 3, d.o.nesterov = 1, d.o.relaxation = 0.6;
	dense_run(&d, "block", 3);
	dense_begin(&d, x);
	memcpy(z, x, sizeof z);
	for (int k = 0; k < 9; k++) {
		double old[VOXELS], next = 0.5 * (1 + sqrt(1 + 4 * t * t));
		memcpy(old, x, sizeof old);
		update(&d, 0.6, k % 3 * 2, k % 3 * 2 + 2, z);
		memcpy(x, z, sizeof x);
		for (int j = 0; j < VOXELS; j++)
			z[j] = x[j] + (t - 1) / next * (x[j] - old[j]);
		t = next;
	}
	dense_same(&d, "momentum", x, 5 * ROUNDING);
	dense_free(&d);
}

/* Lengths in another unit, from 1e-4 to 1e4 of this one: the same volume in that one's inverse. */
static void units(void **state)
{
	(void)state;
	char names[256], *rest = names;
	snprintf(names, sizeof names, "%s", tomos_method_names());
	for (char *name = strtok_r(names, "|", &rest); name; name = strtok_r(NULL, "|", &rest))
		for (double unit = 1e-4; unit < 2e4; unit *= 1e8) {
			Dense d, other;
			double x[VOXELS];
			dense_make(&d);
			dense_make_in(&other, unit);
			dense_run(&d, name, 3);
			for (int j = 0; j < VOXELS; j++)
				other.start[j] /= unit, x[j] = d.image[j] / unit;
			dense_run(&other, name, 3);
			dense_same(&other, name, x, 20 * ROUNDING);
			dense_free(&d);
			dense_free(&other);
		}
}

/* ---- art ------------------------------------------------------------------------------------- */

/* Rays that hardly meet anything count as if their square were a hundredth of the largest. */
static void kaczmarz(void **state)
{
	(void)state;
	Dense d;
	for (int way = 0; way < WAYS; way++) {
		double x[VOXELS], squares[RAYS], most = 0;
		int small = 0;
		dense_way(&d, way);
		d.o.relaxation = 0.7;
		dense_run(&d, "art", 2);
		dense_begin(&d, x);
		for (int i = 0; i < RAYS; i++) {
			squares[i] = 0;
			for (int j = 0; j < VOXELS; j++)
				squares[i] += d.w[i] * dense_a(&d, i, j) * dense_a(&d, i, j);
			most = fmax(most, squares[i]);
		}
		for (int k = 0; k < 2 * RAYS; k++) {
			int i = k % RAYS;
			double r = d.b[i] - dense_row(&d, i, x);
			small += squares[i] > 0 && squares[i] < 0.01 * most;
			for (int j = 0; j < VOXELS && squares[i] > 0; j++) {
				double step =
					d.w[i] * dense_a(&d, i, j) / fmax(squares[i], 0.01 * most);
				if (dense_a(&d, i, j) != 0)
					x[j] = dense_bound(&d, x[j] + 0.7 * r * step, j);
			}
		}
		assert_true(small > 0 || way >= 2);
		dense_same(&d, "art", x, ROUNDING);
		dense_free(&d);
	}
}

/* ---- mlem, osem ------------------------------------------------------------------------------ */

/* x <- P(x A'W(b / A x) / A'W 1) block by block; what is below zero counts as zero. */
static void expectations(void **state)
{
	(void)state;
	Dense d;
	for (int way = 0; way < WAYS; way++)
		for (int blocks = 1; blocks <= 3; blocks += 2) {
			double x[VOXELS];
			dense_way(&d, way);
			d.data[5] = -1, d.b[5] = 0;
			d.o.blocks = blocks > 1 ? blocks : 0;
			dense_run(&d, blocks > 1 ? "osem" : "mlem", 4);
			dense_begin(&d, x);
			for (int k = 0; k < 4 * blocks; k++) {
				int size = RAYS / blocks, first = k % blocks * size;
				double ratio[RAYS], s[VOXELS], sum[VOXELS];
				for (int i = first; i < first + size; i++) {
					double p = dense_row(&d, i, x);
					ratio[i] = p > 1e-5 ? d.w[i] * d.b[i] / p : 0;
				}
				dense_back(&d, first, first + size, ratio, s);
				dense_back(&d, first, first + size, d.w, sum);
				for (int j = 0; j < VOXELS; j++)
					x[j] = dense_bound(
						&d, sum[j] > 1e-5 ? x[j] * s[j] / sum[j] : 0, j);
			}
			dense_same(&d, blocks > 1 ? "osem" : "mlem", x, ROUNDING);
			dense_free(&d);
		}
}

#define TESTS(T) T(updates), T(relaxations), T(momentum), T(units), T(kaczmarz), T(expectations)
TEST_MAIN(TESTS, one_thread, NULL)
