/*
 * Records results, hundreds in one statement, for deliveries that this host still owns. Results
 * without a matching row were taken over, sent again or dropped, and are discarded.
 */
#include "modules/webhook/sender/internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#define STATEMENTS 2   /* at a time */
#define WORTHWHILE 256 /* results needed to send a second statement while one is running */
#define AGAIN_MS 250
#define ABANDONED_MS 60000 /* between two log lines about a webhook */
#define ATTEMPT_ROOM 192   /* size of an attempt's JSON without error and answer */
#define FEW 16             /* results that may be recorded by a short statement */
#define GATHER_MS 100      /* how long a result waits for others */

/*
 * $1 webhooks, $2 ids, $3 verdicts, $4 tries, $5 gaps in ms, $6 attempts, one per line, $7 owner.
 * Arrays cost a third of a jsonb with as many objects. An attempt is the inside of its JSON object
 * without the number, because the number comes from the log, to which other hosts may have written.
 * The ids of a batch are in few partitions; $8 and $9 exclude the others.
 */
#define RECORD(is_owner)                                                                           \
    "UPDATE webhook_delivery d SET"                                                                \
    " state = ('{delivered,queued,abandoned}'::text[])[r.verdict + 1], tries = r.tries::smallint," \
    " next_at = now() + r.gap * interval '1 ms',"                                                  \
    " owner = CASE WHEN r.verdict = 1 THEN d.owner END,"                                           \
    " log = CASE WHEN d.log = '[]' THEN ('[{\"number\":1,' || r.attempt || '}]')::jsonb"           \
    " ELSE " WEBHOOK_LOG " || ('{\"number\":' || " WEBHOOK_LOG_NUMBER                              \
    " || ',' || r.attempt || '}')::jsonb END"                                                      \
    " FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[],"           \
    " string_to_array($6::text, chr(10))) AS r(webhook, id, verdict, tries, gap, attempt)"         \
    " WHERE d.webhook = r.webhook AND d.id = r.id AND d.id BETWEEN $8::bigint AND $9::bigint"      \
    " AND d.owner " is_owner " $7::bigint AND d.state = 'queued'"                                  \
    " RETURNING d.id"

_Static_assert(SCHEDULE_DELIVERED == 0 && SCHEDULE_RETRY == 1 && SCHEDULE_ABANDON == 2,
               "RECORD has a state for each");

/*
 * Few results cost as much as a short read; many use a long statement, so that no short read waits
 * for them. Few are looked up by the primary key: the index of waiting deliveries cannot serve IS
 * NOT DISTINCT FROM. With "=" and statistics older than the owner, PostgreSQL would scan all
 * deliveries of the owner once per result. Many are joined by a hash, whatever the statistics are.
 */
static const struct bb_sql record_few = {RECORD("IS NOT DISTINCT FROM"), BB_SQL_WRITE};
static const struct bb_sql record_many = {RECORD("="), BB_SQL_WRITE | BB_SQL_LONG};

struct recording {
    struct db_task db_task;
    int64_t owner;
    int64_t low, high;
    size_t count, stored_count;
    struct delivery *list[SENDER_RECORD_MAX];
    int64_t webhooks[SENDER_RECORD_MAX], ids[SENDER_RECORD_MAX], verdicts[SENDER_RECORD_MAX],
        tries[SENDER_RECORD_MAX], gaps[SENDER_RECORD_MAX];
    char *attempts;
    int64_t stored[SENDER_RECORD_MAX];
};

static void work(struct bb_request *rq, struct db_task *db_task)
{
    struct recording *recording = BB_CONTAINER_OF(db_task, struct recording, db_task);
    size_t count = recording->count;
    const struct bb_rows *rows =
        bb_query(rq, count > FEW ? &record_many : &record_few,
                 BB_ARGS(bb_ints(recording->webhooks, count), bb_ints(recording->ids, count),
                         bb_ints(recording->verdicts, count), bb_ints(recording->tries, count),
                         bb_ints(recording->gaps, count), bb_t(recording->attempts),
                         bb_i(recording->owner), bb_i(recording->low), bb_i(recording->high)));

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
 * Logs at most one line per webhook and minute. The line has nothing of the URL, the body or the
 * response, because others than the webhook's owner read the log.
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

/* Puts results back to be recorded again, at the front, so that they stay in order. */
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

    free(recording->attempts);
    free(recording);
}

/* ---- a batch -------------------------------------------------------------------------------- */

/*
 * A second as text in the log's format, cached because most attempts of a batch are in the same
 * second.
 */
struct stamp {
    time_t second;
    char text[32];
};

static const char *stamp_of(struct stamp *stamp, int64_t wall_ms)
{
    time_t second = (time_t)(wall_ms / 1000);
    struct tm tm;

    if (!*stamp->text || stamp->second != second) {
        stamp->second = second;
        strftime(stamp->text, sizeof(stamp->text), "%Y-%m-%dT%H:%M:%S", gmtime_r(&second, &tm));
    }
    return stamp->text;
}

