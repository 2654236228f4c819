/* Answers connections while all loops are blocked. */
#ifndef CORE_STALL_ANSWER_H
#define CORE_STALL_ANSWER_H

#include "core/lib/listener.h"

/* Accepts connections for `ms` milliseconds, and answers each with 503 and this reason. */
void stall_answer(const struct listeners *listeners, int ms, const char *reason);

#endif
