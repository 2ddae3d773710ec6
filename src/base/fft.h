/* What users of FFTW share: its planner, which one thread may enter at a time, and lengths it does
 * fast. */
#ifndef TOMOS_BASE_FFT_H
#define TOMOS_BASE_FFT_H

#include <stdint.h>

/* Around every call that makes or destroys a plan. */
void fft_lock(void);
void fft_unlock(void);
/* The next even length without a prime factor above 7. */
int64_t fft_length(int64_t least);

#endif
