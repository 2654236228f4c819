#include "health_watch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

/* Of fewer than SAMPLES_MIN the 99th percentile would be the one that was slowest. */
enum { SAMPLES_MAX = 20000, SAMPLES_MIN = 500, SAMPLES_MS = 20000, HEALTH_MS = 50 };

struct watch {
    const struct host *host;
    pthread_t thread;
    atomic_bool over;
    long failures;
    atomic_int count;
    double samples[SAMPLES_MAX]; /* ms */
};

/*
 * Milliseconds that a thread was ready to run, and waited for a processor that others had. What the
 * machine owes is not the host's slowness, and is taken off a sample.
 */
static double waited_ms(const char *thread)
{
    unsigned long long ran = 0, waited = 0;
    FILE *file = fopen(thread, "re");

    if (file && fscanf(file, "%llu %llu", &ran, &waited) != 2)
        waited = 0;
    if (file)
        fclose(file);
    return (double)waited / 1e6;
}

static double sample_ms(const struct watch *watch, const struct call *call, const char *loop)
{
    double before = waited_ms(loop) + waited_ms("/proc/thread-self/schedstat");
    const struct answer *answer = http_send(watch->host, call);
    double owed = waited_ms(loop) + waited_ms("/proc/thread-self/schedstat") - before;
    double ms = answer->seconds * 1000 - (owed > 0 ? owed : 0);

    return answer->status == 200 ? (ms > 0 ? ms : 0) : -1;
}

static void *watch_health(void *arg)
{
    struct watch *watch = arg;
    CURL *connection = client_open();
    struct call call = {.method = "GET", .path = "/api/health", .connection = connection};
    const char *loop = text("/proc/%d/schedstat", (int)watch->host->pid);

    while (!atomic_load(&watch->over) && watch->count < SAMPLES_MAX) {
        double ms = sample_ms(watch, &call, loop);

        watch->failures += ms < 0;
        watch->samples[watch->count] = ms;
        atomic_fetch_add(&watch->count, 1);
        usleep(5000); /* the pace of the samples */
    }
    curl_easy_cleanup(connection);
    return NULL;
}

static bool has_begun(void *watch)
{
    return atomic_load(&((struct watch *)watch)->count) > 0;
}

struct watch *watch_begin(const struct host *host)
{
    struct watch *watch = kept(calloc(1, sizeof *watch));

    watch->host = host;
    ck_assert_int_eq(pthread_create(&watch->thread, NULL, watch_health, watch), 0);
    ck_assert(wait_until(has_begun, watch, SAMPLES_MS));
    return watch;
}

static int by_size(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;

    return (left > right) - (left < right);
}

static bool are_enough(void *watch)
{
    return atomic_load(&((struct watch *)watch)->count) >= SAMPLES_MIN;
}

void watch_end(struct watch *watch, const char *name)
{
    ck_assert(wait_until(are_enough, watch, SAMPLES_MS));
    atomic_store(&watch->over, true);
    pthread_join(watch->thread, NULL);
    qsort(watch->samples, (size_t)watch->count, sizeof(double), by_size);
    double p99 = watch->samples[watch->count * 99 / 100];

    fprintf(stderr,
            "%s: health asked %d times, failed %ld, p50 %.1f ms, p99 %.1f ms, max %.1f ms\n", name,
            watch->count, watch->failures, watch->samples[watch->count / 2], p99,
            watch->samples[watch->count - 1]);
    ck_assert_int_eq(watch->failures, 0);
    ck_assert_msg(p99 <= (double)HEALTH_MS, "health: p99 of %.1f ms", p99);
}
