/* Option structs and their defaults, expanded from options.def. The installed header of this name
 * has them as plain C (`tomos help --header`). */
#ifndef TOMOS_OPTIONS_H
#define TOMOS_OPTIONS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include "tomos/options.def"

#define TOMOS_FIELD_INT(name) int64_t name;
#define TOMOS_FIELD_REAL(name) double name;
#define TOMOS_FIELD_ANGLE(name) double name;
#define TOMOS_FIELD_LENGTH(name) double name;
#define TOMOS_FIELD_ENERGY(name) double name;
#define TOMOS_FIELD_SIZE(name) int64_t name;
#define TOMOS_FIELD_FLAG(name) int64_t name;
#define TOMOS_FIELD_TEXT(name) const char *name;
#define TOMOS_FIELD_CHOICE(name) const char *name;
#define TOMOS_FIELD_INTS(name) \
	const int64_t *name; \
	int64_t name##_count;
#define TOMOS_FIELD_REALS(name) \
	const double *name; \
	int64_t name##_count;
#define TOMOS_FIELD_ANGLES(name) TOMOS_FIELD_REALS(name)
#define TOMOS_FIELD_LENGTHS(name) TOMOS_FIELD_REALS(name)
#define TOMOS_FIELD_ARRAY(name) const struct tomos_array *name;
#define TOMOS_FIELD_HISTORY(name) struct tomos_history *name;
#define TOMOS_FIELD(kind, name, ...) TOMOS_FIELD_##kind(name)
#define TOMOS_SET(kind, name, fallback, ...) o.name = fallback;
/* The last two columns of a row: its help, and the option it needs, which may be omitted. */
#define TOMOS_FIRST(first, ...) first
#define TOMOS_SECOND(first, second, ...) second
#define TOMOS_ROW_HELP(...) TOMOS_FIRST(__VA_ARGS__, "")
#define TOMOS_ROW_NEEDS(...) TOMOS_SECOND(__VA_ARGS__, "", "")

#ifdef __cplusplus
#define TOMOS_ZERO \
	{ \
	}
#else
#define TOMOS_ZERO \
	{ \
		0 \
	}
#endif

/* A struct and the function that fills it with the defaults of its rows, e.g.
 *   tomos_algebraic_options o = tomos_algebraic_defaults();  o.iterations = 50; */
#define TOMOS_OPTIONS(group, ROWS) \
	typedef struct tomos_##group##_options { \
		size_t bytes; /* of this struct */ \
		ROWS(TOMOS_FIELD) \
	} tomos_##group##_options; \
	static inline tomos_##group##_options tomos_##group##_defaults(void) \
	{ \
		tomos_##group##_options o = TOMOS_ZERO; \
		o.bytes = sizeof o; \
		ROWS(TOMOS_SET) \
		return o; \
	}

TOMOS_OPTION_GROUPS(TOMOS_OPTIONS)

#endif
