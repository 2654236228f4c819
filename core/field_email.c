/* E-mail addresses as mail hosts accept them: no quotes, no comments, no address literals. */
#include <string.h>

#include "core/field_value.h"
#include "core/text.h"

#define EMAIL_MAX 254
#define LOCAL_MAX 64
#define LABEL_MAX 63

/* Beyond ASCII all but white space, C1 controls and marks of direction, which mislead readers. */
static bool foreign(int32_t c)
{
    return c > 0x9F && !text_space(c) && !(c >= 0x200B && c <= 0x200F) &&
           !(c >= 0x202A && c <= 0x202E) && !(c >= 0x2060 && c <= 0x206F);
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
    int labels = 0;

    if (!at || strlen(text) > EMAIL_MAX || !local_valid(text, (size_t)(at - text)))
        return false;
    for (const char *label = at + 1;; labels++) {
        size_t length = strcspn(label, ".");

        if (!label_valid(label, length))
            return false;
        if (!label[length])
            return labels > 0; /* a host without a domain gets no mail from elsewhere */
        label += length + 1;
    }
}
