/* A host with the module relay, which makes the requests that tests ask for through the module
 * upstream. */
#ifndef TESTS_RELAY_H
#define TESTS_RELAY_H

#include "receive.h"

/* Large requests take long on a slow machine. */
#define RELAY_LOCAL "upstream:\n  timeout: 55000\n  open_networks: [\"127.0.0.0/8\", \"::1\"]\n"

/* Settings of a host that is not started yet. `more` is the section upstream and any later
 * sections. */
struct host_spec relay_spec(const char *name, const char *more);

/* Starts the host and waits until it is ready; before that it does not know whether requests are
 * permitted.
 */
struct host *relay_start(const struct host_spec *spec);

/* Sends POST /relay with the members of a JSON object, in json_pack() format ("{ss}"). */
struct answer *relay(const struct host *host, const char *format, ...);

/* Like relay(), for calls that may fail: the response has "status", "error", "sent", … */
struct answer *relay_tells(const struct host *host, const char *format, ...);

/* Returns a header (its name in lower case) of the other server's response, or NULL. */
const char *relay_header(const struct answer *answer, const char *name);

/* Return the number of calls in progress, and the number of calls with this outcome, from /metrics.
 */
double relay_under_way(const struct host *host);
double relay_outcomes(const struct host *host, const char *outcome);

#endif
