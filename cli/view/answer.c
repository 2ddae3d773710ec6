/* Answers to requests, without the server that sends them. */
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "view.h"

#define JSON "application/json"
#define BYTES "application/octet-stream"

void reply_free(view_reply *reply)
{
	if (reply->owned)
		free((void *)reply->bytes);
	if (reply->file >= 0)
		close(reply->file);
	*reply = (view_reply){.file = -1};
}

static int reply_own(view_reply *reply, int status, const char *type, void *bytes, int64_t size)
{
	reply_free(reply);
	*reply = (view_reply){.status = status,
		.type = type,
		.bytes = bytes,
		.size = size,
		.owned = true,
		.file = -1};
	return status;
}

int reply_error(view_reply *reply, int status, const char *text)
{
	char *bytes = NULL;
	size_t size = 0;
	FILE *json = open_memstream(&bytes, &size);
	if (json) {
		fputs("{\"error\":", json);
		json_text(json, text);
		fputs("}\n", json);
		fclose(json);
	}
	return reply_own(reply, status, JSON, bytes, (int64_t)size);
}

/* What the library rejects is the fault of the request, or else of the file. */
static int reply_status(view_reply *reply, tomos_status status)
{
	int code = status == TOMOS_BAD_VALUE     ? 400
		   : status == TOMOS_NO_MEMORY   ? 503
		   : status == TOMOS_CANCELLED   ? 503
		   : status == TOMOS_UNSUPPORTED ? 400
						 : 500;
	return reply_error(reply, code,
		status == TOMOS_NO_MEMORY ? "no memory for the answer" : tomos_message());
}

/* ---- description ----------------------------------------------------------------------------- */

/* false: the client has left, and the description is not complete. */
static bool write_info(view_state *v, FILE *json)
{
	bool whole = true;
	fprintf(json, "{\"version\":\"%s\",\"files\":[", tomos_version());
	for (int i = 0; i < v->count; i++) {
		if (i)
			fputc(',', json);
		whole = source_describe(v->files[i], json) && whole;
	}
	fputs("],\"scan\":", json);
	if (source_is_scan(v->files[0])) {
		pthread_mutex_lock(&v->live_lock); /* a search of the axis changes the geometry */
		source_describe_scan(v->files[0], v->live, json);
		pthread_mutex_unlock(&v->live_lock);
	} else {
		fputs("null", json);
	}
	fputs("}\n", json);
	return whole;
}

static int answer_info(view_state *v, view_reply *reply)
{
	size_t size = 0;
	bool whole = true;
	pthread_mutex_lock(&v->info_lock);
	if (!v->info) {
		FILE *json = open_memstream(&v->info, &size);
		if (json) {
			whole = write_info(v, json);
			fclose(json);
		}
	}
	char *copy = v->info ? strdup(v->info) : NULL;
	if (!whole) { /* the next client gets another one */
		free(v->info);
		v->info = NULL;
	}
	pthread_mutex_unlock(&v->info_lock);
	if (!copy)
		return reply_error(reply, 503, "no memory for the answer");
	return reply_own(reply, 200, JSON, copy, (int64_t)strlen(copy));
}

/* ---- samples --------------------------------------------------------------------------------- */

/* In place: the bytes come to lie before the floats that are not yet read. */
static void to_bytes(float *data, int64_t count, double low, double high)
{
	unsigned char *bytes = (unsigned char *)data;
	for (int64_t i = 0; i < count; i++) {
		float value;
		memcpy(&value, data + i, sizeof value);
		double grey = 255 * (((double)value - low) / (high - low)) + 0.5;
		bytes[i] = grey >= 255 ? 255 : grey >= 0 ? (unsigned char)grey : 0; /* NaN: 0 */
	}
}

#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
static void to_little(float *data, int64_t count)
{
	for (int64_t i = 0; i < count; i++) {
		uint32_t bits;
		memcpy(&bits, data + i, sizeof bits);
		bits = __builtin_bswap32(bits);
		memcpy(data + i, &bits, sizeof bits);
	}
}
#else
#define to_little(data, count) ((void)0)
#endif

/* *data is to be freed. Requests for large answers wait before they take memory: while many arrive,
 * only one such answer is being made, beside those that clients are receiving. */
static tomos_status read_box(view_state *v, const view_request *r, int64_t count, float **data)
{
	bool large = count > VIEW_LARGE;
	if (large)
		pthread_mutex_lock(&v->large_lock);
	*data = malloc((size_t)count * sizeof **data);
	tomos_status status = *data ? source_read(v->files[r->file], r, *data) : TOMOS_NO_MEMORY;
	if (large)
		pthread_mutex_unlock(&v->large_lock);
	return status;
}

