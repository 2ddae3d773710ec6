/* Products with stored matrices and rows used one after the other, from the shared texts.
 *
 * SCSR: a work-group has a slab, and teams of items walk the groups that meet it, each item one pair. Back,
 * the groups of a wave share no pixel: a work-group goes on to the next wave together. */
#include "backend/opencl/device.cl"
#include "backend/opencl/atomic.cl"
#include "kernel/stored.h"

#define TEAM 8 /* pairs of a group, at most */
#define TEAMS (GROUP / TEAM)

/* ---- compressed rows ------------------------------------------------------------------------ */

#define CSR \
	long rows, long columns, long view_rows, int wide_pointers, int wide_indices, \
		global const void *pointers, global const void *indices, global const float *values, \
		global const long *views
#define CSR_MAKE \
	const KernelCsr m = {rows, columns, view_rows, wide_pointers, wide_indices, pointers, \
		indices, values, views}
#define BATCH \
	long count, long most, global const long *ray, long ray0, global long *index, \
		global long *entries, global float *weight
#define BATCH_MAKE \
	const KernelBatch batch = {count, most, ray + ray0 / 2, index, entries, weight}

/* WIDE items for a row. */
PLANE do_csr_forward(CSR, int power, global const float *x, long x0, global float *y, long y0)
{
	CSR_MAKE;
	local double sums[HIGH][WIDE];
	int lane = get_local_id(0), own = get_local_id(1);
	for (long first = get_group_id(1) * HIGH; first < rows; first += get_global_size(1)) {
		long r = first + own;
		sums[own][lane] = r < rows ? csr_sum(&m, r, power, x + x0, lane, WIDE) : 0;
		for (int half_of = WIDE / 2; half_of > 0; half_of /= 2) {
			barrier(CLK_LOCAL_MEM_FENCE);
			if (lane < half_of)
				sums[own][lane] += sums[own][lane + half_of];
		}
		if (lane == 0 && r < rows)
			y[y0 + r] = (float)sums[own][0];
		barrier(CLK_LOCAL_MEM_FENCE);
	}
}

PLANE do_csr_adjoint(CSR, int power, global const float *y, long y0, global float *x, long x0)
{
	CSR_MAKE;
	EACH(r, 1, rows)
		csr_spread(&m, r, power, y[y0 + r], x + x0, get_local_id(0), WIDE);
}

PLANE do_csr_list(CSR, BATCH)
{
	CSR_MAKE;
	BATCH_MAKE;
	EACH(i, 1, count)
		csr_list(&m, &batch, i, get_local_id(0), WIDE);
}

/* ---- symmetric compressed rows -------------------------------------------------------------- */

#define SCSR \
	KernelSlabs of, global const int *entry, global const float *entry_weight, \
		global const KernelGroup *groups, global const KernelPair *pairs, \
		global const long *waves, global const long *first_wave, global const int *place, \
		global const KernelOrbit *orbit, global const long *lane_of, global float *image, \
		global float *work
#define SCSR_MAKE \
	const KernelScsr m = {of, entry, entry_weight, groups, pairs, waves, first_wave, place, orbit, \
		lane_of, image, work}

LINE do_scsr_images(SCSR, global const float *in, long in0)
{
	SCSR_MAKE;
	EACH(i, 0, of.nx * of.ny * of.lanes)
		image[i] = in[in0 + scsr_pixel(&m, i / of.lanes, i % of.lanes)];
}

/* Entries [from, to) of a pair, times their pixels. */
static inline void sum_run(const KernelScsr *m, const KernelGroup *group, int p, int from, int to,
	int power, global float *sums)
{
	float sum[STORED_LANES] = {0};
	for (int t = from; t < to; t++) {
		long at = group->at + (long)t * group->pairs + p;
		float w = stored_raised(m->weight[at], power);
		for (int g = 0; g < m->of.lanes; g++)
			sum[g] += w * m->image[m->index[at] * m->of.lanes + g];
	}
	for (int g = 0; g < m->of.lanes; g++)
		sums[g] = sum[g];
}

/* Sums of the pieces of rays in the slabs, of the orbits [first, end). */
LINE do_scsr_forward(SCSR, int power, long first, long end)
{
	SCSR_MAKE;
	int team = get_local_id(0) / TEAM, p = get_local_id(0) % TEAM;
	long slab = get_group_id(0) % of.slabs, share = get_group_id(0) / of.slabs;
	long kept = scsr_rows_between(&m, first, end);
	for (long i = first + share; i < end; i += of.shares) {
		long wave = slab * of.orbits + orbit[i].number;
		long low = waves[first_wave[wave]], high = waves[first_wave[wave + 1]];
		global float *sums =
			work + (slab * kept + orbit[i].slot - orbit[first].slot) * of.lanes;
		for (long g = low + team; g < high; g += TEAMS) {
			const KernelGroup group = groups[g];
			if (p >= group.pairs)
				continue;
			const KernelPair pair = pairs[group.pair + p];
			sum_run(&m, &group, p, 0, pair.turn, power,
				sums + pair.column[0] * of.lanes);
			if (pair.column[1] >= 0)
				sum_run(&m, &group, p, pair.turn, group.width, power,
					sums + pair.column[1] * of.lanes);
		}
	}
}

