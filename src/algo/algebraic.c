/* The public functions of the algebraic methods, from their table: options checked, arrays
 * transferred to the backend, the iteration prepared and its memory freed. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "algo/demands.h"
#include "algo/iteration.h"

#define EVERY_METHOD_USES \
	"iterations stop tolerance noise_level keep_best checkpoint every resume ray_weights " \
	"mask " \
	"truth history"

typedef enum { ANY, MATCHED } Needs;

typedef struct {
	const char *name;
	Method function;
	Needs needs;
	const char *options, *help;
} MethodRow;

#define METHOD( \
	function, name, needs, coupling, volumes, projections, fields, lists, options, help) \
	{name, function##_method, needs, options, help},
static const MethodRow rows[] = {
#include "algo/methods.def"
};
#undef METHOD

const char *tomos_method_names(void)
{
#define METHOD(function, name, ...) "|" name
	static const char names[] =
#include "algo/methods.def"
		;
#undef METHOD
	return names + 1;
}

const char *tomos_method_help(const char *method)
{
	int i = method ? choice_index(tomos_method_names(), method) : -1;
	return i < 0 ? "" : rows[i].help;
}

static bool has_word(const char *words, const char *word)
{
	size_t length = strlen(word);
	for (const char *at = words; (at = strstr(at, word)) != NULL; at += length)
		if ((at == words || at[-1] == ' ') && (at[length] == ' ' || !at[length]))
			return true;
	return false;
}

static bool uses(const MethodRow *row, const char *option)
{
	return has_word(EVERY_METHOD_USES, option) || has_word(row->options, option);
}

int tomos_method_uses(const char *method, const char *option)
{
	int i = method && option ? choice_index(tomos_method_names(), method) : -1;
	return i >= 0 && uses(&rows[i], option);
}

static bool same_value(const tomos_option *row, const void *a, const void *b)
{
	const char *x = (const char *)a + row->offset, *y = (const char *)b + row->offset;
	const char *s, *t;
	if (row->kind != TOMOS_CHOICE && row->kind != TOMOS_TEXT)
		return memcmp(x, y, sizeof(int64_t)) == 0;
	memcpy(&s, x, sizeof s);
	memcpy(&t, y, sizeof t);
	return strcmp(s ? s : "", t ? t : "") == 0;
}

/* A value that the method does not use is rejected, not ignored. */
static tomos_status reject_unused(const MethodRow *method, const tomos_algebraic_options *o)
{
	const tomos_algebraic_options defaults = tomos_algebraic_defaults();
	int count;
	const tomos_option *options = tomos_options("algebraic", &count);
	for (int i = 0; i < count; i++)
		if (!uses(method, options[i].name) && !same_value(&options[i], o, &defaults))
			return fail(TOMOS_BAD_VALUE, "%s has no use for the option '%s'",
				method->name, options[i].name);
	return TOMOS_OK;
}

static tomos_status check_choices(const tomos_algebraic_options *o)
{
	int count, index;
	const tomos_option *options = tomos_options("algebraic", &count);
	for (int i = 0; i < count; i++) {
		const char *value;
		if (options[i].kind != TOMOS_CHOICE)
			continue;
		memcpy(&value, (const char *)o + options[i].offset, sizeof value);
		TRY(choice_find(options[i].name, options[i].values, value, &index));
	}
	return TOMOS_OK;
}

static tomos_status check_numbers(const tomos_algebraic_options *o)
{
	bool bounded = strcmp(o->weights, "cimmino") != 0 && strcmp(o->weights, "landweber") != 0;
	if (!(o->relaxation >= 0) || (bounded && !(o->relaxation < 2)) || isinf(o->relaxation))
		return fail(TOMOS_BAD_VALUE, "relaxation %g: it must %s", o->relaxation,
			bounded ? "be between 0 and 2" : "be a number above 0");
	if (!(o->minimum <= o->maximum))
		return fail(
			TOMOS_BAD_VALUE, "minimum %g is above maximum %g", o->minimum, o->maximum);
	if (!(o->strength >= 0) || isinf(o->strength))
		return fail(TOMOS_BAD_VALUE, "strength %g: it must not be negative", o->strength);
	if (!(o->huber > 0) || isinf(o->huber))
		return fail(TOMOS_BAD_VALUE, "huber %g: it must be above 0", o->huber);
	if (!(o->norm >= 0) || isinf(o->norm))
		return fail(TOMOS_BAD_VALUE,
			"norm %g: it must be above 0, or 0 for it to be estimated", o->norm);
	if (!(o->tolerance >= 0))
		return fail(TOMOS_BAD_VALUE, "tolerance %g: it must not be negative", o->tolerance);
	if (!(o->noise_level >= 0))
		return fail(
			TOMOS_BAD_VALUE, "noise_level %g: it must not be negative", o->noise_level);
	return TOMOS_OK;
}

