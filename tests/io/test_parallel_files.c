/* Files written by several threads at a time, and read as stored by several threads: the same
 * numbers as with one. */
#include <pthread.h>
#include "io_help.h"
#include "io/io.h"

enum { SLICES = 37, ROWS = 211, COLUMNS = 301, SLICE = ROWS * COLUMNS, WRITERS = 5 };

static const int64_t shape[3] = {SLICES, ROWS, COLUMNS};
static float *numbers;

static int make_numbers(void **state)
{
	numbers = malloc(SLICES * SLICE * sizeof *numbers);
	for (int i = 0; i < SLICES * SLICE; i++)
		numbers[i] = (float)(i % 60000);
	assert_int_equal(tomos_set_threads(4), TOMOS_OK);
	return scratch_make(state);
}

static int free_numbers(void **state)
{
	free(numbers);
	return scratch_remove(state);
}

typedef struct {
	tomos_file *file;
	int first;
	tomos_status status;
} Writer;

/* Every WRITERS-th slice, from the last one to the first. */
static void *write_some(void *user)
{
	Writer *w = user;
	int64_t last = SLICES - 1 - (SLICES - 1 - w->first) % WRITERS;
	for (int64_t i = last; i >= 0 && w->status == TOMOS_OK; i -= WRITERS)
		w->status = tomos_file_write(w->file, i, 1, numbers + i * SLICE);
	return NULL;
}

static void write_together(const char *path, const tomos_file_options *options)
{
	pthread_t threads[WRITERS];
	Writer writers[WRITERS];
	tomos_file *file;
	assert_ok(tomos_file_create(&file, path, TOMOS_VOLUME, shape, options));
	for (int i = 0; i < WRITERS; i++) {
		writers[i] = (Writer){file, i, TOMOS_OK};
		assert_int_equal(pthread_create(&threads[i], NULL, write_some, &writers[i]), 0);
	}
	for (int i = 0; i < WRITERS; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(writers[i].status, TOMOS_OK);
	}
	assert_ok(tomos_file_commit(file));
	tomos_file_close(file);
}

static void assert_numbers(const char *path, double tolerance)
{
	float *back = malloc(SLICES * SLICE * sizeof *back);
	tomos_file *file;
	double worst = 0;
	assert_ok(tomos_file_open(&file, path, NULL));
	assert_ok(tomos_file_read(file, 0, SLICES, back));
	for (int i = 0; i < SLICES * SLICE; i++)
		worst = fmax(worst, fabs((double)back[i] - (double)numbers[i]));
	assert_true(worst <= tolerance);
	if (file->format == &format_hdf5)
		assert_ok(tomos_file_verify(file, NULL));
	tomos_file_close(file);
	free(back);
}

static void written_by_several_threads(void **state)
{
	static const char *const names[] = {"a.h5", "a.npy", "a.tif", "a.mha", "folder/"};
	static const char *const types[] = {"float32", "uint16", "uint8"};
	static const double window[2] = {0, 60000};
	(void)state;
	for (int n = 0; n < COUNT(names); n++)
		for (int t = 0; t < COUNT(types); t++)
			for (int c = 0; c < (n ? 1 : 2); c++) {
				tomos_file_options o = overwriting();
				o.type = types[t];
				o.window = t ? window : NULL;
				o.window_count = t ? 2 : 0;
				o.compress = c;
				write_together(at(names[n]), &o);
				assert_numbers(at(names[n]), t == 0 ? 0 : t == 1 ? 0.46 : 117.7);
			}
	assert_int_equal(mem_live(), 0);
}

/* Any part, in any number of threads, has the bytes of the whole. */
static void check_parts(const char *path)
{
	static const Extract parts[] = {{0, SLICES, 0, ROWS}, {3, 20, 0, ROWS}, {0, SLICES, 17, 90},
		{36, 1, 210, 1}, {5, 30, 100, 1}};
	tomos_file *file;
	assert_ok(tomos_file_open(&file, path, NULL));
	int64_t bytes = file->element.bytes;
	char *whole = malloc((size_t)(SLICES * SLICE * bytes)),
	     *part = malloc((size_t)(SLICES * SLICE * bytes));
	assert_ok(io_read_stored(file, &parts[0], 1, whole));
	for (int p = 0; p < COUNT(parts); p++)
		for (int threads = 1; threads < 8; threads += 3) {
			const Extract *e = &parts[p];
			size_t size = (size_t)(e->rows * COLUMNS * bytes);
			assert_ok(io_read_stored(file, e, threads, part));
			for (int64_t i = 0; i < e->count; i++)
				assert_memory_equal(part + (size_t)i * size,
					whole + ((e->first + i) * ROWS + e->row) * COLUMNS * bytes,
					size);
		}
	float *values = malloc(SLICES * SLICE * sizeof *values);
	assert_ok(element_convert(file->element, whole, SLICES * SLICE, values, path));
	for (int i = 0; i < SLICES * SLICE; i++)
		values[i] = (float)(file->offset + file->scale * (double)values[i]);
	float *read = malloc(SLICES * SLICE * sizeof *read);
	assert_ok(tomos_file_read(file, 0, SLICES, read));
	assert_memory_equal(read, values, SLICES * SLICE * sizeof *read);
	tomos_file_close(file);
	free(read);
	free(values);
	free(part);
	free(whole);
}

static void read_by_several_threads(void **state)
{
	static const char *const names[] = {"b.h5", "b.npy", "b.tif", "b.mha", "images/"};
	static const double window[2] = {0, 60000};
	(void)state;
	for (int n = 0; n < COUNT(names); n++)
		for (int c = 0; c < (n ? 2 : 4); c++) {
			tomos_file_options o = overwriting();
			tomos_file *file;
			o.type = c % 2 ? "uint16" : "float32";
			o.window = c % 2 ? window : NULL;
			o.window_count = c % 2 ? 2 : 0;
			o.compress = c / 2;
			assert_ok(tomos_file_create(&file, at(names[n]), TOMOS_VOLUME, shape, &o));
			assert_ok(tomos_file_write(file, 0, SLICES, numbers));
			assert_ok(tomos_file_commit(file));
			tomos_file_close(file);
			check_parts(at(names[n]));
		}
	assert_int_equal(mem_live(), 0);
}

#define TESTS(T) T(written_by_several_threads), T(read_by_several_threads)

TEST_MAIN(TESTS, make_numbers, free_numbers)
