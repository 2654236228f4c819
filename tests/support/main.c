/*
 * Runs the integration tests: `run [SUITE[:TEST]…]`. Without an argument it runs all suites except
 * the fault suites, the suites that need other programs, and those that are left to full runs.
 * `run --suites` and `run --faults` print the names of the default suites and of the fault suites.
 * The exit status is 0 if all passed.
 *
 * Environment:
 *   BUSBAR_ROOT         the directory where busbar is installed
 *   BUSBAR_PLAIN        the build without sanitizers, for fault suites
 *   BUSBAR_TEST_JOBS    the number of suites that run at the same time (workers.h)
 *   BUSBAR_TEST_FIRST   starts no further suite after one that failed
 *   BUSBAR_TEST_FULL    runs all suites, with as many repetitions as there may be (process.h)
 *   BUSBAR_TEST_KEEP    keeps the directory of a run that passed
 *   BUSBAR_TEST_NO_S3   skips the suites that need an S3 server
 *   BUSBAR_TEST_UNSEEN  prints the statuses of the API's reference that no response had
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "client.h"
#include "fault/faults.h"
#include "suite.h"
#include "suites.h"
#include "workers.h"

/*
 * Leaks are detected in hosts and in the unit tests, but not here: text() and kept() keep memory
 * for the life of the process, and each test ends a process that has all the memory made before it,
 * which would be scanned each time.
 */
int without_leaks(void) __asm__("__lsan_is_turned_off"); /* the name that AddressSanitizer calls */
int without_leaks(void)
{
    return 1;
}

static const struct suite_row rows[] = {
#define SUITE_ROW(name) {#name, name##_suite},
    FAULTS(SUITE_ROW) APART_SUITES(SUITE_ROW) SUITES(SUITE_ROW)
#undef SUITE_ROW
};

#define ONE_BYTE(id) 0,
enum {
    SUITE_COUNT = sizeof(rows) / sizeof(rows[0]),
    FAULT_COUNT = sizeof((const char[]){FAULTS(ONE_BYTE)}),
    FIRST_SUITE = FAULT_COUNT + sizeof((const char[]){APART_SUITES(ONE_BYTE)})
};
#undef ONE_BYTE

/* Whether it is left to full runs. */
static bool is_left(const char *name)
{
#define NAME(name) #name,
    static const char *const full[] = {FULL_SUITES(NAME)};
#undef NAME
    bool found = false;

    for (size_t i = 0; i < sizeof full / sizeof *full; i++)
        found = found || !strcmp(full[i], name);
    return found && !getenv("BUSBAR_TEST_FULL");
}

/* Whether to skip a suite because its S3 server is not installed. */
static bool lacks_s3(int row)
{
    return getenv("BUSBAR_TEST_NO_S3") && !strncmp(rows[row].name, "device_s3", 9);
}

static bool known(const char *name)
{
    for (int i = 0; i < SUITE_COUNT; i++) {
        size_t length = strlen(rows[i].name);

        if (!strncmp(rows[i].name, name, length) && (!name[length] || name[length] == ':'))
            return true;
    }
    return false;
}

/* Returns BUSBAR_TEST_JOBS, default 1, at most one worker for each suite. */
static int worker_count(size_t suites)
{
    const char *wanted = getenv("BUSBAR_TEST_JOBS");
    long workers = wanted ? strtol(wanted, NULL, 10) : 1;

    if (workers > (long)suites)
        workers = (long)suites;
    return workers < 1 ? 1 : (int)workers;
}

static int list(int from, int to)
{
    for (int i = from; i < to; i++)
        puts(rows[i].name);
    return 0;
}

/* Some suites hold thousands of connections, and a login shell may be limited to 1,024
 * descriptors. */
static void raise_descriptors(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit))
        return;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit))
        perror("integration: the limit for descriptors stays as it is");
}

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "--faults"))
        return list(0, FAULT_COUNT);
    if (argc == 2 && !strcmp(argv[1], "--suites"))
        return list(FIRST_SUITE, SUITE_COUNT);
    for (int i = 1; i < argc; i++) {
        if (!known(argv[i])) {
            fprintf(stderr, "integration: there is no suite %s\n", argv[i]);
            return 2;
        }
    }
    suite_select(argc - 1, argv + 1);
    signal(SIGPIPE, SIG_IGN);
    raise_descriptors();
    client_open_library();
    const struct suite_row *chosen[SUITE_COUNT];
    size_t count = 0;

    for (int i = 0; i < SUITE_COUNT - 1; i++) {
        if (argc > 1 ? !suite_is_selected(rows[i].name) : i < FIRST_SUITE || is_left(rows[i].name))
            continue;
        if (lacks_s3(i))
            fprintf(stderr, "integration: SKIPPED SUITE: %s has no S3 server\n", rows[i].name);
        else
            chosen[count++] = &rows[i];
    }
    int failed = workers_run(chosen, count, &rows[SUITE_COUNT - 1], worker_count(count));

    curl_global_cleanup();
    return failed ? 1 : 0;
}
