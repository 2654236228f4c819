/*
 * The fields of a device's body: their table, and the code that reads them into normalized texts.
 * The table is hand-formatted.
 */
#include <busbar/moment.h>
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <utf8proc.h>

#include "modules/common/zones.h"
#include "modules/device/device.h"

enum {
    NAME_MAX_CHARACTERS = 255,
    DEGREES_MAX_LENGTH = 32,
    AHEAD_MS = 14 * 3600 * 1000,
    BRAILLE_BLANK = 0x2800, /* invisible, but not ignorable in Unicode */
    LARGE_KW = 5000
};

#define DIGITS "0123456789"

// clang-format off

/* The host passes fields unchecked. device_read() checks them, so a response names all errors. */
#define OPTIONAL (BB_AS_SENT | BB_NULLABLE | BB_CLEARS)

static const char *const states[] = {"Active", "Inactive", NULL};

const struct bb_field device_fields[DEVICE_BODY_FIELDS] = {
    {.name = "externalId", .type = BB_ANY, .flags = OPTIONAL, .example = "PLANT-7",
     .help = "Your identifier of the device, 1 to 255 characters. It must be unique in the "
             "organization, ignoring case. A number is converted to a text."},
    {.name = "siteName", .type = BB_TEXT, .flags = OPTIONAL | BB_NOT_BLANK | BB_NAME, .max = 255,
     .alias = "projectName", .help = "Name of the site.", .example = "Rooftop 7"},
    {.name = "countryCode", .type = BB_TEXT, .flags = OPTIONAL, .max = 100,
     .help = "ISO 3166-1 code of two or three letters, or the country's English name, in upper or "
             "lower case. A name is stored as the code of two letters.", .example = "DE"},
    {.name = "commissioningDate", .type = BB_TEXT, .flags = OPTIONAL, .max = 40,
     .help = "YYYY-MM-DD, or the date of an ISO 8601 date-time; not in the future.",
     .example = "2024-05-01"},
    {.name = "capacity", .type = BB_NUMBER, .flags = OPTIONAL, .max = 10000000,
     .help = "Capacity in kW, above 0. Above 5,000 the response has a warning, because the value "
             "may be in W.", .example = "9.9"},
    {.name = "address", .type = BB_TEXT, .flags = OPTIONAL, .max = 1000,
     .help = "Postal address.", .example = "Seestr. 7, 13353 Berlin"},
    {.name = "latitude", .type = BB_ANY, .flags = OPTIONAL, .min = -90, .max = 90, .example = "52.5481",
     .help = "Decimal degrees from -90 to 90, as a string or a number. Returned as a string, "
             "exactly as sent."},
    {.name = "longitude", .type = BB_ANY, .flags = OPTIONAL, .min = -180, .max = 180, .example = "13.3609",
     .help = "Decimal degrees from -180 to 180, like latitude."},
    {.name = "fuelCode", .type = BB_TEXT, .flags = OPTIONAL | BB_NOT_BLANK, .max = 64,
     .help = "Usually ES and three digits. Any other code is stored with a warning.",
     .example = "ES100"},
    {.name = "deviceTypeCode", .type = BB_TEXT, .flags = OPTIONAL | BB_NOT_BLANK, .max = 64,
     .help = "Usually TC and three digits, or T0 and four or five digits. Any other code is "
             "stored with a warning.",
     .example = "TC120"},
    {.name = "serialNumber", .type = BB_TEXT, .flags = OPTIONAL | BB_NOT_BLANK, .max = 255,
     .help = "Serial number. It does not have to be unique.", .example = "SN-4711"},
    {.name = "timezone", .type = BB_TEXT, .flags = OPTIONAL, .max = 64,
     .help = "IANA time zone. Default: the time zone of the first reading that names one.",
     .example = "Europe/Berlin"},
    {.name = "yieldValue", .type = BB_NUMBER, .flags = OPTIONAL, .min = 1, .max = 4000, .example = "1050",
     .help = "Expected yield in kWh per kW and year. Default: the yield of the country, or else "
             "the default of the service."},
    {.name = "organizationId", .type = BB_INT, .flags = BB_AS_SENT | BB_NULLABLE, .min = 1, .max = INT64_MAX,
     .help = "The organization in which you act. It does not move a device to another "
             "organization."},
    {.name = "attributes", .type = BB_OBJECT, .flags = OPTIONAL,
     .help = "Any other data, at most 32 KiB. Unknown fields of the body are added to the "
             "attributes."},
    {.name = "status", .type = BB_CHOICE, .flags = OPTIONAL, .choices = states,
     .help = "Inactive: the device no longer generates energy. Its readings are refused, and lists "
             "omit it."},
};

