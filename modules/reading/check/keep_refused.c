/*
 * Keeps refused readings with the reason, so that people can find out later what went wrong. The
 * number is limited per request and per organization; of an organization the newest are kept.
 */
#include "modules/reading/base/reading.h"

#define KEPT_OF_REQUEST 100
#define WH_MOST 9e15 /* more cannot be a plant's energy, and is not exact */

/* $1 organization, $2 now, $3 JSON */
static const struct bb_sql keep = {
    "INSERT INTO reading_refused (organisation, device, type, start_at, end_at, wh, problem,"
    " refused_at) SELECT $1::bigint, r.device, r.type::\"char\", reading_time(r.first),"
    " reading_time(r.last), r.wh, r.problem, reading_time($2::bigint)"
    " FROM jsonb_to_recordset($3::jsonb)"
    " AS r (device bigint, type text, first bigint, last bigint, wh bigint, problem text)",
    BB_SQL_WRITE};

/* $1 organization */
static const struct bb_sql bound = {
    "DELETE FROM reading_refused WHERE organisation = $1::bigint AND id <= (SELECT id"
    " FROM reading_refused WHERE organisation = $1::bigint ORDER BY id DESC OFFSET 10000 LIMIT 1)",
    BB_SQL_WRITE};

static const char *problem_of(struct bb_request *rq, const struct reading_notes *notes)
{
    const char *all = NULL;

    for (const struct reading_note *note = notes->first; note; note = note->next)
        all = bb_format(rq, "%s%s%s: %s", all ? all : "", all ? "; " : "", note->field,
                        note->problem);
    return all;
}

static json_t *time_json(bool known, int64_t ms)
{
    bool shown = known && ms >= READING_EARLIEST && ms <= READING_LATEST;

    return shown ? json_integer(ms) : json_null();
}

static json_t *item_json(int64_t device, const struct reading_item *item, const char *problem)
{
    bool exact = item->measured && item->wh <= WH_MOST;

    return json_pack("{s:I, s:o, s:o, s:o, s:o, s:s}", "device", (json_int_t)device, "type",
                     item->type ? json_stringn(&item->type, 1) : json_null(), "first",
                     time_json(item->begins, item->start), "last", time_json(item->ends, item->end),
                     "wh", exact ? json_integer((json_int_t)item->wh) : json_null(), "problem",
                     problem);
}

int reading_refused_add(struct bb_request *rq, const struct reading_submission *submission,
                        json_t *list)
{
    size_t most = json_array_size(list) + KEPT_OF_REQUEST;

    for (size_t i = 0; i < submission->count && json_array_size(list) < most; i++) {
        const struct reading_item *item = &submission->items[i];
        const char *problem = problem_of(rq, &submission->notes[item->index]);

        if (problem && json_array_append_new(list, item_json(submission->device.id, item, problem)))
            return -1;
    }
    return 0;
}

/* Runs the statement in the transaction, or outside of one if tx is NULL. */
static const struct bb_rows *run(struct bb_request *rq, struct bb_tx *tx, const struct bb_sql *sql,
                                 const struct bb_value *values, size_t count)
{
    return tx ? bb_tx_query(rq, tx, sql, values, count) : bb_query(rq, sql, values, count);
}

int reading_refused_store(struct bb_request *rq, struct bb_tx *tx, int64_t organization,
                          const json_t *list)
{
    const char *text;

    if (!json_array_size(list))
        return 0;
    text = bb_json(rq, list, &(size_t){0});
    return text &&
                   run(rq, tx, &keep,
                       BB_ARGS(bb_i(organization), bb_i(bb_wall_ms(rq->host)), bb_t(text))) &&
                   run(rq, tx, &bound, BB_ARGS(bb_i(organization)))
               ? 0
               : -1;
}

void reading_keep_refused(struct bb_request *rq, const struct reading_submission *submission)
{
    const struct bb_device *device = &submission->device;
    json_t *list = bb_json_hold(rq, json_array());

    if (!list || reading_refused_add(rq, submission, list) ||
        reading_refused_store(rq, NULL, device->organization, list))
        bb_log(rq, BB_WARN, "cannot store refused readings of device %lld: %s",
               (long long)device->id, bb_sqlstate(rq));
}
