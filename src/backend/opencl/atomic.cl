/* Additions to floats that others may add to as well. */
/* There is no atomic addition of floats: the bits are exchanged if nobody else did so meanwhile. */
static inline void add_atomically(volatile global float *sum, float value)
{
	volatile global uint *bits = (volatile global uint *)sum;
	uint seen = *bits, before;
	do {
		before = seen;
		seen = atomic_cmpxchg(bits, before, as_uint(as_float(before) + value));
	} while (seen != before);
}

#define KERNEL_ADD(pointer, value) add_atomically(pointer, value)
