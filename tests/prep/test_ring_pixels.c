/* Rings of cone beams: offsets of single pixels are removed, what the object adds stays. */
#include "truth/truth.h" /* first: cmocka makes a macro of fail() */
#include "ops/cases.h"

enum { SIZE = 160, ROWS = 80, VIEWS = 120, ALL = VIEWS * ROWS * SIZE };

/* Exact projections of a head, with noise. */
static tomos_array ring_scene(double arc)
{
	double angles[VIEWS];
	tomos_geometry *scan;
	tomos_phantom *head;
	tomos_array a = tomos_array_of(malloc(ALL * sizeof(float)), VIEWS, ROWS, SIZE);
	for (int i = 0; i < VIEWS; i++)
		angles[i] = arc * i / VIEWS;
	OK(tomos_geometry_cone(&scan, ROWS, SIZE, 3.2 / SIZE, 6, 9, angles, VIEWS));
	OK(tomos_phantom_named(&head, "shepp-logan-modified", NULL));
	OK(tomos_phantom_project(head, scan, 1, &a));
	OK(tomos_noise_gaussian(&a, 0.005, 3));
	tomos_phantom_free(head);
	tomos_geometry_free(scan);
	return a;
}

static double rms_of(const float *x, const float *y, int64_t count)
{
	double sum = 0;
	for (int64_t i = 0; i < count; i++)
		sum += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
	return sqrt(sum / (double)count);
}

static double largest(const tomos_array *a)
{
	double most = 0;
	for (int64_t i = 0; i < ALL; i++)
		most = fmax(most, fabs((double)a->data[i]));
	return most;
}

/* Every pixel has an offset of up to 1 %, and some have 10 % of the largest value. */
static void add_offsets(tomos_array *a)
{
	double size = largest(a);
	for (int64_t p = 0; p < ROWS * SIZE; p++) {
		double u = 2 * random_uniform(7, (uint64_t)p) - 1;
		double offset = size * (p % 97 == 5 ? 0.1 : 0.01 * u);
		for (int64_t v = 0; v < VIEWS; v++)
			a->data[v * ROWS * SIZE + p] += (float)offset;
	}
}

/* Columns that are wrong as a whole, by up to 3 % of the largest value. */
static void add_columns(tomos_array *a)
{
	double size = largest(a);
	for (int64_t i = 0; i < ALL; i++)
		a->data[i] +=
			(float)(0.03 * size * (2 * random_uniform(8, (uint64_t)(i % SIZE)) - 1));
}

/* Two dead columns. */
static void add_dead(tomos_array *a)
{
	double size = largest(a);
	for (int64_t i = 0; i < ALL; i++)
		if (i % SIZE == 50 || i % SIZE == 51)
			a->data[i] = (float)size;
}

static tomos_prep_options by(const char *method)
{
	tomos_prep_options o = tomos_prep_defaults();
	o.rings = method;
	return o;
}

/* What is left of the offsets, against the same scan without them; *changed: what the step does to
 * that scan, relative to the offsets. */
static double left_over(
	const char *method, double arc, void (*spoil)(tomos_array *), double *changed)
{
	tomos_array spoilt = ring_scene(arc), clean = ring_scene(arc), plain = ring_scene(arc);
	const tomos_prep_options o = by(method);
	spoil(&spoilt);
	double before = rms_of(spoilt.data, plain.data, ALL);
	OK(tomos_prep_rings(&spoilt, &o, NULL));
	OK(tomos_prep_rings(&clean, &o, NULL));
	double left = rms_of(spoilt.data, plain.data, ALL) / before;
	*changed = rms_of(clean.data, plain.data, ALL) / before;
	free(spoilt.data);
	free(clean.data);
	free(plain.data);
	return left;
}

