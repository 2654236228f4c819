/* What suites need to know of module_poke.c. */
#ifndef TESTS_POKE_H
#define TESTS_POKE_H

#include "client.h"
#include "wire.h"

/* The advisory lock that the module's statements "gate" and "held" wait for. */
#define POKE_GATE "4711"

enum { AT_ONCE_MS = 60000 /* a hang guard */ };

/* A host with the module on a new database of the spec's name (on spec->pg); its schema is there.
 */
struct host *poke_start(const struct host_spec *spec);

/* POST or GET /api/poke/<what>; fails the test unless it is answered so, and at once. */
struct answer *poke(const struct host *host, const char *method, const char *what, long status);

/* The same without waiting for the answer. */
struct wire *poke_begin(const struct host *host, const char *what);

/* That transactions go well again, at once: as many as there are connections for them. */
void poke_lends(const struct host *host);

#endif
