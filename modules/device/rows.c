/*
 * The service "bulk rows:Devices": reads rows with device_read(), like bodies of requests, and
 * checks them against stored devices.
 */
#include <string.h>

#include "modules/device/device.h"

enum { AT_A_TIME = 500, IN_A_ROW = 50, WAIT_MS = 1000, ORGANIZATION = DEVICE_FIELDS, FIXED = 2 };

/* A row of a bulk upload, together with the device read from it. */
struct device_row {
    struct bb_bulk_row *row; /* skipped if it has problems */
    bool elsewhere;          /* the row names another organization than the upload */
    struct device_record record;
};

/*
 * Handles rows that name another organization than the upload. Such a row is refused, as in a
 * request. If the account is not an Admin and acts in exactly one organization, the name is ignored
 * with a warning instead. Returns 0, or -1.
 */
static int rows_check_homes(struct bb_request *rq, const struct bb_bulk_job *job,
                            const struct device_row *read, size_t count)
{
    const struct device *device = rq->state;
    struct bb_account_scope scope = {.size = sizeof(scope)};
    int found = -1;

    for (size_t i = 0; i < count; i++) {
        if (!read[i].elsewhere)
            continue;
        if (found < 0 && job->account)
            found = device->accounts->scope_of(device->accounts_state, rq, job->account, &scope);
        if (found < 0 && job->account)
            return -1;
        if (found > 0 && scope.role != BB_ROLE_ADMIN && scope.organization_count == 1)
            bb_bulk_warn(rq, read[i].row, "organizationId",
                         "is ignored: you have only one organization");
        else
            bb_bulk_problem(rq, read[i].row, "organizationId",
                            bb_format(rq, "must be %lld, as for the bulk upload, or empty",
                                      (long long)job->organization));
    }
    return 0;
}

static void rows_read_one(struct bb_request *rq, const struct bb_bulk_job *job,
                          struct bb_bulk_row *row, struct device_row *read)
{
    struct device_values values;
    json_t *errors = bb_hold(rq, json_array()), *object = bb_hold(rq, json_object());
    const json_t *error;
    size_t i;

    for (i = 0; i <= ORGANIZATION; i++) {
        const char *text = row->cells[i] ? device_trimmed(rq, row->cells[i]) : "";
        bool numeric = device_fields[i].type == BB_NUMBER || device_fields[i].type == BB_INT;
        json_t *number = numeric && !text[strspn(text, "0123456789+-.eE")]
                             ? json_loads(text, JSON_DECODE_ANY, NULL)
                             : NULL; /* without a valid number, the value is a text */

        if (*text)
            bb_set(rq, object, device_fields[i].name, number ? number : json_string_nocheck(text));
    }
    device_read(rq, object, true, &values, errors);
    json_array_foreach (errors, i, error)
        bb_bulk_problem(rq, row,
                        bb_format(rq, "%s", json_string_value(json_object_get(error, "field"))),
                        bb_format(rq, "%s", json_string_value(json_object_get(error, "problem"))));
    *read = (struct device_row){.row = row,
                                .elsewhere =
                                    values.organization && values.organization != job->organization,
                                .record = {.organization = job->organization}};
    memcpy(read->record.text, values.text, sizeof(read->record.text));
    for (enum device_field field = 0; field < DEVICE_FIELDS; field++) {
        const char *warning = device_unlikely(field, values.text[field]);

        if (warning)
            bb_bulk_warn(rq, row, device_fields[field].name, warning);
    }
}

/*
 * Call after each row with the number of rows done. After IN_A_ROW rows, lets other fibers of the
 * loop run: waits for a completion that is already signaled, so that the fiber continues in the
 * loop's next iteration. Does not pause if memory for a completion runs out.
 */
static void rows_pause(struct bb_request *rq, size_t done)
{
    struct bb_completion *completion = done % IN_A_ROW ? NULL : bb_completion(rq);

    if (!completion)
        return;
    bb_completion_signal(rq->host, completion);
    bb_completion_wait(rq, completion, WAIT_MS);
}

/*
 * Returns a row for each name: the name's DEVICE_KEY(), and whether a device has the name. Returns
 * NULL on failure.
 */
static const struct bb_rows *rows_find_names(struct bb_request *rq, const struct bb_bulk_job *job,
                                             const char *const *names, size_t count)
{
    static const struct bb_sql find = {
        /* clang-format off */
        "SELECT k.key, EXISTS (SELECT FROM device d WHERE " DEVICE_KEY("d.external_id") " = k.key"
        " AND d.external_id IS NOT NULL AND d.organisation = $1::bigint) FROM (SELECT n, "
        DEVICE_KEY_OF("name") " AS key FROM unnest($2::text[]) WITH ORDINALITY AS e (name, n)"
        " OFFSET 0) k ORDER BY k.n", /* OFFSET 0: PostgreSQL computes each key once */
        /* clang-format on */
        0};
    return bb_query(rq, &find, BB_ARGS(bb_i(job->organization), bb_texts(names, count)));
}

/*
 * Reads each row by the rules of a registration, and adds errors to the row's problems. An export
 * puts an apostrophe before = + - @, and `cells` omit it. If a stored device has an externalId with
 * this apostrophe (name_as_sent), the row gets this externalId. Returns 0, or -1 on failure.
 */
