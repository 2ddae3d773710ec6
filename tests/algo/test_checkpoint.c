/* Checkpoints of algebraic methods: resumed runs, and checkpoints that are rejected. */
#include "algo/run_help.h"

/* Also where there is one only. */
static void last_residual_is_described(void **state)
{
	(void)state;
	Problem p = problem_make("parallel", "joseph", 16, 12, 0.02);
	tomos_algebraic_options o = tomos_algebraic_defaults();
	double residual[2], error[2];
	tomos_history history = {
		.bytes = sizeof history, .residual = residual, .error = error, .capacity = 2};
	tomos_checkpoint_info info = {.bytes = sizeof info};
	o.checkpoint = checkpoint_file();
	o.every = 1;
	o.history = &history;
	for (o.iterations = 1; o.iterations <= 2; o.iterations++) {
		OK(tomos_sirt(p.op, &p.b, &p.x, &o, NULL));
		OK(tomos_checkpoint_describe(checkpoint_file(), &info));
		assert_int_equal(info.iterations, o.iterations);
		assert_true(info.residual == residual[o.iterations - 1]);
	}
	unlink(checkpoint_file());
	problem_free(&p);
}

static void shorten_file(const char *path, long bytes)
{
	assert_int_equal(truncate(path, bytes), 0);
}

/* One byte other than it was, wherever it is, and the volume stays as it is. */
static void damaged(Problem *p, const tomos_algebraic_options *o)
{
	tomos_checkpoint_info info = {.bytes = sizeof info};
	FILE *file = fopen(checkpoint_file(), "r+b");
	fseek(file, 0, SEEK_END);
	long size = ftell(file);
	float before = p->x.data[7];
	for (long at = 0; at < size; at += at < 600 ? 7 : 211) {
		fseek(file, at, SEEK_SET);
		int byte = fgetc(file);
		for (int turn = 0; turn < 2; turn++) {
			fseek(file, at, SEEK_SET);
			fputc(turn ? byte : byte ^ 4, file);
			fflush(file);
			tomos_status status = tomos_checkpoint_describe(checkpoint_file(), &info);
			assert_true(turn ? status == TOMOS_OK : status != TOMOS_OK || !info.found);
			if (turn == 0)
				assert_int_equal(
					tomos_sirt(p->op, &p->b, &p->x, o, NULL), TOMOS_BAD_FILE);
		}
		fseek(file, at, SEEK_SET);
	}
	fseek(file, size - 40, SEEK_SET);
	fputs("####", file);
	fflush(file);
	REJECTED(tomos_sirt(p->op, &p->b, &p->x, o, NULL), TOMOS_BAD_FILE,
		"is damaged: its checksum is ");
	REJECTED(
		tomos_checkpoint_describe(checkpoint_file(), &info), TOMOS_BAD_FILE, "was written");
	fseek(file, 17, SEEK_SET);
	fputs("1", file);
	fclose(file);
	REJECTED(tomos_sirt(p->op, &p->b, &p->x, o, NULL), TOMOS_BAD_FILE,
		"is a checkpoint of another version");
	assert_true(p->x.data[7] == before);
	unlink(checkpoint_file());
	OK(tomos_sirt(p->op, &p->b, &p->x, o, NULL));
}

/* The last state is saved also where none is due; where the same rule had ended it, nothing is
 * left. */
static void resume_ended(void **state)
{
	(void)state;
	Problem p = problem_make("parallel", "joseph", 16, 12, 0.02);
	Lists told = {0};
	tomos_algebraic_options o = problem_options(&told, 9);
	o.checkpoint = checkpoint_file();
	o.stop = "discrepancy";
	o.noise_level = 0.3;
	OK(tomos_cgls(p.op, &p.b, &p.x, &o, NULL));
	int64_t count = told.history.count;
	assert_true(count > 0 && count < 9);
	float value = p.x.data[120];
	o.resume = 1;
	problem_zero(&p);
	OK(tomos_cgls(p.op, &p.b, &p.x, &o, NULL));
	assert_int_equal(told.history.count, count);
	assert_string_equal(told.history.ended, "discrepancy");
	assert_true(p.x.data[120] == value);
	o.stop = "iterations", o.noise_level = 0; /* another rule goes on */
	OK(tomos_cgls(p.op, &p.b, &p.x, &o, NULL));
	assert_int_equal(told.history.count, 9);
	unlink(checkpoint_file());
	problem_free(&p);
}

