/* Textures over transposed views, and the kernels that use texture units alone; see
 * slices_back_texture.h. */
#include "backend/cuda/literature/slices_back_texture.h"

enum {
	LINE_BYTES = 64,
	PLANE_BYTES = 512,
	MOST_COLUMNS = 131072, /* limit of textures over linear memory */
	MOST_VIEWS = 65000,
	LEAST_SLICES = 4,
	HEAD = 128, /* floats before the texels */
	THREADS = TEXTURE_SIDE * TEXTURE_SIDE
};

static_assert((int)SLICES_AT_ONCE <= (int)MOST_TEXTURES);

/* ---- texels ---------------------------------------------------------------------------------- */

/* Texels in device memory: [group of slices][view][column]. */
typedef struct {
	char *data;
	int slices;          /* slices per texel; 4: as halves */
	int64_t line, plane; /* strides of views and of groups, in bytes */
	const HatView *views;
	const unsigned *largest;
} Texels;

static int64_t rounded_up(int64_t n, int64_t unit)
{
	return (n + unit - 1) / unit * unit;
}

static Texels texels_of(const Transposed *y, int slices)
{
	int64_t line = rounded_up(y->nj * (slices == 1 ? 4 : 8), LINE_BYTES);
	return Texels{
		.slices = slices, .line = line, .plane = rounded_up(line * y->nk, PLANE_BYTES)};
}

static int groups_of(const Transposed *y, int slices)
{
	return (int)((y->slices + slices - 1) / slices);
}

int64_t texture_floats(const Transposed *y, int slices)
{
	return HEAD + texels_of(y, slices).plane * groups_of(y, slices) / (int64_t)sizeof(float);
}

template <int SLICES> static __device__ void store_texel(char *at, const float *x)
{
	if constexpr (SLICES == 1)
		*(float *)at = x[0];
	else if constexpr (SLICES == 2)
		*(float2 *)at = make_float2(x[0], x[1]);
	else {
		((__half2 *)at)[0] = __floats2half2_rn(x[0], x[1]);
		((__half2 *)at)[1] = __floats2half2_rn(x[2], x[3]);
	}
}

template <int SLICES>
static __global__ void fill_texels(
	const __grid_constant__ Transposed y, const __grid_constant__ Texels t)
{
	int64_t j = (int64_t)blockIdx.x * THREADS + threadIdx.x;
	int64_t slice = (int64_t)blockIdx.y * SLICES;
	if (j >= y.nj)
		return;
	float scale = t.largest ? power_of_two(scale_exponent(*t.largest)) : 1;
	for (int64_t k = blockIdx.z; k < y.nk; k += gridDim.z) {
		float x[SLICES], weight = t.views[k].weight * scale;
		for (int i = 0; i < SLICES; i++)
			x[i] = slice + i < y.slices
				       ? weight *
						 y.outside[(slice + i) * y.si + j * y.sj + k * y.sk]
				       : 0;
		store_texel<SLICES>(t.data + blockIdx.y * t.plane + k * t.line +
					    j * sizeof(float) * (SLICES == 1 ? 1 : 2),
			x);
	}
}

/* ---- textures -------------------------------------------------------------------------------- */

static tomos_status make_texture(
	const Texels *t, int group, int64_t columns, int64_t views, cudaTextureObject_t *texture)
{
	cudaResourceDesc about = {.resType = cudaResourceTypePitch2D};
	about.res.pitch2D.devPtr = t->data + group * t->plane;
	about.res.pitch2D.desc = t->slices == 1   ? cudaCreateChannelDesc<float>()
				 : t->slices == 2 ? cudaCreateChannelDesc<float2>()
						  : cudaCreateChannelDescHalf4();
	about.res.pitch2D.width = (size_t)columns;
	about.res.pitch2D.height = (size_t)views;
	about.res.pitch2D.pitchInBytes = (size_t)t->line;
	cudaTextureDesc how = {};
	how.addressMode[0] = how.addressMode[1] = cudaAddressModeBorder; /* zeros */
	how.filterMode = cudaFilterModeLinear;
	how.readMode = cudaReadModeElementType;
	CUDA_TRY(cudaCreateTextureObject(texture, &about, &how, NULL), "making a texture");
	return TOMOS_OK;
}

static bool is_made(const CudaTextures *c, const Texels *t, const Transposed *y, int count)
{
	return c->count >= count && c->data == t->data && c->slices == t->slices &&
	       c->columns == y->nj && c->views == y->nk;
}

/* Waits first: kernels may still use these textures. */
static tomos_status drop_textures(CudaDevice *d)
{
	if (d->textures.count > 0)
		CUDA_TRY(cudaStreamSynchronize(d->stream), "its work");
	while (d->textures.count > 0)
		CUDA_TRY(cudaDestroyTextureObject(d->textures.of[--d->textures.count]),
			"giving up a texture");
	return TOMOS_OK;
}