static int answer_box(view_state *v, const view_request *r, view_reply *reply)
{
	int64_t count = r->count[0] * r->count[1] * r->count[2];
	if (r->file >= v->count || r->level >= source_levels(v->files[r->file]))
		return reply_error(reply, 400, "there is no such file or level");
	float *data;
	tomos_status status = read_box(v, r, count, &data);
	if (status != TOMOS_OK) {
		free(data);
		return reply_status(reply, status);
	}
	if (r->bytes)
		to_bytes(data, count, r->low, r->high);
	else
		to_little(data, count);
	return reply_own(reply, 200, BYTES, data, count * (r->bytes ? 1 : (int64_t)sizeof *data));
}

static int answer_slice(view_state *v, const view_request *r, view_reply *reply)
{
	float *slice = NULL;
	int64_t shape[2];
	char text[120];
	if (!v->live)
		return reply_error(reply, 404, "there is no scan to reconstruct from");
	pthread_mutex_lock(&v->live_lock);
	int64_t rows = live_rows(v->live);
	pthread_mutex_unlock(&v->live_lock);
	snprintf(text, sizeof text, "row is %lld; the scan has rows 0 to %lld", (long long)r->row,
		(long long)rows - 1);
	if (r->row >= rows)
		return reply_error(reply, 400, text);
	pthread_mutex_lock(&v->live_lock);
	tomos_status status = live_slice(v->live, r, &slice, shape);
	pthread_mutex_unlock(&v->live_lock);
	if (status != TOMOS_OK) {
		free(slice);
		return reply_status(reply, status);
	}
	int64_t count = shape[0] * shape[1];
	to_little(slice, count);
	reply_own(reply, 200, BYTES, slice, count * (int64_t)sizeof *slice);
	snprintf(reply->shape, sizeof reply->shape, "%lld,%lld", (long long)shape[0],
		(long long)shape[1]);
	return reply->status;
}

/* {"axis":31.4,"error":0.02,"reversed":false,"warning":"","why":""}; `why`: the reason if no axis
 * was found, which is not an error of the page. */
static int answer_axis(view_state *v, view_reply *reply)
{
	size_t size;
	char *text = NULL;
	view_axis axis;
	if (!v->live)
		return reply_error(reply, 404, "there is no scan to reconstruct from");
	FILE *json = open_memstream(&text, &size);
	if (!json)
		return reply_error(reply, 503, "no memory");
	pthread_mutex_lock(&v->live_lock);
	tomos_status status = live_find(v->live, &axis);
	pthread_mutex_unlock(&v->live_lock);
	fputs("{\"axis\":", json);
	json_number(json, axis.column);
	fputs(",\"error\":", json);
	json_number(json, axis.error);
	fprintf(json, ",\"reversed\":%s,\"warning\":", axis.reversed ? "true" : "false");
	json_text(json, axis.warning);
	fputs(",\"why\":", json);
	json_text(json, status == TOMOS_OK ? axis.why : tomos_message());
	fputc('}', json);
	if (fclose(json) != 0) {
		free(text);
		return reply_error(reply, 503, "no memory");
	}
	return reply_own(reply, 200, JSON, text, (int64_t)size);
}

/* ---- files of a Zarr ------------------------------------------------------------------------- */

static int answer_zarr(view_state *v, const view_request *r, const char *range, view_reply *reply)
{
	for (int i = 0; i < v->count; i++)
		if (source_folder(v->files[i]))
			return zarr_answer(v->files[i], r->name, range, reply);
	return reply_error(reply, 404, "no Zarr is open");
}

int view_answer(view_state *v, const view_request *r, const char *range, view_reply *reply)
{
	*reply = (view_reply){.file = -1};
	switch (r->action) {
	case VIEW_ERROR:
		return reply_error(reply, r->status, r->error);
	case VIEW_PAGE:
		return page_find(r->name, reply) ? reply->status
						 : reply_error(reply, 404, "there is no such page");
	case VIEW_INFO:
		return answer_info(v, reply);
	case VIEW_BOX:
		return answer_box(v, r, reply);
	case VIEW_SLICE:
		return answer_slice(v, r, reply);
	case VIEW_AXIS:
		return answer_axis(v, reply);
	case VIEW_ZARR:
		return answer_zarr(v, r, range, reply);
	case VIEW_PREFLIGHT:
		break;
	}
	*reply = (view_reply){
		.status = 204, .type = "text/plain", .bytes = "", .file = -1, .shared = true};
	return reply->status;
}
