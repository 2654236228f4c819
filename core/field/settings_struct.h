/*
 * Settings in the struct of their module, see struct bb_bind: the host's modules have it filled,
 * and so have those that are tested with the fake host. Any thread.
 */
#ifndef CORE_SETTINGS_STRUCT_H
#define CORE_SETTINGS_STRUCT_H

#include <busbar/field.h>
#include <jansson.h>

/* A setting and its value, in each form that its type can be asked for; else NULL or 0. */
struct setting_value {
    const struct bb_field *field;
    const char *text; /* normalised; NULL: absent */
    int64_t integer;
    double number;
    json_t *json;
};

/*
 * What is wrong with the place that a row of a table of settings is bound to, in a struct of `size`
 * bytes: "is bound …"; NULL: nothing, or it is not bound.
 */
const char *settings_struct_fault(const struct bb_table *settings, size_t row, size_t size);

/* Writes the value to the member that it is bound to, if it is bound to one, whose place is fine.
 */
void settings_struct_store(const struct setting_value *value, void *settings);

#endif
