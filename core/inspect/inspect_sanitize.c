/* Texts of a descriptor without what terminals obey, see inspect.h. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/inspect/inspect.h"

/* Of ASCII, and those of Latin-1, which are two bytes here. */
static size_t control_at(const unsigned char *text)
{
    if (*text < 0x20 || *text == 0x7F)
        return 1;
    return *text == 0xC2 && text[1] >= 0x80 && text[1] < 0xA0 ? 2 : 0;
}

/* Whether there was any. */
static bool cross_out(char *text)
{
    bool found = false;

    for (; *text; text++) {
        size_t length = control_at((const unsigned char *)text);

        memset(text, '?', length);
        found |= length > 0;
    }
    return found;
}

static int sanitize_text(json_t *json)
{
    char *copy = strdup(json_string_value(json));
    int failed = !copy || (cross_out(copy) && json_string_set(json, copy));

    free(copy);
    return failed ? -1 : 0;
}

int inspect_sanitize(json_t *json)
{
    const char *key;
    json_t *value;
    size_t i;
    int failed = 0;

    if (json_is_string(json))
        return sanitize_text(json);
    json_array_foreach(json, i, value)
    {
        failed |= inspect_sanitize(value);
    }
    json_object_foreach(json, key, value)
    {
        failed |= inspect_sanitize(value);
    }
    return failed;
}
