/*
 * Invisible characters: all kinds of white space, and Unicode's default ignorable characters, which
 * end up in names when people copy from web pages and spreadsheets. Pure.
 */
#ifndef BULK_BLANK_H
#define BULK_BLANK_H

#include <stdbool.h>
#include <stddef.h>

/* Returns whether a UTF-8 text has no visible character. */
bool blank_is(const char *text);

/* Removes white space from both ends of a text and invisible characters everywhere, in place. */
void blank_strip(char *text);

/* Returns the length of a text cut to at most `most` bytes, without splitting a character. */
size_t blank_cut(const char *text, size_t most);

#endif
