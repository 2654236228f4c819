/*
 * The order of service: many requests of one account delay others only by its places in a batch,
 * whatever they request and however long that takes. Ada sends many requests ("the crowd"), Bob is
 * an ordinary account. Also tests the limits of modules.
 */
#include <math.h>
#include <poll.h>
#include <sys/epoll.h>

#include "people.h"
#include "wire.h"

enum {
    MS = 60000,
    LOCK = 4711,
    CROWD = 200,
    PLUGS = 2,         /* batches in progress on a connection */
    PLACES = 64 / 4,   /* maximum of an owner in a batch */
    REQUESTS_MAX = 16, /* http.max_requests, if a test sets it */
    STRANGERS = 4,
    SLOW_BODIES = 20,
    REFUSED_MS = 90 /* a 429 waits for 100 ms; clocks are not exact */
};

#define POST_LOGIN "POST /api/auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"

static struct host_spec spec;
static struct host *host;
static struct person *ada, *bob;
static PGconn *db;

static void start(const char *name, const char *http)
{
    const char *database = database_make(the_postgres, text("%s_%d", name, (int)getpid()));

    spec = (struct host_spec){
        .name = name,
        .database = database,
        .modules =
            text("[auth, chat, health, metrics, \"%s\"]", harness_test_module("module_busy")),
        .http = text("  loops: 1\n  deadline: 60000\n  metrics_networks: [127.0.0.1]\n%s", http),
        .db = "  read_connections: 1\n  write_connections: 1\n  long_connections: 4\n"
              "  statement_timeout: 60000\n"};
    host = host_start(&spec);
    struct person *admin = admin_of(host);

    ada = person_make(host, admin, "ada", NULL);
    bob = person_make(host, admin, "bob", NULL);
    db = database_connect(the_postgres, database);
}

static void tear_down(void)
{
    PQfinish(db);
    host_stop(host);
}

static void say(struct wire *wire, const struct person *who, const char *path)
{
    ck_assert(wire_say(wire, "GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", path,
                       who->token));
}

static struct wire *ask(const struct person *who, const char *path)
{
    struct wire *wire = wire_open(host);

    say(wire, who, path);
    return wire;
}

static struct wire *ask_for(const struct person *who, const char *what, int ms)
{
    return ask(who, text("/api/busy/%s?ms=%d", what, ms));
}

static struct wire_answer *answer_of(struct wire *wire)
{
    struct wire_answer *answer = wire_read(wire, MS);

    ck_assert_ptr_nonnull(answer);
    return answer;
}

static void expect_ok(struct wire *wire)
{
    ck_assert_int_eq(answer_of(wire)->status, 200);
    wire_close(wire, false);
}

static void lock(void)
{
    sql_run(db, text("SELECT pg_advisory_lock(%d)", LOCK));
}

static void unlock(void)
{
    sql_run(db, text("SELECT pg_advisory_unlock(%d)", LOCK));
}

static void expect_waiting(int count)
{
    WAIT_UNTIL_MSG(sql_number(db,
                              "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT "
                              "granted") >= count,
                   MS, "%d do not wait for the lock", count);
}

static double metric(const char *line)
{
    const char *body = ck_status(http(host, "GET", "/metrics", NULL, NULL), 200)->body;
    const char *at = strstr(body, text("\n%s ", line));

    ck_assert_msg(at != NULL, "no %s", line);
    return strtod(at + 2 + strlen(line), NULL);
}

static void expect_metric(const char *line, int64_t wanted)
{
    WAIT_UNTIL_MSG(metric(line) == (double)wanted, MS, "%s is not %jd", line, wanted);
}

#define READS(what) "busbar_database_" what "{loop=\"0\",pool=\"read\"}"

/* When this returns, the only loop has read all earlier requests, because it reads sockets in
 * order. */
static void let_begin(void)
{
    ck_status(http(host, "GET", "/api/health", NULL, NULL), 200);
}

/* Starts as many batches as can be in progress on a connection; they wait for the lock. */
static void plug(struct wire **plugs)
{
    lock();
    for (int i = 0; i < PLUGS; i++) {
        plugs[i] = ask_for(ada, "read-lock", LOCK);
        let_begin();
    }
    expect_waiting(1);
}

