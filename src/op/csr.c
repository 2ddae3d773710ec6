/* Properties of the arrays of compressed rows. */
#include "op/matrix.h"

void csr_free(Csr *csr)
{
	mem_free(csr->pointers);
	mem_free(csr->indices);
	mem_free(csr->values);
	*csr = (Csr){0};
}

int64_t csr_longest(const Csr *csr)
{
	int64_t longest = 0;
	for (int64_t r = 0; r < csr->rows; r++)
		longest = max64(longest, csr_at(csr->pointers, csr->pointer_bytes, r + 1) -
						 csr_at(csr->pointers, csr->pointer_bytes, r));
	return longest;
}

Entries csr_entries(const Csr *csr)
{
	for (int64_t i = 0; i < csr->count; i++)
		if (csr->values[i] < 0)
			return ENTRIES_SIGNED;
	return ENTRIES_POSITIVE;
}

int64_t csr_bytes(const Csr *csr)
{
	return csr->count * (4 + csr->index_bytes) + (csr->rows + 1) * csr->pointer_bytes;
}
