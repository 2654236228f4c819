/* The load: threads that post messages over HTTP and record each in the ledger before and after. */
#include <curl/curl.h>
#include <inttypes.h>
#include <jansson.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "ledger.h"

enum { PAUSE_MS = 20, WRITERS_MAX = 256, ANSWER_MAX = 8192, CALL_MS = 10000 };

struct writer {
    struct ledger_load *load;
    int number;
    long posted;
    time_t end;
    CURL *curl;
    char answer[ANSWER_MAX];
    size_t length;
    bool retry_after; /* the response had a Retry-After */
    bool failed;      /* writing the ledger failed */
};

static size_t collect(char *bytes, size_t one, size_t length, void *arg)
{
    struct writer *writer = arg;

    if (one != 1 || length > ANSWER_MAX - writer->length)
        return 0;
    memcpy(writer->answer + writer->length, bytes, length);
    writer->length += length;
    return length;
}

static size_t header(char *bytes, size_t one, size_t length, void *arg)
{
    struct writer *writer = arg;

    if (length > 12 && !strncasecmp(bytes, "Retry-After:", 12))
        writer->retry_after = true;
    return one * length;
}

/* Gets the uuid from a 201; returns false for any other response. */
static bool read_uuid(const struct writer *writer, char *uuid)
{
    json_t *json = json_loadb(writer->answer, writer->length, 0, NULL);
    const char *text = json_string_value(json_object_get(json, "uuid"));
    bool good = text && strlen(text) == LEDGER_UUID - 1;

    if (good)
        memcpy(uuid, text, LEDGER_UUID);
    json_decref(json);
    return good;
}

static char *message(const struct writer *writer, const char *marker)
{
    const char *author = writer->load->authors[writer->posted % 2];
    json_t *json = json_pack("{ss ss}", "username", author, "chatEntry", marker);
    char *body = json_dumps(json, JSON_COMPACT);

    json_decref(json);
    return body;
}

static struct curl_slist *headers(const struct writer *writer)
{
    char token[4096];

    snprintf(token, sizeof token, "Authorization: Bearer %s", writer->load->token);
    return curl_slist_append(curl_slist_append(NULL, "Content-Type: application/json"), token);
}

static int64_t clock_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Refused connections and timeouts are not counted as cut, because no request was in progress or
 * the host was silent. */
static void count_silence(struct ledger_load *load, CURLcode code)
{
    if (code != CURLE_COULDNT_CONNECT && code != CURLE_OPERATION_TIMEDOUT)
        atomic_fetch_add(&load->cut, 1);
}

static void note_time(struct ledger_load *load, long ms)
{
    long slowest = atomic_load(&load->slowest_ms);

    while (ms > slowest && !atomic_compare_exchange_weak(&load->slowest_ms, &slowest, ms))
        ;
}

/* Sends one POST; returns its status, 0 without a response. */
static long post(struct writer *writer, const char *body, struct curl_slist *list)
{
    struct ledger_load *load = writer->load;
    int host = load->hosts ? writer->number % load->hosts : 0;
    int64_t began = clock_ms();
    char url[256];
    long status = 0;

    snprintf(url, sizeof url, "http://%s:%d/api/chat/conversations/%" PRId64 "/messages",
             load->address, atomic_load(&load->port[host]), load->conversation);
    writer->length = 0;
    writer->retry_after = false;
    curl_easy_setopt(writer->curl, CURLOPT_URL, url);
    curl_easy_setopt(writer->curl, CURLOPT_HTTPHEADER, list);
    curl_easy_setopt(writer->curl, CURLOPT_POSTFIELDS, body);
    CURLcode code = curl_easy_perform(writer->curl);

    note_time(load, (long)(clock_ms() - began));
    if (code == CURLE_OK)
        curl_easy_getinfo(writer->curl, CURLINFO_RESPONSE_CODE, &status);
    else
        count_silence(load, code);
    if (status && status != 201 && status != 503)
        atomic_fetch_add(&load->wrong, 1);
    else if (status == 503 && !writer->retry_after)
        atomic_fetch_add(&load->bare, 1);
    return status;
}

/* Records the intent, posts one message, and records its acknowledgement. */
static void post_one(struct writer *writer, struct curl_slist *list)
{
    struct ledger_load *load = writer->load;
    char marker[LEDGER_MARKER], uuid[LEDGER_UUID];

    snprintf(marker, sizeof marker, LEDGER_PREFIX "%d-%d-%ld", (int)getpid(), writer->number,
             writer->posted);
    char *body = message(writer, marker);

    if (!body || ledger_intend(load->ledger, marker, load->conversation)) {
        writer->failed = true;
    } else if (post(writer, body, list) == 201 && read_uuid(writer, uuid)) {
        writer->failed = ledger_acknowledge(load->ledger, marker, 201, uuid) != 0;
        atomic_fetch_add(&load->acknowledged, 1);
        if (load->pause_ms)
            poll(NULL, 0, load->pause_ms);
    } else {
        atomic_fetch_add(&load->refused, 1);
        poll(NULL, 0, PAUSE_MS);
    }
    writer->posted++;
    free(body);
}

static void *write_all(void *arg)
{
    struct writer *writer = arg;
    struct ledger_load *load = writer->load;
    struct curl_slist *list = headers(writer);

    curl_easy_setopt(writer->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(writer->curl, CURLOPT_PROXY, "");
    curl_easy_setopt(writer->curl, CURLOPT_TIMEOUT_MS, (long)CALL_MS);
    curl_easy_setopt(writer->curl, CURLOPT_WRITEFUNCTION, collect);
    curl_easy_setopt(writer->curl, CURLOPT_WRITEDATA, writer);
    curl_easy_setopt(writer->curl, CURLOPT_HEADERFUNCTION, header);
    curl_easy_setopt(writer->curl, CURLOPT_HEADERDATA, writer);
    curl_easy_setopt(writer->curl, CURLOPT_FORBID_REUSE, load->fresh ? 1L : 0L);
    while (!writer->failed && atomic_load(&load->acknowledged) < load->count &&
           time(NULL) < writer->end)
        post_one(writer, list);
    curl_slist_free_all(list);
    return NULL;
}

int ledger_load(struct ledger_load *load)
{
    static struct writer writers[WRITERS_MAX];
    pthread_t threads[WRITERS_MAX];
    int started = 0;
    bool failed = load->writers > WRITERS_MAX;

    while (!failed && started < load->writers) {
        struct writer *writer = &writers[started];

        *writer = (struct writer){.load = load,
                                  .number = started,
                                  .end = time(NULL) + load->seconds,
                                  .curl = curl_easy_init()};
        failed = !writer->curl || pthread_create(&threads[started], NULL, write_all, writer);
        started += !failed;
    }
    for (int i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
        curl_easy_cleanup(writers[i].curl);
        failed = failed || writers[i].failed;
    }
    return failed || atomic_load(&load->acknowledged) < load->count ? -1 : 0;
}
