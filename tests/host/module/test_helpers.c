/* <busbar/helpers.h>, and the functions that take a text. */
#include "poke.h"
#include "stage.h"

#define TEXT "100 %s of %n"

static void set_up(void)
{
    host = poke_start(&(struct host_spec){.name = "helpers"});
}

TEST(a_json_cell_is_read_and_an_invalid_one_is_500)
{
    ck_assert_str_eq(poke(host, "GET", "json/list", 200)->body, "[1,\"two\"]");
    ck_assert_str_eq(poke(host, "GET", "json/object", 200)->body, "{}");
    ck_assert_str_eq(poke(host, "GET", "json/word", 200)->body, "\"word\"");
    ck_assert_str_eq(poke(host, "GET", "json/number", 200)->body, "12");
    poke(host, "GET", "json/half", 500);
    poke(host, "GET", "json/nothing", 500);
    poke(host, "GET", "json/null", 500);
}

TEST(rows_become_json_objects_with_a_member_per_column)
{
    ck_assert_str_eq(poke(host, "GET", "rows/two-rows", 200)->body,
                     "[{\"id\":9,\"name\":\"Rooftop\",\"group\":3,\"size\":1.5,"
                     "\"made\":\"2026-04-01T12:00:00.000Z\",\"big\":true,\"tags\":[1]},"
                     "{\"id\":10,\"name\":null,\"group\":null,\"size\":null,"
                     "\"made\":null,\"big\":false,\"tags\":null}]");
}

TEST(a_row_with_invalid_json_is_500)
{
    poke(host, "GET", "rows/bad-row", 500);
}

TEST(error_texts_are_not_formats)
{
    struct answer *answer;

    ck_error(poke(host, "GET", "text/fail", 418), 418, TEXT);
    ck_error(poke(host, "GET", "text/forbid", 403), 403, "Forbidden");
    answer = poke(host, "GET", "text/invalid", 400);
    ck_assert_ptr_nonnull(strstr(answer->body, "[{\"field\":\"share\",\"problem\":\"" TEXT "\"}]"));
    answer = poke(host, "GET", "text/listed", 409);
    ck_error(answer, 409, TEXT);
    ck_assert_ptr_nonnull(strstr(answer->body, "[{\"field\":\"share\",\"problem\":\"is taken\"}]"));
}

TEST(texts_of_warnings_logs_and_commands_are_not_formats)
{
    expect_json(poke(host, "GET", "text/warn", 200)->json,
                "{'warnings':['the module*','" TEXT "'],'warningDetails':[{'problem':'" TEXT
                "'}]}");
    host_logs(host, 0, "logged " TEXT);
    host_logs(host, 0, "host " TEXT);
    ck_prints(host, 0, "printed " TEXT "\n", "print");
}

TEST(a_module_that_fails_to_open_reports_the_reason)
{
    struct host *own = host_prepare(
        &(struct host_spec){.name = "helpers_closed",
                            .database = "helpers",
                            .modules = text("[auth, \"%s\"]", harness_test_module("module_poke")),
                            .more = "poke:\n  closed: true\n"});

    ck_assert(!host_run(own));
    host_logs(own, 0, TEXT);
}

STAGE_SUITE(helpers, set_up, 60)
