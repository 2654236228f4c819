/*
 * E-mails that may imitate others: letters that look like Latin ones among Latin letters, such as a
 * Cyrillic "а". They are allowed, because people have such names, but the Admin who approves the
 * account is warned.
 */
#include "modules/auth/account/auth.h"

enum script { OTHER, LATIN, ALIKE, GREEK, CYRILLIC, ARMENIAN, CHEROKEE };

static const char *const names[] = {
    [ALIKE] = "letters that look like Latin ones",
    [GREEK] = "Greek letters",
    [CYRILLIC] = "Cyrillic letters",
    [ARMENIAN] = "Armenian letters",
    [CHEROKEE] = "Cherokee letters",
};

/* Sorted by their first characters. Letters without a row do not look like Latin ones. */
static const struct {
    uint32_t first, last;
    enum script script;
} scripts[] = {
    {'A', 'Z', LATIN},          {'a', 'z', LATIN},          {0x00C0, 0x0130, LATIN},
    {0x0131, 0x0131, ALIKE},    {0x0132, 0x024F, LATIN},    {0x0250, 0x02AF, ALIKE},
    {0x0370, 0x03FF, GREEK},    {0x0400, 0x052F, CYRILLIC}, {0x0530, 0x058F, ARMENIAN},
    {0x13A0, 0x13FF, CHEROKEE}, {0x1C80, 0x1C8F, CYRILLIC}, {0x1D00, 0x1DBF, ALIKE},
    {0x1E00, 0x1EFF, LATIN},    {0x1F00, 0x1FFF, GREEK},    {0x2DE0, 0x2DFF, CYRILLIC},
    {0xA640, 0xA69F, CYRILLIC}, {0xA720, 0xA7FF, ALIKE},    {0xAB30, 0xAB6F, ALIKE},
    {0xAB70, 0xABBF, CHEROKEE},
};

/* Decodes the code point at the start of valid UTF-8; *size is its length in bytes. */
static uint32_t code_at(const char *text, size_t *size)
{
    const unsigned char *at = (const unsigned char *)text;
    uint32_t code = *at;

    *size = code < 0x80 ? 1 : code < 0xE0 ? 2 : code < 0xF0 ? 3 : 4;
    if (*size > 1)
        code &= 0x7Fu >> *size;
    for (size_t i = 1; i < *size; i++)
        code = code << 6 | (at[i] & 0x3Fu);
    return code;
}

static enum script script_of(uint32_t code)
{
    for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++)
        if (code >= scripts[i].first && code <= scripts[i].last)
            return scripts[i].script;
    return OTHER;
}

const char *auth_lookalike(const char *email)
{
    bool latin = false;
    const char *alike = NULL;
    size_t size;

    for (const char *at = email; *at && *at != '@'; at += size) {
        enum script script = script_of(code_at(at, &size));

        latin = latin || script == LATIN;
        if (script > LATIN)
            alike = names[script];
    }
    return latin || alike == names[ALIKE] ? alike : NULL;
}
