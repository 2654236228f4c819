/* Conversations for the tests of chat. */
#ifndef TESTS_TALK_H
#define TESTS_TALK_H

#include "people.h"

struct talk {
    int64_t id;
    char *head;
};

/* Sends POST start with `username` as the first participant; `device` may be NULL (sent as null).
 */
struct answer *talk_try(const struct host *host, const struct person *by, const char *user,
                        const char *other, const char *device, const char *entry);

/* Like talk_try(), but fails the test unless the request succeeds. */
struct talk talk_start(const struct host *host, const struct person *by, const char *user,
                       const char *other, const char *device);

struct answer *talk_post(const struct host *host, const struct person *by, const struct talk *talk,
                         const char *username, const char *entry);
struct answer *talk_read(const struct host *host, const struct person *by, const struct talk *talk,
                         const char *email);
struct answer *talk_find(const struct host *host, const struct person *by, json_t *filters);

/* Sends GET /api/chat/<what>/:email; `query` may be "". */
struct answer *talk_of(const struct host *host, const struct person *by, const char *what,
                       const char *email, const char *query);

/* Returns how many messages the e-mail has not read. */
int64_t talk_unread(const struct host *host, const struct person *by, const char *email);

/* Return the chain, and the number of messages in it; `query` may be "". */
struct answer *talk_chain(const struct host *host, const struct person *by, const struct talk *talk,
                          const char *query);
size_t talk_length(const struct host *host, const struct person *by, const struct talk *talk);

/* Sets chat.retention_days, which has two characters in the file, and reloads the host. */
void talk_retention(const struct host *host, const char *days);

/* Returns the keys of an object in their order, separated by spaces. */
const char *keys_of(const json_t *object);

/* Return the path in the response's Link header with rel="next", and the page there; or NULL. */
const char *next_page(const struct answer *answer);
struct answer *page_after(const struct host *host, const struct person *by,
                          const struct answer *answer);

/* EACH_PAGE (page, who, path) { ... } requests a list and all pages after it from the `host` in
 * scope. Include exchange.h. */
#define EACH_PAGE(page, who, path)                                                                 \
    for (struct answer * (page) = ask((who), 200, NULL, "GET %s", (path)); page;                   \
         (page) = page_after(host, (who), page))

/* Makes a call in a separate thread; call_end() waits for its response and returns it. */
struct pending_call *call_begin(const struct host *host, const struct call *call);
bool call_is_over(const struct pending_call *pending);
struct answer *call_end(struct pending_call *pending);

/* Makes the same call in several threads at once; the responses are in the order of the threads. */
enum { PARALLEL_MAX = 64 };
void parallel(const struct host *host, const struct call *calls, struct answer **answers,
              int count);

#endif
