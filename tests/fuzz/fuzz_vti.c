/* Any bytes as a VTI file. */
#include "fuzz_array.h"

#define START "<VTKFile type=\"ImageData\""

static void put_seeds(const char *directory)
{
	put_array(directory, "seed.vti", TOMOS_VOLUME, (int64_t[]){2, 3, 4});
	put_text(directory, "binary.vti",
		START
		" compressor=\"vtkZLibDataCompressor\"><ImageData WholeExtent=\"0 0 0 0 0 0\" "
		"Spacing=\"1 1 1\"><Piece><CellData><DataArray type=\"UInt8\" "
		"format=\"binary\">\n AQAAAAEAAAAAAAAACQAAAA==eJxjBwAACAAI\n</DataArray>");
}

const Target target = {&format_vti, START, sizeof START - 1, read_array, put_seeds};
