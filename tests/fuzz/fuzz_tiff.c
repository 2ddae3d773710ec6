/* Any bytes as a TIFF file of one page or many. */
#include "fuzz_tiff.h"
#include "fuzz_array.h"

const Target target = {&format_tiff, TIFF_START, read_array, put_seeds};
