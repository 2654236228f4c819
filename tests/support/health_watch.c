#include "health_watch.h"

enum { SAMPLES_MIN = 100, SAMPLES_MS = 20000 };

struct watch {
    const struct host *host;
    pthread_t thread;
    atomic_bool over;
    atomic_int count, failures;
};

static void *watch_health(void *arg)
{
    struct watch *watch = arg;
    CURL *connection = client_open();
    struct call call = {.method = "GET", .path = "/api/health", .connection = connection};

    while (!atomic_load(&watch->over)) {
        atomic_fetch_add(&watch->failures, http_send(watch->host, &call)->status != 200);
        atomic_fetch_add(&watch->count, 1);
        usleep(5000); /* the pace of the requests */
    }
    curl_easy_cleanup(connection);
    return NULL;
}

struct watch *watch_begin(const struct host *host)
{
    struct watch *watch = kept(calloc(1, sizeof *watch));

    watch->host = host;
    ck_assert_int_eq(pthread_create(&watch->thread, NULL, watch_health, watch), 0);
    WAIT_UNTIL(atomic_load(&watch->count) > 0, SAMPLES_MS);
    return watch;
}

void watch_end(struct watch *watch, const char *name)
{
    WAIT_UNTIL(atomic_load(&watch->count) >= SAMPLES_MIN, SAMPLES_MS);
    atomic_store(&watch->over, true);
    pthread_join(watch->thread, NULL);
    ck_assert_msg(!atomic_load(&watch->failures), "%s: %d of %d health requests failed", name,
                  atomic_load(&watch->failures), atomic_load(&watch->count));
}
