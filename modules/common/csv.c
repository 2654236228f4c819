#include "modules/common/csv.h"

#include <stdlib.h>
#include <string.h>

void csv_bytes(struct csv *csv, const char *bytes, size_t length)
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
    if (length)
        memcpy(csv->bytes + csv->length, bytes, length);
    csv->length += length;
}

void csv_drop(void *arg)
{
    struct csv *csv = arg;

    free(csv->bytes);
    csv->bytes = NULL;
}

static void csv_begin_cell(struct csv *csv)
{
    if (csv->begun)
        csv_bytes(csv, csv->separator ? &csv->separator : ",", 1);
    csv->begun = true;
}

void csv_plain(struct csv *csv, const char *text)
{
    csv_begin_cell(csv);
    if (text)
        csv_bytes(csv, text, strlen(text));
}

/* Returns the length in bytes of the character if a formula starts with it, or 0. */
static size_t csv_formula(const char *at)
{
    static const char *const wide[] = {"\uff1d", "\uff0b", "\uff0d", "\uff20"};

    if (*at && strchr("=+-@", *at))
        return 1;
    if (*at != wide[0][0])
        return 0;
    for (size_t i = 0; i < sizeof(wide) / sizeof(wide[0]); i++)
        if (!strncmp(at, wide[i], strlen(wide[i])))
            return strlen(wide[i]);
    return 0;
}

static bool csv_is_separator(char c)
{
    return c && strchr(";,|\t\r\n", c);
}

/* Returns whether the text is a plain number, such as -33.9, which is not a formula. */
static bool csv_is_number(const char *text)
{
    static const char digits[] = "0123456789";
    size_t whole, part = 0;

    text += *text == '-' || *text == '+';
    whole = strspn(text, digits);
    text += whole;
    if (*text == '.' || *text == ',') {
        part = strspn(text + 1, digits);
        text += 1 + part;
    }
    return !*text && whole + part > 0;
}

/*
 * Appends the text with an apostrophe before each formula, and with each quote doubled. If `csv` is
 * NULL, appends nothing. Returns whether the text needs an apostrophe.
 */
static bool csv_defuse(struct csv *csv, const char *text)
{
    bool fresh = true, found = *text && strchr("\t\r\n", *text);

    if (found && csv)
        csv_bytes(csv, "'", 1);
    for (size_t size; *text; text += size) {
        size_t formula = csv_formula(text);

        size = formula ? formula : 1;
        if (fresh && formula) {
            found = true;
            if (csv)
                csv_bytes(csv, "'", 1);
        }
        fresh = csv_is_separator(*text) || (fresh && !formula && strchr(" \"", *text));
        if (csv && *text == '"')
            csv_bytes(csv, "\"", 1);
        if (csv)
            csv_bytes(csv, text, size);
    }
    return found;
}

void csv_text(struct csv *csv, const char *text)
{
    csv_begin_cell(csv);
    if (!text || !*text)
        return;
    bool number = csv_is_number(text);
    bool quoted = strpbrk(text, ",;|\t\"\r\n") ||
                  (csv->separator && strchr(text, csv->separator)) ||
                  (!number && csv_defuse(NULL, text));

    csv_bytes(csv, "\"", quoted);
    if (number)
        csv_bytes(csv, text, strlen(text));
    else
        csv_defuse(csv, text);
    csv_bytes(csv, "\"", quoted);
}

bool csv_take_back(char *out, const char *text)
{
    bool fresh = true, found = false, first = true;

    if (!out && !strchr(text, '\''))
        return false;
    for (size_t size; *text; text += size, first = false) {
        size_t formula = 0;

        if (fresh && *text == '\'' &&
            (csv_formula(text + 1) || (first && text[1] && strchr("\t\r\n", text[1])))) {
            found = true;
            text++;
        }
        formula = csv_formula(text);
        size = formula ? formula : 1;
        fresh = csv_is_separator(*text) || (fresh && !formula && strchr(" \"", *text));
        for (size_t i = 0; out && i < size; i++)
            *out++ = text[i];
    }
    if (out)
        *out = '\0';
    return found;
}

void csv_end_row(struct csv *csv)
{
    csv_bytes(csv, "\r\n", 2);
    csv->begun = false;
}
