#include "core/lib/text.h"

#include <busbar/moment.h>
#include <openssl/crypto.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <utf8proc.h>

int32_t text_code_point(const char *text, size_t length, size_t *size)
{
    const unsigned char *bytes = (const unsigned char *)text;
    int32_t code = *bytes;

    *size = 1;
    if (code < 0x80)
        return code;
    utf8proc_ssize_t read =
        utf8proc_iterate(bytes, length < 4 ? (utf8proc_ssize_t)length : 4, &code);

    if (read > 0)
        *size = (size_t)read;
    return read > 0 ? code : -1;
}

/* Returns the number of ASCII bytes at the start. Checks eight at a time. */
static size_t text_ascii_run(const char *text, size_t length)
{
    size_t at = 0;

    while (at + sizeof(uint64_t) <= length) {
        uint64_t word;

        memcpy(&word, text + at, sizeof(word));
        if (word & UINT64_C(0x8080808080808080))
            break;
        at += sizeof(word);
    }
    while (at < length && (unsigned char)text[at] < 0x80)
        at++;
    return at;
}

size_t text_valid(const char *text, size_t length)
{
    size_t at = 0, size;

    while ((at += text_ascii_run(text + at, length - at)) < length) {
        if (text_code_point(text + at, length - at, &size) < 0)
            break;
        at += size;
    }
    return at;
}

size_t text_characters(const char *text)
{
    size_t count = 0;

    for (; *text; text++)
        count += ((unsigned char)*text & 0xC0) != 0x80;
    return count;
}

bool text_space(int32_t c)
{
    if (c < 0x80)
        return c == 0x20 || (c >= 0x09 && c <= 0x0D);
    return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
           c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000 || c == 0xFEFF;
}

void text_trim(const char **text, size_t *length)
{
    size_t size;

    while (*length && text_space(text_code_point(*text, *length, &size))) {
        *text += size;
        *length -= size;
    }
    while (*length) {
        size_t last = *length - 1;

        while (last && ((unsigned char)(*text)[last] & 0xC0) == 0x80)
            last--;
        if (!text_space(text_code_point(*text + last, *length - last, &size)))
            return;
        *length = last;
    }
}

bool text_blank(const char *text)
{
    size_t length = strlen(text);

    text_trim(&text, &length);
    return !length;
}

int text_percent_decode(char *text, size_t length, bool plus_is_space)
{
    size_t used = 0;

    for (size_t at = 0; at < length; at++) {
        int byte = (unsigned char)text[at];

        if (byte == '%') {
            int high = length - at > 2 ? OPENSSL_hexchar2int((unsigned char)text[at + 1]) : -1;
            int low = high < 0 ? -1 : OPENSSL_hexchar2int((unsigned char)text[at + 2]);

            byte = low < 0 ? -1 : high << 4 | low;
            at += 2;
        } else if (byte == '+' && plus_is_space) {
            byte = ' ';
        }
        if (byte < 0x20 || byte == 0x7F)
            return -1;
        text[used++] = (char)byte;
    }
    text[used] = '\0';
    return text_utf8(text, used) ? 0 : -1;
}

const char *text_percent(const char *in, size_t length, bool plus_is_space, struct arena *arena)
{
    char *text = arena_text(arena, in, length);

    return text && !text_percent_decode(text, length, plus_is_space) ? text : NULL;
}

void text_hex(const void *bytes, size_t length, char *out)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *in = bytes;

    for (size_t i = 0; i < length; i++) {
        *out++ = digits[in[i] >> 4];
        *out++ = digits[in[i] & 15];
    }
    *out = '\0';
}

int text_hex_decode(const char *text, unsigned char *out, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        int high = OPENSSL_hexchar2int((unsigned char)text[2 * i]);
        int low = high < 0 ? -1 : OPENSSL_hexchar2int((unsigned char)text[2 * i + 1]);

        if (low < 0)
            return -1;
        out[i] = (unsigned char)(high << 4 | low);
    }
    return text[2 * length] ? -1 : 0;
}

size_t text_integer(int64_t number, char out[TEXT_INTEGER_SIZE])
{
    uint64_t rest = number < 0 ? -(uint64_t)number : (uint64_t)number;
    char digits[TEXT_INTEGER_SIZE];
    size_t at = sizeof digits;

    do
        digits[--at] = (char)('0' + rest % 10);
    while (rest /= 10);
    if (number < 0)
        digits[--at] = '-';
    memcpy(out, digits + at, sizeof digits - at);
    out[sizeof digits - at] = '\0';
    return sizeof digits - at;
}

