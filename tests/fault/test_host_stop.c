/* The host is stopped while messages are written, and clients leave while their messages wait. */
#include <sys/wait.h>

#include "fault/common.h"
#include "fault/torture.h"
#include "wire.h"

enum { LEAVERS = 100, LEFT_MS = 10000, CUT_MS = 10000, GONE_MS = 14000 };

TEST(a_stop_cuts_no_request)
{
    struct scene *scene = scene_make("fault_term", NULL, 1, SCENE_ENDLESS);

    load_begin(scene);
    scene_rush(scene);
    host_stop(scene->hosts[0]);
    ck_assert_int_eq(atomic_load(&scene->load.cut), 0);
    scene_restart(scene, 0);
    scene_recovery(scene);
    struct ledger_report report = fault_over(scene);

    ck_assert_uint_eq(report.unsure, 0);
}

#define ONE_WAITS "SELECT count(*) FROM pg_locks WHERE NOT granted"

/* Sets *ms to the time the host takes to end after SIGTERM; returns its wait status. */
static int stop_of(const struct host *host, int64_t *ms)
{
    int64_t began = now_ms();
    int status = process_stop(host->pid, SIGTERM, GONE_MS);

    *ms = now_ms() - began;
    return status;
}

/* Another session locks a table for longer than a stop waits. */
TEST(a_stop_that_cuts_a_request_exits_with_another_status)
{
    struct host *host = host_start(&(struct host_spec){.name = "fault-stopped",
                                                       .http = "  deadline: 60000\n",
                                                       .db = "  statement_timeout: 60000\n"});
    const struct person *admin = admin_of(host);
    PGconn *db = database_connect(the_postgres, "fault_stopped");
    PGconn *look = database_connect(the_postgres, "fault_stopped");
    struct wire *wire = wire_open(host);
    int64_t ms = 0;

    sql_run(db, "BEGIN");
    sql_run(db, "LOCK TABLE chat_conversation IN ACCESS EXCLUSIVE MODE");
    wire_say(wire,
             "GET /api/chat/unread-count/%s HTTP/1.1\r\nHost: x\r\n"
             "Authorization: Bearer %s\r\n\r\n",
             ADMIN_EMAIL, admin->token);
    sql_soon(look, ONE_WAITS);
    int status = stop_of(host, &ms);

    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 1, "wait status %d", status);
    ck_assert_msg(ms >= CUT_MS, "it took %jd ms", ms);
    ck_assert_uint_gt(host_logged(host, "requests unfinished"), 0);
    ck_assert(wire_closes(wire, 1000));
    wire_close(wire, false);
    PQfinish(db);
}

/* A thread waits for another host's long migration, and the thread that would limit the wait cannot
 * be created. */
TEST(a_stop_ends_without_its_watchdog_thread)
{
    struct rack rack = rack_make("stopped-alone");
    const char *database = database_make(the_postgres, "stopped_alone");
    PGconn *db = database_connect(the_postgres, database);
    int64_t ms = 0;

    sql_text(db, "SELECT pg_advisory_lock(7094709482943872001)::text", 0, NULL);
    struct host *host = host_start(&(struct host_spec){.name = "stopped-alone",
                                                       .database = database,
                                                       .plain = true,
                                                       .environment = rack.environment});

    sql_soon(db, ONE_WAITS);
    atomic_store(&rack.numbers->threads, 2); /* the first one calls quiesce */
    int status = stop_of(host, &ms);

    ck_assert_int_eq(atomic_load(&rack.numbers->threads), 0);
    ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM, "wait status %d", status);
}

static void post_and_leave(const struct scene *scene, int number)
{
    struct wire *wire = wire_open(scene->hosts[0]);
    const char *marker = text(LEDGER_PREFIX "leaver-%d", number);
    const char *body = text("{\"username\":\"%s\",\"chatEntry\":\"%s\"}", ADMIN_EMAIL, marker);

    ck_assert_int_eq(ledger_intend(scene->load.ledger, marker, scene->load.conversation), 0);
    wire_say(wire,
             "POST /api/chat/conversations/%jd/messages HTTP/1.1\r\nHost: x\r\n"
             "Authorization: Bearer %s\r\nContent-Type: application/json\r\n"
             "Content-Length: %zu\r\n\r\n%s",
             scene->load.conversation, scene->admin->token, strlen(body), body);
    wire_close(wire, number % 2 == 0);
}

/* Requests that the host had accepted run once, and the connections are released. */
TEST(messages_of_clients_that_disconnect_while_waiting_are_stored_at_most_once)
{
    struct scene *scene = fault_scene("fault_leave", NULL);
    const struct host *host = scene->hosts[0];
    int most = open_descriptors(host->pid) + 1;
    PGconn *db = database_connect(the_postgres, "fault_leave");

    sql_run(db, "BEGIN");
    sql_run(db, "LOCK TABLE chat_conversation IN ACCESS EXCLUSIVE MODE");
    for (int i = 0; i < LEAVERS; i++)
        post_and_leave(scene, i);
    sql_soon(database_connect(the_postgres, "fault_leave"), ONE_WAITS);
    sql_run(db, "COMMIT");
    WAIT_UNTIL_MSG(open_descriptors(host->pid) <= most, LEFT_MS, "%d descriptors, not %d",
                   open_descriptors(host->pid), most);
    scene_begin(scene);
    scene_more(scene, 100);
    struct ledger_report report = fault_over(scene);

    ck_assert_msg(report.unsure > 0, "no message was taken before its client left");
    ck_assert_int_eq(atomic_load(&scene->load.refused), 0);
}

FAULT_SUITE(host_stop)
