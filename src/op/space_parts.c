/* Vectors of which every rank has a part: their place in the whole, and checksums of the whole. */
#include <string.h>
#include "comm/comm.h"
#include "op/op.h"

void space_whole(const Space *s, int64_t shape[3])
{
	memcpy(shape, s->parts ? s->parts->shape : s->shape, sizeof s->shape);
}

int64_t space_whole_count(const Space *s)
{
	int64_t n[3];
	space_whole(s, n);
	return n[0] * n[1] * n[2];
}

bool space_leads(const Space *s)
{
	return !s->parts || comm_rank(s->parts->comm) == 0;
}

tomos_status space_agree(const Space *s, tomos_status status)
{
	return s->parts ? comm_agree(s->parts->comm, status) : status;
}

tomos_status space_divide(
	Space *s, SpaceParts *parts, tomos_comm *comm, const int64_t whole[3], int64_t run_count)
{
	*parts = (SpaceParts){.comm = comm, .count = run_count};
	memcpy(parts->shape, whole, sizeof parts->shape);
	TRY(mem_zeroed(&parts->runs, run_count, sizeof *parts->runs, "parts of vectors"));
	s->parts = parts;
	return TOMOS_OK;
}

tomos_status space_repeat(Space *s, SpaceParts *parts, const SpaceParts *one, int copies)
{
	const int64_t *n = one->shape, whole[3] = {copies * n[0], n[1], n[2]};
	int64_t size = n[0] * n[1] * n[2], own = s->count / copies;
	TRY(space_divide(s, parts, one->comm, whole, copies * one->count));
	for (int64_t i = 0; i < parts->count; i++) {
		const SpaceRun *from = &one->runs[i % one->count];
		int64_t copy = i / one->count;
		parts->runs[i] =
			(SpaceRun){from->own + copy * own, from->whole + copy * size, from->count};
	}
	return TOMOS_OK;
}

/* The checksum of the whole is the exclusive or of those of its runs, each as if zeros followed. */
static tomos_status whole_checksum(const Space *s, const float *host, uint32_t *sum)
{
	const SpaceParts *p = s->parts;
	int64_t all = space_whole_count(s), float_bytes = sizeof *host;
	uint32_t mine = 0, *sums;
	for (int64_t i = 0; i < p->count; i++) {
		const SpaceRun *run = &p->runs[i];
		uint32_t one = checksum_add(0, host + run->own, run->count * float_bytes);
		mine ^= checksum_before(one, (all - run->whole - run->count) * float_bytes);
	}
	TRY(mem_alloc(&sums, comm_size(p->comm), sizeof *sums, "checksums of ranks"));
	tomos_status status = comm_gather(p->comm, &mine, sizeof mine, sums);
	*sum = 0;
	for (int i = 0; status == TOMOS_OK && i < comm_size(p->comm); i++)
		*sum ^= sums[i];
	mem_free(sums);
	return status;
}

tomos_status vector_checksum(const Space *space, const float *x, uint32_t *sum)
{
	float *host;
	TRY(mem_alloc(&host, space->count, sizeof *host, "a vector to be checked"));
	const tomos_array array =
		tomos_array_of(host, space->shape[0], space->shape[1], space->shape[2]);
	tomos_status status = vector_download(space, x, &array);
	if (status == TOMOS_OK && space->parts)
		status = whole_checksum(space, host, sum);
	else if (status == TOMOS_OK)
		*sum = checksum_add(0, host, space->count * (int64_t)sizeof *host);
	mem_free(host);
	return status;
}
