#include "modules/bulk/csv/scan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "modules/bulk/csv/utf8.h"

enum { BUFFER = 65536 };

#define SAVE_AS                                                                                    \
    "save it as CSV UTF-8 (Excel: Save as, CSV UTF-8; LibreOffice: Save as, Text CSV, character "  \
    "set UTF-8)"

/* What begins so is no text, whatever its name says. */
static const struct {
    const char *begin;
    size_t length;
    const char *what;
} kinds[] = {
    {"PK\x03\x04", 4, "a workbook (.xlsx) or archive"},
    {"\xd0\xcf\x11\xe0", 4, "a workbook (.xls)"},
    {"\x89PNG", 4, "a picture (PNG)"},
    {"\xff\xd8\xff", 3, "a picture (JPEG)"},
    {"GIF8", 4, "a picture (GIF)"},
    {"%PDF", 4, "a PDF document"},
    {"\x1f\x8b", 2, "a compressed file (gzip)"},
    {"\xff\xfe", 2, "text in UTF-16"},
    {"\xfe\xff", 2, "text in UTF-16"},
};

struct pass {
    struct scan *scan;
    struct bulk_reader reader;
    struct utf8 utf8;
    size_t base; /* bytes before the reader's: the byte order mark */
    char buffer[BUFFER];
};

__attribute__((format(printf, 3, 4))) static int fail(struct scan *scan, int status,
                                                      const char *format, ...)
{
    va_list args;

    scan->status = status;
    va_start(args, format);
    vsnprintf(scan->why, sizeof(scan->why), format, args);
    va_end(args);
    return -1;
}

char scan_separator(const char *bytes, size_t length)
{
    size_t counts[3] = {0};
    static const char separators[] = ",;\t";
    bool quoted = false;
    size_t best = 0;

    for (size_t i = 0; i < length && (quoted || (bytes[i] != '\n' && bytes[i] != '\r')); i++) {
        const char *found = bytes[i] ? strchr(separators, bytes[i]) : NULL;

        quoted ^= bytes[i] == '"';
        if (found && !quoted)
            counts[found - separators]++;
    }
    for (size_t i = 1; i < 3; i++)
        if (counts[i] > counts[best])
            best = i;
    return separators[best];
}

static int take_header(struct scan *scan, const struct reader_row *row)
{
    scan->header = calloc(row->count, sizeof(*scan->header));
    if (!scan->header)
        return fail(scan, 503, "Out of memory");
    for (; scan->columns < row->count; scan->columns++) {
        scan->header[scan->columns] = strdup(row->cells[scan->columns]);
        if (!scan->header[scan->columns])
            return fail(scan, 503, "Out of memory");
    }
    return 0;
}

/* The part that the row belongs to; NULL: no memory. */
static struct scan_part *part_for(struct scan *scan, const struct reader_row *row)
{
    struct scan_part *last = scan->part_count ? &scan->parts[scan->part_count - 1] : NULL;

    if (last && last->rows < scan->part_rows && last->end - last->begin < SCAN_PART_BYTES)
        return last;
    if (!scan->parts || scan->part_count == scan->part_room) {
        size_t room = scan->part_room ? scan->part_room * 2 : 64;
        struct scan_part *parts = realloc(scan->parts, room * sizeof(*parts));

        if (!parts)
            return NULL;
        scan->parts = parts;
        scan->part_room = room;
    }
    last = &scan->parts[scan->part_count++];
    *last = (struct scan_part){.first = row->number};
    return last;
}

static int take(void *arg, const struct reader_row *row)
{
    struct pass *pass = arg;
    struct scan *scan = pass->scan;

    if (!scan->header) {
        pass->reader.number = 0; /* whatever blank lines came before it */
        return take_header(scan, row);
    }
    if (scan->rows == scan->rows_max)
        return fail(scan, 413, "The file has more than %zu rows: send it in parts", scan->rows_max);
    struct scan_part *part = part_for(scan, row);

    if (!part)
        return fail(scan, 503, "Out of memory");
    if (!part->rows)
        part->begin = pass->base + row->begin;
    part->end = pass->base + row->end;
    part->last = row->number;
    part->rows++;
    scan->rows++;
    return 0;
}

