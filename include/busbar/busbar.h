/* Includes the headers that most modules need. */
#ifndef BUSBAR_BUSBAR_H
#define BUSBAR_BUSBAR_H

#include <busbar/bulk.h>
#include <busbar/event.h>
#include <busbar/helpers.h>
#include <busbar/host.h>
#include <busbar/module.h>
#include <busbar/request.h>
#include <busbar/services.h>
#include <busbar/sql.h>
#include <busbar/stream.h>
#include <busbar/upstream.h>

#endif
