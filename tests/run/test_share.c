/* Shares of ranks: they cover the slices once, consist of whole units, and are of equal size. */
#include "base/test_main.h"
#include "run/share.h"

static void check_rule(const ShareRule *rule, int ranks)
{
	int64_t at = rule->first, least = INT64_MAX, most = 0;
	for (int i = 0; i < ranks; i++) {
		const Share share = share_of(rule, i, ranks);
		int64_t end = share.first + share.count;
		assert_int_equal(share.first, at);
		assert_true(share.count >= 0);
		if (share.count > 0 && end < rule->first + rule->count)
			assert_int_equal((end + rule->shift) % rule->unit, 0);
		least = share.count < least ? share.count : least;
		most = share.count > most ? share.count : most;
		at = end;
	}
	assert_int_equal(at, rule->first + rule->count);
	/* The units at both ends may be incomplete. */
	assert_true(most - least < 3 * rule->unit);
}

static void shares_cover_all(void **state)
{
	static const int64_t units[] = {1, 2, 16};
	(void)state;
	for (int unit = 0; unit < 3; unit++)
		for (int64_t first = 0; first < 20; first++)
			for (int64_t count = 1; count < 60; count += 1 + count / 7)
				for (int ranks = 1; ranks < 20; ranks++) {
					const ShareRule rule = {first, count, units[unit],
						unit == 1 ? first % 3 : 0};
					check_rule(&rule, ranks);
				}
}

static void one_rank_has_all(void **state)
{
	const ShareRule rule = {3, 14, 2, 1};
	const Share share = share_of(&rule, 0, 1);
	(void)state;
	assert_int_equal(share.first, 3);
	assert_int_equal(share.count, 14);
}

#define TESTS(T) T(shares_cover_all), T(one_rank_has_all)
TEST_MAIN(TESTS, NULL, NULL)
