/*
 * The descriptor of a module: one exported const symbol that consists of tables. It replaces
 * registration calls. So the host can read everything that a module provides without running its
 * code, and nothing can stay registered after a generation has ended.
 *
 *     BB_EXPORT const struct bb_module busbar_module = {
 *         BB_MODULE_HEAD("hello", "1.0.0"),
 *         .routes = BB_TABLE(routes),
 *     };
 *
 * Four functions per generation (a loaded configuration; each reload creates a new one):
 * - `open` builds the state. It may fail, and must have no effect outside the module.
 * - `start` announces that the generation goes live: its first request follows.
 * - `quiesce` announces that a newer generation has replaced this one, or that the host is stopping
 *   (bb_superseded() distinguishes the two). No new work starts in the generation, but work in
 *   progress still uses the state.
 * - `close` frees the state, after the last user of the generation is gone. The host also calls it
 *   after `open` without `start`, for example if another module failed to open.
 *
 * All four run on a host thread, never two at a time for the same state. `start` of a new
 * generation runs before `quiesce` of the old one. A module keeps no mutable static variables and
 * starts no threads.
 */
#ifndef BUSBAR_MODULE_H
#define BUSBAR_MODULE_H

#include <busbar/abi.h>
#include <busbar/field.h>
#include <busbar/metric.h>
#include <busbar/principal.h>

struct bb_host;           /* the module's handle, one per generation and module (host.h) */
struct bb_request;        /* one unit of work on a fiber (request.h) */
struct bb_tx;             /* a transaction (sql.h) */
struct bb_event;          /* a raised event (event.h) */
struct bb_worker_context; /* the argument of a worker (host.h) */

/* The type of handlers. One declaration can name several: bb_handler news_list, news_get; */
typedef int bb_handler(struct bb_request *rq);

enum bb_route_flags {
    BB_CREATES = 1,       /* supports Idempotency-Key */
    BB_NO_BODY = 2,       /* no field is required: an empty body is valid, with any content type */
    BB_FORM_TOO = 4,      /* the body may also be application/x-www-form-urlencoded */
    BB_OAUTH_ERRORS = 8,  /* error bodies also have `error` and `error_description` of RFC 6749 */
    BB_INSIDE = 16,       /* clients in http.metrics_networks need no token and no role */
    BB_KEEP_OTHERS = 32,  /* the handler also gets undeclared fields of the body, as sent */
    BB_REPLY_IN_503 = 64, /* a 503 may have the body of `reply` (for the reference) */
    BB_AUDITED = 128,  /* bb_audit() records the request before its handler runs or a 403 is sent */
    BB_VERSIONED = 256 /* a 200 has an ETag; a PATCH or PUT calls bb_if_match_or_end() (sql.h) */
};

enum bb_part_kind {
    BB_PART_FIELDS = 1, /* a JSON object, checked like a JSON body against `body` of the route */
    BB_PART_FILES
};

enum {
    BB_FILES_MAX = 100
    /* maximum files of a request: limits the sum of count_max over the parts of a route */
};

/*
 * Describes a part of multipart/form-data, which a client may send instead of a JSON body. The name
 * "*" accepts files under any name, but no text fields (parts without a file name whose type is
 * absent or text/plain). "NAME[]" is the same as NAME. A file without a file name gets the name of
 * its part. Files of undeclared parts are refused; other undeclared parts are ignored with a
 * warning. A part with neither content nor a file name is ignored, because forms send one for each
 * field that was left empty. A route has at most one part of kind BB_PART_FIELDS.
 */
struct bb_part {
    const char *name;
    enum bb_part_kind kind;
    unsigned flags;     /* BB_REQUIRED: at least one is required */
    unsigned count_max; /* BB_PART_FILES: maximum number of files */
    size_t bytes_max;   /* maximum size of one file */
    const char *help;
};

