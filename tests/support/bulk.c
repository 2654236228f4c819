#include "bulk.h"

#include "devices.h"

enum { END_MS = 60000 };

struct host_spec bulk_spec(const char *name, bool heap)
{
    return (struct host_spec){
        .name = name,
        .modules = heap ? text("[auth, bulk, metrics, \"%s\"]", harness_test_module("module_heap"))
                        : "[auth, bulk, device, reading, metrics]",
        .more = text("bulk:\n  files: \"%s\"\n%s", harness_path(text("bulk-%s", name)),
                     heap ? ""
                          : text("device:\n  documents: \"%s\"\n",
                                 harness_path(text("documents-%s", name)))),
    };
}

void bulk_settle(const char *database)
{
    database_soon(the_postgres, database,
                  "SELECT count(to_regclass('bulk_finding')) * count(coalesce("
                  "to_regclass('heap_thing'), to_regclass('reading_device')))");
}

static void open_with(const char *name, bool heap)
{
    struct host_spec spec = bulk_spec(name, heap);

    stage_open(&spec);
    bulk_settle(name);
    m = person_make(host, admin, text("%s.m", name), NULL);
}

void bulk_open(const char *name)
{
    open_with(name, true);
}

void bulk_open_devices(const char *name)
{
    open_with(name, false);
    k = person_make(host, admin, text("%s.k", name), NULL);
}

static char *csv_bytes;
static size_t csv_length;

FILE *csv_begin(const char *head)
{
    FILE *csv = open_memstream(&csv_bytes, &csv_length);

    ck_assert_ptr_nonnull(csv);
    fputs(head, csv);
    return csv;
}

const char *csv_end(FILE *csv)
{
    ck_assert_int_eq(fclose(csv), 0);
    return kept(csv_bytes);
}

const char *bulk_csv(const char *name, int rows, const char *amount)
{
    FILE *csv = csv_begin("name,amount\n");

    for (int i = 1; i <= rows; i++)
        fprintf(csv, "%s%d,%s\n", name, i, amount);
    return csv_end(csv);
}

struct answer *bulk_send(const struct host *to, const struct person *who, const char *query,
                         const char *file, const void *bytes, size_t length)
{
    struct upload_body body = {NULL, 0};

    upload_file(&body, "file", file, bytes, length);
    return upload_send(to, "POST", text(BULK "?%s", query), who, &body);
}

struct answer *bulk_text(const struct person *who, const char *query, const char *csv)
{
    return bulk_send(host, who, query, "x.csv", csv, strlen(csv));
}

struct answer *bulk_things(const struct person *who, const char *csv)
{
    return bulk_text(who, "type=Things", csv);
}

const char *bulk_upload(const struct person *who, const char *name, int rows)
{
    FILE *csv = csv_begin("name,amount\n");

    for (int i = 1; i <= rows; i++)
        fprintf(csv, "%s%d,%d\n", name, i, i % 10 ? i + 1000 : -i);
    return bulk_id(bulk_things(who, csv_end(csv)));
}

const char *bulk_id(struct answer *answer)
{
    return answer_text(ck_status(answer, 201), "bulkUploadId");
}

struct answer *bulk_post(const struct person *who, const char *id, const char *what)
{
    return http(host, "POST", text(BULK "/%s/%s", id, what), who->token, NULL);
}

struct answer *bulk_log_of(const struct person *who, const char *id, const char *query)
{
    return http(host, "GET", text(BULK "/bulk-upload-log/%s?%s", id, query), who->token, NULL);
}

struct answer *bulk_await(const struct person *who, const char *id, const char *status)
{
    struct answer *log = NULL;

    WAIT_UNTIL_MSG((log = bulk_log_of(who, id, "limit=1"))->status == 200 &&
                       !strcmp(answer_text(log, "status"), status),
                   END_MS, "%s", log->body);
    return ck_status(bulk_log_of(who, id, "limit=1000"), 200);
}

