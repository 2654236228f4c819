/* Internals of reference.h: the document that responses are checked against. */
#ifndef TESTS_REFERENCE_DOCUMENT_H
#define TESTS_REFERENCE_DOCUMENT_H

#include <jansson.h>

/* NULL: reference_open() was not called. */
const json_t *reference_document(void);

/* Returns what is wrong with a body whose type begins with "text/", or NULL. */
const char *reference_text_problem(const char *type, const char *body, size_t length);

#endif
