/* Two hosts on one database, and clients that listen to their live streams. */
#ifndef TESTS_INTEGRATION_LIVE_H
#define TESTS_INTEGRATION_LIVE_H

#include "sse.h"
#include "talk.h"

enum { SOON_MS = 5000, QUIET_MS = 300 };

struct live {
    struct host *host, *other;
    struct person *admin, *platform;
};

/* The settings that all hosts of these tests share. */
extern const struct host_spec live_spec;

/* Starts both hosts on a database of this name and makes a platform. */
void live_start(struct live *live, const char *name);

/* Makes the suite of a file that has `static struct live live`. */
#define LIVE_SUITE(name)                                                                           \
    static void name##_set_up(void)                                                                \
    {                                                                                              \
        live_start(&live, #name);                                                                  \
    }                                                                                              \
    SUITE(name, .before_all = name##_set_up, .timeout_s = 120)

struct host *live_host(const char *name, const char *database);

/* Starts a host with further lines of the sections http and chat. */
struct host *live_host_with(const char *name, const char *database, const char *http,
                            const char *chat);

/* Each function fails the test if its request fails. */
struct sse *live_listen(const struct host *on, const struct person *who, const char *last);
void live_post(const struct live *live, const struct host *on, const struct talk *talk,
               const char *username, const char *entry);
void live_expect(struct sse *sse, const char *entry);
void live_silence(struct sse *sse);
/* Expects a reset, after which a client reads the chains again. */
void live_reset(struct sse *sse);

#endif
