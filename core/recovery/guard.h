/* Protects a process of the host: its environment, unused signals, privileges. */
#ifndef CORE_GUARD_H
#define CORE_GUARD_H

/*
 * Moves the environment to memory of the process and erases it where the kernel shows it, in
 * /proc/PID/environ: it may have keys and passwords. getenv() goes on finding all of it, also for a
 * reload. Texts that getenv() returned before are gone. Without memory nothing happens. At the
 * start of main(), before there are threads.
 */
void guard_environment(void);

/*
 * For a process that serves: ignores the signals that it has no use for but that would end it, and
 * gives up the right to gain privileges by executing a file. Children inherit both.
 */
void guard_process(void);

#endif