static tomos_status need_textures(CudaDevice *d, const Texels *t, const Transposed *y, int count)
{
	CudaTextures *c = &d->textures;
	if (is_made(c, t, y, count))
		return TOMOS_OK;
	TRY(drop_textures(d));
	c->data = t->data;
	c->slices = t->slices;
	c->columns = y->nj;
	c->views = y->nk;
	for (; c->count < count; c->count++)
		TRY(make_texture(t, c->count, y->nj, y->nk, &c->of[c->count]));
	return TOMOS_OK;
}

tomos_status texture_fill(tomos_backend *backend, const Transposed *y, const HatView *views,
	int slices, float *scratch, Texture *s)
{
	CudaDevice *d = device_of(backend);
	Texels t = texels_of(y, slices);
	int count = groups_of(y, slices);
	t.data = (char *)(scratch + HEAD);
	t.views = views;
	if (slices == 4) {
		s->largest = t.largest = (const unsigned *)scratch;
		TRY(largest_value(backend, y, views, (unsigned *)scratch));
	}
	dim3 blocks(cuda_blocks(y->nj, THREADS, 1 << 30), (unsigned)count,
		cuda_blocks(y->nk, 1, 65535));
	(slices == 1          ? fill_texels<1>
		: slices == 2 ? fill_texels<2>
			      : fill_texels<4>)<<<blocks, THREADS, 0, d->stream>>>(*y, t);
	CUDA_LAUNCHED("transposing an array");
	TRY(need_textures(d, &t, y, count));
	for (int i = 0; i < MOST_TEXTURES; i++) /* blocks may fetch from more textures, and
	                                         * ignore the values */
		s->of[i] = d->textures.of[min(i, count - 1)];
	return TOMOS_OK;
}

/* ---- a whole request ------------------------------------------------------------------------- */

template <int SLICES, int PIXELS>
static __global__ void __launch_bounds__(THREADS) texture_back(const __grid_constant__ Texture s)
{
	__shared__ float4 lines[TEXTURE_VIEWS];
	texture_sum<TextureShare<SLICES, PIXELS, 1>>(&s, lines, blockIdx.x * TEXTURE_SIDE,
		blockIdx.y * TEXTURE_SIDE * PIXELS, blockIdx.z);
}

bool texture_fits(const ProjectRequest *what, HatSlices *l)
{
	const Plan *plan = what->plan;
	if (plan->model.planar || plan->model.columns > MOST_COLUMNS || what->count > MOST_VIEWS ||
		!hat_slices(what, l))
		return false;
	int64_t low, high;
	slices_range(what, l, &low, &high);
	return high - low >= LEAST_SLICES;
}

/* Texels of four slices are halves: they apply only to data that may be rounded to halves. */
template <int SLICES> static bool texture_applies(const ProjectRequest *what, CudaNotes *notes)
{
	return (SLICES < 4 || what->plan->data == DATA_HALF) &&
	       texture_fits(what, notes_of<HatSlices>(notes));
}

Texture texture_of(
	const ProjectRequest *what, const HatSlices *l, const HatView *views, int64_t count)
{
	const Box *box = &what->box;
	return Texture{.views = views,
		.count = (int)count,
		.na = (int)(box->high[l->a] - box->low[l->a]),
		.nb = (int)(box->high[l->b] - box->low[l->b]),
		.low_a = box->low[l->a],
		.low_b = box->low[l->b]};
}

template <int SLICES, int PIXELS>
static tomos_status run_slices(tomos_backend *backend, const ProjectRequest *what,
	const HatSlices *l, const HatView *views, int64_t slice, int64_t slices,
	const CudaEpilogue *)
{
	Transposed x = transposed_volume(what, l, slice, slices, 1);
	Transposed y = transposed_views(what, l, slice, slices, 1);
	Texture s = texture_of(what, l, views, what->count);
	float *scratch;
	TRY(cuda_scratch(
		backend, SCRATCH_ROWS, texture_floats(&y, SLICES), &scratch, "rows of slices"));
	TRY(texture_fill(backend, &y, views, SLICES, scratch, &s));
	s.slices = (int)slices;
	s.to = x.outside;
	s.si = x.si;
	s.sj = x.sj;
	s.sk = x.sk;
	dim3 blocks(cuda_blocks(s.na, TEXTURE_SIDE, 1 << 30),
		cuda_blocks(s.nb, TEXTURE_SIDE * PIXELS, 65535), (unsigned)groups_of(&y, SLICES));
	texture_back<SLICES, PIXELS><<<blocks, THREADS, 0, device_of(backend)->stream>>>(s);
	CUDA_LAUNCHED("projecting slices");
	return TOMOS_OK;
}

template <int SLICES, int PIXELS>
static tomos_status texture_run(tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const CudaEpilogue *epilogue)
{
	return slices_each(backend, what, notes, epilogue, SlicesScratch{SLICES, 0, 1, 0},
		run_slices<SLICES, PIXELS>);
}

#define ROW(id, slices) \
	extern const CudaKernel cuda_##id; \
	const CudaKernel cuda_##id = {texture_applies<slices>, texture_run<slices, 4>};
ROW(slices_back_texture_1, 1)
ROW(slices_back_texture_2, 2)
ROW(slices_back_texture_4h, 4)
