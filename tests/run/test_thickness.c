/* The thickness of slabs, against a pipeline whose stages take known times. */
#include <math.h>
#include "run/thickness.h"
#include "base/test_main.h"

enum { LEAST = 16, SLABS = 600, CASES = 400 };

static double uniform(void)
{
	static uint64_t state = 7;
	state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return ((double)(state >> 11) + 0.5) / 9007199254740992.0;
}

/* A run: the times of its stages for a slab of h slices are fixed + each * h, to a factor. */
typedef struct {
	double fixed[3], each[3], noise;
	int64_t slices, most;
	int64_t count, sizes[SLABS];
	double ends[3][SLABS], takes[3][SLABS], starts[SLABS]; /* starts: of computing */
} Run;

static double takes(const Run *r, int stage, int64_t h)
{
	return (r->fixed[stage] + r->each[stage] * (double)h) * (1 + r->noise * (uniform() - 0.5));
}

/* What was done by a time. */
static void fits_at(const Run *r, double time, StageFit fits[3])
{
	for (int k = 0; k < 3; k++) {
		fits[k] = (StageFit){.count = 0};
		for (int64_t i = 0; i < r->count; i++)
			if (r->ends[k][i] <= time)
				stage_fit_add(&fits[k], r->sizes[i], r->takes[k][i]);
	}
}

/* Slabs of equal size have 0 as limits. */
static double run(Run *r, const ThicknessLimits *limits)
{
	int64_t left = r->slices;
	double read = 0;
	for (r->count = 0; left > 0; r->count++) {
		int64_t i = r->count, last[3] = {0, 0, 0}, h = min64(r->most, left);
		double start = i >= 2 ? fmax(read, r->starts[i - 2]) : read;
		StageFit fits[3];
		assert_true(i < SLABS);
		for (int64_t j = max64(0, i - 3); j < i; j++)
			last[j - i + 3] = r->sizes[j];
		fits_at(r, start, fits);
		if (limits)
			h = next_thickness(limits, fits, last, left);
		assert_true(h >= 1 && h <= r->most && h <= left && (h == left || h % 2 == 0));
		assert_true(h == left || h >= LEAST / 2);
		r->sizes[i] = h;
		for (int k = 0; k < 3; k++)
			r->takes[k][i] = takes(r, k, h);
		read = r->ends[0][i] = start + r->takes[0][i];
		r->starts[i] = fmax(read, i ? r->ends[1][i - 1] : 0);
		if (i >= 2)
			r->starts[i] = fmax(r->starts[i], r->ends[2][i - 2]);
		r->ends[1][i] = r->starts[i] + r->takes[1][i];
		r->ends[2][i] = fmax(r->ends[1][i], i ? r->ends[2][i - 1] : 0) + r->takes[2][i];
		left -= h;
	}
	return r->ends[2][r->count - 1];
}

/* fixed: in slices of the slowest stage. */
static void random_run(Run *r, double fixed, double noise)
{
	static const int64_t slices[] = {130, 201, 512, 777, 1024, 2048};
	double slowest = 0;
	r->noise = noise;
	r->slices = slices[(int)(6 * uniform())];
	r->most = (max64(LEAST, (r->slices + 7) / 8) + 1) / 2 * 2;
	for (int k = 0; k < 3; k++) {
		r->each[k] = pow(10, -3 * uniform());
		slowest = fmax(slowest, r->each[k]);
	}
	for (int k = 0; k < 3; k++)
		r->fixed[k] = fixed * slowest * uniform();
}

/* Compared with slabs of equal size: mean and largest ratio of the durations, and the mean of what
 * exceeds the slowest stage. */
static void compare(double fixed, double noise, double ratio[2], double over[2])
{
	static Run r;
	ratio[0] = ratio[1] = over[0] = over[1] = 0;
	for (int i = 0; i < CASES; i++) {
		random_run(&r, fixed, noise);
		const ThicknessLimits limits = {LEAST, r.most};
		double equal = run(&r, NULL), adapted = run(&r, &limits);
		double bound = fmax(fmax(r.each[0], r.each[1]), r.each[2]) * (double)r.slices;
		ratio[0] += adapted / equal / CASES;
		ratio[1] = fmax(ratio[1], adapted / equal);
		over[0] += (equal / bound - 1) / CASES;
		over[1] += (adapted / bound - 1) / CASES;
	}
}

/* Filling and draining the pipeline takes half as long as with equal slabs. */
static void shorter_than_equal_slabs(void **state)
{
	(void)state;
	double ratio[2], over[2];
	compare(0, 0, ratio, over);
	print_message("over the slowest stage: %.4f, equal slabs %.4f\n", over[1], over[0]);
	assert_true(over[1] < 0.6 * over[0] && ratio[1] < 1.02);
}

static void fixed_times_are_paid_rarely(void **state)
{
	(void)state;
	static const double fixed[] = {0.5, 2, 8, 32}, most[] = {0.99, 0.99, 1, 1.03};
	for (int i = 0; i < 4; i++) {
		double ratio[2], over[2];
		compare(fixed[i], 0, ratio, over);
		print_message("fixed %g: %.3f of equal slabs, at most %.3f\n", fixed[i], ratio[0],
			ratio[1]);
		assert_true(ratio[0] < most[i] && ratio[1] < 1.1);
	}
}

/* Times that vary by a fifth either way. */
static void noise_does_no_harm(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		double ratio[2], over[2];
		compare(2 * i, 0.4, ratio, over);
		assert_true(ratio[0] < 1);
	}
}

#define TESTS(T) T(shorter_than_equal_slabs), T(fixed_times_are_paid_rarely), T(noise_does_no_harm)
TEST_MAIN(TESTS, NULL, NULL)
