/* A host whose module relay sends what tests tell it to by the module upstream. */
#ifndef TESTS_RELAY_H
#define TESTS_RELAY_H

#include "receive.h"

#define RELAY_LOCAL "upstream:\n  open_networks: [\"127.0.0.0/8\", \"::1\"]\n"

/* Not started. `more` is the section upstream, and what follows it. */
struct host_spec relay_spec(const char *name, const char *more);

/* Starts it, and waits until it is ready: before that it does not know whether it may call anybody.
 */
struct host *relay_start(const struct host_spec *spec);

/* POST /relay with the members of a JSON object, as json_pack() takes them ("{ss}"). */
struct answer *relay(const struct host *host, const char *format, ...);

/* The same, where the answer tells of what failed, too: "status", "error", "sent", … */
struct answer *relay_tells(const struct host *host, const char *format, ...);

/* A header that the other server answered, in lower case; NULL: none. */
const char *relay_header(const struct answer *answer, const char *name);

/* How many calls are under way now, and how many had that outcome, as /metrics has it. */
double relay_under_way(const struct host *host);
double relay_outcomes(const struct host *host, const char *outcome);

#endif
