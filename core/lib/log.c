#include "core/lib/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/lib/thread.h"

static const char *const level_names[] = {"debug", "info", "warn", "error"};
static atomic_bool as_json;

/* ---- formatting lines on the stack of the caller ---- */

#define LOG_LINE_MAX 4096 /* including the newline; longer lines are cut and marked */

struct log_text {
    char bytes[LOG_LINE_MAX];
    size_t used;
    bool json;
    bool cut;
};

#define TAIL 24 /* reserved for a closing quote, the mark of a cut line and the newline */

/* The closing quote of a value may be one byte beyond, in the reserved space. */
static size_t log_room(const struct log_text *line)
{
    return line->used < LOG_LINE_MAX - TAIL ? LOG_LINE_MAX - TAIL - line->used : 0;
}

/* Appends the bytes completely or not at all, so that an escape sequence is never cut. */
static void log_put(struct log_text *line, const char *bytes, size_t length)
{
    if (line->cut || length > log_room(line)) {
        line->cut = true;
        return;
    }
    memcpy(line->bytes + line->used, bytes, length);
    line->used += length;
}

static void log_put_text(struct log_text *line, const char *text)
{
    log_put(line, text, strlen(text));
}

/*
 * Returns whether a character must be escaped, because it affects a terminal's display: ASCII and
 * C1 control characters, Unicode's line separators and directional marks.
 */
static bool log_unseen(int32_t c)
{
    return c < 0x20 || (c >= 0x7F && c <= 0x9F) || c == 0x061C || c == 0x200E || c == 0x200F ||
           (c >= 0x2028 && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069) || c == 0xFEFF;
}

enum { HARMLESS = 1 /* needs no escape */, BARE = 2 /* needs no quotes in logfmt */ };

/* clang-format off */
static const unsigned char classes[256] = {
    [' '] = HARMLESS, ['!'] = HARMLESS, ['#' ... ','] = HARMLESS, ['-' ... ':'] = HARMLESS | BARE,
    [';' ... '?'] = HARMLESS, ['@' ... 'Z'] = HARMLESS | BARE, ['['] = HARMLESS,
    [']' ... '^'] = HARMLESS, ['_'] = HARMLESS | BARE, ['`'] = HARMLESS,
    ['a' ... 'z'] = HARMLESS | BARE, ['{' ... '~'] = HARMLESS,
};
/* clang-format on */

/* Returns how many bytes at the start of `text` have one of the bits `class` in `classes`. */
static size_t log_run_of(unsigned char class, const char *text, size_t length)
{
    size_t at = 0;

    while (at < length && classes[(unsigned char)text[at]] & class)
        at++;
    return at;
}

