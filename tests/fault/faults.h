/*
 * The faults that hosts are tested with, by id: X(F05) stands for F05_suite(). `./test fault F05`
 * runs one of them, `./test fault` runs all. The tests of a fault describe it.
 */
#ifndef TESTS_FAULT_FAULTS_H
#define TESTS_FAULT_FAULTS_H

#include <check.h>

#define FAULTS(X)                                                                                  \
    X(F01)                                                                                         \
    X(F02)                                                                                         \
    X(F03)                                                                                         \
    X(F04)                                                                                         \
    X(F05)                                                                                         \
    X(F06)                                                                                         \
    X(F07)                                                                                         \
    X(F08)                                                                                         \
    X(F09)                                                                                         \
    X(F10)                                                                                         \
    X(F11)                                                                                         \
    X(F12)                                                                                         \
    X(F13)                                                                                         \
    X(F14)                                                                                         \
    X(F15)                                                                                         \
    X(F25)                                                                                         \
    X(F26)                                                                                         \
    X(F27)                                                                                         \
    X(F28)                                                                                         \
    X(F29)                                                                                         \
    X(F30)                                                                                         \
    X(F31)                                                                                         \
    X(F32)                                                                                         \
    X(F33)                                                                                         \
    X(F34)                                                                                         \
    X(F36)                                                                                         \
    X(F37)                                                                                         \
    X(F38)                                                                                         \
    X(F39)                                                                                         \
    X(F40)                                                                                         \
    X(F41)                                                                                         \
    X(F42)                                                                                         \
    X(F43)                                                                                         \
    X(F44)                                                                                         \
    X(F45)                                                                                         \
    X(F46)                                                                                         \
    X(F47)                                                                                         \
    X(F48)                                                                                         \
    X(F49)

#define FAULT_DECLARE(id) Suite *id##_suite(void);
FAULTS(FAULT_DECLARE)
#undef FAULT_DECLARE

/* Defines id##_suite() with these tests. */
#define FAULT(id, ...)                                                                             \
    Suite *id##_suite(void)                                                                        \
    {                                                                                              \
        return fault_suite(#id, (const TTest *const[]){__VA_ARGS__, NULL});                        \
    }

Suite *fault_suite(const char *id, const TTest *const *tests);

#endif
