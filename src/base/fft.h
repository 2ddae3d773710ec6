/* Lengths with fast Fourier transforms, in the library and in the modules of devices. */
#ifndef TOMOS_BASE_FFT_H
#define TOMOS_BASE_FFT_H

#include <stdint.h>

/* The next even length without a prime factor above 7. */
int64_t fft_length(int64_t least);

#endif
