/* Statistics that a loop publishes twice a second for metrics, status and the watchdog. */
#ifndef CORE_LOOP_STATS_H
#define CORE_LOOP_STATS_H

#include "core/lib/loop.h"

/* Writes loop->stats. Loop's thread. */
void loop_stats_publish(struct loop *loop, size_t connections, size_t rejected);

#endif
