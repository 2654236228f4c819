/* Interface of module_poke.c for the suites. */
#ifndef TESTS_POKE_H
#define TESTS_POKE_H

#include "client.h"
#include "wire.h"

enum { AT_ONCE_MS = 60000 /* only to detect hangs */ };

/* Starts a host with the module on a new database of the spec's name (on spec->pg); its schema
 * exists on return.
 */
struct host *poke_start(const struct host_spec *spec);

/* Sends POST or GET /api/poke/<what>; fails the test unless the response has this status and comes
 * at once. */
struct answer *poke(const struct host *host, const char *method, const char *what, long status);

/* Sends the request without waiting for the response. */
struct wire *poke_begin(const struct host *host, const char *what);

/* Fails the test unless transactions succeed again at once, as many as there are connections. */
void poke_lends(const struct host *host);

#endif
