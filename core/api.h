/* The table of the host's functions that modules get (see <busbar/api.h>). */
#ifndef CORE_API_H
#define CORE_API_H

#include <busbar/api.h>

extern const struct bb_api core_api;

#endif
