/* The body of a submission: a list of readings with their common type and unit, or one reading. */
#include <math.h>
#include <string.h>

#include "reading.h"
#include "unit.h"

/* By how much of itself a double lies beside the decimal fraction that was written, at most. */
#define BESIDE 1.2e-16L

/* In whole Wh: of what was written, so that 0.5005 kWh are 501 though the double is a bit less. */
static double whole_wh(double value, double factor)
{
    return (double)roundl((long double)value * factor * (1 + BESIDE));
}

/* A member by its name or its alias; NULL: it is not there, or null. */
static const json_t *member(const json_t *object, const char *name, const char *alias)
{
    const json_t *value = json_object_get(object, name);

    if ((!value || json_is_null(value)) && alias)
        value = json_object_get(object, alias);
    return json_is_null(value) ? NULL : value;
}

/* The reading's own word, or that of the whole; NULL with a problem noted. */
static const char *word(struct reading_submission *submission, const json_t *object,
                        const json_t *body, const char *name, size_t index)
{
    const json_t *value = member(object, name, NULL);

    if (!value)
        value = member(body, name, NULL);
    if (json_is_string(value))
        return json_string_value(value);
    reading_problem(submission, index, name, value ? "must be a string" : "is required");
    return NULL;
}

static void read_type(struct reading_submission *submission, const json_t *object,
                      const json_t *body, struct reading_item *item)
{
    const char *type = word(submission, object, body, "type", item->index);

    if (!type)
        return;
    item->type = unit_type(type);
    if (!item->type)
        reading_problem(submission, item->index, "type", "must be History or Delta");
}

static void read_value(struct reading_submission *submission, const json_t *object,
                       const json_t *body, struct reading_item *item)
{
    const char *unit = word(submission, object, body, "unit", item->index);
    const json_t *value = member(object, "value", NULL);
    double factor = unit ? unit_wh(unit) : 1;

    if (!(factor > 0))
        reading_problem(submission, item->index, "unit", "must be Wh, kWh, MWh or GWh");
    item->wh = json_is_number(value) ? whole_wh(json_number_value(value), factor) : 0;
    if (!value)
        reading_problem(submission, item->index, "value", "is required");
    else if (!json_is_number(value) || !isfinite(item->wh))
        reading_problem(submission, item->index, "value", "must be a number");
    else if (json_number_value(value) <= 0)
        reading_problem(submission, item->index, "value", "must be greater than 0");
    else if (factor > 0 && item->wh < 1)
        reading_problem(submission, item->index, "value", "is less than half a Wh");
}

/* False: absent, or a problem is noted. */
static bool read_moment(struct reading_submission *submission, const json_t *value,
                        const char *name, size_t index, struct moment *moment)
{
    const char *text = json_string_value(value);

    if (!value)
        return false;
    if (!text || strlen(text) != json_string_length(value) || moment_parse(text, moment)) {
        reading_problem(submission, index, name, "must be an ISO 8601 date, or date and time");
        return false;
    }
    submission->local = submission->local || moment->local;
    return true;
}

static void read_period(struct reading_submission *submission, const json_t *object,
                        struct reading_item *item)
{
    const json_t *start = member(object, "startDate", "starttimestamp");
    const json_t *end = member(object, "endDate", "endtimestamp");

    item->has_start = read_moment(submission, start, "startDate", item->index, &item->sent_start);
    if (!start && item->type == 'H')
        reading_problem(submission, item->index, "startDate", "is required for History");
    submission->open = submission->open || (!start && item->type == 'D');
    if (!end)
        reading_problem(submission, item->index, "endDate", "is required");
    read_moment(submission, end, "endDate", item->index, &item->sent_end);
}

static void read_item(struct reading_submission *submission, const json_t *object,
                      const json_t *body, struct reading_item *item)
{
    if (!json_is_object(object)) {
        reading_problem(submission, item->index, NULL, "must be an object");
        return;
    }
    read_type(submission, object, body, item);
    read_value(submission, object, body, item);
    read_period(submission, object, item);
}

static void drop_errors(void *errors)
{
    json_decref(errors);
}

int reading_read(struct bb_request *rq, struct reading_submission *submission)
{
    const json_t *body = bb_body(rq), *reads = json_object_get(body, "reads");

    *submission = (struct reading_submission){.flat = !reads, .errors = json_array()};
    if (!submission->errors)
        return bb_fail(rq, 503, "Out of memory");
    bb_defer(rq, drop_errors, submission->errors);
    submission->named = bb_text(rq, "timezone");
    submission->count = reads ? json_array_size(reads) : 1;
    submission->items = bb_alloc(rq, submission->count * sizeof(*submission->items));
    for (size_t i = 0; i < submission->count; i++) {
        submission->items[i].index = i;
        read_item(submission, reads ? json_array_get(reads, i) : body, body, &submission->items[i]);
    }
    return reading_problems(submission) ? reading_refuse(rq, submission) : 0;
}