/* Returns how many of the crowd's responses came before `other`'s: epoll lists sockets in the order
 * in which they became readable. All must have a response. */
static int before(struct wire *const *crowd, int count, const struct wire *other)
{
    static struct epoll_event events[CROWD + PLUGS + 1];
    int epoll = epoll_create1(0), found = 0;

    ck_assert_int_ge(epoll, 0);
    for (int i = 0; i <= count; i++) {
        const struct wire *wire = i < count ? crowd[i] : other;
        struct epoll_event event = {.events = EPOLLIN, .data.fd = wire->fd};

        ck_assert_int_eq(epoll_ctl(epoll, EPOLL_CTL_ADD, wire->fd, &event), 0);
    }
    unlock();
    for (int i = 0; i <= count; i++) {
        struct pollfd socket = {.fd = i < count ? crowd[i]->fd : other->fd, .events = POLLIN};

        ck_assert_int_eq(poll(&socket, 1, MS), 1);
    }
    int ready = epoll_wait(epoll, events, count + 1, MS);

    ck_assert_int_eq(ready, count + 1);
    while (events[found].data.fd != other->fd)
        found++;
    close(epoll);
    return found;
}

/*
 * 200 of Ada's requests wait when Bob sends his; it is in the next batch that is sent. If the host
 * has to read the tokens again, these statements count for the address; so Bob has another one.
 */
TEST(a_request_waits_for_at_most_one_batch_of_another_account)
{
    struct wire *crowd[CROWD + PLUGS], *other;
    start("turns_crowd", "");
    expect_ok(ask_for(ada, "read", 0)); /* the host has now cached the tokens */
    expect_ok(ask_for(bob, "read", 0));
    plug(crowd);
    for (int i = PLUGS; i < CROWD + PLUGS; i++)
        crowd[i] = ask_for(ada, "read", 0);
    expect_metric(READS("waiting"), CROWD);
    other = wire_open_from(host, "127.0.0.2", 0);
    say(other, bob, "/api/busy/read?ms=0");
    expect_metric(READS("waiting"), CROWD + 1);
    int count = before(crowd, CROWD + PLUGS, other);

    ck_assert_msg(count <= PLUGS + PLACES, "%d requests were served before Bob's", count);
    for (int i = 0; i < CROWD + PLUGS; i++)
        expect_ok(crowd[i]);
    expect_ok(other);
}

/* Ada's connections send a new request after each response. No request of Bob's is refused. */
TEST(a_flood_of_reads_of_one_account_causes_no_refusals_of_another)
{
    struct wire *crowd[CROWD], *other;
    const char *path, *other_path;

    start("turns_flood", "");
    path = text("/api/chat/unread-count/%s", ada->email);
    other_path = text("/api/chat/unread-count/%s", bob->email);
    for (int i = 0; i < CROWD; i++)
        crowd[i] = ask(ada, path);
    other = wire_open(host);
    for (int round = 0; round < repetitions(10, 40); round++) {
        say(other, bob, other_path);
        while (!wire_has_more(other, 0)) {
            for (int i = 0; i < CROWD; i++) {
                if (!wire_has_more(crowd[i], 0))
                    continue;
                ck_assert_int_eq(answer_of(crowd[i])->status, 200);
                say(crowd[i], ada, path);
            }
        }
        ck_assert_int_eq(answer_of(other)->status, 200);
    }
    for (int i = 0; i < CROWD; i++)
        expect_ok(crowd[i]);
}

/* Requests that wait for a connection count, too. */
TEST(an_account_may_have_a_quarter_of_max_requests)
{
    struct wire *under_way[REQUESTS_MAX / 4];

    start("turns_share", text("  max_requests: %d\n", REQUESTS_MAX));
    lock();
    for (int i = 0; i < REQUESTS_MAX / 4; i++)
        under_way[i] = ask_for(ada, "long-lock", LOCK);
    expect_waiting(1); /* one for each owner at a time, of four connections */
    expect_metric("busbar_share_taken{resource=\"requests\"}", REQUESTS_MAX / 4);
    struct wire *beyond = ask_for(ada, "read", 0);

    ck_wire_error(answer_of(beyond), 429);
    wire_close(beyond, false);
    expect_ok(ask_for(bob, "read", 0));
    ck_assert(metric("busbar_share_refused_total{resource=\"requests\",whose=\"owner\"}") == 1);
    unlock();
    for (int i = 0; i < REQUESTS_MAX / 4; i++)
        expect_ok(under_way[i]);
    expect_ok(ask_for(ada, "read", 0));
}

