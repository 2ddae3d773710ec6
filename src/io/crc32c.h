/* CRC-32C checksums of Zarr chunks and shard indices. */
#ifndef TOMOS_IO_CRC32C_H
#define TOMOS_IO_CRC32C_H

#include <stdbool.h>
#include <stdint.h>

uint32_t crc32c(const void *bytes, int64_t count);
uint32_t crc32c_plain(const void *bytes, int64_t count); /* on any processor */
/* The checksum of `first` bytes followed by `second` ones from both checksums, with the shift of
 * the number of second bytes. */
uint32_t crc32c_shift(int64_t bytes);
uint32_t crc32c_join(uint32_t shift, uint32_t first, uint32_t second);

#endif
