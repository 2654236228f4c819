/*
 * Deliveries of a webhook that match a search: the list, newest first, and the export as CSV.
 *
 * A search may match few of many deliveries. So a statement reads up to SCAN deliveries; if it does
 * not find enough of them, the next page continues after the last one that it has read.
 */
#include <stdio.h>
#include <string.h>

#include "modules/common/pieces.h"
#include "modules/webhook/api/api.h"

#define PAGE 50
#define PAGE_BYTES (1024 * 1024) /* limit for the attempts of a page */
#define EXPORT_PAGE 500
#define SCAN "20000"
#define SCAN_LAST "19999"

/*
 * $1 webhook, $2 upper bound of the ids; the others are null or a condition: $3 since, $4 until, $5
 * status, $6 event, $7 status of the last response, $8 part of the last error. An id has the day on
 * which it was made, which may differ by one from the day of created_at.
 */
#define DAY(of) "webhook_day_floor((" of "::timestamptz AT TIME ZONE 'UTC')::date"
#define RANGE                                                                                      \
    " d.webhook = $1::bigint AND d.id < least($2::bigint, " DAY(                                   \
        "$4") " + 2))"                                                                             \
              " AND d.id >= coalesce(" DAY("$3") " - 1), 0) ORDER BY d.id DESC "
#define FOUND_OF                                                                                   \
    " FROM (SELECT * FROM webhook_deliveries d WHERE" RANGE "LIMIT " SCAN ") d"                    \
    " WHERE ($3::timestamptz IS NULL OR d.created_at >= $3::timestamptz)"                          \
    " AND ($4::timestamptz IS NULL OR d.created_at < $4::timestamptz)"                             \
    " AND ($5::text IS NULL OR d.state = $5::text) AND ($6::text IS NULL OR d.event = $6::text)"   \
    " AND ($7::bigint IS NULL OR (d.log -> -1 ->> 'status')::bigint = $7::bigint)"                 \
    " AND ($8::text IS NULL OR position(lower($8::text) IN lower(d.log -> -1 ->> 'error')) > 0)"   \
    " ORDER BY d.id DESC LIMIT $9::bigint"

/* $10 limit of bytes; the first delivery is returned even if it exceeds the limit */
static const struct bb_sql list = {
    "SELECT * FROM (SELECT q.*, count(*) OVER () AS found,"
    " sum(octet_length(q.log)) OVER (ORDER BY q.id DESC) AS upto FROM (SELECT " DELIVERY_COLUMNS
        FOUND_OF ") q) p WHERE upto - octet_length(log) < $10::bigint ORDER BY id DESC",
    BB_SQL_LONG,
};

static const struct bb_sql export_rows = {
    "SELECT id, event, event_id, state, created, n, last ->> 'at', last ->> 'status',"
    " last ->> 'durationMs', last ->> 'error' FROM (SELECT d.id, d.event, d.event_id, d.state,"
    " " BB_SQL_TIME("d.created_at") " AS created, jsonb_array_length(d.log) AS n,"
                                    " d.log -> -1 AS last" FOUND_OF ") d",
    BB_SQL_LONG,
};

/* Returns the last id that a statement has read, if it has read SCAN deliveries. */
static const struct bb_sql scanned = {
    "SELECT d.id FROM webhook_delivery d WHERE" RANGE "OFFSET " SCAN_LAST " LIMIT 1",
    BB_SQL_LONG,
};

struct search {
    int64_t webhook, before, code;
    bool any_code;
    char status[16], since[48], until[48], event[520], error[420]; /* "": any */
};

/* The table of the query limits the texts, so that none is cut. */
static void search_text(struct bb_request *rq, const char *name, char *to, size_t size)
{
    const char *value = bb_arg(rq, name);

    snprintf(to, size, "%s", value ? value : "");
}

static struct search search_read(struct bb_request *rq)
{
    struct search search = {.webhook = bb_segment_int(rq, "id"),
                            .before = bb_arg_int(rq, "after", INT64_MAX),
                            .code = bb_arg_int(rq, "code", 0),
                            .any_code = !bb_arg(rq, "code")};

