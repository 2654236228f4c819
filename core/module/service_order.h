/*
 * The order in which modules are opened: who gives a service before who needs it, and otherwise
 * as the configuration names them.
 */
#ifndef CORE_SERVICE_ORDER_H
#define CORE_SERVICE_ORDER_H

#include "core/module/module_load.h"

/*
 * Fills order[count] with indexes into `modules`. 0; or -1 with a problem for each need that nobody
 * meets (or only in an older version), or one that names a cycle: "auth → log → auth".
 */
int service_order(const struct core_module *modules, size_t count, size_t *order,
                  struct setting_problems *problems);

/* The module that gives a service in at least this version; NULL: none. */
const struct core_module *service_provider(const struct core_module *modules, size_t count,
                                           const char *service, unsigned version,
                                           const struct bb_service_descriptor **descriptor);

#endif
