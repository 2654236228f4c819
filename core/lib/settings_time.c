/* Durations with units: "5s", "2m", "1h" or "500ms" for settings that have a unit of time. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/lib/settings_tree.h"

#define DIGITS "0123456789"

enum { DIGITS_MAX = 9 }; /* of a number with a unit: in milliseconds it fits into 64 bits */

struct unit {
    unsigned flag;
    int64_t ms;
    const char *suffix, *name;
};

static const struct unit units[] = {
    {BB_MILLISECONDS, 1, "ms", "milliseconds"}, {BB_SECONDS, 1000, "s", "seconds"},
    {BB_MINUTES, 60000, "m", "minutes"},        {BB_HOURS, 3600000, "h", "hours"},
    {BB_DAYS, 86400000, "d", "days"},
};

static const struct unit *unit_of(const struct bb_field *field)
{
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (field->flags & units[i].flag)
            return &units[i];
    return NULL;
}

const char *setting_unit(const struct bb_field *field)
{
    const struct unit *unit = unit_of(field);

    return unit ? unit->name : NULL;
}

/* Returns the unit for a suffix; NULL: none. */
static const struct unit *unit_named(const char *suffix)
{
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (!strcmp(units[i].suffix, suffix))
            return &units[i];
    return NULL;
}

const char *setting_time(const struct bb_field *field, const char *text, struct arena *arena)
{
    const struct unit *own = unit_of(field);
    size_t digits = strspn(text, DIGITS);
    const struct unit *given =
        own && digits && digits <= DIGITS_MAX ? unit_named(text + digits) : NULL;

    if (!given)
        return text;
    int64_t ms = strtoll(text, NULL, 10) * given->ms, whole = ms / own->ms, rest = ms % own->ms;

    if (!rest)
        return arena_format(arena, "%" PRId64, whole);
    if (field->type == BB_NUMBER)
        return arena_format(arena, "%.9g", (double)ms / (double)own->ms);
    return text;
}
