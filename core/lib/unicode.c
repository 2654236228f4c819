#include "core/lib/unicode.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <utf8proc.h>

#include "core/lib/text.h"

#define BRAILLE_BLANK 0x2800 /* invisible, though Unicode does not call it ignorable */

bool unicode_is_ascii(const char *text)
{
    while (*text && !(*text & 0x80))
        text++;
    return !*text;
}

/* Returns NULL if the code point is allowed. */
static const char *unicode_code_problem(int32_t code)
{
    const utf8proc_property_t *property = utf8proc_get_property(code);

    if (property->ignorable || code == BRAILLE_BLANK)
        return "must not have invisible characters or marks of direction";
    switch (property->category) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
        return "must not have control characters";
    case UTF8PROC_CATEGORY_CO:
        return "must not have characters for private use";
    case UTF8PROC_CATEGORY_CN:
        return "must not have characters that Unicode has not assigned";
    default:
        return NULL;
    }
}

/* Converts the text to NFC with additional `options`; NULL if memory ran out. */
static const char *unicode_composed(const char *text, utf8proc_option_t options,
                                    struct arena *arena)
{
    const utf8proc_uint8_t *bytes = (const utf8proc_uint8_t *)text;

    options |= UTF8PROC_NULLTERM | UTF8PROC_STABLE | UTF8PROC_COMPOSE;
    utf8proc_ssize_t room = utf8proc_decompose(bytes, 0, NULL, 0, options);

    if (room < 0)
        return NULL;
    utf8proc_int32_t *codes = arena_alloc(arena, ((size_t)room + 1) * sizeof *codes);

    if (!codes)
        return NULL;
    utf8proc_ssize_t count = utf8proc_decompose(bytes, 0, codes, room, options);

    if (count < 0 || count > room || utf8proc_reencode(codes, count, options) < 0)
        return NULL;
    return (const char *)codes;
}

/* Returns whether unicode_composed() changes the text. Sets *full if memory ran out. */
static bool unicode_differs(const char *text, utf8proc_option_t options, struct arena *arena,
                            bool *full)
{
    const char *form = unicode_composed(text, options, arena);

    *full = !form;
    return form && strcmp(form, text) != 0;
}

const char *unicode_problem(const char *text, bool strict, struct arena *arena, bool *full)
{
    const char *problem = NULL;
    size_t left = strlen(text), size;

    *full = false;
    for (const char *at = text; left && !problem; at += size, left -= size)
        problem = unicode_code_problem(text_code_point(at, left, &size));
    if (problem || unicode_is_ascii(text))
        return problem;
    if (unicode_differs(text, 0, arena, full))
        return "must be in Unicode's form NFC";
    if (strict && !*full && unicode_differs(text, UTF8PROC_COMPAT, arena, full))
        return "must be in Unicode's form NFKC";
    return NULL;
}

const char *unicode_fold(const char *text, struct arena *arena)
{
    if (!unicode_is_ascii(text))
        return unicode_composed(text, UTF8PROC_CASEFOLD, arena);
    char *folded = arena_text(arena, text, strlen(text));

    for (char *at = folded; at && *at; at++) {
        if (*at >= 'A' && *at <= 'Z')
            *at = (char)(*at - 'A' + 'a');
    }
    return folded;
}

const char *unicode_single_spaces(const char *text, struct arena *arena)
{
    size_t left = strlen(text), size;
    char *single = arena_text(arena, text, left), *out = single;

    if (!single)
        return NULL;
    for (; left; text += size, left -= size) {
        bool space = utf8proc_category(text_code_point(text, left, &size)) == UTF8PROC_CATEGORY_ZS;

        if (!space) {
            memmove(out, text, size);
            out += size;
        } else if (out == single || out[-1] != ' ')
            *out++ = ' ';
    }
    *out = '\0';
    return single;
}
