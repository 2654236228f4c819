#include "workers.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "reference.h"

enum { WORKERS_MAX = 8 };

/* What the workers share. */
struct board {
    atomic_size_t next; /* row */
    atomic_int checks, failures, errors;
    const char *running[WORKERS_MAX]; /* the suite of each worker */
};

struct worker {
    pid_t pid;
    FILE *failed; /* the failures of its suites, as check prints them */
};

struct workers {
    const struct suite_row *const *rows;
    size_t count;
    struct board *board;
    struct worker workers[WORKERS_MAX];
};

/* The servers are made inside of a suite, so that a failure there is counted and told, too. */
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

static const struct suite_row servers = {"servers", servers_suite, false};

/* check prints to standard output alone: a summary, and the failures behind it. */
static void keep_failures(SRunner *runner, FILE *failed)
{
    fflush(stdout);
    int saved = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);

    if (saved < 0 || dup2(fileno(failed), STDOUT_FILENO) < 0)
        perror("integration: the failures cannot be kept");
    srunner_print(runner, CK_NORMAL);
    fflush(stdout);
    if (saved >= 0 && dup2(saved, STDOUT_FILENO) >= 0)
        close(saved);
}

static void count_failures(SRunner *runner, struct board *board)
{
    TestResult **results = srunner_failures(runner);
    int failed = srunner_ntests_failed(runner);

    for (int i = 0; i < failed; i++)
        atomic_fetch_add(tr_rtype(results[i]) == CK_FAILURE ? &board->failures : &board->errors, 1);
    free(results);
}

static void run_suite(struct workers *all, const struct worker *worker, const struct suite_row *row)
{
    SRunner *runner = srunner_create(row->make());
    int64_t began = now_ms();

    all->board->running[worker - all->workers] = row->name;
    srunner_run_all(runner, CK_SILENT);
    atomic_fetch_add(&all->board->checks, srunner_ntests_run(runner));
    if (srunner_ntests_failed(runner)) {
        count_failures(runner, all->board);
        keep_failures(runner, worker->failed);
    }
    srunner_free(runner);
    printf(" %s (%.1f s)\n", row->name, (double)(now_ms() - began) / 1000);
    fflush(stdout);
}

/* The suites that nobody has taken yet and that may meet others. */
static void run_shared(struct workers *all, const struct worker *worker)
{
    size_t next;

    while (the_postgres && (next = atomic_fetch_add(&all->board->next, 1)) < all->count) {
        if (!all->rows[next]->alone)
            run_suite(all, worker, all->rows[next]);
    }
}

static void run_alone(struct workers *all, const struct worker *worker)
{
    for (size_t i = 0; the_postgres && i < all->count; i++) {
        if (all->rows[i]->alone)
            run_suite(all, worker, all->rows[i]);
    }
}

static int bad(const struct workers *all)
{
    return atomic_load(&all->board->failures) + atomic_load(&all->board->errors);
}

static void worker_close(struct workers *all, const struct worker *worker,
                         const struct suite_row *last)
{
    run_suite(all, worker, last);
    harness_close(bad(all) > 0 || getenv("BUSBAR_TEST_KEEP") != NULL);
}

static void worker_start(struct workers *all, struct worker *worker, const struct suite_row *last)
{
    worker->pid = fork();
    if (worker->pid < 0) {
        perror("integration: a worker cannot be started");
        worker->pid = 0; /* the others do its part */
    } else if (worker->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        setpgid(0, 0); /* check sends a SIGTERM on to all of its group */
        run_suite(all, worker, &servers);
        run_shared(all, worker);
        worker_close(all, worker, last);
        exit(0);
    }
}

/* check ends a process without a word when the unchecked teardown of a suite fails. */
static void worker_wait(struct workers *all, const struct worker *worker)
{
    int status = 0;

    if (!worker->pid)
        return;
    if (waitpid(worker->pid, &status, 0) != worker->pid || status) {
        fprintf(worker->failed, "integration: a worker ended with status %#x in suite %s\n",
                (unsigned)status, all->board->running[worker - all->workers]);
        fflush(worker->failed);
        atomic_fetch_add(&all->board->checks, 1);
        atomic_fetch_add(&all->board->errors, 1);
    }
}

/* But for check's summaries of single suites. */
static void print_failures(const struct worker *worker)
{
    char *line = NULL;
    size_t size = 0;

    rewind(worker->failed);
    while (getline(&line, &size, worker->failed) > 0) {
        if (!strstr(line, "%: Checks: "))
            fputs(line, stdout);
    }
    free(line);
}

static int tell(const struct workers *all, int workers)
{
    int checks = atomic_load(&all->board->checks), failed = bad(all);

    reference_tell_unseen();
    printf("%d%%: Checks: %d, Failures: %d, Errors: %d\n",
           checks ? (checks - failed) * 100 / checks : 0, checks,
           atomic_load(&all->board->failures), atomic_load(&all->board->errors));
    for (int i = 0; i < workers; i++)
        print_failures(&all->workers[i]);
    return failed;
}

static void open_all(struct workers *all, int workers)
{
    all->board =
        mmap(NULL, sizeof *all->board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (all->board == MAP_FAILED)
        abort();
    reference_share();
    for (int i = 0; i < workers; i++) {
        all->workers[i].failed = kept(tmpfile());
        fcntl(fileno(all->workers[i].failed), F_SETFD, FD_CLOEXEC);
    }
}

int workers_run(const struct suite_row *const *rows, size_t count, const struct suite_row *last,
                int workers)
{
    struct workers all = {.rows = rows, .count = count};

    if (workers > WORKERS_MAX)
        workers = WORKERS_MAX;
    open_all(&all, workers);
    printf("Running suite(s):\n");
    fflush(stdout);
    for (int i = 1; i < workers; i++)
        worker_start(&all, &all.workers[i], last);
    run_suite(&all, &all.workers[0], &servers);
    run_shared(&all, &all.workers[0]);
    for (int i = 1; i < workers; i++)
        worker_wait(&all, &all.workers[i]);
    run_alone(&all, &all.workers[0]);
    worker_close(&all, &all.workers[0], last);
    return tell(&all, workers);
}
