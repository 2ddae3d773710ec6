/* 8-bit PNG images, grey or RGB, in a file or in memory. */
#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include "io/io.h"

/* libpng reports errors by longjmp: its error handler must not return. */
typedef struct {
	const char *path;
	int descriptor;        /* -1: in memory, */
	unsigned char *memory; /* here */
	int64_t at, room;
	tomos_status status;
	jmp_buf back;
} Writer;

static void hear_error(png_structp png, png_const_charp text)
{
	Writer *writer = png_get_error_ptr(png);
	if (writer->status == TOMOS_OK)
		writer->status =
			fail(TOMOS_IO, "'%s' cannot be written as PNG: %s", writer->path, text);
	longjmp(writer->back, 1);
}

static void hear_warning(png_structp png, png_const_charp text)
{
	(void)png, (void)text;
}

/* Appends to the block, which grows by doubling. */
static tomos_status keep_bytes(Writer *writer, const unsigned char *data, int64_t bytes)
{
	int64_t room = max64(2 * writer->room, writer->at + bytes + 4096);
	unsigned char *larger;
	if (writer->at + bytes > writer->room) {
		TRY(mem_alloc(&larger, room, 1, "an image"));
		if (writer->at > 0)
			memcpy(larger, writer->memory, (size_t)writer->at);
		mem_free(writer->memory);
		writer->memory = larger;
		writer->room = room;
	}
	memcpy(writer->memory + writer->at, data, (size_t)bytes);
	return TOMOS_OK;
}

static void put_bytes(png_structp png, png_bytep data, png_size_t bytes)
{
	Writer *writer = png_get_io_ptr(png);
	writer->status = writer->descriptor < 0 ? keep_bytes(writer, data, (int64_t)bytes)
						: flat_write(writer->descriptor, writer->path,
							  writer->at, data, (int64_t)bytes);
	if (writer->status != TOMOS_OK)
		longjmp(writer->back, 1);
	writer->at += (int64_t)bytes;
}

static void put_nothing(png_structp png)
{
	(void)png;
}

static png_voidp take_memory(png_structp png, png_alloc_size_t bytes)
{
	Writer *writer = png_get_mem_ptr(png);
	void *memory;
	tomos_status status = mem_alloc(&memory, (int64_t)bytes, 1, "a PNG file");
	if (status != TOMOS_OK)
		writer->status = status;
	return memory;
}

static void give_memory(png_structp png, png_voidp memory)
{
	(void)png;
	mem_free(memory);
}

/* NaN is black. */
static void grey_row(unsigned char *row, const float *data, int64_t width, double low, double high)
{
	for (int64_t i = 0; i < width; i++) {
		double value = ((double)data[i] - low) / (high - low) * 255;
		row[i] = value >= 255 ? 255 : value > 0 ? (unsigned char)(value + 0.5) : 0;
	}
}

typedef struct {
	const float *data; /* grey, low to high, with room for a row; NULL: */
	int64_t width, height;
	double low, high;
	unsigned char *row;
	const unsigned char *bytes; /* pixels of one or three bytes */
	int64_t channels;
} Image;