/* Writes exactly `digits` digits. */
static void text_put(char *out, int digits, int number)
{
    while (digits--) {
        out[digits] = (char)('0' + number % 10);
        number /= 10;
    }
}

void text_ms(int64_t us, char out[TEXT_MS_SIZE])
{
    char *at = out + text_integer(us / 1000, out);

    *at = '.';
    text_put(at + 1, 3, (int)(us % 1000));
    at[4] = '\0';
}

/* ---- random bytes and UUIDs ---- */

/* Ends the process if there are no random bytes, because ids cannot be made without them. */
void text_random(unsigned char *out, size_t length)
{
    static _Thread_local unsigned char buffer[TEXT_RANDOM_MAX * 16];
    static _Thread_local size_t left;

    if (left < length) {
        if (getentropy(buffer, sizeof(buffer)))
            abort();
        left = sizeof(buffer);
    }
    left -= length;
    memcpy(out, buffer + left, length);
}

void text_uuid7(char out[TEXT_UUID_SIZE])
{
    unsigned char bytes[16];
    uint64_t now = (uint64_t)shared_clock_ms();

    for (int i = 0; i < 6; i++)
        bytes[i] = (unsigned char)(now >> (40 - 8 * i));
    text_random(bytes + 6, 10);
    bytes[6] = (unsigned char)((bytes[6] & 0x0F) | 0x70);
    bytes[8] = (unsigned char)((bytes[8] & 0x3F) | 0x80);

    text_hex(bytes, 4, out);
    text_hex(bytes + 4, 2, out + 9);
    text_hex(bytes + 6, 2, out + 14);
    text_hex(bytes + 8, 2, out + 19);
    text_hex(bytes + 10, 6, out + 24);
    out[8] = out[13] = out[18] = out[23] = '-';
}

/*
 * ---- ISO 8601 and the clocks ----
 *
 * Dates are computed here because timegm() and strftime() take locks and are slow.
 */

#define FRACTION_MAX 30                    /* digits */
#define YEAR_0 INT64_C(-62167219200000)    /* 0000-01-01T00:00:00.000Z */
#define YEAR_1 INT64_C(-62135596800000)    /* 0001-01-01T00:00:00.000Z */
#define YEAR_9999 INT64_C(253402300799999) /* its last millisecond */

void text_time(int64_t wall_ms, char out[TEXT_TIME_SIZE])
{
    wall_ms = wall_ms < YEAR_0 ? YEAR_0 : wall_ms > YEAR_9999 ? YEAR_9999 : wall_ms;
    int64_t days = wall_ms / BB_DAY_MS - (wall_ms % BB_DAY_MS < 0);
    int of_day = (int)(wall_ms - days * BB_DAY_MS);

    /* The inverse of bb_moment_days(). Adds 400 years to avoid negative numbers. */
    days += 719468 + 146097;
    int era = (int)(days / 146097), of_era = (int)(days % 146097);
    int y = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int of_year = of_era - (365 * y + y / 4 - y / 100);
    int m = (5 * of_year + 2) / 153;
    int month = m < 10 ? m + 3 : m - 9;

    memcpy(out, "0000-00-00T00:00:00.000Z", TEXT_TIME_SIZE);
    text_put(out, 4, y + (era - 1) * 400 + (month <= 2));
    text_put(out + 5, 2, month);
    text_put(out + 8, 2, of_year - (153 * m + 2) / 5 + 1);
    text_put(out + 11, 2, of_day / 3600000);
    text_put(out + 14, 2, of_day / 60000 % 60);
    text_put(out + 17, 2, of_day / 1000 % 60);
    text_put(out + 20, 3, of_day % 1000);
}

/* Refuses long fractions, because PostgreSQL reads only 128 characters of a time. */
int text_time_parse(const char *text, int64_t *wall_ms)
{
    const char *point = strpbrk(text, ".,");
    struct bb_moment moment;

    if (bb_moment_parse(text, &moment) || moment.ms < YEAR_1 || moment.ms > YEAR_9999 ||
        (point && strspn(point + 1, "0123456789") > FRACTION_MAX) ||
        (!moment.date && !strncmp(text + strlen("2026-04-01T"), "24", 2)))
        return -1;
    *wall_ms = moment.ms;
    return 0;
}

static int64_t clock_us(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now); /* cannot fail with these clocks */
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t clock_mono_us(void)
{
    return clock_us(CLOCK_MONOTONIC);
}

int64_t clock_cpu_us(void)
{
    return clock_us(CLOCK_THREAD_CPUTIME_ID);
}

int64_t clock_mono_ms(void)
{
    return clock_us(CLOCK_MONOTONIC) / 1000;
}

