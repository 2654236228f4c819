/* The fields of a device's body, and reading them into texts. The table is hand-formatted. */
#include <stdlib.h>
#include <string.h>

#include "modules/device/record/device.h"

// clang-format off

/* The host passes the fields on as they were sent, so that one response can name all errors. */
#define OPTIONAL (BB_AS_SENT | BB_NULLABLE | BB_CLEARS)

static const char *const states[] = {"Active", "Inactive", NULL};

const struct bb_field device_fields[DEVICE_BODY_FIELDS] = {
    {.name = "externalId", .type = BB_ANY, .flags = OPTIONAL, .example = "PLANT-7",
     .help = "Your own identifier of the device, 1 to 255 characters. Unique in the organization, "
             "ignoring case. A number is taken as its digits."},
    {.name = "siteName", .type = BB_TEXT, .flags = OPTIONAL | BB_NOT_BLANK, .max = 255,
     .alias = "projectName", .help = "Name of the site.", .example = "Rooftop 7"},
    {.name = "countryCode", .type = BB_TEXT, .flags = OPTIONAL, .max = 100,
     .help = "ISO 3166-1 code of two or three letters, or the country's English name, in upper or "
             "lower case. A name is stored as the code of two letters.", .example = "DE"},
    {.name = "commissioningDate", .type = BB_TEXT, .flags = OPTIONAL, .max = 40,
     .help = "YYYY-MM-DD, or the date of an ISO 8601 date-time; not in the future.",
     .example = "2024-05-01"},
    {.name = "capacity", .type = BB_NUMBER, .flags = OPTIONAL, .max = 10000000,
     .help = "In kW, above 0. Above 5,000 the response has a warning, because W may have been "
             "meant.", .example = "9.9"},
    {.name = "address", .type = BB_TEXT, .flags = OPTIONAL, .max = 1000,
     .help = "Postal address."},
    {.name = "latitude", .type = BB_ANY, .flags = OPTIONAL, .min = -90, .max = 90, .example = "52.5200",
     .help = "Decimal degrees from -90 to 90, as a string or a number. Returned as a string, "
             "exactly as sent."},
    {.name = "longitude", .type = BB_ANY, .flags = OPTIONAL, .min = -180, .max = 180, .example = "13.4050",
     .help = "Decimal degrees from -180 to 180, like latitude."},
    {.name = "fuelCode", .type = BB_TEXT, .flags = OPTIONAL | BB_NOT_BLANK, .max = 64,
     .help = "Usually ES and three digits. Any other code is stored with a warning.",
     .example = "ES100"},
    {.name = "deviceTypeCode", .type = BB_TEXT, .flags = OPTIONAL | BB_NOT_BLANK, .max = 64,
     .help = "Usually TC and three digits, or T0 and four or five digits. Any other code is "
             "stored with a warning.",
     .example = "TC110"},
    {.name = "serialNumber", .type = BB_TEXT, .flags = OPTIONAL | BB_NOT_BLANK, .max = 255,
     .help = "Serial number. It does not have to be unique.", .example = "SN-4711"},
    {.name = "timezone", .type = BB_TEXT, .flags = OPTIONAL, .max = 64,
     .help = "IANA time zone. Default: the time zone of the first reading that names one.",
     .example = "Europe/Berlin"},
    {.name = "yieldValue", .type = BB_NUMBER, .flags = OPTIONAL, .min = 1, .max = 4000,
     .help = "Expected yield in kWh per kW and year. Default: the yield of the country, or of the "
             "service."},
    {.name = "organizationId", .type = BB_INT, .flags = BB_AS_SENT | BB_NULLABLE, .min = 1, .max = INT64_MAX,
     .help = "The organization you act in. It never moves a device to another one."},
    {.name = "attributes", .type = BB_OBJECT, .flags = OPTIONAL,
     .help = "Any other data, at most 32 KiB. Unknown fields of the body are added to it."},
    {.name = "status", .type = BB_CHOICE, .flags = OPTIONAL, .choices = states,
     .help = "Inactive: the device no longer generates. Readings are refused, and lists leave it "
             "out."},
};