static void log_put_quoted(struct log_text *line, const char *text, size_t length)
{
    log_put(line, "\"", 1);
    /* Both formats use JSON's escapes. Invalid UTF-8 becomes U+FFFD. */
    char escape[8];

    while (length && !line->cut) {
        size_t size, room = log_room(line);
        size_t run = log_run_of(HARMLESS, text, length < room ? length : room);

        log_put(line, text, run);
        text += run;
        length -= run;
        if (!length)
            break;
        int32_t c = text_code_point(text, length, &size);

        if (c == '"' || c == '\\') {
            log_put(line, (char[]){'\\', (char)c}, 2);
        } else if (c == '\n' || c == '\r' || c == '\t') {
            log_put_text(line, c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
        } else if (c < 0) {
            log_put(line, "\xEF\xBF\xBD", 3);
        } else if (log_unseen(c)) {
            snprintf(escape, sizeof(escape), "\\u%04x", (unsigned)c & 0xFFFF);
            log_put(line, escape, 6);
        } else {
            log_put(line, text, size);
        }
        text += size;
        length -= size;
    }
    line->bytes[line->used++] = '"'; /* uses the reserved space if necessary */
}

static void log_text_pair(struct log_text *line, const char *key, const char *value)
{
    if (!value || line->cut)
        return;
    bool number = *key == '#';

    key += number;
    size_t before = line->used, length = strlen(value), named = strlen(key);
    /* logfmt readers accept some values without quotes */
    bool quoted = line->json ? !number : !length || log_run_of(BARE, value, length) != length;

    /* The key, its punctuation and the quote must fit; only the value may be cut. */
    if (named + 5 > log_room(line)) {
        line->cut = true;
        return;
    }
    log_put_text(line, line->json ? ",\"" : " ");
    log_put_text(line, key);
    log_put_text(line, line->json ? "\":" : "=");
    if (quoted)
        log_put_quoted(line, value, length);
    else
        log_put(line, value, length);
    if (line->cut && !quoted)
        line->used = before;
}

static void log_text_start(struct log_text *line, enum bb_level level, const char *message)
{
    bool json = atomic_load(&as_json);
    char time[TEXT_TIME_SIZE];

    line->used = 0;
    line->json = json;
    line->cut = false;
    text_time(clock_wall_ms(), time);
    log_put_text(line, json ? "{\"ts\":\"" : "ts=");
    log_put_text(line, time);
    log_put_text(line, json ? "\",\"level\":\"" : " level=");
    log_put_text(line, level_names[level]);
    log_put_text(line, json ? "\",\"msg\":" : " msg=");
    log_put_quoted(line, message, strlen(message));
}

static void log_text_end(struct log_text *line)
{
    const char *end = line->json  ? line->cut ? ",\"cut\":true}\n" : "}\n"
                      : line->cut ? " cut=true\n"
                                  : "\n";
    size_t length = strlen(end);

    memcpy(line->bytes + line->used, end, length);
    line->used += length;
}

static void log_text_fill(struct log_text *line, enum bb_level level, const char *message,
                          const struct log_pair *pairs, size_t count)
{
    log_text_start(line, level, message);
    for (size_t i = 0; i < count; i++)
        log_text_pair(line, pairs[i].key, pairs[i].value);
    log_text_end(line);
}

/* ---- the writer ---- */

#define RING_SIZE ((size_t)262144)
#define CLOSE_WAIT_MS 1000
#define GATHER_MS 2  /* pause after a write, so that several lines are written at a time */
#define RETRY_MS 100 /* pause after a failed write, to avoid a busy loop if the disk is full */

/*
 * log_lock protects everything except the bytes of `ring`: only the writer reads the bytes between
 * tail and head, and only the holder of the lock writes the other bytes. tail and head count all
 * bytes since the start.
 */
struct writer {
    int fd;
    char *path; /* path of the file if the writer owns fd; NULL: the caller owns fd */
    char ring[RING_SIZE];
    uint64_t head, tail;
    uint64_t reported; /* number of lost lines that were reported */
    bool closing, done, abandoned, reopening;
    bool torn; /* the last write ended inside a line; used by the writer thread only */
    pthread_t thread;
};

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t log_wake = PTHREAD_COND_INITIALIZER, log_written = PTHREAD_COND_INITIALIZER;
static struct writer *current;
static atomic_int lowest = BB_INFO;
static atomic_uint_fast64_t lost; /* number of lines lost since log_open() */

/* Like write(), but waits while the descriptor would block, and ignores EINTR. */
static ssize_t log_write_some(int fd, const char *bytes, size_t length)
{
    for (;;) {
        ssize_t wrote = write(fd, bytes, length);

        if (wrote >= 0 || (errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK))
            return wrote;
        if (errno != EINTR)
            poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, RETRY_MS);
    }
}

/* Returns the number of bytes written: all, or fewer after a failure. */
static size_t log_write_all(struct writer *writer, const char *bytes, size_t length)
{
    size_t done = 0;

    while (done < length) {
        ssize_t wrote = log_write_some(writer->fd, bytes + done, length - done);

        if (wrote <= 0)
            break;
        done += (size_t)wrote;
        writer->torn = bytes[done - 1] != '\n';
    }
    return done;
}

