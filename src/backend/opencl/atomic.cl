/* Atomic addition of floats. */
/* OpenCL has no atomic addition of floats: bits are exchanged until no other item interferes. */
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
