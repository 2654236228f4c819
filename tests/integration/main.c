/*
 * Runs the integration tests: `run [suite…]`, all without an argument but those of faults. `run
 * --suites` and `run --faults` print the names of both kinds. The environment: BUSBAR_ROOT says
 * where busbar is installed, BUSBAR_PLAIN where the build without sanitizers is, for faults;
 * BUSBAR_TEST_KEEP keeps the directory of a run that passed. The exit status is 0 if all passed.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "fault/faults.h"
#include "suites.h"

struct suite_row {
    const char *name;
    Suite *(*make)(void);
};

static const struct suite_row rows[] = {
#define SUITE_ROW(name) {#name, name##_suite},
    FAULTS(SUITE_ROW) SUITES(SUITE_ROW)
#undef SUITE_ROW
};

#define FAULT_BYTE(id) 0,
enum {
    SUITE_COUNT = sizeof(rows) / sizeof(rows[0]),
    FAULT_COUNT = sizeof((const char[]){FAULTS(FAULT_BYTE)})
};
#undef FAULT_BYTE

static bool asked_for(int row, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (!strcmp(rows[row].name, argv[i]))
            return true;
    }
    return (argc == 1 && row >= FAULT_COUNT) || !strcmp(rows[row].name, "logs");
}

static bool known(const char *name)
{
    for (int i = 0; i < SUITE_COUNT; i++) {
        if (!strcmp(rows[i].name, name))
            return true;
    }
    return false;
}

/* The servers are made inside of the runner, so that a failure there is counted and told, too. */
START_TEST(the_servers_start)
{
    const char *root = getenv("BUSBAR_ROOT");

    ck_assert_msg(root != NULL, "BUSBAR_ROOT is not set");
    ck_assert_ptr_nonnull(the_postgres);
}

static void set_up(void)
{
    const char *root = getenv("BUSBAR_ROOT");

    if (root)
        harness_open(root);
}

static Suite *servers_suite(void)
{
    Suite *suite = suite_create("servers");
    TCase *tests = tcase_create("servers");

    tcase_add_unchecked_fixture(tests, set_up, NULL);
    tcase_add_test(tests, the_servers_start);
    suite_add_tcase(suite, tests);
    return suite;
}

static int list(int from, int to)
{
    for (int i = from; i < to; i++)
        puts(rows[i].name);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "--faults"))
        return list(0, FAULT_COUNT);
    if (argc == 2 && !strcmp(argv[1], "--suites"))
        return list(FAULT_COUNT, SUITE_COUNT);
    for (int i = 1; i < argc; i++) {
        if (!known(argv[i])) {
            fprintf(stderr, "integration: there is no suite %s\n", argv[i]);
            return 2;
        }
    }
    signal(SIGPIPE, SIG_IGN);
    client_open_library();
    SRunner *runner = srunner_create(servers_suite());

    for (int i = 0; i < SUITE_COUNT; i++) {
        if (asked_for(i, argc, argv))
            srunner_add_suite(runner, rows[i].make());
    }
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);

    srunner_free(runner);
    harness_close(failed > 0 || getenv("BUSBAR_TEST_KEEP") != NULL);
    curl_global_cleanup();
    return failed ? 1 : 0;
}
