/*
 * The audit log: who asked for which change, from where, when, and with which outcome (see
 * bb_audit()). A row of audit_request is committed before the handler runs, and a row of
 * audit_outcome with the status is written afterwards. If the host dies in between, the outcome
 * stays unknown. Triggers refuse changes of both tables; the job audit.partitions drops the
 * partitions of old months.
 */
#include <stdio.h>

#include "modules/audit/schema.h"
#include "modules/common/csv.h"
#include "modules/common/pieces.h"
#include "modules/common/tables.h"

enum {
    FIELDS_MAX = 4096, /* bytes of the JSON of a body's values */
    SEARCH_MAX = 4096, /* bytes of the JSON of a search */
    PATH_MAX_BYTES = 2048,
    EXPORT_PAGE = 500
};

struct audit_settings {
    int64_t retention_days;
};

/* The module's state: the slots that limit the exports in progress. */
static int audit_open(struct bb_host *host, void **state)
{
    *state = slots_new(host, 8, 2, "exports"); /* 8 on the host, 2 per account */
    return *state ? 0 : bb_open_fail(host, "out of memory");
}

static void audit_close(struct bb_host *host, void *state)
{
    (void)host;
    slots_free(state);
}

/* ---- the body of a request ---- */

static json_t *audit_members(struct bb_request *rq, const struct bb_table *fields, json_t *given,
                             size_t *room);

/* Returns whether a text looks like an e-mail. Any other user name may be a mistyped password. */
static bool audit_is_email(const char *text)
{
    const char *at = strchr(text, '@');

    return at && at > text && at[1] && !strchr(at + 1, '@') && !strpbrk(text, " \t\r\n") &&
           strlen(text) <= 254; /* the maximum of BB_EMAIL */
}

/* Removes the query of a URL, because it may have secrets. The caller owns the result. */
static json_t *audit_without_query(json_t *value)
{
    const char *text = json_string_value(value);

    return text && strstr(text, "://") ? json_stringn(text, strcspn(text, "?#"))
                                       : json_incref(value);
}

/*
 * Returns the part of a value that is stored. Returns NULL if the value is secret, has undeclared
 * members (they may be secret), is longer than *room bytes, or may be a password typed into the
 * wrong field.
 */
static json_t *audit_value(struct bb_request *rq, const struct bb_field *field, json_t *value,
                           size_t *room)
{
    const struct bb_field *item =
        field->type == BB_LIST && field->fields.count ? field->fields.rows : field;
    const char *text = json_string_value(value);
    json_t *stored = bb_hold(rq, json_is_array(value) ? json_array() : audit_without_query(value));
    size_t length = 0, i;
    json_t *each;

    if (text && !rq->principal && field->flags & BB_VERBATIM && !audit_is_email(text))
        return NULL;
    if ((field->flags | item->flags) & BB_SECRET)
        return NULL;
    if (json_is_object(value))
        return field->type == BB_OBJECT && field->fields.count
                   ? audit_members(rq, &field->fields, value, room)
                   : NULL;
    json_array_foreach (value, i, each) {
        if (json_is_object(each) || json_is_array(each))
            return NULL;
        bb_push(rq, stored, audit_without_query(each));
    }
    bb_json(rq, stored, &length);
    if (length > *room)
        return NULL;
    *room -= length;
    return json_incref(stored);
}

/*
 * Returns an object with the members that are stored. Its member `_omitted` lists the names of
 * other members and, if `given` is the whole body, of files.
 */
static json_t *audit_members(struct bb_request *rq, const struct bb_table *fields, json_t *given,
                             size_t *room)
{
    json_t *stored = bb_hold(rq, json_object()), *omitted = bb_hold(rq, json_array());
    json_t *others = bb_hold(rq, given ? json_copy(given) : json_object()), *other;
    const struct bb_file *file = NULL;
    const char *name;

    for (size_t i = 0; i < fields->count; i++) {
        const struct bb_field *field = BB_ROW(bb_field, *fields, i);
        json_t *value = json_object_get(given, field->name);
        json_t *copy = value ? audit_value(rq, field, value, room) : NULL;

        if (copy)
            bb_set(rq, stored, field->name, copy);
        else if (value)
            bb_push(rq, omitted, json_string(field->name));
        json_object_del(others, field->name);
    }
    for (size_t i = 0; given == bb_body(rq) && (file = bb_file(rq, i)); i++)
        bb_set(rq, others, file->part, json_null());
    json_object_foreach (others, name, other) {
        if (strlen(name) > *room)
            break;
        *room -= strlen(name);
        bb_push(rq, omitted, json_string(name));
    }
    if (json_array_size(omitted))
        bb_set(rq, stored, "_omitted", json_incref(omitted));
    return json_incref(stored);
}