static int look_at_kind(struct scan *scan, const char *bytes, size_t length)
{
    if (!length)
        return fail(scan, 400, "The file is empty");
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (length >= kinds[i].length && !memcmp(bytes, kinds[i].begin, kinds[i].length))
            return fail(scan, 400, "The file is %s and not CSV: " SAVE_AS, kinds[i].what);
    return 0;
}

static int look_at_text(struct pass *pass, const char *bytes, size_t length)
{
    switch (utf8_feed(&pass->utf8, bytes, length)) {
    case UTF8_NUL:
        return fail(pass->scan, 400, "The file has NUL bytes, so it is no CSV in UTF-8: " SAVE_AS);
    case UTF8_WRONG:
        return fail(pass->scan, 400, "The file is not UTF-8, perhaps Windows-1252: " SAVE_AS);
    default:
        return 0;
    }
}

/* What the reader says, unless the scan has ended it. */
static int stopped(struct pass *pass)
{
    if (pass->scan->status)
        return -1;
    if (pass->reader.starved)
        return fail(pass->scan, 503, "Out of memory");
    return fail(pass->scan, 400, "The file is no CSV: %s", pass->reader.why);
}

static int feed(struct pass *pass, const char *bytes, size_t length)
{
    if (look_at_text(pass, bytes, length))
        return -1;
    return bulk_reader_feed(&pass->reader, bytes, length) == 0 ? 0 : stopped(pass);
}

static ssize_t fill(struct pass *pass, int fd)
{
    ssize_t got = read(fd, pass->buffer, sizeof(pass->buffer));

    if (got < 0)
        fail(pass->scan, 503, "The file cannot be read");
    return got;
}

/* The first piece says what it is. */
static int begin(struct pass *pass, int fd)
{
    struct scan *scan = pass->scan;
    ssize_t got = fill(pass, fd);

    if (got < 0 || look_at_kind(scan, pass->buffer, (size_t)got))
        return -1;
    size_t length = (size_t)got;

    pass->base = length >= 3 && !memcmp(pass->buffer, "\xef\xbb\xbf", 3) ? 3 : 0;
    scan->separator = scan_separator(pass->buffer + pass->base, length - pass->base);
    if (bulk_reader_begin(&pass->reader, scan->separator, 0, take, pass))
        return fail(scan, 503, "Out of memory");
    return feed(pass, pass->buffer + pass->base, length - pass->base);
}

static int finish(struct pass *pass)
{
    struct scan *scan = pass->scan;

    if (pass->utf8.left)
        return fail(scan, 400, "The file is not UTF-8: its last character is cut");
    if (bulk_reader_end(&pass->reader))
        return stopped(pass);
    if (!scan->header)
        return fail(scan, 400, "The file is empty");
    return scan->rows ? 0 : fail(scan, 400, "The file has a header line and no rows");
}

static void read_all(struct pass *pass, int fd)
{
    ssize_t got = 1;

    if (begin(pass, fd))
        return;
    while (got > 0) {
        got = fill(pass, fd);
        if (got < 0 || (got > 0 && feed(pass, pass->buffer, (size_t)got)))
            return;
    }
    finish(pass);
}

void scan_run(void *arg)
{
    struct scan *scan = arg;
    struct pass *pass = calloc(1, sizeof(*pass));
    int fd = pass ? open(scan->path, O_RDONLY | O_CLOEXEC) : -1;

    if (fd < 0) {
        fail(scan, 503, pass ? "The file cannot be read" : "Out of memory");
        free(pass);
        return;
    }
    pass->scan = scan;
    read_all(pass, fd);
    bulk_reader_free(&pass->reader);
    close(fd);
    free(pass);
}

void scan_free(struct scan *scan)
{
    for (size_t i = 0; i < scan->columns; i++)
        free(scan->header[i]);
    free(scan->header);
    free(scan->parts);
}

void scan_read(void *arg)
{
    struct scan_read *job = arg;
    int fd = open(job->path, O_RDONLY | O_CLOEXEC);
    size_t done = 0;
    ssize_t got = 1;

    while (fd >= 0 && got > 0 && done < job->length) {
        got = pread(fd, job->bytes + done, job->length - done, (off_t)(job->begin + done));
        done += got > 0 ? (size_t)got : 0;
    }
    job->failed = done < job->length;
    if (fd >= 0)
        close(fd);
}
