/*
 * The log: one line for each record, in logfmt or JSON, to one descriptor or file.
 *
 * A caller formats on its own stack, copies the line into a ring of 256 KiB and goes on; one
 * thread writes. A descriptor that blocks or fails thus never holds a caller: what finds no room
 * is dropped and counted, and when writing works again a line says how many were lost.
 *
 * Before log_open() and after log_close() lines go straight to standard error. All functions may be
 * called from any thread, but log_open() and log_close() from one at a time. Values may be any
 * bytes: they can neither end a line nor pretend to be another pair.
 */
#ifndef CORE_LOG_H
#define CORE_LOG_H

#include <busbar/api.h>

struct log_pair {
    const char *key;   /* of the host's own, [a-z0-9_.] */
    const char *value; /* NULL: the pair is left out */
};

/* Starts the writer on `fd`, which stays the caller's. 0, or -1 with errno. */
int log_open(int fd, enum bb_level level, bool json);

/*
 * The same on a file of its own, which is made where it is missing and written at its end. 0, or -1
 * with errno.
 */
int log_open_file(const char *path, enum bb_level level, bool json);

/*
 * Has the writer open its file again, whose name another one may have now, and go on there: each
 * line is in one of the two, whole. The old one stays, with a line about it, where that fails.
 * Nothing happens to a log that is on a descriptor. Any thread; does not wait.
 */
void log_reopen(void);

/* Has written what waits, for at most 1 s, and ends the writer. */
void log_close(void);

/* "debug", "info", "warn" or "error". */
enum bb_level log_level_of(const char *name);

/* Changes the lowest level that is written, and the format. */
void log_level(enum bb_level level, bool json);

bool log_wants(enum bb_level level);

/* log_line(BB_INFO, "listening", "address", text, NULL): pairs of key and value, ended by NULL. */
__attribute__((sentinel)) void log_line(enum bb_level level, const char *message, ...);
void log_pairs(enum bb_level level, const char *message, const struct log_pair *pairs,
               size_t count);

/*
 * The same for who cannot wait: straight to the descriptor, past what waits in the ring, and not at
 * all where that takes nothing. Async-signal-safe.
 */
void log_now(enum bb_level level, const char *message, const struct log_pair *pairs, size_t count);

/* Lines lost since log_open(). */
uint64_t log_dropped(void);

#endif