    search_text(rq, "status", search.status, sizeof(search.status));
    search_text(rq, "since", search.since, sizeof(search.since));
    search_text(rq, "until", search.until, sizeof(search.until));
    search_text(rq, "event", search.event, sizeof(search.event));
    search_text(rq, "error", search.error, sizeof(search.error));
    return search;
}

static struct bb_value search_value(const char *text)
{
    return bb_t(*text ? text : NULL);
}

#define RANGE_ARGS(search)                                                                         \
    bb_i((search)->webhook), bb_i((search)->before), search_value((search)->since),                \
        search_value((search)->until)
#define SEARCH_ARGS(search)                                                                        \
    RANGE_ARGS(search), search_value((search)->status), search_value((search)->event),             \
        (search)->any_code ? bb_null() : bb_i((search)->code), search_value((search)->error)

int webhook_deliveries(struct bb_request *rq)
{
    int64_t limit = bb_arg_int(rq, "limit", PAGE);
    struct search search = search_read(rq);
    int refused = webhook_check_mine(rq);

    if (refused)
        return refused;
    const struct bb_rows *rows =
        bb_query(rq, &list, BB_ARGS(SEARCH_ARGS(&search), bb_i(limit + 1), bb_i(PAGE_BYTES)));

    if (!rows)
        return bb_failed(rq);
    size_t count = bb_count(rq, rows) > (size_t)limit ? (size_t)limit : bb_count(rq, rows);
    /* Another page follows if the statement found more deliveries than fit in the bytes. */
    bool more = count && count < (size_t)bb_cell_int(rq, rows, 0, DELIVERY_FOUND);
    const char *next = more ? bb_cell(rq, rows, count - 1, DELIVERY_ID) : NULL;

    if (!more) {
        const struct bb_rows *last = bb_query(rq, &scanned, BB_ARGS(RANGE_ARGS(&search)));

        if (!last)
            return bb_failed(rq);
        next = bb_count(rq, last) ? bb_cell(rq, last, 0, 0) : NULL;
    }
    return bb_reply_page(rq, rows, count, next, webhook_delivery_json);
}

static int search_write(struct bb_request *rq, struct csv *csv, void *state)
{
    enum { ID, EVENT, EVENT_ID, STATE, CREATED, ATTEMPTS, AT, STATUS, DURATION, ERROR };
    struct search *search = state;
    const struct bb_rows *rows =
        bb_query(rq, &export_rows, BB_ARGS(SEARCH_ARGS(search), bb_i(EXPORT_PAGE)));
    size_t count = rows ? bb_count(rq, rows) : 0;

    for (size_t row = 0; row < count; row++) {
        csv_plain(csv, bb_cell(rq, rows, row, ID));
        csv_text(csv, bb_cell(rq, rows, row, EVENT));
        for (size_t column = EVENT_ID; column < ERROR; column++)
            csv_plain(csv, bb_cell(rq, rows, row, column));
        csv_text(csv, bb_cell(rq, rows, row, ERROR));
        csv_end_row(csv);
    }
    if (rows && count < EXPORT_PAGE) {
        rows = bb_query(rq, &scanned, BB_ARGS(RANGE_ARGS(search)));
        count = rows ? bb_count(rq, rows) : 0;
    }
    if (count)
        search->before = bb_cell_int(rq, rows, count - 1, ID);
    return !rows ? -1 : count > 0;
}

int webhook_export(struct bb_request *rq)
{
    static const char *const columns[] = {
        "id",       "event",         "eventId",    "status",         "createdAt",
        "attempts", "lastAttemptAt", "lastStatus", "lastDurationMs", "lastError",
        NULL};
    static const struct pieces_source source = {
        .name = "deliveries.csv", .columns = columns, .write = search_write};
    const struct webhook *webhook = rq->state;
    struct search search = search_read(rq);
    int refused = webhook_check_mine(rq);

    return refused ? refused
                   : pieces_begin_copy(rq, webhook->long_answers, &source, &search, sizeof(search));
}
