#include "modules/bulk/csv/reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "modules/bulk/csv/blank.h"

enum { PIECE = 4096 }; /* bytes between two checks of the limits */

/*
 * The parser's state within a cell. libcsv's strict mode could also detect an unclosed quote, but
 * it would refuse a cell such as 5" too.
 */
enum { FIELD_BEGUN = 2 };

static int no_space(unsigned char byte)
{
    (void)byte;
    return 0;
}

static void refuse(struct bulk_reader *reader, const char *what)
{
    if (*reader->why)
        return;
    if (reader->number)
        snprintf(reader->why, sizeof(reader->why), "row %" PRId64 " %s", reader->number, what);
    else
        snprintf(reader->why, sizeof(reader->why), "the header line %s", what);
}

static void starve(struct bulk_reader *reader)
{
    snprintf(reader->why, sizeof(reader->why), "out of memory");
    reader->starved = true;
}

static int make_room(struct bulk_reader *reader, size_t more)
{
    size_t room = reader->room ? reader->room : PIECE;

    while (room < reader->length + more)
        room *= 2;
    if (room == reader->room)
        return 0;
    char *text = realloc(reader->text, room);

    if (!text)
        return -1;
    reader->text = text;
    reader->room = room;
    return 0;
}

static void take_cell(void *cell, size_t length, void *arg)
{
    struct bulk_reader *reader = arg;

    if (length > READER_CELL_MAX)
        refuse(reader, "has a cell of more than 32,768 bytes: is a quote not closed?");
    if (reader->count == READER_COLUMNS_MAX)
        refuse(reader, "has more than 1,000 cells");
    if (reader->length + length > READER_ROW_MAX)
        refuse(reader, "has more than 256 KiB: is a quote not closed?");
    if (*reader->why)
        return;
    if (make_room(reader, length + 1)) {
        starve(reader);
        return;
    }
    if (length)
        memcpy(reader->text + reader->length, cell, length);
    reader->text[reader->length + length] = '\0';
    reader->full = reader->full || !blank_is(reader->text + reader->length);
    reader->offsets[reader->count++] = reader->length;
    reader->length += length + 1;
}

static void take_row(int end, void *arg)
{
    struct bulk_reader *reader = arg;
    struct reader_row row = {reader->number, reader->begin, reader->fed, reader->count,
                             reader->cells};

    (void)end;
    for (size_t i = 0; i < reader->count; i++)
        reader->cells[i] = reader->text + reader->offsets[i];
    if (reader->full && !*reader->why && !reader->stopped)
        reader->stopped = reader->told(reader->arg, &row);
    reader->number++;
    reader->begin = reader->fed;
    reader->begun = reader->full = false;
    reader->count = reader->length = 0;
}

int bulk_reader_begin(struct bulk_reader *reader, char separator, int64_t number,
                      int (*told)(void *arg, const struct reader_row *row), void *arg)
{
    memset(reader, 0, sizeof(*reader));
    if (csv_init(&reader->parser, CSV_APPEND_NULL))
        return -1;
    csv_set_delim(&reader->parser, (unsigned char)separator);
    csv_set_space_func(&reader->parser, no_space);
    csv_set_blk_size(&reader->parser, PIECE);
    reader->number = number;
    reader->told = told;
    reader->arg = arg;
    return 0;
}

void bulk_reader_free(struct bulk_reader *reader)
{
    csv_free(&reader->parser);
    free(reader->text);
    reader->text = NULL;
}

/* Cuts a piece at the end of a line, so that a row ends where a piece ends. */
static size_t piece_of(const char *bytes, size_t length)
{
    size_t most = length < PIECE ? length : PIECE;

    for (size_t i = 0; i < most; i++)
        if (bytes[i] == '\n' || bytes[i] == '\r')
            return i + 1;
    return most;
}

/* Handles the end of a line in which no row has begun: a blank line, or the second half of CRLF. */
static void take_blank(struct bulk_reader *reader, char end)
{
    if (!(reader->after_cr && end == '\n'))
        reader->number++;
    reader->begin = reader->fed;
}

static int outcome(struct bulk_reader *reader)
{
    if (reader->parser.entry_pos > READER_CELL_MAX)
        refuse(reader, "has a cell of more than 32,768 bytes: is a quote not closed?");
    return *reader->why ? -1 : reader->stopped;
}

static int feed_piece(struct bulk_reader *reader, const char *bytes, size_t length)
{
    char last = bytes[length - 1];
    bool blank = length == 1 && (last == '\n' || last == '\r') && !reader->begun;

    reader->fed += length;
    reader->begun = !blank;
    if (csv_parse(&reader->parser, bytes, length, take_cell, take_row, reader) != length)
        starve(reader);
    if (blank)
        take_blank(reader, last);
    reader->after_cr = last == '\r';
    return outcome(reader);
}

int bulk_reader_feed(struct bulk_reader *reader, const char *bytes, size_t length)
{
    int status = 0;

    while (length && !status) {
        size_t piece = piece_of(bytes, length);

        status = feed_piece(reader, bytes, piece);
        bytes += piece;
        length -= piece;
    }
    return status;
}

int bulk_reader_end(struct bulk_reader *reader)
{
    if (reader->parser.quoted && reader->parser.pstate == FIELD_BEGUN)
        refuse(reader, "has a quote that is not closed");
    else if (csv_fini(&reader->parser, take_cell, take_row, reader))
        starve(reader);
    return outcome(reader);
}