static void test_offsets(void **state)
{
	(void)state;
	static const double arcs[] = {2 * M_PI, 1.2 * M_PI};
	for (int i = 0; i < (CASE_SLOW ? 1 : 2); i++) {
		double changed, other, left = left_over("pixels", arcs[i], add_offsets, &changed);
		double vo = left_over("vo", arcs[i], add_offsets, &other);
		printf("  arc %.2f: %.3f left, %.3f added without offsets; vo %.3f, %.3f\n",
			arcs[i], left, changed, vo, other);
		assert_true(left < 0.4);
		assert_true(changed < 0.2);
		assert_true(left < 0.5 * vo);
	}
}

static void test_columns(void **state)
{
	(void)state;
	void (*const spoil[])(tomos_array *) = {add_columns, add_dead};
	for (int i = 0; i < 2; i++) {
		double changed, other = 0, left = left_over("pixels", 2 * M_PI, spoil[i], &changed);
		double vo = CASE_SLOW ? 1 : left_over("vo", 2 * M_PI, spoil[i], &other);
		printf("  columns %d: %.3f left, %.3f added without; vo %.3f, %.3f\n", i, left,
			changed, vo, other);
		assert_true(left < (i == 0 ? 0.6 : 0.2) && left < vo);
		assert_true(changed < 0.2);
	}
}

/* Rows [first, end) alone, with the rows around them that tomos_prep_reach asks for. */
static void check_part(const tomos_array *s, const float *whole, int64_t first, int64_t end)
{
	const tomos_prep_options o = by("pixels");
	tomos_reach reach = {.bytes = sizeof reach};
	OK(tomos_prep_reach(&o, &reach));
	assert_true(reach.all_views && !reach.all_rows);
	int64_t low = max64(0, first - reach.rows), high = min64(ROWS, end + reach.rows);
	float *copy = malloc(ALL * sizeof *copy);
	memcpy(copy, s->data, ALL * sizeof *copy);
	tomos_array part = tomos_array_of(copy + low * SIZE, VIEWS, ROWS, SIZE);
	part.shape[1] = high - low;
	OK(tomos_prep_rings(&part, &o, NULL));
	for (int64_t v = 0; v < VIEWS; v++)
		assert_memory_equal(copy + (v * ROWS + first) * SIZE,
			whole + (v * ROWS + first) * SIZE,
			(size_t)((end - first) * SIZE) * sizeof *copy);
	free(copy);
}

/* The same bits for any number of threads and any parts. */
static void test_parts(void **state)
{
	(void)state;
	tomos_array s = ring_scene(2 * M_PI), whole = ring_scene(2 * M_PI);
	const tomos_prep_options o = by("pixels");
	add_offsets(&s);
	add_offsets(&whole);
	OK(tomos_set_threads(3));
	OK(tomos_prep_rings(&whole, &o, NULL));
	OK(tomos_set_threads(1));
	check_part(&s, whole.data, 0, 9);
	check_part(&s, whole.data, 9, 31);
	check_part(&s, whole.data, 31, ROWS);
	OK(tomos_set_threads(0));
	free(s.data);
	free(whole.data);
}

/* Arrays as small as can be. */
static void test_small(void **state)
{
	(void)state;
	float data[12] = {1, 2, 3, 4, 5};
	const tomos_prep_options o = by("pixels");
	float many[300 * 3 * 5] = {0};
	tomos_array all = tomos_array_of(many, 300, 3, 5);
	for (int64_t v = 0; v < 300; v++) /* a pixel that is always too bright */
		many[v * 15 + 7] = 1;
	OK(tomos_prep_rings(&all, &o, NULL));
	for (int64_t i = 0; i < 300 * 15; i++)
		assert_true(many[i] == 0);
	for (int64_t columns = 1; columns <= 4; columns++) {
		tomos_array a = tomos_array_of(data, 3, 1, columns);
		OK(tomos_prep_rings(&a, &o, NULL));
		for (int i = 0; i < 12; i++)
			assert_true(isfinite(data[i]));
	}
}

#define TESTS(T) T(test_offsets), T(test_columns), T(test_parts), T(test_small)
TEST_MAIN(TESTS, NULL, NULL)