struct bb_route {
    const char *method;                    /* "GET", "POST", "PUT", "PATCH", "DELETE" */
    const char *path;                      /* "/api/chat/chain/:headUuid" */
    unsigned roles;                        /* enum bb_role; never 0: public routes need BB_ANYONE */
    int (*handler)(struct bb_request *rq); /* sequential code on a fiber; see request.h */
    struct bb_table segments;              /* struct bb_field: a row for each :name of the path */
    struct bb_table query;                 /* struct bb_field */
    struct bb_table body;                  /* struct bb_field; the body is a JSON object */
    struct bb_table reply;  /* struct bb_field of the success body (for the reference) */
    size_t body_max;        /* bytes; 0: the setting http.max_body */
    unsigned deadline_ms;   /* 0: the setting http.deadline */
    unsigned flags;         /* enum bb_route_flags */
    int success;            /* status of success (for the reference); 0: 200 */
    const char *help;       /* one sentence for the reference */
    size_t values_max;      /* maximum number of members and items in a JSON body; 0: 12,000 */
    struct bb_table parts;  /* struct bb_part; none: no multipart/form-data */
    size_t files_max;       /* maximum bytes of all files of a request together */
    const char *files_in;   /* [MODULE.]NAME of the setting that names the directory of files */
    const char *files_pool; /* the module's pool whose threads write the files */
    /* Called on the loop when arriving files cannot be written. May be NULL. */
    void (*files_failed)(struct bb_host *host);
    /* Content type of a success (for the reference); NULL: JSON as described by `reply`. */
    const char *reply_type;
    /* Other statuses (for the reference), terminated by 0, such as 202, 304 and errors that are
     * unusual for such a route. May be NULL. */
    const int *errors;
};

/* An event that this module raises. Its payload is a JSON object with these fields. */
struct bb_event_descriptor {
    const char *name; /* "message.new" */
    unsigned version;
    struct bb_table payload; /* struct bb_field */
    const char *help;
};

enum bb_hook_kind { BB_WITHIN = 1, BB_COMMITTED };

/*
 * A hook on an event of any module. Exactly one of the two functions is set.
 * - within: runs in the publisher's transaction and adds statements with bb_add(). Returns 0, or -1
 *   to veto after bb_fail(). It must not wait: no queries, no offloads.
 * - committed: runs on a separate fiber after the commit, with a copy of the event.
 */
struct bb_hook {
    const char *event; /* name, or "*" for every event */
    enum bb_hook_kind kind;
    int (*within)(struct bb_request *rq, struct bb_tx *tx, const struct bb_event *event,
                  void *state);
    void (*committed)(struct bb_request *rq, const struct bb_event *event);
};

/* A service for other modules: an interface (a const struct of functions) and its state. */
struct bb_service_descriptor {
    const char *name; /* "authenticator" */
    unsigned version;
    const void *interface; /* a struct that begins with its size; its functions take the state */
};

struct bb_need {
    const char *service;
    unsigned version; /* the minimum version */
};

/*
 * A PostgreSQL NOTIFY channel. The host calls `heard` on a loop for each notification; `heard` must
 * not wait. `payload` is borrowed. If the host may have missed notifications, `payload` is NULL;
 * then assume that anything has changed. The host may call `heard` at any time between `open` and
 * `close`, also while the generation drains.
 */
struct bb_channel {
    const char *name; /* an SQL identifier */
    void (*heard)(void *state, const char *payload);
};

enum bb_job_flags { BB_ONCE = 1 /* runs on one host of the cluster at a time, by advisory lock */ };

/*
 * A periodic job, which runs on a fiber while the generation is live. A reload keeps the time at
 * which a job of the same name is due; a run in progress finishes in its own generation.
 */
struct bb_job {
    const char *name;
    unsigned every_s;
    unsigned flags;
    void (*run)(struct bb_request *rq);
};

/* A thread pool for functions that block or use much CPU time; see bb_offload(). */
struct bb_pool {
    const char *name;
    /* 0: one thread per event loop, and one more thread, which serves only callers with at most two
     * calls in the pool. The other threads pause while processors are scarce. */
    unsigned threads;
    unsigned queue; /* maximum number of waiting calls; further calls are refused */
    int nice;       /* added to the niceness of the threads, so that they do not delay the loops */
};

