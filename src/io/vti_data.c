/* Arrays of VTI files in base64, or in blocks compressed by zlib: unpacked to a file without a
 * name.
 *
 * An array begins with the number of its bytes. If it is compressed, with the number of blocks,
 * the bytes of a block and of the last one if it is shorter (0: it is not), and the compressed
 * bytes of each. In base64 the header of a compressed array is encoded by itself; VTK encodes a
 * number of bytes together with the numbers, and reads it by itself as well, as meshio writes it.
 */
#include <string.h>
#include <zlib.h>
#include "io/vti.h"

enum { PIECE = 3 << 16, LARGEST_BLOCK = 256 << 20 };

/* Bytes of an array, decoded one after the other. */
typedef struct {
	const VtiArray *array;
	int64_t at;
	int64_t left;        /* bytes of the current base64 text, which ends with a padded group */
	unsigned char *text; /* of base64 */
} Stream;

static tomos_status damaged(const VtiArray *array, const char *what)
{
	return fail(TOMOS_BAD_FILE, "'%s': the array that begins at byte %lld is damaged: %s",
		array->path, (long long)array->at, what);
}

static int digit_of(unsigned char c)
{
	return c >= 'A' && c <= 'Z'   ? c - 'A'
	       : c >= 'a' && c <= 'z' ? c - 'a' + 26
	       : c >= '0' && c <= '9' ? c - '0' + 52
	       : c == '+'             ? 62
	       : c == '/'             ? 63
				      : -1;
}

/* Four digits, of which the last ones are '=' if the group has less than three bytes; -1: they are
 * something else. */
static int32_t group_of(const unsigned char *text, int64_t bytes)
{
	int32_t bits = 0;
	for (int k = 0; k < 4; k++) {
		int digit = k <= bytes ? digit_of(text[k]) : text[k] == '=' ? 0 : -1;
		if (digit < 0)
			return -1;
		bits = bits << 6 | digit;
	}
	return bits;
}

/* `count` bytes, of which all but the last of a stream are a multiple of 3. */
static tomos_status decode(Stream *s, unsigned char *to, int64_t count)
{
	int64_t groups = (count + 2) / 3;
	if (4 * groups > s->array->end - s->at)
		return damaged(s->array, "it ends too early");
	TRY(flat_read(s->array->descriptor, s->array->path, s->at, s->text, 4 * groups));
	s->at += 4 * groups;
	for (int64_t i = 0; i < groups; i++, s->left -= 3) {
		int32_t bits = group_of(s->text + 4 * i, min64(3, s->left));
		if (bits < 0)
			return damaged(s->array, "it has other letters than base64, or "
						 "does not end where its data do");
		for (int k = 0; k < 3 && 3 * i + k < count; k++)
			to[3 * i + k] = (unsigned char)(bits >> (16 - 8 * k));
	}
	return TOMOS_OK;
}

static tomos_status take_bytes(Stream *s, unsigned char *to, int64_t count)
{
	const VtiArray *a = s->array;
	if (!a->base64) {
		if (count > a->end - s->at)
			return damaged(a, "it ends too early");
		TRY(flat_read(a->descriptor, a->path, s->at, to, count));
		s->at += count;
		return TOMOS_OK;
	}
	for (int64_t done = 0, step; done < count; done += step) {
		step = min64(PIECE, count - done);
		TRY(decode(s, to + done, step));
	}
	return TOMOS_OK;
}

static int64_t word_of(const VtiArray *a, const unsigned char *bytes)
{
	uint64_t number = 0;
	bool big = (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__) != a->swapped;
	for (int i = 0; i < a->word; i++)
		number = number << 8 | bytes[big ? i : a->word - 1 - i];
	return number > INT64_MAX ? INT64_MAX : (int64_t)number;
}

/* ---- not compressed -------------------------------------------------------------------------- */

static tomos_status check_word(const VtiArray *a, const unsigned char *bytes)
{
	return word_of(a, bytes) == a->bytes
		       ? TOMOS_OK
		       : damaged(a, "its number of bytes is not that of the volume");
}

tomos_status vti_check_length(const VtiArray *a)
{
	unsigned char bytes[8];
	TRY(flat_read(a->descriptor, a->path, a->at, bytes, a->word));
	return check_word(a, bytes);
}

/* Whether the number of bytes is encoded by itself: then its last group is padded, which it is not
 * to the same extent if a number follows in it. */
static tomos_status length_apart(const Stream *s, bool *apart)
{
	const VtiArray *a = s->array;
	int64_t groups = (a->word + 2) / 3;
	unsigned char text[4];
	*apart = false;
	if (!a->base64 || 4 * groups > a->end - s->at)
		return TOMOS_OK;
	TRY(flat_read(a->descriptor, a->path, s->at + 4 * (groups - 1), text, 4));
	*apart = text[a->word % 3 + 1] == '=';
	return TOMOS_OK;
}

/* If the length and the numbers are one stream, groups of three go across its end. */
static tomos_status take_plain(Stream *s, unsigned char *buffer, int to)
{
	const VtiArray *a = s->array;
	int64_t all = a->bytes + a->word, out = 0;
	bool apart;
	TRY(length_apart(s, &apart));
	for (int64_t done = 0, step; done < all; done += step) {
		bool first = done == 0;
		int64_t part = first && apart ? a->word : all;
		s->left = part - done;
		step = min64(PIECE, part - done);
		TRY(take_bytes(s, buffer, step));
		if (first)
			TRY(check_word(a, buffer));
		int64_t skip = first ? a->word : 0;
		TRY(flat_write(to, a->path, out, buffer + skip, step - skip));
		out += step - skip;
	}
	return TOMOS_OK;
}

