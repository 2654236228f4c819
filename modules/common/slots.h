/*
 * Slots for long responses. A module has a fixed number of slots, and an account may hold only some
 * of them. So the number of responses in progress limits the host's memory and the number of
 * waiting statements, and one account cannot hold all slots. Each module that uses this has its own
 * copy compiled in. Any thread.
 */
#ifndef COMMON_SLOTS_H
#define COMMON_SLOTS_H

#include <busbar/busbar.h>

/* The slots of a generation. */
struct slots;

/*
 * Creates `count` slots, of which an account may hold `each`. `what` is a constant, the plural used
 * in error messages. Returns NULL if out of memory. The memory belongs to the host; slots_free()
 * frees everything else.
 */
struct slots *slots_new(struct bb_host *host, int64_t count, int64_t each, const char *what);
void slots_free(struct slots *slots); /* NULL is allowed */

/*
 * Takes a slot for the caller's account. Otherwise ends the handler: with 429 if the account holds
 * its maximum of slots, with 503 if all slots are in use. slot_await() retries for some seconds
 * before it fails, and parks the fiber.
 */
void slot_take(struct bb_request *rq, struct slots *slots);
void slot_await(struct bb_request *rq, struct slots *slots);

/* Takes a slot for an account that is not 0. Returns 0, 429 or 503; sends no response. */
int slot_try(struct slots *slots, int64_t account);

/* Makes the end of the request return the slot that the caller's account has taken. */
void slot_hold(struct bb_request *rq, struct slots *slots);

/* Returns a slot that the account holds. */
void slot_release(struct slots *slots, int64_t account);

#endif
