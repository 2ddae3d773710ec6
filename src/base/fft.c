/* Lengths that transform fast. */
#include "base/fft.h"
#include "base/base.h"

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
