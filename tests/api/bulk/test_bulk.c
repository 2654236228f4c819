/* Bulk uploads: from the file to its rows, with a test module's own row type. */
#include "bulk.h"
#include "exposition.h"
#include "talk.h"

static struct person *other;

static void set_up(void)
{
    bulk_open("bulk");
    other = person_make(host, admin, "bulk.other", NULL);
}

static int64_t things_like(const char *pattern)
{
    return sql_number(db, text("SELECT count(*) FROM heap_thing WHERE name LIKE '%s'", pattern));
}

static const char *failed_of(const char *id)
{
    return ask(m, 200, NULL, "GET " BULK "/%s/failed.csv", id)->body;
}

TEST(an_upload_is_checked_then_confirmed_then_stored)
{
    struct answer *made = ck_status(bulk_things(m, "name,amount\r\na1,1\r\na2,2\r\na3,3\r\n"), 201);
    const char *id = bulk_id(made);

    expect_json(made->json, "{'status':'created','type':'Things','rows':3}");
    ck_assert_int_eq(things_like("a_"), 0);
    bulk_rows(bulk_log_of(m, id, ""), "1 a1 pending\n2 a2 pending\n3 a3 pending\n");
    ask(m, 200, "{'status':'confirmed','progress':{'total':3}}", "POST " BULK "/%s/confirm", id);
    ck_error(bulk_post(m, id, "confirm"), 409, "");
    struct answer *log = bulk_await(m, id, "finished");

    bulk_ended(log, 3, 0);
    bulk_rows(log, "1 a1 success\n2 a2 success\n3 a3 success\n");
    ck_assert_int_eq(things_like("a_"), 3);
    ck_error(bulk_post(m, id, "confirm"), 409, "");
    ck_error(bulk_post(m, id, "cancel"), 409, "");
}

TEST(failed_rows_are_reported_and_the_other_rows_are_stored)
{
    const char *id = bulk_id(bulk_things(m, "name;amount;colour\nb1;1;red\n;2;\nb3;-1;\nb4;x;blue\n"
                                            ";;\nb6;6,5\n;;;;\nb1;8\nb9;9;;surplus\n"));
    const char *rows = "1 b1 %s\n2 - failed name: is required\n3 b3 failed amount: must be a "
                       "number above 0\n4 b4 failed amount: must be a number above 0\n6 b6 %s\n8 "
                       "b1 failed name: %s\n9 b9 failed : has 4 cells, but the header line has 3\n";
    struct answer *log = ck_status(bulk_log_of(m, id, ""), 200);

    ck_assert_int_eq(bulk_number(log, "check", "failed"), 5);
    bulk_rows(log, text(rows, "pending", "pending", "is the same as in row 1"));
    log = bulk_store(m, id);
    bulk_rows(log, text(rows, "success", "success", "is taken"));
    bulk_ended(log, 2, 5);
    ck_assert_int_eq(things_like("b_"), 2);
    ck_assert_str_eq(failed_of(id), "\xef\xbb\xbfname;amount;colour;errors\r\n;2;;name: is "
                                    "required\r\nb3;-1;;amount: must be a number above "
                                    "0\r\nb4;x;blue;amount: must be a number above "
                                    "0\r\nb1;8;;name: is taken\r\nb9;9;;\"has 4 cells, but the "
                                    "header line has 3\";surplus\r\n");
}

/* FNV-1a, for example, gives these names the same 64 bits. */
TEST(names_with_equal_hashes_do_not_contradict_each_other)
{
    const char *id =
        bulk_id(bulk_things(m, "name,amount\n8yn0iYCKYHlIj4-BwPqk,1\nGReLUrM4wMqfg9yzV3KQ,1\n"));

    bulk_rows(bulk_log_of(m, id, ""),
              "1 8yn0iYCKYHlIj4-BwPqk pending\n2 GReLUrM4wMqfg9yzV3KQ pending\n");
}

/* After a correction, the failed rows can be uploaded with their column of errors. */
TEST(failed_rows_can_be_corrected_and_uploaded_again)
{
    const char *csv = "\xef\xbb\xbfname,amount,errors\r\nc1,1,\"amount: must be\"\r\n";
    struct answer *made = ck_status(bulk_things(m, csv), 201);

    answer_warns(made, NULL);
    bulk_rows(bulk_store(m, bulk_id(made)), "1 c1 success\n");
    const char *again = bulk_id(bulk_things(m, csv));

    bulk_rows(bulk_log_of(m, again, "status=failed"), "1 c1 failed name: is taken\n");
    ck_assert_str_eq(failed_of(again), "\xef\xbb\xbfname,amount,errors\r\nc1,1,name: is taken\r\n");
}

