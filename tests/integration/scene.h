/*
 * A scene: hosts on one database, a conversation, and the ledger's load on it. For tests that break
 * something while messages are written, and then want to know that nothing was lost.
 *
 * How much is written is BUSBAR_TEST_MESSAGES (default 2,000), so that a long run needs no rebuild.
 */
#ifndef TESTS_SCENE_H
#define TESTS_SCENE_H

#include <pthread.h>

#include "ledger.h"
#include "people.h"

enum { SCENE_HOSTS = 2, SCENE_WRITERS = 20, SCENE_SECONDS = 240 };

struct scene {
    struct postgres *pg;
    const char *database, *directory;
    struct host *hosts[SCENE_HOSTS];
    atomic_int ports[SCENE_HOSTS];
    char *head;
    struct person *admin;
    struct ledger_load load;
    pthread_t thread;
    int outcome; /* of ledger_load() */
};

/* From the environment. */
long scene_messages(void);

/* Starts `hosts` hosts like `spec` (NULL: the defaults) and the conversation. */
struct scene *scene_make(const char *name, const struct host_spec *spec, int hosts, long messages);

/* Starts the load in a thread; waits for its end, which fails the test unless it got through. */
void scene_begin(struct scene *scene);
void scene_finish(struct scene *scene);

/* Waits until so many messages are acknowledged. */
void scene_wait(struct scene *scene, long messages);

/* Milliseconds from now until the next acknowledgement; fails the test after `max_ms`. */
int64_t scene_recovery(struct scene *scene, int max_ms);

/* Starts an ended host again; the load follows it. */
void scene_restart(struct scene *scene, int host);

/* Lays the ledger beside the database and the API's chain, and prints both under the name. */
struct ledger_report scene_expect_ledger(struct scene *scene);

/* Stops the hosts. */
void scene_end(struct scene *scene);

#endif
