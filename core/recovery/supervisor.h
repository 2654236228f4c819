/*
 * `busbar serve` is two processes: the supervisor, which this file is, and a worker, which serves.
 * The supervisor loads no module and knows no configuration. It keeps duplicates of the worker's
 * listening sockets, forwards signals, passes on what the service manager is to hear, and starts
 * the worker again when it dies: the next one takes the sockets over, so connections wait meanwhile
 * and none is refused. docs/recovery.md has the rest.
 */
#ifndef CORE_SUPERVISOR_H
#define CORE_SUPERVISOR_H

#include <stdbool.h>

/*
 * First thing in main(). true: this process was the supervisor, all is over, and *status is the
 * exit status. false: this process is to go on: a worker, another command, or
 * `serve --no-supervisor`.
 */
bool supervisor_run(int argc, char **argv, int *status);

#endif
