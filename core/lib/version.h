/* Defines PACKAGE_VERSION even if configure was not run (linters). */
#ifndef CORE_VERSION_H
#define CORE_VERSION_H

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#ifndef PACKAGE_VERSION
#define PACKAGE_VERSION "unknown"
#endif

#endif
