#include "modules/device/value/identifier.h"

#include <utf8proc.h>

#define BRAILLE_BLANK 0x2800 /* invisible, though Unicode does not call it ignorable */

static bool is_ascii(const char *text)
{
    while (*text && !(*text & 0x80))
        text++;
    return !*text;
}

static const char *problem_of(utf8proc_int32_t code)
{
    const utf8proc_property_t *property = utf8proc_get_property(code);

    if (property->ignorable || code == BRAILLE_BLANK)
        return "must not have invisible characters or marks of direction";
    if (property->category == UTF8PROC_CATEGORY_CC || property->category == UTF8PROC_CATEGORY_ZL ||
        property->category == UTF8PROC_CATEGORY_ZP)
        return "must not have control characters";
    return NULL;
}

const char *identifier_normal(struct bb_request *rq, const char *text, const char **problem)
{
    static const utf8proc_option_t options = UTF8PROC_NULLTERM | UTF8PROC_STABLE | UTF8PROC_COMPOSE;
    const utf8proc_uint8_t *bytes = (const utf8proc_uint8_t *)text;
    utf8proc_int32_t code;
    utf8proc_ssize_t size;

    for (const utf8proc_uint8_t *at = bytes; *at && !*problem; at += size) {
        size = utf8proc_iterate(at, -1, &code);
        if (size <= 0)
            *problem = "must be UTF-8";
        else
            *problem = problem_of(code);
    }
    if (*problem || is_ascii(text))
        return text;
    utf8proc_ssize_t room = utf8proc_decompose(bytes, 0, NULL, 0, options);
    utf8proc_int32_t *codes = bb_alloc(rq, ((size_t)room + 1) * sizeof(*codes));
    utf8proc_ssize_t count = utf8proc_decompose(bytes, 0, codes, room, options);

    utf8proc_reencode(codes, count, options);
    return (const char *)codes;
}