/* Writes the inside of an attempt's JSON, without its number. JSON has no unescaped newline. */
static size_t write_attempt(char *out, size_t room, const struct delivery *delivery,
                            struct stamp *stamp)
{
    char status[16] = "null";

    if (delivery->status)
        snprintf(status, sizeof(status), "%d", delivery->status);
    return (size_t)snprintf(
        out, room,
        "\"at\":\"%s.%03dZ\",\"status\":%s,\"durationMs\":%" PRId64 ",\"error\":%s,\"answer\":%s\n",
        stamp_of(stamp, delivery->at_wall_ms), (int)(delivery->at_wall_ms % 1000), status,
        delivery->took_ms, delivery->error ? delivery->error : "null",
        delivery->answer ? delivery->answer : "null");
}

static size_t attempt_room(const struct delivery *delivery)
{
    return ATTEMPT_ROOM + (delivery->error ? strlen(delivery->error) : 0) +
           (delivery->answer ? strlen(delivery->answer) : 0);
}

static int write_attempts(struct recording *recording)
{
    struct stamp stamp = {0};
    size_t room = 1, at = 0;

    for (size_t i = 0; i < recording->count; i++)
        room += attempt_room(recording->list[i]);
    recording->attempts = malloc(room);
    if (!recording->attempts)
        return -1;
    for (size_t i = 0; i < recording->count; i++)
        at += write_attempt(recording->attempts + at, room - at, recording->list[i], &stamp);
    recording->attempts[at - 1] = '\0';
    return 0;
}

static void take(struct recording *recording, struct delivery *delivery)
{
    size_t i = recording->count++;
    int64_t id = delivery->node.id;

    recording->list[i] = delivery;
    recording->webhooks[i] = subscription_webhook(delivery->subscription);
    recording->ids[i] = id;
    recording->verdicts[i] = delivery->verdict;
    recording->tries[i] = delivery->tries;
    recording->gaps[i] = delivery->verdict == SCHEDULE_RETRY ? delivery->delay_ms : 0;
    if (id < recording->low)
        recording->low = id;
    if (id > recording->high)
        recording->high = id;
}

static void gather(struct sender *sender, struct recording *recording)
{
    recording->low = INT64_MAX;
    recording->high = 0;
    while (sender->results && recording->count < SENDER_RECORD_MAX) {
        struct delivery *delivery = sender->results;

        sender->results = delivery->next;
        take(recording, delivery);
    }
    if (!sender->results)
        sender->results_end = &sender->results;
    sender->result_count -= recording->count;
}

static int send_batch(struct sender *sender)
{
    struct recording *recording = calloc(1, sizeof(*recording));

    if (!recording) {
        sender->retry_db_at = sender->now_ms + AGAIN_MS;
        return -1;
    }
    recording->db_task = (struct db_task){.work = work, .back = back, .drop = drop};
    recording->owner = sender->me;
    gather(sender, recording);
    if (write_attempts(recording)) {
        put_back(sender, recording);
        drop(&recording->db_task);
        return -1;
    }
    sender->recording++;
    db_task_send(sender, &recording->db_task);
    return 0;
}

/* A result waits for others, but the result of a retry no longer than until the next attempt. */
void record_add(struct sender *sender, struct delivery *delivery)
{
    bool soon = delivery->verdict == SCHEDULE_RETRY && delivery->delay_ms < GATHER_MS;
    int64_t at_ms = sender->now_ms + (soon ? delivery->delay_ms : GATHER_MS);

    if (!sender->results || at_ms < sender->record_ms)
        sender->record_ms = at_ms;
    delivery->next = NULL;
    *sender->results_end = delivery;
    sender->results_end = &delivery->next;
    sender->result_count++;
}

/*
 * A statement costs PostgreSQL half a millisecond, most of it for the plan and the commit, and a
 * few hundredths per result. So results wait a little for others, unless there are enough, or the
 * next deliveries can be claimed only after these have left memory.
 */
static int64_t due(const struct sender *sender)
{
    bool alone = sender->overflowing && !queue_flying(&sender->queue);

    return sender->stopping || sender->result_count >= FEW || alone ? 0 : sender->record_ms;
}

int64_t record_at(const struct sender *sender)
{
    int64_t at_ms = due(sender);

    return at_ms > sender->retry_db_at ? at_ms : sender->retry_db_at;
}

/* Results accumulate while statements are running, so load makes the batches larger. */
void record_results(struct sender *sender)
{
    while (sender->results && sender->now_ms >= record_at(sender) &&
           (!sender->recording ||
            (sender->recording < STATEMENTS && sender->result_count >= WORTHWHILE)))
        if (send_batch(sender))
            return;
}
