/* Lists the voxels and weights of every ray with the reference kernels. */
#include <string.h>
#include "op/matrix.h"

#define KERNEL_HEADERS
#include "kernel/kernels.def"
#undef KERNEL_HEADERS

enum {
	LANES = 64,  /* number of tasks; each has its own buffers */
	PART = 1024, /* rays of a part */
	FEW = 48,    /* up to this number insertion sort is faster */
	DIGIT = 11,  /* bits of one pass of the radix sort */
	DIGITS = 1 << DIGIT,
};

typedef void (*ListRay)(const KernelGrid *, const KernelModel *, const KernelRay *, KernelMeet *);
typedef void (*ListVoxel)(const KernelGrid *, const KernelModel *, const KernelView *,
	const int64_t at[3], KernelMeet *);

#define LIST_RAY(id) \
	static void id##_list(const KernelGrid *grid, const KernelModel *model, \
		const KernelRay *ray, KernelMeet *meet) \
	{ \
		id##_ray(grid, model, ray, MEET_LIST, meet); \
	}
#define LIST_VOXEL(id) \
	static void id##_list(const KernelGrid *grid, const KernelModel *model, \
		const KernelView *view, const int64_t at[3], KernelMeet *meet) \
	{ \
		id##_voxel(grid, model, view, at, MEET_LIST, meet); \
	}
#define KERNEL(id, name, family, weights, help) LIST_##family(id)
#include "kernel/kernels.def"
#undef KERNEL

#define ROW_RAY(id) {.ray = id##_list},
#define ROW_VOXEL(id) {.voxel = id##_list},
#define KERNEL(id, name, family, weights, help) ROW_##family(id)
static const struct {
	ListRay ray;
	ListVoxel voxel;
} lists[KERNEL_COUNT] = {
#include "kernel/kernels.def"
};
#undef KERNEL

/* Scratch memory of one task: entries, and space to sort them. */
typedef struct {
	int64_t *index, *spare;
	float *weight, *spare_weight;
} Scratch;

typedef struct {
	const Lister *lister;
	const Part *parts;
	int64_t count, lanes;
	int64_t *counts;
	ListerPut put;
	void *user;
	Scratch scratch[LANES];
	int64_t longest[LANES];
} Listing;

/* ---- order of a row ------------------------------------------------------------------------- */

static bool is_sorted(const int64_t *index, int64_t count)
{
	for (int64_t i = 1; i < count; i++)
		if (index[i] < index[i - 1])
			return false;
	return true;
}

static void sort_few(int64_t *index, float *weight, int64_t count)
{
	for (int64_t i = 1; i < count; i++) {
		int64_t key = index[i], j = i;
		float value = weight[i];
		for (; j > 0 && index[j - 1] > key; j--) {
			index[j] = index[j - 1];
			weight[j] = weight[j - 1];
		}
		index[j] = key;
		weight[j] = value;
	}
}

/* One stable pass over the digit that begins at bit `shift`, from `index` into `spare`. */
static void sort_digit(const Scratch *s, int64_t count, int shift)
{
	uint32_t at[DIGITS + 1] = {0};
	for (int64_t i = 0; i < count; i++)
		at[(s->index[i] >> shift & (DIGITS - 1)) + 1]++;
	for (int d = 0; d < DIGITS; d++)
		at[d + 1] += at[d];
	for (int64_t i = 0; i < count; i++) {
		uint32_t to = at[s->index[i] >> shift & (DIGITS - 1)]++;
		s->spare[to] = s->index[i];
		s->spare_weight[to] = s->weight[i];
	}
}

static void sort_row(Scratch *s, int64_t count, int64_t voxels)
{
	if (is_sorted(s->index, count))
		return;
	if (count <= FEW) {
		sort_few(s->index, s->weight, count);
		return;
	}
	for (int shift = 0; shift < 63 && voxels >> shift > 0; shift += DIGIT) {
		sort_digit(s, count, shift);
		*s = (Scratch){s->spare, s->index, s->spare_weight, s->weight};
	}
}