/* ---- the service ---- */

struct record {
    struct bb_host *host;
    int64_t id;
    int status;
};

static int audit_before(void *state, struct bb_request *rq, const struct bb_audited *audited,
                        void **record)
{
    static const struct bb_sql insert = {
        "SELECT audit_write($1::bigint, $2, $3::bigint, $4, $5, $6, $7, $8, $9::jsonb)",
        BB_SQL_WRITE};
    const struct bb_principal *who = rq->principal;
    const struct bb_route *route = audited->route;
    /* Other routes ignore the body's organizationId, which may be the receiver of a share. */
    int64_t asked = route->flags & BB_CREATES ? bb_given_int(rq, "organizationId", 0)
                                              : bb_arg_int(rq, "organizationId", 0);
    int64_t organization = who ? who->organization : 0;
    size_t room = FIELDS_MAX, cut = strnlen(audited->path, PATH_MAX_BYTES);
    json_t *fields = bb_hold(rq, audit_members(rq, &route->body, bb_body(rq), &room));
    const char *email =
        who || (audited->email && audit_is_email(audited->email)) ? audited->email : NULL;

    if (!organization && who && who->organization_count == 1)
        organization = who->organizations[0];
    for (size_t n = 0; who && n < who->organization_count; n++)
        organization = who->organizations[n] == asked ? asked : organization;
    if (asked && who && who->role == BB_ROLE_ADMIN)
        organization = asked;
    while ((audited->path[cut] & 0xC0) == 0x80) /* does not cut a character */
        cut--;
    const struct bb_rows *rows =
        bb_query(rq, &insert,
                 BB_ARGS(who ? bb_i(who->account) : bb_null(), bb_t(email),
                         organization ? bb_i(organization) : bb_null(), bb_t(bb_client_address(rq)),
                         bb_t(route->method), bb_t(route->path),
                         bb_t(bb_format(rq, "%.*s", (int)cut, audited->path)),
                         bb_t(audited->request_id), bb_t(bb_json(rq, fields, NULL))));
    struct record *made = rows ? malloc(sizeof(*made)) : NULL;

    (void)state;
    if (made) {
        *made = (struct record){.host = rq->host, .id = bb_cell_int(rq, rows, 0, 0)};
        *record = made;
        return 0;
    }
    bb_log(rq, BB_WARN, "cannot write to the audit log, request refused: %s", bb_sqlstate(rq));
    return bb_fail(rq, 503, "The audit log cannot be written. Please try again later.");
}

static void record_finish(struct bb_request *rq, void *arg)
{
    static const struct bb_sql insert = {
        "INSERT INTO audit_outcome (id, status) VALUES ($1::bigint, $2::smallint)", BB_SQL_WRITE};
    const struct record *record = arg;

    if (!bb_query(rq, &insert, BB_ARGS(bb_i(record->id), bb_i(record->status))))
        bb_log(rq, BB_WARN, "cannot write the outcome %d of %lld to the audit log: %s",
               record->status, (long long)record->id, bb_sqlstate(rq));
}

static void record_free(void *record, bool whole)
{
    (void)whole; /* false: memory ran out, and the outcome may not be stored */
    free(record);
}

static void audit_after(void *state, void *arg, int status)
{
    struct record *record = arg;

    (void)state;
    record->status = status;
    if (bb_run_then(record->host, record_finish, record_free, record))
        free(record);
}

static const struct bb_auditor auditor = {
    .size = sizeof(auditor), .before = audit_before, .after = audit_after};

/* ---- the job audit.partitions ---- */