// clang-format on

/* ---- values: each function returns the normalized text, or sets *problem ---- */

/* Returns the length of the white-space character at `at`, or 0 if it is another character. */
static size_t fields_blank_at(const char *at)
{
    utf8proc_int32_t code;

    if (*at > ' ' && *at < 0x7f) /* fast path */
        return 0;
    utf8proc_ssize_t size = utf8proc_iterate((const utf8proc_uint8_t *)at, -1, &code);
    utf8proc_category_t category = size > 0 ? utf8proc_category(code) : UTF8PROC_CATEGORY_CN;
    bool blank = category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
                 category == UTF8PROC_CATEGORY_ZP ||
                 (size > 0 && ((code >= '\t' && code <= '\r') || code == 0x85 || code == 0xfeff));

    return blank ? (size_t)size : 0;
}

char *device_trimmed(struct bb_request *rq, const char *text)
{
    for (size_t size; (size = fields_blank_at(text)) > 0;)
        text += size;
    size_t length = strlen(text), last = length;

    while (last > 0) {
        while (last > 0 && ((unsigned char)text[--last] & 0xc0) == 0x80) /* inside a character */
            continue;
        if (last + fields_blank_at(text + last) < length)
            break;
        length = last;
    }
    char *trimmed = bb_alloc(rq, length + 1);

    return memcpy(trimmed, text, length);
}

/* Formats a JSON number as a decimal without an exponent. */
static char *fields_decimal(struct bb_request *rq, const json_t *value)
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

/* Sets *problem if the trimmed name is empty or too long, or has control characters. */
static void fields_name_check(const char *name, const char **problem)
{
    size_t characters = 0;

    for (const unsigned char *at = (const unsigned char *)name; *at; at++) {
        characters += (*at & 0xc0) != 0x80;
        if (*at < 0x20 || *at == 0x7f || (*at == 0xc2 && at[1] < 0xa0)) /* C0, DEL, C1 */
            *problem = "must not have control characters";
    }
    if (!characters || characters > NAME_MAX_CHARACTERS)
        *problem = characters ? "must be at most 255 characters" : "must not be blank";
}

/*
 * Returns the text in Unicode NFC, either `text` itself or a copy. Sets *problem if it has control
 * or invisible characters, so that no device is registered twice under ids that look the same.
 */
static const char *fields_normal_form(struct bb_request *rq, const char *text, const char **problem)
{
    const utf8proc_uint8_t *bytes = (const utf8proc_uint8_t *)text;
    utf8proc_int32_t code;
    utf8proc_ssize_t size;
    bool ascii = true;

    for (const utf8proc_uint8_t *at = bytes; *at && !*problem; at += size) {
        size = 1;
        if (*at > ' ' && *at < 0x7f) /* fast path */
            continue;
        ascii = ascii && *at < 0x80;
        size = utf8proc_iterate(at, -1, &code);
        const utf8proc_property_t *property = utf8proc_get_property(code);
        utf8proc_propval_t category = property->category;

        if (size <= 0)
            *problem = "must be UTF-8";
        else if (property->ignorable || code == BRAILLE_BLANK)
            *problem = "must not have invisible characters or marks of direction";
        else if (category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_ZL ||
                 category == UTF8PROC_CATEGORY_ZP)
            *problem = "must not have control characters";
    }
    if (*problem || ascii)
        return text;
    utf8proc_uint8_t *normal = utf8proc_NFC(bytes);

    if (!normal)
        bb_alloc(rq, SIZE_MAX); /* ends the request: out of memory */
    bb_defer(rq, free, normal);
    return (const char *)normal;
}

static const char *fields_external_id(struct bb_request *rq, const json_t *value,
                                      const char **problem)
{
    if (!json_is_number(value) && !json_is_string(value)) {
        *problem = "must be a string";
        return NULL;
    }
    const char *sent = json_is_string(value) ? json_string_value(value) : fields_decimal(rq, value);
    const char *id = fields_normal_form(rq, device_trimmed(rq, sent), problem);

    if (*problem)
        return NULL;
    fields_name_check(id, problem);
    /* Browsers and proxies remove dots from a path, and `my` is the path of the list of devices. */
    if (!*problem && (!strcmp(id, ".") || !strcmp(id, "..") || !strcasecmp(id, "my")))
        *problem = "must not be \".\", \"..\" or \"my\", because these cannot be used in a path";
    return id;
}

double device_number(const char *text, const char *characters)
{
    char *end;

    errno = 0;
    double number = strtod(text, &end);

    /* errno is also set for the smallest numbers above 0, which PostgreSQL stores */
    bool wrong = isinf(number) || (errno && number == 0);

    return *end || wrong || text[strspn(text, characters)] || end == text ? NAN : number;
}