/* ---- rays and voxels of a part --------------------------------------------------------------- */

static KernelMeet meet_ray(const Lister *l, int64_t view, int64_t pixel, const Scratch *s)
{
	const Plan *plan = &l->plan;
	KernelMeet meet = {.index = s ? s->index : NULL, .weight = s ? s->weight : NULL};
	KernelRay ray = kernel_ray(&plan->whole, &plan->views[view], pixel / plan->model.columns,
		pixel % plan->model.columns);
	lists[l->kernel].ray(&plan->whole, &plan->model, &ray, &meet);
	return meet;
}

static void ray_counts(Listing *l, int64_t lane, const Part *part)
{
	for (int64_t pixel = part->low; pixel < part->high; pixel++) {
		KernelMeet meet = meet_ray(l->lister, part->view, pixel, NULL);
		l->counts[part->first + pixel - part->low] = meet.count;
		l->longest[lane] = max64(l->longest[lane], meet.count);
	}
}

static void ray_rows(Listing *l, int64_t lane, const Part *part)
{
	const int64_t *n = l->lister->plan.grid.n;
	Scratch *s = &l->scratch[lane];
	for (int64_t pixel = part->low; pixel < part->high; pixel++) {
		KernelMeet meet = meet_ray(l->lister, part->view, pixel, s);
		sort_row(s, meet.count, n[0] * n[1] * n[2]);
		l->put(l->user, part->first + pixel - part->low, meet.count, s->index, s->weight);
	}
}

/* Calls `take` with the pixels of each voxel in turn, so that rows grow in the order of indices. */
static void each_voxel(Listing *l, int64_t lane, const Part *part, bool list,
	void (*take)(Listing *, int64_t lane, const Part *, int64_t voxel, int64_t count))
{
	const Plan *plan = &l->lister->plan;
	const int64_t *n = plan->grid.n;
	const Scratch *s = &l->scratch[lane];
	int64_t at[3], voxel = 0;
	for (at[2] = 0; at[2] < n[2] && !cancel_seen(); at[2]++)
		for (at[1] = 0; at[1] < n[1]; at[1]++)
			for (at[0] = 0; at[0] < n[0]; at[0]++, voxel++) {
				KernelMeet meet = {.index = list ? s->index : NULL,
					.weight = list ? s->weight : NULL};
				lists[l->lister->kernel].voxel(&plan->whole, &plan->model,
					&plan->views[part->view], at, &meet);
				take(l, lane, part, voxel, meet.count);
			}
}

static void take_longest(Listing *l, int64_t lane, const Part *part, int64_t voxel, int64_t count)
{
	(void)part;
	(void)voxel;
	l->longest[lane] = max64(l->longest[lane], count);
}

static void take_counts(Listing *l, int64_t lane, const Part *part, int64_t voxel, int64_t count)
{
	(void)voxel;
	for (int64_t i = 0; i < count; i++) {
		int64_t pixel = l->scratch[lane].index[i];
		if (pixel >= part->low && pixel < part->high)
			l->counts[part->first + pixel - part->low]++;
	}
}

static void take_entries(Listing *l, int64_t lane, const Part *part, int64_t voxel, int64_t count)
{
	const Scratch *s = &l->scratch[lane];
	for (int64_t i = 0; i < count; i++)
		if (s->index[i] >= part->low && s->index[i] < part->high)
			l->put(l->user, part->first + s->index[i] - part->low, 1, &voxel,
				&s->weight[i]);
}

static void voxel_longest(Listing *l, int64_t lane, const Part *part)
{
	each_voxel(l, lane, part, false, take_longest);
}

static void voxel_counts(Listing *l, int64_t lane, const Part *part)
{
	memset(&l->counts[part->first], 0, (size_t)(part->high - part->low) * sizeof *l->counts);
	each_voxel(l, lane, part, true, take_counts);
}

