/*
 * Fixture of the suites of bulk uploads: a host with the modules bulk and heap (module_heap.c, a
 * row type for tests), and uploads of files. M is an OrganizationAdmin.
 */
#ifndef TESTS_BULK_H
#define TESTS_BULK_H

#include "stage.h"
#include "upload.h"

#define BULK "/api/bulk-upload"

extern struct person *m;

/* Returns the settings of a host; its files are in the run's directory. `heap`: the host has the
 * module heap, otherwise device and reading. */
struct host_spec bulk_spec(const char *name, bool heap);

/* Waits until the modules' tables exist; a host listens before they do. */
void bulk_settle(const char *database);

/* Call it in a suite's set-up. */
void bulk_open(const char *name);

/* Sends a file of this name. `query`: "type=Things". */
struct answer *bulk_send(const struct host *to, const struct person *who, const char *query,
                         const char *file, const void *bytes, size_t length);
/* Sends things as CSV text, in a file named x.csv. */
struct answer *bulk_things(const struct person *who, const char *csv);

/* Returns the id in the response to an upload; the status must be 201. */
const char *bulk_id(struct answer *answer);

struct answer *bulk_post(const struct person *who, const char *id, const char *what);
struct answer *bulk_log_of(const struct person *who, const char *id, const char *query);

/* Confirms the upload, waits for the end, and returns the response with the log. */
struct answer *bulk_store(const struct person *who, const char *id);
/* Waits until the job's status is this. */
struct answer *bulk_await(const struct person *who, const char *id, const char *status);

/* Returns a number in a member of the response, such as "failed" in "progress". */
int64_t bulk_number(const struct answer *answer, const char *object, const char *key);

/* Fails the test unless docs/reference.md shows this template, line by line. */
void bulk_shown(const struct answer *template);

/* A row of the log as text: "2 b failed amount: must be …; …". */
const char *bulk_row(const struct answer *log, size_t index);

#endif