static const char *fields_degrees(struct bb_request *rq, const json_t *value, double most,
                                  const char **problem)
{
    const char *text = json_string_value(value);

    if (text)
        text = device_trimmed(rq, text);
    if (json_is_number(value))
        text = fields_decimal(rq, value);
    double degrees =
        text && strlen(text) <= DEGREES_MAX_LENGTH ? device_number(text, DIGITS "+-.") : NAN;

    if (isnan(degrees))
        *problem = "must be decimal degrees, as in \"52.52\"";
    else if (fabs(degrees) > most)
        *problem = most > 90 ? "must be between -180 and 180" : "must be between -90 and 90";
    return text;
}

/*
 * Accepts a date, or an ISO 8601 date and time; keeps the date as it is written, without the time.
 * A date is in the future only if it has not begun anywhere on Earth.
 */
static const char *fields_date(struct bb_request *rq, const char *text, const char **problem)
{
    char *day = device_trimmed(rq, text);
    struct bb_moment moment;

    if (bb_moment_parse(day, &moment))
        *problem = "must be a date, YYYY-MM-DD";
    else if (strncmp(day, bb_time_text(rq, bb_wall_ms(rq->host) + AHEAD_MS), 10) > 0)
        *problem = "must not be in the future";
    else
        day[10] = '\0';
    return day;
}

static const char *fields_value(struct bb_request *rq, enum device_field field, const json_t *value,
                                const char **problem)
{
    const struct device *device = rq->state;
    const char *text = json_string_value(value);
    const char *codes[2];
    char *code;
    int country;

    switch (field) {
    case DEVICE_EXTERNAL_ID:
        return fields_external_id(rq, value, problem);
    case DEVICE_COUNTRY_CODE:
        code = device_trimmed(rq, text);
        country = country_find(code);
        if (country < 0 && device_country_codes(rq, code, codes))
            return codes[0];
        if (country < 0)
            *problem = "must be a country: its ISO 3166-1 code of two or three letters, such as DE "
                       "or DEU, or its English name, such as Germany";
        for (char *at = code; *at; at++)
            *at = (char)toupper((unsigned char)*at);
        return code;
    case DEVICE_COMMISSIONING_DATE:
        return fields_date(rq, text, problem);
    case DEVICE_CAPACITY:
    case DEVICE_YIELD_VALUE:
        if (json_number_value(value) <= 0)
            *problem = "must be greater than 0";
        return bb_format(rq, "%.17g", json_number_value(value));
    case DEVICE_ADDRESS:
        return text;
    case DEVICE_LATITUDE:
        return fields_degrees(rq, value, 90, problem);
    case DEVICE_LONGITUDE:
        return fields_degrees(rq, value, 180, problem);
    case DEVICE_TIMEZONE:
        text = device_trimmed(rq, text);
        if (!zones_find(&device->zones, text))
            *problem = "must be a time zone of the IANA list, such as Europe/Berlin";
        return text;
    default:
        fields_name_check(text, problem);
        return text;
    }
}

/* ---- the whole body ---- */

static bool is_attribute(const char *name)
{
    /* fields of responses; they are not attributes, so that a client may send a response back */
    static const char *const own[] = {"id",        "uuid",     "documents",     "createdAt",
                                      "updatedAt", "warnings", "warningDetails"};

    for (size_t i = 0; i < DEVICE_BODY_FIELDS; i++)
        if (!strcmp(device_fields[i].name, name))
            return false;
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        if (!strcmp(own[i], name))
            return false;
    return true;
}

static void fields_problem(struct bb_request *rq, json_t *errors, const char *field,
                           const char *text)
{
    bb_push(rq, errors, json_pack("{s:s, s:s}", "field", field, "problem", text));
}

/*
 * Checks the fields by the host's rules for bodies, and appends problems to `errors`. Returns a new
 * object with the valid fields, or NULL if out of memory.
 */
static json_t *fields_check(struct bb_request *rq, json_t *object, json_t *errors)
{
    struct bb_field fields[DEVICE_BODY_FIELDS];
    const struct bb_table table = {fields, DEVICE_BODY_FIELDS, sizeof(fields[0])};
    const json_t *error;
    size_t i;

    for (i = 0; i < DEVICE_BODY_FIELDS; i++) {
        fields[i] = device_fields[i];
        fields[i].flags &= ~(unsigned)BB_AS_SENT;
    }
    json_t *checked = bb_check(rq, &table, object, errors);

    if (checked || json_array_size(errors) == 0)
        return checked; /* cppcheck-suppress returnDanglingLifetime; a new object */
    json_t *valid = json_copy(object);

    json_array_foreach (errors, i, error)
        json_object_del(valid, json_string_value(json_object_get(error, "field")));
    checked = valid ? bb_check(rq, &table, valid, errors) : NULL;
    json_decref(valid);
    return checked;
}

