/* The JSON of the API. */
#include "modules/reading/base/reading.h"
#include "modules/reading/rules/unit.h"

int64_t reading_id(char type, int64_t end)
{
    return (end - READING_EARLIEST) * 2 + (type == 'H');
}

static int set(json_t *object, const char *name, json_t *value)
{
    return json_object_set_new_nocheck(object, name, value);
}

json_t *reading_json(struct bb_request *rq, char type, int64_t start, int64_t end, int64_t wh,
                     int64_t created)
{
    json_t *object = json_object();

    if (set(object, "id", json_integer(reading_id(type, end))) |
        set(object, "startDate", json_string_nocheck(bb_time_text(rq, start))) |
        set(object, "endDate", json_string_nocheck(bb_time_text(rq, end))) |
        set(object, "value", json_integer(wh)) | set(object, "unit", json_string_nocheck("Wh")) |
        set(object, "type", json_string_nocheck(unit_type_name(type))) |
        set(object, "createdAt", json_string_nocheck(bb_time_text(rq, created)))) {
        json_decref(object);
        return NULL;
    }
    return object;
}
