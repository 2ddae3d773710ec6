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

/* One voxel of the box. */
INLINE void move(const Images *s, const int64_t at[3], float *own, const int gives)
{
	const int count = circle_images(s->circle, at[0], at[1]);
	for (int k = 0; k < IMAGES; k++) {
		const CircleImage *image = &s->images[k];
		float *voxel = image->voxels;
		for (int a = 0; a < 3; a++)
			voxel += at[a] * image->step[a];
		if (gives && k < count)
			*voxel += own[k];
		else if (!gives)
			own[k] = k < count ? *voxel : 0;
	}
}

INLINE void move_square(const Images *s, const int64_t from[3], float *quads, const int gives)
{
	const Box *box = s->box;
	int64_t at[3] = {0, 0, from[2]};
	for (at[0] = from[0]; at[0] < min64(from[0] + SQUARE, box->high[0]); at[0]++)
		for (at[1] = from[1]; at[1] < min64(from[1] + SQUARE, box->high[1]); at[1]++) {
			float *to = quads;
			for (int a = 0; a < 3; a++)
				to += (at[a] - box->low[a]) * s->stride[a];
			move(s, at, to, gives);
		}
}

INLINE void move_box(const Images *s, float *quads, const int gives)
{
	const Box *box = s->box;
	int64_t at[3];
	for (at[2] = box->low[2]; at[2] < box->high[2]; at[2]++)
		for (at[1] = box->low[1]; at[1] < box->high[1]; at[1] += SQUARE)
			for (at[0] = box->low[0]; at[0] < box->high[0]; at[0] += SQUARE)
				move_square(s, at, quads, gives);
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
