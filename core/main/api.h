/*
 * The table of the host's functions for modules (see <busbar/api.h>), and the functions in it that
 * belong to no other part of the host. The public headers document them.
 */
#ifndef CORE_API_H
#define CORE_API_H

#include <busbar/api.h>

extern const struct bb_api core_api;

#endif
