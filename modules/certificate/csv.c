#include "csv.h"

#include <stdlib.h>
#include <string.h>

static void put(struct csv *csv, const char *bytes, size_t length)
{
    if (csv->failed)
        return;
    if (csv->length + length > csv->room) {
        size_t room = (csv->room ? csv->room * 2 : 65536) + length;
        char *bigger = realloc(csv->bytes, room);

        csv->failed = !bigger;
        if (!bigger)
            return;
        csv->bytes = bigger;
        csv->room = room;
    }
    memcpy(csv->bytes + csv->length, bytes, length);
    csv->length += length;
}

static void begin_cell(struct csv *csv)
{
    if (csv->begun)
        put(csv, ",", 1);
    csv->begun = true;
}

void csv_plain(struct csv *csv, const char *text)
{
    begin_cell(csv);
    if (text)
        put(csv, text, strlen(text));
}

/* In quotes, with the one that is inside written twice. */
static void put_quoted(struct csv *csv, const char *before, const char *text)
{
    put(csv, "\"", 1);
    put(csv, before, strlen(before));
    while (*text) {
        size_t length = strcspn(text, "\"");

        put(csv, text, length);
        text += length;
        if (*text) {
            put(csv, "\"\"", 2);
            text++;
        }
    }
    put(csv, "\"", 1);
}

void csv_text(struct csv *csv, const char *text)
{
    begin_cell(csv);
    if (!text || !*text)
        return;
    if (strchr("=+-@\t\r", *text))
        put_quoted(csv, "'", text);
    else if (strpbrk(text, ",\"\r\n"))
        put_quoted(csv, "", text);
    else
        put(csv, text, strlen(text));
}

void csv_end_row(struct csv *csv)
{
    put(csv, "\r\n", 2);
    csv->begun = false;
}