static void voxel_rows(Listing *l, int64_t lane, const Part *part)
{
	each_voxel(l, lane, part, true, take_entries);
}

/* ---- all parts ------------------------------------------------------------------------------- */

typedef struct {
	Listing *listing;
	void (*work)(Listing *, int64_t lane, const Part *);
} Lanes;

static void run_lane(void *user, int64_t lane)
{
	const Lanes *lanes = user;
	Listing *l = lanes->listing;
	for (int64_t i = lane; i < l->count && !cancel_seen(); i += l->lanes)
		lanes->work(l, lane, &l->parts[i]);
}

/* Allocates `longest` entries for each lane and distributes the parts over the lanes. */
static tomos_status run_lanes(
	Listing *l, int64_t longest, void (*work)(Listing *, int64_t lane, const Part *))
{
	int64_t *index = NULL, capacity;
	float *weight = NULL;
	tomos_status status = TOMOS_OK;
	l->lanes = min64(l->count, LANES);
	if (!size_mul(longest, 2 * LANES, &capacity))
		capacity = -1;
	TRY_OR_DONE(mem_alloc(&index, capacity, sizeof *index, "the entries of matrix rows"));
	TRY_OR_DONE(mem_alloc(&weight, capacity, sizeof *weight, "the weights of matrix rows"));
	for (int64_t i = 0; i < LANES; i++)
		l->scratch[i] = (Scratch){index + 2 * i * longest, index + (2 * i + 1) * longest,
			weight + 2 * i * longest, weight + (2 * i + 1) * longest};
	status = parallel_try(l->lanes, run_lane, &(Lanes){l, work}, "the matrix");
done:
	mem_free(index);
	mem_free(weight);
	return status;
}

static int64_t longest_of(const Listing *l)
{
	int64_t longest = 0;
	for (int64_t i = 0; i < l->lanes; i++)
		longest = max64(longest, l->longest[i]);
	return longest;
}

static bool by_rays(const Lister *lister)
{
	return kernel_rows[lister->kernel].family == FAMILY_RAY;
}

tomos_status lister_open(Lister *lister, const tomos_grid *grid, const tomos_geometry *scan,
	int kernel, const KernelModel *model)
{
	*lister = (Lister){.kernel = kernel};
	TRY(plan_make(&lister->plan, grid, scan, model));
	lister->pixels = scan->rows * scan->columns;
	return TOMOS_OK;
}

void lister_close(Lister *lister)
{
	plan_free(&lister->plan);
}

tomos_status lister_parts(const Lister *lister, Part **parts, int64_t *count)
{
	/* Voxel-driven kernels visit all voxels for each part, so a part is a whole view. */
	int64_t size = by_rays(lister) ? PART : lister->pixels;
	int64_t each = (lister->pixels + size - 1) / size;
	*count = each * lister->plan.scan->count;
	TRY(mem_alloc(parts, *count, sizeof **parts, "the parts of a matrix"));
	for (int64_t i = 0; i < *count; i++) {
		int64_t low = i % each * size, high = min64(low + size, lister->pixels);
		(*parts)[i] = (Part){i / each, low, high, i / each * lister->pixels + low};
	}
	return TOMOS_OK;
}

tomos_status lister_count(Lister *lister, const Part *parts, int64_t count, int64_t *counts)
{
	Listing l = {.lister = lister, .parts = parts, .count = count, .counts = counts};
	bool rays = by_rays(lister);
	TRY(run_lanes(&l, 0, rays ? ray_counts : voxel_longest));
	lister->longest = longest_of(&l);
	return rays ? TOMOS_OK : run_lanes(&l, lister->longest, voxel_counts);
}

tomos_status lister_fill(
	const Lister *lister, const Part *parts, int64_t count, ListerPut put, void *user)
{
	Listing l = {.lister = lister, .parts = parts, .count = count, .put = put, .user = user};
	return run_lanes(&l, lister->longest, by_rays(lister) ? ray_rows : voxel_rows);
}
