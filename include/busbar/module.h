/*
 * A module's descriptor: one exported const symbol of tables. There are no register calls, so the
 * host knows everything a module brings without running a line of it, and nothing can be forgotten
 * when a generation ends.
 *
 *     BB_EXPORT const struct bb_module busbar_module = {
 *         BB_MODULE_HEAD("hello", "1.0.0"),
 *         .routes = BB_TABLE(routes),
 *     };
 *
 * The four verbs follow a reload: `open` builds the state of one generation (it may fail and has no
 * effect outside), `start` says that this generation goes live: its first request follows.
 * `quiesce` says that it is superseded, or that the host has stopped (bb_superseded() tells them
 * apart): nothing begins in it any more, but what began goes on, so the state must last. `close`
 * says that the last holder has gone. All four run on a thread of the host, never two at a time for
 * one state; `close` also follows an `open` without a `start`. A new generation's `start` comes
 * before the old one's `quiesce`. A module keeps no mutable statics and starts no threads.
 */
#ifndef BUSBAR_MODULE_H
#define BUSBAR_MODULE_H

#include <busbar/abi.h>
#include <busbar/field.h>
#include <busbar/metric.h>
#include <busbar/principal.h>

struct bb_host;           /* the module's handle, one per generation and module (host.h) */
struct bb_request;        /* one piece of work on a fiber (request.h) */
struct bb_tx;             /* a transaction (sql.h) */
struct bb_event;          /* a raised event (event.h) */
struct bb_worker_context; /* what a worker is given (host.h) */

enum bb_route_flags {
    BB_CREATES = 1,      /* honours Idempotency-Key */
    BB_NO_BODY = 2,      /* needs no field: an empty body is fine, whatever its content type */
    BB_FORM_TOO = 4,     /* the body may also be application/x-www-form-urlencoded */
    BB_OAUTH_ERRORS = 8, /* error bodies carry `error` and `error_description` of RFC 6749 too */
    BB_INSIDE = 16,      /* clients of http.inside need no token and no role; since minor 1 */
    BB_KEEP_OTHERS = 32, /* the body's undeclared fields are handed over too, as sent; minor 1 */
    BB_REPLY_IN_503 = 64 /* 503 may have the body of `reply`, for the reference; since minor 5 */
};

enum bb_part_kind {
    BB_PART_FIELDS = 1, /* a JSON object, checked as a JSON body is: `body` of the route */
    BB_PART_FILES
};

enum { BB_FILES_MAX = 100 }; /* of a request: what the parts of a route allow together */

/*
 * A part of multipart/form-data, next to JSON, by its name; "*" stands for files of any name.
 * "NAME[]" is NAME. A file without a name has that of its part. Other files are refused, other
 * texts passed over with a warning. A part with neither content nor the name of a file is passed
 * over: forms send one for each field that was left empty.
 */
struct bb_part {
    const char *name;
    enum bb_part_kind kind;
    unsigned flags;     /* BB_REQUIRED: at least one */
    unsigned count_max; /* files; there is one part of fields at most */
    size_t bytes_max;   /* of one file */
    const char *help;
};

struct bb_route {
    const char *method;                    /* "GET", "POST", "PUT", "PATCH", "DELETE" */
    const char *path;                      /* "/api/chat/chain/:headUuid" */
    unsigned roles;                        /* enum bb_role; never 0, BB_ANYONE must be written */
    int (*handler)(struct bb_request *rq); /* straight-line code on a fiber; see request.h */
    struct bb_table segments;              /* struct bb_field: a row for each :name of the path */
    struct bb_table query;                 /* struct bb_field */
    struct bb_table body;                  /* struct bb_field; the body is a JSON object */
    struct bb_table reply;  /* struct bb_field of the success body, for the reference */
    size_t body_max;        /* bytes; 0: the setting http.max_body */
    unsigned deadline_ms;   /* 0: the setting http.deadline */
    unsigned flags;         /* enum bb_route_flags */
    int success;            /* status of success, for the reference (0: 200) */
    const char *help;       /* one sentence for the reference */
    size_t values_max;      /* members and items in a JSON body; 0: 12,000 */
    struct bb_table parts;  /* struct bb_part; none: no multipart/form-data */
    size_t files_max;       /* bytes of all files of a request together */
    const char *files_in;   /* a setting of the module: the directory for files; see bb_file() */
    const char *files_pool; /* a pool of the module, whose threads write them */
    /* Told on the loop when files cannot be written as they arrive. NULL: nobody. Since minor 2. */
    void (*files_failed)(struct bb_host *host);
    /* Content type of success, for the reference; NULL: JSON, as `reply` has it. Since minor 5. */
    const char *reply_type;
    /* Statuses that it may answer beside success and the usual errors of its kind, for the
     * reference, and 0 at the end: 202, 304, errors. NULL: none. Since minor 5. */
    const int *errors;
};

/* An event that this module raises. Payload fields are those of its JSON object. */
struct bb_event_descriptor {
    const char *name; /* "message.new" */
    unsigned version;
    struct bb_table payload; /* struct bb_field */
    const char *help;
};

