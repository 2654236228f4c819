/*
 * Runs the suites of the unit and integration tests with check. The words of the command line
 * choose suites and single tests; each suite reports one line. Every test includes this header, and
 * with it the headers of the C library that most tests use.
 */
#ifndef TESTS_SUITE_H
#define TESTS_SUITE_H

#include <check.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * TEST(name) { ... } defines a test, TEST_EACH(name, count) one that runs for each _i from 0 to
 * count - 1. SUITE() makes a suite of the tests between the previous SUITE() of the file and it, in
 * their order: SUITE(csv, .timeout_s = 60, .before_each = set_up). All of them register themselves.
 */
#define TEST_EACH(name, count)                                                                     \
    static void name(int _i);                                                                      \
    __attribute__((constructor)) static void name##_register(void)                                 \
    {                                                                                              \
        static const TTest test = {#name, name, __FILE__, __LINE__};                               \
        suite_register_test(&test, (int)(count));                                                  \
    }                                                                                              \
    static void name(int _i __attribute__((unused)))
#define TEST(name) TEST_EACH(name, 1)

#define SUITE(suite_name, ...)                                                                     \
    __attribute__((constructor)) static void suite_name##_register_suite(void)                     \
    {                                                                                              \
        static struct suite suite;                                                                 \
        suite =                                                                                    \
            (struct suite){.name = #suite_name, .file = __FILE__, .line = __LINE__, __VA_ARGS__};  \
        suite_register(&suite);                                                                    \
    }

struct suite {
    const char *name, *file;
    int line;
    enum {
        SUITE_RUNS,       /* unless words choose other suites */
        SUITE_RUNS_FULL,  /* in full runs (BUSBAR_TEST_FULL), and if a word names it */
        SUITE_RUNS_NAMED, /* only if a word names it */
        SUITE_FAULT,      /* the same; it is one of `./test fault` */
    } runs;
    int timeout_s; /* limit of each test; 0: check's default of 4 seconds */
    void (*before_all)(void), (*after_all)(void);
    void (*before_each)(void), (*after_each)(void);
};

/* Called after the functions above, both after each test and after all tests, in the process that
 * ran them. NULL: nothing is called. */
extern void (*suite_tidy)(void);

void suite_register_test(const TTest *test, int count);
void suite_register(const struct suite *suite);

/*
 * Remembers the words of the command line, each SUITE or SUITE:TEST; they must live as long as the
 * process. Also prepares check: time limits ten times as long as the tests state them, because
 * they only end tests that hang, and messages of up to 64 KiB. Returns a word that names no suite,
 * or NULL.
 */
const char *suite_select(int count, char **words);

/* Returns the suites, sorted by their files. */
const struct suite *const *suite_list(size_t *count);
const struct suite *suite_named(const char *name);

/* Returns whether the suite runs: the words name it, or there are none and it runs by default. */
bool suite_is_selected(const struct suite *suite);

/* The sums of checks, failures and errors of one or several suites. Processes may share it. */
struct suite_sums {
    atomic_int checks, failures, errors;
};

/* Processor time of this process and the children that it has waited for. Seconds. */
double suite_processor_seconds(void);

/*
 * Runs the selected tests of a suite, adds the results to *sums, prints the failures to `failed`,
 * and prints one line with the elapsed time and the processor time, which processor() returns in
 * seconds. Returns true if all passed.
 */
bool suite_run(const struct suite *suite, double (*processor)(void), struct suite_sums *sums,
               FILE *failed);

/* Prints check's summary line and what suite_run() wrote to the files. Returns the number of failed
 * tests. */
int suite_summary(const struct suite_sums *sums, FILE *const *failed, int count);

/* The number of elements of an array. */
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* EACH_TEXT (word, "one", "two") { ... } runs its statement for each of the texts. */
#define EACH_TEXT(text, ...)                                                                       \
    for (const char *text, *const *text##_at = (const char *const[]){__VA_ARGS__, NULL};           \
         ((text) = *text##_at); text##_at++)

/* The text from the first difference on, for messages about long texts. */
#define ASSERT_SAME_TEXT(actual, expected)                                                         \
    do {                                                                                           \
        const char *same_a = (actual), *same_b = (expected);                                       \
        size_t same_at = 0;                                                                        \
        while (same_a[same_at] && same_a[same_at] == same_b[same_at])                              \
            same_at++;                                                                             \
        ck_assert_msg(same_a[same_at] == same_b[same_at],                                          \
                      "%s differs from %s at byte %zu: \"%.200s\" instead of \"%.200s\"", #actual, \
                      #expected, same_at, same_a + same_at, same_b + same_at);                     \
    } while (0)

#endif
