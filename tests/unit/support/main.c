/*
 * Runs the unit tests: `unit [SUITE[:TEST]…]`, all suites without an argument. The exit status is 0
 * if all passed. With BUSBAR_TEST_FIRST in the environment it ends after the first suite that
 * failed.
 */
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/main/cli.h"
#include "core/main/metrics.h"
#include "core/module/module_validate.h"
#include "suite.h"
#include "unit_suites.h"

struct suite_row {
    const char *name;
    Suite *(*make)(void);
};

static const struct suite_row rows[] = {
#define SUITE_ROW(name) {#name, name##_suite},
    SUITES(SUITE_ROW)
#undef SUITE_ROW
};

static bool is_command(const char *name)
{
    return cli_find(name) != NULL;
}

int main(int argc, char **argv)
{
    struct suite_sums sums = {0};
    FILE *failed = tmpfile();
    int suites = 0;

    if (!failed) {
        perror("unit: no file for failures");
        return 2;
    }
    fcntl(fileno(failed), F_SETFD, FD_CLOEXEC);
    signal(SIGPIPE, SIG_IGN); /* as the program itself does */
    json_object_seed(0);
    module_names_reserve(is_command, host_metric_named);
    suite_select(argc - 1, argv + 1);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (argc > 1 && !suite_is_selected(rows[i].name))
            continue;
        bool passed = suite_run(rows[i].name, rows[i].make, suite_processor_seconds, &sums, failed);

        suites++;
        if (!passed && getenv("BUSBAR_TEST_FIRST"))
            break;
    }
    if (!suites) {
        fprintf(stderr, "unit: there is no such suite\n");
        return 2;
    }
    int bad = suite_summary(&sums, &failed, 1);

    fclose(failed);
    return bad ? 1 : 0;
}
