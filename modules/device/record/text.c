/* Devices as text, for lists. */
#include <string.h>

#include "modules/device/record/device.h"

/* Appends the rest to the facts, replacing their closing brace. */
static const char *with_tail(struct bb_request *rq, const char *facts, size_t length,
                             const struct device_record *record, const char *attributes)
{
    const char *const tail[] = {",\"attributes\":",    attributes,          ",\"documents\":",
                                record->documents,     ",\"createdAt\":\"", record->created_at,
                                "\",\"updatedAt\":\"", record->updated_at,  "\"}"};
    size_t room = length + 1;

    for (size_t i = 0; i < sizeof(tail) / sizeof(tail[0]); i++)
        room += strlen(tail[i]);
    char *text = bb_alloc(rq, room);

    memcpy(text, facts, length);
    char *at = text + length;

    for (size_t i = 0; i < sizeof(tail) / sizeof(tail[0]); i++)
        at = stpcpy(at, tail[i]);
    return text;
}

const char *device_text(struct bb_request *rq, const struct device_record *record)
{
    size_t length = 0;
    json_t *json = device_facts_json(record);
    const char *facts = json ? bb_json(rq, json, &length) : NULL;
    const char *attributes = device_attributes_text(rq, record->attributes);

    json_decref(json);
    return facts && attributes ? with_tail(rq, facts, length - 1, record, attributes) : NULL;
}

int device_reply_texts(struct bb_request *rq, const char *const *texts, size_t count)
{
    size_t room = 3;

    for (size_t i = 0; i < count; i++)
        room += strlen(texts[i]) + 1;
    char *array = bb_alloc(rq, room), *at = stpcpy(array, "[");

    for (size_t i = 0; i < count; i++) {
        at = stpcpy(at, i ? "," : "");
        at = stpcpy(at, texts[i]);
    }
    stpcpy(at, "]");
    return bb_reply_bytes(rq, 200, "application/json; charset=utf-8", array,
                          (size_t)(at + 1 - array));
}
