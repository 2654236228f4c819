/*
 * The log: one line for each record, in logfmt or JSON, to a descriptor or file.
 *
 * A caller formats the line on its stack and copies it into a ring buffer of 256 KiB; a separate
 * thread writes. So a descriptor that blocks or fails never blocks a caller: lines that do not fit
 * into the buffer are dropped and counted, and once writing works again a line reports the number.
 *
 * Before log_open() and after log_close() lines go directly to standard error. Any thread may call
 * these functions, but log_open() and log_close() only one thread at a time. Values may contain any
 * bytes: they cannot end a line or imitate another pair.
 */
#ifndef CORE_LOG_H
#define CORE_LOG_H

#include <busbar/api.h>

#include "core/lib/text.h"

struct log_pair {
    const char *key;   /* chosen by the host, [a-z0-9_.] */
    const char *value; /* NULL: the pair is omitted */
};

/* Starts the writer on `fd`, which the caller keeps. Returns 0, or -1 with errno. */
int log_open(int fd, enum bb_level level, bool json);

/*
 * Like log_open() with a file, which is created if it does not exist, and appended to. Returns 0,
 * or -1 with errno.
 */
int log_open_file(const char *path, enum bb_level level, bool json);

/*
 * Makes the writer open its file again, for instance after log rotation renamed the file. Every
 * line is written completely to one of the two files. If opening fails, the writer keeps the old
 * file and logs the failure. No effect on a log that writes to a descriptor. Any thread; does not
 * wait.
 */
void log_reopen(void);

/* Waits until the lines logged so far are written, for at most 1 s. Any thread. */
void log_flush(void);

/* Writes the waiting lines, for at most 1 s, and ends the writer. */
void log_close(void);

/* Converts "debug", "info", "warn" or "error". */
enum bb_level log_level_of(const char *name);

/* Changes the lowest level that is written, and the format. */
void log_level(enum bb_level level, bool json);

bool log_wants(enum bb_level level);

/*
 * log_line(BB_INFO, "listening", "address", text, NULL): key and value pairs, terminated by NULL.
 */
__attribute__((sentinel)) void log_line(enum bb_level level, const char *message, ...);
void log_pairs(enum bb_level level, const char *message, const struct log_pair *pairs,
               size_t count);

/* A number as the value of a pair, valid in the enclosing block. */
#define LOG_NUMBER(number) log_number((int64_t)(number), (char[TEXT_INTEGER_SIZE]){0})
static inline const char *log_number(int64_t number, char out[TEXT_INTEGER_SIZE])
{
    text_integer(number, out);
    return out;
}

/*
 * Like log_pairs() for callers that cannot wait, such as signal handlers: writes directly to the
 * descriptor, ahead of the lines in the buffer, and drops the line if the descriptor would block.
 * Async-signal-safe.
 */
void log_now(enum bb_level level, const char *message, const struct log_pair *pairs, size_t count);

/* Number of lines lost since log_open(). */
uint64_t log_dropped(void);

#endif
