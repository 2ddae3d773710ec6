/* Display of a volume: the window of its values, and pictures of its three middle planes. */
#include <math.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>
#include "run/run.h"

#define TAIL \
	0.001 /* of the pixels of previews that may be darker than black, or lighter than white */

/* ---- the window --------------------------------------------------------------------------- */

enum { BINS = 1 << 11, PART = 1 << 18 }; /* PART: values counted by a thread at a time */

/* Counts the values whose key begins with `prefix`, by the digit that follows it. */
typedef struct {
	const float *data;
	int64_t count;
	uint32_t prefix, mask; /* mask: digits of the prefix */
	int shift, width;      /* of the digit */
	_Atomic int64_t bins[BINS];
} Histogram;

/* Bits of a float in the order of the values. */
static uint32_t key_of(float value)
{
	uint32_t bits;
	memcpy(&bits, &value, sizeof bits);
	return bits >> 31 ? ~bits : bits | UINT32_C(1) << 31;
}

static float value_of(uint32_t key)
{
	uint32_t bits = key >> 31 ? key & ~(UINT32_C(1) << 31) : ~key;
	float value;
	memcpy(&value, &bits, sizeof value);
	return value;
}

static void count_part(void *user, int64_t part)
{
	Histogram *h = user;
	int32_t bins[BINS] = {0};
	int64_t end = min64(h->count, (part + 1) * PART);
	for (int64_t i = part * PART; i < end; i++) {
		uint32_t key = key_of(h->data[i]);
		if ((key & h->mask) == h->prefix)
			bins[key >> h->shift & ((UINT32_C(1) << h->width) - 1)]++;
	}
	for (int i = 0; i < BINS; i++)
		if (bins[i])
			atomic_fetch_add(&h->bins[i], bins[i]);
}

/* The value with k smaller ones before it in order: its key is found digit by digit. */
static float kth_of(const float *data, int64_t count, int64_t k)
{
	static const int shifts[] = {21, 10, 0}, widths[] = {11, 11, 10};
	Histogram h = {.data = data, .count = count};
	for (int i = 0; i < COUNT(shifts); i++) {
		uint32_t digit = 0;
		h.shift = shifts[i];
		h.width = widths[i];
		for (int b = 0; b < BINS; b++)
			atomic_store(&h.bins[b], 0);
		parallel_for((count + PART - 1) / PART, count_part, &h);
		for (; k >= h.bins[digit]; digit++)
			k -= h.bins[digit];
		h.prefix |= digit << shifts[i];
		h.mask |= ((UINT32_C(1) << widths[i]) - 1) << shifts[i];
	}
	return value_of(h.prefix);
}

void window_of(const float *data, int64_t count, double tail, double window[2])
{
	int64_t low = (int64_t)(tail * (double)(count - 1)), high = count - 1 - low;
	window[0] = (double)kth_of(data, count, low);
	window[1] = (double)kth_of(data, count, high);
	if (!(window[0] < window[1])) /* all values are equal: any window that contains them */
		window[1] = window[0] + fmax(1, fabs(window[0]));
}

/* ---- previews ----------------------------------------------------------------------------- */

static const char *const plane_names[3] = {"xy", "xz", "yz"};

static int64_t plane_width(const Preview *p, int axis)
{
	return axis == 2 ? p->shape[1] : p->shape[2];
}

static int64_t plane_height(const Preview *p, int axis)
{
	return axis == 0 ? p->shape[1] : p->shape[0];
}

static int64_t plane_pixels(const Preview *p, int axis)
{
	return plane_width(p, axis) * plane_height(p, axis);
}

/* Beside the output: volume_xy.png for volume.h5 and for volume/. */
tomos_status preview_path(char **path, const Preview *p, int axis)
{
	int end = (int)strlen(p->output);
	bool folder = end > 1 && p->output[end - 1] == '/';
	while (end > 1 && p->output[end - 1] == '/')
		end--;
	for (int i = end - 1; !folder && i > 0 && p->output[i] != '/'; i--)
		if (p->output[i] == '.' && p->output[i - 1] != '/') {
			end = i;
			break;
		}
	return mem_printf(path, "%.*s_%s.png", end, p->output, plane_names[axis]);
}

tomos_status preview_check(const Preview *p)
{
	tomos_status status = TOMOS_OK;
	for (int axis = 0; axis < 3 && status == TOMOS_OK; axis++) {
		char *path;
		TRY(preview_path(&path, p, axis));
		status = file_check(path, p->overwrite);
		mem_free(path);
	}
	return status;
}

