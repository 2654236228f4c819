/*
 * Fixture of the suites of certificates: a host with the modules on its own database, groups of
 * devices, and both ways to read the log.
 */
#ifndef TESTS_CERTIFICATES_H
#define TESTS_CERTIFICATES_H

#include "meter.h"
#include "stage.h"

#define LOG "/api/certificate-log"
#define PAGES LOG "/issuer/certifiedlogOfdevices"
#define GROUPS "/api/device-group"
#define ENTRY_KEYS                                                                                 \
    "id certificate_issuance_start certificate_issuance_end readvalue_watthour status externalId " \
    "developerId serialNumber deviceId groupId certificateTransactionUID timezone "                \
    "ongoing_start_date ongoing_end_date"

/* Call it in a suite's set-up. */
void certificates_open(const char *name);

/* For one test: starts a host on its own database, with `settings` in the section db (NULL: none),
 * and connects `db` to it. The second function starts no host, so that only commands issue. */
void certificates_begin(const char *name, const char *settings);
void certificates_alone(const char *name, const char *settings);

/* Makes an organization for each test, so that tests do not affect each other. */
struct person *certificate_person(const char *name);

/* Runs `busbar certificate issue` to its end and fails the test unless it succeeds. */
void certificates_run(void);

/* Returns false if the command fails. */
bool certificates_try(void);

/* Returns the Wh of a group's certificates. */
int64_t certificates_issued(int64_t group);

/* Runs the jobs. The host's own jobs may run at the same time; the result is the same. */
void certificates_issue(PGconn *database, struct host *by);

/* Waits until the hosts' own jobs have issued everything. */
void certificates_await(PGconn *database);

/* Fails the test unless the entries of each certificate add up to it, and the Carried entries add
 * up to the amounts that the groups carry. */
void certificates_expect_sums(PGconn *database);

/* Make a device of 10 kW, commissioned 100 days ago, and a group of such a device; *device may be
 * NULL. Return their ids. */
int64_t certificate_device(const struct person *by, const char *key);
int64_t certificate_group_of(const struct person *by, const char *key, const char *frequency,
                             int64_t start, int64_t *device);

/* Store one reading, and `count` readings for consecutive periods of that length. The first
 * function returns its id. */
int64_t store(const struct person *by, const char *key, const char *type, int64_t start,
              int64_t end, double wh);
void store_series(const struct person *by, const char *key, const char *type, int64_t start,
                  int64_t length, int count, int wh);

/* Makes a group and returns its id. */
int64_t certificate_group_make(const struct person *by, const char *frequency, int64_t start,
                               const int64_t *devices, int count);
int64_t certificate_group_carried(const struct person *by, int64_t group);

/* Sends GET for the log with a query, which may be "". The second function returns the number of
 * entries, up to 100. */
struct answer *log_of(const struct person *by, const char *query);
size_t log_count(const struct person *by, const char *query);

/* Totals over the numbered pages. */
struct sums {
    int64_t entries, pages, wh, issued, total_count, total_pages;
};

struct sums pages_of(const struct person *by, const char *query);

#endif
