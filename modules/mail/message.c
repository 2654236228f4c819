#include "modules/mail/message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LINE_MAX_COLUMNS = 75, /* of quoted-printable text, without the = of a soft line break */
    WORD_MAX_COLUMNS = 60, /* of an encoded word; its line also has the name of the header */
    SUBJECT_MAX = 300      /* bytes */
};

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
#define PLAIN_NAME LETTERS " -"                    /* a name with only these needs no quotes */
#define PLAIN_SUBJECT PLAIN_NAME ".,:;!?'/()_@+#&" /* without =, which begins an encoded word */

/* Returns the text for the language named by the first `length` bytes of `tag`, or NULL. */
static const struct bb_mail_text *message_in(const struct bb_table *texts, const char *tag,
                                             size_t length)
{
    for (size_t i = 0; i < texts->count; i++) {
        const struct bb_mail_text *text = BB_ROW(bb_mail_text, *texts, i);

        if (strlen(text->language) == length && strncmp(text->language, tag, length) == 0)
            return text;
    }
    return NULL;
}

const struct bb_mail_text *mail_text_for(const struct bb_table *texts, const char *wanted,
                                         const char *fallback)
{
    const struct bb_mail_text *text = NULL;

    for (const char *at = wanted; at && *at && !text; at += strcspn(at, ",")) {
        at += strspn(at, ", ");
        text = message_in(texts, at, strcspn(at, "-_;, "));
    }
    if (!text)
        text = message_in(texts, fallback, strlen(fallback));
    return text || !texts->count ? text : BB_ROW(bb_mail_text, *texts, 0);
}

/* Replaces each "{name}" of a text by its value. The caller frees the result; NULL: no memory. */
static char *message_fill(const struct mail_draft *draft, const char *text)
{
    char *filled = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&filled, &size);

    while (out && *text) {
        const char *value = NULL; /* of "{name}" */
        size_t length = strcspn(text, "}");

        if (*text == '{' && text[length]) {
            if (length == sizeof("{service") - 1 && !strncmp(text, "{service", length))
                value = draft->from_name;
            for (size_t i = draft->values.count; i-- > 0;) {
                const struct bb_mail_value *row = BB_ROW(bb_mail_value, draft->values, i);

                if (strlen(row->name) == length - 1 && !strncmp(row->name, text + 1, length - 1))
                    value = row->value ? row->value : "";
            }
        }
        if (!value) {
            putc(*text++, out);
            continue;
        }
        for (; *value; value++)
            putc((unsigned char)*value < ' ' || *value == 0x7f ? ' ' : *value, out);
        text += length + 1;
    }
    bool failed = !out || ferror(out);

    if (out && !fclose(out) && !failed)
        return filled;
    free(filled);
    return NULL;
}

/* Writes a header's text, encoded (RFC 2047) if it is long or has characters not in `plain`. */
static void message_header(FILE *out, const char *text, const char *plain)
{
    if (strlen(text) <= WORD_MAX_COLUMNS && strspn(text, plain) == strlen(text)) {
        fputs(text, out);
        return;
    }
    for (const char *end = text + strnlen(text, SUBJECT_MAX); text < end;) {
        fputs("=?UTF-8?Q?", out);
        for (size_t column = 12; text < end && column < WORD_MAX_COLUMNS;) {
            do { /* a character is not divided between two words */
                bool raw = strchr(LETTERS, *text) != NULL;

                fprintf(out, raw ? "%c" : "=%02X", (unsigned char)*text++);
                column += raw ? 1 : 3;
            } while ((*text & 0xc0) == 0x80);
        }
        fputs(text < end ? "?=\r\n " : "?=", out);
    }
}

char *mail_message(const struct mail_draft *draft, size_t *length)
{
    char *subject = message_fill(draft, draft->text->subject);
    char *body = message_fill(draft, draft->text->body), *message = NULL, date[64];
    FILE *out = subject && body ? open_memstream(&message, length) : NULL;
    const char *domain = strrchr(draft->from, '@');
    bool failed = !out;
    struct tm at;

    if (out) {
        strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S +0000", gmtime_r(&draft->at_s, &at));
        fprintf(out, "Date: %s\r\nFrom: ", date);
        message_header(out, draft->from_name, PLAIN_NAME);
        fprintf(out, " <%s>\r\nTo: <%s>\r\nMessage-ID: <%s%s>\r\nSubject: ", draft->from, draft->to,
                draft->id, domain ? domain : "@localhost");
        message_header(out, subject, PLAIN_SUBJECT);
        fputs("\r\nAuto-Submitted: auto-generated\r\nMIME-Version: 1.0\r\n"
              "Content-Type: text/plain; charset=UTF-8\r\n"
              "Content-Transfer-Encoding: quoted-printable\r\n\r\n",
              out);
        /* Writes the text as quoted-printable (RFC 2045). */
        const char *text = body;
        size_t column = 0;

        for (; *text; text++) {
            unsigned char c = (unsigned char)*text;
            bool last = text[1] == '\n' || !text[1];
            bool raw = (c > ' ' && c <= '~' && c != '=') || (c == ' ' && !last);

            if (c == '\n') {
                fputs("\r\n", out);
                column = 0;
                continue;
            }
            if (column + (raw ? 1 : 3) > LINE_MAX_COLUMNS) {
                fputs("=\r\n", out);
                column = 0;
            }
            fprintf(out, raw ? "%c" : "=%02X", c);
            column += raw ? 1 : 3;
        }
        if (column)
            fputs("\r\n", out);
        failed = ferror(out) != 0;
        failed = fclose(out) != 0 || failed;
    }
    free(subject);
    free(body);
    if (!failed)
        return message;
    free(message);
    return NULL;
}
