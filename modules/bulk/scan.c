#include "modules/bulk/scan.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>
#include <utf8proc.h>

enum {
    BUFFER = 65536,
    LOOK_ROWS = 50, /* rows that are searched for a header line */
    SHOWN = 5,      /* number of cells that an error message about the header line shows */
    SHOWN_BYTES = 40
};

static const char separators[] = SCAN_SEPARATORS;

#define SAVE_AS                                                                                    \
    "save it as CSV UTF-8 (Excel: Save as, CSV UTF-8; LibreOffice: Save as, Text CSV, character "  \
    "set UTF-8)"

/* Files that begin with these bytes are not text, whatever their names are. */
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

/* The first rows of a file, split with one separator. */
struct look {
    struct bulk_reader reader;
    const struct scan *scan;
    size_t rows;
    size_t found;    /* known columns in the first row that is not blank */
    int64_t line;    /* line number of that row, from 0 */
    char cells[400]; /* the first cells of that row */
    size_t best;     /* the most known columns in a later row */
    int64_t best_line;
};

struct pass {
    struct scan *scan;
    struct look look;
    struct bulk_reader reader;
    size_t base;  /* length of a byte order mark and a line sep=X, which the reader does not get */
    size_t lines; /* number of such lines sep=X: 0 or 1 */
    bool whole;   /* the end of the file was read */
    char buffer[BUFFER];
};

__attribute__((format(printf, 3, 4))) static int scan_fail(struct scan *scan, int status,
                                                           const char *format, ...)
{
    va_list args;

    scan->status = status;
    va_start(args, format);
    vsnprintf(scan->why, sizeof(scan->why), format, args);
    va_end(args);
    return -1;
}

static int scan_starved(struct scan *scan)
{
    return scan_fail(scan, 503, "Out of memory");
}

/* ---- the header line ---- */

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

void scan_unguard(char *text)
{
    size_t length = strlen(text);

    if (length < 3 || text[0] != '=' || text[1] != '"' || text[length - 1] != '"' ||
        memchr(text + 2, '"', length - 3))
        return;
    memmove(text, text + 2, length - 3);
    text[length - 3] = '\0';
}

static int scan_look(void *arg, const struct reader_row *row)
{
    struct look *look = arg;
    size_t known = 0, used = 0, shown = 0;

    for (size_t i = 0; i < row->count; i++) {
        const char *cell = row->cells[i];
        size_t length = strlen(cell);
        char name[256];

        if (!look->rows && shown < SHOWN && !blank_is(cell))
            used += (size_t)snprintf(look->cells + used, sizeof(look->cells) - used, "%s%.*s",
                                     shown++ ? ", " : "", (int)blank_cut(cell, SHOWN_BYTES), cell);
        if (length >= sizeof(name))
            continue;
        memcpy(name, cell, length + 1);
        scan_unguard(name);
        blank_strip(name);
        known += look->scan->is_column(look->scan->type, name);
    }
    if (!look->rows) {
        look->found = known;
        look->line = row->number;
    } else if (known > look->best) {
        look->best = known;
        look->best_line = row->number;
    }
    return ++look->rows == LOOK_ROWS || look->found;
}

/*
 * Tries all separators. Chooses the one that splits the header line into the most known columns; on
 * a tie, the most frequent one. If the file begins with sep=X, tries only X (`said`). Returns 0, or
 * -1 if no separator yields a known column or memory runs out.
 */
static int scan_find_separator(struct pass *pass, char said, const char *bytes, size_t length)
{
    struct scan *scan = pass->scan;
    struct look *look = &pass->look;
    char frequent = said ? said : scan_separator(bytes, length);
    char advice[160] = "Rename its columns, or put a header line before it";
    size_t most = 0, best = 0;
    int64_t better = 0;

    scan->separator = frequent;
    /* Tries the most frequent separator last, because error messages show cells of the last try. */
    for (size_t i = 0; i < sizeof(separators) && scan->is_column; i++) {
        char separator = i < sizeof(separators) - 1 ? separators[i] : frequent;

        if (said && separator != said)
            continue;
        *look = (struct look){.scan = scan};
        if (bulk_reader_begin(&look->reader, separator, 0, scan_look, look))
            return scan_starved(scan);
        if (!bulk_reader_feed(&look->reader, bytes, length) && pass->whole)
            bulk_reader_end(&look->reader);
        bulk_reader_free(&look->reader);
        if (look->reader.starved)
            return scan_starved(scan);
        if (look->found > most || (look->found && look->found == most && separator == frequent)) {
            most = look->found;
            scan->separator = separator;
        }
        if (look->best > best) {
            best = look->best;
            better = look->best_line;
        }
    }
    if (most || !look->rows)
        return 0;
    if (better)
        snprintf(advice, sizeof(advice),
                 "Line %lld looks like the header: delete the lines before it",
                 (long long)better + (long long)pass->lines + 1);
    return scan_fail(scan, 400,
                     "Line %lld must be the header line, and has no known column (it has: %s). "
                     "%s. The columns are %s; template.csv is an example",
                     (long long)look->line + (long long)pass->lines + 1, look->cells, advice,
                     scan->names);
}

