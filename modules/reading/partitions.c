/*
 * The job reading.partitions: creates the partitions of this year and the next two. It waits at
 * most 2 s for its locks and is tried again a day later; there are two years to succeed.
 */
#include "modules/reading/base/reading.h"

static const struct bb_sql make = {
    "SELECT reading_partition_make(extract(year FROM now() AT TIME ZONE 'UTC')::int + $1::int)",
    BB_SQL_WRITE | BB_SQL_LONG};

void reading_partitions(struct bb_request *rq)
{
    for (int ahead = 0; ahead <= 2; ahead++)
        if (!bb_query(rq, &make, BB_ARGS(bb_i(ahead))))
            bb_log(rq, BB_WARN, "cannot create a partition of reading: %s", bb_sqlstate(rq));
}
