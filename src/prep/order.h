/* The steps of the preparation that options choose, and their order. */
#ifndef TOMOS_PREP_ORDER_H
#define TOMOS_PREP_ORDER_H

#include "backend/prepare.h"

/* In the order of the values of the option `quantity`, with ANY for auto. */
typedef enum { ANY, COUNTS, TRANSMISSION, INTEGRALS } Quantity;

/* The rows of steps.def, by PREP_<id>. */
typedef struct {
	const char *name;
	Quantity takes, gives;
} StepRow;
extern const StepRow step_rows[PREP_STEPS];

typedef struct {
	int step[PREP_STEPS], count;
} Order;

/* The steps for data with these fields, which may have no images, and the quantity that the data
 * are; replaces `auto` in the options. */
tomos_status order_make(
	Order *order, tomos_prep_options *o, const tomos_fields *fields, Quantity *now);
bool order_has(const Order *order, int step);

#endif
