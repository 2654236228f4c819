/* Protects a process of the host: its environment, unused signals, privileges. */
#ifndef CORE_GUARD_H
#define CORE_GUARD_H

/*
 * Moves the environment to memory of the process, and erases it in /proc/PID/environ, because it
 * may contain keys and passwords. getenv() still finds all variables, including in a reload, but
 * texts that it returned before are invalid. If memory runs out, nothing changes. Call at the start
 * of main(), before threads are created.
 */
void guard_environment(void);

/*
 * For a process that serves: ignores signals that it does not use but that would end it, and gives
 * up the possibility of gaining privileges by executing a file. Children inherit both.
 */
void guard_process(void);

#endif
