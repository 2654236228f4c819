#include <check.h>
#include <string.h>

#include "core/module/sql_check.h"
#include "core/module/sql_token.h"
#include "suites.h"

static const char *const sent[] = {
    "SELECT 1",
    "SELECT 1;",
    " ;; SELECT 1 ; -- that is all",
    "WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a",
    "/* BEGIN; */ SELECT $1 -- COMMIT; COMMIT",
    "SELECT 'a; COMMIT', \"b; c\", E'it\\'s; COMMIT', $$;$$, $x$ ; $$ ; $x$, $1",
    "SELECT ''';' , U&'d\\0061t;'",
    "INSERT INTO begin VALUES ($1)",
    "(SELECT 1)",
    "VALUES (1)",
    "TABLE t",
    "NOTIFY a, 'b'",
    "CREATE TABLE t (a int)",
    "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT 2; END",
    "CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN 1; END $$",
    "UPDATE t SET a = 1",
    "SELECT pg_advisory_xact_lock($1)",
    "SELECT e, end_at, \"set_config\" FROM t",
    "SELECT 1e5, 'x' || e'\\\\'",
    "LOCK TABLE t IN SHARE MODE",
    "SELECT \"begin\", \"pg_advisory_lock\" FROM \"SET_CONFIG\" (a)",
    "SELECT setting FROM pg_settings WHERE name = 'update'",
    "INSERT INTO temp VALUES ($1)",
    "CREATE TABLE temp (temporary int)",
    "CREATE INDEX temp ON t (a)",
    "UPDATE t SET pg_temp = 1",
    "SELECT 'pg_temp.a', 'U&\"a\"'",
};

static const char *const refused[] = {
    "BEGIN",
    "begin",
    "BEGIN;",
    ";BEGIN",
    "\n\t BeGiN ISOLATION LEVEL SERIALIZABLE",
    "-- why\nBEGIN",
    "-- why\rBEGIN",
    "/* a /* b */ c */COMMIT",
    "START TRANSACTION",
    "COMMIT",
    "COMMIT AND CHAIN",
    "END",
    "ROLLBACK",
    "ROLLBACK TO SAVEPOINT a",
    "ABORT",
    "SAVEPOINT a",
    "RELEASE a",
    "PREPARE TRANSACTION 'a'",
    "PREPARE a AS SELECT 1",
    "EXECUTE a",
    "DEALLOCATE ALL",
    "SET search_path = a",
    "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
    "RESET ALL",
    "LISTEN a",
    "UNLISTEN *",
    "DISCARD ALL",
    "LOAD 'a'",
    "COPY t FROM STDIN",
    "VACUUM",
    "CREATE DATABASE a",
    "CREATE INDEX CONCURRENTLY i ON t (a)",
    "SELECT 1; SELECT 2",
    "SELECT 1; COMMIT",
    "SELECT 'a\\'; COMMIT --'",
    "SELECT $$ $$; COMMIT",
    "SELECT $1; COMMIT",
    "SELECT a$b$; COMMIT; SELECT $b$",
    "SELECT \"a\"\"\"; COMMIT",
    "SELECT pg_advisory_lock(1)",
    "SELECT \"pg_advisory_lock\"(1)",
    "SELECT pg_catalog . \"pg_try_advisory_lock\" /* so */ (1)",
    "SELECT U&\"pg\\005fadvisory_lock\"(36)",
    "SELECT u&\"a\"",
    "SELECT \"set_config\"('datestyle', 'German', false)",
    "SELECT set_config('datestyle', 'German', false)",
    "SELECT set_config('datestyle', 'German', 1 = 1 OR true)",
    "SELECT set_config('a', (SELECT f(1, true)), $1)",
    "UPDATE pg_settings SET setting = 'German' WHERE name = 'datestyle'",
    "UPDATE ONLY pg_catalog.\"pg_settings\" AS s SET setting = 'German'",
    "WITH a AS (UPDATE pg_settings SET setting = '1' RETURNING 1) SELECT 1",
    "CREATE TEMP TABLE account (id bigint)",
    "CREATE LOCAL TEMPORARY TABLE account (id bigint)",
    "CREATE OR REPLACE TEMP VIEW v AS SELECT 1",
    "CREATE TABLE pg_temp.account (id bigint)",
    "CREATE TABLE \"pg_temp\".account (id bigint)",
    "SELECT 1 AS a INTO TEMP t",
    "SELECT 1 AS a INTO LOCAL TEMPORARY TABLE t",
    "",
    " -- nothing\n;",
    "/* nothing",
};

/* What ends with the transaction, and what needs one that is not shared. */
static const char *const interactive_only[] = {
    "SET LOCAL work_mem = '1MB'",
    "set transaction isolation level repeatable read",
    "SET CONSTRAINTS ALL DEFERRED",
    "SELECT set_config('work_mem', '1MB', true)",
    "SELECT \"set_config\"('work_mem', (SELECT f(1, 2)), TRUE), 1",
    "DO $$ BEGIN END $$",
    "CALL p()",
    "DECLARE c CURSOR FOR SELECT 1",
    "FETCH ALL FROM c",
    "CLOSE c",
};

