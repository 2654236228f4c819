/*
 * A file of a bulk upload: the rows are the same for all sizes of pieces, the parts into which the
 * file is cut give the same rows as the whole, and written rows are read back unchanged.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz/fuzz.h"
#include "modules/bulk/reader.h"
#include "modules/bulk/scan.h"
#include "modules/common/csv.h"

enum { ROWS_MAX = 300, LARGE = 0x80, TIMES = 64 };

/* The rows read so far, as a hash of every cell and number. */
struct told {
    struct bulk_reader reader;
    uint64_t hash;
    size_t rows, end;
    int64_t last;
    bool headed; /* a header line was read or is not expected */
};

static void hear_row(struct told *told, const struct reader_row *row)
{
    hash_add(&told->hash, &row->number, sizeof(row->number));
    hash_add(&told->hash, &row->count, sizeof(row->count));
    for (size_t i = 0; i < row->count; i++)
        hash_add(&told->hash, row->cells[i], strlen(row->cells[i]) + 1);
}

/* The header line has the number 0, whatever came before it. */
static int take(void *arg, const struct reader_row *row)
{
    struct told *told = arg;

    must(row->begin >= told->end && row->end > row->begin && row->count > 0);
    must(row->count <= READER_COLUMNS_MAX && (!told->headed || row->number > told->last));
    told->end = row->end;
    if (!told->headed) {
        told->headed = true;
        told->last = told->reader.number = 0;
        return 0;
    }
    told->last = row->number;
    told->rows++;
    hear_row(told, row);
    return told->rows == ROWS_MAX ? 1 : 0;
}

/* Feeds pieces in separate memory blocks, so that reads beyond them are detected. Returns 0, or the
 * reader's status. */
static int feed(struct told *told, const char *bytes, size_t length, size_t piece)
{
    int status = 0;

    for (size_t at = 0; at < length && !status; at += piece) {
        size_t size = length - at < piece ? length - at : piece;
        char *copy = malloc(size);

        must(copy != NULL);
        memcpy(copy, bytes + at, size);
        status = bulk_reader_feed(&told->reader, copy, size);
        free(copy);
    }
    return status ? status : bulk_reader_end(&told->reader);
}

/* Reads whole rows. `first` is the number of the first row; 0: a header line comes before it. */
static int read_rows(struct told *told, char separator, int64_t first, const char *bytes,
                     size_t length, size_t piece)
{
    told->headed = first > 0;
    told->last = first - 1;
    told->end = 0;
    must(!bulk_reader_begin(&told->reader, separator, first, take, told));
    int status = feed(told, bytes, length, piece);

    must((status < 0) == (*told->reader.why != '\0'));
    bulk_reader_free(&told->reader);
    return status;
}

/* ---- a file, and its parts ---- */

static void scan_bytes(struct scan *scan, const char *bytes, size_t length)
{
    static char path[32];
    int fd = memfd_create("csv", MFD_CLOEXEC);

    must(fd >= 0 && write(fd, bytes, length) == (ssize_t)length);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    scan->path = path;
    scan_run(scan);
    close(fd);
}

static void read_parts(struct told *told, const struct scan *scan, const char *bytes, size_t length)
{
    size_t behind = 0;

    for (size_t i = 0; i < scan->part_count; i++) {
        const struct scan_part *part = &scan->parts[i];
        size_t before = told->rows;

        must(part->begin >= behind && part->end > part->begin && part->end <= length);
        must(part->rows > 0 && part->rows <= scan->part_rows);
        must(!read_rows(told, scan->separator, part->first, bytes + part->begin,
                        part->end - part->begin, length));
        must(told->rows - before == part->rows && told->last == part->last);
        behind = part->end;
    }
    must(told->rows == scan->rows);
}

static size_t mark_of(const char *bytes, size_t length)
{
    return length >= 3 && !memcmp(bytes, "\xef\xbb\xbf", 3) ? 3 : 0;
}

/* Returns whether the first line names the separator (sep=X). The scan uses and skips such a line;
 * the row reader does not know it. */
