/*
 * The reference of the API (docs/reference.md) as a judge: every answer that a test gets is looked
 * up in it, and one that it does not have fails the test, be it by its status, a header, its type
 * or a field. The reference is that of all modules; routes of the tests' own modules are not in it.
 */
#ifndef TESTS_REFERENCE_H
#define TESTS_REFERENCE_H

#include <jansson.h>

/* Once in the runner, before there are workers: what they tell each other of what was seen. */
void reference_share(void);

/* Has `busbar reference` print the document; in the process that forks the tests. */
void reference_open(void);

struct reference_answer {
    const char *method, *target; /* of the request */
    long status;
    const char *headers; /* lines as they came */
    const char *body;
    size_t length;
    const json_t *json; /* NULL: the body is none, or none that jansson takes */
};

/* Fails the test unless the reference has such an answer. Any thread. */
void reference_keeps(const struct reference_answer *answer);

/* The same by the status and the headers, of an answer whose body goes on. */
void reference_keeps_head(const char *method, const char *target, long status, const char *headers);

/* Fails the test where an answer to a request that is not known is an error of another form than
 * the reference's. Any thread. */
void reference_keeps_error(const struct reference_answer *answer);

/*
 * Fails the test unless the reference has the event with such a body. `head`: the headers of the
 * request that brought it to a webhook; NULL: a stream did. Any thread.
 */
void reference_keeps_event(const char *name, const char *head, const char *body, size_t length);

/* Prints the statuses in the reference that no answer had, where BUSBAR_TEST_UNSEEN is set. */
void reference_tell_unseen(void);

#endif
