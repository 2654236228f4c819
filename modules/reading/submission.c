/*
 * POST /api/meter-reads/new/:externalId: parses the body, which is one reading, or readings with a
 * common type and unit. All mistakes of all readings are collected before the response is sent.
 */
#include <math.h>
#include <string.h>

#include "modules/reading/reading.h"

/* ---- mistakes ---- */

void reading_note(struct bb_request *rq, struct reading_submission *submission,
                  enum reading_mistake kind, size_t index, const char *member, const char *format,
                  ...)
{
    bool whole = index == READING_WHOLE;
    struct reading_note **at = &submission->notes[whole ? submission->count : index];
    struct reading_note *note = bb_alloc(rq, sizeof(*note));
    va_list args;

    note->kind = kind;
    if (whole || submission->flat)
        note->field = member ? member : "value";
    else
        note->field =
            bb_format(rq, "reads[%zu]%s%s", index, member ? "." : "", member ? member : "");
    va_start(args, format);
    note->problem = rq->api->vformat(rq, format, args);
    va_end(args);
    while (*at)
        at = &(*at)->next;
    *at = note;
    submission->wrong++;
    submission->mistakes[kind]++;
}

void reading_list_notes(struct bb_request *rq, const struct reading_note *note, json_t *list)
{
    for (; note; note = note->next) {
        bb_push(rq, list, json_pack("{s:s, s:s}", "field", note->field, "problem", note->problem));
        bb_set_code(rq, json_array_get(list, json_array_size(list) - 1));
    }
}

int reading_refuse(struct bb_request *rq, struct reading_submission *submission)
{
    static const char over[] =
        "Check the capacity of the device, which is in kW, the dates, and the unit of the value";
    static const char overlap[] = "Periods of a device may touch, but not overlap";
    const struct bb_device *device = &submission->device;
    json_t *list = bb_hold(rq, json_array()), *refused = bb_hold(rq, json_array());

    for (size_t i = 0; i <= submission->count; i++) /* the whole request comes first */
        reading_list_notes(rq, submission->notes[i ? i - 1 : submission->count], list);
    reading_refused_add(rq, submission, refused);
    if (reading_refused_store(rq, NULL, device->organization, refused))
        bb_log(rq, BB_WARN, "cannot store refused readings of device %lld: %s",
               (long long)device->id, bb_sqlstate(rq));
    if (submission->mistakes[READING_INVALID])
        return bb_refuse(rq, json_incref(list));
    const json_t *first = json_array_get(list, 0);
    const char *field = json_string_value(json_object_get(first, "field"));
    size_t others = submission->wrong - 1;
    bool both = submission->mistakes[READING_OVER] && submission->mistakes[READING_OVERLAP];

    return bb_fail_listed(
        rq, 409, json_incref(list), "Conflict: %s%s%s%s. %s%s%s", submission->flat ? "" : field,
        submission->flat ? "" : ": ", json_string_value(json_object_get(first, "problem")),
        others ? bb_format(rq, "; and %zu other%s", others, others == 1 ? "" : "s") : "",
        submission->mistakes[READING_OVER] ? over : "", both ? ". " : "",
        submission->mistakes[READING_OVERLAP] ? overlap : "");
}

/* ---- parsing ---- */

/* Maximum relative difference between a double and the decimal fraction that was written. */
#define BESIDE 1.2e-16L

/* Returns whether the value is absent, null or blank. */
static bool submission_is_absent(const json_t *value)
{
    const char *text = json_string_value(value);

    return !value || json_is_null(value) || (text && !text[strspn(text, BB_BLANKS)]);
}

/* Returns a member by its name or alias, or NULL if it is absent. */
static const json_t *submission_member(struct bb_request *rq, const json_t *object,
                                       const char *name, const char *alias)
{
    const json_t *value = json_object_get(object, name);
    const json_t *other = alias ? json_object_get(object, alias) : NULL;

    if (submission_is_absent(value))
        value = other;
    else if (!submission_is_absent(other) && !json_equal(value, other))
        bb_warn(rq, "%s: is ignored, because %s was sent, too", alias, name);
    return submission_is_absent(value) ? NULL : value;
}

/* Returns a text without the blanks around it, or NULL if it is not a text or has a NUL. */
static const char *submission_trimmed(struct bb_request *rq, const json_t *value)
{
    const char *text = json_string_value(value);

    if (!text || strlen(text) != json_string_length(value))
        return NULL;
    return bb_trimmed(rq, text);
}

/* Returns the text `name` of the reading or else of the body. If it is missing, notes a problem. */
static const char *submission_word(struct bb_request *rq, struct reading_submission *submission,
                                   const json_t *object, const char *name, size_t index)
{
    const json_t *value = submission_member(rq, object, name, NULL);

    if (!value)
        value = submission_member(rq, bb_body(rq), name, NULL);
    const char *text = submission_trimmed(rq, value);

    if (!text)
        reading_problem(rq, submission, index, name, value ? "must be a string" : "is required");
    return text;
}

