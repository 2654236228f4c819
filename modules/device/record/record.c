/* A device in the database and in the API. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "modules/device/record/device.h"

int device_scope(struct bb_request *rq, int64_t asked, struct device_scope *scope)
{
    const struct bb_principal *who = rq->principal;
    int64_t organization;
    int refused = bb_organization(rq, asked, &organization);

    if (refused)
        return refused;
    *scope = (struct device_scope){
        .all = who->role == BB_ROLE_ADMIN && !organization,
        .organizations = who->organizations,
        .count = who->organization_count,
    };
    if (!organization)
        return 0;
    scope->organizations =
        memcpy(bb_alloc(rq, sizeof(organization)), &organization, sizeof(organization));
    scope->count = 1;
    return 0;
}

int device_home(struct bb_request *rq, int64_t asked, int64_t *organization)
{
    const struct bb_principal *who = rq->principal;
    int refused = bb_organization(rq, asked, organization);

    if (refused || *organization)
        return refused;
    *organization = who->organization;
    if (who->role == BB_ROLE_API_USER && who->organization_count > 1)
        return bb_invalid(rq, "organizationId", "is required: you act for several organizations");
    if (!*organization && who->organization_count == 1)
        *organization = who->organizations[0];
    return *organization ? 0 : bb_fail(rq, 403, "Your account belongs to no organization");
}

/* The part that the payloads have in common. The caller owns it; NULL: out of memory. */
static json_t *descriptor(const struct device_record *record)
{
    return json_pack("{s:I, s:s, s:s?, s:s?, s:s?, s:I}", "id", (json_int_t)record->id, "uuid",
                     record->uuid, "externalId", record->text[DEVICE_EXTERNAL_ID], "siteName",
                     record->text[DEVICE_SITE_NAME], "serialNumber",
                     record->text[DEVICE_SERIAL_NUMBER], "organizationId",
                     (json_int_t)record->organization);
}

int device_emit(struct bb_request *rq, struct bb_tx *tx, const char *name,
                const struct device_record *record)
{
    struct bb_audience audience = {.size = sizeof(audience), .organization = record->organization};

    return bb_emit(rq, tx, name, json_pack("{s:o}", "device", descriptor(record)), &audience);
}

/* `changed` has the names of the fields that were sent. */
int device_emit_updated(struct bb_request *rq, struct bb_tx *tx, const struct device_record *record,
                        const struct device_values *values, bool documents)
{
    struct bb_audience audience = {.size = sizeof(audience), .organization = record->organization};
    json_t *changed = json_array();

    for (enum device_field field = 0; field < DEVICE_FIELDS; field++)
        if (values->text[field] || values->cleared[field])
            json_array_append_new(changed, json_string(device_field_name(field)));
    if (values->attributes || values->null_attributes || values->clear_attributes)
        json_array_append_new(changed, json_string("attributes"));
    if (values->status)
        json_array_append_new(changed, json_string("status"));
    if (documents)
        json_array_append_new(changed, json_string("documents"));
    return bb_emit(rq, tx, "device.updated",
                   json_pack("{s:o, s:o}", "device", descriptor(record), "changed", changed),
                   &audience);
}

int device_failed(struct bb_request *rq)
{
    if (!strcmp(bb_constraint(rq), "device_external_key"))
        return bb_fail(rq, 409, DEVICE_TAKEN);
    if (!strcmp(bb_constraint(rq), "device_attributes_size"))
        return bb_invalid(rq, "attributes", DEVICE_ATTRIBUTES_LONG);
    return bb_failed(rq);
}

struct device_record device_facts_of(struct bb_request *rq, const struct bb_rows *rows, size_t row)
{
    struct device_record record = {
        .id = bb_cell_int(rq, rows, row, 0),
        .uuid = bb_cell(rq, rows, row, 1),
        .organization = bb_cell_int(rq, rows, row, 2),
    };

    for (enum device_field field = 0; field < DEVICE_FIELDS; field++)
        record.text[field] = bb_cell(rq, rows, row, 3 + field);
    record.status = bb_cell(rq, rows, row, 3 + DEVICE_FIELDS);
    return record;
}

struct device_record device_record_of(struct bb_request *rq, const struct bb_rows *rows, size_t row)
{
    struct device_record record = device_facts_of(rq, rows, row);

    record.attributes = bb_cell(rq, rows, row, DEVICE_FACT_COUNT);
    record.documents = bb_cell(rq, rows, row, DEVICE_FACT_COUNT + 1);
    record.created_at = bb_cell(rq, rows, row, DEVICE_FACT_COUNT + 2);
    record.updated_at = bb_cell(rq, rows, row, DEVICE_FACT_COUNT + 3);
    return record;
}

json_t *device_facts_json(const struct device_record *record)
{
    json_t *json = json_pack("{s:I, s:s}", "id", (json_int_t)record->id, "uuid", record->uuid);
    int failed = json ? 0 : -1;

    for (enum device_field field = 0; field < DEVICE_FIELDS; field++) {
        const char *text = record->text[field];
        json_t *value = !text                                    ? json_null()
                        : device_fields[field].type == BB_NUMBER ? json_real(strtod(text, NULL))
                                                                 : json_string(text);

        failed |= json_object_set_new(json, device_field_name(field), value);
    }
    failed |= json_object_set_new(json, "organizationId", json_integer(record->organization));
    failed |= json_object_set_new(json, "status", json_string(record->status));
    if (!failed)
        return json;
    json_decref(json);
    return NULL;
}

