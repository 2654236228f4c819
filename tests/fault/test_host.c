/* F15, F36: the host is stopped while messages are written, and clients leave while theirs wait. */
#include <string.h>

#include "fault/common.h"
#include "wire.h"

enum { LEAVERS = 100, LEFT_MS = 10000 };

START_TEST(a_stop_of_the_host_cuts_no_request)
{
    struct scene *scene = scene_make("fault_term", NULL, 1, ENOUGH);

    scene_begin(scene);
    scene_wait(scene, 200);
    host_stop(scene->hosts[0]);
    ck_assert_int_eq(atomic_load(&scene->load.cut), 0);
    scene_restart(scene, 0);
    scene_recovery(scene, BACK_MS);
    struct ledger_report report = fault_over(scene, NULL, NULL);

    ck_assert_uint_eq(report.unsure, 0);
    ck_assert_int_eq(atomic_load(&scene->load.wrong), 0);
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
             (intmax_t)scene->load.conversation, scene->admin->token, strlen(body), body);
    wire_close(wire, number % 2 == 0);
}

static bool one_waits(void *db)
{
    return sql_number(db, "SELECT count(*) FROM pg_locks WHERE NOT granted") > 0;
}

struct leaving {
    const struct host *host;
    int descriptors;
};

static bool connections_are_freed(void *arg)
{
    const struct leaving *leaving = arg;

    return open_descriptors(leaving->host->pid) <= leaving->descriptors;
}

/* What the host had taken is done once, and the connections are let go. */
START_TEST(clients_that_leave_while_they_wait_have_their_message_once_at_most)
{
    struct scene *scene = scene_make("fault_leave", NULL, 1, ENOUGH);
    const struct host *host = scene->hosts[0];
    struct leaving leaving = {host, open_descriptors(host->pid) + 1};
    PGconn *db = database_connect(the_postgres, "fault_leave");

    sql_text(db, "BEGIN", 0, NULL);
    sql_text(db, "LOCK TABLE chat_conversation IN ACCESS EXCLUSIVE MODE", 0, NULL);
    for (int i = 0; i < LEAVERS; i++)
        post_and_leave(scene, i);
    PGconn *look = database_connect(the_postgres, "fault_leave");

    ck_assert(wait_until(one_waits, look, 3000));
    sql_text(db, "COMMIT", 0, NULL);
    PQfinish(db);
    PQfinish(look);
    ck_assert_msg(wait_until(connections_are_freed, &leaving, LEFT_MS), "%d descriptors, not %d",
                  open_descriptors(host->pid), leaving.descriptors);
    scene_begin(scene);
    load_more(scene, 100);
    struct ledger_report report = fault_over(scene, NULL, NULL);

    ck_assert_msg(report.unsure > 0, "no message was taken before its client left");
    ck_assert_int_eq(atomic_load(&scene->load.refused), 0);
}

FAULT(F15, a_stop_of_the_host_cuts_no_request)
FAULT(F36, clients_that_leave_while_they_wait_have_their_message_once_at_most)
