/* Two hosts of one database whose live streams are listened to, and those who listen. */
#ifndef TESTS_INTEGRATION_LIVE_H
#define TESTS_INTEGRATION_LIVE_H

#include "people.h"
#include "sse.h"
#include "talk.h"

enum { SOON_MS = 5000, QUIET_MS = 300 };

struct live {
    struct host *host, *other;
    struct person *admin, *platform;
};

/* What all hosts of these tests have in common. */
extern const struct host_spec live_spec;

/* Starts both on a database of this name, and makes a platform. */
void live_start(struct live *live, const char *name);
void live_stop(const struct live *live);

struct host *live_host(const char *name, const char *database);

/* Each asserts that it went well. */
struct sse *live_listen(const struct host *on, const struct person *who, const char *last);
void live_post(const struct live *live, const struct host *on, const struct talk *talk,
               const char *username, const char *entry);
void live_expect(struct sse *sse, const char *entry);
void live_silence(struct sse *sse);

#endif
