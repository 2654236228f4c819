/*
 * `busbar serve` consists of two processes: the supervisor, implemented here, and the server
 * process (in messages and docs: the worker). The supervisor loads no module and reads no
 * configuration. It creates the listening sockets (core/lib/supervised.h), forwards signals, and
 * restarts the server process when it dies. The sockets stay open during a restart, so connections
 * wait, and none is refused. See docs/operating.md for details.
 */
#ifndef CORE_SUPERVISOR_H
#define CORE_SUPERVISOR_H

#include <stdbool.h>

/*
 * Runs the supervisor if the command is `serve`. Call first in main(). Returns true if this process
 * was the supervisor and has finished, with the exit status in *status. Returns false if this
 * process must continue: as the server process, another command, or `serve --no-supervisor`.
 */
bool supervisor_run(int argc, char **argv, int *status);

#endif
