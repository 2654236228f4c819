/*
 * Requests with the responses that they must get, as a table or one at a time:
 *
 *     const struct exchange rows[] = {
 *         {"GET /api/device/none", m, NULL, 404, "No such device"},
 *         {"POST /api/device", m, "{'externalId':7}", 400, "{'errors':[{'field':'externalId'}]}"},
 *         {"DELETE /api/device/d1", NULL, NULL, 401},
 *     };
 *
 *     exchange_rows(host, rows);
 *     made = exchange(host, "POST /api/device", m, "{'externalId':'d1'}", 201, "{'id':'*'}");
 *
 * In JSON that a test writes, apostrophes stand for quotation marks if it contains none.
 */
#ifndef TESTS_EXCHANGE_H
#define TESTS_EXCHANGE_H

#include "people.h"

/* Rows may omit their last members. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

struct exchange {
    const char *request; /* method and path */
    const struct person *who;
    const char *body; /* NULL: none */
    long status;
    /*
     * Content of the response. JSON as expect_json() takes it, if it begins with a brace or a
     * bracket; else the beginning of an error's message, or any part of another body. NULL: any.
     * The status 400 and above also require the service's error body.
     */
    const char *expected;
    const char *type, *header; /* Content-Type (NULL: JSON), and a further header (NULL: none) */
};

/* Sends each request and fails the test at the first other response. */
#define exchange_rows(host, rows)                                                                  \
    exchange_all((host), (rows), sizeof(rows) / sizeof((rows)[0]), __FILE__, __LINE__)
void exchange_all(const struct host *host, const struct exchange *rows, size_t count,
                  const char *file, int line);

/* Sends the request of one row; returns its response. */
#define exchange(host, ...) exchange_one((host), (struct exchange){__VA_ARGS__}, __FILE__, __LINE__)
struct answer *exchange_one(const struct host *host, struct exchange row, const char *file,
                            int line);

/*
 * Fails the test unless the value matches the JSON of `expected`: objects have these members and
 * perhaps others, arrays have as many items, and texts may contain "*" for any characters. "*"
 * alone matches any value but null, and "(absent)" requires that the object has no such member.
 */
#define expect_json(value, expected) json_expect((value), (expected), __FILE__, __LINE__)
void json_expect(const json_t *value, const char *expected, const char *file, int line);

/* Returns the JSON object `base` with the members of `change`; those that are "(absent)" are
 * removed. */
const char *json_with(const char *base, const char *change);

/* Returns a text of JSON as a value that the caller owns. */
json_t *json_of(const char *json);

#endif