static int rows_read(struct bb_request *rq, const struct bb_bulk_job *job,
                     struct bb_bulk_row *const *rows, size_t count, struct device_row *read)
{
    const char **names = bb_alloc(rq, count * sizeof(*names));
    bool named = false;

    for (size_t i = 0; i < count; i++) {
        rows_read_one(rq, job, rows[i], &read[i]);
        rows_pause(rq, i + 1);
    }
    if (rows_check_homes(rq, job, read, count))
        return -1;
    for (size_t i = 0; i < count; i++)
        if (rows[i]->name_as_sent && !rows[i]->problems) {
            names[i] = device_trimmed(rq, rows[i]->name_as_sent);
            named = true;
        }
    const struct bb_rows *found = named ? rows_find_names(rq, job, names, count) : NULL;

    for (size_t i = 0; i < count && found; i++)
        if (bb_cell_int(rq, found, i, 1))
            read[i].record.text[DEVICE_EXTERNAL_ID] = names[i];
    return found || !named ? 0 : -1;
}

static int rows_check(struct bb_request *rq, const struct bb_bulk_job *job,
                      struct bb_bulk_row *const *rows, size_t count)
{
    struct device_row *read = bb_alloc(rq, count * sizeof(*read));
    const char **names = bb_alloc(rq, count * sizeof(*names));

    if (rows_read(rq, job, rows, count, read))
        return -1;
    for (size_t i = 0; i < count; i++)
        names[i] = rows[i]->problems ? NULL : read[i].record.text[DEVICE_EXTERNAL_ID];
    const struct bb_rows *found = rows_find_names(rq, job, names, count);

    for (size_t i = 0; i < count && found; i++) {
        if (!names[i])
            continue;
        rows[i]->claim =
            (struct bb_bulk_claim){.name = bb_cell(rq, found, i, 0), .field = "externalId"};
        if (bb_cell_int(rq, found, i, 1))
            bb_bulk_problem(rq, rows[i], "externalId", DEVICE_TAKEN);
    }
    return found ? 0 : -1;
}

/* ---- storing: one statement for all rows of a call; it skips rows whose name is taken ---- */

/* $1 organization, $2 time, $3 uuids, from $4 the columns of DEVICE_STORED */
static const struct bb_sql insert = {
    "INSERT INTO device (id, uuid, organisation, " DEVICE_STORED ", attributes, created_at,"
    " updated_at) SELECT nextval('device_id'), uuid, $1::bigint, " DEVICE_STORED ", '{}',"
    " $2::timestamptz, $2::timestamptz FROM unnest($3::uuid[], $4::text[], $5::text[], $6::text[],"
    " $7::date[], $8::float8[], $9::text[], $10::text[], $11::text[], $12::text[], $13::text[],"
    " $14::text[], $15::text[], $16::float8[]) AS r (uuid, " DEVICE_STORED
    ") ON CONFLICT DO NOTHING RETURNING uuid, id",
    BB_SQL_WRITE,
};

static int rows_store(struct bb_request *rq, struct bb_tx *tx, const struct bb_bulk_job *job,
                      struct bb_bulk_row *const *rows, size_t count)
{
    const char *now = bb_time_text(rq, bb_wall_ms(rq->host));
    struct device_row *read = bb_alloc(rq, count * sizeof(*read));
    const char **columns = bb_alloc(rq, (DEVICE_FIELDS + 1) * count * sizeof(*columns));
    struct bb_value values[FIXED + DEVICE_FIELDS + 1] = {bb_i(job->organization), bb_t(now)};
    size_t sound = 0;

    if (rows_read(rq, job, rows, count, read))
        return -1;
    for (size_t i = 0; i < count; i++) {
        read[i].record.uuid = bb_new_uuid(rq);
        if (read[i].row->problems)
            continue;
        columns[sound] = read[i].record.uuid;
        for (size_t field = 0; field < DEVICE_FIELDS; field++)
            columns[(field + 1) * count + sound] = read[i].record.text[field];
        sound++;
    }
    for (size_t i = 0; i <= DEVICE_FIELDS; i++)
        values[FIXED + i] = bb_texts(columns + i * count, sound);
    const struct bb_rows *stored =
        bb_tx_query(rq, tx, &insert, values, sizeof(values) / sizeof(values[0]));

    if (!stored)
        return -1;
    /* The statement returns the rows in their original order, without the skipped rows. */
    size_t at = 0, all = bb_count(rq, stored);

    for (size_t i = 0; i < count; i++) {
        struct device_record *record = &read[i].record;

        if (read[i].row->problems)
            continue;
        if (at == all || strcmp(bb_cell(rq, stored, at, 0), record->uuid) != 0) {
            bb_bulk_problem(rq, read[i].row, "externalId", DEVICE_TAKEN);
            continue;
        }
        record->id = bb_cell_int(rq, stored, at++, 1);
        if (device_emit(rq, tx, "device.registered", record, NULL))
            return -1;
        rows_pause(rq, i + 1);
    }
    return 0;
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
    .check = rows_check,
    .store = rows_store,
};
