/*
 * Fixture of an integration run: one directory with a private PostgreSQL and a private Redis on
 * unix sockets, made once by harness_open() in the process of each worker; databases that are
 * copies of a migrated template; real hosts, each with its own configuration.
 *
 * check forks for each test. Objects made in a suite's unchecked set-up live in the runner and are
 * shared by the suite's tests; objects made by a test end with it. Nothing has to be freed:
 * returned memory lives as long as the process.
 */
#ifndef TESTS_HARNESS_H
#define TESTS_HARNESS_H

#include <check.h>
#include <jansson.h>
#include <libpq-fe.h>

#include "process.h"
#include "suite.h"

#define ADMIN_EMAIL "admin@example.com"
#define ADMIN_PASSWORD "first-admin-password"
#define HEALTHY_MS 20000 /* startup time limit, with sanitizers */
#define STOP_MS 12000    /* a graceful stop has 10 s */

/* ---- the run ---- */

/* Make and end the directory that all workers of the run share: removes it unless `keep`. */
void harness_share(void);
void harness_unshare(bool keep);

/* Makes the worker's own directory and starts its servers. `root`: the directory of the installed
 * busbar. */
void harness_open(const char *root);

/* Stops the servers; keeps the directory if `keep`, else removes it. */
void harness_close(bool keep);

/* Paths in the directory of the worker, and in the one that the workers share. */
char *harness_path(const char *name);
char *harness_shared_path(const char *name);

/* The program `busbar` and its directory of modules. `plain`: the ones of BUSBAR_PLAIN, the build
 * without sanitizers. */
const char *harness_program(bool plain);
const char *harness_modules(bool plain);

/* Returns the file of a test module in the build of BUSBAR_ROOT; `name` has no ".so". */
char *harness_test_module(const char *name);

/* ---- PostgreSQL and Redis (services.c) ---- */

struct postgres {
    char *data, *sockets, *log; /* paths */
    pid_t pid;                  /* 0: stopped */
    bool durable;               /* fsync on; else off, for speed */
    const char *more;           /* further options of the program, or NULL */
};

/* The run's shared server. Tests that stop a server make their own. */
extern struct postgres *the_postgres;
extern const char *the_redis; /* the socket of the run's Redis */

/* Makes and starts a new cluster with the migrated template. All are copies of one cluster and have
 * the same system identifier. */
struct postgres *postgres_make(const char *name, bool durable);

/* Makes and starts a cluster with its own system identifier and without the template. */
struct postgres *postgres_make_apart(const char *name);

/* Makes and starts a standby of this server, using pg_basebackup. */
struct postgres *postgres_make_standby(const struct postgres *primary, const char *name);

/* Returns the path of a PostgreSQL program, in the newest version installed. */
char *postgres_program(const char *name);

/* Runs a program on a cluster, as the user of its server; fails the test if the program fails. */
void postgres_tool(const struct postgres *pg, const char *const *argv);

/* Dumps a database to a file, whose path it returns, and restores such a file into a database. */
char *postgres_dump(const struct postgres *pg, const char *database);
void postgres_restore(const struct postgres *pg, const char *database, const char *file);

void postgres_start(struct postgres *pg);

int port_bind(int *port);   /* returns a socket that is bound to a free port of 127.0.0.1 */
int port_listen(int *port); /* returns a socket that listens on such a port */
int port_connect(int port); /* returns a socket that is connected to the port, or -1 */
bool port_accepts(int port);
int socket_connect(const char *path); /* returns a connected unix socket, or -1 */
int free_port(void);

/* Listens on a free port and returns it. Each connection has a thread that calls serve(arg, fd),
 * which closes the descriptor. The threads end with the process. */
int port_serve(void (*serve)(void *arg, int fd), void *arg);

/* SIGINT: fast shutdown, SIGQUIT: immediate shutdown, SIGKILL: like a crash. */
void postgres_stop(struct postgres *pg, int signal);

/* Returns the same server at another address: libpq's "host" and the text after it. */
struct postgres *postgres_at(const struct postgres *pg, const char *address);

/* Returns the server's socket. */
const char *postgres_socket(const struct postgres *pg);

/* Starts a separate Redis on a socket of that name; *pid is set to its process. Returns the
 * socket's path. */
char *redis_make(const char *name, pid_t *pid);
/* Runs a command of redis-cli; fails the test if Redis answers with an error. */
void redis_command(const char *path, const char *command);

/* Makes a database from the template: migrated, with the Admin account. Returns its name, in which
 * underscores replace hyphens. */
char *database_make(struct postgres *pg, const char *name);

/* Drops all databases that tests made, to bound the disk space of a run. */
void databases_drop(struct postgres *pg);

/* Returns a connection to a database; the caller frees it with PQfinish(). */
PGconn *database_connect(struct postgres *pg, const char *database);

/* Runs a statement with text parameters and returns the first column of the first row, or NULL. */
char *sql_text(PGconn *db, const char *sql, int count, const char *const *values);
int64_t sql_number(PGconn *db, const char *sql);
void sql_run(PGconn *db, const char *sql);

/* sql_is(db, wanted, format, ...) fails the test unless the statement's result is this number. */
#define sql_is(db, wanted, ...) sql_expect(__FILE__, __LINE__, (db), (wanted), __VA_ARGS__)
__attribute__((format(printf, 5, 6))) void sql_expect(const char *file, int line, PGconn *db,
                                                      int64_t wanted, const char *format, ...);

/* Waits until the statement's number is not 0; fails the test if it stays 0 for long. */
void sql_soon(PGconn *db, const char *sql);