tomos_status preview_open(Preview *p)
{
	for (int axis = 0; axis < 3; axis++)
		TRY(mem_zeroed(&p->planes[axis], plane_pixels(p, axis), sizeof(float),
			"a picture of the volume"));
	return mem_zeroed(&p->taken, p->shape[0], 1, "the slices drawn");
}

/* In pictures of planes along z, z increases upwards. */
void preview_take(Preview *p, int64_t first, int64_t count, const float *slices)
{
	int64_t ny = p->shape[1], nx = p->shape[2];
	for (int64_t z = first; p->taken && z < first + count; z++, slices += ny * nx) {
		int64_t row = p->shape[0] - 1 - z;
		if (z == p->shape[0] / 2)
			memcpy(p->planes[0], slices, (size_t)(ny * nx) * sizeof *slices);
		memcpy(p->planes[1] + row * nx, slices + ny / 2 * nx, (size_t)nx * sizeof *slices);
		for (int64_t y = 0; y < ny; y++)
			p->planes[2][row * ny + y] = slices[y * nx + nx / 2];
		p->taken[z] = 1;
	}
}

/* Draws a slice as it is drawn already elsewhere in the planes along z. */
static void copy_slice(Preview *p, int64_t from, int64_t to)
{
	int64_t ny = p->shape[1], nx = p->shape[2], top = p->shape[0] - 1;
	memcpy(p->planes[1] + (top - to) * nx, p->planes[1] + (top - from) * nx,
		(size_t)nx * sizeof(float));
	memcpy(p->planes[2] + (top - to) * ny, p->planes[2] + (top - from) * ny,
		(size_t)ny * sizeof(float));
}

/* Slices of an earlier run are in the file only, not in memory; the middle one is always read. */
tomos_status preview_fill(Preview *p, int64_t most)
{
	tomos_file *file = NULL;
	float *slice = NULL;
	int64_t missing = 0, seen = 0, last = -1;
	tomos_status status;
	for (int64_t z = 0; z < p->shape[0]; z++)
		missing += !p->taken[z];
	if (missing == 0)
		return TOMOS_OK;
	int64_t every = (missing + most - 1) / most;
	TRY_OR_DONE(mem_alloc(&slice, p->shape[1] * p->shape[2], sizeof *slice, "a slice"));
	TRY_OR_DONE(tomos_file_open(&file, p->output, NULL));
	for (int64_t z = 0; z < p->shape[0]; z++) {
		if (!p->taken[z] && (seen++ % every == 0 || z == p->shape[0] / 2 || last < 0)) {
			TRY_OR_DONE(tomos_file_read(file, z, 1, slice));
			preview_take(p, z, 1, slice);
		} else if (!p->taken[z]) {
			copy_slice(p, last, z);
		}
		last = z;
	}
done:
	tomos_file_close(file);
	mem_free(slice);
	return status;
}

/* One window for all three pictures, so that they can be compared. */
static tomos_status planes_window(const Preview *p, double window[2])
{
	float *all;
	int64_t used = 0;
	TRY(mem_alloc(&all, plane_pixels(p, 0) + plane_pixels(p, 1) + plane_pixels(p, 2),
		sizeof *all, "the pixels of previews"));
	for (int axis = 0; axis < 3; axis++)
		for (int64_t i = 0; i < plane_pixels(p, axis); i++)
			if (isfinite(p->planes[axis][i]))
				all[used++] = p->planes[axis][i];
	window[0] = 0;
	window[1] = 1;
	if (used > 0)
		window_of(all, used, TAIL, window);
	mem_free(all);
	return TOMOS_OK;
}

tomos_status preview_draw(Preview *p)
{
	tomos_file_options options = tomos_file_defaults();
	double window[2];
	options.overwrite = p->overwrite || p->drawn;
	TRY(planes_window(p, window));
	for (int axis = 0; axis < 3; axis++) {
		char *path;
		TRY(preview_path(&path, p, axis));
		tomos_status status =
			tomos_picture_write(path, p->planes[axis], plane_width(p, axis),
				plane_height(p, axis), window[0], window[1], &options);
		mem_free(path);
		TRY(status);
	}
	p->drawn = true;
	return TOMOS_OK;
}

tomos_status preview_write(Preview *p)
{
	TRY(preview_fill(p, p->shape[0]));
	return preview_draw(p);
}

void preview_remove(const Preview *p)
{
	char *path;
	for (int axis = 0; axis < 3 && p->drawn; axis++)
		if (preview_path(&path, p, axis) == TOMOS_OK) {
			unlink(path);
			mem_free(path);
		}
}

void preview_free(Preview *p)
{
	for (int axis = 0; axis < 3; axis++)
		mem_free(p->planes[axis]);
	mem_free(p->taken);
}
