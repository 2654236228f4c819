/* Adds `warnings` to the object of an answer. */
#include "core/lib/warning.h"

#include <stdio.h>
#include <string.h>

#include "core/lib/text.h"

int warnings_vadd(json_t **warnings, const char *format, va_list args)
{
    char text[256];
    const json_t *told;
    size_t index;

    vsnprintf(text, sizeof text, format, args);
    json_array_foreach(*warnings, index, told)
    {
        if (!strcmp(json_string_value(told), text))
            return 0;
    }
    if (index == WARNINGS_MAX)
        return 0;
    if (!*warnings)
        *warnings = json_array();
    return *warnings ? json_array_append_new(*warnings, json_stringn(text, text_valid(text))) : -1;
}

int warnings_add(json_t **warnings, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    int failed = warnings_vadd(warnings, format, args);
    va_end(args);
    return failed;
}
