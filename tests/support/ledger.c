#include "ledger.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <poll.h>
#include <strings.h>

#include "harness.h"

enum { PAUSE_MS = 50, WRITERS_MAX = 256, ANSWER_MAX = 8192, CALL_MS = 10000 };

struct ledger *ledger_open(const char *directory)
{
    struct ledger *ledger = kept(malloc(sizeof *ledger));
    int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;

    ledger->intent = open(text("%s/intent", directory), flags, 0600);
    ledger->acknowledged = open(text("%s/acknowledged", directory), flags, 0600);
    ck_assert(ledger->intent >= 0 && ledger->acknowledged >= 0);
    return ledger;
}

/* One write() to a file opened for appending, so lines of several threads never mix. */
static int append(int fd, const char *line, int length)
{
    if (length < 0 || write(fd, line, (size_t)length) != length)
        return -1;
    return fdatasync(fd);
}

int ledger_intend(const struct ledger *ledger, const char *marker, int64_t conversation)
{
    char line[LEDGER_MARKER + 32];

    return append(ledger->intent, line,
                  snprintf(line, sizeof line, "%s %" PRId64 "\n", marker, conversation));
}

int ledger_acknowledge(const struct ledger *ledger, const char *marker, long status,
                       const char *uuid)
{
    char line[LEDGER_MARKER + LEDGER_UUID + 32];

    return append(ledger->acknowledged, line,
                  snprintf(line, sizeof line, "%s %ld %s\n", marker, status, uuid));
}

void ledger_close(struct ledger *ledger)
{
    close(ledger->intent);
    close(ledger->acknowledged);
}

/* ---- the load: threads that post messages and record each before and after ---- */

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
    int64_t began = now_ms();
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

    note_time(load, (long)(now_ms() - began));
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
        poll(NULL, 0, atomic_load(&load->pause_ms));
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
    curl_easy_setopt(writer->curl, CURLOPT_TIMEOUT_MS, (long)CALL_MS * PATIENCE);
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
                                  .end = time(NULL) + load->seconds * PATIENCE,
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

/* ---- the check ---- */

static void copy_in(PGconn *db, const char *table, const char *directory, const char *name)
{
    const char *lines = file_text(text("%s/%s", directory, name));
    PGresult *begun = PQexec(db, text("COPY %s FROM STDIN (DELIMITER ' ')", table));

    ck_assert_msg(PQresultStatus(begun) == PGRES_COPY_IN, "%s", PQerrorMessage(db));
    PQclear(begun);
    ck_assert_int_eq(PQputCopyData(db, lines, (int)strlen(lines)), 1);
    ck_assert_int_eq(PQputCopyEnd(db, NULL), 1);
    PGresult *ended = PQgetResult(db);

    ck_assert_msg(PQresultStatus(ended) == PGRES_COMMAND_OK, "%s", PQerrorMessage(db));
    PQclear(ended);
    ck_assert_ptr_null(PQgetResult(db));
}

/* From the column "lost" on, each sum must be 0. The numbers of a conversation's entries have no
 * gap and no fork if each is one more than the number before it. */
static const char sums[] =
    "WITH entry AS (SELECT conversation_id, seq, uuid::text, chat_entry AS marker FROM chat_entry"
    " WHERE conversation_id IN (SELECT conversation FROM intent)),"
    " step AS (SELECT seq - lag(seq) OVER (PARTITION BY conversation_id ORDER BY seq) AS step"
    " FROM entry),"
    " mark AS (SELECT a.uuid, count(e.uuid) AS found, coalesce(bool_or(e.conversation_id <>"
    " i.conversation OR e.uuid <> a.uuid), false) AS misplaced FROM intent i"
    " LEFT JOIN acknowledged a ON a.marker = i.marker AND a.status = 201"
    " LEFT JOIN entry e ON e.marker = i.marker GROUP BY i.marker, a.uuid),"
    " talk AS (SELECT (c.head_uuid <> (SELECT uuid FROM chat_entry WHERE conversation_id = c.id"
    " ORDER BY seq LIMIT 1))::int + (c.last_entry_uuid <> (SELECT uuid FROM chat_entry"
    " WHERE conversation_id = c.id ORDER BY seq DESC LIMIT 1))::int AS chain,"
    " (c.entries <> count(e.uuid))::int + (count(e.uuid) <> count(DISTINCT e.uuid))::int +"
    " (c.unread1 <> count(e.uuid) FILTER (WHERE e.username = c.participant2))::int +"
    " (c.unread2 <> count(e.uuid) FILTER (WHERE e.username = c.participant1))::int AS counters"
    " FROM chat_conversation c JOIN chat_entry e ON e.conversation_id = c.id"
    " WHERE c.id IN (SELECT conversation FROM intent) GROUP BY c.id)"
    " SELECT count(uuid) AS acknowledged, count(*) FILTER (WHERE found > 0) AS stored,"
    " count(*) FILTER (WHERE found > 0 AND uuid IS NULL) AS unsure, count(*) AS intended,"
    " count(*) FILTER (WHERE uuid IS NOT NULL AND (found = 0 OR misplaced)) AS lost,"
    " count(*) FILTER (WHERE uuid IS NULL AND misplaced)"
    " + (SELECT count(*) FROM entry e WHERE marker LIKE '" LEDGER_PREFIX "%'"
    " AND NOT EXISTS (SELECT FROM intent i WHERE i.marker = e.marker))"
    " + (SELECT count(*) FROM acknowledged a"
    " WHERE NOT EXISTS (SELECT FROM intent i WHERE i.marker = a.marker)) AS phantom,"
    " count(*) FILTER (WHERE found > 1) AS repeated,"
    " (SELECT count(*) FROM step WHERE step <> 1) + (SELECT sum(chain) FROM talk) AS chain,"
    " (SELECT sum(counters) FROM talk) AS counters FROM mark";

struct ledger_report ledger_check(const char *directory, PGconn *db)
{
    struct ledger_report report = {.text = ""};
    bool agree = true;

    sql_run(db, "CREATE TEMP TABLE intent (marker text PRIMARY KEY, conversation bigint)");
    sql_run(db, "CREATE TEMP TABLE acknowledged (marker text, status integer, uuid text)");
    copy_in(db, "intent", directory, "intent");
    copy_in(db, "acknowledged", directory, "acknowledged");
    sql_run(db, "ANALYZE intent, acknowledged");
    PGresult *row = PQexec(db, sums);

    ck_assert_msg(PQresultStatus(row) == PGRES_TUPLES_OK, "%s", PQerrorMessage(db));
    for (int i = 0, bad = 0; i < PQnfields(row); i++) {
        const char *name = PQfname(row, i), *value = PQgetvalue(row, 0, i);

        bad = bad || !strcmp(name, "lost");
        agree = agree && (!bad || !strcmp(value, "0"));
        report.text = text("%s%s%s %s", report.text, i ? ", " : "", name, value);
    }
    report.acknowledged = strtoul(PQgetvalue(row, 0, 0), NULL, 10);
    report.stored = strtoul(PQgetvalue(row, 0, 1), NULL, 10);
    report.unsure = strtoul(PQgetvalue(row, 0, 2), NULL, 10);
    PQclear(row);
    sql_run(db, "DROP TABLE intent, acknowledged");
    ck_assert_msg(agree, "%s", report.text);
    return report;
}
