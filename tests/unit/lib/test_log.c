/* The log: an entry stays on one line, and callers never wait. */
#include <fcntl.h>
#include <jansson.h>

#include "core/lib/log.h"
#include "core/lib/text.h"
#include "suite.h"

#define NASTY                                                                                      \
    "a\"b\\c\r\nts=fake level=error\x1B[31m\t\xFF\xC3\xA4\xE2\x80\xAE\xE2\x80\xA8\xC2\x85\x01 "    \
    "msg=x"

static char got[2000000];
static int ends[2]; /* the pipe to which the log is written */

/* Reads the pipe until its writers are closed. */
static size_t drain(int fd)
{
    size_t used = 0;
    ssize_t n;

    while ((n = read(fd, got + used, sizeof(got) - 1 - used)) > 0)
        used += (size_t)n;
    got[used] = '\0';
    return used;
}

static void open_pipe(bool json)
{
    ck_assert_int_eq(pipe(ends), 0);
    ck_assert_int_eq(log_open(NULL, ends[1], BB_INFO, json), 0);
}

/* log_flush() gives up after a second, and returns at once if all lines are written. */
static void flush(void)
{
    for (int i = 0; i < 20; i++)
        log_flush();
}

/* Lines that are written by then do not delay log_close(). */
static void flush_and_close(void)
{
    flush();
    log_close();
}

static void close_and_read(void)
{
    flush_and_close();
    close(ends[1]);
    drain(ends[0]);
    close(ends[0]);
}

static size_t lines(void)
{
    size_t count = 0;

    for (const char *at = got; (at = strchr(at, '\n')); at++)
        count++;
    return count;
}

TEST(log_lines_are_logfmt)
{
    open_pipe(false);
    log_line(BB_INFO, "it works", "plain", "a/b-c.d:1", "empty", "", "none", NULL, "space", "a b",
             NULL);
    log_line(BB_DEBUG, "unseen", NULL);
    log_pairs(BB_ERROR, "pairs", (const struct log_pair[]){{"a", "1"}, {"b", NULL}, {"c", "="}}, 3);
    close_and_read();
    ck_assert_int_eq(strncmp(got, "ts=20", 5), 0);
    ck_assert_ptr_nonnull(
        strstr(got, "Z level=info msg=\"it works\" plain=a/b-c.d:1 empty=\"\" space=\"a b\"\nts="));
    ck_assert_ptr_nonnull(strstr(got, "Z level=error msg=\"pairs\" a=1 c=\"=\"\n"));
    ck_assert_uint_eq(lines(), 2);
}

TEST(special_characters_in_values_are_escaped)
{
    open_pipe(false);
    log_line(BB_WARN, NASTY, "v", NASTY, NULL);
    close_and_read();
    ck_assert_uint_eq(lines(), 1);
    ck_assert_ptr_nonnull(
        strstr(got, " v=\"a\\\"b\\\\c\\r\\nts=fake level=error\\u001b[31m\\t\xEF\xBF\xBD"
                    "\xC3\xA4\\u202e\\u2028\\u0085\\u0001 msg=x\"\n"));
    for (char *at = got; *at && *at != '\n'; at++)
        ck_assert_int_ge((unsigned char)*at, 0x20);
}

TEST(json_log_lines_have_numbers_where_the_caller_logs_numbers)
{
    open_pipe(true);
    log_line(BB_INFO, "request", LOG_NUMBER("status", 200), "#ms", "0.190", "request", "123",
             LOG_NUMBER("loop", 0), LOG_NUMBER_IF(false, "more", 1), NULL);
    close_and_read();
    json_t *line = json_loads(got, JSON_REJECT_DUPLICATES, NULL);

    ck_assert_int_eq(json_integer_value(json_object_get(line, "status")), 200);
    ck_assert_double_eq_tol(json_real_value(json_object_get(line, "ms")), 0.19, 1e-9);
    ck_assert_str_eq(json_string_value(json_object_get(line, "request")), "123");
    ck_assert(json_is_integer(json_object_get(line, "loop")));
    ck_assert_ptr_null(json_object_get(line, "more"));
    json_decref(line);
}

TEST(json_log_lines_are_valid_json)
{
    open_pipe(true);
    log_line(BB_WARN, NASTY, "v", NASTY, "w", "1", NULL);
    close_and_read();
    ck_assert_uint_eq(lines(), 1);
    json_t *line = json_loads(got, JSON_REJECT_DUPLICATES, NULL);

    ck_assert_str_eq(json_string_value(json_object_get(line, "level")), "warn");
    ck_assert_str_eq(json_string_value(json_object_get(line, "w")), "1");
    ck_assert_ptr_nonnull(strstr(json_string_value(json_object_get(line, "v")), "\r\nts=fake"));
    json_decref(line);
}