static bool has_checkpoint(const tomos_algebraic_options *o)
{
	return o->checkpoint && *o->checkpoint;
}

/* Conditions between options that their rows do not contain. */
static tomos_status check_together(const MethodRow *method, const tomos_algebraic_options *o)
{
	char facts[64];
	snprintf(facts, sizeof facts, "method=%s", method->name);
	TRY(options_need("algebraic", o, facts));
	bool noise = strcmp(o->stop, "discrepancy") == 0 || strcmp(o->stop, "monotone") == 0;
	if (noise && !(o->noise_level > 0))
		return fail(TOMOS_BAD_VALUE, "stop '%s' needs a noise_level above 0", o->stop);
	return has_checkpoint(o) ? checkpoint_check(o->checkpoint) : TOMOS_OK;
}

static tomos_status check(
	const MethodRow *method, const tomos_op *op, const tomos_algebraic_options *o)
{
	TRY(check_choices(o));
	TRY(check_numbers(o));
	TRY(reject_unused(method, o));
	TRY(check_together(method, o));
	if (method->needs == MATCHED && !op->matched)
		return fail(TOMOS_UNSUPPORTED,
			"%s needs a back projector that is the adjoint of the forward one; the "
			"operator "
			"is: %s",
			method->name, op->description);
	return TOMOS_OK;
}

/* ";name value" of an option, as far as it fits; returns its length. */
static int setting_text(char *text, size_t size, const tomos_option *row, const void *options)
{
	const char *field = (const char *)options + row->offset, *choice;
	int64_t whole = 0;
	double real;
	switch (row->kind) {
	case TOMOS_REAL:
		memcpy(&real, field, sizeof real);
		return snprintf(text, size, ";%s %.17g", row->name, real);
	case TOMOS_CHOICE:
		memcpy(&choice, field, sizeof choice);
		return snprintf(text, size, ";%s %s", row->name, choice);
	default:
		memcpy(&whole, field, sizeof whole);
		return snprintf(text, size, ";%s %lld", row->name, (long long)whole);
	}
}

/* An option that only decides when to end may change between the runs. */
static bool ends_only(const Iteration *it, const char *option)
{
	return strcmp(option, "noise_level") == 0 && strcmp(it->method, "asd-pocs") != 0;
}

/* The settings that a checkpoint belongs to: method, operator, data, and all that changes the
 * iterates. */
static tomos_status describe_settings(Iteration *it, const tomos_op *op)
{
	static const char leaves[] =
		"iterations stop tolerance checkpoint every resume ray_weights "
		"mask truth history normal";
	int64_t n[3], m[3];
	char text[4096];
	space_whole(it->X, n);
	space_whole(&op->range, m);
	int count, used = snprintf(text, sizeof text,
			   "method %s;operator %s%s;volume %lld x %lld x %lld;projections %lld x "
			   "%lld x %lld;"
			   "data of checksum %08x;weights of rays of checksum %08x;mask of "
			   "checksum %08x;%s",
			   it->method, op->description, it->normal ? ", by --normal fourier" : "",
			   (long long)n[0], (long long)n[1], (long long)n[2], (long long)m[0],
			   (long long)m[1], (long long)m[2], (unsigned)it->data_sum,
			   (unsigned)it->rays_sum, (unsigned)it->mask_sum, op->place);
	const tomos_option *options = tomos_options("algebraic", &count);
	for (int i = 0; i < count && used < (int)sizeof text; i++)
		if (!has_word(leaves, options[i].name) && !ends_only(it, options[i].name))
			used += setting_text(
				text + used, sizeof text - (size_t)used, &options[i], it->o);
	return mem_text(&it->settings, text);
}

static tomos_status check_weights(const tomos_array *a)
{
	TRY(tomos_array_check(a, "the weights of rays"));
	for (int64_t i = 0; i < a->shape[0]; i++)
		for (int64_t j = 0; j < a->shape[1]; j++)
			for (int64_t k = 0; k < a->shape[2]; k++) {
				float w = a->data[i * a->stride[0] + j * a->stride[1] +
						  k * a->stride[2]];
				if (w < 0)
					return fail(TOMOS_BAD_VALUE,
						"the weight of ray [%lld][%lld][%lld] is %g; it "
						"must not be "
						"negative",
						(long long)i, (long long)j, (long long)k, w);
			}
	return TOMOS_OK;
}

