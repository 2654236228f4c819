/* E-mail addresses as mail hosts accept them: no quotes, no comments, no address literals. */
#include <string.h>

#include "core/base/text.h"
#include "core/field/field_value.h"

#define LOCAL_MAX 64
#define LABEL_MAX 63

/* Beyond ASCII, of what may stand in names, all but white space. */
static bool foreign(int32_t c)
{
    return c > 0x9F && !text_space(c);
}

static bool alphanumeric(int32_t c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool local_valid(const char *text, size_t length)
{
    size_t size;

    if (!length || length > LOCAL_MAX)
        return false;
    for (; length; text += size, length -= size) {
        int32_t c = text_code_point(text, length, &size);

        if (!alphanumeric(c) && !foreign(c) &&
            (c <= 0 || c > 0x7E || !strchr(".!#$%&'*+/=?^_`{|}~-", (int)c)))
            return false;
    }
    return true;
}

static bool label_valid(const char *text, size_t length)
{
    size_t size;

    if (!length || length > LABEL_MAX || text[0] == '-' || text[length - 1] == '-')
        return false;
    for (; length; text += size, length -= size) {
        int32_t c = text_code_point(text, length, &size);

        if (!alphanumeric(c) && c != '-' && !foreign(c))
            return false;
    }
    return true;
}

bool email_valid(const char *text)
{
    const char *at = strchr(text, '@');

    if (!at || strlen(text) > EMAIL_MAX || !local_valid(text, (size_t)(at - text)))
        return false;
    for (const char *label = at + 1;;) {
        size_t length = strcspn(label, ".");

        if (!label_valid(label, length))
            return false;
        if (!label[length])
            return true; /* one label will do: networks without a domain have mail, too */
        label += length + 1;
    }
}
