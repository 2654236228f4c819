/*
 * Runs the unit tests: `unit [SUITE[:TEST]…]`, all suites without an argument. The exit status is 0
 * if all passed. With BUSBAR_TEST_FIRST in the environment it ends after the first suite that
 * failed.
 */
#include <fcntl.h>
#include <jansson.h>

#include "core/main/cli.h"
#include "core/main/metrics.h"
#include "core/module/module_validate.h"
#include "suite.h"

int main(int argc, char **argv)
{
    struct suite_sums sums = {0};
    FILE *failed = tmpfile();
    const char *unknown = suite_select(argc - 1, argv + 1);
    size_t count;
    const struct suite *const *suites = suite_list(&count);

    if (!failed || unknown) {
        fprintf(stderr, "unit: no file for failures, or no suite %s\n", unknown ? unknown : "");
        return 2;
    }
    fcntl(fileno(failed), F_SETFD, FD_CLOEXEC);
    signal(SIGPIPE, SIG_IGN); /* like the program */
    json_object_seed(0);
    module_names_reserve(cli_is_command, host_metric_named);
    for (size_t i = 0; i < count; i++) {
        if (suite_is_selected(suites[i]) &&
            !suite_run(suites[i], suite_processor_seconds, &sums, failed) &&
            getenv("BUSBAR_TEST_FIRST"))
            break;
    }
    int bad = suite_summary(&sums, &failed, 1);

    fclose(failed);
    return bad ? 1 : 0;
}
