#include "core/lib/log_format.h"

#include <stdio.h>
#include <string.h>

#include "core/lib/text.h"

#define TAIL 24 /* reserved for a closing quote, the mark of a cut line and the newline */

/* Appends a piece completely or not at all, so that an escape is never cut. */
static void put(struct log_text *line, const char *bytes, size_t length)
{
    if (line->cut || length > LOG_LINE_MAX - TAIL - line->used) {
        line->cut = true;
        return;
    }
    memcpy(line->bytes + line->used, bytes, length);
    line->used += length;
}

/*
 * Characters to escape: ASCII control characters, and others that affect a terminal's display: C1,
 * Unicode's line separators and directional marks.
 */
static bool unseen(int32_t c)
{
    return c < 0x20 || (c >= 0x7F && c <= 0x9F) || c == 0x061C || c == 0x200E || c == 0x200F ||
           (c >= 0x2028 && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069) || c == 0xFEFF;
}

enum { HARMLESS = 1 /* needs no escape */, BARE = 2 /* needs no quotes in logfmt */ };

/* clang-format off */
static const unsigned char classes[256] = {
    [' '] = HARMLESS, ['!'] = HARMLESS, ['#' ... ','] = HARMLESS, ['-' ... ':'] = HARMLESS | BARE,
    [';' ... '?'] = HARMLESS, ['@' ... 'Z'] = HARMLESS | BARE, ['['] = HARMLESS,
    [']' ... '^'] = HARMLESS, ['_'] = HARMLESS | BARE, ['`'] = HARMLESS,
    ['a' ... 'z'] = HARMLESS | BARE, ['{' ... '~'] = HARMLESS,
};
/* clang-format on */

/* Number of bytes at the start that are of the class. */
static size_t run_of(unsigned char class, const char *text, size_t length)
{
    size_t at = 0;

    while (at < length && classes[(unsigned char)text[at]] & class)
        at++;
    return at;
}

/* Both formats use JSON's escapes. Invalid UTF-8 becomes U+FFFD. */
static void put_escaped(struct log_text *line, const char *text, size_t length)
{
    char escape[8];

    while (length && !line->cut) {
        size_t size, room = LOG_LINE_MAX - TAIL - line->used;
        size_t run = run_of(HARMLESS, text, length < room ? length : room);

        put(line, text, run);
        text += run;
        length -= run;
        if (!length)
            break;
        int32_t c = text_code_point(text, length, &size);

        if (c == '"' || c == '\\') {
            put(line, (char[]){'\\', (char)c}, 2);
        } else if (c == '\n' || c == '\r' || c == '\t') {
            put(line, c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t", 2);
        } else if (c < 0) {
            put(line, "\xEF\xBF\xBD", 3);
        } else if (unseen(c)) {
            snprintf(escape, sizeof(escape), "\\u%04x", (unsigned)c & 0xFFFF);
            put(line, escape, 6);
        } else {
            put(line, text, size);
        }
        text += size;
        length -= size;
    }
}

static void put_quoted(struct log_text *line, const char *text, size_t length)
{
    put(line, "\"", 1);
    put_escaped(line, text, length);
    line->bytes[line->used++] = '"'; /* uses the reserved space if necessary */
}

/* Whether logfmt readers accept the value without quotes. */
static bool plain(const char *text, size_t length)
{
    return length && run_of(BARE, text, length) == length;
}

/* Keys with numeric values for programs. Values of other keys may look like numbers by chance. */
static bool counts(const char *key)
{
    static const char *const keys[] = {"account",     "count",      "drained_ms", "generation",
                                       "database_ms", "handler_ms", "holders",    "more",
                                       "ms",          "queue_ms",   "status",     "work_ms"};

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (!strcmp(keys[i], key))
            return true;
    }
    return false;
}

/* Whether it is a JSON number: digits without a redundant leading zero, and perhaps a fraction. */
static bool number(const char *text)
{
    static const char digits[] = "0123456789";
    size_t whole = strspn(text, digits), fraction;

    if (!whole || (whole > 1 && *text == '0'))
        return false;
    if (!text[whole])
        return true;
    fraction = text[whole] == '.' ? strspn(text + whole + 1, digits) : 0;
    return fraction && !text[whole + 1 + fraction];
}

void log_text_pair(struct log_text *line, const char *key, const char *value)
{
    if (!value || line->cut)
        return;
    size_t before = line->used, length = strlen(value), named = strlen(key);
    bool quoted = line->json ? !counts(key) || !number(value) : !plain(value, length);

    /* The key, its punctuation and the quote must fit; only the value may be cut. */
    if (named + 5 > LOG_LINE_MAX - TAIL - line->used) {
        line->cut = true;
        return;
    }
    put(line, line->json ? ",\"" : " ", line->json ? 2 : 1);
    put(line, key, named);
    put(line, line->json ? "\":" : "=", line->json ? 2 : 1);
    if (quoted)
        put_quoted(line, value, length);
    else
        put(line, value, length);
    if (line->cut && !quoted)
        line->used = before;
}

void log_text_start(struct log_text *line, bool json, enum bb_level level, const char *message)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    char time[TEXT_TIME_SIZE];

    line->used = 0;
    line->json = json;
    line->cut = false;
    text_time(clock_wall_ms(), time);
    if (json) {
        put(line, "{\"ts\":\"", 7);
        put(line, time, TEXT_TIME_SIZE - 1);
        put(line, "\"", 1);
    } else {
        put(line, "ts=", 3);
        put(line, time, TEXT_TIME_SIZE - 1);
    }
    log_text_pair(line, "level", names[level]);
    if (json)
        put(line, ",\"msg\":", 7);
    else
        put(line, " msg=", 5);
    put_quoted(line, message, strlen(message));
}

void log_text_end(struct log_text *line)
{
    const char *end = line->json  ? line->cut ? ",\"cut\":true}\n" : "}\n"
                      : line->cut ? " cut=true\n"
                                  : "\n";
    size_t length = strlen(end);

    memcpy(line->bytes + line->used, end, length);
    line->used += length;
}
