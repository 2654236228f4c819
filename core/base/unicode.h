/*
 * What e-mails and names are compared by, so that two that look alike are one: Unicode's form NFC
 * and its case folding, by libutf8proc. Nothing here blocks; any thread. Texts are UTF-8.
 */
#ifndef CORE_UNICODE_H
#define CORE_UNICODE_H

#include <stdbool.h>

#include "core/base/arena.h"

/*
 * What is wrong with a text that people are to tell from others: control characters, characters
 * that are drawn as nothing or turn the direction of text, characters for private use, characters
 * that Unicode has not assigned, or another form than NFC; with `strict` than NFKC, too, in which
 * there are no full-width letters, ligatures and the like. NULL: nothing, or memory ran out
 * (*full).
 */
const char *unicode_problem(const char *text, bool strict, struct arena *arena, bool *full);

/*
 * The text with its case folded (full folding: ß is ss), in NFC. The function busbar_fold() of the
 * database gives the same. It is `text` itself or in `arena`; NULL without memory.
 */
const char *unicode_fold(const char *text, struct arena *arena);

/* The text with a single space in place of each run of spaces of any width; NULL without memory. */
const char *unicode_single_spaces(const char *text, struct arena *arena);

#endif
