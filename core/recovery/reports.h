/* The directory with the files of crash reports. For a process that has not crashed. */
#ifndef CORE_REPORTS_H
#define CORE_REPORTS_H

enum { REPORTS_KEPT = 100 };

/*
 * Makes the directory if it is missing, the one above it is not, and deletes all but the newest
 * reports in it: a module that crashes day and night must not fill the disk. 0, or -1 with errno:
 * nothing could be written there.
 */
int reports_open(const char *directory);

#endif
