/* Peak rates of a device, and the lower bound of the time of some work on it: that of the slowest
 * unit (as in Chilingaryan et al., 2019, section 6.5). */
#include <stdio.h>
#include "backend/backend.h"

tomos_status tomos_backend_machine(tomos_backend *backend, tomos_machine *machine)
{
	tomos_machine found = {.bytes = sizeof found};
	snprintf(found.model, sizeof found.model, "%s", backend->model);
	snprintf(found.driver, sizeof found.driver, "%s", backend->driver);
	if (backend->type->machine)
		TRY(backend->type->machine(backend, &found));
	return struct_give(machine, &found, "tomos_machine");
}

double tomos_machine_bound(
	const tomos_machine *machine, const double work[TOMOS_RATES], tomos_rate *part)
{
	double longest = 0;
	tomos_machine known = {.bytes = sizeof known};
	if (struct_take(&known, machine, "tomos_machine") != TOMOS_OK)
		return 0;
	for (int i = 0; i < TOMOS_RATES; i++) {
		double time = known.rates[i] > 0 ? work[i] / known.rates[i] : 0;
		if (time <= longest)
			continue;
		longest = time;
		if (part)
			*part = (tomos_rate)i;
	}
	return longest;
}

const char *tomos_rate_name(tomos_rate rate)
{
	static const char *const names[TOMOS_RATES] = {
		"memory", "link", "cache", "sums", "fetches", "tensor"};
	return (unsigned)rate < TOMOS_RATES ? names[rate] : "";
}