// clang-format on

/* Fields of a response. A client may send a response back, so these names are not attributes. */
static const char *const own_names[] = {"id",        "uuid",     "documents", "createdAt",
                                        "updatedAt", "warnings", NULL};

const char *device_field_name(enum device_field field)
{
    return device_fields[field].name;
}

static bool is_attribute(const char *name)
{
    for (size_t i = 0; i < DEVICE_BODY_FIELDS; i++)
        if (!strcmp(device_fields[i].name, name))
            return false;
    for (size_t i = 0; own_names[i]; i++)
        if (!strcmp(own_names[i], name))
            return false;
    return true;
}

static int problem(json_t *errors, const char *field, const char *text)
{
    return json_array_append_new(errors, json_pack("{s:s, s:s}", "field", field, "problem", text));
}

/*
 * Checks all fields at once, which is the common case without errors. Returns NULL if a field has
 * an error.
 */
static json_t *check_all(struct bb_request *rq, json_t *object)
{
    struct bb_field fields[DEVICE_BODY_FIELDS];
    const struct bb_table table = {fields, DEVICE_BODY_FIELDS, sizeof(fields[0])};
    json_t *errors = json_array();

    for (size_t i = 0; i < DEVICE_BODY_FIELDS; i++) {
        fields[i] = device_fields[i];
        fields[i].flags &= ~(unsigned)BB_AS_SENT;
    }
    json_t *checked = errors ? bb_check(rq, &table, object, errors) : NULL;

    json_decref(errors);
    return checked;
}

/*
 * Checks each field separately, as the host checks a body. Returns a new object with the valid
 * fields; NULL: out of memory.
 */
static json_t *check_fields(struct bb_request *rq, json_t *object, json_t *errors)
{
    json_t *all = check_all(rq, object);

    if (all)
        return all;
    all = json_object();

    for (size_t i = 0; i < DEVICE_BODY_FIELDS && all; i++) {
        struct bb_field field = device_fields[i];
        const struct bb_table table = {&field, 1, sizeof(field)};
        json_t *value = json_object_get(object, field.name);
        size_t before = json_array_size(errors);

        if (!value)
            continue;
        field.flags &= ~(unsigned)BB_AS_SENT;
        json_t *one = json_pack("{s:O}", field.name, value);
        json_t *checked = one ? bb_check(rq, &table, one, errors) : NULL;
        bool lost =
            checked ? json_object_update(all, checked) != 0 : json_array_size(errors) == before;

        json_decref(one);
        json_decref(checked);
        if (lost) {
            json_decref(all);
            all = NULL;
        }
    }
    return all;
}

/* Returns an object of all attributes, owned by the caller; NULL: out of memory. */
static json_t *gather(json_t *object, const json_t *checked)
{
    const json_t *given = json_object_get(checked, "attributes");
    json_t *others = json_is_object(given) ? json_deep_copy(given) : json_object();
    const char *name;
    json_t *value;

    json_object_foreach(object, name, value)
    {
        if (!is_attribute(name))
            continue;
        if (json_object_set(others, name, value)) {
            json_decref(others);
            return NULL;
        }
    }
    return others;
}

static int read_attributes(struct bb_request *rq, json_t *object, const json_t *checked,
                           struct device_values *values, json_t *errors)
{
    json_t *others = gather(object, checked), *nulls, *value;
    const char *name;
    void *next;
    size_t length = 0;

    if (!others)
        return -1;
    nulls = json_array();
    json_object_foreach_safe(others, next, name, value)
    {
        if (json_is_null(value) && !json_array_append_new(nulls, json_string(name)))
            json_object_del(others, name);
    }
    values->null_attributes = json_array_size(nulls) ? bb_json(rq, nulls, &length) : NULL;
    values->clear_attributes = json_is_null(json_object_get(checked, "attributes"));
    length = 0;
    values->attributes = json_object_size(others) ? bb_json(rq, others, &length) : NULL;
    json_decref(nulls);
    json_decref(others);
    if (length <= DEVICE_ATTRIBUTES_MAX)
        return 0;
    return problem(errors, "attributes", DEVICE_ATTRIBUTES_LONG);
}