static void write_long(bool json, size_t length)
{
    char *text = malloc(length + 1);

    memset(text, '\x01', length); /* escapes must not be torn */
    memset(text, 'x', length % 7);
    text[length] = '\0';
    open_pipe(json);
    log_line(BB_INFO, "long", "a", "1", "v", text, "after", "x", NULL);
    log_line(BB_INFO, text, "k", text, NULL);
    log_line(BB_INFO, "next", NULL);
    close_and_read();
    free(text);
}

TEST(long_lines_are_cut_and_stay_valid)
{
    /* values that just fit, and values as long as a line */
    for (size_t length = 600; length < 4200; length = length == 760 ? 4080 : length + 1) {
        write_long(true, length);
        ck_assert_uint_eq(lines(), 3);
        for (char *at = got, *end; (end = strchr(at, '\n')); at = end + 1) {
            json_t *line = json_loadb(at, (size_t)(end - at), JSON_REJECT_DUPLICATES, NULL);

            ck_assert_msg(line != NULL, "%zu: %.*s", length, (int)(end - at), at);
            json_decref(line);
            ck_assert_uint_lt((size_t)(end - at), 4096);
        }
    }
    write_long(false, 5000);
    ck_assert_uint_eq(lines(), 3);
    ck_assert_ptr_nonnull(strstr(got, "\\u0001\" cut=true\n"));
    ck_assert_ptr_null(strstr(got, "after"));
}

/* The closing quote of such a value is in the reserved space, so nothing may follow it. */
TEST(a_value_that_fills_the_line_exactly_ends_it)
{
    enum { LENGTH = 4100 };
    char text[LENGTH + 1];

    memset(text, '~', LENGTH);
    text[LENGTH] = '\0';
    for (size_t length = 3900; length < LENGTH; length++) {
        open_pipe(false);
        log_line(BB_INFO, "m", "path", text + LENGTH - length, "status", "404", "client",
                 "2001:db8::1234:5678:9abc", NULL);
        close_and_read();
        ck_assert_uint_eq(lines(), 1);
        ck_assert_uint_le(strlen(got), 4096);
    }
}

TEST(long_unquoted_values_are_omitted)
{
    char text[4200];

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    open_pipe(false);
    log_line(BB_INFO, "m", "v", text, NULL);
    close_and_read();
    ck_assert_ptr_nonnull(strstr(got, "msg=\"m\" cut=true\n"));
}

TEST(a_blocked_pipe_does_not_block_the_caller)
{
    open_pipe(false);

    for (int i = 0; i < 20000; i++)
        log_line(BB_INFO, "a line of the usual length", "number", "123456", "path", "/api/x", NULL);
    ck_assert_uint_gt(log_dropped(), 1000);

    int64_t before = clock_mono_ms();

    log_close();
    ck_assert_int_ge(clock_mono_ms() - before, 500);
    log_line(BB_DEBUG, "goes nowhere", NULL);
    close(ends[0]); /* the writer fails; its end of the pipe stays open until the test's exit */
    usleep(300000);
}

static void *read_all(void *arg)
{
    drain(*(int *)arg);
    return NULL;
}

/* Returns how many lines report lost lines; adds the lost lines to *lost. */
static size_t reports(uint64_t *lost)
{
    static const char told[] = "level=warn msg=\"log lines dropped\" count=";
    size_t count = 0;

    for (const char *at = got; (at = strstr(at, told)); count++)
        *lost += strtoull(at += strlen(told), NULL, 10);
    return count;
}

/* The writer pauses after each line, so the second one would still be waiting. */
TEST(flushed_lines_are_written)
{
    open_pipe(false);
    for (int i = 0; i < 100; i++) {
        log_line(BB_INFO, "first", NULL);
        log_line(BB_INFO, "second", NULL);
        flush();
        ssize_t n = read(ends[0], got, sizeof(got) - 1);

        ck_assert_int_gt(n, 0);
        got[n] = '\0';
        ck_assert_uint_eq(lines(), 2);
    }
    close_and_read();
}

TEST(lost_lines_are_reported_when_writing_works_again)
{
    pthread_t reader;
    open_pipe(false);
    for (int i = 0; i < 20000; i++)
        log_line(BB_INFO, "line", "number", "123456", NULL);
    uint64_t dropped = log_dropped();

    ck_assert_uint_gt(dropped, 0);
    ck_assert_int_eq(pthread_create(&reader, NULL, read_all, &ends[0]), 0);
    log_flush();
    log_line(BB_INFO, "again", NULL);
    flush_and_close();
    close(ends[1]);
    pthread_join(reader, NULL);
    close(ends[0]);
    ck_assert_uint_eq(log_dropped(), dropped);
    ck_assert_ptr_nonnull(strstr(got, "msg=\"again\"\n"));
    uint64_t told = 0;

    ck_assert_uint_eq(lines(), 20000 - dropped + 1 + reports(&told));
    ck_assert_uint_eq(told, dropped);
}

