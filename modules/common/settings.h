/*
 * Rows of a module's table of settings. Each is bound to the member with its name in the struct
 * SETTINGS, which the module defines before it uses these macros.
 */
#ifndef COMMON_SETTINGS_H
#define COMMON_SETTINGS_H

#include <busbar/field.h>

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
