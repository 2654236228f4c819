/*
 * What the suites of bulk uploads stand on: a host with the modules bulk and heap (a type of rows
 * of the tests' own, module_heap.c), and files that are sent to it. M is an OrganizationAdmin.
 */
#ifndef TESTS_BULK_H
#define TESTS_BULK_H

#include "stage.h"
#include "upload.h"

#define BULK "/api/bulk-upload"

extern struct person *m;

/* What a host is told, with files below the run's directory. `heap`: with that module, else with
 * device and reading. */
struct host_spec bulk_spec(const char *name, bool heap);

/* Waits until the modules' tables are there: a host listens before. */
void bulk_settle(const char *database);

/* For a suite's set-up. */
void bulk_open(const char *name);

/* Sends a file of this name. `query`: "type=Things". */
struct answer *bulk_send(const struct host *to, const struct person *who, const char *query,
                         const char *file, const void *bytes, size_t length);
/* The same of things, as text, named x.csv. */
struct answer *bulk_things(const struct person *who, const char *csv);

/* The id in the answer to an upload, which must be 201. */
const char *bulk_id(struct answer *answer);

struct answer *bulk_post(const struct person *who, const char *id, const char *what);
struct answer *bulk_log_of(const struct person *who, const char *id, const char *query);

/* Confirms, and waits for the end; the log's answer then. */
struct answer *bulk_store(const struct person *who, const char *id);
/* Waits until the job's status is this. */
struct answer *bulk_await(const struct person *who, const char *id, const char *status);

/* A number of a member, as "progress" and "failed". */
int64_t bulk_number(const struct answer *answer, const char *object, const char *key);

/* docs/bulk.md shows this template, line by line. */
void bulk_shown(const struct answer *template);

/* A row of the log as text: "2 b failed amount: must be …; …". */
const char *bulk_row(const struct answer *log, size_t index);

#endif
