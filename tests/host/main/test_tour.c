/*
 * The operator's tour with only the installed package: change a setting, break the file, add hello
 * (examples/modules/hello), upgrade it by rename, go back, remove it, while many open connections
 * send requests continuously. No request fails, no connection is closed, and `busbar status` shows
 * each step.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "hello.h"
#include "talk.h"
#include "wave.h"
#include "wire.h"

enum { THREADS = 2, CONNECTIONS = 25, ANSWER_MS = 10000 };

static struct wave tour; /* uses the file of hello */
static struct person *admin;
static struct talk talk;
static atomic_bool over;
static atomic_long asked, greeted, posted, failed;

/* ---- the load ---- */

enum { HEALTH, UNREAD, POST, HELLO, KINDS };

static bool ask(struct wire *wire, int kind)
{
    static const char body[] = "{\"username\":\"" ADMIN_EMAIL "\",\"chatEntry\":\"touring\"}";
    static const char unread[] = "/api/chat/unread-count/" ADMIN_EMAIL;
    const char *const paths[KINDS] = {
        [HEALTH] = "/api/health", [UNREAD] = unread, [HELLO] = "/api/hello"};

    if (kind == POST)
        return wire_say(wire,
                        "POST /api/chat/conversations/%jd/messages HTTP/1.1\r\nHost: x\r\n"
                        "Authorization: Bearer %s\r\nContent-Type: application/json\r\n"
                        "Content-Length: %zu\r\n\r\n%s",
                        (intmax_t)talk.id, admin->token, sizeof body - 1, body);
    return wire_say(wire, "GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n",
                    paths[kind], admin->token);
}

/* Only hello's route may come and go. */
static void judge(const struct wire_answer *answer, int kind)
{
    int status = answer ? answer->status : 0;
    bool well = kind == POST ? status == 201 : status == 200 || (kind == HELLO && status == 404);

    atomic_fetch_add(&asked, 1);
    atomic_fetch_add(&posted, kind == POST && well);
    atomic_fetch_add(&greeted, kind == HELLO && status == 200);
    if (well)
        return;
    atomic_fetch_add(&failed, 1);
    fprintf(stderr, "tour: kind %d: %d %s\n", kind, status, answer ? answer->body : "no answer");
}

/* Sends requests on all of its connections at once, repeatedly; a closed connection is a
 * failure. */
static void *load(void *arg)
{
    struct wire *wires[CONNECTIONS];

    (void)arg;
    for (int i = 0; i < CONNECTIONS; i++)
        wires[i] = wire_open(tour.host);
    for (int round = 0; !atomic_load(&over) && !atomic_load(&failed); round++) {
        for (int i = 0; i < CONNECTIONS; i++)
            ask(wires[i], (i + round) % KINDS);
        for (int i = 0; i < CONNECTIONS; i++)
            judge(wire_read(wires[i], ANSWER_MS), (i + round) % KINDS);
    }
    for (int i = 0; i < CONNECTIONS; i++)
        wire_close(wires[i], false);
    return NULL;
}

/* ---- the operator ---- */

/* Installs a file by rename, as the manual says. */
static void put(const char *built)
{
    const char *newer = text("%s.new", tour.file);
    const char *const copying[] = {"cp", built, newer, NULL};

    ck_assert_int_eq(
        process_run(&(struct process_spec){.argv = copying, .log = harness_path("tour-cp.log")}),
        0);
    ck_assert_int_eq(rename(newer, tour.file), 0);
}

static void shows(const char *const *parts)
{
    const char *said = wave_status(&tour);

    for (size_t i = 0; parts[i]; i++)
        ck_assert_msg(strstr(said, parts[i]) != NULL, "no \"%s\" in:\n%s", parts[i], said);
}
#define SHOWS(...) shows((const char *const[]){__VA_ARGS__, NULL})

/* Each step is used for a while before the next one. */
static void let_be_used(void)
{
    long before = atomic_load(&asked);

    WAIT_UNTIL(atomic_load(&asked) > before + THREADS * CONNECTIONS || atomic_load(&failed),
               ANSWER_MS);
}

