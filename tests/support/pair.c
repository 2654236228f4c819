#include "pair.h"

struct host *one, *two;

void pair_open(const char *name)
{
    const char *database = database_make(the_postgres, name);

    one = host_start(&(struct host_spec){.name = text("%s-1", name), .database = database});
    two = host_start(&(struct host_spec){.name = text("%s-2", name), .database = database});
}

void pair_close(void)
{
    host_stop(one);
    host_stop(two);
}