PLANE do_scsr_totals(SCSR, long first, long end, global float *out, long out0)
{
	SCSR_MAKE;
	long kept = scsr_rows_between(&m, first, end);
	EACH(o, 1, end - first)
	EACH(i, 0, orbit[first + o].columns * of.lanes) {
		long column = i / of.lanes;
		long row = scsr_lane_row(&m, &orbit[first + o], column, i % of.lanes);
		if (row >= 0)
			out[out0 + row] = scsr_total(
				&m, first, kept, &orbit[first + o], column, i % of.lanes);
	}
}

PLANE do_scsr_rows(SCSR, global const float *in, long in0)
{
	SCSR_MAKE;
	EACH(o, 1, of.used)
	EACH(i, 0, orbit[o].columns * of.lanes) {
		long row = scsr_lane_row(&m, &orbit[o], i / of.lanes, i % of.lanes);
		work[orbit[o].slot * of.lanes + i] = row < 0 ? 0 : in[in0 + row];
	}
}

/* What a pair adds to the pixels; padding names a pixel that another item may have. */
static inline void spread_pair(const KernelScsr *m, const KernelGroup *group, int p, int power,
	global const float *rows, global float *share)
{
	const KernelPair pair = m->pairs[group->pair + p];
	for (int t = 0; t < group->width; t++) {
		long at = group->at + (long)t * group->pairs + p;
		float w = stored_raised(m->weight[at], power);
		int column = pair.column[t >= pair.turn];
		for (int g = 0; w != 0 && g < m->of.lanes; g++)
			share[m->index[at] * m->of.lanes + g] += w * rows[column * m->of.lanes + g];
	}
}

LINE do_scsr_adjoint(SCSR, int power)
{
	SCSR_MAKE;
	int team = get_local_id(0) / TEAM, p = get_local_id(0) % TEAM;
	long slab = get_group_id(0) % of.slabs, share = get_group_id(0) / of.slabs;
	long pixels = of.nx * of.slab_size, from = slab * pixels;
	long to = min(from + pixels, of.nx * of.ny);
	global float *own = image + share * of.nx * of.ny * of.lanes;
	for (long i = from * of.lanes + get_local_id(0); i < to * of.lanes; i += GROUP)
		own[i] = 0;
	for (long i = share; i < of.used; i += of.shares) {
		global const long *range = first_wave + slab * of.orbits + orbit[i].number;
		for (long w = range[0]; w < range[1]; w++) {
			barrier(CLK_GLOBAL_MEM_FENCE);
			for (long g = waves[w] + team; g < waves[w + 1]; g += TEAMS) {
				const KernelGroup group = groups[g];
				if (p < group.pairs)
					spread_pair(&m, &group, p, power,
						work + orbit[i].slot * of.lanes, own);
			}
		}
	}
}

LINE do_scsr_collect(SCSR, global float *out, long out0)
{
	SCSR_MAKE;
	EACH(i, 0, of.nx * of.ny)
		out[out0 + i] = scsr_collect(&m, i);
}

LINE do_scsr_list(SCSR, BATCH)
{
	SCSR_MAKE;
	BATCH_MAKE;
	EACH(i, 0, count)
		scsr_list(&m, &batch, i);
}

/* ---- rows, one after the other -------------------------------------------------------------- */

PLANE do_weigh(BATCH, global const float *rays, long rays0, global const float *voxels, long voxels0)
{
	BATCH_MAKE;
	EACH(i, 1, count)
		for (long k = get_local_id(0); k < entries[i]; k += WIDE)
			batch_weigh(&batch, i, k, rays ? rays + rays0 : 0,
				voxels ? voxels + voxels0 : 0);
}

/* One work-group. */
LINE do_visit(BATCH, global const float *b, long b0, global const float *squares, long squares0,
	global float *r, long r0, global float *x, long x0, double lambda, double least, float low,
	float high)
{
	BATCH_MAKE;
	const KernelVisits v = {b + b0, squares + squares0, r + r0, x + x0, lambda, least, low, high};
	local double sums[GROUP];
	int own = get_local_id(0);
	for (long i = 0; i < count; i++) {
		long at = batch.ray[i], n = entries[i];
		double sum = 0;
		for (long k = own; k < n; k += GROUP)
			sum += (double)weight[i * most + k] * v.x[index[i * most + k]];
		sums[own] = sum;
		for (int pairs = GROUP / 2; pairs > 0; pairs /= 2) {
			barrier(CLK_LOCAL_MEM_FENCE);
			if (own < pairs)
				sums[own] += sums[own + pairs];
		}
		barrier(CLK_LOCAL_MEM_FENCE);
		float step = visits_step(&v, at, sums[0]);
		if (own == 0)
			v.r[at] = (float)(v.b[at] - sums[0]);
		for (long k = own; k < n; k += GROUP)
			visits_move(&v, index[i * most + k], weight[i * most + k], step);
		barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
	}
}