int64_t clock_wall_ms(void)
{
    return clock_us(CLOCK_REALTIME) / 1000;
}

/* ---- Unicode's normal forms ---- */

bool unicode_is_ascii(const char *text)
{
    return !text[text_ascii_run(text, strlen(text))];
}

const char *unicode_composed(const char *text, int more, struct arena *arena)
{
    const utf8proc_uint8_t *bytes = (const utf8proc_uint8_t *)text;
    utf8proc_option_t options =
        (utf8proc_option_t)(more | UTF8PROC_NULLTERM | UTF8PROC_STABLE | UTF8PROC_COMPOSE);
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
        int32_t code = text_code_point(text, left, &size);
        bool space = code < 0x80 ? code == ' ' : utf8proc_category(code) == UTF8PROC_CATEGORY_ZS;

        if (!space) {
            for (size_t i = 0; i < size; i++)
                *out++ = text[i];
        } else if (out == single || out[-1] != ' ')
            *out++ = ' ';
    }
    *out = '\0';
    return single;
}

/* ---- W3C Trace Context ---- */

/* Offsets and lengths in a traceparent, "00-TRACE-SPAN-FLAGS". */
enum {
    TRACE_AT = 3,
    TRACE_DIGITS = 32,
    SPAN_AT = 36,
    SPAN_DIGITS = 16,
    FLAGS_AT = 53,
    TRACE_WHOLE = 55
};

static void text_trace_random_digits(char *out, size_t count)
{
    unsigned char bytes[TRACE_DIGITS / 2];
    char hex[TRACE_DIGITS + 1];

    do {
        text_random(bytes, count / 2);
        text_hex(bytes, count / 2, hex);
    } while (strspn(hex, "0") >= count);
    memcpy(out, hex, count);
}

/*
 * Accepts each version except ff; versions above 00 may have more fields after the flags. Copies
 * only the flags "sampled" and "random".
 */
void trace_parent(const char *given, char out[TRACE_PARENT_SIZE])
{
    char version[3], trace[TRACE_DIGITS + 1], span[SPAN_DIGITS + 1], flags[3];
    int end = 0;

    memcpy(out, "00-00000000000000000000000000000000-0000000000000000-00", TRACE_PARENT_SIZE);
    if (given)
        sscanf(given, "%2[0-9a-f]-%32[0-9a-f]-%16[0-9a-f]-%2[0-9a-f]%n", version, trace, span,
               flags, &end);
    if (end == TRACE_WHOLE && strcmp(version, "ff") != 0 &&
        (!given[end] || (given[end] == '-' && strcmp(version, "00") != 0)) &&
        strspn(trace, "0") < TRACE_DIGITS && strspn(span, "0") < SPAN_DIGITS) {
        memcpy(out + TRACE_AT, trace, TRACE_DIGITS);
        out[FLAGS_AT + 1] = (char)('0' + (OPENSSL_hexchar2int((unsigned char)flags[1]) & 3));
    } else {
        text_trace_random_digits(out + TRACE_AT, TRACE_DIGITS);
        out[FLAGS_AT + 1] = '2';
    }
    text_trace_random_digits(out + SPAN_AT, SPAN_DIGITS);
}

void trace_id(const char parent[TRACE_PARENT_SIZE], char out[TRACE_ID_SIZE])
{
    memcpy(out, parent + TRACE_AT, TRACE_DIGITS);
    out[TRACE_DIGITS] = '\0';
}

/* ---- the clock that all hosts share ---- */

/* The shared clock minus the monotonic one, in microseconds; 0: not measured yet. */
static atomic_int_least64_t distance_us;

int64_t shared_clock_ms(void)
{
    int64_t distance = atomic_load_explicit(&distance_us, memory_order_relaxed);

    return distance ? (clock_mono_us() + distance) / 1000 : clock_wall_ms();
}

bool shared_clock_known(void)
{
    return atomic_load_explicit(&distance_us, memory_order_relaxed) != 0;
}

int64_t shared_clock_offset_ms(void)
{
    return shared_clock_ms() - clock_wall_ms();
}

void shared_clock_measured(int64_t theirs_us, int64_t sent_us, int64_t received_us)
{
    int64_t least = theirs_us - received_us, most = theirs_us - sent_us;
    int64_t distance = atomic_load_explicit(&distance_us, memory_order_relaxed);

    if (!distance)
        distance = clock_wall_ms() * 1000 - clock_mono_us();
    if (distance < least)
        distance = least;
    if (distance > most)
        distance = most;
    atomic_store_explicit(&distance_us, distance, memory_order_relaxed);
}