START_TEST(ordinary_statements_are_sent)
{
    ck_assert_ptr_null(sql_check(sent[_i], false));
    ck_assert_ptr_null(sql_check(sent[_i], true));
}
END_TEST

START_TEST(those_of_the_host_are_refused)
{
    ck_assert_ptr_nonnull(sql_check(refused[_i], false));
    ck_assert_ptr_nonnull(sql_check(refused[_i], true));
}
END_TEST

START_TEST(what_ends_with_a_transaction_needs_one)
{
    ck_assert_ptr_nonnull(sql_check(interactive_only[_i], false));
    ck_assert_ptr_null(sql_check(interactive_only[_i], true));
}
END_TEST

/* Nothing but statements, however they are written. */
static const char *const surely[] = {
    "COMMIT",
    "  -- why\n BEGIN",
    "SELECT 1; COMMIT",
    "begin;",
    "Begin ;",
    "bEgIn; -- so",
    "end;",
    "begin work",
    "begin transaction",
    "begin isolation level serializable",
    "start transaction read only",
    "start transaction",
    "commit and chain",
    "commit transaction",
    "rollback to savepoint a",
    "rollback prepared 'a'",
    "release savepoint a",
    "savepoint a;",
    "release a;",
    "listen a;",
    "load 'a';",
    "discard all;",
    "set search_path = nowhere",
    "set search_path to a, b",
    "Set search_path = nowhere;",
    "set session work_mem = '1MB'",
    "set \"TimeZone\" to 'UTC'",
    "set datestyle = iso, mdy",
    "set time zone 'UTC'",
    "reset all;",
    "select set_config('datestyle', $1, false)",
    "select pg_catalog.set_config('datestyle', $1, false)",
    "select pg_advisory_lock($1)",
    "/* why */ select pg_try_advisory_lock($1)",
    "select 1; select 2;",
    "update pg_settings set setting = 'German'",
    "create temp table t (a int)",
    "create temporary table t as select 1",
    "create index concurrently i on t (a)",
    "copy t from stdin",
    "copy t to stdout",
    "vacuum full t",
};

/* What may stand in a module for any other reason. */
static const char *const perhaps[] = {
    "",
    "-- nothing",
    "begin",
    "commit",
    "end",
    "set",
    "Set",
    "start",
    "reset",
    "Update the device; then read it again",
    "Select one of them",
    "Select one; delete the others",
    "select one; delete the others",
    "Set the limit to zero",
    "Set limit to zero",
    "set limit to %s",
    "set %s = %s",
    "set limit = %d",
    "Begin transaction",
    "Begin work",
    "begin work on the next",
    "start transaction failed",
    "commit of %s failed; trying again",
    "Commit and chain",
    "copy '%s' failed",
    "copy of the first",
    "load '%s' failed",
    "release notes",
    "listen port",
    "reset()",
    "set(a);",
    "end: ;",
    "start = 1;",
    "load.all();",
    "no such thing; try again",
    "It is set;",
    "Update the row &mdash; now",
    "text/html; charset=utf-8",
    "a;b",
    "GET /a;b",
    "HTTP; a protocol",
};

START_TEST(a_text_that_only_a_statement_has_is_known)
{
    ck_assert_msg(sql_check(surely[_i], true), "%s", surely[_i]);
    ck_assert_msg(sql_is_sure(surely[_i]), "%s", surely[_i]);
}
END_TEST

START_TEST(a_text_that_may_be_prose_is_not_taken_for_a_statement)
{
    ck_assert_msg(!sql_is_sure(perhaps[_i]), "%s", perhaps[_i]);
}
END_TEST

START_TEST(a_statement_is_named_by_its_first_words)
{
    char words[16];

    ck_assert_str_eq(sql_words(" -- c\n SELECT\n\n  1 ", words, sizeof words), "SELECT 1");
    ck_assert_str_eq(sql_words("SELECT abcdefgh, ijkl", words, sizeof words), "SELECT abcdefgh");
    ck_assert_str_eq(sql_words("", words, sizeof words), "");
}
END_TEST

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

Suite *sql_check_suite(void)
{
    Suite *suite = suite_create("sql_check");
    TCase *cases = tcase_create("sql_check");

    tcase_add_loop_test(cases, ordinary_statements_are_sent, 0, COUNT(sent));
    tcase_add_loop_test(cases, those_of_the_host_are_refused, 0, COUNT(refused));
    tcase_add_loop_test(cases, what_ends_with_a_transaction_needs_one, 0, COUNT(interactive_only));
    tcase_add_loop_test(cases, a_text_that_only_a_statement_has_is_known, 0, COUNT(surely));
    tcase_add_loop_test(cases, a_text_that_may_be_prose_is_not_taken_for_a_statement, 0,
                        COUNT(perhaps));
    tcase_add_test(cases, a_statement_is_named_by_its_first_words);
    suite_add_tcase(suite, cases);
    return suite;
}
