/* The description of the files as JSON, with range and histogram of some of their values. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "source.h"

enum { BINS = 256 };

/* ---- JSON ------------------------------------------------------------------------------------ */

void json_number(FILE *json, double value)
{
	if (isfinite(value))
		fprintf(json, "%.9g", value);
	else
		fputs("null", json);
}

static void numbers(FILE *json, const double *values, int64_t count)
{
	fputc('[', json);
	for (int64_t i = 0; i < count; i++) {
		if (i)
			fputc(',', json);
		json_number(json, values[i]);
	}
	fputc(']', json);
}

static void shape(FILE *json, const int64_t n[3])
{
	fprintf(json, "[%lld,%lld,%lld]", (long long)n[0], (long long)n[1], (long long)n[2]);
}

/* ---- values ---------------------------------------------------------------------------------- */

static void histogram(FILE *json, const float *sorted, int64_t count, double low, double high)
{
	int64_t bins[BINS] = {0};
	for (int64_t i = 0; i < count; i++) {
		int bin = (int)(BINS * (((double)sorted[i] - low) / (high - low)));
		bins[bin < 0 ? 0 : bin < BINS ? bin : BINS - 1]++;
	}
	fputs(",\"histogram\":{\"low\":", json);
	json_number(json, low);
	fputs(",\"high\":", json);
	json_number(json, high);
	fputs(",\"counts\":[", json);
	for (int i = 0; i < BINS; i++)
		fprintf(json, "%s%lld", i ? "," : "", (long long)bins[i]);
	fputs("]}", json);
}

/* The range, its unit, and the histogram. */
static void values(view_source *s, FILE *json)
{
	int64_t count = 0;
	float *data = source_sample(s, &count);
	double range[2];
	count = data ? sort_finite(data, count) : 0;
	sorted_range(data, count, &range[0], &range[1]);
	double low = count ? (double)data[0] : 0, high = count ? (double)data[count - 1] : 1;
	if (!(low < high))
		high = low + 1;
	fputs(",\"value_unit\":", json);
	json_text(json, s->value_unit);
	fputs(",\"range\":", json);
	numbers(json, range, 2);
	histogram(json, data, count, low, high);
	free(data);
}

/* ---- files ----------------------------------------------------------------------------------- */

static void levels(const view_source *s, FILE *json)
{
	fputs(",\"levels\":[", json);
	for (int i = 0; i < s->level_count; i++) {
		fprintf(json, "%s{\"level\":%d,\"shape\":", i ? "," : "", i);
		shape(json, s->levels[i].shape);
		fputs(",\"factor\":", json);
		numbers(json, s->levels[i].factor, 3);
		fputc('}', json);
	}
	fputc(']', json);
}

bool source_describe(view_source *s, FILE *json)
{
	const double size[3] = {fabs(s->step[0]), fabs(s->step[1]), fabs(s->step[2])};
	fputs("{\"name\":", json);
	json_text(json, s->name);
	fprintf(json, ",\"content\":\"%s\",\"shape\":", s->content);
	shape(json, s->levels[0].shape);
	fprintf(json, ",\"type\":\"%s\",\"voxel\":", s->type);
	numbers(json, size, 3);
	fputs(",\"step\":", json);
	numbers(json, s->step, 3);
	fputs(",\"origin\":", json);
	numbers(json, s->origin, 3);
	fputs(",\"unit\":", json);
	json_text(json, s->unit);
	levels(s, json);
	values(s, json);
	fputc('}', json);
	return !s->left;
}

void source_describe_scan(view_source *s, const view_live *live, FILE *json)
{
	const tomos_scan_info *i = &s->scan_info;
	fprintf(json,
		"{\"rows\":%lld,\"columns\":%lld,\"views\":%lld,\"axis\":", (long long)i->rows,
		(long long)i->columns, (long long)i->views);
	json_number(json, live ? live_axis(live) : s->axis);
	bool known = i->has_geometry || isfinite(i->axis) || (live && live_axis_given(live));
	fprintf(json, ",\"axis_known\":%s,\"live\":%s,\"angles\":", known ? "true" : "false",
		live ? "true" : "false");
	numbers(json, s->angles, s->angles ? i->views : 0);
	fprintf(json, ",\"geometry\":%s,\"point\":%s}", i->has_geometry ? "true" : "false",
		live && live_point(live) ? "true" : "false");
}
