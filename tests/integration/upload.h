/* Multipart bodies for the tests, and what lies in a store of documents. */
#ifndef TESTS_UPLOAD_H
#define TESTS_UPLOAD_H

#include "people.h"

#define UPLOAD_BOUNDARY "busbar-test-boundary"
#define UPLOAD_TYPE "multipart/form-data; boundary=" UPLOAD_BOUNDARY

struct upload_body {
    char *bytes;
    size_t length;
};

/* A plain part. */
void upload_field(struct upload_body *body, const char *name, const char *value);

/* A part with the rest of its Content-Disposition as given, behind "form-data; ". */
void upload_part(struct upload_body *body, const char *disposition, const void *bytes,
                 size_t length);

void upload_file(struct upload_body *body, const char *field, const char *name, const void *bytes,
                 size_t length);

/* Bytes as they are; the last boundary. */
void upload_bytes(struct upload_body *body, const void *bytes, size_t length);
void upload_close(struct upload_body *body);

/* Closes the body and sends it. */
struct answer *upload_send(const struct host *host, const char *method, const char *path,
                           const struct person *who, struct upload_body *body);

/* `length` bytes that differ with the seed, and hold CR LF and dashes in plenty. */
char *upload_noise(unsigned seed, size_t length);

/* Files below a directory, of all depths; -1: there is none. */
int store_files(const char *directory);

/* Waits until nothing is left of what arrived. */
bool store_settles(const char *directory);

#endif