/* More bytes than there should be, and fewer. */
static void wrong_length(Problem *p, const tomos_algebraic_options *o)
{
	FILE *file = fopen(checkpoint_file(), "ab");
	long size = ftell(file);
	fputc('x', file);
	fclose(file);
	REJECTED(tomos_sirt(p->op, &p->b, &p->x, o, NULL), TOMOS_BAD_FILE, "more than it should");
	for (long bytes = size - 1; bytes > 0; bytes -= 97) {
		shorten_file(checkpoint_file(), bytes);
		tomos_status status = tomos_sirt(p->op, &p->b, &p->x, o, NULL);
		assert_true(status == TOMOS_BAD_FILE || status == TOMOS_BAD_VALUE);
	}
	shorten_file(checkpoint_file(), 0);
	REJECTED(tomos_sirt(p->op, &p->b, &p->x, o, NULL), TOMOS_BAD_FILE, "is no checkpoint");
}

/* Every checkpoint that does not fit is rejected. */
static void checkpoint_rejections(void **state)
{
	(void)state;
	Problem p = problem_make("parallel", "joseph", 16, 12, 0);
	Problem other = problem_make("fan", "joseph", 16, 12, 0);
	tomos_algebraic_options o = problem_options(NULL, 4);
	o.checkpoint = checkpoint_file();
	o.every = 2;
	o.stop = "discrepancy";
	o.noise_level = 1e-9; /* which is not reached */
	OK(tomos_sirt(p.op, &p.b, &p.x, &o, NULL));
	o.resume = 1;
	REJECTED(tomos_mlem(p.op, &p.b, &p.x, &o, NULL), TOMOS_BAD_VALUE,
		"belongs to method sirt, not to method mlem");
	problem_zero(&p);
	o.relaxation = 0.5;
	REJECTED(tomos_sirt(p.op, &p.b, &p.x, &o, NULL), TOMOS_BAD_VALUE,
		"belongs to relaxation 0, not to relaxation 0.5");
	o.relaxation = 0;
	float kept = p.b.data[100]; /* the same numbers, so the same norm, in another order */
	p.b.data[100] = p.b.data[103];
	p.b.data[103] = kept;
	assert_true(p.b.data[100] != kept);
	REJECTED(tomos_sirt(p.op, &p.b, &p.x, &o, NULL), TOMOS_BAD_VALUE,
		"belongs to data of checksum ");
	p.b.data[103] = p.b.data[100];
	p.b.data[100] = kept;
	OK(tomos_sirt(p.op, &p.b, &p.x, &o, NULL));
	REJECTED(tomos_sirt(other.op, &p.b, &p.x, &o, NULL), TOMOS_BAD_VALUE,
		"belongs to views of checksum ");
	o.mask = &p.truth;
	REJECTED(tomos_sirt(p.op, &p.b, &p.x, &o, NULL), TOMOS_BAD_VALUE,
		"belongs to mask of checksum 00000000, not to mask of checksum ");
	o.mask = NULL;
	o.ray_weights = &p.b;
	REJECTED(tomos_sirt(p.op, &p.b, &p.x, &o, NULL), TOMOS_BAD_VALUE,
		"belongs to weights of rays of checksum ");
	o.ray_weights = NULL;
	p.x.data[7] += 1;
	REJECTED(tomos_sirt(p.op, &p.b, &p.x, &o, NULL), TOMOS_BAD_VALUE,
		"belongs to a start image of checksum ");
	p.x.data[7] -= 1;
	o.stop = "monotone";
	REJECTED(tomos_sirt(p.op, &p.b, &p.x, &o, NULL), TOMOS_BAD_VALUE,
		"has 0 vectors, but stop 'monotone' needs 1");
	o.stop = "discrepancy";
	damaged(&p, &o);
	wrong_length(&p, &o);
	o.resume = 0; /* and nothing else is written over */
	REJECTED(tomos_sirt(p.op, &p.b, &p.x, &o, NULL), TOMOS_BAD_FILE,
		"exists and is no checkpoint; name another file");
	o.resume = 1;
	unlink(checkpoint_file());
	OK(tomos_sirt(p.op, &p.b, &p.x, &o, NULL)); /* none there: from the beginning */
	unlink(checkpoint_file());
	o.checkpoint = "no/such/folder/file";
	o.resume = 0;
	REJECTED(tomos_sirt(p.op, &p.b, &p.x, &o, NULL), TOMOS_IO, "no/such/folder/file");
	problem_free(&other);
	problem_free(&p);
}

#define TESTS(T) T(resume), T(last_residual_is_described), T(resume_ended), T(checkpoint_rejections)
TEST_MAIN(TESTS, NULL, NULL)
