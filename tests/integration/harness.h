/*
 * What an integration run stands on: one directory with a private PostgreSQL and a private Redis on
 * unix sockets, made once by harness_open() in the runner's process; databases copied from a
 * migrated template; real hosts with a configuration of their own.
 *
 * check forks for each test. What a suite makes in its unchecked set-up lives in the runner and is
 * shared by the suite's tests; what a test makes ends with it. Nothing has to be freed: memory that
 * is handed out lives as long as the process.
 */
#ifndef TESTS_HARNESS_H
#define TESTS_HARNESS_H

#include <check.h>
#include <jansson.h>
#include <libpq-fe.h>

#include "process.h"

#define ADMIN_EMAIL "admin@example.com"
#define ADMIN_PASSWORD "first-admin-password"
#define HEALTHY_MS 20000 /* that a host may take to start under sanitizers */
#define STOP_MS 12000    /* a graceful stop has 10 s */

/* ---- the run ---- */

/* Makes the directory, starts the servers and migrates the template. `root`: where busbar is. */
void harness_open(const char *root);

/* Stops the servers; keeps the directory if `keep`, else removes it. */
void harness_close(bool keep);

/* A path in the run's directory. */
char *harness_path(const char *name);

/* The program `busbar` and its directory of modules; those of BUSBAR_PLAIN if `plain`. */
const char *harness_program(bool plain);
const char *harness_modules(bool plain);

/* The file of a module of the tests, by its name without ".so". */
char *harness_test_module(const char *name);

/* ---- PostgreSQL and Redis (services.c) ---- */

struct postgres {
    char *data, *sockets, *log; /* paths */
    pid_t pid;                  /* 0: stopped */
    bool durable;               /* fsync on; else off, for speed */
};

/* The run's own. Tests that stop a server make one for themselves. */
extern struct postgres *the_postgres;
extern const char *the_redis; /* its socket */

/* A new cluster, started; with roles and the migrated template. */
struct postgres *postgres_make(const char *name, bool durable);

/* Path of one of PostgreSQL's programs, of the newest version that there is. */
char *postgres_program(const char *name);

void postgres_start(struct postgres *pg);

/* SIGINT: fast, SIGQUIT: immediate, SIGKILL: as a crash. */
void postgres_stop(struct postgres *pg, int signal);

/* A Redis of one's own on a socket of that name; *pid is its process. Returns the socket's path. */
char *redis_make(const char *name, pid_t *pid);
/* Runs a command of redis-cli; it must not be answered with an error. */
void redis_command(const char *path, const char *command);

/* A new database, a copy of the template: migrated, with the Admin in it. */
char *database_make(struct postgres *pg, const char *name);

/* Drops all databases that tests made, to bound the disk space of a run. */
void databases_drop(struct postgres *pg);

/* A connection to it; the caller's to PQfinish(). */
PGconn *database_connect(struct postgres *pg, const char *database);

/* Runs a statement with text parameters and returns the first column of the first row, or NULL. */
char *sql_text(PGconn *db, const char *sql, int count, const char *const *values);
int64_t sql_number(PGconn *db, const char *sql);
void sql_run(PGconn *db, const char *sql);

/* ---- hosts (host.c) ---- */

/* Lines of YAML for a section, each with two spaces before it; NULL: the tests' defaults. */
struct host_spec {
    const char *name;        /* of its files; unique in the run */
    struct postgres *pg;     /* NULL: the run's own */
    const char *database;    /* name */
    const char *redis;       /* socket; NULL: the run's own, "": none */
    const char *modules;     /* NULL: [auth, chat, health] */
    const char *module_path; /* NULL: harness_modules() */
    const char *http, *db, *auth, *chat, *log;
    const char *more; /* whole sections, at the end */
    const char *const *environment;
    const char *const *wrapper; /* words before the program, which they exec; NULL-terminated */
    int port;                   /* to listen on; 0: any */
    bool keep_port;             /* the one of the first start, when it is started again */
    bool plain;                 /* the build without sanitizers, for what they do not bear */
    bool supervised;            /* with its supervisor, whose pid is the host's then */
};

struct host {
    char *name, *conf, *log;
    pid_t pid;
    int port;
    const char *const *environment, *const *wrapper;
    bool plain, keep_port, supervised;
    int status; /* as waitpid() gave it, when host_run() found that it had ended */
};

/* Writes its configuration, starts it, and waits until it listens. */
struct host *host_start(const struct host_spec *spec);

/* Only the configuration, for tests of what does not start. */
struct host *host_prepare(const struct host_spec *spec);

/* Starts a prepared or ended host (again); false if it ended instead of listening. */
bool host_run(struct host *host);

/* SIGTERM; fails unless it ends in time with status 0 and without a sanitizer's report. */
void host_stop(struct host *host);

/* kill -9 */
void host_kill(struct host *host);

bool host_alive(struct host *host);

/* Runs `busbar -c conf …` to its end; the exit status. Output goes to the host's log. */
int host_command(struct host *host, const char *const *environment, const char *const *words);

/* What its configuration says; to be written over host->conf before a reload. */
char *host_configuration(const struct host_spec *spec);

/* Runs `busbar -c conf WORD`, whatever is in the file, and returns what it printed, errors
 * included.
 */
char *host_ask(const struct host *host, const char *word, int *status);

/* The same with several words, up to NULL. */
char *host_ask_words(const struct host *host, const char *const *words, int *status);

/* Fails if a sanitizer has reported something in the log. */
void host_log_clean(const struct host *host);

#endif
