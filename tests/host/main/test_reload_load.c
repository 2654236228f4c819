/*
 * Many reloads under load: every tenth has a broken file, and a module comes, goes and is upgraded.
 * No request fails, no connection is closed, every message is stored and delivered once, and no
 * resources are leaked.
 */
#include <dirent.h>

#include "config.h"
#include "receive.h"
#include "wave.h"

enum { RELOADS = 20, WARM = 10, CLIENTS = 6, THINK_US = 10000, CLOSED_MS = 10000 };

#define LOCAL WEBHOOK_LOCAL

static struct wave *wave;
static struct person *admin;
static struct talk talk;
static atomic_bool over;
static atomic_long posted, asked, failed, connected;

/* All responses must be as usual; only wave's route comes and goes. */
static bool well_answered(const struct answer *answer, int turn)
{
    if (turn == 2)
        return answer->status == 200 || answer->status == 404;
    return answer->status == (turn == 1 ? 201 : 200);
}

static void *client(void *arg)
{
    struct call call = {.token = admin->token, .connection = client_open()};
    const char *post = text("/api/chat/conversations/%jd/messages", talk.id);
    const char *const paths[] = {"/api/chat/unread-count/" ADMIN_EMAIL, post, "/api/wave"};
    long number = (long)(intptr_t)arg * 1000000, opened = 0;

    for (int turn = 0; !atomic_load(&over); turn = (turn + 1) % 3) {
        call.method = turn == 1 ? "POST" : "GET";
        call.path = paths[turn];
        call.body =
            turn == 1 ? text("{\"username\":\"" ADMIN_EMAIL "\",\"chatEntry\":\"m%ld\"}", number++)
                      : NULL;
        const struct answer *answer = http_send(wave->host, &call);

        curl_easy_getinfo(call.connection, CURLINFO_NUM_CONNECTS, &opened);
        atomic_fetch_add(&connected, opened);
        atomic_fetch_add(&asked, 1);
        if (!well_answered(answer, turn)) {
            atomic_fetch_add(&failed, 1);
            fprintf(stderr, "reload_load: %s %s: %ld %s %s\n", call.method, call.path,
                    answer->status, answer->problem, answer->body ? answer->body : "");
        } else if (turn == 1) {
            atomic_fetch_add(&posted, 1);
        }
        usleep(THINK_US); /* otherwise the clients alone would use all processors */
    }
    curl_easy_cleanup(call.connection);
    return NULL;
}

/* Counts open files except sockets, because the number of the clients' and the receiver's
 * connections varies. */
static long descriptors(void)
{
    DIR *list = opendir(text("/proc/%d/fd", wave->host->pid));
    const struct dirent *entry;
    char to[64];
    long count = 0;

    ck_assert_ptr_nonnull(list);
    while ((entry = readdir(list)) != NULL) {
        ssize_t length = readlinkat(dirfd(list), entry->d_name, to, sizeof to);

        count += length > 0 && strncmp(to, "socket:", 7) != 0;
    }
    closedir(list);
    return count;
}

/* Makes the operator's change of this turn. */
static void change(int turn)
{
    if (turn % 10 == 9) {
        file_write(wave->host->conf, "modules: [auth\n");
        wave_refused(wave, ".yaml:");
        ck_assert_ptr_nonnull(strstr(wave_status(wave), " refused; the last at "));
        return;
    }
    wave_exchange(wave, turn < RELOADS / 2 ? 1 : 2, (size_t)(turn / 2 % 2));
    wave_write(wave, turn % 5 == 4 ? "chat, webhook" : text("chat, webhook, \"%s\"", wave->file),
               turn % 5 == 4 ? LOCAL : text(LOCAL "wave:\n  greeting: turn %d\n", turn));
    wave_reload(wave);
}

struct sums {
    int64_t rss, threads;
    long files;
};

static struct sums sum_up(void)
{
    wave_drained(wave);
    /* a generation is logged as closed once its threads have ended, after its drain */
    WAIT_UNTIL(host_logged(wave->host, "generation closed") ==
                   host_logged(wave->host, " is live: "),
               CLOSED_MS);
    struct sums sums = {process_status(wave->host->pid, "VmRSS:"),
                        process_status(wave->host->pid, "Threads:"), descriptors()};

    ck_assert(sums.rss > 0 && sums.threads > 0);
    return sums;
}

#define NONE_QUEUED "SELECT (count(*) = 0)::int FROM webhook_deliveries WHERE state = 'queued'"

/* Every message is stored and was received once. */
static void expect_deliveries(const struct receiver *receiver)
{
    PGconn *db = database_connect(the_postgres, wave->spec.database);

    sql_soon(db, NONE_QUEUED);
    sql_is(db, atomic_load(&posted), "SELECT count(*) FROM chat_entry WHERE seq > 1");
    sql_is(db, atomic_load(&posted),
           "SELECT count(*) FROM webhook_deliveries WHERE state = 'delivered'");
    ck_assert_int_eq((int64_t)receiver_count(receiver, "/fast"), atomic_load(&posted));
}

