/*
 * Runs the unit tests: `unit [suite…]`, all suites without an argument. How check prints and forks
 * is left to its environment (CK_VERBOSITY, CK_FORK). The exit status is 0 if all passed.
 */
#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "core/command/cli.h"
#include "core/module/module_names.h"
#include "core/observe/metrics.h"
#include "suites.h"

struct suite_row {
    const char *name;
    Suite *(*make)(void);
};

static const struct suite_row rows[] = {
#define SUITE_ROW(name) {#name, name##_suite},
    SUITES(SUITE_ROW)
#undef SUITE_ROW
};

static bool asked_for(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (!strcmp(name, argv[i]))
            return true;
    }
    return argc == 1;
}

static bool is_command(const char *name)
{
    return cli_find(name) != NULL;
}

int main(int argc, char **argv)
{
    SRunner *runner = srunner_create(NULL);
    int suites = 0;

    signal(SIGPIPE, SIG_IGN); /* as the program itself does */
    json_object_seed(0);
    module_names_reserve(is_command, host_metric_named);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (!asked_for(rows[i].name, argc, argv))
            continue;
        srunner_add_suite(runner, rows[i].make());
        suites++;
    }
    if (!suites) {
        fprintf(stderr, "unit: there is no such suite\n");
        return 2;
    }
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);

    srunner_free(runner);
    return failed ? 1 : 0;
}
