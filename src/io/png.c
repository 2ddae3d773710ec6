/* 8-bit greyscale PNG images. */
#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include "io/io.h"

/* libpng reports errors by longjmp: its error handler must not return. */
typedef struct {
	const char *path;
	int descriptor;
	int64_t at;
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

static void put_bytes(png_structp png, png_bytep data, png_size_t bytes)
{
	Writer *writer = png_get_io_ptr(png);
	writer->status =
		flat_write(writer->descriptor, writer->path, writer->at, data, (int64_t)bytes);
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
	const float *data;
	int64_t width, height;
	double low, high;
	unsigned char *row;
} Image;

static void put_image(png_structp png, png_infop info, const Image *image)
{
	png_set_IHDR(png, info, (png_uint_32)image->width, (png_uint_32)image->height, 8,
		PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
		PNG_FILTER_TYPE_DEFAULT);
	png_write_info(png, info);
	for (int64_t y = 0; y < image->height; y++) {
		grey_row(image->row, image->data + y * image->width, image->width, image->low,
			image->high);
		png_write_row(png, image->row);
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
	if (!image->data)
		return fail(TOMOS_BAD_VALUE, "'%s': there are no data for the image", path);
	if (image->width < 1 || image->height < 1 || image->width > PNG_USER_WIDTH_MAX ||
		image->height > PNG_USER_HEIGHT_MAX)
		return fail(TOMOS_BAD_VALUE,
			"'%s': an image of %lld x %lld; each side must be 1 to %d", path,
			(long long)image->height, (long long)image->width, PNG_USER_WIDTH_MAX);
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

tomos_status tomos_picture_write(const char *path, const float *data, int64_t width, int64_t height,
	double low, double high, const tomos_file_options *given)
{
	tomos_file_options options = tomos_file_defaults();
	Image image = {data, width, height, low, high, NULL};
	char *temporary = NULL;
	tomos_status status;
	TRY(options_take(&options, given, "file"));
	TRY(check_image(path, &image));
	TRY(file_temporary(&temporary, path, options.overwrite));
	TRY_OR_DONE(mem_alloc(&image.row, width, 1, "a row of an image"));
	TRY_OR_DONE(create_png(temporary, path, &image));
	TRY_OR_DONE(file_publish(temporary, path, options.overwrite));
done:
	if (status != TOMOS_OK)
		file_discard(temporary);
	mem_free(image.row);
	mem_free(temporary);
	return status;
}
