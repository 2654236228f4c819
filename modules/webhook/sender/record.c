/*
 * Recording results: one statement for hundreds, by a host that still owns them. What it does not
 * find was taken over, resent or dropped, and is let go of.
 */
#include "modules/webhook/sender/internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#define STATEMENTS 2   /* at a time */
#define WORTHWHILE 256 /* results for which a second statement is sent while one is out */
#define AGAIN_MS 250
#define ABANDONED_MS 60000 /* between two lines of the log about a webhook */
#define ROW_ROOM 320       /* a row's JSON without error and answer */
#define FEW 16             /* results whose statement goes with the reads of requests */
#define GATHER_MS 30       /* that a result waits for others */

/* The ids of a batch lie in few partitions; $3 and $4 keep the rest out. */
#define RECORD                                                                                     \
    "UPDATE webhook_delivery d SET state = r.state, tries = r.tries,"                              \
    " next_at = now() + make_interval(secs => r.delay / 1000.0),"                                  \
    " owner = CASE WHEN r.state = 'queued' THEN d.owner END,"                                      \
    " log = " WEBHOOK_LOG " || jsonb_build_object('number', " WEBHOOK_LOG_NUMBER ", 'at', r.at,"   \
    " 'status', r.status, 'durationMs', r.took, 'error', r.error, 'answer', r.answer)"             \
    " FROM jsonb_to_recordset($1::jsonb) AS r(webhook bigint, id bigint, state text,"              \
    " tries smallint, delay bigint, at text, status int, took bigint, error text, answer text)"    \
    " WHERE d.webhook = r.webhook AND d.id = r.id AND d.id BETWEEN $3::bigint AND $4::bigint"      \
    " AND d.owner = $2::bigint AND d.state = 'queued'"                                             \
    " RETURNING d.id"

/* Few results cost what a read costs; nobody's reads should wait behind many. */
static const struct bb_sql record_few = {RECORD, BB_SQL_WRITE};
static const struct bb_sql record_many = {RECORD, BB_SQL_WRITE | BB_SQL_LONG};

struct recording {
    struct db_task db_task;
    int64_t owner;
    char *rows;
    int64_t low, high;
    size_t count, stored_count;
    struct delivery *list[SENDER_RECORD_MAX];
    int64_t stored[SENDER_RECORD_MAX];
};

static void work(struct bb_request *rq, struct db_task *db_task)
{
    struct recording *recording = BB_CONTAINER_OF(db_task, struct recording, db_task);
    const struct bb_rows *rows = bb_query(rq, recording->count > FEW ? &record_many : &record_few,
                                          BB_ARGS(bb_t(recording->rows), bb_i(recording->owner),
                                                  bb_i(recording->low), bb_i(recording->high)));

    if (!rows)
        return;
    recording->stored_count = bb_count(rq, rows);
    for (size_t i = 0; i < recording->stored_count; i++)
        recording->stored[i] = bb_cell_int(rq, rows, i, 0);
    db_task->ok = true;
}

static int by_number(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;

    return (left > right) - (left < right);
}

/*
 * One line a webhook and minute. Nothing of the URL, the body or the answer is in it: a log is read
 * by others than the owner.
 */
static void tell_abandoned(const struct sender *sender, const struct delivery *delivery)
{
    struct subscription *subscription = delivery->subscription;
    char last[32];

    subscription->abandoned++;
    if (subscription->abandoned_told_ms &&
        sender->now_ms - subscription->abandoned_told_ms < ABANDONED_MS)
        return;
    snprintf(last, sizeof(last), "status %d", delivery->status);
    bb_host_log(sender->host, BB_WARN,
                "deliveries were abandoned: webhook %" PRId64 ", count %zu, the last one %" PRId64
                ", event %s, attempts %d, last: %s",
                subscription_webhook(subscription), subscription->abandoned, delivery->node.id,
                delivery->body->event, delivery->tries, delivery->kind ? delivery->kind : last);
    subscription->abandoned = 0;
    subscription->abandoned_told_ms = sender->now_ms;
}

static void settle(struct sender *sender, struct delivery *delivery, bool stored)
{
    if (stored && delivery->verdict == SCHEDULE_ABANDON)
        tell_abandoned(sender, delivery);
    free(delivery->error);
    free(delivery->answer);
    delivery->error = delivery->answer = NULL;
    if (stored && !delivery->dropped && delivery->verdict == SCHEDULE_RETRY &&
        delivery->subscription->state != SUBSCRIPTION_GONE)
        delivery_retry(sender, delivery);
    else
        delivery_end(sender, delivery);
}

/* To be recorded again; first, so that they stay in order. */
static void put_back(struct sender *sender, struct recording *recording)
{
    for (size_t i = recording->count; i > 0; i--) {
        struct delivery *delivery = recording->list[i - 1];

        if (!sender->results)
            sender->results_end = &delivery->next;
        delivery->next = sender->results;
        sender->results = delivery;
    }
    sender->result_count += recording->count;
    sender->retry_db_at = sender->now_ms + AGAIN_MS;
}