/* A copy of the caller's array that lives as long as the run. */
static tomos_status take_copy(
	Iteration *it, float **copy, const Space *space, const tomos_array *array, const char *name)
{
	Vector vector;
	TRY(iteration_vector(it, copy, space, name));
	TRY(vector_borrow(&vector, space, array, VECTOR_IN, name));
	tomos_status status = vector_copy(space, vector.data, *copy);
	vector_return(&vector, space, VECTOR_IN);
	return status;
}

/* Computes the checksum by which a checkpoint recognises the vector. */
static tomos_status mark_vector(
	Iteration *it, const Space *space, const float *vector, uint32_t *sum)
{
	return has_checkpoint(it->o) ? vector_checksum(space, vector, sum) : TOMOS_OK;
}

/* Applies weights and mask to the operator and the data, so that methods need not treat them. */
static tomos_status prepare_weights(Iteration *it, const tomos_op *op)
{
	const tomos_algebraic_options *o = it->o;
	float *rays = NULL, *mask = NULL, *b;
	if (o->ray_weights) {
		TRY(take_copy(it, &rays, it->Y, o->ray_weights, "the weights of rays"));
		TRY(space_agree(it->Y, check_weights(o->ray_weights)));
		TRY(mark_vector(it, it->Y, rays, &it->rays_sum));
		TRY(vector_sqrt(it->Y, rays));
		TRY(iteration_vector(it, &b, it->Y, "the weighted data"));
		TRY(vector_copy(it->Y, it->b, b));
		TRY(vector_mul(it->Y, rays, b));
		it->b = b;
	}
	if (o->mask) {
		TRY(take_copy(it, &mask, it->X, o->mask, "the mask"));
		TRY(vector_indicator(it->X, mask));
		TRY(mark_vector(it, it->X, mask, &it->mask_sum));
		TRY(vector_mul(it->X, mask, it->x));
	}
	it->rays = rays;
	it->mask = mask;
	if (rays || mask) {
		TRY(op_weighted(&it->weighted, op, rays, mask));
		it->A = it->weighted;
	}
	return TOMOS_OK;
}

static tomos_status prepare(Iteration *it, const tomos_op *op)
{
	TRY(mark_vector(it, it->Y, it->b, &it->data_sum));
	it->defers = op->place[0] !=
		     0; /* not for operators of the caller, whose functions may return early */
	TRY(prepare_weights(it, op));
	TRY(mark_vector(it, it->X, it->x, &it->start));
	TRY(iteration_choose_normal(it, op));
	TRY(vector_norm(it->Y, it->b, &it->b_norm));
	if (it->o->truth) {
		TRY(vector_borrow(&it->truth, it->X, it->o->truth, VECTOR_IN, "the truth"));
		TRY(vector_norm(it->X, it->truth.data, &it->truth_norm));
		if (!(it->truth_norm > 0) && it->part)
			it->truth_norm = 1;
		if (!(it->truth_norm > 0))
			return fail(TOMOS_BAD_VALUE,
				"the truth is 0 everywhere, so no error is relative to it");
	}
	return describe_settings(it, op);
}

static tomos_status finish(Iteration *it, tomos_status status)
{
	keep_resume_cancel(it);
	if (status == TOMOS_CANCELLED && strcmp(it->ended, "cancelled") != 0) {
		tomos_status restored = keep_restore(it);
		status = restored == TOMOS_OK ? status : restored;
	}
	if (it->o->history)
		it->o->history->ended = it->ended;
	iteration_give_history(it);
	if (it->best && it->best_at > 0 && (status == TOMOS_OK || status == TOMOS_CANCELLED)) {
		tomos_status copied = vector_copy(it->X, it->best, it->x);
		status = status == TOMOS_OK ? copied : status;
	}
	vector_return(&it->truth, it->X, VECTOR_IN);
	for (int64_t i = 0; i < it->held_count;
		i++) { /* before the blocks: some vectors belong to their spaces */
		vector_free(it->held[i].data, it->held[i].space);
		vector_free(it->held[i].copy, it->held[i].space);
	}
	subsets_free(&it->subsets);
	tomos_op_free(it->normal);
	tomos_op_free(it->weighted);
	tomos_op_free(it->gradient);
	mem_free(it->held);
	mem_free(it->settings);
	return status;
}