static void audit_partitions(struct bb_request *rq)
{
    static const struct bb_sql keep = {"SELECT audit_partitions($1::int)",
                                       BB_SQL_WRITE | BB_SQL_LONG};
    const struct audit_settings *settings = bb_settings(rq->host);

    if (!bb_query(rq, &keep, BB_ARGS(bb_i(settings->retention_days))))
        bb_log(rq, BB_WARN, "cannot change the partitions of the audit log: %s", bb_sqlstate(rq));
}

// clang-format off

/* ---- the list and the export ---- */

#define MEMBER(field, kind, bits, shown, words)                                                    \
    {.name = (field), .type = (kind), .flags = BB_REQUIRED | (bits), .example = (shown),           \
     .help = (words)}
#define AT "2026-04-01T12:00:00.000Z"
#define REQUEST "01a1fdfd-a419-7423-8a51-0d2f3f1c6f11"

/* The fields of a record, in the order of the columns of audit_search(). */
static const struct bb_field record_fields[] = {
    MEMBER("id", BB_INT, 0, "17", "Id of the record. Later records have higher ids."),
    MEMBER("at", BB_TIME, 0, AT, "When the record was written, before the request was handled."),
    MEMBER("account", BB_INT, BB_NULLABLE, "1", "Id of the caller's account; null without a token."),
    MEMBER("email", BB_TEXT, BB_NULLABLE, "admin@example.com",
           "E-mail of the caller; without a token, the e-mail in the request."),
    MEMBER("organization", BB_INT, BB_NULLABLE, "null", "The organization for which the caller acted."),
    MEMBER("address", BB_TEXT, 0, "192.0.2.7", "Address of the client."),
    MEMBER("action", BB_TEXT, 0, "PUT /api/admin/users/:id", "Method and route."),
    MEMBER("path", BB_TEXT, 0, "/api/admin/users/4", "The path with decoded segments, up to 2,048 bytes."),
    MEMBER("requestId", BB_TEXT, 0, REQUEST, "`X-Request-Id`, as in the log of the host."),
    MEMBER("status", BB_INT, BB_NULLABLE, "200", "Status of the response; null if it is not known."),
    MEMBER("fields", BB_OBJECT, 0, "{\"status\":\"Active\",\"role\":\"OrganizationAdmin\"}",
           "Declared fields of the body, up to 4 KiB; URLs without their query. `_omitted` names "
           "values that are not stored: secret, free-form, long or undeclared ones, and files."),
};
static const char *const record_columns[] = {
    "id", "at", "account", "email", "organization", "address", "action", "path", "requestId",
    "status", "fields", NULL};

/* $1 upper bound of the ids, $2 the parameters in FILTERS that were given (an object), $3 limit */
static const struct bb_sql find = {
    "SELECT * FROM audit_search($1::bigint, $2::jsonb, $3::bigint)", BB_SQL_LIST};

struct search {
    int64_t before;
    char given[SEARCH_MAX]; /* JSON, which fits because FILTERS limit the texts */
};

static const char *const outcomes[] = {"succeeded", "refused", "failed", "unknown", NULL};

#define FILTERS                                                                                    \
    {.name = "account", .type = BB_TEXT, .max = 254, .help = "E-mail or id of the caller."},       \
    {.name = "action", .type = BB_TEXT, .max = 100, .help = "Part of the action."},                \
    {.name = "target", .type = BB_TEXT, .max = 200, .help = "Part of the path or the fields."},    \
    {.name = "since", .type = BB_TIME, .help = "Only records since this time."},                   \
    {.name = "until", .type = BB_TIME, .help = "Only records before this time."},                  \
    {.name = "status", .type = BB_CHOICE, .choices = outcomes,                                     \
     .help = "The outcome: succeeded (status below 400), refused (4xx), failed (5xx), unknown."},  \
    QUERY_ORGANIZATION("Only records of this organization, as in `organization`.")

static const struct bb_field export_query[] = {FILTERS};
static const struct bb_field list_query[] = {
    FILTERS,
    {.name = "limit", .type = BB_INT, .min = 1, .max = 200, .fallback = "50", .help = "Records per page."},
    QUERY_AFTER(.type = BB_INT, .min = 1, .max = INT64_MAX),
};