enum bb_hook_kind { BB_WITHIN = 1, BB_COMMITTED };

/*
 * A hook on an event of whatever module. Exactly one of the two functions is set.
 * within: in the publisher's transaction; adds statements with bb_add(); returns 0, or -1 to veto
 *   after bb_fail(). It must not wait: no query, no offload.
 * committed: on a fiber of its own after the commit, with a copy of the event.
 */
struct bb_hook {
    const char *event; /* name, or "*" for every event */
    enum bb_hook_kind kind;
    int (*within)(struct bb_request *rq, struct bb_tx *tx, const struct bb_event *event,
                  void *state);
    void (*committed)(struct bb_request *rq, const struct bb_event *event);
};

/* A service given to other modules: an interface (a const struct of functions) and its state. */
struct bb_service_descriptor {
    const char *name; /* "authenticator" */
    unsigned version;
    const void *interface; /* a struct that begins with its size; its functions take the state */
};

struct bb_need {
    const char *service;
    unsigned version; /* at least */
};

/*
 * A channel of PostgreSQL's NOTIFY. `heard` runs on a loop and must not wait; payload is borrowed,
 * and NULL after a time in which notifications may have been missed: anything may have changed. It
 * may come at any time between `open` and `close`: a generation that drains hears as well.
 */
struct bb_channel {
    const char *name; /* an SQL identifier */
    void (*heard)(void *state, const char *payload);
};

enum bb_job_flags { BB_ONCE = 1 /* one run at a time in the whole cluster, by advisory lock */ };

/*
 * A periodic job, run on a fiber while the generation is live. A reload keeps the time at which a
 * job of the same name is due; a run under way is finished in its own generation.
 */
struct bb_job {
    const char *name;
    unsigned every_s;
    unsigned flags;
    void (*run)(struct bb_request *rq);
};

/* A pool of threads for functions that block or burn the processor; see bb_offload(). */
struct bb_pool {
    const char *name;
    unsigned threads;
    unsigned queue; /* waiting calls at most; more are refused */
    int nice;       /* added to the threads' niceness, so that they do not delay the loops */
};

/*
 * A thread of the module's own, made and joined by the host: an event loop that must not share one
 * of the host's (sending webhooks). It runs after `start`, touches the database only through
 * bb_run(), and returns once bb_stopping() is true, within bb_leave_ms(): soon where the host
 * stops; where it is superseded it may finish what it has begun, beside the worker of the new
 * generation.
 */
struct bb_worker {
    const char *name;
    void (*run)(struct bb_worker_context *context);
};

/* See `flags`. Since minor 6. */
enum bb_command_flag {
    /*
     * It may take as long as it likes (others have 30 s), and ends cleanly when it is interrupted:
     * a first SIGINT or SIGTERM does not end the process, but makes bb_superseded() true. A second
     * one ends it. Its log begins with warnings, for it shows itself how far it is.
     */
    BB_COMMAND_LONG = 1
};

/*
 * A command of the program: `busbar user add --email …`. Runs on a fiber with the configuration
 * loaded and no listener; prints with bb_print(); returns the exit status. `start` is not called.
 * Secret options are read from the environment (BUSBAR_<NAME>) or standard input, never from argv.
 * The first required one that is not secret may be given as a bare word: `user add a@b.example`.
 */
struct bb_command {
    const char *name;        /* "user add" */
    struct bb_table options; /* struct bb_field; handed over like a body */
    int (*run)(struct bb_request *rq);
    const char *help;
    unsigned flags; /* enum bb_command_flag; since minor 6 */
};

/* See `flags`. Since minor 2. */
enum bb_module_flag {
    BB_MODULE_SEALS = 1 /* it uses bb_seal(): the host does not serve it without `secrets.keys` */
};

struct bb_module {
    size_t size;
    unsigned abi_major, abi_minor;
    const char *name; /* also the name of its section of settings */
    const char *version;
    const char *schema;       /* text of schema.sql: steps "-- step 1: title"; or NULL */
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
    struct bb_table metrics; /* struct bb_metric; since minor 1 */
    /*
     * struct bb_need: services to do without where no module gives them in that version. The giver
     * may be opened later: bb_service() has them from `start` on. Since minor 2. A name that ends
     * in "*" stands for all services that begin so, which bb_service_at() has; since minor 4.
     */
    struct bb_table wants;
    unsigned flags;       /* enum bb_module_flag; since minor 2 */
    const char *help;     /* what it is for: a sentence or two for the reference; since minor 5 */
    size_t settings_size; /* of the struct that bb_settings() returns; 0: none; since minor 11 */
};

#define BB_MODULE_HEAD(module_name, module_version)                                                \
    .size = sizeof(struct bb_module), .abi_major = BB_ABI_MAJOR, .abi_minor = BB_ABI_MINOR,        \
    .name = (module_name), .version = (module_version)

/* The name of the exported symbol. */
#define BB_MODULE_SYMBOL "busbar_module"

#ifdef __cplusplus
extern "C" BB_EXPORT const struct bb_module busbar_module; /* else C++ keeps it to its file */
#endif

#endif
