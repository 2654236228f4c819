#include "pair.h"

struct host *other;

void pair_open(const struct host_spec *spec)
{
    struct host_spec second = *spec;

    stage_open(spec);
    second.name = text("%s-2", spec->name);
    second.database = spec->name;
    other = host_start(&second);
}
