/*
 * Deliveries of a webhook that match a search: the list, newest first, and the export as CSV.
 *
 * A search may match few of many deliveries. So a statement reads up to SCAN deliveries; if it
 * finds too few matches, the next page continues after the last delivery that it has read.
 */
#include <stdio.h>

#include "modules/common/pieces.h"
#include "modules/webhook/api/api.h"

#define PAGE 50
#define PAGE_BYTES (1024 * 1024) /* limit for the attempts of a page */
#define EXPORT_PAGE 500
#define SCAN "20000"
#define SCAN_LAST "19999"

/* clang-format off */

/*
 * $1 webhook, $2 upper bound of the ids, $3 the conditions, an object with members of the query. An
 * id contains a day, which may be one day before or after the day of created_at.
 */
#define GIVEN(name) "($3::jsonb ->> '" name "')"
#define DAY(of) "webhook_day_floor((" GIVEN(of) "::timestamptz AT TIME ZONE 'UTC')::date"
#define RANGE                                                                                      \
    " d.webhook = $1::bigint AND d.id < least($2::bigint, " DAY("until") " + 2))"                  \
    " AND d.id >= coalesce(" DAY("since") " - 1), 0) ORDER BY d.id DESC "
#define IF_GIVEN(name, condition, type)                                                            \
    " AND (" GIVEN(name) " IS NULL OR " condition " " GIVEN(name) type ")"
#define FOUND_OF                                                                                   \
    " FROM (SELECT * FROM webhook_deliveries d WHERE" RANGE "LIMIT " SCAN ") d WHERE true"         \
    IF_GIVEN("since", "d.created_at >=", "::timestamptz")                                          \
    IF_GIVEN("until", "d.created_at <", "::timestamptz")                                           \
    IF_GIVEN("status", "d.state =", "")                                                            \
    IF_GIVEN("event", "d.event =", "")                                                             \
    IF_GIVEN("eventId", "d.event_id =", "::uuid")                                                  \
    IF_GIVEN("code", "(d.log -> -1 ->> 'status')::bigint =", "::bigint")                           \
    IF_GIVEN("error", "strpos(lower(d.log -> -1 ->> 'error'), lower(", ")) > 0")                   \
    " ORDER BY d.id DESC LIMIT $4::bigint"

/* $5 limit of bytes of the attempts; the delivery that reaches the limit is the last one */
static const struct bb_sql list = {
    "SELECT * FROM (SELECT q.*, count(*) OVER () AS found,"
    " sum(octet_length(q.log)) OVER (ORDER BY q.id DESC) AS upto FROM (SELECT " DELIVERY_COLUMNS
    FOUND_OF ") q) p WHERE upto - octet_length(log) < $5::bigint ORDER BY id DESC",
    BB_SQL_LIST,
};

static const struct bb_sql export_rows = {
    "SELECT id, event, event_id, state, created, n, last ->> 'at', last ->> 'status',"
    " last ->> 'durationMs', last ->> 'error' FROM (SELECT d.id, d.event, d.event_id, d.state, "
    BB_SQL_TIME("d.created_at") " AS created, jsonb_array_length(d.log) AS n,"
    " d.log -> -1 AS last" FOUND_OF ") d",
    BB_SQL_LIST,
};

/* clang-format on */

/* Returns the id of the last of SCAN deliveries; no row: there are fewer. */
static const struct bb_sql scanned = {
    "SELECT d.id FROM webhook_delivery d WHERE" RANGE "OFFSET " SCAN_LAST " LIMIT 1",
    BB_SQL_LIST,
};

struct search {
    int64_t webhook, before;
    char given[2048]; /* JSON, which fits because the fields of the query limit the texts */
};

static void search_read(struct bb_request *rq, struct search *search)
{
    static const char *const names[] = {"status", "since", "until",  "event",
                                        "error",  "code",  "eventId"};
    json_t *given = bb_hold(rq, json_object());

    webhook_find(rq);
    search->webhook = bb_segment_int(rq, "id");
    search->before = bb_arg_int(rq, "after", INT64_MAX);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *value = bb_arg(rq, names[i]);

        if (value)
            bb_set(rq, given, names[i], json_string(value));
    }
    snprintf(search->given, sizeof(search->given), "%s", bb_json(rq, given, NULL));
}

#define SEARCH_ARGS(search) bb_i((search)->webhook), bb_i((search)->before), bb_t((search)->given)

int webhook_deliveries(struct bb_request *rq)
{
    enum { ID, FOUND = sizeof(webhook_delivery_fields) / sizeof(webhook_delivery_fields[0]) };
    int64_t limit = bb_arg_int(rq, "limit", PAGE);
    struct search search;

    search_read(rq, &search);
    const struct bb_rows *rows = bb_query_or_end(
        rq, &list, BB_ARGS(SEARCH_ARGS(&search), bb_i(limit + 1), bb_i(PAGE_BYTES)));
    size_t count = bb_count(rq, rows) > (size_t)limit ? (size_t)limit : bb_count(rq, rows);
    /* Another page follows if the statement found more deliveries than fit in a page. */
    bool more = count && count < (size_t)bb_cell_int(rq, rows, 0, FOUND);
    const char *next = more ? bb_cell(rq, rows, count - 1, ID) : NULL;

    if (!more) {
        const struct bb_rows *last = bb_query_or_end(rq, &scanned, BB_ARGS(SEARCH_ARGS(&search)));

        next = bb_count(rq, last) ? bb_cell(rq, last, 0, 0) : NULL;
    }
    if (next && bb_reply_next(rq, next) < 0)
        return bb_failed(rq);
    return bb_reply(rq, 200, bb_rows_fields(rq, rows, count, 0, webhook_delivery_fields, FOUND));
}

static int search_write(struct bb_request *rq, struct csv *csv, void *state)
{
    enum { ID, EVENT, EVENT_ID, STATE, CREATED, ATTEMPTS, AT, STATUS, DURATION, ERROR };
    struct search *search = state;
    const struct bb_rows *rows =
        bb_query_or_end(rq, &export_rows, BB_ARGS(SEARCH_ARGS(search), bb_i(EXPORT_PAGE)));
    size_t count = bb_count(rq, rows);

    for (size_t row = 0; row < count; row++) {
        csv_plain(csv, bb_cell(rq, rows, row, ID));
        csv_text(csv, bb_cell(rq, rows, row, EVENT));
        for (size_t column = EVENT_ID; column < ERROR; column++)
            csv_plain(csv, bb_cell(rq, rows, row, column));
        csv_text(csv, bb_cell(rq, rows, row, ERROR));
        csv_end_row(csv);
    }
    if (count < EXPORT_PAGE) {
        rows = bb_query_or_end(rq, &scanned, BB_ARGS(SEARCH_ARGS(search)));
        count = bb_count(rq, rows);
    }
    if (count)
        search->before = bb_cell_int(rq, rows, count - 1, ID);
    return count > 0;
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
    struct search search;

    search_read(rq, &search);
    return pieces_begin_copy(rq, webhook->long_answers, &source, &search, sizeof(search));
}