/* ---- compressed ------------------------------------------------------------------------------ */

typedef struct {
	int64_t count, bytes, last; /* number of blocks; bytes of each, and of the last */
	unsigned char *sizes;       /* compressed, as stored */
} Blocks;

static tomos_status take_header(Stream *s, Blocks *b)
{
	const VtiArray *a = s->array;
	unsigned char start[24] = {0};
	int64_t words;
	s->left = INT64_MAX; /* at least the size of one block follows */
	TRY(take_bytes(s, start, 3 * (int64_t)a->word));
	b->count = word_of(a, start);
	b->bytes = word_of(a, start + a->word);
	b->last = word_of(a, start + 2 * (size_t)a->word);
	b->last = b->last ? b->last : b->bytes;
	if (b->count < 1 || b->bytes < 1 || b->bytes > LARGEST_BLOCK || b->last > b->bytes ||
		b->count > a->end || !size_mul(b->count - 1, b->bytes, &words) ||
		!size_add(words, b->last, &words) || words != a->bytes)
		return damaged(a, "its blocks are not those of the volume");
	s->at = a->at; /* base64 is decoded from its start */
	s->left = (b->count + 3) * a->word;
	TRY(mem_zeroed(&b->sizes, s->left, 1, "sizes of blocks"));
	TRY(take_bytes(s, b->sizes, s->left));
	s->left = 0;
	for (int64_t i = 0; i < b->count; i++)
		if (!size_add(s->left, word_of(a, b->sizes + (i + 3) * a->word), &s->left))
			return damaged(a, "a block is too large");
	return TOMOS_OK;
}

/* A compressed block may begin within a group of three bytes: `kept` of them are left over. */
typedef struct {
	unsigned char left[3];
	int64_t kept;
} Rest;

static tomos_status take_across(Stream *s, Rest *rest, unsigned char *to, int64_t count)
{
	int64_t from = min64(rest->kept, count);
	memcpy(to, rest->left, (size_t)from);
	memmove(rest->left, rest->left + from, (size_t)(rest->kept - from));
	rest->kept -= from;
	count -= from;
	int64_t whole = s->array->base64 ? count / 3 * 3 : count;
	TRY(take_bytes(s, to + from, whole));
	if (whole == count)
		return TOMOS_OK;
	TRY(take_bytes(s, rest->left, 3));
	memcpy(to + from + whole, rest->left, (size_t)(count - whole));
	rest->kept = 3 - (count - whole);
	memmove(rest->left, rest->left + (count - whole), (size_t)rest->kept);
	return TOMOS_OK;
}

static tomos_status take_blocks(
	Stream *s, const Blocks *b, unsigned char *packed, unsigned char *block, int to)
{
	const VtiArray *a = s->array;
	Rest rest = {.kept = 0};
	for (int64_t i = 0; i < b->count; i++) {
		int64_t size = word_of(a, b->sizes + (i + 3) * a->word);
		int64_t bytes = i + 1 < b->count ? b->bytes : b->last;
		uLongf got = (uLongf)bytes;
		TRY(cancel_check("reading"));
		if (size > (int64_t)compressBound((uLong)b->bytes))
			return damaged(a, "a block is too large");
		TRY(take_across(s, &rest, packed, size));
		if (uncompress(block, &got, packed, (uLong)size) != Z_OK || (int64_t)got != bytes)
			return damaged(a, "a block cannot be unpacked");
		TRY(flat_write(to, a->path, i * b->bytes, block, bytes));
	}
	return TOMOS_OK;
}

static tomos_status take_packed(Stream *s, int to)
{
	const VtiArray *a = s->array;
	Blocks b = {.sizes = NULL};
	unsigned char *packed = NULL, *block = NULL;
	tomos_status status;
	TRY_OR_DONE(take_header(s, &b));
	if (b.bytes / LARGEST_RATIO > a->end) {
		status = damaged(a, "its blocks are larger than the file can hold");
		goto done;
	}
	TRY_OR_DONE(mem_alloc(
		&packed, (int64_t)compressBound((uLong)b.bytes) + 3, 1, "a compressed block"));
	TRY_OR_DONE(mem_alloc(&block, b.bytes, 1, "a block"));
	status = take_blocks(s, &b, packed, block, to);
done:
	mem_free(b.sizes);
	mem_free(packed);
	mem_free(block);
	return status;
}

tomos_status vti_unpack(const VtiArray *array, int *unpacked)
{
	Stream s = {.array = array, .at = array->at};
	unsigned char *buffer = NULL;
	tomos_status status;
	if (array->bytes / LARGEST_RATIO > array->end - array->at)
		return damaged(array, "it has too few bytes");
	TRY_OR_DONE(mem_alloc(&s.text, PIECE / 3 * 4, 1, "text of a VTI file"));
	TRY_OR_DONE(mem_zeroed(&buffer, PIECE, 1, "a part of a VTI file"));
	TRY_OR_DONE(flat_unnamed(unpacked, array->path));
	status = array->packed ? take_packed(&s, *unpacked) : take_plain(&s, buffer, *unpacked);
done:
	mem_free(s.text);
	mem_free(buffer);
	return status;
}