static void fields_read_attributes(struct bb_request *rq, json_t *object, const json_t *checked,
                                   struct device_values *values, json_t *errors)
{
    const json_t *given = json_object_get(checked, "attributes");
    json_t *others = bb_hold(rq, json_is_object(given) ? json_deep_copy(given) : json_object());
    json_t *nulls = bb_hold(rq, json_array()), *value;
    const char *name;
    void *next;
    size_t length = 0;

    json_object_foreach (object, name, value) {
        if (!json_object_get(checked, name) && is_attribute(name))
            bb_set(rq, others, name, json_incref(value));
    }
    json_object_foreach_safe(others, next, name, value)
    {
        if (json_is_null(value)) {
            bb_push(rq, nulls, json_string(name));
            json_object_del(others, name);
        }
    }
    values->null_attributes = json_array_size(nulls) ? bb_json(rq, nulls, NULL) : NULL;
    values->clear_attributes = json_is_null(given);
    values->attributes = json_object_size(others) ? bb_json(rq, others, &length) : NULL;
    if (length > DEVICE_ATTRIBUTES_MAX)
        fields_problem(rq, errors, "attributes", DEVICE_ATTRIBUTES_LONG);
}

void device_read(struct bb_request *rq, json_t *object, bool whole, struct device_values *values,
                 json_t *errors)
{
    /* held, because `values` points to texts of `checked` */
    json_t *checked = bb_hold(rq, fields_check(rq, object, errors));
    bool named = false; /* a name was sent, even if it has an error */

    *values = (struct device_values){
        .organization = json_integer_value(json_object_get(checked, "organizationId")),
        .status = json_string_value(json_object_get(checked, "status")),
    };
    for (enum device_field field = 0; field < DEVICE_FIELDS; field++) {
        const json_t *value = json_object_get(checked, device_fields[field].name);
        const char *wrong = NULL;

        if (field == DEVICE_EXTERNAL_ID || field == DEVICE_SITE_NAME ||
            field == DEVICE_SERIAL_NUMBER) {
            const json_t *sent = json_object_get(object, device_fields[field].name);

            named = named || (sent && !json_is_null(sent));
        }
        values->cleared[field] = json_is_null(value);
        if (value && !json_is_null(value))
            values->text[field] = fields_value(rq, field, value, &wrong);
        if (wrong)
            fields_problem(rq, errors, device_fields[field].name, wrong);
    }
    if (!whole && json_is_null(json_object_get(checked, "status")))
        fields_problem(rq, errors, "status", "must not be null");
    if (whole && !named)
        fields_problem(rq, errors, "externalId", DEVICE_UNNAMED);
    fields_read_attributes(rq, object, checked, values, errors);
}

/* Returns whether a code is the prefix followed by `least` to `most` digits. */
static bool is_code(const char *code, const char *prefix, size_t least, size_t most)
{
    size_t length = strlen(prefix);

    if (strncmp(code, prefix, length) != 0)
        return false;
    size_t digits = strspn(code + length, DIGITS);

    return !code[length + digits] && digits >= least && digits <= most;
}

const char *device_unlikely(enum device_field field, const char *text)
{
    if (!text)
        return NULL;
    if (field == DEVICE_CAPACITY && strtod(text, NULL) > LARGE_KW)
        return "is in kW, and this value is large; were watts sent?";
    if (field == DEVICE_FUEL_CODE && !is_code(text, "ES", 3, 3))
        return "is not ES and three digits";
    if (field == DEVICE_TYPE_CODE && !is_code(text, "TC", 3, 3) && !is_code(text, "T0", 4, 5))
        return "is not TC and three digits, nor T0 and four or five";
    return NULL;
}

struct device_values device_read_body(struct bb_request *rq, bool whole)
{
    json_t *errors = bb_hold(rq, json_array());
    struct device_values values;

    device_read(rq, bb_body(rq), whole, &values, errors);
    if (json_array_size(errors))
        bb_end(rq, bb_refuse(rq, json_incref(errors)));
    if (!values.organization)
        values.organization = bb_arg_int(rq, "organizationId", 0);
    for (enum device_field field = 0; field < DEVICE_FIELDS; field++) {
        const char *warning = device_unlikely(field, values.text[field]);

        if (warning)
            bb_warn(rq, "%s: %s", device_fields[field].name, warning);
    }
    return values;
}
