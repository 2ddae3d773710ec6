/* Products with stored matrices (kernel/stored.h) and rows used one after the other.
 *
 * SCSR: a work-group processes some views in one slab; its items follow the pieces of rays there.
 * In the adjoint the pieces of a wave have no pixel in common; the work-group synchronises between
 * waves.
 */
#include "backend/opencl/device.cl"
#include "backend/opencl/atomic.cl"
#include "kernel/stored.h"

/* ---- compressed rows ------------------------------------------------------------------------ */

#define CSR \
	long rows, long columns, long view_rows, int wide_pointers, int wide_indices, \
		global const void *pointers, global const void *indices, \
		global const float *values, \
		global const long *views
#define CSR_MAKE \
	const KernelCsr m = {rows, columns, view_rows, wide_pointers, wide_indices, pointers, \
		indices, values, views}
#define BATCH \
	long count, long most, global const long *ray, long ray0, global long *index, \
		global long *entries, global float *weight
#define BATCH_MAKE \
	const KernelBatch batch = {count, most, ray + ray0 / 2, index, entries, weight}

/* WIDE items per row. */
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
	KernelSlabs of, global const unsigned short *entry, global const float *entry_weight, \
		global const int *columns, global const KernelPiece *pieces, \
		global const KernelPlace *places, global const long *first_place, \
		global const KernelOrbit *orbit, global const long *lane_of, \
		global const KernelUnit *units, global const int *used_pieces, \
		global const KernelWave *waves, global const long *first_image, \
		global float *image, global float *work
#define SCSR_MAKE \
	const KernelScsr m = {of, entry, entry_weight, columns, pieces, places, first_place, \
		orbit, \
		lane_of, units, used_pieces, waves, first_image, image, work}

/* Images of the slabs under all symmetries. */
PLANE do_scsr_images(SCSR, global const float *in, long in0)
{
	SCSR_MAKE;
	long pixels = of.width * of.height;
	EACH(slab, 1, of.slabs)
	EACH(i, 0, pixels * of.lanes) {
		long x = i % pixels % of.width, y = i % pixels / of.width;
		int g = i / pixels;
		long target = slab_target(&of, slab, x, y, g);
		image[slab * pixels * of.lanes + slab_plane(&of, x, y, g)] =
			target < 0 ? 0 : in[in0 + target];
	}
}

/* Position of the entry's pixel in each image of its slab. */
static inline void find_pixel(const KernelScsr *m, long at, long *planes)
{
	int x = slab_x(&m->of, m->index[at]), y = slab_y(&m->of, m->index[at]);
	for (int g = 0; g < m->of.lanes; g++)
		planes[g] = slab_plane(&m->of, x, y, g);
}

static inline void sum_piece(
	const KernelScsr *m, long number, int power, global const float *slab)
{
	const KernelPiece piece = m->pieces[number];
	float sum[STORED_LANES] = {0};
	for (long at = piece.bundle * STORED_BUNDLE;
		at < (piece.bundle + piece.bundles) * STORED_BUNDLE; at++) {
		long planes[STORED_LANES];
		float w = stored_raised(m->weight[at], power);
		find_pixel(m, at, planes);
		for (int g = 0; g < m->of.lanes; g++)
			sum[g] += w * slab[planes[g]];
	}
	for (int g = 0; g < m->of.lanes; g++)
		m->work[number * m->of.lanes + g] = sum[g];
}

/* Sums of the pieces of rays in the slabs. */
LINE do_scsr_forward(SCSR, int power)
{
	SCSR_MAKE;
	for (long u = get_group_id(0); u < of.units; u += get_num_groups(0)) {
		const KernelUnit unit = units[u];
		global const float *slab = image + unit.slab * of.width * of.height * of.lanes;
		for (long i = unit.piece + get_local_id(0); i < unit.piece_end; i += GROUP)
			sum_piece(&m, used_pieces[i], power, slab);
	}
}

