/*
 * Requests with the responses that they must get, as a table or one at a time:
 *
 *     exchanges(host, {"GET /api/device/none", m, 404, "No such device"},
 *               {"POST /api/device {'externalId':7}", m, 400, "{'errors':[{}]}"},
 *               {"DELETE /api/device/d1", NULL, 401});
 *     made = ask(m, 201, "{'id':'*'}", "POST /api/device {'externalId':'%s'}", name);
 *
 * A request is the method, the path and, after another space, the body. In JSON that a test writes,
 * apostrophes stand for quotation marks if it contains none. If the response is not as expected,
 * the test fails.
 *
 * Expected are: JSON as expect_json() takes it, if it begins with a brace or a bracket; else the
 * beginning of an error's message, or any part of another body. NULL: anything. The status 400 and
 * above also require the service's error body.
 */
#ifndef TESTS_EXCHANGE_H
#define TESTS_EXCHANGE_H

#include "people.h"

/* Rows may omit their last members. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

struct exchange {
    const char *request;
    const struct person *who; /* NULL: nobody */
    long status;
    const char *expected;
    const char *type, *header; /* Content-Type (NULL: JSON), and a further header (NULL: none) */
};

/* Send the requests of rows: rows that are listed, and the rows of an array. */
#define exchanges(host, ...)                                                                       \
    exchange_all((host), (const struct exchange[]){__VA_ARGS__},                                   \
                 sizeof((const struct exchange[]){__VA_ARGS__}) / sizeof(struct exchange),         \
                 __FILE__, __LINE__)
#define exchange_rows(host, rows)                                                                  \
    exchange_all((host), (rows), sizeof(rows) / sizeof((rows)[0]), __FILE__, __LINE__)
void exchange_all(const struct host *host, const struct exchange *rows, size_t count,
                  const char *file, int line);

/*
 * ask(who, status, expected, format, ...) sends one request to the `host` in scope and returns the
 * response. ask_on(host, who, ...) does so for another host, ask_with(&row) for a row.
 */
#define ask(...) ask_on(host, __VA_ARGS__)
#define ask_on(host, ...) ask_of(__FILE__, __LINE__, (host), __VA_ARGS__)
#define ask_with(row) exchange_one(host, (row), __FILE__, __LINE__)
__attribute__((format(printf, 7, 8))) struct answer *
ask_of(const char *file, int line, const struct host *host, const struct person *who, long status,
       const char *expected, const char *format, ...);
struct answer *exchange_one(const struct host *host, const struct exchange *row, const char *file,
                            int line);

/* Returns a request in the form of ask() for functions that take a call, like parallel(). */
__attribute__((format(printf, 2, 3))) struct call call_by(const struct person *who,
                                                          const char *format, ...);

/* Returns somebody who sends this token. */
const struct person *bearer(const char *token);

/*
 * Fails the test unless the value matches the JSON of `expected`: objects have these members and
 * perhaps others, arrays have as many items, and texts may contain "*" for any characters. "*"
 * alone matches any value but null, and "(absent)" requires that the object has no such member.
 */
#define expect_json(value, expected) json_expect((value), (expected), __FILE__, __LINE__)
void json_expect(const json_t *value, const char *expected, const char *file, int line);

/* Returns whether the text matches the pattern, in which "*" stands for any characters. */
bool glob_matches(const char *actual, const char *pattern);

/* Returns the JSON object `base` with the members of `change`; those that are "(absent)" are
 * removed. */
const char *json_with(const char *base, const char *change);

/* Returns a text of JSON as a value that the caller owns. */
json_t *json_of(const char *json);

#endif