static void step(const char *modules, const char *more)
{
    wave_write(&tour, modules, more);
    wave_reload(&tour);
    let_be_used();
}

static void greets(const char *greeting)
{
    struct answer *answer =
        ck_status(http(tour.host, "GET", "/api/hello", admin->token, NULL), 200);

    ck_assert_str_eq(answer_text(answer, "greeting"), greeting);
    ck_assert_str_eq(answer_text(answer, "email"), ADMIN_EMAIL);
}

static void travel(const char *first, const char *second)
{
    const char *with = text("chat, \"%s\"", tour.file);

    step("chat", "chat:\n  max_entry_bytes: 4096\n");
    SHOWS("reloads: 1 done, 0 refused", "generation 2: live");
    wave_write(&tour, "chat", "chat:\n  max_entry_bytes: none\n");
    wave_refused(&tour, ": chat.max_entry_bytes: must be a whole number");
    SHOWS("reloads: 1 done, 1 refused; the last at ", " refused: ", "generation 2: live");
    file_write(tour.host->conf, "modules: [auth\n");
    wave_refused(&tour, "tour.yaml:2: ");
    SHOWS("reloads: 1 done, 2 refused; the last at ", " refused: ", "generation 2: live");
    wave_write(&tour, with, NULL);
    wave_refused(&tour, "hello.so: cannot be read: No such file");
    put(first);
    step(with, NULL);
    SHOWS("generation 3: live", "module hello 1.0.0, build ", tour.file);
    greets("hello");
    step(with, "hello:\n  greeting: moin\n");
    SHOWS("generation 4: live", "module hello 1.0.0, build ");
    greets("moin");
    put(second);
    step(with, NULL);
    SHOWS("generation 5: live", "module hello 1.1.0, build ");
    greets("ahoy");
    put(first);
    step(with, NULL);
    SHOWS("generation 6: live", "module hello 1.0.0, build ");
    greets("hello");
    step("chat", NULL);
    wave_drained(&tour);
    SHOWS("reloads: 6 done, 3 refused", "generation 7: live");
    ck_assert_ptr_null(strstr(wave_status(&tour), "module hello"));
    ck_status(http(tour.host, "GET", "/api/hello", admin->token, NULL), 404);
}

static void set_out(void)
{
    tour.file = harness_path("tour-hello.so");
    tour.spec = (struct host_spec){.name = "tour", .database = database_make(the_postgres, "tour")};
    tour.host = host_prepare(&tour.spec);
    wave_write(&tour, "chat", NULL);
    ck_assert(host_run(tour.host));
    wave_status_soon(&tour, "PostgreSQL answers");
    admin = admin_of(tour.host);
    talk = talk_start(tour.host, admin, ADMIN_EMAIL, "other@shop.example", NULL);
}

TEST(an_operators_tour_under_load_fails_no_request)
{
    static const char *const edits[][2] = {{"\"1.0.0\"", "\"1.1.0\""},
                                           {".fallback = \"hello\"", ".fallback = \"ahoy\""}};
    const char *first = hello_build("tour-first");
    const char *second = hello_build_edited("tour-second", edits, 2);
    pthread_t threads[THREADS];

    set_out();
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, load, NULL), 0);
    travel(first, second);
    atomic_store(&over, true);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    fprintf(stderr, "tour: %ld requests, %ld messages, %ld greetings, %ld failed\n",
            atomic_load(&asked), atomic_load(&posted), atomic_load(&greeted), atomic_load(&failed));
    ck_assert_int_eq(atomic_load(&failed), 0);
    ck_assert_int_gt(atomic_load(&greeted), 0);
    PGconn *db = database_connect(the_postgres, "tour");

    ck_assert_int_eq(sql_number(db, "SELECT count(*) FROM chat_entry WHERE seq > 1"),
                     atomic_load(&posted));
    host_stop(tour.host);
}

SUITE(tour, .timeout_s = 120)
