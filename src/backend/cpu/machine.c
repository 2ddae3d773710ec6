/* Clock, arithmetic and memory rates of the processor. Clock and memory are measured, since the
 * values that systems report are often wrong (virtual machines see a nominal clock). */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "backend/cpu/cpu.h"

enum { CHAIN = 1 << 18, TRIES = 7, PORTIONS = 64 };
enum { COPY_FLOATS = 1 << 25 }; /* larger than the last-level cache */
/* Vector loads and FMAs per core and clock of nearly all processors since 2013. */
enum { LOADS = 2, SUMS = 2 };

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Times dependent additions, which take one clock each. The fastest of several trials is taken: it
 * was not interrupted. */
static double measure_clock(void)
{
	double best = 0;
	for (int try = 0; try < TRIES; try++) {
		uint64_t sum = 0, one = 1;
		double start = now();
		__asm__ volatile("" : "+r"(one));
		for (int i = 0; i < CHAIN; i += 4) {
			sum += one;
			__asm__ volatile("" : "+r"(sum));
			sum += one;
			__asm__ volatile("" : "+r"(sum));
			sum += one;
			__asm__ volatile("" : "+r"(sum));
			sum += one;
			__asm__ volatile("" : "+r"(sum));
		}
		double time = now() - start, clock = time > 0 ? (double)sum / time : 0;
		best = clock > best ? clock : best;
	}
	return best;
}

static void copy_portion(void *user, int64_t index)
{
	float *data = user;
	const int64_t half = COPY_FLOATS / 2, size = half / PORTIONS;
	memcpy(data + half + index * size, data + index * size, (size_t)size * sizeof *data);
}

/* Bytes per second read and written by copying with all threads. */
static tomos_status measure_memory(double *rate)
{
	float *data;
	TRY(mem_zeroed(&data, COPY_FLOATS, sizeof *data, "measuring the memory"));
	*rate = 0;
	for (int try = 0; try < TRIES; try++) {
		double start = now();
		parallel_for(PORTIONS, copy_portion, data);
		double time = now() - start, bytes = COPY_FLOATS * sizeof *data;
		*rate = time > 0 && bytes / time > *rate ? bytes / time : *rate;
	}
	mem_free(data);
	return TOMOS_OK;
}

tomos_status cpu_machine(tomos_backend *backend, tomos_machine *machine)
{
	const CpuLevel *level = backend->own;
	machine->processors = tomos_threads();
	machine->clock = measure_clock();
	double vectors = (double)machine->processors * machine->clock * level->lanes;
	machine->rates[TOMOS_RATE_CACHE] = LOADS * vectors * sizeof(float);
	machine->rates[TOMOS_RATE_SUMS] = SUMS * vectors;
	return measure_memory(&machine->rates[TOMOS_RATE_MEMORY]);
}

/* "model name" of the first processor in /proc/cpuinfo, if any. */
void cpu_model(const CpuLevel *level, char *model, size_t size)
{
	char line[256] = "", name[64] = "processor";
	FILE *file = fopen("/proc/cpuinfo", "r");
	while (file && fgets(line, sizeof line, file))
		if (sscanf(line, "model name : %63[^\n]", name) == 1)
			break;
	if (file)
		fclose(file);
	snprintf(model, size, "%s, %s, %d threads", name, level->name, tomos_threads());
}
