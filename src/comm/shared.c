/* Memory that ranks on one machine share: files without a name, which the others open through
 * /proc and which end with the processes, however these end. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "comm/comm.h"

/* What a rank tells the others of its file. The inode shows that what they open is this one, since
 * processes in containers may have the same numbers. */
typedef struct {
	int64_t bytes, inode;
	int32_t node, process, descriptor;
} Offer;

static Offer make_offer(const tomos_comm *c, int64_t bytes)
{
	Offer offer = {.node = c->node, .process = (int32_t)getpid(), .descriptor = -1};
	struct stat about;
	int file = memfd_create("tomos", MFD_CLOEXEC);
	if (file < 0)
		return offer;
	if (ftruncate(file, bytes) != 0 || fstat(file, &about) != 0) {
		close(file);
		return offer;
	}
	offer.bytes = bytes;
	offer.inode = (int64_t)about.st_ino;
	offer.descriptor = file;
	return offer;
}

static bool map_offer(const Offer *offer, CommPart *part)
{
	char path[64];
	struct stat about;
	snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)offer->process, (int)offer->descriptor);
	int file = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (file < 0)
		return false;
	void *data = MAP_FAILED;
	if (fstat(file, &about) == 0 && (int64_t)about.st_ino == offer->inode &&
		about.st_size == offer->bytes)
		data = mmap(
			NULL, (size_t)offer->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	close(file);
	if (data == MAP_FAILED)
		return false;
	(void)madvise(data, (size_t)offer->bytes, MADV_HUGEPAGE);
	*part = (CommPart){data, offer->bytes};
	return true;
}

/* Whether the first rank alone offers memory, which all of them then use. */
static bool is_common(const CommShared *s)
{
	int64_t others = 0;
	for (int i = 1; i < s->count; i++)
		others += s->parts[i].bytes;
	return others == 0;
}

/* Pages are allocated now: a page that is missing later would end the process. Older systems
 * allocate them when they are written to. Each rank has its own part, or one of `count` shares of
 * the common one. */
static bool populate(const CommShared *s, int member)
{
	enum { PAGE = 1 << 21 };
	bool common = is_common(s);
	const CommPart *part = &s->parts[common ? 0 : member];
	int64_t pages = (part->bytes + PAGE - 1) / PAGE;
	int64_t count = common ? s->count : 1, share = common ? member : 0;
	int64_t first = pages * share / count * PAGE;
	int64_t end = min64(pages * (share + 1) / count * PAGE, part->bytes);
	return first >= end || mem_populate((char *)part->data + first, end - first) ||
	       errno == EINVAL;
}

static bool map_all(const tomos_comm *c, const Offer *offers, CommShared *s)
{
	bool mapped = true;
	for (int i = 0; i < s->count && mapped; i++)
		mapped = offers[i].descriptor >= 0 && offers[i].node == c->node &&
			 (offers[i].bytes == 0 || map_offer(&offers[i], &s->parts[i]));
	return mapped && populate(s, c->rank % s->count);
}

/* Pages of the common part that other ranks have allocated: all at once, as one by one they would
 * interrupt the process. As if it read them, for which the system maps several neighbours at a time;
 * shared memory can then be written to as well. */
static void map_pages(const CommShared *s)
{
	enum { POPULATE_READ = 22 }; /* MADV_POPULATE_READ, which older headers lack */
	if (is_common(s))
		(void)madvise(s->parts[0].data, (size_t)s->parts[0].bytes, POPULATE_READ);
}

void comm_share_free(CommShared *s)
{
	for (int i = 0; s && s->parts && i < s->count; i++)
		if (s->parts[i].data)
			munmap(s->parts[i].data, (size_t)s->parts[i].bytes);
	mem_free(s ? s->parts : NULL);
	mem_free(s);
}

/* All ranks or none, so that they all go on in the same way. */
static tomos_status map_or_none(tomos_comm *c, const Offer *offers, CommShared *s, bool *shared)
{
	double failures = !map_all(c, offers + c->rank / s->count * s->count, s);
	TRY(comm_sum(c, &failures, 1));
	*shared = failures == 0;
	if (*shared)
		map_pages(s);
	return TOMOS_OK;
}

static tomos_status share_make(const tomos_comm *c, int count, CommShared **made, Offer **all)
{
	TRY(mem_zeroed(made, 1, sizeof **made, "memory of several ranks"));
	(*made)->count = count;
	TRY(mem_zeroed(&(*made)->parts, count, sizeof *(*made)->parts, "memory of several ranks"));
	return mem_alloc(all, comm_size(c), sizeof **all, "memory of several ranks");
}

tomos_status comm_share(tomos_comm *c, int count, int64_t bytes, CommShared **shared)
{
	CommShared *made = NULL;
	Offer *all = NULL;
	bool done = false;
	tomos_status status;
	*shared = NULL;
	const Offer mine = make_offer(c, bytes);
	TRY_OR_DONE(comm_agree(c, share_make(c, count, &made, &all)));
	TRY_OR_DONE(comm_gather(c, &mine, sizeof mine, all));
	TRY_OR_DONE(map_or_none(c, all, made, &done));
done:
	if (mine.descriptor >= 0)
		close(mine.descriptor);
	mem_free(all);
	if (done)
		*shared = made;
	else
		comm_share_free(made);
	return status;
}
