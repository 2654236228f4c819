/* Steps of schemas: which changes of a text make a different step; published steps never change. */
#include "core/lib/text.h"
#include "core/module/module_validate.h"
#include "fixture.h"
#include "suite.h"

static struct migrate_step step_of(const char *sql)
{
    char text[512], why[128];
    const char *cursor = text;
    struct migrate_step step;

    snprintf(text, sizeof text, "-- step 1: a title\n%s", sql);
    ck_assert_int_eq(migrate_next(&cursor, 1, &step, why, sizeof why), 1);
    return step;
}

#define TABLE "CREATE TABLE a (b text DEFAULT 'x y');\n"
#define FUNCTION(sql) "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS $$ " sql " $$;"

static const char plain[] = TABLE FUNCTION("SELECT 1");

TEST(comments_and_white_space_do_not_change_a_checksum)
{
    struct migrate_step step = step_of(plain);

    EACH_TEXT (same,
               "-- a comment\nCREATE TABLE a (b text DEFAULT 'x y');\n\n"
               "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS $$ SELECT 1 $$;\n\n",
               "CREATE TABLE a ( -- the 'table\n  b text /* of /* all */ */ DEFAULT 'x y' ) ;\r\n"
               "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS $$\n  -- $x$ one\n  SELECT 1\n$$;",
               "CREATE TABLE a(b text DEFAULT 'x y');"
               "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS $$SELECT/**/1$$;-- the end")
        ck_assert_msg(!strcmp(step_of(same).checksum, step.checksum), "%s", same);
    EACH_TEXT (other, "CREATE TABLE a (b text DEFAULT 'x  y');\n" FUNCTION("SELECT 1"),
               "CREATE TABLE a (b text DEFAULT 'x-- y');\n" FUNCTION("SELECT 1"),
               "CREATE TABLE ab (text DEFAULT 'x y');\n" FUNCTION("SELECT 1"),
               TABLE FUNCTION("SELECT 2"),
               "CREATE TABLE a (b text DEFAULT $$x y$$);\n" FUNCTION("SELECT 1"),
               "CREATE TABLE a (b text DEFAULT 'x y');", "")
        ck_assert_msg(strcmp(step_of(other).checksum, step.checksum) != 0, "%s", other);
}

/* An end of a quotation or comment that is missing ends with the text. */
TEST(text_in_quotes_changes_a_checksum)
{
    ck_assert_str_ne(step_of("SELECT 'a b'").checksum, step_of("SELECT 'a  b'").checksum);
    ck_assert_str_ne(step_of("SELECT '--', 1").checksum, step_of("SELECT '--', 2").checksum);
    ck_assert_str_ne(step_of("SELECT \"a b\"").checksum, step_of("SELECT \"a  b\"").checksum);
    ck_assert_str_ne(step_of("SELECT 'a b").checksum, step_of("SELECT 'a  b").checksum);
    ck_assert_str_eq(step_of("SELECT 1/* a").checksum, step_of("SELECT 1").checksum);
    ck_assert_str_ne(step_of("SELECT a b").checksum, step_of("SELECT ab").checksum);
}

/*
 * A database records the checksum of each step that it was given, so a released step must never
 * change. schema_steps.txt has a line for each; lines are only ever added to it.
 */
TEST(published_migration_steps_are_unchanged)
{
    size_t lines = 0, steps = 0, length;
    char *published = file_read_bytes(TEST_TOP "/tests/unit/schema_steps.txt", &length);

    for (const char *at = published; (at = strchr(at, '\n')); at++)
        lines++;
    EACH_TEXT (module, "busbar", "auth", "audit", "bulk", "certificate", "chat", "device", "mail",
               "reading", "webhook") {
        char path[256], why[128], line[128];
        bool own = !strcmp(module, "busbar");

        snprintf(path, sizeof path, TEST_TOP "/%s/%s/schema.sql", own ? "core" : "modules",
                 own ? "store" : module);
        char *schema = file_read_bytes(path, &length);
        const char *cursor = schema;
        struct migrate_step step;

        for (unsigned n = 1; migrate_next(&cursor, n, &step, why, sizeof why) == 1; n++, steps++) {
            snprintf(line, sizeof line, "%s %u %s\n", module, n, step.checksum);
            ck_assert_msg(strstr(published, line) != NULL,
                          "step %u of %s was changed: put it back and add a new step. A new step "
                          "is added to schema_steps.txt:\n%s",
                          n, path, line);
        }
        free(schema);
    }
    ck_assert_msg(steps == lines, "%zu steps are gone", lines - steps);
    free(published);
}

SUITE(migrate_steps)