/* A name with an error counts too. */
static bool is_named(const json_t *object)
{
    static const enum device_field names[] = {DEVICE_EXTERNAL_ID, DEVICE_SITE_NAME,
                                              DEVICE_SERIAL_NUMBER};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const json_t *name = json_object_get(object, device_field_name(names[i]));

        if (name && !json_is_null(name))
            return true;
    }
    return false;
}

int device_read(struct bb_request *rq, json_t *object, bool whole, struct device_values *values,
                json_t *errors)
{
    /* held because the values point to its texts */
    json_t *checked = bb_json_hold(rq, check_fields(rq, object, errors));

    if (!checked)
        return -1;
    *values = (struct device_values){
        .organization = json_integer_value(json_object_get(checked, "organizationId")),
        .status = json_string_value(json_object_get(checked, "status")),
    };
    for (enum device_field field = 0; field < DEVICE_FIELDS; field++) {
        const json_t *value = json_object_get(checked, device_field_name(field));
        const char *wrong = NULL;

        values->cleared[field] = json_is_null(value);
        if (value && !json_is_null(value))
            values->text[field] = device_value(rq, field, value, &wrong);
        if (wrong && problem(errors, device_field_name(field), wrong))
            return -1;
    }
    if (!whole && json_is_null(json_object_get(checked, "status")) &&
        problem(errors, "status", "must not be null"))
        return -1;
    if (whole && !is_named(object) && problem(errors, "externalId", DEVICE_UNNAMED))
        return -1;
    return read_attributes(rq, object, checked, values, errors);
}

/* ---- values that are valid but so unlikely that the sender should check them ---- */

#define LARGE_KW 5000

static size_t digits(const char *text)
{
    return strspn(text, "0123456789");
}

static bool fuel_usual(const char *code)
{
    return !strncmp(code, "ES", 2) && strlen(code) == 5 && digits(code + 2) == 3;
}

static bool type_usual(const char *code)
{
    size_t length = strlen(code);

    if (!strncmp(code, "TC", 2))
        return length == 5 && digits(code + 2) == 3;
    return !strncmp(code, "T0", 2) && (length == 6 || length == 7) &&
           digits(code + 2) == length - 2;
}

void device_find_unlikely(const char *const text[DEVICE_FIELDS],
                          void (*warn)(void *arg, enum device_field field, const char *warning),
                          void *arg)
{
    const char *capacity = text[DEVICE_CAPACITY];
    const char *fuel = text[DEVICE_FUEL_CODE];
    const char *type = text[DEVICE_TYPE_CODE];

    if (capacity && strtod(capacity, NULL) > LARGE_KW)
        warn(arg, DEVICE_CAPACITY, "is in kW, and this is much; were watts sent?");
    if (fuel && !fuel_usual(fuel))
        warn(arg, DEVICE_FUEL_CODE, "is not ES and three digits");
    if (type && !type_usual(type))
        warn(arg, DEVICE_TYPE_CODE, "is not TC and three digits, nor T0 and four or five");
}

static void warn_caller(void *arg, enum device_field field, const char *warning)
{
    bb_warn(arg, "%s: %s", device_field_name(field), warning);
}

int device_read_body(struct bb_request *rq, bool whole, struct device_values *values)
{
    json_t *errors = json_array();
    int failed = errors ? device_read(rq, bb_body(rq), whole, values, errors) : -1;

    if (!failed && json_array_size(errors))
        return bb_refuse(rq, errors);
    json_decref(errors);
    if (failed)
        return bb_no_memory(rq);
    if (!values->organization)
        values->organization = bb_arg_int(rq, "organizationId", 0);
    device_find_unlikely(values->text, warn_caller, rq);
    return 0;
}