/* The errors are in their own column, so surplus cells are after it and not taken for errors. */
TEST(a_row_with_surplus_cells_fails_again_until_it_is_corrected)
{
    const char *first = failed_of(bulk_id(bulk_things(m, "errors,name,amount\n,y1,9,9\n")));

    ck_assert_str_eq(first, "\xef\xbb\xbfname,amount,errors\r\ny1,9,"
                            "\"has 4 cells, but the header line has 3\",9\r\n");
    ck_assert_str_eq(failed_of(bulk_id(bulk_things(m, first))), first);
}

TEST(failed_rows_of_a_file_with_an_unusual_separator_can_be_uploaded_again)
{
    const char *first = failed_of(bulk_id(bulk_things(m, "sep=^\nname^amount\nz1^x\n")));

    ck_assert_str_eq(first, "\xef\xbb\xbfsep=^\r\nname^amount^errors\r\n"
                            "z1^x^amount: must be a number above 0\r\n");
    ck_assert_str_eq(failed_of(bulk_id(bulk_things(m, first))), first);
}

TEST(columns_are_found_by_name_in_any_order_and_case)
{
    struct answer *made =
        ck_status(bulk_things(m, "Colour\t AMOUNT \tTitle\nred\t7\t\"d \"\"1\"\"\n\"\n"), 201);

    answer_warns(made, "Colour");
    ck_assert_str_eq(bulk_row(bulk_store(m, bulk_id(made)), 0), "1 d \"1\"\n success");
    ck_error(bulk_things(m, "name,title\nx,y\n"), 400, "The header line names the column title");
}

#define REFUSED "failed : cannot be stored: the database refuses it"

/* A row that passes the check but is refused by the database affects no other row. */
TEST(a_row_refused_by_the_database_affects_no_other_row)
{
    FILE *csv = csv_begin("name,amount\n");

    for (int i = 1; i <= 120; i++)
        fprintf(csv, "e%d,%d\n", i, i == 33 || i == 70 ? 666 : i);
    const char *id = bulk_id(bulk_things(m, csv_end(csv)));

    ck_assert_int_eq(bulk_number(bulk_log_of(m, id, ""), "check", "failed"), 0);
    bulk_ended(bulk_store(m, id), 118, 2);
    bulk_rows(bulk_log_of(m, id, "status=failed"), "33 e33 " REFUSED "\n70 e70 " REFUSED "\n");
    ck_assert_int_eq(things_like("e%"), 118);
}

