/* PgBouncer between the host and PostgreSQL: a pooler that changes sessions is detected at the
 * start and reported, before it can break requests. */
#include "poke.h"

enum { PATIENCE_MS = 30000, STATEMENT_MS = 4000 };

struct pooler {
    pid_t pid;
    struct postgres at; /* the pooler's address */
    const char *log;
};

static bool is_open(const struct pooler *pooler)
{
    PGconn *db =
        PQconnectdb(text("host=%s dbname=pooler user=busbar options=''", pooler->at.sockets));
    bool open = PQstatus(db) == CONNECTION_OK;

    PQfinish(db);
    return open;
}

static struct pooler *pooler_start(const char *name, const char *mode, const char *ignored)
{
    struct pooler *pooler = kept(calloc(1, sizeof *pooler));
    const char *directory = harness_path(text("%s.pooler", name));
    const char *conf = text("%s.ini", directory);
    FILE *file = fopen(conf, "w");

    process_service_directory(directory);
    ck_assert_ptr_nonnull(file);
    fprintf(file,
            "[databases]\n* = host=%s port=5432 user=busbar\n"
            "[pgbouncer]\nlisten_addr =\nunix_socket_dir = %s\nlisten_port = 6432\n"
            "auth_type = any\npool_mode = %s\ndefault_pool_size = 40\n"
            "ignore_startup_parameters = %s\n",
            the_postgres->sockets, directory, mode, ignored);
    fclose(file);
    pooler->log = text("%s.log", directory);
    pooler->at = *the_postgres;
    pooler->at.sockets = text("%s port=6432", directory);
    const char *argv[] = {"/usr/sbin/pgbouncer", conf, NULL};

    pooler->pid =
        process_start(&(struct process_spec){.argv = argv, .log = pooler->log, .as_service = true});
    WAIT_UNTIL_MSG(is_open(pooler), PATIENCE_MS, "%s", file_text(pooler->log));
    return pooler;
}

/* Sets the settings that the pooler drops in the database itself. */
static void pin(const char *database)
{
    EACH_TEXT (setting, "intervalstyle = iso_8601", "timezone = 'UTC'", "statement_timeout = '4s'",
               "idle_in_transaction_session_timeout = '8s'")
        postgres_run(the_postgres, text("ALTER DATABASE %s SET %s", database, setting));
}

static struct host *host_behind(struct pooler *pooler, const char *name)
{
    return host_start(&(struct host_spec){
        .name = name,
        .pg = &pooler->at,
        .database = name,
        .db = text("  statement_timeout: %d\n", STATEMENT_MS),
        .modules = text("[auth, health, \"%s\"]", harness_test_module("module_poke"))});
}

static const struct {
    const char *mode, *ignored;
    bool pinned;
    const char *words; /* in the log and in `busbar status`; NULL: no problem */
} poolers[] = {
    {"session", "", true, "unsupported startup parameter"},
    {"session", "options", false, "does not have the settings that busbar requires ("},
    /* the first connection finds the settings missing, later ones also find the session shared */
    {"transaction", "options", false, "a connection pooler"},
    {"transaction", "options", true, "gives one session to several connections"},
    {"statement", "options", true, "gives one session to several connections"},
    {"session", "options", true, NULL},
};

TEST_EACH(a_pooler_that_changes_sessions_is_detected_at_startup, sizeof poolers / sizeof poolers[0])
{
    const char *name = text("pooler_%d", _i), *words = poolers[_i].words;

    database_make(the_postgres, name);
    if (poolers[_i].pinned)
        pin(name);
    struct pooler *pooler = pooler_start(name, poolers[_i].mode, poolers[_i].ignored);
    struct host *host = host_behind(pooler, name);

    if (words) {
        host_logs(host, 0, words);
        WAIT_UNTIL(strstr(host_says(host, 0, "status"), words) != NULL, PATIENCE_MS);
        ck_assert_int_eq(http(host, "GET", "/api/health/ready", NULL, NULL)->status, 503);
        if (strstr(words, "requires ("))
            ck_assert(host_logged(host, "requires (IntervalStyle,") ||
                      host_logged(host, "requires (statement_timeout,"));
        /* a single connection may get a session that no other connection has used, and PgBouncer
         * 1.20 and later keep the settings that migrations need */
        if (!*poolers[_i].ignored || host_logged(host, "requires (IntervalStyle"))
            ck_assert_int_ne(host_command(host, NULL, (const char *const[]){"migrate", NULL}), 0);
    } else {
        status_soon(host, "/api/health/ready", NULL, 200);
        poke(host, "POST", "unit/one", 201);
        poke(host, "POST", "transaction/one", 201);
        host_says(host, 0, "migrate");
    }
    host_stop(host);
    process_stop(pooler->pid, SIGINT, PATIENCE_MS);
}

static void set_up(void)
{
    database_make(the_postgres, "pooler");
}

SUITE(pooler, .before_all = set_up, .timeout_s = 120)
