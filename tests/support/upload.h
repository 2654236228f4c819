/* Multipart bodies for the tests, and the files in a store of documents. */
#ifndef TESTS_UPLOAD_H
#define TESTS_UPLOAD_H

#include "people.h"

#define UPLOAD_BOUNDARY "busbar-test-boundary"
#define UPLOAD_TYPE "multipart/form-data; boundary=" UPLOAD_BOUNDARY

struct upload_body {
    char *bytes;
    size_t length;
};

/* Adds a plain part. */
void upload_field(struct upload_body *body, const char *name, const char *value);

/* Adds a part whose Content-Disposition is "form-data; " and the given text. */
void upload_part(struct upload_body *body, const char *disposition, const void *bytes,
                 size_t length);

void upload_file(struct upload_body *body, const char *field, const char *name, const void *bytes,
                 size_t length);

/* Adds the last boundary. */
void upload_close(struct upload_body *body);

/* Closes the body and sends it. */
struct answer *upload_send(const struct host *host, const char *method, const char *path,
                           const struct person *who, struct upload_body *body);

/* Closes the body and returns a POST for functions that take a call; it lives as long as the
 * process. */
struct call upload_call(const char *path, const struct person *who, struct upload_body *body);

/* Returns `length` bytes that depend on the seed and contain many CR LF and dashes. */
char *upload_noise(unsigned seed, size_t length);

/* Returns the number of files below a directory, at any depth; -1 if there is no directory. */
int store_files(const char *directory);

/* Makes all files of a store two hours old, so that the next sweep may delete them. */
void store_age(const char *directory);

/* Waits until no partly received upload is left. */
bool store_settles(const char *directory);

#endif
