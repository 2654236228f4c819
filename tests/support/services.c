/* PostgreSQL and Redis for the tests: on unix sockets, never as root, removed after the run. */
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "harness.h"

#define UP_MS 20000
#define SOON_MS 30000
#define PG_ROOT "/usr/lib/postgresql"

char *postgres_program(const char *name)
{
    static int newest;
    DIR *versions = newest ? NULL : opendir(PG_ROOT);
    const struct dirent *entry;

    while (versions && (entry = readdir(versions)) != NULL) {
        long version = strtol(entry->d_name, NULL, 10);

        if (version > newest && !access(text(PG_ROOT "/%ld/bin/postgres", version), X_OK))
            newest = (int)version;
    }
    if (versions)
        closedir(versions);
    ck_assert_msg(newest > 0, "PostgreSQL's server is not installed");
    return text(PG_ROOT "/%d/bin/%s", newest, name);
}

void postgres_tool(const struct postgres *pg, const char *const *argv)
{
    struct process_spec spec = {.argv = argv, .log = pg->log, .as_service = true};

    ck_assert_msg(process_run(&spec) == 0, "%s failed:\n%s", argv[0], file_text(pg->log));
}

char *postgres_dump(const struct postgres *pg, const char *database)
{
    char *file = text("%s/%s.dump", pg->sockets, database);

    postgres_tool(pg, words("%s -Fc -h %s -U busbar -f %s %s", postgres_program("pg_dump"),
                            pg->sockets, file, database));
    return file;
}

void postgres_restore(const struct postgres *pg, const char *database, const char *file)
{
    postgres_tool(pg, words("%s -h %s -U busbar -d %s %s", postgres_program("pg_restore"),
                            pg->sockets, database, file));
}

static bool answers(const struct postgres *pg)
{
    PGconn *db = PQconnectdb(text("host=%s dbname=postgres user=busbar", pg->sockets));
    bool up = PQstatus(db) == CONNECTION_OK;

    PQfinish(db);
    return up;
}

static struct sockaddr_in loopback(int port)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

int port_bind(int *port)
{
    struct sockaddr_in at = loopback(0);
    socklen_t size = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_eq(bind(fd, (struct sockaddr *)&at, size), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&at, &size), 0);
    *port = ntohs(at.sin_port);
    return fd;
}

int port_listen(int *port)
{
    int fd = port_bind(port);

    ck_assert_int_eq(listen(fd, SOMAXCONN), 0);
    return fd;
}

static int connected(const void *to, socklen_t size)
{
    int fd = socket(((const struct sockaddr *)to)->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || !connect(fd, to, size))
        return fd;
    close(fd);
    return -1;
}

int port_connect(int port)
{
    struct sockaddr_in to = loopback(port);

    return connected(&to, sizeof to);
}

int socket_connect(const char *path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};

    snprintf(to.sun_path, sizeof to.sun_path, "%s", path);
    return connected(&to, sizeof to);
}

bool port_accepts(int port)
{
    int fd = port_connect(port);

    return fd >= 0 && !close(fd);
}

struct served {
    int fd; /* of the listener, and then of a connection */
    void (*serve)(void *arg, int fd);
    void *arg;
};

static void *serve_one(void *arg)
{
    const struct served *one = arg;

    one->serve(one->arg, one->fd);
    return NULL;
}

static void thread_begin(void *(*run)(void *), struct served served, int fd)
{
    struct served *own = kept(malloc(sizeof *own));
    pthread_t thread;

    *own = served;
    own->fd = fd;
    if (pthread_create(&thread, NULL, run, own) || pthread_detach(thread))
        abort();
}

static void *accept_all(void *arg)
{
    const struct served *listener = arg;
    int fd;

    while ((fd = accept(listener->fd, NULL, NULL)) >= 0)
        thread_begin(serve_one, *listener, fd);
    return NULL;
}

int port_serve(void (*serve)(void *arg, int fd), void *arg)
{
    int port, fd = port_listen(&port);

    thread_begin(accept_all, (struct served){.serve = serve, .arg = arg}, fd);
    return port;
}

int free_port(void)
{
    int port;

    close(port_bind(&port));
    return port;
}

/*
 * Starts PostgreSQL again if it has ended: it refuses to start while a backend of a killed
 * postmaster still exits.
 */
static bool runs(struct postgres *pg, const struct process_spec *spec)
{
    int status;

    if (process_wait(pg->pid, 0, &status))
        pg->pid = process_start(spec);
    return answers(pg);
}