static void back(struct sender *sender, struct db_task *db_task)
{
    struct recording *recording = BB_CONTAINER_OF(db_task, struct recording, db_task);

    sender->recording--;
    if (!db_task->ok && recording->owner == sender->me) {
        put_back(sender, recording);
        return;
    }
    qsort(recording->stored, recording->stored_count, sizeof(int64_t), by_number);
    for (size_t i = 0; i < recording->count; i++) {
        struct delivery *delivery = recording->list[i];

        settle(sender, delivery,
               bsearch(&delivery->node.id, recording->stored, recording->stored_count,
                       sizeof(int64_t), by_number) != NULL);
    }
}

static void drop(struct db_task *db_task)
{
    struct recording *recording = BB_CONTAINER_OF(db_task, struct recording, db_task);

    free(recording->rows);
    free(recording);
}

/* ---- the batch as JSON
 * --------------------------------------------------------------------------- */

static int write_row(char *out, size_t room, const struct delivery *delivery)
{
    static const char *const states[] = {"delivered", "queued", "abandoned"};
    time_t seconds = (time_t)(delivery->at_wall_ms / 1000);
    struct tm tm;
    char at[32], status[16] = "null";

    gmtime_r(&seconds, &tm);
    strftime(at, sizeof(at), "%Y-%m-%dT%H:%M:%S", &tm);
    if (delivery->status)
        snprintf(status, sizeof(status), "%d", delivery->status);
    return snprintf(
        out, room,
        "{\"webhook\":%" PRId64 ",\"id\":%" PRId64 ",\"state\":\"%s\",\"tries\":%d,"
        "\"delay\":%" PRId64 ",\"at\":\"%s.%03dZ\",\"status\":%s,\"took\":%" PRId64
        ",\"error\":%s,\"answer\":%s},",
        subscription_webhook(delivery->subscription), delivery->node.id, states[delivery->verdict],
        delivery->tries, delivery->verdict == SCHEDULE_RETRY ? delivery->delay_ms : 0, at,
        (int)(delivery->at_wall_ms % 1000), status, delivery->took_ms,
        delivery->error ? delivery->error : "null", delivery->answer ? delivery->answer : "null");
}

static size_t row_room(const struct delivery *delivery)
{
    return ROW_ROOM + (delivery->error ? strlen(delivery->error) : 0) +
           (delivery->answer ? strlen(delivery->answer) : 0);
}

static char *write_rows(const struct recording *recording)
{
    size_t room = 4, at = 1;

    for (size_t i = 0; i < recording->count; i++)
        room += row_room(recording->list[i]);
    char *out = malloc(room);

    if (!out)
        return NULL;
    out[0] = '[';
    for (size_t i = 0; i < recording->count; i++)
        at += (size_t)write_row(out + at, room - at, recording->list[i]);
    out[at - 1] = ']';
    out[at] = '\0';
    return out;
}

static void gather(struct sender *sender, struct recording *recording)
{
    recording->low = INT64_MAX;
    recording->high = 0;
    while (sender->results && recording->count < SENDER_RECORD_MAX) {
        struct delivery *delivery = sender->results;
        int64_t id = delivery->node.id;

        sender->results = delivery->next;
        recording->list[recording->count++] = delivery;
        if (id < recording->low)
            recording->low = id;
        if (id > recording->high)
            recording->high = id;
    }
    if (!sender->results)
        sender->results_end = &sender->results;
    sender->result_count -= recording->count;
}

static int send_batch(struct sender *sender)
{
    struct recording *recording = calloc(1, sizeof(*recording));

    if (!recording)
        return -1;
    recording->db_task = (struct db_task){.work = work, .back = back, .drop = drop};
    recording->owner = sender->me;
    gather(sender, recording);
    recording->rows = write_rows(recording);
    if (!recording->rows) {
        put_back(sender, recording);
        drop(&recording->db_task);
        return -1;
    }
    sender->recording++;
    db_task_send(sender, &recording->db_task);
    return 0;
}

/*
 * A statement costs PostgreSQL half a millisecond, most of it for the plan and the commit, and each
 * result in it a few hundredths. So the first one waits a little for others, unless they are enough
 * already. Its age counts from the end of the attempt: no gap of the schedule is longer for it.
 */
int64_t record_at(const struct sender *sender)
{
    if (sender->stopping || sender->result_count >= FEW)
        return 0;
    return sender->results->retry.at_ms + GATHER_MS;
}

/* While statements are out results gather, so that load makes the batches larger by itself. */
void record_results(struct sender *sender)
{
    while (sender->results && sender->now_ms >= sender->retry_db_at &&
           sender->now_ms >= record_at(sender) &&
           (!sender->recording ||
            (sender->recording < STATEMENTS && sender->result_count >= WORTHWHILE)))
        if (send_batch(sender))
            return;
}
