/* Bulk uploads: from the file to its rows, with a test module's own row type. */
#include <stdlib.h>
#include <string.h>

#include "bulk.h"
#include "exposition.h"
#include "suite.h"
#include "suites.h"

static struct person *other;

static void set_up(void)
{
    bulk_open("bulk");
    other = person_make(host, admin, "bulk.other", NULL);
}

TEST(a_file_is_checked_then_confirmed_then_stored)
{
    struct answer *made = ck_status(bulk_things(m, "name,amount\r\na1,1\r\na2,2\r\na3,3\r\n"), 201);
    const char *id = bulk_id(made);

    ck_assert_str_eq(answer_text(made, "status"), "created");
    ck_assert_str_eq(answer_text(made, "type"), "Things");
    ck_assert_int_eq(answer_int(made, "rows"), 3);
    ck_assert_int_eq(sql_number(db, "SELECT count(*) FROM heap_thing WHERE name LIKE 'a_'"), 0);
    ck_assert_str_eq(bulk_row(ck_status(bulk_log_of(m, id, ""), 200), 0), "1 a1 pending");
    struct answer *confirmed = ck_status(bulk_post(m, id, "confirm"), 200);

    ck_assert_str_eq(answer_text(confirmed, "status"), "confirmed");
    ck_assert_int_eq(bulk_number(confirmed, "progress", "total"), 3);
    ck_error(bulk_post(m, id, "confirm"), 409, "");
    struct answer *log = bulk_await(m, id, "finished");

    ck_assert_int_eq(bulk_number(log, "progress", "succeeded"), 3);
    ck_assert_str_eq(bulk_row(log, 2), "3 a3 success");
    ck_assert_int_eq(sql_number(db, "SELECT count(*) FROM heap_thing WHERE name LIKE 'a_'"), 3);
    ck_error(bulk_post(m, id, "confirm"), 409, "");
    ck_error(bulk_post(m, id, "cancel"), 409, "");
}

/* Acceptance 2 */
TEST(bad_rows_are_told_before_and_after_and_the_good_ones_are_in)
{
    const char *id = bulk_id(bulk_things(m, "name;amount;colour\nb1;1;red\n;2;\nb3;-1;\nb4;x;blue\n"
                                            ";;\nb6;6,5\n;;;;\nb1;8\nb9;9;;surplus\n"));
    struct answer *log = ck_status(bulk_log_of(m, id, ""), 200);

    ck_assert_int_eq(bulk_number(log, "check", "failed"), 5);
    for (int round = 0; round < 2; round++) {
        ck_assert_str_eq(bulk_row(log, 0), round ? "1 b1 success" : "1 b1 pending");
        ck_assert_str_eq(bulk_row(log, 1), "2 - failed name: is required");
        ck_assert_str_eq(bulk_row(log, 2), "3 b3 failed amount: must be a number above 0");
        ck_assert_str_eq(bulk_row(log, 3), "4 b4 failed amount: must be a number above 0");
        ck_assert_str_eq(bulk_row(log, 4), round ? "6 b6 success" : "6 b6 pending");
        ck_assert_str_eq(bulk_row(log, 5), round ? "8 b1 failed name: is taken"
                                                 : "8 b1 failed name: is the same as in row 1");
        ck_assert_str_eq(bulk_row(log, 6), "9 b9 failed : has 4 cells, the header line 3");
        ck_assert_uint_eq(json_array_size(json_object_get(log->json, "rows")), 7);
        if (!round)
            log = bulk_store(m, id);
    }
    ck_assert_int_eq(bulk_number(log, "progress", "succeeded"), 2);
    ck_assert_int_eq(bulk_number(log, "progress", "failed"), 5);
    ck_assert_int_eq(sql_number(db, "SELECT count(*) FROM heap_thing WHERE name LIKE 'b_'"), 2);
    struct answer *failed = ask(m, 200, NULL, "GET " BULK "/%s/failed.csv", id);

    ck_assert_str_eq(failed->body, "\xef\xbb\xbfname;amount;colour;errors\r\n"
                                   ";2;;name: is required\r\n"
                                   "b3;-1;;amount: must be a number above 0\r\n"
                                   "b4;x;blue;amount: must be a number above 0\r\n"
                                   "b1;8;;name: is taken\r\n"
                                   "b9;9;;\"has 4 cells, the header line 3\"\r\n");
}

