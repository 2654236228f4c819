/*
 * What the suites of devices stand on: a host with the module on a database of its own. M is an
 * OrganizationAdmin of one organisation, K an ApiUser of others.
 */
#ifndef TESTS_DEVICES_H
#define TESTS_DEVICES_H

#include "stage.h"

#define DEVICE "/api/device"
#define UNKNOWN_UUID "0195f3a0-1111-7222-8333-444455556666"

extern struct person *m, *k;

/* For a suite's set-up. */
void devices_open(const char *name);

/* The device is taken. */
struct answer *device_post(const struct person *who, json_t *device);
struct answer *device_patch(const struct person *who, const char *key, json_t *device);
struct answer *device_get(const struct person *who, const char *key);

/* A device that has an externalId and nothing else. */
json_t *device_named(const char *external_id);

/* What the record says of a field, as JSON text. */
const char *device_field(const struct answer *answer, const char *name);

/* An answer of 400 whose first problem is that of the field. */
void device_problem(struct answer *answer, const char *name);

#endif
