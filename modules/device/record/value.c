/* Checks and normalizes the values of the fields, beyond the checks of the table of fields. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <utf8proc.h>

#include "modules/device/record/device.h"
#include "modules/device/value/timezones.h"

enum { NAME_MAX_CHARACTERS = 255, DEGREES_MAX_LENGTH = 32, AHEAD_MS = 14 * 3600 * 1000 };

/* The same blanks as in the host (BB_NOT_BLANK). */
static const char *const blanks[] = {
    " ",      "\t",     "\n",     "\v",     "\f",     "\r",     "\xc2\x85", "\u00a0", "\u1680",
    "\u2000", "\u2001", "\u2002", "\u2003", "\u2004", "\u2005", "\u2006",   "\u2007", "\u2008",
    "\u2009", "\u200a", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000",   "\ufeff", NULL};

/* Returns the size in bytes of the blank at the beginning or end of a text; 0: none. */
static size_t blank_at(const char *text, size_t length, bool end)
{
    for (size_t i = 0; blanks[i]; i++) {
        size_t size = strlen(blanks[i]);

        if (size <= length && !memcmp(end ? text + length - size : text, blanks[i], size))
            return size;
    }
    return 0;
}

/* Bytes that cannot begin or end a blank; most texts begin and end with one. */
static bool is_plain(char byte)
{
    return (unsigned char)byte > ' ' && (unsigned char)byte < 0x7f;
}

char *device_trimmed(struct bb_request *rq, const char *text)
{
    size_t length = strlen(text), blank;

    while (!is_plain(*text) && (blank = blank_at(text, length, false))) {
        text += blank;
        length -= blank;
    }
    while (length && !is_plain(text[length - 1]) && (blank = blank_at(text, length, true)))
        length -= blank;
    char *trimmed = bb_alloc(rq, length + 1);

    memcpy(trimmed, text, length);
    return trimmed;
}

static size_t characters(const char *text)
{
    size_t count = 0;

    for (; *text; text++)
        count += ((unsigned char)*text & 0xc0) != 0x80;
    return count;
}

/* Looks for C0, DEL and C1, which is 0xc2 0x80 to 0xc2 0x9f in UTF-8. */
static bool has_controls(const char *text)
{
    for (const unsigned char *at = (const unsigned char *)text; *at; at++)
        if (*at < 0x20 || *at == 0x7f || (*at == 0xc2 && at[1] < 0xa0))
            return true;
    return false;
}

/* Formats a JSON number as a decimal without an exponent. */
static char *decimal(struct bb_request *rq, const json_t *value)
{
    if (json_is_integer(value))
        return bb_format(rq, "%lld", (long long)json_integer_value(value));
    double number = json_real_value(value);
    char *text = bb_format(rq, "%.15g", number);

    if (!strchr(text, 'e'))
        return text;
    if (fabs(number) >= 1)
        return bb_format(rq, "%.0f", number);
    text = bb_format(rq, "%.20f", number);
    size_t length = strlen(text);

    while (text[length - 1] == '0')
        length--;
    text[length - (text[length - 1] == '.')] = '\0';
    return text;
}

static const char *name_value(struct bb_request *rq, const char *text, const char **problem)
{
    char *name = device_trimmed(rq, text);

    if (!*name || characters(name) > NAME_MAX_CHARACTERS)
        *problem = "must be 1 to 255 characters";
    else if (has_controls(name))
        *problem = "must not have control characters";
    return name;
}

#define BRAILLE_BLANK 0x2800 /* invisible, though Unicode does not call it ignorable */

static const char *character_problem(utf8proc_int32_t code)
{
    const utf8proc_property_t *property = utf8proc_get_property(code);

    if (property->ignorable || code == BRAILLE_BLANK)
        return "must not have invisible characters or marks of direction";
    if (property->category == UTF8PROC_CATEGORY_CC || property->category == UTF8PROC_CATEGORY_ZL ||
        property->category == UTF8PROC_CATEGORY_ZP)
        return "must not have control characters";
    return NULL;
}

/*
 * Returns the text in Unicode NFC, either `text` itself or a copy. Sets *problem if it has control
 * or invisible characters, so that no device is registered twice under ids that look the same.
 */
static const char *normal_form(struct bb_request *rq, const char *text, const char **problem)
{
    static const utf8proc_option_t options = UTF8PROC_NULLTERM | UTF8PROC_STABLE | UTF8PROC_COMPOSE;
    const utf8proc_uint8_t *bytes = (const utf8proc_uint8_t *)text;
    utf8proc_int32_t code;
    utf8proc_ssize_t size;
    bool ascii = true;

    for (const utf8proc_uint8_t *at = bytes; *at && !*problem; at += size) {
        ascii = ascii && *at < 0x80;
        size = utf8proc_iterate(at, -1, &code);
        *problem = size <= 0 ? "must be UTF-8" : character_problem(code);
    }
    if (*problem || ascii)
        return text;
    utf8proc_ssize_t room = utf8proc_decompose(bytes, 0, NULL, 0, options);
    utf8proc_int32_t *codes = bb_alloc(rq, ((size_t)room + 1) * sizeof(*codes));
    utf8proc_ssize_t count = utf8proc_decompose(bytes, 0, codes, room, options);

    utf8proc_reencode(codes, count, options);
    return (const char *)codes;
}

static const char *external_id(struct bb_request *rq, const json_t *value, const char **problem)
{
    if (!json_is_number(value) && !json_is_string(value)) {
        *problem = "must be a string";
        return NULL;
    }
    const char *sent = json_is_string(value) ? json_string_value(value) : decimal(rq, value);
    const char *id = normal_form(rq, device_trimmed(rq, sent), problem);

    if (*problem)
        return NULL;
    id = name_value(rq, id, problem);
    /* browsers and proxies remove dots from a path, and `my` is the list of devices */
    if (!*problem && (!strcmp(id, ".") || !strcmp(id, "..") || !strcasecmp(id, "my")))
        *problem = "must not be \".\", \"..\" or \"my\", which a path cannot name";
    return id;
}

static bool is_decimal(const char *text)
{
    size_t whole, fraction = 0;

    text += *text == '-' || *text == '+';
    whole = strspn(text, "0123456789");
    text += whole;
    if (*text == '.') {
        fraction = strspn(text + 1, "0123456789");
        text += 1 + fraction;
    }
    return !*text && whole + fraction > 0;
}

static const char *degrees(struct bb_request *rq, const json_t *value, double most,
                           const char **problem)
{
    const char *text = json_string_value(value);

    if (text)
        text = device_trimmed(rq, text);
    if (json_is_number(value))
        text = decimal(rq, value);
    if (!text || strlen(text) > DEGREES_MAX_LENGTH || !is_decimal(text))
        *problem = "must be decimal degrees, as in \"52.52\"";
    else if (fabs(strtod(text, NULL)) > most)
        *problem = most > 90 ? "must be within -180 and 180" : "must be within -90 and 90";
    return text;
}

static const char *country(struct bb_request *rq, const char *text, const char **problem)
{
    char *code = device_trimmed(rq, text);

    if (country_find(code) < 0) {
        int country = country_find_name(code);

        code = bb_alloc(rq, 4);
        if (country < 0)
            *problem = "must be a country: its ISO 3166-1 code of two or three letters, as DE or "
                       "DEU, or its English name, as Germany";
        else
            country_code(country, 2, code);
        return code;
    }
    for (char *at = code; *at; at++)
        *at = (char)toupper((unsigned char)*at);
    return code;
}

/* Accepts a date, or an ISO 8601 date and time; a time without offset is local to the plant. */
static bool real_time(struct bb_request *rq, const char *text)
{
    static const struct bb_field time[] = {{.name = "time", .type = BB_TIME}};
    static const struct bb_table fields = BB_TABLE(time);
    const char *clock = strchr(text, 'T');
    bool local = clock && !strpbrk(clock, "Z+-");
    json_t *object = json_pack("{s:s+}", "time", text, local ? "Z" : "");
    json_t *errors = json_array();
    json_t *checked = object && errors ? bb_check(rq, &fields, object, errors) : NULL;
    bool real = checked != NULL;

    json_decref(object);
    json_decref(errors);
    json_decref(checked);
    return real;
}

/* Checks plain dates directly, because most values are dates without a time. */
static bool real_date(struct bb_request *rq, const char *text)
{
    static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    static const char digits[] = "0123456789";

    if (strlen(text) != 10 || text[4] != '-' || text[7] != '-' || strspn(text, digits) != 4 ||
        strspn(text + 5, digits) != 2 || strspn(text + 8, digits) != 2)
        return real_time(rq, text);
    int year = atoi(text), month = atoi(text + 5), day = atoi(text + 8);
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

    if (year < 1 || month < 1 || month > 12 || day < 1)
        return false;
    return day <= lengths[month - 1] + (month == 2 && leap);
}

/* A date is in the future only if it has not begun anywhere on Earth. */
static const char *date(struct bb_request *rq, const char *text, const char **problem)
{
    char *day = device_trimmed(rq, text);

    if (!real_date(rq, day))
        *problem = "must be a date, YYYY-MM-DD";
    else if (strncmp(day, bb_time_text(rq, bb_wall_ms(rq->host) + AHEAD_MS), 10) > 0)
        *problem = "must not be in the future";
    else
        day[10] = '\0';
    return day;
}

static const char *number(struct bb_request *rq, const json_t *value, const char **problem)
{
    if (json_number_value(value) <= 0)
        *problem = "must be greater than 0";
    return bb_format(rq, "%.17g", json_number_value(value));
}

static const char *zone(struct bb_request *rq, const char *text, const char **problem)
{
    const struct device *device = rq->state;
    const char *name = device_trimmed(rq, text);

    if (!timezones_have(device->zones, name))
        *problem = "must be a time zone of the IANA list, as Europe/Berlin";
    return name;
}

const char *device_value(struct bb_request *rq, enum device_field field, const json_t *value,
                         const char **problem)
{
    const char *text = json_string_value(value);

    switch (field) {
    case DEVICE_EXTERNAL_ID:
        return external_id(rq, value, problem);
    case DEVICE_COUNTRY_CODE:
        return country(rq, text, problem);
    case DEVICE_COMMISSIONING_DATE:
        return date(rq, text, problem);
    case DEVICE_CAPACITY:
    case DEVICE_YIELD_VALUE:
        return number(rq, value, problem);
    case DEVICE_ADDRESS:
        return text;
    case DEVICE_LATITUDE:
        return degrees(rq, value, 90, problem);
    case DEVICE_LONGITUDE:
        return degrees(rq, value, 180, problem);
    case DEVICE_TIMEZONE:
        return zone(rq, text, problem);
    default:
        return name_value(rq, text, problem);
    }
}