/* After a correction, the failed rows can be uploaded with their column of errors. */
TEST(failed_rows_are_corrected_and_sent_again)
{
    const char *csv = "\xef\xbb\xbfname,amount,errors\r\nc1,1,\"amount: must be\"\r\n";
    struct answer *made = ck_status(bulk_things(m, csv), 201);

    answer_warns(made, NULL);
    ck_assert_str_eq(bulk_row(bulk_store(m, bulk_id(made)), 0), "1 c1 success");
    const char *again = bulk_id(bulk_things(m, csv));
    struct answer *log = bulk_log_of(m, again, "status=failed");

    ck_assert_str_eq(bulk_row(log, 0), "1 c1 failed name: is taken");
    ck_assert_str_eq(http(host, "GET", text(BULK "/%s/failed.csv", again), m->token, NULL)->body,
                     "\xef\xbb\xbfname,amount,errors\r\nc1,1,name: is taken\r\n");
}

TEST(columns_are_found_by_name_in_any_order_and_case)
{
    struct answer *made =
        ck_status(bulk_things(m, "Colour\t AMOUNT \tTitle\nred\t7\t\"d \"\"1\"\"\n\"\n"), 201);

    answer_warns(made, "Colour");
    ck_assert_str_eq(bulk_row(bulk_store(m, bulk_id(made)), 0), "1 d \"1\"\n success");
    ck_error(bulk_things(m, "name,title\nx,y\n"), 400, "The header line names the column title");
}

/* A row that passes the check but is refused by the database affects no other row. */
TEST(a_row_that_the_database_refuses_disturbs_no_other)
{
    char *csv = text("name,amount\n");

    for (int i = 1; i <= 120; i++)
        csv = text("%se%d,%d\n", csv, i, i == 33 || i == 70 ? 666 : i);
    const char *id = bulk_id(bulk_things(m, csv));

    ck_assert_int_eq(bulk_number(bulk_log_of(m, id, ""), "check", "failed"), 0);
    struct answer *log = bulk_store(m, id);

    ck_assert_int_eq(bulk_number(log, "progress", "succeeded"), 118);
    ck_assert_str_eq(bulk_row(log, 32),
                     "33 e33 failed : cannot be stored: the database refuses it");
    ck_assert_str_eq(bulk_row(log, 69),
                     "70 e70 failed : cannot be stored: the database refuses it");
    ck_assert_int_eq(sql_number(db, "SELECT count(*) FROM heap_thing WHERE name LIKE 'e%'"), 118);
}

