/*
 * What the suites of certificates stand on: a host with the modules on a database of its own,
 * groups of devices, and the log read in either way.
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

/* For a suite's set-up. */
void certificates_open(const char *name);

/* An organisation for each test, so that they do not meet. */
struct person *certificate_person(const char *name);

/* Runs the jobs. The host's own may be at work too; who does it is all the same. */
void certificates_issue(PGconn *database, struct host *by);

/* The entries of each certificate add up to it, and those that are Carried to what groups carry. */
void certificates_expect_sums(PGconn *database);

/* POST of a group, and one that must succeed: its id. */
struct answer *certificate_group_try(const struct person *by, const char *frequency, int64_t start,
                                     const int64_t *devices, int count);
int64_t certificate_group_make(const struct person *by, const char *frequency, int64_t start,
                               const int64_t *devices, int count);
int64_t certificate_group_carried(const struct person *by, int64_t group);

/* GET of the log with a query, which may be "", and how many entries it has. */
struct answer *log_of(const struct person *by, const char *query);
size_t log_entries(const struct person *by);

/* What the numbered pages add up to. */
struct sums {
    int64_t entries, pages, wh, issued, total_count, total_pages;
};

struct sums pages_of(const struct person *by, const char *query);

#endif
