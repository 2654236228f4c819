/* Every command that needs a missing part of a configuration or database names it. */
#include "harness.h"

static const char *const password[] = {"BUSBAR_PASSWORD=" ADMIN_PASSWORD, NULL};

static struct host *on_database(const char *name, const char *database, const char *settings)
{
    return host_prepare(&(struct host_spec){.name = name, .database = database, .db = settings});
}

static void expect_lacking(const char *said)
{
    ck_assert_msg(strstr(said, ":2: database.url: is empty, but module auth has tables"), "%s",
                  said);
    ck_assert_msg(strstr(said, "secrets.keys: is empty, but module auth encrypts"), "%s", said);
}

TEST(missing_settings_and_modules_are_reported)
{
    static const char *const add[] = {"user", "add", "--email", "first@example.com", NULL};
    struct host *lacking = on_database("missing_all", "", NULL);

    file_write(lacking->conf, text("database:\n  url: \"\"\nmodule_path: \"%s\"\n"
                                   "modules: [auth, chat, health, webhook]\n",
                                   harness_modules(false)));
    EACH_TEXT (command, "check", "serve") {
        expect_lacking(host_says(lacking, 1, command));
    }
    ck_assert_int_eq(host_command(lacking, password, add), 1);
    expect_lacking(file_text(lacking->log));
}

TEST(commands_that_need_a_database_report_that_none_is_configured)
{
    struct host *without = on_database("missing_database", "", NULL);

    file_write(without->conf, text("database:\n  url: \"\"\nmodule_path: \"%s\"\n"
                                   "modules: [health]\n",
                                   harness_modules(false)));
    EACH_TEXT (command, "migrate", "pause", "resume") {
        ck_prints(without, 1, "no database is configured (database.url)", command);
    }
    ck_assert_ptr_null(strstr(host_says(without, 1, "doctor"), "error"));
}

TEST(check_reports_a_database_that_is_not_migrated)
{
    postgres_run(the_postgres, "CREATE DATABASE missing_tables");
    struct host *free = on_database("missing_free", "missing_tables", NULL);
    struct host *bound = on_database("missing_bound", "missing_tables", "  migrate: false\n");

    ck_prints(free, 0, "no tables of busbar yet", "check"); /* serve creates the tables */
    ck_prints(bound, 1, "run `busbar migrate`", "check");
    host_says(free, 0, "migrate");
    ck_prints(bound, 0, "is up to date", "check");
}

TEST(user_add_reports_a_database_that_is_not_migrated)
{
    static const char *const add[] = {"user", "add", "--email", "first@example.com", NULL};

    postgres_run(the_postgres, "CREATE DATABASE missing_accounts");
    struct host *unmade = on_database("missing_accounts", "missing_accounts", NULL);

    ck_assert_int_eq(host_command(unmade, password, add), 1);
    const char *said = file_text(unmade->log);

    ck_assert_msg(strstr(said, "no tables of busbar yet: run `busbar migrate`"), "%s", said);
    ck_assert_msg(!strstr(said, "does not respond"), "%s", said);
}

SUITE(missing, .timeout_s = 60)
