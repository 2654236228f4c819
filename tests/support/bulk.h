/*
 * Fixture of the suites of bulk uploads: a host with the modules bulk and heap (module_heap.c, a
 * row type for tests), and uploads of files. M is an OrganizationAdmin.
 */
#ifndef TESTS_BULK_H
#define TESTS_BULK_H

#include <stdio.h>

#include "stage.h"
#include "upload.h"

#define BULK "/api/bulk-upload"

extern struct person *m;

/* Returns the settings of a host; its files are in the run's directory. `heap`: the host has the
 * module heap, otherwise device and reading. */
struct host_spec bulk_spec(const char *name, bool heap);

/* Waits until the modules' tables exist; a host listens before they do. */
void bulk_settle(const char *database);

/* For OPENED_SUITE(). Start the suite's host with a database of that name. The second host has
 * device and reading instead of heap; K is an OrganizationAdmin of another organization. */
void bulk_open(const char *name);
void bulk_open_devices(const char *name);

/* A CSV text: begin, print its rows to the stream, end. One at a time. */
FILE *csv_begin(const char *head);
const char *csv_end(FILE *csv);

/* Returns a file with `rows` things of that name, numbered from 1, and of this amount. */
const char *bulk_csv(const char *name, int rows, const char *amount);

/* Sends a file of this name. `query`: "type=Things". */
struct answer *bulk_send(const struct host *to, const struct person *who, const char *query,
                         const char *file, const void *bytes, size_t length);
/* Send a CSV text, in a file named x.csv; the second function sends things. */
struct answer *bulk_text(const struct person *who, const char *query, const char *csv);
struct answer *bulk_things(const struct person *who, const char *csv);

/* Uploads things of a name, numbered from 1, with amounts from 1001 on; every tenth is wrong.
 * Returns the upload's id. */
const char *bulk_upload(const struct person *who, const char *name, int rows);

/* Returns the id in the response to an upload; the status must be 201. */
const char *bulk_id(struct answer *answer);

struct answer *bulk_post(const struct person *who, const char *id, const char *what);
struct answer *bulk_log_of(const struct person *who, const char *id, const char *query);

/* Confirms the upload, waits for the end, and returns the response with the log. */
struct answer *bulk_store(const struct person *who, const char *id);
/* Uploads a CSV text of M and stores it; all its rows must succeed. */
void bulk_store_all(const char *type, const char *csv, int64_t rows);
/* Waits until the job's status is this. */
struct answer *bulk_await(const struct person *who, const char *id, const char *status);

/* Returns a number in a member of the response, such as "failed" in "progress". */
int64_t bulk_number(const struct answer *answer, const char *object, const char *key);

/* bulk_hold() blocks storing things (mode "SHARE"), or also reading them (mode "ACCESS EXCLUSIVE"),
 * until bulk_release(). */
PGconn *bulk_hold(const char *mode);
void bulk_release(PGconn *holder);

/* Fails the test unless docs/reference.md shows this template, line by line. */
void bulk_shown(const struct answer *template);

/* A row of the log as text: "2 b failed amount: must be …; …". */
const char *bulk_row(const struct answer *log, size_t index);

/* Fails the test unless the log has these rows: lines as of bulk_row(), in which "*" stands for any
 * characters. */
void bulk_rows(const struct answer *log, const char *expected);

/* Compares the log with `expected`, stores the rows, and compares again; before the rows are
 * stored, "success" is "pending". Returns the log at the end. */
struct answer *bulk_rows_stored(const struct person *who, const char *id, const char *expected);

/* Fails the test unless the upload has ended with these numbers of rows. */
void bulk_ended(const struct answer *log, int64_t succeeded, int64_t failed);

/* Return the number of rows in the log; fail the test if a part of a file lacks its upload. */
size_t bulk_count(const struct answer *log);
void bulk_no_orphans(void);

#endif
