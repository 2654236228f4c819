/* The directory for crash report files. For a process that has not crashed. */
#ifndef CORE_REPORTS_H
#define CORE_REPORTS_H

enum { REPORTS_KEPT = 100 };

/*
 * Creates the directory if it does not exist and its parent does, and deletes all reports except
 * the newest, so that a module that keeps crashing does not fill the disk. Returns 0, or -1 with
 * errno if files cannot be written there.
 */
int reports_open(const char *directory);

#endif
