/*
 * `busbar serve` consists of two processes: the supervisor, implemented here, and a worker, which
 * serves. The supervisor loads no module and reads no configuration. It makes the sockets with
 * which workers listen (core/lib/supervised.h), forwards signals, and restarts the worker when it
 * dies. Meanwhile the sockets stay open, so connections wait, and none is refused. See
 * docs/operating.md for details.
 */
#ifndef CORE_SUPERVISOR_H
#define CORE_SUPERVISOR_H

#include <stdbool.h>

/*
 * Call this first in main(). Returns true if this process was the supervisor and has finished, with
 * the exit status in *status. Returns false if this process must continue: as a worker, another
 * command, or `serve --no-supervisor`.
 */
bool supervisor_run(int argc, char **argv, int *status);

#endif
