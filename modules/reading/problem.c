/* What is wrong with a request: every reading that is not right is named. */
#include <stdio.h>
#include <string.h>

#include "reading.h"

void reading_problem(struct reading_submission *submission, size_t index, const char *member,
                     const char *format, ...)
{
    char field[64], text[384];
    va_list args;

    if (submission->flat)
        snprintf(field, sizeof(field), "%s", member ? member : "value");
    else
        snprintf(field, sizeof(field), "reads[%zu]%s%s", index, member ? "." : "",
                 member ? member : "");
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    json_array_append_new(submission->errors,
                          json_pack("{s:s, s:s}", "field", field, "problem", text));
}

size_t reading_problems(const struct reading_submission *submission)
{
    return json_array_size(submission->errors);
}

int reading_refuse(struct bb_request *rq, struct reading_submission *submission)
{
    return bb_refuse(rq, json_incref(submission->errors));
}

int reading_conflict(struct bb_request *rq, struct reading_submission *submission, const char *hint)
{
    const json_t *first = json_array_get(submission->errors, 0);
    const char *field = json_string_value(json_object_get(first, "field"));
    size_t others = reading_problems(submission) - 1;

    return bb_fail_listed(
        rq, 409, json_incref(submission->errors), "Conflict: %s%s%s%s. %s",
        submission->flat ? "" : field, submission->flat ? "" : ": ",
        json_string_value(json_object_get(first, "problem")),
        others ? bb_format(rq, "; and %zu other%s", others, others == 1 ? "" : "s") : "", hint);
}
