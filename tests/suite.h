/*
 * Runs the suites of the unit and integration tests with check. The words of the command line
 * choose suites and single tests; each suite reports one line.
 */
#ifndef TESTS_SUITE_H
#define TESTS_SUITE_H

#include <check.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

/*
 * TEST(name) { ... } defines a test of its file's suite, TEST_EACH(name, count) one that runs for
 * each _i from 0 to count - 1. SUITE() at the end of the file makes the suite of all of them, in
 * their order: SUITE(csv, .timeout_s = 60, .before_each = set_up).
 */
#define TEST_EACH(name, count)                                                                     \
    static void name(int _i);                                                                      \
    __attribute__((constructor)) static void name##_register(void)                                 \
    {                                                                                              \
        static const TTest test = {#name, name, __FILE__, __LINE__};                               \
        suite_register(&test, (int)(count));                                                       \
    }                                                                                              \
    static void name(int _i __attribute__((unused)))
#define TEST(name) TEST_EACH(name, 1)

#define SUITE(name, ...)                                                                           \
    Suite *name##_suite(void)                                                                      \
    {                                                                                              \
        return suite_of_file(#name, __FILE__, &(struct suite_case){__VA_ARGS__});                  \
    }

/* The time limit of each test, and functions that run around all tests or around each. */
struct suite_case {
    int timeout_s; /* 0: check's own, of 4 seconds */
    void (*before_all)(void), (*after_all)(void);
    void (*before_each)(void), (*after_each)(void);
};

void suite_register(const TTest *test, int count);
Suite *suite_of_file(const char *name, const char *file, const struct suite_case *kind);

/* The sums of checks, failures and errors of one or several suites. Processes may share it. */
struct suite_sums {
    atomic_int checks, failures, errors;
};

/*
 * Remembers the words of the command line, each SUITE or SUITE:TEST; they must live as long as the
 * process. Also prepares check: time limits ten times as long as the tests state them, because
 * they only end tests that hang, and messages of up to 64 KiB.
 */
void suite_select(int count, char **words);

/* True if a word names this suite. */
bool suite_is_selected(const char *name);

/* Processor time of this process and the children that it has waited for. Seconds. */
double suite_processor_seconds(void);

/*
 * Makes a suite with the tests that were selected, runs it, adds its results to *sums, prints its
 * failures to `failed`, and prints one line with the elapsed time and the processor time, which
 * processor() returns in seconds. Returns true if all passed.
 */
bool suite_run(const char *name, Suite *(*make)(void), double (*processor)(void),
               struct suite_sums *sums, FILE *failed);

/* Prints check's summary line and what suite_run() wrote to the files. Returns the number of failed
 * tests. */
int suite_summary(const struct suite_sums *sums, FILE *const *failed, int count);

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
