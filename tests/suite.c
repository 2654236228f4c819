#include "suite.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { TOLD_MS = 20 };

static struct {
    int count;
    char **words;
    const char *suite; /* the suite that is being made */
} selected;

enum { TESTS_MAX = 4096 };

static struct registered {
    const TTest *test;
    int count;
} registered[TESTS_MAX];
static size_t registered_count;

void suite_register(const TTest *test, int count)
{
    if (registered_count == TESTS_MAX)
        abort();
    registered[registered_count++] = (struct registered){test, count};
}

static int registered_compare(const void *a, const void *b)
{
    const TTest *one = ((const struct registered *)a)->test;
    const TTest *two = ((const struct registered *)b)->test;
    int files = strcmp(one->file, two->file);

    return files ? files : one->line - two->line;
}

Suite *suite_of_file(const char *name, const char *file, const struct suite_case *kind)
{
    Suite *suite = suite_create(name);
    TCase *cases = tcase_create(name);

    if (kind->timeout_s)
        tcase_set_timeout(cases, kind->timeout_s);
    if (kind->before_all || kind->after_all)
        tcase_add_unchecked_fixture(cases, kind->before_all, kind->after_all);
    if (kind->before_each || kind->after_each)
        tcase_add_checked_fixture(cases, kind->before_each, kind->after_each);
    qsort(registered, registered_count, sizeof *registered, registered_compare);
    for (size_t i = 0; i < registered_count; i++) {
        if (!strcmp(registered[i].test->file, file))
            tcase_add_loop_test(cases, registered[i].test, 0, registered[i].count);
    }
    suite_add_tcase(suite, cases);
    return suite;
}

void suite_select(int count, char **words)
{
    selected.count = count;
    selected.words = words;
    setenv("CK_TIMEOUT_MULTIPLIER", "10", 0);
    setenv("CK_MAX_MSG_SIZE", "65536", 0);
}

bool suite_is_selected(const char *name)
{
    size_t length = strlen(name);

    for (int i = 0; i < selected.count; i++) {
        const char *word = selected.words[i];

        if (!strncmp(word, name, length) && (!word[length] || word[length] == ':'))
            return true;
    }
    return false;
}

/* A test is selected if a word names it, or if no word names another test of its suite. */
static bool is_test_selected(const char *test)
{
    size_t length = selected.suite ? strlen(selected.suite) : 0;
    bool named_others = false;

    for (int i = 0; length && i < selected.count; i++) {
        const char *word = selected.words[i];

        if (strncmp(word, selected.suite, length) != 0 || word[length] != ':')
            continue;
        if (!strcmp(word + length + 1, test))
            return true;
        named_others = true;
    }
    return !named_others;
}

/* The linker redirects check's function here (-Wl,--wrap=_tcase_add_test in tests/Makefile.inc), so
 * that single tests can be selected without a list of them in each suite. */
/* NOLINTBEGIN(bugprone-reserved-identifier): the linker fixes these names */
void __real__tcase_add_test(TCase *, const TTest *, int, int, int, int);
void __wrap__tcase_add_test(TCase *, const TTest *, int, int, int, int);

void __wrap__tcase_add_test(TCase *cases, const TTest *test, int signal, int exit_value, int start,
                            int end)
{
    if (is_test_selected(test->name))
        __real__tcase_add_test(cases, test, signal, exit_value, start, end);
}

/*
 * check reports each successful assertion to its parent, which can then name the last one before a
 * test died. That takes a tenth of a millisecond, and some tests have thousands of assertions, so a
 * report is sent only if the previous one is older than TOLD_MS.
 */
void __real__mark_point(const char *, int);
void __wrap__mark_point(const char *, int);

void __wrap__mark_point(const char *file, int line)
{
    static atomic_int_least64_t told_ms;
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    int64_t now_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;

    if (now_ms - atomic_load(&told_ms) < TOLD_MS)
        return;
    atomic_store(&told_ms, now_ms);
    __real__mark_point(file, line);
}
/* NOLINTEND(bugprone-reserved-identifier) */

static double seconds(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

double suite_processor_seconds(void)
{
    struct rusage self, children;

    if (getrusage(RUSAGE_SELF, &self) || getrusage(RUSAGE_CHILDREN, &children))
        return 0;
    return seconds(self.ru_utime) + seconds(self.ru_stime) + seconds(children.ru_utime) +
           seconds(children.ru_stime);
}

static double elapsed_seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void count_failures(SRunner *runner, struct suite_sums *sums)
{
    TestResult **results = srunner_failures(runner);
    int failed = srunner_ntests_failed(runner);

    for (int i = 0; i < failed; i++)
        atomic_fetch_add(tr_rtype(results[i]) == CK_FAILURE ? &sums->failures : &sums->errors, 1);
    free(results);
}

/* check prints failures only to standard output. */
static void print_failures(SRunner *runner, const char *name, FILE *failed)
{
    fflush(stdout);
    int saved = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);

    fprintf(failed, "Failed in suite %s:\n", name);
    fflush(failed);
    if (saved < 0 || dup2(fileno(failed), STDOUT_FILENO) < 0)
        perror("tests: the failures cannot be kept");
    srunner_print(runner, CK_NORMAL);
    fflush(stdout);
    if (saved >= 0 && dup2(saved, STDOUT_FILENO) >= 0)
        close(saved);
}

bool suite_run(const char *name, Suite *(*make)(void), double (*processor)(void),
               struct suite_sums *sums, FILE *failed)
{
    double began = elapsed_seconds(), used = processor();

    selected.suite = name;
    SRunner *runner = srunner_create(make());

    srunner_run_all(runner, CK_SILENT);
    atomic_fetch_add(&sums->checks, srunner_ntests_run(runner));
    if (srunner_ntests_run(runner) == 0) {
        fprintf(failed, "Failed in suite %s:\nthere is no such test\n", name);
        fflush(failed);
        atomic_fetch_add(&sums->checks, 1);
        atomic_fetch_add(&sums->errors, 1);
    }
    if (srunner_ntests_failed(runner)) {
        count_failures(runner, sums);
        print_failures(runner, name, failed);
    }
    int bad = srunner_ntests_failed(runner);

    srunner_free(runner);
    printf("%s %-24s %6.1f s elapsed, %6.1f s of processor time\n", bad ? "FAILED" : "    ok", name,
           elapsed_seconds() - began, processor() - used);
    fflush(stdout);
    return !bad;
}

int suite_summary(const struct suite_sums *sums, FILE *const *failed, int count)
{
    int checks = atomic_load(&sums->checks), failures = atomic_load(&sums->failures);
    int errors = atomic_load(&sums->errors), bad = failures + errors;
    char *line = NULL;
    size_t size = 0;

    printf("%d%%: Checks: %d, Failures: %d, Errors: %d\n",
           checks ? (checks - bad) * 100 / checks : 0, checks, failures, errors);
    for (int i = 0; i < count; i++) {
        rewind(failed[i]);
        while (getline(&line, &size, failed[i]) > 0) {
            if (!strstr(line, "%: Checks: "))
                fputs(line, stdout);
        }
    }
    free(line);
    return bad;
}
