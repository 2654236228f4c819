/* Devices with documents: helpers of tests that upload files and look at how they are stored. */
#ifndef TESTS_FILES_H
#define TESTS_FILES_H

#include "upload.h"

#define DEVICE "/api/device"
#define MIB 1048576

enum { FIELDS = 6 };
extern const char *const files_fields[FIELDS];

/* The section of the settings: documents in this directory. */
const char *files_section(const char *directory);

/* Sends GET for a path below /api/device. */
struct answer *files_get(const struct host *host, const struct person *who, const char *path);

/* Begins the body of a registration; it has only this externalId so far. */
struct upload_body files_named(const char *external_id);
struct answer *files_post(const struct host *host, const struct person *who,
                          struct upload_body *body);

/* Return the number of documents in a response, and a member of one document. */
size_t files_count(const struct answer *answer);
const char *files_document(const struct answer *answer, size_t index, const char *key);

/* Registers a device, whose externalId is given, with this body; fails the test unless the request
 * is refused with this status and leaves neither a row nor a file. */
struct answer *files_refused(const struct host *host, const struct person *who, const char *store,
                             struct upload_body *body, long status, const char *external_id);

/* Returns the number of files in a store; 0 if there is no store yet. */
int files_now(const char *store);

/* Fails the test unless the first problem of a response is in this field. */
void files_expect_field(const struct answer *answer, const char *name);

#endif
