/* Optional members of a webhook: each feature has a row, and its functions in its own file. */
#include <stdlib.h>
#include <string.h>

#include "modules/webhook/api/api.h"

static json_t *option_show_text(struct bb_request *rq, int64_t webhook, const char *cell)
{
    (void)rq, (void)webhook;
    return json_string(cell);
}

static json_t *option_show_json(struct bb_request *rq, int64_t webhook, const char *cell)
{
    (void)webhook;
    return bb_json_read(rq, cell);
}

/* In the order of OPTION_COLUMNS_SHOWN. */
static const struct option options[] = {
    {"name", NULL, option_show_text, "name"},
    {"description", NULL, option_show_text, "description"},
    {"filter", filter_take, option_show_json, NULL},
    {"rateLimit", NULL, option_show_json, "rate_limit"},
    {"ordering", NULL, option_show_text, "ordering"},
    {"headers", headers_take, headers_show, NULL},
    {"retryPolicy", policy_retry_take, option_show_json, NULL},
    {"disablePolicy", policy_disable_take, option_show_json, NULL},
    {"signature", signature_take, option_show_text, NULL},
    {"publicKey", NULL, option_show_text, NULL},
    {"authentication", authentication_take, authentication_show, NULL},
    {"kind", poll_take, option_show_text, NULL},
};

size_t options_shown(void)
{
    return sizeof(options) / sizeof(options[0]);
}

int options_take(struct bb_request *rq, int64_t webhook, const char **columns)
{
    json_t *changed = bb_json_hold(rq, json_object());

    if (!changed)
        return bb_no_memory(rq);
    for (size_t i = 0; i < options_shown(); i++) {
        json_t *value = json_object_get(bb_body(rq), options[i].name);
        int refused = value && options[i].take ? options[i].take(rq, webhook, value, changed) : 0;

        if (refused)
            return refused;
        if (value && options[i].column && json_object_set(changed, options[i].column, value))
            return bb_no_memory(rq);
    }
    *columns = bb_json(rq, changed, NULL);
    return 0;
}

json_t *options_show(struct bb_request *rq, int64_t webhook, const struct bb_rows *rows, size_t row,
                     size_t first, json_t *json)
{
    for (size_t i = 0; i < options_shown() && json; i++) {
        const char *cell = bb_cell(rq, rows, row, first + i);

        if (cell &&
            json_object_set_new(json, options[i].name, options[i].show(rq, webhook, cell))) {
            json_decref(json);
            json = NULL;
        }
    }
    return json;
}

int option_text(struct bb_request *rq, json_t *columns, const char *column, const char *text)
{
    json_t *value = text ? json_string(text) : json_null();

    return json_object_set_new(columns, column, value) ? bb_no_memory(rq) : 0;
}

int option_seal(struct bb_request *rq, int64_t webhook, const char *part, const char *text,
                json_t *columns)
{
    unsigned char *sealed;
    size_t length;

    if (!text)
        return option_text(rq, columns, part, NULL);
    if (webhook_secret_seal(rq->host, webhook, part, text, &sealed, &length))
        return bb_fail(rq, 503, "The field %s could not be stored", part);
    char *cell = bb_alloc(rq, 2 * length + 3);

    cell[0] = '\\';
    cell[1] = 'x';
    for (size_t i = 0; i < length; i++)
        snprintf(cell + 2 + 2 * i, 3, "%02x", sealed[i]);
    free(sealed);
    return option_text(rq, columns, part, cell);
}

json_t *option_open(struct bb_request *rq, int64_t webhook, const char *part, const char *cell)
{
    json_t *json;

    if (webhook_secret_json(rq, webhook, part, cell, &json) != SECRET_LOCKED)
        return json;
    bb_log(rq, BB_ERROR, "the field %s of webhook %lld cannot be opened with secrets.keys", part,
           (long long)webhook);
    return json_object();
}
