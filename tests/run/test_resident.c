/* Runs whose data stay on a device: the volumes of the CPU, for every geometry and type, however
 * the rows reach the device. */
#include "work.h"
#include "backend/backend.h"
#include "backend/open.h"
#include "io/io.h"

enum { V = 40, R = 37, C = 48, ALL = V * R * C };

/* Counts of 16 bits, with flats and darks. */
static void write_counts(const char *path)
{
	static const tomos_ellipsoid ball = {{0.05, -0.03, 0.1}, {0.3, 0.2, 0.34}, {0, 0, 0}, 0.8};
	static float data[ALL];
	static uint16_t counts[ALL], flats[2 * R * C], darks[R * C];
	double angles[V];
	project_solids(data, (int64_t[]){V, R, C}, PIXEL_UM * 1e-3, AXIS, (Solids){&ball, 1}, 1);
	for (int i = 0; i < ALL; i++)
		counts[i] = (uint16_t)(100 + i / C % R + (20000 + 30 * (i % C)) * expf(-data[i]));
	for (int i = 0; i < 2 * R * C; i++)
		flats[i] = (uint16_t)(100 + i / C % R + 20000 + 30 * (i % C));
	for (int i = 0; i < R * C; i++)
		darks[i] = (uint16_t)(100 + i / C % R);
	for (int i = 0; i < V; i++)
		angles[i] = 180.0 * i / V;
	hid_t file = h5_new(path);
	h5_put(file, "exchange/data", H5T_NATIVE_USHORT, 3, (hsize_t[]){V, R, C}, counts);
	h5_put(file, "exchange/data_white", H5T_NATIVE_USHORT, 3, (hsize_t[]){2, R, C}, flats);
	h5_put(file, "exchange/data_dark", H5T_NATIVE_USHORT, 3, (hsize_t[]){1, R, C}, darks);
	h5_put_list(file, "exchange/theta", angles, V);
	h5_put_scalar(
		file, "measurement/instrument/detection_system/objective/resolution", PIXEL_UM);
	H5Fclose(file);
}

static int make_counts(void **state)
{
	if (scratch_make(state))
		return -1;
	write_counts(at("scan.h5"));
	return 0;
}

static const char *test_backend(void)
{
	const char *name = getenv("TOMOS_TEST_BACKEND");
	return name && *name ? name : "cpu";
}

static bool has_device(void)
{
	tomos_backend *backend;
	assert_ok(tomos_backend_open(&backend, test_backend()));
	bool device = backend->device != 0 && backend->type->memory->copy_begin;
	tomos_backend_close(backend);
	return device;
}

static void set_source(Work *w)
{
	static const double source = 4, detector = 5;
	w->scan.source_axis = &source;
	w->scan.source_axis_count = 1;
	w->scan.source_detector = &detector;
	w->scan.source_detector_count = 1;
	w->scan.pixel = 0.02;
}

/* What differs between the jobs. */
static void change(Work *w, int which)
{
	static const double window[2] = {-0.1, 1.0}, shifts[V] = {0.3, -0.2, 1.4};
	switch (which) {
	case 1:
		w->run.rows = "5:30";
		w->run.columns = "4:44";
		break;
	case 2:
		w->file.type = "uint16";
		w->file.window = window;
		w->file.window_count = 2;
		break;
	case 3:
		w->file.type = "uint8";
		break;
	case 4:
		w->run.preview = 1;
		w->file.type = "uint16";
		break;
	case 5:
		w->prep.bin = 2;
		break;
	case 6:
		w->prep.phase = "paganin";
		w->prep.delta_beta = 50;
		w->prep.energy = 20;
		w->prep.distance = 100;
		break;
	case 7:
		w->prep.shift_y = shifts;
		w->prep.shift_y_count = V;
		break;
	case 8:
	case 9:
		w->scan.geometry = which == 8 ? "cone" : "fan";
		set_source(w);
		break;
	case 10:
		w->job.method = "sirt";
		break;
	case 11:
		w->job.method = "cgls";
		w->scan.geometry = "cone";
		set_source(w);
		w->file.type = "uint16";
		break;
	default:
		break;
	}
	if (which >= 10) {
		static tomos_algebraic_options algebraic;
		algebraic = tomos_algebraic_defaults();
		algebraic.iterations = 3;
		w->job.algebraic = &algebraic;
	}
}

enum { CHANGES = 12 };

