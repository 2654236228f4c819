/*
 * The log: one line for each record, in logfmt or JSON, to a descriptor or file.
 *
 * A caller formats the line on its stack and copies it into a ring buffer of 256 KiB; a separate
 * thread writes the buffer to the descriptor. So a descriptor that blocks never blocks a caller: if
 * the buffer is full, lines are dropped and counted, and a later line reports their number.
 *
 * Before log_open() and after log_close() lines go directly to standard error. Any thread may call
 * these functions, except that only one thread at a time may call log_open() and log_close().
 * Values may contain any bytes: they are escaped, and cannot end a line or look like other pairs.
 */
#ifndef CORE_LOG_H
#define CORE_LOG_H

#include <busbar/api.h>

#include "core/lib/text.h"

struct log_pair {
    const char *key;   /* [a-z0-9_.], because keys are not escaped; LOG_NUMBER() adds '#' */
    const char *value; /* NULL: the pair is omitted */
};

/*
 * Starts the writer. It appends to the file `path`, which it creates if necessary; if `path` is
 * NULL, it writes to `fd`, which the caller still owns. Returns 0, or -1 with errno.
 */
int log_open(const char *path, int fd, enum bb_level level, bool json);

/*
 * Makes the writer open its file again, for instance after log rotation renamed the file. Every
 * line is written completely to one of the two files. If opening fails, the writer keeps the old
 * file and logs the failure. No effect on a log to a descriptor. Any thread; does not wait.
 */
void log_reopen(void);

/* Waits up to 1 s until the lines logged so far are written. Any thread. */
void log_flush(void);

/* Waits up to 1 s until the lines logged so far are written, and ends the writer. */
void log_close(void);

/* Returns the level named "debug", "info", "warn" or "error". */
enum bb_level log_level_of(const char *name);

/* Changes the lowest level that is written, and the format. */
void log_level(enum bb_level level, bool json);

bool log_wants(enum bb_level level);

/*
 * Logs a message with pairs of keys and values, terminated by NULL: log_line(BB_INFO, "listening",
 * "address", text, NULL).
 */
__attribute__((sentinel)) void log_line(enum bb_level level, const char *message, ...);
void log_pairs(enum bb_level level, const char *message, const struct log_pair *pairs,
               size_t count);

/*
 * Expands to a key with '#' before it, and the text of a number, valid until the end of the block.
 * Because of the '#', which is not written, the value is a number in JSON lines, not a string.
 */
#define LOG_NUMBER(key, number) LOG_NUMBER_IF(true, key, number)
#define LOG_NUMBER_IF(condition, key, number)                                                      \
    "#" key, (condition) ? log_number((int64_t)(number), (char[TEXT_INTEGER_SIZE]){0}) : NULL
static inline const char *log_number(int64_t number, char out[TEXT_INTEGER_SIZE])
{
    text_integer(number, out);
    return out;
}

/*
 * Like log_pairs(); usable in signal handlers, and while other threads hang. Writes the line
 * directly to the descriptor, even if the buffer still contains earlier lines. Drops the line if
 * the descriptor accepts no bytes for 100 ms. Async-signal-safe.
 */
void log_now(enum bb_level level, const char *message, const struct log_pair *pairs, size_t count);

/* Returns the number of lines lost since log_open(). */
uint64_t log_dropped(void);

#endif
