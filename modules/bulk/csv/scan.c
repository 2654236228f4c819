#include "modules/bulk/csv/scan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "modules/bulk/csv/blank.h"
#include "modules/bulk/csv/utf8.h"

enum {
    BUFFER = 65536,
    LOOK_ROWS = 50, /* rows in which a header line is searched */
    SHOWN = 5,      /* first cells shown if a line is not a header */
    SHOWN_BYTES = 40
};

static const char separators[] = ",;\t|";

#define SAVE_AS                                                                                    \
    "save it as CSV UTF-8 (Excel: Save as, CSV UTF-8; LibreOffice: Save as, Text CSV, character "  \
    "set UTF-8)"

/* Files that begin like this are not text, whatever their name says. */
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
    size_t base;  /* bytes before the reader's first: a byte order mark, and a line sep=X */
    size_t lines; /* lines in `base` */
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
    size_t counts[sizeof(separators) - 1] = {0};
    bool quoted = false;
    size_t best = 0;

    for (size_t i = 0; i < length && (quoted || (bytes[i] != '\n' && bytes[i] != '\r')); i++) {
        const char *found = bytes[i] ? strchr(separators, bytes[i]) : NULL;

        quoted ^= bytes[i] == '"';
        if (found && !quoted)
            counts[found - separators]++;
    }
    for (size_t i = 1; i < sizeof(separators) - 1; i++)
        if (counts[i] > counts[best])
            best = i;
    return separators[best];
}

/* ---- the header line ---- */

/* The first lines of a file, split with one separator. */
struct look {
    struct bulk_reader reader;
    const struct scan_columns *known;
    size_t rows;
    size_t found;    /* known columns of the first line that is not blank, */
    int64_t line;    /* its number */
    char cells[400]; /* and its first cells */
    size_t best;     /* the most known columns that a later line has */
    int64_t best_line;
};

/* A spreadsheet guards a long number as ="5414". */
void scan_unguard(char *text)
{
    size_t length = strlen(text);

    if (length < 3 || text[0] != '=' || text[1] != '"' || text[length - 1] != '"' ||
        memchr(text + 2, '"', length - 3))
        return;
    memmove(text, text + 2, length - 3);
    text[length - 3] = '\0';
}

static size_t known_in(const struct scan_columns *known, const struct reader_row *row)
{
    size_t count = 0;

    for (size_t i = 0; i < row->count; i++) {
        char name[256];
        size_t length = strlen(row->cells[i]);

        if (length >= sizeof(name))
            continue;
        memcpy(name, row->cells[i], length + 1);
        scan_unguard(name);
        blank_strip(name);
        count += known->is_column(known->arg, name);
    }
    return count;
}

static void show_cells(struct look *look, const struct reader_row *row)
{
    size_t at = 0, shown = 0;

    for (size_t i = 0; i < row->count && shown < SHOWN; i++) {
        if (blank_is(row->cells[i]))
            continue;
        at += (size_t)snprintf(look->cells + at, sizeof(look->cells) - at, "%s%.*s",
                               shown ? ", " : "", (int)blank_cut(row->cells[i], SHOWN_BYTES),
                               row->cells[i]);
        shown++;
    }
}

static int look_at_row(void *arg, const struct reader_row *row)
{
    struct look *look = arg;
    size_t known = known_in(look->known, row);

    if (!look->rows) {
        look->found = known;
        look->line = row->number;
        show_cells(look, row);
    } else if (known > look->best) {
        look->best = known;
        look->best_line = row->number;
    }
    return ++look->rows == LOOK_ROWS || look->found;
}

/*
 * Reads the first lines with a separator; stops at a line that cannot be parsed. Returns -1 if out
 * of memory.
 */
static int look_with(struct look *look, const struct scan_columns *known, char separator,
                     const char *bytes, size_t length)
{
    memset(look, 0, sizeof(*look));
    look->known = known;
    if (bulk_reader_begin(&look->reader, separator, 0, look_at_row, look))
        return -1;
    if (!bulk_reader_feed(&look->reader, bytes, length) && length < BUFFER - 1024)
        bulk_reader_end(&look->reader);
    bool starved = look->reader.starved;

    bulk_reader_free(&look->reader);
    return starved ? -1 : 0;
}

static int refuse_header(struct pass *pass, const struct look *look, int64_t better)
{
    char advice[160] = "Rename its columns, or put a header line before it";

    if (better)
        snprintf(advice, sizeof(advice),
                 "Line %lld looks like the header: delete the lines before it",
                 (long long)better + (long long)pass->lines + 1);
    return fail(pass->scan, 400,
                "Line %lld must be the header line, and has no known column (it has: %s). "
                "%s. The columns are %s; template.csv is an example",
                (long long)look->line + (long long)pass->lines + 1, look->cells, advice,
                pass->scan->known->names);
}

/*
 * Finds the separator that yields the most known columns; among equals, the most frequent one. A
 * first line sep=X sets it. Returns -1 if no separator yields a known column, or if out of memory.
 */
static int find_separator(struct pass *pass, char said, const char *bytes, size_t length)
{
    struct scan *scan = pass->scan;
    char frequent = said ? said : scan_separator(bytes, length);
    struct look *look = scan->known ? malloc(sizeof(*look)) : NULL;
    size_t most = 0, best = 0;
    int64_t better = 0;

    scan->separator = frequent;
    if (!scan->known)
        return 0;
    if (!look)
        return fail(scan, 503, "Out of memory");
    /* The most frequent one comes last, so that it splits the cells in the error message. */
    for (size_t i = 0; i < sizeof(separators); i++) {
        char separator = i < sizeof(separators) - 1 ? separators[i] : frequent;

        if (said && separator != said)
            continue;
        if (look_with(look, scan->known, separator, bytes, length)) {
            free(look);
            return fail(scan, 503, "Out of memory");
        }
        if (look->found > most || (look->found && look->found == most && separator == frequent)) {
            most = look->found;
            scan->separator = separator;
        }
        if (look->best > best) {
            best = look->best;
            better = look->best_line;
        }
    }
    int status = most || !look->rows ? 0 : refuse_header(pass, look, better);

    free(look);
    return status;
}

