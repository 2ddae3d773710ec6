/* A canvas: its colours, its file, and its SVG. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "canvas.h"

/* The series are those of Okabe and Ito, told apart with any kind of colour vision. */
static const struct {
	unsigned char rgb[3];
	const char *name; /* class in an SVG, by which a page can choose another colour */
} colours[COLOURS] = {{{255, 255, 255}, "paper"}, {{32, 36, 40}, "ink"}, {{96, 102, 108}, "soft"},
	{{222, 225, 228}, "faint"}, {{0, 114, 178}, "s0"}, {{213, 94, 0}, "s1"},
	{{0, 158, 115}, "s2"}, {{204, 121, 167}, "s3"}, {{230, 159, 0}, "s4"},
	{{86, 180, 233}, "s5"}, {{0, 0, 0}, "s6"}};

const unsigned char *colour_rgb(colour c)
{
	return colours[c].rgb;
}

/* ---- opening and writing -------------------------------------------------------------- */

static void svg_open(canvas *c)
{
	c->svg = open_memstream(&c->text, &c->bytes);
	c->lost = !c->svg;
	if (c->lost)
		return;
	fprintf(c->svg,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.6g %.6g\" "
		"width=\"%.6g\" height=\"%.6g\" font-family=\"Helvetica, Arial, sans-serif\" "
		"fill=\"none\" stroke-linecap=\"round\" stroke-linejoin=\"round\">\n",
		c->wide, c->high, c->wide, c->high);
}

static void dots_open(canvas *c)
{
	c->columns = (int64_t)ceil(c->wide * c->scale);
	c->rows = (int64_t)ceil(c->high * c->scale);
	c->rgb = malloc((size_t)(3 * c->columns * c->rows));
	c->cover = calloc((size_t)(c->columns * c->rows), sizeof *c->cover);
	c->lost = !c->rgb || !c->cover;
	if (c->rgb)
		memset(c->rgb, 255, (size_t)(3 * c->columns * c->rows));
}

void canvas_open(canvas *c, const char *path, double wide, double high, double scale)
{
	*c = (canvas){.wide = wide, .high = high, .scale = scale};
	canvas_clip(c, NULL);
	if (path && !ends_with(path, ".svg")) {
		dots_open(c);
		return;
	}
	svg_open(c);
	if (path) /* a drawing inside a page has the background of the page */
		canvas_box(c, 0, 0, wide, high, PAPER);
}

void canvas_close(canvas *c)
{
	if (c->svg)
		fclose(c->svg);
	free(c->text);
	free(c->rgb);
	free(c->cover);
	*c = (canvas){.svg = NULL};
}

char *canvas_take(canvas *c)
{
	char *text = NULL;
	if (c->svg && !c->lost) {
		canvas_clip(c, NULL);
		fputs("</svg>\n", c->svg);
		c->lost = ferror(c->svg) || fclose(c->svg) != 0;
		c->svg = NULL;
		text = c->lost ? NULL : c->text;
		c->text = c->lost ? c->text : NULL;
	}
	canvas_close(c);
	return text;
}

static bool write_stream(const char *path, const char *text, bool regular)
{
	FILE *file = fopen(path, "w");
	if (!file)
		return false;
	bool good = fputs(text, file) >= 0 && fflush(file) == 0;
	good = good && (!regular || fsync(fileno(file)) == 0);
	return fclose(file) == 0 && good;
}

/* A name of its own; where there are no hard links, another program may take it in between. */
static bool name_new(const char *part, const char *path)
{
	struct stat info;
	if (link(part, path) == 0)
		return true;
	if (errno == EEXIST)
		return false;
	if (lstat(path, &info) == 0) {
		errno = EEXIST;
		return false;
	}
	return rename(part, path) == 0;
}