static tomos_status run_method(const MethodRow *method, const tomos_op *op, const float *b,
	float *x, const tomos_algebraic_options *o, tomos_history *history, const Within *within,
	const tomos_progress *progress)
{
	Iteration it = {.method = method->name,
		.A = op,
		.X = &op->domain,
		.Y = &op->range,
		.b = b,
		.x = x,
		.low = (float)o->minimum,
		.high = (float)o->maximum,
		.o = o,
		.history = history,
		.progress = progress,
		.cache = within->cache,
		.part = within->part,
		.ended = "iterations"};
	tomos_status status = prepare(&it, op);
	if (status == TOMOS_OK)
		status = method->function(&it);
	if (status == TOMOS_OK && it.going)
		it.ended = "converged";
	return finish(&it, status);
}

/* On a GPU the only iterate is the volume itself. */
static tomos_status check_iterate(
	const tomos_op *op, const tomos_array *x, const tomos_array *iterate)
{
	int device = op->domain.backend->device;
	TRY(array_check_on(device, iterate, "the iterate", op->domain.shape, ARRAY_WRITTEN));
	if (iterate->device == 0 || (x && x->data == iterate->data))
		return TOMOS_OK;
	return fail(TOMOS_UNSUPPORTED,
		"the array for the iterate is on device %d, where it must be the volume's own",
		iterate->device);
}

static tomos_status borrow_arrays(
	const tomos_op *op, const tomos_array *b, const tomos_array *x, Vector *data, Vector *image)
{
	TRY(vector_borrow(data, &op->range, b, VECTOR_IN, "the projections"));
	TRY(vector_borrow(image, &op->domain, x, VECTOR_IN_OUT, "the volume"));
	return arrays_apart(b, "the projections", x, "the volume");
}

static const Within whole = {.cache = (int64_t)1 << 28};

static tomos_status reconstruct(const MethodRow *method, const tomos_op *op, const tomos_array *b,
	const tomos_array *x, const tomos_algebraic_options *given, const Within *within,
	const tomos_progress *progress)
{
	if (!op)
		return fail(TOMOS_BAD_VALUE, "%s: there is no operator", method->name);
	tomos_algebraic_options o = tomos_algebraic_defaults();
	TRY(options_take(&o, given, "algebraic"));
	tomos_history history = {.bytes = sizeof history}, *caller = o.history;
	TRY(struct_take(&history, caller, "tomos_history"));
	history.count = history.best = 0;
	o.history = caller ? &history : NULL;
	Vector data = {0}, image = {0};
	tomos_status status = check(method, op, &o), returned;
	if (status == TOMOS_OK && o.history && o.history->iterate)
		status = check_iterate(op, x, o.history->iterate);
	if (status == TOMOS_OK)
		status = borrow_arrays(op, b, x, &data, &image);
	TRY_OR_DONE(space_agree(&op->range, status)); /* before ranks wait for each other */
	TRY_OR_DONE(run_method(method, op, data.data, image.data, &o, caller, within, progress));
done:
	returned = vector_return(&image, &op->domain, VECTOR_IN_OUT);
	vector_return(&data, &op->range, VECTOR_IN);
	return status != TOMOS_OK ? status : returned;
}

tomos_status tomos_reconstruct(const tomos_op *op, const char *method, const tomos_array *b,
	const tomos_array *x, const tomos_algebraic_options *options,
	const tomos_progress *progress)
{
	int i;
	TRY(choice_find("method", tomos_method_names(), method, &i));
	return reconstruct(&rows[i], op, b, x, options, &whole, progress);
}

tomos_status reconstruct_within(const tomos_op *op, const char *method, const tomos_array *b,
	const tomos_array *x, const tomos_algebraic_options *options, const Within *within,
	const tomos_progress *progress)
{
	int i;
	TRY(choice_find("method", tomos_method_names(), method, &i));
	return reconstruct(&rows[i], op, b, x, options, within, progress);
}

#define METHOD(function, ...) ROW_##function,
enum {
#include "algo/methods.def"
};
#undef METHOD

#define METHOD(function, ...) \
	tomos_status tomos_##function(const tomos_op *op, const tomos_array *b, \
		const tomos_array *x, const tomos_algebraic_options *options, \
		const tomos_progress *progress) \
	{ \
		return reconstruct(&rows[ROW_##function], op, b, x, options, &whole, progress); \
	}
#include "algo/methods.def"