/* Each was refused, or is in progress because its body never ends. */
static bool all_have_begun(void)
{
    double begun = 0;
    EACH_TEXT (line, "busbar_share_taken{resource=\"anonymous\"}",
               "busbar_share_refused_total{resource=\"anonymous\",whose=\"all\"}",
               "busbar_share_refused_total{resource=\"anonymous\",whose=\"owner\"}")
        begun += metric(line);
    return begun >= STRANGERS * SLOW_BODIES;
}

static struct wire *log_in(const char *address, const struct person *who)
{
    const char *body = text("{\"username\":\"%s\",\"password\":\"%s\"}", who->email, who->password);
    struct wire *wire = wire_open_from(host, address, 0);

    ck_assert(wire_say(wire, POST_LOGIN "Content-Length: %zu\r\n\r\n%s", strlen(body), body));
    return wire;
}

TEST(slow_anonymous_bodies_leave_room_for_other_requests)
{
    struct wire *slow[STRANGERS * SLOW_BODIES];

    start("turns_strangers", "  max_requests: 64\n  body_timeout: 600\n");
    for (int i = 0; i < STRANGERS * SLOW_BODIES; i++) {
        slow[i] = wire_open_from(host, text("127.0.1.%d", 1 + i % STRANGERS), 0);
        ck_assert(wire_say(slow[i], POST_LOGIN "Content-Length: 100\r\n\r\n{"));
    }
    WAIT_UNTIL(all_have_begun(), MS);
    ck_assert(metric("busbar_share_taken{resource=\"anonymous\"}") <= 24);
    expect_ok(ask_for(ada, "read", 0));
    expect_ok(log_in("127.0.1.100", ada));
    int64_t began = now_ms();
    struct wire *refused = log_in("127.0.1.1", ada);

    ck_wire_error(answer_of(refused), 429);
    ck_assert_int_ge(now_ms() - began, REFUSED_MS);
    wire_close(refused, false);
    for (int i = 0; i < STRANGERS * SLOW_BODIES; i++)
        wire_close(slow[i], false);
}

/* A batch is one transaction, so a read in a batch with a write would wait for the commit. */
TEST(a_read_does_not_wait_for_a_write)
{
    start("turns_write", "");
    lock();
    struct wire *write = ask_for(ada, "write-lock", LOCK);
    struct wire *next = ask_for(ada, "write", 0);

    expect_waiting(1);
    for (int i = 0; i < 5; i++)
        expect_ok(ask_for(bob, "read", 0));
    ck_assert(!wire_has_more(write, 0) && !wire_has_more(next, 0));
    unlock();
    expect_ok(write);
    expect_ok(next);
}

#define USED(what, module) "busbar_module_" what "{module=\"" module "\"}"
#define REFUSED(limit) "busbar_module_refused_total{module=\"busy\",limit=\"" limit "\"}"

TEST(a_list_of_many_rows_lets_other_requests_run)
{
    start("turns_rows", "");
    struct wire *list = ask_for(ada, "rows", 2);

    do
        expect_ok(ask_for(bob, "read", 0));
    while (!wire_has_more(list, 0));
    ck_assert_ptr_nonnull(strstr(answer_of(list)->body, "true]"));
}

