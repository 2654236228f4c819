/* Devices with documents, for the tests of files that are sent and of what becomes of them. */
#ifndef TESTS_FILES_H
#define TESTS_FILES_H

#include "upload.h"

#define DEVICE "/api/device"
#define MIB 1048576

enum { FIELDS = 6 };
extern const char *const files_fields[FIELDS];

/* The section of the settings: documents in this directory, swept after a second. */
const char *files_section(const char *directory);

/* A host with the modules auth and device. */
struct host *files_host(const char *name, const char *database, const char *store);

/* GET below /api/device. */
struct answer *files_get(const struct host *host, const struct person *who, const char *path);

/* The body of a registration, so far with this externalId alone. */
struct upload_body files_named(const char *external_id);
struct answer *files_post(const struct host *host, const struct person *who,
                          struct upload_body *body);

/* Of the documents in an answer: how many; a member of one. */
size_t files_count(const struct answer *answer);
const char *files_document(const struct answer *answer, size_t index, const char *key);

/* Refused with this status: no row, no file. */
struct answer *files_refused(const struct host *host, const struct person *who, const char *store,
                             struct answer *answer, long status, const char *external_id,
                             int files_before);

/* Files in a store; 0 where there is none yet. */
int files_now(const char *store);

/* The first problem of an answer is this field's. */
void files_expect_field(const struct answer *answer, const char *name);

#endif