/* Ends a partly written line, and logs the number of lost lines. Returns false on failure. */
static bool log_report_drops(struct writer *writer)
{
    uint64_t dropped = atomic_load(&lost);
    struct log_text line;

    if (writer->torn && !log_write_all(writer, "\n", 1))
        return false;
    if (dropped == writer->reported)
        return true;
    log_text_fill(&line, BB_WARN, "log lines dropped",
                  &(struct log_pair){LOG_NUMBER("count", dropped - writer->reported)}, 1);
    if (log_write_all(writer, line.bytes, line.used) < line.used)
        return false;
    writer->reported = dropped;
    return true;
}

/* Writes a contiguous part of the ring. Returns how many lines were not written completely. */
static uint64_t log_write_part(struct writer *writer, size_t start, size_t length, bool *failed)
{
    const char *bytes = writer->ring + start, *end = bytes + length;
    size_t done = *failed ? 0 : log_write_all(writer, bytes, length);
    uint64_t unwritten = 0;

    *failed = done < length;
    for (bytes += done; (bytes = memchr(bytes, '\n', (size_t)(end - bytes))); bytes++)
        unwritten++;
    return unwritten;
}

static int log_open_path(const char *path)
{
    return open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0640);
}

static void writer_free(struct writer *writer)
{
    if (writer->path && writer->fd >= 0)
        close(writer->fd);
    free(writer->path);
    free(writer);
}

/* Opens the file again. If this fails, reports it to the file that is still open. */
static void writer_reopen(struct writer *writer)
{
    int fd = log_open_path(writer->path), old = writer->fd;
    struct log_text line;

    if (fd < 0) {
        const struct log_pair pairs[] = {{"file", writer->path}, {"reason", strerror(errno)}};

        log_text_fill(&line, BB_ERROR, "cannot reopen the log", pairs, 2);
        log_write_all(writer, line.bytes, line.used);
        return;
    }
    writer->fd = fd; /* crash reports use this descriptor, so it must always be open */
    writer->torn = false;
    close(old);
}

static void *writer_run(void *arg)
{
    struct writer *writer = arg;

    thread_name("log", NULL);
    pthread_mutex_lock(&log_lock);
    while (!writer->closing || writer->reopening || writer->head != writer->tail) {
        size_t start = writer->tail % RING_SIZE, length = (size_t)(writer->head - writer->tail);
        bool reopening = writer->reopening;

        if (!length && !reopening) {
            pthread_cond_wait(&log_wake, &log_lock);
            continue;
        }
        writer->reopening = false;
        pthread_mutex_unlock(&log_lock);
        if (reopening) /* between two writes, so no line is lost */
            writer_reopen(writer);
        size_t first = length < RING_SIZE - start ? length : RING_SIZE - start;
        bool failed = !log_report_drops(writer);
        uint64_t unwritten = log_write_part(writer, start, first, &failed);

        unwritten += log_write_part(writer, 0, length - first, &failed);
        if (unwritten)
            poll(NULL, 0, RETRY_MS);
        pthread_mutex_lock(&log_lock);
        writer->tail += length;
        atomic_fetch_add(&lost, unwritten);
        pthread_cond_broadcast(&log_written);
        if (!writer->closing) {
            pthread_mutex_unlock(&log_lock);
            poll(NULL, 0, GATHER_MS);
            pthread_mutex_lock(&log_lock);
        }
    }
    log_report_drops(writer);
    writer->done = true;
    bool abandoned = writer->abandoned;

    pthread_cond_broadcast(&log_written);
    pthread_mutex_unlock(&log_lock);
    if (abandoned)
        writer_free(writer);
    return NULL;
}

int log_open(const char *path, int fd, enum bb_level level, bool json)
{
    struct writer *writer = calloc(1, sizeof(*writer));
    sigset_t all, before;

    if (!writer || (path && !(writer->path = strdup(path)))) {
        free(writer);
        errno = ENOMEM;
        return -1;
    }
    writer->fd = path ? log_open_path(path) : fd;
    sigfillset(&all); /* the writer blocks all signals; other threads handle them */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = writer->fd < 0 ? errno : pthread_create(&writer->thread, NULL, writer_run, writer);

    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) {
        writer_free(writer);
        errno = failed;
        return -1;
    }
    log_level(level, json);
    atomic_store(&lost, 0);
    BB_LOCKED(&log_lock);
    current = writer;
    return 0;
}

