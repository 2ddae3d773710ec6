/* SCSR, after X. Yu, H. Wang, W. Feng, H. Gong, G. Cao, "cuART: fine-grained algebraic
 * reconstruction technique for computed tomography images on GPUs" (CCGrid 2019).
 *
 * The symmetries of the square map rays on rays and pixels on pixels, so of all rays that are
 * images of one another one is stored. The image is cut into slabs, of whole pixel rows for threads
 * and rectangles for devices, and the rays with it. Those pieces of rays of one view and slab that
 * share no pixel are sorted by length, the longest paired with the shortest, and similar pairs put
 * together in groups. A group is dense: column by column, one entry of each pair. Its columns are
 * cut in three: those in which every pair is still in its long row, those in which pairs go over to
 * the short row (bits say where), and those of short rows alone. The pixels of one column differ,
 * so a column can be added to them at once; the same arrays serve A and A'.
 */
#ifndef TOMOS_OP_SCSR_SCSR_H
#define TOMOS_OP_SCSR_SCSR_H

#include "op/matrix.h"

enum {
	SYMMETRIES = 8,
	PAIRS = 8, /* of a group, at most */
};

/* A symmetry maps pixel (x, y) to index origin + x along_x + y along_y. */
typedef struct {
	bool swap, flip[2]; /* first x and y are exchanged, then mirrored */
	int64_t origin, along_x, along_y;
} Symmetry;

/* A stored view, and the images of its rays under each symmetry. */
typedef struct {
	int64_t number; /* among all orbits of the matrix */
	int64_t view;
	int64_t target[SYMMETRIES]; /* view; -1: none, or already the target of another lane */
	bool flip[SYMMETRIES];      /* the columns are reversed */
	bool again[SYMMETRIES];     /* the target of an earlier lane with the columns reversed */
	int64_t columns; /* stored: all, or half where the view is its own mirror image */
	int64_t first;   /* stored row of column 0 */
	int64_t slot;    /* likewise among the rows in use */
} Orbit;

typedef struct {
	int count;
	Symmetry list[SYMMETRIES];
	int inverse[SYMMETRIES]; /* places in the list */
	Orbit *orbits;
	int64_t orbit_count, rows; /* stored */
} Symmetries;

tomos_status symmetries_find(Symmetries *found, const Lister *lister);
void symmetries_free(Symmetries *found);

/* Entry (t, p) of the dense matrix lies at `at` + t pairs + p. */
typedef struct {
	int64_t at, masks;       /* first of the entries; of the masks */
	int32_t pair, pairs;     /* first of its pairs; how many */
	int32_t one, two, width; /* where the sub-matrices end */
	int32_t opens;           /* the first of those that share no pixel with one another */
} Group;

/* The stored rays in the form that devices use; see kernel/stored.h. */
typedef struct {
	int64_t count, waves, bundles;
	KernelPiece *list;    /* and one more */
	int64_t *first_piece; /* of each wave, and one more */
	int64_t *first_wave;  /* [slab][orbit], and one more */
} ScsrPieces;

/* The stored rays; an operator and its parts use the same ones. */
typedef struct {
	int64_t nx, ny, pixels, view_columns;
	int64_t slabs, slab_size, slab_width,
		across; /* rows and columns of a slab; slabs side by side */
	int64_t rows, orbits, groups, pairs, entries, mask_count;
	int64_t longest; /* row */
	/* Rays of a view at least this many columns apart share no voxel; 0: not known. */
	int64_t disjoint_columns;
	int32_t *index;
	float *weight;
	uint8_t *masks;       /* bit p of column `one` + i of a group: pair p goes over here */
	int32_t *column;      /* [pair][2] of the view, long and short; -1: there is no short row */
	int32_t *place;       /* [slab][stored row]: 2 pair + (0 long, 1 short), or -1 */
	Group *group;         /* in the order of slabs, then orbits */
	int64_t *first_group; /* [slab][orbit], and one more */
	ScsrPieces pieces;    /* on devices */
	KernelScsr device;    /* their arrays */
} ScsrRows;

typedef struct {
	Symmetries symmetries;
	ScsrRows *rows;
	bool borrowed; /* the rows belong to another operator */
	int64_t *
		lanes; /* [view][2]: orbit * SYMMETRIES + symmetry, straight and with flip, or -1 */
	int64_t views;
	KernelScsr device; /* the rows' arrays, and its own orbits */
} Scsr;

/* `slab_bytes`: size of a slab of all images on a device; 0: slabs for CPU threads. */
tomos_status scsr_build(Scsr *scsr, Lister *lister, int64_t slab_bytes);
/* Of the arrays on a device, those of the rows; and of an operator or a part, with the units of
 * work that it is cut into, of which scsr_units tells the most but for one in each slab. */
tomos_status scsr_send_pieces(ScsrRows *rows, const Symmetries *s, tomos_backend *backend);
tomos_status scsr_send_units(Scsr *scsr, tomos_backend *backend);
int64_t scsr_units(const ScsrRows *rows, int64_t bundles);
/* The arrays on a device: of the rows with the images they need, unless they are borrowed, and of
 * the orbits. */
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
