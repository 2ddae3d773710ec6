/* Vectors and operators that are distributed over ranks.
 *
 * Every rank has a slab of the volume and a part of the projections; a space of the ranked backend
 * describes the part of this rank. Inner products, norms and differences between slices are those
 * of the whole, so that methods run on such spaces as on any other. All ranks make the same calls.
 */
#ifndef TOMOS_OP_RANKED_H
#define TOMOS_OP_RANKED_H

#include "comm/comm.h"
#include "geom/bands.h"
#include "op/op.h"

/* A backend for the vectors of a rank; `inner` computes, and is closed later. */
tomos_status ranked_open(tomos_backend **ranked, tomos_backend *inner, tomos_comm *comm);
void ranked_close(tomos_backend *ranked);
/* From now on detector rows are sent in half precision; slices always as floats. */
void ranked_use_half(tomos_backend *ranked);
/* The relative error (L2) of all rows that were sent, on every rank. */
tomos_status ranked_rounding(const tomos_backend *ranked, double *relative);

/* The projector of a scan whose rays cross several slabs. bands->slices: the slices of each rank;
 * bands->scan: the views of this rank. Ranks of different slabs have the same views, ranks that
 * share a slab have different ones. The projections of a rank are the rows that its slab owns.
 * Every view has space for the largest number of them; rows that are not needed stay 0. */
tomos_status op_ranked(tomos_op **op, tomos_backend *ranked, const Bands *bands,
	const tomos_projector_options *options);
/* The largest number of rows that a slab owns in a view, and the rows that hold all of them. */
int64_t ranked_rows(const Bands *bands, int slab, RowBand *all);
/* Moves rows `all` of each view to the places of the rows that the slab owns, others become 0. */
void ranked_pack(const Bands *bands, int slab, RowBand all, float *rows);

#endif
