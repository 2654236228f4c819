/*
 * A generation: one configuration as one immutable object. Settings, opened modules, router, hooks,
 * keys. It is built whole beside the one that serves, so that a mistake throws away only the new.
 *
 * Whoever works with a generation holds it (each request, each job, each stream). The last holder
 * may be on any thread, even below a module's code, so it does not close the modules itself: it
 * calls `released`, by which the host gives the generation to a thread that destroys it.
 *
 * Built, started, quiesced and destroyed by one thread at a time; read by all.
 */
#ifndef CORE_GENERATION_H
#define CORE_GENERATION_H

#include <stdatomic.h>

#include <busbar/busbar.h>

#include "core/base/address.h"
#include "core/base/aead.h"
#include "core/generation/route.h"
#include "core/module/module_load.h"
#include "core/settings/settings.h"

struct work_pools;
struct workers;
struct jobs;

struct core_hook {
    const struct bb_hook *hook;
    struct host_handle *host;
};

/* A declared event with the hooks on it, those on "*" included, in the order of the modules. */
struct core_event {
    const struct bb_event_descriptor *descriptor;
    const struct core_module *module;
    const struct core_hook *within, *committed;
    size_t within_count, committed_count;
};

struct reclaiming;

/* A module of the list that is not loaded; see generation_left_out.c. */
struct left_out {
    const char *name, *why;
};

enum request_logged { LOGGED_NONE, LOGGED_PROBLEMS, LOGGED_ALL };

/* What each request goes by: looked up once, for a look-up compares texts. */
struct request_settings {
    int64_t deadline_ms, slow_us; /* slow_us 0: nothing is slow */
    size_t max_body;              /* bytes */
    size_t max_requests, share;   /* in progress; percent of them that one owner may have */
    enum request_logged logged;   /* which get a line in the log */
    uint64_t one_in;              /* of those without a problem, where all are logged */
};

struct generation {
    atomic_size_t holders;
    void (*released)(struct generation *); /* the last holder has gone; NULL: destroy at once */
    struct engine *engine;                 /* set before it serves; NULL in checks */
    const struct bb_api *api;              /* what its modules call; NULL until they are opened */
    atomic_bool superseded;                /* another one is live */
    struct work_pools *pools;              /* these three: reload_swap.c; NULL in checks */
    struct workers *workers;
    struct jobs *jobs;
    struct generation *next_alive; /* under the engine's lock */
    struct reclaiming
        *reclaiming; /* reclaim.c's; made beforehand, so that reclaiming cannot fail */
    int64_t live_ms; /* monotonic; when it went live */
    int64_t superseded_ms, cut_ms; /* read once superseded: since when, until when it may drain */
    const char **event_names;      /* of all modules, NULL-terminated */
    unsigned number;
    struct arena *arena;
    struct settings *settings;
    struct request_settings request; /* those of `settings` that every request asks for */
    struct core_module *modules;     /* in the order they were opened in */
    size_t module_count;
    struct left_out *left_out; /* as many places as modules */
    size_t left_out_count;
    bool kept;             /* by settings that were kept, see kept_settings.h */
    bool only_read;        /* its modules were read, not loaded: nothing of them may be called */
    struct router *router; /* a match's owner is the struct host_handle of the route's module */
    struct aead_keys *seal;
    const struct bb_authenticator *authenticator; /* NULL: no module gives one */
    struct host_handle *authenticator_host;
    const struct core_event *events;
    size_t event_count;
    struct cidr_list *trusted_proxies;
    struct cidr_list *inside; /* who needs no token for a route with BB_INSIDE */
    json_t *cors_origins;     /* borrowed from the settings; NULL: none */
};

/*
 * Reads the file, loads the modules, checks their tables, orders and opens them. Touches no server.
 * The caller is its one holder. NULL with problems added; what was opened has been closed then.
 */
struct generation *generation_build(const char *conf_path, unsigned number,
                                    const struct bb_api *api, struct setting_problems *problems);

/*
 * The same without calling any module: for the reference, and as the first half of
 * generation_build(). Constructors of modules' files run. A generation as far as it could be made;
 * where problems were added it is only good to be read and destroyed. NULL when not even the file
 * could be read or memory ran out.
 */
struct generation *generation_check(const char *conf_path, unsigned number,
                                    struct setting_problems *problems);

/*
 * The same by the settings that the worker before this one served with (kept_settings.h), as far as
 * their modules can be loaded: those that cannot are left out, unless host.quarantine is off.
 */
struct generation *generation_check_kept(const char *conf_path, int copy, unsigned number,
                                         struct setting_problems *problems);

/* The same without running a line of any module, constructors included: for `check`. */
struct generation *generation_judge(const char *conf_path, struct setting_problems *problems);

/* The second half: opens the modules of a generation without problems. 0, or -1: destroy it. */
int generation_open(struct generation *generation, const struct bb_api *api,
                    struct setting_problems *problems);

/* Has reports of crashes written where its settings say. A warning: none can be. */
void generation_place_reports(const struct generation *generation,
                              struct setting_problems *problems);

/* Calls `start` of all modules in their order, once the generation is the live one. */
void generation_start(struct generation *generation);

/* Calls `quiesce` of those started, in the reverse order. No effect if not started. */
void generation_quiesce(struct generation *generation);

void generation_acquire(struct generation *generation);
void generation_release(struct generation *generation);

/* Only while something else keeps its memory (the engine's list): false when nobody holds it. */
bool generation_try_acquire(struct generation *generation);

/*
 * Whether another one is live: who holds it is to come to an end soon. Any thread. A request is
 * also told, see `superseded` in request.h.
 */
static inline bool generation_superseded(const struct generation *generation)
{
    return atomic_load_explicit(&generation->superseded, memory_order_acquire);
}

/* Closes the modules in the reverse order and frees all. Nobody may hold it any more. */
void generation_destroy(struct generation *generation);

/* NULL: no module of this name; no module declares this event; no such command. */
const struct core_module *generation_module(const struct generation *generation, const char *name);
const struct core_event *generation_event(const struct generation *generation, const char *name);
const struct bb_command *generation_command(const struct generation *generation, const char *name,
                                            struct core_module **module);

/* bb_superseded() */
bool api_superseded(struct bb_host *host);

/* bb_module_at() */
const struct bb_module *api_module_at(struct bb_host *host, size_t index);

/* bb_event_names() */
size_t api_event_names(struct bb_host *host, const char *const **names);

/* Host functions that need the generation only; see host.h for what they do. */
void *api_host_alloc(struct bb_host *host, size_t size);
const char *api_setting_text(struct bb_host *host, const char *name);
int64_t api_setting_int(struct bb_host *host, const char *name);
double api_setting_number(struct bb_host *host, const char *name);
json_t *api_setting_json(struct bb_host *host, const char *name);
const void *api_settings(struct bb_host *host);
BB_PRINTF(2, 0) int api_open_fail(struct bb_host *host, const char *format, va_list args);
struct bb_service api_service(struct bb_host *host, const char *name);
bool api_service_at(struct bb_host *host, const char *kind, size_t index, struct bb_given *given);
int api_seal(struct bb_host *host, const void *plain, size_t length, const char *purpose,
             unsigned char **sealed, size_t *sealed_length);
int api_unseal(struct bb_host *host, const void *sealed, size_t length, const char *purpose,
               unsigned char **plain, size_t *plain_length);

/* generation_meters.c: makes handle.meters of a module, in the generation's arena. 0 or -1. */
int meters_bind(struct core_module *module, struct arena *arena);
/* bb_metric_add() */
void api_metric_add(struct bb_host *host, size_t metric, size_t value, uint64_t by);

#endif
