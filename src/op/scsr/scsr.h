/* SCSR (symmetric compressed rows), after X. Yu, H. Wang, W. Feng, H. Gong, G. Cao, "cuART:
 * fine-grained algebraic reconstruction technique for computed tomography images on GPUs" (CCGrid
 * 2019).
 *
 * The symmetries of the square (rotations by quarter turns and reflections) map rays to rays and
 * pixels to pixels. Of all rays that are images of each other under a symmetry, one is stored; its
 * matrix row serves all of them. A stored view with its images is called an orbit; lane g is the
 * image under symmetry g.
 *
 * The image is divided into slabs (pixel rows for CPU threads, rectangles for devices), and every
 * row of the matrix into one piece per slab. Pieces of the same view and slab that share no pixel
 * are sorted by length, and the longest is paired with the shortest: the short row follows the long
 * one, so that pairs have similar lengths. Up to PAIRS pairs form a group, which is stored as a
 * dense matrix: column t holds entry t of every pair. Its columns have three parts: first every
 * pair is in its long row; then the pairs change to their short rows, at columns that bit masks
 * mark; last all are in their short rows. The pixels of one column are all different, so a whole
 * column can be added to the image at once. The same arrays serve A and A'.
 */
#ifndef TOMOS_OP_SCSR_SCSR_H
#define TOMOS_OP_SCSR_SCSR_H

#include "op/matrix.h"

enum {
	SYMMETRIES = 8,
	PAIRS = 8, /* most pairs of a group */
};

/* A symmetry maps pixel (x, y) to index origin + x along_x + y along_y. */
typedef struct {
	bool swap, flip[2]; /* first x and y are exchanged, then mirrored */
	int64_t origin, along_x, along_y;
} Symmetry;

/* A stored view, and the images of its rays under each symmetry. */
typedef struct {
	int64_t number; /* index among all orbits of the whole matrix */
	int64_t view;
	int64_t target
		[SYMMETRIES];  /* [symmetry]: view that is the image; -1: none, or another lane's */
	bool flip[SYMMETRIES]; /* [symmetry]: the image has the columns in reverse order */
	bool again[SYMMETRIES]; /* an earlier lane has the same target with the columns reversed */
	int64_t columns; /* columns stored: all, or half if the view is its own mirror image */
	int64_t first;   /* index of the stored row of column 0 */
	int64_t slot;    /* likewise, counting only orbits in use */
} Orbit;

typedef struct {
	int count;
	Symmetry list[SYMMETRIES];
	int inverse[SYMMETRIES]; /* index of the inverse of each symmetry */
	Orbit *orbits;
	int64_t orbit_count, rows; /* stored */
} Symmetries;

tomos_status symmetries_find(Symmetries *found, const Lister *lister);
void symmetries_free(Symmetries *found);

/* A group. Entry (t, p), column t of pair p, is at index `at` + t pairs + p of the arrays index and
 * weight. */
typedef struct {
	int64_t at, masks;       /* index of the first entry; of the first mask */
	int32_t pair, pairs;     /* index of the first pair; number of pairs */
	int32_t one, two, width; /* columns at which the three parts end */
	int32_t opens;           /* 1: first group of a set of groups that share no pixel */
} Group;

/* The stored rays in the form that devices use; see kernel/stored.h. */
typedef struct {
	int64_t count, waves, bundles;
	KernelPiece *list;    /* and one more */
	int64_t *first_piece; /* first piece of each wave; one more element than waves */
	int64_t *first_wave;  /* [slab][orbit], and one more */
} ScsrPieces;

/* The stored rows. An operator and its subsets of views share them. */
typedef struct {
	int64_t nx, ny, pixels, view_columns;
	int64_t slabs, slab_size, slab_width,
		across; /* size of a slab in pixel rows and columns; number of slabs along x */
	int64_t rows, orbits, groups, pairs, entries, mask_count;
	int64_t longest; /* row */
	/* Rays of a view at least this many columns apart share no voxel; 0: not known. */
	int64_t disjoint_columns;
	int32_t *index;
	float *weight;
	uint8_t *masks; /* bit p of byte t - one: pair p changes to its short row at column t */
	int32_t *
		column; /* [pair][2]: detector column of the long and short row; -1: no short row */
	int32_t *place; /* [slab][stored row]: 2 pair + (0: long row, 1: short row), or -1 */
	Group *group;   /* in the order of slabs, then orbits */
	int64_t *first_group; /* [slab][orbit], and one more */
	ScsrPieces pieces;    /* used on devices only */
	KernelScsr device;    /* these in device memory */
} ScsrRows;

typedef struct {
	Symmetries symmetries;
	ScsrRows *rows;
	bool borrowed;  /* the rows belong to another operator */
	int64_t *lanes; /* [view][2]: orbit * SYMMETRIES + symmetry, by flip; -1: none */
	int64_t views;
	KernelScsr device; /* the arrays of the rows, and the orbits of this operator */
} Scsr;

/* Builds the matrix of a projector. `slab_bytes`: memory for the pixels of a slab with all their
 * images on a device; 0: slabs for CPU threads. */
tomos_status scsr_build(Scsr *scsr, Lister *lister, int64_t slab_bytes);
/* Device arrays. scsr_send_pieces: those of the stored rows. scsr_send_units: those of an operator
 * or a subset of views, with the units of work into which its product is divided. scsr_units: upper
 * bound on the number of units, not counting one extra per slab. */
tomos_status scsr_send_pieces(ScsrRows *rows, const Symmetries *s, tomos_backend *backend);
tomos_status scsr_send_units(Scsr *scsr, tomos_backend *backend);
int64_t scsr_units(const ScsrRows *rows, int64_t bundles);
/* Uploads all arrays to a device: those of the rows, unless they are borrowed, and those of the
 * orbits. scsr_recall frees them. */
tomos_status scsr_send(Scsr *scsr, tomos_backend *backend);
void scsr_recall(Scsr *scsr, tomos_backend *backend);
void scsr_clear(Scsr *scsr);
tomos_status scsr_number_lanes(Scsr *scsr, int64_t views);
int64_t scsr_bytes(const Scsr *scsr);
/* out = A in and A' in, with the entries to the power 0, 1 or 2. */
tomos_status scsr_forward(const Scsr *scsr, int power, const float *x, float *y);
tomos_status scsr_adjoint(const Scsr *scsr, int power, const float *y, float *x);
tomos_status scsr_sweeper(const Scsr *scsr, int64_t row_most, RowSweeper **made);
void scsr_row(const Scsr *scsr, int64_t view, int64_t column, int64_t *index, float *weight,
	int64_t *count);

#endif
