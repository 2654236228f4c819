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

/* Makes an organization for each test, so that tests do not affect each other. */
struct person *certificate_person(const char *name);

/* Runs the jobs. The host's own jobs may run at the same time; the result is the same. */
void certificates_issue(PGconn *database, struct host *by);

/* Fails the test unless the entries of each certificate add up to it, and the Carried entries add
 * up to the amounts that the groups carry. */
void certificates_expect_sums(PGconn *database);

/* Sends POST for a group. The second function requires success and returns the id. */
struct answer *certificate_group_try(const struct person *by, const char *frequency, int64_t start,
                                     const int64_t *devices, int count);
int64_t certificate_group_make(const struct person *by, const char *frequency, int64_t start,
                               const int64_t *devices, int count);
int64_t certificate_group_carried(const struct person *by, int64_t group);

/* Sends GET for the log with a query, which may be "". The second function returns the number of
 * entries. */
struct answer *log_of(const struct person *by, const char *query);
size_t log_entries(const struct person *by);

/* Totals over the numbered pages. */
struct sums {
    int64_t entries, pages, wh, issued, total_count, total_pages;
};

struct sums pages_of(const struct person *by, const char *query);

#endif