static void put_image(png_structp png, png_infop info, const Image *image)
{
	png_set_IHDR(png, info, (png_uint_32)image->width, (png_uint_32)image->height, 8,
		image->channels == 3 ? PNG_COLOR_TYPE_RGB : PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_NONE,
		PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
	png_write_info(png, info);
	for (int64_t y = 0; y < image->height; y++) {
		if (image->data)
			grey_row(image->row, image->data + y * image->width, image->width,
				image->low, image->high);
		png_write_row(png, image->data ? image->row
					       : image->bytes + y * image->width * image->channels);
	}
	png_write_end(png, info);
}

static tomos_status write_png(Writer *writer, const Image *image)
{
	png_structp volatile png = NULL;
	png_infop volatile info = NULL;
	if (setjmp(writer->back) == 0) {
		png = png_create_write_struct_2(PNG_LIBPNG_VER_STRING, writer, hear_error,
			hear_warning, writer, take_memory, give_memory);
		info = png ? png_create_info_struct(png) : NULL;
		if (info) {
			png_set_write_fn(png, writer, put_bytes, put_nothing);
			put_image(png, info, image);
		} else if (writer->status == TOMOS_OK) {
			writer->status = fail(TOMOS_UNSUPPORTED,
				"'%s' cannot be written: libpng " PNG_LIBPNG_VER_STRING
				" does not start",
				writer->path);
		}
	}
	png_structp made = png;
	png_infop described = info;
	png_destroy_write_struct(&made, &described);
	return writer->status;
}

static tomos_status check_image(const char *path, const Image *image)
{
	if (!path || !*path)
		return fail(TOMOS_BAD_VALUE, "the name of an image is missing");
	if (!image->data && !image->bytes)
		return fail(TOMOS_BAD_VALUE, "'%s': there are no data for the image", path);
	if (image->bytes && image->channels != 1 && image->channels != 3)
		return fail(TOMOS_BAD_VALUE,
			"'%s': pixels of %lld bytes; they have 1 (grey) or 3 (RGB)", path,
			(long long)image->channels);
	if (image->width < 1 || image->height < 1 || image->width > PNG_USER_WIDTH_MAX ||
		image->height > PNG_USER_HEIGHT_MAX)
		return fail(TOMOS_BAD_VALUE,
			"'%s': an image of %lld x %lld; each side must be 1 to %d", path,
			(long long)image->height, (long long)image->width, PNG_USER_WIDTH_MAX);
	if (image->bytes)
		return TOMOS_OK;
	if (!(image->low < image->high) || !isfinite(image->high - image->low))
		return fail(TOMOS_BAD_VALUE,
			"'%s': black is %g and white is %g; white must be above black", path,
			image->low, image->high);
	return TOMOS_OK;
}

static tomos_status create_png(const char *temporary, const char *path, const Image *image)
{
	Writer writer = {.path = path, .status = TOMOS_OK};
	TRY(flat_create(&writer.descriptor, temporary, path));
	tomos_status status = write_png(&writer, image);
	tomos_status closed = flat_close(&writer.descriptor, path);
	return status == TOMOS_OK ? closed : status;
}

static tomos_status publish_png(
	const char *path, const Image *image, const tomos_file_options *given)
{
	tomos_file_options options = tomos_file_defaults();
	char *temporary = NULL;
	tomos_status status;
	TRY(options_take(&options, given, "file"));
	TRY(check_image(path, image));
	TRY(file_temporary(&temporary, path, options.overwrite));
	TRY_OR_DONE(create_png(temporary, path, image));
	TRY_OR_DONE(file_publish(temporary, path, options.overwrite));
done:
	if (status != TOMOS_OK)
		file_discard(temporary);
	mem_free(temporary);
	return status;
}

tomos_status tomos_picture_write(const char *path, const float *data, int64_t width, int64_t height,
	double low, double high, const tomos_file_options *options)
{
	Image image = {data, width, height, low, high, NULL, NULL, 1};
	if (width > 0 && width <= PNG_USER_WIDTH_MAX)
		TRY(mem_alloc(&image.row, width, 1, "a row of an image"));
	tomos_status status = publish_png(path, &image, options);
	mem_free(image.row);
	return status;
}

tomos_status tomos_picture_write_bytes(const char *path, const unsigned char *pixels, int64_t width,
	int64_t height, int64_t channels, const tomos_file_options *options)
{
	const Image image = {NULL, width, height, 0, 1, NULL, pixels, channels};
	return publish_png(path, &image, options);
}

tomos_status tomos_picture_encode(unsigned char **png, int64_t *bytes, const unsigned char *pixels,
	int64_t width, int64_t height, int64_t channels)
{
	const Image image = {NULL, width, height, 0, 1, NULL, pixels, channels};
	Writer writer = {.path = "an image in memory", .descriptor = -1, .status = TOMOS_OK};
	*png = NULL;
	*bytes = 0;
	TRY(check_image(writer.path, &image));
	tomos_status status = write_png(&writer, &image);
	if (status != TOMOS_OK) {
		mem_free(writer.memory);
		return status;
	}
	*png = writer.memory;
	*bytes = writer.at;
	return TOMOS_OK;
}

void tomos_picture_free(unsigned char *png)
{
	mem_free(png);
}
