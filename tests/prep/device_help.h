/* Scans as files store them, prepared in host memory and on a device. */
#ifndef TOMOS_TESTS_PREP_DEVICE_HELP_H
#define TOMOS_TESTS_PREP_DEVICE_HELP_H

#include "prep/device.h" /* first: cmocka makes a macro of fail() */
#include "prep/prep_test.h"

enum { FLATS = 6, DARKS = 3 };

/* ---- scans ----------------------------------------------------------------------------------- */

/* Numbers of a scan as a file would store them, and their values. */
typedef struct {
	int64_t shape[3];
	float *values;
	unsigned char *stored;
	StoredType type;
	bool swapped;
	int64_t stride[3], first, size; /* of the stored numbers */
	double scale, offset;
} Frames;

static const int type_bytes[STORED_TYPES] = {1, 1, 2, 2, 4, 4, 2, 4};

/* Of whole numbers below 2048, and of values that are not finite. */
static inline uint16_t half_of(float value)
{
	if (!isfinite(value))
		return isnan(value) ? 0x7e00 : 0x7c00;
	int exponent;
	float part = frexpf(value, &exponent);
	if (value == 0)
		return 0;
	return (uint16_t)((exponent + 14) << 10 | ((int)(part * 2048) & 1023));
}

static inline void put_number(unsigned char *to, StoredType type, float value)
{
	const uint32_t whole = isfinite(value) && value >= 0 ? (uint32_t)value : 0;
	const uint16_t half = half_of(value), narrow = (uint16_t)whole;
	const unsigned char byte = (unsigned char)whole;
	if (type == STORED_FLOAT32)
		memcpy(to, &value, 4);
	else if (type == STORED_FLOAT16)
		memcpy(to, &half, 2);
	else if (type_bytes[type] == 4)
		memcpy(to, &whole, 4);
	else if (type_bytes[type] == 2)
		memcpy(to, &narrow, 2);
	else
		*to = byte;
}

static inline void swap_bytes(unsigned char *at, int bytes)
{
	for (int i = 0; i < bytes / 2; i++) {
		unsigned char other = at[i];
		at[i] = at[bytes - 1 - i];
		at[bytes - 1 - i] = other;
	}
}

typedef enum { LAYOUT_WHOLE, LAYOUT_CROPPED, LAYOUT_SINOGRAMS } StoredLayout;

/* Strides of the layout: columns 3 and on of wider rows, or [row][frame][column]. */
static inline void frames_store(Frames *f, StoredType type, bool swapped, StoredLayout layout)
{
	const int64_t *n = f->shape, wide = n[2] + (layout == LAYOUT_CROPPED ? 5 : 0);
	const bool transposed = layout == LAYOUT_SINOGRAMS;
	const int64_t stride[3] = {
		transposed ? wide : n[1] * wide, transposed ? n[0] * wide : wide, 1};
	int bytes = type_bytes[type];
	f->type = type;
	f->swapped = swapped;
	f->first = layout == LAYOUT_CROPPED ? 3 : 0;
	f->size = n[0] * n[1] * wide;
	memcpy(f->stride, stride, sizeof stride);
	f->stored = calloc((size_t)(f->size * bytes) + 4, 1);
	for (int64_t i = 0; i < n[0] * n[1] * n[2]; i++) {
		int64_t at = f->first + i / (n[1] * n[2]) * stride[0] +
			     i / n[2] % n[1] * stride[1] + i % n[2];
		put_number(f->stored + at * bytes, type, f->values[i]);
		if (swapped)
			swap_bytes(f->stored + at * bytes, bytes);
	}
}

typedef struct {
	Frames views, flats, darks;
	double flat_views[FLATS];
} Scan;

static inline Frames frames_make(int64_t count, int64_t rows, int64_t columns)
{
	Frames f = {.shape = {count, rows, columns}, .scale = 1};
	f.values = malloc((size_t)(count * rows * columns) * sizeof *f.values);
	return f;
}

static inline void frames_free(Frames *f)
{
	free(f->values);
	free(f->stored);
}

static inline double integral_at(const Scan *s, int64_t v, int64_t r, int64_t c)
{
	const int64_t *n = s->views.shape;
	double x = ((double)c + 0.5) / (double)n[2] - 0.5, a = 3.0 * (double)v / (double)n[0];
	double inside = 0.14 - x * x - 0.003 * (double)(r % 5);
	double blob = 0.02 - pow(x - 0.2 * cos(a + 0.1 * (double)r), 2);
	return 2 * sqrt(fmax(inside, 0)) + 2 * sqrt(fmax(blob, 0));
}