TEST(lines_lost_on_a_full_disk_are_counted)
{
    int fd = open("/dev/full", O_WRONLY);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(log_open(NULL, fd, BB_INFO, false), 0);
    log_line(BB_INFO, "one", NULL);
    log_line(BB_INFO, "two", NULL);
    flush_and_close();
    ck_assert_uint_eq(log_dropped(), 2);
    close(fd);
}

static void *chatter(void *arg)
{
    for (int i = 0; i < 300; i++)
        log_line(BB_INFO, "chatter", "who", arg, NULL);
    return NULL;
}

TEST(lines_of_many_threads_do_not_mix)
{
    pthread_t threads[8];
    open_pipe(false);
    pthread_t reader;

    ck_assert_int_eq(pthread_create(&reader, NULL, read_all, &ends[0]), 0);
    for (int i = 0; i < 8; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, chatter, "somebody"), 0);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    flush_and_close();
    close(ends[1]);
    pthread_join(reader, NULL);
    close(ends[0]);
    uint64_t lost = 0;

    ck_assert_uint_eq(lines(), 2400 - log_dropped() + reports(&lost));
    ck_assert_uint_eq(lost, log_dropped());
    for (char *at = got, *end; (end = strchr(at, '\n')); at = end + 1)
        ck_assert_int_eq(strncmp(at, "ts=", 3), 0);
}

TEST(the_log_level_can_change)
{
    open_pipe(false);
    ck_assert(!log_wants(BB_DEBUG));
    log_level(BB_DEBUG, true);
    ck_assert(log_wants(BB_DEBUG));
    log_line(BB_DEBUG, "seen", NULL);
    log_level(BB_ERROR, true);
    ck_assert(!log_wants(BB_WARN));
    log_line(BB_WARN, "unseen", NULL);
    close_and_read();
    ck_assert_int_eq(got[0], '{');
    ck_assert_uint_eq(lines(), 1);
}

/* ---- files ---- */

enum { WRITERS = 4, WRITES = 2000, ROTATIONS = 20 };

static void *write_lines(void *arg)
{
    (void)arg;
    for (int i = 0; i < WRITES; i++) {
        log_line(BB_INFO, "one of many lines", NULL);
        if (i % 16 == 0)
            log_flush(); /* keeps the ring from filling up */
    }
    return NULL;
}

static size_t whole_lines_of(const char *path)
{
    FILE *file = fopen(path, "re");
    char line[256];
    size_t count = 0;

    ck_assert_ptr_nonnull(file);
    while (fgets(line, sizeof line, file)) {
        ck_assert_msg(!strncmp(line, "ts=", 3) && strstr(line, "msg=\"one of many lines\"\n"), "%s",
                      line);
        count++;
    }
    fclose(file);
    return count;
}

static void wait_for_file(const char *path)
{
    while (access(path, F_OK)) /* until the time limit of the test */
        usleep(1000);
}

TEST(a_rotation_loses_no_line)
{
    char directory[] = "/tmp/busbar-log-XXXXXX", path[64], old[128];
    pthread_t threads[WRITERS];
    size_t count = 0;

    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/log", directory);
    ck_assert_int_eq(log_open(path, -1, BB_INFO, false), 0);
    for (int i = 0; i < WRITERS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, write_lines, NULL), 0);
    for (int i = 0; i < ROTATIONS; i++) {
        snprintf(old, sizeof old, "%s/log.%d", directory, i);
        ck_assert_int_eq(rename(path, old), 0);
        log_reopen();
        wait_for_file(path);
    }
    for (int i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
    flush_and_close();
    ck_assert_uint_eq(log_dropped(), 0);
    for (int i = 0; i < ROTATIONS; i++) {
        snprintf(old, sizeof old, "%s/log.%d", directory, i);
        count += whole_lines_of(old);
        unlink(old);
    }
    count += whole_lines_of(path);
    ck_assert_uint_eq(count, WRITERS * WRITES);
    unlink(path);
    rmdir(directory);
}

TEST(a_log_that_cannot_be_reopened_stays_open)
{
    char directory[] = "/tmp/busbar-log-XXXXXX", path[128], moved[64];

    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/log", directory);
    snprintf(moved, sizeof moved, "%s.moved", directory);
    ck_assert_int_eq(log_open(path, -1, BB_INFO, false), 0);
    ck_assert_int_eq(rename(directory, moved), 0);
    log_reopen();
    log_close(); /* waits until the reopening is done */
    snprintf(path, sizeof path, "%s/log", moved);
    int fd = open(path, O_RDONLY);

    ck_assert_int_ge(fd, 0);
    drain(fd);
    close(fd);
    ck_assert_ptr_nonnull(strstr(got, "msg=\"cannot reopen the log\""));
    unlink(path);
    rmdir(moved);
    ck_assert_int_ne(log_open("/nonexistent/log", -1, BB_INFO, false), 0);
}

SUITE(log, .timeout_s = 60)
