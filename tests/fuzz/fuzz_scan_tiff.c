/* Any bytes as a scan in one TIFF file. */
#include "fuzz_tiff.h"
#include "fuzz_scan.h"

const Target target = {&format_tiff, TIFF_START, read_scan, put_seeds};
