/* Small pieces of JSON; failures are recorded until the end. */
#include "docs.h"

#include <stdio.h>

void docs_put(struct docs_maker *maker, json_t *object, const char *key, json_t *value)
{
    if (json_object_set_new(object, key, value))
        maker->failed = true;
}

void docs_append(struct docs_maker *maker, json_t *list, json_t *value)
{
    if (json_array_append_new(list, value))
        maker->failed = true;
}

void docs_put_text(struct docs_maker *maker, json_t *object, const char *key, const char *text)
{
    if (text && *text)
        docs_put(maker, object, key, json_string(text));
}

json_t *docs_reference(const char *kind, const char *name)
{
    return json_pack("{s:o}", "$ref", json_sprintf("#/components/%s/%s", kind, name));
}
