/*
 * Reads from replicas, on two hosts with two standbys. The tests send one request at a time, so
 * every read must return exactly the messages that were posted before, whichever host and server
 * handle it. This includes read-your-writes and monotonic reads.
 */
#include <poll.h>

#include "talk.h"

enum { STANDBYS = 2, HOSTS = 2, SOON_MS = 5000, ROUND_MS = 300, PHASE_MS = 600, LOST = 5 };
enum { MOST_PAUSE_MS = 20 }; /* of the clients, after a read */

static struct postgres *primary, *standbys[STANDBYS];
static struct host *hosts[HOSTS];
static struct person *person;
static struct talk talk;
static size_t posted;

static void begin(void)
{
    talk = talk_start(hosts[0], person, "reader@shop.example", ADMIN_EMAIL, NULL);
    posted = 1;
}

static void set_up(const char *name)
{
    primary = postgres_make(name, false);
    const char *database = database_make(primary, name);

    for (int i = 0; i < STANDBYS; i++)
        standbys[i] = postgres_make_standby(primary, text("%s-standby%d", name, i));
    struct postgres at = *primary;
    const char *urls = "";

    at.sockets =
        text("%s,%s target_session_attrs=read-write", primary->sockets, standbys[0]->sockets);
    for (int i = 0; i < STANDBYS; i++)
        urls = text("%s\"host=%s dbname=%s user=busbar\",", urls, standbys[i]->sockets, database);
    for (int i = 0; i < HOSTS; i++)
        hosts[i] = host_start(&(struct host_spec){.name = text("%s-%d", name, i),
                                                  .pg = &at,
                                                  .database = database,
                                                  .db = text("  replicas: [%s]\n", urls)});
    person = person_make(hosts[0], admin_of(hosts[0]), "reader", NULL);
    begin();
}

static void tear_down(void)
{
    for (int i = 0; i < HOSTS; i++)
        host_stop(hosts[i]);
    for (int i = 0; i < STANDBYS; i++)
        postgres_stop(standbys[i], SIGINT);
    postgres_stop(primary, SIGINT);
}

static void post(int host)
{
    ck_status(talk_post(hosts[host], person, &talk, "reader@shop.example", text("%zu", posted)),
              201);
    posted++;
}

static void read_all(int host)
{
    ck_assert_uint_eq(talk_length(hosts[host], person, &talk), posted);
}

/* Returns the reads of a replica on all loops of all hosts; -1 if one of them has another state. */
static json_int_t reads(int number, const char *state)
{
    json_int_t sum = 0;
    const json_t *loop;
    size_t at;

    for (int i = 0; i < HOSTS; i++) {
        const json_t *status = host_status(hosts[i]);

        json_array_foreach (json_object_get(status, "loops"), at, loop) {
            const json_t *row = json_array_get(json_object_get(loop, "replicas"), (size_t)number);
            const char *found = json_string_value(json_object_get(row, "state"));

            if (state && strcmp(found, state) != 0)
                return -1;
            sum += json_integer_value(json_object_get(row, "reads"));
        }
    }
    return sum;
}

static void until(int number, const char *state)
{
    WAIT_UNTIL_MSG(reads(number, state) >= 0, SOON_MS, "replica %d: not %s", number, state);
}

/* Posts and reads on all hosts for this time, and returns the reads of this replica meanwhile. */
static json_int_t work_for(int number, int ms)
{
    json_int_t before = reads(number, NULL);

    for (int64_t end = now_ms() + ms; now_ms() < end;) {
        if (rand() % 3 == 0)                   // NOLINT
            post(rand() % HOSTS);              // NOLINT
        read_all(rand() % HOSTS);              // NOLINT
        poll(NULL, 0, rand() % MOST_PAUSE_MS); // NOLINT
    }
    return reads(number, NULL) - before;
}

static json_int_t work(int number)
{
    return work_for(number, PHASE_MS);
}

static void until_read(int number)
{
    WAIT_UNTIL(work(number) > 0, SOON_MS);
}

/* Makes a standby replay transactions only after this time. */
static void delay(int number, const char *time)
{
    PGconn *db = database_connect(standbys[number], "postgres");

    sql_run(db, text("ALTER SYSTEM SET recovery_min_apply_delay = '%s'", time));
    sql_run(db, "SELECT pg_reload_conf()");
    PQfinish(db);
}

static void pause_replay(int number, bool pause)
{
    PGconn *db = database_connect(standbys[number], "postgres");

    sql_run(db, text("SELECT pg_wal_replay_%s()", pause ? "pause" : "resume"));
    PQfinish(db);
}