/* If the commit is refused, the bad row is also found by storing rows one by one. */
TEST(a_row_refused_at_the_commit_affects_no_other_row)
{
    sql_run(db, "CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                " IF NEW.name = 'l7' THEN RAISE check_violation; END IF; RETURN NULL; END $$");
    sql_run(db, "CREATE CONSTRAINT TRIGGER late AFTER INSERT ON heap_thing"
                " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION late()");
    struct answer *log = bulk_store(m, bulk_id(bulk_things(m, bulk_csv("l", 20, "1"))));

    bulk_ended(log, 19, 1);
    ck_assert_str_eq(bulk_row(log, 6), "7 l7 " REFUSED);
    sql_run(db, "DROP FUNCTION late CASCADE");
}

TEST(a_row_that_failed_the_check_is_stored_if_the_reason_is_gone)
{
    bulk_store(m, bulk_id(bulk_things(m, "name,amount\no1,1\n")));
    const char *id = bulk_id(bulk_things(m, "name,amount\no1,1\no2,1\n"));
    int64_t bytes = sql_number(db, text("SELECT bytes FROM bulk_job WHERE id = '%s'", id));

    bulk_rows(bulk_log_of(m, id, ""), "1 o1 failed name: is taken\n2 o2 pending\n");
    sql_run(db, "DELETE FROM heap_thing WHERE name = 'o1'");
    bulk_rows(bulk_store(m, id), "1 o1 success\n2 o2 success\n");
    sql_is(db, 0, "SELECT sum(failed) FROM bulk_part WHERE job = '%s'", id);
    sql_is(db, 1, "SELECT count(*) FROM bulk_job WHERE id = '%s' AND bytes < %jd", id, bytes);
}

/* Writes down which organization gets each batch, and confirms all uploads at once. */
TEST(an_upload_does_not_wait_for_all_newer_uploads_of_another_organization)
{
    struct person *small = person_make(host, admin, "bulk.small", NULL);
    const char *large = bulk_id(bulk_things(m, bulk_csv("wl", 1500, "1")));

    for (int i = 0; i < 3; i++)
        bulk_id(bulk_things(small, text("name,amount\nws%d,1\n", i)));
    sql_run(db, "CREATE TABLE batches (number serial, job uuid)");
    sql_trigger(db, "AFTER UPDATE OF served_at ON bulk_job FOR EACH ROW",
                "INSERT INTO batches (job) VALUES (NEW.id)");
    sql_run(db, text("UPDATE bulk_job SET status = 'confirmed', confirmed_at = created_at"
                     " WHERE id = '%s' OR organisation = %jd",
                     large, (intmax_t)small->organization));
    bulk_await(m, large, "finished");
    ck_assert_str_eq(sql_text(db,
                              "SELECT left(string_agg(CASE WHEN job = $1::uuid THEN 'l' ELSE 's'"
                              " END, '' ORDER BY number), 6) FROM batches",
                              1, &large),
                     "lslsls");
    sql_run(db, SQL_TRIGGER_DROP);
    sql_run(db, "DROP TABLE batches");
}

/* The database is the reason, so no row fails. */
TEST(a_batch_that_fails_because_of_the_database_is_retried_later)
{
    const char *id = bulk_id(bulk_things(m, "name,amount\nx1,1\n"));

    sql_trigger(db, "BEFORE INSERT ON heap_thing FOR EACH ROW", "RAISE disk_full");
    ck_status(bulk_post(m, id, "confirm"), 200);
    sql_soon(db, text("SELECT count(*) FROM bulk_job WHERE id = '%s' AND retry_at > now()", id));
    sql_run(db, SQL_TRIGGER_DROP);
    WAIT_UNTIL(host_logged(host, text("%s failed and is retried: 53100", id)), 5000);
    sql_run(db, text("UPDATE bulk_job SET retry_at = now() WHERE id = '%s'", id));
    bulk_rows(bulk_await(m, id, "finished"), "1 x1 success\n");
}

TEST(the_upload_log_is_paged_and_filtered_by_status)
{
    const char *id = bulk_upload(m, "f", 230);
    static const struct {
        const char *status;
        size_t rows;
    } rows[] = {{"", 230}, {"&status=failed", 23}, {"&status=success", 207}};

    ck_assert_uint_eq(bulk_count(bulk_log_of(m, id, "status=failed&limit=1000")), 23);
    ck_assert_uint_eq(bulk_count(bulk_log_of(m, id, "status=pending&limit=1000")), 207);
    ck_assert_uint_eq(bulk_count(bulk_log_of(m, id, "status=success")), 0);
    bulk_store(m, id);
    for (size_t i = 0; i < 3; i++) {
        const struct answer *page = NULL;
        size_t seen = 0;
        long after = 0;

        for (int pages = 0; pages < 40 && (!page || answer_header(page, "Link")); pages++) {
            page = bulk_log_of(m, id, text("limit=7&after=%ld%s", after, rows[i].status));
            seen += bulk_count(page);
            long last = strtol(bulk_row(page, bulk_count(page) - 1), NULL, 10);

            ck_assert_int_gt(last, after);
            after = last;
        }
        ck_assert_uint_eq(seen, rows[i].rows);
    }
    ck_assert_uint_eq(bulk_count(bulk_log_of(m, id, "status=pending")), 0);
}

/* The parts are corrupted, so reading them fails; they are not read if the totals show that no row
 * has the status. */
TEST(the_upload_log_reads_no_row_for_a_status_without_rows)
{
    const char *created = bulk_id(bulk_things(m, "name,amount\nt1,1\n"));
    const char *ended = bulk_id(bulk_things(m, "name,amount\nt2,1\n"));
    const char *log = "GET " BULK "/bulk-upload-log/%s?status=%s";

    ck_status(bulk_post(m, ended, "cancel"), 200);
    sql_run(db,
            text("UPDATE bulk_part SET bytes = '\"' WHERE job IN ('%s', '%s')", created, ended));
    ask(m, 503, NULL, log, created, "pending");
    ask(m, 200, "{'rows':[]}", log, created, "cancelled");
    ask(m, 200, "{'rows':[]}", log, created, "success");
    ask(m, 200, "{'rows':[]}", log, ended, "pending");
    ask(m, 200, "{'rows':[]}", log, ended, "success");
}

/* Contradictions are found across parts; their rows have the names of their cells. */
TEST(failed_rows_of_many_parts_have_the_names_of_their_cells)
{
    enum { PAIRS = 1200 };
    FILE *csv = csv_begin("amount,name\n");

    for (int i = 1; i <= PAIRS; i++)
        fprintf(csv, "1,u%d\n%s,%s\n", i, i % 7 ? "1" : "-1", i % 5 ? text("u%d", i) : "");
    const char *id = bulk_id(bulk_things(m, csv_end(csv)));
    struct answer *log = ck_status(bulk_log_of(m, id, "status=failed&limit=1000"), 200);

    ck_assert_int_eq(bulk_number(log, "check", "failed"), PAIRS);
    for (int i = 1; i <= 1000; i++) {
        const char *row = bulk_row(log, (size_t)i - 1);
        const char *name = i % 5 ? text("%d u%d failed *", 2 * i, i) : text("%d - failed *", 2 * i);

        ck_assert_msg(glob_matches(row, name), "%s", row);
    }
}

static double counted(const char *name, const char *outcome)
{
    double value =
        exposition_value(exposition_get(host, admin->token), text("busbar_bulk_%s", name),
                         outcome ? text("outcome=\"%s\"", outcome) : "");

    return value < 0 ? 0 : value;
}

TEST(metrics_count_jobs_and_rows_by_outcome)
{
    double finished = counted("jobs_total", "finished") + 1;
    double cancelled = counted("jobs_total", "cancelled");
    double stored = counted("rows_total", "success"), failed = counted("rows_total", "failed");

    bulk_store(m, bulk_id(bulk_things(m, "name,amount\nv1,1\nv2,-1\nv3,1\n")));
    WAIT_UNTIL(counted("jobs_total", "finished") >= finished && counted("rows_waiting", NULL) <= 0,
               5000);
    ck_assert_double_eq(counted("jobs_total", "finished"), finished);
    ck_assert_double_eq(counted("rows_total", "success"), stored + 2);
    ck_assert_double_eq(counted("rows_total", "failed"), failed + 1);
    ck_status(bulk_post(m, bulk_id(bulk_things(m, "name,amount\nv4,1\n")), "cancel"), 200);
    ck_assert_double_eq(counted("jobs_total", "cancelled"), cancelled + 1);
    ck_assert_double_eq(counted("rows_total", "success"), stored + 2);
}

TEST(malformed_job_ids_are_client_errors_on_every_route)
{
    EACH_TEXT (route, "POST " BULK "/%s/confirm", "POST " BULK "/%s/cancel", "DELETE " BULK "/%s",
               "GET " BULK "/%s/failed.csv", "GET " BULK "/bulk-upload-log/%s",
               "GET " BULK "/%s/stream", "GET " BULK "?after=%s")
        EACH_TEXT (id, "1", "-1", "x", "null", "%00", "%27", "..%2F..", "%C3%28",
                   "0195f3a0-1111-7222-8333-44445555666", "0195f3a0-1111-7222-8333-4444555566667",
                   "0195f3a0-1111-7222-8333-44445555666g", "0195f3a0111172228333444455556666",
                   "%7B0195f3a0-1111-7222-8333-444455556666%7D") {
            const char *request = text(route, id), *path = strchr(request, ' ');
            const char *method = text("%.*s", (int)(path - request), request);
            struct answer *answer = http(host, method, path + 1, m->token, NULL);

            ck_assert_msg(answer->status == 400 || answer->status == 404, "%s: %ld", request,
                          answer->status);
        }
}

TEST(a_job_of_another_organization_is_404_like_an_unknown_one)
{
    const char *id = bulk_id(bulk_things(m, "name,amount\ng1,1\n"));
    const char *unknown = "0195f3a0-1111-7222-8333-444455556666";

    exchanges(host, {text("POST " BULK "/%s/confirm", id), other, 404},
              {text("POST " BULK "/%s/cancel", id), other, 404},
              {text("GET " BULK "/bulk-upload-log/%s", id), other, 404},
              {text("GET " BULK "/%s/failed.csv", id), other, 404},
              {text("GET " BULK "/%s/stream", id), other, 404},
              {text("GET " BULK "/%s/stream", id), NULL, 401},
              {text("DELETE " BULK "/%s", id), other, 404},
              {text("POST " BULK "/%s/confirm", unknown), m, 404},
              {text("GET " BULK "/bulk-upload-log/%s", unknown), m, 404},
              {text("GET " BULK "/bulk-upload-log/%s", id), admin, 200},
              {"GET " BULK, other, 200, "[]"});
    bulk_rows(bulk_log_of(m, id, ""), "1 g1 pending\n");
}

TEST(a_created_job_can_be_deleted_or_cancelled)
{
    const char *gone = bulk_id(bulk_things(m, "name,amount\nh1,1\nh2,-1\n"));
    const char *ended = bulk_id(bulk_things(m, "name,amount\nh3,1\n"));

    ask(m, 200, NULL, "DELETE " BULK "/%s", gone);
    ck_error(bulk_log_of(m, gone, ""), 404, "");
    bulk_no_orphans();
    ask(m, 200, "{'status':'cancelled'}", "POST " BULK "/%s/cancel", ended);
    ck_error(bulk_post(m, ended, "confirm"), 409, "The bulk upload is already cancelled");
    bulk_rows(bulk_log_of(m, ended, ""), "1 h3 cancelled\n");
    ask(m, 200, NULL, "DELETE " BULK "/%s", ended);
    ck_error(bulk_log_of(m, ended, ""), 404, "");
    ck_assert_int_eq(things_like("h_"), 0);
}

/* Rows that failed the check stay failed, the others are canceled, and both can be sent again. */
TEST(rows_of_a_job_cancelled_before_its_confirmation_can_be_uploaded_again)
{
    const char *id = bulk_id(bulk_things(m, "name,amount\nk1,1\nk2,-1\nk3,3\n"));

    ask(m, 200, "{'progress':{'failed':1,'done':1}}", "POST " BULK "/%s/cancel", id);
    bulk_rows(bulk_log_of(m, id, ""), "1 k1 cancelled\n"
                                      "2 k2 failed amount: must be a number above 0\n"
                                      "3 k3 cancelled\n");
    ck_assert_uint_eq(bulk_count(bulk_log_of(m, id, "status=cancelled")), 2);
    ck_assert_uint_eq(bulk_count(bulk_log_of(m, id, "status=failed")), 1);
    const char *rest = failed_of(id);

    ck_assert_str_eq(rest, "\xef\xbb\xbfname,amount,errors\r\n"
                           "k1,1,not stored: the bulk upload was cancelled\r\n"
                           "k2,-1,amount: must be a number above 0\r\n"
                           "k3,3,not stored: the bulk upload was cancelled\r\n");
    bulk_ended(bulk_store(m, bulk_id(bulk_things(m, rest))), 2, 1);
}

TEST(jobs_are_listed_and_the_template_can_be_uploaded)
{
    struct answer *template = ask(m, 200, NULL, "GET " BULK "/template.csv?type=Things");

    ck_assert_str_eq(template->body, "name,amount\r\nthing-1,12.5\r\n");
    const char *id = bulk_id(bulk_things(m, template->body));
    struct answer *list = ask(m, 200, text("[{'bulkUploadId':'%s'}]", id), "GET " BULK "?limit=1");

    ck_assert_ptr_nonnull(answer_header(list, "Link"));
    const char *types = "{'errors':[{'problem':'must be one of: *Things*'}]}";

    ask(m, 400, types, "GET " BULK "/template.csv?type=things");
    expect_json(ck_status(bulk_text(m, "type=Nothing", "name\nx\n"), 400)->json, types);
}

TEST(the_list_of_jobs_continues_after_a_deleted_job)
{
    struct person *lister = person_make(host, admin, "bulk.lister", NULL);
    const char *first = bulk_id(bulk_things(lister, "name,amount\np1,1\n"));
    const char *second = bulk_id(bulk_things(lister, "name,amount\np2,1\n"));
    struct answer *page =
        ask(lister, 200, text("[{'bulkUploadId':'%s'}]", second), "GET " BULK "?limit=1");

    /* a cursor of an earlier version */
    ask(lister, 200, text("[{'bulkUploadId':'%s'}]", first), "GET " BULK "?after=%s", second);
    ask(lister, 200, NULL, "DELETE " BULK "/%s", second);
    ask(lister, 200, text("[{'bulkUploadId':'%s'}]", first), "GET %s", next_page(page));
    EACH_TEXT (after, "1-x", text("999999999999999999-%s", first))
        ask(lister, 400, "{'errors':[{'field':'after'}]}", "GET " BULK "?after=%s", after);
}

TEST(jobs_are_listed_for_an_organization_of_the_caller)
{
    struct person *agent = person_with_role(host, admin, "bulk.agent", "ApiUser");
    const char *id = bulk_id(bulk_things(m, "name,amount\nlisted,1\n"));

    ask(m, 200, text("[{'bulkUploadId':'%s'}]", id), "GET " BULK "?limit=1&organizationId=999999");
    ask(admin, 200, text("[{'bulkUploadId':'%s'}]", id), "GET " BULK "?limit=1&organizationId=%jd",
        (intmax_t)m->organization);
    ask(admin, 200, "[]", "GET " BULK "?organizationId=999999");
    ask(agent, 201, NULL, "POST /api/organization {'name':'Bulk agents'}");
    ask(agent, 403, NULL, "GET " BULK "?organizationId=%jd", (intmax_t)m->organization);
}

TEST(a_role_that_may_not_upload_the_row_type_is_forbidden)
{
    struct person *buyer = person_with_role(host, admin, "bulk.buyer", "Buyer");
    const char *csv = "name,amount\ni1,1\n";

    ck_error(bulk_things(buyer, csv), 403, "Forbidden");
    ck_error(bulk_things(admin, csv), 400, "");
    ck_status(bulk_text(admin, text("type=Things&organizationId=%jd", m->organization), csv), 201);
    ck_error(bulk_text(admin, "type=Things&organizationId=999999", csv), 404,
             "Organization not found");
}

/* The role is checked at each change of an upload, not only when the file is sent. */
TEST(an_account_that_lost_its_role_cannot_change_its_upload)
{
    struct person *lost = person_make(host, admin, "bulk.lost", NULL);
    const char *id = bulk_id(bulk_things(lost, "name,amount\nr1,1\n"));

    ck_status(person_change(host, admin, lost, "role", "Buyer"), 200);
    person_login(host, lost);
    ck_error(bulk_post(lost, id, "confirm"), 403, "Forbidden");
    ck_error(bulk_post(lost, id, "cancel"), 403, "Forbidden");
    ask(lost, 403, "Forbidden", "DELETE " BULK "/%s", id);
    bulk_rows(bulk_log_of(lost, id, ""), "1 r1 pending\n");
    ck_status(bulk_post(admin, id, "cancel"), 200);
}

TEST(a_job_of_a_row_type_that_is_not_loaded_cannot_be_confirmed)
{
    const char *id = bulk_id(bulk_things(m, "name,amount\ns1,1\n"));

    sql_run(db, text("UPDATE bulk_job SET type = 'Gone' WHERE id = '%s'", id));
    ck_error(bulk_post(m, id, "confirm"), 409, "No loaded module provides rows of type Gone");
    ask(m, 200, NULL, "DELETE " BULK "/%s", id);
}

/* This happens after a module was removed from the configuration; other jobs do not wait. */
TEST(a_job_of_a_row_type_that_is_not_loaded_delays_no_other_job)
{
    const char *gone = bulk_id(bulk_things(m, "name,amount\nq1,1\n"));

    sql_run(db, text("UPDATE bulk_job SET type = 'Gone', status = 'confirmed', confirmed_at = now()"
                     " WHERE id = '%s'",
                     gone));
    bulk_rows(bulk_store(m, bulk_id(bulk_things(m, "name,amount\nq2,1\n"))), "1 q2 success\n");
    ck_assert_str_eq(answer_text(bulk_log_of(m, gone, ""), "status"), "confirmed");
    ck_status(bulk_post(m, gone, "cancel"), 200);
}

STAGE_SUITE(bulk, set_up, 120)
