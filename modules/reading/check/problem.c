/* Collects the mistakes of a request: every mistake of every reading is named, in order. */
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