struct answer *bulk_store(const struct person *who, const char *id)
{
    ck_status(bulk_post(who, id, "confirm"), 200);
    return bulk_await(who, id, "finished");
}

int64_t bulk_number(const struct answer *answer, const char *object, const char *key)
{
    const json_t *number = json_object_get(json_object_get(answer->json, object), key);

    ck_assert_msg(json_is_integer(number), "%s", answer->body);
    return json_integer_value(number);
}

const char *bulk_row(const struct answer *log, size_t index)
{
    const json_t *row = json_array_get(json_object_get(log->json, "rows"), index), *error;
    const char *name = json_string_value(json_object_get(row, "externalId"));
    char *line;
    size_t i;

    ck_assert_msg(row != NULL, "%s", log->body);
    line = text("%lld %s %s", (long long)json_integer_value(json_object_get(row, "rowNumber")),
                name ? name : "-", json_string_value(json_object_get(row, "status")));
    json_array_foreach (json_object_get(row, "errors"), i, error) {
        line = text("%s%s %s: %s", line, i ? ";" : "",
                    json_string_value(json_object_get(error, "field")),
                    json_string_value(json_object_get(error, "problem")));
    }
    return line;
}

void bulk_rows(const struct answer *log, const char *expected)
{
    size_t count = 0;

    for (const char *line = expected; *line; count++) {
        size_t length = strcspn(line, "\n");
        const char *row = bulk_row(log, count), *wanted = text("%.*s", (int)length, line);

        ck_assert_msg(glob_matches(row, wanted), "\"%s\" instead of \"%s\"", row, wanted);
        line += length + (line[length] == '\n');
    }
    ck_assert_msg(bulk_count(log) == count, "not %zu rows: %s", count, log->body);
}

struct answer *bulk_rows_stored(const struct person *who, const char *id, const char *expected)
{
    static const char success[] = "success";
    char *pending = text("%s", expected);

    for (char *at = pending; (at = strstr(at, success));)
        memcpy(at, "pending", sizeof success - 1);
    bulk_rows(ck_status(bulk_log_of(who, id, ""), 200), pending);
    struct answer *log = bulk_store(who, id);

    bulk_rows(log, expected);
    return log;
}

void bulk_ended(const struct answer *log, int64_t succeeded, int64_t failed)
{
    expect_json(log->json, text("{'progress':{'succeeded':%jd,'failed':%jd}}", succeeded, failed));
}

void bulk_store_all(const char *type, const char *csv, int64_t rows)
{
    bulk_ended(bulk_store(m, bulk_id(bulk_text(m, text("type=%s", type), csv))), rows, 0);
}

size_t bulk_count(const struct answer *log)
{
    return json_array_size(json_object_get(log->json, "rows"));
}

void bulk_no_orphans(void)
{
    sql_is(db, 0,
           "SELECT (SELECT count(*) FROM bulk_part p WHERE NOT EXISTS"
           " (SELECT FROM bulk_job j WHERE j.id = p.job)) + (SELECT"
           " count(*) FROM bulk_finding f WHERE NOT EXISTS"
           " (SELECT FROM bulk_job j WHERE j.id = f.job))");
}

PGconn *bulk_hold(const char *mode)
{
    PGconn *holder = database_connect(the_postgres, PQdb(db));

    sql_run(holder, "BEGIN");
    sql_run(holder, text("LOCK TABLE heap_thing IN %s MODE", mode));
    return holder;
}

void bulk_release(PGconn *holder)
{
    sql_run(holder, "ROLLBACK");
    PQfinish(holder);
}

void bulk_shown(const struct answer *template)
{
    const char *page = file_text(TEST_CONF "/../docs/reference.md");

    for (const char *line = template->body, *end; (end = strstr(line, "\r\n")); line = end + 2)
        ck_assert_msg(strstr(page, text("\n    %.*s\n", (int)(end - line), line)) != NULL,
                      "docs/reference.md lacks the line: %.*s", (int)(end - line), line);
}
