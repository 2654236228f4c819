/*
 * Determines the order in which modules are opened: providers of a service come before the modules
 * that need it; otherwise they are in the configured order.
 */
#ifndef CORE_SERVICE_ORDER_H
#define CORE_SERVICE_ORDER_H

#include "core/module/module_load.h"

/*
 * Fills order[count] with indexes into `modules`. Returns 0, or -1 after adding a problem for each
 * needed service that no module provides in this or a newer version, or a problem that shows a
 * cycle: "auth → log → auth".
 */
int service_order(const struct core_module *modules, size_t count, size_t *order,
                  struct setting_problems *problems);

/* Returns the module that provides a service in at least this version; NULL: none. */
const struct core_module *service_provider(const struct core_module *modules, size_t count,
                                           const char *service, unsigned version,
                                           const struct bb_service_descriptor **descriptor);

#endif
