/* Parses the body of a submission: readings with a common type and unit, or one reading. */
#include <math.h>
#include <string.h>

#include "modules/reading/base/reading.h"
#include "modules/reading/rules/unit.h"

/* Maximum relative difference between a double and the decimal fraction that was written. */
#define BESIDE 1.2e-16L

/*
 * Rounds to whole Wh, based on the decimal text: 0.5005 kWh are 501 Wh, though the double is a bit
 * less.
 */
static double whole_wh(double value, double factor)
{
    return (double)roundl((long double)value * factor * (1 + BESIDE));
}

/* Returns whether the value is absent, null, or a text of blanks. */
static bool absent(const json_t *value)
{
    const char *text = json_string_value(value);

    return !value || json_is_null(value) || (text && !text[strspn(text, BB_BLANKS)]);
}

/* Returns a member by its name or alias; NULL: absent. */
static const json_t *member(struct bb_request *rq, const json_t *object, const char *name,
                            const char *alias)
{
    const json_t *value = json_object_get(object, name);
    const json_t *other = alias ? json_object_get(object, alias) : NULL;

    if (absent(value))
        value = other;
    else if (!absent(other) && !json_equal(value, other))
        bb_warn(rq, "%s: is ignored, because %s was sent, too", alias, name);
    return absent(value) ? NULL : value;
}

/* Returns a text without the blanks around it; NULL: not a text, or it has a NUL. */
static const char *trimmed(struct bb_request *rq, const json_t *value)
{
    const char *text = json_string_value(value);

    if (!text || strlen(text) != json_string_length(value))
        return NULL;
    return bb_trimmed(rq, text);
}

/* Returns a text member of the reading, else of the whole request; NULL with a problem noted. */
static const char *word(struct bb_request *rq, struct reading_submission *submission,
                        const json_t *object, const char *name, size_t index)
{
    const json_t *value = member(rq, object, name, NULL);

    if (!value)
        value = member(rq, bb_body(rq), name, NULL);
    const char *text = trimmed(rq, value);

    if (!text)
        reading_problem(rq, submission, index, name, value ? "must be a string" : "is required");
    return text;
}

static void read_type(struct bb_request *rq, struct reading_submission *submission,
                      const json_t *object, struct reading_item *item)
{
    const char *type = word(rq, submission, object, "type", item->index);

    if (!type)
        return;
    item->type = unit_type(type);
    if (!item->type)
        reading_problem(rq, submission, item->index, "type", "must be History or Delta");
}

/* Reads a number, or a text that is a decimal number. */
static bool read_number(struct bb_request *rq, const json_t *value, double *number)
{
    const char *text = trimmed(rq, value);

    *number = json_number_value(value);
    if (json_is_number(value))
        return isfinite(*number);
    return text && unit_decimal(text, number);
}

static void read_value(struct bb_request *rq, struct reading_submission *submission,
                       const json_t *object, struct reading_item *item)
{
    const char *unit = word(rq, submission, object, "unit", item->index);
    const json_t *value = member(rq, object, "value", NULL);
    double factor = unit ? unit_wh(unit) : 0, number;

    if (unit && !(factor > 0))
        reading_problem(rq, submission, item->index, "unit", "must be Wh, kWh, MWh or GWh");
    if (!value) {
        reading_problem(rq, submission, item->index, "value", "is required");
    } else if (!read_number(rq, value, &number)) {
        reading_problem(rq, submission, item->index, "value", "must be a number, such as 48.2");
    } else if (number < 0) {
        reading_problem(rq, submission, item->index, "value", "must not be negative");
    } else if (factor > 0) {
        item->wh = whole_wh(number, factor);
        item->measured = isfinite(item->wh);
        if (!item->measured)
            reading_problem(rq, submission, item->index, "value", "is too large");
    }
}

/* Returns false if it is absent, or with a problem noted. */
static bool read_moment(struct bb_request *rq, struct reading_submission *submission,
                        const json_t *value, const char *name, size_t index, struct moment *moment)
{
    const char *text = trimmed(rq, value);

    if (!value)
        return false;
    if (text && moment_parse(text, moment) == 0)
        return true;
    reading_problem(rq, submission, index, name, MOMENT_FORM);
    return false;
}

static void read_period(struct bb_request *rq, struct reading_submission *submission,
                        const json_t *object, struct reading_item *item)
{
    const json_t *start = member(rq, object, "startDate", "starttimestamp");
    const json_t *end = member(rq, object, "endDate", "endtimestamp");

    item->has_start =
        read_moment(rq, submission, start, "startDate", item->index, &item->sent_start);
    if (!start && item->type == 'H')
        reading_problem(rq, submission, item->index, "startDate", "is required for History");
    item->open = !start && item->type == 'D';
    submission->open = submission->open || item->open;
    if (!end)
        reading_problem(rq, submission, item->index, "endDate", "is required");
    item->has_end = read_moment(rq, submission, end, "endDate", item->index, &item->sent_end);
}

void reading_read_item(struct bb_request *rq, struct reading_submission *submission,
                       const json_t *object, struct reading_item *item)
{
    if (!json_is_object(object)) {
        reading_problem(rq, submission, item->index, NULL, "must be an object");
        return;
    }
    read_type(rq, submission, object, item);
    read_value(rq, submission, object, item);
    read_period(rq, submission, object, item);
}

void reading_read(struct bb_request *rq, struct reading_submission *submission)
{
    const json_t *body = bb_body(rq), *reads = json_object_get(body, "reads");

    *submission = (struct reading_submission){.flat = !reads, .named = bb_text(rq, "timezone")};
    submission->count = reads ? json_array_size(reads) : 1;
    submission->items = bb_alloc(rq, submission->count * sizeof(*submission->items));
    submission->notes = bb_alloc(rq, (submission->count + 1) * sizeof(*submission->notes));
    for (size_t i = 0; i < submission->count; i++) {
        submission->items[i].index = i;
        reading_read_item(rq, submission, reads ? json_array_get(reads, i) : body,
                          &submission->items[i]);
    }
}
