/*
 * The key of an event: what it is about, such as a conversation or a device. A webhook with
 * `ordering` gets the events of a key in order. The field of a payload that has the key is marked
 * with BB_KEY.
 */
#include "modules/webhook/publish/publish.h"

#include <string.h>

enum { KEY_MAX = 128 }; /* bytes of a value; events with a longer one have no order */

/* Looks in the members of an object, which is the member `parent` of another one. */
static const char *order_find(struct bb_request *rq, const struct bb_table *fields,
                              const json_t *object, const char *parent)
{
    const char *key = NULL;

    for (size_t i = 0; i < fields->count && !key && json_is_object(object); i++) {
        const struct bb_field *field =
            (const void *)((const char *)fields->rows + i * fields->stride);
        const json_t *value = json_object_get(object, field->name);
        size_t length = strlen(field->name);
        const char *text = json_string_value(value);

        if (field->type == BB_OBJECT)
            key = order_find(rq, &field->fields, value, field->name);
        if (!(field->flags & BB_KEY) || (!text && !json_is_integer(value)))
            continue;
        if (!text)
            text = bb_format(rq, "%lld", (long long)json_integer_value(value));
        /* "conversationId" and the "id" of "conversation" are the same key */
        if (strlen(text) <= KEY_MAX)
            key = strcmp(field->name, "id") != 0 || !parent
                      ? bb_format(rq, "%.*s:%s", (int)(length > 2 ? length - 2 : length),
                                  field->name, text)
                      : bb_format(rq, "%s:%s", parent, text);
    }
    return key;
}

const struct bb_event_descriptor *webhook_event(struct bb_request *rq, const char *name)
{
    const struct bb_module *module;

    for (size_t i = 0; (module = bb_module_at(rq->host, i)); i++)
        for (size_t k = 0; k < module->events.count; k++) {
            const struct bb_event_descriptor *row =
                (const void *)((const char *)module->events.rows + k * module->events.stride);

            if (!strcmp(row->name, name))
                return row;
        }
    return NULL;
}

const char *webhook_event_key(struct bb_request *rq, const struct bb_event *event)
{
    const struct bb_event_descriptor *row = webhook_event(rq, event->name);

    return row ? order_find(rq, &row->payload, event->payload, NULL) : NULL;
}