/* Returns the length of a line sep=X or "sep=X", with its line end; 0: it is another line. */
static size_t scan_separator_line(const char *bytes, size_t length, char *separator)
{
    size_t at = length && bytes[0] == '"';
    bool quoted = at > 0;

    if (length < at + 5 || strncasecmp(bytes + at, "sep=", 4) != 0)
        return 0;
    char named = bytes[at + 4];

    at += 5;
    if (named == '"' || !((named > ' ' && named < 0x7f) || named == '\t'))
        return 0;
    if (quoted && (at == length || bytes[at++] != '"'))
        return 0;
    if (at < length && bytes[at] != '\r' && bytes[at] != '\n')
        return 0;
    *separator = named;
    if (at + 1 < length && bytes[at] == '\r' && bytes[at + 1] == '\n')
        at++;
    return at < length ? at + 1 : at;
}

static int scan_header(struct scan *scan, const struct reader_row *row)
{
    if (row->end - row->begin > SCAN_HEADER_BYTES)
        return scan_fail(
            scan, 400,
            "The header line has more than 16 KiB: remove the columns that are not needed");
    scan->header = json_array();
    for (size_t i = 0; i < row->count; i++) {
        char *name = strdup(row->cells[i]);

        if (!name)
            return scan_starved(scan);
        scan_unguard(name);
        blank_strip(name);
        if (!*name && !scan->unnamed)
            scan->unnamed = calloc(row->count, sizeof(*scan->unnamed));
        bool lost = (!*name && !scan->unnamed) ||
                    json_array_append_new(scan->header, json_string(name)) != 0;

        free(name);
        if (lost)
            return scan_starved(scan);
    }
    return 0;
}

/* ---- rows ---- */

static int scan_row(void *arg, const struct reader_row *row)
{
    struct pass *pass = arg;
    struct scan *scan = pass->scan;
    size_t columns = json_array_size(scan->header);

    if (!scan->header) {
        pass->reader.number = 0; /* the next row gets the number 1 */
        return scan_header(scan, row);
    }
    if (scan->rows == scan->rows_max)
        return scan_fail(scan, 413, "The file has more than %zu rows: send it in parts",
                         scan->rows_max);
    struct scan_part *part = scan->part_count ? &scan->parts[scan->part_count - 1] : NULL;

    if (!part || part->rows == scan->part_rows || part->end - part->begin >= SCAN_PART_BYTES) {
        part = realloc(scan->parts, (scan->part_count + 1) * sizeof(*part));
        if (!part)
            return scan_starved(scan);
        scan->parts = part;
        part += scan->part_count++;
        *part = (struct scan_part){.begin = pass->base + row->begin, .first = row->number};
    }
    for (size_t i = 0; scan->unnamed && i < columns && i < row->count; i++)
        if (!json_string_length(json_array_get(scan->header, i)) && !scan->unnamed[i] &&
            !blank_is(row->cells[i]))
            scan->unnamed[i] = row->number;
    part->end = pass->base + row->end;
    part->last = row->number;
    part->rows++;
    scan->rows++;
    return 0;
}

/*
 * Returns the length of the UTF-8 text, without the last character if it continues after the end of
 * the buffer. Reports an error and returns -1 if the text is not UTF-8 or has NUL bytes.
 */
static ssize_t scan_text_length(struct pass *pass, const char *bytes, size_t length)
{
    const utf8proc_uint8_t *text = (const utf8proc_uint8_t *)bytes;
    utf8proc_int32_t code;
    utf8proc_ssize_t size = 1;
    size_t at = 0, more = 1;

    if (memchr(bytes, 0, length))
        return scan_fail(pass->scan, 400,
                         "The file has NUL bytes, so it is not CSV in UTF-8: " SAVE_AS);
    for (; at < length && size > 0; at += size > 0 ? (size_t)size : 0)
        size = text[at] < 0x80 ? 1 : utf8proc_iterate(text + at, (ssize_t)(length - at), &code);
    if (size > 0)
        return (ssize_t)length;
    while (at + more < length && (text[at + more] & 0xc0) == 0x80)
        more++;
    bool cut = at + more == length && more < 4 && text[at] >= 0xc2 && text[at] <= 0xf4;

    if (cut && !pass->whole)
        return (ssize_t)at;
    return scan_fail(pass->scan, 400, "%s",
                     cut ? "The file is not UTF-8: its last character is cut"
                         : "The file is not UTF-8, perhaps Windows-1252: " SAVE_AS);
}

