/*
 * Runs a function in a child process: the commands `inspect` and `check` load modules there in
 * order to read their tables. The dynamic linker runs the constructors of a file before its tables
 * can be read. They may crash, hang or end the process; in a child process this does no harm.
 *
 * The child has no network (if the kernel allows a private network namespace), cannot write to
 * files, and has limited memory and time. Its process group is killed at the end. The sandbox
 * protects against faults of modules, not against malice: the child has the user's permissions.
 */
#ifndef CORE_SANDBOX_H
#define CORE_SANDBOX_H

#include <stdio.h>

struct sandbox_output {
    char *bytes; /* from malloc(), with a zero byte after the last one */
    size_t length;
};

/*
 * Calls work(out, arg) in a child. Returns the result of `work`, which must not be negative, and
 * the bytes that it wrote to `out`, which the caller frees. If the child fails, returns -1 with the
 * reason in `why`, which begins with the file that sandbox_file() named last. The child's standard
 * output and standard error go to the caller's standard error. The caller must be the only thread.
 */
int sandbox_run(int (*work)(FILE *out, void *arg), void *arg, int limit_ms,
                struct sandbox_output *output, char *why, size_t why_size);

/* Names the file whose code or tables the child uses next. Has no effect outside of a child. */
void sandbox_file(const char *path);

#endif