/* Under another name until it is complete. */
static bool write_whole(const char *path, const char *text, bool overwrite)
{
	char part[PATH_MAX + 32];
	snprintf(part, sizeof part, "%s.part%ld", path, (long)getpid());
	bool good = write_stream(part, text, true) &&
		    (overwrite ? rename(part, path) == 0 : name_new(part, path));
	int reason = errno;
	(void)unlink(part);
	errno = reason;
	return good;
}

/* Links, pipes and devices, /dev/stdout for example, are written to and not replaced. */
int text_write(const char *path, const char *text, bool overwrite)
{
	struct stat info;
	bool replaced = !overwrite || lstat(path, &info) != 0 || S_ISREG(info.st_mode);
	bool good = replaced ? write_whole(path, text, overwrite) : write_stream(path, text, false);
	return good ? DONE : failed("'%s' cannot be written: %s", path, strerror(errno));
}

int text_begin(text_file *file, const char *path)
{
	*file = (text_file){.text = NULL};
	file->lines = open_memstream(&file->text, &file->bytes);
	return file->lines ? DONE : failed("no memory for '%s'", path);
}

int text_end(text_file *file, const char *path, bool overwrite)
{
	bool good = !ferror(file->lines);
	good = fclose(file->lines) == 0 && good;
	int code =
		good ? text_write(path, file->text, overwrite) : failed("no memory for '%s'", path);
	free(file->text);
	return code;
}

int canvas_write(canvas *c, const char *path, const tomos_file_options *options)
{
	int code;
	if (c->lost) {
		code = failed("'%s': no memory for a drawing of %g x %g", path, c->wide, c->high);
		canvas_close(c);
		return code;
	}
	if (!c->svg) {
		code = lib(
			tomos_picture_write_bytes(path, c->rgb, c->columns, c->rows, 3, options));
		canvas_close(c);
		return code;
	}
	char *text = canvas_take(c);
	code = text ? text_write(path, text, options->overwrite)
		    : failed("no memory for '%s'", path);
	free(text);
	return code;
}

/* ---- SVG ------------------------------------------------------------------------------ */

static void paint(canvas *c, const char *property, colour k)
{
	const unsigned char *rgb = colours[k].rgb;
	fprintf(c->svg, " class=\"%c-%s\" %s=\"#%02x%02x%02x\"", property[0], colours[k].name,
		property, rgb[0], rgb[1], rgb[2]);
}

static void put_points(canvas *c, const double *points, int64_t count)
{
	for (int64_t i = 0; i < count; i++)
		fprintf(c->svg, "%s%.2f,%.2f", i ? " " : "", points[2 * i], points[2 * i + 1]);
}

static void svg_line(canvas *c, const double *points, int64_t count, stroke s)
{
	fputs("<polyline points=\"", c->svg);
	put_points(c, points, count);
	if (count == 1) { /* a line of no length, of which the round ends are drawn */
		fputc(' ', c->svg);
		put_points(c, points, count);
	}
	fprintf(c->svg, "\" stroke-width=\"%.3g\"", s.width);
	if (s.dash > 0)
		fprintf(c->svg, " stroke-dasharray=\"%.3g\"", s.dash);
	paint(c, "stroke", s.colour);
	fputs("/>\n", c->svg);
}

static void svg_text(canvas *c, double x, double y, const char *text, lettering l)
{
	static const char *const anchors[] = {"start", "middle", "end"};
	fprintf(c->svg, "<text x=\"%.2f\" y=\"%.2f\" font-size=\"%.3g\" text-anchor=\"%s\"%s", x, y,
		l.size, anchors[(int)(2 * l.anchor)], l.bold ? " font-weight=\"600\"" : "");
	if (l.upwards)
		fprintf(c->svg, " transform=\"rotate(-90 %.2f %.2f)\"", x, y);
	paint(c, "fill", l.colour);
	fputs(">", c->svg);
	xml_escape(c->svg, text);
	fputs("</text>\n", c->svg);
}

