/* The policies of a webhook, which are members of it (struct option). */
#include <stdlib.h>
#include <string.h>

#include "modules/webhook/api/api.h"

enum { DAY_S = 86400, SUM_MAX_S = 7 * DAY_S, AFTER_MIN_S = 3600, AFTER_MAX_S = 30 * DAY_S };

/* Checks an object with a table, and sets *checked. Returns 0, or the status of the response. */
static int policy_check(struct bb_request *rq, const struct bb_table *table, const char *name,
                        json_t *value, json_t **checked)
{
    json_t *object = bb_json_hold(rq, json_pack("{s:O}", name, value)), *errors = json_array();

    *checked = bb_json_hold(rq, object && errors ? bb_check(rq, table, object, errors) : NULL);
    if (json_array_size(errors))
        return bb_refuse(rq, errors);
    json_decref(errors);
    *checked = json_object_get(*checked, name);
    return *checked ? 0 : bb_no_memory(rq);
}

static const struct bb_field delay[] = {
    {.name = "item", .type = BB_INT, .min = 1, .max = DAY_S},
};
static const struct bb_field delays[] = {
    {.name = "delays",
     .type = BB_LIST,
     .flags = BB_REQUIRED,
     .min = 1,
     .max = RETRY_DELAYS_MAX,
     .fields = BB_TABLE(delay)},
};
static const struct bb_field retry[] = {
    {.name = "retryPolicy", .type = BB_OBJECT, .fields = BB_TABLE(delays)},
};
static const struct bb_field after[] = {
    {.name = "after", .type = BB_TEXT, .flags = BB_REQUIRED, .max = 16},
};
static const struct bb_field disable[] = {
    {.name = "disablePolicy", .type = BB_OBJECT, .fields = BB_TABLE(after)},
};

int policy_retry_take(struct bb_request *rq, int64_t webhook, json_t *value, json_t *columns)
{
    static const struct bb_table table = BB_TABLE(retry);
    const char *name = json_string_value(value);
    json_int_t sum = 0;

    (void)webhook;
    if (json_is_object(value)) {
        int refused = policy_check(rq, &table, "retryPolicy", value, &value);

        if (refused)
            return refused;
    } else if (!json_is_null(value) &&
               (!name || (strcmp(name, "default") != 0 && strcmp(name, "standard") != 0))) {
        return bb_invalid(rq, "retryPolicy",
                          "must be \"default\", \"standard\" or an object with delays");
    }
    const json_t *list = json_object_get(value, "delays");

    for (size_t i = 0; i < json_array_size(list); i++)
        sum += json_integer_value(json_array_get(list, i));
    if (sum > SUM_MAX_S)
        return bb_invalid(rq, "retryPolicy.delays", "must add up to at most 7 days (604800)");
    return json_object_set(columns, "retry_policy", value) ? bb_no_memory(rq) : 0;
}

/* Returns the seconds of a duration such as 90m, 36h or 5d, or 0 if the text is invalid. */
static int64_t policy_duration_s(const char *text)
{
    enum { DIGITS = 6, MINUTE_S = 60, HOUR_S = 3600 };
    size_t digits = strspn(text, "0123456789");
    char unit = text[digits];
    int64_t unit_s = unit == 'd' ? DAY_S : unit == 'h' ? HOUR_S : unit == 'm' ? MINUTE_S : 0;

    return digits && digits <= DIGITS && unit_s && !text[digits + 1]
               ? unit_s * strtoll(text, NULL, 10)
               : 0;
}

int policy_disable_take(struct bb_request *rq, int64_t webhook, json_t *value, json_t *columns)
{
    static const struct bb_table table = BB_TABLE(disable);
    int refused =
        json_is_null(value) ? 0 : policy_check(rq, &table, "disablePolicy", value, &value);

    (void)webhook;
    if (refused)
        return refused;
    if (json_is_object(value)) {
        int64_t after_s = policy_duration_s(json_string_value(json_object_get(value, "after")));

        if (after_s < AFTER_MIN_S || after_s > AFTER_MAX_S)
            return bb_invalid(rq, "disablePolicy.after",
                              "must be a duration from 1h to 30d, such as 5d or 36h");
    }
    return json_object_set(columns, "disable_policy", value) ? bb_no_memory(rq) : 0;
}
