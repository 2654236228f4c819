/* Examples of events, made from the fields that their modules declare. */
#include <string.h>

#include "modules/webhook/api/api.h"

#define ROW(type, table, index)                                                                    \
    ((const struct type *)(const void *)((const char *)(table).rows + (index) * (table).stride))

static json_t *example_value(struct bb_request *rq, const struct bb_field *field);
static json_t *example_object(struct bb_request *rq, const struct bb_table *fields);

/* Returns a value for a field without an example. */
static json_t *example_made(struct bb_request *rq, const struct bb_field *field)
{
    json_t *list;

    switch (field->type) {
    case BB_EMAIL:
        return json_string("person@example.org");
    case BB_UUID:
        return json_string(bb_new_uuid(rq));
    case BB_INT:
    case BB_NUMBER:
        return json_integer(field->min > 1 || (field->max && field->max < 1) ? field->min : 1);
    case BB_BOOL:
        return json_true();
    case BB_TIME:
        return json_string(bb_time_text(rq, bb_wall_ms(rq->host)));
    case BB_CHOICE:
        return json_string(field->choices[0]);
    case BB_OBJECT:
        return example_object(rq, &field->fields);
    case BB_LIST:
        list = json_array();
        if (!field->fields.count)
            return list;
        if (!json_array_append_new(list, example_value(rq, ROW(bb_field, field->fields, 0))))
            return list;
        json_decref(list);
        return NULL;
    default:
        return json_string(field->name);
    }
}

static json_t *example_value(struct bb_request *rq, const struct bb_field *field)
{
    bool is_text = field->type < BB_INT || field->type == BB_TIME || field->type == BB_CHOICE;

    if (!field->example)
        return example_made(rq, field);
    return is_text ? json_string(field->example) : bb_json_read(rq, field->example);
}

/* Returns an object with all fields, owned by the caller; NULL: out of memory. */
static json_t *example_object(struct bb_request *rq, const struct bb_table *fields)
{
    json_t *object = json_object();

    for (size_t i = 0; i < fields->count && object; i++) {
        const struct bb_field *field = ROW(bb_field, *fields, i);

        if (json_object_set_new(object, field->name, example_value(rq, field))) {
            json_decref(object);
            object = NULL;
        }
    }
    return object;
}

int example_of(struct bb_request *rq, const char *event, json_t **payload)
{
    const struct bb_event_descriptor *row = webhook_event(rq, event);

    if (!row)
        return bb_invalid(rq, "event",
                          "must name an event that GET /api/chat/webhooks/events lists");
    *payload = example_object(rq, &row->payload);
    return 0;
}
