/* The text of a mail: chooses its language, fills in its values, and writes it as RFC 5322. */
#ifndef MAIL_MESSAGE_H
#define MAIL_MESSAGE_H

#include <time.h>

#include <busbar/busbar.h>

/* Everything is borrowed. */
struct mail_draft {
    const char *from, *from_name, *to; /* `from` and `to` are addresses */
    const char *id;                    /* the part of Message-ID before the @ */
    time_t at_s;
    const struct bb_mail_text *text;
    struct bb_table values; /* rows of struct bb_mail_value */
};

/*
 * Tries the languages in `wanted` (a list as in Accept-Language, or NULL), then `fallback`. Returns
 * the first text that it finds, or else the first row of `texts`; NULL if there are no texts.
 */
const struct bb_mail_text *mail_text_for(const struct bb_table *texts, const char *wanted,
                                         const char *fallback);

/*
 * Returns the message, which the caller frees, and sets *length. Returns NULL if out of memory.
 * Lines end with CRLF. Control characters in values become spaces, so no value can add a header.
 */
char *mail_message(const struct mail_draft *draft, size_t *length);

#endif
