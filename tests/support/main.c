/*
 * Runs the integration tests: `run [SUITE[:TEST]…]`. Without an argument it runs all suites except
 * the fault suites, the suites that need other programs, and those that are left to full runs.
 * `run --suites` and `run --faults` print the names of the default suites and of the fault suites.
 * The exit status is 0 if all passed.
 *
 * Environment:
 *   BUSBAR_ROOT         the directory where busbar is installed
 *   BUSBAR_PLAIN        the build without sanitizers, for fault suites
 *   BUSBAR_TEST_GCOV    a directory for the counters of gcov, in a folder for each suite
 *   BUSBAR_TEST_JOBS    the number of suites that run at the same time
 *   BUSBAR_TEST_FIRST   starts no further suite after one that failed
 *   BUSBAR_TEST_FULL    runs all suites, with as many repetitions as there may be (process.h)
 *   BUSBAR_TEST_KEEP    keeps the directory of a run that passed
 *   BUSBAR_TEST_NO_S3   skips the suites that need an S3 server
 *   BUSBAR_TEST_UNSEEN  prints the statuses of the API's reference that no response had
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "client.h"
#include "reference.h"

/* These take the longest. They begin first, so that no suite runs alone at the end. */
static const char longest[] =
    " webhook_days webhook_health webhook_lease stop webhook_takeover webhook_model archive"
    " certificate_history nats mail mail_outbox reload reload_load pause cluster webhook_delivery"
    " list_bytes limits ";

static bool is_long(const struct suite *suite)
{
    return strstr(longest, text(" %s ", suite->name)) != NULL;
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

/* ---- workers ---- */

enum { WORKERS_MAX = 8 };

/* Data that the workers share. */
struct board {
    atomic_size_t next; /* index of the next suite */
    struct suite_sums sums;
    const char *running[WORKERS_MAX]; /* the suite of each worker */
};

/* A process with its own PostgreSQL, Redis and directory, which takes the next suite when it has
 * finished one. */
struct worker {
    pid_t pid;
    FILE *failed; /* the failures of its suites, as check prints them */
};

struct workers {
    const struct suite *const *suites;
    size_t count;
    struct board *board;
    struct worker workers[WORKERS_MAX];
};

static void set_up(void)
{
    const char *root = getenv("BUSBAR_ROOT");

    if (root)
        harness_open(root);
}

/* Starts the servers inside a suite, so that failures are counted and reported, too. */
TEST(the_servers_start)
{
    ck_assert_msg(getenv("BUSBAR_ROOT") != NULL, "BUSBAR_ROOT is not set");
    ck_assert_ptr_nonnull(the_postgres);
}

SUITE(servers, .before_all = set_up, .runs = SUITE_RUNS_NAMED)

/* Returns PostgreSQL's CPU time so far, including ended backends: fields 14 to 17 of proc(5). */
static double postgres_seconds(void)
{
    FILE *file = the_postgres ? fopen(text("/proc/%d/stat", (int)the_postgres->pid), "re") : NULL;
    long user = 0, system = 0, children_user = 0, children_system = 0;

    if (!file)
        return 0;
    if (fscanf(file, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %ld %ld %ld %ld",
               &user, &system, &children_user, &children_system) != 4)
        user = system = children_user = children_system = 0;
    fclose(file);
    return (double)(user + system + children_user + children_system) / (double)sysconf(_SC_CLK_TCK);
}

static double processor_seconds(void)
{
    return suite_processor_seconds() + postgres_seconds();
}

static void run_suite(struct workers *all, const struct worker *worker, const struct suite *suite)
{
    const char *counters = getenv("BUSBAR_TEST_GCOV");

    all->board->running[worker - all->workers] = suite->name;
    if (counters)
        setenv("GCOV_PREFIX", text("%s/%s", counters, suite->name), 1);
    if (suite_run(suite, processor_seconds, &all->board->sums, worker->failed) && the_postgres &&
        the_postgres->pid)
        databases_drop(the_postgres);
}

static int bad(const struct workers *all)
{
    return atomic_load(&all->board->sums.failures) + atomic_load(&all->board->sums.errors);
}

/* Returns whether this worker may start another suite. */
static bool goes_on(const struct workers *all)
{
    return the_postgres && !(getenv("BUSBAR_TEST_FIRST") && bad(all));
}

/* Runs suites that no other worker has taken yet. */
static void run_next(struct workers *all, const struct worker *worker)
{
    size_t next;

    while (goes_on(all) && (next = atomic_fetch_add(&all->board->next, 1)) < all->count)
        run_suite(all, worker, all->suites[next]);
}

/* Returns whether the directories of the run stay. */
static bool is_kept(const struct workers *all)
{
    return bad(all) > 0 || getenv("BUSBAR_TEST_KEEP");
}

static void worker_close(struct workers *all, const struct worker *worker, const struct suite *last)
{
    run_suite(all, worker, last);
    harness_close(is_kept(all));
}

static void worker_start(struct workers *all, struct worker *worker, const struct suite *last)
{
    worker->pid = fork();
    if (worker->pid < 0) {
        perror("integration: a worker cannot be started");
        worker->pid = 0; /* the other workers run its suites */
    } else if (worker->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        setpgid(0, 0); /* check forwards a SIGTERM to its whole group */
        run_suite(all, worker, suite_named("servers"));
        run_next(all, worker);
        worker_close(all, worker, last);
        exit(0);
    }
}

/* check exits without a message if the unchecked tear-down of a suite fails. */
static void worker_wait(struct workers *all, const struct worker *worker)
{
    int status = 0;

    if (!worker->pid)
        return;
    if (waitpid(worker->pid, &status, 0) != worker->pid || status) {
        fprintf(worker->failed, "integration: a worker ended with status %#x in suite %s\n",
                (unsigned)status, all->board->running[worker - all->workers]);
        fflush(worker->failed);
        atomic_fetch_add(&all->board->sums.checks, 1);
        atomic_fetch_add(&all->board->sums.errors, 1);
    }
}

static int tell(const struct workers *all, int workers)
{
    FILE *failed[WORKERS_MAX];

    for (int i = 0; i < workers; i++)
        failed[i] = all->workers[i].failed;
    reference_tell_unseen();
    return suite_summary(&all->board->sums, failed, workers);
}

static void open_all(struct workers *all, int workers)
{
    all->board =
        mmap(NULL, sizeof *all->board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (all->board == MAP_FAILED)
        abort();
    reference_share();
    harness_share();
    for (int i = 0; i < workers; i++) {
        all->workers[i].failed = kept(tmpfile());
        fcntl(fileno(all->workers[i].failed), F_SETFD, FD_CLOEXEC);
    }
}

/* Prints the time of every suite, and at the end a summary like check's, with all failures. Each
 * worker also runs `last`. Returns the number of failed tests; tests of workers that ended early
 * count as failed. */
static int workers_run(const struct suite *const *suites, size_t count, const struct suite *last,
                       int workers)
{
    struct workers all = {.suites = suites, .count = count};

    if (workers > WORKERS_MAX)
        workers = WORKERS_MAX;
    open_all(&all, workers);
    for (int i = 1; i < workers; i++)
        worker_start(&all, &all.workers[i], last);
    run_suite(&all, &all.workers[0], suite_named("servers"));
    run_next(&all, &all.workers[0]);
    for (int i = 1; i < workers; i++)
        worker_wait(&all, &all.workers[i]);
    worker_close(&all, &all.workers[0], last);
    harness_unshare(is_kept(&all));
    return tell(&all, workers);
}

/* ---- the program ---- */

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