/*
 * Runs PL/pgSQL in a trigger `when`, such as "BEFORE INSERT ON t FOR EACH ROW"; a database has one
 * of these triggers at a time. With SQL_GATE it waits while the gate is shut.
 */
void sql_trigger(PGconn *db, const char *when, const char *code);
#define SQL_TRIGGER_DROP "DROP FUNCTION test_trigger CASCADE"
#define SQL_GATE "PERFORM pg_advisory_xact_lock_shared(4711)"
#define SQL_GATE_SHUT "SELECT pg_advisory_lock(4711)"
#define SQL_GATE_OPEN "SELECT pg_advisory_unlock(4711)"
#define SQL_GATE_WAITS                                                                             \
    "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database WHERE d.datname ="   \
    " current_database() AND l.locktype = 'advisory' AND l.objid = 4711 AND NOT l.granted"

#define SQL_LOCK_WAITS                                                                             \
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"                         \
    " AND datname = current_database()"

/* Run a statement on a separate connection: to the database postgres, and like sql_soon(). */
void postgres_run(struct postgres *pg, const char *sql);
void database_soon(struct postgres *pg, const char *database, const char *sql);

/* ---- hosts (host.c) ---- */

/* A section is lines of YAML, each beginning with two spaces; NULL: the defaults of the tests. */
struct host_spec {
    const char *name;     /* for its file names; unique in the run */
    struct postgres *pg;  /* NULL: the run's own */
    const char *database; /* name; NULL: a new one, see database_make() */
    const char *redis;    /* socket or URL; NULL: the run's own, "": none */
    const char *redis_authorities;
    int redis_ms;            /* timeout of its commands; 0: 200 */
    const char *modules;     /* NULL: [auth, chat, health] */
    const char *module_path; /* NULL: harness_modules() */
    const char *http, *db, *auth, *chat, *log;
    const char *more; /* whole sections, at the end */
    const char *const *environment;
    const char *const *wrapper; /* words before the program, which they exec; NULL-terminated */
    int port;                   /* port to listen on; 0: any */
    bool keep_port;             /* start it again on the port of the first start */
    bool plain;                 /* use the build without sanitizers, for tests that sanitizers
                                 * would disturb */
    bool supervised;            /* run it under a supervisor, whose process is `pid` */
};

struct host {
    char *name, *conf, *log;
    pid_t pid;
    int port;
    const char *const *environment, *const *wrapper;
    bool plain, keep_port, supervised;
    bool other_schema; /* statements may fail, because the schema is a different one */
    int status;        /* wait status, if host_run() found that it had ended */
    pid_t owner;       /* the process that started it */
    struct host *older;
};

/* Writes its configuration, starts it, and waits until it listens. */
struct host *host_start(const struct host_spec *spec);

/* Writes the configuration only, for hosts that are expected not to start. */
struct host *host_prepare(const struct host_spec *spec);

/* Starts a prepared or ended host (again); false if it ended instead of listening. */
bool host_run(struct host *host);

/* Sends SIGTERM; fails unless the host ends in time with status 0 and without a sanitizer's report.
 */
void host_stop(struct host *host);

/* Stops all running hosts that this process started, the newest first. It is called after each
 * test, and after each suite, whose set-up may have started hosts. */
void hosts_stop(void);

/* kill -9 */
void host_kill(struct host *host);

bool host_alive(struct host *host);

/* Runs `busbar -c conf …` to its end and returns the exit status. Output goes to the host's log. */
int host_command(struct host *host, const char *const *environment, const char *const *words);

/* Returns the text of a host's configuration; write it to host->conf before a reload. */
char *host_configuration(const struct host_spec *spec);

/* Runs `busbar -c conf WORD` and returns its output, including errors. The file may be invalid. */
char *host_ask(const struct host *host, const char *word, int *status);

/* Like host_ask() with several words; the list ends with NULL. */
char *host_ask_words(const struct host *host, const char *const *words, int *status);

/* host_says(host, status, "status", "--json") is the same, and fails the test unless that is the
 * exit status. */
#define host_says(host, status, ...)                                                               \
    host_says_words((host), (status), (const char *const[]){__VA_ARGS__, NULL}, __FILE__, __LINE__)
char *host_says_words(const struct host *host, int status, const char *const *words,
                      const char *file, int line);

/* ck_prints(host, status, part, "status") also requires that the output has this part. */
#define ck_prints(host, status, part, ...)                                                         \
    host_says_part((host), (status), (part), (const char *const[]){__VA_ARGS__, NULL}, __FILE__,   \
                   __LINE__)
char *host_says_part(const struct host *host, int status, const char *part,
                     const char *const *words, const char *file, int line);

/* Returns what `busbar status --json` prints, but asks the control socket without that program. */
json_t *host_status(const struct host *host);

/* Returns how often the host's log has this text, and the log's size. */
size_t host_logged(const struct host *host, const char *part);
size_t host_log_size(const struct host *host);

/* Waits for a line that contains the text after this offset of the log, and returns it from the
 * text on; fails the test if it does not come. */
char *host_logs(const struct host *host, size_t from, const char *part);

/* Waits for a line after this offset of the log that has all of these parts. */
#define host_logs_line(host, from, ...)                                                            \
    host_logs_parts((host), (from), (const char *const[]){__VA_ARGS__, NULL})
void host_logs_parts(const struct host *host, size_t from, const char *const *parts);

/* Fails if a sanitizer has reported something in the log. */
void host_log_clean(const struct host *host);

#endif