/* If the commit is refused, the bad row is also found by storing rows one by one. */
TEST(a_row_that_is_refused_at_the_commit_disturbs_no_other)
{
    char *csv = text("name,amount\n");

    sql_run(db, "CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                " IF NEW.name = 'l7' THEN RAISE check_violation; END IF; RETURN NULL; END $$");
    sql_run(db, "CREATE CONSTRAINT TRIGGER late AFTER INSERT ON heap_thing"
                " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION late()");
    for (int i = 1; i <= 20; i++)
        csv = text("%sl%d,%d\n", csv, i, i);
    struct answer *log = bulk_store(m, bulk_id(bulk_things(m, csv)));

    ck_assert_int_eq(bulk_number(log, "progress", "succeeded"), 19);
    ck_assert_str_eq(bulk_row(log, 6), "7 l7 failed : cannot be stored: the database refuses it");
    sql_run(db, "DROP FUNCTION late CASCADE");
}

static size_t rows_in(const struct answer *log)
{
    return json_array_size(json_object_get(log->json, "rows"));
}

TEST(the_log_comes_in_pages_and_by_status)
{
    char *csv = text("name,amount\n");

    for (int i = 1; i <= 230; i++)
        csv = text("%sf%d,%d\n", csv, i, i % 10 ? 1 : -1);
    const char *id = bulk_id(bulk_things(m, csv));

    ck_assert_uint_eq(rows_in(bulk_log_of(m, id, "status=failed&limit=1000")), 23);
    ck_assert_uint_eq(rows_in(bulk_log_of(m, id, "status=pending&limit=1000")), 207);
    ck_assert_uint_eq(rows_in(bulk_log_of(m, id, "status=success")), 0);
    bulk_store(m, id);
    const char *statuses[] = {"", "&status=failed", "&status=success"};
    size_t expected[] = {230, 23, 207};

    for (size_t i = 0; i < 3; i++) {
        size_t seen = 0;
        int64_t after = 0;
        const struct answer *page = NULL;

        for (int pages = 0; pages < 40 && (!page || answer_header(page, "Link")); pages++) {
            page = ck_status(
                bulk_log_of(m, id, text("limit=7&after=%lld%s", (long long)after, statuses[i])),
                200);
            const json_t *rows = json_object_get(page->json, "rows");
            const json_t *last = json_array_get(rows, json_array_size(rows) - 1);

            seen += json_array_size(rows);
            ck_assert_int_gt(json_integer_value(json_object_get(last, "rowNumber")), after);
            after = json_integer_value(json_object_get(last, "rowNumber"));
        }
        ck_assert_uint_eq(seen, expected[i]);
    }
    ck_assert_uint_eq(rows_in(bulk_log_of(m, id, "status=pending")), 0);
}

/* The parts are corrupted, so reading them fails; they are not read if the totals show that no row
 * has the status. */
TEST(the_log_of_a_status_that_no_row_has_reads_no_row)
{
    const char *created = bulk_id(bulk_things(m, "name,amount\nt1,1\n"));
    const char *ended = bulk_id(bulk_things(m, "name,amount\nt2,1\n"));

    ck_status(bulk_post(m, ended, "cancel"), 200);
    sql_run(db,
            text("UPDATE bulk_part SET bytes = '\"' WHERE job IN ('%s', '%s')", created, ended));
    ck_error(bulk_log_of(m, created, "status=pending"), 503, "");
    ck_assert_uint_eq(rows_in(ck_status(bulk_log_of(m, created, "status=cancelled"), 200)), 0);
    ck_assert_uint_eq(rows_in(ck_status(bulk_log_of(m, created, "status=success"), 200)), 0);
    ck_assert_uint_eq(rows_in(ck_status(bulk_log_of(m, ended, "status=pending"), 200)), 0);
    ck_assert_uint_eq(rows_in(ck_status(bulk_log_of(m, ended, "status=success"), 200)), 0);
}

/* Contradictions are found across parts; their rows have the names of their cells. */
TEST(failed_rows_of_many_parts_have_their_names)
{
    enum { PAIRS = 1200 };
    char *csv = kept(malloc(PAIRS * 40)), *at = csv;

    at += sprintf(at, "amount,name\n");
    for (int i = 1; i <= PAIRS; i++)
        at += sprintf(at, "1,u%d\n%s,%s\n", i, i % 7 ? "1" : "-1", i % 5 ? text("u%d", i) : "");
    const char *id = bulk_id(bulk_send(host, m, "type=Things", "x.csv", csv, strlen(csv)));
    struct answer *log = ck_status(bulk_log_of(m, id, "status=failed&limit=1000"), 200);

    ck_assert_int_eq(bulk_number(log, "check", "failed"), PAIRS);
    for (int i = 1; i <= 1000; i++) {
        const char *row = bulk_row(log, (size_t)i - 1);
        const char *name = i % 5 ? text("%d u%d failed ", 2 * i, i) : text("%d - failed ", 2 * i);

        ck_assert_msg(!strncmp(row, name, strlen(name)), "%s", row);
    }
}

static double counted(const char *name, const char *outcome)
{
    double value =
        exposition_value(exposition_get(host, admin->token), text("busbar_bulk_%s", name),
                         outcome ? text("outcome=\"%s\"", outcome) : "");

    return value < 0 ? 0 : value;
}

static bool is_counted(void *finished)
{
    return counted("jobs_total", "finished") >= *(const double *)finished &&
           counted("rows_waiting", NULL) <= 0;
}

TEST(jobs_and_rows_are_counted_by_their_outcome)
{
    double finished = counted("jobs_total", "finished") + 1;
    double cancelled = counted("jobs_total", "cancelled");
    double stored = counted("rows_total", "success"), failed = counted("rows_total", "failed");

    bulk_store(m, bulk_id(bulk_things(m, "name,amount\nv1,1\nv2,-1\nv3,1\n")));
    ck_assert(wait_until(is_counted, &finished, 5000));
    ck_assert_double_eq(counted("jobs_total", "finished"), finished);
    ck_assert_double_eq(counted("rows_total", "success"), stored + 2);
    ck_assert_double_eq(counted("rows_total", "failed"), failed + 1);
    ck_status(bulk_post(m, bulk_id(bulk_things(m, "name,amount\nv4,1\n")), "cancel"), 200);
    ck_assert_double_eq(counted("jobs_total", "cancelled"), cancelled + 1);
    ck_assert_double_eq(counted("rows_total", "success"), stored + 2);
}

/* Each row has the problem: decisions.md. */
TEST(a_column_that_is_required_and_missing_fails_every_row)
{
    struct answer *made = ck_status(bulk_things(m, "amount,colour\n1,red\n2,blue\n"), 201);
    struct answer *log = bulk_log_of(m, bulk_id(made), "");

    ck_assert_int_eq(bulk_number(made, "check", "failed"), 2);
    ck_assert_str_eq(bulk_row(log, 0), "1 - failed name: is required");
    ck_assert_str_eq(bulk_row(log, 1), "2 - failed name: is required");
    log = bulk_store(m, bulk_id(made));
    ck_assert_int_eq(bulk_number(log, "progress", "failed"), 2);
}

TEST(malformed_ids_are_client_errors_on_every_route)
{
    static const char *const routes[][2] = {
        {"POST", "%s/confirm"},   {"POST", "%s/cancel"},         {"DELETE", "%s"},
        {"GET", "%s/failed.csv"}, {"GET", "bulk-upload-log/%s"}, {"GET", "%s/stream"},
        {"GET", "?after=%s"}};
    static const char *const ids[] = {"1",
                                      "-1",
                                      "x",
                                      "null",
                                      "%00",
                                      "%27",
                                      "..%2F..",
                                      "%C3%28",
                                      "0195f3a0-1111-7222-8333-44445555666",
                                      "0195f3a0-1111-7222-8333-4444555566667",
                                      "0195f3a0-1111-7222-8333-44445555666g",
                                      "0195f3a0111172228333444455556666",
                                      "%7B0195f3a0-1111-7222-8333-444455556666%7D"};

    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++)
        for (size_t k = 0; k < sizeof ids / sizeof ids[0]; k++) {
            char *path = text("%s", routes[i][1]), *at = strstr(path, "%s");
            const char *full = text(BULK "%s%.*s%s%s", *path == '?' ? "" : "/", (int)(at - path),
                                    path, ids[k], at + 2);
            struct answer *answer = http(host, routes[i][0], full, m->token, NULL);

            ck_assert_msg(answer->status == 400 || answer->status == 404, "%s %s: %ld",
                          routes[i][0], full, answer->status);
        }
}

