/* Any bytes as a request of tomos view: method, Host header and address, each up to a line feed.
 * What is let in has the token and the host, asks for a known thing within the limits, and no name
 * in it can leave a folder. */
#include "fuzz_file.h"
#include "view/view.h"

static const view_gate gate = {"0123456789abcdef0123456789abcdef", 8080, true};

static void check_name(const char *name)
{
	require(name[0] != '/' && !strstr(name, "..") && !strchr(name, '\\') && !strchr(name, '%'));
	require(strlen(name) < sizeof((view_request *)0)->name);
}

static void check_request(const view_request *r, const char *host, const char *url)
{
	if (r->action == VIEW_ERROR) {
		require(r->status >= 400 && r->status < 500 && r->error[0]);
		return;
	}
	require(strcmp(host, "127.0.0.1:8080") == 0 || strcmp(host, "localhost:8080") == 0);
	require(url[0] == '/' && strncmp(url + 1, gate.token, VIEW_TOKEN) == 0);
	if (r->action == VIEW_ZARR || r->action == VIEW_PREFLIGHT) {
		check_name(r->name);
		require(!strstr(r->name, "//") && r->name[0]);
	}
	if (r->action != VIEW_BOX)
		return;
	double samples = 1;
	for (int i = 0; i < 3; i++) {
		require(r->first[i] >= 0 && r->count[i] >= 1 && r->step[i] >= 1);
		samples *= (double)r->count[i];
	}
	require(samples <= VIEW_SAMPLES && r->file >= 0 && r->level >= 0);
}

static void read_range(const char *header)
{
	view_range range;
	for (int64_t size = 0; size < 3000; size += 1 + size) {
		if (!view_range_parse(&range, header, size))
			continue;
		require(range.first >= 0 && range.count >= 0);
		require(range.first + range.count <= size);
		require(!range.part || range.count > 0);
	}
}

static void read_request(const char *path, const uint8_t *bytes, size_t size)
{
	char *text = malloc(size + 1), *parts[3] = {NULL, "", ""};
	view_request r;
	(void)path;
	require(text != NULL);
	memcpy(text, bytes, size);
	text[size] = 0;
	parts[0] = text;
	for (int i = 1; i < 3; i++) {
		char *end = strchr(parts[i - 1], '\n');
		if (!end)
			break;
		*end = 0;
		parts[i] = end + 1;
	}
	view_parse(&r, &gate, parts[0], parts[1], parts[2]);
	check_request(&r, parts[1], parts[2]);
	read_range(parts[2]);
	free(text);
}

#define START "GET\n127.0.0.1:8080\n/0123456789abcdef0123456789abcdef/"

static void put_seeds(const char *directory)
{
	put_text(directory, "page", START "index.html");
	put_text(directory, "info", START "info");
	put_text(directory, "box",
		START "box?file=0&level=1&first=1,2,3&count=4,5,6&step=1%2C2,1&type=uint8&low=0"
		      "&high=1.5");
	put_text(directory, "slice", START "slice?row=3&axis=10.5&filter=hann&size=256");
	put_text(directory, "zarr", START "zarr/0/c/1/2/3");
	put_text(directory, "attributes", START "zarr/.zattrs");
	put_text(directory, "range", "HEAD\nlocalhost:8080\nbytes=5-100");
	put_text(directory, "preflight", "OPTIONS\n" START "zarr/zarr.json");
}

const Target target = {NULL, NULL, 0, read_request, put_seeds};
