/*
 * Slots for long answers: a module has a fixed number of them, and an account may hold only some,
 * so that the answers under way bound the host's memory and the statements that wait, and one
 * account does not hold them all. Each module that uses this is built with a copy of its own. Any
 * thread.
 */
#ifndef COMMON_SLOTS_H
#define COMMON_SLOTS_H

#include <busbar/busbar.h>

/* The slots of a generation. */
struct slots;

/*
 * `count` slots, of which an account may hold `each`. `what` is the plural that error messages
 * name, a constant. NULL: no memory. It belongs to the host; slots_free() ends what it holds beside
 * memory.
 */
struct slots *slots_new(struct bb_host *host, int64_t count, int64_t each, const char *what);
void slots_free(struct slots *slots);

/*
 * Takes a slot for the caller's account. 0; or the status of the answer given: 429 when the account
 * has its part, 503 when all are taken. The second one tries for some seconds first, and parks.
 */
int slot_take(struct bb_request *rq, struct slots *slots);
int slot_await(struct bb_request *rq, struct slots *slots);

/* Takes one for an account, not 0: 0; or 429 or 503, as above, and nothing was answered. */
int slot_try(struct slots *slots, int64_t account);

/* Gives back one that the account holds. */
void slot_release(struct slots *slots, int64_t account);

#endif