TEST(metrics_and_status_name_the_module_that_uses_the_processor)
{
    static const char *const modules[] = {
        USED("cpu_seconds_total", "auth"), USED("cpu_seconds_total", "chat"),
        USED("cpu_seconds_total", "health"), USED("cpu_seconds_total", "metrics")};
    double before[sizeof modules / sizeof *modules], last = INFINITY;
    const json_t *row, *busy = NULL;
    size_t i;

    start("turns_burn", "");
    expect_ok(ask_for(ada, "read", 50));
    for (i = 0; i < sizeof modules / sizeof *modules; i++)
        before[i] = metric(modules[i]);
    for (i = 0; i < 20; i++)
        expect_ok(ask_for(ada, "burn", 10));
    double used = metric(USED("cpu_seconds_total", "busy"));

    ck_assert_double_ge(used, 0.2);
    for (i = 0; i < sizeof modules / sizeof *modules; i++)
        ck_assert_double_lt(metric(modules[i]) - before[i], used);
    ck_assert(metric(USED("statements_total", "busy")) == 1);
    ck_assert_double_ge(metric(USED("database_seconds_total", "busy")), 0.05);
    expect_metric(USED("request_duration_seconds_count", "busy"), 21);
    json_t *status = host_status(host);

    json_array_foreach (json_object_get(status, "modules"), i, row) {
        ck_assert(json_number_value(json_object_get(row, "cpuSeconds")) <= last);
        last = json_number_value(json_object_get(row, "cpuSeconds"));
        if (!strcmp(json_string_value(json_object_get(row, "name")), "busy"))
            busy = row;
    }
    ck_assert_double_ge(json_number_value(json_object_get(busy, "cpuSeconds")), 0.2);
    ck_assert_double_ge(json_number_value(json_object_get(busy, "p99Ms")), 10);
    json_decref(status);
    ck_prints(host, 0, "\nbusy  ", "status");
}

/* Reloads with these limits of the module busy; NULL: without limits. */
static void limit(const char *limits)
{
    spec.more = limits ? text("module_limits:\n  - {module: busy, %s}\n", limits) : NULL;
    file_write(host->conf, host_configuration(&spec));
    ck_prints(host, 0, "is live", "reload");
}

/* Returns whether the request was admitted; otherwise it was refused as it should be. */
static bool is_admitted(struct wire *wire)
{
    struct wire_answer *answer = answer_of(wire);

    if (answer->status != 200)
        ck_wire_error(answer, 503);
    wire_close(wire, false);
    return answer->status == 200;
}

TEST(a_module_gets_503_above_its_cpu_time_while_others_are_served)
{
    int admitted = 0, refused = 0;

    start("turns_cpu", "");
    limit("cpu_time: 50");
    int64_t began = now_ms();

    while (refused < 10) {
        if (is_admitted(ask_for(ada, "burn", 10)))
            admitted++;
        else
            refused++;
        expect_ok(ask(bob, text("/api/chat/unread-count/%s", bob->email)));
    }
    int64_t took = now_ms() - began;

    /* each refusal was delayed; the module gets 50 ms in advance, then 10 ms in 200 ms */
    ck_assert_int_ge(took, refused * REFUSED_MS);
    ck_assert_int_ge(admitted, 1);
    ck_assert_int_le(admitted, 6 + took / 200);
    ck_assert(metric(REFUSED("cpu_time")) == refused);
    limit(NULL);
    ck_assert(is_admitted(ask_for(ada, "burn", 10)));
}

TEST(a_module_gets_503_above_its_requests_and_database_time)
{
    start("turns_limits", "");
    limit("requests: 1");
    lock();
    struct wire *held = ask_for(ada, "long-lock", LOCK);

    expect_waiting(1);
    expect_metric(USED("requests", "busy"), 1);
    ck_assert(!is_admitted(ask_for(bob, "read", 0)));
    expect_ok(ask(bob, text("/api/chat/unread-count/%s", bob->email)));
    unlock();
    expect_ok(held);
    expect_metric(USED("requests", "busy"), 0);
    ck_assert(is_admitted(ask_for(bob, "read", 0)));
    limit("database_time: 10"); /* from now on */
    ck_assert(is_admitted(ask_for(bob, "read", 1000)));
    ck_assert(!is_admitted(ask_for(bob, "burn", 0)));
    ck_assert(metric(REFUSED("requests")) == 1);
    ck_assert(metric(REFUSED("database_time")) == 1);
}

SUITE(turns, .timeout_s = 180, .after_each = tear_down)
