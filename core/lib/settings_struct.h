/*
 * Fills the settings struct of a module, see struct bb_bind. Any thread.
 */
#ifndef CORE_SETTINGS_STRUCT_H
#define CORE_SETTINGS_STRUCT_H

#include <busbar/field.h>
#include <jansson.h>

/* A setting with its value in every form in which its type can be read; NULL or 0 in the others. */
struct setting_value {
    const struct bb_field *field;
    const char *text; /* normalized; NULL: absent */
    int64_t integer;
    double number;
    json_t *json;
};

/*
 * Returns the error in the binding of a row to a struct of `size` bytes: "is bound …"; NULL: it is
 * correct, or not bound.
 */
const char *settings_struct_fault(const struct bb_table *settings, size_t row, size_t size);

/* Writes the value to the member that it is bound to, if any. The binding must be correct. */
void settings_struct_store(const struct setting_value *value, void *settings);

#endif
