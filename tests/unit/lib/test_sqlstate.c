/* The table of SQLSTATEs, and the decisions that depend on it. */
#include "core/lib/sqlstate.h"
#include "core/module/reply.h"
#include "suite.h"

/* A line after its class would never count. */
TEST(no_row_of_the_sqlstate_table_hides_a_later_one)
{
    size_t i = 0;

    do {
        const struct sqlstate *row = &sqlstate_table[i];

        ck_assert_msg(sqlstate_of(row->code) == row, "%s", row->code);
        ck_assert((row->status != 0) == (row->text != NULL));
    } while (*sqlstate_table[i++].code);
}

TEST(a_code_without_a_row_has_the_meaning_of_its_class)
{
    ck_assert_str_eq(sqlstate_of("40002")->code, "40");
    ck_assert_str_eq(sqlstate_of("BB404")->code, "BB");
    ck_assert_str_eq(sqlstate_of("22012")->code, "");
    ck_assert_str_eq(sqlstate_of("")->code, "");
    ck_assert(!sqlstate_has("22012", ~0U));
    ck_assert(!sqlstate_has(NULL, ~0U));
}

static const struct {
    const char *code;
    bool passing, undefined, expected, again;
} cases[] = {
    {"00000", false, false, false, false}, {"08006", true, false, false, false},
    {"22012", false, false, false, false}, {"22021", false, false, false, false},
    {"23503", false, false, false, false}, {"23505", false, false, true, false},
    {"25006", true, false, false, false},  {"25P02", false, false, false, false},
    {"3F000", false, true, false, false},  {"40001", true, false, true, true},
    {"40003", true, false, true, false},   {"40P01", true, false, true, true},
    {"42601", false, false, false, false}, {"42703", false, true, false, false},
    {"42P01", false, true, false, false},  {"53300", true, false, false, false},
    {"55P03", true, false, false, false},  {"57014", true, false, false, false},
    {"57P01", true, false, false, false},  {"58030", true, false, false, false},
    {"BB404", false, false, true, false},  {"XX000", false, false, false, false},
};

TEST(each_sqlstate_has_the_right_status_and_retry)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *code = cases[i].code;
        struct failure failure = {.kind = FAILED_SQL};

        strcpy(failure.sqlstate, code);
        ck_assert_msg(failure_is_passing(&failure) == cases[i].passing, "%s", code);
        ck_assert_msg(sqlstate_has(code, SQLSTATE_UNDEFINED) == cases[i].undefined, "%s", code);
        ck_assert_msg(sqlstate_has(code, SQLSTATE_EXPECTED) == cases[i].expected, "%s", code);
        ck_assert_msg(sqlstate_has(code, SQLSTATE_AGAIN) == cases[i].again, "%s", code);
    }
}

TEST(sqlstates_say_if_a_migration_may_be_retried)
{
    EACH_TEXT (later, "08001", "25006", "40P01", "53100", "55P03", "57014", "57P03")
        ck_assert_msg(sqlstate_has(later, SQLSTATE_MIGRATION_LATER), "%s", later);
    EACH_TEXT (never, "42601", "55000", "57000", "58030", "23505")
        ck_assert_msg(!sqlstate_has(never, SQLSTATE_MIGRATION_LATER), "%s", never);
}

SUITE(sqlstate)
