/* Everything that a module needs. */
#ifndef BUSBAR_BUSBAR_H
#define BUSBAR_BUSBAR_H

#include <busbar/event.h>
#include <busbar/host.h>
#include <busbar/module.h>
#include <busbar/request.h>
#include <busbar/services.h>
#include <busbar/sql.h>

#endif
