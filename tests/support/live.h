/* Two hosts on one database, as in pair.h, and clients that listen to their live streams. */
#ifndef TESTS_LIVE_H
#define TESTS_LIVE_H

#include "pair.h"
#include "sse.h"
#include "talk.h"

enum { SOON_MS = 30000, QUIET_MS = 300 };

extern struct person *platform;

/* The settings that all hosts of these tests share. */
extern const struct host_spec live_spec;

/* Makes a suite like PAIR_SUITE(), with hosts of these settings and a platform. */
#define LIVE_SUITE(name)                                                                           \
    static void name##_set_up(void)                                                                \
    {                                                                                              \
        live_start(#name);                                                                         \
    }                                                                                              \
    STAGE_SUITE(name, name##_set_up, 120)
void live_start(const char *name);

struct host *live_host(const char *name, const char *database);

/* Starts a host with further lines of the sections http and chat. */
struct host *live_host_with(const char *name, const char *database, const char *http,
                            const char *chat);

/* Each function fails the test if its request fails. */
struct sse *live_listen(const struct host *on, const struct person *who, const char *last);
void live_post(const struct host *on, const struct talk *talk, const char *username,
               const char *entry);
void live_expect(struct sse *sse, const char *entry);
void live_silence(struct sse *sse);
/* Expects a reset, after which a client reads the chains again. */
void live_reset(struct sse *sse);

#endif
