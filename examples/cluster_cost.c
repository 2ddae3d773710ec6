/* The expected time of FDK over 1 to 4096 ranks, from the rates of one rank:
 *
 *   cluster_cost RATES SIZE DETECTOR VIEWS [GROUPS]
 *
 * RATES is a file of "tomos recon --ranks 1 --dry-run --rates RATES"; SIZE^3 voxels from VIEWS
 * views of DETECTOR^2 pixels. GROUPS ranks share a slab and divide its views; 0: the number that is
 * fastest. A model, not a measurement. */
#include <stdio.h>
#include <stdlib.h>
#include <tomos.h>

/* A source at three times the width of the volume, a detector that just covers the volume. */
static tomos_status make_work(tomos_work *work, tomos_geometry **scan, tomos_grid *grid,
	int64_t size, int64_t detector, int64_t views)
{
	double *angles = malloc((size_t)views * sizeof *angles);
	double wide = (double)size, away = 3 * wide;
	/* The edge of the volume that is nearest to the source is magnified most. */
	double pixel = wide * 1.5 / (1 - 0.5 / 3) / (double)detector;
	if (!angles)
		return TOMOS_NO_MEMORY;
	for (int64_t i = 0; i < views; i++)
		angles[i] = 6.283185307179586 * (double)i / (double)views;
	tomos_status s = tomos_geometry_cone(
		scan, detector, detector, pixel, away, 1.5 * away, angles, views);
	free(angles);
	*work = (tomos_work){.bytes = sizeof *work, .grid = grid, .method = "fdk"};
	work->scan = *scan;
	return s ? s : tomos_grid_centred(grid, size, size, size, 1);
}

/* The fastest number of groups, a power of two, or the given one. */
static tomos_status cheapest(
	tomos_cost *best, tomos_work work, const tomos_rates *rates, int64_t ranks, int64_t groups)
{
	tomos_status s = TOMOS_OK;
	for (int64_t g = groups ? groups : 1; !s && g <= (groups ? groups : ranks); g *= 2) {
		tomos_cost cost = {.bytes = sizeof cost};
		work.groups = g;
		s = tomos_cost_expect(&cost, &work, rates, ranks);
		if (!s && (best->ranks == 0 || cost.seconds < best->seconds))
			*best = cost;
	}
	return s;
}

static tomos_status print_table(const tomos_work *work, const tomos_rates *rates, int64_t groups)
{
	tomos_status s = TOMOS_OK;
	printf("ranks slabs groups  read s  back s  sent s write s total s  read GB  sent GB\n");
	for (int64_t ranks = groups ? groups : 1; !s && ranks <= 4096; ranks *= 2) {
		tomos_cost c = {.bytes = sizeof c};
		s = cheapest(&c, *work, rates, ranks, groups);
		const double *t = c.stage_seconds;
		if (!s)
			printf("%5lld %5lld %6lld %7.2f %7.2f %7.2f %7.2f %7.2f %8.0f %8.0f\n",
				(long long)ranks, (long long)c.slabs, (long long)c.groups,
				t[TOMOS_COST_READ], t[TOMOS_COST_PROJECT], t[TOMOS_COST_EXCHANGE],
				t[TOMOS_COST_WRITE], c.seconds, 1e-9 * c.read_bytes,
				1e-9 * c.sent_bytes);
	}
	return s;
}

int main(int count, char **words)
{
	tomos_rates rates = {.bytes = sizeof rates};
	tomos_geometry *scan = NULL;
	tomos_grid grid;
	tomos_work work;
	if (count < 5) {
		fprintf(stderr, "cluster_cost RATES SIZE DETECTOR VIEWS [GROUPS]\n");
		return 2;
	}
	tomos_status s = tomos_rates_read(&rates, words[1]);
	s = s ? s
	      : make_work(&work, &scan, &grid, atoll(words[2]), atoll(words[3]), atoll(words[4]));
	s = s ? s : print_table(&work, &rates, count > 5 ? atoll(words[5]) : 1);
	if (s)
		fprintf(stderr, "cluster_cost: %s\n", tomos_message());
	tomos_geometry_free(scan);
	return s != TOMOS_OK;
}
