/*
 * Checks responses against the API's reference (docs/reference.md): every response that a test gets
 * is looked up, and one whose status, header, type or field is not in the reference fails the test.
 * The reference covers all modules of busbar, but not the routes of the tests' own modules.
 */
#ifndef TESTS_REFERENCE_H
#define TESTS_REFERENCE_H

#include <jansson.h>

/* Allocates the memory in which workers share the statuses they have seen. Call it once in the
 * runner, before there are workers. */
void reference_share(void);

/* Gets the document from `busbar reference`. Call it in the process that forks the tests. */
void reference_open(void);

struct reference_answer {
    const char *method, *target; /* method and target of the request */
    long status;
    const char *headers; /* unparsed lines */
    const char *body;
    size_t length;
    const json_t *json; /* NULL: there is no body, or jansson cannot parse it */
};

/* Fails the test unless the reference has this response. Any thread. */
void reference_keeps(const struct reference_answer *answer);

/* Like reference_keeps(), but checks only the status and headers of a response whose body is still
 * being sent. */
void reference_keeps_head(const char *method, const char *target, long status, const char *headers);

/* For a response to a request that is not known: fails the test if it is an error without the
 * reference's error form. Any thread. */
void reference_keeps_error(const struct reference_answer *answer);

/*
 * Fails the test unless the reference has the event with such a body. `head`: the headers of the
 * request that delivered it to a webhook; NULL: it came on a stream. Any thread.
 */
void reference_keeps_event(const char *name, const char *head, const char *body, size_t length);

/* Prints the statuses in the reference that no response had, if BUSBAR_TEST_UNSEEN is set. */
void reference_tell_unseen(void);

/* ---- internals ---- */

/* The document that responses are checked against; NULL: reference_open() was not called. */
const json_t *reference_document(void);

/* Returns what is wrong with a body whose type begins with "text/", or NULL. */
const char *reference_text_problem(const char *type, const char *body, size_t length);

#endif
