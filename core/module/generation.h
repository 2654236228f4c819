/*
 * A generation: a configuration as an immutable object, with settings, opened modules, router,
 * hooks and keys. It is built completely while the previous one serves, so that an error only
 * discards the new one.
 *
 * Every user of a generation (a request, a job, a stream) has a reference to it. Module code may
 * drop the last reference on any thread, so dropping it does not close the modules. Instead it
 * calls `released`, which passes the generation to a thread that destroys it.
 *
 * One thread at a time builds, starts, quiesces or destroys a generation; all threads may read it.
 */
#ifndef CORE_GENERATION_H
#define CORE_GENERATION_H

#include <stdatomic.h>
#include <sys/queue.h>

#include <busbar/busbar.h>

#include "core/lib/aead.h"
#include "core/lib/host_settings.h"
#include "core/lib/listener.h"
#include "core/module/api.h"
#include "core/module/module_load.h"
#include "core/module/route.h"

struct work_pools;
struct workers;
struct jobs;

struct core_hook {
    const struct bb_hook *hook;
    struct host_handle *host;
};

/* A declared event with its hooks, including those on "*", in the order of the modules. */
struct core_event {
    const struct bb_event_descriptor *descriptor;
    const struct core_module *module;
    const struct core_hook *within, *committed;
    size_t within_count, committed_count;
};

/* A module in the setting `modules` that is disabled and not loaded; see generation_load.c. */
struct left_out {
    const char *name, *why;
};

struct generation {
    atomic_size_t holders;
    void (*released)(struct generation *); /* called instead of generation_destroy(); or NULL */
    struct engine *engine;                 /* set before it goes live; NULL in checks, in `close` */
    const struct bb_api *api;              /* NULL until its modules are opened */
    atomic_bool superseded;                /* another generation is live */
    struct work_pools *pools;              /* pools, workers and jobs are NULL in checks */
    struct workers *workers;
    struct jobs *jobs;
    LIST_ENTRY(generation) alive;   /* in the engine's list, under its lock */
    LIST_ENTRY(generation) reclaim; /* this and reclaim_* are used by reload.c, under its lock */
    bool reclaim_gone, reclaim_cut;
    int64_t live_ms;               /* monotonic time at which it went live */
    int64_t superseded_ms, cut_ms; /* when it was superseded, and when its requests will be cut */
    const char **event_names;      /* events of all modules, NULL-terminated */
    unsigned number;
    struct arena *arena;
    struct settings *settings;
    const struct host_settings *host; /* settings->host */
    struct core_module *modules;      /* in the order in which they were opened */
    size_t module_count;
    struct left_out *left_out; /* disabled modules; the array has room for all modules */
    size_t left_out_count;
    struct router *router; /* the `owner` of its routes is a struct host_handle */
    struct aead_keys *seal;
    const struct bb_authenticator *authenticator; /* NULL: no module provides it */
    struct host_handle *authenticator_host;
    const struct bb_auditor *auditor; /* NULL: no module provides it */
    struct host_handle *auditor_host;
    const struct core_event *events;
    size_t event_count;
    struct cidr_list *trusted_proxies;
    struct cidr_list *inside; /* networks of clients that need no token for routes with BB_INSIDE */
};

/*
 * Reads the settings file, loads the modules, checks their tables and orders them. Calls no module
 * function, but the dynamic linker runs constructors of the modules' files. `number` is 1 at a
 * start, larger in a reload. The caller owns the only reference to the result. After problems, the
 * result may only be read and destroyed. NULL: the file is unreadable, or memory ran out.
 */
struct generation *generation_check(const char *conf_path, unsigned number,
                                    struct setting_problems *problems);

/* Opens the modules of a generation without problems. Returns 0; after -1, destroy it. */
int generation_open(struct generation *generation, const struct bb_api *api,
                    struct setting_problems *problems);

/* Returns whether database.url or secrets.keys is needed but empty; if so, adds a problem. */
bool generation_lacks(const struct generation *generation, struct setting_problems *problems);

/* Sets the directory for crash reports. Adds a warning if reports cannot be written to it. */
void generation_place_reports(const struct generation *generation,
                              struct setting_problems *problems);

/* Calls `start` of all modules in order, once the generation is live. */
void generation_start(struct generation *generation);

/* Calls `quiesce` of the started modules in reverse order. No effect if none was started. */
void generation_quiesce(struct generation *generation);

void generation_acquire(struct generation *generation);
void generation_release(struct generation *generation);

/* Adds a reference; returns false after the last release. The engine must list the generation. */
bool generation_try_acquire(struct generation *generation);

/*
 * Returns whether another generation is live, so that users of this one should finish soon. Any
 * thread. Requests are also notified, see requests_tell_superseded().
 */
static inline bool generation_superseded(const struct generation *generation)
{
    return atomic_load_explicit(&generation->superseded, memory_order_acquire);
}

/* Closes the modules in reverse order and frees all. No references may exist. NULL is allowed. */
void generation_destroy(struct generation *generation);

/* Return the module or event of this name; NULL if there is none. */
const struct core_module *generation_module(const struct generation *generation, const char *name);
const struct core_event *generation_event(const struct generation *generation, const char *name);

/* Returns the setting that `files_in` names; NULL if the module that declares it is not loaded. */
const char *generation_directory(struct bb_host *host, const char *name);

/* Sets handle.meters and handle.account, whose values survive reloads. Returns 0; -1: no memory. */
int meters_bind(struct core_module *module, struct arena *arena);
/*
 * Fills generation->settings and everything derived from it: loads, checks and orders the modules,
 * binds their settings, and creates router, events, keys and lists. Continues after a problem as
 * far as possible. Returns 0, or -1 if the file could not be read. In generation_load.c.
 */
int generation_load(struct generation *generation, const char *conf_path,
                    struct setting_problems *problems);

/*
 * Fills order[count] with the indexes of `modules`, so that providers of a service come before the
 * modules that need it. Returns 0, or -1 after adding a problem for each service that is missing or
 * too old, and for each cycle ("auth → log → auth").
 */
int service_order(const struct core_module *modules, size_t count, size_t *order,
                  struct setting_problems *problems);

/* Returns the service's provider with at least this version, and sets *descriptor; or NULL. */
const struct core_module *service_provider(const struct core_module *modules, size_t count,
                                           const char *service, unsigned version,
                                           const struct bb_service_descriptor **descriptor);

#endif
