/*
 * The service "bulk rows:Devices": reads rows with device_read(), like request bodies, and checks
 * them against stored devices.
 */
#include "modules/device/rows/rows.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { AT_A_TIME = 500, IN_A_ROW = 50, WAIT_MS = 1000, ORGANIZATION = DEVICE_FIELDS };

static void drop(void *json)
{
    json_decref(json);
}

/* Returns whether the text is a JSON number, such as -0.5e7. */
static bool is_number(const char *text)
{
    static const char digits[] = "0123456789";
    size_t whole;

    text += *text == '-';
    whole = strspn(text, digits);
    if (!whole || (*text == '0' && whole > 1))
        return false;
    text += whole;
    if (*text == '.') {
        whole = strspn(text + 1, digits);
        text += 1 + whole;
    }
    if (whole && (*text == 'e' || *text == 'E')) {
        text += 1 + (text[1] == '+' || text[1] == '-');
        whole = strspn(text, digits);
        text += whole;
    }
    return whole && !*text;
}

/*
 * Converts a cell to JSON: a number if the column is numeric and the text is one, else a string.
 * NULL: out of memory.
 */
static json_t *cell_json(size_t column, const char *text)
{
    const enum bb_type type = device_fields[column].type;

    if ((type != BB_NUMBER && type != BB_INT) || !is_number(text))
        return json_string(text);
    errno = 0;
    bool whole = !strpbrk(text, ".eE");
    long long integer = whole ? strtoll(text, NULL, 10) : 0;
    double real = whole ? 0 : strtod(text, NULL);

    if (errno == ERANGE && (whole || isinf(real)))
        return json_string(text);
    return whole ? json_integer(integer) : json_real(real);
}

static json_t *row_json(struct bb_request *rq, const struct bb_bulk_row *row)
{
    json_t *object = json_object();

    for (size_t i = 0; i <= ORGANIZATION && object; i++) {
        const char *text = row->cells[i] ? device_trimmed(rq, row->cells[i]) : "";

        if (!*text)
            continue;
        if (json_object_set_new(object, device_fields[i].name, cell_json(i, text))) {
            json_decref(object);
            object = NULL;
        }
    }
    return object;
}

static void take_problems(struct bb_request *rq, struct bb_bulk_row *row, const json_t *errors)
{
    const json_t *error;
    size_t i;

    json_array_foreach(errors, i, error)
    {
        bb_bulk_problem(rq, row,
                        bb_format(rq, "%s", json_string_value(json_object_get(error, "field"))),
                        bb_format(rq, "%s", json_string_value(json_object_get(error, "problem"))));
    }
}

/*
 * Returns 1 if the account is not an Admin and acts in exactly one organization, so that in a
 * request it may name any organization without effect; 0 if not, -1 on failure.
 */
static int acts_in_one(struct bb_request *rq, const struct bb_bulk_job *job)
{
    const struct device *device = rq->state;
    struct bb_account_scope scope = {.size = sizeof(scope)};
    int found = job->account
                    ? device->accounts->scope_of(device->accounts_state, rq, job->account, &scope)
                    : 0;

    return found <= 0 ? found : scope.role != BB_ROLE_ADMIN && scope.organization_count == 1;
}

/*
 * Handles rows that name another organization than the upload: like in a request, they are refused,
 * or the name is ignored with a warning.
 */
static int check_homes(struct bb_request *rq, const struct bb_bulk_job *job,
                       const struct device_row *read, size_t count)
{
    int one = -1;

    for (size_t i = 0; i < count; i++) {
        if (!read[i].elsewhere)
            continue;
        if (one < 0)
            one = acts_in_one(rq, job);
        if (one < 0)
            return -1;
        if (one)
            bb_bulk_warn(rq, read[i].row, "organizationId",
                         "is ignored: you have only one organization");
        else
            bb_bulk_problem(rq, read[i].row, "organizationId",
                            bb_format(rq, "must be %lld, as for the bulk upload, or be left out",
                                      (long long)job->organization));
    }
    return 0;
}

struct warned {
    struct bb_request *rq;
    struct bb_bulk_row *row;
};

static void warn(void *arg, enum device_field field, const char *warning)
{
    const struct warned *warned = arg;

    bb_bulk_warn(warned->rq, warned->row, device_field_name(field), warning);
}

static int read_row(struct bb_request *rq, const struct bb_bulk_job *job, struct bb_bulk_row *row,
                    struct device_row *read)
{
    struct device_values values;
    json_t *errors = json_array(), *object = row_json(rq, row);

    bb_defer(rq, drop, errors);
    bb_defer(rq, drop, object);
    if (!errors || !object || device_read(rq, object, true, &values, errors))
        return -1;
    take_problems(rq, row, errors);
    *read = (struct device_row){.row = row,
                                .elsewhere =
                                    values.organization && values.organization != job->organization,
                                .record = {.organization = job->organization}};
    memcpy(read->record.text, values.text, sizeof(read->record.text));
    device_find_unlikely(values.text, warn, &(struct warned){rq, row});
    return 0;
}

