/*
 * Collects the mistakes of a request: every mistake of every reading is named, in order. Refused
 * readings are kept with the reason, so that people can find out later what went wrong. The number
 * is limited per request and per organization; of an organization the newest are kept.
 */
#include <string.h>

#include "modules/reading/base/reading.h"

static const char *field_of(struct bb_request *rq, const struct reading_submission *submission,
                            size_t index, const char *member)
{
    if (index == READING_WHOLE)
        return member;
    if (submission->flat)
        return member ? member : "value";
    return bb_format(rq, "reads[%zu]%s%s", index, member ? "." : "", member ? member : "");
}

BB_PRINTF(6, 0)
static void note(struct bb_request *rq, struct reading_submission *submission,
                 enum reading_mistake kind, size_t index, const char *member, const char *format,
                 va_list args)
{
    struct reading_notes *notes =
        &submission->notes[index == READING_WHOLE ? submission->count : index];
    struct reading_note *note = bb_alloc(rq, sizeof(*note));

    note->kind = kind;
    note->field = field_of(rq, submission, index, member);
    note->problem = rq->api->vformat(rq, format, args);
    if (notes->last)
        notes->last->next = note;
    else
        notes->first = note;
    notes->last = note;
    submission->mistakes[kind]++;
}

void reading_problem(struct bb_request *rq, struct reading_submission *submission, size_t index,
                     const char *member, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    note(rq, submission, READING_INVALID, index, member, format, args);
    va_end(args);
}

void reading_clash(struct bb_request *rq, struct reading_submission *submission,
                   enum reading_mistake kind, size_t index, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    note(rq, submission, kind, index, NULL, format, args);
    va_end(args);
}

static size_t all_mistakes(const struct reading_submission *submission)
{
    size_t count = 0;

    for (int kind = 0; kind < READING_MISTAKES; kind++)
        count += submission->mistakes[kind];
    return count;
}

bool reading_wrong(const struct reading_submission *submission)
{
    return all_mistakes(submission) > 0;
}

static int append(json_t *list, const struct reading_notes *notes)
{
    for (const struct reading_note *note = notes->first; note; note = note->next)
        if (json_array_append_new(
                list, json_pack("{s:s, s:s}", "field", note->field, "problem", note->problem)))
            return -1;
    return 0;
}

/* Returns the mistakes, first the ones of the whole request. NULL: out of memory. */
static json_t *list_of(const struct reading_submission *submission)
{
    json_t *list = json_array();
    int failed = list ? append(list, &submission->notes[submission->count]) : -1;

    for (size_t i = 0; i < submission->count && !failed; i++)
        failed = append(list, &submission->notes[i]);
    if (!failed)
        return list;
    json_decref(list);
    return NULL;
}

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

static void reading_keep_refused(struct bb_request *rq, const struct reading_submission *submission)
{
    const struct bb_device *device = &submission->device;
    json_t *list = bb_json_hold(rq, json_array());

    if (!list || reading_refused_add(rq, submission, list) ||
        reading_refused_store(rq, NULL, device->organization, list))
        bb_log(rq, BB_WARN, "cannot store refused readings of device %lld: %s",
               (long long)device->id, bb_sqlstate(rq));
}

static const char *hint_of(struct bb_request *rq, const struct reading_submission *submission)
{
    static const char over[] =
        "Check the capacity of the device, which is in kW, the dates, and the unit of the value";
    static const char overlap[] = "Periods of a device may touch, but not overlap";

    if (!submission->mistakes[READING_OVER])
        return overlap;
    if (!submission->mistakes[READING_OVERLAP])
        return over;
    return bb_format(rq, "%s. %s", over, overlap);
}

static int conflict(struct bb_request *rq, const struct reading_submission *submission,
                    json_t *list)
{
    const json_t *first = json_array_get(list, 0);
    const char *field = json_string_value(json_object_get(first, "field"));
    size_t others = all_mistakes(submission) - 1;

    return bb_fail_listed(
        rq, 409, list, "Conflict: %s%s%s%s. %s", submission->flat ? "" : field,
        submission->flat ? "" : ": ", json_string_value(json_object_get(first, "problem")),
        others ? bb_format(rq, "; and %zu other%s", others, others == 1 ? "" : "s") : "",
        hint_of(rq, submission));
}

int reading_refuse(struct bb_request *rq, struct reading_submission *submission)
{
    json_t *list = list_of(submission);

    if (!list)
        return bb_fail(rq, 503, "Out of memory");
    reading_keep_refused(rq, submission);
    return submission->mistakes[READING_INVALID] ? bb_refuse(rq, list)
                                                 : conflict(rq, submission, list);
}
