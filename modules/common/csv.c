#include "modules/common/csv.h"

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

/* Bytes of a character that makes a formula of what it begins; 0: it does not. */
static size_t starts_formula(const char *at)
{
    static const char *const wide[] = {"\uff1d", "\uff0b", "\uff0d", "\uff20"};

    if (*at && strchr("=+-@", *at))
        return 1;
    for (size_t i = 0; i < sizeof(wide) / sizeof(wide[0]); i++)
        if (!strncmp(at, wide[i], strlen(wide[i])))
            return strlen(wide[i]);
    return 0;
}

static bool separates(char c)
{
    return c && strchr(";,|\t\r\n", c);
}

/* Puts it with an apostrophe in front of each formula, and each quote twice, unless `csv` is NULL.
 * Whether there is a formula. */
static bool defuse(struct csv *csv, const char *text)
{
    bool fresh = true, found = *text && strchr("\t\r\n", *text);

    if (found && csv)
        put(csv, "'", 1);
    for (size_t size; *text; text += size) {
        size_t formula = starts_formula(text);

        size = formula ? formula : 1;
        if (fresh && formula) {
            found = true;
            if (csv)
                put(csv, "'", 1);
        }
        fresh = separates(*text) || (fresh && !formula && strchr(" \"", *text));
        if (csv && *text == '"')
            put(csv, "\"", 1);
        if (csv)
            put(csv, text, size);
    }
    return found;
}

void csv_text(struct csv *csv, const char *text)
{
    begin_cell(csv);
    if (!text || !*text)
        return;
    if (!defuse(NULL, text) && !strpbrk(text, ",\"\r\n")) {
        put(csv, text, strlen(text));
        return;
    }
    put(csv, "\"", 1);
    defuse(csv, text);
    put(csv, "\"", 1);
}

void csv_end_row(struct csv *csv)
{
    put(csv, "\r\n", 2);
    csv->begun = false;
}
