#include "lanes.h"

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

enum { LANES_MAX = 8 };

/* What the lanes share. */
struct board {
    atomic_size_t next; /* row */
    atomic_int checks, failures, errors;
    const char *running[LANES_MAX]; /* the suite of each lane */
};

struct lane {
    pid_t pid;
    FILE *failed; /* the failures of its suites, as check prints them */
};

struct lanes {
    const struct suite_row *const *rows;
    size_t count;
    struct board *board;
    struct lane lanes[LANES_MAX];
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

static void run_suite(struct lanes *all, const struct lane *lane, const struct suite_row *row)
{
    SRunner *runner = srunner_create(row->make());
    int64_t began = now_ms();

    all->board->running[lane - all->lanes] = row->name;
    srunner_run_all(runner, CK_SILENT);
    atomic_fetch_add(&all->board->checks, srunner_ntests_run(runner));
    if (srunner_ntests_failed(runner)) {
        count_failures(runner, all->board);
        keep_failures(runner, lane->failed);
    }
    srunner_free(runner);
    printf(" %s (%.1f s)\n", row->name, (double)(now_ms() - began) / 1000);
    fflush(stdout);
}

/* The suites that nobody has taken yet and that may meet others. */
static void run_shared(struct lanes *all, const struct lane *lane)
{
    size_t next;

    while (the_postgres && (next = atomic_fetch_add(&all->board->next, 1)) < all->count) {
        if (!all->rows[next]->alone)
            run_suite(all, lane, all->rows[next]);
    }
}

static void run_alone(struct lanes *all, const struct lane *lane)
{
    for (size_t i = 0; the_postgres && i < all->count; i++) {
        if (all->rows[i]->alone)
            run_suite(all, lane, all->rows[i]);
    }
}

static int bad(const struct lanes *all)
{
    return atomic_load(&all->board->failures) + atomic_load(&all->board->errors);
}

static void lane_close(struct lanes *all, const struct lane *lane, const struct suite_row *last)
{
    run_suite(all, lane, last);
    harness_close(bad(all) > 0 || getenv("BUSBAR_TEST_KEEP") != NULL);
}

static void lane_start(struct lanes *all, struct lane *lane, const struct suite_row *last)
{
    lane->pid = fork();
    if (lane->pid < 0) {
        perror("integration: a lane cannot be started");
        lane->pid = 0; /* the others do its part */
    } else if (lane->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        setpgid(0, 0); /* check sends a SIGTERM on to all of its group */
        run_suite(all, lane, &servers);
        run_shared(all, lane);
        lane_close(all, lane, last);
        exit(0);
    }
}

/* check ends a process without a word when the unchecked teardown of a suite fails. */
static void lane_wait(struct lanes *all, const struct lane *lane)
{
    int status = 0;

    if (!lane->pid)
        return;
    if (waitpid(lane->pid, &status, 0) != lane->pid || status) {
        fprintf(lane->failed, "integration: a lane ended with status %#x in suite %s\n",
                (unsigned)status, all->board->running[lane - all->lanes]);
        fflush(lane->failed);
        atomic_fetch_add(&all->board->checks, 1);
        atomic_fetch_add(&all->board->errors, 1);
    }
}

/* But for check's summaries of single suites. */
static void print_failures(const struct lane *lane)
{
    char *line = NULL;
    size_t size = 0;

    rewind(lane->failed);
    while (getline(&line, &size, lane->failed) > 0) {
        if (!strstr(line, "%: Checks: "))
            fputs(line, stdout);
    }
    free(line);
}

static int tell(const struct lanes *all, int lanes)
{
    int checks = atomic_load(&all->board->checks), failed = bad(all);

    reference_tell_unseen();
    printf("%d%%: Checks: %d, Failures: %d, Errors: %d\n",
           checks ? (checks - failed) * 100 / checks : 0, checks,
           atomic_load(&all->board->failures), atomic_load(&all->board->errors));
    for (int i = 0; i < lanes; i++)
        print_failures(&all->lanes[i]);
    return failed;
}

static void open_all(struct lanes *all, int lanes)
{
    all->board =
        mmap(NULL, sizeof *all->board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (all->board == MAP_FAILED)
        abort();
    reference_share();
    for (int i = 0; i < lanes; i++) {
        all->lanes[i].failed = kept(tmpfile());
        fcntl(fileno(all->lanes[i].failed), F_SETFD, FD_CLOEXEC);
    }
}

int lanes_run(const struct suite_row *const *rows, size_t count, const struct suite_row *last,
              int lanes)
{
    struct lanes all = {.rows = rows, .count = count};

    if (lanes > LANES_MAX)
        lanes = LANES_MAX;
    open_all(&all, lanes);
    printf("Running suite(s):\n");
    fflush(stdout);
    for (int i = 1; i < lanes; i++)
        lane_start(&all, &all.lanes[i], last);
    run_suite(&all, &all.lanes[0], &servers);
    run_shared(&all, &all.lanes[0]);
    for (int i = 1; i < lanes; i++)
        lane_wait(&all, &all.lanes[i]);
    run_alone(&all, &all.lanes[0]);
    lane_close(&all, &all.lanes[0], last);
    return tell(&all, lanes);
}