/* O25, C06 */
TEST(a_foreign_or_unknown_job_is_not_found)
{
    const char *id = bulk_id(bulk_things(m, "name,amount\ng1,1\n"));
    const char *unknown = "0195f3a0-1111-7222-8333-444455556666";

    ck_error(bulk_post(other, id, "confirm"), 404, "");
    ck_error(bulk_post(other, id, "cancel"), 404, "");
    ck_error(bulk_log_of(other, id, ""), 404, "");
    ask(other, 404, NULL, "GET " BULK "/%s/failed.csv", id);
    ask(other, 404, NULL, "DELETE " BULK "/%s", id);
    ck_error(bulk_post(m, unknown, "confirm"), 404, "");
    ck_error(bulk_log_of(m, unknown, ""), 404, "");
    ck_status(bulk_log_of(admin, id, ""), 200);
    ck_assert_uint_eq(json_array_size(ask(other, 200, NULL, "GET " BULK)->json), 0);
    ck_assert_str_eq(bulk_row(bulk_log_of(m, id, ""), 0), "1 g1 pending");
}

TEST(a_created_job_is_deleted_or_cancelled)
{
    const char *gone = bulk_id(bulk_things(m, "name,amount\nh1,1\nh2,-1\n"));
    const char *ended = bulk_id(bulk_things(m, "name,amount\nh3,1\n"));

    ask(m, 200, NULL, "DELETE " BULK "/%s", gone);
    ck_error(bulk_log_of(m, gone, ""), 404, "");
    ck_assert_int_eq(sql_number(db, text("SELECT (SELECT count(*) FROM bulk_part WHERE job = '%s')"
                                         " + (SELECT count(*) FROM bulk_finding WHERE job = '%s')",
                                         gone, gone)),
                     0);
    ck_assert_str_eq(answer_text(ck_status(bulk_post(m, ended, "cancel"), 200), "status"),
                     "cancelled");
    ck_error(bulk_post(m, ended, "confirm"), 409, "The bulk upload is cancelled already");
    ck_assert_str_eq(bulk_row(bulk_log_of(m, ended, ""), 0), "1 h3 cancelled");
    ask(m, 200, NULL, "DELETE " BULK "/%s", ended);
    ck_error(bulk_log_of(m, ended, ""), 404, "");
    ck_assert_int_eq(sql_number(db, "SELECT count(*) FROM heap_thing WHERE name LIKE 'h_'"), 0);
}

