/* The server: libmicrohttpd, opened when it is needed, since it brings a dozen other libraries that
 * would slow down the start of every command. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "view.h"

#if TOMOS_HAS_MICROHTTPD
#include <dlfcn.h>
#include <microhttpd.h>
#include "active.h"

/* ---- the library ----------------------------------------------------------------------------- */

#define FUNCTIONS(F) \
	F(MHD_start_daemon) \
	F(MHD_stop_daemon) \
	F(MHD_queue_response) \
	F(MHD_destroy_response) \
	F(MHD_create_response_from_buffer) \
	F(MHD_create_response_from_fd_at_offset64) \
	F(MHD_add_response_header) \
	F(MHD_lookup_connection_value) \
	F(MHD_get_connection_info)

#define MEMBER(name) __typeof__(&(name)) name;
static struct {
	FUNCTIONS(MEMBER)
} mhd;

const char *http_missing(void)
{
	static char why[400];
	void *library = dlopen(TOMOS_MICROHTTPD, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		snprintf(why, sizeof why,
			"the HTTP library cannot be opened (%s); Debian has it in the package "
			"libmicrohttpd12",
			dlerror());
		return why;
	}
	/* a pointer to a function from one to data, as POSIX has it */
#define FIND(name) \
	*(void **)&mhd.name = dlsym(library, #name); \
	if (!mhd.name) \
		return TOMOS_MICROHTTPD " has no function " #name;
	FUNCTIONS(FIND)
	return NULL;
}

/* ---- replies --------------------------------------------------------------------------------- */

static void add(struct MHD_Response *response, const char *name, const char *value)
{
	(void)mhd.MHD_add_response_header(response, name, value);
}

static void add_headers(struct MHD_Response *response, const view_reply *reply)
{
	char range[96];
	add(response, "Content-Type", reply->type);
	add(response, "Cache-Control", "no-store");
	add(response, "X-Content-Type-Options", "nosniff");
	add(response, "Content-Security-Policy", "default-src 'self'; img-src 'self' blob: data:");
	add(response, "Referrer-Policy", "no-referrer"); /* the address has the token */
	if (reply->shape[0])
		add(response, "X-Shape", reply->shape);
	if (reply->status == 405)
		add(response, "Allow", "GET, HEAD");
	if (reply->file >= 0)
		add(response, "Accept-Ranges", "bytes");
	if (reply->part) {
		snprintf(range, sizeof range, "bytes %lld-%lld/%lld", (long long)reply->at,
			(long long)(reply->at + reply->size - 1), (long long)reply->whole);
		add(response, "Content-Range", range);
	}
	if (!reply->shared)
		return;
	add(response, "Access-Control-Allow-Origin", "*");
	add(response, "Access-Control-Allow-Methods", "GET, HEAD");
	add(response, "Access-Control-Allow-Headers", "Range");
	add(response, "Access-Control-Allow-Private-Network", "true");
	add(response, "Access-Control-Expose-Headers",
		"Content-Length, Content-Range, Accept-Ranges");
}

/* The response takes over memory and descriptor of the reply. */
static struct MHD_Response *make_response(view_reply *reply)
{
	struct MHD_Response *response;
	if (reply->file >= 0)
		response = mhd.MHD_create_response_from_fd_at_offset64(
			(uint64_t)reply->size, reply->file, (uint64_t)reply->at);
	else
		response = mhd.MHD_create_response_from_buffer((size_t)reply->size,
			(void *)reply->bytes,
			reply->owned ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT);
	if (!response) {
		reply_free(reply);
		return NULL;
	}
	add_headers(response, reply);
	return response;
}

static enum MHD_Result send_reply(struct MHD_Connection *connection, view_reply *reply)
{
	int status = reply->status;
	struct MHD_Response *response = make_response(reply);
	if (!response)
		return MHD_NO;
	enum MHD_Result sent = mhd.MHD_queue_response(connection, (unsigned)status, response);
	mhd.MHD_destroy_response(response);
	return sent;
}

/* ---- requests -------------------------------------------------------------------------------- */

/* Of one request, from its first line to its end. */
typedef struct exchange {
	bool begun;
	char *url; /* as it was sent */
} exchange;

static void *take_url(void *user, const char *url, struct MHD_Connection *connection)
{
	exchange *x = calloc(1, sizeof *x);
	(void)user;
	(void)connection;
	if (x)
		x->url = strdup(url);
	return x;
}

static void end_exchange(void *user, struct MHD_Connection *connection, void **own,
	enum MHD_RequestTerminationCode why)
{
	exchange *x = *own;
	(void)user;
	(void)connection;
	(void)why;
	if (x)
		free(x->url);
	free(x);
	*own = NULL;
}

static const char *header(struct MHD_Connection *connection, const char *name)
{
	return mhd.MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

static enum MHD_Result answer(
	view_state *v, struct MHD_Connection *connection, const char *url, const char *method)
{
	const union MHD_ConnectionInfo *info =
		mhd.MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	view_request request;
	view_reply reply;
	view_parse(&request, &v->gate, method, header(connection, "Host"), url);
	tomos_cancel *flag = active_begin(info ? info->connect_fd : -1);
	if (flag) {
		view_answer(v, &request, header(connection, "Range"), &reply);
		active_end(flag);
	} else {
		reply = (view_reply){.file = -1};
		reply_error(&reply, 503, "the server ends, or has too many requests");
	}
	return send_reply(connection, &reply);
}

/* Called once for the headers; again for what follows them, of which nothing is read. */
static enum MHD_Result handle(void *user, struct MHD_Connection *connection, const char *url,
	const char *method, const char *version, const char *data, size_t *size, void **own)
{
	exchange *x = *own;
	bool body = strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0;
	(void)url;
	(void)version;
	(void)data;
	if (!x || !x->url)
		return MHD_NO;
	if (!x->begun && !body) {
		x->begun = true;
		return MHD_YES;
	}
	if (*size > 0) { /* the body of a GET: it has no meaning */
		*size = 0;
		return MHD_YES;
	}
	return answer(user, connection, x->url, method);
}

/* ---- the server ------------------------------------------------------------------------------ */

static struct MHD_Daemon *daemon_running;

/* A socket on 127.0.0.1, and on no other address of the machine. */
static int listen_on(int *port)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)*port)};
	socklen_t size = sizeof at;
	const int yes = 1;
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (s < 0 || setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
		bind(s, (struct sockaddr *)&at, sizeof at) != 0 || listen(s, 128) != 0 ||
		getsockname(s, (struct sockaddr *)&at, &size) != 0) {
		complain("port %d of 127.0.0.1 cannot be listened on: %s", *port, strerror(errno));
		if (s >= 0)
			close(s);
		return -1;
	}
	*port = ntohs(at.sin_port);
	return s;
}