static void load(const char *path, float *data, int64_t count)
{
	tomos_file *file;
	assert_ok(tomos_file_open(&file, path, NULL));
	assert_int_equal(file->shape[0] * file->shape[1] * file->shape[2], count);
	assert_ok(tomos_file_read(file, 0, file->shape[0], data));
	tomos_file_close(file);
}

static void run_on(Work *w, const char *backend, const char *output, int which)
{
	work_init(w, output);
	w->scan.arc = which >= 8 ? 6.283185307179586 : 3.141592653589793;
	w->scan.replace_angles = 1;
	w->job.backend = backend;
	w->file.overwrite = 1;
	change(w, which);
	assert_ok(tomos_run(&w->job, NULL));
}

static void same_volumes(void **state)
{
	(void)state;
	for (int k = 0; k < CHANGES; k++) {
		Work a, b;
		run_on(&a, "cpu", "a.h5", k);
		run_on(&b, test_backend(), "b.h5", k);
		int64_t count = b.report.shape[0] * b.report.shape[1] * b.report.shape[2];
		float *x = malloc((size_t)count * sizeof *x),
		      *y = malloc((size_t)count * sizeof *y);
		double difference = 0, norm = 0;
		assert_non_null(x);
		assert_non_null(y);
		load(a.output, x, count);
		load(b.output, y, count);
		for (int64_t i = 0; i < count; i++) {
			difference += pow((double)x[i] - (double)y[i], 2);
			norm += pow((double)x[i], 2);
		}
		/* A number of 8 bits may be rounded otherwise. */
		double most = k == 3 ? 1e-3 : k == 2 || k == 4 || k == 11 ? 2e-5 : 1e-5;
		if (sqrt(difference) > most * sqrt(norm))
			print_message(
				"job %d: relative difference %g\n", k, sqrt(difference / norm));
		assert_true(sqrt(difference) <= most * sqrt(norm));
		assert_int_equal(a.report.cut > 0, b.report.cut > 0);
		assert_true(b.report.prep.repaired == a.report.prep.repaired);
		free(x);
		free(y);
	}
	assert_int_equal(mem_live(), 0);
}

/* Several slabs, and what the stages report of them. */
static void stages(void **state)
{
	(void)state;
	Work w;
	run_on(&w, test_backend(), "s.h5", 0);
	const tomos_run_report *p = &w.report;
	assert_true(p->slabs > 1);
	assert_true(p->start_seconds > 0 && p->start_seconds < p->seconds);
	for (int i = 0; i < TOMOS_STAGES; i++) {
		bool transfer = i == TOMOS_STAGE_UPLOAD || i == TOMOS_STAGE_DOWNLOAD;
		assert_true((p->stage_bytes[i] > 0) == (!transfer || has_device()));
		assert_true(p->stage_seconds[i] <= p->stage_seconds[p->limiting]);
	}
	assert_true(p->stage_bytes[TOMOS_STAGE_READ] == 2.0 * C * R * (V + 3));
	assert_true(p->stage_bytes[TOMOS_STAGE_WRITE] == 4.0 * C * C * R);
	assert_true(p->written_bytes == p->stage_bytes[TOMOS_STAGE_WRITE]);
}

/* With a limit to the memory of the device, too: more slabs, and the same numbers. */
static void limited(void **state)
{
	(void)state;
	enum { VOXELS = R * C * C };
	static float whole[VOXELS], some[VOXELS];
	Work w;
	tomos_device_options device = tomos_device_defaults();
	if (!has_device())
		return;
	run_on(&w, test_backend(), "all.h5", 0);
	int64_t slabs = w.report.slabs;
	load(w.output, whole, VOXELS);
	work_init(&w, "limited.h5");
	w.job.backend = test_backend();
	w.job.device = &device;
	w.scan.arc = 3.141592653589793;
	w.scan.replace_angles = 1;
	device.memory = 1 << 20;
	assert_ok(tomos_run(&w.job, NULL));
	assert_true(w.report.stage_bytes[TOMOS_STAGE_UPLOAD] > 0);
	assert_true(w.report.slabs > slabs);
	load(w.output, some, VOXELS);
	for (int i = 0; i < VOXELS; i++)
		assert_true(fabsf(whole[i] - some[i]) <= 1e-6F);
	assert_int_equal(mem_live(), 0);
}

/* Interrupted repeatedly, a little later each time: the same bytes. */
static void resumes(void **state)
{
	(void)state;
	Work w;
	run_on(&w, test_backend(), "whole.h5", 8);
	work_init(&w, "again.h5");
	w.job.backend = test_backend();
	w.scan.arc = 6.283185307179586;
	w.scan.replace_angles = 1;
	change(&w, 8);
	assert_true(run_with_breaks(&w) > 0 || !has_device()); /* the CPU has one slab */
	assert_same_file(at("whole.h5"), at("again.h5"));
	assert_int_equal(hidden_files(), 0);
	assert_int_equal(mem_live(), 0);
}