void postgres_start(struct postgres *pg)
{
    struct process_spec spec = {
        .argv =
            words("%s -D %s -c listen_addresses= -c unix_socket_directories=%s -c"
                  " max_connections=200 -c jit=off -c log_min_messages=warning -c"
                  " log_min_error_statement=panic -c max_wal_size=128MB"
                  " -c dynamic_shared_memory_type=mmap -c fsync=%s -c full_page_writes=%s %s",
                  postgres_program("postgres"), pg->data, pg->sockets, pg->durable ? "on" : "off",
                  pg->durable ? "on" : "off", pg->more ? pg->more : "-c ssl=off"),
        .log = pg->log,
        .as_service = true};

    pg->pid = process_start(&spec);
    WAIT_UNTIL_MSG(runs(pg, &spec), UP_MS, "PostgreSQL does not start:\n%s", file_text(pg->log));
}

void postgres_stop(struct postgres *pg, int signal)
{
    if (pg->pid)
        process_stop(pg->pid, signal, UP_MS);
    pg->pid = 0;
}

struct postgres *postgres_at(const struct postgres *pg, const char *address)
{
    struct postgres *seen = kept(calloc(1, sizeof *seen));

    *seen = *pg;
    seen->sockets = text("%s", address);
    return seen;
}

const char *postgres_socket(const struct postgres *pg)
{
    return text("%s/.s.PGSQL.5432", pg->sockets);
}

/* Makes the template; every database of a test is a copy of it. */
static void template_make(struct postgres *pg)
{
    static const char *const password[] = {"BUSBAR_PASSWORD=" ADMIN_PASSWORD, NULL};
    postgres_run(pg, "CREATE DATABASE template_busbar");
    struct host *host = host_prepare(&(struct host_spec){
        .name = "template",
        .pg = pg,
        .database = "template_busbar",
        .modules = "[audit, auth, bulk, chat, health, mail, webhook, device, reading, "
                   "certificate]"});

    ck_assert_msg(!host_command(host, NULL, (const char *const[]){"migrate", NULL}),
                  "busbar migrate failed:\n%s", file_text(host->log));
    ck_assert_msg(!host_command(host, password,
                                (const char *const[]){"user", "add", "--role", "Admin", "--email",
                                                      ADMIN_EMAIL, NULL}),
                  "busbar user add failed:\n%s", file_text(host->log));
}

/* Makes the directories of a cluster, both empty, at a path without their endings. */
static struct postgres *cluster_place(const char *path, bool durable)
{
    struct postgres *pg = kept(calloc(1, sizeof *pg));

    pg->durable = durable;
    pg->data = text("%s.data", path);
    pg->sockets = text("%s.run", path);
    pg->log = text("%s.log", path);
    process_service_directory(pg->sockets);
    process_service_directory(pg->data);
    return pg;
}

static struct postgres *cluster_make(const char *path)
{
    struct postgres *pg = cluster_place(path, false);

    postgres_tool(
        pg, words("%s -D %s -U busbar -A trust -E UTF8 --no-sync --locale=C.UTF-8 --wal-segsize=1",
                  postgres_program("initdb"), pg->data));
    postgres_start(pg);
    return pg;
}

struct postgres *postgres_make_apart(const char *name)
{
    return cluster_make(harness_path(name));
}

struct postgres *postgres_make_standby(const struct postgres *primary, const char *name)
{
    struct postgres *pg = cluster_place(harness_path(name), false);

    postgres_tool(pg, words("%s -D %s -h %s -U busbar -R -c fast --no-sync",
                            postgres_program("pg_basebackup"), pg->data, primary->sockets));
    postgres_start(pg);
    return pg;
}

/* Returns the data of a stopped cluster with the template, which the first worker makes. */
static const char *spare_data(void)
{
    const char *ready = harness_shared_path("ready");
    int lock = open(harness_shared_path("lock"), O_CREAT | O_RDWR | O_CLOEXEC, 0600);

    ck_assert_int_eq(flock(lock, LOCK_EX), 0);
    if (access(ready, F_OK)) {
        struct postgres *spare = cluster_make(harness_shared_path("spare"));

        template_make(spare);
        postgres_stop(spare, SIGINT);
        file_write(ready, "");
    }
    close(lock);
    return harness_shared_path("spare.data");
}

struct postgres *postgres_make(const char *name, bool durable)
{
    struct postgres *pg = cluster_place(harness_path(name), durable);

    postgres_tool(pg, words("cp -a %s/. %s", spare_data(), pg->data));
    postgres_start(pg);
    return pg;
}

PGconn *database_connect(struct postgres *pg, const char *database)
{
    PGconn *db = PQconnectdb(text("host=%s dbname=%s user=busbar"
                                  " options='-c client_min_messages=warning'",
                                  pg->sockets, database));

    ck_assert_msg(PQstatus(db) == CONNECTION_OK, "%s", PQerrorMessage(db));
    return db;
}