/* ---- attributes ---- */

static bool is_huge(const char *number, size_t length)
{
    errno = 0;
    strtoll(number, NULL, 10);
    return errno == ERANGE && !memchr(number, '.', length);
}

/* Returns the length of a string with its quotes. */
static size_t string_length(const char *text)
{
    const char *at = text + 1;

    for (; *at && *at != '"'; at++)
        at += *at == '\\' && at[1];
    return (size_t)(at + (*at != '\0') - text);
}

/*
 * Adds an exponent to each whole number that exceeds 64 bits. The caller must free() the result;
 * NULL: out of memory.
 */
static char *with_exponents(const char *text)
{
    char *copy = malloc(2 * strlen(text) + 1), *out = copy;

    while (copy && *text) {
        size_t length = strspn(text, "-0123456789.");
        bool huge = length && is_huge(text, length);

        if (!length)
            length = *text == '"' ? string_length(text) : 1;
        memcpy(out, text, length);
        out += length;
        text += length;
        if (huge) {
            memcpy(out, "e0", 2);
            out += 2;
        }
    }
    if (copy)
        *out = '\0';
    return copy;
}

/* The number of digits of 2^63, 9223372036854775808, the lowest number that exceeds an integer. */
enum { HUGE_DIGITS = 19 };

/*
 * Returns whether the text has that many consecutive digits. Looks at one of every HUGE_DIGITS
 * characters.
 */
static bool may_be_huge(const char *text, size_t length)
{
    for (size_t i = HUGE_DIGITS - 1; i < length; i += HUGE_DIGITS) {
        size_t from = i, to = i;

        while (isdigit((unsigned char)text[to]))
            to++;
        while (to > i && from > 0 && isdigit((unsigned char)text[from - 1]))
            from--;
        if (to - from >= HUGE_DIGITS)
            return true;
    }
    return false;
}

const char *device_attributes_text(struct bb_request *rq, const char *text)
{
    if (!may_be_huge(text, strlen(text)))
        return text;
    char *real = with_exponents(text);

    if (real)
        bb_defer(rq, free, real);
    return real;
}

/* jsonb prints a number such as 1e30 with all its digits; only such numbers become reals again. */
json_t *device_parsed(struct bb_request *rq, const char *text)
{
    const char *real = device_attributes_text(rq, text);

    return real ? bb_json_read(rq, real) : NULL;
}

/* The database's text has blanks, which do not count. */
int device_attributes_check(struct bb_request *rq, const char *attributes)
{
    size_t length = strlen(attributes);

    if (length <= DEVICE_ATTRIBUTES_MAX)
        return 0;
    json_t *json = device_parsed(rq, attributes);
    const char *text = json ? bb_json(rq, json, &length) : NULL;

    json_decref(json);
    if (!text)
        return bb_no_memory(rq);
    return length <= DEVICE_ATTRIBUTES_MAX ? 0
                                           : bb_invalid(rq, "attributes", DEVICE_ATTRIBUTES_LONG);
}

/* ---- the whole device ---- */

json_t *device_json(struct bb_request *rq, const struct device_record *record)
{
    json_t *json = device_facts_json(record);
    int failed = json_object_set_new(json, "attributes", device_parsed(rq, record->attributes));

    failed |= json_object_set_new(json, "documents", device_parsed(rq, record->documents));
    failed |= json_object_set_new(json, "createdAt", json_string(record->created_at));
    failed |= json_object_set_new(json, "updatedAt", json_string(record->updated_at));
    if (!failed)
        return json;
    json_decref(json);
    return NULL;
}

const char *device_text(struct bb_request *rq, const struct device_record *record)
{
    size_t length = 0;
    json_t *json = device_facts_json(record);
    const char *facts = json ? bb_json(rq, json, &length) : NULL;
    const char *attributes = device_attributes_text(rq, record->attributes);

    json_decref(json);
    if (!facts || !attributes)
        return NULL;
    const char *const tail[] = {",\"attributes\":",    attributes,          ",\"documents\":",
                                record->documents,     ",\"createdAt\":\"", record->created_at,
                                "\",\"updatedAt\":\"", record->updated_at,  "\"}"};
    size_t room = length;

    for (size_t i = 0; i < sizeof(tail) / sizeof(tail[0]); i++)
        room += strlen(tail[i]);
    char *text = bb_alloc(rq, room), *at = text + length - 1; /* replaces the closing brace */

    memcpy(text, facts, length - 1);
    for (size_t i = 0; i < sizeof(tail) / sizeof(tail[0]); i++)
        at = stpcpy(at, tail[i]);
    return text;
}

int device_reply_texts(struct bb_request *rq, const char *const *texts, size_t count)
{
    size_t room = 3;

    for (size_t i = 0; i < count; i++)
        room += strlen(texts[i]) + 1;
    char *array = bb_alloc(rq, room), *at = stpcpy(array, "[");

    for (size_t i = 0; i < count; i++) {
        at = stpcpy(at, i ? "," : "");
        at = stpcpy(at, texts[i]);
    }
    stpcpy(at, "]");
    return bb_reply_bytes(rq, 200, "application/json; charset=utf-8", array,
                          (size_t)(at + 1 - array));
}
