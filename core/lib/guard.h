/* Protects a process of the host: its environment, unused signals, privileges. */
#ifndef CORE_GUARD_H
#define CORE_GUARD_H

/*
 * Copies the environment to other memory, and erases it in /proc/PID/environ, because it may
 * contain keys and passwords. getenv() still finds all variables, but texts that it returned before
 * this call become invalid. If memory runs out, nothing changes. Call at the start of main(),
 * before threads are created.
 */
void guard_environment(void);

/*
 * Makes a server process ignore signals that it does not use and that would end it, and prevents it
 * from gaining privileges by executing a file. Child processes inherit both.
 */
void guard_process(void);

#endif
