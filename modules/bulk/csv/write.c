#include "modules/bulk/csv/write.h"

#include <stdlib.h>
#include <string.h>

void write_bytes(struct written *written, const char *bytes, size_t length)
{
    if (written->failed)
        return;
    if (written->length + length > written->room) {
        size_t room = (written->room ? written->room * 2 : 65536) + length;
        char *bigger = realloc(written->bytes, room);

        written->failed = !bigger;
        if (!bigger)
            return;
        written->bytes = bigger;
        written->room = room;
    }
    if (length)
        memcpy(written->bytes + written->length, bytes, length);
    written->length += length;
}

static void begin_cell(struct written *written)
{
    if (written->begun)
        write_bytes(written, &written->separator, 1);
    written->begun = true;
}

static void put(struct written *written, const char *text, bool words)
{
    bool fresh = true;

    for (; *text; text++) {
        if (words && fresh && strchr("=+-@", *text))
            write_bytes(written, "'", 1);
        fresh = strchr(";,|\t\r\n", *text) || (fresh && strchr(" \"", *text));
        if (*text == '"')
            write_bytes(written, "\"", 1);
        write_bytes(written, text, 1);
    }
}

void write_cell(struct written *written, const char *text)
{
    begin_cell(written);
    if (!text)
        return;
    if (!strpbrk(text, ",;\t\"\r\n")) {
        write_bytes(written, text, strlen(text));
        return;
    }
    write_bytes(written, "\"", 1);
    put(written, text, false);
    write_bytes(written, "\"", 1);
}

void write_words(struct written *written, const char *text)
{
    begin_cell(written);
    write_bytes(written, "\"", 1);
    put(written, text, true);
    write_bytes(written, "\"", 1);
}

void write_end(struct written *written)
{
    write_bytes(written, "\r\n", 2);
    written->begun = false;
}

void write_free(struct written *written)
{
    free(written->bytes);
    written->bytes = NULL;
}
