/*
 * The host's own settings: the tables of its sections. They are used to check the file and to
 * generate the reference (`busbar settings`, docs/configuration.md).
 */
#ifndef CORE_HOST_SETTINGS_H
#define CORE_HOST_SETTINGS_H

#include <busbar/field.h>

#include "core/lib/settings.h"

#define CONTROL_SOCKET "/run/busbar/control.sock" /* default of control.socket */

struct host_section {
    const char *name; /* SETTINGS_ROOT: the scalars at the top of the file */
    const char *help;
    struct bb_table fields; /* struct bb_field */
};

extern const struct host_section host_sections[];
extern const size_t host_section_count;

/* Binds all sections. Returns 0, or -1 when problems were added. */
int host_settings_bind(struct settings *settings, struct setting_problems *problems);

/* Whether a section belongs to the host, so that no module may have its name. */
bool host_settings_own(const char *section);

#endif