static bool names_separator(const char *bytes, size_t length)
{
    size_t quote = length && *bytes == '"';

    return length >= quote + 4 && !strncasecmp(bytes + quote, "sep=", 4);
}

static void look_through(const char *bytes, size_t length, unsigned how)
{
    static struct told parts, whole;
    struct scan scan = {.part_rows = how % 5 + 1, .rows_max = ROWS_MAX - 1};
    size_t mark = mark_of(bytes, length);

    scan_bytes(&scan, bytes, length);
    must(scan.status == 0 || ((scan.status == 400 || scan.status == 413) && *scan.why));
    must(scan.status || (json_array_size(scan.header) > 0 && scan.rows > 0));
    if (!scan.status) {
        whole = parts = (struct told){.hash = HASH};
        read_parts(&parts, &scan, bytes, length);
        if (!names_separator(bytes + mark, length - mark)) {
            must(!read_rows(&whole, scan.separator, 0, bytes + mark, length - mark, how % 61 + 1));
            must(whole.rows == parts.rows && whole.hash == parts.hash);
        }
    }
    scan_free(&scan);
}

/* ---- pieces ---- */

/* With any separator, the result is the same for the whole file and for pieces. */
static void read_twice(const char *bytes, size_t length, unsigned how)
{
    static struct told once, pieces;
    char separator = ",;\t"[how % 3];

    once = pieces = (struct told){.hash = HASH};
    int status = read_rows(&once, separator, 1, bytes, length, length);

    must(read_rows(&pieces, separator, 1, bytes, length, how % 67 + 1) == status);
    must(once.rows == pieces.rows && once.hash == pieces.hash && once.end == pieces.end);
}

/* ---- rows that are written ---- */

struct copy {
    struct told told;
    struct csv csv;
};

/* Removes the apostrophes that keep a spreadsheet from running a cell, and with them equal ones
 * that were there before. */
static void hear_taken_back(struct told *told, const char *cell)
{
    char *copy = strdup(cell);

    must(copy != NULL);
    csv_take_back(copy, copy);
    must(strlen(copy) <= strlen(cell));
    hash_add(&told->hash, copy, strlen(copy) + 1);
    free(copy);
}

static int write_row(void *arg, const struct reader_row *row)
{
    struct copy *copy = arg;

    for (size_t i = 0; i < row->count; i++)
        csv_text(&copy->csv, row->cells[i]);
    csv_end_row(&copy->csv);
    must(!copy->csv.failed);
    copy->told.rows++;
    copy->told.last = row->number;
    hash_add(&copy->told.hash, &row->count, sizeof(row->count));
    for (size_t i = 0; i < row->count; i++)
        hear_taken_back(&copy->told, row->cells[i]);
    return copy->told.rows == ROWS_MAX ? 1 : 0;
}

static int copy_rows(struct copy *copy, char separator, const char *bytes, size_t length)
{
    *copy = (struct copy){.told.hash = HASH, .csv.separator = separator};
    must(!bulk_reader_begin(&copy->told.reader, separator, 1, write_row, copy));
    int status = feed(&copy->told, bytes, length, length);

    bulk_reader_free(&copy->told.reader);
    return status;
}

static void write_and_read(const char *bytes, size_t length, unsigned how)
{
    static struct copy first, second;
    char separator = ",;\t"[how % 3];

    if (copy_rows(&first, separator, bytes, length) >= 0 && first.told.rows) {
        copy_rows(&second, separator, first.csv.bytes, first.csv.length);
        must(second.told.rows == first.told.rows && second.told.hash == first.told.hash);
        csv_drop(&second.csv);
    }
    csv_drop(&first.csv);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    size_t times = data[0] & LARGE ? TIMES : 1, length = (size - 1) * times;
    char *bytes = malloc(length);

    must(bytes != NULL);
    for (size_t i = 0; i < times; i++)
        memcpy(bytes + i * (size - 1), data + 1, size - 1);
    look_through(bytes, length, data[0]);
    if (!memchr(bytes, 0, length)) {
        read_twice(bytes, length, data[0]);
        write_and_read(bytes, length, data[0]);
    }
    free(bytes);
    return 0;
}
