/* Fields of all types, shared by the tests and the fuzzer of bodies. */
#ifndef TESTS_FIELD_ROWS_H
#define TESTS_FIELD_ROWS_H

#include <busbar/busbar.h>

static const char *const colours[] = {"red", "green", NULL};

static const struct bb_field reading[] = {
    {.name = "value", .type = BB_NUMBER, .flags = BB_REQUIRED, .min = 1, .max = 100},
    {.name = "startDate", .type = BB_TIME, .alias = "starttimestamp"},
};

static const struct bb_field item[] = {
    {.name = "item", .type = BB_OBJECT, .fields = BB_TABLE(reading)}};
static const struct bb_field word[] = {{.name = "word", .type = BB_TEXT, .min = 1, .max = 3}};

static const struct bb_field fields[] = {
    {.name = "text", .type = BB_TEXT, .min = 2, .max = 5},
    {.name = "entry", .type = BB_TEXT, .flags = BB_NOT_BLANK},
    {.name = "email", .type = BB_EMAIL, .alias = "mail"},
    {.name = "uuid", .type = BB_UUID},
    {.name = "count", .type = BB_INT, .min = 1, .max = 10},
    {.name = "any", .type = BB_ANY},
    {.name = "number", .type = BB_NUMBER},
    {.name = "yes", .type = BB_BOOL},
    {.name = "when", .type = BB_TIME},
    {.name = "colour", .type = BB_CHOICE, .choices = colours},
    {.name = "free", .type = BB_OBJECT},
    {.name = "reads", .type = BB_LIST, .min = 1, .max = 4, .fields = BB_TABLE(item)},
    {.name = "words", .type = BB_LIST, .fields = BB_TABLE(word)},
    {.name = "gone", .type = BB_TEXT, .flags = BB_NULLABLE},
    {.name = "least", .type = BB_INT, .min = 1},
    {.name = "secret", .type = BB_TEXT, .flags = BB_SECRET},
    {.name = "letter", .type = BB_TEXT, .flags = BB_VERBATIM},
    {.name = "anything", .type = BB_ANY, .flags = BB_NULLABLE},
    {.name = "limit", .type = BB_INT, .min = 1, .max = 10},
    {.name = "name", .type = BB_TEXT, .flags = BB_NAME, .max = 8},
    {.name = "account", .type = BB_EMAIL, .flags = BB_NFKC},
    {.name = "tried", .type = BB_TEXT, .flags = BB_EMPTY},
};
static const struct bb_table table = BB_TABLE(fields);

#endif