/* Values that are not finite are an error before they are written. */
static void not_finite(void **state)
{
	(void)state;
	Work w;
	work_init(&w, "n.h5");
	w.job.backend = test_backend();
	w.scan.replace_angles = 1;
	w.scan.arc = 3.141592653589793;
	const double polynomial[] = {1e30, 1e30};
	w.scan.pixel = 1e-12;
	w.prep.hardening = polynomial;
	w.prep.hardening_count = COUNT(polynomial);
	assert_int_equal(tomos_run(&w.job, NULL), TOMOS_BAD_FILE);
	assert_non_null(strstr(tomos_message(), "not finite"));
	assert_int_equal(hidden_files(), 0);
	assert_int_equal(mem_live(), 0);
}

/* The numbers of a file are those of element_encode, for values of every kind. */
static void encodes(void **state)
{
	enum { N = 5000 };
	static float values[N], room[N];
	static unsigned char expected[4 * N];
	tomos_backend *b;
	float *x, *stored;
	int64_t counts[2], cut = 0;
	double seconds = 0;
	(void)state;
	assert_ok(tomos_backend_open(&b, test_backend()));
	const BackendMemory *memory = b->type->memory;
	if (!b->type->vector->encode) {
		print_message("skipped: %s encodes in host memory\n", test_backend());
		tomos_backend_close(b);
		return;
	}
	for (int i = 0; i < N; i++)
		values[i] = (float)sin(i) * 2;
	values[7] = NAN;
	values[8] = -INFINITY;
	values[9] = 1.5F;
	for (int i = 0; i < N; i++)
		cut += (double)values[i] < -0.5 || (double)values[i] > 1.5;
	const tomos_array host = tomos_array_of(values, 1, 1, N);
	assert_ok(memory->alloc(b, &x, N, "values"));
	assert_ok(memory->alloc(b, &stored, N, "numbers"));
	assert_ok(memory->upload(b, x, &host));
	for (int bytes = 1; bytes <= 4; bytes *= 2) {
		const Element element = {bytes == 4 ? 'f' : 'u', bytes, false};
		const double scale = 2 / (bytes == 1 ? 255.0 : 65535.0);
		const Encoding how = {bytes, scale, -0.5, -0.5, 1.5};
		assert_ok(b->type->vector->encode(b, N, x, &how, stored, counts));
		assert_int_equal(counts[0], 2);
		assert_int_equal(counts[1], bytes == 4 ? 0 : cut);
		if (bytes == 4)
			continue;
		element_encode(element, values, N, scale, -0.5, expected);
		assert_ok(memory->copy_begin(b, COPY_DOWNLOAD, 3, stored, room, N * bytes));
		assert_ok(memory->copy_end(b, COPY_DOWNLOAD, 3, &seconds));
		assert_memory_equal(room, expected, (size_t)(N * bytes));
	}
	memory->release(b, x);
	memory->release(b, stored);
	tomos_backend_close(b);
}

/* Processes that use the same device divide its memory, and all give it the same name. */
static void shared_device(void **state)
{
	enum { PROCESSES = 64 };
	char places[2][PLACE_LENGTH];
	int64_t alone, divided;
	tomos_backend *b, *again;
	(void)state;
	assert_ok(tomos_backend_open(&b, test_backend()));
	assert_ok(backend_open_in_turn(&again, test_backend(), 0, NULL));
	assert_ok(backend_place(b, places[0]));
	assert_ok(backend_place(again, places[1]));
	assert_memory_equal(places[0], places[1], PLACE_LENGTH);
	assert_true((places[0][0] == 0) == (b->device == 0));
	tomos_backend_close(again);
	if (b->device != 0) {
		assert_ok(b->type->memory->free_bytes(b, &alone));
		assert_ok(backend_share(b, PROCESSES));
		assert_ok(b->type->memory->free_bytes(b, &divided));
		assert_true(divided > 0 && divided < alone / (PROCESSES / 8));
		assert_ok(backend_share(b, 1));
	}
	tomos_backend_close(b);
}

#define TESTS(T) \
	T(same_volumes), T(stages), T(limited), T(resumes), T(not_finite), T(encodes), \
		T(shared_device)
TEST_MAIN(TESTS, make_counts, scratch_remove)