int http_start(view_state *v, int port)
{
	int s = listen_on(&port);
	if (s < 0)
		return FAILED;
	v->gate.port = port;
	if (!active_start()) {
		close(s);
		return failed("no thread for the server");
	}
	/* A thread for each connection: a large box delays no other one. */
	daemon_running = mhd.MHD_start_daemon(
		MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL, 0,
		NULL, NULL, handle, v, MHD_OPTION_LISTEN_SOCKET, s, MHD_OPTION_CONNECTION_LIMIT,
		(unsigned)VIEW_CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)VIEW_TIMEOUT,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)16384, MHD_OPTION_URI_LOG_CALLBACK,
		take_url, NULL, MHD_OPTION_NOTIFY_COMPLETED, end_exchange, NULL, MHD_OPTION_END);
	if (daemon_running)
		return DONE;
	close(s);
	active_stop();
	return failed("the server cannot be started on port %d", port);
}

void http_stop(void)
{
	active_stop();
	if (daemon_running)
		mhd.MHD_stop_daemon(daemon_running);
	daemon_running = NULL;
}

#else

const char *http_missing(void)
{
	return "this build has no HTTP server: libmicrohttpd 0.9.71 or newer was not found at "
	       "build time (Debian: libmicrohttpd-dev)";
}

int http_start(view_state *v, int port)
{
	(void)v;
	(void)port;
	return FAILED;
}

void http_stop(void)
{
}

#endif