/* Returns the length of a first line sep=X, quoted or not, including its end; 0: there is none. */
static size_t separator_line(const char *bytes, size_t length, char *separator)
{
    size_t at = length && bytes[0] == '"';
    bool quoted = at > 0;

    if (length < at + 5 || strncasecmp(bytes + at, "sep=", 4) != 0)
        return 0;
    *separator = bytes[at + 4];
    at += 5;
    if (*separator == '"' || !((*separator > ' ' && *separator < 0x7f) || *separator == '\t'))
        return 0;
    if (quoted && (at == length || bytes[at++] != '"'))
        return 0;
    if (at < length && bytes[at] != '\r' && bytes[at] != '\n')
        return 0;
    if (at + 1 < length && bytes[at] == '\r' && bytes[at + 1] == '\n')
        at++;
    return at < length ? at + 1 : at;
}

static int take_header(struct scan *scan, const struct reader_row *row)
{
    if (row->end - row->begin > SCAN_HEADER_BYTES)
        return fail(scan, 400,
                    "The header line has more than 16 KiB: remove the columns that are not needed");
    scan->header = calloc(row->count, sizeof(*scan->header));
    scan->unnamed = calloc(row->count, sizeof(*scan->unnamed));
    if (!scan->header || !scan->unnamed)
        return fail(scan, 503, "Out of memory");
    for (; scan->columns < row->count; scan->columns++) {
        char *name = strdup(row->cells[scan->columns]);

        if (!name)
            return fail(scan, 503, "Out of memory");
        scan_unguard(name);
        blank_strip(name);
        scan->some_unnamed = scan->some_unnamed || !*name;
        scan->header[scan->columns] = name;
    }
    return 0;
}

/* ---- rows ---- */

/* Returns the part for the next row; NULL: out of memory. */
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
        pass->reader.number = 0; /* ignore blank lines before the header */
        return take_header(scan, row);
    }
    if (scan->rows == scan->rows_max)
        return fail(scan, 413, "The file has more than %zu rows: send it in parts", scan->rows_max);
    struct scan_part *part = part_for(scan, row);

    if (!part)
        return fail(scan, 503, "Out of memory");
    for (size_t i = 0; scan->some_unnamed && i < scan->columns && i < row->count; i++)
        if (!*scan->header[i] && !scan->unnamed[i] && !blank_is(row->cells[i]))
            scan->unnamed[i] = row->number;
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
        return fail(pass->scan, 400, "The file has NUL bytes, so it is not CSV in UTF-8: " SAVE_AS);
    case UTF8_WRONG:
        return fail(pass->scan, 400, "The file is not UTF-8, perhaps Windows-1252: " SAVE_AS);
    default:
        return 0;
    }
}

/* Reports the reader's error, unless the scan itself stopped it. */
static int stopped(struct pass *pass)
{
    if (pass->scan->status)
        return -1;
    if (pass->reader.starved)
        return fail(pass->scan, 503, "Out of memory");
    return fail(pass->scan, 400, "The file is not CSV: %s", pass->reader.why);
}

static int feed(struct pass *pass, const char *bytes, size_t length)
{
    if (look_at_text(pass, bytes, length))
        return -1;
    return bulk_reader_feed(&pass->reader, bytes, length) == 0 ? 0 : stopped(pass);
}

static ssize_t fill(struct pass *pass, int fd)
{
    size_t length = 0;
    ssize_t got = 1;

    while (got > 0 && length < BUFFER) {
        got = read(fd, pass->buffer + length, BUFFER - length);
        length += got > 0 ? (size_t)got : 0;
    }
    if (got < 0)
        fail(pass->scan, 503, "The file cannot be read");
    return got < 0 ? got : (ssize_t)length;
}

/* Reads the first piece, which shows the kind of the file. */
static int begin(struct pass *pass, int fd)
{
    struct scan *scan = pass->scan;
    ssize_t got = fill(pass, fd);
    char said = '\0';

    if (got < 0 || look_at_kind(scan, pass->buffer, (size_t)got))
        return -1;
    size_t length = (size_t)got;

    pass->base = length >= 3 && !memcmp(pass->buffer, "\xef\xbb\xbf", 3) ? 3 : 0;
    size_t line = separator_line(pass->buffer + pass->base, length - pass->base, &said);

    pass->base += line;
    pass->lines = line > 0;
    if (!line)
        said = '\0';
    const char *bytes = pass->buffer + pass->base;

    length -= pass->base;
    if (look_at_text(pass, bytes, length) || find_separator(pass, said, bytes, length))
        return -1;
    pass->utf8 = (struct utf8){0}; /* feed() checks from the beginning */
    if (bulk_reader_begin(&pass->reader, scan->separator, 0, take, pass))
        return fail(scan, 503, "Out of memory");
    return length ? feed(pass, bytes, length) : 0;
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
    ssize_t got = begin(pass, fd) ? -1 : 1;

    while (got > 0) {
        got = fill(pass, fd);
        if (got > 0 && feed(pass, pass->buffer, (size_t)got))
            got = -1;
    }
    if (!got)
        finish(pass);
    bulk_reader_free(&pass->reader);
    close(fd);
    free(pass);
}

void scan_free(struct scan *scan)
{
    for (size_t i = 0; i < scan->columns; i++)
        free(scan->header[i]);
    free(scan->header);
    free(scan->unnamed);
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
