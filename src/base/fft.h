/* Common to all users of FFTW: the lock of its planner, which is not thread-safe, and lengths with
 * fast transforms. */
#ifndef TOMOS_BASE_FFT_H
#define TOMOS_BASE_FFT_H

#include <stdint.h>

/* To be held around every call that creates or destroys a plan. */
void fft_lock(void);
void fft_unlock(void);
/* The next even length without a prime factor above 7. */
int64_t fft_length(int64_t least);

#endif
