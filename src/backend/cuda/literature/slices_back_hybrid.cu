/* Back projection with two kinds of blocks in one launch: of each eight pairs of blocks, some
 * interpolate by texture units (slices_back_texture.h) and the others by FMAs
 * (slices_back_shared.h), so that both units are busy.
 *
 * S. Chilingaryan et al., Reviewing GPU architectures to build efficient back projection for
 * parallel geometries, J. Real-Time Image Process. 17 (2020), section 7.1.
 */
#include "backend/cuda/kernels/slices_back_shared.h"
#include "backend/cuda/literature/slices_back_texture.h"

enum { QUADS = 2, TEXEL = 2, OF = 8 };

typedef RowsLayout<QUADS> Layout;
enum {
	TEXELS = Layout::SLICES / TEXEL / 2
}; /* texels per block that uses texture units: half
                                               * of the slices */
static_assert(Layout::BYTES >= TEXTURE_VIEWS * (int)sizeof(float4));
static_assert((int)ROWS_THREADS == 2 * TEXTURE_SIDE * TEXTURE_SIDE);
static_assert((int)ROWS_SIDE == (int)TEXTURE_SIDE);

/* SOME of OF neighbouring pairs of blocks use texture units: each block of the pair then
 * computes the pixels of both and half of the slices. */
template <int SOME>
static __global__ void __launch_bounds__(ROWS_THREADS, 2)
	hybrid_back(const __grid_constant__ Rows rows, const __grid_constant__ Texture texture)
{
	extern __shared__ float4 memory[];
	int pair = blockIdx.x / 2, which = blockIdx.x % 2, b0 = blockIdx.y * ROWS_SIDE;
	if ((pair + blockIdx.y) % OF < SOME)
		texture_sum<TextureShare<TEXEL, 1, TEXELS>>(&texture, memory, pair * 2 * ROWS_SIDE,
			b0, (blockIdx.z * 2 + which) * TEXELS);
	else
		rows_sum<QUADS, false>(&rows, memory, blockIdx.x * ROWS_SIDE, b0, blockIdx.z);
}

static bool hybrid_applies(const ProjectRequest *what, CudaNotes *notes)
{
	HatSlices *l = notes_of<HatSlices>(notes);
	return texture_fits(what, l) && rows_fit(what, l, Layout::BYTES);
}

template <int SOME>
static tomos_status run_slices(tomos_backend *backend, const ProjectRequest *what,
	const HatSlices *l, const HatView *views, int64_t slice, int64_t slices,
	const CudaEpilogue *epilogue)
{
	Rows rows;
	Transposed x, y = transposed_views(what, l, slice, slices, 1);
	Texture texture = texture_of(what, l, views, what->count);
	float *scratch;
	TRY(rows_fill(backend, what, l, views, slice, slices, Layout::SLICES, &rows, &x));
	TRY(cuda_scratch(backend, SCRATCH_LISTS, texture_floats(&y, TEXEL), &scratch, "texels"));
	TRY(texture_fill(backend, &y, views, TEXEL, scratch, &texture));
	texture.slices = (int)x.pitch;
	texture.to = x.inside;
	texture.si = 1;
	texture.sj = x.pitch;
	texture.sk = x.pitch * x.nj;
	texture.fresh = true;
	CUDA_TRY(cudaFuncSetAttribute((const void *)hybrid_back<SOME>,
			 cudaFuncAttributeMaxDynamicSharedMemorySize, Layout::BYTES),
		"asking for shared memory");
	dim3 blocks(2 * cuda_blocks(rows.na, 2 * ROWS_SIDE, 1 << 29),
		cuda_blocks(rows.nb, ROWS_SIDE, 65535),
		cuda_blocks(rows.quads, Layout::LINE, 65535));
	hybrid_back<SOME><<<blocks, ROWS_THREADS, Layout::BYTES, device_of(backend)->stream>>>(
		rows, texture);
	CUDA_LAUNCHED("projecting slices");
	return transpose_out(backend, &x, epilogue);
}

template <int SOME>
static tomos_status hybrid_run(tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const CudaEpilogue *epilogue)
{
	return slices_each(backend, what, notes, epilogue,
		SlicesScratch{Layout::SLICES, 1, 2, ROWS_MARGIN}, run_slices<SOME>);
}

#define ROW(some) \
	extern const CudaKernel cuda_slices_back_hybrid_##some; \
	const CudaKernel cuda_slices_back_hybrid_##some = {hybrid_applies, hybrid_run<some>};
ROW(1)
ROW(2)
ROW(3)
