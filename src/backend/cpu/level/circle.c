/* Voxels and their images rotated by 90, 180 and 270 degrees, side by side (circle.h). */
#include "backend/cpu/level/circle.h"

enum { SQUARE = 16 }; /* voxels: images along y are across the rows of the volume */

typedef struct {
	const Circle *circle;
	CircleImage images[IMAGES];
	const Box *box;
	const int64_t *stride;
} Images;

static Images images_of(
	const ProjectRequest *what, const Circle *circle, const Box *box, const int64_t stride[3])
{
	Images s = {.circle = circle, .box = box, .stride = stride};
	for (int k = 0; k < IMAGES; k++)
		s.images[k] = circle_image(what, circle, k);
	return s;
}

/* The squares of a slice: what a voxel of it has along x and y. */
typedef struct {
	float *voxels[IMAGES], *quads;
	int64_t from[2], to[2]; /* x and y */
} Square;

/* Voxels all images of which are their own. */
INLINE void move_square(const Images *s, const Square *q, const int gives)
{
	for (int64_t x = q->from[0]; x < q->to[0]; x++)
		for (int64_t y = q->from[1]; y < q->to[1]; y++) {
			float *to = q->quads + x * s->stride[0] + y * s->stride[1];
			quad all = {0};
			for (int k = 0; k < IMAGES; k++) {
				const int64_t *step = s->images[k].step;
				float *voxel = q->voxels[k] + x * step[0] + y * step[1];
				if (gives)
					*voxel += to[k];
				else
					all[k] = *voxel;
			}
			if (!gives)
				memcpy(to, &all, sizeof all);
		}
}

/* Voxels in the middle row of an odd grid. */
static void move_middle(const Images *s, const Square *q, const int gives)
{
	const int64_t y = s->circle->n / 2;
	for (int64_t x = q->from[0]; x < q->to[0]; x++) {
		const int64_t *step = s->images[0].step;
		float *to = q->quads + x * s->stride[0] + y * s->stride[1];
		float *voxel = q->voxels[0] + x * step[0] + y * step[1];
		if (gives && x == y)
			*voxel += to[0];
		for (int k = 0; k < IMAGES && !gives; k++)
			to[k] = k == 0 && x == y ? *voxel : 0;
	}
}

INLINE void move_slice(const Images *s, int64_t z, float *quads, const int gives)
{
	const Box *box = s->box;
	const int64_t half = min64(s->circle->n / 2, box->high[1]);
	Square q = {.quads = quads};
	for (int a = 0; a < 3; a++)
		q.quads += (a == 2 ? z - box->low[a] : -box->low[a]) * s->stride[a];
	for (int k = 0; k < IMAGES; k++)
		q.voxels[k] = s->images[k].voxels + z * s->images[k].step[2];
	for (q.from[0] = box->low[0]; q.from[0] < box->high[0]; q.from[0] += SQUARE) {
		q.to[0] = min64(q.from[0] + SQUARE, box->high[0]);
		for (q.from[1] = box->low[1]; q.from[1] < half; q.from[1] += SQUARE) {
			q.to[1] = min64(q.from[1] + SQUARE, half);
			move_square(s, &q, gives);
		}
		if (half < box->high[1])
			move_middle(s, &q, gives);
	}
}

INLINE void move_box(const Images *s, float *quads, const int gives)
{
	for (int64_t z = s->box->low[2]; z < s->box->high[2]; z++)
		move_slice(s, z, quads, gives);
}

void LEVEL(circle_take)(const ProjectRequest *what, const Circle *circle, const Box *box,
	float *quads, const int64_t stride[3])
{
	const Images s = images_of(what, circle, box, stride);
	move_box(&s, quads, 0);
}

void LEVEL(circle_give)(const ProjectRequest *what, const Circle *circle, const Box *box,
	const float *quads, const int64_t stride[3])
{
	const Images s = images_of(what, circle, box, stride);
	move_box(&s, (float *)quads, 1);
}