static void begin(const char *name)
{
    wave = wave_prepare(name, LOCAL);
    wave_write(wave, text("chat, webhook, \"%s\"", wave->file), LOCAL);
    ck_assert(host_run(wave->host));
    webhook_ready(wave->spec.database, 1);
    admin = admin_of(wave->host);
    talk = talk_start(wave->host, admin, ADMIN_EMAIL, "other@shop.example", NULL);
}

TEST(reloads_under_load_fail_no_request)
{
    struct receiver *receiver = receiver_start("reload-receiver");
    pthread_t threads[CLIENTS];
    struct sums warm = {0};

    begin("reload-load");
    webhook_make(wave->host, admin, receiver_url(receiver, "/fast"), "message.new");
    for (intptr_t i = 0; i < CLIENTS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, client, (void *)(i + 1)), 0);
    for (int turn = 0; turn < RELOADS; turn++) {
        change(turn);
        if (turn == WARM)
            warm = sum_up();
    }
    atomic_store(&over, true);
    for (int i = 0; i < CLIENTS; i++)
        pthread_join(threads[i], NULL);
    struct sums end = sum_up();

    fprintf(stderr,
            "reload_load: %ld requests, %ld messages, %ld failed; after %d and %d reloads: rss %jd "
            "and %jd kB, threads %jd and %jd, files %ld and %ld\n",
            atomic_load(&asked), atomic_load(&posted), atomic_load(&failed), WARM, RELOADS,
            warm.rss, end.rss, warm.threads, end.threads, warm.files, end.files);
    ck_assert_int_eq(atomic_load(&failed), 0);
    ck_assert_int_eq(atomic_load(&connected), CLIENTS);
    ck_assert_int_gt(atomic_load(&posted), 100);
    expect_deliveries(receiver);
    if (!BUSBAR_SANITIZED) /* sanitizers keep freed memory for a while */
        ck_assert_int_le(end.rss, warm.rss + 8 * 1024);
    ck_assert_int_eq(end.threads, warm.threads);
    ck_assert_int_le(end.files, warm.files + 2);
}

/* ---- webhooks: deliveries in flight, waiting or to be retried when a reload comes ---- */

enum { EACH = 10 };

static void post_some(const char *word)
{
    for (int i = 0; i < EACH; i++)
        ck_status(talk_post(wave->host, admin, &talk, ADMIN_EMAIL, text("%s %d", word, i)), 201);
}

/* Compares the attempts in the log of deliveries with those that arrived. */
static void expect_each_attempt_once(PGconn *db, const struct receiver *receiver, const char *path,
                                     int64_t webhook)
{
    int64_t logged = sql_number(
        db, text("SELECT coalesce(sum(jsonb_array_length(log)), 0) FROM webhook_deliveries"
                 " WHERE webhook = %jd",
                 webhook));

    ck_assert_int_eq((int64_t)receiver_count(receiver, path), logged);
}

/* One receiver takes 4 s to respond, so deliveries are in flight and waiting; another one fails. */
TEST(deliveries_in_flight_waiting_or_to_be_retried_survive_a_reload)
{
    struct receiver *receiver = receiver_start("reload-slow");

    begin("reload-hand");
    PGconn *db = database_connect(the_postgres, wave->spec.database);
    struct webhook_made slow =
        webhook_make(wave->host, admin, receiver_url(receiver, "/late/hand"), "message.new");
    struct webhook_made bad =
        webhook_make(wave->host, admin, receiver_url(receiver, "/500/hand"), "message.new");

    for (int round = 0; round < 3; round++) {
        post_some(text("round %d", round));
        wave_reload(wave);
    }
    sql_soon(db, NONE_QUEUED);
    sql_is(db, 3 * EACH,
           "SELECT count(*) FROM webhook_deliveries WHERE webhook = %jd"
           " AND state = 'delivered'",
           slow.id);
    sql_is(db, 3 * EACH,
           "SELECT count(*) FROM webhook_deliveries WHERE webhook = %jd"
           " AND state = 'abandoned' AND jsonb_array_length(log) = 3",
           bad.id);
    expect_each_attempt_once(db, receiver, "/late/hand", slow.id);
    expect_each_attempt_once(db, receiver, "/500/hand", bad.id);
    wave_drained(wave);
    sql_is(db, 1, "SELECT count(*) FROM webhook_host");
}

TEST(a_webhook_test_in_progress_gets_its_result_across_a_reload)
{
    struct receiver *receiver = receiver_start("reload-test");

    begin("reload-ping");
    struct webhook_made slow =
        webhook_make(wave->host, admin, receiver_url(receiver, "/late/ping"), "message.new");
    struct pending_call *first =
        call_begin(wave->host, &(struct call){.method = "POST",
                                              .path = text("%s/test", slow.path),
                                              .token = admin->token});

    WAIT_UNTIL(receiver_count(receiver, "/late/ping") >= 1, 10000);
    wave_reload(wave);
    struct answer *next = webhook_call(wave->host, admin, "POST", &slow, "/test");

    ck_status(call_end(first), 200); /* with the outcome known after four seconds */
    ck_status(next, 200);
    WAIT_UNTIL(receiver_count(receiver, "/late/ping") >= 2, 10000);
}

SUITE(reload_load, .timeout_s = 300)
