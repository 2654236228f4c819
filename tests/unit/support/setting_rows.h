/* Settings of all types, shared by their tests and their fuzzer. */
#ifndef TESTS_SETTING_ROWS_H
#define TESTS_SETTING_ROWS_H

#include <busbar/busbar.h>

static const char *const colours[] = {"red", "blue", NULL};
static const struct bb_field pair[] = {{.name = "x", .type = BB_INT},
                                       {.name = "y", .type = BB_INT, .flags = BB_REQUIRED}};
static const struct bb_field text_item[] = {{.name = "item", .type = BB_TEXT, .min = 1}};
static const struct bb_field pair_item[] = {
    {.name = "item", .type = BB_OBJECT, .fields = BB_TABLE(pair)}};
static const struct bb_field wait_item[] = {
    {.name = "item", .type = BB_NUMBER, .flags = BB_SECONDS}};
static const struct bb_field fields[] = {
    {.name = "text", .type = BB_TEXT, .fallback = "none", .max = 5},
    {.name = "whole", .type = BB_INT, .min = 1, .max = 9, .fallback = "3"},
    {.name = "number", .type = BB_NUMBER, .fallback = "0.5"},
    {.name = "yes", .type = BB_BOOL, .fallback = "false"},
    {.name = "colour", .type = BB_CHOICE, .choices = colours},
    {.name = "list", .type = BB_LIST, .fields = BB_TABLE(text_item), .fallback = "[\"a\"]"},
    {.name = "pairs", .type = BB_LIST, .fields = BB_TABLE(pair_item)},
    {.name = "any", .type = BB_ANY},
    {.name = "wait", .type = BB_INT, .flags = BB_SECONDS, .min = 1, .max = 7200},
    {.name = "waits", .type = BB_LIST, .fields = BB_TABLE(wait_item)},
    {.name = "null", .type = BB_TEXT, .flags = BB_NULLABLE},
};
static const struct bb_table table = BB_TABLE(fields);

#endif
