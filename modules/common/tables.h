/*
 * Tables of several modules: the response {"success":true}, and rows of a table of settings. Each
 * setting is bound to the member with its name in the struct SETTINGS, which the module defines
 * before it uses these macros.
 */
#ifndef COMMON_TABLES_H
#define COMMON_TABLES_H

#include <busbar/field.h>

static const struct bb_field success_reply[] = {
    {.name = "success", .type = BB_BOOL, .flags = BB_REQUIRED},
};

#define SETTING(key, text) .name = #key, .bind = BB_BIND(SETTINGS, key), .help = (text)

#define SETTING_TEXT(key, bits, most, preset, text)                                                \
    {                                                                                              \
        .type = BB_TEXT, .flags = (bits), .max = (most), .fallback = (preset), SETTING(key, text)  \
    }

/* `unit` is a flag such as BB_SECONDS, or 0. */
#define SETTING_INT(key, unit, least, most, preset, text)                                          \
    {                                                                                              \
        .type = BB_INT, .flags = (unit), .min = (least), .max = (most), .fallback = (preset),      \
        SETTING(key, text)                                                                         \
    }

#define SETTING_BOOL(key, preset, text)                                                            \
    {                                                                                              \
        .type = BB_BOOL, .fallback = (preset), SETTING(key, text)                                  \
    }

/* `among` is a list of texts that ends with NULL. */
#define SETTING_CHOICE(key, among, preset, text)                                                   \
    {                                                                                              \
        .type = BB_CHOICE, .choices = (among), .fallback = (preset), SETTING(key, text)            \
    }

#endif
