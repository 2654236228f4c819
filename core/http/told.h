/* What a loop tells of itself twice a second, for those who watch (metrics, status, the watchdog).
 */
#ifndef CORE_TOLD_H
#define CORE_TOLD_H

#include "core/loop/loop.h"

/* Writes loop->told. The loop's thread. */
void told_publish(struct loop *loop, size_t connections, size_t rejected);

#endif