/* Parses a time, and notes an invalid one. Returns false if the time is invalid or absent. */
static bool submission_moment(struct bb_request *rq, struct reading_submission *submission,
                              const json_t *value, const char *name, size_t index,
                              struct bb_moment *moment)
{
    const char *text = submission_trimmed(rq, value);
    bool good = text && bb_moment_parse(text, moment) == 0;

    if (value && !good)
        reading_problem(rq, submission, index, name,
                        "must be an ISO 8601 date, or date and time, such as 2026-04-01 or "
                        "2026-04-01T12:00:00Z");
    return good;
}

void reading_read_item(struct bb_request *rq, struct reading_submission *submission,
                       const json_t *object, struct reading_item *item)
{
    size_t index = item->index;

    if (!json_is_object(object)) {
        reading_problem(rq, submission, index, NULL, "must be an object");
        return;
    }
    const json_t *start = submission_member(rq, object, "startDate", "starttimestamp");
    const json_t *end = submission_member(rq, object, "endDate", "endtimestamp");
    const char *type = submission_word(rq, submission, object, "type", index);

    item->type = type ? unit_type(type) : '\0';
    if (type && !item->type)
        reading_problem(rq, submission, index, "type", "must be one of: History, Delta");
    /*
     * Rounds the value to whole Wh. 0.5005 kWh must become 501 Wh, but the double 0.5005 is a bit
     * too small. So the value is first increased by the fraction BESIDE.
     */
    const char *unit = submission_word(rq, submission, object, "unit", item->index),
               *problem = NULL;
    const json_t *value = submission_member(rq, object, "value", NULL);
    const char *text = submission_trimmed(rq, value);
    double factor = unit ? unit_wh(unit) : 0, number = json_number_value(value);

    if (unit && !(factor > 0))
        reading_problem(rq, submission, item->index, "unit", "must be one of: Wh, kWh, MWh, GWh");
    if (!value)
        problem = "is required";
    else if (json_is_number(value) ? !isfinite(number) : !text || !unit_decimal(text, &number))
        problem = "must be a number, such as 48.2";
    else if (number < 0)
        problem = "must be at least 0";
    else if (factor > 0) {
        item->wh = (double)roundl((long double)number * factor * (1 + BESIDE));
        item->measured = isfinite(item->wh);
        problem = item->measured ? NULL : "is too large";
    }
    if (problem)
        reading_problem(rq, submission, item->index, "value", "%s", problem);
    item->has_start =
        submission_moment(rq, submission, start, "startDate", index, &item->sent_start);
    if (!start && item->type == 'H')
        reading_problem(rq, submission, index, "startDate", "is required for History");
    item->open = !start && item->type == 'D';
    submission->open = submission->open || item->open;
    if (!end)
        reading_problem(rq, submission, index, "endDate", "is required");
    item->has_end = submission_moment(rq, submission, end, "endDate", index, &item->sent_end);
}

/* ---- the handler ---- */

struct bb_device reading_device(struct bb_request *rq)
{
    const struct reading *reading = rq->state;
    struct bb_device device = {.size = sizeof(device)};
    int refused = reading->devices->find(reading->devices_state, rq, bb_segment(rq, "externalId"),
                                         bb_given_int(rq, "organizationId", 0), &device);

    if (refused)
        bb_end(rq, refused);
    return device;
}

int reading_submit(struct bb_request *rq)
{
    const json_t *body = bb_body(rq), *reads = json_object_get(body, "reads");
    struct reading_submission submission = {.flat = !reads, .named = bb_text(rq, "timezone")};
    struct reading_submission *const list[] = {&submission};

    submission.count = reads ? json_array_size(reads) : 1;
    submission.items = bb_alloc(rq, submission.count * sizeof(*submission.items));
    submission.notes = bb_alloc(rq, (submission.count + 1) * sizeof(*submission.notes));
    for (size_t i = 0; i < submission.count; i++) {
        submission.items[i].index = i;
        reading_read_item(rq, &submission, reads ? json_array_get(reads, i) : body,
                          &submission.items[i]);
    }
    submission.device = reading_device(rq);
    int refused = reading_date(rq, &submission);

    if (!refused)
        refused = reading_place(rq, list, 1);
    if (refused)
        return refused;
    reading_check(rq, &submission);
    if (!submission.wrong)
        return reading_store(rq, &submission);
    /* Nothing is stored here, so overlaps with stored readings must be searched for separately. */
    refused = reading_find_overlaps(rq, list, 1);
    return refused ? refused : reading_refuse(rq, &submission);
}