/*
 * A worker: a thread for an event loop of the module, such as the loop that sends webhooks. The
 * host creates and joins the thread. The worker runs after `start`, uses the database only through
 * bb_run(), and must return within bb_leave_ms() after bb_stopping() becomes true. After a reload,
 * it may finish work in progress while the worker of the new generation already runs.
 */
struct bb_worker {
    const char *name;
    void (*run)(struct bb_worker_context *context);
    int nice; /* as in struct bb_pool */
};

/* The flags of a command. */
enum bb_command_flag {
    /*
     * The command has no time limit (the default is 30 s). The first SIGINT or SIGTERM does not end
     * the process but makes bb_superseded() true, so that the command can stop cleanly; a second
     * signal ends the process. The host logs only warnings and errors, because the command prints
     * its progress.
     */
    BB_COMMAND_LONG = 1,
    /*
     * The command needs neither the database nor the settings that modules require. `open` is not
     * called, and rq->state is NULL.
     */
    BB_COMMAND_ALONE = 2
};

/*
 * A command of the program, such as `busbar user add --email …`. Runs on a fiber with the
 * configuration loaded and no listener, prints with bb_print(), and returns the exit status.
 * `start` is not called. Secret options are read from the environment (BUSBAR_<NAME>) or standard
 * input, never from argv. The first required option that is not secret may be given without its
 * name: `user add a@b.example`.
 */
struct bb_command {
    const char *name;        /* "user add" */
    struct bb_table options; /* struct bb_field; bb_body() returns an object with their values */
    int (*run)(struct bb_request *rq);
    const char *help;
    unsigned flags; /* enum bb_command_flag */
};

/* The flags of a module. */
enum bb_module_flag {
    BB_MODULE_SEALS = 1 /* uses bb_seal(): the host does not serve without `secrets.keys` */
};

struct bb_module {
    size_t size;
    unsigned abi_major, abi_minor;
    const char *name; /* also the name of the module's settings section */
    const char *version;
    const char *schema;       /* text of schema.sql ("-- step 1: title" begins a step), or NULL */
    struct bb_table settings; /* struct bb_field */
    struct bb_table routes;   /* struct bb_route */
    struct bb_table events;   /* struct bb_event_descriptor */
    struct bb_table hooks;    /* struct bb_hook */
    struct bb_table services; /* struct bb_service_descriptor */
    struct bb_table needs;    /* struct bb_need */
    struct bb_table channels; /* struct bb_channel */
    struct bb_table jobs;     /* struct bb_job */
    struct bb_table pools;    /* struct bb_pool */
    struct bb_table workers;  /* struct bb_worker */
    struct bb_table commands; /* struct bb_command */
    int (*open)(struct bb_host *host, void **state); /* 0, or -1 after bb_open_fail() */
    void (*start)(struct bb_host *host, void *state);
    void (*quiesce)(struct bb_host *host, void *state);
    void (*close)(struct bb_host *host, void *state);
    struct bb_table metrics; /* struct bb_metric */
    /*
     * struct bb_need: optional services. If no module provides the service in that version, this
     * module works without it. The provider may be opened after this module, so bb_service()
     * returns the service from `start` on. A name that ends in "*" matches all services with that
     * prefix; bb_service_at() lists them.
     */
    struct bb_table wants;
    unsigned flags;       /* enum bb_module_flag */
    const char *help;     /* the module's purpose in one or two sentences (for the reference) */
    size_t settings_size; /* size of the struct that bb_settings() returns; 0: none */
};

#define BB_MODULE_HEAD(module_name, module_version)                                                \
    .size = sizeof(struct bb_module), .abi_major = BB_ABI_MAJOR, .abi_minor = BB_ABI_MINOR,        \
    .name = (module_name), .version = (module_version)

/* The name of the exported symbol. In C++ const objects have internal linkage without extern. */
#define BB_MODULE_SYMBOL "busbar_module"

#ifdef __cplusplus
extern "C" BB_EXPORT const struct bb_module busbar_module;
#endif

#endif
