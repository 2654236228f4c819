/*
 * E-mail addresses as mail servers accept them: no quotes, no comments, no address literals.
 * Domains are written as A-labels, the form used in DNS, so that bücher.example and
 * xn--bcher-kva.example are equal.
 */
#include <idn2.h>
#include <string.h>

#include "core/lib/field_value.h"
#include "core/lib/text.h"
#include "core/lib/unicode.h"

#define LOCAL_MAX 64
#define LABEL_MAX 63

/* Non-ASCII characters that are allowed in names: all except white space. */
static bool foreign(int32_t c)
{
    return c > 0x9F && !text_space(c);
}

static bool alphanumeric(int32_t c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Words separated by single dots (RFC 5322, 3.2.3). */
static bool local_valid(const char *text, size_t length)
{
    int32_t before = '.';
    size_t size;

    if (!length || length > LOCAL_MAX)
        return false;
    for (; length; text += size, length -= size) {
        int32_t c = text_code_point(text, length, &size);

        if (c == '.' && before == '.')
            return false;
        if (!alphanumeric(c) && !foreign(c) &&
            (c <= 0 || c > 0x7E || !strchr(".!#$%&'*+/=?^_`{|}~-", (int)c)))
            return false;
        before = c;
    }
    return before != '.';
}

static bool label_valid(const char *text, size_t length)
{
    if (!length || length > LABEL_MAX || text[0] == '-' || text[length - 1] == '-')
        return false;
    for (; length; text++, length--) {
        if (!alphanumeric(*text) && *text != '-')
            return false;
    }
    return true;
}

static bool is_valid(const char *text)
{
    const char *at = strchr(text, '@');

    if (!at || strlen(text) > EMAIL_MAX || !local_valid(text, (size_t)(at - text)))
        return false;
    for (const char *label = at + 1;;) {
        size_t length = strcspn(label, ".");

        if (!label_valid(label, length))
            return false;
        if (!label[length])
            return true; /* one label is sufficient, because networks without a domain have mail,
                          * too */
        label += length + 1;
    }
}

static bool is_ascii(const char *text)
{
    while (*text && !(*text & 0x80))
        text++;
    return !*text;
}

/*
 * Returns the e-mail with its domain as an A-label. *invalid: there is no such domain. NULL also if
 * memory ran out.
 */
static const char *with_ascii_domain(const char *text, size_t local, struct arena *arena,
                                     bool *invalid)
{
    const char *name = arena_text(arena, text, local);
    const char *folded = name ? unicode_fold(name, arena) : NULL;
    char *domain = NULL;
    int status = idn2_to_ascii_8z(text + local + 1, &domain, IDN2_NFC_INPUT | IDN2_NONTRANSITIONAL);

    *invalid = status != IDN2_OK && status != IDN2_MALLOC;
    const char *made =
        folded && status == IDN2_OK ? arena_format(arena, "%s@%s", folded, domain) : NULL;

    idn2_free(domain);
    return made;
}

const char *email_normal(const char *text, struct arena *arena, bool *invalid)
{
    const char *at = strchr(text, '@');
    const char *normal;

    *invalid = !at;
    if (!at)
        return NULL;
    if (is_ascii(at))
        normal = unicode_fold(text, arena);
    else
        normal = with_ascii_domain(text, (size_t)(at - text), arena, invalid);
    if (!normal || is_valid(normal))
        return normal;
    *invalid = true;
    return NULL;
}
