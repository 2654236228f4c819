/*
 * Normalizes e-mails and names before they are compared: Unicode NFC and case folding, by
 * libutf8proc. No function blocks; any thread. Texts are UTF-8.
 */
#ifndef CORE_UNICODE_H
#define CORE_UNICODE_H

#include <stdbool.h>

#include "core/lib/arena.h"

bool unicode_is_ascii(const char *text);

/*
 * Checks a text that people must be able to distinguish from other texts. Problems are: control
 * characters, invisible characters, characters that change the text direction, private-use
 * characters, unassigned characters, and texts that are not in NFC. With `strict`, texts must also
 * be in NFKC, which excludes full-width letters, ligatures and the like. Returns the problem; NULL
 * if there is none, or if memory ran out (sets *full).
 */
const char *unicode_problem(const char *text, bool strict, struct arena *arena, bool *full);

/*
 * Folds the case of a text (full folding: ß becomes ss) and converts it to NFC. The database
 * function busbar_fold() returns the same result. Returns `text` itself or a copy in `arena`; NULL
 * if memory ran out.
 */
const char *unicode_fold(const char *text, struct arena *arena);

/* Replaces each run of spaces of any width by a single space. Returns NULL if memory ran out. */
const char *unicode_single_spaces(const char *text, struct arena *arena);

#endif