static struct search search_read(struct bb_request *rq)
{
    struct search search = {.before = bb_arg_int(rq, "after", INT64_MAX)};
    json_t *given = bb_hold(rq, json_object());

    for (size_t i = 0; i < sizeof(export_query) / sizeof(export_query[0]); i++) {
        const char *value = bb_arg(rq, export_query[i].name);

        if (value)
            bb_set(rq, given, export_query[i].name, json_string(value));
    }
    snprintf(search.given, sizeof(search.given), "%s", bb_json(rq, given, NULL));
    return search;
}

static int audit_list(struct bb_request *rq)
{
    struct search search = search_read(rq);
    int64_t limit = bb_arg_int(rq, "limit", 0);
    const struct bb_rows *rows = bb_query_or_end(
        rq, &find, BB_ARGS(bb_i(search.before), bb_t(search.given), bb_i(limit + 1)));

    return bb_reply_fields(rq, rows, (size_t)limit, 0, record_fields,
                           sizeof(record_fields) / sizeof(record_fields[0]));
}

static int search_write(struct bb_request *rq, struct csv *csv, void *state)
{
    struct search *search = state;
    const struct bb_rows *rows = bb_query_or_end(
        rq, &find, BB_ARGS(bb_i(search->before), bb_t(search->given), bb_i(EXPORT_PAGE)));
    size_t count = bb_count(rq, rows);

    for (size_t row = 0; row < count; row++) {
        for (size_t i = 0; record_columns[i]; i++)
            csv_text(csv, record_fields[i].type == BB_TIME ? bb_cell_time(rq, rows, row, i)
                                                           : bb_cell(rq, rows, row, i));
        csv_end_row(csv);
    }
    if (count)
        search->before = bb_cell_int(rq, rows, count - 1, 0);
    return count == EXPORT_PAGE;
}

static int audit_export(struct bb_request *rq)
{
    static const struct pieces_source source = {
        .name = "audit-log.csv", .columns = record_columns, .write = search_write};
    struct search search = search_read(rq);

    return pieces_begin_copy(rq, rq->state, &source, &search, sizeof(search));
}

static const struct bb_job jobs[] = {
    {.name = "audit.partitions", .every_s = 3600, .flags = BB_ONCE, .run = audit_partitions},
};

static const struct bb_field settings[] = {
    {.name = "retention_days", .type = BB_INT, .flags = BB_DAYS, .min = 1, .max = 36500,
     .fallback = "400", .bind = BB_BIND(struct audit_settings, retention_days),
     .help = "The records of a month are deleted together, this number of days after the month ends."},
};

static const struct bb_route routes[] = {
    {.method = "GET", .path = "/api/admin/audit-log", .roles = BB_ROLE_ADMIN, .handler = audit_list,
     .query = BB_TABLE(list_query), .reply = BB_ARRAY_OF(record_fields),
     .help = "List the audit log: requests that changed something or tried to, newest first."},
    {.method = "GET", .path = "/api/admin/audit-log/export.csv", .roles = BB_ROLE_ADMIN,
     .handler = audit_export, .query = BB_TABLE(export_query), .reply = CSV_REPLY(
        "id,at,account,email,organization,address,action,path,requestId,status,fields\r\n"
        "17," AT ",1,admin@example.com,,192.0.2.7,PUT /api/admin/users/:id,"
        "/api/admin/users/4," REQUEST ",200,\"{\"\"status\"\": \"\"Active\"\"}\"\r\n"),
     .reply_type = "text/csv",
     .help = "Download the audit log as CSV."},
};

static const struct bb_service_descriptor services[] = {
    {.name = "auditor", .version = 1, .interface = &auditor},
};

BB_EXPORT const struct bb_module busbar_module = {
    BB_MODULE_HEAD("audit", "1.0.0"),
    .help = "The audit log: who changed what, from where, when, and with which outcome.",
    .schema = audit_schema,
    .settings = BB_TABLE(settings),
    .settings_size = sizeof(struct audit_settings),
    .routes = BB_TABLE(routes),
    .services = BB_TABLE(services),
    .jobs = BB_TABLE(jobs),
    .open = audit_open,
    .close = audit_close,
};
