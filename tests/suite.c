#include "suite.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { TOLD_MS = 20, TESTS_MAX = 4096, SUITES_MAX = 512 };

static struct {
    int count;
    char **words;
} selected;

static struct registered {
    const TTest *test;
    int count;
} tests[TESTS_MAX];
static const struct suite *suites[SUITES_MAX];
static size_t test_count, suite_count;

/* The suite that runs, and the process that runs its set-up and tear-down. */
static struct {
    const char *name;
    pid_t process;
    FILE *failed;
} running;

void (*suite_tidy)(void);

void suite_register_test(const TTest *test, int count)
{
    if (test_count == TESTS_MAX)
        abort();
    tests[test_count++] = (struct registered){test, count};
}

void suite_register(const struct suite *suite)
{
    if (suite_count == SUITES_MAX)
        abort();
    suites[suite_count++] = suite;
}

static int compare_tests(const void *a, const void *b)
{
    const TTest *one = ((const struct registered *)a)->test;
    const TTest *two = ((const struct registered *)b)->test;
    int files = strcmp(one->file, two->file);

    return files ? files : one->line - two->line;
}

static int compare_suites(const void *a, const void *b)
{
    const struct suite *one = *(const struct suite *const *)a;
    const struct suite *two = *(const struct suite *const *)b;
    int files = strcmp(one->file, two->file);

    return files ? files : one->line - two->line;
}

const struct suite *const *suite_list(size_t *count)
{
    *count = suite_count;
    return suites;
}

const struct suite *suite_named(const char *name)
{
    size_t i = 0;

    while (i < suite_count && strcmp(suites[i]->name, name) != 0)
        i++;
    return i < suite_count ? suites[i] : NULL;
}

/* Returns the name of a test in the word, "" for all of them; NULL: it names another suite. */
static const char *test_in(const char *word, const struct suite *suite)
{
    size_t length = strlen(suite->name);

    if (strncmp(word, suite->name, length) != 0 || (word[length] && word[length] != ':'))
        return NULL;
    return word[length] ? word + length + 1 : "";
}

const char *suite_select(int count, char **words)
{
    selected.count = count;
    selected.words = words;
    setenv("CK_TIMEOUT_MULTIPLIER", "10", 0);
    setenv("CK_MAX_MSG_SIZE", "65536", 0);
    qsort(tests, test_count, sizeof *tests, compare_tests);
    qsort(suites, suite_count, sizeof *suites, compare_suites);
    for (int i = 0; i < count; i++) {
        size_t at = 0;

        while (at < suite_count && !test_in(words[i], suites[at]))
            at++;
        if (at == suite_count)
            return words[i];
    }
    return NULL;
}

bool suite_is_selected(const struct suite *suite)
{
    for (int i = 0; i < selected.count; i++) {
        if (test_in(selected.words[i], suite))
            return true;
    }
    return !selected.count && (suite->runs == SUITE_RUNS || (suite->runs == SUITE_RUNS_FULL &&
                                                             getenv("BUSBAR_TEST_FULL") != NULL));
}

/* A test is selected if a word names it, or if no word names another test of its suite. */
static bool is_test_selected(const struct suite *suite, const char *test)
{
    bool named_others = false;

    for (int i = 0; i < selected.count; i++) {
        const char *named = test_in(selected.words[i], suite);

        if (named && !strcmp(named, test))
            return true;
        named_others = named_others || (named && *named);
    }
    return !named_others;
}

/* Returns the line of the previous suite in the file, 0: it is the first one. */
static int line_before(const struct suite *suite)
{
    int line = 0;

    for (size_t i = 0; i < suite_count; i++) {
        if (!strcmp(suites[i]->file, suite->file) && suites[i]->line < suite->line)
            line = suites[i]->line;
    }
    return line;
}

static Suite *suite_make(const struct suite *suite)
{
    Suite *made = suite_create(suite->name);
    TCase *cases = tcase_create(suite->name);
    int after = line_before(suite);

    if (suite->timeout_s)
        tcase_set_timeout(cases, suite->timeout_s);
    /* check calls the functions that were added first last */
    tcase_add_unchecked_fixture(cases, NULL, suite_tidy);
    tcase_add_checked_fixture(cases, NULL, suite_tidy);
    tcase_add_unchecked_fixture(cases, suite->before_all, suite->after_all);
    tcase_add_checked_fixture(cases, suite->before_each, suite->after_each);
    for (size_t i = 0; i < test_count; i++) {
        const TTest *test = tests[i].test;

        if (!strcmp(test->file, suite->file) && test->line > after && test->line < suite->line &&
            is_test_selected(suite, test->name))
            tcase_add_loop_test(cases, test, 0, tests[i].count);
    }
    suite_add_tcase(made, cases);
    return made;
}

/*
 * check reports each successful assertion to its parent, which can then name the last one before a
 * test died. That takes a tenth of a millisecond, and some tests have thousands of assertions, so a
 * report is sent only if the previous one is older than TOLD_MS. (-Wl,--wrap=_mark_point in
 * tests/Makefile.inc makes the linker redirect check's function.)
 */
/* NOLINTBEGIN(clang-diagnostic-reserved-identifier): the linker fixes these names */
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

/*
 * A failed assertion in the tear-down after all tests ends the program, and check says nothing, so
 * it is printed here. (-Wl,--wrap=_ck_assert_failed)
 */
__attribute__((noreturn, format(printf, 4, 5))) void
__real__ck_assert_failed(const char *, int, const char *, const char *, ...);
__attribute__((noreturn, format(printf, 4, 5))) void
__wrap__ck_assert_failed(const char *, int, const char *, const char *, ...);

void __wrap__ck_assert_failed(const char *file, int line, const char *assertion, const char *format,
                              ...)
{
    char message[8192];
    va_list values;

    va_start(values, format);
    snprintf(message, sizeof message, "%s", assertion);
    if (format)
        vsnprintf(message, sizeof message, format, values);
    va_end(values);
    if (running.failed && running.process == getpid()) {
        fprintf(running.failed, "Failed outside the tests of suite %s:\n%s:%d: %s\n", running.name,
                file, line, message);
        fflush(running.failed);
    }
    __real__ck_assert_failed(file, line, assertion, "%s", message);
}
/* NOLINTEND(clang-diagnostic-reserved-identifier) */

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

bool suite_run(const struct suite *suite, double (*processor)(void), struct suite_sums *sums,
               FILE *failed)
{
    double began = elapsed_seconds(), used = processor();
    SRunner *runner = srunner_create(suite_make(suite));

    running.name = suite->name;
    running.process = getpid();
    running.failed = failed;
    srunner_run_all(runner, CK_SILENT);
    running.failed = NULL;
    atomic_fetch_add(&sums->checks, srunner_ntests_run(runner));
    if (srunner_ntests_run(runner) == 0) {
        fprintf(failed, "Failed in suite %s:\nthere is no such test\n", suite->name);
        fflush(failed);
        atomic_fetch_add(&sums->checks, 1);
        atomic_fetch_add(&sums->errors, 1);
    }
    if (srunner_ntests_failed(runner)) {
        count_failures(runner, sums);
        print_failures(runner, suite->name, failed);
    }
    int bad = srunner_ntests_failed(runner);

    srunner_free(runner);
    printf("%s %-24s %6.1f s elapsed, %6.1f s of processor time\n", bad ? "FAILED" : "    ok",
           suite->name, elapsed_seconds() - began, processor() - used);
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
