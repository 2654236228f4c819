/* What a loop tells of itself twice a second, for those who watch (metrics, status, the watchdog).
 */
#ifndef CORE_LOOP_STATS_H
#define CORE_LOOP_STATS_H

#include "core/loop/loop.h"

/* Writes loop->stats. The loop's thread. */
void loop_stats_publish(struct loop *loop, size_t connections, size_t rejected);

#endif
