/* The lock around FFTW's planner, one for the whole library, and lengths that transform fast. */
#include <pthread.h>
#include "base/base.h"
#include "base/fft.h"

static pthread_mutex_t planning = PTHREAD_MUTEX_INITIALIZER;

void fft_lock(void)
{
	pthread_mutex_lock(&planning);
}

void fft_unlock(void)
{
	pthread_mutex_unlock(&planning);
}

int64_t fft_length(int64_t least)
{
	for (int64_t n = least + least % 2;; n += 2) {
		int64_t rest = n;
		static const int primes[] = {2, 3, 5, 7};
		for (int i = 0; i < COUNT(primes); i++)
			while (rest % primes[i] == 0)
				rest /= primes[i];
		if (rest == 1)
			return n;
	}
}