static void reads_are_never_older_than_earlier_requests(void)
{
    static const char *const times[] = {"0", "3 ms", "30 ms", "100 ms", "3 s"};

    srand((unsigned)now_ms());
    for (int i = 0; i < STANDBYS; i++)
        until(i, "in use");
    json_int_t served = 0;

    for (int i = repetitions(12, 24); i; i--) {
        int number = rand() % STANDBYS; // NOLINT

        delay(number, times[(size_t)rand() % COUNT(times)]); // NOLINT
        pause_replay(number, rand() % 4 == 0);               // NOLINT
        begin();                                             /* keeps the responses short */
        served += work_for(number, repetitions(PHASE_MS, ROUND_MS));
    }
    ck_assert_int_gt(served, 0);
    for (int i = 0; i < STANDBYS; i++) {
        delay(i, "0");
        pause_replay(i, true);
        post(0);
        until(i, "has not caught up");
        ck_assert_int_eq(work(i), 0);
        pause_replay(i, false);
        until(i, "in use");
        until_read(i);
        delay(i, "30 ms");
        until_read(i);
        delay(i, "0");
    }
}

/* Sends a signal to the sessions of the hosts. */
static void signal_sessions(PGconn *db, int signal)
{
    const char *pids = sql_text(db,
                                "SELECT string_agg(pid::text, ' ') FROM pg_stat_activity"
                                " WHERE application_name = 'busbar'",
                                0, NULL);

    for (char *end; *pids; pids = end + (*end == ' '))
        kill((pid_t)strtol(pids, &end, 10), signal);
}

static void a_replica_that_fails_is_left_out_and_comes_back(void)
{
    until(0, "in use");
    PGconn *db = database_connect(standbys[0], "postgres");
    size_t from = host_log_size(hosts[0]);

    begin();
    signal_sessions(db, SIGSTOP);
    for (int i = 0; i < HOSTS; i++)
        for (int k = 0; k < STANDBYS; k++)
            read_all(i);
    /* no response to a later check */
    host_logs(hosts[0], from, "no response within the time limit");
    signal_sessions(db, SIGCONT);
    PQfinish(db);
    until(0, "in use");
    until_read(0);
    postgres_stop(standbys[0], SIGKILL);
    for (int i = 0; i < HOSTS; i++)
        read_all(i);
    until(0, "does not respond");
    ck_prints(hosts[0], 1, "replica 1 does not respond", "doctor");
    work(0);
    postgres_start(standbys[0]);
    until(0, "in use");
    until_read(0);
}

TEST(replicas_are_used_unless_they_lag_or_fail)
{
    set_up("replicas");
    reads_are_never_older_than_earlier_requests();
    a_replica_that_fails_is_left_out_and_comes_back();
    tear_down();
}

static void until_replayed(PGconn *from, PGconn *standby)
{
    sql_soon(standby, text("SELECT (pg_last_wal_replay_lsn() >= '%s')::int",
                           sql_text(from, "SELECT pg_current_wal_lsn()", 0, NULL)));
}

/*
 * The promoted standby lacks the last messages and much WAL, which the other standby has. So the
 * other standby is further in the WAL than the new primary, on the former timeline.
 */
TEST(after_a_promotion_a_standby_of_the_former_primary_is_not_used)
{
    set_up("replicas_promoted");
    PGconn *old = database_connect(primary, "replicas_promoted");
    PGconn *next = database_connect(standbys[0], "replicas_promoted");
    PGconn *other = database_connect(standbys[1], "replicas_promoted");

    until(1, "in use");
    until_replayed(old, next);
    sql_run(next, "ALTER SYSTEM SET primary_conninfo = ''");
    sql_run(next, "SELECT pg_reload_conf()");
    sql_soon(next, "SELECT (count(*) = 0)::int FROM pg_stat_wal_receiver");
    for (int i = 0; i < LOST; i++)
        post(0);
    read_all(1);
    sql_run(old, "CREATE TABLE filler AS SELECT i, repeat('x', 50) FROM generate_series(1, 100000)"
                 " i");
    until_replayed(old, other);
    PQfinish(old);
    postgres_stop(primary, SIGKILL);
    ck_assert_str_eq(sql_text(next, "SELECT pg_promote()", 0, NULL), "t");
    posted -= LOST;
    for (int i = 0; i < HOSTS; i++) {
        status_soon(hosts[i], "/api/health/ready", NULL, 200);
        read_all(i);
    }
    until(0, "is not a standby");
    until(1, "does not follow the primary");
    ck_assert_int_eq(work(0) + work(1), 0);

    /* a standby of the new primary takes its place */
    postgres_stop(standbys[1], SIGINT);
    const char *place = standbys[1]->sockets;

    standbys[1] = postgres_make_standby(standbys[0], "replicas-new");
    postgres_stop(standbys[1], SIGINT);
    standbys[1]->sockets = text("%s", place);
    postgres_start(standbys[1]);
    PQfinish(next);
    PQfinish(other);
    until(1, "in use");
    until_read(1);
    tear_down();
}

SUITE(replicas, .timeout_s = 120)
