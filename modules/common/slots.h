/*
 * Limits the number of long responses, and so the memory and the number of waiting statements that
 * they need. Each response in progress holds one of a module's slots. An account may hold only some
 * of the slots, so that it cannot prevent the responses of other accounts. Each module that uses
 * this has its own copy compiled in. Any thread.
 */
#ifndef COMMON_SLOTS_H
#define COMMON_SLOTS_H

#include <busbar/busbar.h>

struct slots;

/*
 * Creates `count` slots, of which an account may hold `each`. `what` is a constant, the plural noun
 * in error messages. Returns NULL if out of memory. The memory belongs to the host; slots_free()
 * frees everything else.
 */
struct slots *slots_new(struct bb_host *host, int64_t count, int64_t each, const char *what);
void slots_free(struct slots *slots); /* NULL is allowed */

/*
 * Take a slot for the caller's account. slot_take() ends the request with 429 if the account holds
 * its maximum of slots, or with 503 if all slots are in use. slot_await() first retries for two
 * seconds, during which the fiber is parked.
 */
void slot_take(struct bb_request *rq, struct slots *slots);
void slot_await(struct bb_request *rq, struct slots *slots);

/* Like slot_take() for an account (not 0), but returns 0, 429 or 503 and sends no response. */
int slot_try(struct slots *slots, int64_t account);

/* Makes the end of the request release the slot that the caller's account has taken. */
void slot_hold(struct bb_request *rq, struct slots *slots);

/* Releases one of the slots that the account holds. */
void slot_release(struct slots *slots, int64_t account);

#endif