/* Reports the reader's error, unless the scan itself stopped the reader. */
static int scan_stopped(struct pass *pass)
{
    if (pass->scan->status)
        return -1;
    if (pass->reader.starved)
        return scan_starved(pass->scan);
    return scan_fail(pass->scan, 400, "The file is not CSV: %s", pass->reader.why);
}

/* Refuses the file types in `kinds`. Finds the separator and reads all rows. Returns 0 or -1. */
static int scan_file(struct pass *pass, int fd)
{
    struct scan *scan = pass->scan;
    const char *bytes = pass->buffer;
    size_t length = 0; /* bytes to parse; the first may be left over from the previous read */
    char said = '\0';

    for (bool first = true; !pass->whole; first = false, bytes = pass->buffer) {
        ssize_t got = 1;

        while (got > 0 && length < BUFFER) {
            got = read(fd, pass->buffer + length, BUFFER - length);
            length += got > 0 ? (size_t)got : 0;
        }
        if (got < 0)
            return scan_fail(scan, 503, "The file cannot be read");
        pass->whole = !got;
        for (size_t i = 0; first && i < sizeof(kinds) / sizeof(kinds[0]); i++)
            if (length >= kinds[i].length && !memcmp(bytes, kinds[i].begin, kinds[i].length))
                return scan_fail(scan, 400, "The file is %s and not CSV: " SAVE_AS, kinds[i].what);
        if (first) {
            pass->base = length >= 3 && !memcmp(bytes, "\xef\xbb\xbf", 3) ? 3 : 0;
            size_t line = scan_separator_line(bytes + pass->base, length - pass->base, &said);

            pass->base += line;
            pass->lines = line > 0;
            bytes += pass->base;
            length -= pass->base;
        }
        ssize_t text = scan_text_length(pass, bytes, length);

        if (text < 0 || (first && scan_find_separator(pass, said, bytes, (size_t)text)))
            return -1;
        if (first && bulk_reader_begin(&pass->reader, scan->separator, 0, scan_row, pass))
            return scan_starved(scan);
        if (bulk_reader_feed(&pass->reader, bytes, (size_t)text))
            return scan_stopped(pass);
        length -= (size_t)text;
        memmove(pass->buffer, bytes + text, length);
    }
    if (bulk_reader_end(&pass->reader))
        return scan_stopped(pass);
    if (!scan->header)
        return scan_fail(scan, 400, "The file is empty");
    return scan->rows ? 0 : scan_fail(scan, 400, "The file has a header line and no rows");
}

void scan_run(void *arg)
{
    struct scan *scan = arg;
    struct pass *pass = calloc(1, sizeof(*pass));
    int fd = pass ? open(scan->path, O_RDONLY | O_CLOEXEC) : -1;

    if (fd < 0) {
        scan_fail(scan, 503, pass ? "The file cannot be read" : "Out of memory");
    } else {
        pass->scan = scan;
        scan_file(pass, fd);
        bulk_reader_free(&pass->reader);
        close(fd);
    }
    free(pass);
}

void scan_free(struct scan *scan)
{
    json_decref(scan->header);
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

/* ---- rows that contradict each other ---- */

static int scan_by_name(const void *left, const void *right)
{
    const struct scan_claim *a = left, *b = right;
    int order = memcmp(a->name, b->name, sizeof(a->name));

    if (order)
        return order;
    if (a->from != b->from)
        return a->from < b->from ? -1 : 1;
    return a->number - b->number;
}

static int scan_by_number(const void *left, const void *right)
{
    return ((const struct scan_claim *)left)->number - ((const struct scan_claim *)right)->number;
}

/*
 * If two claims overlap, the one with the higher row number is refused: `against` becomes the other
 * row's number. The next claims are compared with the claim that is not refused.
 */
void scan_contradictions(void *arg)
{
    struct scan_claims *claims = arg;
    struct scan_claim *holder = NULL;
    size_t count = claims->count;

    claims->count = 0;
    if (!count)
        return;
    qsort(claims->list, count, sizeof(*claims->list), scan_by_name);
    for (size_t i = 0; i < count; i++) {
        struct scan_claim *claim = &claims->list[i];

        if (!holder || memcmp(holder->name, claim->name, sizeof(claim->name)) != 0 ||
            claim->from >= holder->until) {
            holder = claim;
        } else if (claim->number > holder->number) {
            claim->against = holder->number;
        } else {
            holder->against = claim->number;
            holder = claim;
        }
    }
    for (size_t i = 0; i < count; i++)
        if (claims->list[i].against)
            claims->list[claims->count++] = claims->list[i];
    qsort(claims->list, claims->count, sizeof(*claims->list), scan_by_number);
}
