/* Varian: .xim, and the older .hnd and .hnc, one file per view; any of them stands for its folder.
 *
 * Pixels of .xim and .hnd are differences: the first row and the first pixel of the second are
 * stored whole, every other one is left + above - above left + difference, where 2-bit codes, low
 * bits first, say that a difference has 1, 2 or 4 bytes. A .xim file may also hold pixels as they
 * are. Distances and the pixel size are in Scan.xml (.xim) or ProjectionInfo.xml, in mm. Seen from
 * the source, columns run to the right and rows upwards. No file says in which direction the gantry
 * rotates.
 */
#include "run/scanner/varian.h"
#include "base/xml.h"

enum { XIM_HEAD = 32, HND_DATA = 1024, HNC_DATA = 512, MOST_SIDE = 1 << 16 };

typedef struct {
	int64_t columns, rows;
	const unsigned char *codes, *numbers;
	int64_t code_bytes, number_bytes;
	int plain; /* bytes of a pixel that is stored as it is; 0: differences */
} Packed;

static uint32_t u32_at(const unsigned char *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static double double_at(const unsigned char *p)
{
	uint64_t bits = (uint64_t)u32_at(p) | (uint64_t)u32_at(p + 4) << 32;
	double value;
	memcpy(&value, &bits, sizeof value);
	return value;
}

static tomos_status short_file(const char *path)
{
	return fail(TOMOS_BAD_FILE, "'%s' ends too early", path);
}

/* ---- pixels -------------------------------------------------------------------------------- */

static tomos_status unpack(const Packed *p, const char *path, uint32_t *pixels)
{
	static const int bytes_of[4] = {1, 2, 4, 0};
	int64_t columns = p->columns, count = p->rows * columns, at = 0, whole = columns + 1;
	for (int64_t i = 0; i < count; i++) {
		int64_t code = i - whole;
		int bytes = 4;
		if (code >= 0 && code / 4 >= p->code_bytes)
			return short_file(path);
		if (code >= 0)
			bytes = bytes_of[p->codes[code / 4] >> 2 * (code % 4) & 3];
		if (bytes == 0 || at + bytes > p->number_bytes)
			return bytes ? short_file(path)
				     : fail(TOMOS_BAD_FILE, "'%s': a pixel has an unknown code",
					       path);
		const unsigned char *from = p->numbers + at;
		uint32_t value = bytes == 4   ? u32_at(from)
				 : bytes == 2 ? (uint32_t)(int32_t)(int16_t)(from[0] | from[1] << 8)
					      : (uint32_t)(int32_t)(int8_t)from[0];
		at += bytes;
		if (code >= 0) /* modulo 2^32 */
			value += pixels[i - 1] + pixels[i - columns] - pixels[i - columns - 1];
		pixels[i] = value;
	}
	return TOMOS_OK;
}

static tomos_status check_size(const char *path, int64_t rows, int64_t columns)
{
	if (rows >= 2 && columns >= 1 && rows <= MOST_SIDE && columns <= MOST_SIDE)
		return TOMOS_OK;
	return fail(TOMOS_BAD_FILE, "'%s' has %lld rows x %lld columns", path, (long long)rows,
		(long long)columns);
}

/* Pixels of `bytes` bytes as they are, of any order of memory. */
static void copy_plain(const unsigned char *from, int bytes, int64_t count, uint32_t *pixels)
{
	for (int64_t i = 0; i < count; i++)
		pixels[i] = bytes == 4 ? u32_at(from + 4 * i)
				       : (uint32_t)(from[2 * i] | from[2 * i + 1] << 8);
}

/* The pixels of a .xim file without compression: their size in bytes, then they themselves. */
static tomos_status xim_plain(
	const unsigned char *bytes, int64_t length, const char *path, Packed *p, int64_t *after)
{
	p->plain = (int)u32_at(bytes + 24);
	p->number_bytes = u32_at(bytes + XIM_HEAD);
	p->numbers = bytes + XIM_HEAD + 4;
	if ((p->plain != 2 && p->plain != 4) || p->number_bytes != p->plain * p->rows * p->columns)
		return fail(TOMOS_UNSUPPORTED,
			"'%s' has %lld bytes of %d per pixel for %lld rows x %lld columns; 2 or 4 "
			"per pixel can be read",
			path, (long long)p->number_bytes, p->plain, (long long)p->rows,
			(long long)p->columns);
	*after = XIM_HEAD + p->number_bytes; /* less the size that follows packed pixels */
	return *after + 4 <= length ? TOMOS_OK : short_file(path);
}

/* The parts of a .xim file in memory: size, codes and numbers; *after is where the rest begins. */
static tomos_status xim_parts(
	const unsigned char *bytes, int64_t length, const char *path, Packed *p, int64_t *after)
{
	if (length < XIM_HEAD + 4)
		return short_file(path);
	*p = (Packed){.columns = (int32_t)u32_at(bytes + 12), .rows = (int32_t)u32_at(bytes + 16)};
	TRY(check_size(path, p->rows, p->columns));
	uint32_t packed = u32_at(bytes + 28);
	if (packed == 0)
		return xim_plain(bytes, length, path, p, after);
	if (packed != 1)
		return fail(TOMOS_UNSUPPORTED,
			"'%s' has compression %lld; 0 (none) and 1 can be read", path,
			(long long)packed);
	p->code_bytes = u32_at(bytes + XIM_HEAD);
	p->codes = bytes + XIM_HEAD + 4;
	int64_t at = XIM_HEAD + 4 + p->code_bytes;
	if (at + 4 > length)
		return short_file(path);
	p->number_bytes = u32_at(bytes + at);
	p->numbers = bytes + at + 4;
	*after = at + 4 + p->number_bytes;
	return *after <= length ? TOMOS_OK : short_file(path);
}

/* The codes of a .hnd file have no size: it follows from that of the image. */
static tomos_status hnd_parts(
	const unsigned char *bytes, int64_t length, const char *path, Packed *p)
{
	if (length < HND_DATA)
		return short_file(path);
	*p = (Packed){.columns = u32_at(bytes + 120), .rows = u32_at(bytes + 124)};
	TRY(check_size(path, p->rows, p->columns));
	p->code_bytes = (p->rows - 1) * p->columns / 4;
	p->codes = bytes + HND_DATA;
	p->numbers = p->codes + p->code_bytes;
	p->number_bytes = length - HND_DATA - p->code_bytes;
	return p->number_bytes > 0 ? TOMOS_OK : short_file(path);
}

static bool is_hnc(const unsigned char *bytes, int64_t length)
{
	return length >= HNC_DATA &&
	       length == HNC_DATA + 2 * (int64_t)u32_at(bytes + 120) * u32_at(bytes + 124);
}

/* All pixels of a file, to be freed; the size has to be that of the scan. */
static tomos_status decode(const Frames *f, const char *path, const unsigned char *bytes,
	int64_t length, uint32_t **pixels)
{
	Packed p;
	int64_t after;
	if (!f->xim && is_hnc(bytes, length))
		p = (Packed){.columns = u32_at(bytes + 120),
			.rows = u32_at(bytes + 124),
			.numbers = bytes + HNC_DATA,
			.plain = 2};
	else
		TRY(f->xim ? xim_parts(bytes, length, path, &p, &after)
			   : hnd_parts(bytes, length, path, &p));
	if (p.rows != f->rows || p.columns != f->columns)
		return fail(TOMOS_BAD_FILE,
			"'%s' has %lld rows x %lld columns, the first view %lld "
			"x %lld",
			path, (long long)p.rows, (long long)p.columns, (long long)f->rows,
			(long long)f->columns);
	TRY(mem_alloc(pixels, p.rows * p.columns, 4, "a view"));
	if (p.plain) {
		copy_plain(p.numbers, p.plain, p.rows * p.columns, *pixels);
		return TOMOS_OK;
	}
	tomos_status status = unpack(&p, path, *pixels);
	if (status != TOMOS_OK)
		mem_free(*pixels);
	return status;
}

static tomos_status read_frame(
	const void *own, int64_t frame, int64_t row, int64_t rows, void *stored)
{
	const Frames *f = own;
	const char *path = f->files.paths[frame];
	char *bytes;
	int64_t length;
	uint32_t *pixels;
	TRY(text_read(&bytes, &length, path));
	tomos_status status = decode(f, path, (unsigned char *)bytes, length, &pixels);
	if (status == TOMOS_OK) {
		const uint32_t *from = pixels + row * f->columns;
		float *to = stored;
		if (!f->factors)
			memcpy(stored, from, (size_t)(rows * f->columns) * 4);
		for (int64_t i = 0; f->factors && i < rows * f->columns; i++)
			to[i] = (float)(f->factors[frame] * (int32_t)from[i]);
		mem_free(pixels);
	}
	mem_free(bytes);
	return status;
}

static tomos_status frame_sources(const void *own, TakePath take, void *user)
{
	return list_sources(&((const Frames *)own)->files, take, user);
}

void frames_free(void *frames)
{
	Frames *f = frames;
	list_free(&f->files);
	mem_free(f->angles);
	mem_free(f->exposure);
	mem_free(f->factors);
	mem_free(f);
}

/* ---- angles -------------------------------------------------------------------------------- */

/* Steps over the histogram to the named properties, and finds a number among them. */
static tomos_status xim_property(const unsigned char *bytes, int64_t length, int64_t at,
	const char *path, const char *name, double *value, bool *found)
{
	*found = false;
	at += 4; /* bytes of the image without compression */
	if (at + 4 > length)
		return short_file(path);
	at += 4 + 4 * (int64_t)u32_at(bytes + at);
	if (at + 4 > length)
		return short_file(path);
	int64_t count = u32_at(bytes + at);
	at += 4;
	for (int64_t i = 0; i < count; i++) {
		if (at + 4 > length || at + 8 + (int64_t)u32_at(bytes + at) + 4 > length)
			return short_file(path);
		int64_t letters = u32_at(bytes + at);
		const char *key = (const char *)bytes + at + 4;
		uint32_t type = u32_at(bytes + at + 4 + letters);
		at += 8 + letters;
		bool fits =
			(size_t)letters == strlen(name) && strncmp(key, name, strlen(name)) == 0;
		int64_t size = type == 0 ? 4 : type == 1 ? 8 : 4 + (int64_t)u32_at(bytes + at);
		if (at + size > length)
			return short_file(path);
		if (fits && type < 2) {
			*value = type ? double_at(bytes + at) : (double)(int32_t)u32_at(bytes + at);
			*found = isfinite(*value);
		}
		at += size;
	}
	return TOMOS_OK;
}

/* The angle of the source in degrees, and the reading of the chamber, or 0. */
static tomos_status file_numbers(const Frames *f, const char *path, double *angle, double *chamber)
{
	char *text;
	int64_t length, after;
	Packed p;
	bool found = true, read = true;
	TRY(text_read(&text, &length, path));
	const unsigned char *bytes = (const unsigned char *)text;
	tomos_status status = TOMOS_OK;
	*angle = *chamber = 0;
	if (f->xim) {
		TRY_OR_DONE(xim_parts(bytes, length, path, &p, &after));
		TRY_OR_DONE(xim_property(bytes, length, after, path, "KVSourceRtn", angle, &found));
		status = xim_property(bytes, length, after, path, "KVNormChamber", chamber, &read);
	} else if (length < HNC_DATA) {
		status = short_file(path);
	} else {
		*angle = double_at(bytes + 432);   /* dCTProjectionAngle */
		*chamber = double_at(bytes + 440); /* dCTNormChamber */
	}
done:
	mem_free(text);
	if (!read || !(*chamber > 0 && *chamber < 1e30))
		*chamber = 0;
	if (status == TOMOS_OK && !(found && fabs(*angle) < 1e6))
		return fail(TOMOS_BAD_FILE, "'%s' does not have the angle of the source", path);
	return status;
}

tomos_status frames_numbers(Frames *f)
{
	int64_t count = f->files.count;
	TRY(mem_alloc(&f->angles, count, sizeof *f->angles, "angles"));
	TRY(mem_alloc(&f->exposure, count, sizeof *f->exposure, "exposures"));
	for (int64_t i = 0; i < count; i++)
		TRY(file_numbers(f, f->files.paths[i], &f->angles[i], &f->exposure[i]));
	return TOMOS_OK;
}

static tomos_status take_angles(tomos_scan *scan, Frames *f)
{
	TRY(frames_numbers(f));
	TRY(mem_alloc(&scan->angles, f->files.count, sizeof *scan->angles, "angles"));
	for (int64_t i = 0; i < f->files.count; i++)
		scan->angles[i] = (f->xim ? -f->angles[i] : f->angles[i]) * RADIANS;
	return TOMOS_OK;
}

/* ---- geometry ------------------------------------------------------------------------------ */

static tomos_status deep_number(
	const XmlNode *root, const char *path, const char *names, double *value, bool open)
{
	for (const char *at = names; *at; at += strcspn(at, "|"), at += *at == '|') {
		char name[64];
		snprintf(name, sizeof name, "%.*s", (int)strcspn(at, "|"), at);
		const XmlNode *node = xml_deep(root, name);
		if (node && node->text && text_number(node->text, value))
			return TOMOS_OK;
	}
	return open ? TOMOS_OK
		    : fail(TOMOS_BAD_FILE, "'%s' does not have '%.*s'", path,
			      (int)strcspn(names, "|"), names);
}

static tomos_status read_setup(const char *path, Setup *s)
{
	XmlNode *root;
	tomos_status status;
	TRY(xml_read(&root, path));
	TRY_OR_DONE(deep_number(root, path, "CalibratedSAD|SAD", &s->source_axis, false));
	TRY_OR_DONE(deep_number(root, path, "CalibratedSID|SID", &s->source_detector, false));
	TRY_OR_DONE(deep_number(root, path, "ImagerResX", &s->pixel[0], true));
	TRY_OR_DONE(deep_number(root, path, "ImagerResY", &s->pixel[1], true));
	TRY_OR_DONE(deep_number(root, path, "ImagerLat|DetectorPosLat", &s->lateral, true));
	TRY_OR_DONE(deep_number(root, path, "StartAngle", &s->start, true));
	TRY_OR_DONE(deep_number(root, path, "StopAngle", &s->stop, true));
	const XmlNode *bowtie = xml_deep(root, "Bowtie");
	s->bowtie = bowtie && bowtie->text && !strstr(bowtie->text, "None");
done:
	xml_free(root);
	return status;
}

/* Scan.xml or ProjectionInfo.xml, in the folder of the views or up to two above it. */
static tomos_status find_setup(const tomos_scan *scan, const char *folder, Setup *s)
{
	static const char *const names[] = {"Scan.xml", "ProjectionInfo.xml"};
	static const char *const above[] = {"", "../", "../../"};
	for (int i = 0; i < 2 * 3; i++) {
		char *path;
		TRY(mem_printf(&path, "%s%s%s", folder, above[i / 2], names[i % 2]));
		FILE *file = fopen(path, "rb");
		tomos_status status = TOMOS_OK;
		if (file) {
			fclose(file);
			status = read_setup(path, s);
			if (status == TOMOS_OK)
				status = folder_of(&s->folder, path);
		}
		mem_free(path);
		if (file || status != TOMOS_OK)
			return status;
	}
	return fail(TOMOS_BAD_FILE,
		"'%s': there is no Scan.xml or ProjectionInfo.xml in its folder or two above it",
		scan->path);
}

static tomos_status take_geometry(tomos_scan *scan, const Setup *s)
{
	if (!(s->source_axis > 0 && s->source_detector > 0 && s->pixel[0] > 0 && s->pixel[1] > 0))
		return fail(TOMOS_BAD_FILE,
			"'%s': source to axis %g mm, to the detector %g mm, pixels of %g x %g mm",
			scan->path, s->source_axis, s->source_detector, s->pixel[1], s->pixel[0]);
	Pose pose = pose_upright(s->source_axis, s->source_detector, s->pixel);
	pose.u[0] = s->pixel[0];
	pose.v[2] = s->pixel[1];
	pose.detector[0] = s->lateral;
	TRY(scan_pose(scan, &pose));
	return scan_notes(scan);
}

/* ---- opening ------------------------------------------------------------------------------- */

static bool varian_head(const char *head, size_t length)
{
	return length > HNC_DATA &&
	       (strncmp(head, "VMS.XI", 6) == 0 || strncmp(head, "Varian_VA_INTERNAL", 18) == 0);
}

/* Size, and the pixels of older files, from the first view. */
static tomos_status look(tomos_scan *scan, Frames *f, Setup *s)
{
	char *text;
	int64_t length, after;
	Packed p = {.rows = 0};
	TRY(text_read(&text, &length, f->files.paths[0]));
	const unsigned char *bytes = (const unsigned char *)text;
	tomos_status status = TOMOS_OK;
	f->xim = strncmp(text, "VMS.XI", 6) == 0;
	if (f->xim) {
		status = xim_parts(bytes, length, f->files.paths[0], &p, &after);
	} else if (length >= HNC_DATA) {
		p = (Packed){.columns = u32_at(bytes + 120), .rows = u32_at(bytes + 124)};
		s->pixel[0] = double_at(bytes + 352);
		s->pixel[1] = double_at(bytes + 360);
	}
	if (status == TOMOS_OK)
		status = check_size(f->files.paths[0], p.rows, p.columns);
	f->rows = scan->rows = p.rows;
	f->columns = scan->columns = p.columns;
	mem_free(text);
	return status;
}

tomos_status frames_set(tomos_scan *scan, Frames *f, FrameSet *set)
{
	const FrameSource source = {.shape = {f->files.count, f->rows, f->columns},
		.element = {f->factors ? 'f' : 'i', 4, false},
		.read = read_frame,
		.sources = frame_sources,
		.close = frames_free,
		.own = f};
	TRY(io_frames(&set->file, scan->path, &source));
	set->count = set->file->shape[0];
	return TOMOS_OK;
}

/* Files with the letters of this one before their number, and its ending. */
static tomos_status fill(tomos_scan *scan, Frames *f, const char *folder, Setup *s)
{
	char prefix[256];
	const char *name = scan->path + strlen(folder), *dot = strrchr(name, '.');
	snprintf(prefix, sizeof prefix, "%.*s", (int)strcspn(name, "0123456789."), name);
	TRY(list_files(&f->files, folder, prefix, dot ? dot : ""));
	TRY(look(scan, f, s));
	return find_setup(scan, folder, s);
}

static tomos_status open_all(tomos_scan *scan, const char *folder, Setup *s)
{
	Frames *f;
	TRY(mem_zeroed(&f, 1, sizeof *f, "a list of views"));
	tomos_status status = fill(scan, f, folder, s);
	if (status == TOMOS_OK)
		status = take_angles(scan, f);
	if (status == TOMOS_OK)
		status = varian_air(scan, f, s);
	if (status == TOMOS_OK)
		return frames_set(scan, f, &scan->sets[TOMOS_VIEWS]); /* takes over the list */
	frames_free(f);
	return status;
}

static tomos_status varian_open(tomos_scan *scan, const char *folder)
{
	Setup s = {.lateral = 0};
	tomos_status status = open_all(scan, folder, &s);
	mem_free(s.folder);
	return status == TOMOS_OK ? take_geometry(scan, &s) : status;
}

const ScanKind scanner_varian = {
	.name = "varian", .folder = varian_open, .head = varian_head, .title = "Varian"};
