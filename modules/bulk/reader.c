#include "modules/bulk/reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#define PIECE 4096 /* maximum bytes between two checks of the limits */
#define BRAILLE_BLANK 0x2800
#define CELL_TOO_LONG "has a cell of more than 32,768 bytes: is a quote not closed?"

/* ---- invisible characters ---- */

enum kind { VISIBLE, SPACE, INVISIBLE };

/*
 * Returns the kind of the first character of `text`, which must not be empty, and sets *size to its
 * length. Bytes that are not UTF-8 count as visible characters.
 */
static enum kind reader_kind_at(const char *text, size_t *size)
{
    utf8proc_int32_t code;
    utf8proc_ssize_t length = utf8proc_iterate((const utf8proc_uint8_t *)text, -1, &code);

    *size = length > 0 ? (size_t)length : 1;
    if (length <= 0)
        return VISIBLE;
    if (utf8proc_get_property(code)->ignorable)
        return INVISIBLE;
    switch (utf8proc_category(code)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
        return SPACE;
    default:
        return code == BRAILLE_BLANK ? SPACE : VISIBLE;
    }
}

bool blank_is(const char *text)
{
    for (size_t size; *text; text += size) {
        bool plain = (unsigned char)*text > ' ' && (unsigned char)*text < 0x7f; /* fast path */

        if (plain || reader_kind_at(text, &size) == VISIBLE)
            return false;
    }
    return true;
}

void blank_strip(char *text)
{
    char *out = text, *end = text; /* end: position after the last visible character */
    size_t size;

    for (const char *at = text; *at; at += size) {
        enum kind kind = reader_kind_at(at, &size);

        if (kind == INVISIBLE || (kind == SPACE && out == text))
            continue;
        memmove(out, at, size);
        out += size;
        if (kind == VISIBLE)
            end = out;
    }
    *end = '\0';
}

size_t blank_cut(const char *text, size_t most)
{
    size_t length = strnlen(text, most + 1);

    if (length <= most)
        return length;
    for (length = most; length && ((unsigned char)text[length] & 0xc0) == 0x80;)
        length--;
    return length;
}

/* ---- rows ---- */

static int reader_no_space(unsigned char byte)
{
    (void)byte;
    return 0;
}

static void reader_refuse(struct bulk_reader *reader, const char *what)
{
    if (*reader->why)
        return;
    if (reader->number)
        snprintf(reader->why, sizeof(reader->why), "row %" PRId64 " %s", reader->number, what);
    else
        snprintf(reader->why, sizeof(reader->why), "the header line %s", what);
}

static void reader_cell(void *cell, size_t length, void *arg)
{
    struct bulk_reader *reader = arg;
    char *copy = reader->text + reader->length;

    if (length > READER_CELL_MAX)
        reader_refuse(reader, CELL_TOO_LONG);
    if (reader->count == READER_COLUMNS_MAX)
        reader_refuse(reader, "has more than 1,000 cells");
    if (reader->length + length > READER_ROW_MAX)
        reader_refuse(reader, "has more than 256 KiB: is a quote not closed?");
    if (*reader->why)
        return;
    if (length)
        memcpy(copy, cell, length);
    copy[length] = '\0';
    reader->full = reader->full || !blank_is(copy);
    reader->cells[reader->count++] = copy;
    reader->length += length + 1;
}

/* libcsv also calls this, without cells, for blank lines and for the LF after a CR. */
static void reader_line(int end, void *arg)
{
    struct bulk_reader *reader = arg;
    struct reader_row row = {reader->number, reader->begin, reader->fed, reader->count,
                             reader->cells};
    bool second_half = !reader->count && end == '\n' && reader->line_end == '\r';

    if (reader->full && !*reader->why && !reader->stopped)
        reader->stopped = reader->on_row(reader->arg, &row);
    if (!second_half)
        reader->number++;
    reader->line_end = end;
    reader->begin = reader->fed;
    reader->full = false;
    reader->count = reader->length = 0;
}

int bulk_reader_begin(struct bulk_reader *reader, char separator, int64_t number,
                      int (*on_row)(void *arg, const struct reader_row *row), void *arg)
{
    memset(reader, 0, sizeof(*reader));
    reader->text = malloc(READER_ROW_MAX + 1);
    if (csv_init(&reader->parser, CSV_REPALL_NL) || !reader->text) {
        bulk_reader_free(reader);
        return -1;
    }
    csv_set_delim(&reader->parser, (unsigned char)separator);
    csv_set_space_func(&reader->parser, reader_no_space);
    csv_set_blk_size(&reader->parser, PIECE);
    reader->number = number;
    reader->on_row = on_row;
    reader->arg = arg;
    return 0;
}

void bulk_reader_free(void *arg)
{
    struct bulk_reader *reader = arg;

    csv_free(&reader->parser);
    free(reader->text);
    reader->text = NULL;
}

static int reader_result(struct bulk_reader *reader, bool starved)
{
    if (reader->parser.entry_pos > READER_CELL_MAX)
        reader_refuse(reader, CELL_TOO_LONG);
    if (starved) {
        snprintf(reader->why, sizeof(reader->why), "out of memory");
        reader->starved = true;
    }
    return *reader->why ? -1 : reader->stopped;
}

int bulk_reader_feed(struct bulk_reader *reader, const char *bytes, size_t length)
{
    int status = 0;

    while (length && !status) {
        size_t piece = 0;

        /* A piece contains no more than one line, so `fed` is the row's end in reader_line(). */
        while (piece < length && piece < PIECE) {
            char c = bytes[piece++];

            if (c == '\n' || c == '\r')
                break;
        }
        reader->fed += piece;
        size_t parsed = csv_parse(&reader->parser, bytes, piece, reader_cell, reader_line, reader);

        status = reader_result(reader, parsed != piece);
        bytes += piece;
        length -= piece;
    }
    return status;
}

/* Strict mode reports a quote that is not closed. Set earlier, it would refuse a cell like 5". */
int bulk_reader_end(struct bulk_reader *reader)
{
    csv_set_opts(&reader->parser, CSV_STRICT | CSV_STRICT_FINI);
    int failed = csv_fini(&reader->parser, reader_cell, reader_line, reader);
    bool open = failed && csv_error(&reader->parser) == CSV_EPARSE;

    if (open)
        reader_refuse(reader, "has a quote that is not closed");
    return reader_result(reader, failed && !open);
}
