/*
 * A scene: hosts on one database, a conversation, and the ledger's load on it. Used by tests that
 * break something while messages are written and then check that no message was lost.
 *
 * BUSBAR_TEST_MESSAGES sets the number of messages (default 400, in a full run 1,200), so a long
 * run needs no rebuild.
 */
#ifndef TESTS_SCENE_H
#define TESTS_SCENE_H

#include <pthread.h>

#include "ledger.h"
#include "people.h"

enum {
    SCENE_HOSTS = 2,
    SCENE_WRITERS = 20,
    SCENE_SECONDS = 240,
    SCENE_ENDLESS = 1000000, /* messages: the load never reaches this count */
    SCENE_PAUSE_MS = 50      /* pause of each writer of an endless load after a message */
};

struct scene {
    struct postgres *pg;
    const char *database, *directory;
    struct host *hosts[SCENE_HOSTS];
    atomic_int ports[SCENE_HOSTS];
    char *head;
    struct person *admin;
    struct ledger_load load;
    pthread_t thread;
    int outcome;         /* result of ledger_load() */
    struct watch *watch; /* NULL: nobody watches the host's health */
};

/* Returns the number of messages from the environment. */
long scene_messages(void);

/* Starts `hosts` hosts with the settings of `spec` (NULL: the defaults) and the conversation. */
struct scene *scene_make(const char *name, const struct host_spec *spec, int hosts, long messages);

/* Start the load in a thread; wait for its end and fail the test unless all messages were
 * acknowledged. */
void scene_begin(struct scene *scene);
void scene_finish(struct scene *scene);

/* Ends the load after the messages sent so far. */
void scene_stop(struct scene *scene);

/* Wait until this many messages are acknowledged, and for this many more. */
void scene_wait(struct scene *scene, long messages);
void scene_more(struct scene *scene, long messages);

/* Waits for the next acknowledgement, and prints and returns how many milliseconds it took; fails
 * the test if none comes. */
int64_t scene_recovery(struct scene *scene);

/* Makes the writers send without pauses, and waits until all of them do, so that a fault interrupts
 * requests. scene_calm() sets the pause of each writer again. */
void scene_rush(struct scene *scene);
void scene_calm(struct scene *scene, int pause_ms);

/* Starts an ended host again; the load uses its new port. */
void scene_restart(struct scene *scene, int host);

/* Compares the ledger with the database and the API's chain, prints the report with the database's
 * name, and fails the test unless they agree. */
struct ledger_report scene_expect_ledger(struct scene *scene);

/* Stops the hosts. */
void scene_end(struct scene *scene);

/*
 * A thread that requests GET /api/health all the time while a test breaks something: the response
 * must always be 200. `bench/run` measures how long it takes.
 */
struct watch;

/* Returns when it is connected and has received a response. */
struct watch *watch_begin(const struct host *host);

/* Fails the test, with this name, unless all responses were 200. */
void watch_end(struct watch *watch, const char *name);

#endif
