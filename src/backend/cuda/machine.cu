/* Peak rates of a GPU: number of SMs times clock, as the GPU reports them, times the rates per
 * SM and clock of its compute capability. */
#include "backend/cuda/cuda.h"

/* Rates per SM and clock by compute capability: FMAs, texture fetches, tensor core FMAs. From
 * the CUDA programming guide (arithmetic throughput) and NVIDIA's white papers (tensor cores:
 * dense, float accumulation). Later GPUs are treated as the last entry. */
static const struct {
	int kind;
	double sums, fetches, tensor;
} kinds[] = {{75, 64, 4, 512}, {80, 64, 4, 1024}, {86, 128, 4, 512}, {89, 128, 4, 512},
	{90, 128, 4, 2048}, {100, 128, 4, 4096}, {120, 128, 4, 512}};

enum { SHARED_BYTES = 128 }; /* 32 banks of 4 bytes */

static tomos_status ask(int number, cudaDeviceAttr what, int *value)
{
	CUDA_TRY(cudaDeviceGetAttribute(value, what, number), "asking it");
	return TOMOS_OK;
}

/* Bytes per second in each direction of the PCIe link, from sysfs; 0 if unknown. */
static double link_rate(int number)
{
	char bus[32] = "", path[128];
	double speed = 0, width = 0;
	static const char *const names[2] = {"current_link_speed", "current_link_width"};
	double *values[2] = {&speed, &width};
	if (cudaDeviceGetPCIBusId(bus, sizeof bus, number) != cudaSuccess)
		return 0;
	for (char *c = bus; *c; c++)
		*c = (char)(*c >= 'A' && *c <= 'F' ? *c - 'A' + 'a' : *c);
	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/%s", bus, names[i]);
		FILE *file = fopen(path, "r");
		if (file && fscanf(file, "%lf", values[i]) != 1)
			*values[i] = 0;
		if (file)
			fclose(file);
	}
	/* Line code: 128 of 130 bits carry data from PCIe 3 on, 8 of 10 before. */
	return 1e9 * speed * width / 8 * (speed > 6 ? 128.0 / 130 : 0.8);
}

void cuda_driver(char *text, size_t size)
{
	int version = 0;
	char release[64] = "";
	FILE *file = fopen("/sys/module/nvidia/version", "r");
	if (file && fscanf(file, "%63s", release) != 1)
		release[0] = 0;
	if (file)
		fclose(file);
	if (cudaDriverGetVersion(&version) == cudaSuccess)
		snprintf(text, size, "CUDA %d.%d %s", version / 1000, version % 1000 / 10, release);
}

tomos_status cuda_machine(tomos_backend *backend, tomos_machine *machine)
{
	const CudaDevice *d = device_of(backend);
	int major, minor, kilohertz, memory_kilohertz, bits, i = 0;
	TRY(ask(d->number, cudaDevAttrComputeCapabilityMajor, &major));
	TRY(ask(d->number, cudaDevAttrComputeCapabilityMinor, &minor));
	TRY(ask(d->number, cudaDevAttrClockRate, &kilohertz));
	TRY(ask(d->number, cudaDevAttrMemoryClockRate, &memory_kilohertz));
	TRY(ask(d->number, cudaDevAttrGlobalMemoryBusWidth, &bits));
	while (i < COUNT(kinds) - 1 && kinds[i].kind < 10 * major + minor)
		i++;
	machine->processors = d->sms;
	machine->clock = 1e3 * kilohertz;
	double clocks = d->sms * machine->clock;
	machine->rates[TOMOS_RATE_MEMORY] = 2e3 * memory_kilohertz * bits / 8;
	machine->rates[TOMOS_RATE_LINK] = link_rate(d->number);
	machine->rates[TOMOS_RATE_CACHE] = (double)SHARED_BYTES * clocks;
	machine->rates[TOMOS_RATE_SUMS] = kinds[i].sums * clocks;
	machine->rates[TOMOS_RATE_FETCHES] = kinds[i].fetches * clocks;
	machine->rates[TOMOS_RATE_TENSOR] = kinds[i].tensor * clocks;
	return TOMOS_OK;
}