static void put_base64(FILE *out, const unsigned char *data, int64_t bytes)
{
	static const char letters[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	for (int64_t i = 0; i < bytes; i += 3) {
		unsigned b = i + 1 < bytes ? data[i + 1] : 0, d = i + 2 < bytes ? data[i + 2] : 0;
		unsigned three = (unsigned)data[i] << 16 | b << 8 | d;
		for (int k = 0; k < 4; k++)
			fputc(i + k - 1 < bytes || k < 2 ? letters[three >> (18 - 6 * k) & 63]
							 : '=',
				out);
	}
}

bool image_uri(FILE *out, const bitmap *image)
{
	unsigned char *png;
	int64_t bytes;
	if (tomos_picture_encode(&png, &bytes, image->pixels, image->wide, image->high,
		    image->channels) != TOMOS_OK)
		return false;
	fputs("data:image/png;base64,", out);
	put_base64(out, png, bytes);
	tomos_picture_free(png);
	return true;
}

static void svg_image(canvas *c, const double box[4], const bitmap *image)
{
	fprintf(c->svg,
		"<image x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" "
		"preserveAspectRatio=\"none\"%s href=\"",
		box[0], box[1], box[2], box[3],
		(double)image->wide < box[2] ? " style=\"image-rendering:pixelated\"" : "");
	c->lost |= !image_uri(c->svg, image);
	fputs("\"/>\n", c->svg);
}

/* ---- drawing on either ------------------------------------------------------------------ */

/* A clip of an SVG is a nested element, with the coordinates of the whole. */
void canvas_clip(canvas *c, const double box[4])
{
	const double all[4] = {0, 0, c->wide, c->high};
	if (c->svg && c->clipped)
		fputs("</svg>\n", c->svg);
	memcpy(c->clip, box ? box : all, sizeof all);
	c->clipped = box != NULL;
	if (c->svg && box)
		fprintf(c->svg,
			"<svg x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" "
			"viewBox=\"%.2f %.2f %.2f %.2f\">\n",
			box[0], box[1], box[2] - box[0], box[3] - box[1], box[0], box[1],
			box[2] - box[0], box[3] - box[1]);
}

void canvas_line(canvas *c, const double *points, int64_t count, stroke s)
{
	if (c->lost || count < 1)
		return;
	if (c->svg)
		svg_line(c, points, count, s);
	else
		dots_line(c, points, count, s);
}

void canvas_segment(canvas *c, double x0, double y0, double x1, double y1, stroke s)
{
	canvas_line(c, (const double[]){x0, y0, x1, y1}, 2, s);
}

void canvas_area(canvas *c, const double *points, int64_t count, colour fill)
{
	if (c->lost || count < 3)
		return;
	if (!c->svg) {
		dots_area(c, points, count, fill);
		return;
	}
	fputs("<polygon points=\"", c->svg);
	put_points(c, points, count);
	fputc('"', c->svg);
	paint(c, "fill", fill);
	fputs("/>\n", c->svg);
}

void canvas_box(canvas *c, double x, double y, double wide, double high, colour fill)
{
	canvas_area(
		c, (const double[]){x, y, x + wide, y, x + wide, y + high, x, y + high}, 4, fill);
}

void canvas_spot(canvas *c, double x, double y, double radius, colour fill)
{
	canvas_line(c, (const double[]){x, y}, 1, (stroke){fill, 2 * radius, 0});
}

void canvas_text(canvas *c, double x, double y, const char *text, lettering l)
{
	if (c->lost)
		return;
	if (c->svg)
		svg_text(c, x, y, text, l);
	else
		font_draw(c, x, y, text, l);
}

void canvas_image(canvas *c, double x, double y, double wide, double high, const bitmap *image)
{
	if (c->lost)
		return;
	if (c->svg)
		svg_image(c, (const double[]){x, y, wide, high}, image);
	else
		dots_image(c, x, y, wide, high, image);
}
