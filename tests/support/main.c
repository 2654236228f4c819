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
#include <sys/resource.h>

#include "client.h"
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

/* These take the longest. They begin first, so that no suite runs alone at the end. */
static const char *const longest[] = {
    "bulk_kills",    "certificate_history", "device_s3",    "chat_unread",  "reload",
    "bulk_limits",   "list_bytes",          "bulk_devices", "bulk_run",     "chat_long",
    "stream_behind", "certificate_exports", "framing",      "reading_list", "device_refused",
};

static bool is_long(const struct suite *suite)
{
    size_t i = 0;

    while (i < sizeof longest / sizeof *longest && strcmp(longest[i], suite->name) != 0)
        i++;
    return i < sizeof longest / sizeof *longest;
}

/* Returns whether a suite that was selected cannot run because its S3 server is not installed. */
static bool lacks_s3(const struct suite *suite)
{
    if (!getenv("BUSBAR_TEST_NO_S3") || strncmp(suite->name, "device_s3", 9) != 0)
        return false;
    fprintf(stderr, "integration: SKIPPED SUITE: %s has no S3 server\n", suite->name);
    return true;
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

static int list(bool faults)
{
    size_t count;
    const struct suite *const *suites = suite_list(&count);

    for (size_t i = 0; i < count; i++)
        if (faults ? suites[i]->runs == SUITE_FAULT : suites[i]->runs < SUITE_RUNS_NAMED)
            puts(suites[i]->name);
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
    bool faults = argc == 2 && !strcmp(argv[1], "--faults");
    bool lists = faults || (argc == 2 && !strcmp(argv[1], "--suites"));
    const char *unknown = suite_select(lists ? 0 : argc - 1, argv + 1);

    if (lists)
        return list(faults);
    if (unknown) {
        fprintf(stderr, "integration: there is no suite %s\n", unknown);
        return 2;
    }
    suite_tidy = hosts_stop;
    signal(SIGPIPE, SIG_IGN);
    raise_descriptors();
    client_open_library();
    /* logs is the last suite, because it checks the logs of all others */
    const struct suite *last = suite_named("logs"), **chosen;
    size_t all, count = 0;
    const struct suite *const *suites = suite_list(&all);

    chosen = kept(calloc(all, sizeof *chosen));
    for (int rest = 0; rest < 2; rest++) {
        for (size_t i = 0; i < all; i++) {
            if (suites[i] != last && is_long(suites[i]) != rest && suite_is_selected(suites[i]) &&
                !lacks_s3(suites[i]))
                chosen[count++] = suites[i];
        }
    }
    int failed = workers_run(chosen, count, last, worker_count(count));

    curl_global_cleanup();
    return failed ? 1 : 0;
}
