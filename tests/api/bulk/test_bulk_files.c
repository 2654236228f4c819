/*
 * Files that are not CSV or are too large: refused with the reason, within the time limit of a
 * request; nothing is stored and no file is left.
 */
#include "bulk.h"
#include "files.h"

#define HEAD "name,amount\n"

static void nothing_is_left(void)
{
    WAIT_UNTIL(files_now(harness_path("bulk-bulk_files")) == 0, 5000);
    sql_is(db, 0,
           "SELECT (SELECT count(*) FROM bulk_job)"
           " + (SELECT count(*) FROM bulk_part)"
           " + (SELECT count(*) FROM bulk_finding)");
}

static void drop(const char *id)
{
    ask(m, 200, NULL, "DELETE " BULK "/%s", id);
}

struct bad {
    const char *name, *bytes;
    size_t length;
    const char *message;
};
#define BYTES(text) (text), sizeof(text) - 1

TEST(files_that_are_not_csv_are_refused_with_the_reason)
{
    static const struct bad bad[] = {
        {"x.csv", BYTES(""), "The file is empty"},
        {"x.csv", BYTES("\xef\xbb\xbf"), "The file is empty"},
        {"x.csv", BYTES("\n\r\n\n"), "The file is empty"},
        {"x.csv", BYTES(HEAD), "The file has a header line and no rows"},
        {"x.csv", BYTES("name,amount\n,\n\n,\n"), "The file has a header line and no rows"},
        {"x.csv", BYTES("PK\x03\x04\x14\x00\x06\x00"), "The file is a workbook (.xlsx)"},
        {"x.csv",
         BYTES("n\x00"
               "a\x00m\x00"),
         "The file has NUL bytes"},
        {"x.csv", BYTES(HEAD "M\xfcller,1\n"), "The file is not UTF-8, perhaps Windows-1252: save"},
        {"x.csv", BYTES(HEAD "a,\xed\xa0\x80\n"), "The file is not UTF-8"},
        {"x.csv", BYTES(HEAD "a,\xc3"), "The file is not UTF-8: its last character is cut"},
        {"x.csv", BYTES(HEAD "\"a,1\nb,2\n"),
         "The file is not CSV: row 1 has a quote that is not closed"},
        {"x.csv.exe", BYTES(HEAD "a,1\n"), ""},
        {"x", BYTES(HEAD "a,1\n"), ""},
        {"x.xlsx", BYTES(HEAD "a,1\n"), ""},
        {"csv", BYTES(HEAD "a,1\n"), ""},
    };

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_error(bulk_send(host, m, "type=Things", bad[i].name, bad[i].bytes, bad[i].length), 400,
                 bad[i].message);
    nothing_is_left();
}

/* The host cuts longer names, including their extension. */
TEST(long_file_names_are_cut)
{
    char name[301] = "";

    memset(name, 'n', sizeof name - 1);
    memcpy(name + 251, ".csv", 5);
    struct answer *made = bulk_send(host, m, "type=Things", name, BYTES(HEAD "a,1\n"));

    ck_assert_str_eq(answer_text(ck_status(made, 201), "fileName"), name);
    drop(bulk_id(made));
    memcpy(name + 251, "nnnn.csv", 9);
    made = ck_status(bulk_send(host, m, "type=Things", name, BYTES(HEAD "a,1\n")), 400);
    expect_json(made->json, "{'errors':[{'problem':'must be a .csv file with a name of up to 255 "
                            "characters*'}]}");
    nothing_is_left();
}

/* Sends `head` and `count` times `unit`. */
static void is_refused(const char *head, const char *unit, size_t count, long status,
                       const char *message)
{
    ck_error(bulk_things(m, text("%s%s", head, text_repeated(unit, count))), status, message);
    nothing_is_left();
}

TEST(too_large_cells_and_too_many_columns_are_refused)
{
    is_refused(HEAD, "a", 10485760, 400, "The file is not CSV: row 1 has a cell of more");
    is_refused(HEAD "\"", "a\n", 5242880, 400, "The file is not CSV: row 1 has a cell of more");
    is_refused("name", ",", 1000000, 400, "The file is not CSV: the header line has more");
    is_refused(HEAD, "\"", 10485761, 400, "The file is not CSV: row 1 has ");
}

TEST(too_many_rows_or_bytes_are_413)
{
    is_refused(HEAD, "a,1\n", 200001, 413, "The file has more than 200000 rows");
    is_refused(HEAD, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n", 51 * 16645,
               413, "");
}

/* Sends the body and returns the response. */
static struct answer *send_body(struct upload_body *body, long status)
{
    return ck_status(upload_send(host, "POST", BULK "?type=Things", m, body), status);
}

TEST(an_upload_has_one_file_part_and_text_parts_are_ignored)
{
    struct upload_body body = {NULL, 0};

    ask(m, 400, NULL, "POST " BULK "?type=Things");
    upload_field(&body, "note", "from a form");
    upload_file(&body, "plants", "X.CSV", BYTES(HEAD "a,1\n"));
    upload_field(&body, "more", "");
    struct answer *made = send_body(&body, 201);

    answer_warns(made, "note: is not a part of this request, and was ignored");
    drop(bulk_id(made));
    upload_field(&body, "note", "no file");
    expect_json(send_body(&body, 400)->json,
                "{'errors':[{'field':'file','problem':'is required: a part of*'}]}");
    upload_file(&body, "plants", "x.xls", BYTES(HEAD "a,1\n"));
    expect_json(send_body(&body, 400)->json,
                "{'errors':[{'field':'plants','problem':'must be a .csv file*'}]}");
    upload_file(&body, "one", "x.csv", BYTES(HEAD "a,1\n"));
    upload_file(&body, "two", "y.csv", BYTES(HEAD "a,1\n"));
    expect_json(send_body(&body, 400)->json,
                "{'errors':[{'field':'two','problem':'has too many files'}]}");
    nothing_is_left();
}

OPENED_SUITE(bulk_files, bulk_open, 180)
