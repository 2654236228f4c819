/* Answering connections where no loop can. */
#ifndef CORE_STALL_ANSWER_H
#define CORE_STALL_ANSWER_H

#include "core/wire/listener.h"

/* Waits for connections for `ms`, and answers each that comes 503 with this reason. */
void stall_answer(const struct listeners *listeners, int ms, const char *reason);

#endif