void log_reopen(void)
{
    BB_LOCKED(&log_lock);
    if (current && current->path) {
        current->reopening = true;
        pthread_cond_signal(&log_wake);
    }
}

void log_flush(void)
{
    int64_t until = clock_mono_ms() + CLOSE_WAIT_MS;

    BB_LOCKED(&log_lock);
    const struct writer *writer = current;
    uint64_t head = writer ? writer->head : 0;

    while (writer && current == writer && writer->tail < head &&
           condition_wait(&log_written, &log_lock, until) != ETIMEDOUT)
        ;
}

void log_close(void)
{
    int64_t until = clock_mono_ms() + CLOSE_WAIT_MS;

    pthread_mutex_lock(&log_lock);
    struct writer *writer = current;

    current = NULL;
    if (!writer) {
        pthread_mutex_unlock(&log_lock);
        return;
    }
    pthread_t thread = writer->thread;

    writer->closing = true;
    pthread_cond_signal(&log_wake);
    while (!writer->done && condition_wait(&log_written, &log_lock, until) != ETIMEDOUT)
        ;
    bool done = writer->done;

    writer->abandoned = !done; /* the thread frees the writer when write() returns */
    pthread_mutex_unlock(&log_lock);
    if (done) {
        pthread_join(thread, NULL);
        writer_free(writer);
    } else {
        pthread_detach(thread);
    }
}

enum bb_level log_level_of(const char *name)
{
    enum bb_level level = BB_DEBUG;

    while (level < BB_ERROR && strcmp(level_names[level], name) != 0)
        level++;
    return level;
}

void log_level(enum bb_level level, bool json)
{
    atomic_store(&lowest, (int)level);
    atomic_store(&as_json, json);
}

bool log_wants(enum bb_level level)
{
    return (int)level >= atomic_load_explicit(&lowest, memory_order_relaxed);
}

uint64_t log_dropped(void)
{
    return atomic_load(&lost);
}

static void log_submit(const struct log_text *line)
{
    pthread_mutex_lock(&log_lock);
    struct writer *writer = current;

    if (writer && line->used > RING_SIZE - (size_t)(writer->head - writer->tail)) {
        atomic_fetch_add(&lost, 1);
    } else if (writer) {
        size_t start = writer->head % RING_SIZE;
        size_t first = line->used < RING_SIZE - start ? line->used : RING_SIZE - start;

        memcpy(writer->ring + start, line->bytes, first);
        memcpy(writer->ring, line->bytes + first, line->used - first);
        writer->head += line->used;
        pthread_cond_signal(&log_wake);
    }
    pthread_mutex_unlock(&log_lock);
    if (!writer)
        log_write_some(STDERR_FILENO, line->bytes, line->used);
}

void log_line(enum bb_level level, const char *message, ...)
{
    struct log_text line;
    const char *key;
    va_list args;

    if (!log_wants(level))
        return;
    log_text_start(&line, level, message);
    va_start(args, message);
    while ((key = va_arg(args, const char *)))
        log_text_pair(&line, key, va_arg(args, const char *));
    va_end(args);
    log_text_end(&line);
    log_submit(&line);
}

void log_pairs(enum bb_level level, const char *message, const struct log_pair *pairs, size_t count)
{
    struct log_text line;

    if (!log_wants(level))
        return;
    log_text_fill(&line, level, message, pairs, count);
    log_submit(&line);
}

void log_now(enum bb_level level, const char *message, const struct log_pair *pairs, size_t count)
{
    const struct writer *writer = current;
    int fd = writer ? writer->fd : STDERR_FILENO;
    struct log_text line;

    log_text_fill(&line, level, message, pairs, count);
    if (poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, RETRY_MS) > 0)
        log_write_some(fd, line.bytes, line.used);
}
