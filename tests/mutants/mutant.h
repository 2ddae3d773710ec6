/* The switch that `scripts/mutate` puts around changed expressions: MUTANT(n) is true in a process
 * that has TOMOS_MUTANT=n in its environment. Every file of the changed copy begins with this
 * header. */
#ifndef TOMOS_TESTS_MUTANTS_MUTANT_H
#define TOMOS_TESTS_MUTANTS_MUTANT_H

/* The mutant that is on, 0 for none, -1 to record which expressions are reached. */
extern int mutant_chosen;
/* Records that expression n was reached; 0, so that it stays as it was. */
int mutant_reached(int n);

#define MUTANT(n) \
	__builtin_expect(mutant_chosen == (n) || (mutant_chosen < 0 && mutant_reached(n)), 0)

#endif