PLANE do_scsr_totals(SCSR, global float *out, long out0)
{
	SCSR_MAKE;
	EACH(o, 1, of.used)
	EACH(i, 0, orbit[o].columns * of.lanes) {
		long column = i / of.lanes;
		long row = scsr_lane_row(&m, &orbit[o], column, i % of.lanes);
		if (row >= 0)
			out[out0 + row] = scsr_total(&m, orbit[o].first + column, i % of.lanes);
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

/* Adds a bundle to the pixels; padding refers to a pixel that another item may update. */
static inline void spread_bundle(const KernelScsr *m, long bundle, int power,
	global const float *values, global float *slab)
{
	for (long at = bundle * STORED_BUNDLE; at < (bundle + 1) * STORED_BUNDLE; at++) {
		long planes[STORED_LANES];
		float w = stored_raised(m->weight[at], power);
		if (w == 0)
			continue;
		find_pixel(m, at, planes);
		for (int g = 0; g < m->of.lanes; g++)
			slab[planes[g]] += w * values[g];
	}
}

static inline void spread_unit(const KernelScsr *m, const KernelUnit *unit, int power)
{
	long size = m->of.width * m->of.height * m->of.lanes;
	global float *own = m->image + unit->image * size;
	for (long i = get_local_id(0); i < size; i += GROUP)
		own[i] = 0;
	for (long w = unit->wave; w < unit->wave_end; w++) {
		const KernelWave wave = m->waves[w];
		barrier(CLK_GLOBAL_MEM_FENCE);
		for (long i = wave.bundle + get_local_id(0); i < wave.bundle + wave.bundles;
			i += GROUP)
			spread_bundle(m, i, power,
				m->work + (wave.slot + m->column[i]) * m->of.lanes, own);
	}
}

LINE do_scsr_adjoint(SCSR, int power)
{
	SCSR_MAKE;
	for (long u = get_group_id(0); u < of.units; u += get_num_groups(0)) {
		const KernelUnit unit = units[u];
		spread_unit(&m, &unit, power);
	}
}

LINE do_scsr_collect(SCSR, global float *out, long out0)
{
	SCSR_MAKE;
	EACH(i, 0, of.nx * of.ny)
		out[out0 + i] = scsr_collect(&m, i % of.nx, i / of.nx);
}

LINE do_scsr_list(SCSR, BATCH)
{
	SCSR_MAKE;
	BATCH_MAKE;
	EACH(i, 0, count)
		scsr_list(&m, &batch, i);
}

/* ---- rows, one after the other -------------------------------------------------------------- */

PLANE do_weigh(
	BATCH, global const float *rays, long rays0, global const float *voxels, long voxels0)
{
	BATCH_MAKE;
	EACH(i, 1, count)
		for (long k = get_local_id(0); k < entries[i]; k += WIDE)
			batch_weigh(&batch, i, k, rays ? rays + rays0 : 0,
				voxels ? voxels + voxels0 : 0);
}

/* Runs as one work-group. */
LINE do_visit(BATCH, global const float *b, long b0, global const float *squares, long squares0,
	global float *r, long r0, global float *x, long x0, double lambda, double least, float low,
	float high)
{
	BATCH_MAKE;
	const KernelKaczmarz v = {
		b + b0, squares + squares0, r + r0, x + x0, lambda, least, low, high};
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
		float step = kaczmarz_step(&v, at, sums[0]);
		if (own == 0)
			v.r[at] = (float)(v.b[at] - sums[0]);
		for (long k = own; k < n; k += GROUP)
			kaczmarz_update(&v, index[i * most + k], weight[i * most + k], step);
		barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
	}
}

/* Runs as one work-item. */
LINE do_view_steps(long rays, long near, global const float *b, long b0,
	global const float *squares, long squares0, global const float *products, long products0,
	global float *r, long r0, global float *steps, long steps0, double lambda, double least)
{
	const KernelKaczmarzView s = {rays, near, b + b0, squares + squares0, products + products0,
		r + r0, steps + steps0, lambda, least};
	for (long i = 0; get_global_id(0) == 0 && i < rays; i++)
		kaczmarz_view_ray(&s, i);
}