char *sql_text(PGconn *db, const char *sql, int count, const char *const *values)
{
    PGresult *result = PQexecParams(db, sql, count, NULL, values, NULL, NULL, 0);
    ExecStatusType status = PQresultStatus(result);
    char *value = NULL;

    ck_assert_msg(status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK, "%s: %s", sql,
                  PQerrorMessage(db));
    if (PQntuples(result) > 0 && PQnfields(result) > 0 && !PQgetisnull(result, 0, 0))
        value = text("%s", PQgetvalue(result, 0, 0));
    PQclear(result);
    return value;
}

int64_t sql_number(PGconn *db, const char *sql)
{
    const char *value = sql_text(db, sql, 0, NULL);

    ck_assert_msg(value != NULL, "%s: no value", sql);
    return strtoll(value, NULL, 10);
}

void sql_expect(const char *file, int line, PGconn *db, int64_t wanted, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    const char *sql = text_of(format, args);

    va_end(args);
    int64_t number = sql_number(db, sql);

    ck_assert_msg(number == wanted, "%s:%d: %jd, not %jd: %s", file, line, number, wanted, sql);
}

void sql_run(PGconn *db, const char *sql)
{
    sql_text(db, sql, 0, NULL);
}

void sql_soon(PGconn *db, const char *sql)
{
    WAIT_UNTIL_MSG(sql_number(db, sql) != 0, SOON_MS, "0: %s", sql);
}

void sql_trigger(PGconn *db, const char *when, const char *code)
{
    sql_run(db, text("CREATE FUNCTION test_trigger() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                     " %s; RETURN NEW; END $$",
                     code));
    sql_run(db, text("CREATE TRIGGER test_trigger %s EXECUTE FUNCTION test_trigger()", when));
}

void postgres_run(struct postgres *pg, const char *sql)
{
    PGconn *db = database_connect(pg, "postgres");

    sql_run(db, sql);
    PQfinish(db);
}

void database_soon(struct postgres *pg, const char *database, const char *sql)
{
    PGconn *db = database_connect(pg, database);

    sql_soon(db, sql);
    PQfinish(db);
}

char *database_make(struct postgres *pg, const char *of)
{
    PGconn *db = database_connect(pg, "postgres");
    char *name = text("%s", of);

    for (char *at = name; *at; at++)
        if (*at == '-')
            *at = '_';

    /* copying the files takes a seventh of the time of also writing them to the log */
    sql_run(db, text("CREATE DATABASE %s TEMPLATE template_busbar%s", name,
                     PQserverVersion(db) >= 150000 ? " STRATEGY file_copy" : ""));
    PQfinish(db);
    db = database_connect(pg, name);
    sql_run(db, "UPDATE busbar_pause SET place = busbar_place()"); /* otherwise it is paused as a
                                                                    * clone */
    PQfinish(db);
    return name;
}

void databases_drop(struct postgres *pg)
{
    /* Failures are ignored, because an assertion of check between tests would end the process; a
     * database that remains only takes disk space. */
    PGconn *db = PQconnectdb(text("host=%s dbname=postgres user=busbar", pg->sockets));
    PGresult *names =
        PQexec(db, "SELECT quote_ident(datname) FROM pg_database WHERE NOT "
                   "datistemplate AND datname NOT IN ('postgres', 'template_busbar')");

    for (int i = 0; i < PQntuples(names); i++)
        PQclear(PQexec(db, text("DROP DATABASE %s WITH (FORCE)", PQgetvalue(names, i, 0))));
    PQclear(names);
    PQfinish(db);
}

char *redis_make(const char *name, pid_t *pid)
{
    char *directory = harness_path(text("%s.run", name));
    char *path = text("%s/redis.sock", directory);

    if (access(directory, F_OK))
        process_service_directory(directory);
    /* the word after --save is empty */
    *pid = process_start(&(struct process_spec){
        .argv = words("redis-server --port 0 --unixsocket %s --save  --appendonly no"
                      " --maxmemory 64mb --dir %s",
                      path, directory),
        .log = harness_path(text("%s.log", name)),
        .as_service = true});
    WAIT_UNTIL_MSG(process_run(&(struct process_spec){.argv = words("redis-cli -s %s ping", path),
                                                      .log = harness_path("redis-ping.log")}) == 0,
                   UP_MS, "Redis does not start");
    return path;
}

void redis_command(const char *path, const char *command)
{
    const char *log = harness_path("redis-command.log");
    const char *argv[] = {"sh", "-c", text("redis-cli -e -s '%s' %s", path, command), NULL};

    ck_assert_msg(!process_run(&(struct process_spec){.argv = argv, .log = log}), "%s",
                  file_text(log));
}