/* Waiting for a completion that is signalled already parks until the loop's next turn. Without
 * memory for one, the other requests wait. */
void device_rows_pause(struct bb_request *rq, size_t done)
{
    struct bb_completion *completion = done % IN_A_ROW ? NULL : bb_completion(rq);

    if (!completion)
        return;
    bb_completion_signal(rq->host, completion);
    bb_completion_wait(rq, completion, WAIT_MS);
}

/* Reports which names are taken, and returns all names as the database folds them. */
static const struct bb_sql find_taken = {
    "SELECT " DEVICE_KEY("e.name") ", EXISTS (SELECT FROM device d WHERE " DEVICE_HAS_KEY(
        "e.name") " AND d.external_id IS NOT NULL AND d.organisation = $1::bigint)"
                  " FROM json_array_elements_text($2::json) WITH ORDINALITY AS e (name, n) ORDER "
                  "BY e.n",
    0,
};

/*
 * An export adds an apostrophe before = + - @. An externalId with such an apostrophe is used as it
 * is if a device has exactly that name; otherwise the apostrophe is removed. Returns 0, or -1.
 */
static int take_names_as_sent(struct bb_request *rq, const struct bb_bulk_job *job,
                              struct device_row *read, size_t count)
{
    json_t *names = NULL;
    size_t length, at = 0;

    for (size_t i = 0; i < count; i++) {
        if (!read[i].row->name_as_sent || read[i].row->problems)
            continue;
        if (!names)
            names = bb_json_hold(rq, json_array());
        if (!names || json_array_append_new(
                          names, json_string(device_trimmed(rq, read[i].row->name_as_sent))))
            return -1;
    }
    const char *text = names ? bb_json(rq, names, &length) : NULL;
    const struct bb_rows *taken =
        text ? bb_query(rq, &find_taken, BB_ARGS(bb_i(job->organization), bb_t(text))) : NULL;

    if (!names || !taken)
        return names ? -1 : 0;
    for (size_t i = 0; i < count; i++) {
        if (!read[i].row->name_as_sent || read[i].row->problems)
            continue;
        if (bb_cell_int(rq, taken, at++, 1))
            read[i].record.text[DEVICE_EXTERNAL_ID] = device_trimmed(rq, read[i].row->name_as_sent);
    }
    return 0;
}

int device_rows_read(struct bb_request *rq, const struct bb_bulk_job *job,
                     struct bb_bulk_row *const *rows, size_t count, struct device_row *read)
{
    for (size_t i = 0; i < count; i++) {
        if (read_row(rq, job, rows[i], &read[i])) {
            bb_fail(rq, 503, "Out of memory");
            return -1;
        }
        device_rows_pause(rq, i + 1);
    }
    return check_homes(rq, job, read, count) ? -1 : take_names_as_sent(rq, job, read, count);
}

/* ---- conflicts with stored devices ---- */

static const char *name_of(const struct device_row *read)
{
    return read->row->problems ? NULL : read->record.text[DEVICE_EXTERNAL_ID];
}

static const char *names_json(struct bb_request *rq, const struct device_row *read, size_t count)
{
    json_t *list = json_array();
    size_t length;
    bool lost = !list;

    for (size_t i = 0; i < count && !lost; i++)
        if (name_of(&read[i]))
            lost = json_array_append_new(list, json_string(name_of(&read[i]))) != 0;
    const char *text = lost ? NULL : bb_json(rq, list, &length);

    json_decref(list);
    return text;
}

static int check(struct bb_request *rq, const struct bb_bulk_job *job,
                 struct bb_bulk_row *const *rows, size_t count)
{
    struct device_row *read = bb_alloc(rq, count * sizeof(*read));
    size_t at = 0;

    if (device_rows_read(rq, job, rows, count, read))
        return -1;
    const char *names = names_json(rq, read, count);
    const struct bb_rows *taken =
        names ? bb_query(rq, &find_taken, BB_ARGS(bb_i(job->organization), bb_t(names))) : NULL;

    for (size_t i = 0; i < count && taken; i++) {
        if (!name_of(&read[i]))
            continue;
        rows[i]->claim =
            (struct bb_bulk_claim){.name = bb_cell(rq, taken, at, 0), .field = "externalId"};
        if (bb_cell_int(rq, taken, at++, 1))
            bb_bulk_problem(rq, rows[i], "externalId", DEVICE_TAKEN);
    }
    return taken ? 0 : -1;
}

const struct bb_bulk_rows device_rows = {
    .size = sizeof(device_rows),
    .help =
        "Devices to register, by the rules of POST /api/device. Each needs one of `externalId`, "
        "`siteName` and `serialNumber`.",
    .roles = BB_ROLE_ORGANIZATION_ADMIN | BB_ROLE_API_USER,
    .rows_max = AT_A_TIME,
    .columns = {device_fields, ORGANIZATION + 1, sizeof(struct bb_field)},
    .name_column = DEVICE_EXTERNAL_ID,
    .check = check,
    .store = device_rows_store,
};
