/*
 * Characters that nobody sees: white space of every kind, and those that Unicode calls default
 * ignorable, which copying from web pages and spreadsheets leaves in names. Pure.
 */
#ifndef BULK_BLANK_H
#define BULK_BLANK_H

#include <stdbool.h>
#include <stddef.h>

/* Whether a text, UTF-8, has nothing that can be seen. */
bool blank_is(const char *text);

/* Takes white space off both ends of a text and invisible characters out of all of it, in place. */
void blank_strip(char *text);

/* The bytes of a text up to `most`, without cutting a character. */
size_t blank_cut(const char *text, size_t most);

#endif