/* Rows that failed the check stay failed, the others are canceled, and both can be sent again. */
TEST(what_was_cancelled_before_it_was_confirmed_can_be_sent_again)
{
    const char *id = bulk_id(bulk_things(m, "name,amount\nk1,1\nk2,-1\nk3,3\n"));
    struct answer *ended = ck_status(bulk_post(m, id, "cancel"), 200);

    ck_assert_int_eq(bulk_number(ended, "progress", "failed"), 1);
    ck_assert_int_eq(bulk_number(ended, "progress", "done"), 1);
    struct answer *log = bulk_log_of(m, id, "");

    ck_assert_str_eq(bulk_row(log, 0), "1 k1 cancelled");
    ck_assert_str_eq(bulk_row(log, 1), "2 k2 failed amount: must be a number above 0");
    ck_assert_str_eq(bulk_row(log, 2), "3 k3 cancelled");
    ck_assert_uint_eq(rows_in(bulk_log_of(m, id, "status=cancelled")), 2);
    ck_assert_uint_eq(rows_in(bulk_log_of(m, id, "status=failed")), 1);
    const char *rest = http(host, "GET", text(BULK "/%s/failed.csv", id), m->token, NULL)->body;

    ck_assert_str_eq(rest, "\xef\xbb\xbfname,amount,errors\r\n"
                           "k1,1,not stored: the bulk upload was cancelled\r\n"
                           "k2,-1,amount: must be a number above 0\r\n"
                           "k3,3,not stored: the bulk upload was cancelled\r\n");
    log = bulk_store(m, bulk_id(bulk_things(m, rest)));
    ck_assert_int_eq(bulk_number(log, "progress", "succeeded"), 2);
}

TEST(jobs_are_listed_and_the_template_can_be_sent)
{
    struct answer *template = ask(m, 200, NULL, "GET " BULK "/template.csv?type=Things");

    ck_assert_str_eq(template->body, "name,amount\r\nthing-1,12.5\r\n");
    const char *id = bulk_id(bulk_things(m, template->body));
    struct answer *list = ask(m, 200, NULL, "GET " BULK "?limit=1");

    ck_assert_str_eq(
        json_string_value(json_object_get(json_array_get(list->json, 0), "bulkUploadId")), id);
    ck_assert_ptr_nonnull(answer_header(list, "Link"));
    struct answer *refused[] = {
        http(host, "GET", BULK "/template.csv?type=things", m->token, NULL),
        bulk_send(host, m, "type=Nothing", "x.csv", "name\nx\n", 7),
    };

    for (int i = 0; i < 2; i++) {
        ck_status(refused[i], 400);
        ck_assert_msg(strstr(refused[i]->body, "must be one of: ") != NULL &&
                          strstr(refused[i]->body, "Things") != NULL,
                      "%s", refused[i]->body);
    }
}