/* Counts up to `light`, with rings, a broken and a wide stripe, zingers, pixels without light. */
static inline void fill_counts(Scan *s, double light, bool spoilt, uint64_t *random)
{
	const int64_t *n = s->views.shape, plane = n[1] * n[2];
	for (int64_t i = 0; i < n[0] * plane; i++) {
		int64_t v = i / plane, r = i / n[2] % n[1], c = i % n[2];
		double gain = 1 + 0.03 * sin(12.9898 * (double)(c * 7 + r * 3));
		gain *= c >= n[2] / 2 && c < n[2] / 2 + 6 && n[2] > 40 ? 0.93 : 1;
		double value = 0.9 * light * gain * exp(-integral_at(s, v, r, c));
		value += 0.02 * light + 0.003 * light * noise_of(random);
		if (spoilt && c == n[2] / 3)
			value = 0.5 * light + 0.2 * light * noise_of(random);
		if (spoilt && (i * 2654435761u >> 7) % 997 == 5)
			value += 0.5 * light;
		s->views.values[i] = (float)floor(fmax(value, 0));
	}
	for (int64_t i = 0; i < FLATS * plane; i++) {
		int64_t c = i % n[2], r = i / n[2] % n[1];
		double gain = 1 + 0.03 * sin(12.9898 * (double)(c * 7 + r * 3));
		double level = 0.9 * light * gain * (1 + 0.02 * (double)(i / plane));
		bool dead = spoilt && (c == n[2] - 1 || (c >= 7 && c < 10 && r % 2) || r == 8);
		s->flats.values[i] =
			(float)floor(dead ? 0 : level + 0.02 * light + noise_of(random));
	}
	for (int64_t i = 0; i < DARKS * plane; i++)
		s->darks.values[i] = (float)floor(0.02 * light + 1 + noise_of(random));
}

/* light 0: line integrals; below 0: transmissions. Both have values that are not finite. */
static inline Scan scan_make(const int64_t n[3], double light, bool spoilt)
{
	uint64_t random = 5;
	Scan s = {frames_make(n[0], n[1], n[2]), frames_make(FLATS, n[1], n[2]),
		frames_make(DARKS, n[1], n[2]), {0, 0, (double)n[0] / 3, (double)n[0] / 3, 0, 1e3}};
	int64_t count = n[0] * n[1] * n[2];
	fill_counts(&s, light > 0 ? light : 30000, spoilt, &random);
	for (int64_t i = 0; light <= 0 && i < count; i++) {
		float value = s.views.values[i] / 30000;
		s.views.values[i] = light < 0 ? value : -logf(fmaxf(value, 1e-3F));
		if (spoilt && i % 331 < 3)
			s.views.values[i] = i % 2 ? NAN : INFINITY;
		if (spoilt && i / n[2] == 3)
			s.views.values[i] = -INFINITY;
	}
	return s;
}

static inline void scan_free(Scan *s)
{
	frames_free(&s->views);
	frames_free(&s->flats);
	frames_free(&s->darks);
}

/* ---- both ways ------------------------------------------------------------------------------- */

typedef struct {
	float *data;
	int64_t shape[3], count;
	tomos_prep_report report;
} Prepared;

static inline Prepared on_host(const Scan *s, const tomos_prep_options *o, bool fields)
{
	const int64_t *n = s->views.shape;
	Prepared p = {.report = {.bytes = sizeof p.report}};
	tomos_array flats = tomos_array_of(s->flats.values, FLATS, n[1], n[2]);
	tomos_array darks = tomos_array_of(s->darks.values, DARKS, n[1], n[2]);
	const tomos_fields of = {sizeof of, &flats, &darks, s->flat_views, 0};
	float *copy = copy_of(s->views.values, n[0] * n[1] * n[2]);
	tomos_array data = tomos_array_of(copy, n[0], n[1], n[2]);
	OK(tomos_prep_shape(o, n, p.shape));
	p.count = p.shape[0] * p.shape[1] * p.shape[2];
	p.data = malloc((size_t)p.count * sizeof *p.data);
	tomos_array to = tomos_array_of(p.data, p.shape[0], p.shape[1], p.shape[2]);
	OK(tomos_prepare(&data, fields ? &of : NULL, o, &to, &p.report, NULL));
	free(copy);
	return p;
}

