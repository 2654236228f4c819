#include "fault/gaps.h"

#include <poll.h>

struct gaps {
    pthread_t thread;
    const char *url;
    atomic_bool stop;
    long asked, refused, cut;
    int64_t last_ms, longest_ms; /* the last response, and the longest time without one */
};

static size_t discard(const char *bytes, size_t one, size_t length, void *arg)
{
    (void)bytes;
    (void)arg;
    return one * length;
}

/* Returns whether there was a response with status 200. It keeps nothing, unlike http(). */
static bool ask_once(struct gaps *gaps, CURL *curl)
{
    long status = 0;

    curl_easy_setopt(curl, CURLOPT_URL, gaps->url);
    curl_easy_setopt(curl, CURLOPT_FORBID_REUSE, 1L);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, 5000L);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, discard);
    CURLcode code = curl_easy_perform(curl);

    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    gaps->asked++;
    gaps->refused += code == CURLE_COULDNT_CONNECT;
    gaps->cut += code != CURLE_OK || status != 200;
    return code == CURLE_OK && status == 200;
}

static void *gaps_main(void *arg)
{
    struct gaps *gaps = arg;
    CURL *curl = client_open();

    gaps->last_ms = now_ms();
    while (!atomic_load(&gaps->stop)) {
        if (ask_once(gaps, curl)) {
            int64_t gap = now_ms() - gaps->last_ms;

            gaps->longest_ms = gap > gaps->longest_ms ? gap : gaps->longest_ms;
            gaps->last_ms += gap;
        }
        poll(NULL, 0, 10);
    }
    curl_easy_cleanup(curl);
    return NULL;
}

struct gaps *gaps_begin(const struct host *host)
{
    struct gaps *gaps = kept(calloc(1, sizeof *gaps));

    gaps->url = text("http://127.0.0.1:%d/api/health", host->port);
    ck_assert_int_eq(pthread_create(&gaps->thread, NULL, gaps_main, gaps), 0);
    return gaps;
}

void gaps_end(struct gaps *gaps, const char *name)
{
    atomic_store(&gaps->stop, true);
    pthread_join(gaps->thread, NULL);
    fprintf(stderr, "%s: %ld asked, %ld without an answer, %ld refused, longest gap %jd ms\n", name,
            gaps->asked, gaps->cut, gaps->refused, gaps->longest_ms);
    ck_assert_int_eq(gaps->refused, 0);
}

pid_t worker_of(const struct host *host, pid_t before)
{
    const char *children = text("/proc/%d/task/%d/children", (int)host->pid, (int)host->pid);
    pid_t found = 0;

    WAIT_UNTIL_MSG((found = (pid_t)strtol(file_text(children), NULL, 10)) && found != before, 5000,
                   "there is no worker");
    return found;
}

pid_t worker_kill(const struct host *host)
{
    pid_t worker = worker_of(host, 0);

    kill(worker, SIGKILL);
    return worker_of(host, worker);
}