TEST(a_role_that_may_not_send_such_rows_is_forbidden)
{
    struct person *buyer = person_with_role(host, admin, "bulk.buyer", "Buyer");

    ck_error(bulk_things(buyer, "name,amount\ni1,1\n"), 403, "Forbidden");
    ck_error(bulk_things(admin, "name,amount\ni1,1\n"), 400, "");
    ck_status(bulk_send(host, admin,
                        text("type=Things&organizationId=%lld", (long long)m->organization),
                        "x.csv", "name,amount\ni1,1\n", 17),
              201);
    ck_error(bulk_send(host, admin, "type=Things&organizationId=999999", "x.csv",
                       "name,amount\ni1,1\n", 17),
             404, "Organization not found");
    ck_error(bulk_send(host, m, "type=Nothing", "x.csv", "a\nb\n", 4), 400, "");
}

/* The role is checked at each change of an upload, not only when the file is sent. */
TEST(an_account_that_lost_its_role_changes_no_upload)
{
    struct person *lost = person_make(host, admin, "bulk.lost", NULL);
    const char *id = bulk_id(bulk_things(lost, "name,amount\nr1,1\n"));

    ck_status(person_change(host, admin, lost, "role", "Buyer"), 200);
    person_login(host, lost);
    ck_error(bulk_post(lost, id, "confirm"), 403, "Forbidden");
    ck_error(bulk_post(lost, id, "cancel"), 403, "Forbidden");
    ask(lost, 403, "Forbidden", "DELETE " BULK "/%s", id);
    ck_assert_str_eq(bulk_row(ck_status(bulk_log_of(lost, id, ""), 200), 0), "1 r1 pending");
    ck_status(bulk_post(admin, id, "cancel"), 200);
}

TEST(rows_of_a_type_that_is_not_loaded_are_not_confirmed)
{
    const char *id = bulk_id(bulk_things(m, "name,amount\ns1,1\n"));

    sql_run(db, text("UPDATE bulk_job SET type = 'Gone' WHERE id = '%s'", id));
    ck_error(bulk_post(m, id, "confirm"), 409, "No loaded module provides rows of type Gone");
    ask(m, 200, NULL, "DELETE " BULK "/%s", id);
}

/* This happens after a module was removed from the configuration; jobs of other types do not
 * wait. */
TEST(a_job_of_a_type_that_is_not_loaded_delays_no_other)
{
    const char *gone = bulk_id(bulk_things(m, "name,amount\nq1,1\n"));

    sql_run(db, text("UPDATE bulk_job SET type = 'Gone', status = 'confirmed', confirmed_at = now()"
                     " WHERE id = '%s'",
                     gone));
    struct answer *log = bulk_store(m, bulk_id(bulk_things(m, "name,amount\nq2,1\n")));

    ck_assert_str_eq(bulk_row(log, 0), "1 q2 success");
    ck_assert_str_eq(answer_text(bulk_log_of(m, gone, ""), "status"), "confirmed");
    ck_status(bulk_post(m, gone, "cancel"), 200);
}

TEST(an_idempotency_key_creates_one_job)
{
    struct upload_body body = {NULL, 0};
    const char *const headers[] = {"Idempotency-Key: bulk-once", NULL};
    struct answer *answers[2];

    upload_file(&body, "file", "x.csv", "name,amount\nj1,1\n", 17);
    upload_close(&body);
    for (int i = 0; i < 2; i++)
        answers[i] = ck_status(http_send(host, &(struct call){.method = "POST",
                                                              .path = BULK "?type=Things",
                                                              .token = m->token,
                                                              .type = UPLOAD_TYPE,
                                                              .headers = headers,
                                                              .body = body.bytes,
                                                              .length = body.length}),
                               201);
    free(body.bytes);
    ck_assert_str_eq(answers[0]->body, answers[1]->body);
}

STAGE_SUITE(bulk, set_up, 120)