static inline StoredBlock sent(tomos_backend *b, const Frames *f, float **device)
{
	int64_t words = (f->size * type_bytes[f->type] + 3) / 4;
	const tomos_array bits = tomos_array_of((float *)(void *)f->stored, 1, 1, words);
	OK(b->type->memory->alloc(b, device, words, "a test"));
	OK(b->type->memory->upload(b, *device, &bits));
	StoredBlock block = {.type = f->type, .swapped = f->swapped};
	block.data = (const char *)*device + f->first * type_bytes[f->type];
	block.scale = f->scale;
	block.offset = f->offset;
	memcpy(block.shape, f->shape, sizeof block.shape);
	memcpy(block.stride, f->stride, sizeof block.stride);
	return block;
}

/* Rows before .. before + rows - 1 of the prepared ones, one of them more. */
static inline Prepared on_device(tomos_backend *b, const Scan *s, const tomos_prep_options *o,
	bool fields, int64_t before, int64_t rows, int64_t padded)
{
	const int64_t *n = s->views.shape;
	const PrepScan scan = {n[0], n[2], fields ? FLATS : 0, fields ? DARKS : 0, s->flat_views};
	const BackendMemory *m = b->type->memory;
	Prepared p = {.report = {.bytes = sizeof p.report}};
	float *held[4];
	DevicePrep *prep;
	OK(device_prep_open(&prep, b, o, &scan));
	OK(tomos_prep_shape(o, n, p.shape));
	p.shape[1] = padded;
	p.count = p.shape[0] * padded * p.shape[2];
	PrepSlab slab = {.before = before, .rows = rows, .padded = padded};
	slab.views = sent(b, &s->views, &held[0]);
	slab.flats = sent(b, &s->flats, &held[1]);
	slab.darks = sent(b, &s->darks, &held[2]);
	OK(m->alloc(b, &held[3], p.count, "a test"));
	slab.out = held[3];
	assert_true(device_prep_floats(prep, n[1]) >= n[0] * n[1] * n[2]);
	for (int i = 0; i < 2; i++) /* the second time with memory that was used before */
		OK(device_prep_run(prep, &slab));
	OK(device_prep_report(prep, NULL));
	OK(device_prep_run(prep, &slab));
	OK(device_prep_report(prep, &p.report));
	p.data = malloc((size_t)p.count * sizeof *p.data);
	const tomos_array to = tomos_array_of(p.data, p.shape[0], p.shape[1], p.shape[2]);
	OK(m->download(b, held[3], &to));
	for (int i = 0; i < 4; i++)
		m->release(b, held[i]);
	device_prep_close(prep);
	return p;
}

static inline void assert_same_report(const tomos_prep_report *a, const tomos_prep_report *b)
{
	assert_int_equal(a->repaired, b->repaired);
	assert_int_equal(a->raised, b->raised);
	assert_int_equal(a->zingers, b->zingers);
	assert_int_equal(a->stripes, b->stripes);
	assert_int_equal(a->views, b->views);
}

/* The device's rows are before .. before + rows - 1 of the host's, and zeros after them. */
static inline void assert_near(const Prepared *host, const Prepared *device, int64_t before,
	int64_t rows, const char *name)
{
	double norm = 0, apart = 0, most = 0, low = INFINITY, high = -INFINITY;
	const int64_t *n = device->shape;
	for (int64_t i = 0; i < device->count; i++) {
		int64_t v = i / (n[1] * n[2]), r = i / n[2] % n[1], c = i % n[2];
		double b = (double)device->data[i];
		if (r >= rows) {
			assert_true(b == 0);
			continue;
		}
		double a = (double)host->data[(v * host->shape[1] + before + r) * n[2] + c];
		assert_true(isfinite(a) == isfinite(b));
		if (!isfinite(a))
			continue;
		norm += a * a;
		apart += (a - b) * (a - b);
		most = fmax(most, fabs(a - b));
		low = fmin(low, a);
		high = fmax(high, a);
	}
	double relative = sqrt(apart / fmax(norm, 1e-30));
	bool good = relative <= 1e-5 && most <= 1e-3 * fmax(high - low, 1e-3);
	if (!good)
		print_error("%s (%lld x %lld x %lld): %.1e apart in norm, at most %.1e of %.2g\n",
			name, (long long)n[0], (long long)n[1], (long long)n[2], relative, most,
			high - low);
	assert_true(good);
}

#endif
