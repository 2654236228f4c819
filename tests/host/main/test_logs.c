/* Threat W12: at the end of a run, no log contains a password, a token, a secret or a message
 * text. */
#include "secrets.h"
#include "suites.h"

#include "harness.h"

START_TEST(no_log_holds_a_secret)
{
    const char *found = secrets_in_logs();

    ck_assert_msg(*found == '\0', "secrets in the logs:\n%s", found);
}

Suite *logs_suite(void)
{
    Suite *suite = suite_create("logs");
    TCase *tests = tcase_create("logs");

    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, no_log_holds_a_secret);
    suite_add_tcase(suite, tests);
    return suite;
}
